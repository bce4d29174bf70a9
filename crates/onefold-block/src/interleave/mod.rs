//! Two threads that take turns where a test says so.
//! Room: onefold-block.
//!
//! A room's tests run two operations under [`run`]: only one of the two threads moves at any time.
//! The first stops at its `n`-th [`point`] and the second runs until it ends, or until it wants a
//! lock that the first holds; then the first goes on. With every `n` in turn, each operation meets
//! the other at each of its points, every time the test is run, and none by luck.
//!
//! Points are the operations of [`PointFolder`], locks taken with [`lock`], and wherever a room
//! puts a named [`point`]. Outside of [`run`] they do nothing but look at a thread-local, and rooms
//! compile them for their tests alone. A lock that is held across a point must be taken through
//! this module, so that whoever wants it lets the other go on instead of waiting for ever.

mod folder;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};

pub use folder::PointFolder;

/// Times in a row that both threads find a lock taken: neither will ever have it.
const STUCK_MAX: u32 = 8;

/// Where two threads change over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The point of the first thread, from 1, at which the second begins. Past its last point the
    /// second runs after the first.
    pub to_second: usize,
    /// The point of the second thread, from 1, at which the first goes on; none if the second runs
    /// to its end.
    pub back: Option<usize>,
}

/// What two threads came to.
#[derive(Debug)]
pub struct Ran<A, B> {
    /// The answer of the first.
    pub first: A,
    /// The answer of the second.
    pub second: B,
    /// The names of the first thread's points, in order.
    pub points: Vec<String>,
    /// How many points the second had.
    pub second_points: usize,
}

#[derive(Default)]
struct Turns {
    running: usize,
    finished: [bool; 2],
    /// Points that each has passed.
    passed: [usize; 2],
    names: Vec<String>,
    stuck: u32,
    deadlocked: bool,
}

struct Baton {
    turns: Mutex<Turns>,
    changed: Condvar,
    switches: Switches,
}

thread_local! {
    /// The threads that this one takes turns with, and which of the two it is.
    static PLACE: RefCell<Option<(Arc<Baton>, usize)>> = const { RefCell::new(None) };
}

fn place() -> Option<(Arc<Baton>, usize)> {
    PLACE.with(|place| place.borrow().clone())
}

