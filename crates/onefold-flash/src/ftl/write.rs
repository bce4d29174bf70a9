//! A page from the host: looked at, then shared or programmed.
//! Room: onefold-flash.   In: LPN and content.   Out: NAND calls, `FlashOp`s, a map change.

use crate::dedup::{Policy, Verdict, Verified};
use crate::ftl::map::{Owner, Place};
use crate::ftl::{Ftl, FtlError, Stream, View};
use crate::nand::{Nand, Oob, PageKey, Payload};
use crate::op::{Cause, Driver, OpKind, Work};

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
        self.check_range(lpn)?;
        self.counters.host_pages_written += 1;
        d.work(Work::Lookup, true);
        let mut view = View {
            geometry: &self.geometry,
            owners: &self.owners,
            map: &self.map,
            shared: &self.shared,
            driver: d,
            foreground: true,
        };
        match self.policy.inspect(lpn, page, &mut view) {
            Verdict::Program { tag, apart } => self.program_host(lpn, page, tag, apart, d),
            Verdict::Verify { tag, candidate, apart } => match self.verify(candidate, page, d)? {
                Some(verified) => Ok(self.share_written(lpn, &verified)),
                None => self.program_host(lpn, page, tag, apart, d),
            },
            Verdict::Share { candidate, .. } if self.owners.is_live(candidate) => {
                Ok(self.share_written(lpn, &Verified::by_strong_hash(candidate)))
            }
            Verdict::Share { tag, .. } => self.program_host(lpn, page, tag, false, d),
        }
    }

    /// Declares a logical page unused.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`].
    pub fn trim(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.check_range(lpn)?;
        self.counters.host_pages_trimmed += 1;
        d.work(Work::Lookup, true);
        let old = self.map.replace(lpn, Place::None);
        self.release(old);
        Ok(())
    }

    fn verify(
        &mut self,
        candidate: u32,
        page: &N::Page,
        d: &mut impl Driver,
    ) -> Result<Option<Verified>, FtlError> {
        if !self.owners.is_live(candidate) {
            return Ok(None);
        }
        let stored = self.nand.read(candidate)?;
        self.issue(d, OpKind::Read, Cause::Dedup, candidate, true);
        d.work(Work::Compare, true);
        let verified = Verified::by_comparison(&stored, page, candidate);
        self.policy.compared(candidate, verified.is_some());
        self.counters.compared_equal += u64::from(verified.is_some());
        self.counters.compared_different += u64::from(verified.is_none());
        Ok(verified)
    }

    fn program_host(
        &mut self,
        lpn: u32,
        page: &N::Page,
        tag: u64,
        apart: bool,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        let stream = if apart { Stream::Apart } else { Stream::Host };
        let plane = self.choose_plane(d);
        self.make_room(plane, d)?;
        let ppn = self.next_page(plane, stream)?;
        let seq = self.next_seq();
        let oob = Oob { key: PageKey::Data(lpn), seq, seed: u64::from(lpn), tag };
        self.nand.program(ppn, Payload::Data(page), &oob)?;
        self.issue(d, OpKind::Program, Cause::Host, ppn, true);
        self.settle(ppn, Owner::Data(lpn));
        let old = self.map.replace(lpn, Place::Own(ppn));
        self.release(old);
        self.policy.stored(ppn, tag);
        Ok(Written::Programmed { ppn })
    }

    /// The plane that the next host page goes to: the driver's choice, or the next in turn that
    /// is not so full of live pages that collecting it would free nothing.
    fn choose_plane(&mut self, d: &mut impl Driver) -> u32 {
        let planes = self.geometry.planes();
        let room = |at: &Self, plane: u32| {
            let kept = at.settings.gc_reserve_blocks * at.geometry.pages_per_block;
            at.blocks.live_of_plane(plane) + kept < at.geometry.pages_per_plane()
        };
        if let Some(plane) = d.preferred_plane().filter(|&plane| room(self, plane)) {
            return plane;
        }
        let turn = (0..planes).map(|step| (self.next_plane + step) % planes);
        let plane = turn.into_iter().find(|&plane| room(self, plane)).unwrap_or(self.next_plane);
        self.next_plane = (plane + 1) % planes;
        plane
    }

    /// The next page of a stream's open block in a plane.
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
        let Some(block) = self.blocks.take_free(plane, false) else {
            let blocks = self.geometry.blocks();
            let bad = (0..blocks).filter(|&b| self.nand.is_bad(b)).count();
            return Err(FtlError::NoSpace { bad_blocks: bad as u32, blocks });
        };
        self.open[plane as usize][stream as usize] = Some(block);
        Ok(block)
    }

    /// A programmed page has an owner now.
    pub(super) fn settle(&mut self, ppn: u32, owner: Owner) {
        self.owners.set(ppn, owner);
        self.blocks.gain(self.geometry.block_of(ppn));
    }

    /// A physical page is wanted no more.
    pub(super) fn drop_page(&mut self, ppn: u32) {
        self.owners.set(ppn, Owner::None);
        self.blocks.lose(self.geometry.block_of(ppn));
        self.policy.died(ppn);
    }

    /// A logical page no longer refers to where it was.
    pub(super) fn release(&mut self, old: Place) {
        match old {
            Place::None => {}
            Place::Own(ppn) => self.drop_page(ppn),
            Place::Virtual(vpn) => {
                if let Some(ppn) = self.shared.release(vpn) {
                    self.drop_page(ppn);
                }
            }
        }
    }
}
