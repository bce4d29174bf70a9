//! The operations of a pool that is served, on the socket in its folder.
//! Room: onefold.

use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use onefold_control::socket::Bound;
use onefold_control::{
    Api, Fault, Job, Jobs, Limits, Method, OperationInfo, Operations, Report, Request, Response,
    Server,
};
use onefold_metrics::json::described;
use onefold_pool::Pool;
use serde_json::{Value, json};

use super::live::Live;
use super::table::OPERATIONS;
use super::{Context, data};
use crate::pool_cache::ServedCache;
use crate::watch::pool_sample;

/// How long a stop waits for commands under way to end.
const JOBS: Duration = Duration::from_secs(5);

/// A pool that is served.
pub struct Served {
    /// The pool.
    pub pool: Pool,
    /// Its folder.
    pub at: PathBuf,
    /// Its cache, if it has one.
    pub cache: Arc<ServedCache>,
    /// What only a server has.
    pub live: Live,
    /// Commands under way and done, once there is a socket for them.
    pub jobs: OnceLock<Arc<Jobs>>,
}

impl Operations for Served {
    fn infos(&self) -> Vec<OperationInfo> {
        OPERATIONS.iter().map(|operation| operation.info).collect()
    }

    fn run(
        &self,
        number: usize,
        named: Option<&[u8]>,
        request: Value,
        job: &Job,
    ) -> Result<Report, Fault> {
        let named = named.map(|name| PathBuf::from(std::ffi::OsString::from_vec(name.to_vec())));
        let context = Context {
            pool: &self.pool,
            at: named.as_deref().unwrap_or(&self.at),
            folder: &self.at,
            cache: Some(&self.cache),
            job,
            live: Some(&self.live),
        };
        OPERATIONS[number].carry_out(&context, request)
    }

    fn other(&self, path: &str, request: &Request) -> Option<Response> {
        if path == "metrics" && request.method == Method::Get {
            let jobs = self.jobs.get().map(|jobs| json!(jobs.list())).unwrap_or_default();
            return Some(Response::json(200, &described(&pool_sample(self), &jobs)));
        }
        if path == "blocks" {
            return Some(data::blocks(&self.pool, request));
        }
        let path = path.strip_prefix("data/")?;
        Some(data::answer(&self.pool, &self.live.exports, path, request))
    }
}

/// The control socket of a pool, while its server runs.
pub struct ControlSocket {
    jobs: Arc<Jobs>,
    // It listens until it is dropped.
    _server: Server,
}

impl ControlSocket {
    /// Listen in the pool's folder.
    pub fn start(at: &Path, served: Arc<Served>) -> std::io::Result<Self> {
        let jobs = Arc::new(Jobs::default());
        // It is set once: a pool has one socket.
        let _ = served.jobs.set(Arc::clone(&jobs));
        let api = Api::new(served, Arc::clone(&jobs), false);
        let server = Server::on_socket(Bound::new(at)?, Arc::new(api), Limits::default())?;
        Ok(Self { jobs, _server: server })
    }

    /// Begin nothing more, let what is under way end, and go.
    pub fn stop(self) {
        if !self.jobs.close(JOBS) {
            tracing::warn!("a command on the control socket does not end");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use onefold_block::ByteSize;
    use onefold_control::http::Body;
    use onefold_nbd::{Exports, ListenAddr};

    use super::*;
    use crate::args::TierArgs;
    use crate::endurance::Watched;
    use crate::serve::events::Event;
    use crate::serve::listeners::{Listening, Places, Servers};
    use crate::serve::pool_exports::PoolExports;
    use crate::test_pool;

    #[test]
    fn a_server_answers_of_its_pool_its_clients_and_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let pool = test_pool::pool();
        pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let exports = Arc::new(PoolExports::new(pool.clone(), None));
        let at = ListenAddr::Unix(folder.path().join("socket"));
        let how = Listening {
            places: Places::new((std::slice::from_ref(&at), &[]), Vec::new(), None).unwrap(),
            machines: Vec::new(),
            tls: None,
            allow_insecure: false,
            read_only: false,
            max_connections: 4,
            group: None,
            slow_request: Duration::ZERO,
        };
        let servers = Servers::start(&(Arc::clone(&exports) as Arc<dyn Exports>), &how).unwrap();
        servers.renew_tls().unwrap();
        let addresses: Vec<_> = servers.addresses().collect();
        assert_eq!(addresses, [(&at, false)]);
        let (events, heard) = channel();
        let live = Live::new(exports, (None, None), &servers, events);
        assert_eq!((live.addresses.len(), live.background().is_none()), (1, true));
        assert_eq!(live.addresses[0].address, at.to_string());
        assert_eq!((live.connections)(), 0);
        let life = Arc::new(Watched::of_nothing(&TierArgs::of(["x"])));
        let cache = Arc::new(ServedCache { tier: None, problem: None, life });
        let at = folder.path().to_owned();
        let served = Served { pool, at, cache, live, jobs: OnceLock::new() };
        let asked = |path: &str, method| {
            let request = Request {
                method,
                path: String::new(),
                query: Vec::new(),
                headers: Vec::new(),
                body: Vec::new(),
                keeps: false,
            };
            let response = served.other(path, &request)?;
            let Body::Bytes(body) = response.body else { panic!("all at once") };
            Some((response.status, String::from_utf8_lossy(&body).into_owned()))
        };
        let (status, metrics) = asked("metrics", Method::Get).unwrap();
        assert!(status == 200 && metrics.contains("onefold_pool_logical_bytes"), "{metrics}");
        assert_eq!([asked("metrics", Method::Post), asked("main", Method::Get)], [None, None]);
        assert_eq!(asked("blocks", Method::Get).unwrap().0, 200);
        assert!(asked("data/main", Method::Get).unwrap().1.contains("1048576"));
        assert!(served.live.stop() && matches!(heard.recv(), Ok(Event::Stop)));
        drop(heard);
        assert!(!served.live.stop(), "nobody hears of it");
        assert_eq!(servers.stop(Duration::from_secs(5)), 0);
    }
}
