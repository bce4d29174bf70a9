//! Entries of the map come into DRAM when they are wanted, and leave it.
//! Room: onefold-flash.   Source: demand-based mapping as in [dftl-09].
//! Invariants: entries of a segment are looked at or changed only while it is in DRAM; a changed
//! segment is stored before it leaves.
//! Cost: a read of a mapping page per miss, a program per changed segment that leaves.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::nand::{Nand, NandError};
use crate::op::{Cause, Driver, OpKind};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Sees to it that the entry of a logical page is in DRAM.
    #[inline]
    pub(super) fn touch(
        &mut self,
        lpn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if self.cache.is_partial() { self.touch_cached(lpn, foreground, d) } else { Ok(()) }
    }

    fn touch_cached(
        &mut self,
        lpn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let segment = self.own.slots().of(lpn);
        if self.cache.hit(segment) {
            self.counters.map_hits += 1;
            return Ok(());
        }
        self.counters.map_misses += 1;
        let mut left = self.cache.evict();
        if let Some(old) = left
            && !self.books.segments().is_clean(old)
        {
            match self.store_segment(old, d) {
                // A worn-out drive can still be read: what cannot be stored stays.
                Err(FtlError::NoSpace { .. }) => left = None,
                stored => stored?,
            }
        }
        if let Some(old) = left {
            self.leave_dram(old);
        }
        match self.own.place(segment) {
            None => self.books.load(segment, &[]),
            Some(place) => self.load_segment(segment, place, foreground, d)?,
        }
        self.cache.admit(segment, left);
        Ok(())
    }

    fn load_segment(
        &mut self,
        segment: u32,
        place: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if N::KEEPS_META {
            match self.nand.read_meta(self.layout.page_of(place)) {
                Ok(bytes) => self.books.load(segment, &bytes),
                Err(NandError::Uncorrectable { .. }) => {
                    self.books.lose_all_but_owned(segment);
                    self.books.segments_mut().change(segment, self.journal.now());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.issue(d, OpKind::Read, Cause::Map, place, foreground);
        Ok(())
    }

    /// After recovery, when the whole map is in DRAM: what does not fit is stored if it changed,
    /// and leaves.
    pub(super) fn shrink_cache(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if !self.cache.is_partial() {
            return Ok(());
        }
        for segment in 0..self.own.slots().logical {
            if self.books.segments().is_clean(segment) {
                self.leave_dram(segment);
            } else {
                self.cache.admit(segment, None);
            }
        }
        while let Some(segment) = self.cache.last_too_many() {
            match self.shrink_by(segment, d) {
                // A worn-out drive can still be read: what cannot be stored stays.
                Err(FtlError::NoSpace { .. }) => break,
                shrunk => shrunk?,
            }
        }
        Ok(())
    }

    fn shrink_by(&mut self, segment: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.make_meta_room(d)?;
        if !self.books.segments().is_clean(segment) {
            self.store_segment(segment, d)?;
        }
        self.cache.drop_last();
        self.leave_dram(segment);
        Ok(())
    }

    /// From here on the entries of a segment are in flash only; of an array that does not remember
    /// them, they stay where they are, as nothing would bring them back.
    fn leave_dram(&mut self, segment: u32) {
        if N::KEEPS_META {
            self.books.forget(segment);
        }
    }

    /// Brings the entry of a logical page into DRAM, so that [`Ftl::locate`] may be asked.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::Nand`].
    pub fn load(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.check_range(lpn)?;
        self.touch(lpn, true, d)
    }
}
