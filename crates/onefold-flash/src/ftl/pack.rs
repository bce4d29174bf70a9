//! The packing buffer: compressed pages of the host wait here until they fill a flash page.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV names the engine; packing is ours.
//! A page that waits has a place behind the last one of the flash, by which a policy may name it.
//! The map does not know of it: until the flash page is programmed, a logical page is where it
//! was, so that a power cut takes what waits and nothing else. Then all fragments are in the map
//! at once.
//! Invariants: (1) a logical page waits once at most, and what waits is newer than what the map
//! says; (2) what waits in a bin fits into one flash page; (3) a flash page of fragments is
//! programmed whole, and its entries are changed before anything else is programmed.
//! Cost: `packing_pages` flash pages of memory for each stream of the host.

use std::collections::BTreeMap;

use crate::dedup::Policy;
use crate::ftl::map::{Owner, Place};
use crate::ftl::{Ftl, FtlError, Stream, packing_slots};
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Payload};
use crate::op::{Cause, Driver, OpKind, Work};

/// Most logical pages that wait for one fragment: beyond it, the fragment is programmed first.
pub(super) const TOGETHER_MAX: usize = 64;
/// Streams of the host.
pub(super) const STREAMS: u32 = 2;

/// Fragments that will be a flash page.
#[derive(Clone, Debug)]
struct Bin<P> {
    stream: Stream,
    used: u32,
    waiting: Vec<Waiting<P>>,
}

/// A compressed page that is not in the flash yet.
#[derive(Clone, Debug)]
struct Waiting<P> {
    place: u32,
    /// Who wrote it; those behind the first one found it here.
    lpns: Vec<u32>,
    page: P,
    fragment: Fragment<P>,
}

impl<P> Waiting<P> {
    const fn is_kept(&self) -> bool {
        matches!(self.fragment.key, PageKey::Kept(_))
    }
}

/// The buffer.
#[derive(Clone, Debug)]
pub(crate) struct Packing<P> {
    subpages: u32,
    bins_max: usize,
    /// The first place of the buffer.
    base: u32,
    bins: Vec<Bin<P>>,
    by_lpn: BTreeMap<u32, u32>,
    free: Vec<u32>,
    version: u64,
}

impl<P: Clone + PartialEq> Packing<P> {
    /// A buffer for pages of so many sub-pages, in front of a flash of so many places.
    pub fn new(places: u32, subpages: u32, bins_max: u32) -> Self {
        let slots = packing_slots(subpages, bins_max);
        Self {
            subpages,
            bins_max: bins_max as usize,
            base: places,
            bins: Vec::new(),
            by_lpn: BTreeMap::new(),
            free: (places..places + slots).rev().collect(),
            version: 0,
        }
    }

    /// Another number whenever what waits is not the same as before.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Flash pages that what waits would fill.
    pub const fn flash_pages(&self) -> u32 {
        self.bins.len() as u32
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_lpn.is_empty()
    }

    /// Whether a logical page waits.
    #[inline]
    pub fn has(&self, lpn: u32) -> bool {
        !self.is_empty() && self.by_lpn.contains_key(&lpn)
    }

    /// Logical pages that wait.
    pub fn lpns(&self) -> impl Iterator<Item = u32> {
        self.by_lpn.keys().copied()
    }

    /// Compressed pages that wait, each with those who wrote it.
    pub fn fragments(&self) -> impl Iterator<Item = (&[u32], &Fragment<P>)> {
        let waiting = self.bins.iter().flat_map(|bin| &bin.waiting);
        waiting.map(|one| (&one.lpns[..], &one.fragment))
    }

    /// Whether no bin holds more than a flash page, and each as much as it says.
    pub fn bins_fit(&self) -> bool {
        self.bins.iter().all(|bin| {
            let used: u32 = bin.waiting.iter().map(|one| one.fragment.subpages).sum();
            used == bin.used && used <= self.subpages
        })
    }

    /// The place of a logical page that waits.
    #[inline]
    pub fn place_of(&self, lpn: u32) -> Option<u32> {
        if self.is_empty() { None } else { self.by_lpn.get(&lpn).copied() }
    }

    /// Whether a place is one of the buffer.
    #[inline]
    pub const fn is_here(&self, place: u32) -> bool {
        place >= self.base
    }

    fn at(&self, place: u32) -> Option<&Waiting<P>> {
        self.bins.iter().flat_map(|bin| &bin.waiting).find(|one| one.place == place)
    }

