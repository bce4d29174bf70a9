//! The chunk index: which chunks the archive holds, and where. Exact while it fits its memory.
//! Room: onefold-archive.   In: a chunk's name.   Out: where it lies, or that it is not known.
//! Invariants: (1) what is answered was put in under that name  (2) the table never exceeds the
//! budget. Past it, the entry of the oldest container near by gives way: duplicates of it are
//! stored again, nothing else suffers.
//! Cost: 28 bytes a slot, at most three quarters of them taken; growing needs up to half as much
//! memory again for a moment.

use onefold_block::ContainerId;

use crate::format::chunk_ref::{ChunkName, ChunkRef};

/// Slots to begin with.
const SLOTS_MIN: usize = 512;
/// Slots among which one gives way once there is no more memory.
const NEAR: usize = 8;
/// The least budget in bytes.
pub const INDEX_BYTES_MIN: u64 = (SLOTS_MIN * size_of::<Slot>()) as u64;

#[derive(Clone, Copy)]
struct Slot {
    name: ChunkName,
    container: u32,
    offset: u32,
    /// 0 in an empty slot: no chunk is empty.
    len: u32,
}

const EMPTY: Slot = Slot { name: ChunkName([0; 16]), container: 0, offset: 0, len: 0 };

/// Places by name: a hash table with linear probing, from which nothing is ever deleted.
pub struct ChunkIndex {
    slots: Vec<Slot>,
    slots_max: usize,
    used: usize,
    evicted: u64,
}

impl ChunkIndex {
    /// An empty index of at most `budget_bytes`, which is at least [`INDEX_BYTES_MIN`].
    pub fn new(budget_bytes: u64) -> Self {
        let most = (budget_bytes / size_of::<Slot>() as u64) as usize;
        let slots_max = most.max(SLOTS_MIN);
        Self { slots: vec![EMPTY; SLOTS_MIN], slots_max, used: 0, evicted: 0 }
    }

    /// Chunks that gave way because memory ran out.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Whether a new chunk is put in only at the cost of another one.
    pub const fn is_full(&self) -> bool {
        self.slots.len() == self.slots_max && self.is_crowded()
    }

    const fn is_crowded(&self) -> bool {
        self.used >= self.slots.len() / 4 * 3
    }

    /// Where the search for a name begins.
    fn home(&self, name: ChunkName) -> usize {
        let mut word = [0; 8];
        word.copy_from_slice(&name.0[..8]);
        let spread = u128::from(u64::from_le_bytes(word)) * self.slots.len() as u128;
        (spread >> 64) as usize
    }

