//! The thread that wins space back, and when it does.
//! Room: onefold.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use onefold_pool::{Activity, Pool, SpaceTarget};

use crate::args::{Background, BackgroundArgs};
use crate::failure::{Failure, Result};

/// How often it looks whether clients are busy, and for how long they must not be.
const LOOK: Duration = Duration::from_millis(200);
/// Between two steps that go on beside clients.
const PAUSE: Duration = Duration::from_millis(10);
/// How long it waits when there is nothing to do, or after trouble.
const REST: Duration = Duration::from_secs(2);
/// Work in one step, in bytes read and written: what a client that comes back waits for, at most.
const STEP_BYTES: u64 = 1 << 20;

/// The thread, while it runs.
pub struct Worker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Begin, if anything is to be done in the background.
    pub fn start(pool: &Pool, args: BackgroundArgs) -> Result<Option<Self>> {
        if args.background == Background::Off {
            return Ok(None);
        }
        pool.set_space_target(Some(args.space_target));
        let (stop, stopped) = channel();
        let pool = pool.clone();
        let run = move || {
            let mut pause = LOOK;
            let mut seen = pool.activity();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let now = pool.activity();
                let idle = is_idle(&seen, &now);
                seen = now;
                pause = match args.background {
                    Background::Idle if !idle => LOOK,
                    how => step(&pool, args.space_target, how),
                };
            }
        };
        let thread = Builder::new().name("background".to_owned()).spawn(run);
        let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
        Ok(Some(Self { stop, thread: thread.map_err(failed)? }))
    }

    /// Stop after the step that is under way.
    pub fn stop(self) {
        // An error means that it has stopped.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread in the background has failed");
        }
    }
}

/// Whether clients asked for nothing in between.
fn is_idle(before: &Activity, now: &Activity) -> bool {
    (before.written, before.read, before.flushes) == (now.written, now.read, now.flushes)
}

/// One step; how long to wait for the next.
fn step(pool: &Pool, target: SpaceTarget, how: Background) -> Duration {
    match pool.background(STEP_BYTES, target) {
        Ok(step) if step.done => REST,
        Ok(_) if how == Background::Always => PAUSE,
        Ok(_) => Duration::ZERO,
        // A full disk, or a failure that the next write is told of.
        Err(error) => {
            tracing::warn!("work in the background: {error}");
            REST
        }
    }
}
