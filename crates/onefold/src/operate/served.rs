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
