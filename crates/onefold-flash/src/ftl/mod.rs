//! The flash translation layer: maps, collects garbage, shares pages.
//! Room: onefold-flash.   In: host requests, idle moments.   Out: `FlashOp`s and NAND calls.
//! Each part of its state has one owner, whose fields nobody else sees: `books` who is where,
//! `space` which blocks are filled and free, `journal` what happened when, `own_pages` where
//! the FTL's own pages are, `rounds` when checkpoints are due, `cache` what of the map is in
//! DRAM, `victims` what is collected, `packing` and `gathered` what waits to be packed. The
//! other files each do one thing with them: `read`, `write`, `trim`, `share`, `change`, `pack`,
//! `collect`, `gather`, `touch`, `store`, `checkpoint`, `flush`, `recover`.
//! Invariants: (1) map and owners are inverse; (2) references of a virtual page = map entries
//! that name it; (3) live pages of a block = its pages with an owner; (4) pages programmed = host
//! unique + collection + wear levelling + mapping. Checked by [`Ftl::check_invariants`].

pub mod blocks;
pub mod counters;
pub mod map;
pub mod settings;
pub mod shared;

mod announce;
mod books;
mod cache;
mod change;
mod check;
mod checkpoint;
mod collect;
mod error;
mod flush;
mod format;
mod gather;
mod gathered;
pub(crate) mod idle;
pub(crate) mod journal;
mod layout;
mod own_pages;
mod pack;
mod packing;
mod precondition;
mod read;
mod recover;
mod root;
mod rounds;
mod segments;
mod share;
mod slots;
mod space;
mod spread;
mod store;
mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod touch;
mod trim;
mod turns;
mod victim;
mod victims;
mod view;
mod write;
mod written;

pub use counters::Counters;
pub use error::FtlError;
pub(crate) use format::SUBPAGES_MAX;
pub use recover::Recovered;
pub use settings::{Durability, FtlSettings, Pacing, Temperature, VictimRule};
pub use stored::Stored;
pub(crate) use stream::STREAMS;
pub use written::Written;

use crate::dedup::{Policy, packing_slots};
use crate::geometry::Geometry;
use crate::nand::{Fragment, Nand};
use blocks::Blocks;
use books::Books;
use cache::MapCache;
use gathered::Gathered;
use journal::{Journal, Record};
use layout::Layout;
use own_pages::OwnPages;
use packing::Packing;
use rounds::Rounds;
use shared::VirtualTable;
use space::Space;
use victims::Victims;

/// A flash translation layer over an array, with a deduplication policy.
#[derive(Debug)]
pub struct Ftl<N: Nand, P> {
    settings: FtlSettings,
    layout: Layout<N>,
    nand: N,
    policy: P,
    books: Books<N>,
    space: Space<N>,
    journal: Journal,
    own: OwnPages,
    rounds: Rounds,
    cache: MapCache,
    victims: Victims,
    /// Compressed pages that are not in the flash yet.
    packing: Packing<N::Page>,
    /// Compressed pages on their way out of each plane's victim.
    gathered: Vec<Gathered<N::Page>>,
    counters: Counters,
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// The shape of the array.
    pub fn geometry(&self) -> &Geometry {
        self.layout.geometry()
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
        self.space.blocks()
    }

    /// The virtual pages.
    pub fn shared(&self) -> &VirtualTable {
        self.books.shared()
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

    /// Places of the drive: its sub-pages, or its pages where nothing is packed. What a logical
    /// page is at, what a policy names and what an owner has are places.
    pub fn places(&self) -> u32 {
        self.layout.places()
    }

    /// Compressed pages that wait for others, each with the logical pages that it is for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&[u32], &Fragment<N::Page>)> {
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
        let pages = fragments / subpages as usize * self.layout.geometry().page_bytes as usize;
        fragments * (16 + 4 * packing::TOGETHER_MAX) + pages
    }

    /// Records that are not on the flash yet, with their sequence, in order.
    pub(crate) fn pending_records(&self) -> &[(u64, Record)] {
        self.journal.pending()
    }

    /// Records that a page of the journal holds.
    pub(crate) fn records_per_page(&self) -> usize {
        self.journal.records_per_page()
    }
}
