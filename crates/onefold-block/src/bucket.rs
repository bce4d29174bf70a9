//! How much may happen in a time: a token bucket, as the moment at which it would be full.
//! Room: onefold-block.
//! Source: the generic cell rate algorithm (ITU-T I.371), in units that may come many at once.
//! Invariants: (1) over any time what was let through is the rate times that time, the burst and
//! one request at most; (2) one request is never held back for being larger than the burst.

/// A rate, and how much of it may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units in a second; 0 is as 1.
    pub per_second: u64,
    /// Time whose units may come at once after a pause, in nanoseconds.
    pub burst_ns: u64,
}

/// Nanoseconds in a second.
const SECOND_NS: u128 = 1_000_000_000;

impl Rate {
    /// How long so many units take, in nanoseconds.
    fn cost_ns(self, units: u64) -> u64 {
        let ns = (u128::from(units) * SECOND_NS).div_ceil(u128::from(self.per_second.max(1)));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// What was taken so far: all of it is paid for at this moment, in nanoseconds of some clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    paid_ns: u64,
}

impl Bucket {
    /// When units would be let through that come now.
    fn due_ns(self, rate: Rate, now_ns: u64) -> u64 {
        self.paid_ns.saturating_sub(rate.burst_ns).max(now_ns)
    }

    /// Take units, which may be used from the moment on that is returned.
    pub fn take(&mut self, rate: Rate, units: u64, now_ns: u64) -> u64 {
        let due = self.due_ns(rate, now_ns);
        self.paid_ns = self.paid_ns.max(now_ns).saturating_add(rate.cost_ns(units));
        due
    }

    /// Take units if they may be used now; whether they may.
    pub fn try_take(&mut self, rate: Rate, units: u64, now_ns: u64) -> bool {
        let may = self.due_ns(rate, now_ns) <= now_ns;
        if may {
            self.take(rate, units, now_ns);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst_ns: 300_000_000 };
    const TENTH: u64 = 100_000_000;

    #[test]
    fn after_a_pause_a_burst_and_one_come_at_once_and_then_the_rate() {
        let mut bucket = Bucket::default();
        let start = 5_000_000_000;
        let due: Vec<u64> = (0..7).map(|_| bucket.take(RATE, 1, start)).collect();
        let waits: Vec<u64> = due.iter().map(|due| (due - start) / TENTH).collect();
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 3]);
        // A pause of 0.7 s pays for all; a longer one saves no more than the burst.
        for pause in [700_000_000, 60_000_000_000] {
            let mut later = bucket;
            let taken = (0..9).filter(|_| later.try_take(RATE, 1, start + pause)).count();
            assert_eq!(taken, 4, "after {pause} ns");
        }
    }

    #[test]
    fn one_in_a_second_is_one_in_a_second_and_none_is_as_one() {
        for per_second in [0, 1] {
            let (mut bucket, rate) = (Bucket::default(), Rate { per_second, burst_ns: 0 });
            assert_eq!([0, 0].map(|now| bucket.take(rate, 1, now)), [0, 1_000_000_000]);
        }
    }

    #[test]
    fn what_is_larger_than_the_burst_is_let_through_and_paid_for_afterwards() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(RATE, 100, 0), 0);
        assert_eq!(bucket.take(RATE, 1, 0), 10_000_000_000 - RATE.burst_ns);
        assert!(!bucket.try_take(RATE, 1, 0));
    }

    #[test]
    fn extremes_overflow_nowhere() {
        let mut bucket = Bucket::default();
        let slow = Rate { per_second: 0, burst_ns: u64::MAX };
        assert_eq!(bucket.take(slow, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(bucket.take(slow, u64::MAX, 0), 0);
        let fast = Rate { per_second: u64::MAX, burst_ns: 0 };
        assert_eq!(Bucket::default().take(fast, u64::MAX, 7), 7);
    }
}
