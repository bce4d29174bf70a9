//! Open addressing in buckets of one cache line, from which entries never move.
//! Room: onefold-flash.
//! A full bucket counts the entries that passed it, so that a look-up ends at the first bucket that
//! none has passed and a removal leaves nothing behind. What names a slot may go on naming it.
//! Invariants: an entry lies at its home or behind buckets that count it, but for counts that
//! reached their end and stay there; a free slot names no page.
//! Cost: one cache line for a look-up, an insertion, a removal or a change of page; about nine
//! bytes a slot.

use crate::memory::{prefetch, table_of};

const WAYS: usize = 7;
/// The page of a free slot.
pub(crate) const FREE: u32 = u32::MAX;
/// Buckets from an entry's home to where it lies, or more than that.
const AWAY_MAX: u8 = 15;
/// One hit, in the bits above.
const HIT: u8 = AWAY_MAX + 1;
/// Most hits that an entry counts.
const HITS_MAX: u8 = u8::MAX / HIT;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    sign: [u32; WAYS],
    page: [u32; WAYS],
    /// Entries that found the bucket full.
    passed: u8,
    /// Buckets from home, and hits in the upper bits.
    state: [u8; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket { sign: [0; WAYS], page: [FREE; WAYS], passed: 0, state: [0; WAYS] };

/// What an entry is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Decides on the home; well mixed.
    pub word: u64,
    /// What the entry keeps of the key.
    pub sign: u32,
}

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    buckets: Vec<Bucket>,
}

impl Slots {
    /// Slots for so many entries, a quarter of them free.
    pub fn new(capacity: u64) -> Self {
        let buckets = (capacity + capacity / 3) / WAYS as u64 + 1;
        Self { buckets: table_of(buckets as usize, EMPTY) }
    }

    /// Slots, numbered from 0.
    pub fn len(&self) -> u32 {
        (self.buckets.len() * WAYS) as u32
    }

