//! The thread that wins space back and finds what is stored more than once, and when it does.
//! Room: onefold.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use onefold_pool::{Activity, Pool, PoolError, SpaceTarget, Thoroughness};

use crate::args::{Background, BackgroundArgs};
use crate::failure::{self, Failure};

/// How often it looks whether clients are busy, and for how long they must not be.
const LOOK: Duration = Duration::from_millis(200);
/// Between two steps that go on beside clients.
const PAUSE: Duration = Duration::from_millis(10);
/// How long it waits when there is nothing to do, or after trouble.
const REST: Duration = Duration::from_secs(2);
/// Once nobody has asked for anything for so long, everything is compared with everything.
const LONG_IDLE: Duration = Duration::from_mins(10);
/// Work in one step, in bytes read and written: what a client that comes back waits for, at most.
const STEP_BYTES: u64 = 1 << 20;

/// How to work, which may change while it does.
pub struct Knobs(Mutex<BackgroundArgs>);

impl Knobs {
    /// As they are now.
    pub fn get(&self) -> BackgroundArgs {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work like this from now on, and let writers keep to the target.
pub fn set(pool: &Pool, knobs: &Knobs, args: BackgroundArgs) {
    *knobs.0.lock().unwrap_or_else(PoisonError::into_inner) = args;
    let works = args.background != Background::Off;
    pool.set_space_target(works.then_some(args.space_target));
}

/// The thread, while it runs.
pub struct Worker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    knobs: Arc<Knobs>,
}

impl Worker {
    /// Begin.
    pub fn start(pool: &Pool, args: BackgroundArgs) -> failure::Result<Self> {
        let knobs = Arc::new(Knobs(Mutex::new(args)));
        set(pool, &knobs, args);
        let (stop, stopped) = channel();
        let (pool, of_thread) = (pool.clone(), Arc::clone(&knobs));
        let run = move || {
            let mut pause = LOOK;
            let (mut seen, mut idle_since) = (pool.activity(), Instant::now());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let args = of_thread.get();
                if args.background == Background::Off {
                    pause = REST;
                    continue;
                }
                let now = pool.activity();
                if !is_idle(&seen, &now) {
                    idle_since = Instant::now();
                    (seen, pause) = (now, LOOK);
                    if args.background == Background::Idle {
                        continue;
                    }
                }
                pause = step(&pool, args, idle_since.elapsed());
            }
        };
        let thread = Builder::new().name("background".to_owned()).spawn(run);
        let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
        Ok(Self { stop, thread: thread.map_err(failed)?, knobs })
    }

    /// How it works.
    pub fn knobs(&self) -> Arc<Knobs> {
        Arc::clone(&self.knobs)
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

/// One step; how long to wait for the next. `idle` is how long clients have asked for nothing.
fn step(pool: &Pool, args: BackgroundArgs, idle: Duration) -> Duration {
    match work(pool, args.space_target, idle) {
        Ok(true) => REST,
        Ok(false) if args.background == Background::Always => PAUSE,
        Ok(false) => Duration::ZERO,
        // A full disk, or a failure that the next write is told of.
        Err(error) => {
            tracing::warn!("work in the background: {error}");
            REST
        }
    }
}

/// Space first, and then what is stored more than once. True if nothing is left to do for now.
fn work(pool: &Pool, target: SpaceTarget, idle: Duration) -> Result<bool, PoolError> {
    if !pool.background(STEP_BYTES, target)?.done {
        return Ok(false);
    }
    let thoroughness = match idle {
        short if short < LOOK => Thoroughness::Levels,
        long if long < LONG_IDLE => Thoroughness::Idle,
        _ => Thoroughness::Whole,
    };
    Ok(pool.deduplicate(STEP_BYTES, thoroughness)?.done)
}
