//! A bounded table of fingerprints that keeps the hot ones.
//! Room: onefold-flash.
//! Source: [ses-dedup] sec. V.B: 15 % of all fingerprints, 8 bytes each; how hot ones are kept is
//! not said there. Here: sets of eight ways with a clock hand each; a hit counts an entry up, the
//! hand counts it down, and replaces the first entry that it finds at 0 (second chance by count).
//! Invariants: never more than `entries` entries; an entry is a hint and may name a page that has
//! died or holds other content by now.
//! Cost: two cache lines per look-up that misses and inserts.

use crate::memory::{prefetch, table_of};
use onefold_block::seeded::mix64;

const WAYS: usize = 8;
/// Rounds of the hand that an entry can save up.
const COUNT_MAX: u8 = 15;
/// Rounds that a hit saves up.
const HIT: u8 = 2;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Tags([u64; WAYS]);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Ways {
    ppn: [u32; WAYS],
    count: [u8; WAYS],
    hand: u8,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    set: u32,
    way: u8,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct HotTable {
    tags: Vec<Tags>,
    ways: Vec<Ways>,
    /// Whether hits protect entries; else the oldest of a set goes first.
    retain: bool,
    used: u64,
    pub evicted: u64,
}

impl HotTable {
    /// An empty table of at most `entries` entries, which are at least eight.
    pub fn new(entries: u64, retain: bool) -> Self {
        let sets = (entries / WAYS as u64).max(1) as usize;
        Self {
            tags: table_of(sets, Tags([0; WAYS])),
            ways: table_of(sets, Ways { ppn: [0; WAYS], count: [0; WAYS], hand: 0 }),
            retain,
            used: 0,
            evicted: 0,
        }
    }

    /// Entries there is room for.
    pub fn capacity(&self) -> u64 {
        (self.tags.len() * WAYS) as u64
    }

    /// Entries in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    fn set_of(&self, fingerprint: u64) -> usize {
        ((u128::from(mix64(fingerprint)) * self.tags.len() as u128) >> 64) as usize
    }

    /// A fingerprint will be looked up soon.
    #[inline]
    pub fn expect(&self, fingerprint: u64) {
        let set = self.set_of(fingerprint);
        prefetch(&self.tags, set);
        prefetch(&self.ways, set);
    }

    /// The entry of a fingerprint, which is not 0.
    pub fn find(&self, fingerprint: u64) -> Option<Slot> {
        let set = self.set_of(fingerprint);
        let way = self.tags[set].0.iter().position(|&tag| tag == fingerprint)?;
        Some(Slot { set: set as u32, way: way as u8 })
    }

    /// The page of an entry.
    pub fn ppn(&self, slot: Slot) -> u32 {
        self.ways[slot.set as usize].ppn[usize::from(slot.way)]
    }

    /// The entry was of use.
    pub fn hit(&mut self, slot: Slot) {
        if self.retain {
            let count = &mut self.ways[slot.set as usize].count[usize::from(slot.way)];
            *count = (*count + HIT).min(COUNT_MAX);
        }
    }

    /// Puts another page under an entry's fingerprint.
    pub fn set_ppn(&mut self, slot: Slot, ppn: u32) {
        self.ways[slot.set as usize].ppn[usize::from(slot.way)] = ppn;
    }

    /// Takes an entry out.
    pub fn remove(&mut self, slot: Slot) {
        let (set, way) = (slot.set as usize, usize::from(slot.way));
        self.tags[set].0[way] = 0;
        self.ways[set].count[way] = 0;
        self.used -= 1;
    }

    /// Enters a fingerprint that has no entry, in place of another one if its set is full.
    pub fn insert(&mut self, fingerprint: u64, ppn: u32) {
        let set = self.set_of(fingerprint);
        let (tags, ways) = (&mut self.tags[set].0, &mut self.ways[set]);
        debug_assert!(!tags.contains(&fingerprint), "fingerprint entered twice");
        let free = tags.iter().position(|&tag| tag == 0);
        self.used += u64::from(free.is_some());
        self.evicted += u64::from(free.is_none());
        let way = free.unwrap_or_else(|| victim(ways));
        tags[way] = fingerprint;
        ways.ppn[way] = ppn;
        ways.count[way] = 0;
    }

    /// The page of an entry moved.
    pub fn relocate(&mut self, fingerprint: u64, from: u32, to: u32) {
        if let Some(slot) = self.find(fingerprint).filter(|&slot| self.ppn(slot) == from) {
            self.set_ppn(slot, to);
        }
    }

    /// Bytes in the controller: 8 of fingerprint, 4 of location, half a byte of count per entry,
    /// and 3 bits of hand per set.
    pub fn dram(&self) -> [(&'static str, u64); 3] {
        let (entries, sets) = (self.capacity(), self.tags.len() as u64);
        [
            ("fingerprints", entries * 8),
            ("fingerprint locations", entries * 4),
            ("fingerprint counts", entries.div_ceil(2) + (sets * 3).div_ceil(8)),
        ]
    }
}

/// The way that the hand ends at: the first one without a hit to lose, or after one round the one
/// it began with.
fn victim(ways: &mut Ways) -> usize {
    for _ in 0..WAYS {
        let way = usize::from(ways.hand);
        ways.hand = (ways.hand + 1) % WAYS as u8;
        if ways.count[way] == 0 {
            return way;
        }
        ways.count[way] -= 1;
    }
    let way = usize::from(ways.hand);
    ways.hand = (ways.hand + 1) % WAYS as u8;
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_fingerprints_outlive_a_flood_and_the_budget_holds() {
        let mut found = [0; 2];
        for retain in [true, false] {
            let mut table = HotTable::new(800, retain);
            let hot = |n: u64| mix64(n + 1);
            (0..80).for_each(|n| table.insert(hot(n), n as u32));
            for round in 0..20 {
                for n in 0..80 {
                    if let Some(slot) = table.find(hot(n)) {
                        table.hit(slot);
                    }
                }
                for n in 0..400_u64 {
                    table.insert(mix64(1_000_000 + round * 400 + n), 7);
                    assert!(table.used() <= 800 && table.capacity() <= 800);
                }
            }
            found[usize::from(retain)] = (0..80).filter(|&n| table.find(hot(n)).is_some()).count();
        }
        assert!(found[1] >= 78 && found[0] == 0, "{found:?}");
    }

    #[test]
    fn entries_move_and_go() {
        let mut table = HotTable::new(16, true);
        table.insert(5, 50);
        table.relocate(5, 51, 52);
        table.relocate(5, 50, 60);
        let slot = table.find(5).expect("entered");
        assert_eq!(table.ppn(slot), 60);
        table.remove(slot);
        assert_eq!((table.find(5), table.used()), (None, 0));
    }
}