    #[inline]
    fn home(&self, word: u64) -> usize {
        ((u128::from(word) * self.buckets.len() as u128) >> 64) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    #[inline]
    fn split(slot: u32) -> (usize, usize) {
        (slot as usize / WAYS, slot as usize % WAYS)
    }

    /// A key will be looked up soon.
    #[inline]
    pub fn prefetch(&self, word: u64) {
        prefetch(&self.buckets, self.home(word));
    }

    /// A slot, which need not be one, will be looked at soon.
    #[inline]
    pub fn prefetch_slot(&self, slot: u32) {
        prefetch(&self.buckets, slot as usize / WAYS);
    }

    /// The slot with this sign that `is` says yes to.
    #[inline]
    pub fn find(&self, key: Key, is: impl Fn(u32) -> bool) -> Option<u32> {
        let home = self.home(key.word);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            for way in 0..WAYS {
                if bucket.sign[way] == key.sign {
                    let slot = (at * WAYS + way) as u32;
                    if bucket.page[way] != FREE && is(slot) {
                        return Some(slot);
                    }
                }
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.behind(at);
            if at == home {
                return None;
            }
        }
    }

    /// Where a key would be entered, if that is at its home.
    #[inline]
    pub fn free_at_home(&self, word: u64) -> Option<u32> {
        let at = self.home(word);
        let way = self.buckets[at].page.iter().position(|&page| page == FREE)?;
        Some((at * WAYS + way) as u32)
    }

    /// Enters a page in the first free slot from the key's home on. There must be one.
    pub fn insert(&mut self, key: Key, page: u32) -> u32 {
        let mut at = self.home(key.word);
        let mut away = 0;
        loop {
            let behind = self.behind(at);
            let bucket = &mut self.buckets[at];
            if let Some(way) = bucket.page.iter().position(|&page| page == FREE) {
                (bucket.sign[way], bucket.page[way], bucket.state[way]) = (key.sign, page, away);
                return (at * WAYS + way) as u32;
            }
            bucket.passed = bucket.passed.saturating_add(1);
            away = (away + 1).min(AWAY_MAX);
            at = behind;
        }
    }

    /// Frees a slot in use; `word` is asked for its key's word if it lies too far from home.
    pub fn remove(&mut self, slot: u32, word: impl FnOnce(u32) -> u64) {
        let (end, way) = Self::split(slot);
        let bucket = &mut self.buckets[end];
        bucket.page[way] = FREE;
        let away = bucket.state[way] & AWAY_MAX;
        if away == 0 {
            return;
        }
        let sign = bucket.sign[way];
        let mut at = if away == AWAY_MAX {
            self.home(word(sign))
        } else {
            (end + self.buckets.len() - usize::from(away)) % self.buckets.len()
        };
        while at != end {
            let passed = &mut self.buckets[at].passed;
            // A count that reached its end has lost count.
            *passed -= u8::from(*passed != u8::MAX);
            at = self.behind(at);
        }
    }

    /// The page of a slot.
    #[inline]
    pub fn page(&self, slot: u32) -> u32 {
        let (at, way) = Self::split(slot);
        self.buckets[at].page[way]
    }

    /// Puts another page into a slot in use.
    #[inline]
    pub fn set_page(&mut self, slot: u32, page: u32) {
        let (at, way) = Self::split(slot);
        self.buckets[at].page[way] = page;
    }

    /// Counts a hit of a slot.
    pub fn hit(&mut self, slot: u32) {
        let (at, way) = Self::split(slot);
        let state = &mut self.buckets[at].state[way];
        *state += HIT * u8::from(*state / HIT < HITS_MAX);
    }

    /// Halves the hits of a slot; the answer is what they were.
    pub fn halve(&mut self, slot: u32) -> u8 {
        let (at, way) = Self::split(slot);
        let state = &mut self.buckets[at].state[way];
        let hits = *state / HIT;
        *state = *state % HIT + (hits / 2) * HIT;
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Keys of few words meet in few buckets, so that most entries are displaced.
    fn key(number: u32, words: u64) -> Key {
        Key { word: (u64::from(number) % words) << 58, sign: number }
    }

    #[test]
    fn slots_are_a_map_and_entries_stay_where_they_are() {
        let mut random = onefold_block::SplitMix64::new(5);
        for words in [1, 3, 60] {
            let mut slots = Slots::new(60);
            let mut naive: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for step in 0..20_000 {
                let number = random.below(90) as u32;
                let found = slots.find(key(number, words), |_| true);
                assert_eq!(found, naive.get(&number).map(|&(slot, _)| slot), "number {number}");
                match found {
                    Some(slot) if random.below(2) == 0 => {
                        slots.remove(slot, |sign| key(sign, words).word);
                        naive.remove(&number);
                    }
                    Some(slot) => {
                        slots.set_page(slot, step);
                        naive.insert(number, (slot, step));
                    }
                    None if naive.len() < 60 => {
                        naive.insert(number, (slots.insert(key(number, words), step), step));
                    }
                    None => {}
                }
                for &(slot, page) in naive.values() {
                    assert_eq!(slots.page(slot), page);
                }
            }
            for (number, (slot, _)) in naive {
                slots.remove(slot, |_| key(number, words).word);
            }
            let passed = slots.buckets.iter().map(|bucket| u32::from(bucket.passed));
            assert_eq!(passed.sum::<u32>(), 0, "removals leave nothing behind");
        }
    }

    #[test]
    fn signs_may_be_the_same_and_hits_end_somewhere() {
        let mut slots = Slots::new(20);
        let same = Key { word: 0, sign: 7 };
        let (first, second) = (slots.insert(same, 1), slots.insert(same, 2));
        assert_eq!(slots.find(same, |slot| slots.page(slot) == 2), Some(second));
        assert_eq!(slots.find(same, |_| false), None);
        (0..1000).for_each(|_| slots.hit(first));
        assert_eq!([slots.halve(first), slots.halve(first), slots.halve(second)], [15, 7, 0]);
    }
}
