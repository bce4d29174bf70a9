//! The thread that reads what the index must know, while clients are served already.
//! Room: onefold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use onefold_pool::Pool;

use crate::failure::{Failure, Result};

/// Directories read in one step, in bytes: what stopping waits for, at most.
const STEP_BYTES: u64 = 1 << 20;

/// The thread. It ends by itself when the index is full, or knows all.
pub struct IndexFiller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl IndexFiller {
    /// Begin. From here on no write waits for the index.
    pub fn start(pool: &Pool) -> Result<Self> {
        pool.fill_index_beside();
        let (stop, pool) = (Arc::new(AtomicBool::new(false)), pool.clone());
        let stopped = Arc::clone(&stop);
        let run = move || {
            let begun = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                if pool.fill_index(STEP_BYTES) {
                    tracing::info!(
                        "the index was filled in {:.1} s",
                        begun.elapsed().as_secs_f64()
                    );
                    return;
                }
            }
        };
        let thread = Builder::new().name("index".to_owned()).spawn(run);
        let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
        Ok(Self { stop, thread: thread.map_err(failed)? })
    }

    /// Stop after the step that is under way.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            tracing::error!("the thread that fills the index has failed");
        }
    }
}
