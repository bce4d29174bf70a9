//! Pages that a repair has in memory in the place of those that are damaged or lead nowhere.
//! Room: onefold-pool.
//! In: trees, and who mends a leaf. Out: pages under the names of those that they stand for.
//! Invariant: whoever refers to a page that was mended has the mended one, however many these are.
//! Who mends visits it once, with the one tree whose own it is: so what trees share stays shared.
//! A page that is made where none was has a name that no page has: the place of the one above it,
//! which is at another level, and the other bits of that one's checksum.
//! Cost: memory for the pages that change; each distinct page is read once.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

use super::cursor::{Missing, View};
use super::page::{
    self, ENTRIES_PER_PAGE, Page, PageKey, PageRef, Place, REFERENCES_PER_PAGE, raw_reference,
    set_reference, uniform_page,
};
use super::tree::Map;
use crate::error::PoolError;
use crate::pba::{MapEntry, RAW_HOLE, RAW_LOST};

/// Above all slots that a map can have: the root of a tree that had none.
pub(super) const ROOT_SLOT: u32 = u32::MAX - 1;

const LOST: PageRef = PageRef::Uniform(RAW_LOST);
const HOLE: PageRef = PageRef::Uniform(RAW_HOLE);

/// Which page, whoever refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageId {
    level: u8,
    index: u64,
    slot: u32,
    birth: u64,
    check: u32,
}

impl PageId {
    pub(super) const fn of(missing: &Missing) -> Self {
        let Missing { key, place, check } = missing;
        Self {
            level: key.level,
            index: key.index,
            slot: place.slot,
            birth: place.birth,
            check: *check,
        }
    }
}

/// The pages, by what they stand for.
#[derive(Default)]
pub(super) struct Mended(RwLock<HashMap<PageId, Box<Page>>>);

impl Mended {
    pub(super) fn get(&self, missing: &Missing) -> Option<Box<Page>> {
        let pages = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if pages.is_empty() { None } else { pages.get(&PageId::of(missing)).cloned() }
    }

