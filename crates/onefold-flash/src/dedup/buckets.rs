//! The CRC-32 table: a bucket for each value, holding the live pages that have it.
//! Room: onefold-flash.   Source: [park-shin] sec. III, fig. 2.
//! A page of a bucket is undetermined (ND) or unique (U); a bucket counts the duplicates that were
//! found in it. Pages are linked in the order in which they came. A bucket is its slot, which names
//! its only page, or else a list.
//! Invariants: a page is in at most one bucket; a bucket without pages is gone, and its count; a
//! list has two pages or a count.
//! Cost: 12 bytes a page and 12 an entry here, and 16 a list; the drive is charged 9 bytes an entry
//! (4 of CRC, 4 of location, a flag, as is assumed of [park-shin]) and 4 of count. A look-up and a
//! move of a page that is alone take one cache line, a death two.

use crate::dedup::slots::{FREE, Key, Slots};
use crate::memory::{prefetch, table_of};
use onefold_block::seeded::mix64;

const NONE: u32 = u32::MAX;
/// Marks an undetermined page in `slot_of`.
const ND: u32 = 1 << 31;
/// Marks a list in the place of a page.
const LIST: u32 = 1 << 31;
/// Slots of pages in a line of a processor's cache.
const PAGES_PER_LINE: u32 = 16;

/// The pages of a bucket, but for one that is alone.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    undetermined: u32,
    /// Duplicates found.
    found: u32,
}

/// Neighbours of a page in its list.
#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    slots: Slots,
    slot_of: Vec<u32>,
    /// Of pages in lists.
    links: Vec<Links>,
    lists: Vec<List>,
    free_lists: Vec<u32>,
    used: u64,
    capacity: u64,
    hand: u32,
    /// The CRC that was looked up last and not found, until another one is entered.
    absent: Option<u32>,
    pub evicted: u64,
}

fn key(crc: u32) -> Key {
    Key { word: mix64(u64::from(crc) + 1), sign: crc }
}

impl Buckets {
    /// A table for a drive of `pages` with room for a share of them.
    pub fn new(pages: u32, places: u32, share: f64) -> Self {
        let capacity = ((f64::from(pages) * share) as u64).max(16);
        Self {
            slots: Slots::new(capacity),
            slot_of: table_of(places as usize, NONE),
            links: table_of(places as usize, Links { previous: NONE, next: NONE }),
            lists: Vec::new(),
            free_lists: Vec::new(),
            used: 0,
            capacity,
            hand: 0,
            absent: None,
            evicted: 0,
        }
    }

    /// The bucket of a CRC.
    pub fn bucket(&self, crc: u32) -> Option<u32> {
        self.slots.find(key(crc), |_| true)
    }

    /// Whether a live page has this CRC.
    pub fn has(&mut self, crc: u32) -> bool {
        let has = self.bucket(crc).is_some();
        self.absent = (!has).then_some(crc);
        has
    }

    /// A CRC will be looked up soon.
    pub fn expect(&self, crc: u32) {
        self.slots.prefetch(key(crc).word);
    }

    /// These pages will soon die.
    pub fn expect_deaths(&self, ppns: &[u32]) {
        for &ppn in ppns {
            prefetch(&self.slot_of, ppn as usize);
        }
        for &ppn in ppns {
            self.slots.prefetch_slot(self.slot_of[ppn as usize] & !ND);
        }
    }

    /// This page will soon move.
    #[inline]
    pub fn expect_move(&self, ppn: u32) {
        self.slots.prefetch_slot(self.slot_of[ppn as usize] & !ND);
        prefetch(&self.slot_of, (ppn + PAGES_PER_LINE) as usize);
    }

    /// The bucket that a page is in.
    pub fn bucket_of(&self, ppn: u32) -> Option<u32> {
        let entry = self.slot_of[ppn as usize];
        (entry != NONE).then_some(entry & !ND)
    }

    /// Whether a page is in a bucket and undetermined.
    pub fn is_undetermined(&self, ppn: u32) -> bool {
        let entry = self.slot_of[ppn as usize];
        entry != NONE && entry & ND != 0
    }

    /// The list of a bucket, if it has one.
    fn list(&self, bucket: u32) -> Option<u32> {
        let page = self.slots.page(bucket);
        (page != FREE && page & LIST != 0).then_some(page & !LIST)
    }

