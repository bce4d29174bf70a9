//! A compact table of fingerprints: how often each was seen, within a fixed number of entries.
//! Room: onefold-estimate.   In: [`Seen`] in any order from any thread.   Out: [`Entry`]s.
//! Source: adaptive sampling of distinct values ([flajolet-90]): an entry is kept if the `level`
//! low bits of its fingerprint are zero, and the level rises by one whenever more distinct
//! fingerprints are kept than the capacity allows.
//! Invariants: (1) level and entries are a function of the set of things seen, whatever the order,
//! the threads or the detour through partial results: the level is the least at which what was
//! seen fits  (2) a kept entry has been counted from its first sighting on, so its count is exact.
//! Cost: one probe per sighting; an entry takes 16 bytes, the primary table's 24 and 4 per codec.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::options::{PARTS, entry_words};

/// Low bits that choose a partition, once moved down from the top of the fingerprint.
const PART_SHIFT: u32 = 64 - PARTS.trailing_zeros();
/// Slots that a partition starts with.
const SLOTS_MIN: usize = 16;
/// Entries that are brought into the processor's cache together.
const AHEAD: usize = 16;
/// A compressed size that is not known yet.
const UNKNOWN: u32 = u32::MAX;

// Words of an entry.
const FP_LOW: usize = 0;
const FP_HIGH: usize = 1;
const COUNT: usize = 2;
const LEN: usize = 3;
const FIRST: usize = 4;
const GROUP: usize = 5;
const STORED: usize = 6;

/// One sighting of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// 64 bits of its fingerprint.
    pub fp: u64,
    /// Bytes of content.
    pub len: u32,
    /// Number of the file it was seen in.
    pub file: u32,
    /// Extension and top folder of that file.
    pub group: u32,
}

/// What is known of one distinct chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub fp: u64,
    /// How often it was seen, at least 1.
    pub count: u64,
    /// Bytes of content.
    pub len: u32,
    /// The lowest-numbered file it was seen in; 0 in tables without owners.
    pub first: u32,
    /// Extension and top folder of that file.
    pub group: u32,
    /// Stored size per compression, in bytes.
    pub stored: &'a [u32],
}

/// Working memory of one caller.
#[derive(Default)]
pub(crate) struct Scratch {
    order: Vec<u32>,
}

/// The table.
pub(crate) struct Table {
    words: usize,
    capacity: u64,
    slots_max: usize,
    parts: Vec<Mutex<Part>>,
    level: AtomicU8,
    /// Entries in all partitions. Exact whenever no partition is locked.
    entries: AtomicU64,
    /// Held by whoever raises the level.
    raising: Mutex<()>,
}

#[derive(Default)]
struct Part {
    /// `slots * words` words; a slot whose count is 0 is free.
    data: Vec<u32>,
    slots: usize,
    len: usize,
    level: u8,
    /// What did not fit the 32-bit counts.
    spill: BTreeMap<u64, u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn part_of(fp: u64) -> usize {
    (fp >> PART_SHIFT) as usize
}

const fn kept(fp: u64, level: u8) -> bool {
    fp & ((1 << level) - 1) == 0
}

impl Table {
    /// A table for `capacity` entries; with owner, group and `n` stored sizes for `Some(n)`.
    pub(crate) fn new(capacity: u64, owner: Option<usize>) -> Self {
        let per_part = (capacity as usize).div_ceil(PARTS);
        Self {
            words: entry_words(owner),
            capacity,
            slots_max: (per_part * 4 / 3).max(SLOTS_MIN),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            level: AtomicU8::new(0),
            entries: AtomicU64::new(0),
            raising: Mutex::new(()),
        }
    }

    /// Fingerprints are kept with probability `2^-level`.
    pub(crate) fn level(&self) -> u8 {
        self.level.load(Ordering::SeqCst)
    }

    /// Entries held.
    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }

    /// Count sightings. The indices in `batch` of those that made new entries are put in `fresh`:
    /// the caller owes their stored sizes.
    pub(crate) fn observe(&self, batch: &[Seen], scratch: &mut Scratch, fresh: &mut Vec<u32>) {
        fresh.clear();
        let level = self.level();
        let mut ends = [0u32; PARTS + 1];
        for seen in batch.iter().filter(|seen| kept(seen.fp, level)) {
            ends[part_of(seen.fp) + 1] += 1;
        }
        for part in 0..PARTS {
            ends[part + 1] += ends[part];
        }
        let starts = ends;
        scratch.order.resize(ends[PARTS] as usize, 0);
        for (i, seen) in batch.iter().enumerate().filter(|(_, seen)| kept(seen.fp, level)) {
            let end = &mut ends[part_of(seen.fp)];
            scratch.order[*end as usize] = i as u32;
            *end += 1;
        }
        for part in 0..PARTS {
            let order = &scratch.order[starts[part] as usize..starts[part + 1] as usize];
            if !order.is_empty() {
                self.with_part(part, |held| {
                    for some in order.chunks(AHEAD) {
                        held.touch(some.iter().map(|&i| batch[i as usize].fp), self.words);
                        for &i in some {
                            if held.observe(&batch[i as usize], self.words, self.slots_max) {
                                fresh.push(i);
                            }
                        }
                    }
                });
            }
        }
        self.settle();
    }

