//! Zipf-distributed ranks, for any exponent and any number of items, without tables.
//! Room: onefold-sim.
//! Source: Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6(3), 1996; with the integral written so that an exponent
//! of 1 is no special case.
//! Cost: O(1) memory, about 1.1 tries per rank.

use crate::elementary::{exp, exp_m1_over, ln, ln_1p_over};
use crate::random::{RandomStream, Ratio};

/// Ranks 0 (most frequent) to n - 1 with P(rank) proportional to 1 / (rank + 1)^exponent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    items: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    squeeze: f64,
}

/// A distribution that cannot be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZipfError {
    /// None, or more than can be told apart.
    #[error("{got} items: expected 1 to 2^40")]
    Items {
        /// The number asked for.
        got: u64,
    },
    /// Beyond what the arithmetic carries.
    #[error("Zipf exponent {got}: expected 0 to 10")]
    Exponent {
        /// The exponent asked for.
        got: Ratio,
    },
}

impl Zipf {
    /// Most items, 2^40: 4 PiB of 4 KiB pages.
    pub const ITEMS_MAX: u64 = 1 << 40;
    /// Largest exponent.
    pub const EXPONENT_MAX: u64 = 10;

    /// The distribution over `items` ranks; an exponent of 0 is the uniform one.
    pub fn new(items: u64, exponent: Ratio) -> Result<Self, ZipfError> {
        if items == 0 || items > Self::ITEMS_MAX {
            return Err(ZipfError::Items { got: items });
        }
        let limit = u128::from(exponent.denominator()) * u128::from(Self::EXPONENT_MAX);
        if u128::from(exponent.numerator()) > limit {
            return Err(ZipfError::Exponent { got: exponent });
        }
        let mut zipf = Self {
            items,
            exponent: exponent.as_f64(),
            integral_first: 0.0,
            integral_last: 0.0,
            squeeze: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(items as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        Ok(zipf)
    }

    /// The number of ranks.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// The probabilities of all ranks, in their order. Cost: two powers per item.
    pub fn probabilities(&self) -> Vec<f64> {
        let weight = |rank: u64| self.density(rank as f64);
        let total: f64 = (1..=self.items).map(weight).sum();
        (1..=self.items).map(|rank| weight(rank) / total).collect()
    }

    /// A rank from 0 to `items - 1`.
    pub fn sample(&self, stream: &mut RandomStream) -> u64 {
        loop {
            let u = self.integral_last + stream.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.items);
            let k = rank as f64;
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return rank - 1;
            }
        }
    }

    /// x^-exponent.
    fn density(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// (x^(1 - exponent) - 1) / (1 - exponent), or ln x for an exponent of 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        exp_m1_over((1.0 - self.exponent) * log) * log
    }

    fn integral_inverse(&self, y: f64) -> f64 {
        // Rounding may push the argument of the logarithm just below 0, whose image is far out.
        let t = (y * (1.0 - self.exponent)).max(-1.0 + 1e-15);
        exp((ln_1p_over(t) * y).clamp(-700.0, 700.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::RandomStreams;

    /// Pearson's statistic of many draws against the exact probabilities.
    fn chi_square(items: usize, exponent: Ratio) -> f64 {
        let zipf = Zipf::new(items as u64, exponent).unwrap();
        let mut stream = RandomStreams::new(11).stream("zipf");
        let mut counts = vec![0_u32; items];
        let draws = 100_000;
        for _ in 0..draws {
            counts[zipf.sample(&mut stream) as usize] += 1;
        }
        let weight = |rank: usize| ((rank + 1) as f64).powf(-exponent.as_f64());
        let total: f64 = (0..items).map(weight).sum();
        let expected = |rank| f64::from(draws) * weight(rank) / total;
        for (rank, said) in zipf.probabilities().into_iter().enumerate() {
            assert!((said - weight(rank) / total).abs() < 1e-12, "{said} for {rank}");
        }
        let term =
            |(rank, &n): (usize, &u32)| (f64::from(n) - expected(rank)).powi(2) / expected(rank);
        counts.iter().enumerate().map(term).sum()
    }

    #[test]
    fn ranks_follow_the_law_for_every_kind_of_exponent() {
        for permille in [0, 470, 800, 999, 1000, 1001, 1200, 2000] {
            // 19 degrees of freedom: 43.8 is passed once in a thousand.
            let got = chi_square(20, Ratio::permille(permille));
            assert!(got < 43.8, "exponent {permille}/1000: {got}");
        }
    }

    #[test]
    fn the_extremes_stay_in_range() {
        let mut stream = RandomStreams::new(2).stream("extremes");
        for (items, exponent) in
            [(1, 1000), (2, 10_000), (Zipf::ITEMS_MAX, 0), (Zipf::ITEMS_MAX, 10_000), (3, 1)]
        {
            let zipf = Zipf::new(items, Ratio::permille(exponent)).unwrap();
            assert!((0..2_000).all(|_| zipf.sample(&mut stream) < items));
        }
        assert!(Zipf::new(0, Ratio::ONE).is_err());
        assert!(Zipf::new(Zipf::ITEMS_MAX + 1, Ratio::ONE).is_err());
        assert!(Zipf::new(9, Ratio::permille(10_001)).is_err());
    }
}
