//! How long a device's calls took lately and how much of that they waited, to tell which to hand to
//! a helper thread.
//! Room: onefold-nbd.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Bytes counted as one unit of work.
const UNIT_BYTES: usize = 4096;
/// Weight of the newest observation: one part in this many.
const WEIGHT: u64 = 8;
/// Handing a call over pays from here on: it costs a copy and two thread switches, about
/// 20 microseconds, and the call would keep those behind it waiting for longer than that.
const SLOW: Duration = Duration::from_micros(100);

/// A whole, in the parts that shares are counted in.
const WHOLE: u64 = 1024;

/// Moving averages of time per unit, and of the share of it that calls waited. Races between
/// threads lose an observation at worst.
pub(super) struct Cost {
    ns_per_unit: AtomicU64,
    /// Until more is known, slow calls are taken to wait.
    waited_share: AtomicU64,
}

/// A call that has begun.
pub(super) struct Begun {
    /// What this thread had taken by then. Asked for only where it may matter: it costs as much as
    /// a hundredth of a short call.
    taken: Option<Taken>,
}

/// What a thread has taken so far.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Time of a processor.
    processor: Duration,
    /// How often it gave the processor up by itself, to wait.
    waits: u64,
}

impl Taken {
    /// By the calling thread.
    fn now() -> Self {
        getrusage(UsageWho::RUSAGE_THREAD)
            .map_or_else(|_| Self::default(), |usage| Self::of(&usage))
    }

    fn of(usage: &Usage) -> Self {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        let processor = Duration::from_micros(micros.unsigned_abs());
        Self { processor, waits: usage.voluntary_context_switches().unsigned_abs() }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self { ns_per_unit: AtomicU64::new(0), waited_share: AtomicU64::new(WHOLE) }
    }
}

impl Cost {
    /// A call for `bytes` begins.
    pub fn begin(&self, bytes: usize) -> Begun {
        let taken = self.is_slow(bytes).then(Taken::now);
        Begun { taken }
    }

    /// It ended after `elapsed`, in the thread in which it began.
    pub fn end(&self, bytes: usize, begun: &Begun, elapsed: Duration) {
        self.observe(bytes, elapsed);
        if let Some(before) = begun.taken {
            self.observe_wait(elapsed, before, Taken::now());
        }
    }

    /// A call took `elapsed`, and its thread what lies between these.
    fn observe_wait(&self, elapsed: Duration, before: Taken, after: Taken) {
        // Without a processor for want of one is no reason to bring more threads.
        let waited = if after.waits > before.waits {
            elapsed.saturating_sub(after.processor.saturating_sub(before.processor))
        } else {
            Duration::ZERO
        };
        let elapsed_ns = (elapsed.as_nanos() as u64).max(1);
        let sample = (waited.as_nanos() as u64).saturating_mul(WHOLE) / elapsed_ns;
        let old = self.waited_share.load(Ordering::Relaxed);
        self.waited_share.store(old - old / WEIGHT + sample / WEIGHT, Ordering::Relaxed);
    }

    /// Whether slow calls wait for something for most of their time, rather than compute.
    pub fn waits(&self) -> bool {
        self.waited_share.load(Ordering::Relaxed) > WHOLE / 2
    }

    /// A call for `bytes` took `elapsed`.
    fn observe(&self, bytes: usize, elapsed: Duration) {
        let sample = elapsed.as_nanos() as u64 / units(bytes);
        let old = self.ns_per_unit.load(Ordering::Relaxed);
        let new = old - old / WEIGHT + sample / WEIGHT;
        self.ns_per_unit.store(new, Ordering::Relaxed);
    }

    /// Whether a call for `bytes` is likely to be slow.
    pub fn is_slow(&self, bytes: usize) -> bool {
        let ns = self.ns_per_unit.load(Ordering::Relaxed).saturating_mul(units(bytes));
        u128::from(ns) >= SLOW.as_nanos()
    }
}

#[cfg(test)]
impl Cost {
    /// Of a device that takes a millisecond for a unit, all or nothing of it waiting.
    pub fn slow(waits: bool) -> Self {
        let share = if waits { WHOLE } else { 0 };
        Self { ns_per_unit: AtomicU64::new(1_000_000), waited_share: AtomicU64::new(share) }
    }
}

fn units(bytes: usize) -> u64 {
    bytes.div_ceil(UNIT_BYTES).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_moves_by_an_eighth_of_each_new_time_for_a_unit() {
        let cost = Cost::default();
        let average = || cost.ns_per_unit.load(Ordering::Relaxed);
        for (bytes, ns, expected) in [
            (0, 8000, 1000),
            (1, 8000, 875 + 1000),
            (4096, 800, 1875 - 234 + 100),
            (4097, 16_000, 1741 - 217 + 1000),
        ] {
            cost.observe(bytes, Duration::from_nanos(ns));
            assert_eq!(average(), expected, "after {bytes} bytes in {ns} ns");
        }
        cost.ns_per_unit.store(50_000, Ordering::Relaxed);
        assert!(!cost.is_slow(4096) && cost.is_slow(4097));
        cost.ns_per_unit.store(49_999, Ordering::Relaxed);
        assert!(!cost.is_slow(8192) && cost.is_slow(8193));
    }

    #[test]
    fn calls_wait_if_they_give_the_processor_up_and_lack_it_for_most_of_their_time() {
        let cost = Cost::default();
        assert!(cost.waits(), "until more is known");
        let of_100_us = |processor, waits| {
            let taken = Taken { processor: Duration::from_micros(processor), waits };
            let elapsed = Duration::from_micros(100);
            (0..40).for_each(|_| cost.observe_wait(elapsed, Taken::default(), taken));
            cost.waits()
        };
        assert!(!of_100_us(60, 1));
        assert!(of_100_us(40, 1));
        assert!(!of_100_us(40, 0), "others had the processor");
        assert!(of_100_us(40, 2));
        assert!(!of_100_us(101, 1), "clocks that differ a little");
        cost.observe_wait(Duration::ZERO, Taken::default(), Taken::default());
    }

    #[test]
    fn only_calls_that_may_be_handed_over_are_asked_what_they_took() {
        let cost = Cost::default();
        assert!(cost.begin(4096).taken.is_none());
        cost.ns_per_unit.store(200_000, Ordering::Relaxed);
        let begun = cost.begin(4096);
        assert!(begun.taken.is_some());
        // Sleeping takes no processor time.
        cost.waited_share.store(0, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        cost.end(4096, &begun, Duration::from_millis(20));
        assert!(cost.waited_share.load(Ordering::Relaxed) > WHOLE / WEIGHT / 2);
    }

    #[test]
    fn a_device_is_slow_only_once_it_was_slow_for_a_while() {
        let cost = Cost::default();
        assert!(!cost.is_slow(32 << 20));
        cost.observe(4096, Duration::from_micros(400));
        assert!(!cost.is_slow(4096));
        for _ in 0..4 {
            cost.observe(4096, Duration::from_micros(400));
        }
        assert!(cost.is_slow(4096));
        for _ in 0..40 {
            cost.observe(4096, Duration::from_micros(1));
        }
        assert!(!cost.is_slow(4096));
        assert!(cost.is_slow(32 << 20));
    }
}
