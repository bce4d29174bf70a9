//! Every change of what is where: the books, the live pages of blocks and the policy hear of it
//! together.
//! Room: onefold-flash.
//! Invariants: live pages of a block = its places with an owner; a page that dies by a record that
//! is in DRAM alone keeps its block from being erased until that is stored.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::{Owner, Place};
use crate::ftl::stream::Stream;
use crate::nand::{Nand, NandError};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Programs the next page of a stream; a block in which that fails is given up, and the page
    /// goes to another one. The answer is the place at which the page begins.
    pub(super) fn program<T>(
        &mut self,
        plane: u32,
        stream: Stream,
        mut program: impl FnMut(&mut N, u32, u64) -> Result<T, NandError>,
    ) -> Result<(u32, T), FtlError> {
        loop {
            let ppn = self.space.next_page(plane, stream, self.journal.now())?;
            let seq = self.journal.next_seq();
            match program(&mut self.nand, ppn, seq) {
                Ok(answer) => return Ok((self.layout.place_of(ppn), answer)),
                Err(NandError::Failed { block, .. }) => self.give_up(block),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A program in an open block failed.
    pub(super) fn give_up(&mut self, block: u32) {
        self.space.give_up(block);
        self.counters.block_failures += 1;
    }

    /// Puts a logical page elsewhere; the answer is where it was.
    #[inline]
    pub(super) fn set_place(&mut self, lpn: u32, place: Place) -> Place {
        self.books.set(lpn, place, self.journal.now())
    }

    /// A programmed page has an owner now.
    #[inline]
    pub(super) fn settle(&mut self, place: u32, owner: Owner) {
        if self.layout.packs() {
            return self.settle_part(place, owner, self.layout.subpages(), 0);
        }
        self.books.settle(place, owner);
        self.space.gain(place, 1);
    }

    /// What takes `len` sub-pages of a programmed page has an owner now, and the gap behind it.
    #[inline(never)]
    pub(super) fn settle_part(&mut self, place: u32, owner: Owner, len: u32, gap: u32) {
        self.books.settle_part(place, owner, len, gap);
        self.space.gain(place, len + gap);
    }

    /// What is at a place is wanted no more.
    #[inline]
    pub(super) fn drop_page(&mut self, place: u32) {
        let known = !self.books.is_kept(place);
        let freed = self.books.clear(place);
        self.space.lose(place, freed, self.journal.awaited());
        if known {
            self.policy.died(place);
        }
    }

    /// One of the FTL's own pages is wanted no more.
    pub(super) fn drop_own(&mut self, place: u32) {
        let freed = self.books.clear(place);
        self.space.lose(place, freed, None);
    }

    /// A logical page no longer refers to where it was.
    pub(super) fn release(&mut self, old: Place) {
        match old {
            Place::None | Place::Lost => {}
            Place::Own(place) => self.drop_page(place),
            Place::Virtual(vpn) => {
                if let Some(place) = self.books.release(vpn) {
                    self.drop_page(place);
                }
            }
        }
    }

    /// What was at a place is at another one from now on.
    #[expect(clippy::inline_always, reason = "a call for each page moved costs 3 % of a run")]
    #[inline(always)]
    pub(super) fn moved_out(&mut self, from: u32, to: u32, owner: Owner) {
        let freed = self.books.clear(from);
        match owner {
            Owner::Data(lpn) | Owner::Kept(lpn) => {
                self.space.lose(from, freed, None);
                self.set_place(lpn, Place::Own(to));
            }
            Owner::Shared(vpn) => {
                // Who names the virtual page may be known to a pending record only; without it
                // they are found here.
                self.space.lose(from, freed, self.journal.awaited());
                self.books.relocate(vpn, to, self.journal.now());
            }
            Owner::Meta(_) | Owner::None => self.space.lose(from, freed, None),
        }
    }
}
