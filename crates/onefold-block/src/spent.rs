//! Where the time of a call goes, in parts that the rooms below name and whoever calls times.
//! Room: onefold-block.
//! Invariants: (1) nobody looks at a clock but for a call that is watched, and then at the clock
//! that was handed in; (2) a moment counts for one part, the innermost; (3) only the thread of the
//! call is watched.
//! Cost: without a watch one look at a flag of the thread; with one, a look at the clock where a
//! part begins and where it ends, and one at the end of the call. A device that times what it is
//! asked for shares that one, and looks at no clock where the call begins with it: [`begin`].

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::wrappers::Clock;

/// What a call spends time with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Locks that others hold, and what they do meanwhile.
    Wait,
    /// Fingerprints.
    Hash,
    /// Compression.
    Compress,
    /// Reading from media.
    Read,
    /// Writing to media.
    Write,
    /// Making media durable.
    Sync,
    /// Keeping to a limit that was set.
    Limit,
    /// Answering a client that takes its time.
    Reply,
}

/// How many parts there are.
const PARTS: usize = Part::Reply as usize + 1;

/// What a call spent, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    parts: [u64; PARTS],
    /// All of it, what belongs to no part with it.
    pub total_ns: u64,
}

impl Spent {
    /// The time of one part.
    pub const fn of(&self, part: Part) -> u64 {
        self.parts[part as usize]
    }

    /// What belongs to no part.
    pub fn other_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.parts.iter().sum())
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (sum, part) in self.parts.iter_mut().zip(&other.parts) {
            *sum += part;
        }
        self.total_ns += other.total_ns;
        self
    }
}

/// What the moment is that was looked at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Latest {
    /// The call begins then, and no part of it was timed yet.
    Begins,
    /// What a device was asked for ended then, and nothing was timed since.
    Ends,
    /// Some moment before.
    Past,
}

/// The call of this thread that is watched.
struct Watch {
    is_on: Cell<bool>,
    latest: Cell<Latest>,
    latest_ns: Cell<u64>,
    /// Whether any part was timed; if not, none has to be looked at or cleared.
    has_parts: Cell<bool>,
    current: Cell<Option<Part>>,
    since_ns: Cell<u64>,
    parts: Cell<[u64; PARTS]>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch {
            is_on: Cell::new(false),
            latest: Cell::new(Latest::Past),
            latest_ns: Cell::new(0),
            has_parts: Cell::new(false),
            current: Cell::new(None),
            since_ns: Cell::new(0),
            parts: Cell::new([0; PARTS]),
        }
    };
    /// Kept for the next call of the thread, which as a rule is watched by the same.
    static CLOCK: RefCell<Option<Arc<dyn Clock>>> = const { RefCell::new(None) };
}

/// From now on time is spent with this; what it was spent with until now.
fn turn_to(part: Option<Part>) -> Option<Part> {
    let now = CLOCK.with_borrow(|clock| clock.as_ref().map(|clock| clock.now_ns()))?;
    WATCH.with(|watch| {
        watch.latest.set(Latest::Past);
        let before = watch.current.replace(part);
        let since = watch.since_ns.replace(now);
        if let Some(before) = before {
            let mut parts = watch.parts.get();
            parts[before as usize] += now.saturating_sub(since);
            watch.parts.set(parts);
            watch.has_parts.set(true);
        }
        before
    })
}

/// Goes back to what came before, also past a panic.
struct Back(Option<Part>);

impl Drop for Back {
    fn drop(&mut self) {
        turn_to(self.0);
    }
}

/// Do what belongs to a part.
pub fn on<T>(part: Part, work: impl FnOnce() -> T) -> T {
    if !WATCH.with(|watch| watch.is_on.get()) {
        return work();
    }
    let _back = Back(turn_to(Some(part)));
    work()
}

/// Whether a call of this thread is watched with this clock.
fn is_watched_with(clock: &Arc<dyn Clock>) -> bool {
    WATCH.with(|watch| watch.is_on.get())
        && CLOCK.with_borrow(|kept| kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, clock)))
}

/// When something begins that is timed by itself: now, or where the call that is watched with the
/// same clock has just begun.
pub fn begin(clock: &Arc<dyn Clock>) -> u64 {
    let latest = WATCH.with(|watch| (watch.latest.get(), watch.latest_ns.get()));
    match latest {
        (Latest::Begins | Latest::Ends, latest_ns) if is_watched_with(clock) => latest_ns,
        _ => clock.now_ns(),
    }
}

