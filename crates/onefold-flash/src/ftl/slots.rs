//! How the FTL's own pages are numbered.
//! Room: onefold-flash.

use crate::geometry::Geometry;
use crate::nand::PageKey;

/// The numbering of the FTL's own pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    /// Entries of a mapping page.
    pub entries: u32,
    /// Mapping pages of logical pages: slots `0..logical`.
    pub logical: u32,
    /// Mapping pages in all, with those of the virtual table after `logical`.
    pub segments: u32,
    /// Pages of states: a word for each block, then two for each segment; two sets of them, after
    /// the segments, used in turn.
    pub states: u32,
}

impl Slots {
    pub fn new(geometry: &Geometry, logical_pages: u32) -> Self {
        let entries = geometry.page_bytes / 4;
        let logical = logical_pages.div_ceil(entries);
        // Virtual pages in use are at most the logical pages, and those resting at most the
        // records of a few pages.
        let virtual_pages = logical_pages + 4 * entries;
        let segments = logical + virtual_pages.div_ceil(entries);
        Self {
            entries,
            logical,
            segments,
            states: (geometry.blocks() + 2 * segments).div_ceil(entries),
        }
    }

    /// Words of a page of states.
    pub const fn words_per_state(&self) -> usize {
        self.entries as usize
    }

    /// Whether a segment is one of the map, and not of the virtual table.
    pub const fn is_of_map(&self, segment: u32) -> bool {
        segment < self.logical
    }

    pub const fn state(&self, index: u32, odd: bool) -> u32 {
        self.segments + index + if odd { self.states } else { 0 }
    }

    pub const fn root(&self) -> u32 {
        self.segments + 2 * self.states
    }

    pub const fn first_journal(&self) -> u32 {
        self.root() + 1
    }

    pub fn key(&self, slot: u32) -> PageKey {
        if slot < self.segments {
            PageKey::Map(slot)
        } else if slot < self.root() {
            PageKey::Directory((slot - self.segments) % self.states)
        } else if slot == self.root() {
            PageKey::Root(0)
        } else {
            PageKey::Journal(slot - self.first_journal())
        }
    }

    /// The segment of a logical page.
    pub const fn of(&self, lpn: u32) -> u32 {
        lpn / self.entries
    }

    /// The segment of a virtual page.
    pub const fn of_virtual(&self, vpn: u32) -> u32 {
        self.logical + vpn / self.entries
    }

    /// The logical pages of a segment of the map.
    pub fn lpns(&self, segment: u32) -> std::ops::Range<u32> {
        segment * self.entries..(segment + 1) * self.entries
    }
}
