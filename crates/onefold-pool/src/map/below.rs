//! How many blocks of trees have stored data, and whether any are lost, from distinct pages.
//! Room: onefold-pool.
//! Cost: each page is read once, however many trees have it; 16 bytes of memory for each.

use std::collections::HashMap;

use super::cursor::{Missing, NOWHERE, corrupt_page};
use super::page::{self, PageKey, PageRef, REFERENCES_PER_PAGE};
use super::tree::{Map, Root};
use crate::error::PoolError;
use crate::pba::{MapEntry, RAW_LOST};

/// What is below a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Blocks with stored data.
    pub stored: u64,
    /// Whether any block is lost.
    pub lost: bool,
}

/// What is below pages in the map's file, by the slots of these. It holds as long as none of them
/// is given back.
#[derive(Default)]
pub struct Below(HashMap<u64, Counted>);

impl Map {
    /// What is below the root of a tree, all of whose pages are in the file.
    pub fn counted_below(
        &self,
        volume: u32,
        root: Root,
        known: &mut Below,
    ) -> Result<Counted, PoolError> {
        let key = PageKey::root(volume, root.height);
        self.count_page(key, PageRef::from_raw(root.reference), known)
    }

    fn count_page(
        &self,
        key: PageKey,
        reference: Option<PageRef>,
        known: &mut Below,
    ) -> Result<Counted, PoolError> {
        let (place, check) = match reference {
            Some(PageRef::Uniform(raw)) => {
                return Ok(Counted { lost: raw == RAW_LOST, ..Counted::default() });
            }
            Some(PageRef::Stored { place, check }) => (place, check),
            None => {
                let missing = Missing { key, place: NOWHERE, check: 0 };
                return Err(corrupt_page(&missing, "what refers to it is no page reference"));
            }
        };
        let slot = u64::from(place.slot);
        if let Some(&counted) = known.0.get(&slot) {
            return Ok(counted);
        }
        let read = self.read_page(&Missing { key, place, check })?;
        let mut counted = Counted::default();
        if key.level == 0 {
            for entry in read.iter().filter_map(|&raw| MapEntry::from_raw(raw)) {
                counted.stored += u64::from(entry.pba().is_some());
                counted.lost |= entry == MapEntry::Lost;
            }
        } else {
            for child in 0..REFERENCES_PER_PAGE {
                let index = key.index * REFERENCES_PER_PAGE as u64 + child as u64;
                let under = PageKey { level: key.level - 1, index, ..key };
                let reference = PageRef::from_raw(page::raw_reference(&read, child));
                let below = self.count_page(under, reference, known)?;
                counted.stored += below.stored;
                counted.lost |= below.lost;
            }
        }
        known.0.insert(slot, counted);
        Ok(counted)
    }
}