    /// The list of a bucket with a page, made if it has none.
    fn make_list(&mut self, bucket: u32) -> u32 {
        if let Some(list) = self.list(bucket) {
            return list;
        }
        let ppn = self.slots.page(bucket);
        let undetermined = u32::from(self.is_undetermined(ppn));
        let new = List { first: ppn, last: ppn, undetermined, found: 0 };
        let list = self.free_lists.pop().unwrap_or(self.lists.len() as u32);
        if list as usize == self.lists.len() {
            self.lists.push(new);
        } else {
            self.lists[list as usize] = new;
        }
        self.links[ppn as usize] = Links { previous: NONE, next: NONE };
        self.slots.set_page(bucket, list | LIST);
        list
    }

    /// Enters a page; the answer is its bucket.
    pub fn insert(&mut self, crc: u32, ppn: u32, undetermined: bool) -> u32 {
        assert_eq!(self.slot_of[ppn as usize], NONE, "page {ppn} is entered already");
        if self.used == self.capacity {
            self.evict();
        }
        let nd = if undetermined { ND } else { 0 };
        self.used += 1;
        let known = if self.absent.take() == Some(crc) { None } else { self.bucket(crc) };
        let Some(bucket) = known else {
            let bucket = self.slots.insert(key(crc), ppn);
            self.slot_of[ppn as usize] = bucket | nd;
            return bucket;
        };
        let list = self.make_list(bucket);
        let list = &mut self.lists[list as usize];
        let last = std::mem::replace(&mut list.last, ppn);
        list.undetermined += u32::from(undetermined);
        self.links[last as usize].next = ppn;
        self.links[ppn as usize] = Links { previous: last, next: NONE };
        self.slot_of[ppn as usize] = bucket | nd;
        bucket
    }

    /// Takes a page out, if it is in.
    pub fn remove(&mut self, ppn: u32) {
        let Some(bucket) = self.bucket_of(ppn) else { return };
        let undetermined = self.is_undetermined(ppn);
        self.slot_of[ppn as usize] = NONE;
        self.used -= 1;
        let Some(number) = self.list(bucket) else { return self.close(bucket) };
        let Links { previous, next } = self.links[ppn as usize];
        let list = &mut self.lists[number as usize];
        list.undetermined -= u32::from(undetermined);
        match previous {
            NONE => list.first = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.links[next as usize].previous = previous,
        }
        if list.first == NONE {
            self.free_lists.push(number);
            self.close(bucket);
        } else if list.first == list.last && list.found == 0 {
            self.free_lists.push(number);
            self.slots.set_page(bucket, list.first);
        }
    }

    /// Takes a bucket without pages out.
    fn close(&mut self, bucket: u32) {
        self.slots.remove(bucket, |crc| key(crc).word);
    }

    /// Makes room: takes out the next page that is alone in a bucket, or the 64th at the latest.
    fn evict(&mut self) {
        let mut seen = 0;
        loop {
            let ppn = self.hand;
            self.hand = if ppn + 1 == self.slot_of.len() as u32 { 0 } else { ppn + 1 };
            let Some(bucket) = self.bucket_of(ppn) else { continue };
            seen += 1;
            if self.list(bucket).is_none() || seen == 64 {
                self.evicted += 1;
                return self.remove(ppn);
            }
        }
    }

    /// A page moved.
    pub fn relocate(&mut self, from: u32, to: u32) {
        let entry = std::mem::replace(&mut self.slot_of[from as usize], NONE);
        if entry == NONE {
            return;
        }
        self.slot_of[to as usize] = entry;
        let Some(list) = self.list(entry & !ND) else {
            return self.slots.set_page(entry & !ND, to);
        };
        let Links { previous, next } = self.links[from as usize];
        self.links[to as usize] = Links { previous, next };
        match previous {
            NONE => self.lists[list as usize].first = to,
            previous => self.links[previous as usize].next = to,
        }
        match next {
            NONE => self.lists[list as usize].last = to,
            next => self.links[next as usize].previous = to,
        }
    }

    /// An undetermined page turned out to be unique.
    pub fn determine(&mut self, ppn: u32) {
        if self.is_undetermined(ppn) {
            self.slot_of[ppn as usize] &= !ND;
            if let Some(list) = self.list(self.slot_of[ppn as usize]) {
                self.lists[list as usize].undetermined -= 1;
            }
        }
    }

    /// Undetermined pages of a bucket.
    pub fn undetermined(&self, bucket: u32) -> u32 {
        match (self.list(bucket), self.slots.page(bucket)) {
            (Some(list), _) => self.lists[list as usize].undetermined,
            (None, FREE) => 0,
            (None, page) => u32::from(self.is_undetermined(page)),
        }
    }

    /// Duplicates found in a bucket.
    pub fn found(&self, bucket: u32) -> u32 {
        self.list(bucket).map_or(0, |list| self.lists[list as usize].found)
    }