    fn insert(&self, id: PageId, page: Box<Page>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id, page);
    }

    pub(super) fn remove(&self, id: &PageId) -> Option<Box<Page>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    fn has(&self, id: &PageId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

/// Pages that a pass has visited.
#[derive(Default)]
pub struct Visited {
    /// Slots within the file.
    slots: Vec<u64>,
    /// Others, and mended pages.
    others: HashSet<PageId>,
}

impl Visited {
    /// None yet of a file of so many slots.
    pub fn new(slots: u64) -> Self {
        Self { slots: vec![0; slots.div_ceil(64) as usize], others: HashSet::new() }
    }

    /// Whether this is the first time, of a page that was not mended.
    pub(super) fn first(&mut self, id: PageId) -> bool {
        let bit = 1 << (id.slot % 64);
        let Some(word) = self.slots.get_mut(id.slot as usize / 64) else {
            return self.others.insert(id);
        };
        let newly = *word & bit == 0;
        *word |= bit;
        newly
    }

    pub(super) fn has(&self, id: &PageId) -> bool {
        let bit = 1 << (id.slot % 64);
        let Some(word) = self.slots.get(id.slot as usize / 64) else {
            return self.others.contains(id);
        };
        *word & bit != 0
    }
}

/// Looks at the leaves that a pass visits.
pub trait Mender {
    /// Whether an entry may stay; it is lost otherwise.
    fn may_stay(&mut self, entry: MapEntry) -> bool;
    /// These blocks are lost.
    fn lost(&mut self, first: u64, count: u64);
}

/// A child of the page with this key.
pub(super) const fn child(key: PageKey, number: usize) -> PageKey {
    let index = key.index * REFERENCES_PER_PAGE as u64 + number as u64;
    PageKey { level: key.level - 1, index, ..key }
}

/// A page that was made below the one at `above`.
const fn made_below(key: PageKey, above: &Missing) -> Missing {
    Missing { key, place: above.place, check: !above.check }
}

const fn stored(missing: &Missing) -> PageRef {
    PageRef::Stored { place: missing.place, check: missing.check }
}

impl Map {
    /// Let what is in memory and not dirty be read again.
    pub fn forget_clean(&self) {
        let mut state = self.state();
        let numbers: Vec<u32> = state.trees.keys().copied().collect();
        for volume in numbers {
            for key in state.cache.keys_of(volume) {
                if state.cache.get(key).is_some_and(|frame| !frame.is_pinned()) {
                    state.cache.remove(key);
                }
            }
        }
    }

    /// Visit the pages of a tree that no tree before it has, and let be lost what cannot be had.
    pub fn mend(
        &self,
        volume: u32,
        visited: &mut Visited,
        mender: &mut dyn Mender,
    ) -> Result<(), PoolError> {
        let tree = self.state().tree(volume)?;
        let key = PageKey::root(volume, tree.height);
        self.mend_page(key, tree.root, tree.blocks, (visited, mender))
    }

    fn mend_page(
        &self,
        key: PageKey,
        reference: PageRef,
        blocks: u64,
        (visited, mender): (&mut Visited, &mut dyn Mender),
    ) -> Result<(), PoolError> {
        let (place, check) = match reference {
            PageRef::Stored { place, check } => (place, check),
            PageRef::Uniform(entry) => {
                if entry == RAW_LOST && key.first_block() < blocks {
                    let count = key.end_block().min(blocks) - key.first_block();
                    mender.lost(key.first_block(), count);
                }
                return Ok(());
            }
        };
        let missing = Missing { key, place, check };
        let id = PageId::of(&missing);
        let is_mended = self.mended.has(&id);
        if !(if is_mended { visited.others.insert(id) } else { visited.first(id) }) {
            return Ok(());
        }
        let (mut page, mut changed) = match self.read_page(&missing) {
            Ok(page) => (page, false),
            Err(error) if error.is_unreadable() => (all_lost(key, blocks), true),
            Err(error) => return Err(error),
        };
        if key.level == 0 {
            for (block, word) in (key.first_block()..).zip(page.iter_mut()) {
                let entry = MapEntry::from_raw(*word).unwrap_or(MapEntry::Lost);
                let stays = entry == MapEntry::Lost || mender.may_stay(entry);
                let entry = if stays { entry } else { MapEntry::Lost };
                changed |= *word != entry.raw();
                *word = entry.raw();
                if entry == MapEntry::Lost && block < blocks {
                    mender.lost(block, 1);
                }
            }
        } else {
            for number in 0..REFERENCES_PER_PAGE {
                if PageRef::from_raw(raw_reference(&page, number)).is_none() {
                    set_reference(&mut page, number, LOST);
                    changed = true;
                }
            }
        }
        if changed {
            self.mended.insert(id, page.clone());
            visited.others.insert(id);
        }
        for number in 0..if key.level > 0 { REFERENCES_PER_PAGE } else { 0 } {
            let reference = PageRef::from_raw(raw_reference(&page, number)).unwrap_or(LOST);
            self.mend_page(child(key, number), reference, blocks, (visited, mender))?;
        }
        Ok(())
    }

    /// Change a leaf of a tree in memory, and with it that of all who share it. Where the tree has
    /// no page, one is made, with a root that was born with checkpoint `birth` if need be.
    pub fn change_mended(
        &self,
        volume: u32,
        (leaf, birth): (u64, u64),
        change: &mut dyn FnMut(&mut Page) -> bool,
    ) -> Result<(), PoolError> {
        let tree = self.state().tree(volume)?;
        let leaf = PageKey::leaf(volume, leaf);
        let mut key = PageKey::root(volume, tree.height);
        let mut at = match tree.root {
            PageRef::Stored { place, check } => Missing { key, place, check },
            PageRef::Uniform(entry) => {
                let place = Place { slot: ROOT_SLOT, birth };
                let made = Missing { key, place, check: volume };
                self.mended.insert(PageId::of(&made), uniform_page(key.level, entry));
                if let Some(tree) = self.state().trees.get_mut(&volume) {
                    tree.root = stored(&made);
                }
                made
            }
        };
        loop {
            let mut page = match self.read_page(&at) {
                Ok(page) => page,
                Err(error) if error.is_unreadable() => all_lost(key, tree.blocks),
                Err(error) => return Err(error),
            };
            if key.level == 0 {
                if change(&mut page) {
                    self.mended.insert(PageId::of(&at), page);
                }
                return Ok(());
            }
            key = leaf.ancestor(key.level - 1);
            let (_, number) = key.parent();
            at = match PageRef::from_raw(raw_reference(&page, number)).unwrap_or(LOST) {
                PageRef::Stored { place, check } => Missing { key, place, check },
                PageRef::Uniform(entry) => {
                    let made = made_below(key, &at);
                    self.mended.insert(PageId::of(&made), uniform_page(key.level, entry));
                    set_reference(&mut page, number, stored(&made));
                    self.mended.insert(PageId::of(&at), page);
                    made
                }
            };
        }
    }

    /// Let each page above the leaves that is a tree's own and cannot be read have again what those
    /// have unchanged that were made from it, and those that were made from these. `heirs` says who
    /// that is; they come before.
    pub fn salvage(&self, volume: u32, heirs: &dyn Fn(u32) -> Vec<u32>) -> Result<(), PoolError> {
        let tree = self.state().tree(volume)?;
        let mut ahead = vec![(PageKey::root(volume, tree.height), tree.root)];
        while let Some((key, reference)) = ahead.pop() {
            let PageRef::Stored { place, check } = reference else { continue };
            let missing = Missing { key, place, check };
            if key.level == 0 || place.birth <= tree.shared_at(key) {
                continue;
            }
            let page = match self.read_page(&missing) {
                Ok(page) => page,
                Err(error) if error.is_unreadable() => {
                    let page = self.salvaged(&missing, tree.blocks, heirs)?;
                    self.mended.insert(PageId::of(&missing), page.clone());
                    page
                }
                Err(error) => return Err(error),
            };
            ahead.extend((0..REFERENCES_PER_PAGE).filter_map(|number| {
                let reference = PageRef::from_raw(raw_reference(&page, number))?;
                Some((child(key, number), reference))
            }));
        }
        Ok(())
    }

    fn salvaged(
        &self,
        missing: &Missing,
        blocks: u64,
        heirs: &dyn Fn(u32) -> Vec<u32>,
    ) -> Result<Box<Page>, PoolError> {
        let key = missing.key;
        let mut page = all_lost(key, blocks);
        // Whoever has this very page has what cannot be read; those made from them may not.
        let (mut with, mut ahead) = (Vec::new(), heirs(key.volume));
        while let Some(heir) = ahead.pop() {
            match self.reference_at(key.of(heir))? {
                Some(same) if same == stored(missing) => ahead.extend(heirs(heir)),
                Some(PageRef::Stored { .. }) => with.push(heir),
                _ => {}
            }
        }
        if with.is_empty() {
            return Ok(page);
        }
        for number in 0..REFERENCES_PER_PAGE {
            let below = child(key, number);
            if below.first_block() < blocks {
                let found = self.shared_by(&with, below, missing)?;
                set_reference(&mut page, number, found);
            }
        }
        Ok(page)
    }

    /// What these trees say was at this place below a page that cannot be read.
    fn shared_by(&self, with: &[u32], key: PageKey, above: &Missing) -> Result<PageRef, PoolError> {
        let mut own = Vec::new();
        for &heir in with {
            let Some(reference) = self.reference_at(key.of(heir))? else { continue };
            let Some(place) = reference.place() else { continue };
            let shared = self.state().tree(heir)?.shared_at(key);
            if place.birth <= shared.min(above.place.birth) {
                return Ok(reference);
            }
            own.push(heir);
        }
        if key.level == 0 || own.is_empty() {
            return Ok(LOST);
        }
        let made = made_below(key, above);
        let mut page = uniform_page(key.level, RAW_LOST);
        for number in 0..REFERENCES_PER_PAGE {
            set_reference(&mut page, number, self.shared_by(&own, child(key, number), &made)?);
        }
        if page::uniform(&page, page::Words::References).is_some() {
            return Ok(LOST);
        }
        self.mended.insert(PageId::of(&made), page);
        Ok(stored(&made))
    }

    /// How a tree has a page; `None` if it is not there, or what is above it cannot be read.
    fn reference_at(&self, key: PageKey) -> Result<Option<PageRef>, PoolError> {
        match self.state().tree(key.volume) {
            Ok(tree) if tree.height >= key.level => {}
            _ => return Ok(None),
        }
        match self.seen(key) {
            Ok(View::At(reference)) => Ok(Some(reference)),
            Ok(_) => Ok(None),
            Err(error) if error.is_unreadable() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A page of which nothing is known but that nothing is past the end of its tree.
fn all_lost(key: PageKey, blocks: u64) -> Box<Page> {
    let mut page = uniform_page(key.level, RAW_LOST);
    if key.level == 0 {
        let within = blocks.saturating_sub(key.first_block()).min(ENTRIES_PER_PAGE as u64);
        page[within as usize..].fill(RAW_HOLE);
    } else {
        for number in (0..REFERENCES_PER_PAGE).rev() {
            if child(key, number).first_block() < blocks {
                break;
            }
            set_reference(&mut page, number, HOLE);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_that_is_lost_what_lies_past_the_end_of_its_tree_is_not() {
        for (blocks, lost) in [(1, 1), (3 * 512, 3), (3 * 512 + 1, 4), (300 * 512, 256)] {
            let page = all_lost(PageKey { volume: 1, level: 1, index: 0 }, blocks);
            for number in 0..REFERENCES_PER_PAGE {
                let found = PageRef::from_raw(raw_reference(&page, number));
                assert_eq!(found, Some(if number < lost { LOST } else { HOLE }), "{blocks} blocks");
            }
        }
        let past = all_lost(PageKey { volume: 1, level: 1, index: 1 }, 7);
        assert!(*past == *uniform_page(1, RAW_HOLE), "all of it");
        let leaf = all_lost(PageKey::leaf(1, 600), 700);
        assert!(leaf[..188].iter().all(|&raw| raw == RAW_LOST));
        assert!(leaf[188..].iter().all(|&raw| raw == RAW_HOLE));
    }
}
