//! What is looked at: a pool that is served.
//! Room: onefold.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use onefold_control::jobs::JobView;
use onefold_control::{Api, Request, Response};
use onefold_metrics::{CacheSample, ProcessSample, Sample};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::operate::served::Served;
use crate::status_view::own_memory_bytes;

/// What can be looked at.
pub trait Source: Send + Sync + 'static {
    /// Its name, for people.
    fn title(&self) -> String;

    /// How it is now.
    fn sample(&self) -> Sample;

    /// Commands that it has done and does.
    fn jobs(&self) -> Vec<JobView> {
        Vec::new()
    }

    /// The blocks of a drive.
    fn drive(&self) -> Option<Value> {
        None
    }

    /// The answer to a request below `/api`.
    fn answer(&self, request: &Request) -> Response {
        let _ = request;
        Response::error(404, "there is /api/v1/metrics and /api/v1/live")
    }
}

/// A pool.
pub struct PoolSource {
    served: Arc<Served>,
    /// Those that change nothing, for whoever looks; in places of their own.
    api: Api,
}

impl PoolSource {
    /// A pool that is served.
    pub fn new(served: Arc<Served>) -> Self {
        let api = Api::new(Arc::clone(&served) as _, Arc::default(), true);
        Self { served, api }
    }
}

impl Source for PoolSource {
    fn title(&self) -> String {
        format!("pool {}", self.served.at.display())
    }

    fn sample(&self) -> Sample {
        pool_sample(&self.served)
    }

    fn jobs(&self) -> Vec<JobView> {
        self.served.jobs.get().map(|jobs| jobs.list()).unwrap_or_default()
    }

    fn answer(&self, request: &Request) -> Response {
        self.api.answer(request)
    }
}

/// A pool as it is now.
pub fn pool_sample(served: &Served) -> Sample {
    let cache = served.cache.report().map(|report| CacheSample {
        tier: report.status,
        endurance_bytes: report.life.and_then(Result::ok).map(|life| life.total.bytes()),
    });
    Sample {
        // What cannot be told now is missing now.
        pool: served.pool.status().ok(),
        cache,
        exports: served.live.exports.meters(),
        connections: (served.live.connections)(),
        #[cfg(feature = "models")]
        drive: None,
        process: process_sample(served.live.started),
    }
}

/// What this process takes.
pub fn process_sample(started: SystemTime) -> ProcessSample {
    let taken = clock_gettime(ClockId::ProcessCPUTime);
    let since = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ProcessSample {
        memory_bytes: own_memory_bytes().unwrap_or_default(),
        cpu_seconds: Duration::try_from(taken).unwrap_or_default().as_secs_f64(),
        started_s: since.as_secs_f64(),
    }
}
