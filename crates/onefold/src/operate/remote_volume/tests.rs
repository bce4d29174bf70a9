//! A volume behind a server is a device like any other.
//! Room: onefold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_block::ByteSize;
use onefold_block::conformance::device::CHECKS;
use onefold_control::http::{Request, Response};
use onefold_control::socket::Bound;
use onefold_control::{Handler, Limits, Peer, Server};
use onefold_pool::Pool;
use serde_json::json;

use super::*;
use crate::serve::pool_exports::PoolExports;
use crate::test_pool;

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
    let pool = test_pool::pool();
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
    // What does not fit is refused as a whole, also where its first piece would fit.
    pool.create_volume("short", ByteSize(4 << 20)).unwrap();
    let short = RemoteVolume::open(at.path(), "short").unwrap();
    assert!(short.write_at(2 << 20, &vec![1; 4 << 20], false).is_err());
    let mut read = vec![1; 2 << 20];
    short.read_at(2 << 20, &mut read).unwrap();
    assert!(read == vec![0; 2 << 20]);
}

#[test]
fn it_does_not_go_on_with_another_server_which_may_have_lost_what_was_not_flushed() {
    let pool = test_pool::pool();
    pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    let at = tempfile::tempdir().unwrap();
    let serve = || {
        let exports = Arc::new(PoolExports::new(pool.clone(), None));
        let served = Arc::new(Served { pool: pool.clone(), exports });
        Server::on_socket(Bound::new(at.path()).unwrap(), served, Limits::default()).unwrap()
    };
    let first = serve();
    let volume = RemoteVolume::open(at.path(), "main").unwrap();
    volume.write_at(0, &[1; 512], false).unwrap();
    drop(first);
    let _second = serve();
    // The first call may find the connection of before, which is broken.
    let _ = volume.flush();
    for done in [volume.write_at(512, &[1; 512], false), volume.flush()] {
        let why = done.unwrap_err().to_string();
        assert!(why.contains("the server was started anew meanwhile"), "{why}");
    }
    assert!(!volume.has_lost_its_name(), "it is still there");
    RemoteVolume::open(at.path(), "main").unwrap().flush().unwrap();
}

#[test]
fn it_is_the_same_volume_whatever_has_its_name_by_now() {
    let pool = test_pool::pool();
    let exports = Arc::new(PoolExports::new(pool.clone(), None));
    let at = tempfile::tempdir().unwrap();
    let served = Arc::new(Served { pool: pool.clone(), exports });
    let server =
        Server::on_socket(Bound::new(at.path()).unwrap(), served, Limits::default()).unwrap();
    let size = ByteSize(1 << 20);
    pool.create_volume("a", size).unwrap();
    let a = RemoteVolume::open(at.path(), "a").unwrap();
    assert!(!a.has_lost_its_name());
    pool.rename_volume("a", "b").unwrap();
    assert!(a.has_lost_its_name());
    pool.create_volume("a", size).unwrap();
    assert!(a.has_lost_its_name());
    a.write_at(0, &[7; 4096], true).unwrap();
    let read = |volume: &dyn BlockDevice| {
        let mut read = [0; 4096];
        volume.read_at(0, &mut read).map(|()| read[0])
    };
    let byte = |name| read(&pool.volume(name).unwrap()).unwrap();
    assert_eq!((byte("a"), byte("b"), read(&a).unwrap()), (0, 7, 7));
    pool.delete_volume("b").unwrap();
    let gone = a.write_at(0, &[8; 4096], false).unwrap_err().to_string();
    assert!(gone.ends_with("volume 'a' was deleted meanwhile"), "{gone}");
    assert_eq!(byte("a"), 0);
    drop(server);
    assert!(!a.has_lost_its_name(), "nobody says so");
}

/// A server of something else, which counts how often it is told to flush.
#[derive(Default)]
struct Other(AtomicUsize);

impl Handler for Other {
    fn handle(&self, request: &Request, _: Peer) -> Response {
        let told = match &*request.path {
            "/api/v1/data/none" => json!({ "size_bytes": 8192, "block_bytes": 0 }),
            "/api/v1/data/one" => json!({ "size_bytes": 8192, "block_bytes": 1 }),
            "/api/v1/data/some" => json!({ "size_bytes": 8192, "block_bytes": 4096 }),
            path if path.ends_with("/flush") => json!(self.0.fetch_add(1, Ordering::Relaxed)),
            path if path.ends_with("/damaged") => json!({ "until": u64::MAX }),
            path if path.ends_with("/extents") => json!([]),
            _ => json!("bytes"),
        };
        Response::json(200, &told)
    }
}

#[test]
fn what_cannot_be_told_of_a_volume_is_an_error_and_not_its_end() {
    let at = tempfile::tempdir().unwrap();
    let bound = Bound::new(at.path()).unwrap();
    let _server = Server::on_socket(bound, Arc::new(Other::default()), Limits::default()).unwrap();
    let error = RemoteVolume::open(at.path(), "none").err().unwrap();
    assert!(error.message.contains("tells no size"), "{}", error.message);
    assert_eq!(RemoteVolume::open(at.path(), "one").unwrap().preferred_block_bytes(), 1);
    let volume = RemoteVolume::open(at.path(), "some").unwrap();
    assert!(volume.block_status(0, 8192).is_err());
    assert!(volume.read_at(0, &mut [0; 512]).is_err());
    assert_eq!(volume.damaged_until(4096), 8192);
}

#[test]
fn what_is_to_be_durable_is_flushed_behind_the_server() {
    let at = tempfile::tempdir().unwrap();
    let bound = Bound::new(at.path()).unwrap();
    let other = Arc::new(Other::default());
    let _server = Server::on_socket(bound, Arc::clone(&other) as _, Limits::default()).unwrap();
    let volume = RemoteVolume::open(at.path(), "some").unwrap();
    for fua in [false, true] {
        volume.write_at(0, &[1; 512], fua).unwrap();
        volume.write_zeroes(0, 512, ZeroOptions { fua, ..ZeroOptions::default() }).unwrap();
        volume.trim(0, 512, fua).unwrap();
        assert_eq!(other.0.load(Ordering::Relaxed), if fua { 3 } else { 0 });
    }
}
