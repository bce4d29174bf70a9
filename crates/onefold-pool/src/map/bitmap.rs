//! Which slots of the map file are in use, as a checkpoint says it.
//! Room: onefold-pool.
//! In: the slots as they are once all other pages of a checkpoint are written. Out: the reference
//! to the root of an array with a bit per slot, for the checkpoint.
//! Invariants: (1) the bitmap of a checkpoint says of each slot whether a page of that checkpoint
//! is there, those of the bitmap among them; (2) nothing is given out or released between the
//! writing of the bitmap and the end of its checkpoint.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::array::PageArray;
use super::page::{
    ENTRIES_PER_PAGE, PAGE_BYTES, Page, PageRef, Place, REFERENCES_PER_PAGE, encode,
};
use super::slots::SLOTS_PER_PAGE;
use super::tree::Map;
use crate::error::PoolError;

/// Most pages of the bitmap, aside from those above: those of a map file of 16 TiB.
pub const BITMAP_PAGES_MAX: u32 = (u32::MAX / SLOTS_PER_PAGE as u32) + 1;

/// Pages written with one call.
const PAGES_PER_WRITE: usize = 64;

/// What the bitmap is called where it is damaged.
const WHAT: &str = "bitmap of slots";

/// Decides whether to go on without what is damaged.
pub type OnDamage<'a> = &'a mut dyn FnMut(PoolError) -> Result<(), PoolError>;

/// The pages of the bitmap.
#[derive(Debug)]
pub struct SlotBitmap {
    array: PageArray,
}

/// Pages to be written, as level and number, with their new slots.
type Planned = BTreeMap<(usize, usize), u32>;

impl SlotBitmap {
    /// None yet.
    pub fn new() -> Self {
        Self { array: PageArray::new() }
    }

    /// The bitmap that a checkpoint refers to, of so many pages, and its bits, as many as the map
    /// file has slots. A slot past the end of the file is damage.
    pub fn load(
        map: &Map,
        (root, pages): (PageRef, u32),
        on_damage: OnDamage<'_>,
    ) -> Result<(Self, Vec<u64>), PoolError> {
        let slots = map.file_slots()?;
        let mut bits = vec![0u64; slots.div_ceil(64) as usize];
        let mut visit = |numbers: std::ops::Range<usize>, page: Result<&Page, PoolError>| {
            let page = match page {
                Ok(page) => page,
                Err(error) => return on_damage(error),
            };
            let first = numbers.start * ENTRIES_PER_PAGE;
            for (at, &word) in (first..).zip(page).filter(|(_, word)| **word != 0) {
                let last = at as u64 * 64 + 63 - u64::from(word.leading_zeros());
                if last >= slots {
                    let problem = format!("it has slot {last} in use; the file ends after {slots}");
                    return on_damage(PoolError::corrupt(WHAT, last / 8, problem));
                }
                bits[at] = word;
            }
            Ok(())
        };
        let array = PageArray::load(map, WHAT, (root, pages as usize), &mut visit)?;
        Ok((Self { array }, bits))
    }

    /// Where its pages are, and what each is called.
    pub fn places(&self) -> impl Iterator<Item = (Place, String)> {
        self.array.places(WHAT)
    }

    /// Pages, aside from those above.
    pub fn pages(&self) -> u32 {
        self.array.leaves() as u32
    }

    /// Write what changed, for checkpoint `birth`, when all other pages of it are written. Returns
    /// the root. The map file is to be synced after it. After an error it is to be written again.
    pub fn write(&mut self, map: &Map, birth: u64) -> Result<PageRef, PoolError> {
        let planned = self.plan(map, birth);
        for level in 0..self.array.levels.len() {
            let of_level = planned.iter().filter(|((of, _), _)| *of == level);
            let of_level: Vec<(usize, u32)> = of_level.map(|(&(_, n), &slot)| (n, slot)).collect();
            for batch in of_level.chunks(PAGES_PER_WRITE) {
                self.write_batch(map, level, batch)?;
            }
        }
        map.state().slots.bitmap_is_written();
        self.array.grown = false;
        Ok(self.array.root())
    }

    /// Give each page that must be written a slot. As that changes the bitmap, it goes on until no
    /// other page has changed.
    fn plan(&mut self, map: &Map, birth: u64) -> Planned {
        let mut state = map.state();
        let slots = &mut state.slots;
        let mut planned = Planned::new();
        loop {
            let before = planned.len();
            self.array.grow(slots.bitmap_pages());
            let mut leaves = slots.changed();
            if self.array.grown {
                leaves.push(0);
            }
            for leaf in leaves {
                let mut number = leaf;
                for level in 0..self.array.levels.len() {
                    if let Entry::Vacant(page) = planned.entry((level, number)) {
                        let level = &mut self.array.levels[level];
                        if let Some(former) = level.get(number).place() {
                            slots.release(former.slot);
                        }
                        let slot = *page.insert(slots.allocate());
                        // Its checksum follows. Without it the page is written again.
                        let place = Place { slot, birth };
                        level.replace(number, PageRef::Stored { place, check: 0 });
                    }
                    number /= REFERENCES_PER_PAGE;
                }
            }
            if planned.len() == before {
                return planned;
            }
        }
    }

