//! CAFTL's fingerprint store: one entry per content with a strong fingerprint, in memory.
//! Room: onefold-flash.   Source: CAFTL (FAST'11) as seed 002 sec. II describes it.
//! Invariants: an entry names a live page, and the fingerprint is that of its content: entries
//! leave when their page dies and follow it when it moves, so a hit needs no comparison.
//! Cost: open addressing, at most three quarters full: 24 bytes a place and 4 a page here; the
//! drive would keep whole digests, and is charged for them.

use crate::dedup::fingerprints::mix64;

#[derive(Clone, Copy, Debug)]
struct Place {
    fingerprint: u128,
    /// `NONE` for a free place.
    ppn: u32,
    hits: u32,
}

const NONE: u32 = u32::MAX;
const FREE: Place = Place { fingerprint: 0, ppn: NONE, hits: 0 };

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    places: Vec<Place>,
    /// The place that a page is named in.
    place_of: Vec<u32>,
    used: u64,
    capacity: u64,
    hand: usize,
    digest_bytes: u64,
    pub evicted: u64,
}

impl Store {
    /// A store for a drive of `pages` with room for a share of them, charged so many bytes a
    /// digest.
    pub fn new(pages: u32, share: f64, digest_bytes: u64) -> Self {
        let capacity = ((f64::from(pages) * share) as u64).max(16);
        let places = (capacity + capacity / 3 + 1) as usize;
        Self {
            places: vec![FREE; places],
            place_of: vec![NONE; pages as usize],
            used: 0,
            capacity,
            hand: 0,
            digest_bytes,
            evicted: 0,
        }
    }

    fn home(&self, fingerprint: u128) -> usize {
        let word = mix64(fingerprint as u64 ^ (fingerprint >> 64) as u64);
        ((u128::from(word) * self.places.len() as u128) >> 64) as usize
    }

    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.places.len() { 0 } else { at + 1 }
    }

    fn find(&self, fingerprint: u128) -> Result<usize, usize> {
        let mut at = self.home(fingerprint);
        loop {
            let place = &self.places[at];
            if place.ppn == NONE {
                return Err(at);
            }
            if place.fingerprint == fingerprint {
                return Ok(at);
            }
            at = self.behind(at);
        }
    }

    /// The page with this fingerprint; counts the hit.
    pub fn look_up(&mut self, fingerprint: u128) -> Option<u32> {
        let at = self.find(fingerprint).ok()?;
        self.places[at].hits = self.places[at].hits.saturating_add(1);
        Some(self.places[at].ppn)
    }

    /// Enters a page, unless its content has an entry.
    pub fn insert(&mut self, fingerprint: u128, ppn: u32) {
        if self.find(fingerprint).is_ok() {
            return;
        }
        if self.used == self.capacity {
            self.evict();
        }
        let at = self.find(fingerprint).expect_err("it was not there");
        self.places[at] = Place { fingerprint, ppn, hits: 0 };
        self.place_of[ppn as usize] = at as u32;
        self.used += 1;
    }

    /// Takes out the first entry behind the hand that had no hit since the hand last came by.
    fn evict(&mut self) {
        loop {
            let at = self.hand;
            self.hand = self.behind(at);
            let place = &mut self.places[at];
            if place.ppn == NONE {
                continue;
            }
            if place.hits == 0 {
                self.evicted += 1;
                return self.free(at);
            }
            place.hits /= 2;
        }
    }

    /// Frees a place and closes the gap, so that no probe ends early.
    fn free(&mut self, at: usize) {
        self.place_of[self.places[at].ppn as usize] = NONE;
        self.used -= 1;
        let (mut gap, mut at) = (at, at);
        loop {
            at = self.behind(at);
            let place = self.places[at];
            if place.ppn == NONE {
                self.places[gap] = FREE;
                return;
            }
            let home = self.home(place.fingerprint);
            let stays = if gap <= at { gap < home && home <= at } else { gap < home || home <= at };
            if !stays {
                self.places[gap] = place;
                self.place_of[place.ppn as usize] = gap as u32;
                gap = at;
            }
        }
    }

    /// A page moved.
    pub fn relocate(&mut self, from: u32, to: u32) {
        let place = std::mem::replace(&mut self.place_of[from as usize], NONE);
        if place != NONE {
            self.places[place as usize].ppn = to;
            self.place_of[to as usize] = place;
        }
    }

    /// A page died.
    pub fn remove(&mut self, ppn: u32) {
        let place = self.place_of[ppn as usize];
        if place != NONE {
            self.free(place as usize);
        }
    }

    /// Whether an entry names this page.
    pub fn names(&self, ppn: u32) -> bool {
        self.place_of[ppn as usize] != NONE
    }

    /// Entries.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes in the controller: digest, location and a byte of hits an entry, and the places of
    /// the entries by page, which a bounded store keeps in a table of as many places.
    pub fn dram(&self) -> [(&'static str, u64); 2] {
        let places = self.places.len() as u64;
        [
            ("fingerprint store", places * (self.digest_bytes + 4 + 1)),
            ("fingerprint store by page", places.min(self.place_of.len() as u64) * 4),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_store_is_a_map_of_bounded_size() {
        let mut random = onefold_block::SplitMix64::new(3);
        for share in [1.0, 0.3] {
            let mut store = Store::new(64, share, 20);
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
                        if store.place_of[to as usize] == NONE {
                            store.relocate(ppn, to);
                            let moved = by_page.remove(&ppn);
                            moved.map(|moved| by_page.insert(to, moved));
                        }
                    }
                    _ if store.place_of[ppn as usize] == NONE => {
                        store.insert(fingerprint, ppn);
                        if store.place_of[ppn as usize] != NONE {
                            by_page.insert(ppn, fingerprint);
                        }
                    }
                    _ => {}
                }
                assert!(store.used() <= store.capacity);
                by_page.retain(|&ppn, _| store.place_of[ppn as usize] != NONE);
                assert_eq!(store.used(), by_page.len() as u64);
                for (&ppn, &fingerprint) in &by_page {
                    assert_eq!(store.look_up(fingerprint), Some(ppn));
                }
            }
        }
    }
}
