//! An array of pages in the map file, copy-on-write like the maps of volumes.
//! Room: onefold-pool.
//! In: the pages that changed. Out: the reference to the root, for the checkpoint. The pages above
//! the leaves are in memory as references, less than 1/128 of what lies below, and nothing to speak
//! of where an array has no pages.
//! Invariants: (1) pages are never written in place; (2) a leaf without a number other than zero
//! has no page.

use super::page::{
    self, ENTRIES_PER_PAGE, PAGE_BYTES, Page, PageRef, Place, REFERENCES_PER_PAGE, Words,
};
use super::tree::Map;
use crate::error::PoolError;
use crate::pba::{RAW_HOLE, RAW_ZERO};
use crate::sparse::Sparse;

/// An absent page: all of it is zero.
const ABSENT: PageRef = PageRef::Uniform(RAW_HOLE);
/// What a reference that makes no sense is taken for: arrays have no pages of zeroes' entries.
pub const NO_PAGE: PageRef = PageRef::Uniform(RAW_ZERO);

/// The references to the pages of one level, those that there are.
#[derive(Debug, Default)]
pub struct Level {
    /// Pages that there is room for.
    len: usize,
    references: Sparse<PageRef>,
}

impl Level {
    /// The reference to a page.
    pub(super) fn get(&self, number: usize) -> PageRef {
        self.references.get(number).copied().unwrap_or(ABSENT)
    }

    /// Replace the reference to a page. Returns the former one.
    pub(super) fn replace(&mut self, number: usize, reference: PageRef) -> PageRef {
        debug_assert!(number < self.len, "there is room for it");
        let former = match reference {
            ABSENT => self.references.take(number),
            _ => self.references.put(number, reference),
        };
        former.unwrap_or(ABSENT)
    }
}

/// The references to all pages of an array.
#[derive(Debug)]
pub struct PageArray {
    /// By level, from the leaves up; the last has the root alone.
    pub(super) levels: Vec<Level>,
    /// Levels were added and are not written yet.
    pub(super) grown: bool,
}

/// Hears of each page of an array: the numbers of its leaves, and the leaf or why there is none.
/// An error that it returns ends the reading.
pub type Visit<'a> =
    &'a mut dyn FnMut(std::ops::Range<usize>, Result<&Page, PoolError>) -> Result<(), PoolError>;

/// What is to be read, and what it is called where it is damaged.
struct Reading<'a> {
    map: &'a Map,
    what: &'static str,
    visit: Visit<'a>,
}

impl PageArray {
    /// An array without pages.
    pub fn new() -> Self {
        Self { levels: vec![Level { len: 1, ..Level::default() }], grown: false }
    }

    /// Read all of an array of so many leaves.
    pub fn load(
        map: &Map,
        what: &'static str,
        (root, leaves): (PageRef, usize),
        visit: Visit<'_>,
    ) -> Result<Self, PoolError> {
        let mut array = Self::new();
        array.grow(leaves);
        array.grown = false;
        let top = array.levels.len() - 1;
        Reading { map, what, visit }.page(&mut array, (top, 0), root)?;
        Ok(array)
    }

    /// Leaves that there is room for.
    pub fn leaves(&self) -> usize {
        self.levels[0].len
    }

    pub(super) fn root(&self) -> PageRef {
        self.levels[self.levels.len() - 1].get(0)
    }

    /// Where its pages are, and what each is called.
    pub fn places(&self, what: &'static str) -> impl Iterator<Item = (Place, String)> {
        self.levels.iter().enumerate().flat_map(move |(level, references)| {
            let numbered = references.references.range(0..references.len);
            numbered.filter_map(move |(number, reference)| {
                Some((reference.place()?, format!("page {number} of level {level} of the {what}")))
            })
        })
    }

