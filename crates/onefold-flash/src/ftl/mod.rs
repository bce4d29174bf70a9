//! The flash translation layer: maps, collects garbage, shares pages.
//! Room: onefold-flash.   In: host requests, idle moments.   Out: `FlashOp`s and NAND calls.
//! Invariants: (1) `map` and `owners` are inverse; (2) references of a virtual page = map entries
//! that name it; (3) live pages of a block = its pages with an owner; (4) pages programmed = host
//! unique + collection + wear levelling + mapping. Checked by [`Ftl::check_invariants`].

pub mod blocks;
pub mod counters;
pub mod map;
pub mod settings;
pub mod shared;

mod cache;
mod check;
mod checkpoint;
mod collect;
mod format;
mod gather;
pub(crate) mod idle;
pub(crate) mod journal;
mod meta;
mod pack;
mod precondition;
mod recover;
mod share;
mod spread;
mod stored;
#[cfg(test)]
mod tests;
mod victim;
mod write;

pub use counters::Counters;
pub(crate) use format::SUBPAGES_MAX;
pub use recover::Recovered;
pub use settings::{Durability, FtlSettings, Pacing, Temperature, VictimRule};
pub use stored::Stored;
pub use write::Written;

use onefold_block::SplitMix64;
use thiserror::Error;

use crate::dedup::{Look, Policy};
use crate::geometry::{Divider, Geometry};
use crate::nand::{Nand, NandError, fragment_at};
use crate::op::{Driver, FlashOp, OpKind, Work};
use blocks::Blocks;
use cache::MapCache;
use gather::Gathered;
use map::{Owner, Owners, PageMap, Place};
use meta::Meta;
use pack::Packing;
use shared::VirtualTable;
use spread::Neighbours;

/// Why the FTL refused or failed a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FtlError {
    /// The host addressed a page that the drive does not have.
    #[error("logical page {lpn} is outside the drive of {pages} pages")]
    OutOfRange {
        /// The page.
        lpn: u32,
        /// Logical pages of the drive.
        pages: u32,
    },
    /// There is no block left to write to: too many have gone bad.
    #[error(
        "no block can be freed: {bad_blocks} of {blocks} blocks are bad; the drive is read-only"
    )]
    NoSpace {
        /// Blocks out of use.
        bad_blocks: u32,
        /// Blocks of the drive.
        blocks: u32,
    },
    /// The logical pages do not fit beside what collection needs.
    #[error(
        "{logical} logical pages and {own} of the map do not fit: {good} good blocks less {kept} \
         for collection and open blocks hold {usable} pages"
    )]
    NoRoom {
        /// Logical pages asked for.
        logical: u32,
        /// Pages of the FTL's own.
        own: u32,
        /// Good blocks of the drive.
        good: u32,
        /// Blocks of these that hold no data: the reserve, and those being filled.
        kept: u32,
        /// Pages of the others.
        usable: u64,
    },
    /// The settings cannot work with this array.
    #[error("{0}")]
    Settings(String),
    /// The array holds no drive, or not the one that the settings describe.
    #[error("{0}")]
    Unrecoverable(String),
    /// Damage took the page, or what said where it was; writing or trimming it ends that.
    #[error("logical page {lpn} is lost: the flash that held it is damaged")]
    Lost {
        /// The page.
        lpn: u32,
    },
    /// The array failed.
    #[error(transparent)]
    Nand(#[from] NandError),
}

/// Who fills a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Data from the host.
    Host,
    /// Data from the host that a policy or the temperature wants apart.
    Apart,
    /// Data moved by collection.
    Moved,
    /// Data of the hot pool moved by collection.
    MovedHot,
    /// Cold data moved by static wear levelling, into worn blocks.
    Levelled,
}

pub(crate) const STREAMS: usize = 5;

