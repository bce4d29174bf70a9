//! A buffer's bytes: taken, given back, never exceeded.
//! Room: onefold-array.
//! Invariants: what is taken never exceeds the limit; what does not fit is held back by the
//! caller, never lost.

/// Bytes of a buffer.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u64,
    used: u64,
    peak: u64,
}

impl Budget {
    /// An empty buffer.
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: 0, peak: 0 }
    }

    /// Takes bytes if they fit.
    #[must_use]
    pub fn try_take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.limit - self.used;
        if fits {
            self.used += bytes;
            self.peak = self.peak.max(self.used);
        }
        fits
    }

    /// Gives bytes back that were taken.
    pub fn give(&mut self, bytes: u64) {
        assert!(bytes <= self.used, "{bytes} bytes come back of {} that were taken", self.used);
        self.used -= bytes;
    }

    /// Bytes taken now.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Most bytes ever taken.
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// Bytes in all.
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let mut budget = Budget::new(10);
        assert!(budget.try_take(7));
        assert!(!budget.try_take(4));
        assert!(budget.try_take(3));
        budget.give(7);
        assert_eq!((budget.used(), budget.peak(), budget.limit()), (3, 10, 10));
    }
}