    /// Make room for so many leaves.
    pub(super) fn grow(&mut self, leaves: usize) {
        let mut needed = leaves.max(1);
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Level::default());
                self.grown = true;
            }
            needed = needed.max(self.levels[level].len);
            self.levels[level].len = needed;
            if needed == 1 && level + 1 == self.levels.len() {
                return;
            }
            needed = needed.div_ceil(REFERENCES_PER_PAGE);
        }
    }

    /// Write leaves that changed, in order, and all above them, for checkpoint `birth`. Returns the
    /// root. The map file is to be synced after it. What is replaced stays until the checkpoint is
    /// durable. After an error the same leaves must be written again.
    pub fn write(
        &mut self,
        map: &Map,
        leaves: usize,
        changed: &[(usize, Box<Page>)],
        birth: u64,
    ) -> Result<PageRef, PoolError> {
        self.grow(leaves);
        let mut numbers: Vec<usize> = changed.iter().map(|(number, _)| *number).collect();
        let leaves: Vec<&Page> = changed.iter().map(|(_, page)| &**page).collect();
        let mut placed = map.place(&leaves, Words::Numbers, birth)?;
        for level in 0..self.levels.len() {
            for (&number, &reference) in numbers.iter().zip(&placed) {
                map.release(self.levels[level].replace(number, reference));
            }
            if level + 1 == self.levels.len() {
                break;
            }
            // Of one that grew, what is above the first leaf as well: it may be new.
            let first = self.grown.then_some(0);
            numbers = numbers.iter().map(|number| number / REFERENCES_PER_PAGE).collect();
            numbers.splice(..0, first);
            numbers.dedup();
            let above: Vec<Box<Page>> = numbers.iter().map(|&n| self.above(level, n)).collect();
            let above: Vec<&Page> = above.iter().map(|page| &**page).collect();
            placed = map.place(&above, Words::References, birth)?;
        }
        self.grown = false;
        Ok(self.root())
    }

    /// The page with this number above a level.
    pub(super) fn above(&self, level: usize, number: usize) -> Box<Page> {
        let mut page = Box::new([RAW_HOLE; ENTRIES_PER_PAGE]);
        let first = number * REFERENCES_PER_PAGE;
        let below = self.levels[level].references.range(first..first + REFERENCES_PER_PAGE);
        for (number, reference) in below {
            page::set_reference(&mut page, number - first, *reference);
        }
        page
    }
}

