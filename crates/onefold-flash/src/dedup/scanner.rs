//! Pages that are hashed in idle moments, one after the other, and merged if the store knows them.
//! Room: onefold-flash.   Source: [caftl-11] as [park-shin] sec. II describes it.
//! Invariants: a page is hashed once in its life.

use crate::dedup::page_set::PageSet;
use crate::dedup::store::{Match, Store};
use crate::dedup::{Look, Offline, Pair};

/// Pages to be hashed, and the pair that the last one made.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    pages: PageSet,
    /// The page to give up, and the one to keep.
    pair: Option<(u32, Match)>,
}

impl Scanner {
    pub fn new(pages: u32) -> Self {
        Self { pages: PageSet::new(pages), pair: None }
    }

    /// A page is to be hashed.
    pub fn add(&mut self, ppn: u32) {
        self.pages.insert(ppn);
    }

    pub fn moved(&mut self, from: u32, to: u32) {
        if self.pages.remove(from) {
            self.pages.insert(to);
        }
        if let Some((duplicate, original)) = &mut self.pair {
            if *duplicate == from {
                *duplicate = to;
            }
            match original {
                Match::Same(same) => *same = same.moved(from, to),
                Match::Perhaps(page) if *page == from => *page = to,
                Match::Perhaps(_) => {}
            }
        }
    }

    pub fn died(&mut self, ppn: u32) {
        self.pages.remove(ppn);
        let of_pair =
            |&(duplicate, original): &(u32, Match)| [duplicate, original.ppn()].contains(&ppn);
        if let Some((duplicate, original)) = self.pair.filter(of_pair) {
            self.pair = None;
            if original.ppn() == ppn {
                // Its hash has not been entered: it is to be read again.
                self.pages.insert(duplicate);
            }
        }
    }

    pub fn next(&mut self, look: &impl Look) -> Option<Offline> {
        match self.pair.take() {
            Some((duplicate, Match::Same(original))) => {
                return Some(Offline::Merge { duplicate, original });
            }
            Some((duplicate, Match::Perhaps(original))) => {
                return Some(Offline::Compare(Pair { duplicate, original }));
            }
            None => {}
        }
        loop {
            let ppn = self.pages.pop()?;
            if look.is_live(ppn) {
                return Some(Offline::Scan { ppn });
            }
        }
    }

    pub fn scanned(&mut self, ppn: u32, strong: u128, store: &mut Store) {
        match store.look_up(strong) {
            Some(original) if original.ppn() != ppn => self.pair = Some((ppn, original)),
            Some(_) => {}
            None => store.insert(strong, ppn),
        }
    }

    pub fn len(&self) -> u64 {
        self.pages.len()
    }

    pub fn bytes(&self) -> u64 {
        self.pages.bytes()
    }
}