impl Baton {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let the other go on, if it has not ended, and wait until it gives the turn back.
    fn hand_over(&self, me: usize) {
        let mut turns = self.turns();
        if turns.finished[1 - me] {
            return;
        }
        turns.running = 1 - me;
        self.changed.notify_all();
        while turns.running != me {
            turns = self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for_turn(&self, me: usize) {
        let mut turns = self.turns();
        while turns.running != me {
            turns = self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ended(&self, me: usize) {
        let mut turns = self.turns();
        turns.finished[me] = true;
        turns.running = 1 - me;
        self.changed.notify_all();
    }

    /// A lock is taken: the other must go on.
    fn blocked(&self, me: usize) {
        {
            let mut turns = self.turns();
            turns.stuck += 1;
            let alone = turns.finished[1 - me];
            if turns.deadlocked || alone || turns.stuck > STUCK_MAX {
                turns.deadlocked = true;
                drop(turns);
                panic!("deadlock: a lock is wanted that is never given up");
            }
        }
        self.hand_over(me);
    }

    fn point(&self, me: usize, name: &dyn std::fmt::Display) {
        let here = {
            let mut turns = self.turns();
            turns.passed[me] += 1;
            if me == 0 {
                turns.names.push(name.to_string());
            }
            turns.passed[me]
        };
        let wanted = if me == 0 { Some(self.switches.to_second) } else { self.switches.back };
        if wanted == Some(here) {
            self.hand_over(me);
        }
    }
}

/// A place at which the other thread may take its turn.
pub fn point(name: impl std::fmt::Display) {
    if let Some((baton, me)) = place() {
        baton.point(me, &name);
    }
}

/// Try until it works; in between the other thread goes on. Without one, wait.
fn take<G>(mut attempt: impl FnMut() -> Result<G, TryLockError<G>>, wait: impl FnOnce() -> G) -> G {
    let Some((baton, me)) = place() else { return wait() };
    loop {
        match attempt() {
            Ok(guard) => {
                baton.turns().stuck = 0;
                return guard;
            }
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => baton.blocked(me),
        }
    }
}

/// Take a lock, whether or not a thread panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    take(|| mutex.try_lock(), || mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Take a lock to read what it guards.
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    take(|| lock.try_read(), || lock.read().unwrap_or_else(PoisonError::into_inner))
}

/// Take a lock to change what it guards.
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    take(|| lock.try_write(), || lock.write().unwrap_or_else(PoisonError::into_inner))
}

type Caught<T> = Result<T, Box<dyn Any + Send>>;

fn in_turn<T>(baton: &Arc<Baton>, me: usize, operation: impl FnOnce() -> T) -> Caught<T> {
    PLACE.with(|place| *place.borrow_mut() = Some((Arc::clone(baton), me)));
    baton.wait_for_turn(me);
    let result = catch_unwind(AssertUnwindSafe(operation));
    PLACE.with(|place| *place.borrow_mut() = None);
    baton.ended(me);
    result
}

/// Run two operations, one thread each, that change over where `switches` says.
///
/// # Panics
/// As either of them does; also where each waits for a lock that the other holds.
pub fn run<A: Send, B: Send>(
    switches: Switches,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> Ran<A, B> {
    let baton = Arc::new(Baton { turns: Mutex::default(), changed: Condvar::new(), switches });
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| in_turn(&baton, 1, second));
        let first = in_turn(&baton, 0, first);
        (first, other.join().unwrap_or_else(Err))
    });
    let mut turns = baton.turns();
    let (points, second_points) = (std::mem::take(&mut turns.names), turns.passed[1]);
    drop(turns);
    let first = first.unwrap_or_else(|panic| resume_unwind(panic));
    let second = second.unwrap_or_else(|panic| resume_unwind(panic));
    Ran { first, second, points, second_points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(to_second: usize, back: Option<usize>) -> String {
        let told = Mutex::new(String::new());
        let tell = |what: char| told.lock().unwrap().push(what);
        let three = |of: [char; 3]| {
            for what in of {
                point(what);
                tell(what);
            }
        };
        let ran = run(
            Switches { to_second, back },
            || three(['a', 'b', 'c']),
            || {
                three(['x', 'y', 'z']);
            },
        );
        assert_eq!((ran.points.join(""), ran.second_points), ("abc".to_owned(), 3));
        told.into_inner().unwrap()
    }

    #[test]
    fn threads_change_over_at_the_points_asked_for_and_nowhere_else() {
        assert_eq!(trace(1, None), "xyzabc");
        assert_eq!(trace(2, None), "axyzbc");
        assert_eq!(trace(4, None), "abcxyz");
        assert_eq!(trace(2, Some(3)), "axybcz");
        assert_eq!(trace(3, Some(1)), "abcxyz");
    }

    #[test]
    fn who_wants_a_lock_lets_the_other_go_on_until_it_is_free() {
        let (shared, told) = (Mutex::new(()), Mutex::new(String::new()));
        let tell = |what: &str| told.lock().unwrap().push_str(what);
        let first = || {
            let held = lock(&shared);
            point("holding");
            tell("first holds it; ");
            drop(held);
            point("free");
            tell("first ends");
        };
        let second = || {
            tell("second wants it; ");
            drop(lock(&shared));
            tell("second had it; ");
        };
        run(Switches { to_second: 1, back: None }, first, second);
        let all = told.into_inner().unwrap();
        assert_eq!(all, "second wants it; first holds it; first endssecond had it; ");
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_deadlock_is_named() {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        let first = || {
            let _a = lock(&a);
            point("one");
            drop(lock(&b));
        };
        let second = || {
            let _b = lock(&b);
            drop(lock(&a));
        };
        run(Switches { to_second: 1, back: None }, first, second);
    }
}