impl Reading<'_> {
    fn page(
        &mut self,
        array: &mut PageArray,
        (level, number): (usize, usize),
        reference: PageRef,
    ) -> Result<(), PoolError> {
        let under = REFERENCES_PER_PAGE.pow(level as u32);
        let end = ((number + 1) * under).min(array.levels[0].len);
        let leaves = number * under..end;
        let PageRef::Stored { place, check } = reference else {
            if reference == ABSENT {
                return Ok(());
            }
            let error = self.corrupt(level, &leaves, 0, "the page above refers to no page");
            return (self.visit)(leaves, Err(error));
        };
        array.levels[level].replace(number, reference);
        let page = match self.map.read_slot(place, check) {
            Ok(page) => page,
            Err(PoolError::Corrupt { problem, .. }) => {
                let error = self.corrupt(level, &leaves, place.slot, &problem);
                return (self.visit)(leaves, Err(error));
            }
            Err(error) => return Err(error),
        };
        if level == 0 {
            return (self.visit)(leaves, Ok(&page));
        }
        let first = number * REFERENCES_PER_PAGE;
        let children = (array.levels[level - 1].len - first).min(REFERENCES_PER_PAGE);
        for child in 0..children {
            let reference = PageRef::from_raw(page::raw_reference(&page, child));
            let reference = reference.unwrap_or(NO_PAGE);
            self.page(array, (level - 1, first + child), reference)?;
        }
        Ok(())
    }

    fn corrupt(
        &self,
        level: usize,
        leaves: &std::ops::Range<usize>,
        slot: u32,
        problem: &str,
    ) -> PoolError {
        let what = format!(
            "map page of the {} (level {level}, leaves {}..{})",
            self.what, leaves.start, leaves.end
        );
        PoolError::corrupt(what, u64::from(slot) * PAGE_BYTES as u64, problem)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder, Media, SimFolder};

    use super::*;

    const WHAT: &str = "row of numbers";

    fn page(seed: u64) -> Box<Page> {
        let mut page = Box::new([0; ENTRIES_PER_PAGE]);
        page[(seed % 500) as usize] = seed;
        page
    }

    fn map(media: &std::sync::Arc<dyn Media>) -> Map {
        Map::new(std::sync::Arc::clone(media), 1 << 20, 1)
    }

    /// Numbers of leaves with their seeds, and what is damaged.
    fn found(
        media: &std::sync::Arc<dyn Media>,
        root: PageRef,
        leaves: usize,
    ) -> (Vec<(usize, u64)>, Vec<String>) {
        let (mut seeds, mut problems) = (Vec::new(), Vec::new());
        let mut visit = |numbers: std::ops::Range<usize>, page: Result<&Page, PoolError>| {
            match page {
                Ok(page) => seeds.push((numbers.start, page.iter().sum())),
                Err(error) => problems.push(error.to_string()),
            }
            Ok(())
        };
        PageArray::load(&map(media), WHAT, (root, leaves), &mut visit).unwrap();
        (seeds, problems)
    }

    #[test]
    fn what_is_above_several_leaves_that_changed_is_written_once() {
        let live = map(&SimFolder::new().create("map").unwrap());
        let mut array = PageArray::new();
        let leaves = [0, 1, 255, 256].map(|number| (number, page(number as u64 + 1)));
        array.write(&live, 400, &leaves, 1).unwrap();
        assert_eq!(live.stats().pages, 1 + 4 + 2 + 1, "header, leaves, those above, and the root");
    }

    #[test]
    fn an_array_grows_and_comes_back_and_damage_is_named_with_all_that_it_hides() {
        let media = SimFolder::new().create("map").unwrap();
        let live = map(&media);
        let mut array = PageArray::new();
        let mut model = std::collections::BTreeMap::new();
        let mut root = ABSENT;
        for (leaves, changed) in [
            (1, vec![0]),
            (400, vec![399]),
            (600, vec![]),
            (300_000, vec![0, 700, 299_999]),
            (300_000, vec![3]),
        ] {
            let seed = |&number: &usize| (number, (number + leaves) as u64);
            let changed: Vec<(usize, u64)> = changed.iter().map(seed).collect();
            model.extend(changed.iter().copied());
            let pages: Vec<_> = changed.iter().map(|&(n, seed)| (n, page(seed))).collect();
            root = array.write(&live, leaves, &pages, 1).unwrap();
            let expected: Vec<(usize, u64)> = model.iter().map(|(&n, &seed)| (n, seed)).collect();
            assert_eq!(found(&media, root, leaves), (expected, vec![]), "{leaves} leaves");
            if leaves == 400 {
                // Pages that refer to more than there should be.
                assert_eq!(found(&media, root, 300), (vec![(0, 1)], vec![]));
            }
        }
        // Leaf 3 went last, and above it two pages and the root.
        let pages = media.len().unwrap() / PAGE_BYTES as u64;
        for (back, hidden) in [(4, "leaves 3..4"), (3, "leaves 0..256"), (2, "leaves 0..65536")] {
            let at = (pages - back) * PAGE_BYTES as u64 + 7;
            let mut byte = [0];
            media.read(at, &mut byte).unwrap();
            media.write(at, &[byte[0] ^ 1]).unwrap();
            let (_, problems) = found(&media, root, 300_000);
            assert_eq!(problems.len(), 1, "{problems:?}");
            let named = problems[0].contains(WHAT) && problems[0].contains(hidden);
            assert!(named, "{problems:?}");
        }
        let (seeds, problems) = found(&media, PageRef::Uniform(1), 300_000);
        assert!(seeds.is_empty() && problems.len() == 1, "no such reference");
        let nowhere = problems[0].contains("at byte 0: the page above refers to no page");
        assert!(nowhere, "{problems:?}");
    }
}
