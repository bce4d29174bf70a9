//! Decompressed chunks in memory, by address: a chunk that many blocks share is kept once.
//! Room: onefold-pool.
//! Invariant: an address is never given to another chunk, so that nothing here goes stale.
//! Cost: the chunk and about 32 bytes; memory within `--cache-memory`. Chunks that lie together in
//! a container are kept together, so that reading them in order takes one lock and goes through
//! memory in order.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_block::memory;

use crate::key_hasher::KeyHasher;

const SHARDS: usize = 64;
/// Chunks whose addresses agree but for these bits are in one shard: 128 KiB of a container.
const REGION_BITS: u32 = 26;

/// A bounded cache with second-chance eviction.
pub struct ReadCache {
    shards: Vec<Mutex<Shard>>,
    chunk_bytes: usize,
    budget_bytes: AtomicU64,
}

struct Shard {
    by_address: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    slots: Vec<Slot>,
    /// The chunks, slot after slot, in pieces so that growing copies nothing. A piece has its
    /// memory from the start and grows by the chunks that are put in: nothing is written twice.
    pieces: Vec<Vec<u8>>,
    slots_max: usize,
    chunk_bytes: usize,
    hand: usize,
}

impl Shard {
    fn new(slots_max: usize, chunk_bytes: usize) -> Self {
        Self {
            by_address: HashMap::default(),
            slots: Vec::new(),
            pieces: Vec::new(),
            slots_max,
            chunk_bytes,
            hand: 0,
        }
    }
}

struct Slot {
    address: u64,
    referenced: bool,
}

/// Chunks in one piece of memory.
const SLOTS_PER_PIECE: usize = 64;

impl ReadCache {
    /// A cache of at most `budget_bytes`.
    pub fn new(budget_bytes: u64, chunk_bytes: usize) -> Self {
        let slots_max = slots_max(budget_bytes, chunk_bytes);
        let shard = |_| Mutex::new(Shard::new(slots_max, chunk_bytes));
        let shards = (0..SHARDS).map(shard).collect();
        Self { shards, chunk_bytes, budget_bytes: AtomicU64::new(budget_bytes) }
    }

    /// Memory that it may use, in bytes.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Use so much from now on. Shards begin anew: what they had is read again.
    pub fn set_budget(&self, budget_bytes: u64) {
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        let slots_max = slots_max(budget_bytes, self.chunk_bytes);
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            if shard.slots_max != slots_max {
                // Also where there is more room now: the last piece may be a short one.
                *shard = Shard::new(slots_max, self.chunk_bytes);
            }
        }
    }

    /// For several chunks in a row.
    pub const fn visit(&self) -> Visit<'_> {
        Visit { cache: self, held: None }
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        let bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.pieces.iter().map(Vec::capacity).sum::<usize>() + shard.slots.len() * 32
        };
        self.shards.iter().map(bytes).sum::<usize>() as u64
    }
}

/// Chunks that a shard may have.
fn slots_max(budget_bytes: u64, chunk_bytes: usize) -> usize {
    budget_bytes as usize / SHARDS / (chunk_bytes + 32)
}

/// Access to several chunks; the lock of the shard used last is held until another is needed or
/// the visit ends.
pub struct Visit<'a> {
    cache: &'a ReadCache,
    held: Option<(usize, MutexGuard<'a, Shard>)>,
}

