//! The thread that reads and verifies all of a served pool over and over, at a rate.
//! Room: onefold.
//! What it finds is in `pool status`; where it is, in the same note that `pool scrub` keeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use onefold_pool::{Pool, Scrubber};

use super::background::Knobs;
use crate::args::Background;
use crate::failure::{self, Failure};
use crate::open_pool::uuid_text;
use crate::scrub_state::ScrubState;

/// How often the position is kept.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// Between two passes, and before the next try after trouble.
const REST: Duration = Duration::from_mins(1);
/// How long it waits while work in the background is off.
const OFF: Duration = Duration::from_secs(2);

/// The thread, while it runs.
pub struct Scrubbing {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Scrubbing {
    /// Begin, where the last scrub stopped. It pauses while `knobs` say that work in the background
    /// is off; without them it never does.
    pub fn start(
        pool: &Pool,
        folder: &Path,
        bytes_per_second: u64,
        knobs: Option<Arc<Knobs>>,
    ) -> failure::Result<Self> {
        let (stop, stopped) = channel();
        let mut pass = Pass::resume(pool.clone(), folder.to_owned())?;
        let run = move || {
            let mut pause = Duration::ZERO;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let off = |knobs: &Arc<Knobs>| knobs.get().background == Background::Off;
                pause = if knobs.as_ref().is_some_and(off) {
                    OFF
                } else {
                    let begun = Instant::now();
                    let due = pass.step(bytes_per_second);
                    due.saturating_sub(begun.elapsed())
                };
            }
            pass.keep();
        };
        let thread = Builder::new().name("scrub".to_owned()).spawn(run);
        let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
        Ok(Self { stop, thread: thread.map_err(failed)? })
    }

    /// Stop after the container that is being read.
    pub fn stop(self) {
        // An error means that it has stopped.
        let _ = self.stop.send(());
        let failed = |_| tracing::error!("the thread that scrubs has failed");
        self.thread.join().unwrap_or_else(failed);
    }
}

/// One way through all containers.
struct Pass {
    pool: Pool,
    folder: PathBuf,
    state: ScrubState,
    scrubber: Scrubber,
    kept: Instant,
}

impl Pass {
    /// Go on where the last one stopped.
    fn resume(pool: Pool, folder: PathBuf) -> failure::Result<Self> {
        let status = pool.status().map_err(|error| Failure::pool(&folder, error))?;
        let uuid = uuid_text(&status.uuid);
        let former = ScrubState::read(&folder, &uuid);
        let state = former.map_or_else(|| ScrubState::new(uuid), ScrubState::unfinished);
        let scrubber = Scrubber::after(state.position);
        Ok(Self { pool, folder, state, scrubber, kept: Instant::now() })
    }

    /// Read the next container; how long that is to take, with the wait after it.
    fn step(&mut self, bytes_per_second: u64) -> Duration {
        match self.scrubber.step(&self.pool) {
            Ok(Some(found)) => {
                for problem in &found.problems {
                    tracing::error!("scrub: {problem}");
                }
                self.state.add(&found);
                if self.kept.elapsed() >= KEEP_EVERY {
                    self.keep();
                }
                let seconds = found.bytes as f64 / bytes_per_second.max(1) as f64;
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
            Ok(None) => {
                self.state.end();
                self.keep();
                self.state = std::mem::take(&mut self.state).unfinished();
                self.scrubber = Scrubber::after(0);
                REST
            }
            Err(error) => {
                tracing::warn!("scrub: {error}");
                REST
            }
        }
    }

    /// Keep position and findings, where that is possible.
    fn keep(&mut self) {
        self.kept = Instant::now();
        if self.state.is_begun()
            && let Err(error) = self.state.write(&self.folder)
        {
            tracing::warn!("scrub: the position cannot be kept: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize};
    use onefold_pool::{PoolSettings, SpaceTarget};

    use super::super::background::Worker;
    use super::*;
    use crate::args::BackgroundArgs;
    use crate::test_pool;

    #[test]
    fn it_rests_while_work_is_off_and_ends_when_it_is_told_to() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[1; 4096], true).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let background = Background::Off;
        let args = BackgroundArgs { background, space_target: SpaceTarget::default() };
        let worker = Worker::start(&pool, args).unwrap();
        let knobs = worker.knobs();
        worker.stop();
        let off = Some(Arc::clone(&knobs));
        let scrubbing = Scrubbing::start(&pool, folder.path(), u64::MAX, off).unwrap();
        scrubbing.stop();
        assert_eq!(Arc::strong_count(&knobs), 1, "the thread has ended");
        assert!(!folder.path().join(crate::scrub_state::FILE).exists(), "nothing was read");
    }

    #[test]
    fn a_pass_keeps_its_position_now_and_then_and_at_its_end_and_the_next_begins_from_the_start() {
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = test_pool::pool_of(&settings);
        let volume = pool.create_volume("main", ByteSize(2 << 20)).unwrap();
        let noise = onefold_block::SplitMix64::new(1).bytes(2 << 20);
        volume.write_at(0, &noise, true).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut pass = Pass::resume(pool.clone(), folder.path().to_owned()).unwrap();
        let uuid = pass.state.pool.clone();
        let kept = || ScrubState::read(folder.path(), &uuid);
        let pause = pass.step(1 << 20);
        let read = pass.state.bytes;
        assert!(read > 0 && pause == Duration::from_secs_f64(read as f64 / 1_048_576.0));
        assert_eq!(kept(), None, "not after every container");
        pass.kept = Instant::now().checked_sub(KEEP_EVERY).unwrap();
        pass.step(0);
        let position = pass.state.position;
        assert_eq!((kept().unwrap().position, kept().unwrap().containers), (position, 2));
        pass.step(0);
        assert_eq!(kept().unwrap().position, position, "not again at once");
        // Whoever comes after a server that was killed goes on there.
        let mut next = Pass::resume(pool, folder.path().to_owned()).unwrap();
        let steps = (0..100).take_while(|_| next.step(u64::MAX) != REST).count();
        assert!(steps < 100 && kept().unwrap().ended_s.is_some());
        assert_eq!(kept().unwrap().containers, 2 + steps as u64);
        assert_eq!((next.state.position, next.state.containers), (0, 0));
        next.step(0);
        assert_eq!(next.state.containers, 1);
    }
}
