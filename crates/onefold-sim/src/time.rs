//! Virtual time: instants and spans in integer nanoseconds.
//! Room: onefold-sim.
//! Invariants: arithmetic never wraps; 2^64 ns are 584 years, and beyond them it panics.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant: nanoseconds since the start of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimSpan(u64);

impl SimTime {
    /// The start of every simulation.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);
    /// The last instant at which something may come from outside, after 292 years. As much time is
    /// left for what becomes of it.
    pub const LAST_ARRIVAL: Self = Self(1 << 63);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The span since `earlier`, which must not be later than this instant.
    #[must_use]
    pub fn since(self, earlier: Self) -> SimSpan {
        SimSpan(self.0.checked_sub(earlier.0).expect("time runs forwards"))
    }
}

impl SimSpan {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A span of `us` microseconds, which must be below 584 years.
    pub const fn from_us(us: u64) -> Self {
        Self(us.checked_mul(1_000).expect("below 584 years"))
    }

    /// A span of `ms` milliseconds, which must be below 584 years.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.checked_mul(1_000_000).expect("below 584 years"))
    }

    /// Nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The time that `bytes` take at `bytes_per_s`, rounded up: a transfer is never free.
    #[must_use]
    pub fn of_transfer(bytes: u64, bytes_per_s: u64) -> Self {
        assert!(bytes_per_s > 0, "nothing is ever transferred at 0 B/s");
        // Below 18 GB the product has a word's bits, which divide several times faster.
        let wide = || {
            let product = u128::from(bytes) * 1_000_000_000;
            u64::try_from(product.div_ceil(bytes_per_s.into())).expect("below 584 years")
        };
        let product = bytes.checked_mul(1_000_000_000);
        let ns = product.map_or_else(wide, |product| product.div_ceil(bytes_per_s));
        Self(ns)
    }
}

impl Add<SimSpan> for SimTime {
    type Output = Self;

    fn add(self, span: SimSpan) -> Self {
        Self(self.0.checked_add(span.0).expect("below 584 years"))
    }
}

impl AddAssign<SimSpan> for SimTime {
    fn add_assign(&mut self, span: SimSpan) {
        *self = *self + span;
    }
}

impl Add for SimSpan {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("below 584 years"))
    }
}

impl AddAssign for SimSpan {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SimSpan {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("spans are never negative"))
    }
}

impl Mul<u64> for SimSpan {
    type Output = Self;

    fn mul(self, count: u64) -> Self {
        Self(self.0.checked_mul(count).expect("below 584 years"))
    }
}

/// Prints nanoseconds in the largest unit that keeps them exact.
fn exact(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fitting = units.iter().find(|(scale, _)| ns != 0 && ns.is_multiple_of(*scale));
    let (scale, unit) = fitting.copied().unwrap_or((1, "ns"));
    f.pad(&format!("{} {unit}", ns / scale))
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        exact(f, self.0)
    }
}

impl fmt::Display for SimSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        exact(f, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_add_up_and_transfers_round_up() {
        let at = SimTime::from_ns(7) + SimSpan::from_us(3) + SimSpan::from_ms(2);
        assert_eq!(at.ns(), 2_003_007);
        let mut sum = SimSpan::from_us(3);
        sum += SimSpan::from_ms(2);
        assert_eq!(sum, SimSpan::from_us(2_003));
        assert_eq!(at.since(SimTime::from_ns(7)), SimSpan::from_us(3) + SimSpan::from_ms(2));
        assert_eq!(SimSpan::from_us(3) * 4 - SimSpan::from_us(2), SimSpan::from_us(10));
        // 8 KiB over 333 MB/s: 24600.6 ns.
        assert_eq!(SimSpan::of_transfer(8192, 333_000_000).ns(), 24_601);
        assert_eq!(SimSpan::of_transfer(0, 1), SimSpan::ZERO);
        // The last product that fits into a word, and the first that does not.
        assert_eq!(SimSpan::of_transfer(18_446_744_073, 1000).ns(), 18_446_744_073_000_000);
        assert_eq!(SimSpan::of_transfer(18_446_744_074, 1000).ns(), 18_446_744_074_000_000);
        assert_eq!(SimSpan::of_transfer(18_446_744_074, 3000).ns(), 6_148_914_691_333_334);
    }

    #[test]
    fn times_print_exactly() {
        for (ns, text) in [(0, "0 ns"), (1_500, "1500 ns"), (2_000, "2 us"), (3_000_000, "3 ms")] {
            assert_eq!(SimTime::from_ns(ns).to_string(), text);
        }
        assert_eq!(SimSpan::from_ms(4_000).to_string(), "4 s");
    }

    #[test]
    #[should_panic(expected = "time runs forwards")]
    fn time_never_runs_backwards() {
        let _ = SimTime::ZERO.since(SimTime::from_ns(1));
    }
}
