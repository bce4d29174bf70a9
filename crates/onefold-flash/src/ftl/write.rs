//! A page from the host: looked at, then shared or programmed.
//! Room: onefold-flash.   In: LPN and content.   Out: NAND calls, `FlashOp`s, a map change.

use crate::dedup::{Policy, Prepared, Verdict, Verified};
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::{Owner, Place};
use crate::ftl::settings::Temperature;
use crate::ftl::stream::Stream;
use crate::ftl::view::view;
use crate::ftl::written::Written;
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Pattern, Payload};
use crate::op::{Cause, Driver, OpKind, Work};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Writes a logical page.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn write(
        &mut self,
        lpn: u32,
        page: &N::Page,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        self.write_asked(lpn, page, None, d)
    }

    /// The same where the host says whether the page is to be deduplicated: see
    /// [`Prepared::asked`].
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn write_asked(
        &mut self,
        lpn: u32,
        page: &N::Page,
        deduplicate: Option<bool>,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        self.begin_write(lpn, d)?;
        let mut prepared = Prepared::asked(deduplicate);
        while let Some(work) = self.prepare_write(lpn, page, &mut prepared, d) {
            d.work(work, true);
        }
        self.write_prepared(lpn, page, prepared, d)
    }

    /// The first of the three steps of a write, for whoever keeps time between them: the page is
    /// looked up.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`].
    #[inline]
    pub fn begin_write(&self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.check_range(lpn)?;
        self.books.prefetch(lpn);
        d.work(Work::Lookup, true);
        Ok(())
    }

    /// The second step, repeated: the next piece of work that the policy needs before it can
    /// decide. It is for the caller to have it done, and to call again when it is.
    #[inline]
    pub fn prepare_write(
        &mut self,
        lpn: u32,
        page: &N::Page,
        prepared: &mut Prepared,
        d: &mut impl Driver,
    ) -> Option<Work> {
        if self.layout.packs() && !prepared.compressed && !self.settings.codewords {
            prepared.compressed = true;
            return Some(Work::Compress);
        }
        if prepared.keeps() {
            return None;
        }
        let mut view = view!(self, d, true);
        self.policy.prepare(lpn, page, prepared, &mut view)
    }

    /// The third step: the policy decides, and the page is shared or programmed.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn write_prepared(
        &mut self,
        lpn: u32,
        page: &N::Page,
        prepared: Prepared,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        self.check_range(lpn)?;
        let written = self.decide(lpn, page, prepared, d)?;
        self.counters.host_pages_written += 1;
        Ok(written)
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &N::Page,
        prepared: Prepared,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        if self.own.is_on() {
            self.tend(lpn, d)?;
        }
        let request = prepared.request;
        if prepared.keeps() {
            return self.store(lpn, page, Owner::Kept(lpn), (0, false), request, d);
        }
        let mut view = view!(self, d, true);
        let (tag, apart) = match self.policy.decide(lpn, page, prepared, &mut view) {
            Verdict::Program { tag, apart } => (tag, apart),
            Verdict::Verify { tag, candidate, apart } if self.is_waiting(candidate) => {
                if self.equals_waiting(candidate, page, d) {
                    return self.share_waiting(lpn, candidate, d);
                }
                (tag, apart)
            }
            Verdict::Share { same, .. } if self.is_waiting(same.ppn()) => {
                return self.share_waiting(lpn, same.ppn(), d);
            }
            Verdict::Verify { tag, candidate, apart } => match self.verify(candidate, page, d)? {
                Some(verified) => return self.share_written(lpn, verified.ppn(), d),
                None => (tag, apart),
            },
            Verdict::Share { same, .. } if self.books.may_be_shared(same.ppn()) => {
                return self.share_written(lpn, Verified::by_digest(same).ppn(), d);
            }
            Verdict::Share { tag, .. } => (tag, false),
        };
        self.store(lpn, page, Owner::Data(lpn), (tag, apart), request, d)
    }

    /// Whether something that may be shared waits at a place.
    fn is_waiting(&self, place: u32) -> bool {
        self.layout.packs() && self.packing.is_here(place) && self.packing.may_be_shared(place)
    }

    fn share_waiting(
        &mut self,
        lpn: u32,
        place: u32,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        match self.join_waiting(lpn, place, d)? {
            // It waited for as many as may, and is in the flash now.
            Some(ppn) => self.share_written(lpn, ppn, d),
            None => Ok(Written::SharesWaiting),
        }
    }

    /// A page for which there is nothing to share: it is compressed and waits, or is programmed.
    fn store(
        &mut self,
        lpn: u32,
        page: &N::Page,
        owner: Owner,
        (tag, apart): (u64, bool),
        request: Option<bool>,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        let kept = matches!(owner, Owner::Kept(_));
        let waits = self.layout.packs() && self.may_wait(d)?;
        // A codeword has no whole flash page to go to.
        if (waits || self.settings.codewords)
            && let Some(fragment) = self.nand.compress(lpn, page, request)
        {
            let key = if kept { PageKey::Kept(lpn) } else { PageKey::Data(lpn) };
            let stream = self.stream_of(lpn, apart);
            self.pack(lpn, page, Fragment { key, tag, ..fragment }, stream, d)?;
            if !waits {
                self.program_alone(lpn, d)?;
            }
            return Ok(Written::Waits);
        }
        let ppn = self.program_host(lpn, page, owner, (tag, apart), d)?;
        self.forget_waiting(lpn);
        if !kept {
            self.policy.stored(ppn, tag);
        }
        Ok(Written::Programmed { ppn })
    }

    /// Whether one more page may wait to be packed. Where power-loss protection could not store it
    /// any more, nothing waits: what does is programmed, and the page goes as it is.
    fn may_wait(&mut self, d: &mut impl Driver) -> Result<bool, FtlError> {
        let may = !self.settings.packing_survives || self.waiting_survives(1);
        if !may {
            self.program_waiting(d)?;
        }
        Ok(may)
    }

    /// Programs a codeword beside which nothing waits; if that fails, it was never written.
    #[inline(never)]
    fn program_alone(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let programmed = self.program_waiting(d);
        if programmed.is_err() {
            self.forget_waiting(lpn);
            self.counters.fragments -= 1;
            self.counters.fragments_dropped -= 1;
        }
        programmed
    }

    fn stream_of(&self, lpn: u32, apart: bool) -> Stream {
        if apart || self.is_hot(lpn) { Stream::Apart } else { Stream::Host }
    }

    /// Before a host page changes an entry: space for the FTL's own pages, the entry's mapping
    /// page in DRAM, and a share of the checkpoint.
    pub(super) fn tend(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.make_meta_room(d)?;
        self.checkpoint_share(d)?;
        self.touch(lpn, true, d)
    }

    fn verify(
        &mut self,
        candidate: u32,
        page: &N::Page,
        d: &mut impl Driver,
    ) -> Result<Option<Verified>, FtlError> {
        if !self.books.may_be_shared(candidate) {
            return Ok(None);
        }
        let verified = Verified::by_reading(candidate, page, |at| self.content(at));
        self.issue(d, OpKind::Read, Cause::Dedup, candidate, true);
        self.expanded(candidate, true, d);
        let verified = match verified {
            Ok(verified) => verified,
            // Who writes a page has nothing to do with the damage to another one.
            Err(NandError::Uncorrectable { .. }) => {
                self.policy.compared(candidate, false);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        d.work(Work::Compare, true);
        self.policy.compared(candidate, verified.is_some());
        self.counters.compared_equal += u64::from(verified.is_some());
        self.counters.compared_different += u64::from(verified.is_none());
        Ok(verified)
    }

    fn program_host(
        &mut self,
        lpn: u32,
        page: &N::Page,
        owner: Owner,
        (tag, apart): (u64, bool),
        d: &mut impl Driver,
    ) -> Result<u32, FtlError> {
        let kept = matches!(owner, Owner::Kept(_));
        let key = if kept { PageKey::Kept(lpn) } else { PageKey::Data(lpn) };
        let stream = self.stream_of(lpn, apart);
        let pattern = self.pattern(page);
        let plane = self.space.choose_plane(stream, pattern, d.preferred_plane())?;
        // Collection gives what the old page's death changes time to come.
        self.expect_death(lpn);
        self.make_room(plane, d)?;
        // Collection may have needed the place of the entry's mapping page.
        self.touch(lpn, true, d)?;
        let (ppn, ()) = self.program(plane, stream, |nand, ppn, seq| {
            let oob = Oob { key, seq, seed: u64::from(lpn), tag };
            nand.program(ppn, Payload::Data(page), &oob)
        })?;
        if self.settings.spread_patterns {
            self.space.note_pattern(plane, stream, pattern);
        }
        self.issue(d, OpKind::Program, Cause::Host, ppn, true);
        self.settle(ppn, owner);
        let old = self.set_place(lpn, Place::Own(ppn));
        self.release(old);
        Ok(ppn)
    }

    /// Whether a logical page belongs to the hot pool.
    #[inline]
    pub(super) fn is_hot(&self, lpn: u32) -> bool {
        match self.settings.temperature {
            Temperature::OnePool => false,
            Temperature::HotRange { hot_pages, .. } => lpn < hot_pages,
        }
    }

    /// What a page would look like in the cells, if that matters.
    #[inline]
    fn pattern(&self, page: &N::Page) -> Option<Pattern> {
        if self.settings.spread_patterns { self.nand.pattern(page) } else { None }
    }
}
