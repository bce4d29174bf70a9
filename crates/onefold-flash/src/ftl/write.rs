//! A page from the host: looked at, then shared or programmed.
//! Room: onefold-flash.   In: LPN and content.   Out: NAND calls, `FlashOp`s, a map change.

use crate::dedup::{Policy, Prepared, Verdict, Verified};
use crate::ftl::journal::Record;
use crate::ftl::map::{OWNERS_PER_LINE, Owner, Place};
use crate::ftl::settings::Temperature;
use crate::ftl::{Ftl, FtlError, Stream, view};
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Pattern, Payload};
use crate::op::{Cause, Driver, OpKind, Work};

/// Pages that are looked at together by [`Ftl::announce`].
const ANNOUNCED: usize = 32;

/// What became of a written page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was programmed here.
    Programmed {
        /// The page.
        ppn: u32,
    },
    /// It shares this page.
    Shared {
        /// The page.
        ppn: u32,
    },
    /// It was compressed, and waits for others to fill a flash page with.
    Waits,
    /// It holds the same as one that waits.
    SharesWaiting,
}

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
        self.map.prefetch(lpn);
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
        if self.packs() && !prepared.compressed && !self.settings.codewords {
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
        if self.meta.on {
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
            Verdict::Share { same, .. } if self.owners.may_be_shared(same.ppn()) => {
                return self.share_written(lpn, Verified::by_digest(same).ppn(), d);
            }
            Verdict::Share { tag, .. } => (tag, false),
        };
        self.store(lpn, page, Owner::Data(lpn), (tag, apart), request, d)
    }

    /// Whether something that may be shared waits at a place.
    fn is_waiting(&self, place: u32) -> bool {
        self.packs() && self.packing.is_here(place) && self.packing.may_be_shared(place)
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
        let waits = self.packs() && self.may_wait(d)?;
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
        if programmed.is_err() && self.packing.has(lpn) {
            self.forget_waiting(lpn);
            self.counters.fragments -= 1;
            self.counters.fragments_dropped -= 1;
        }
        programmed
    }

    fn stream_of(&self, lpn: u32, apart: bool) -> Stream {
        if apart || self.is_hot(lpn) { Stream::Apart } else { Stream::Host }
    }

    /// Brings what the next writes or trims will change into the processor's cache; nothing else
    /// happens. On drives whose tables do not fit there, a few dozen announced at a time go
    /// several times as fast, because their cache misses overlap.
    pub fn announce(&self, lpns: &[u32]) {
        for part in lpns.chunks(ANNOUNCED) {
            for &lpn in part {
                self.map.prefetch(lpn);
            }
            let mut dying = [0; ANNOUNCED];
            let mut count = 0;
            for &lpn in part {
                if lpn < self.map.len()
                    && !self.map.is_absent(lpn)
                    && let Place::Own(ppn) = self.map.get(lpn)
                {
                    self.owners.prefetch(ppn);
                    self.blocks.prefetch(self.block_of(ppn));
                    dying[count] = ppn;
                    count += 1;
                }
            }
            self.policy.expect_deaths(&dying[..count]);
        }
    }

    /// The same for writes of which the pages are known.
    pub fn announce_writes(&mut self, writes: &[(u32, N::Page)]) {
        for part in writes.chunks(ANNOUNCED) {
            let mut lpns = [0; ANNOUNCED];
            for (lpn, (of, page)) in lpns.iter_mut().zip(part) {
                *lpn = *of;
                self.policy.expect_write(page);
            }
            self.announce(&lpns[..part.len()]);
        }
    }

    /// The page that holds a logical one is about to die.
    #[inline]
    fn expect_death(&self, lpn: u32) {
        if !self.map.is_absent(lpn)
            && let Place::Own(ppn) = self.map.get(lpn)
        {
            self.owners.prefetch(ppn);
            self.blocks.prefetch(self.block_of(ppn));
            self.policy.expect_deaths(&[ppn]);
        }
    }

    /// Declares a logical page unused.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn trim(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.trim_range(lpn, 1, d)
    }

    /// Declares logical pages unused, with one journal record.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn trim_range(
        &mut self,
        lpn: u32,
        count: u32,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if count == 0 {
            return Ok(());
        }
        self.check_range(lpn)?;
        self.check_range(lpn.saturating_add(count - 1))?;
        self.counters.host_pages_trimmed += u64::from(count);
        d.work(Work::Lookup, true);
        // A part at a time: the mapping page of each part must be in DRAM when it is changed.
        let (mut first, end) = (lpn, lpn + count);
        while first < end {
            let after = (first / self.meta.slots.entries + 1) * self.meta.slots.entries;
            let after = after.min(end);
            if self.meta.on {
                self.tend(first, d)?;
            }
            self.log(Record::Trim { lpn: first, count: after - first });
            for lpn in first..after {
                self.forget_waiting(lpn);
                let old = self.set_place(lpn, Place::None);
                self.release(old);
            }
            self.settle_journal(d)?;
            first = after;
        }
        Ok(())
    }

    /// Before a host page changes an entry: space for the FTL's own pages, the entry's mapping
    /// page in DRAM, and a share of the checkpoint.
    fn tend(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
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
        if !self.owners.may_be_shared(candidate) {
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
        let plane = self.choose_plane(stream, pattern, d)?;
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
            self.neighbours.note(plane, stream, pattern);
        }
        self.issue(d, OpKind::Program, Cause::Host, ppn, true);
        self.settle(ppn, owner);
        let old = self.set_place(lpn, Place::Own(ppn));
        self.release(old);
        Ok(ppn)
    }

    /// Programs the next page of a stream; a block in which that fails is given up, and the page
    /// goes to another one. The answer is the place at which the page begins.
    pub(super) fn program<T>(
        &mut self,
        plane: u32,
        stream: Stream,
        mut program: impl FnMut(&mut N, u32, u64) -> Result<T, NandError>,
    ) -> Result<(u32, T), FtlError> {
        loop {
            let ppn = self.next_page(plane, stream)?;
            let seq = self.next_seq();
            match program(&mut self.nand, ppn, seq) {
                Ok(answer) => return Ok((ppn * self.subpages(), answer)),
                Err(NandError::Failed { block, .. }) => {
                    self.open[plane as usize][stream as usize] = None;
                    self.blocks.condemn(block);
                    self.counters.block_failures += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a logical page belongs to the hot pool.
    #[inline]
    pub(super) fn is_hot(&self, lpn: u32) -> bool {
        match self.settings.temperature {
            Temperature::OnePool => false,
            Temperature::HotRange { hot_pages, .. } => lpn < hot_pages,
        }
    }

    /// The plane that the next host page goes to: the driver's choice, or the next in turn that
    /// is not so full of live pages that collecting it would free nothing. For a page with a
    /// pattern it is the first, from there on, in which nothing like it was written last.
    #[inline]
    pub(super) fn choose_plane(
        &mut self,
        stream: Stream,
        pattern: Option<Pattern>,
        d: &mut impl Driver,
    ) -> Result<u32, FtlError> {
        let first = match d.preferred_plane().filter(|&plane| self.has_room(plane)) {
            Some(plane) => plane,
            None => self.plane_in_turn()?,
        };
        let Some(pattern) = pattern else { return Ok(first) };
        let planes = self.geometry.planes();
        let from_there = (first..planes).chain(0..first).filter(|&plane| self.has_room(plane));
        Ok(self.neighbours.least_alike(stream, pattern, from_there).unwrap_or(first))
    }

    /// What a page would look like in the cells, if that matters.
    #[inline]
    fn pattern(&self, page: &N::Page) -> Option<Pattern> {
        if self.settings.spread_patterns { self.nand.pattern(page) } else { None }
    }

    fn plane_in_turn(&mut self) -> Result<u32, FtlError> {
        let planes = self.geometry.planes();
        let mut plane = self.next_plane;
        if self.meta.on {
            // A plane that has programmed a page of the FTL's own is passed over once.
            while self.meta.ahead[plane as usize] > 0 {
                self.meta.ahead[plane as usize] -= 1;
                plane = if plane + 1 == planes { 0 } else { plane + 1 };
            }
        }
        for _ in 0..planes {
            let after = if plane + 1 == planes { 0 } else { plane + 1 };
            if self.has_room(plane) {
                self.next_plane = after;
                return Ok(plane);
            }
            plane = after;
        }
        Err(self.no_space())
    }

    /// Whether collection in a plane can always free a block: not all that it has, but for the
    /// reserve, is live.
    fn has_room(&self, plane: u32) -> bool {
        let kept = self.settings.gc_reserve_blocks.min(self.floor() + 1);
        let good = self.blocks.good_of(plane).saturating_sub(kept);
        self.blocks.live_of_plane(plane) < good * self.dense_places
    }

    pub(super) fn no_space(&self) -> FtlError {
        FtlError::NoSpace { bad_blocks: self.blocks.bad(), blocks: self.geometry.blocks() }
    }

    /// The next flash page of a stream's open block in a plane.
    pub(super) fn next_page(&mut self, plane: u32, stream: Stream) -> Result<u32, FtlError> {
        let open = self.open[plane as usize][stream as usize];
        let block = match open {
            Some(block) if !self.blocks.is_full(block) => block,
            _ => self.open_block(plane, stream)?,
        };
        Ok(self.geometry.first_page(block) + self.blocks.append(block))
    }

    fn open_block(&mut self, plane: u32, stream: Stream) -> Result<u32, FtlError> {
        if let Some(full) = self.open[plane as usize][stream as usize].take() {
            self.blocks.close(full, self.seq);
        }
        self.neighbours.forget(plane, stream);
        // The last free block is for what collection moves; else there would be no way out.
        let from_host = matches!(stream, Stream::Host | Stream::Apart);
        if from_host && self.blocks.free_of(plane) < 2 {
            return Err(self.no_space());
        }
        let Some(block) = self.blocks.take_free(plane, stream == Stream::Levelled) else {
            return Err(self.no_space());
        };
        if self.hot_blocks.is_some() && matches!(stream, Stream::Apart | Stream::MovedHot) {
            self.blocks.make_hot(block);
        }
        self.open[plane as usize][stream as usize] = Some(block);
        Ok(block)
    }

    /// Puts a logical page elsewhere; the answer is where it was.
    #[inline]
    pub(super) fn set_place(&mut self, lpn: u32, place: Place) -> Place {
        if self.meta.on {
            self.meta.dirty(lpn / self.meta.slots.entries, self.seq);
        }
        self.map.replace(lpn, place)
    }

    /// A programmed page has an owner now.
    #[inline]
    pub(super) fn settle(&mut self, ppn: u32, owner: Owner) {
        if self.subpages() > 1 {
            return self.settle_part(ppn, owner, self.subpages(), 0);
        }
        self.owners.set(ppn, owner);
        if ppn.is_multiple_of(OWNERS_PER_LINE) {
            self.owners.prefetch(ppn + OWNERS_PER_LINE);
        }
        self.blocks.gain(self.block_of(ppn), 1);
    }

    /// What takes `len` sub-pages of a programmed page has an owner now, and the gap behind it.
    #[inline(never)]
    pub(super) fn settle_part(&mut self, place: u32, owner: Owner, len: u32, gap: u32) {
        self.owners.set_part(place, owner, len, gap);
        if place.is_multiple_of(OWNERS_PER_LINE) {
            self.owners.prefetch(place + OWNERS_PER_LINE);
        }
        self.blocks.gain(self.block_of(place), len + gap);
    }

    /// A physical page is wanted no more.
    #[inline]
    pub(super) fn drop_page(&mut self, ppn: u32) {
        let known = !self.is_kept(ppn);
        let freed = self.owners.clear(ppn, self.subpages());
        let block = self.block_of(ppn);
        self.blocks.lose(block, freed);
        if !self.meta.journal.pending.is_empty() {
            self.blocks.need(block, self.meta.journal.last);
        }
        if known {
            self.policy.died(ppn);
        }
    }

    /// A logical page no longer refers to where it was.
    pub(super) fn release(&mut self, old: Place) {
        match old {
            Place::None | Place::Lost => {}
            Place::Own(ppn) => self.drop_page(ppn),
            Place::Virtual(vpn) => {
                if let Some(ppn) = self.shared.release(vpn) {
                    self.drop_page(ppn);
                }
            }
        }
    }
}
