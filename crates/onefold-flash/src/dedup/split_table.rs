//! Entries of fingerprints and strong digests, in memory that goes where it saves most.
//! Room: onefold-flash.
//! A set has about sixteen cells of 18 bytes. A cell holds three entries like those of
//! [`crate::dedup::compact_table`], or one digest: 128 bits of the hash, and of its page's number
//! what the set does not say. Sets take cells from one kind for the other as entries and digests
//! come in, towards the split that [`Worth`] learns. Entries lie in the set of their fingerprint,
//! digests in that of their page.
//! Invariants: an entry is a hint; a digest is that of a live page, goes when the page dies and
//! follows it when it moves; a cell is of one kind.
//! Cost: 18 bytes a cell; some 48 entries are looked through where there are few digests, so that
//! one new page in 340 then meets an entry of other content.

use crate::dedup::SameDigest;
use crate::dedup::signs::{self, Candidates, SIGN, SIGN_BITS, Slot};
use crate::dedup::worth::{ENTRIES_PER_CELL, Worth};
use crate::memory::{prefetch, table_of};
use onefold_block::seeded::mix64;

/// Cells of a set, about.
const CELLS: f64 = 16.0;
/// Cells of a set at most.
const CELLS_MAX: usize = 21;
const WAYS: usize = CELLS_MAX * ENTRIES_PER_CELL;
const CELL_BITS: u64 = 18 * 8;
/// Bits of a page's number that a digest's cell has room for.
const PAGE_BITS: u32 = 16;
/// Of each cell, its kind and two bits of use; of a set, where victims are looked for.
const CELL_STATE_BITS: u64 = 3;
const SET_BITS: u64 = 6 + 5;
/// Uses that are remembered of a digest.
const USES_MAX: u8 = 3;
const FREE: u32 = u32::MAX;
/// One set in so many remembers which entries and which digests went last, so many of each.
const SAMPLE: usize = 8;
const GONE_ENTRIES: usize = 16;
const GONE_DIGESTS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Set {
    /// Of the entries; 0 for a free way, and in cells of digests.
    sign: [u16; WAYS],
    /// Of the entries; of a digest in the first way of its cell, [`FREE`] without one.
    ppn: [u32; WAYS],
    digest: [u128; CELLS_MAX],
    uses: [u8; CELLS_MAX],
    /// A bit for each cell that is for a digest.
    for_digests: u32,
    /// Cells that it has.
    cells: u8,
    entry_hand: u8,
    digest_hand: u8,
}

const EMPTY: Set = Set {
    sign: [0; WAYS],
    ppn: [0; WAYS],
    digest: [0; CELLS_MAX],
    uses: [0; CELLS_MAX],
    for_digests: 0,
    cells: 0,
    entry_hand: 0,
    digest_hand: 0,
};

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct SplitTable {
    sets: Vec<Set>,
    /// Of every eighth set: the signs of entries that went last, and the pages of digests.
    gone_entries: Vec<Gone<u16, GONE_ENTRIES>>,
    gone_digests: Vec<Gone<u32, GONE_DIGESTS>>,
    worth: Worth,
    /// Of all sets.
    cells: u64,
    /// Numbers that pages may have.
    places: u32,
    /// Entries in use.
    pub entries: u64,
    /// Digests that are known.
    pub digests: u64,
    /// Entries that went for others or for digests.
    pub evicted: u64,
}

impl SplitTable {
    /// Memory for so many entries and digests at first, of a drive with so many places.
    pub fn new(
        places: u32,
        entries: u64,
        digests: u64,
        read_of_program: f64,
        learns: bool,
    ) -> Self {
        let cells = (entries / ENTRIES_PER_CELL as u64 + digests).max(CELLS as u64);
        let count = ((cells as f64 / CELLS).round() as u64).max(1);
        let cells = cells.min(count * CELLS_MAX as u64);
        let mut sets = table_of(count as usize, EMPTY);
        for (at, set) in (0..).zip(&mut sets) {
            set.cells = ((at + 1) * cells / count - at * cells / count) as u8;
        }
        let samples = sets.len().div_ceil(SAMPLE);
        Self {
            sets,
            gone_entries: table_of(samples, Gone::none(0)),
            gone_digests: table_of(samples, Gone::none(FREE)),
            worth: Worth::new(digests as f64 / cells as f64, read_of_program, learns),
            cells,
            places,
            entries: 0,
            digests: 0,
            evicted: 0,
        }
    }

