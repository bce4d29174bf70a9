//! The fingerprint index: where a chunk with this fingerprint might be.
//! Room: onefold-pool.
//! In: 64 bits of a fingerprint. Out: candidates, which the caller must verify.
//! Invariants: (1) memory never exceeds the budget; (2) below the budget nothing is let go;
//! (3) an entry may be stale: it names a container that is gone, or another chunk.
//! Cost: 8 bytes a chunk in buckets of one cache line, 65 to 82 % full: 11 to 14 bytes a chunk.

mod bucket;
mod shard;
mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_block::ContainerId;

pub use self::shard::Candidates;
use self::shard::Shard;
use crate::pba::CHUNKS_PER_CONTAINER_MAX;

/// Bits of a container number that an entry holds: the newest container with these bits is meant.
const CONTAINER_BITS: u32 = 26;
/// Bits of a chunk's ordinal in its container.
const ORDINAL_BITS: u32 = CHUNKS_PER_CONTAINER_MAX.trailing_zeros();
/// Bits of the fingerprint that an entry holds. They give the bucket, so that tables can grow
/// without the fingerprints at hand, and what is left of them tells entries of a bucket apart.
const TAG_BITS: u32 = 64 - CONTAINER_BITS - ORDINAL_BITS;

/// A shard's largest table: 2^13 buckets leave 12 tag bits to tell seven entries apart.
const SHARD_BYTES_MAX: u64 = 512 << 10;

/// Where a chunk might be: a container's low bits and the chunk's ordinal in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    const MASK: u64 = (1 << (CONTAINER_BITS + ORDINAL_BITS)) - 1;

    /// The place of chunk `ordinal` of a container.
    pub fn new(id: ContainerId, ordinal: u16) -> Self {
        debug_assert!(usize::from(ordinal) < CHUNKS_PER_CONTAINER_MAX);
        Self((u64::from(id.get()) << ORDINAL_BITS | u64::from(ordinal)) & Self::MASK)
    }

    /// The container meant, given that `newest` is the last one made; `None` if there is none.
    pub fn container(self, newest: ContainerId) -> Option<ContainerId> {
        let low = (self.0 >> ORDINAL_BITS) as u32;
        let window = 1u32 << CONTAINER_BITS;
        let candidate = (newest.get() & !(window - 1)) | low;
        let number =
            if candidate <= newest.get() { candidate } else { candidate.checked_sub(window)? };
        (number > 0).then_some(ContainerId::new(number))
    }

    /// The chunk's ordinal in its container.
    pub const fn ordinal(self) -> usize {
        (self.0 & ((1 << ORDINAL_BITS) - 1)) as usize
    }
}

/// The whole index, in shards with a lock each.
pub struct FingerprintIndex {
    shards: Vec<Mutex<Shard>>,
    budget_bytes: u64,
}

/// What the index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Entries held.
    pub entries: u64,
    /// Entries let go because the budget was used up.
    pub let_go: u64,
    /// Memory in use, in bytes.
    pub bytes: u64,
    /// Memory that may be used, in bytes.
    pub budget_bytes: u64,
}

impl FingerprintIndex {
    /// An empty index that will never use more than `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        let shards = (budget_bytes / SHARD_BYTES_MAX).clamp(16, 1 << 16).next_power_of_two();
        let shard_bytes = (budget_bytes / shards) as usize;
        let shards = (0..shards).map(|_| Mutex::new(Shard::new(shard_bytes))).collect();
        Self { shards, budget_bytes }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let number = hash as usize & (self.shards.len() - 1);
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Places at which the chunk with this hash might be, and a note that it was asked for.
    pub fn lookup(&self, hash: u64) -> Candidates {
        self.shard(hash).lookup(tag(hash))
    }

    /// Note where a chunk is.
    pub fn insert(&self, hash: u64, place: Place) {
        self.shard(hash).insert(tag(hash), place);
    }

    /// Forget a place that turned out to hold nothing.
    pub fn remove(&self, hash: u64, place: Place) {
        self.shard(hash).remove(tag(hash), place);
    }

