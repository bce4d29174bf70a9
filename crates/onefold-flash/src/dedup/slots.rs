//! Open addressing in buckets of half a cache line, from which entries never move.
//! Room: onefold-flash.
//! A full bucket counts the entries that passed it, so that a look-up ends at the first bucket that
//! none has passed and a removal leaves nothing behind. What names a slot may go on naming it. The
//! pages lie apart from the buckets: most look-ups find nothing and need none, and a page that moves
//! needs nothing else, so that each takes one line of a table that is as small as it can be.
//! Invariants: an entry lies at its home or behind buckets that count it, but for counts that
//! reached their end and stay there; a free slot names no page.
//! Cost: one cache line for a look-up, a removal or a change of page, two for an insertion; about
//! nine bytes a slot.

use crate::memory::{prefetch, table_of};

const WAYS: usize = 7;
/// The page of a free slot.
pub(crate) const FREE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Bucket {
    sign: [u32; WAYS],
    /// Entries that found the bucket full.
    passed: u8,
    /// A bit for each way in use.
    used: u8,
    /// A bit for each entry that lies behind its home.
    away: u8,
}

const _: () = assert!(size_of::<Bucket>() == 32);

const EMPTY: Bucket = Bucket { sign: [0; WAYS], passed: 0, used: 0, away: 0 };
const FULL: u8 = (1 << WAYS) - 1;

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
    /// Of every slot; of free ones whatever it was.
    pages: Vec<u32>,
}

impl Bucket {
    /// A bit for each way in use with this sign.
    #[inline]
    fn matches(&self, sign: u32) -> u8 {
        let mut same = 0;
        for (way, &other) in self.sign.iter().enumerate() {
            same |= u8::from(other == sign) << way;
        }
        same & self.used
    }
}

impl Slots {
    /// Slots for so many entries, a quarter of them free.
    pub fn new(capacity: u64) -> Self {
        let buckets = ((capacity + capacity / 3) / WAYS as u64 + 1) as usize;
        Self { buckets: table_of(buckets, EMPTY), pages: table_of(buckets * WAYS, FREE) }
    }

    /// Slots, numbered from 0.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    #[inline]
    fn home(&self, word: u64) -> usize {
        ((u128::from(word) * self.buckets.len() as u128) >> 64) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// A key will be looked up soon.
    #[inline]
    pub fn expect(&self, word: u64) {
        prefetch(&self.buckets, self.home(word));
    }

    /// A slot, which need not be one, will be removed soon.
    #[inline]
    pub fn expect_removal(&self, slot: u32) {
        prefetch(&self.buckets, slot as usize / WAYS);
    }

    /// The page of a slot, which need not be one, will be wanted soon.
    #[inline]
    pub fn expect_page(&self, slot: u32) {
        prefetch(&self.pages, slot as usize);
    }

    /// The slot with this sign that `is` says yes to.
    #[inline]
    pub fn find(&self, key: Key, is: impl Fn(u32) -> bool) -> Option<u32> {
        let home = self.home(key.word);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(key.sign);
            while matches != 0 {
                let slot = at as u32 * WAYS as u32 + matches.trailing_zeros();
                if is(slot) {
                    return Some(slot);
                }
                matches &= matches - 1;
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
        let way = self.buckets[at].used.trailing_ones();
        (way < WAYS as u32).then_some(at as u32 * WAYS as u32 + way)
    }

    /// Enters a page in the first free slot from the key's home on. There must be one.
    pub fn insert(&mut self, key: Key, page: u32) -> u32 {
        let home = self.home(key.word);
        let mut at = home;
        while self.buckets[at].used == FULL {
            let passed = &mut self.buckets[at].passed;
            *passed = passed.saturating_add(1);
            at = self.behind(at);
        }
        let bucket = &mut self.buckets[at];
        let way = bucket.used.trailing_ones();
        bucket.sign[way as usize] = key.sign;
        bucket.used |= 1 << way;
        bucket.away = bucket.away & !(1 << way) | u8::from(at != home) << way;
        let slot = at as u32 * WAYS as u32 + way;
        self.pages[slot as usize] = page;
        slot
    }

    /// Frees a slot in use; `word` is asked for its key's word if it does not lie at home.
    pub fn remove(&mut self, slot: u32, word: impl FnOnce(u32) -> u64) {
        let (end, way) = (slot as usize / WAYS, slot as usize % WAYS);
        let bucket = &mut self.buckets[end];
        bucket.used &= !(1 << way);
        if bucket.away & 1 << way == 0 {
            return;
        }
        let sign = bucket.sign[way];
        let mut at = self.home(word(sign));
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
        let (at, way) = (slot as usize / WAYS, slot as usize % WAYS);
        if self.buckets[at].used & 1 << way == 0 { FREE } else { self.pages[slot as usize] }
    }

    /// The page of a slot in use.
    #[inline]
    pub fn page_in_use(&self, slot: u32) -> u32 {
        self.pages[slot as usize]
    }

    /// Puts another page into a slot in use.
    #[inline]
    pub fn set_page(&mut self, slot: u32, page: u32) {
        self.pages[slot as usize] = page;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Keys of few words meet in few buckets, so that most entries are displaced.
    fn key(number: u32, words: u64) -> Key {
        Key { word: u64::from(number) % words << 58, sign: number }
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
    fn signs_may_be_the_same() {
        let mut slots = Slots::new(20);
        let same = Key { word: 0, sign: 7 };
        let (first, second) = (slots.insert(same, 1), slots.insert(same, 2));
        assert_eq!(slots.find(same, |slot| slots.page(slot) == 2), Some(second));
        assert_eq!(slots.find(same, |_| false), None);
        slots.remove(first, |_| 0);
        assert_eq!((slots.page(first), slots.page(second)), (FREE, 2));
    }
}
