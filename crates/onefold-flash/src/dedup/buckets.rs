//! The CRC-32 table: a bucket for each value, holding the live pages that have it.
//! Room: onefold-flash.   Source: seed 002 sec. III, fig. 2.
//! A page of a bucket is undetermined (ND) or unique (U); a bucket counts the duplicates that were
//! found in it. Pages are linked in the order in which they came.
//! Invariants: a page is in at most one bucket; a bucket without pages is gone, and its count.
//! Cost: 12 bytes a page and about 30 a bucket here; the drive is charged 9 bytes an entry (4 of
//! CRC, 4 of location, a flag, as facts about seed 002 assume) and 4 of count.

use crate::dedup::fingerprints::mix64;

const NONE: u32 = u32::MAX;
/// Marks an undetermined page in `bucket_of`.
const ND: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    crc: u32,
    first: u32,
    last: u32,
    undetermined: u32,
    /// Duplicates found.
    found: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// CRC in the upper half, bucket + 1 in the lower; 0 for a free place.
    index: Vec<u64>,
    entries: Vec<Bucket>,
    free: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    bucket_of: Vec<u32>,
    used: u64,
    capacity: u64,
    hand: u32,
    pub evicted: u64,
}

impl Buckets {
    /// A table for a drive of `pages` with room for a share of them.
    pub fn new(pages: u32, share: f64) -> Self {
        let capacity = ((f64::from(pages) * share) as u64).max(16);
        Self {
            index: vec![0; (capacity + capacity / 2 + 1) as usize],
            entries: Vec::new(),
            free: Vec::new(),
            next: vec![NONE; pages as usize],
            previous: vec![NONE; pages as usize],
            bucket_of: vec![NONE; pages as usize],
            used: 0,
            capacity,
            hand: 0,
            evicted: 0,
        }
    }

