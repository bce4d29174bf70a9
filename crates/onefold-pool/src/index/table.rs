//! The shards of an index and their memory.
//! Room: onefold-pool.
//! The low bits of a hash choose the shard; an entry does not hold them. So two shards can become
//! one, but not one two.

use super::arena::{Arena, BLOCK_BUCKETS, BLOCK_BYTES, SLAB_BYTES};
use super::entry::tag_of_hash;
use super::shard::{Candidates, Layout, Shard};

/// A shard's table, if the budget stays as it is: 2^12 buckets leave 11 tag bits to tell eight
/// entries apart.
const SHARD_BYTES: u64 = 256 << 10;
const SHARDS_MIN: u64 = 16;
/// What a block of buckets takes beside it: its number, with room for twice as many, and its part
/// of the arena's own.
const BESIDE_BLOCK_BYTES: usize = 16;
const SHARDS_MAX: u64 = 1 << 16;

/// Shards.
pub struct Table {
    pub shards: Box<[Shard]>,
    pub arena: Arena,
}

/// Shards for a budget.
pub fn shards_for(budget_bytes: u64) -> u64 {
    (budget_bytes / SHARD_BYTES).clamp(SHARDS_MIN, SHARDS_MAX).next_power_of_two()
}

/// Buckets that each of so many shards may have.
pub fn buckets_per_shard(budget_bytes: u64, shards: u64) -> usize {
    let block_bytes = (BLOCK_BYTES + BESIDE_BLOCK_BYTES) as u64;
    let beside = shards * size_of::<Shard>() as u64
        + Layout::bytes_max(budget_bytes / shards)
        + SLAB_BYTES as u64;
    let blocks = budget_bytes.saturating_sub(beside) / block_bytes / shards;
    blocks.max(1) as usize * BLOCK_BUCKETS
}

impl Table {
    /// An empty one of so many shards, a power of two.
    pub fn new(shards: u64) -> Self {
        let shards = (0..shards).map(|_| Shard::default()).collect();
        Self { shards, arena: Arena::default() }
    }

    /// The shard of a hash, and its number.
    pub fn shard(&self, hash: u64) -> (usize, &Shard) {
        let number = hash as usize & (self.shards.len() - 1);
        (number, &self.shards[number])
    }

    /// Places at which the chunk with this hash might be.
    pub fn lookup(&self, hash: u64) -> Candidates {
        self.shard(hash).1.lookup(&self.arena, tag_of_hash(hash))
    }

    /// Bring the buckets of these hashes into the cache: reads that do not depend on each other, so
    /// that the processor makes many of them at the same time.
    pub fn ask_for(&self, hashes: impl Iterator<Item = u64>) {
        let first = |hash| self.shard(hash).1.ask_for(&self.arena, tag_of_hash(hash));
        std::hint::black_box(hashes.fold(0, |all, hash| all ^ first(hash)));
    }

    /// Whether the next growth of a shard may be its last.
    pub fn is_grown_next(&self, number: usize, buckets_max: usize) -> bool {
        self.shards[number].is_grown_next(buckets_max)
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let beside: usize = self.shards.iter().map(Shard::bytes).sum();
        self.arena.bytes() + size_of_val(&*self.shards) + beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_a_block_however_little_there_is() {
        assert_eq!([0, 1 << 10].map(|bytes| buckets_per_shard(bytes, 16)), [BLOCK_BUCKETS; 2]);
    }
}
