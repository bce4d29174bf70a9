//! Finding every duplicate among stored pages by their out-of-band fingerprints, in little memory.
//! Room: onefold-flash.   In: tags read one by one.   Out: pages to read or compare next.
//! A round takes the live pages part by part: a part is the fingerprints whose hash falls into one
//! of so many equal ranges, so many that a part fits into the scratch table. For each part all
//! live pages' tags are read; a tag that the scratch table has leads to a comparison. A round
//! during which pages were stored, or moved past the reader, is followed by another one.
//! Incremental rounds put only pages of blocks to which pages came since the last round into parts,
//! and read the tags of the others once for each part: pages that one round has compared differ
//! from each other. A bit for each block is all that this takes: one for each page would be as much
//! as small tables are.
//! Source: [ses-dedup] sec. IV asks for a periodic scan; how is not said there.
//! Invariants: the scratch table never holds more than its entries; a round that nothing disturbed
//! leaves no two live tagged pages of one content, unless more different contents have one
//! fingerprint than the table has entries.
//! Cost: (live pages) * (parts) reads a round; incremental rounds have fewer parts.

use crate::dedup::page_set::PageSet;
use crate::dedup::{Look, Offline, Pair};
use crate::geometry::Divider;
use onefold_block::seeded::mix64;

/// How often the number of parts is doubled because one did not fit.
const DOUBLINGS_MAX: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0 for a free place.
    tag: u64,
    ppn: u32,
}

/// What the pass is doing.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next page to read is the first live one from here on.
    Read,
    /// Comparing this page with the entry at this place, and those behind it.
    Compare { ppn: u32, tag: u64, at: usize },
}

/// Which blocks a round is about: a block is fresh from its first fresh page on, and its other
/// pages with it.
#[derive(Clone, Debug)]
struct Fresh {
    /// Blocks of pages that came since the round began.
    next: PageSet,
    /// Blocks of pages that came since the round before it: those that this round puts into parts.
    now: PageSet,
    /// Whether the reader is with the pages of `now`; the others follow.
    first: bool,
    per_block: u32,
    block: Divider,
}

impl Fresh {
    fn new(places: u32, per_block: u32) -> Self {
        let blocks = places.div_ceil(per_block);
        let (next, now) = (PageSet::new(blocks), PageSet::new(blocks));
        Self { next, now, first: true, per_block, block: Divider::new(per_block) }
    }
}

/// A reader of all fingerprints.
#[derive(Clone, Debug)]
pub(crate) struct Passes {
    pages: u32,
    scratch: Vec<Entry>,
    used: usize,
    capacity: usize,
    /// Tagged pages that are live, as far as is known: what decides on the number of parts.
    live: u64,
    /// Pages came since the round began, or were missed.
    disturbed: bool,
    running: bool,
    /// A part did not fit.
    overflowed: bool,
    /// Rounds in a row that were repeated with twice the parts.
    doublings: u32,
    parts: u64,
    part: u64,
    cursor: u32,
    /// With incremental rounds, where pages came since the last one.
    fresh: Option<Fresh>,
    step: Step,
    pub tags_read: u64,
    pub rounds: u64,
}

impl Passes {
    /// A reader for a drive of so many pages with a scratch table of `entries`, at least 16.
    /// Rounds are incremental where the places of a block are given.
    pub fn new(pages: u32, entries: u64, per_block: Option<u32>) -> Self {
        let fresh = per_block.map(|places| Fresh::new(pages, places));
        let capacity = entries.max(16) as usize;
        Self {
            pages,
            scratch: Vec::new(),
            used: 0,
            capacity,
            live: 0,
            disturbed: false,
            running: false,
            overflowed: false,
            doublings: 0,
            parts: 1,
            part: 0,
            cursor: 0,
            fresh,
            step: Step::Read,
            tags_read: 0,
            rounds: 0,
        }
    }

    fn places(&self) -> usize {
        self.capacity + self.capacity / 3 + 1
    }

    /// Bytes of the scratch table: a place is 8 bytes of fingerprint and 4 of location, and a
    /// quarter of the places stays free.
    pub fn dram(&self) -> u64 {
        let fresh = self.fresh.as_ref().map_or(0, |fresh| fresh.next.bytes() + fresh.now.bytes());
        self.places() as u64 * 12 + fresh
    }

    /// A tagged page was stored.
    pub fn stored(&mut self, ppn: u32) {
        self.live += 1;
        self.disturbed = true;
        self.doublings = 0;
        if let Some(fresh) = &mut self.fresh {
            fresh.next.insert(fresh.block.of(ppn));
        }
    }

