//! Garbage collection: live pages move out of a victim, then it is erased.
//! Room: onefold-flash.
//! Invariants: copies of data stay in the victim's plane, so that the plane's order of operations
//! is enough to keep the erase behind them; a block is erased only when the journal holds every
//! record that made a page of it dead.

use crate::dedup::Policy;
use crate::ftl::blocks::BlockState;
use crate::ftl::map::{OWNERS_PER_LINE, Owner, Place};
use crate::ftl::settings::{Pacing, VictimRule};
use crate::ftl::{Ftl, FtlError, Stream, victim};
use crate::nand::{Nand, NandError, PageKey};
use crate::op::{Cause, Driver, FlashOp, OpKind};

/// A victim being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    block: u32,
    next: u32,
    /// Live pages to move with each host page.
    quota: u32,
    cause: Cause,
    /// The page up to which what a move changes has been asked for.
    ahead: u32,
    /// Live pages between `next` and `ahead`, but for those that died since.
    asked: u32,
}

/// Most live pages that are asked for ahead of being moved.
const AHEAD_MAX: u32 = 8;

/// Live pages of a block out of the ordinary that are moved with each host page.
const QUOTA: u32 = 8;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Free blocks of a plane below which a victim is finished at once: one for the host's next
    /// block, one for the copies, and one for the FTL's own pages if there are any.
    pub(super) fn floor(&self) -> u32 {
        2 + u32::from(self.meta.on)
    }

    /// Sees to it that a host page can be programmed in this plane.
    #[inline]
    pub(super) fn make_room(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.collecting[plane as usize].is_none()
            && self.blocks.free_of(plane) > self.settings.gc_reserve_blocks
            && self.blocks.condemned_of(plane).is_none()
        {
            return Ok(());
        }
        self.collect_some(plane, d)
    }

    fn collect_some(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.collecting[plane as usize].is_none() {
            self.begin_collection(plane, false);
        }
        let Some(collection) = self.collecting[plane as usize] else { return Ok(()) };
        let whole = self.settings.pacing == Pacing::WholeBlock;
        self.collect(plane, if whole { u32::MAX } else { collection.quota }, d)?;
        self.collect_to_floor(plane, d)
    }

    fn collect_to_floor(&mut self, plane: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        // A victim frees at least one page, so that a block's worth of them free a block.
        let mut left = self.geometry.pages_per_block + self.geometry.blocks_per_plane;
        while self.blocks.free_of(plane) < self.floor() && left > 0 {
            left -= 1;
            if self.collecting[plane as usize].is_none() {
                self.begin_collection(plane, self.meta.on);
            }
            if self.collecting[plane as usize].is_none() {
                break;
            }
            self.collect(plane, u32::MAX, d)?;
        }
        Ok(())
    }

    /// Sees to it that the FTL's own pages find space in every plane that they may go to.
    #[inline]
    pub(super) fn make_meta_room(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let space = self.meta.open.is_some_and(|open| {
            let pages = self.geometry.pages_per_block;
            pages - self.blocks.written(open) > (2 * self.meta.slots.states + 4).min(pages / 4)
        });
        if space { Ok(()) } else { self.make_room_everywhere(d) }
    }

    pub(super) fn make_room_everywhere(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        for plane in 0..self.geometry.planes() {
            self.collect_to_floor(plane, d)?;
        }
        Ok(())
    }

    /// Collects in an idle moment; `false` when the plane has enough free blocks.
    ///
    /// # Errors
    /// [`FtlError::Nand`].
    pub fn collect_idle(&mut self, plane: u32, d: &mut impl Driver) -> Result<bool, FtlError> {
        let enough = self.settings.gc_idle_blocks.max(self.settings.gc_reserve_blocks + 1);
        if self.collecting[plane as usize].is_none() && self.blocks.free_of(plane) < enough {
            self.begin_collection(plane, false);
        }
        if self.collecting[plane as usize].is_none() {
            return Ok(false);
        }
        self.collect(plane, 1, d)?;
        self.keep_waiting_safe(d)?;
        Ok(true)
    }

    /// Chooses the next victim. In an `urgent` case it is the one that frees most: moving pages may
    /// cost mapping pages, whose dead predecessors other rules would come to late.
    fn begin_collection(&mut self, plane: u32, urgent: bool) {
        if let Some(block) = self.blocks.condemned_of(plane) {
            self.set_victim(plane, block, QUOTA * self.subpages(), Cause::Gc);
            return;
        }
        let choice = victim::Choice {
            rule: if urgent { VictimRule::Greedy } else { self.settings.victim },
            plane,
            seq: self.seq,
            hot: self.hot_blocks.map(|target| self.blocks.hot_of(plane) > target),
            full: self.places_per_block(),
        };
        let chosen = victim::choose(&choice, &self.blocks, &self.geometry, &mut self.random);
        let Some(block) = chosen else { return };
        let (live, full) = (self.blocks.live(block), self.places_per_block());
        let kept = self.moved_places(live);
        if kept < full {
            let quota = (live * self.subpages()).div_ceil(full - kept);
            self.set_victim(plane, block, quota, Cause::Gc);
        } else if matches!(choice.rule, VictimRule::Fifo | VictimRule::DChoices(_)) {
            // A turn that frees nothing is still a turn; greedy has none left that would.
            self.set_victim(plane, block, u32::MAX, Cause::Gc);
        }
    }

    fn set_victim(&mut self, plane: u32, block: u32, quota: u32, cause: Cause) {
        if self.blocks.state(block) == BlockState::Full {
            self.blocks.begin_collection(block);
        }
        let mut collection = Collection { block, next: 0, quota, cause, ahead: 0, asked: 0 };
        self.ask_ahead(&mut collection);
        self.collecting[plane as usize] = Some(collection);
    }

    /// Asks for what moving the next live pages will change: as many as one host page moves, so
    /// that it has come by the time of the next one on this plane.
    #[inline]
    fn ask_ahead(&self, collection: &mut Collection) {
        let (first, places) = (self.first_place(collection.block), self.places_per_block());
        if collection.ahead <= collection.next {
            (collection.ahead, collection.asked) = (collection.next, 0);
        }
        let wanted = collection.quota.min(AHEAD_MAX);
        while collection.asked < wanted && collection.ahead < places {
            let ppn = first + collection.ahead;
            if ppn.is_multiple_of(OWNERS_PER_LINE) {
                self.owners.prefetch(ppn + OWNERS_PER_LINE);
            }
            match self.owners.get(ppn) {
                Owner::None => {}
                owner => {
                    if let Owner::Data(lpn) | Owner::Kept(lpn) = owner {
                        self.map.prefetch(lpn);
                    }
                    self.policy.expect_move(ppn);
                    collection.asked += 1;
                }
            }
            collection.ahead += 1;
        }
    }

    /// Moves up to `quota` live pages out of the plane's victim, and erases it if none is left.
    fn collect(&mut self, plane: u32, quota: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let Some(mut collection) = self.collecting[plane as usize] else { return Ok(()) };
        let (first, places) = (self.first_place(collection.block), self.places_per_block());
        let subpages = self.subpages();
        let mut moved = 0;
        while self.blocks.live(collection.block) > 0 && moved < quota {
            if collection.next == places {
                // All that is live waits to be packed, and is out of the block with that.
                self.program_gathered(plane, collection.cause, d)?;
                break;
            }
            let from = first + collection.next;
            let owner = self.owners.get(from);
            let live = if subpages > 1 && self.owners.part(from, subpages).0 < subpages {
                self.gather(from, plane, collection.cause, d)?
            } else if owner == Owner::None {
                0
            } else {
                self.move_page(from, owner, plane, collection.cause, d)?;
                subpages
            };
            moved += live;
            collection.asked = collection.asked.saturating_sub(u32::from(live > 0));
            collection.next += subpages;
            self.ask_ahead(&mut collection);
            self.collecting[plane as usize] = Some(collection);
        }
        if self.blocks.live(collection.block) == 0 {
            // What was on its way and died there.
            self.gathered[plane as usize].clear();
            self.erase_block(collection.block, collection.cause, d)?;
            self.collecting[plane as usize] = None;
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
        if self.blocks.state(block) == BlockState::Condemned {
            self.blocks.retire(block);
            return Ok(());
        }
        if self.waits_for_journal(block) {
            self.store_journal(d)?;
        }
        match self.nand.erase(block) {
            Ok(()) => {
                self.issue(d, OpKind::Erase, cause, self.first_place(block), false);
                self.blocks.erased(block);
            }
            Err(NandError::Failed { .. }) => {
                self.counters.block_failures += 1;
                self.blocks.retire(block);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Static wear levelling: when the block just erased is far more worn than the least worn one
    /// that is full, the data there is cold and moves, so that the block is used again.
    fn level_wear(&mut self, plane: u32, erased: u32) {
        let spread = self.settings.wear_spread;
        if spread == 0 || self.blocks.free_of(plane) <= self.floor() {
            return;
        }
        let Some(rested) = self.blocks.least_worn_full(plane) else { return };
        if self.blocks.erases(erased) > self.blocks.erases(rested) + spread {
            self.set_victim(plane, rested, QUOTA * self.subpages(), Cause::Wear);
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
        let page = self.page_of(from);
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

    /// What was at a place is at another one from now on.
    #[expect(clippy::inline_always, reason = "a call for each page moved costs 3 % of a run")]
    #[inline(always)]
    pub(super) fn moved_out(&mut self, from: u32, to: u32, owner: Owner) {
        let freed = self.owners.clear(from, self.subpages());
        let block = self.block_of(from);
        self.blocks.lose(block, freed);
        match owner {
            Owner::Data(lpn) | Owner::Kept(lpn) => {
                self.set_place(lpn, Place::Own(to));
            }
            Owner::Shared(vpn) => {
                self.shared.relocate(vpn, to);
                self.dirty_virtual(vpn);
                // Who names the virtual page may be known to a pending record only; without it
                // they are found here.
                if !self.meta.journal.pending.is_empty() {
                    self.blocks.need(block, self.meta.journal.last);
                }
            }
            Owner::Meta(_) | Owner::None => {}
        }
    }
}
