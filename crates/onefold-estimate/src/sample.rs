//! From the distinct chunks of a sample to totals and their 95 % intervals.
//! Room: onefold-estimate.   In: entries kept with probability `2^-level`.   Out: estimates.
//! Source: [horvitz-thompson-52] for totals: sum over the sample divided by the probability.
//! Intervals: delete-a-group jackknife ([kott-01]) over 64 groups made by other bits of the
//! fingerprint, with the finite-population factor `1 - 2^-level`. It serves ratios of totals as
//! well as totals. Every distinct chunk weighs about the same here, however often it occurs, so no
//! single chunk can throw the estimate off: what depends on how often chunks occur (all bytes, zero
//! bytes) is counted exactly aside.
//! Invariants: at level 0 estimates are exact and there are no intervals.

use std::array;

use crate::options::PARTS;
use crate::report::Interval;
use crate::table::{Entry, is_known};

/// Student's t for 95 % and 63 degrees of freedom.
const T_95: f64 = 1.9983;

// Sums over distinct chunks.
/// Distinct chunks.
pub(crate) const FPS: usize = 0;
/// Bytes of them.
pub(crate) const BYTES: usize = 1;
/// Those that occur at least twice.
pub(crate) const DUPLICATED: usize = 2;
/// Those that occur at least three times: the hot ones of SES-Dedup, table III.
pub(crate) const HOT: usize = 3;
/// Bytes of those that occur exactly twice: also the redundant bytes that these cause.
pub(crate) const COLD_BYTES: usize = 4;
/// Stored bytes under the first compression; the others follow.
pub(crate) const STORED: usize = 5;
const SUMS: usize = STORED + 4;

pub(crate) type Sums = [f64; SUMS];

/// Sums of a sample, group by group.
pub(crate) struct Sample {
    groups: Vec<[u64; SUMS]>,
    level: u8,
}

impl Sample {
    pub(crate) fn new(level: u8) -> Self {
        Self { groups: vec![[0; SUMS]; PARTS], level }
    }

    pub(crate) fn add(&mut self, group: usize, entry: &Entry<'_>) {
        let sums = &mut self.groups[group];
        let len = u64::from(entry.len);
        sums[FPS] += 1;
        sums[BYTES] += len;
        sums[DUPLICATED] += u64::from(entry.count >= 2);
        sums[HOT] += u64::from(entry.count >= 3);
        sums[COLD_BYTES] += if entry.count == 2 { len } else { 0 };
        for (codec, &stored) in entry.stored.iter().enumerate() {
            sums[STORED + codec] += if is_known(stored) { u64::from(stored) } else { len };
        }
    }

    /// One distinct chunk in this many is in the sample.
    pub(crate) fn one_in(&self) -> u64 {
        1 << self.level
    }

    /// Distinct chunks in the sample.
    pub(crate) fn len(&self) -> u64 {
        self.groups.iter().map(|sums| sums[FPS]).sum()
    }

    fn sums(&self, left_out: Option<usize>) -> Sums {
        let mut sums = [0u64; SUMS];
        for (number, group) in self.groups.iter().enumerate() {
            if Some(number) != left_out {
                (0..SUMS).for_each(|i| sums[i] += group[i]);
            }
        }
        let groups = PARTS as f64;
        let missing = if left_out.is_some() { groups / (groups - 1.0) } else { 1.0 };
        array::from_fn(|i| sums[i] as f64 * self.one_in() as f64 * missing)
    }

    /// The estimate of what `of` computes from the sums of all distinct chunks.
    pub(crate) fn estimate(&self, of: impl Fn(&Sums) -> f64) -> f64 {
        of(&self.sums(None))
    }

    /// The estimated sum `which`, rounded; exact at level 0.
    pub(crate) fn total(&self, which: usize) -> u64 {
        self.groups.iter().map(|sums| sums[which]).sum::<u64>().saturating_mul(self.one_in())
    }

