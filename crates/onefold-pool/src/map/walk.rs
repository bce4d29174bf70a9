//! All pages of a volume as a checkpoint has them, whatever memory has by now.
//! Room: onefold-pool.
//! Cost: pages above the leaves are read; leaves are not.

use super::cursor::{Missing, NOWHERE, corrupt_page};
use super::page::{self, PageKey, PageRef, Place, REFERENCES_PER_PAGE};
use super::tree::{Map, Root};
use crate::error::PoolError;

/// A page that a checkpoint refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSeen {
    /// Where it is.
    pub place: Place,
    /// How far above the leaves.
    pub level: u8,
    /// The first block below it.
    pub first_block: u64,
    /// The birth of the page that refers to it; of a root, the sequence number of the checkpoint.
    pub above: u64,
}

/// Hears of each page before those below it, and says whether to go on below; or of one that cannot
/// be read, or to which what is above it refers by no valid reference.
type Visit<'a> = &'a mut dyn FnMut(Result<PageSeen, PoolError>) -> bool;

impl Map {
    /// Visit the pages of a volume of which checkpoint `sequence` has this root.
    pub fn walk(&self, volume: u32, root: Root, sequence: u64, visit: Visit<'_>) {
        let key = PageKey::root(volume, root.height);
        self.walk_page(key, PageRef::from_raw(root.reference), sequence, visit);
    }

    fn walk_page(&self, key: PageKey, reference: Option<PageRef>, above: u64, visit: Visit<'_>) {
        let (place, check) = match reference {
            Some(PageRef::Uniform(_)) => return,
            Some(PageRef::Stored { place, check }) => (place, check),
            None => {
                let missing = Missing { key, place: NOWHERE, check: 0 };
                let problem = "what refers to it is no page reference";
                visit(Err(corrupt_page(&missing, problem)));
                return;
            }
        };
        let PageKey { level, .. } = key;
        let seen = PageSeen { place, level, first_block: key.first_block(), above };
        if !visit(Ok(seen)) || level == 0 {
            return;
        }
        match self.read_page(&Missing { key, place, check }) {
            Ok(read) => {
                for child in 0..REFERENCES_PER_PAGE {
                    let index = key.index * REFERENCES_PER_PAGE as u64 + child as u64;
                    let below = PageKey { level: level - 1, index, ..key };
                    let reference = PageRef::from_raw(page::raw_reference(&read, child));
                    self.walk_page(below, reference, place.birth, visit);
                }
            }
            Err(error) => drop(visit(Err(error))),
        }
    }
}
