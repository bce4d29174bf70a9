//! Mended pages written for good: every tree then refers to pages of the file alone.
//! Room: onefold-pool.
//! In: trees one after the other, each after the one that it was made from. Out: their roots, and
//! which of their blocks are lost or were had again.
//! Invariants: (1) for every distinct page there is at most one in its place, born when that one
//! was, so that what is shared stays shared and every page is the own of one tree; (2) a mended
//! page that says what the page of the tree before says at this place is that page, unless both say
//! that a block is lost and were two: what is one page is taken for alike, and that was not.
//! Cost: each distinct page is read once, and mended ones are written once.

use std::collections::HashMap;

use super::cursor::Missing;
use super::mended::{PageId, ROOT_SLOT, Visited, child};
use super::page::{
    ENTRIES_PER_PAGE, Page, PageKey, PageRef, REFERENCES_PER_PAGE, Words, raw_reference,
    set_reference,
};
use super::tree::Map;
use crate::error::PoolError;
use crate::pba::{MapEntry, RAW_LOST};

const LOST: PageRef = PageRef::Uniform(RAW_LOST);

/// Blocks of a leaf, as bits.
type Blocks = [u64; ENTRIES_PER_PAGE / 64];

/// What became of the pages of the trees so far.
pub struct Settled {
    /// What there is in the place of pages that changed.
    instead: HashMap<PageId, PageRef>,
    /// Pages that stay, with all below them.
    same: Visited,
    /// Slots of pages in or below which a block is lost or was had again, with those that were.
    told: HashMap<u32, Blocks>,
}

/// What a leaf tells.
struct Leaf {
    changed: bool,
    tells: bool,
    blocks: Blocks,
}

/// Let what makes no sense be lost, and find out which blocks are lost or were had again.
fn settle_leaf(key: PageKey, page: &mut Page, restored: WasRestored<'_>) -> Leaf {
    let mut leaf = Leaf { changed: false, tells: false, blocks: Blocks::default() };
    for (number, word) in page.iter_mut().enumerate() {
        let entry = MapEntry::from_raw(*word).unwrap_or(MapEntry::Lost);
        leaf.changed |= *word != entry.raw();
        *word = entry.raw();
        leaf.tells |= entry == MapEntry::Lost;
        if entry.pba().is_some() && restored(key.first_block() + number as u64) {
            leaf.tells = true;
            leaf.blocks[number / 64] |= 1 << (number % 64);
        }
    }
    leaf
}

/// How many blocks, or parts, of what is below a page are lost.
fn lost_in(page: &Page, level: u8) -> usize {
    match level {
        0 => page.iter().filter(|&&word| word == RAW_LOST).count(),
        _ => (0..REFERENCES_PER_PAGE)
            .filter(|&number| raw_reference(page, number) == LOST.raw())
            .count(),
    }
}

/// Which blocks of the tree that is being settled were had again.
pub type WasRestored<'a> = &'a dyn Fn(u64) -> bool;

impl Settled {
    /// Nothing is, in a file of so many slots.
    pub fn new(slots: u64) -> Self {
        Self { instead: HashMap::new(), same: Visited::new(slots), told: HashMap::new() }
    }

    fn had(&self, reference: PageRef) -> Blocks {
        let told = reference.place().and_then(|place| self.told.get(&place.slot));
        told.copied().unwrap_or_default()
    }

    fn tells(&self, reference: PageRef) -> bool {
        match reference {
            PageRef::Uniform(entry) => entry == RAW_LOST,
            PageRef::Stored { place, .. } => self.told.contains_key(&place.slot),
        }
    }
}

