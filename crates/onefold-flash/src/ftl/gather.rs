//! Collection of compressed pages: they wait until they fill a flash page again.
//! Room: onefold-flash.   In: flash pages of a victim.   Out: fuller flash pages in the same plane.
//! Invariants: until its new place is programmed, a fragment is where it was, and its block is not
//! erased; a fragment that dies on the way is left out.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::Owner;
use crate::ftl::stream::Stream;
use crate::nand::{Fragment, Nand, NandError, PageKey};
use crate::op::{Cause, Driver, OpKind};

/// A fragment that cannot be read any more goes on as one that says so.
const fn lost<P>() -> Fragment<P> {
    Fragment { key: PageKey::Data(0), seed: 0, tag: 0, subpages: 1, content: None }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Takes the live fragments of the flash page that begins at `first`; the answer is how many
    /// sub-pages they take.
    #[inline(never)]
    pub(super) fn gather(
        &mut self,
        first: u32,
        plane: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<u32, FtlError> {
        let end = first + self.layout.subpages();
        if !(first..end).any(|place| self.books.is_live(place)) {
            return Ok(0);
        }
        let fragments = match self.nand.read_packed(self.layout.page_of(first)) {
            Ok(fragments) => fragments,
            // Collection must go on, and whoever reads them is told.
            Err(NandError::Uncorrectable { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        self.issue(d, OpKind::Read, cause, first, false);
        let (mut gathered, mut place) = (0, first);
        let mut known = fragments.into_iter();
        while place < end {
            let fragment = known.next();
            let len = fragment.as_ref().map_or(1, |fragment| fragment.subpages);
            if self.books.is_live(place) {
                gathered += len;
                self.gather_one(plane, cause, place, fragment.unwrap_or_else(lost), d)?;
            }
            place += len;
        }
        Ok(gathered)
    }

    fn gather_one(
        &mut self,
        plane: u32,
        cause: Cause,
        from: u32,
        fragment: Fragment<N::Page>,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let hot = match self.books.owner(from) {
            Owner::Data(lpn) | Owner::Kept(lpn) => self.is_hot(lpn),
            _ => false,
        };
        let stream = match cause {
            Cause::Wear => Stream::Levelled,
            _ if hot => Stream::MovedHot,
            _ => Stream::Moved,
        };
        let room = self.layout.subpages() - fragment.subpages;
        let gathered = &self.gathered[plane as usize];
        let at = if let Some(at) = gathered.fullest(stream, room) {
            at
        } else {
            self.begin_bin(plane, stream, cause, d)?
        };
        self.gathered[plane as usize].push(at, from, fragment);
        Ok(())
    }

    /// An empty bin, for which the fullest one goes if there are enough.
    fn begin_bin(
        &mut self,
        plane: u32,
        stream: Stream,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<usize, FtlError> {
        let gathered = &self.gathered[plane as usize];
        if gathered.bins_of(stream) >= self.settings.packing_pages as usize
            && let Some(full) = gathered.fullest(stream, u32::MAX)
        {
            self.program_gathered_bin(plane, full, cause, d)?;
        }
        Ok(self.gathered[plane as usize].begin(stream))
    }

    /// Programs all that is on its way in a plane.
    pub(super) fn program_gathered(
        &mut self,
        plane: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        while !self.gathered[plane as usize].is_empty() {
            self.program_gathered_bin(plane, 0, cause, d)?;
        }
        Ok(())
    }

    fn program_gathered_bin(
        &mut self,
        plane: u32,
        at: usize,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let (stream, bin) = self.gathered[plane as usize].bin(at);
        let mut moves = Vec::with_capacity(bin.len());
        let mut fragments = Vec::with_capacity(bin.len());
        for (from, fragment) in bin {
            // Whose it is may have changed on the way, or nobody wants it any more.
            let owner = self.books.owner(*from);
            let key = match owner {
                Owner::Data(lpn) => PageKey::Data(lpn),
                Owner::Kept(lpn) => PageKey::Kept(lpn),
                Owner::Shared(vpn) => PageKey::Shared(vpn),
                Owner::None | Owner::Meta(_) => continue,
            };
            moves.push((*from, owner));
            fragments.push(Fragment { key, ..fragment.clone() });
        }
        if !fragments.is_empty() {
            let first = self.program_fragments(plane, stream, &fragments)?;
            self.issue(d, OpKind::Program, cause, first, false);
            let mut offset = 0;
            for (at, (from, owner)) in moves.into_iter().enumerate() {
                let Fragment { subpages, tag, .. } = fragments[at];
                let to = first + offset;
                offset += subpages;
                let last = at + 1 == fragments.len();
                let gap = if last { self.layout.gap_behind(offset) } else { 0 };
                self.settle_part(to, owner, subpages, gap);
                self.moved_out(from, to, owner);
                if !matches!(owner, Owner::Kept(_)) {
                    self.policy.moved(from, to, tag);
                }
            }
        }
        self.gathered[plane as usize].remove(at);
        Ok(())
    }
}
