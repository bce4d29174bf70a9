//! Latencies counted in buckets that grow with them.
//! Room: onefold-sim.
//! Invariants: count, sum, smallest and largest are exact; a percentile is the middle of a bucket
//! that is at most 1/128 of its value wide, so it is off by at most 0.4 %, and below 256 exact.
//! Cost: 58 KiB; one increment per value.

/// Values of one octave fall into 2^7 buckets.
const BITS: u32 = 7;
const PER_OCTAVE: usize = 1 << BITS;
/// Exact values up to twice that, then 56 octaves.
const BUCKETS: usize = 2 * PER_OCTAVE + (64 - BITS as usize - 1) * PER_OCTAVE;

/// A log-linear histogram of 64-bit values.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

const fn bucket(value: u64) -> usize {
    let shift = (64 - value.leading_zeros()).saturating_sub(BITS + 1);
    shift as usize * PER_OCTAVE + (value >> shift) as usize
}

/// The middle of a bucket.
const fn middle(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / PER_OCTAVE - 1;
    let low = ((bucket % PER_OCTAVE + PER_OCTAVE) as u64) << shift;
    low + (1 << (shift - 1))
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts all that another one has counted, too.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(to, from)| *to += from);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Values counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest value; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The value that so many of a million values do not exceed; `None` without values.
    pub fn quantile(&self, per_million: u64) -> Option<u64> {
        let rank = u128::from(self.count) * u128::from(per_million);
        let rank = rank.div_ceil(1_000_000).max(1) as u64;
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                return Some(middle(at).clamp(self.min, self.max));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::SplitMix64;

    #[test]
    fn buckets_tile_the_numbers() {
        for value in (0..5000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX, u64::MAX - 1]) {
            let at = bucket(value);
            assert!(at < BUCKETS);
            let error = middle(at).abs_diff(value);
            assert!(u128::from(error) * 250 <= u128::from(value), "{value}: {}", middle(at));
            assert!(value == u64::MAX || bucket(value + 1) - at <= 1, "{value}");
        }
    }

    #[test]
    fn the_last_of_more_than_a_million_is_the_last() {
        let mut histogram = Histogram::default();
        (0..1_000_000).for_each(|_| histogram.add(1));
        histogram.add(50);
        assert_eq!([999_999, 1_000_000].map(|rank| histogram.quantile(rank)), [Some(1), Some(50)]);
    }

    #[test]
    fn percentiles_agree_with_a_sorted_list() {
        let mut random = SplitMix64::new(5);
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(500_000), histogram.max()), (None, None));
        let mut list: Vec<u64> = (0..10_007).map(|_| random.below(1 << 30)).collect();
        for &value in &list {
            histogram.add(value);
        }
        list.sort_unstable();
        for per_million in [0, 1, 500_000, 900_000, 990_000, 999_000, 1_000_000] {
            let rank = (list.len() as u64 * per_million).div_ceil(1_000_000).max(1);
            let want = list[rank as usize - 1];
            let got = histogram.quantile(per_million).expect("not empty");
            assert!(got.abs_diff(want) * 250 <= want, "{per_million}: {got} is not {want}");
        }
        assert_eq!(histogram.max(), list.last().copied());
        let mean = list.iter().sum::<u64>() as f64 / list.len() as f64;
        assert!((histogram.mean().expect("not empty") - mean).abs() < 1e-3);
    }

    #[test]
    fn two_that_are_merged_are_one_that_counted_everything() {
        let mut random = SplitMix64::new(6);
        let mut each = [Histogram::default(), Histogram::default()];
        let mut all = Histogram::default();
        for number in 0..4001 {
            let value = random.below(1 << (10 + number % 30));
            each[number % 2].add(value);
            all.add(value);
        }
        let [mut merged, other] = each;
        merged.merge(&other);
        merged.merge(&Histogram::default());
        assert_eq!((merged.count(), merged.mean(), merged.max()), (4001, all.mean(), all.max()));
        for per_million in (0..=1_000_000).step_by(10_000) {
            assert_eq!(merged.quantile(per_million), all.quantile(per_million));
        }
    }

    #[test]
    fn of_a_single_value_everything_is_that_value() {
        for value in [0, 1, 77] {
            let mut histogram = Histogram::default();
            assert_eq!((histogram.mean(), histogram.max()), (None, None));
            histogram.add(value);
            assert_eq!((histogram.mean(), histogram.max()), (Some(value as f64), Some(value)));
            for per_million in [0, 500_000, 1_000_000] {
                assert_eq!(histogram.quantile(per_million), Some(value));
            }
        }
    }
}
