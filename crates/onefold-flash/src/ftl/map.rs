//! Where each logical page is, and whose each physical page is.
//! Room: onefold-flash.
//! Invariants: `entry(lpn)` is a page whose owner is `lpn`, or a virtual page that counts `lpn`
//! among its references.
//! Cost: 4 B per logical page, 4 B per physical page.

use crate::memory::{prefetch, table_of};

/// A logical page's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: never written, or trimmed.
    None,
    /// At this physical page, which is its own.
    Own(u32),
    /// At this virtual page, which it may share.
    Virtual(u32),
    /// Nobody knows: it was written, and damage took the page or what said where it was.
    Lost,
}

/// The stored form of no place, and of no owner.
pub(super) const NONE: u32 = u32::MAX;
/// What an entry is while its mapping page is not in DRAM: outside every drive.
const ABSENT: u32 = VIRTUAL - 1;
/// An entry whose page was lost to damage.
const LOST: u32 = u32::MAX - 2;
const VIRTUAL: u32 = 1 << 31;

/// LPN to PPN or VPN.
#[derive(Clone, Debug)]
pub struct PageMap {
    entries: Vec<u32>,
}

impl PageMap {
    /// A map in which nothing is written.
    pub fn new(logical_pages: u32) -> Self {
        Self { entries: table_of(logical_pages as usize, NONE) }
    }

    /// Logical pages.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether there are no logical pages.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where a logical page is.
    pub fn get(&self, lpn: u32) -> Place {
        let entry = self.entries[lpn as usize];
        debug_assert_ne!(entry, ABSENT, "the mapping page of LPN {lpn} is not in DRAM");
        decode(entry)
    }

    /// The entry of a logical page, if there is such a page, will be wanted soon.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        prefetch(&self.entries, lpn as usize);
    }

    /// Whether the entry of a logical page is in flash only.
    pub fn is_absent(&self, lpn: u32) -> bool {
        self.entries[lpn as usize] == ABSENT
    }

    /// Puts a logical page elsewhere; the answer is where it was.
    pub fn replace(&mut self, lpn: u32, place: Place) -> Place {
        let old = std::mem::replace(&mut self.entries[lpn as usize], encode(place));
        debug_assert_ne!(old, ABSENT, "the mapping page of LPN {lpn} is not in DRAM");
        decode(old)
    }

    /// The entries as they are stored in mapping pages.
    pub fn raw(&self) -> &[u32] {
        &self.entries
    }

    /// Fills entries from the bytes of a mapping page; those beyond the bytes are nowhere.
    pub(super) fn load(&mut self, lpns: std::ops::Range<u32>, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<4>();
        let end = self.entries.len().min(lpns.end as usize);
        for (at, entry) in self.entries[lpns.start as usize..end].iter_mut().enumerate() {
            *entry = words.get(at).map_or(NONE, |&word| u32::from_le_bytes(word));
        }
    }

    /// Entries of which nobody knows where they are, in whole.
    pub(super) fn lose(&mut self, lpns: std::ops::Range<u32>) {
        let end = self.entries.len().min(lpns.end as usize);
        self.entries[lpns.start as usize..end].fill(LOST);
    }

    /// Entries that are no longer in DRAM.
    pub(super) fn forget(&mut self, lpns: std::ops::Range<u32>) {
        let end = self.entries.len().min(lpns.end as usize);
        self.entries[lpns.start as usize..end].fill(ABSENT);
    }
}

const fn decode(entry: u32) -> Place {
    if entry == NONE {
        Place::None
    } else if entry == LOST {
        Place::Lost
    } else if entry & VIRTUAL != 0 {
        Place::Virtual(entry & !VIRTUAL)
    } else {
        Place::Own(entry)
    }
}

const fn encode(place: Place) -> u32 {
    match place {
        Place::None => NONE,
        Place::Own(ppn) => ppn,
        Place::Virtual(vpn) => vpn | VIRTUAL,
        Place::Lost => LOST,
    }
}

/// What a physical page holds that is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nothing: erased, or superseded.
    None,
    /// The data of this logical page alone.
    Data(u32),
    /// The data of this logical page, which is never shared: the host wants it kept as it is.
    Kept(u32),
    /// The data of the logical pages behind this virtual page.
    Shared(u32),
    /// The FTL's own page with this slot number.
    Meta(u32),
}

/// Owners in a line of a processor's cache.
pub(super) const OWNERS_PER_LINE: u32 = 16;

/// A sub-page that belongs to what begins before it.
const REST: u32 = u32::MAX - 1;
/// A sub-page at the end of a flash page that holds nothing, counted to what is before it.
const GAP: u32 = u32::MAX - 2;
const KIND: u32 = 0b11 << 30;
const SHARED: u32 = 0b01 << 30;
const META: u32 = 0b10 << 30;
/// With a number below those of [`NONE`], [`REST`] and [`GAP`].
const KEPT: u32 = 0b11 << 30;

/// The owner that an entry stands for.
#[inline]
const fn owner_of(entry: u32) -> Owner {
    if entry >= GAP {
        return Owner::None;
    }
    let number = entry & !KIND;
    match entry & KIND {
        0 => Owner::Data(number),
        SHARED => Owner::Shared(number),
        META => Owner::Meta(number),
        _ => Owner::Kept(number),
    }
}