    /// The slot that holds a chunk, or the empty one at which the search for it ends.
    fn search(&self, name: ChunkName, len: u32) -> usize {
        let mut at = self.home(name);
        loop {
            let slot = &self.slots[at];
            if slot.len == 0 || slot.len == len && slot.name == name {
                return at;
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// Where the chunk of that name and length lies.
    pub fn get(&self, name: ChunkName, len: u32) -> Option<ChunkRef> {
        let slot = &self.slots[self.search(name, len)];
        if slot.len == 0 {
            return None;
        }
        let container = ContainerId::new(slot.container);
        Some(ChunkRef { container, offset: slot.offset, len, name })
    }

    /// Keep a chunk's place; one of the same name is replaced.
    pub fn insert(&mut self, chunk: &ChunkRef) {
        assert!(chunk.len > 0, "no chunk is empty");
        let slot = Slot {
            name: chunk.name,
            container: chunk.container.get(),
            offset: chunk.offset,
            len: chunk.len,
        };
        if self.is_crowded() && self.slots.len() < self.slots_max {
            self.grow();
        }
        let at = self.search(slot.name, slot.len);
        if self.slots[at].len > 0 {
            self.slots[at] = slot;
        } else if self.is_crowded() {
            self.replace(slot);
        } else {
            self.slots[at] = slot;
            self.used += 1;
        }
    }

    /// Put a slot in the place of an older one, if there is one near by. No slot becomes empty, so
    /// every search that passed through goes on passing.
    fn replace(&mut self, new: Slot) {
        self.evicted += 1;
        let home = self.home(new.name);
        let near = (0..NEAR).map(|step| (home + step) % self.slots.len());
        let taken = near.take_while(|&at| self.slots[at].len > 0);
        let oldest = taken.min_by_key(|&at| self.slots[at].container);
        if let Some(at) = oldest.filter(|&at| self.slots[at].container <= new.container) {
            self.slots[at] = new;
        }
    }

    /// Keep a chunk's place unless one is known for that name, as when older containers follow.
    pub fn insert_older(&mut self, chunk: &ChunkRef) {
        if self.get(chunk.name, chunk.len).is_none() {
            self.insert(chunk);
        }
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() * 2).min(self.slots_max);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; larger]);
        for slot in old.into_iter().filter(|slot| slot.len > 0) {
            let at = self.search(slot.name, slot.len);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use onefold_block::SplitMix64;

    use super::*;

    fn chunk(number: u64, container: u32) -> ChunkRef {
        let mut name = [0; 16];
        SplitMix64::new(number).fill(&mut name);
        ChunkRef {
            container: ContainerId::new(container),
            offset: number as u32,
            len: 10,
            name: ChunkName(name),
        }
    }

    #[test]
    fn within_its_memory_it_is_a_map() {
        let mut index = ChunkIndex::new(1 << 20);
        let mut plain = HashMap::new();
        let mut random = SplitMix64::new(1);
        for step in 0..20_000 {
            let new = chunk(random.below(9000), step / 100);
            index.insert(&new);
            plain.insert(new.name, new);
        }
        assert_eq!((index.used, index.evicted()), (plain.len(), 0));
        for (name, found) in plain {
            assert_eq!(index.get(name, 10), Some(found));
            assert_eq!(index.get(name, 11), None);
        }
        assert!((0..100).all(|n| index.get(chunk(n + 10_000, 0).name, 10).is_none()));
    }

    #[test]
    fn chunks_of_one_byte_stay_where_the_index_grows() {
        let mut index = ChunkIndex::new(1 << 20);
        let one = |number| ChunkRef { len: 1, ..chunk(number, 1) };
        let before = index.slots.len();
        (0..9000).for_each(|number| index.insert(&one(number)));
        assert!(index.slots.len() > 2 * before && index.evicted() == 0);
        assert!((0..9000).all(|number| index.get(one(number).name, 1) == Some(one(number))));
    }

    #[test]
    fn past_its_memory_the_oldest_give_way_and_nothing_false_is_said() {
        let mut index = ChunkIndex::new(INDEX_BYTES_MIN);
        for number in 0..5000 {
            index.insert(&chunk(number, number as u32));
        }
        assert!(index.evicted() > 0 && index.is_full());
        let known = |range: std::ops::Range<u64>| {
            range.filter(|&n| index.get(chunk(n, 0).name, 10) == Some(chunk(n, n as u32))).count()
        };
        assert_eq!(index.slots.len(), SLOTS_MIN);
        assert_eq!(known(0..5000), index.used);
        assert!(known(4900..5000) > 2 * known(4500..4600), "the newest are kept");
    }

    #[test]
    fn when_it_is_full_the_latest_of_one_container_give_way_to_none_older() {
        let mut index = ChunkIndex::new(INDEX_BYTES_MIN);
        let knows = |index: &ChunkIndex, number, container| {
            let chunk = chunk(number, container);
            index.get(chunk.name, 10) == Some(chunk)
        };
        let known = (0..5000).filter(|&number| {
            index.insert(&chunk(number, 7));
            knows(&index, number, 7)
        });
        // Without a slot near by, where one begins that is empty, the new one is not kept.
        assert!(known.count() > 3000);
        let evicted = index.evicted();
        for number in 5000..5100 {
            index.insert(&chunk(number, 6));
            assert!(!knows(&index, number, 6), "what is older does not push out");
        }
        assert_eq!(index.evicted(), evicted + 100);
    }

    #[test]
    fn three_quarters_of_the_slots_are_taken_before_there_are_more_or_any_gives_way() {
        let slot = size_of::<Slot>() as u64;
        assert_eq!((slot, INDEX_BYTES_MIN), (28, 512 * 28));
        // Twice as many at a time, and at last as many as there is memory for.
        let mut index = ChunkIndex::new(1500 * slot + slot - 1);
        let mut grown = Vec::new();
        for number in 0..2000 {
            if index.evicted() == 0 {
                assert!(!index.is_full() || index.used == 1125, "{number}");
            }
            let before = index.slots.len();
            index.insert(&chunk(number, 3));
            if index.slots.len() > before || index.evicted() == 1 && grown.len() < 3 {
                grown.push((number, index.slots.len()));
            }
        }
        assert_eq!(grown, [(384, 1024), (768, 1500), (1125, 1500)]);
        assert_eq!((index.used, index.evicted()), (1125, 2000 - 1125));
        let mut least = ChunkIndex::new(0);
        (0..1000).for_each(|number| least.insert(&chunk(number, 3)));
        assert_eq!((least.slots.len(), least.used, least.evicted()), (512, 384, 616));
    }

    #[test]
    fn of_those_near_by_the_one_of_the_oldest_container_gives_way() {
        let mut index = ChunkIndex::new(INDEX_BYTES_MIN);
        // All of one home: a name whose first word is zero.
        let at_home = |number: u32, container: u32| {
            let mut name = [0; 16];
            name[8..12].copy_from_slice(&number.to_le_bytes());
            let container = ContainerId::new(container);
            ChunkRef { container, offset: number, len: 10, name: ChunkName(name) }
        };
        // The oldest lies in the eighth slot, and an older one right behind it.
        for (number, container) in (0..384).zip([9, 9, 9, 9, 9, 9, 9, 4, 3].into_iter().cycle()) {
            index.insert(&at_home(number, container));
        }
        let known = |index: &ChunkIndex, number| {
            (4..10).any(|container| {
                let chunk = at_home(number, container);
                index.get(chunk.name, 10) == Some(chunk)
            })
        };
        index.insert(&at_home(1000, 4));
        assert!(known(&index, 1000) && !known(&index, 7), "one of as old a container gives way");
        index.insert(&at_home(1001, 3));
        assert!(!known(&index, 1001) && known(&index, 1000), "to none older");
        assert_eq!(index.evicted(), 2);
        index.insert(&at_home(1002, 5));
        assert!(known(&index, 1002) && !known(&index, 1000));
        let other = at_home(1002, 6);
        index.insert_older(&other);
        assert_eq!(index.get(other.name, 10), Some(at_home(1002, 5)), "the first one stays");
        index.insert(&other);
        assert_eq!((index.get(other.name, 10), index.evicted()), (Some(other), 3));
    }

    #[test]
    fn names_begin_where_their_first_word_says_and_go_on_at_the_front() {
        let mut index = ChunkIndex::new(INDEX_BYTES_MIN);
        let named = |word: u64, container| {
            let mut name = [5; 16];
            name[..8].copy_from_slice(&word.to_le_bytes());
            let container = ContainerId::new(container);
            ChunkRef { container, offset: 1, len: 9, name: ChunkName(name) }
        };
        for (word, home) in
            [(0, 0), (1 << 55, 1), ((1 << 55) - 1, 0), (1 << 63, 256), (u64::MAX, 511)]
        {
            assert_eq!(index.home(named(word, 1).name), home, "{word:x}");
        }
        for (number, at) in [(0, 511), (1, 0), (2, 1)] {
            let chunk = named(u64::MAX - number, 7);
            index.insert(&chunk);
            assert_eq!(index.slots[at].name, chunk.name);
            assert_eq!(index.get(chunk.name, 9), Some(chunk));
        }
    }
}
