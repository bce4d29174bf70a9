//! A volume behind a server is a device like any other.
//! Room: onefold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_block::conformance::device::CHECKS;
use onefold_block::{ByteSize, SimFolder};
use onefold_control::http::{Request, Response};
use onefold_control::socket::Bound;
use onefold_control::{Handler, Limits, Peer, Server};
use onefold_pool::{OpenOptions, Pool, PoolIdentity, PoolSettings};

use super::*;
use crate::serve::pool_exports::PoolExports;

/// A server of the data of a pool.
struct Served {
    pool: Pool,
    exports: Arc<PoolExports>,
}

impl Handler for Served {
    fn handle(&self, request: &Request, _: Peer) -> Response {
        let path = request.path.strip_prefix("/api/v1/data/").unwrap();
        data::answer(&self.pool, &self.exports, path, request)
    }
}

#[test]
fn it_is_a_device_like_any_other() {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let exports = Arc::new(PoolExports::new(pool.clone(), None));
    let at = tempfile::tempdir().unwrap();
    let served = Arc::new(Served { pool: pool.clone(), exports });
    let _server =
        Server::on_socket(Bound::new(at.path()).unwrap(), served, Limits::default()).unwrap();
    let made = AtomicUsize::new(0);
    for (name, check) in CHECKS {
        eprintln!("{name}");
        check(&|size| {
            let name = format!("v{}", made.fetch_add(1, Ordering::Relaxed));
            pool.create_volume(&name, ByteSize(size.next_multiple_of(4096))).unwrap();
            Arc::new(RemoteVolume::open(at.path(), &name).unwrap())
        });
    }
}