/// A flash translation layer over an array, with a deduplication policy.
#[derive(Debug)]
pub struct Ftl<N: Nand, P> {
    geometry: Geometry,
    settings: FtlSettings,
    nand: N,
    policy: P,
    map: PageMap,
    owners: Owners,
    shared: VirtualTable,
    blocks: Blocks,
    /// The open block of each stream in each plane.
    open: Vec<[Option<u32>; STREAMS]>,
    collecting: Vec<Option<collect::Collection>>,
    meta: Meta,
    cache: MapCache,
    /// Blocks of the hot pool in each plane beyond which it is the one collected.
    hot_blocks: Option<u32>,
    neighbours: Neighbours,
    /// Compressed pages that are not in the flash yet.
    packing: Packing<N::Page>,
    /// Compressed pages on their way out of each plane's victim.
    gathered: Vec<Gathered<N::Page>>,
    counters: Counters,
    random: SplitMix64,
    seq: u64,
    next_plane: u32,
    /// Live places of a block at which collecting it no longer gives a page back. Codewords are
    /// packed anew: a block of them has to lack a page.
    dense_places: u32,
    by_block: Divider,
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// The shape of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings.
    pub fn settings(&self) -> &FtlSettings {
        &self.settings
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state of the blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The virtual pages.
    pub fn shared(&self) -> &VirtualTable {
        &self.shared
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy, to be told what no page says (such as a flag of the next request).
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// The array.
    pub fn nand(&mut self) -> &mut N {
        &mut self.nand
    }

    /// The array, when nothing else is wanted: as after a power cut.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Equal parts of a flash page: 1 where nothing is packed.
    #[inline]
    const fn subpages(&self) -> u32 {
        if N::PACKS { self.settings.subpages } else { 1 }
    }

    /// Places of the drive: its sub-pages, or its pages where nothing is packed. What a logical
    /// page is at, what a policy names and what an owner has are places.
    pub fn places(&self) -> u32 {
        self.geometry.pages() * self.subpages()
    }

    /// Compressed pages that wait for others, each with the logical pages that it is for.
    pub(crate) fn waiting(
        &self,
    ) -> impl Iterator<Item = (&[u32], &crate::nand::Fragment<N::Page>)> {
        self.packing.fragments()
    }

    /// Another number whenever what waits is not the same as before.
    pub(crate) fn packing_version(&self) -> u64 {
        self.packing.version()
    }

    /// Bytes that describe what waits, at most.
    pub(crate) fn packing_bytes(&self) -> usize {
        let FtlSettings { subpages, packing_pages, .. } = self.settings;
        let fragments = packing_slots(subpages, packing_pages) as usize;
        let pages = fragments / subpages as usize * self.geometry.page_bytes as usize;
        fragments * (16 + 4 * pack::TOGETHER_MAX) + pages
    }

    /// The content of a place.
    ///
    /// # Errors
    /// [`NandError`].
    #[inline]
    pub fn content(&mut self, place: u32) -> Result<N::Page, NandError> {
        if !self.is_fragment(place) {
            let ppn = self.page_of(place);
            return self.nand.read(ppn);
        }
        self.content_of_fragment(place)
    }

    #[inline(never)]
    fn content_of_fragment(&mut self, place: u32) -> Result<N::Page, NandError> {
        let (ppn, subpage) = (self.page_of(place), place % self.subpages());
        let fragments = self.nand.read_packed(ppn)?;
        match fragment_at(&fragments, subpage) {
            Some(fragment) => self.nand.expand(ppn, fragment),
            None => Err(NandError::Uncorrectable { ppn, retries: 0 }),
        }
    }

    /// Whether a place holds one of the compressed pages of a flash page.
    #[inline]
    pub fn is_fragment(&self, place: u32) -> bool {
        let subpages = self.subpages();
        subpages > 1 && self.owners.part(place, subpages).0 < subpages
    }

    /// The place that holds a logical page, which must not be waiting to be packed, and whose
    /// mapping page must be in DRAM (see [`Ftl::load`]).
    pub fn locate(&self, lpn: u32) -> Option<u32> {
        match self.map.get(lpn) {
            Place::None | Place::Lost => None,
            Place::Own(ppn) => Some(ppn),
            Place::Virtual(vpn) => Some(self.shared.ppn(vpn)),
        }
    }

    /// Whether a physical page holds data that is wanted.
    pub fn holds_data(&self, ppn: u32) -> bool {
        self.owners.may_be_shared(ppn) || self.is_kept(ppn)
    }

    /// Whether a physical page holds data that is never shared, because the host wants it kept.
    pub fn is_kept(&self, ppn: u32) -> bool {
        matches!(self.owners.get(ppn), Owner::Kept(_))
    }

    /// Whether a logical page was written and not trimmed, even if it was lost since; its mapping
    /// page must be in DRAM.
    pub fn is_written(&self, lpn: u32) -> bool {
        self.map.get(lpn) != Place::None || self.packing.has(lpn)
    }

    /// Reads a logical page; `None` if nothing was written there.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::Lost`], [`FtlError::Nand`].
    pub fn read(&mut self, lpn: u32, d: &mut impl Driver) -> Result<Option<N::Page>, FtlError> {
        self.read_where(lpn, |_| true, d)
    }

    /// The same, where `senses` says of a flash page whether the flash has to read it: a request
    /// for several codewords has that done once for all that are in one page.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    #[inline]
    pub(crate) fn read_where(
        &mut self,
        lpn: u32,
        senses: impl FnOnce(u32) -> bool,
        d: &mut impl Driver,
    ) -> Result<Option<N::Page>, FtlError> {
        self.check_range(lpn)?;
        d.work(Work::Lookup, true);
        self.counters.host_pages_read += 1;
        if let Some(place) = self.packing.place_of(lpn) {
            self.counters.waiting_reads += 1;
            return Ok(self.packing.page(place).cloned());
        }
        self.touch(lpn, true, d)?;
        let Some(ppn) = self.locate(lpn) else {
            let lost = self.map.get(lpn) == Place::Lost;
            return if lost { Err(FtlError::Lost { lpn }) } else { Ok(None) };
        };
        let page = self.content(ppn)?;
        if senses(self.page_of(ppn)) {
            self.issue(d, OpKind::Read, crate::op::Cause::Host, ppn, true);
            self.expanded(ppn, true, d);
        }
        Ok(Some(page))
    }

    fn check_range(&self, lpn: u32) -> Result<(), FtlError> {
        let pages = self.map.len();
        if lpn < pages { Ok(()) } else { Err(FtlError::OutOfRange { lpn, pages }) }
    }

    fn issue(
        &mut self,
        d: &mut impl Driver,
        kind: OpKind,
        cause: crate::op::Cause,
        ppn: u32,
        foreground: bool,
    ) {
        self.issue_page(d, FlashOp { kind, cause, ppn: self.page_of(ppn), foreground });
    }

    #[inline]
    fn issue_page(&mut self, d: &mut impl Driver, op: FlashOp) {
        self.counters.ops.add(op.kind, op.cause);
        d.issue(op);
    }

    /// What was read at a place goes through the compression engine, if it is compressed.
    fn expanded(&self, place: u32, foreground: bool, d: &mut impl Driver) {
        if self.is_fragment(place) && !self.settings.codewords {
            d.work(Work::Decompress, foreground);
        }
    }

    /// What is left of a flash page of which so many sub-pages are used, as the gap behind what it
    /// holds. Codewords fit anywhere, so that their gaps are dead and won back.
    fn gap_behind(&self, used: u32) -> u32 {
        if self.settings.codewords { 0 } else { self.subpages() - used }
    }

    /// Sub-pages of the flash pages that a block's live ones will take when they have been moved.
    const fn moved_places(&self, live: u32) -> u32 {
        if self.settings.codewords { live.next_multiple_of(self.subpages()) } else { live }
    }

    /// The flash page of a place.
    #[inline]
    fn page_of(&self, place: u32) -> u32 {
        page_of(place, self.subpages())
    }

    /// The first place of a block.
    #[inline]
    fn first_place(&self, block: u32) -> u32 {
        self.geometry.first_page(block) * self.subpages()
    }

    /// Places of a block.
    #[inline]
    fn places_per_block(&self) -> u32 {
        self.geometry.pages_per_block * self.subpages()
    }

    #[inline]
    fn block_of(&self, ppn: u32) -> u32 {
        self.by_block.of(ppn)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
}

/// Names of pages that wait to be packed.
pub(crate) const fn packing_slots(subpages: u32, packing_pages: u32) -> u32 {
    if subpages > 1 { pack::STREAMS * packing_pages * subpages } else { 0 }
}

/// The flash page of a place, on flash pages of so many sub-pages.
#[inline]
const fn page_of(place: u32, subpages: u32) -> u32 {
    if subpages == 1 { place } else { place / subpages }
}

/// The drive as a policy may see it while the FTL's other fields stay free to change.
macro_rules! view {
    ($ftl:expr, $driver:expr, $foreground:expr) => {
        crate::ftl::View {
            geometry: &$ftl.geometry,
            subpages: $ftl.subpages(),
            packing: &$ftl.packing,
            owners: &$ftl.owners,
            map: &$ftl.map,
            shared: &$ftl.shared,
            driver: $driver,
            foreground: $foreground,
        }
    };
}
pub(crate) use view;

/// What a policy may see of the drive while it looks at a page.
pub(crate) struct View<'a, D, P> {
    pub geometry: &'a Geometry,
    pub subpages: u32,
    pub packing: &'a Packing<P>,
    pub owners: &'a Owners,
    pub map: &'a PageMap,
    pub shared: &'a VirtualTable,
    pub driver: &'a mut D,
    /// Whether the current request waits for the policy's work.
    pub foreground: bool,
}

impl<D, P> View<'_, D, P> {
    fn plane_of(&self, place: u32) -> u32 {
        self.geometry.plane_of(page_of(place, self.subpages))
    }
}

impl<D: Driver, P: Clone + PartialEq> Look for View<'_, D, P> {
    fn is_live(&self, ppn: u32) -> bool {
        // Places behind the last one of the flash are of what waits to be packed.
        self.owners.shareable(ppn).unwrap_or_else(|| self.packing.may_be_shared(ppn))
    }

    fn is_idle(&self, ppn: u32) -> bool {
        // What waits is in memory.
        self.subpages > 1 && self.packing.is_here(ppn) || self.driver.is_idle(self.plane_of(ppn))
    }

    fn locate(&self, lpn: u32) -> Option<u32> {
        if let Some(place) = self.packing.place_of(lpn) {
            return Some(place);
        }
        if self.map.is_absent(lpn) {
            return None;
        }
        match self.map.get(lpn) {
            Place::None | Place::Lost => None,
            Place::Own(ppn) => Some(ppn),
            Place::Virtual(vpn) => Some(self.shared.ppn(vpn)),
        }
    }

    fn read_ns(&self, ppn: u32) -> u64 {
        if self.subpages > 1 && self.packing.is_here(ppn) {
            return 0;
        }
        self.driver.read_ns(self.plane_of(ppn))
    }

    fn program_ns(&self) -> u64 {
        self.driver.program_ns()
    }

    fn work_ns(&self, work: Work) -> u64 {
        self.driver.work_ns(work)
    }

    fn work(&mut self, work: Work) {
        self.driver.work(work, self.foreground);
    }

    fn work_beside(&mut self, work: Work) {
        self.driver.work(work, false);
    }
}