impl Map {
    /// Let a tree that is not dirty have pages of the file alone; that of `before`, from which it
    /// was made, has by now.
    pub fn settle(
        &self,
        (volume, before): (u32, u32),
        settled: &mut Settled,
        restored: WasRestored<'_>,
    ) -> Result<(), PoolError> {
        let tree = self.state().tree(volume)?;
        let key = PageKey::root(volume, tree.height);
        let beside = match self.state().tree(before) {
            Ok(before) if before.height == tree.height => before.root,
            _ => LOST,
        };
        let root = self.settle_page((key, tree.root, ROOT_SLOT), beside, settled, restored)?;
        let mut state = self.state();
        for key in state.cache.keys_of(volume) {
            state.cache.remove(key);
        }
        if let Some(tree) = state.trees.get_mut(&volume) {
            tree.root = root;
        }
        Ok(())
    }

    /// What is alike beside needs no look at what is below.
    fn settle_page(
        &self,
        (key, reference, above): (PageKey, PageRef, u32),
        beside: PageRef,
        settled: &mut Settled,
        restored: WasRestored<'_>,
    ) -> Result<PageRef, PoolError> {
        let PageRef::Stored { place, check } = reference else { return Ok(reference) };
        let missing = Missing { key, place, check };
        let id = PageId::of(&missing);
        if let Some(instead) = settled.instead.get(&id) {
            return Ok(*instead);
        }
        let mended = self.mended.remove(&id);
        if mended.is_none() && settled.same.has(&id) {
            return Ok(reference);
        }
        let mut changed = mended.is_some();
        let mut page = match mended.map_or_else(|| self.read_page(&missing), Ok) {
            Ok(page) => page,
            Err(error) if error.is_unreadable() => return Ok(LOST),
            Err(error) => return Err(error),
        };
        let next_to = match beside {
            PageRef::Stored { place, check } if beside != reference => {
                self.read_page(&Missing { key, place, check }).ok()
            }
            _ => None,
        };
        let (mut tells, mut blocks) = (false, Blocks::default());
        if key.level == 0 {
            let leaf = settle_leaf(key, &mut page, restored);
            (tells, blocks) = (leaf.tells, leaf.blocks);
            changed |= leaf.changed;
        } else {
            for number in 0..REFERENCES_PER_PAGE {
                let raw = raw_reference(&page, number);
                let below =
                    (child(key, number), PageRef::from_raw(raw).unwrap_or(LOST), place.slot);
                let beside = match &next_to {
                    Some(page) => PageRef::from_raw(raw_reference(page, number)).unwrap_or(LOST),
                    None => LOST,
                };
                let now = self.settle_page(below, beside, settled, restored)?;
                tells |= settled.tells(now);
                if now.raw() != raw {
                    set_reference(&mut page, number, now);
                    changed = true;
                }
            }
        }
        // Of which blocks of a leaf were had again is told by page.
        let next_to = next_to.filter(|_| settled.had(beside) == blocks);
        let now = if changed {
            self.write_mended(&page, (&missing, above), (next_to.as_deref(), beside))?
        } else {
            settled.same.first(id);
            reference
        };
        if tells && let Some(place) = now.place() {
            settled.told.entry(place.slot).or_insert(blocks);
        }
        if changed {
            settled.instead.insert(id, now);
        }
        Ok(now)
    }

    /// The page beside if it says the same and may be the same; else this one is written, or, where
    /// all of it is lost, no page at all.
    fn write_mended(
        &self,
        page: &Page,
        (missing, above): (&Missing, u32),
        (next_to, beside): (Option<&Page>, PageRef),
    ) -> Result<PageRef, PoolError> {
        let (level, birth) = (missing.key.level, missing.place.birth);
        let lost = lost_in(page, level);
        // Of leaves below a page that cannot be read nobody knows how many there were: these were
        // made, and have the place of the one above them, or that of no page as a root.
        let is_made = missing.place.slot == above;
        let may_be_one = lost == 0 || level == 0 && is_made;
        if next_to.is_some_and(|next_to| next_to == page) && may_be_one {
            return Ok(beside);
        }
        let words = if level == 0 { Words::Entries } else { Words::References };
        Ok(self.place(&[page], words, birth)?[0])
    }