    /// One more duplicate was found in a bucket with a page.
    pub fn count(&mut self, bucket: u32) {
        let list = self.make_list(bucket);
        self.lists[list as usize].found += 1;
    }

    /// The first page of a bucket from `from` on (from its beginning with `None`) that is
    /// undetermined, or unique.
    pub fn first(&self, bucket: u32, from: Option<u32>, undetermined: bool) -> Option<u32> {
        let Some(list) = self.list(bucket) else {
            let page = from.unwrap_or(self.slots.page(bucket));
            return (page != FREE && self.is_undetermined(page) == undetermined).then_some(page);
        };
        let mut at = from.unwrap_or(self.lists[list as usize].first);
        while at != NONE && self.is_undetermined(at) != undetermined {
            at = self.links[at as usize].next;
        }
        (at != NONE).then_some(at)
    }

    /// The page behind this one in its bucket.
    pub fn after(&self, ppn: u32) -> Option<u32> {
        self.list(self.bucket_of(ppn)?)?;
        let next = self.links[ppn as usize].next;
        (next != NONE).then_some(next)
    }

    /// Bytes in the controller.
    pub fn dram(&self) -> [(&'static str, u64); 2] {
        [("crc table", self.capacity * 9), ("crc bucket counts", self.capacity * 4)]
    }

    /// Entries.
    pub fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn buckets_are_a_map_of_lists() {
        let mut random = onefold_block::SplitMix64::new(9);
        let mut table = Buckets::new(96, 96, 1.0);
        let mut naive: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
        let drop = |naive: &mut BTreeMap<u32, Vec<(u32, bool)>>, ppn: u32| {
            naive.retain(|_, list| {
                list.retain(|&(page, _)| page != ppn);
                !list.is_empty()
            });
        };
        for _ in 0..30_000 {
            let (ppn, to) = (random.below(96) as u32, random.below(96) as u32);
            let (crc, nd) = (random.below(40) as u32, random.below(2) == 0);
            match random.below(4) {
                0 => {
                    table.remove(ppn);
                    drop(&mut naive, ppn);
                    assert!(table.lists.len() <= 40, "one for each CRC, used again");
                }
                1 if table.bucket_of(to).is_none() => {
                    table.relocate(ppn, to);
                    naive.values_mut().flatten().filter(|e| e.0 == ppn).for_each(|e| e.0 = to);
                }
                2 => {
                    table.determine(ppn);
                    naive.values_mut().flatten().filter(|e| e.0 == ppn).for_each(|e| e.1 = false);
                }
                _ if table.bucket_of(ppn).is_none() => {
                    table.insert(crc, ppn, nd);
                    naive.entry(crc).or_default().push((ppn, nd));
                }
                _ => {}
            }
            for crc in 0..40 {
                let Some(bucket) = table.bucket(crc) else {
                    assert!(!naive.contains_key(&crc));
                    continue;
                };
                for wanted in [true, false] {
                    let mut found = Vec::new();
                    let mut at = table.first(bucket, None, wanted);
                    while let Some(ppn) = at {
                        found.push((ppn, wanted));
                        at = table.after(ppn).and_then(|p| table.first(bucket, Some(p), wanted));
                    }
                    let slow = naive[&crc].iter().copied().filter(|&(_, nd)| nd == wanted);
                    assert_eq!(found, slow.collect::<Vec<_>>());
                    if wanted {
                        assert_eq!(table.undetermined(bucket) as usize, found.len());
                    }
                }
            }
        }
    }

    /// Of pages that are in lists the 64th from the hand on goes, if none is alone before it.
    #[test]
    fn room_is_made_by_who_is_alone_or_by_the_64th() {
        for (alone, gone) in [(None, 63), (Some(40), 40), (Some(63), 63), (Some(64), 63)] {
            let mut table = Buckets::new(70, 71, 1.0);
            for ppn in 0..70 {
                table.insert(u32::from(alone == Some(ppn)), ppn, false);
            }
            table.insert(0, 70, false);
            let out: Vec<u32> = (0..71).filter(|&ppn| table.bucket_of(ppn).is_none()).collect();
            assert_eq!((out, table.evicted, table.used()), (vec![gone], 1, 70), "{alone:?}");
        }
    }

    #[test]
    fn lists_of_buckets_that_are_gone_are_used_again() {
        let mut table = Buckets::new(96, 96, 1.0);
        for round in 0..100 {
            let bucket = table.insert(round, 5, true);
            table.count(bucket);
            assert_eq!((table.found(bucket), table.undetermined(bucket)), (1, 1));
            table.remove(5);
            assert_eq!((table.bucket(round), table.lists.len()), (None, 1));
        }
    }
}
