//! The invariants of the FTL, checked the slow and obvious way.
//! Room: onefold-flash.
//! Cost: a pass over all tables; for tests and for `strict` runs.

use std::collections::BTreeMap;

use crate::dedup::Policy;
use crate::ftl::map::{Owner, Place};
use crate::ftl::{Counters, Ftl};
use crate::nand::Nand;
use crate::op::{Cause, OpKind};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Checks every invariant.
    ///
    /// # Panics
    /// With the first one that does not hold.
    pub fn check_invariants(&self) {
        let mut references: BTreeMap<u32, u32> = BTreeMap::new();
        let entries = self.meta.slots.entries;
        let in_dram = |lpn: &u32| self.cache.holds(*lpn / entries);
        for lpn in (0..self.map.len()).filter(in_dram) {
            match self.map.get(lpn) {
                Place::None | Place::Lost => {}
                Place::Own(ppn) => {
                    let owner = self.owners.get(ppn);
                    let right = [Owner::Data(lpn), Owner::Kept(lpn)].contains(&owner);
                    assert!(right, "page {ppn} of LPN {lpn} belongs to {owner:?}");
                }
                Place::Virtual(vpn) => *references.entry(vpn).or_default() += 1,
            }
        }
        for vpn in (0..self.shared.len()).filter(|&vpn| self.shared.references(vpn) > 0) {
            if let Some(of) = self.shared.alias_of(vpn) {
                *references.entry(of).or_default() += 1;
            }
        }
        for (&vpn, &count) in &references {
            let counted = self.shared.references(vpn);
            let all_known = !self.cache.is_partial();
            assert!(counted == count || (!all_known && counted > count), "references of {vpn}");
            let ppn = self.shared.ppn(vpn);
            let owner = Owner::Shared(self.shared.resolve(vpn));
            assert_eq!(self.owners.get(ppn), owner, "owner of shared page {ppn}");
        }
        if !self.cache.is_partial() {
            assert_eq!(self.shared.live() as usize, references.len(), "virtual pages in use");
        }
        let mut live_total = 0;
        for block in 0..self.geometry.blocks() {
            let first = self.first_place(block);
            let live: u32 = (first..first + self.places_per_block())
                .filter(|&ppn| self.owners.is_live(ppn))
                .inspect(|&ppn| self.check_owner(ppn))
                .map(|ppn| {
                    let (len, gap) = self.owners.part(ppn, self.subpages());
                    len + gap
                })
                .sum();
            assert_eq!(live, self.blocks.live(block), "live pages of block {block}");
            live_total += live;
        }
        let planes = 0..self.geometry.planes();
        let by_plane: u32 = planes.map(|plane| self.blocks.live_of_plane(plane)).sum();
        assert_eq!(live_total, by_plane, "live pages by plane");
        let Counters { host_pages_written, inline_pages, fragments, packed_host_pages, .. } =
            self.counters;
        let whole = self.counters.ops.of(OpKind::Program, Cause::Host) - packed_host_pages;
        let stored = whole + fragments;
        assert_eq!(host_pages_written, stored + inline_pages, "host pages are stored or shared");
        self.check_packing();
    }

    /// What waits to be packed is in the books of the buffer once, and fits.
    fn check_packing(&self) {
        let mut lpns: Vec<u32> = Vec::new();
        for (who, fragment) in self.packing.fragments() {
            assert!(!who.is_empty() && fragment.subpages < self.subpages());
            lpns.extend(who);
        }
        lpns.sort_unstable();
        assert!(self.packing.lpns().eq(lpns), "logical pages that wait");
        assert!(self.packing.bins_fit(), "what waits fits into its flash pages");
    }

    fn check_owner(&self, ppn: u32) {
        match self.owners.get(ppn) {
            Owner::Data(lpn) | Owner::Kept(lpn)
                if self.cache.holds(lpn / self.meta.slots.entries) =>
            {
                assert_eq!(self.map.get(lpn), Place::Own(ppn), "LPN {lpn}");
            }
            Owner::Shared(vpn) => assert_eq!(self.shared.ppn(vpn), ppn, "virtual page {vpn}"),
            Owner::Meta(slot) => assert_eq!(self.meta.place[slot as usize], ppn, "slot {slot}"),
            Owner::Data(_) | Owner::Kept(_) | Owner::None => {}
        }
    }
}
