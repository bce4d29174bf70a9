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
            let mut clients = Clients { seen: pool.activity(), idle_since: Instant::now() };
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                pause = turn(&pool, of_thread.get(), &mut clients);
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
        let failed = |_| tracing::error!("the thread in the background has failed");
        self.thread.join().unwrap_or_else(failed);
    }
}

/// What clients had asked for at the last look, and since when it was no more than that.
struct Clients {
    seen: Activity,
    idle_since: Instant,
}

/// A look at the clients, and a step if it is time for one; how long to wait for the next.
fn turn(pool: &Pool, args: BackgroundArgs, clients: &mut Clients) -> Duration {
    if args.background == Background::Off {
        return REST;
    }
    let now = pool.activity();
    if !is_idle(&clients.seen, &now) {
        *clients = Clients { seen: now, idle_since: Instant::now() };
        if args.background == Background::Idle {
            return LOOK;
        }
    }
    step(pool, args, clients.idle_since.elapsed())
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
    Ok(pool.deduplicate(STEP_BYTES, thoroughness(idle))?.done)
}

/// How thoroughly it is compared while clients have asked for nothing for so long.
fn thoroughness(idle: Duration) -> Thoroughness {
    match idle {
        short if short < LOOK => Thoroughness::Levels,
        long if long < LONG_IDLE => Thoroughness::Idle,
        _ => Thoroughness::Whole,
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize};

    use super::*;
    use crate::test_pool;

    #[test]
    fn the_longer_clients_are_quiet_the_more_is_compared() {
        let just_before = |time: Duration| time.checked_sub(Duration::from_nanos(1)).unwrap();
        for (idle, expected) in [
            (Duration::ZERO, Thoroughness::Levels),
            (just_before(LOOK), Thoroughness::Levels),
            (LOOK, Thoroughness::Idle),
            (just_before(LONG_IDLE), Thoroughness::Idle),
            (LONG_IDLE, Thoroughness::Whole),
        ] {
            assert_eq!(thoroughness(idle), expected, "{idle:?}");
        }
        // Whatever clients do, they are not idle.
        let before = test_pool::pool().activity();
        for asked in [
            Activity { written: 1, ..before },
            Activity { read: 1, ..before },
            Activity { flushes: 1, ..before },
        ] {
            assert!(!is_idle(&before, &asked) && is_idle(&asked, &asked));
        }
    }

    #[test]
    fn it_works_when_it_may_and_holds_the_pool_no_longer_than_it_runs() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let space_target = SpaceTarget::new(1.5).unwrap();
        let args = |background| BackgroundArgs { background, space_target };
        let mut clients = Clients { seen: pool.activity(), idle_since: Instant::now() };
        let mut busy = |background| {
            volume.write_at(0, &[1; 4096], false).unwrap();
            turn(&pool, args(background), &mut clients)
        };
        // There is nothing to win back, which a step that was made says by a long rest.
        assert_eq!(busy(Background::Off), REST);
        assert_eq!(busy(Background::Idle), LOOK, "no step while clients are busy");
        assert_eq!(busy(Background::Always), REST, "a step beside them");
        assert_eq!(turn(&pool, args(Background::Idle), &mut clients), REST, "they are quiet");

        let worker = Worker::start(&pool, args(Background::Idle)).unwrap();
        let knobs = worker.knobs();
        set(&pool, &knobs, args(Background::Off));
        assert_eq!(knobs.get().background, Background::Off);
        worker.stop();
        assert_eq!(Arc::strong_count(&knobs), 1, "the thread has ended");
    }
}
