//! What is promised: flushes, and what power-loss protection does when the power goes.
//! Room: onefold-flash.
//! Invariants: nothing waits to be packed for which there would be no page if the power went now,
//! where that is to survive.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::nand::Nand;
use crate::op::Driver;

/// Flash pages that the journal may need beside what waits to be packed, when the power goes.
const RESCUED_RECORDS: u32 = 2;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Makes durable everything that was acknowledged.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn flush(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.counters.flushes += 1;
        self.program_packing(d)?;
        if self.journal.is_on() && !self.journal.is_protected() {
            self.make_room_everywhere(d)?;
            self.store_journal(d)?;
        }
        self.nand.sync()?;
        Ok(())
    }

    /// Programs what waits to be packed, unless that survives a power cut where it is.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn program_packing(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.waiting_survives(0) { Ok(()) } else { self.program_waiting(d) }
    }

    /// Whether what waits to be packed, and so many flash pages more, would find a place if the
    /// power went now: a drive that has no blocks left could not keep the promise.
    pub(super) fn waiting_survives(&self, more: u32) -> bool {
        let needed = self.packing.flash_pages() + more + RESCUED_RECORDS;
        self.settings.packing_survives
            && self.space.may_write()
            && self.space.rescue_pages() >= needed
    }

    /// After something in which blocks may have failed: what waits is programmed while there still
    /// is a place for it. Where there is none any more, power-loss protection tries again.
    pub(super) fn keep_waiting_safe(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.packing.is_empty() || !self.settings.packing_survives || self.waiting_survives(0) {
            return Ok(());
        }
        match self.program_waiting(d) {
            Err(FtlError::NoSpace { .. }) => Ok(()),
            programmed => programmed,
        }
    }

    /// What power-loss protection does with the energy of its capacitor: stores what is pending.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn power_loss(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.space.set_emergency(true);
        let mut stored = Ok(());
        if !self.packing.is_empty() {
            stored = self.program_waiting(d);
        }
        if self.journal.is_protected() {
            stored = stored.and(self.store_journal(d));
        }
        self.space.set_emergency(false);
        stored?;
        self.nand.sync()?;
        Ok(())
    }
}
