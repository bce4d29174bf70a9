//! The cache of the table from fingerprint to place: buckets of it in memory.
//! Room: onefold-array.
//! Source: [ajdari-talk], CIDR+ ("dedup table cache"); policies are those of `onefold-cache`.
//! Invariants: a bucket that was changed is written before it is given up.

use onefold_block::SplitMix64;
use onefold_cache::{Capacity, OptionError, Policy, make_online};

use super::contents::Content;

/// What a look-up cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUp {
    /// Buckets read from the table's drives: 0 or 1.
    pub reads: u32,
    /// Changed buckets written to them.
    pub writes: u32,
}

/// The cache, and which of its buckets were changed.
pub struct TableCache {
    policy: Box<dyn Policy>,
    bucket_bytes: u32,
    buckets: u64,
    changed: Vec<u64>,
    hits: u64,
    misses: u64,
}

impl TableCache {
    /// A cache of `cache_bytes` over a table of `buckets` buckets. It starts full of what fits, so
    /// that a table that fits is never read.
    ///
    /// # Errors
    /// The policy's name or options.
    pub fn new(
        policy: &str,
        cache_bytes: u64,
        bucket_bytes: u64,
        buckets: u64,
        seed: u64,
    ) -> Result<Self, OptionError> {
        let fits = (cache_bytes / bucket_bytes).min(buckets) as usize;
        let capacity = Capacity { bytes: cache_bytes, objects: fits };
        let mut policy = make_online(policy, capacity, seed)?;
        let bucket_bytes = bucket_bytes as u32;
        for bucket in 0..fits as u64 {
            policy.access(bucket, bucket_bytes);
        }
        let changed = vec![0; buckets.div_ceil(64) as usize];
        Ok(Self { policy, bucket_bytes, buckets, changed, hits: 0, misses: 0 })
    }

    /// Looks a fingerprint up, and enters it if it is `new`.
    pub fn look_up(&mut self, content: Content, new: bool) -> LookUp {
        let mixed = SplitMix64::new(u64::from(content) ^ 0xf1d0).next_u64();
        let bucket = ((u128::from(mixed) * u128::from(self.buckets)) >> 64) as u64;
        let decision = self.policy.access(bucket, self.bucket_bytes);
        let mut cost = LookUp { reads: u32::from(!decision.hit), writes: 0 };
        let kept = decision.hit || decision.admit;
        *(if decision.hit { &mut self.hits } else { &mut self.misses }) += 1;
        for &victim in decision.evicted {
            let word = &mut self.changed[victim as usize / 64];
            cost.writes += u32::from(*word >> (victim % 64) & 1 == 1);
            *word &= !(1 << (victim % 64));
        }
        if new {
            if kept {
                self.changed[bucket as usize / 64] |= 1 << (bucket % 64);
            } else {
                cost.writes += 1;
            }
        }
        cost
    }

    /// Look-ups answered from memory, and all others.
    pub const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Forgets the count so far.
    pub fn restart_count(&mut self) {
        (self.hits, self.misses) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_fits_is_never_read_and_changes_are_written_once() {
        let mut whole = TableCache::new("lru", 100 * 4096, 4096, 100, 1).unwrap();
        assert!((0..1000).all(|c| whole.look_up(c, true) == LookUp::default()));
        assert_eq!(whole.hits_and_misses(), (1000, 0));
        let mut part = TableCache::new("lru", 10 * 4096, 4096, 100, 1).unwrap();
        let mut reads = 0;
        let mut writes = 0;
        for content in 0..5000 {
            let cost = part.look_up(content, content % 2 == 0);
            reads += u64::from(cost.reads);
            writes += u64::from(cost.writes);
        }
        let (hits, misses) = part.hits_and_misses();
        assert_eq!((hits + misses, reads), (5000, misses));
        assert!((0.08..0.12).contains(&(hits as f64 / 5000.0)), "{hits}");
        assert!(writes > 2000 && writes <= 2500, "{writes}");
    }
}
