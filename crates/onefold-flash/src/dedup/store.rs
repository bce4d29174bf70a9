//! CAFTL's fingerprint store: one entry per content with a strong fingerprint, in memory.
//! Room: onefold-flash.   Source: [caftl-11] as [park-shin] sec. II describes it.
//! Invariants: an entry names a live page, and the fingerprint is that of its content: entries
//! leave when their page dies and follow it when it moves, so a hit needs no comparison.
//! Cost: about 9 bytes a slot of which a quarter is free, 16 a slot and 4 a page here; the drive
//! would keep whole digests, and is charged for them. A look-up that finds nothing and a move take
//! one cache line, a death two.

use crate::dedup::SameDigest;
use crate::dedup::options::{Kind, OptionInfo};
use crate::dedup::slots::{FREE, Key, Slots};
use crate::memory::{prefetch, table_of};
use onefold_block::seeded::mix64;

const NONE: u32 = u32::MAX;
/// Slots of pages in a line of a processor's cache.
const PAGES_PER_LINE: u32 = 16;

pub(crate) const HASH: OptionInfo = OptionInfo::new(
    "hash",
    Kind::Word(&["sha256", "sha1"]),
    "The hash; pages of equal SHA-1 are compared, because its collisions can be made",
);
pub(crate) const STORE_SHARE: OptionInfo = OptionInfo::new(
    "store_share",
    Kind::Share(1.0),
    "Entries of the fingerprint store, as a share of the drive's pages",
);

/// Bytes of the digest that a word names.
fn digest_bytes(word: &str) -> u64 {
    if word == "sha1" { 20 } else { 32 }
}

/// Whether different contents of one hash are known, so that equal hashes prove nothing.
fn is_broken(word: &str) -> bool {
    word == "sha1"
}

/// A page whose digest is the one that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Its content is the same.
    Same(SameDigest),
    /// Its content may be the same: collisions of the hash can be made.
    Perhaps(u32),
}

impl Match {
    /// The page.
    pub const fn ppn(self) -> u32 {
        match self {
            Self::Same(same) => same.ppn(),
            Self::Perhaps(ppn) => ppn,
        }
    }
}

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    slots: Slots,
    /// The whole fingerprint of each slot in use: signs alone would not do.
    fingerprints: Vec<u128>,
    /// The slot that a page is named in.
    slot_of: Vec<u32>,
    used: u64,
    capacity: u64,
    hand: u32,
    /// The fingerprint that was looked up last and not found, until another one is entered.
    absent: Option<u128>,
    digest_bytes: u64,
    /// Whether equal digests prove that pages are equal.
    proves: bool,
    pub evicted: u64,
}

fn key(fingerprint: u128) -> Key {
    let word = mix64(fingerprint as u64 ^ (fingerprint >> 64) as u64);
    Key { word, sign: word as u32 }
}

impl Store {
    /// A store for a drive of `pages` with room for a share of them, of digests of this hash.
    pub fn new((pages, places): (u32, u32), share: f64, hash: &str) -> Self {
        let capacity = ((f64::from(pages) * share) as u64).max(16);
        let slots = Slots::new(capacity);
        Self {
            fingerprints: table_of(slots.len() as usize, 0),
            slots,
            slot_of: table_of(places as usize, NONE),
            used: 0,
            capacity,
            hand: 0,
            absent: None,
            digest_bytes: digest_bytes(hash),
            proves: !is_broken(hash),
            evicted: 0,
        }
    }

    #[inline]
    fn find(&self, fingerprint: u128) -> Option<u32> {
        self.slots.find(key(fingerprint), |slot| self.fingerprints[slot as usize] == fingerprint)
    }

    /// A fingerprint will be looked up soon.
    pub fn expect(&self, fingerprint: u128) {
        self.slots.prefetch(key(fingerprint).word);
    }

    /// These pages will soon die.
    pub fn expect_deaths(&self, ppns: &[u32]) {
        if self.used > 0 {
            for &ppn in ppns {
                prefetch(&self.slot_of, ppn as usize);
            }
            for &ppn in ppns {
                self.slots.prefetch_slot(self.slot_of[ppn as usize]);
            }
        }
    }

    /// This page will soon move.
    #[inline]
    pub fn expect_move(&self, ppn: u32) {
        if self.used > 0 {
            self.slots.prefetch_slot(self.slot_of[ppn as usize]);
            prefetch(&self.slot_of, (ppn + PAGES_PER_LINE) as usize);
        }
    }

