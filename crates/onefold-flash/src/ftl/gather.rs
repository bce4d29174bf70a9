//! Compressed pages on their way out of a victim, until they fill a flash page again.
//! Room: onefold-flash.   In: flash pages of a victim.   Out: fuller flash pages in the same plane.
//! Invariants: until its new place is programmed, a fragment is where it was, and its block is not
//! erased; a fragment that dies on the way is left out.
//! Cost: `packing_pages` flash pages of memory for each plane.

use crate::dedup::Policy;
use crate::ftl::map::Owner;
use crate::ftl::{Ftl, FtlError, Stream};
use crate::nand::{Fragment, Nand, NandError, PageKey};
use crate::op::{Cause, Driver, OpKind};

/// Fragments that will be a flash page, with where they are.
#[derive(Clone, Debug)]
struct Bin<P> {
    stream: Stream,
    used: u32,
    moves: Vec<(u32, Fragment<P>)>,
}

/// What is on its way in a plane.
#[derive(Clone, Debug)]
pub(crate) struct Gathered<P> {
    bins: Vec<Bin<P>>,
}

impl<P> Default for Gathered<P> {
    fn default() -> Self {
        Self { bins: Vec::new() }
    }
}

impl<P> Gathered<P> {
    /// Nothing is on its way.
    pub fn clear(&mut self) {
        self.bins.clear();
    }

    /// The fullest bin of a stream, of those with at most `used` sub-pages.
    fn fullest(&self, stream: Stream, used: u32) -> Option<usize> {
        let bins = (0..self.bins.len())
            .filter(|&at| self.bins[at].stream == stream && self.bins[at].used <= used);
        bins.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }
}

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
        let end = first + self.subpages();
        if !(first..end).any(|place| self.owners.is_live(place)) {
            return Ok(0);
        }
        let fragments = match self.nand.read_packed(self.page_of(first)) {
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
            if self.owners.is_live(place) {
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
        let hot = match self.owners.get(from) {
            Owner::Data(lpn) | Owner::Kept(lpn) => self.is_hot(lpn),
            _ => false,
        };
        let stream = match cause {
            Cause::Wear => Stream::Levelled,
            _ if hot => Stream::MovedHot,
            _ => Stream::Moved,
        };
        let room = self.subpages() - fragment.subpages;
        let gathered = &self.gathered[plane as usize];
        let at = if let Some(at) = gathered.fullest(stream, room) {
            at
        } else {
            self.begin_bin(plane, stream, cause, d)?
        };
        let bin = &mut self.gathered[plane as usize].bins[at];
        bin.used += fragment.subpages;
        bin.moves.push((from, fragment));
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
        let bins = gathered.bins.iter().filter(|bin| bin.stream == stream).count();
        if bins >= self.settings.packing_pages as usize
            && let Some(full) = gathered.fullest(stream, u32::MAX)
        {
            self.program_gathered_bin(plane, full, cause, d)?;
        }
        let bins = &mut self.gathered[plane as usize].bins;
        bins.push(Bin { stream, used: 0, moves: Vec::new() });
        Ok(bins.len() - 1)
    }

    /// Programs all that is on its way in a plane.
    pub(super) fn program_gathered(
        &mut self,
        plane: u32,
        cause: Cause,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        while !self.gathered[plane as usize].bins.is_empty() {
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
        let bin = &self.gathered[plane as usize].bins[at];
        let stream = bin.stream;
        let mut moves = Vec::with_capacity(bin.moves.len());
        let mut fragments = Vec::with_capacity(bin.moves.len());
        for (from, fragment) in &bin.moves {
            // Whose it is may have changed on the way, or nobody wants it any more.
            let owner = self.owners.get(*from);
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
                let gap = if last { self.gap_behind(offset) } else { 0 };
                self.settle_part(to, owner, subpages, gap);
                self.moved_out(from, to, owner);
                if !matches!(owner, Owner::Kept(_)) {
                    self.policy.moved(from, to, tag);
                }
            }
        }
        self.gathered[plane as usize].bins.remove(at);
        Ok(())
    }
}
