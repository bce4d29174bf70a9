//! Garbage collection: live pages move out of a victim, then it is erased.
//! Room: onefold-flash.
//! Invariants: copies of data stay in the victim's plane, so that the plane's order of operations
//! is enough to keep the erase behind them; a block is erased only when the journal holds every
//! record that made a page of it dead.

use crate::dedup::Policy;
use crate::ftl::blocks::BlockState;
use crate::ftl::error::FtlError;
use crate::ftl::map::Owner;
use crate::ftl::settings::{Pacing, VictimRule};
use crate::ftl::stream::Stream;
use crate::ftl::victims::Collection;
use crate::ftl::{Ftl, victim};
use crate::nand::{Nand, NandError, PageKey};
use crate::op::{Cause, Driver, FlashOp, OpKind};

/// Live pages of a block out of the ordinary that are moved with each host page.
const QUOTA: u32 = 8;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Sees to it that a host page can be programmed in this plane.
    #[inline]
    pub(super) fn make_room(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        if !self.victims.has(plane) && self.space.is_at_ease(plane) {
            return Ok(());
        }
        self.collect_some(plane, d)
    }

    fn collect_some(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        if !self.victims.has(plane) {
            self.begin_collection(plane, false);
        }
        let Some(collection) = self.victims.of(plane) else { return Ok(()) };
        let whole = self.settings.pacing == Pacing::WholeBlock;
        self.collect(plane, if whole { u32::MAX } else { collection.quota }, d)?;
        self.collect_to_floor(plane, d)
    }

    fn collect_to_floor(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        // A victim frees at least one page, so that a block's worth of them free a block.
        let geometry = self.layout.geometry();
        let mut left = geometry.pages_per_block + geometry.blocks_per_plane;
        while self.space.is_below_floor(plane) && left > 0 {
            left -= 1;
            if !self.victims.has(plane) {
                self.begin_collection(plane, self.own.is_on());
            }
            if !self.victims.has(plane) {
                break;
            }
            self.collect(plane, u32::MAX, d)?;
        }
        Ok(())
    }

    /// Sees to it that the FTL's own pages find space in every plane that they may go to.
    #[inline]
    pub(super) fn make_meta_room(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let space = self.space.has_own_pages(2 * self.own.slots().states + 4);
        if space { Ok(()) } else { self.make_room_everywhere(d) }
    }

    pub(super) fn make_room_everywhere(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        for plane in 0..self.layout.geometry().planes() {
            self.collect_to_floor(plane, d)?;
        }
        Ok(())
    }

    /// Collects in an idle moment; `false` when the plane has enough free blocks.
    ///
    /// # Errors
    /// [`FtlError::Nand`].
    pub fn collect_idle(&mut self, plane: u32, d: &mut impl Driver) -> Result<bool, FtlError> {
        if !self.victims.has(plane) && self.space.is_below_idle(plane) {
            self.begin_collection(plane, false);
        }
        if !self.victims.has(plane) {
            return Ok(false);
        }
        self.collect(plane, 1, d)?;
        self.keep_waiting_safe(d)?;
        Ok(true)
    }

    /// Chooses the next victim. In an `urgent` case it is the one that frees most: moving pages may
    /// cost mapping pages, whose dead predecessors other rules would come to late.
    fn begin_collection(&mut self, plane: u32, urgent: bool) {
        if let Some(block) = self.space.blocks().condemned_of(plane) {
            self.set_victim(plane, block, QUOTA * self.layout.subpages(), Cause::Gc);
            return;
        }
        let choice = victim::Choice {
            rule: if urgent { VictimRule::Greedy } else { self.settings.victim },
            plane,
            seq: self.journal.now(),
            hot: self.space.hot_pool_is_due(plane),
            full: self.layout.places_per_block(),
        };
        let (blocks, geometry) = (self.space.blocks(), self.layout.geometry());
        let chosen = victim::choose(&choice, blocks, geometry, self.victims.random());
        let Some(block) = chosen else { return };
        let (live, full) = (self.space.blocks().live(block), self.layout.places_per_block());
        let kept = self.layout.moved_places(live);
        if kept < full {
            let quota = (live * self.layout.subpages()).div_ceil(full - kept);
            self.set_victim(plane, block, quota, Cause::Gc);
        } else if matches!(choice.rule, VictimRule::Fifo | VictimRule::DChoices(_)) {
            // A turn that frees nothing is still a turn; greedy has none left that would.
            self.set_victim(plane, block, u32::MAX, Cause::Gc);
        }
    }

    fn set_victim(&mut self, plane: u32, block: u32, quota: u32, cause: Cause) {
        self.space.begin_collection(block);
        let mut collection = Collection::new(block, quota, cause);
        self.ask_ahead(&mut collection);
        self.victims.set(plane, collection);
    }

    /// Asks for what moving the victim's next live pages will change.
    #[inline]
    fn ask_ahead(&self, collection: &mut Collection) {
        let first = self.layout.first_place(collection.block);
        collection.ask_ahead(self.layout.places_per_block(), |at| {
            let place = first + at;
            self.books.prefetch_behind(place);
            let owner = self.books.owner(place);
            if owner == Owner::None {
                return false;
            }
            if let Owner::Data(lpn) | Owner::Kept(lpn) = owner {
                self.books.prefetch(lpn);
            }
            self.nand.expect_copy(self.layout.page_of(place));
            self.policy.expect_move(place);
            true
        });
    }

    /// Moves up to `quota` live pages out of the plane's victim, and erases it if none is left.
    fn collect(&mut self, plane: u32, quota: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let Some(mut collection) = self.victims.of(plane) else { return Ok(()) };
        let (first, places) =
            (self.layout.first_place(collection.block), self.layout.places_per_block());
        let subpages = self.layout.subpages();
        let mut moved = 0;
        while self.space.blocks().live(collection.block) > 0 && moved < quota {
            if collection.next() == places {
                // All that is live waits to be packed, and is out of the block with that.
                self.program_gathered(plane, collection.cause, d)?;
                break;
            }
            let from = first + collection.next();
            let owner = self.books.owner(from);
            let live = if self.books.is_fragment(from) {
                self.gather(from, plane, collection.cause, d)?
            } else if owner == Owner::None {
                0
            } else {
                self.move_page(from, owner, plane, collection.cause, d)?;
                subpages
            };
            moved += live;
            collection.advance(subpages, live > 0);
            self.ask_ahead(&mut collection);
            self.victims.set(plane, collection);
        }
        if self.space.blocks().live(collection.block) == 0 {
            // What was on its way and died there.
            self.gathered[plane as usize].clear();
            self.erase_block(collection.block, collection.cause, d)?;
            self.victims.done(plane);
            self.level_wear(plane, collection.block);
        }
        Ok(())
    }

    /// Erases a block without live pages, or takes it out of use.
    pub(super) fn erase_block(
        &mut self,
        block: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if self.space.blocks().state(block) == BlockState::Condemned {
            self.space.retire(block);
            return Ok(());
        }
        if !self.journal.is_durable(self.space.blocks().needs(block)) {
            self.store_journal(d)?;
        }
        match self.nand.erase(block) {
            Ok(()) => {
                self.issue(d, OpKind::Erase, cause, self.layout.first_place(block), false);
                self.space.erased(block);
            }
            Err(NandError::Failed { .. }) => {
                self.counters.block_failures += 1;
                self.space.retire(block);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Static wear levelling: when the block just erased is far more worn than the least worn one
    /// that is full, the data there is cold and moves, so that the block is used again.
    fn level_wear(&mut self, plane: u32, erased: u32) {
        let spread = self.settings.wear_spread;
        let blocks = self.space.blocks();
        if spread == 0 || blocks.free_of(plane) <= self.space.floor() {
            return;
        }
        let Some(rested) = blocks.least_worn_full(plane) else { return };
        if blocks.erases(erased) > blocks.erases(rested) + spread {
            self.set_victim(plane, rested, QUOTA * self.layout.subpages(), Cause::Wear);
        }
    }

    fn move_page(
        &mut self,
        from: u32,
        owner: Owner,
        plane: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let (key, hot) = match owner {
            Owner::Data(lpn) => {
                self.touch(lpn, false, d)?;
                (PageKey::Data(lpn), self.is_hot(lpn))
            }
            Owner::Kept(lpn) => {
                self.touch(lpn, false, d)?;
                (PageKey::Kept(lpn), self.is_hot(lpn))
            }
            Owner::Shared(vpn) => (PageKey::Shared(vpn), false),
            Owner::Meta(slot) => return self.move_meta(slot, d),
            Owner::None => unreachable!("only live pages are moved"),
        };
        let stream = match cause {
            Cause::Wear => Stream::Levelled,
            _ if hot => Stream::MovedHot,
            _ => Stream::Moved,
        };
        let page = self.layout.page_of(from);
        let (to, tag) =
            self.program(plane, stream, |nand, to, seq| nand.copy(page, to, key, seq))?;
        let read = FlashOp { kind: OpKind::Read, cause, ppn: page, foreground: false };
        self.issue_page(d, read);
        self.issue(d, OpKind::Program, cause, to, false);
        self.settle(to, owner);
        self.moved_out(from, to, owner);
        if !matches!(owner, Owner::Kept(_)) {
            self.policy.moved(from, to, tag);
        }
        Ok(())
    }
}