/// PPN to owner; where flash pages are packed, place to owner: the owner of what begins there.
#[derive(Clone, Debug)]
pub struct Owners {
    entries: Vec<u32>,
}

impl Owners {
    /// All pages without owner.
    pub fn new(pages: u32) -> Self {
        Self { entries: table_of(pages as usize, NONE) }
    }

    /// The owner of a page.
    pub fn get(&self, ppn: u32) -> Owner {
        owner_of(self.entries[ppn as usize])
    }

    /// All places with their owners.
    pub fn all(&self) -> impl Iterator<Item = (u32, Owner)> {
        (0..).zip(self.entries.iter().map(|&entry| owner_of(entry)))
    }

    /// Gives a page an owner.
    pub fn set(&mut self, ppn: u32, owner: Owner) {
        self.entries[ppn as usize] = match owner {
            Owner::None => NONE,
            Owner::Data(lpn) => lpn,
            Owner::Kept(lpn) => lpn | KEPT,
            Owner::Shared(vpn) => vpn | SHARED,
            Owner::Meta(slot) => slot | META,
        };
    }

    /// The same for what takes `len` sub-pages, with a gap behind it.
    pub fn set_part(&mut self, place: u32, owner: Owner, len: u32, gap: u32) {
        self.set(place, owner);
        let at = place as usize;
        let (end, behind) = (at + len as usize, at + (len + gap) as usize);
        self.entries[at + 1..end].fill(REST);
        self.entries[end..behind].fill(GAP);
    }

    /// Sub-pages of what begins at a place, on flash pages of `subpages`, and of the gap behind it.
    pub fn part(&self, place: u32, subpages: u32) -> (u32, u32) {
        let end = (place / subpages + 1) * subpages;
        let rest = &self.entries[place as usize + 1..end as usize];
        let len = rest.iter().take_while(|&&entry| entry == REST).count();
        let gap = rest[len..].iter().take_while(|&&entry| entry == GAP).count();
        (len as u32 + 1, gap as u32)
    }

    /// Nobody owns what begins at a place any more; the answer is how many sub-pages that frees.
    #[inline]
    pub fn clear(&mut self, place: u32, subpages: u32) -> u32 {
        if subpages > 1 {
            return self.clear_part(place, subpages);
        }
        self.entries[place as usize] = NONE;
        1
    }

    /// The same on flash pages of several sub-pages: apart, so that drives which do not pack pay
    /// for a branch alone.
    #[inline(never)]
    fn clear_part(&mut self, place: u32, subpages: u32) -> u32 {
        let (len, gap) = self.part(place, subpages);
        self.entries[place as usize..(place + len + gap) as usize].fill(NONE);
        len + gap
    }

    /// The owner of a page will be wanted soon.
    #[inline]
    pub fn prefetch(&self, ppn: u32) {
        prefetch(&self.entries, ppn as usize);
    }

    /// Whether a page holds data that others may share.
    pub fn may_be_shared(&self, ppn: u32) -> bool {
        matches!(self.get(ppn), Owner::Data(_) | Owner::Shared(_))
    }

    /// The same; nothing for a place that is not one of the flash.
    #[inline]
    pub fn shareable(&self, place: u32) -> Option<bool> {
        let of = |owner| matches!(owner, Owner::Data(_) | Owner::Shared(_));
        self.entries.get(place as usize).map(|&entry| of(owner_of(entry)))
    }

    /// Whether a page holds something that is wanted.
    pub fn is_live(&self, ppn: u32) -> bool {
        self.entries[ppn as usize] < GAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_owners_come_back_as_they_went_in() {
        let mut map = PageMap::new(4);
        assert_eq!(map.replace(2, Place::Own(7)), Place::None);
        assert_eq!(map.replace(2, Place::Virtual(7)), Place::Own(7));
        assert_eq!(map.replace(2, Place::None), Place::Virtual(7));
        let mut owners = Owners::new(1);
        let all = [Owner::Data, Owner::Kept, Owner::Shared, Owner::Meta].map(|kind| kind(9));
        for owner in all.into_iter().chain([Owner::None]) {
            owners.set(0, owner);
            assert_eq!(owners.get(0), owner);
            let shareable = matches!(owner, Owner::Data(_) | Owner::Shared(_));
            assert_eq!(owners.may_be_shared(0), shareable);
            assert_eq!(owners.is_live(0), owner != Owner::None);
        }
    }

    #[test]
    fn what_is_cleared_frees_its_parts_and_the_gap_behind_it() {
        for (subpages, len, gap) in [(1, 1, 0), (2, 1, 0), (2, 1, 1), (2, 2, 0), (4, 2, 1)] {
            let mut owners = Owners::new(8);
            owners.set_part(4, Owner::Data(9), len, gap);
            assert_eq!(owners.part(4, subpages), (len, gap));
            assert_eq!(owners.clear(4, subpages), len + gap, "{len} and {gap} of {subpages}");
            assert!((0..8).all(|place| owners.get(place) == Owner::None));
            assert!(owners.entries.iter().all(|&entry| entry == NONE));
        }
    }
}
