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
        let in_dram = |lpn: &u32| self.is_in_dram(*lpn);
        for lpn in (0..self.books.logical_pages()).filter(in_dram) {
            match self.books.entry(lpn) {
                Place::None | Place::Lost => {}
                Place::Own(ppn) => {
                    let owner = self.books.owner(ppn);
                    let right = [Owner::Data(lpn), Owner::Kept(lpn)].contains(&owner);
                    assert!(right, "page {ppn} of LPN {lpn} belongs to {owner:?}");
                }
                Place::Virtual(vpn) => *references.entry(vpn).or_default() += 1,
            }
        }
        let shared = self.books.shared();
        for vpn in (0..shared.len()).filter(|&vpn| shared.references(vpn) > 0) {
            if let Some(of) = shared.alias_of(vpn) {
                *references.entry(of).or_default() += 1;
            }
        }
        for (&vpn, &count) in &references {
            let counted = shared.references(vpn);
            let all_known = !self.cache.is_partial();
            assert!(counted == count || (!all_known && counted > count), "references of {vpn}");
            let ppn = shared.ppn(vpn);
            let owner = Owner::Shared(shared.resolve(vpn));
            assert_eq!(self.books.owner(ppn), owner, "owner of shared page {ppn}");
        }
        if !self.cache.is_partial() {
            assert_eq!(shared.live() as usize, references.len(), "virtual pages in use");
        }
        let (mut live_total, blocks, geometry) = (0, self.space.blocks(), self.layout.geometry());
        for block in 0..geometry.blocks() {
            let first = self.layout.first_place(block);
            let live: u32 = (first..first + self.layout.places_per_block())
                .filter(|&ppn| self.books.is_live(ppn))
                .inspect(|&ppn| self.check_owner(ppn))
                .map(|ppn| {
                    let (len, gap) = self.books.part(ppn);
                    len + gap
                })
                .sum();
            assert_eq!(live, blocks.live(block), "live pages of block {block}");
            live_total += live;
        }
        let planes = 0..geometry.planes();
        let by_plane: u32 = planes.map(|plane| blocks.live_of_plane(plane)).sum();
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
            assert!(!who.is_empty() && fragment.subpages < self.layout.subpages());
            lpns.extend(who);
        }
        lpns.sort_unstable();
        assert!(self.packing.lpns().eq(lpns), "logical pages that wait");
        assert!(self.packing.bins_fit(), "what waits fits into its flash pages");
    }

    fn is_in_dram(&self, lpn: u32) -> bool {
        self.cache.holds(self.own.slots().of(lpn))
    }

    fn check_owner(&self, ppn: u32) {
        match self.books.owner(ppn) {
            Owner::Data(lpn) | Owner::Kept(lpn) if self.is_in_dram(lpn) => {
                assert_eq!(self.books.entry(lpn), Place::Own(ppn), "LPN {lpn}");
            }
            Owner::Shared(vpn) => {
                assert_eq!(self.books.shared().ppn(vpn), ppn, "virtual page {vpn}");
            }
            Owner::Meta(slot) => assert_eq!(self.own.place(slot), Some(ppn), "slot {slot}"),
            Owner::Data(_) | Owner::Kept(_) | Owner::None => {}
        }
    }
}