    /// A candidate without a digest was compared at once, or left for later.
    pub fn undigested(&mut self, page: u32, is_compared: bool) {
        let set = page as usize % self.sets.len();
        let went = set.is_multiple_of(SAMPLE) && self.gone_digests[set / SAMPLE].forget(page, FREE);
        self.worth.undigested(is_compared, went.then_some((GONE_DIGESTS / SAMPLE) as f64));
    }

    /// Cells of digests for each hundred cells, as it is meant to be.
    pub fn digest_percent(&self) -> u64 {
        (100.0 * self.worth.target()).round() as u64
    }

    /// Cells of this set that are to hold digests: of all sets together as many as is meant, and
    /// never all.
    fn target_of(&self, set: usize) -> u32 {
        let part = (mix64(set as u64) >> 32) as f64 / (1_u64 << 32) as f64;
        (f64::from(self.sets[set].cells) * self.worth.target() + part) as u32
    }

    fn place(&self, fingerprint: u64) -> (usize, u16) {
        signs::place(fingerprint, self.sets.len())
    }

    /// A fingerprint will be looked up soon.
    pub fn expect(&self, fingerprint: u64) {
        prefetch(&self.sets, self.place(fingerprint).0);
    }

    /// The entries that may be of this fingerprint.
    pub fn find(&self, fingerprint: u64) -> Candidates {
        let (set, wanted) = self.place(fingerprint);
        Candidates::of(set as u32, &self.sets[set].sign, wanted)
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
        self.entries -= 1;
    }

