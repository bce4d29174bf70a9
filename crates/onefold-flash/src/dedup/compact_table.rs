//! A fingerprint table of six bytes an entry, for policies that compare before they share.
//! Room: onefold-flash.
//! An entry is 14 bits of fingerprint beside the set's number, 2 bits of count and a location. So
//! one new page in about 2,000 meets an entry of other content and costs a comparison that fails,
//! and a table of the same size has more than twice the entries of one with whole fingerprints.
//! Invariants: never more than `entries` entries; an entry is a hint.
//! Cost: one cache line for any look-up.

use crate::dedup::signs::{self, Candidates, SIGN, SIGN_BITS, Slot};
use crate::memory::{prefetch, table_of};

const WAYS: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set {
    ppn: [u32; WAYS],
    /// Count in the two upper bits; the rest 0 for a free way.
    sign: [u16; WAYS],
    hand: u8,
}

const _: () = assert!(size_of::<Set>() == 64);

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct CompactTable {
    sets: Vec<Set>,
    used: u64,
    pub evicted: u64,
}

impl CompactTable {
    /// An empty table of at most `entries` entries, which are at least eight.
    pub fn new(entries: u64) -> Self {
        let sets = (entries / WAYS as u64).max(1) as usize;
        Self {
            sets: table_of(sets, Set { ppn: [0; WAYS], sign: [0; WAYS], hand: 0 }),
            used: 0,
            evicted: 0,
        }
    }

    /// Entries there is room for.
    pub fn capacity(&self) -> u64 {
        (self.sets.len() * WAYS) as u64
    }

    /// Entries in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    fn place(&self, fingerprint: u64) -> (usize, u16) {
        signs::place(fingerprint, self.sets.len())
    }

    /// A fingerprint will be looked up soon.
    #[inline]
    pub fn expect(&self, fingerprint: u64) {
        prefetch(&self.sets, self.place(fingerprint).0);
    }

    /// The entries that may be of this fingerprint.
    #[inline]
    pub fn find(&self, fingerprint: u64) -> Candidates {
        let (set, sign) = self.place(fingerprint);
        Candidates::of(set as u32, &self.sets[set].sign, sign)
    }

    /// The page of an entry.
    pub fn ppn(&self, slot: Slot) -> u32 {
        self.sets[slot.set as usize].ppn[usize::from(slot.way)]
    }

    /// The entry was of use: it is safe from two more rounds of the hand.
    pub fn hit(&mut self, slot: Slot) {
        signs::hit(&mut self.sets[slot.set as usize].sign[usize::from(slot.way)]);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, slot: Slot) {
        self.sets[slot.set as usize].sign[usize::from(slot.way)] = 0;
        self.used -= 1;
    }

    /// Enters a page, in place of another entry if the set is full.
    pub fn insert(&mut self, fingerprint: u64, ppn: u32) {
        let (at, sign) = self.place(fingerprint);
        let set = &mut self.sets[at];
        let free = set.sign.iter().position(|&sign| sign == 0);
        self.used += u64::from(free.is_some());
        self.evicted += u64::from(free.is_none());
        let way = free.unwrap_or_else(|| set.victim());
        set.sign[way] = sign;
        set.ppn[way] = ppn;
    }

    /// The page of an entry moved.
    pub fn relocate(&mut self, fingerprint: u64, from: u32, to: u32) {
        let (at, _) = self.place(fingerprint);
        let set = &mut self.sets[at];
        for (ppn, sign) in set.ppn.iter_mut().zip(set.sign) {
            if *ppn == from && sign != 0 {
                *ppn = to;
            }
        }
    }

    /// Bytes in the controller: six an entry, and 3 bits of hand a set.
    pub fn dram(&self) -> u64 {
        self.capacity() * 6 + (self.sets.len() as u64 * 3).div_ceil(8)
    }
}

impl Set {
    /// The first way from the hand on without a hit to lose, or after one round the hand's own.
    fn victim(&mut self) -> usize {
        for _ in 0..WAYS {
            let way = usize::from(self.hand);
            self.hand = (self.hand + 1) % WAYS as u8;
            if self.sign[way] <= SIGN {
                return way;
            }
            self.sign[way] -= 1 << SIGN_BITS;
        }
        let way = usize::from(self.hand);
        self.hand = (self.hand + 1) % WAYS as u8;
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::seeded::mix64;

    #[test]
    fn hot_entries_stay_and_strangers_are_rare() {
        let mut table = CompactTable::new(8192);
        (0..400).for_each(|n| table.insert(mix64(n + 1), n as u32));
        let mut strangers = 0;
        for n in 0..100_000_u64 {
            if n.is_multiple_of(4096) {
                for hot in 0..400 {
                    let slot =
                        table.find(mix64(hot + 1)).find(|&slot| table.ppn(slot) == hot as u32);
                    table.hit(slot.expect("hot entries stay"));
                }
            }
            let fingerprint = mix64(1 << 40 | n);
            strangers += table.find(fingerprint).count();
            table.insert(fingerprint, 9_999);
            assert!(table.used() <= 8192);
        }
        assert!((10..100).contains(&strangers), "{strangers} of 49 expected");
    }
}
