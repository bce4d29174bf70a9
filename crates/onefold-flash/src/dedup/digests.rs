//! Strong fingerprints of stored pages, as many as there is room for, by page.
//! Room: onefold-flash.
//! A digest says that two pages are equal without reading either. It is worth its memory only for
//! pages that are written again, so the table is a cache of bounded size: eight places a set,
//! chosen by the page, and of a full set the one that was of no use for longest goes.
//! Invariants: an entry names a live page and holds the digest of its content: it goes when the
//! page dies and follows it when it moves.
//! Cost: a location and 128 bits of digest an entry, 20 bytes, and 4 bits of use.

use crate::dedup::SameDigest;
use crate::memory::table_of;
use onefold_block::seeded::mix64;

const WAYS: usize = 8;
const FREE: u32 = u32::MAX;
/// Uses that are remembered of an entry.
const USES_MAX: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    ppn: u32,
    uses: u8,
    digest: u128,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Digests {
    /// Sets one behind the other; empty without memory for any.
    entries: Vec<Entry>,
    /// The place of each set at which the next victim is looked for.
    hands: Vec<u8>,
    pub used: u64,
}

impl Digests {
    /// A table of at most `entries`, at least eight; of none where that is 0.
    pub fn new(entries: u64) -> Self {
        let sets = (entries / WAYS as u64).max(u64::from(entries > 0)) as usize;
        let free = Entry { ppn: FREE, uses: 0, digest: 0 };
        Self { entries: table_of(sets * WAYS, free), hands: table_of(sets, 0), used: 0 }
    }

    /// Whether there is room for any.
    pub fn is_on(&self) -> bool {
        !self.hands.is_empty()
    }

    /// The set of a page; there must be one.
    fn set_of(&self, ppn: u32) -> usize {
        ((u128::from(mix64(ppn.into())) * self.hands.len() as u128) >> 64) as usize
    }

    fn find(&self, ppn: u32) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let first = self.set_of(ppn) * WAYS;
        (first..first + WAYS).find(|&at| self.entries[at].ppn == ppn)
    }

    /// Whether the digest of a page is known.
    pub fn has(&self, ppn: u32) -> bool {
        self.find(ppn).is_some()
    }

    /// Whether a stored page has this digest: the proof that it holds the same, that it holds
    /// something else, or nothing if its digest is not known.
    pub fn compare(&mut self, ppn: u32, digest: u128) -> Option<Result<SameDigest, ()>> {
        let at = self.find(ppn)?;
        let entry = &mut self.entries[at];
        entry.uses = USES_MAX;
        Some(SameDigest::of(entry.digest, digest, ppn).ok_or(()))
    }

    /// Enters the digest of a page.
    pub fn insert(&mut self, ppn: u32, digest: u128) {
        if !self.is_on() {
            return;
        }
        let at = self.find(ppn).unwrap_or_else(|| self.place(ppn));
        self.used += u64::from(self.entries[at].ppn == FREE);
        self.entries[at] = Entry { ppn, uses: 0, digest };
    }

    /// A free place of the page's set, or the first behind the hand without a use to lose.
    fn place(&mut self, ppn: u32) -> usize {
        let set = self.set_of(ppn);
        let first = set * WAYS;
        if let Some(at) = (first..first + WAYS).find(|&at| self.entries[at].ppn == FREE) {
            return at;
        }
        loop {
            let at = first + usize::from(self.hands[set]);
            self.hands[set] = (self.hands[set] + 1) % WAYS as u8;
            match self.entries[at].uses {
                0 => return at,
                _ => self.entries[at].uses -= 1,
            }
        }
    }

    /// A page moved.
    pub fn moved(&mut self, from: u32, to: u32) {
        if let Some(at) = self.find(from) {
            let entry = self.entries[at];
            self.remove(from);
            self.insert(to, entry.digest);
            if let Some(at) = self.find(to) {
                self.entries[at].uses = entry.uses;
            }
        }
    }

    /// A page died.
    pub fn remove(&mut self, ppn: u32) {
        if let Some(at) = self.find(ppn) {
            self.entries[at] = Entry { ppn: FREE, uses: 0, digest: 0 };
            self.used -= 1;
        }
    }

    /// Bytes in the controller: 20 an entry, its 2 bits of use, and 3 bits of hand a set.
    pub fn dram(&self) -> u64 {
        let (entries, sets) = (self.entries.len() as u64, self.hands.len() as u64);
        entries * 20 + (entries * 2 + sets * 3).div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_known_of_a_page_is_its_own_digest_and_goes_with_it() {
        let mut random = onefold_block::SplitMix64::new(5);
        let mut digests = Digests::new(64);
        let mut live: BTreeMap<u32, u128> = BTreeMap::new();
        let (mut known, mut proved) = (0, 0);
        for step in 0..40_000_u32 {
            let ppn = random.below(200) as u32;
            match (random.below(4), live.get(&ppn).copied()) {
                (0, Some(_)) => {
                    digests.remove(ppn);
                    live.remove(&ppn);
                }
                (1, Some(digest)) => {
                    let to = random.below(200) as u32;
                    if !live.contains_key(&to) {
                        digests.moved(ppn, to);
                        live.remove(&ppn);
                        live.insert(to, digest);
                    }
                }
                (_, None) => {
                    let digest = u128::from(step % 90);
                    digests.insert(ppn, digest);
                    live.insert(ppn, digest);
                }
                (_, Some(digest)) => {
                    let other = digests.compare(ppn, digest + 1);
                    assert!(other.is_none_or(|answer| answer.is_err()));
                    let same = digests.compare(ppn, digest);
                    assert!(same.is_none_or(|answer| answer.is_ok_and(|same| same.ppn() == ppn)));
                    proved += u32::from(same.is_some());
                }
            }
            for page in 0..200 {
                assert!(!digests.has(page) || live.contains_key(&page), "of dead page {page}");
            }
            known = known.max(digests.used);
            assert_eq!(digests.used, (0..200).filter(|&page| digests.has(page)).count() as u64);
        }
        assert!(known == 64 && proved > 1000, "{known} {proved}");
    }

    #[test]
    fn digests_of_use_stay_and_none_are_kept_without_memory() {
        let mut digests = Digests::new(800);
        (0..100).for_each(|page| digests.insert(page, page.into()));
        for page in 1000..20_000 {
            digests.insert(page, 7);
            if page % 20 == 0 {
                (0..100).for_each(|hot| {
                    let _ = digests.compare(hot, hot.into());
                });
            }
        }
        let stayed = (0..100).filter(|&hot| digests.has(hot)).count();
        assert!(stayed > 90, "{stayed} of 100");
        assert_eq!(digests.dram(), 800 * 20 + (800 * 2 + 100 * 3_u64).div_ceil(8));
        let mut none = Digests::new(0);
        none.insert(3, 4);
        assert!(!none.has(3) && !none.is_on() && none.dram() == 0);
    }
}
