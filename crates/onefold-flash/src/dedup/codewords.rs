//! Counts what deduplication by codeword would find beyond whole pages: the papers' future work.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV, last paragraph.
//! Counted are the live pages that were written, or found equal to a written page, since the drive
//! was opened, each content once, as if pages were deduplicated without a miss; of their codewords,
//! those that are not the first of their content, wherever in a page they lie.
//! Invariants: contents, codewords and their counts are those of the live pages known.
//! Cost: host memory of the simulator only, about 100 bytes for each codeword.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A page's content, as the digests of its codewords.
type Content = Arc<[u128]>;

/// The counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodewordCounter {
    /// The page that is being written.
    writing: Vec<u128>,
    pages: HashMap<u32, Content>,
    /// Live pages of each content.
    contents: HashMap<Content, u32>,
    /// Occurrences of each codeword in the contents.
    codewords: HashMap<u128, u32>,
    /// Codewords of all contents.
    held: u64,
    /// Live pages whose content has not been seen.
    unknown: HashSet<u32>,
}

impl CodewordCounter {
    /// Another page is about to be written.
    pub fn begin(&mut self) {
        self.writing.clear();
    }

    /// The next codeword of it.
    pub fn part(&mut self, digest: u128) {
        self.writing.push(digest);
    }

    /// It was programmed at `ppn`.
    pub fn stored(&mut self, ppn: u32) {
        if self.writing.is_empty() {
            self.unknown.insert(ppn);
            return;
        }
        let content: Content = self.writing.as_slice().into();
        match self.contents.entry(Arc::clone(&content)) {
            Entry::Occupied(mut pages) => *pages.get_mut() += 1,
            Entry::Vacant(place) => {
                place.insert(1);
                self.held += content.len() as u64;
                for &codeword in content.iter() {
                    *self.codewords.entry(codeword).or_default() += 1;
                }
            }
        }
        self.pages.insert(ppn, content);
    }

    /// It is what the page at `ppn` holds.
    pub fn shared(&mut self, ppn: u32) {
        if self.unknown.remove(&ppn) {
            self.stored(ppn);
        }
    }

    /// A page was found at `ppn` that was written before.
    pub fn recovered(&mut self, ppn: u32) {
        self.unknown.insert(ppn);
    }

    /// A page moved.
    pub fn moved(&mut self, from: u32, to: u32) {
        if let Some(content) = self.pages.remove(&from) {
            self.pages.insert(to, content);
        } else if self.unknown.remove(&from) {
            self.unknown.insert(to);
        }
    }

    /// Nobody refers to the page any more.
    pub fn died(&mut self, ppn: u32) {
        self.unknown.remove(&ppn);
        let Some(content) = self.pages.remove(&ppn) else { return };
        let Entry::Occupied(mut pages) = self.contents.entry(Arc::clone(&content)) else {
            return;
        };
        *pages.get_mut() -= 1;
        if *pages.get() > 0 {
            return;
        }
        pages.remove();
        self.held -= content.len() as u64;
        for codeword in content.iter() {
            if let Entry::Occupied(mut count) = self.codewords.entry(*codeword) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Different contents of pages, their codewords, those of them that are not the first of their
    /// content, and pages that are not among all this: they were written before the drive was
    /// opened, or have no bytes.
    pub fn report(&self) -> [(&'static str, u64); 4] {
        [
            ("codeword_contents", self.contents.len() as u64),
            ("codewords_held", self.held),
            ("codewords_repeated", self.held - self.codewords.len() as u64),
            ("codeword_pages_unknown", self.unknown.len() as u64),
        ]
    }
}
