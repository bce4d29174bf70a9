//! How much a drive holds.
//! Room: onefold-flash.
//! Cost: a pass over the reverse map and the virtual table, whatever of the map is in DRAM.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::map::{Owner, Place};
use crate::nand::Nand;

/// Pages in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Logical pages with data that is there.
    pub logical_pages: u64,
    /// Physical pages that hold it, or parts of it.
    pub data_pages: u64,
    /// Sub-pages of them that do.
    pub data_subpages: u64,
    /// Different stored pages: fragments, and pages of their own.
    pub contents: u64,
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Counts the pages in use.
    pub fn stored(&self) -> Stored {
        let mut stored = Stored::default();
        let subpages = self.layout.subpages();
        for ppn in 0..self.layout.geometry().pages() {
            let mut places = 0;
            for place in ppn * subpages..(ppn + 1) * subpages {
                match self.books.owner(place) {
                    Owner::Data(_) | Owner::Kept(_) => stored.logical_pages += 1,
                    Owner::Shared(_) => {}
                    Owner::None | Owner::Meta(_) => continue,
                }
                places += self.books.part(place).0;
                stored.contents += 1;
            }
            stored.data_pages += u64::from(places > 0);
            stored.data_subpages += u64::from(places);
        }
        // What waits to be packed and was never written before.
        let new = |lpn: &u32| self.books.entry(*lpn) == Place::None;
        stored.logical_pages += self.packing.lpns().filter(new).count() as u64;
        let shared = self.books.shared();
        for vpn in (0..shared.len()).filter(|&vpn| shared.references(vpn) > 0) {
            // An alias in use is one of the references of what it stands for.
            let alias = u64::from(shared.alias_of(vpn).is_some());
            stored.logical_pages += u64::from(shared.references(vpn)) - alias;
        }
        stored
    }
}