    /// A page died.
    pub fn died(&mut self) {
        self.live = self.live.saturating_sub(1);
    }

    /// A tagged page moved.
    pub fn moved(&mut self, from: u32, to: u32, tag: u64) {
        if let Some(fresh) = &mut self.fresh {
            let (from, to) = (fresh.block.of(from), fresh.block.of(to));
            if fresh.next.contains(from) || fresh.now.contains(from) {
                fresh.next.insert(to);
            }
            // Moved to where the reader has been in this part, or will not come.
            self.disturbed |= self.running && fresh.now.contains(from) != fresh.now.contains(to);
        }
        if !self.running {
            return;
        }
        // Moved from what is still to be read to what has been read.
        if to < self.cursor && self.cursor <= from {
            self.disturbed = true;
        }
        if let Step::Compare { ppn, .. } = &mut self.step
            && *ppn == from
        {
            *ppn = to;
        }
        if self.part_of(tag) == self.part {
            let mut at = self.home(tag);
            while self.scratch[at].tag != 0 {
                if self.scratch[at].tag == tag && self.scratch[at].ppn == from {
                    self.scratch[at].ppn = to;
                }
                at = self.behind(at);
            }
        }
    }

    fn part_of(&self, tag: u64) -> u64 {
        ((u128::from(mix64(tag ^ 0x5555)) * u128::from(self.parts)) >> 64) as u64
    }

