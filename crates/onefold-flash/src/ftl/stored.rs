//! How much a drive holds.
//! Room: onefold-flash.
//! Cost: a pass over the reverse map and the virtual table, whatever of the map is in DRAM.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::map::Owner;
use crate::nand::Nand;

/// Pages in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Logical pages with data that is there.
    pub logical_pages: u64,
    /// Physical pages that hold it.
    pub data_pages: u64,
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Counts the pages in use.
    pub fn stored(&self) -> Stored {
        let mut stored = Stored::default();
        for ppn in 0..self.geometry.pages() {
            match self.owners.get(ppn) {
                Owner::Data(_) | Owner::Kept(_) => {
                    stored.data_pages += 1;
                    stored.logical_pages += 1;
                }
                Owner::Shared(_) => stored.data_pages += 1,
                Owner::None | Owner::Meta(_) => {}
            }
        }
        for vpn in (0..self.shared.len()).filter(|&vpn| self.shared.references(vpn) > 0) {
            // An alias in use is one of the references of what it stands for.
            let alias = u64::from(self.shared.alias_of(vpn).is_some());
            stored.logical_pages += u64::from(self.shared.references(vpn)) - alias;
        }
        stored
    }
}
