//! The books: where each logical page is, whose each place is, and who shares.
//! Room: onefold-flash.   In: changes, one at a time, with their sequence.   Out: what they free.
//! Invariants: (1) the map and the owners are inverse; (2) references of a virtual page = map
//! entries that name it; (3) a segment whose entries change is noted as changed.
//! Cost: see `map` and `shared`.

use crate::ftl::layout::Layout;
use crate::ftl::map::{OWNERS_PER_LINE, Owner, Owners, PageMap, Place};
use crate::ftl::segments::Segments;
use crate::ftl::shared::VirtualTable;
use crate::nand::Nand;

/// Map, owners and virtual pages.
#[derive(Debug)]
pub(super) struct Books<N> {
    layout: Layout<N>,
    map: PageMap,
    owners: Owners,
    shared: VirtualTable,
    segments: Segments,
}

impl<N: Nand> Books<N> {
    /// The books of an empty drive.
    pub fn new(layout: Layout<N>, logical_pages: u32, segments: Segments) -> Self {
        Self {
            layout,
            map: PageMap::new(logical_pages),
            owners: Owners::new(layout.places()),
            shared: VirtualTable::default(),
            segments,
        }
    }

    /// Logical pages.
    #[inline]
    pub fn logical_pages(&self) -> u32 {
        self.map.len()
    }

    /// The entry of a logical page, which must be in DRAM.
    #[inline]
    pub fn entry(&self, lpn: u32) -> Place {
        self.map.get(lpn)
    }

    /// The place of a logical page whose entry is in DRAM.
    #[inline]
    pub fn locate(&self, lpn: u32) -> Option<u32> {
        match self.map.get(lpn) {
            Place::None | Place::Lost => None,
            Place::Own(place) => Some(place),
            Place::Virtual(vpn) => Some(self.shared.ppn(vpn)),
        }
    }

    /// The same; nothing if the entry is in flash only.
    #[inline]
    pub fn locate_known(&self, lpn: u32) -> Option<u32> {
        if self.map.is_absent(lpn) { None } else { self.locate(lpn) }
    }

    /// The place that a logical page has for itself, as far as is known in DRAM.
    #[inline]
    pub fn own_place(&self, lpn: u32) -> Option<u32> {
        if !self.map.is_absent(lpn)
            && let Place::Own(place) = self.map.get(lpn)
        {
            return Some(place);
        }
        None
    }

    /// The owner of what begins at a place.
    #[inline]
    pub fn owner(&self, place: u32) -> Owner {
        self.owners.get(place)
    }

    /// Sub-pages of what begins at a place, and of the gap behind it.
    #[inline]
    pub fn part(&self, place: u32) -> (u32, u32) {
        self.owners.part(place, self.layout.subpages())
    }

    /// Whether a place holds one of the compressed pages of a flash page.
    #[inline]
    pub fn is_fragment(&self, place: u32) -> bool {
        self.layout.packs() && self.part(place).0 < self.layout.subpages()
    }

    /// Whether a place holds something that is wanted.
    #[inline]
    pub fn is_live(&self, place: u32) -> bool {
        self.owners.is_live(place)
    }

    /// Whether a place holds data that others may share.
    #[inline]
    pub fn may_be_shared(&self, place: u32) -> bool {
        self.owners.may_be_shared(place)
    }

    /// The same; nothing for a place that is not one of the flash.
    #[inline]
    pub fn shareable(&self, place: u32) -> Option<bool> {
        self.owners.shareable(place)
    }

    /// Whether a place holds data that is never shared, because the host wants it kept.
    #[inline]
    pub fn is_kept(&self, place: u32) -> bool {
        matches!(self.owners.get(place), Owner::Kept(_))
    }

    /// The virtual pages.
    #[inline]
    pub fn shared(&self) -> &VirtualTable {
        &self.shared
    }