    fn home(&self, tag: u64) -> usize {
        ((u128::from(mix64(tag)) * self.scratch.len() as u128) >> 64) as usize
    }

    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.scratch.len() { 0 } else { at + 1 }
    }

    fn begin_round(&mut self) {
        if self.scratch.is_empty() {
            self.scratch = vec![Entry::default(); self.places()];
        }
        // A tenth is kept for uneven parts.
        let members = match &mut self.fresh {
            None => self.live,
            Some(fresh) => {
                // What a disturbed round left over is taken along.
                while let Some(block) = fresh.next.pop() {
                    fresh.now.insert(block);
                }
                (fresh.now.len() * u64::from(fresh.per_block)).min(self.live)
            }
        };
        let needed = (members * 11 / 10).div_ceil(self.capacity as u64).max(1);
        self.doublings += u32::from(self.overflowed);
        self.parts = needed << self.doublings;
        self.overflowed = false;
        self.disturbed = false;
        self.running = true;
        self.part = 0;
        self.rounds += 1;
        self.begin_part();
    }

    fn begin_part(&mut self) {
        self.scratch.fill(Entry::default());
        self.used = 0;
        self.cursor = 0;
        self.step = Step::Read;
        if let Some(fresh) = &mut self.fresh {
            fresh.first = true;
        }
    }

    /// What to do next; `None` when all tagged pages have been compared.
    pub fn next(&mut self, look: &impl Look) -> Option<Offline> {
        if !self.running {
            if !self.disturbed {
                return None;
            }
            self.begin_round();
        }
        loop {
            if let Step::Compare { ppn, tag, at } = self.step {
                if let Some(pair) = self.pair(ppn, tag, at, look) {
                    return Some(Offline::Compare(pair));
                }
                self.step = Step::Read;
            }
            while self.cursor < self.pages {
                let ppn = self.cursor;
                if let Some(fresh) = &self.fresh {
                    let block = fresh.block.of(ppn);
                    if fresh.first != fresh.now.contains(block) {
                        // It is not the turn of this block.
                        self.cursor = (block + 1).saturating_mul(fresh.per_block);
                        continue;
                    }
                }
                self.cursor += 1;
                if look.is_live(ppn) {
                    self.tags_read += 1;
                    return Some(Offline::ReadTag { ppn });
                }
            }
            if let Some(fresh) = &mut self.fresh
                && fresh.first
            {
                fresh.first = false;
                self.cursor = 0;
                continue;
            }
            self.part += 1;
            if self.part < self.parts {
                self.begin_part();
            } else if self.disturbed {
                self.begin_round();
            } else {
                self.running = false;
                if let Some(fresh) = &mut self.fresh {
                    fresh.now.clear();
                }
                return None;
            }
        }
    }

    /// The tag that was asked for.
    pub fn tag_read(&mut self, ppn: u32, tag: u64) {
        if tag != 0 && self.part_of(tag) == self.part {
            self.step = Step::Compare { ppn, tag, at: self.home(tag) };
        }
    }

    /// The next live page in the scratch table with this tag; enters the page if there is none.
    fn pair(&mut self, ppn: u32, tag: u64, from: usize, look: &impl Look) -> Option<Pair> {
        if !look.is_live(ppn) {
            return None;
        }
        let mut at = from;
        while self.scratch[at].tag != 0 {
            let entry = self.scratch[at];
            if entry.tag == tag {
                if entry.ppn == ppn {
                    return None;
                }
                if look.is_live(entry.ppn) {
                    self.step = Step::Compare { ppn, tag, at };
                    return Some(Pair { duplicate: ppn, original: entry.ppn });
                }
                // The place of a dead page is as good as a new one.
                self.scratch[at].ppn = ppn;
                return None;
            }
            at = self.behind(at);
        }
        if self.fresh.as_ref().is_some_and(|fresh| !fresh.first) {
            return None;
        }
        if self.used < self.capacity {
            self.scratch[at] = Entry { tag, ppn };
            self.used += 1;
        } else {
            // Parts are uneven: the next round makes more of them. If that has not helped so
            // often, more different pages have one fingerprint than there are entries: they stay.
            self.overflowed = self.doublings < DOUBLINGS_MAX;
            self.disturbed |= self.overflowed;
        }
        None
    }

    /// The answer to a comparison that [`Passes::next`] asked for.
    pub fn settled(&mut self, merged: bool) {
        if let Step::Compare { ppn, tag, at } = self.step {
            self.step =
                if merged { Step::Read } else { Step::Compare { ppn, tag, at: self.behind(at) } };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Work;
    use std::collections::BTreeSet;

    struct Live(BTreeSet<u32>);

    impl Look for Live {
        fn is_live(&self, ppn: u32) -> bool {
            self.0.contains(&ppn)
        }
        fn is_idle(&self, _ppn: u32) -> bool {
            true
        }
        fn locate(&self, _lpn: u32) -> Option<u32> {
            None
        }
        fn read_ns(&self, _ppn: u32) -> u64 {
            0
        }
        fn program_ns(&self) -> u64 {
            0
        }
        fn work(&mut self, _work: Work) {}
    }

    /// Goes on until nothing is left, every page having a tag of its own; the pages read.
    fn rest(passes: &mut Passes, look: &Live) -> Vec<u32> {
        let mut read = Vec::new();
        while let Some(next) = passes.next(look) {
            let Offline::ReadTag { ppn } = next else { panic!("no two are alike: {next:?}") };
            passes.tag_read(ppn, 100 + u64::from(ppn));
            read.push(ppn);
            assert!(read.len() < 1000, "a round ends");
        }
        read
    }

    #[test]
    fn what_moves_to_where_the_reader_has_been_is_read_in_the_next_round() {
        let mut look = Live((0..4).collect());
        let mut passes = Passes::new(64, 16, Some(4));
        (0..4).for_each(|ppn| passes.stored(ppn));
        assert_eq!(rest(&mut passes, &look), [0, 1, 2, 3]);
        // Two fresh pages; the first has been read, dies, and an old one comes to its block.
        for ppn in [8, 9] {
            passes.stored(ppn);
            look.0.insert(ppn);
        }
        for ppn in [8, 9] {
            assert_eq!(passes.next(&look), Some(Offline::ReadTag { ppn }));
            passes.tag_read(ppn, 100 + u64::from(ppn));
        }
        passes.died();
        look.0.remove(&0);
        passes.moved(0, 8, 100);
        let read = rest(&mut passes, &look);
        assert!(read.contains(&8), "{read:?}");
    }

    #[test]
    fn a_fresh_page_that_moves_stays_fresh() {
        let mut look = Live((0..4).collect());
        let mut passes = Passes::new(64, 16, Some(4));
        (0..4).for_each(|ppn| passes.stored(ppn));
        rest(&mut passes, &look);
        // It comes, and moves before any round has seen it.
        passes.stored(20);
        passes.moved(20, 40, 120);
        look.0.insert(40);
        let read = rest(&mut passes, &look);
        assert_eq!(read[0], 40, "fresh pages are read first: {read:?}");
    }

    #[test]
    fn only_blocks_with_fresh_pages_are_put_into_parts() {
        let mut look = Live((0..48).collect());
        let mut passes = Passes::new(64, 16, Some(4));
        (0..48).for_each(|ppn| passes.stored(ppn));
        // Four parts, of which each reads all.
        assert_eq!(rest(&mut passes, &look).len(), 4 * 48);
        passes.stored(50);
        look.0.insert(50);
        // One part, the fresh block first.
        let read = rest(&mut passes, &look);
        assert_eq!((read.len(), read[0]), (49, 50));
        assert_eq!(passes.dram(), (16 + 5 + 1) * 12 + 2 * PageSet::new(16).bytes());
    }
}