/// What the clock says where that ends. If nothing else is timed until the call ends that is
/// watched, nobody looks again.
pub fn end(clock: &Arc<dyn Clock>) -> u64 {
    let now_ns = clock.now_ns();
    if is_watched_with(clock) {
        WATCH.with(|watch| {
            watch.latest.set(Latest::Ends);
            watch.latest_ns.set(now_ns);
        });
    }
    now_ns
}

/// Ends the watch, also past a panic.
struct End;

impl End {
    /// What was spent with parts.
    fn parts() -> [u64; PARTS] {
        WATCH.with(|watch| {
            watch.is_on.set(false);
            watch.latest.set(Latest::Past);
            let had_parts = watch.has_parts.replace(false);
            if had_parts { watch.parts.replace([0; PARTS]) } else { [0; PARTS] }
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        Self::parts();
    }
}

/// Call, and say what was spent meanwhile, from `begun_ns` on, which the clock said just now: who
/// does one call after another begins one where the last one has ended. A call inside of one that
/// is watched is part of that and reports nothing by itself.
pub fn watched<T>(clock: &Arc<dyn Clock>, begun_ns: u64, call: impl FnOnce() -> T) -> (T, Spent) {
    if WATCH.with(|watch| watch.is_on.replace(true)) {
        return (call(), Spent::default());
    }
    let end = End;
    CLOCK.with_borrow_mut(|kept| {
        if !kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, clock)) {
            *kept = Some(Arc::clone(clock));
        }
    });
    WATCH.with(|watch| {
        watch.latest.set(Latest::Begins);
        watch.latest_ns.set(begun_ns);
    });
    let value = call();
    std::mem::forget(end);
    let latest = WATCH.with(|watch| (watch.latest.get(), watch.latest_ns.get()));
    let now_ns = if let (Latest::Ends, latest_ns) = latest { latest_ns } else { clock.now_ns() };
    let spent = Spent { parts: End::parts(), total_ns: now_ns.saturating_sub(begun_ns) };
    (value, spent)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::wrappers::ManualClock;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(ManualClock::default())
    }

    #[test]
    fn a_moment_counts_for_the_innermost_part_and_all_of_them_for_the_total() {
        let clock = clock();
        let (value, spent) = watched(&clock, clock.now_ns(), || {
            clock.sleep_ns(1);
            on(Part::Write, || {
                clock.sleep_ns(10);
                on(Part::Wait, || clock.sleep_ns(100));
                clock.sleep_ns(20);
            });
            on(Part::Hash, || clock.sleep_ns(1000));
            on(Part::Write, || clock.sleep_ns(5));
            clock.sleep_ns(2);
            7
        });
        assert_eq!((value, spent.total_ns, spent.other_ns()), (7, 1138, 3));
        let of = [Part::Write, Part::Wait, Part::Hash, Part::Sync].map(|part| spent.of(part));
        assert_eq!(of, [35, 100, 1000, 0]);
        let twice = spent.and(&spent);
        assert_eq!((twice.total_ns, twice.of(Part::Wait)), (2276, 200));
    }

    #[test]
    fn without_a_watch_no_clock_is_looked_at_and_panics_leave_none_behind() {
        struct Untouched;
        impl Clock for Untouched {
            fn now_ns(&self) -> u64 {
                panic!("nobody asked for the time")
            }
            fn sleep_ns(&self, _: u64) {}
        }
        assert_eq!(on(Part::Read, || 3), 3);
        let untouched: Arc<dyn Clock> = Arc::new(Untouched);
        let clock = clock();
        // Who watches already goes on: the inner clock is never asked.
        let ((), spent) = watched(&clock, clock.now_ns(), || {
            let ((), inner) = watched(&untouched, 0, || on(Part::Read, || clock.sleep_ns(4)));
            assert_eq!(inner, Spent::default());
        });
        assert_eq!(spent.of(Part::Read), 4);
        let call = || watched(&clock, clock.now_ns(), || on(Part::Read, || panic!("on purpose")));
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        let ((), spent) = watched(&clock, clock.now_ns(), || on(Part::Sync, || clock.sleep_ns(9)));
        assert_eq!((spent.of(Part::Sync), spent.of(Part::Read)), (9, 0));
        assert!(!WATCH.with(|watch| watch.is_on.get()));
    }
}
