//! How places are numbered: the sub-pages of the flash, or its pages where nothing is packed.
//! Room: onefold-flash.
//! Invariants: where the array cannot hold packed pages, a place is a page, and the compiler knows.

use std::marker::PhantomData;

use crate::ftl::settings::FtlSettings;
use crate::geometry::{Divider, Geometry};
use crate::nand::Nand;

/// The shape of the array, and how its flash pages are divided.
pub(super) struct Layout<N> {
    geometry: Geometry,
    subpages: u32,
    codewords: bool,
    by_block: Divider,
    nand: PhantomData<fn() -> N>,
}

// A copy for any array: derived ones would ask for an array that can be copied.
impl<N> Clone for Layout<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Layout<N> {}

impl<N> std::fmt::Debug for Layout<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { geometry, subpages, codewords, .. } = self;
        f.debug_struct("Layout")
            .field("geometry", geometry)
            .field("subpages", subpages)
            .field("codewords", codewords)
            .finish_non_exhaustive()
    }
}

impl<N: Nand> Layout<N> {
    pub const fn new(geometry: Geometry, settings: &FtlSettings) -> Self {
        let FtlSettings { subpages, codewords, .. } = *settings;
        let by_block = Divider::new(geometry.pages_per_block * subpages);
        Self { geometry, subpages, codewords, by_block, nand: PhantomData }
    }

    /// The shape of the array.
    #[inline]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Equal parts of a flash page: 1 where nothing is packed.
    #[inline]
    pub const fn subpages(&self) -> u32 {
        if N::PACKS { self.subpages } else { 1 }
    }

    /// Whether pages are packed.
    #[inline]
    pub const fn packs(&self) -> bool {
        self.subpages() > 1
    }

    /// Places of the drive.
    pub const fn places(&self) -> u32 {
        self.geometry.pages() * self.subpages()
    }

    /// The flash page of a place.
    #[inline]
    pub const fn page_of(&self, place: u32) -> u32 {
        if self.subpages() == 1 { place } else { place / self.subpages() }
    }

    /// The first place of a flash page.
    #[inline]
    pub const fn place_of(&self, page: u32) -> u32 {
        page * self.subpages()
    }

    /// The plane of a place.
    #[inline]
    pub const fn plane_of(&self, place: u32) -> u32 {
        self.geometry.plane_of(self.page_of(place))
    }

    /// The block of a place.
    #[inline]
    pub const fn block_of(&self, place: u32) -> u32 {
        self.by_block.of(place)
    }

    /// The first place of a block.
    #[inline]
    pub const fn first_place(&self, block: u32) -> u32 {
        self.place_of(self.geometry.first_page(block))
    }

    /// Places of a block.
    #[inline]
    pub const fn places_per_block(&self) -> u32 {
        self.place_of(self.geometry.pages_per_block)
    }

    /// Live places of a block at which collecting it no longer gives a page back. Codewords are
    /// packed anew: a block of them has to lack a page.
    #[inline]
    pub const fn dense_places(&self) -> u32 {
        self.places_per_block() - if self.codewords { self.subpages() - 1 } else { 0 }
    }

    /// What is left of a flash page of which so many sub-pages are used, as the gap behind what it
    /// holds. Codewords fit anywhere, so that their gaps are dead and won back.
    pub fn gap_behind(&self, used: u32) -> u32 {
        if self.codewords { 0 } else { self.subpages() - used }
    }

    /// Sub-pages of the flash pages that a block's live ones will take when they have been moved.
    pub const fn moved_places(&self, live: u32) -> u32 {
        if self.codewords { live.next_multiple_of(self.subpages()) } else { live }
    }
}
