//! How long a device's calls took lately, to tell which to hand to a helper thread.
//! Room: onefold-nbd.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes counted as one unit of work.
const UNIT_BYTES: usize = 4096;
/// Weight of the newest observation: one part in this many.
const WEIGHT: u64 = 8;
/// Handing a call over pays from here on: it costs a copy and two thread switches, about
/// 20 microseconds, and the call would keep those behind it waiting for longer than that.
const SLOW: Duration = Duration::from_micros(100);

/// A moving average of time per unit. Races between threads lose an observation at worst.
#[derive(Default)]
pub(super) struct Cost {
    ns_per_unit: AtomicU64,
}

impl Cost {
    /// A call for `bytes` took `elapsed`.
    pub fn observe(&self, bytes: usize, elapsed: Duration) {
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