    /// Run `work` on a locked partition that is at the table's level, and keep the total right.
    fn with_part<R>(&self, part: usize, work: impl FnOnce(&mut Part) -> R) -> R {
        let mut held = lock(&self.parts[part]);
        let before = held.len as u64;
        held.compact(self.level(), self.words);
        let result = work(&mut held);
        // Two's complement: adding a negative difference wraps to the right total.
        self.entries.fetch_add((held.len as u64).wrapping_sub(before), Ordering::SeqCst);
        result
    }

    /// Note the stored size of a chunk under one compression. Does nothing if the chunk has left
    /// the sample meanwhile.
    pub(crate) fn set_stored(&self, fp: u64, codec: usize, stored: u32) {
        let mut held = lock(&self.parts[part_of(fp)]);
        if held.slots > 0 {
            let slot = held.slot(fp, self.words);
            let entry = &mut held.data[slot * self.words..][..self.words];
            if entry[COUNT] > 0 {
                entry[STORED + codec] = stored;
            }
        }
    }

    /// Raise the level until the entries fit.
    fn settle(&self) {
        if self.len() <= self.capacity {
            return;
        }
        let _alone = lock(&self.raising);
        while self.len() > self.capacity {
            self.raise(self.level() + 1);
        }
    }

    fn raise(&self, level: u8) {
        self.level.store(level, Ordering::SeqCst);
        for part in 0..PARTS {
            self.with_part(part, |_| ());
        }
    }

    /// Take the level to at least `level`, before entries sampled at it are absorbed.
    pub(crate) fn raise_to(&self, level: u8) {
        let _alone = lock(&self.raising);
        if self.level() < level {
            self.raise(level);
        }
    }

    /// Add an entry of another table that was sampled at this table's level or below.
    pub(crate) fn absorb(&self, entry: &Entry<'_>) {
        if kept(entry.fp, self.level()) {
            let part = part_of(entry.fp);
            self.with_part(part, |held| held.absorb(entry, self.words, self.slots_max));
            self.settle();
        }
    }

    /// Visit every entry in no particular order. The partition's number comes along.
    pub(crate) fn visit(&self, mut visit: impl FnMut(usize, &Entry<'_>)) {
        for (number, part) in self.parts.iter().enumerate() {
            let held = lock(part);
            for slot in (0..held.slots).filter(|slot| held.data[slot * self.words + COUNT] > 0) {
                visit(number, &held.entry(slot, self.words));
            }
        }
    }

    /// Visit every entry in ascending order of fingerprints: a canonical order.
    pub(crate) fn visit_sorted<E>(
        &self,
        mut visit: impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in &self.parts {
            let held = lock(part);
            let mut order: Vec<(u64, u32)> = (0..held.slots)
                .filter(|slot| held.data[slot * self.words + COUNT] > 0)
                .map(|slot| (fp_of(&held.data[slot * self.words..]), slot as u32))
                .collect();
            order.sort_unstable();
            for (_, slot) in order {
                visit(&held.entry(slot as usize, self.words))?;
            }
        }
        Ok(())
    }
}

fn fp_of(entry: &[u32]) -> u64 {
    u64::from(entry[FP_LOW]) | u64::from(entry[FP_HIGH]) << 32
}

impl Part {
    /// Where the search for `fp` starts: the bits below those that chose the partition, spread
    /// over the slots.
    fn home(&self, fp: u64) -> usize {
        let spread = fp << PARTS.trailing_zeros();
        ((u128::from(spread) * self.slots as u128) >> 64) as usize
    }

    /// Read where the searches for some fingerprints start. The reads do not wait for each other,
    /// so that the searches find their entries in the cache.
    fn touch(&self, fps: impl Iterator<Item = u64>, words: usize) {
        if self.slots > 0 {
            let sum = fps.fold(0, |sum, fp| sum ^ self.data[self.home(fp) * words]);
            std::hint::black_box(sum);
        }
    }

