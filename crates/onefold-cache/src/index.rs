//! An index from hashes to 32-bit ids in buckets of one cache line, without tombstones.
//! Room: onefold-cache.
//! A bucket has 15 slots and a count of the keys that found it full on their way to a later one.
//! A slot holds an id and, in the bits that ids do not need, a tag of the hash: keys are compared
//! only where the tag agrees. Removal needs the hash of the removed key and of no other.
//! Invariants: (1) a slot is 0 or `tag | id + 1`  (2) `overflow` of a bucket is the number of keys
//! stored past it whose search begins at or before it.
//! Cost: 64 bytes per 12 keys when full, which is 5.3 bytes a key.

use crate::prefetch::prefetch;

const SLOTS: usize = 15;
/// Keys per bucket at which the index counts as full.
const KEYS_PER_BUCKET: usize = 12;

/// The hash that all indexes here take: one multiplication, all bits mixed.
#[inline]
pub const fn hash_of(key: u64) -> u64 {
    let product = (key ^ 0x2d35_8dcc_aa6c_78a5) as u128 * 0x9e37_79b9_7f4a_7c15;
    let product = (product as u64) ^ ((product >> 64) as u64);
    product ^ (product >> 29)
}

#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    slots: [u32; SLOTS],
    overflow: u32,
}

/// From hashes to ids.
#[derive(Clone, Debug)]
pub struct Index {
    buckets: Vec<Bucket>,
    /// Bits of a slot that hold `id + 1`; the others hold the tag.
    id_mask: u32,
    len: usize,
}

impl Index {
    /// An index for `keys` keys with ids below `ids`, at least 1 and below 2^31.
    pub fn new(keys: usize, ids: usize) -> Self {
        assert!((1..1 << 31).contains(&ids), "ids have to fit 31 bits");
        let buckets = keys.div_ceil(KEYS_PER_BUCKET).max(1);
        let bits = usize::BITS - ids.leading_zeros();
        Self { buckets: vec![Bucket::default(); buckets], id_mask: (1_u32 << bits) - 1, len: 0 }
    }

    /// Whether one more key, or an id of `ids - 1`, asks for a larger index.
    pub fn is_full(&self, ids: usize) -> bool {
        self.len >= self.buckets.len() * KEYS_PER_BUCKET || ids > self.id_mask as usize
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Keys in the index.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    #[inline]
    const fn tag(&self, hash: u64) -> u32 {
        hash as u32 & !self.id_mask
    }

    /// Asks for the bucket that a search for this hash begins with.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.buckets[self.home(hash)]);
    }

    /// The first id in the first bucket whose tag agrees: most likely the one that is looked for.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        let matches = self.matches(self.home(hash), self.tag(hash));
        (matches != 0).then(|| self.id_at(self.home(hash), matches.trailing_zeros() as usize))
    }

    /// The id that `is_it` accepts among those whose tag agrees.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (mut at, tag) = (self.home(hash), self.tag(hash));
        loop {
            let mut matches = self.matches(at, tag);
            while matches != 0 {
                let id = self.id_at(at, matches.trailing_zeros() as usize);
                if is_it(id) {
                    return Some(id);
                }
                matches &= matches - 1;
            }
            if self.buckets[at].overflow == 0 {
                return None;
            }
            at = self.after(at);
            // In a small index, every bucket may have overflowed at some time.
            if at == self.home(hash) {
                return None;
            }
        }
    }

    #[inline]
    fn id_at(&self, bucket: usize, slot: usize) -> u32 {
        (self.buckets[bucket].slots[slot] & self.id_mask) - 1
    }

    /// One bit per slot that is taken and has this tag.
    #[inline]
    fn matches(&self, bucket: usize, tag: u32) -> u32 {
        let mut bits = 0;
        for (place, &slot) in self.buckets[bucket].slots.iter().enumerate() {
            bits |= u32::from(slot & !self.id_mask == tag && slot != 0) << place;
        }
        bits
    }

    /// Adds a key that is not in the index; there is room for it ([`Index::is_full`]).
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32) {
        debug_assert!(!self.is_full(id as usize + 1), "the caller makes the index large enough");
        let (mut at, slot) = (self.home(hash), self.tag(hash) | (id + 1));
        while !put(&mut self.buckets[at].slots, 0, slot) {
            self.buckets[at].overflow += 1;
            at = self.after(at);
        }
        self.len += 1;
    }

    /// Removes a key that is in the index under this id.
    #[inline]
    pub fn remove(&mut self, hash: u64, id: u32) {
        let (mut at, slot) = (self.home(hash), self.tag(hash) | (id + 1));
        while !put(&mut self.buckets[at].slots, slot, 0) {
            assert!(self.buckets[at].overflow > 0, "id {id} is not in the index");
            self.buckets[at].overflow -= 1;
            at = self.after(at);
        }
        self.len -= 1;
    }
}

/// Replaces the first slot that holds `old`; says whether there was one.
#[inline]
fn put(slots: &mut [u32; SLOTS], old: u32, new: u32) -> bool {
    match slots.iter().position(|&slot| slot == old) {
        Some(place) => {
            slots[place] = new;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_block::SplitMix64;

    use super::*;

    /// Against a map, with so few hashes that buckets overflow over several others.
    #[test]
    fn behaves_like_a_map_however_full_its_buckets_are() {
        for (homes, keys) in [(1_u64, 120), (3, 120), (1 << 20, 120), (1 << 20, 24)] {
            let mut index = Index::new(keys, keys);
            let mut random = SplitMix64::new(homes);
            let hashes: Vec<u64> =
                (0..keys).map(|_| hash_of(random.below(homes)) ^ random.below(1 << 9)).collect();
            let mut model = BTreeMap::new();
            for _ in 0..20_000 {
                let id = random.below(keys as u64) as u32;
                let hash = hashes[id as usize];
                assert_eq!(index.find(hash, |found| found == id), model.get(&id).copied());
                if model.remove(&id).is_some() {
                    index.remove(hash, id);
                } else {
                    index.insert(hash, id);
                    model.insert(id, id);
                }
                assert_eq!(index.len(), model.len());
            }
            for &id in model.keys() {
                index.remove(hashes[id as usize], id);
            }
            let empty = |bucket: &Bucket| bucket.overflow == 0 && bucket.slots == [0; SLOTS];
            assert!(index.buckets.iter().all(empty));
        }
    }

    #[test]
    fn says_when_it_is_too_small() {
        let mut index = Index::new(12, 15);
        assert!(!index.is_full(15) && index.is_full(16));
        for id in 0..12 {
            index.insert(hash_of(u64::from(id)), id);
        }
        assert!(index.is_full(12));
    }

    /// Low entropy keys must not share buckets: container numbers count from 0.
    #[test]
    fn counted_keys_spread_over_the_buckets() {
        let index = Index::new(12_000, 12_000);
        let mut load = vec![0_u32; index.buckets.len()];
        for key in 0..12_000 {
            load[index.home(hash_of(key))] += 1;
        }
        let worst = load.iter().max().copied();
        assert!(worst < Some(32), "{worst:?} of 12 keys expected in one bucket");
    }
}