    /// Enters a page, in a cell of digests if the set has too many, or in place of another entry.
    pub fn insert(&mut self, fingerprint: u64, ppn: u32) {
        let (at, sign) = self.place(fingerprint);
        if at.is_multiple_of(SAMPLE) && self.gone_entries[at / SAMPLE].forget(sign, 0) {
            self.worth.unfound((GONE_ENTRIES / SAMPLE) as f64);
        }
        let target = self.target_of(at);
        let set = &mut self.sets[at];
        let mut free = set.free_way();
        if free.is_none() && set.for_digests.count_ones() > target {
            let cell = set.digest_victim();
            let went = set.for_entries(cell);
            free = Some(cell * ENTRIES_PER_CELL);
            self.digests -= u64::from(went != FREE);
            self.digest_goes(at, went);
        }
        let set = &mut self.sets[at];
        self.entries += u64::from(free.is_some());
        self.evicted += u64::from(free.is_none());
        let way = free.unwrap_or_else(|| set.entry_victim());
        let went = std::mem::replace(&mut set.sign[way], sign);
        set.ppn[way] = ppn;
        self.entry_goes(at, went);
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

    /// An entry of this sign goes, if there is one.
    fn entry_goes(&mut self, set: usize, sign: u16) {
        if set.is_multiple_of(SAMPLE) && sign != 0 {
            self.gone_entries[set / SAMPLE].keep(sign & SIGN);
        }
    }

    /// The digest of this page goes, if there is one.
    fn digest_goes(&mut self, set: usize, page: u32) {
        if set.is_multiple_of(SAMPLE) && page != FREE {
            self.gone_digests[set / SAMPLE].keep(page);
        }
    }

    fn digest_at(&self, page: u32) -> (usize, Option<usize>) {
        let at = page as usize % self.sets.len();
        (at, self.sets[at].cell_of(page))
    }

    /// Whether the digest of a page is known.
    pub fn has(&self, page: u32) -> bool {
        self.digest_at(page).1.is_some()
    }

    /// Whether a stored page has this digest: the proof that it holds the same, that it holds
    /// something else, or nothing if its digest is not known.
    pub fn compare(&mut self, page: u32, digest: u128) -> Option<Result<SameDigest, ()>> {
        let (at, cell) = self.digest_at(page);
        let (set, cell) = (&mut self.sets[at], cell?);
        set.uses[cell] = USES_MAX;
        Some(SameDigest::of(set.digest[cell], digest, page).ok_or(()))
    }

    /// Enters the digest of a page, in place of entries if the set has too few, or of another one.
    pub fn insert_digest(&mut self, page: u32, digest: u128) {
        self.put(page, digest, 0);
    }

    fn put(&mut self, page: u32, digest: u128, uses: u8) {
        let (at, known) = self.digest_at(page);
        if let Some(cell) = known.or_else(|| self.cell_for_digest(at)) {
            let set = &mut self.sets[at];
            set.ppn[cell * ENTRIES_PER_CELL] = page;
            (set.digest[cell], set.uses[cell]) = (digest, uses);
        }
    }

    /// The cell that the next digest of a set comes into, if it may have any.
    fn cell_for_digest(&mut self, at: usize) -> Option<usize> {
        let target = self.target_of(at);
        let set = &mut self.sets[at];
        if let Some(free) = set.cell_of(FREE) {
            self.digests += 1;
            return Some(free);
        }
        if set.for_digests.count_ones() < target {
            let cell = set.least_entries();
            for sign in set.for_digest(cell) {
                self.entries -= u64::from(sign != 0);
                self.evicted += u64::from(sign != 0);
                self.entry_goes(at, sign);
            }
            self.digests += 1;
            return Some(cell);
        }
        let cell = (set.for_digests != 0).then(|| set.digest_victim())?;
        let went = set.ppn[cell * ENTRIES_PER_CELL];
        self.digest_goes(at, went);
        Some(cell)
    }

    /// A page moved.
    pub fn digest_moved(&mut self, from: u32, to: u32) {
        if let (at, Some(cell)) = self.digest_at(from) {
            let (digest, uses) = (self.sets[at].digest[cell], self.sets[at].uses[cell]);
            self.digest_died(from);
            self.put(to, digest, uses);
        }
    }

    /// A page died.
    pub fn digest_died(&mut self, page: u32) {
        if let (at, Some(cell)) = self.digest_at(page) {
            self.sets[at].ppn[cell * ENTRIES_PER_CELL] = FREE;
            self.digests -= 1;
        }
    }

    /// Bytes in the controller. Where a cell has no room for what a set does not say of a page's
    /// number, it is wider.
    pub fn dram(&self) -> u64 {
        let sets = self.sets.len() as u64;
        let unsaid =
            (u64::from(self.places).div_ceil(sets) - 1).checked_ilog2().map_or(0, |n| n + 1);
        let wider = u64::from(unsaid.saturating_sub(PAGE_BITS));
        let entries = GONE_ENTRIES as u64 * u64::from(SIGN_BITS) + 4;
        let digests = GONE_DIGESTS as u64 * u64::from(PAGE_BITS + wider as u32) + 3;
        let gone = self.gone_entries.len() as u64 * (entries + digests);
        let cells = self.cells * (CELL_BITS + CELL_STATE_BITS + wider);
        (cells + sets * SET_BITS + gone).div_ceil(8)
    }
}

/// What went last.
#[derive(Clone, Copy, Debug)]
struct Gone<T, const N: usize> {
    last: [T; N],
    next: u8,
}

impl<T: Copy + PartialEq, const N: usize> Gone<T, N> {
    const fn none(nothing: T) -> Self {
        Self { last: [nothing; N], next: 0 }
    }

    fn keep(&mut self, what: T) {
        self.last[usize::from(self.next)] = what;
        self.next = (self.next + 1) % N as u8;
    }

    /// Forgets one; whether it was there.
    fn forget(&mut self, what: T, nothing: T) -> bool {
        let at = self.last.iter().position(|&last| last == what);
        at.inspect(|&at| self.last[at] = nothing).is_some()
    }
}

impl Set {
    fn cells(&self) -> usize {
        self.cells.into()
    }

    fn ways_in_all(&self) -> usize {
        self.cells() * ENTRIES_PER_CELL
    }

    fn is_for_digest(&self, cell: usize) -> bool {
        self.for_digests >> cell & 1 != 0
    }

    /// The cell with the digest of a page, or one for a digest that is [`FREE`].
    fn cell_of(&self, page: u32) -> Option<usize> {
        (0..self.cells())
            .find(|&cell| self.ppn[cell * ENTRIES_PER_CELL] == page && self.is_for_digest(cell))
    }