    /// The 95 % interval around an estimate; none where it is exact.
    pub(crate) fn interval(&self, of: impl Fn(&Sums) -> f64) -> Option<Interval> {
        if self.level == 0 {
            return None;
        }
        let groups = PARTS as f64;
        let without: Vec<f64> = (0..PARTS).map(|g| of(&self.sums(Some(g)))).collect();
        let mean = without.iter().sum::<f64>() / groups;
        let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
        let unsampled = 1.0 - 1.0 / self.one_in() as f64;
        let half = T_95 * ((groups - 1.0) / groups * squares * unsampled).sqrt();
        let value = self.estimate(of);
        Some(Interval { low: value - half, high: value + half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Scratch, Seen, Table};
    use crate::walk::hash_bytes;

    /// A population of distinct chunks: (fingerprint, count, length, stored).
    fn population(seed: u64, size: u64) -> Vec<(u64, u64, u32, u32)> {
        let seed = hash_bytes(seed, b"population");
        let one = |i: u64| {
            let random = |purpose: u64| hash_bytes(seed ^ purpose << 56, &i.to_le_bytes());
            // Counts with a heavy tail, lengths and stored sizes that go together.
            let count = 1 + (1u64 << (random(1) % 64).leading_zeros().saturating_sub(58)) / 2;
            let len = 512 + (random(2) % 8000) as u32;
            (random(3), count, len, len / (1 + (random(4) % 4) as u32))
        };
        (0..size).map(one).collect()
    }

    fn sample(population: &[(u64, u64, u32, u32)], capacity: u64) -> Sample {
        let table = Table::new(capacity, Some(1));
        let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
        for &(fp, count, len, stored) in population {
            let batch = vec![Seen { fp, len, file: 0, group: 0 }; count as usize];
            table.observe(&batch, &mut scratch, &mut fresh);
            table.set_stored(fp, 0, stored);
        }
        let mut sample = Sample::new(table.level());
        table.visit(|group, entry| sample.add(group, entry));
        sample
    }

    #[test]
    fn without_sampling_everything_is_exact() {
        let population = population(7, 500);
        let sample = sample(&population, 1000);
        assert_eq!(sample.total(FPS), 500);
        let bytes: u64 = population.iter().map(|row| u64::from(row.2)).sum();
        assert_eq!(sample.total(BYTES), bytes);
        assert!(sample.interval(|sums| sums[BYTES]).is_none());
    }

    /// With all of a sample in one group, leaving that one out leaves nothing, and each of the
    /// others leaves 64/63 of it: by [kott-01] the half width is the total, times t, times the
    /// root of what was not sampled.
    #[test]
    fn an_interval_of_one_group_is_known_beforehand() {
        for (level, unsampled) in [(1, 1.0 / 2.0), (2, 3.0 / 4.0), (5, 31.0 / 32.0)] {
            let mut sample = Sample::new(level);
            let entry = Entry { fp: 0, count: 3, len: 1000, first: 0, group: 0, stored: &[10] };
            sample.add(5, &entry);
            let total = 1000.0 * f64::from(1u32 << level);
            assert_eq!((sample.one_in(), sample.len()), (1 << level, 1));
            assert!((sample.estimate(|sums| sums[BYTES]) - total).abs() < 1e-9);
            let Interval { low, high } = sample.interval(|sums| sums[BYTES]).unwrap();
            let half = total * 1.9983 * f64::sqrt(unsampled);
            assert!((low - (total - half)).abs() < 1e-6 * total, "{low} at level {level}");
            assert!((high - (total + half)).abs() < 1e-6 * total, "{high} at level {level}");
        }
    }

    #[test]
    fn each_sum_counts_what_its_name_says() {
        let mut sample = Sample::new(0);
        let lens = [(1, 10), (2, 200), (3, 3000), (9, 40_000)];
        for (group, (count, len)) in lens.into_iter().enumerate() {
            let stored = &[len - 1, UNKNOWN_STORED];
            sample.add(group, &Entry { fp: 0, count, len, first: 0, group: 0, stored });
        }
        let sums = [FPS, BYTES, DUPLICATED, HOT, COLD_BYTES, STORED, STORED + 1, STORED + 2];
        assert_eq!(sums.map(|sum| sample.total(sum)), [4, 43_210, 3, 2, 200, 43_206, 43_210, 0]);
        assert_eq!((sample.one_in(), sample.len()), (1, 4));
    }

    /// As of a chunk whose size under a compression was not found out.
    const UNKNOWN_STORED: u32 = u32::MAX;

    /// The law that the intervals are sold under: in 400 seeded trials each holds the truth in
    /// at least 91 % (95 % are expected, with a standard error of 1.1 %), and is not so wide as
    /// to be idle: at most 99 %.
    #[test]
    fn intervals_hold_the_truth() {
        const TRIALS: u64 = 400;
        type Of = fn(&Sums) -> f64;
        let statistics: [(&str, Of); 5] = [
            ("distinct chunks", |sums| sums[FPS]),
            ("distinct bytes", |sums| sums[BYTES]),
            ("stored bytes", |sums| sums[STORED]),
            ("compression", |sums| sums[BYTES] / sums[STORED]),
            ("hot share", |sums| sums[HOT] / sums[DUPLICATED]),
        ];
        let mut held = [0; 5];
        for seed in 0..TRIALS {
            let population = population(seed, 6000 + seed * 40);
            let mut truth = [0.0; SUMS];
            for &(_, count, len, stored) in &population {
                truth[FPS] += 1.0;
                truth[BYTES] += f64::from(len);
                truth[STORED] += f64::from(stored);
                truth[DUPLICATED] += f64::from(u8::from(count >= 2));
                truth[HOT] += f64::from(u8::from(count >= 3));
            }
            let sample = sample(&population, 1500);
            assert!(sample.one_in() >= 4);
            for (held, (_, of)) in held.iter_mut().zip(statistics) {
                let Interval { low, high } = sample.interval(of).unwrap();
                *held += u64::from(low <= of(&truth) && of(&truth) <= high);
            }
        }
        for (held, (name, _)) in held.into_iter().zip(statistics) {
            assert!((TRIALS * 91 / 100..=TRIALS * 99 / 100).contains(&held), "{name}: {held}");
        }
    }
}