    /// Whether another entry might push one out.
    pub fn is_full(&self) -> bool {
        self.shards.iter().any(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.let_go() > 0
        })
    }

    /// What it holds now.
    pub fn stats(&self) -> IndexStats {
        let mut stats = IndexStats { budget_bytes: self.budget_bytes, ..IndexStats::default() };
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            stats.entries += shard.len() as u64;
            stats.let_go += shard.let_go();
            stats.bytes += shard.bytes() as u64;
        }
        stats
    }
}

/// The tag of a hash: its high bits. The low bits choose the shard.
const fn tag(hash: u64) -> u32 {
    (hash >> (64 - TAG_BITS)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn mix(n: u64) -> u64 {
        let x = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 29)
    }

    fn place(n: u64) -> Place {
        Place::new(ContainerId::new((n / 1000) as u32 + 1), (n % 1000) as u16)
    }

    #[test]
    fn below_the_budget_nothing_is_let_go_and_memory_is_thin() {
        let index = FingerprintIndex::new(8 << 20);
        let count = 500_000;
        for n in 0..count {
            index.insert(mix(n), place(n));
        }
        let stats = index.stats();
        assert_eq!((stats.entries, stats.let_go), (count, 0));
        assert!(stats.bytes <= 15 * count, "{} bytes per entry", stats.bytes as f64 / count as f64);
        for n in 0..count {
            assert!(index.lookup(mix(n)).contains(place(n)), "entry {n}");
        }
        let strangers: usize = (count..2 * count).map(|n| index.lookup(mix(n)).len()).sum();
        assert!(strangers < count as usize / 100, "{strangers} false candidates");
    }

    #[test]
    fn past_the_budget_the_oldest_unused_go_and_are_counted() {
        let index = FingerprintIndex::new(1 << 20);
        let count = 400_000;
        for n in 0..count {
            index.insert(mix(n), place(n));
            let used = n % 1000; // a thousand entries are asked for again and again
            index.lookup(mix(used));
        }
        let stats = index.stats();
        assert!(stats.bytes <= 1 << 20);
        assert!(stats.entries > (1 << 20) / 64 * 6, "only {} entries held", stats.entries);
        assert_eq!(stats.entries + stats.let_go, count);
        let held = |n: u64| index.lookup(mix(n)).contains(place(n));
        let used = (0..1000).filter(|&n| held(n)).count();
        let newest = (count - 50_000..count).filter(|&n| held(n)).count();
        let oldest = (1000..201_000).filter(|&n| held(n)).count();
        assert!(used > 950, "{used} of the thousand in use");
        assert!(newest > 45_000, "{newest} of the newest 50,000");
        assert!(oldest < 10_000, "{oldest} of the old 200,000");
    }

    #[test]
    fn behaves_as_a_map_of_hashes_to_places() {
        let index = FingerprintIndex::new(4 << 20);
        let mut model: HashMap<u64, Vec<Place>> = HashMap::new();
        for step in 0..200_000u64 {
            let key = mix(mix(step) % 5000);
            let at = place(mix(step + 7) % 100_000);
            let places = model.entry(key).or_default();
            if mix(step + 3).is_multiple_of(3) {
                index.remove(key, at);
                places.retain(|&p| p != at);
            } else if !places.contains(&at) && places.len() < 2 {
                index.insert(key, at);
                places.push(at);
            }
        }
        for (key, places) in model {
            let found = index.lookup(key);
            assert!(places.iter().all(|p| found.contains(*p)), "{key:x}");
        }
    }

    #[test]
    fn a_place_means_the_newest_container_with_its_low_bits() {
        let window = 1 << CONTAINER_BITS;
        for (number, newest) in
            [(1, 1), (5, window), (window, window), (window + 3, window + 9), (9, window + 3)]
        {
            let found =
                Place::new(ContainerId::new(number), 8191).container(ContainerId::new(newest));
            assert_eq!(found, Some(ContainerId::new(number)));
        }
        assert_eq!(Place::new(ContainerId::new(7), 0).container(ContainerId::new(6)), None);
    }
}