    fn free_way(&self) -> Option<usize> {
        (0..self.ways_in_all())
            .find(|&way| self.sign[way] == 0 && !self.is_for_digest(way / ENTRIES_PER_CELL))
    }

    fn ways(cell: usize) -> std::ops::Range<usize> {
        cell * ENTRIES_PER_CELL..(cell + 1) * ENTRIES_PER_CELL
    }

    /// Makes a cell one of entries; the page of the digest in it.
    fn for_entries(&mut self, cell: usize) -> u32 {
        self.for_digests &= !(1 << cell);
        self.sign[Self::ways(cell)].fill(0);
        self.ppn[cell * ENTRIES_PER_CELL]
    }

    /// Makes a cell one of a digest; the signs of the entries in it.
    fn for_digest(&mut self, cell: usize) -> [u16; ENTRIES_PER_CELL] {
        self.for_digests |= 1 << cell;
        std::array::from_fn(|way| std::mem::take(&mut self.sign[cell * ENTRIES_PER_CELL + way]))
    }

    /// The cell whose entries were of the least use.
    fn least_entries(&self) -> usize {
        let use_of = |cell: &usize| {
            let signs = self.sign[Self::ways(*cell)].iter().filter(|&&sign| sign != 0);
            signs.map(|sign| 1 + (sign >> SIGN_BITS)).sum::<u16>()
        };
        let cells = (0..self.cells()).filter(|&cell| !self.is_for_digest(cell));
        cells.min_by_key(use_of).expect("the target leaves cells for entries")
    }

    /// A cell for a digest without one, or the first behind the hand without a use to lose.
    fn digest_victim(&mut self) -> usize {
        if let Some(free) = self.cell_of(FREE) {
            return free;
        }
        loop {
            let cell = usize::from(self.digest_hand);
            self.digest_hand = (self.digest_hand + 1) % self.cells;
            if self.is_for_digest(cell) {
                match self.uses[cell] {
                    0 => return cell,
                    _ => self.uses[cell] -= 1,
                }
            }
        }
    }