    fn home(&self, crc: u32) -> usize {
        ((u128::from(mix64(u64::from(crc) + 1)) * self.index.len() as u128) >> 64) as usize
    }

    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.index.len() { 0 } else { at + 1 }
    }

    fn find(&self, crc: u32) -> Result<usize, usize> {
        let mut at = self.home(crc);
        loop {
            let place = self.index[at];
            if place == 0 {
                return Err(at);
            }
            if (place >> 32) as u32 == crc {
                return Ok(at);
            }
            at = self.behind(at);
        }
    }

    /// The bucket of a CRC.
    #[cfg(test)]
    pub fn bucket(&self, crc: u32) -> Option<u32> {
        self.find(crc).ok().map(|at| self.index[at] as u32 - 1)
    }

    /// Whether a live page has this CRC.
    pub fn has(&self, crc: u32) -> bool {
        self.find(crc).is_ok()
    }

    /// The bucket that a page is in.
    pub fn bucket_of(&self, ppn: u32) -> Option<u32> {
        let entry = self.bucket_of[ppn as usize];
        (entry != NONE).then_some(entry & !ND)
    }

    /// Whether a page is in a bucket and undetermined.
    pub fn is_undetermined(&self, ppn: u32) -> bool {
        let entry = self.bucket_of[ppn as usize];
        entry != NONE && entry & ND != 0
    }

    /// Enters a page; the answer is its bucket.
    pub fn insert(&mut self, crc: u32, ppn: u32, undetermined: bool) -> u32 {
        assert_eq!(self.bucket_of[ppn as usize], NONE, "page {ppn} is entered already");
        if self.used == self.capacity {
            self.evict();
        }
        let bucket = match self.find(crc) {
            Ok(at) => self.index[at] as u32 - 1,
            Err(at) => {
                let new = Bucket { crc, first: NONE, last: NONE, undetermined: 0, found: 0 };
                let bucket = self.free.pop().unwrap_or(self.entries.len() as u32);
                if bucket as usize == self.entries.len() {
                    self.entries.push(new);
                } else {
                    self.entries[bucket as usize] = new;
                }
                self.index[at] = u64::from(crc) << 32 | u64::from(bucket + 1);
                bucket
            }
        };
        let entry = &mut self.entries[bucket as usize];
        let last = std::mem::replace(&mut entry.last, ppn);
        if last == NONE {
            entry.first = ppn;
        } else {
            self.next[last as usize] = ppn;
        }
        self.previous[ppn as usize] = last;
        self.next[ppn as usize] = NONE;
        entry.undetermined += u32::from(undetermined);
        self.bucket_of[ppn as usize] = bucket | if undetermined { ND } else { 0 };
        self.used += 1;
        bucket
    }

    /// Takes a page out, if it is in.
    pub fn remove(&mut self, ppn: u32) {
        let Some(bucket) = self.bucket_of(ppn) else { return };
        let undetermined = self.is_undetermined(ppn);
        let (before, after) = (self.previous[ppn as usize], self.next[ppn as usize]);
        let entry = &mut self.entries[bucket as usize];
        entry.undetermined -= u32::from(undetermined);
        match before {
            NONE => entry.first = after,
            before => self.next[before as usize] = after,
        }
        match after {
            NONE => entry.last = before,
            after => self.previous[after as usize] = before,
        }
        self.bucket_of[ppn as usize] = NONE;
        self.used -= 1;
        if self.entries[bucket as usize].first == NONE {
            self.close(bucket);
        }
    }

    /// Takes an empty bucket out of the index and closes the gap.
    fn close(&mut self, bucket: u32) {
        self.free.push(bucket);
        let mut gap = self.find(self.entries[bucket as usize].crc).expect("open buckets are found");
        let mut at = gap;
        loop {
            at = self.behind(at);
            let place = self.index[at];
            if place == 0 {
                self.index[gap] = 0;
                return;
            }
            let home = self.home((place >> 32) as u32);
            let stays = if gap <= at { gap < home && home <= at } else { gap < home || home <= at };
            if !stays {
                self.index[gap] = place;
                gap = at;
            }
        }
    }

    /// Makes room: takes out the next page that is alone in a bucket, or the 64th at the latest.
    fn evict(&mut self) {
        let mut seen = 0;
        loop {
            let ppn = self.hand;
            self.hand = if ppn + 1 == self.bucket_of.len() as u32 { 0 } else { ppn + 1 };
            let Some(bucket) = self.bucket_of(ppn) else { continue };
            seen += 1;
            let entry = &self.entries[bucket as usize];
            if (entry.first == entry.last && entry.found == 0) || seen == 64 {
                self.evicted += 1;
                return self.remove(ppn);
            }
        }
    }

    /// A page moved.
    pub fn relocate(&mut self, from: u32, to: u32) {
        let entry = std::mem::replace(&mut self.bucket_of[from as usize], NONE);
        if entry == NONE {
            return;
        }
        self.bucket_of[to as usize] = entry;
        let (before, after) = (self.previous[from as usize], self.next[from as usize]);
        self.previous[to as usize] = before;
        self.next[to as usize] = after;
        let bucket = &mut self.entries[(entry & !ND) as usize];
        match before {
            NONE => bucket.first = to,
            before => self.next[before as usize] = to,
        }
        match after {
            NONE => bucket.last = to,
            after => self.previous[after as usize] = to,
        }
    }

    /// An undetermined page turned out to be unique.
    pub fn determine(&mut self, ppn: u32) {
        if self.is_undetermined(ppn) {
            self.bucket_of[ppn as usize] &= !ND;
            self.entries[(self.bucket_of[ppn as usize]) as usize].undetermined -= 1;
        }
    }

    /// Undetermined pages of a bucket.
    pub fn undetermined(&self, bucket: u32) -> u32 {
        let entry = &self.entries[bucket as usize];
        if entry.first == NONE { 0 } else { entry.undetermined }
    }

    /// Duplicates found in a bucket.
    pub fn found(&self, bucket: u32) -> u32 {
        self.entries[bucket as usize].found
    }

    /// One more duplicate was found in the bucket of a page.
    pub fn count(&mut self, bucket: u32) {
        self.entries[bucket as usize].found += 1;
    }

    /// The first page of a bucket from `from` on (from its beginning with `None`) that is
    /// undetermined, or unique.
    pub fn first(&self, bucket: u32, from: Option<u32>, undetermined: bool) -> Option<u32> {
        let mut at = from.unwrap_or(self.entries[bucket as usize].first);
        while at != NONE && self.is_undetermined(at) != undetermined {
            at = self.next[at as usize];
        }
        (at != NONE).then_some(at)
    }

    /// The page behind this one in its bucket.
    pub fn after(&self, ppn: u32) -> Option<u32> {
        let next = self.next[ppn as usize];
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
        let mut table = Buckets::new(96, 1.0);
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
}