    /// Hear of the blocks of a settled tree that are lost, or were had again, in order.
    pub fn told(
        &self,
        volume: u32,
        settled: &Settled,
        hear: &mut dyn FnMut(u64, u64, bool),
    ) -> Result<(), PoolError> {
        let tree = self.state().tree(volume)?;
        let key = PageKey::root(volume, tree.height);
        self.told_below((key, tree.root), tree.blocks, settled, hear)
    }

    fn told_below(
        &self,
        (key, reference): (PageKey, PageRef),
        blocks: u64,
        settled: &Settled,
        hear: &mut dyn FnMut(u64, u64, bool),
    ) -> Result<(), PoolError> {
        if !settled.tells(reference) || key.first_block() >= blocks {
            return Ok(());
        }
        let PageRef::Stored { place, check } = reference else {
            hear(key.first_block(), key.end_block().min(blocks) - key.first_block(), true);
            return Ok(());
        };
        let page = self.read_page(&Missing { key, place, check })?;
        if key.level > 0 {
            for number in 0..REFERENCES_PER_PAGE {
                let below = PageRef::from_raw(raw_reference(&page, number)).unwrap_or(LOST);
                self.told_below((child(key, number), below), blocks, settled, hear)?;
            }
            return Ok(());
        }
        let had = settled.had(reference);
        for (number, word) in page.iter().enumerate() {
            let block = key.first_block() + number as u64;
            let is_lost = *word == RAW_LOST;
            if block < blocks && (is_lost || had[number / 64] >> (number % 64) & 1 == 1) {
                hear(block, 1, is_lost);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder};

    use super::super::page::{Place, uniform_page};
    use super::*;
    use crate::pba::RAW_HOLE;

    fn write(map: &Map, level: u8, page: &Page, beside: Option<PageRef>) -> PageRef {
        write_below(map, level, page, (beside, 3))
    }

    /// The page above has this slot; that of the page is 9.
    fn write_below(
        map: &Map,
        level: u8,
        page: &Page,
        (beside, above): (Option<PageRef>, u32),
    ) -> PageRef {
        let place = Place { slot: 9, birth: 2 };
        let missing = Missing { key: PageKey { volume: 1, level, index: 0 }, place, check: 0 };
        let next_to = (beside.map(|_| page), beside.unwrap_or(LOST));
        map.write_mended(page, (&missing, above), next_to).unwrap()
    }

    #[test]
    fn a_mended_page_is_that_beside_if_nothing_is_lost_and_none_only_if_all_is() {
        let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
        for level in [0, 1] {
            let parts = [ENTRIES_PER_PAGE, REFERENCES_PER_PAGE][usize::from(level)];
            let lost: [&[usize]; 5] = [&[], &[0], &[parts - 1], &[0, 7], &[5]];
            for lost in lost {
                let mut page = uniform_page(level, RAW_HOLE);
                page[2] = 3 << 40;
                for &part in lost {
                    match level {
                        0 => page[part] = RAW_LOST,
                        _ => set_reference(&mut page, part, LOST),
                    }
                }
                let alone = write(&map, level, &page, None);
                let PageRef::Stored { place, check } = alone else { panic!("{lost:?}") };
                assert!(*map.read_slot(place, check).unwrap() == *page && place.birth == 2);
                let again = write(&map, level, &page, Some(alone));
                assert_eq!(again == alone, lost.is_empty(), "{lost:?} of level {level}");
                // Of a leaf that was made nobody knows whether there were two.
                let made = write_below(&map, level, &page, (Some(alone), 9));
                let may_be_one = lost.is_empty() || level == 0;
                assert_eq!(made == alone, may_be_one, "{lost:?} of level {level}, made");
            }
            assert_eq!(write(&map, level, &uniform_page(level, RAW_LOST), None), LOST);
        }
        // Every second block, which as references would say that all is lost.
        let mut page = uniform_page(0, RAW_HOLE);
        page.iter_mut().step_by(2).for_each(|word| *word = RAW_LOST);
        assert!(matches!(write(&map, 0, &page, None), PageRef::Stored { .. }));
    }
}