    /// The entry of a logical page, if there is such a page, will be wanted soon.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.map.prefetch(lpn);
    }

    /// The owner of a place will be wanted soon.
    #[inline]
    pub fn prefetch_owner(&self, place: u32) {
        self.owners.prefetch(place);
    }

    /// The owners behind a place will be wanted soon, if those of a line of a processor's cache
    /// begin there.
    #[inline]
    pub fn prefetch_behind(&self, place: u32) {
        if place.is_multiple_of(OWNERS_PER_LINE) {
            self.owners.prefetch(place + OWNERS_PER_LINE);
        }
    }

    /// Puts a logical page elsewhere; the answer is where it was.
    #[inline]
    pub fn set(&mut self, lpn: u32, place: Place, seq: u64) -> Place {
        self.segments.note(lpn, seq);
        self.map.replace(lpn, place)
    }

    /// A programmed flash page that is not divided has an owner now.
    #[inline]
    pub fn settle(&mut self, place: u32, owner: Owner) {
        self.owners.set(place, owner);
        self.prefetch_behind(place);
    }

    /// What takes `len` sub-pages of a programmed page has an owner now, and the gap behind it.
    pub fn settle_part(&mut self, place: u32, owner: Owner, len: u32, gap: u32) {
        self.owners.set_part(place, owner, len, gap);
        self.prefetch_behind(place);
    }

    /// Nobody owns what begins at a place any more; the answer is how many sub-pages that frees.
    #[inline]
    pub fn clear(&mut self, place: u32) -> u32 {
        self.owners.clear(place, self.layout.subpages())
    }

    /// The host wants kept what a logical page has at a place.
    pub fn keep(&mut self, place: u32, lpn: u32) {
        self.owners.set(place, Owner::Kept(lpn));
    }

    /// A virtual page for what is at a place, which nobody names yet.
    pub fn new_virtual(&mut self, place: u32) -> u32 {
        self.shared.allocate(place)
    }

    /// What a logical page had for itself at a place is behind a virtual page from now on.
    pub fn turn_virtual(&mut self, lpn: u32, vpn: u32, place: u32, seq: u64) {
        self.segments.note_virtual(vpn, seq);
        self.refer(lpn, vpn, seq);
        self.owners.set(place, Owner::Shared(vpn));
    }

    /// One more logical page refers to a virtual page; the answer is where it was.
    pub fn refer(&mut self, lpn: u32, vpn: u32, seq: u64) -> Place {
        self.shared.acquire(vpn);
        self.set(lpn, Place::Virtual(vpn), seq)
    }

    /// A reference to a virtual page is gone; the place that nobody wants any more, if it was the
    /// last one.
    pub fn release(&mut self, vpn: u32) -> Option<u32> {
        self.shared.release(vpn)
    }

    /// A virtual page is elsewhere from now on.
    #[inline]
    pub fn relocate(&mut self, vpn: u32, place: u32, seq: u64) {
        self.shared.relocate(vpn, place);
        self.segments.note_virtual(vpn, seq);
    }

    /// The same, at a place that another owner had.
    pub fn take_over(&mut self, vpn: u32, place: u32, seq: u64) {
        self.relocate(vpn, place, seq);
        self.owners.set(place, Owner::Shared(vpn));
    }

    /// A virtual page is an alias of another one from now on, which is at a place.
    pub fn unite(&mut self, vpn: u32, of: u32, place: u32, seq: u64) {
        self.take_over(of, place, seq);
        self.shared.alias(vpn, of);
        self.segments.note_virtual(vpn, seq);
    }

    /// What freed virtual pages is durable.
    pub fn synced(&mut self) {
        self.shared.synced();
    }

    /// Which mapping pages hold what the map says.
    #[inline]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The same, for recovery and for whoever stores and loads them.
    pub fn segments_mut(&mut self) -> &mut Segments {
        &mut self.segments
    }

    /// A segment as its mapping page stores it.
    pub fn segment_bytes(&self, segment: u32) -> Vec<u8> {
        let slots = self.segments.slots();
        let mut bytes = Vec::with_capacity(slots.entries as usize * 4);
        if slots.is_of_map(segment) {
            let raw = self.map.raw();
            let lpns = slots.lpns(segment);
            let end = raw.len().min(lpns.end as usize);
            for entry in &raw[lpns.start as usize..end] {
                bytes.extend(entry.to_le_bytes());
            }
        } else {
            for vpn in slots.lpns(segment - slots.logical) {
                bytes.extend(self.shared.stored(vpn).to_le_bytes());
            }
        }
        bytes
    }

    /// Fills a segment of the map from the bytes of its mapping page.
    pub fn load(&mut self, segment: u32, bytes: &[u8]) {
        self.map.load(self.segments.slots().lpns(segment), bytes);
    }

    /// Nobody knows where the pages of a segment of the map are, as long as no page has an owner.
    pub fn lose(&mut self, segment: u32) {
        self.map.lose(self.segments.slots().lpns(segment));
    }

    /// The mapping page of a segment of the map cannot be read any more. What has an owner is where
    /// that says; nobody knows where the other pages are. Without that an owner would put its page
    /// back there when collection moves it, whatever was written since.
    ///
    /// Cost: a look at each place of the drive.
    pub fn lose_all_but_owned(&mut self, segment: u32) {
        self.lose(segment);
        let lpns = self.segments.slots().lpns(segment);
        for (place, owner) in self.owners.all() {
            if let Owner::Data(lpn) | Owner::Kept(lpn) = owner
                && lpns.contains(&lpn)
            {
                self.map.replace(lpn, Place::Own(place));
            }
        }
    }

    /// A segment of the map is in flash only from now on.
    pub fn forget(&mut self, segment: u32) {
        self.map.forget(self.segments.slots().lpns(segment));
    }

    /// Takes the virtual table that was stored; the answer is which of those that the map names
    /// stand for nothing.
    pub fn restore_virtual(&mut self, stored: &[u32], names: &[u32]) -> Vec<u32> {
        let (table, lost) = VirtualTable::recovered(stored, names);
        self.shared = table;
        lost
    }
}
