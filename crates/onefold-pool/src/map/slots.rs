//! Which slots of the map file are in use.
//! Room: onefold-pool.
//! Invariants: (1) slot 0 is the file's header and never given out; (2) a slot released after it
//! was durable is given out again only after the next checkpoint is; (3) what the next checkpoint
//! says of a slot is whether a page that it refers to is there.
//! Cost: two bits of memory per slot.

use std::collections::BTreeSet;

use super::page::{ENTRIES_PER_PAGE, PAGE_BYTES, Page};

/// Slots that one page of the bitmap tells of.
pub const SLOTS_PER_PAGE: usize = PAGE_BYTES * 8;

/// Slots of the map file.
#[derive(Default)]
pub struct Slots {
    /// Those that are not to be given out: the durable checkpoint or the one to come refers to
    /// them.
    used: Vec<u64>,
    /// Those that the checkpoint to come refers to.
    kept: Vec<u64>,
    /// Pages of the bitmap that are not as they were last written.
    changed: BTreeSet<usize>,
    /// Below this number no slot is free.
    hint: usize,
    /// Slots below this number have space set aside on the media.
    reserved: u32,
    free_below_reserved: u32,
    /// In use by the durable checkpoint, and no longer by the one to come.
    released: Vec<u32>,
    /// In use by a checkpoint that somebody reads, and by none that is durable; nothing while
    /// nobody does.
    held: Option<Vec<u32>>,
}

impl Slots {
    /// Only the header in use.
    pub fn new() -> Self {
        let mut slots = Self::default();
        slots.grow_reserved(1);
        slots.mark_used(0);
        slots
    }

    /// As a durable checkpoint says.
    pub fn restore(mut bits: Vec<u64>) -> Self {
        if bits.is_empty() {
            bits.push(0);
        }
        bits[0] |= 1;
        let mut slots = Self { kept: bits.clone(), used: bits, ..Self::default() };
        slots.reserved = slots.end();
        slots.used.truncate((slots.reserved as usize).div_ceil(64));
        slots.kept.truncate(slots.used.len());
        let used: u32 = slots.used.iter().map(|bits| bits.count_ones()).sum();
        slots.free_below_reserved = slots.reserved - used;
        slots
    }

    /// The same where no bitmap that was written says so.
    pub fn restore_anew(bits: Vec<u64>) -> Self {
        let mut slots = Self::restore(bits);
        slots.changed = (0..slots.bitmap_pages()).collect();
        slots
    }

    /// Space is set aside for slots below `reserved`.
    pub fn grow_reserved(&mut self, reserved: u32) {
        self.free_below_reserved += reserved.saturating_sub(self.reserved);
        self.reserved = self.reserved.max(reserved);
        self.used.resize((self.reserved as usize).div_ceil(64), 0);
        self.kept.resize(self.used.len(), 0);
    }

    /// Those that the next checkpoint has in use, as bits.
    pub fn in_use(&self) -> Vec<u64> {
        self.kept.clone()
    }

    /// Whether a slot is in use.
    #[cfg(test)]
    pub fn is_used(&self, slot: u32) -> bool {
        self.used.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    fn mark_used(&mut self, slot: u32) {
        self.used[slot as usize / 64] |= 1 << (slot % 64);
        self.kept[slot as usize / 64] |= 1 << (slot % 64);
        self.changed.insert(slot as usize / SLOTS_PER_PAGE);
        self.free_below_reserved -= 1;
    }

    /// Slots with space set aside that are free.
    pub const fn free(&self) -> u32 {
        self.free_below_reserved
    }

    /// One past the last slot with space set aside.
    pub const fn reserved(&self) -> u32 {
        self.reserved
    }

    /// The lowest free slot; reserve more first if there is none.
    pub fn allocate(&mut self) -> u32 {
        let word = (self.hint..self.used.len())
            .find(|&word| self.used[word] != u64::MAX)
            .unwrap_or(self.used.len());
        self.hint = word;
        let slot = match self.used.get(word) {
            Some(bits) => word as u32 * 64 + bits.trailing_ones(),
            None => word as u32 * 64,
        };
        self.grow_reserved(slot + 1);
        self.mark_used(slot);
        slot
    }

    /// A page left this slot; it becomes free with the next durable checkpoint. A volume and the
    /// snapshot that it outlives may both say so of a page that both left in between.
    pub fn release(&mut self, slot: u32) {
        let (kept, bit) = (&mut self.kept[slot as usize / 64], 1 << (slot % 64));
        if *kept & bit == 0 {
            return;
        }
        *kept &= !bit;
        self.changed.insert(slot as usize / SLOTS_PER_PAGE);
        self.released.push(slot);
    }

    /// The checkpoint without the released slots is durable.
    pub fn free_released(&mut self) {
        let released = std::mem::take(&mut self.released);
        match &mut self.held {
            Some(held) => held.extend(released),
            None => self.free_all(released),
        }
    }

    fn free_all(&mut self, slots: Vec<u32>) {
        for slot in slots {
            self.used[slot as usize / 64] &= !(1 << (slot % 64));
            self.free_below_reserved += 1;
            self.hint = self.hint.min(slot as usize / 64);
        }
    }

    /// The durable checkpoint is going to be read: what it has in use stays as it is until
    /// [`Slots::let_go`].
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// It is read no more.
    pub fn let_go(&mut self) {
        let held = self.held.take().unwrap_or_default();
        self.free_all(held);
    }

    /// One past the last slot in use.
    pub fn end(&self) -> u32 {
        let last = self.used.iter().rposition(|&bits| bits != 0).expect("the header is in use");
        last as u32 * 64 + (64 - self.used[last].leading_zeros())
    }

    /// The file was cut after the last slot in use.
    pub fn forget_reserved(&mut self) {
        let end = self.end();
        self.free_below_reserved -= self.reserved - end;
        self.reserved = end;
        self.used.truncate((end as usize).div_ceil(64));
        self.kept.truncate(self.used.len());
        self.hint = 0;
    }

    /// Pages that a bitmap of the slots has.
    pub fn bitmap_pages(&self) -> usize {
        (self.end() as usize).div_ceil(SLOTS_PER_PAGE)
    }

    /// The most that it may have once all that has space set aside is in use, and so many more.
    pub const fn bitmap_pages_max(&self, more: usize) -> usize {
        let reserved = self.reserved as usize;
        // Bitmaps take less than one slot in 4,096 themselves.
        (reserved + reserved / 4096 + more).div_ceil(SLOTS_PER_PAGE)
    }

    /// Pages of the bitmap that are not as they were last written.
    pub fn changed(&self) -> Vec<usize> {
        self.changed.iter().copied().collect()
    }

    /// A page of the bitmap as the next checkpoint shall have it.
    pub fn bitmap_page(&self, number: usize) -> Box<Page> {
        let mut page = Box::new([0; ENTRIES_PER_PAGE]);
        let words = self.kept.iter().skip(number * ENTRIES_PER_PAGE);
        for (word, bits) in page.iter_mut().zip(words) {
            *word = *bits;
        }
        page
    }

    /// The bitmap was written as it is now.
    pub fn bitmap_is_written(&mut self) {
        self.changed.clear();
    }

    /// Slots in use, the header among them.
    pub const fn used(&self) -> u32 {
        self.reserved - self.free_below_reserved
    }
}

#[cfg(test)]
mod tests;
