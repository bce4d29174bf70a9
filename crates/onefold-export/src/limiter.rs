//! Keeps what is asked of a volume to a rate, by letting requests wait.
//! Room: onefold-export.
//! Invariants: (1) requests wait and never fail for it; (2) who waits notices within
//! [`SLICE_NS`] that a limit is changed or lifted, as by a server that stops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::bucket::{Bucket, Rate};
use onefold_block::spent::{self, Part};
use onefold_block::wrappers::Clock;

/// Longest wait before another look, in nanoseconds.
const SLICE_NS: u64 = 50_000_000;
/// What may come at once after a pause, as a time whose requests it is: short enough that nobody
/// else feels it, and longer than a scheduler lets a thread wait.
const BURST_NS: u64 = 250_000_000;

/// Requests and bytes in a second; none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Requests.
    pub iops: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

#[derive(Default)]
struct State {
    rates: Rates,
    operations: Bucket,
    bytes: Bucket,
    /// Counts changes: whoever waits asks again after one.
    changes: u64,
}

/// A limit that requests wait for.
pub struct Limiter {
    clock: Arc<dyn Clock>,
    /// Whether there is any limit, so that without one nothing else is looked at.
    is_on: AtomicBool,
    state: Mutex<State>,
}

impl Limiter {
    /// Without a limit.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, is_on: AtomicBool::new(false), state: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keep to these from now on. What was let through before is paid for.
    pub fn set(&self, rates: Rates) {
        let mut state = self.locked();
        if state.rates != rates {
            let changes = state.changes + 1;
            *state = State { rates, changes, ..State::default() };
            self.is_on.store(rates != Rates::default(), Ordering::Release);
        }
    }

    /// Wait until so many requests of so many bytes together may begin.
    pub fn pass(&self, operations: u64, bytes: u64) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        let mut asked = self.ask(operations, bytes);
        loop {
            let left = asked.due_ns.saturating_sub(self.clock.now_ns());
            if left == 0 {
                return;
            }
            spent::on(Part::Limit, || self.clock.sleep_ns(left.min(SLICE_NS)));
            if self.locked().changes != asked.changes {
                asked = self.ask(operations, bytes);
            }
        }
    }

    fn ask(&self, operations: u64, bytes: u64) -> Asked {
        let mut state = self.locked();
        let now = self.clock.now_ns();
        let rate = |per_second| Rate { per_second, burst_ns: BURST_NS };
        let Rates { iops, bytes: bytes_rate } = state.rates;
        let first = iops.map_or(now, |iops| state.operations.take(rate(iops), operations, now));
        let second = bytes_rate.map_or(now, |most| state.bytes.take(rate(most), bytes, now));
        Asked { due_ns: first.max(second), changes: state.changes }
    }
}

/// When a request may begin, as long as the limit is not changed.
struct Asked {
    due_ns: u64,
    changes: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use onefold_block::wrappers::ManualClock;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limiter(rates: Rates) -> (Limiter, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let limiter = Limiter::new(Arc::clone(&clock) as Arc<dyn Clock>);
        limiter.set(rates);
        (limiter, clock)
    }

    #[test]
    fn over_a_long_time_requests_come_at_the_rate_and_the_burst_is_bounded() {
        let (limiter, clock) = limiter(Rates { iops: Some(100), bytes: None });
        (0..26).for_each(|_| limiter.pass(1, 1 << 20));
        assert_eq!(clock.now_ns(), 0, "a quarter of a second, and one");
        (0..1000).for_each(|_| limiter.pass(1, 1 << 20));
        assert_eq!(clock.now_ns(), 10 * SECOND);
        clock.sleep_ns(3600 * SECOND);
        let paused = clock.now_ns();
        (0..36).for_each(|_| limiter.pass(1, 0));
        assert_eq!(clock.now_ns() - paused, SECOND / 10, "a pause saves no more than the burst");
    }

    #[test]
    fn bytes_and_requests_are_both_kept_to() {
        let rates = Rates { iops: Some(10), bytes: Some(1000) };
        let (limiter, clock) = limiter(rates);
        for _ in 0..20 {
            limiter.pass(1, 1000);
        }
        // 19 s after the first, less the burst: bytes are what takes longer.
        assert_eq!(clock.now_ns(), 19 * SECOND - BURST_NS);
        let before = clock.now_ns();
        for _ in 0..100 {
            limiter.pass(10, 0);
        }
        let took = clock.now_ns() - before;
        assert!((98 * SECOND..=100 * SECOND).contains(&took), "{took}");
    }

    /// A clock at whose n-th wait a limit is lifted.
    struct Lifting {
        now: AtomicU64,
        limiter: Mutex<Option<std::sync::Weak<Limiter>>>,
    }

    impl Clock for Lifting {
        fn now_ns(&self) -> u64 {
            self.now.load(Ordering::Acquire)
        }
        fn sleep_ns(&self, ns: u64) {
            assert!(ns <= SLICE_NS, "nobody waits longer without another look");
            let now = self.now.fetch_add(ns, Ordering::AcqRel) + ns;
            if now == 10 * SLICE_NS {
                let limiter = self.limiter.lock().unwrap().as_ref().unwrap().upgrade().unwrap();
                limiter.set(Rates::default());
            }
        }
    }

    #[test]
    fn who_waits_goes_on_once_the_limit_is_lifted() {
        let clock = Arc::new(Lifting { now: AtomicU64::new(0), limiter: Mutex::default() });
        let limiter = Arc::new(Limiter::new(Arc::clone(&clock) as Arc<dyn Clock>));
        *clock.limiter.lock().unwrap() = Some(Arc::downgrade(&limiter));
        limiter.set(Rates { iops: Some(1), bytes: None });
        limiter.pass(1_000_000, 0);
        limiter.pass(1, 0);
        assert_eq!(clock.now_ns(), 10 * SLICE_NS);
        limiter.pass(1_000_000, u64::MAX);
        assert_eq!(clock.now_ns(), 10 * SLICE_NS, "there is none any more");
    }
}