    /// The page with this fingerprint; counts the hit.
    pub fn look_up(&mut self, fingerprint: u128) -> Option<Match> {
        let Some(slot) = self.find(fingerprint) else {
            self.absent = Some(fingerprint);
            if let Some(slot) = self.slots.free_at_home(key(fingerprint).word) {
                prefetch(&self.fingerprints, slot as usize);
            }
            return None;
        };
        self.slots.hit(slot);
        let page = self.slots.page(slot);
        if self.proves {
            SameDigest::of(self.fingerprints[slot as usize], fingerprint, page).map(Match::Same)
        } else {
            Some(Match::Perhaps(page))
        }
    }

    /// Enters a page, unless its content has an entry.
    pub fn insert(&mut self, fingerprint: u128, ppn: u32) {
        if self.absent.take() != Some(fingerprint) && self.find(fingerprint).is_some() {
            return;
        }
        if self.used == self.capacity {
            self.evict();
        }
        let slot = self.slots.insert(key(fingerprint), ppn);
        self.fingerprints[slot as usize] = fingerprint;
        self.slot_of[ppn as usize] = slot;
        self.used += 1;
    }

    /// Takes out the first entry behind the hand that had no hit since the hand last came by.
    fn evict(&mut self) {
        loop {
            let slot = self.hand;
            self.hand = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
            let page = self.slots.page(slot);
            if page != FREE && self.slots.halve(slot) == 0 {
                self.evicted += 1;
                return self.remove(page);
            }
        }
    }

    /// A page moved.
    pub fn relocate(&mut self, from: u32, to: u32) {
        if self.used == 0 {
            return;
        }
        let slot = std::mem::replace(&mut self.slot_of[from as usize], NONE);
        if slot != NONE {
            self.slots.set_page(slot, to);
            self.slot_of[to as usize] = slot;
        }
    }

    /// A page died.
    pub fn remove(&mut self, ppn: u32) {
        if self.used == 0 {
            return;
        }
        let slot = std::mem::replace(&mut self.slot_of[ppn as usize], NONE);
        if slot != NONE {
            let fingerprints = &self.fingerprints;
            self.slots.remove(slot, |_| key(fingerprints[slot as usize]).word);
            self.used -= 1;
        }
    }

    /// Whether an entry names this page.
    pub fn names(&self, ppn: u32) -> bool {
        self.slot_of[ppn as usize] != NONE
    }

    /// Entries.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes in the controller: digest, location and a byte of hits an entry, a quarter of their
    /// places free, and the places of the entries by page, which a bounded store keeps in a table
    /// of as many places.
    pub fn dram(&self) -> [(&'static str, u64); 2] {
        let places = self.capacity + self.capacity / 3 + 1;
        [
            ("fingerprint store", places * (self.digest_bytes + 4 + 1)),
            ("fingerprint store by page", places.min(self.slot_of.len() as u64) * 4),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A fingerprint that outlived its page would name what is written there next.
    #[test]
    fn the_only_page_moves_and_dies_like_any_other() {
        let mut store = Store::new((64, 64), 1.0, "sha256");
        for ppn in [3, 5] {
            store.insert(7, ppn);
            store.relocate(ppn, 9);
            assert_eq!((store.slot_of[ppn as usize], store.slot_of[9] == NONE), (NONE, false));
            store.remove(9);
            assert_eq!((store.slot_of[9], store.used), (NONE, 0));
        }
    }

    #[test]
    fn the_store_is_a_map_of_bounded_size() {
        let mut random = onefold_block::SplitMix64::new(3);
        for share in [1.0, 0.3] {
            let mut store = Store::new((64, 64), share, "sha256");
            let mut by_page: BTreeMap<u32, u128> = BTreeMap::new();
            for _ in 0..20_000 {
                let (ppn, fingerprint) = (random.below(64) as u32, u128::from(random.below(50)));
                match random.below(4) {
                    0 => {
                        store.remove(ppn);
                        by_page.remove(&ppn);
                    }
                    1 => {
                        let to = random.below(64) as u32;
                        if store.slot_of[to as usize] == NONE {
                            store.relocate(ppn, to);
                            let moved = by_page.remove(&ppn);
                            moved.map(|moved| by_page.insert(to, moved));
                        }
                    }
                    _ if store.slot_of[ppn as usize] == NONE => {
                        store.insert(fingerprint, ppn);
                        if store.slot_of[ppn as usize] != NONE {
                            by_page.insert(ppn, fingerprint);
                        }
                    }
                    _ => {}
                }
                assert!(store.used() <= store.capacity);
                by_page.retain(|&ppn, _| store.slot_of[ppn as usize] != NONE);
                assert_eq!(store.used(), by_page.len() as u64);
                for (&ppn, &fingerprint) in &by_page {
                    assert_eq!(store.look_up(fingerprint).map(Match::ppn), Some(ppn));
                }
            }
        }
    }
}