    fn at_mut(&mut self, place: u32) -> Option<&mut Waiting<P>> {
        self.bins.iter_mut().flat_map(|bin| &mut bin.waiting).find(|one| one.place == place)
    }

    /// Whether others may share what waits at a place.
    pub fn may_be_shared(&self, place: u32) -> bool {
        self.at(place).is_some_and(|one| !one.is_kept())
    }

    /// What waits at a place.
    pub fn page(&self, place: u32) -> Option<&P> {
        self.at(place).map(|one| &one.page)
    }

    /// A logical page waits no more; the place, if that was the last one there, and whether
    /// policies know of it.
    fn forget(&mut self, lpn: u32) -> Option<(u32, bool)> {
        let place = self.by_lpn.remove(&lpn)?;
        self.version += 1;
        let one = self.at_mut(place)?;
        one.lpns.retain(|&other| other != lpn);
        if !one.lpns.is_empty() {
            return None;
        }
        let known = !one.is_kept();
        for bin in &mut self.bins {
            if let Some(at) = bin.waiting.iter().position(|one| one.place == place) {
                bin.used -= bin.waiting.remove(at).fragment.subpages;
            }
        }
        self.bins.retain(|bin| bin.used > 0);
        self.free.push(place);
        Some((place, known))
    }

    /// The bin in which so many sub-pages leave the least.
    fn best(&self, stream: Stream, subpages: u32) -> Option<usize> {
        let room = self.subpages - subpages;
        let fits = |bin: &Bin<P>| bin.stream == stream && bin.used <= room;
        let fitting = (0..self.bins.len()).filter(|&at| fits(&self.bins[at]));
        fitting.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }

    /// The bin that has to go before another one of this stream may be begun.
    fn in_the_way(&self, stream: Stream) -> Option<usize> {
        let same = (0..self.bins.len()).filter(|&at| self.bins[at].stream == stream);
        if same.clone().count() < self.bins_max {
            return None;
        }
        same.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }

    /// Puts a fragment into a bin that has room; the answer is its place.
    fn insert(&mut self, stream: Stream, lpn: u32, page: P, fragment: Fragment<P>) -> u32 {
        let at = self.best(stream, fragment.subpages).unwrap_or_else(|| {
            self.bins.push(Bin { stream, used: 0, waiting: Vec::new() });
            self.bins.len() - 1
        });
        self.version += 1;
        let place = self.free.pop().expect("a place for each sub-page of each bin");
        let bin = &mut self.bins[at];
        bin.used += fragment.subpages;
        bin.waiting.push(Waiting { place, lpns: vec![lpn], page, fragment });
        self.by_lpn.insert(lpn, place);
        place
    }

    /// A logical page waits for what waits at a place.
    fn join(&mut self, lpn: u32, place: u32) {
        if let Some(one) = self.at_mut(place) {
            one.lpns.push(lpn);
            self.by_lpn.insert(lpn, place);
            self.version += 1;
        }
    }

    /// Whether a bin of this stream has room for so many sub-pages once a logical page no longer
    /// waits there.
    fn replaces(&self, stream: Stream, lpn: u32, subpages: u32) -> bool {
        let alone = |one: &Waiting<P>| one.lpns == [lpn];
        self.bins.iter().filter(|bin| bin.stream == stream).any(|bin| {
            let own = bin.waiting.iter().find(|one| alone(one));
            own.is_some_and(|own| bin.used - own.fragment.subpages + subpages <= self.subpages)
        })
    }

