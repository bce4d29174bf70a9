//! What the map file's slots are used for, held against what the bitmap of slots says.
//! Room: onefold-pool.
//! Opening looks at the pages that it reads anyway and at the roots of volumes, so that what it
//! costs does not grow with the maps; a check looks at all pages.
//! Invariant: a page in a slot that is free, in one that another page claims, or past the end of
//! the file is damage; a slot in use that no page is in is a leak, and costs its 4 KiB.

use crate::check::CheckReport;
use crate::container::table;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::superblock::Superblock;
use crate::map::{NO_PAGE, NO_SNAPSHOT, PAGE_BYTES, PageArray, PageRef, Place, Root, SlotBitmap};
use crate::open;

/// Bits of slots, and which of these were seen in use.
pub struct Uses {
    bits: Vec<u64>,
    seen: Vec<u64>,
    /// The checkpoint that says so.
    sequence: u64,
}

/// The root and the pages of the bitmap of a checkpoint.
pub fn bitmap_of(superblock: &Superblock) -> (PageRef, u32) {
    // Where it refers to no page, the bitmap's reader says so.
    (PageRef::from_raw(superblock.slots).unwrap_or(NO_PAGE), superblock.slot_pages)
}

impl Uses {
    /// Nothing seen yet of checkpoint `sequence`.
    pub fn new(bits: Vec<u64>, sequence: u64) -> Self {
        Self { seen: vec![0; bits.len()], bits, sequence }
    }

    /// What the bitmap says.
    pub fn into_bits(self) -> Vec<u64> {
        self.bits
    }

    /// A page is at this place; or why none can be.
    fn see(&mut self, place: Place) -> Result<(), &'static str> {
        if place.birth > self.sequence {
            return Err("it is said to be younger than the checkpoint");
        }
        let (word, bit) = (place.slot as usize / 64, 1u64 << (place.slot % 64));
        let Some(bits) = self.bits.get(word) else { return Err("the file ends before its slot") };
        if bits & bit == 0 {
            return Err("the bitmap of slots says that its slot is free");
        }
        if self.seen[word] & bit != 0 {
            return Err("another page claims the same slot");
        }
        self.seen[word] |= bit;
        Ok(())
    }

    fn see_all(
        &mut self,
        places: impl Iterator<Item = (Place, String)>,
    ) -> impl Iterator<Item = PoolError> {
        places.filter_map(move |(place, what)| {
            let problem = self.see(place).err()?;
            Some(PoolError::corrupt(what, at(place), problem))
        })
    }

    /// Refuse damage that shows without reading more than what is read anyway.
    pub fn refuse_damage_at_top(
        &mut self,
        superblock: &Superblock,
        table: &PageArray,
        slots: &SlotBitmap,
    ) -> Result<(), PoolError> {
        let births = superblock.births();
        let roots = superblock.volumes.iter().filter_map(|volume| {
            let place = PageRef::from_raw(volume.root)?.place()?;
            // Of several that share a root, one has it to itself.
            let shared = births.get(&volume.parent).copied().unwrap_or(NO_SNAPSHOT);
            (place.birth > shared).then_some(())?;
            Some((place, format!("map of volume '{}'", volume.name)))
        });
        let places = table.places(table::WHAT).chain(slots.places()).chain(roots);
        self.see_all(places).next().map_or(Ok(()), Err)
    }

    /// Slots in use that nothing was seen in, as first and one past the last, but for the header.
    fn unseen(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (word, (bits, seen)) in self.bits.iter().zip(&self.seen).enumerate() {
            let mut left = bits & !seen;
            while left != 0 {
                let slot = word as u64 * 64 + u64::from(left.trailing_zeros());
                left &= left - 1;
                match ranges.last_mut() {
                    Some((_, end)) if *end == slot => *end += 1,
                    _ if slot == 0 => {}
                    _ => ranges.push((slot, slot + 1)),
                }
            }
        }
        ranges
    }
}

fn at(place: Place) -> u64 {
    u64::from(place.slot) * PAGE_BYTES as u64
}

/// Hold all pages of the newest checkpoint against the bitmap.
pub fn check(inner: &Inner, report: &mut CheckReport) {
    let Ok((superblock, _)) = open::read_supers(&inner.files.supers) else { return };
    let mut whole = true;
    let loaded = SlotBitmap::load(&inner.map, bitmap_of(&superblock), &mut |error| {
        report.found(error.to_string());
        whole = false;
        Ok(())
    });
    let (bitmap, mut uses) = match loaded {
        Ok((bitmap, bits)) => (bitmap, Uses::new(bits, superblock.sequence)),
        Err(error) => return report.found(error.to_string()),
    };
    if !whole {
        // What it says is unknown.
        return;
    }
    {
        let flusher = inner.flusher();
        for error in uses.see_all(flusher.table.places(table::WHAT).chain(bitmap.places())) {
            report.found(error.to_string());
        }
    }
    for volume in &superblock.volumes {
        let root = Root { height: volume.height, reference: volume.root };
        let Ok(share) = inner.map.share(volume.number) else { continue };
        inner.map.walk(volume.number, root, superblock.sequence, &mut |page| {
            let Ok(page) = page else {
                // Whoever reads the map names it.
                whole = false;
                return false;
            };
            if !share.is_own(page.level, page.first_block, page.place.birth) {
                // Another tree is asked for it.
                return false;
            }
            let wrong = if page.place.birth > page.above {
                Err("it is said to be younger than what refers to it")
            } else {
                uses.see(page.place)
            };
            if let Err(problem) = wrong {
                let what = format!(
                    "map page of volume '{}' (level {}, from block {})",
                    volume.name, page.level, page.first_block
                );
                report.found(PoolError::corrupt(what, at(page.place), problem).to_string());
                whole = false;
            }
            wrong.is_ok()
        });
    }
    if whole {
        for (first, end) in uses.unseen() {
            report.found(format!(
                "slots {first}..{end} of the map file are in use, but no page is there: space that \
                 nothing gives back"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_seen_once_in_a_slot_in_use_and_no_younger_than_its_checkpoint() {
        let mut pages = Uses::new(vec![0b1011, 1 << 63 | 1], 7);
        let place = |slot, birth| Place { slot, birth };
        let free = Err("the bitmap of slots says that its slot is free");
        for (place, seen) in [
            (place(1, 8), Err("it is said to be younger than the checkpoint")),
            (place(1, 7), Ok(())),
            (place(1, 1), Err("another page claims the same slot")),
            (place(2, 7), free),
            (place(62, 7), free),
            (place(64, 7), Ok(())),
            (place(65, 7), free),
            (place(127, 0), Ok(())),
            (place(128, 7), Err("the file ends before its slot")),
        ] {
            assert_eq!(pages.see(place), seen, "{place:?}");
        }
        assert_eq!(pages.unseen(), [(3, 4)], "the header's is not one");
        assert_eq!(pages.into_bits(), [0b1011, 1 << 63 | 1]);
    }

    #[test]
    fn slots_that_nothing_is_in_are_told_as_ranges_across_words() {
        let mut pages = Uses::new(vec![u64::MAX, 0b111, 0, 1 << 5 | 1 << 7], 7);
        for slot in (1..62).chain([66]) {
            pages.see(Place { slot, birth: 1 }).unwrap();
        }
        assert_eq!(pages.unseen(), [(62, 66), (197, 198), (199, 200)]);
        let first = Uses::new(vec![0b11], 7);
        assert_eq!(first.unseen(), [(1, 2)]);
    }
}
