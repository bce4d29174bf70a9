//! What the host reads, and where it is.
//! Room: onefold-flash.   In: LPN.   Out: content.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::Place;
use crate::nand::{Nand, NandError, fragment_at};
use crate::op::{Cause, Driver, FlashOp, OpKind, Work};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// The content of a place.
    ///
    /// # Errors
    /// [`NandError`].
    #[inline]
    pub fn content(&mut self, place: u32) -> Result<N::Page, NandError> {
        if !self.is_fragment(place) {
            let ppn = self.layout.page_of(place);
            return self.nand.read(ppn);
        }
        self.content_of_fragment(place)
    }

    #[inline(never)]
    fn content_of_fragment(&mut self, place: u32) -> Result<N::Page, NandError> {
        let (ppn, subpage) = (self.layout.page_of(place), place % self.layout.subpages());
        let fragments = self.nand.read_packed(ppn)?;
        match fragment_at(&fragments, subpage) {
            Some(fragment) => self.nand.expand(ppn, fragment),
            None => Err(NandError::Uncorrectable { ppn, retries: 0 }),
        }
    }

    /// Whether a place holds one of the compressed pages of a flash page.
    #[inline]
    pub fn is_fragment(&self, place: u32) -> bool {
        self.books.is_fragment(place)
    }

    /// The place that holds a logical page, which must not be waiting to be packed, and whose
    /// mapping page must be in DRAM (see [`Ftl::load`]).
    pub fn locate(&self, lpn: u32) -> Option<u32> {
        self.books.locate(lpn)
    }

    /// Whether a physical page holds data that is wanted.
    pub fn holds_data(&self, ppn: u32) -> bool {
        self.books.may_be_shared(ppn) || self.is_kept(ppn)
    }

    /// Whether a physical page holds data that is never shared, because the host wants it kept.
    pub fn is_kept(&self, ppn: u32) -> bool {
        self.books.is_kept(ppn)
    }

    /// Whether a logical page was written and not trimmed, even if it was lost since; its mapping
    /// page must be in DRAM.
    pub fn is_written(&self, lpn: u32) -> bool {
        self.books.entry(lpn) != Place::None || self.packing.has(lpn)
    }

    /// Reads a logical page; `None` if nothing was written there.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::Lost`], [`FtlError::Nand`].
    pub fn read(&mut self, lpn: u32, d: &mut impl Driver) -> Result<Option<N::Page>, FtlError> {
        self.read_where(lpn, |_| true, d)
    }

    /// The same, where `senses` says of a flash page whether the flash has to read it: a request
    /// for several codewords has that done once for all that are in one page.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    #[inline]
    pub(crate) fn read_where(
        &mut self,
        lpn: u32,
        senses: impl FnOnce(u32) -> bool,
        d: &mut impl Driver,
    ) -> Result<Option<N::Page>, FtlError> {
        self.check_range(lpn)?;
        d.work(Work::Lookup, true);
        self.counters.host_pages_read += 1;
        if let Some(place) = self.packing.place_of(lpn) {
            self.counters.waiting_reads += 1;
            return Ok(self.packing.page(place).cloned());
        }
        self.touch(lpn, true, d)?;
        let Some(ppn) = self.locate(lpn) else {
            let lost = self.books.entry(lpn) == Place::Lost;
            return if lost { Err(FtlError::Lost { lpn }) } else { Ok(None) };
        };
        let page = self.content(ppn)?;
        if senses(self.layout.page_of(ppn)) {
            self.issue(d, OpKind::Read, Cause::Host, ppn, true);
            self.expanded(ppn, true, d);
        }
        Ok(Some(page))
    }

    pub(super) fn check_range(&self, lpn: u32) -> Result<(), FtlError> {
        let pages = self.books.logical_pages();
        if lpn < pages { Ok(()) } else { Err(FtlError::OutOfRange { lpn, pages }) }
    }

    pub(super) fn issue(
        &mut self,
        d: &mut impl Driver,
        kind: OpKind,
        cause: Cause,
        ppn: u32,
        foreground: bool,
    ) {
        self.issue_page(d, FlashOp { kind, cause, ppn: self.layout.page_of(ppn), foreground });
    }

    #[inline]
    pub(super) fn issue_page(&mut self, d: &mut impl Driver, op: FlashOp) {
        self.counters.ops.add(op.kind, op.cause);
        d.issue(op);
    }

    /// What was read at a place goes through the compression engine, if it is compressed.
    pub(super) fn expanded(&self, place: u32, foreground: bool, d: &mut impl Driver) {
        if self.is_fragment(place) && !self.settings.codewords {
            d.work(Work::Decompress, foreground);
        }
    }
}
