//! Where the FTL's own pages are: mapping, journal, block states and root.
//! Room: onefold-flash.
//! Invariants: a slot has one live page at most; the one before it is the caller's to drop.
//! Cost: 4 B per page of the FTL's own.

use crate::ftl::map::NONE;
use crate::ftl::slots::Slots;

/// What the FTL stores of itself, by slot.
#[derive(Clone, Debug)]
pub(super) struct OwnPages {
    on: bool,
    slots: Slots,
    place: Vec<u32>,
}

impl OwnPages {
    /// None are stored yet; none ever will be where `on` is not set.
    pub fn new(on: bool, slots: Slots) -> Self {
        let place = if on { vec![NONE; slots.first_journal() as usize] } else { Vec::new() };
        Self { on, slots, place }
    }

    /// Whether anything is stored at all.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// How they are numbered.
    #[inline]
    pub const fn slots(&self) -> Slots {
        self.slots
    }

    /// Where the page of a slot is.
    pub fn place(&self, slot: u32) -> Option<u32> {
        Some(self.place[slot as usize]).filter(|&place| place != NONE)
    }

    /// The page of a slot is here from now on; the answer is where it was.
    pub fn put(&mut self, slot: u32, place: u32) -> Option<u32> {
        let old = std::mem::replace(&mut self.place[slot as usize], place);
        Some(old).filter(|&old| old != NONE)
    }

    /// A slot has no page any more; the answer is where it was.
    pub fn vacate(&mut self, slot: u32) -> Option<u32> {
        self.put(slot, NONE)
    }

    /// One more slot for a page of the journal.
    pub fn add(&mut self) -> u32 {
        self.place.push(NONE);
        (self.place.len() - 1) as u32
    }

    /// Slots that have a page, with its place.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.place).filter(|&(_, &place)| place != NONE).map(|(slot, &at)| (slot, at))
    }
}
