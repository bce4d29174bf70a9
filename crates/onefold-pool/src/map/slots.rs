//! Which slots of the map file are in use.
//! Room: onefold-pool.
//! Invariants: (1) slot 0 is the file's header and never given out; (2) a slot released after it
//! was durable is given out again only after the next checkpoint is.
//! Cost: one bit of memory per slot.

/// Slots of the map file.
#[derive(Default)]
pub struct Slots {
    used: Vec<u64>,
    /// Below this number no slot is free.
    hint: usize,
    /// Slots below this number have space set aside on the media.
    reserved: u32,
    free_below_reserved: u32,
    /// In use by the durable checkpoint, and no longer by the one to come.
    released: Vec<u32>,
}

impl Slots {
    /// Only the header in use.
    pub fn new() -> Self {
        let mut slots = Self::default();
        slots.grow_reserved(1);
        slots.mark_used(0);
        slots
    }

    /// Space is set aside for slots below `reserved`.
    pub fn grow_reserved(&mut self, reserved: u32) {
        if reserved > self.reserved {
            self.free_below_reserved += reserved - self.reserved;
            self.reserved = reserved;
            self.used.resize((reserved as usize).div_ceil(64), 0);
        }
    }

    /// A slot that a checkpoint refers to; false if two pages claim it.
    #[must_use]
    pub fn claim(&mut self, slot: u32) -> bool {
        self.grow_reserved(slot.saturating_add(1));
        !self.is_used(slot) && {
            self.mark_used(slot);
            true
        }
    }

    fn is_used(&self, slot: u32) -> bool {
        self.used[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    fn mark_used(&mut self, slot: u32) {
        self.used[slot as usize / 64] |= 1 << (slot % 64);
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

    /// A page left this slot; it becomes free with the next durable checkpoint.
    pub fn release(&mut self, slot: u32) {
        self.released.push(slot);
    }

    /// The checkpoint without the released slots is durable.
    pub fn free_released(&mut self) {
        for slot in std::mem::take(&mut self.released) {
            self.used[slot as usize / 64] &= !(1 << (slot % 64));
            self.free_below_reserved += 1;
            self.hint = self.hint.min(slot as usize / 64);
        }
    }

    /// One past the last slot in use.
    pub fn end(&self) -> u32 {
        let last = self.used.iter().rposition(|&bits| bits != 0).unwrap_or(0);
        let bits = self.used.get(last).copied().unwrap_or(0);
        last as u32 * 64 + (64 - bits.leading_zeros())
    }

    /// The file was cut after the last slot in use.
    pub fn forget_reserved(&mut self) {
        let end = self.end();
        self.free_below_reserved -= self.reserved - end;
        self.reserved = end;
        self.used.truncate((end as usize).div_ceil(64));
        self.hint = 0;
    }

    /// Slots in use, the header among them.
    #[cfg(test)]
    pub fn used(&self) -> u32 {
        self.reserved - self.free_below_reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_slots_come_back_only_after_a_checkpoint() {
        let mut slots = Slots::new();
        slots.grow_reserved(4);
        assert_eq!((slots.free(), slots.used(), slots.end()), (3, 1, 1));
        assert_eq!([slots.allocate(), slots.allocate()], [1, 2]);
        slots.release(1);
        assert_eq!(slots.allocate(), 3);
        assert_eq!(slots.free(), 0);
        assert_eq!(slots.allocate(), 4, "not the released one; and not one set aside");
        slots.free_released();
        assert_eq!(slots.allocate(), 1);
        slots.release(4);
        slots.release(3);
        slots.free_released();
        assert_eq!((slots.end(), slots.used(), slots.reserved()), (3, 3, 5));
        slots.forget_reserved();
        assert_eq!((slots.reserved(), slots.free()), (3, 0));
        assert!(slots.claim(200) && !slots.claim(200) && !slots.claim(2));
        assert_eq!(slots.end(), 201);
    }
}
