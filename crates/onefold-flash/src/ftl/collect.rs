//! Garbage collection: live pages move out of a victim, then it is erased.
//! Room: onefold-flash.
//! Invariants: copies stay in the victim's plane, so that the plane's order of operations is
//! enough to keep the erase behind them.

use crate::dedup::Policy;
use crate::ftl::map::{Owner, Place};
use crate::ftl::settings::Pacing;
use crate::ftl::{Ftl, FtlError, Stream, victim};
use crate::nand::{Nand, PageKey};
use crate::op::{Cause, Driver, OpKind};

/// A victim being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    block: u32,
    next: u32,
    /// Live pages to move with each host page.
    quota: u32,
    cause: Cause,
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Sees to it that a host page can be programmed in this plane.
    pub(super) fn make_room(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let reserve = self.settings.gc_reserve_blocks;
        if self.collecting[plane as usize].is_none() && self.blocks.free_of(plane) <= reserve {
            self.begin_collection(plane);
        }
        let Some(collection) = self.collecting[plane as usize] else { return Ok(()) };
        let whole = self.settings.pacing == Pacing::WholeBlock;
        self.collect(plane, if whole { u32::MAX } else { collection.quota }, d)?;
        // Short of the last two blocks the victim is finished at once: one is for the host's next
        // block and one for the copies.
        while self.blocks.free_of(plane) < 2 && self.collecting[plane as usize].is_some() {
            self.collect(plane, u32::MAX, d)?;
            if self.blocks.free_of(plane) < 2 {
                self.begin_collection(plane);
            }
        }
        Ok(())
    }

    /// Collects in an idle moment; `false` when the plane has enough free blocks.
    ///
    /// # Errors
    /// [`FtlError::Nand`].
    pub fn collect_idle(&mut self, plane: u32, d: &mut impl Driver) -> Result<bool, FtlError> {
        let enough = self.settings.gc_reserve_blocks + 1;
        if self.collecting[plane as usize].is_none() && self.blocks.free_of(plane) < enough {
            self.begin_collection(plane);
        }
        if self.collecting[plane as usize].is_none() {
            return Ok(false);
        }
        self.collect(plane, 1, d)?;
        Ok(true)
    }

    fn begin_collection(&mut self, plane: u32) {
        let rule = self.settings.victim;
        let chosen =
            victim::choose(rule, &self.blocks, &self.geometry, plane, self.seq, &mut self.random);
        let Some(block) = chosen else { return };
        let (live, pages) = (self.blocks.live(block), self.geometry.pages_per_block);
        if live == pages {
            return;
        }
        self.blocks.begin_collection(block);
        let quota = live.div_ceil(pages - live);
        self.collecting[plane as usize] =
            Some(Collection { block, next: 0, quota, cause: Cause::Gc });
    }

    /// Moves up to `quota` live pages out of the plane's victim, and erases it if none is left.
    fn collect(&mut self, plane: u32, quota: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let Some(mut collection) = self.collecting[plane as usize] else { return Ok(()) };
        let first = self.geometry.first_page(collection.block);
        let mut moved = 0;
        while self.blocks.live(collection.block) > 0 && moved < quota {
            let from = first + collection.next;
            collection.next += 1;
            if self.owners.is_live(from) {
                self.move_page(from, plane, collection.cause, d)?;
                moved += 1;
            }
        }
        if self.blocks.live(collection.block) > 0 {
            self.collecting[plane as usize] = Some(collection);
            return Ok(());
        }
        self.collecting[plane as usize] = None;
        self.nand.erase(collection.block)?;
        self.issue(d, OpKind::Erase, collection.cause, first, false);
        self.blocks.erased(collection.block);
        Ok(())
    }

    fn move_page(
        &mut self,
        from: u32,
        plane: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let owner = self.owners.get(from);
        let to = self.next_page(plane, Stream::Moved)?;
        let seq = self.next_seq();
        let key = match owner {
            Owner::Data(lpn) => PageKey::Data(lpn),
            Owner::Shared(vpn) => PageKey::Shared(vpn),
            Owner::Meta(slot) => PageKey::Map(slot),
            Owner::None => unreachable!("only live pages are moved"),
        };
        let tag = self.nand.copy(from, to, key, seq)?;
        self.issue(d, OpKind::Read, cause, from, false);
        self.issue(d, OpKind::Program, cause, to, false);
        self.settle(to, owner);
        match owner {
            Owner::Data(lpn) => {
                self.map.replace(lpn, Place::Own(to));
            }
            Owner::Shared(vpn) => self.shared.relocate(vpn, to),
            Owner::Meta(_) | Owner::None => {}
        }
        self.owners.set(from, Owner::None);
        self.blocks.lose(self.geometry.block_of(from));
        self.policy.moved(from, to, tag);
        Ok(())
    }
}