    /// The slot that holds `fp`, or the free one where it belongs. There must be a free slot.
    fn slot(&self, fp: u64, words: usize) -> usize {
        let mut slot = self.home(fp);
        let (low, high) = (fp as u32, (fp >> 32) as u32);
        loop {
            let entry = &self.data[slot * words..][..4];
            if entry[COUNT] == 0 || (entry[FP_LOW] == low && entry[FP_HIGH] == high) {
                return slot;
            }
            slot += 1;
            if slot == self.slots {
                slot = 0;
            }
        }
    }

    /// Make room for one more entry.
    fn reserve(&mut self, words: usize, slots_max: usize) {
        let full = if self.slots < slots_max { self.slots / 8 * 7 } else { self.slots / 16 * 15 };
        if self.len < full {
            return;
        }
        // Past the planned size only by chance, when one partition gets more than its share.
        let wanted = if self.slots < slots_max {
            (self.slots * 2).clamp(SLOTS_MIN, slots_max)
        } else {
            self.slots + self.slots / 8 + SLOTS_MIN
        };
        let old = std::mem::replace(&mut self.data, vec![0; wanted * words]);
        self.slots = wanted;
        for entry in old.chunks_exact(words).filter(|entry| entry[COUNT] > 0) {
            let slot = self.slot(fp_of(entry), words);
            self.data[slot * words..][..words].copy_from_slice(entry);
        }
    }

    /// Count one sighting; whether it made a new entry.
    fn observe(&mut self, seen: &Seen, words: usize, slots_max: usize) -> bool {
        if !kept(seen.fp, self.level) {
            return false;
        }
        self.reserve(words, slots_max);
        let slot = self.slot(seen.fp, words);
        let entry = &mut self.data[slot * words..][..words];
        if entry[COUNT] == 0 {
            entry[FP_LOW] = seen.fp as u32;
            entry[FP_HIGH] = (seen.fp >> 32) as u32;
            entry[COUNT] = 1;
            entry[LEN] = seen.len;
            if words > FIRST {
                entry[FIRST] = seen.file;
                entry[GROUP] = seen.group;
                entry[STORED..].fill(UNKNOWN);
            }
            self.len += 1;
            return true;
        }
        if entry[COUNT] == u32::MAX {
            let spilled = self.spill.entry(seen.fp).or_default();
            *spilled = spilled.saturating_add(u32::MAX.into());
            entry[COUNT] = 0;
        }
        entry[COUNT] += 1;
        if words > FIRST && seen.file < entry[FIRST] {
            entry[FIRST] = seen.file;
            entry[GROUP] = seen.group;
        }
        false
    }

    fn absorb(&mut self, other: &Entry<'_>, words: usize, slots_max: usize) {
        let Entry { fp, count, len, first, group, stored } = *other;
        if !kept(fp, self.level) {
            return;
        }
        let is_new = self.observe(&Seen { fp, len, file: first, group }, words, slots_max);
        let slot = self.slot(fp, words);
        let entry = &mut self.data[slot * words..][..words];
        let sum = u64::from(entry[COUNT]).saturating_add(count - 1);
        if sum > u64::from(u32::MAX) {
            let spilled = self.spill.entry(fp).or_default();
            *spilled = spilled.saturating_add(sum - 1);
            entry[COUNT] = 1;
        } else {
            entry[COUNT] = sum as u32;
        }
        if is_new && words > FIRST {
            entry[STORED..].copy_from_slice(stored);
        }
    }

    /// Drop what is not in the sample at `level`.
    fn compact(&mut self, level: u8, words: usize) {
        if self.level >= level {
            return;
        }
        self.level = level;
        let keep: Vec<u32> = self
            .data
            .chunks_exact(words)
            .filter(|entry| entry[COUNT] > 0 && kept(fp_of(entry), level))
            .flatten()
            .copied()
            .collect();
        self.data.fill(0);
        self.len = keep.len() / words;
        for entry in keep.chunks_exact(words) {
            let slot = self.slot(fp_of(entry), words);
            self.data[slot * words..][..words].copy_from_slice(entry);
        }
        self.spill.retain(|&fp, _| kept(fp, level));
    }

    fn entry(&self, slot: usize, words: usize) -> Entry<'_> {
        let entry = &self.data[slot * words..][..words];
        let fp = fp_of(entry);
        let spilled = self.spill.get(&fp).copied().unwrap_or(0);
        let owned = words > FIRST;
        Entry {
            fp,
            count: spilled.saturating_add(entry[COUNT].into()),
            len: entry[LEN],
            first: if owned { entry[FIRST] } else { 0 },
            group: if owned { entry[GROUP] } else { 0 },
            stored: if owned { &entry[STORED..] } else { &[] },
        }
    }
}

/// Whether a stored size was filled in. A cancelled run leaves none unknown: batches are finished.
pub(crate) fn is_known(stored: u32) -> bool {
    stored != UNKNOWN
}

#[cfg(test)]
mod tests;
