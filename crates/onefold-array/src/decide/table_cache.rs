//! The cache of the table from fingerprint to place: buckets of it in memory.
//! Room: onefold-array.
//! Source: [ajdari-talk], CIDR+ ("dedup table cache"); policies are those of `onefold-cache`.
//! Invariants: a bucket that was changed is written before it is given up; without `sample_one_in`
//! and with any filter, all that is stored is found.

use onefold_cache::{Capacity, OptionError, Policy, make_online};

use super::contents::Content;
use super::index::{LookUp, Moves, is_sampled, mixed};
use crate::spec::TableSpec;

/// What each bit for an entry leaves of the errors of a Bloom filter of the best shape:
/// 2^(-ln 2).
const BLOOM: f64 = 0.618_503;

/// The cache, and which of its buckets were changed.
pub struct TableCache {
    policy: Box<dyn Policy>,
    bucket_bytes: u32,
    buckets: u64,
    changed: Vec<u64>,
    /// Of buckets that are not in memory, those of one fingerprint in so many are read,
    one_in: u64,
    /// and all for so many look-ups after a chunk was found,
    follow: u64,
    followed: u64,
    /// but none of those for which the filter says that they are new: it errs for so many of
    /// 2^64, for all without a filter.
    filter_errs: u64,
}

impl TableCache {
    /// A cache over the buckets of a table. It starts full of what fits, so that a table that fits
    /// is never read.
    ///
    /// # Errors
    /// The policy's name or options.
    pub fn new(table: &TableSpec, seed: u64) -> Result<Self, OptionError> {
        let buckets = table.pages();
        let bytes = table.page_cache_bytes();
        let fits = (bytes / table.bucket_bytes).min(buckets) as usize;
        let capacity = Capacity { bytes, objects: fits };
        let mut policy = make_online(&table.policy, capacity, seed)?;
        let bucket_bytes = table.bucket_bytes as u32;
        for bucket in 0..fits as u64 {
            policy.access(bucket, bucket_bytes);
        }
        Ok(Self {
            policy,
            bucket_bytes,
            buckets,
            changed: vec![0; buckets.div_ceil(64) as usize],
            one_in: table.sample_one_in,
            follow: table.follow_chunks,
            followed: 0,
            filter_errs: (BLOOM.powf(table.filter_bits) * u64::MAX as f64) as u64,
        })
    }

    /// Looks a fingerprint up, and enters it if it is not found. `stored` is the truth.
    pub fn look_up(&mut self, content: Content, stored: bool, moves: &mut Moves) -> LookUp {
        let place = mixed(content, 0xf1d0);
        let bucket = ((u128::from(place) * u128::from(self.buckets)) >> 64) as u64;
        if !self.is_asked(content, bucket, stored) {
            self.followed = self.followed.saturating_sub(1);
            // The entry is put into its bucket without reading it: what that takes is not counted
            // against a table that reads less.
            moves.write(bucket);
            return LookUp { found: false, reads: 0, writes: 1 };
        }
        self.followed = if stored { self.follow } else { self.followed.saturating_sub(1) };
        let decision = self.policy.access(bucket, self.bucket_bytes);
        let mut cost = LookUp { found: stored, reads: u32::from(!decision.hit), writes: 0 };
        if !decision.hit {
            moves.read(bucket);
        }
        let kept = decision.hit || decision.admit;
        for &victim in decision.evicted {
            let word = &mut self.changed[victim as usize / 64];
            if *word >> (victim % 64) & 1 == 1 {
                cost.writes += 1;
                moves.write(victim);
            }
            *word &= !(1 << (victim % 64));
        }
        if !stored {
            if kept {
                self.changed[bucket as usize / 64] |= 1 << (bucket % 64);
            } else {
                cost.writes += 1;
                moves.write(bucket);
            }
        }
        cost
    }

    /// Whether a bucket is looked into: always, unless it is not in memory and need not be read.
    fn is_asked(&self, content: Content, bucket: u64, stored: bool) -> bool {
        let says_stored = stored || mixed(content, 0xb100 << 32) <= self.filter_errs;
        let read = says_stored && (self.followed > 0 || is_sampled(content, self.one_in));
        read || self.policy.contains(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    fn table(cached: u64, more: &[&str]) -> TableCache {
        let builder = SpecBuilder::preset("cidr+").unwrap();
        // 100 buckets.
        let bytes = (cached * 4096).max(1);
        let set = ["table.entries=10700", &format!("table.cache_bytes={bytes}")];
        let all = set.iter().chain(more);
        let spec = all.fold(builder, |builder, set| builder.set(set).unwrap());
        TableCache::new(&spec.build().unwrap().table, 1).unwrap()
    }

    #[test]
    fn a_table_that_fits_is_never_read_and_changes_are_written_once() {
        let mut whole = table(100, &[]);
        assert!((0..1000).all(
            |content| whole.look_up(content, false, &mut Moves::default()) == LookUp::default()
        ));
        let mut part = table(10, &[]);
        let (mut reads, mut writes) = (0, 0);
        for content in 0..5000 {
            let cost = part.look_up(content, content % 2 == 1, &mut Moves::default());
            assert_eq!(cost.found, content % 2 == 1);
            reads += cost.reads;
            writes += cost.writes;
        }
        let hits = 5000 - reads;
        assert!((0.08..0.12).contains(&(f64::from(hits) / 5000.0)), "{hits}");
        assert!(writes > 2000 && writes <= 2500, "{writes}");
    }

    #[test]
    fn a_table_without_memory_is_read_for_each_look_up() {
        let mut none = table(0, &[]);
        let mut reads = |content| none.look_up(content, true, &mut Moves::default()).reads;
        assert!((0..100).chain(0..100).all(|content| reads(content) == 1));
    }

    /// Reads and what was found of 4000 new chunks and the same once more.
    fn twice(more: &[&str]) -> (u32, u32) {
        let mut table = table(10, more);
        let asked = (0..4000).map(|content| (content, false));
        let costs = asked.chain((0..4000).map(|content| (content, true)));
        costs.fold((0, 0), |(reads, found), (content, stored)| {
            let cost = table.look_up(content, stored, &mut Moves::default());
            (reads + cost.reads, found + u32::from(cost.found))
        })
    }

    #[test]
    fn fewer_reads_find_less_and_a_filter_reads_for_what_is_there() {
        let (reads, found) = twice(&[]);
        assert!((7000..7400).contains(&reads) && found == 4000, "{reads} {found}");
        // One bucket in ten is in memory, and of the others one in eight is read.
        let (reads, found) = twice(&["table.sample_one_in=8"]);
        assert!((800..1000).contains(&reads) && (750..950).contains(&found), "{reads} {found}");
        // 10 bits for each of 10,700 entries, three buckets' worth: one new chunk in 122 is read.
        let (reads, found) = twice(&["table.filter_bits=10"]);
        assert!((3650..3850).contains(&reads) && found == 4000, "{reads} {found}");
        // Once one is found, the next are.
        let (reads, found) = twice(&["table.sample_one_in=8", "table.follow_chunks=100"]);
        assert!(reads > 3500 && found > 3950, "{reads} {found}");
    }
}
