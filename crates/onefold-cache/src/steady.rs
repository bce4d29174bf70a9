//! Whether popularity stands still, from all requests.
//! Room: onefold-cache.   In: both fading counts of what is asked for ([`crate::forecast`]).
//! Where nothing changes, what is asked for now was asked for as often long ago as lately, in the
//! mean over all requests. Where popularity moves, it was asked for more often lately; what comes
//! back for its own sake soon after it was read counts as moving, too. In a loop it is the other
//! way round. So the mean slow count over the mean fast one says it, and needs some requests for
//! each object that fits, not hundreds.
//! Invariant: + - * / alone, so the same answer on every machine.

use crate::origin::count_of;

/// Slow counts over fast ones up to which popularity moves, and from which on it stands still.
const MOVES: f64 = 0.85;
const STANDS: f64 = 0.95;

/// Sums over the requests of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady {
    /// Requests that their slow counts foretold, and their fast ones; as the bits of floats.
    slow: u64,
    fast: u64,
    requests: u64,
}

impl Steady {
    /// Something was asked for, of which both counts foretold so many requests. Sums count half
    /// when `memory` requests are in them.
    pub fn asked(&mut self, slow: f64, fast: f64, memory: f64) {
        let mut sums = [f64::from_bits(self.slow) + slow, f64::from_bits(self.fast) + fast];
        self.requests += 1;
        if self.requests as f64 >= memory {
            self.requests /= 2;
            sums = sums.map(|sum| sum / 2.0);
        }
        [self.slow, self.fast] = sums.map(f64::to_bits);
    }

    /// From 0, popularity moves or nothing is known, to 1, it stands still.
    pub fn share(self) -> f64 {
        let [slow, fast] = [self.slow, self.fast].map(f64::from_bits);
        if fast <= 0.0 {
            return 0.0;
        }
        ((slow / fast - MOVES) / (STANDS - MOVES)).clamp(0.0, 1.0)
    }

    /// A saved state was loaded, which may say anything.
    pub fn restored(&mut self) {
        (self.slow, self.fast) = (count_of(self.slow), count_of(self.fast));
        self.requests = self.requests.min(1 << 62);
    }

    /// What has to survive a restart.
    pub fn numbers(&mut self) -> [&mut u64; 3] {
        [&mut self.slow, &mut self.fast, &mut self.requests]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(asked: impl IntoIterator<Item = (f64, f64)>) -> f64 {
        let mut steady = Steady::default();
        for (slow, fast) in asked {
            steady.asked(slow, fast, 100.0);
        }
        steady.share()
    }

    #[test]
    fn equal_counts_stand_still_and_more_of_late_moves() {
        assert_eq!(after([]).to_bits(), 0_f64.to_bits(), "nothing is known");
        assert_eq!(after([(0.0, 0.0); 9]).to_bits(), 0_f64.to_bits());
        assert_eq!(after([(2.0, 2.0); 9]).to_bits(), 1_f64.to_bits());
        assert_eq!(after([(3.0, 0.5); 9]).to_bits(), 1_f64.to_bits(), "a loop");
        assert_eq!(after([(1.7, 2.0), (0.8, 1.0)]).to_bits(), 0_f64.to_bits());
        assert!((after([(1.8, 2.0)]) - 0.5).abs() < 1e-9);
        // Means over requests: one that comes often is no more than each of its requests.
        assert!((after([(10.0, 10.0), (0.0, 1.0), (0.0, 1.0 / 9.0)]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let moved = std::iter::repeat_n((0.0, 1.0), 1_000);
        let still = |count| std::iter::repeat_n((1.0, 1.0), count);
        assert!(after(moved.clone().chain(still(50))) < 1e-9);
        assert!(after(moved.chain(still(1_000))) > 0.99);
    }

    #[test]
    fn what_no_state_can_say_is_taken_for_nothing() {
        let mut steady = Steady::default();
        for bits in [f64::NAN, f64::INFINITY, -1.0, 1e300].map(f64::to_bits) {
            (steady.slow, steady.fast, steady.requests) = (bits, bits, u64::MAX);
            steady.restored();
            steady.asked(1.0, 1.0, 100.0);
            assert_eq!(steady.share().to_bits(), 1_f64.to_bits());
        }
    }
}