impl Visit<'_> {
    fn shard(&mut self, address: u64) -> &mut Shard {
        let number = ((address >> REGION_BITS).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize;
        if self.held.as_ref().is_none_or(|(held, _)| *held != number) {
            // The one held is given up before another is taken: no order among shards is needed.
            self.held = None;
            let shard = &self.cache.shards[number];
            self.held = Some((number, shard.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let (_, shard) = self.held.as_mut().expect("it was just taken");
        shard
    }

    /// Copy the chunk at `address` to `out`, if it is here.
    pub fn get(&mut self, address: u64, out: &mut [u8]) -> bool {
        let shard = self.shard(address);
        let Some(&slot) = shard.by_address.get(&address) else { return false };
        shard.slots[slot as usize].referenced = true;
        out.copy_from_slice(shard.chunk(slot as usize));
        true
    }

    /// Keep a chunk.
    pub fn insert(&mut self, address: u64, chunk: &[u8]) {
        let shard = self.shard(address);
        if shard.by_address.contains_key(&address) {
            return;
        }
        let Some(slot) = shard.free_slot() else { return };
        shard.put(slot, chunk);
        shard.slots[slot] = Slot { address, referenced: false };
        shard.by_address.insert(address, slot as u32);
    }
}

impl Shard {
    fn chunk(&self, slot: usize) -> &[u8] {
        let at = slot % SLOTS_PER_PIECE * self.chunk_bytes;
        &self.pieces[slot / SLOTS_PER_PIECE][at..at + self.chunk_bytes]
    }

    fn put(&mut self, slot: usize, chunk: &[u8]) {
        let at = slot % SLOTS_PER_PIECE * self.chunk_bytes;
        let piece = &mut self.pieces[slot / SLOTS_PER_PIECE];
        if at == piece.len() {
            piece.extend_from_slice(chunk);
        } else {
            piece[at..at + self.chunk_bytes].copy_from_slice(chunk);
        }
    }

    /// One more slot, as long as there may be more and there is memory; a chunk is put there next.
    fn new_slot(&mut self) -> Option<usize> {
        if self.slots.len() >= self.slots_max {
            return None;
        }
        if self.slots.len().is_multiple_of(SLOTS_PER_PIECE) {
            let slots = SLOTS_PER_PIECE.min(self.slots_max - self.slots.len());
            let mut piece = Vec::new();
            if !memory::reserve(&mut piece, slots * self.chunk_bytes) {
                return None;
            }
            self.pieces.push(piece);
        }
        self.slots.push(Slot { address: 0, referenced: false });
        Some(self.slots.len() - 1)
    }

    /// A slot to put a chunk into; another chunk may leave for it. `None` if there is not even
    /// memory for the first ones.
    fn free_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.new_slot() {
            return Some(slot);
        }
        if self.slots.is_empty() {
            return None;
        }
        loop {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            let slot = &mut self.slots[self.hand];
            if !std::mem::take(&mut slot.referenced) {
                self.by_address.remove(&slot.address);
                return Some(self.hand);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_put_in_and_memory_is_bounded() {
        let cache = ReadCache::new(4 << 20, 4096);
        let chunk = |n: u64| vec![(n % 251) as u8; 4096];
        let mut out = vec![0; 4096];
        for n in 0..5000 {
            let address = n << REGION_BITS;
            cache.visit().insert(address, &chunk(n));
            assert!(cache.visit().get(address, &mut out) && out == chunk(n));
        }
        let mut visit = cache.visit();
        let mut held = 0;
        for n in 0..5000 {
            if visit.get(n << REGION_BITS, &mut out) {
                assert!(out == chunk(n));
                held += 1;
            }
        }
        drop(visit);
        assert!((700..=1024).contains(&held), "{held} chunks held");
        assert!(cache.bytes() <= 4 << 20);
    }

    #[test]
    fn a_cache_that_cannot_grow_makes_do_with_what_it_has() {
        let cache = ReadCache::new(64 << 20, 4096);
        let mut out = vec![0; 4096];
        let keeps = |n: u64| {
            cache.visit().insert(n, &[n as u8; 4096]);
            cache.visit().get(n, &mut [0; 4096])
        };
        memory::refused(|| assert!(!keeps(1), "nothing to begin with"));
        assert!(keeps(1));
        let before = cache.bytes();
        memory::refused(|| assert!((2..1000).all(keeps), "others leave"));
        assert!(cache.bytes() <= before + SLOTS_PER_PIECE as u64 * 32);
        assert!((1000..1200).all(keeps) && cache.bytes() > 2 * before, "until there is memory");
        assert!(cache.visit().get(1199, &mut out) && out == [1199_u64 as u8; 4096]);
    }

    #[test]
    fn a_cache_keeps_to_its_new_size_and_to_what_was_put_in() {
        let cache = ReadCache::new(300 * 64 * 4128 / 4, 4096);
        let mut out = vec![0; 4096];
        for budget in [300 * 64 * 4128 / 4, 20 * 64 * 4128, 333 * 64 * 4128 / 2, 0, 8 << 20] {
            cache.set_budget(budget);
            assert_eq!(cache.budget_bytes(), budget);
            for n in 0..20_000_u64 {
                let address = n << REGION_BITS;
                cache.visit().insert(address, &[(n % 251) as u8; 4096]);
                if cache.visit().get(address, &mut out) {
                    assert!(out == [(n % 251) as u8; 4096]);
                }
            }
            assert!(cache.bytes() <= budget, "{} of {budget}", cache.bytes());
            assert!(cache.bytes() >= budget / 2, "{} of {budget}", cache.bytes());
        }
    }

    #[test]
    fn no_memory_means_no_cache() {
        let cache = ReadCache::new(0, 4096);
        cache.visit().insert(1, &[7; 4096]);
        assert!(!cache.visit().get(1, &mut [0; 4096]));
    }

    /// Three chunks of 16 bytes for each shard.
    #[test]
    fn the_one_that_was_not_asked_for_since_its_last_turn_leaves() {
        let cache = ReadCache::new(64 * 48 * 3, 16);
        let held = |among: std::ops::Range<u64>| {
            let shard = cache.visit().shard(0).by_address.clone();
            among.filter(|address| shard.contains_key(address)).collect::<Vec<_>>()
        };
        let insert = |address: u64| cache.visit().insert(address, &[address as u8; 16]);
        let get = |address: u64| {
            let mut out = [0; 16];
            cache.visit().get(address, &mut out).then_some(out)
        };
        assert_eq!(cache.bytes(), 0);
        (1..=3).for_each(insert);
        insert(3);
        assert_eq!((held(0..9), cache.bytes()), (vec![1, 2, 3], 3 * 48));
        assert_eq!((get(2), get(1), get(4)), (Some([2; 16]), Some([1; 16]), None));
        for (address, left) in
            [(4, vec![1, 2, 4]), (5, vec![1, 4, 5]), (6, vec![1, 5, 6]), (7, vec![5, 6, 7])]
        {
            insert(address);
            assert_eq!((held(0..9), get(0)), (left, None), "with {address}");
            assert_eq!(cache.visit().shard(0).slots.len(), 3);
        }
        // What does not change how many have room leaves all as it is.
        cache.set_budget(64 * 48 * 3 + 64 * 47);
        assert_eq!((held(0..9), get(7)), (vec![5, 6, 7], Some([7; 16])));
        cache.set_budget(64 * 48 * 4);
        assert_eq!(held(0..9), []);
        // One more than a piece has.
        cache.set_budget(64 * 48 * 65);
        (1..=66).for_each(insert);
        assert_eq!((held(0..99).len(), cache.bytes()), (65, 65 * 48));
        assert!(held(0..99).into_iter().all(|n| get(n) == Some([n as u8; 16])));
        // Others of the same 128 KiB share its shard; those after them need not.
        let number = |address: u64| {
            let mut visit = cache.visit();
            visit.shard(address);
            visit.held.map(|(number, _)| number)
        };
        assert_eq!(number(0), number((1 << REGION_BITS) - 1));
        let shards: std::collections::BTreeSet<_> =
            (0..1000).map(|n| number(n << REGION_BITS)).collect();
        assert_eq!(shards.len(), SHARDS);
    }
}
