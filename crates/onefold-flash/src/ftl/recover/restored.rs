//! What the newest checkpoint and the newest mapping pages say.
//! Room: onefold-flash.   In: the FTL's own pages that were found.   Out: the map as it was stored.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::recover::scan::{Found, Scan};
use crate::ftl::root::{OPEN, Root};
use crate::ftl::shared;
use crate::ftl::slots::Slots;
use crate::nand::{Nand, PageKey};

/// What was stored: the map itself is in the books.
pub(super) struct Restored {
    /// The sequence of the entries of each segment.
    pub since: Vec<u64>,
    /// The virtual table.
    pub virtual_pages: Vec<u32>,
}

impl Restored {
    /// Virtual pages from `first` on are as the bytes of a mapping page say.
    fn put_virtual(&mut self, first: usize, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<4>();
        let stored = &mut self.virtual_pages;
        stored.resize(stored.len().max(first + words.len()), shared::UNUSED);
        for (entry, &word) in stored[first..].iter_mut().zip(words) {
            *entry = u32::from_le_bytes(word);
        }
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    pub(super) fn newest_root(&mut self, scan: &Scan) -> Result<Root, FtlError> {
        let Some(found) = scan.newest_root() else {
            let message = "the array holds no drive: no root was found in it".to_owned();
            return Err(FtlError::Unrecoverable(message));
        };
        // An older root would bring back older data.
        let Some(bytes) = self.own_page(found.ppn)? else {
            return Err(FtlError::Unrecoverable(format!(
                "page {} with the root of the newest checkpoint (sequence {}) is damaged",
                self.layout.page_of(found.ppn),
                found.oob.seed
            )));
        };
        let root = Root::decode(&bytes).ok_or_else(|| {
            let page = self.layout.page_of(found.ppn);
            FtlError::Unrecoverable(format!("page {page} is no root, though marked as one"))
        })?;
        let expected = (self.settings.logical_pages, self.layout.geometry().pages());
        if (root.logical_pages, root.pages) != expected {
            return Err(FtlError::Unrecoverable(format!(
                "the drive has {} logical pages of {}, the settings say {} of {}",
                root.logical_pages, root.pages, expected.0, expected.1
            )));
        }
        if root.subpages != self.layout.subpages() {
            return Err(FtlError::Unrecoverable(format!(
                "the drive packs pages into {} sub-pages, the settings say {}",
                root.subpages,
                self.layout.subpages()
            )));
        }
        self.own.put(self.own.slots().root(), found.ppn);
        Ok(root)
    }

    /// Erase counts, which mapping pages there were, and the answer: which blocks were open at the
    /// root's sequence.
    pub(super) fn restore_states(
        &mut self,
        root: &Root,
        scan: &Scan,
    ) -> Result<Vec<bool>, FtlError> {
        let mut words = Vec::new();
        for index in 0..self.own.slots().states {
            let Some(found) = scan.newest_states(index, root.seq) else {
                let message = format!("page {index} of the block states is missing");
                return Err(FtlError::Unrecoverable(message));
            };
            self.own.put(self.own.slots().state(index, root.odd), found.ppn);
            let Some(bytes) = self.own_page(found.ppn)? else {
                let page = self.layout.page_of(found.ppn);
                let message = format!("page {page} with block states ({index}) is damaged");
                return Err(FtlError::Unrecoverable(message));
            };
            words.extend(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)));
        }
        let blocks = self.layout.geometry().blocks();
        let Some((states, segments)) = words.split_at_checked(blocks as usize) else {
            return Err(FtlError::Unrecoverable("the block states are too short".to_owned()));
        };
        for (block, &state) in (0..blocks).zip(states) {
            self.space.restore_erases(block, state & !OPEN);
        }
        self.books.segments_mut().restore(segments);
        Ok(states.iter().map(|state| state & OPEN != 0).collect())
    }

    /// Loads the newest mapping pages.
    pub(super) fn restore_segments(&mut self, scan: &mut Scan) -> Result<Restored, FtlError> {
        let slots = self.own.slots();
        let newest = newest_segments(slots, scan);
        let mut restored = Restored { since: Vec::new(), virtual_pages: Vec::new() };
        for segment in 0..slots.segments {
            let expected = self.books.segments().stored_at(segment);
            let found = newest[segment as usize].filter(|found| found.oob.seed >= expected);
            let bytes = match found {
                Some(found) => self.own_page(found.ppn)?,
                None => None,
            };
            let (Some(found), Some(bytes)) = (found, bytes) else {
                // What the page held is gone; what came after it is replayed.
                let held = found.map_or(expected, |found| found.oob.seed);
                if held > 0 && slots.is_of_map(segment) {
                    self.books.lose(segment);
                    scan.report.lost_entries += u64::from(slots.entries);
                }
                restored.since.push(held);
                if held > 0 {
                    // Kept until it is stored anew, so that no older page takes its place.
                    match found {
                        Some(found) => self.own.put(segment, found.ppn),
                        None => self.own.vacate(segment),
                    };
                    scan.lost_segments.push(segment);
                }
                continue;
            };
            self.books.segments_mut().found(segment, found.oob.seed);
            self.own.put(segment, found.ppn);
            restored.since.push(found.oob.seed);
            if slots.is_of_map(segment) {
                self.books.load(segment, &bytes);
            } else {
                let first = ((segment - slots.logical) * slots.entries) as usize;
                restored.put_virtual(first, &bytes);
            }
        }
        Ok(restored)
    }
}

/// The newest mapping page that was found of each segment.
fn newest_segments(slots: Slots, scan: &Scan) -> Vec<Option<Found>> {
    let mut newest: Vec<Option<Found>> = vec![None; slots.segments as usize];
    for found in &scan.meta {
        if let PageKey::Map(segment) = found.oob.key
            && segment < slots.segments
        {
            let best = &mut newest[segment as usize];
            let age = |found: &Found| (found.oob.seed, found.oob.seq);
            if best.is_none_or(|best| age(&best) < age(found)) {
                *best = Some(*found);
            }
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Oob;
    use crate::testing::plane::plane;

    #[test]
    fn the_newest_page_of_each_segment_counts_and_those_of_none_do_not() {
        let slots = Slots::new(&plane(8, 4), 300);
        let last = slots.segments - 1;
        let mut scan = Scan::new(8);
        // What it holds is as new as its seed; of equal ones the one that was moved last counts.
        for (ppn, segment, seed, seq) in [
            (1, 0, 5, 9),
            (2, 0, 5, 8),
            (3, 0, 4, 10),
            (4, last, 0, 1),
            (5, last + 1, 7, 11),
            (6, u32::MAX, 7, 12),
        ] {
            let oob = Oob { key: PageKey::Map(segment), seq, seed, tag: 0 };
            scan.meta.push(Found { ppn, oob });
        }
        let newest = newest_segments(slots, &scan);
        let places: Vec<Option<u32>> = newest.iter().map(|one| one.map(|one| one.ppn)).collect();
        let mut expected = vec![None; slots.segments as usize];
        (expected[0], expected[last as usize]) = (Some(1), Some(4));
        assert_eq!(places, expected);
    }
}