    /// The first entry behind the hand without a hit to lose, or after one round the next one.
    fn entry_victim(&mut self) -> usize {
        for looked in 0.. {
            let way = usize::from(self.entry_hand);
            self.entry_hand = (self.entry_hand + 1) % (self.cells * ENTRIES_PER_CELL as u8);
            if self.is_for_digest(way / ENTRIES_PER_CELL) {
                continue;
            }
            if self.sign[way] <= SIGN || looked >= self.ways_in_all() {
                return way;
            }
            self.sign[way] -= 1 << SIGN_BITS;
        }
        unreachable!("the target leaves cells for entries")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::SplitMix64;
    use std::collections::BTreeMap;

    const PLACES: u32 = 4000;

    /// Counts what the sets hold, and holds the table to its own counts.
    fn recount(table: &SplitTable) {
        let (mut entries, mut digests) = (0, 0);
        for set in &table.sets {
            for cell in 0..set.cells() {
                let signs = set.sign[Set::ways(cell)].iter().filter(|&&sign| sign != 0).count();
                if set.is_for_digest(cell) {
                    assert_eq!(signs, 0, "a cell is of one kind");
                    digests += u64::from(set.ppn[cell * ENTRIES_PER_CELL] != FREE);
                } else {
                    entries += signs as u64;
                }
            }
            assert!(
                set.cells() <= CELLS_MAX && set.for_digests.count_ones() <= 16,
                "{:b}",
                set.for_digests
            );
        }
        assert_eq!((entries, digests), (table.entries, table.digests));
    }

    #[test]
    fn what_is_known_of_a_page_is_its_own_digest_and_goes_with_it() {
        let mut random = SplitMix64::new(5);
        let mut table = SplitTable::new(PLACES, 300, 120, 0.5, true);
        let mut live: BTreeMap<u32, u128> = BTreeMap::new();
        let (mut proved, mut turned) = (0, (100, 0));
        for step in 0..200_000_u32 {
            let ppn = random.below(600) as u32;
            match (random.below(4), live.get(&ppn).copied()) {
                (0, Some(_)) => {
                    table.digest_died(ppn);
                    live.remove(&ppn);
                }
                (1, Some(digest)) => {
                    let to = random.below(600) as u32;
                    if !live.contains_key(&to) {
                        table.digest_moved(ppn, to);
                        table.relocate(digest as u64, ppn, to);
                        live.remove(&ppn);
                        live.insert(to, digest);
                    }
                }
                (_, None) => {
                    let digest = u128::from(step);
                    table.insert(digest as u64, ppn);
                    table.insert_digest(ppn, digest);
                    live.insert(ppn, digest);
                }
                (_, Some(digest)) => {
                    let other = table.compare(ppn, digest + 1);
                    assert!(other.is_none_or(|answer| answer.is_err()));
                    let same = table.compare(ppn, digest);
                    assert!(same.is_none_or(|answer| answer.is_ok_and(|same| same.ppn() == ppn)));
                    proved += u32::from(same.is_some());
                    // Half of the time digests are missed, and then entries.
                    if same.is_none() && step % 50_000 < 25_000 {
                        table.undigested(ppn, false);
                    }
                }
            }
            turned = (turned.0.min(table.digest_percent()), turned.1.max(table.digest_percent()));
            if step % 100 == 0 {
                recount(&table);
                for page in 0..600 {
                    assert!(!table.has(page) || live.contains_key(&page), "of dead page {page}");
                }
            }
        }
        assert!(proved > 1000, "{proved}");
        assert!(turned.0 < 60 && turned.1 > 65, "the split turned both ways: {turned:?}");
    }

    #[test]
    fn hot_entries_and_digests_stay_and_strangers_are_rare() {
        let mut table = SplitTable::new(1 << 20, 8192, 2048, 0.5, false);
        (0..400).for_each(|n| table.insert(mix64(n + 1), n as u32));
        (0..100).for_each(|page| table.insert_digest(page, page.into()));
        let mut strangers = 0;
        for n in 0..100_000_u64 {
            if n.is_multiple_of(2048) {
                for hot in 0..400 {
                    let fingerprint = mix64(hot + 1);
                    let slot = table.find(fingerprint).find(|&slot| table.ppn(slot) == hot as u32);
                    table.hit(slot.expect("hot entries stay"));
                }
                for hot in 0..100 {
                    let same = table.compare(hot, hot.into());
                    assert!(same.is_some_and(|answer| answer.is_ok()), "digest {hot} stays");
                }
            }
            let fingerprint = mix64(1 << 40 | n);
            strangers += table.find(fingerprint).count();
            table.insert(fingerprint, 9_999);
            table.insert_digest(1000 + n as u32, 7);
        }
        // 27 entries and 9 digests a set; each look-up meets 27 of 2^14 signs.
        assert!((90..270).contains(&strangers), "{strangers} of 165 expected");
        assert!(table.entries <= 8192 + 16 && table.digests <= 2048 + 16);
        recount(&table);
    }

    /// The share of memory for digests after a stream in which contents come again after so many
    /// others, as `gleaner` would treat them.
    fn percent_after(distance: u64, is_compared: bool) -> u64 {
        let mut table = SplitTable::new(1 << 20, 3000, 1200, 0.5, true);
        for n in 0..400_000_u64 {
            let (fingerprint, page) = (mix64(n % distance), (n % distance) as u32);
            let found = table.find(fingerprint).find(|&slot| table.ppn(slot) == page);
            match found {
                None => {
                    table.insert(fingerprint, page);
                    table.insert_digest(page, 1);
                }
                Some(slot) => {
                    table.hit(slot);
                    if table.compare(page, 1).is_none() {
                        table.undigested(page, is_compared);
                        table.insert_digest(page, 1);
                    }
                }
            }
        }
        recount(&table);
        table.digest_percent()
    }

    #[test]
    fn memory_goes_where_it_saves_more() {
        assert!(percent_after(1600, false) > 65, "digests are missed");
        assert!(percent_after(4200, true) < 35, "entries are missed");
        let started = SplitTable::new(1 << 20, 3000, 1200, 0.5, true).digest_percent();
        assert_eq!(percent_after(500, true), started, "nothing is missed");
    }
}