    /// A bin has become a flash page.
    fn take(&mut self, at: usize) -> Bin<P> {
        self.version += 1;
        let bin = self.bins.remove(at);
        for one in &bin.waiting {
            self.free.push(one.place);
            for lpn in &one.lpns {
                self.by_lpn.remove(lpn);
            }
        }
        bin
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Whether pages are compressed and packed.
    #[inline]
    pub(super) const fn packs(&self) -> bool {
        self.subpages() > 1
    }

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
        let lpns = self.packing.at(place).map_or(&[][..], |one| &one.lpns);
        if !lpns.contains(&lpn) && lpns.len() >= TOGETHER_MAX {
            let first = lpns[0];
            let full = self
                .packing
                .bins
                .iter()
                .position(|bin| bin.waiting.iter().any(|one| one.place == place));
            self.program_bin(full.expect("it waits in a bin"), d)?;
            return Ok(self.locate(first));
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
        let any = self.packs() && !self.packing.bins.is_empty();
        if any {
            self.program_bin(0, d)?;
        }
        Ok(any)
    }

    fn program_bin(&mut self, at: usize, d: &mut impl Driver) -> Result<(), FtlError> {
        let stream = self.packing.bins[at].stream;
        let fragments: Vec<_> = self.packing.bins[at].waiting.iter().map(whose).collect();
        let first = if self.meta.emergency {
            // No energy to collect with, and no block to lose by it.
            self.program_anywhere(&fragments)?
        } else {
            if self.meta.on {
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
            let gap = if offset == bin.used { self.gap_behind(offset) } else { 0 };
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
        let plane = self.choose_plane(stream, None, d)?;
        self.make_room(plane, d)?;
        self.program_fragments(plane, stream, fragments)
    }

    /// Programs fragments where there is a page at all, when the power has gone.
    fn program_anywhere(&mut self, fragments: &[Fragment<N::Page>]) -> Result<u32, FtlError> {
        let key = PageKey::Packed(fragments.len() as u32);
        self.counters.packed_pages += 1;
        let used: u32 = fragments.iter().map(|fragment| fragment.subpages).sum();
        self.counters.packed_subpages += u64::from(used);
        loop {
            let first = self.any_page()?;
            let oob = Oob { key, seq: self.next_seq(), seed: 0, tag: 0 };
            match self.nand.program(self.page_of(first), Payload::Packed(fragments), &oob) {
                Ok(()) => return Ok(first),
                Err(NandError::Failed { block, .. }) => self.give_up_open(block),
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
        self.counters.packed_pages += 1;
        let used: u32 = fragments.iter().map(|fragment| fragment.subpages).sum();
        self.counters.packed_subpages += u64::from(used);
        Ok(first)
    }
}

/// A fragment as it is programmed: the first of those who still want it is its owner.
fn whose<P: Clone>(one: &Waiting<P>) -> Fragment<P> {
    let lpn = one.lpns[0];
    let key = if one.is_kept() { PageKey::Kept(lpn) } else { PageKey::Data(lpn) };
    Fragment { key, ..one.fragment.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(subpages: u32) -> Fragment<u8> {
        let key = PageKey::Data(0);
        Fragment { key, seed: 0, tag: 0, subpages, content: Some(0) }
    }

    #[test]
    fn fragments_go_where_they_leave_least_and_the_fullest_bin_goes_first() {
        let mut packing = Packing::<u8>::new(100, 8, 2);
        packing.insert(Stream::Host, 0, 0, fragment(3));
        assert_eq!(packing.best(Stream::Host, 6), None);
        assert_eq!(packing.in_the_way(Stream::Host), None, "another one may be begun");
        packing.insert(Stream::Host, 1, 0, fragment(6));
        assert_eq!(packing.best(Stream::Host, 2), Some(1), "fits both, and fills that one");
        assert_eq!(packing.best(Stream::Host, 3), Some(0));
        assert_eq!(
            (packing.best(Stream::Apart, 3), packing.in_the_way(Stream::Apart)),
            (None, None)
        );
        assert_eq!(
            (packing.best(Stream::Host, 7), packing.in_the_way(Stream::Host)),
            (None, Some(1))
        );
        assert_eq!(packing.take(1).waiting.len(), 1);
        assert!(packing.has(0) && !packing.has(1));
    }

    #[test]
    fn a_fragment_waits_while_anybody_wants_it_and_gives_its_room_back() {
        let mut packing = Packing::<u8>::new(100, 8, 1);
        let place = packing.insert(Stream::Host, 5, 9, fragment(5));
        assert!(packing.is_here(place) && !packing.is_here(99));
        packing.join(6, place);
        assert_eq!(packing.forget(5), None, "6 is still there");
        assert_eq!((packing.place_of(6), packing.page(place)), (Some(place), Some(&9)));
        assert_eq!(packing.forget(6), Some((place, true)));
        assert!(packing.is_empty() && packing.bins.is_empty());
        // As many as there are places, again and again.
        for round in 0..40 {
            packing.insert(Stream::Host, round % 8, 0, fragment(1));
            if round % 8 == 7 {
                assert_eq!(packing.take(0).waiting.len(), 8);
            }
        }
    }
}
