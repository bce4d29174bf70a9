//! The packing buffer: compressed pages of the host wait here until they fill a flash page.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV names the engine; packing is ours.
//! A page that waits has a place behind the last one of the flash, by which a policy may name it.
//! Invariants: a logical page waits once at most; what waits in a bin fits into one flash page.
//! Cost: `packing_pages` flash pages of memory for each stream of the host.

use std::collections::BTreeMap;

use crate::dedup::packing_slots;
use crate::ftl::stream::Stream;
use crate::nand::{Fragment, PageKey};

/// Most logical pages that wait for one fragment: beyond it, the fragment is programmed first.
pub(super) const TOGETHER_MAX: usize = 64;
/// Fragments that will be a flash page.
#[derive(Clone, Debug)]
pub(super) struct Bin<P> {
    stream: Stream,
    /// Sub-pages that are taken.
    pub used: u32,
    pub waiting: Vec<Waiting<P>>,
}

/// A compressed page that is not in the flash yet.
#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    pub place: u32,
    /// Who wrote it; those behind the first one found it here.
    pub lpns: Vec<u32>,
    page: P,
    pub fragment: Fragment<P>,
}

impl<P> Waiting<P> {
    pub const fn is_kept(&self) -> bool {
        matches!(self.fragment.key, PageKey::Kept(_))
    }
}

/// The buffer.
#[derive(Clone, Debug)]
pub(super) struct Packing<P> {
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

    /// Logical pages that wait for what waits at a place.
    pub fn lpns_at(&self, place: u32) -> &[u32] {
        self.at(place).map_or(&[], |one| &one.lpns)
    }

    /// The bin of what waits at a place.
    pub fn bin_of(&self, place: u32) -> Option<usize> {
        self.bins.iter().position(|bin| bin.waiting.iter().any(|one| one.place == place))
    }

    /// The stream of a bin, and its fragments as they are programmed.
    pub fn bin(&self, at: usize) -> (Stream, Vec<Fragment<P>>) {
        let bin = &self.bins[at];
        (bin.stream, bin.waiting.iter().map(whose).collect())
    }

    /// A logical page waits no more; the place, if that was the last one there, and whether
    /// policies know of it.
    pub fn forget(&mut self, lpn: u32) -> Option<(u32, bool)> {
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
    pub fn best(&self, stream: Stream, subpages: u32) -> Option<usize> {
        let room = self.subpages - subpages;
        let fits = |bin: &Bin<P>| bin.stream == stream && bin.used <= room;
        let fitting = (0..self.bins.len()).filter(|&at| fits(&self.bins[at]));
        fitting.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }

    /// The bin that has to go before another one of this stream may be begun.
    pub fn in_the_way(&self, stream: Stream) -> Option<usize> {
        let same = (0..self.bins.len()).filter(|&at| self.bins[at].stream == stream);
        if same.clone().count() < self.bins_max {
            return None;
        }
        same.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }

    /// Puts a fragment into a bin that has room; the answer is its place.
    pub fn insert(&mut self, stream: Stream, lpn: u32, page: P, fragment: Fragment<P>) -> u32 {
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
    pub fn join(&mut self, lpn: u32, place: u32) {
        if let Some(one) = self.at_mut(place) {
            one.lpns.push(lpn);
            self.by_lpn.insert(lpn, place);
            self.version += 1;
        }
    }

    /// Whether a bin of this stream has room for so many sub-pages once a logical page no longer
    /// waits there.
    pub fn replaces(&self, stream: Stream, lpn: u32, subpages: u32) -> bool {
        let alone = |one: &Waiting<P>| one.lpns == [lpn];
        self.bins.iter().filter(|bin| bin.stream == stream).any(|bin| {
            let own = bin.waiting.iter().find(|one| alone(one));
            own.is_some_and(|own| bin.used - own.fragment.subpages + subpages <= self.subpages)
        })
    }

    /// A bin has become a flash page.
    pub fn take(&mut self, at: usize) -> Bin<P> {
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

    /// The check of a drive's invariants finds either mistake alone.
    #[test]
    fn bins_that_hold_too_much_or_another_amount_than_they_say_do_not_fit() {
        for (held, said, fit) in [(8, 8, true), (9, 9, false), (3, 4, false), (9, 8, false)] {
            let mut packing = Packing::<u8>::new(100, 8, 1);
            packing.insert(Stream::Host, 0, 0, fragment(3));
            packing.bins[0].waiting[0].fragment.subpages = held;
            packing.bins[0].used = said;
            assert_eq!(packing.bins_fit(), fit, "{held}, {said}");
        }
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
