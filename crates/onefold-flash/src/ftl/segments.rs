//! Which mapping pages hold what the map says.
//! Room: onefold-flash.
//! Invariants: a segment is changed from its first change on until it is stored.
//! Cost: 16 B per mapping page.

use crate::ftl::slots::Slots;

/// A segment that its mapping page holds as it is.
const CLEAN: u64 = u64::MAX;

/// The segments of the map and of the virtual table.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    on: bool,
    slots: Slots,
    /// Up to which sequence each segment's newest mapping page has its entries; 0 without one.
    stored_at: Vec<u64>,
    /// First change of each segment since it was stored, or [`CLEAN`].
    dirty_at: Vec<u64>,
}

impl Segments {
    /// Segments that were never stored; none are noted where `on` is not set.
    pub fn new(on: bool, slots: Slots) -> Self {
        let count = if on { slots.segments as usize } else { 0 };
        Self { on, slots, stored_at: vec![0; count], dirty_at: vec![CLEAN; count] }
    }

    /// How they are numbered.
    #[inline]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The entry of a logical page changes.
    #[inline]
    pub fn note(&mut self, lpn: u32, seq: u64) {
        if self.on {
            self.change(self.slots.of(lpn), seq);
        }
    }

    /// A virtual page changes.
    #[inline]
    pub fn note_virtual(&mut self, vpn: u32, seq: u64) {
        if self.on {
            self.change(self.slots.of_virtual(vpn), seq);
        }
    }

    /// A segment has changed.
    pub fn change(&mut self, segment: u32, seq: u64) {
        let at = &mut self.dirty_at[segment as usize];
        *at = (*at).min(seq);
    }

    /// Whether a segment is as its mapping page has it.
    pub fn is_clean(&self, segment: u32) -> bool {
        self.dirty_at[segment as usize] == CLEAN
    }

    /// Whether a segment had changed at a sequence.
    pub fn changed_by(&self, segment: u32, seq: u64) -> bool {
        self.dirty_at[segment as usize] <= seq
    }

    /// A segment was stored as it was at a sequence.
    pub fn stored(&mut self, segment: u32, seq: u64) {
        self.found(segment, seq);
        self.dirty_at[segment as usize] = CLEAN;
    }

    /// There is a mapping page with the entries of a segment up to a sequence.
    pub fn found(&mut self, segment: u32, seq: u64) {
        self.stored_at[segment as usize] = seq;
    }

    /// Up to which sequence the newest mapping page of a segment has its entries; 0 without one.
    pub fn stored_at(&self, segment: u32) -> u64 {
        self.stored_at[segment as usize]
    }

    /// What a checkpoint says of the mapping pages that there are.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        self.stored_at.iter().flat_map(|&at| [at as u32, (at >> 32) as u32])
    }

    /// Takes that from a checkpoint.
    pub fn restore(&mut self, words: &[u32]) {
        for (at, words) in self.stored_at.iter_mut().zip(words.as_chunks::<2>().0) {
            *at = u64::from(words[0]) | u64::from(words[1]) << 32;
        }
    }

    /// How many there are, if any are noted.
    pub const fn len(&self) -> usize {
        self.stored_at.len()
    }
}
