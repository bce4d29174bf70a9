//! Named random streams: every component draws from its own, derived from one root seed by name.
//! Room: onefold-sim.
//! Invariants: (1) a stream depends on the root seed and its name only, never on who else drew
//! (2) the same draws on every machine  (3) probabilities are ratios of integers.

use std::fmt;

use onefold_block::SplitMix64;

use crate::elementary;
use crate::time::SimSpan;

/// A fraction of two integers, at most 1 where it is a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

/// No fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RatioError {
    /// Division by zero.
    #[error("ratio {numerator}/0: expected a denominator above zero")]
    Denominator {
        /// The numerator given.
        numerator: u64,
    },
    /// A probability above 1.
    #[error("ratio {got} is above 1: expected a share from 0 to 1")]
    AboveOne {
        /// The ratio given.
        got: Ratio,
    },
}

impl Ratio {
    /// Never.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    /// Always.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator` / `denominator`; the denominator must not be zero.
    pub const fn new(numerator: u64, denominator: u64) -> Result<Self, RatioError> {
        if denominator == 0 {
            return Err(RatioError::Denominator { numerator });
        }
        Ok(Self { numerator, denominator })
    }

    /// So many thousandths.
    pub const fn permille(thousandths: u64) -> Self {
        Self { numerator: thousandths, denominator: 1000 }
    }

    /// So many hundredths.
    pub const fn percent(hundredths: u64) -> Self {
        Self { numerator: hundredths, denominator: 100 }
    }

    /// Upper part of the fraction.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Lower part of the fraction, never zero.
    pub const fn denominator(self) -> u64 {
        self.denominator
    }

    /// This ratio if it is a share, 0 to 1.
    pub const fn share(self) -> Result<Self, RatioError> {
        if self.numerator > self.denominator {
            return Err(RatioError::AboveOne { got: self });
        }
        Ok(self)
    }

    /// The share that is left, for a ratio of at most 1.
    #[must_use]
    pub fn complement(self) -> Self {
        let rest = self.denominator.checked_sub(self.numerator).expect("a share is at most 1");
        Self { numerator: rest, denominator: self.denominator }
    }

    /// This share of `count`, rounded to the nearest integer.
    pub fn of(self, count: u64) -> u64 {
        let product = u128::from(self.numerator) * u128::from(count);
        let half = u128::from(self.denominator / 2);
        u64::try_from((product + half) / u128::from(self.denominator))
            .expect("a share of a count is no larger than the count")
    }

    /// The ratio as a number, for reports.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// The root seed of a run, from which every stream is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomStreams {
    root: u64,
}

impl RandomStreams {
    /// The streams of a root seed.
    pub const fn new(root: u64) -> Self {
        Self { root }
    }

    /// The root seed.
    pub const fn root(self) -> u64 {
        self.root
    }

    /// The stream of this name: always the same for the same root and name.
    pub fn stream(self, name: &str) -> RandomStream {
        // FNV-1a over the name; one SplitMix64 step each spreads root and name over all bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let root = SplitMix64::new(self.root).next_u64();
        let seed = SplitMix64::new(root ^ hash).next_u64();
        RandomStream { source: SplitMix64::new(seed) }
    }
}

/// One component's random numbers.
#[derive(Clone, Debug)]
pub struct RandomStream {
    source: SplitMix64,
}

impl RandomStream {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.source.next_u64()
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.source.below(bound)
    }

    /// True with this probability, exactly to 1 / 2^64.
    pub fn chance(&mut self, probability: Ratio) -> bool {
        self.below(probability.denominator) < probability.numerator
    }

    /// A number in (0, 1], a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A span with this mean from the exponential distribution, rounded to nanoseconds; at most
    /// 36.7 times the mean.
    pub fn exponential(&mut self, mean: SimSpan) -> SimSpan {
        let factor = -elementary::ln(self.unit());
        SimSpan::from_ns((factor * mean.ns() as f64 + 0.5) as u64)
    }

    /// Puts a slice into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_count_is_rounded_to_the_nearest() {
        let of =
            |numerator, denominator, count| Ratio::new(numerator, denominator).unwrap().of(count);
        assert_eq!([of(1, 4, 1), of(1, 4, 2), of(1, 4, 5), of(1, 4, 6)], [0, 1, 1, 2]);
        assert_eq!([of(1, 3, 1), of(1, 3, 2), of(2, 2, 7), of(0, 9, 7)], [0, 1, 7, 0]);
    }

    #[test]
    fn a_stream_depends_on_root_and_name_only() {
        let streams = RandomStreams::new(7);
        let mut arrivals = streams.stream("arrivals");
        let first: Vec<u64> = (0..4).map(|_| arrivals.next_u64()).collect();
        let mut other = streams.stream("service");
        other.next_u64();
        let mut again = streams.stream("arrivals");
        assert_eq!(first, (0..4).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(first[0], streams.stream("arrivalz").next_u64());
        assert_ne!(first[0], RandomStreams::new(8).stream("arrivals").next_u64());
    }

    #[test]
    fn draws_are_pinned_for_every_machine() {
        let mut stream = RandomStreams::new(1).stream("pinned");
        let drawn: Vec<u64> =
            (0..4).map(|_| stream.exponential(SimSpan::from_ms(1)).ns()).collect();
        assert_eq!(drawn, PINNED);
    }

    /// Computed with another language's `SplitMix64` and logarithm.
    const PINNED: [u64; 4] = [332_237, 217_609, 121_370, 1_105_238];

    #[test]
    fn exponential_spans_have_their_mean_and_variance() {
        let mut stream = RandomStreams::new(3).stream("exponential");
        let (mut sum, mut squares) = (0.0, 0.0);
        let n = 200_000;
        for _ in 0..n {
            let x = stream.exponential(SimSpan::from_ns(1_000_000)).ns() as f64 / 1e6;
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let variance = squares / f64::from(n) - mean * mean;
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn ratios_are_checked_and_exact() {
        assert!(Ratio::new(1, 0).unwrap_err().to_string().contains("1/0"));
        assert!(Ratio::new(3, 2).unwrap().share().unwrap_err().to_string().contains("3/2"));
        assert_eq!(Ratio::permille(126).of(1000), 126);
        assert_eq!(Ratio::percent(30).complement().of(10), 7);
        let mut stream = RandomStreams::new(3).stream("chance");
        let hits = (0..100_000).filter(|_| stream.chance(Ratio::percent(30))).count();
        assert!((29_300..30_700).contains(&hits), "{hits}");
        assert!((0..100).all(|_| stream.chance(Ratio::ONE) && !stream.chance(Ratio::ZERO)));
    }

    #[test]
    fn shuffling_keeps_every_item_and_favours_no_order() {
        let mut stream = RandomStreams::new(5).stream("shuffle");
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut items = [1, 2, 3];
            stream.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
