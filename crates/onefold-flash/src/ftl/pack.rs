//! Compressed pages of the host go to the flash several at a time.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV names the engine; packing is ours.
//! The map does not know of what waits: until the flash page is programmed, a logical page is where
//! it was, so that a power cut takes what waits and nothing else. Then all fragments are in the map
//! at once.
//! Invariants: what waits is newer than what the map says; a flash page of fragments is programmed
//! whole, and its entries are changed before anything else is programmed.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::{Owner, Place};
use crate::ftl::packing::TOGETHER_MAX;
use crate::ftl::stream::Stream;
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Payload};
use crate::op::{Cause, Driver, OpKind, Work};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Lets a compressed page of the host wait for others. Nothing is changed if this fails.
    #[inline(never)]
    pub(super) fn pack(
        &mut self,
        lpn: u32,
        page: &N::Page,
        fragment: Fragment<N::Page>,
        stream: Stream,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let subpages = fragment.subpages;
        let fits = self.packing.best(stream, subpages).is_some()
            || self.packing.replaces(stream, lpn, subpages);
        if !fits && let Some(full) = self.packing.in_the_way(stream) {
            self.program_bin(full, d)?;
        }
        self.forget_waiting(lpn);
        let (tag, known) = (fragment.tag, !matches!(fragment.key, PageKey::Kept(_)));
        let place = self.packing.insert(stream, lpn, page.clone(), fragment);
        self.counters.fragments += 1;
        if known {
            self.policy.stored(place, tag);
        }
        Ok(())
    }

    /// A logical page that has been replaced or trimmed waits no more.
    #[inline]
    pub(super) fn forget_waiting(&mut self, lpn: u32) {
        if self.packing.has(lpn)
            && let Some((place, known)) = self.packing.forget(lpn)
        {
            self.counters.fragments_dropped += 1;
            if known {
                self.policy.died(place);
            }
        }
    }

    /// Compares a page with one that waits; nothing if that holds something else.
    pub(super) fn equals_waiting(
        &mut self,
        place: u32,
        page: &N::Page,
        d: &mut impl Driver,
    ) -> bool {
        let equal = self.packing.page(place).is_some_and(|waiting| waiting == page);
        d.work(Work::Compare, true);
        self.policy.compared(place, equal);
        self.counters.compared_equal += u64::from(equal);
        self.counters.compared_different += u64::from(!equal);
        equal
    }

    /// Lets a logical page wait for what waits already and holds the same. Where too many do, that
    /// is programmed, and the answer is where.
    pub(super) fn join_waiting(
        &mut self,
        lpn: u32,
        place: u32,
        d: &mut impl Driver,
    ) -> Result<Option<u32>, FtlError> {
        let lpns = self.packing.lpns_at(place);
        if let [.., one] = *lpns
            && !lpns.contains(&lpn)
            && lpns.len() >= TOGETHER_MAX
        {
            let full = self.packing.bin_of(place);
            self.program_bin(full.expect("it waits in a bin"), d)?;
            return Ok(self.locate(one));
        }
        self.counters.inline_pages += 1;
        if lpns.contains(&lpn) {
            return Ok(None);
        }
        self.forget_waiting(lpn);
        self.packing.join(lpn, place);
        Ok(None)
    }

    /// Programs all that waits.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub(super) fn program_waiting(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        while self.program_one(d)? {}
        Ok(())
    }

    /// Programs a bin; `false` if nothing waits.
    pub(super) fn program_one(&mut self, d: &mut impl Driver) -> Result<bool, FtlError> {
        let any = self.layout.packs() && !self.packing.is_empty();
        if any {
            self.program_bin(0, d)?;
        }
        Ok(any)
    }

    fn program_bin(&mut self, at: usize, d: &mut impl Driver) -> Result<(), FtlError> {
        let (stream, fragments) = self.packing.bin(at);
        let first = if self.space.is_emergency() {
            // No energy to collect with, and no block to lose by it.
            self.program_anywhere(&fragments)?
        } else {
            if self.own.is_on() {
                self.make_meta_room(d)?;
            }
            self.program_for_host(stream, &fragments, d)?
        };
        self.issue(d, OpKind::Program, Cause::Host, first, true);
        self.counters.packed_host_pages += 1;
        let bin = self.packing.take(at);
        let mut offset = 0;
        for one in &bin.waiting {
            let (place, kept) = (first + offset, one.is_kept());
            offset += one.fragment.subpages;
            let gap = if offset == bin.used { self.layout.gap_behind(offset) } else { 0 };
            let lpn = one.lpns[0];
            let owner = if kept { Owner::Kept(lpn) } else { Owner::Data(lpn) };
            self.settle_part(place, owner, one.fragment.subpages, gap);
            let old = self.set_place(lpn, Place::Own(place));
            self.release(old);
            if !kept {
                self.policy.moved(one.place, place, one.fragment.tag);
            }
        }
        // Only now may anything else be programmed: the entries of the page are as it says.
        let mut offset = 0;
        for one in &bin.waiting {
            for &lpn in &one.lpns[1..] {
                self.point_to(lpn, first + offset, true, d)?;
            }
            offset += one.fragment.subpages;
        }
        Ok(())
    }

    fn program_for_host(
        &mut self,
        stream: Stream,
        fragments: &[Fragment<N::Page>],
        d: &mut impl Driver,
    ) -> Result<u32, FtlError> {
        let plane = self.space.choose_plane(stream, None, d.preferred_plane())?;
        self.make_room(plane, d)?;
        self.program_fragments(plane, stream, fragments)
    }

    /// Programs fragments where there is a page at all, when the power has gone.
    fn program_anywhere(&mut self, fragments: &[Fragment<N::Page>]) -> Result<u32, FtlError> {
        let key = PageKey::Packed(fragments.len() as u32);
        loop {
            let first = self.space.any_place(self.journal.now())?;
            let oob = Oob { key, seq: self.journal.next_seq(), seed: 0, tag: 0 };
            match self.nand.program(self.layout.page_of(first), Payload::Packed(fragments), &oob) {
                Ok(()) => {
                    self.count_packed(fragments);
                    return Ok(first);
                }
                Err(NandError::Failed { block, .. }) => self.give_up(block),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Programs fragments as the next page of a stream; the answer is the place of the first one.
    pub(super) fn program_fragments(
        &mut self,
        plane: u32,
        stream: Stream,
        fragments: &[Fragment<N::Page>],
    ) -> Result<u32, FtlError> {
        let key = PageKey::Packed(fragments.len() as u32);
        let (first, ()) = self.program(plane, stream, |nand, ppn, seq| {
            let oob = Oob { key, seq, seed: 0, tag: 0 };
            nand.program(ppn, Payload::Packed(fragments), &oob)
        })?;
        self.count_packed(fragments);
        Ok(first)
    }

    /// A flash page was filled with fragments.
    fn count_packed(&mut self, fragments: &[Fragment<N::Page>]) {
        self.counters.packed_pages += 1;
        let used: u32 = fragments.iter().map(|fragment| fragment.subpages).sum();
        self.counters.packed_subpages += u64::from(used);
    }
}