    fn write_batch(
        &mut self,
        map: &Map,
        level: usize,
        batch: &[(usize, u32)],
    ) -> Result<(), PoolError> {
        let mut bytes = Vec::with_capacity(batch.len() * PAGE_BYTES);
        for &(number, _) in batch {
            let page = match level {
                0 => map.state().slots.bitmap_page(number),
                _ => self.array.above(level - 1, number),
            };
            let from = bytes.len();
            encode(&page, &mut bytes);
            let level = &mut self.array.levels[level];
            if let Some(place) = level.get(number).place() {
                let check = crc32fast::hash(&bytes[from..]);
                level.replace(number, PageRef::Stored { place, check });
            }
        }
        let slots: Vec<u32> = batch.iter().map(|(_, slot)| *slot).collect();
        map.write_runs(&slots, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{Folder, Media, SimFolder};

    use super::*;
    use crate::map::slots::Slots;

    fn open(media: &Arc<dyn Media>) -> Map {
        Map::new(Arc::clone(media), 1 << 20, 9)
    }

    fn refused(error: PoolError) -> Result<(), PoolError> {
        Err(error)
    }

    /// The bits that a bitmap says, and what refers to its pages.
    fn loaded(media: &Arc<dyn Media>, root: PageRef, pages: u32) -> (Vec<u64>, Vec<u32>) {
        let map = open(media);
        let (bitmap, bits) = SlotBitmap::load(&map, (root, pages), &mut refused).unwrap();
        (bits, bitmap.places().map(|(place, _)| place.slot).collect())
    }

    #[test]
    fn a_bitmap_tells_of_its_own_pages_and_of_all_that_was_given_out() {
        let media = SimFolder::new().create("map").unwrap();
        let map = open(&media);
        let mut bitmap = SlotBitmap::new();
        let mut held: Vec<u32> = Vec::new();
        // Within a page, over the border of two, and so much that there is a page above.
        for (round, more) in [3, SLOTS_PER_PAGE, 5, 1].into_iter().enumerate() {
            {
                let mut state = map.state();
                for slot in held.drain(..held.len() / 3) {
                    state.slots.release(slot);
                }
                held.extend((0..more).map(|_| state.slots.allocate()));
            }
            let root = bitmap.write(&map, 2).unwrap();
            let end = u64::from(map.state().slots.end());
            media.set_len(end * PAGE_BYTES as u64).unwrap();
            let (bits, pages) = loaded(&media, root, bitmap.pages());
            let restored = Slots::restore(bits);
            let mut expected: Vec<u32> = [&[0], held.as_slice(), pages.as_slice()].concat();
            expected.sort_unstable();
            let found: Vec<u32> = (0..end as u32).filter(|&slot| restored.is_used(slot)).collect();
            assert_eq!(found, expected, "round {round}");
            let again = bitmap.write(&map, 3).unwrap();
            assert_eq!(again, root, "nothing changed since");
            map.state().slots.free_released();
        }
        assert_eq!(bitmap.pages(), 2);
    }

    #[test]
    fn after_a_failed_write_the_next_one_is_as_if_there_had_been_none() {
        let folder = SimFolder::new();
        let media = folder.create("map").unwrap();
        let map = open(&media);
        let mut bitmap = SlotBitmap::new();
        let slot = map.state().slots.allocate();
        folder.fail_once(&[onefold_block::OpKind::Write], 1, onefold_block::FaultKind::Eio);
        assert!(bitmap.write(&map, 2).is_err());
        let root = bitmap.write(&map, 2).unwrap();
        let (bits, pages) = loaded(&media, root, bitmap.pages());
        let used = [&[0, slot], pages.as_slice()].concat();
        assert_eq!(bits[0].count_ones() as usize, used.len());
        assert!(used.iter().all(|slot| bits[0] >> slot & 1 == 1), "{used:?} {bits:?}");
        map.state().slots.free_released();
        let state = map.state();
        assert_eq!(state.slots.used() as usize, used.len());
    }

    #[test]
    fn slots_past_the_end_of_the_file_are_named_and_take_no_memory() {
        let media = SimFolder::new().create("map").unwrap();
        let map = open(&media);
        let mut bitmap = SlotBitmap::new();
        let slot = {
            let mut state = map.state();
            (0..70).map(|_| state.slots.allocate()).last().unwrap()
        };
        let root = bitmap.write(&map, 2).unwrap();
        let pages = bitmap.pages();
        assert!(media.len().unwrap() > u64::from(slot) * PAGE_BYTES as u64);
        // The bitmap's page is where nothing is past it but itself.
        let place = root.place().unwrap();
        let mut page = vec![0; PAGE_BYTES];
        media.read(u64::from(place.slot) * PAGE_BYTES as u64, &mut page).unwrap();
        page[PAGE_BYTES - 1] = 1;
        media.write(u64::from(place.slot) * PAGE_BYTES as u64, &page).unwrap();
        let forged = PageRef::Stored { place, check: crc32fast::hash(&page) };
        let map = open(&media);
        for pages in [pages, BITMAP_PAGES_MAX] {
            let error = SlotBitmap::load(&map, (forged, pages), &mut refused).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("bitmap of slots"), "{pages}: {error}");
        }
        let error = SlotBitmap::load(&map, (forged, pages), &mut refused).unwrap_err().to_string();
        let said = "at byte 4095: it has slot 32760 in use; the file ends after 72";
        assert!(error.contains(said), "{error}");
    }
}
