//! The FTL's own pages go to the flash: mapping, journal, block states and root.
//! Room: onefold-flash.
//! Invariants: a block holds pages of the FTL or data, never both, so that recovery finds the
//! former by the first page of a block; a slot's old page dies when its new one is programmed.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::Record;
use crate::ftl::map::Owner;
use crate::nand::{Nand, NandError, Oob, Payload};
use crate::op::{Cause, Driver, OpKind};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Notes a change that no page's out-of-band area says, before it is made. The caller lets
    /// [`Ftl::settle_journal`] store a full page of them afterwards.
    pub(super) fn log(&mut self, record: Record) {
        if !self.journal.log(record) {
            self.books.synced();
        }
    }

    /// Stores the pending records if they fill a page.
    pub(super) fn settle_journal(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.journal.is_page_full() { self.store_journal(d) } else { Ok(()) }
    }

    /// Stores the pending records.
    pub(super) fn store_journal(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.journal.pending().is_empty() {
            self.books.synced();
            return Ok(());
        }
        let (bytes, last_seq) = self.journal.page();
        let repeated = self.journal.repeated();
        let slot = repeated.or_else(|| self.journal.free_slot());
        let slot = slot.unwrap_or_else(|| self.own.add());
        self.program_meta(slot, last_seq, &bytes, d)?;
        self.journal.stored(slot);
        self.books.synced();
        if repeated.is_none() {
            self.rounds.hurry();
        }
        Ok(())
    }

    /// Programs one of the FTL's own pages; the one that was there before is dead then.
    pub(super) fn program_meta(
        &mut self,
        slot: u32,
        seed: u64,
        bytes: &[u8],
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let place = loop {
            let place = match self.next_own_place(d) {
                Err(FtlError::NoSpace { .. }) if self.space.is_emergency() => {
                    self.space.any_place(self.journal.now())?
                }
                place => place?,
            };
            let key = self.own.slots().key(slot);
            let oob = Oob { key, seq: self.journal.next_seq(), seed, tag: 0 };
            match self.nand.program(self.layout.page_of(place), Payload::Meta(bytes), &oob) {
                Ok(()) => break place,
                Err(NandError::Failed { block, .. }) => self.give_up(block),
                Err(error) => return Err(error.into()),
            }
        };
        self.issue(d, OpKind::Program, Cause::Map, place, false);
        self.space.own_programmed(place);
        self.settle(place, Owner::Meta(slot));
        if let Some(old) = self.own.put(slot, place) {
            self.drop_own(old);
        }
        Ok(())
    }

    /// Puts one of the FTL's own pages elsewhere, as it is.
    pub(super) fn move_meta(&mut self, slot: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let from = self.own.place(slot).expect("a page that is moved is somewhere");
        self.issue(d, OpKind::Read, Cause::Map, from, false);
        if !N::KEEPS_META {
            return self.program_meta(slot, 0, &[], d);
        }
        let page = self.layout.page_of(from);
        let bytes = match self.nand.read_meta(page) {
            // The entries are in DRAM, or they are lost.
            Err(NandError::Uncorrectable { .. }) if slot < self.own.slots().segments => {
                return self.restore_segment(slot, d);
            }
            bytes => bytes?,
        };
        let seed = self.nand.read_oob(page)?.seed;
        self.program_meta(slot, seed, &bytes, d)
    }

    /// Stores a segment whose mapping page cannot be read any more.
    fn restore_segment(&mut self, segment: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let in_dram = !self.own.slots().is_of_map(segment) || self.cache.holds(segment);
        if in_dram {
            return self.store_segment(segment, d);
        }
        self.books.lose_all_but_owned(segment);
        self.store_segment(segment, d)?;
        self.books.forget(segment);
        Ok(())
    }

    fn next_own_place(&mut self, d: &mut impl Driver) -> Result<u32, FtlError> {
        if let Some(place) = self.space.next_own_place() {
            return Ok(place);
        }
        // In the middle of anything, a block without live pages may be erased.
        let journal = &self.journal;
        if let Some(block) = self.space.dead_block_in_need(|seq| journal.is_durable(seq)) {
            self.erase_block(block, Cause::Map, d)?;
        }
        let block = self.space.open_own(self.journal.now())?;
        Ok(self.space.append(block))
    }
}
