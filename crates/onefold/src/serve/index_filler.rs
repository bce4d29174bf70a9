//! The thread that reads what the index must know, while clients are served already.
//! Room: onefold.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use onefold_pool::Pool;

use crate::failure::{Failure, Result};

/// Directories read in one step, in bytes: what stopping waits for, at most.
const STEP_BYTES: u64 = 1 << 20;

/// Whether there is something to read, and whether the server ends.
#[derive(Default)]
struct Asked {
    fill: bool,
    stop: bool,
}

/// Asks the thread to work.
#[derive(Default)]
pub struct Bell {
    asked: Mutex<Asked>,
    rung: Condvar,
}

impl Bell {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to be read again, as when the index was given more memory.
    pub fn fill(&self) {
        self.asked().fill = true;
        self.rung.notify_all();
    }

    /// Wait until there is something to read; `false` if the server ends.
    fn wait(&self) -> bool {
        let mut asked = self.asked();
        while !asked.fill && !asked.stop {
            asked = self.rung.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        asked.fill = false;
        !asked.stop
    }
}

/// The thread. It waits when the index is full, or knows all.
pub struct IndexFiller {
    bell: Arc<Bell>,
    thread: JoinHandle<()>,
}

impl IndexFiller {
    /// Begin. From here on no write waits for the index.
    pub fn start(pool: &Pool) -> Result<Self> {
        pool.fill_index_beside();
        let (bell, pool) = (Arc::<Bell>::default(), pool.clone());
        bell.fill();
        let heard = Arc::clone(&bell);
        let run = move || {
            while heard.wait() {
                let begun = Instant::now();
                while !heard.asked().stop {
                    if pool.fill_index(STEP_BYTES) {
                        let seconds = begun.elapsed().as_secs_f64();
                        tracing::info!("the index was filled in {seconds:.1} s");
                        break;
                    }
                }
            }
        };
        let thread = Builder::new().name("index".to_owned()).spawn(run);
        let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
        Ok(Self { bell, thread: thread.map_err(failed)? })
    }

    /// What asks it to work.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Stop after the step that is under way.
    pub fn stop(self) {
        self.bell.asked().stop = true;
        self.bell.rung.notify_all();
        let failed = |_| tracing::error!("the thread that fills the index has failed");
        self.thread.join().unwrap_or_else(failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pool;

    #[test]
    fn who_waits_works_when_it_is_asked_to_and_ends_when_the_server_does() {
        let bell = Bell::default();
        bell.fill();
        assert!(bell.wait());
        assert!(!bell.asked().fill, "once");
        bell.asked().stop = true;
        assert!(!bell.wait());

        let filler = IndexFiller::start(&test_pool::pool()).unwrap();
        let bell = filler.bell();
        filler.stop();
        assert_eq!(Arc::strong_count(&bell), 1, "the thread has ended");
    }
}
