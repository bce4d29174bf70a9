//! Map pages in memory.
//! Room: onefold-pool.
//! Invariants: (1) the number of pages stays within the budget unless all that could go are dirty
//! or being written; (2) a page that is being written is shared with the writer: whoever changes it
//! meanwhile changes a copy.
//! Cost: a page and about 70 bytes beside it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use super::page::{Page, PageKey, Place};
use crate::key_hasher::KeyHasher;

/// A page in memory.
pub struct Frame {
    pub key: PageKey,
    page: Arc<Page>,
    /// Changed since the last freeze.
    dirty: bool,
    /// Of the last freeze, which was for this checkpoint, and not yet in a slot.
    frozen: Option<u64>,
    /// Where it is in the file, if it is there.
    pub place: Option<Place>,
    referenced: bool,
}

impl Frame {
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// The page as it is now, whatever becomes of the frame.
    pub fn shared_page(&self) -> Arc<Page> {
        Arc::clone(&self.page)
    }

    pub fn page_mut(&mut self) -> &mut Page {
        Arc::make_mut(&mut self.page)
    }

    /// Memory has what no slot has.
    pub const fn is_pinned(&self) -> bool {
        self.dirty || self.frozen.is_some()
    }

    /// Whether changing this page takes a copy of one that a snapshot has, if the newest snapshot
    /// was made with checkpoint `shared`: it is not a copy already, and that checkpoint or one
    /// before it has it, or is about to.
    pub fn is_shared(&self, shared: u64) -> bool {
        let birth = self.frozen.or(self.place.map(|place| place.birth));
        !self.dirty && birth.is_some_and(|birth| birth <= shared)
    }
}

/// All pages in memory, with second-chance eviction.
pub struct PageCache {
    frames: Vec<Frame>,
    by_key: HashMap<PageKey, u32, BuildHasherDefault<KeyHasher>>,
    hand: usize,
    pages_max: usize,
    /// Keys that became dirty since the last freeze; some may be there twice, or gone again.
    dirtied: Vec<PageKey>,
    dirty: usize,
    frozen: usize,
    /// Of these, pages that changed while they were being written.
    both: usize,
}

impl PageCache {
    /// At most `pages_max` pages, aside from those that cannot go.
    pub fn new(pages_max: usize) -> Self {
        let (frames, by_key, dirtied) = (Vec::new(), HashMap::default(), Vec::new());
        Self { frames, by_key, hand: 0, pages_max, dirtied, dirty: 0, frozen: 0, both: 0 }
    }

    /// Pages in memory.
    pub const fn len(&self) -> usize {
        self.frames.len()
    }

    /// Dirty pages in memory.
    pub const fn dirty(&self) -> usize {
        self.dirty
    }

    /// Pages that are being written.
    pub const fn frozen(&self) -> usize {
        self.frozen
    }

    /// The page, if it is in memory.
    pub fn get(&mut self, key: PageKey) -> Option<&mut Frame> {
        let &at = self.by_key.get(&key)?;
        let frame = &mut self.frames[at as usize];
        frame.referenced = true;
        Some(frame)
    }

    /// Whether the page is in memory and dirty.
    pub fn is_dirty(&self, key: PageKey) -> bool {
        self.by_key.get(&key).is_some_and(|&at| self.frames[at as usize].dirty)
    }

    /// Take a page into memory; another may leave for it.
    pub fn insert(&mut self, key: PageKey, page: Box<Page>, place: Option<Place>, dirty: bool) {
        debug_assert!(!self.by_key.contains_key(&key));
        let page = Arc::from(page);
        let frame = Frame { key, page, dirty, frozen: None, place, referenced: true };
        let full = self.frames.len() >= self.pages_max;
        let at = if full { self.victim() } else { None };
        self.by_key.insert(key, at.unwrap_or(self.frames.len()) as u32);
        match at {
            Some(at) => {
                let old = std::mem::replace(&mut self.frames[at], frame);
                self.by_key.remove(&old.key);
            }
            None => self.frames.push(frame),
        }
        if dirty {
            self.dirty += 1;
            self.dirtied.push(key);
        }
    }

    /// A page in memory and in its slot that was not asked for since the hand last passed. `None`
    /// after two rounds.
    fn victim(&mut self) -> Option<usize> {
        // A cache full of dirty pages is about to be checkpointed: looking further would cost a
        // scan per page for nothing.
        let pinned = self.dirty + self.frozen - self.both;
        let rounds = if pinned * 8 > self.frames.len() * 7 { 0 } else { 2 };
        for _ in 0..rounds * self.frames.len() {
            self.hand = if self.hand + 1 < self.frames.len() { self.hand + 1 } else { 0 };
            let frame = &mut self.frames[self.hand];
            if !frame.is_pinned() && !std::mem::take(&mut frame.referenced) {
                return Some(self.hand);
            }
        }
        None
    }

    /// The page in memory now differs from its slot.
    pub fn mark_dirty(&mut self, key: PageKey) {
        let Some(frame) = self.get(key) else { return };
        let (newly, frozen) = (!std::mem::replace(&mut frame.dirty, true), frame.frozen.is_some());
        if newly {
            self.dirty += 1;
            self.both += usize::from(frozen);
            self.dirtied.push(key);
        }
    }

    /// All dirty pages, as they are now; they count as being written for this checkpoint from here
    /// on, and none is being written before. Costs as much as there are dirty pages.
    pub fn freeze(&mut self, sequence: u64) -> Vec<(PageKey, Arc<Page>)> {
        let mut pages = Vec::with_capacity(self.dirty);
        for key in std::mem::take(&mut self.dirtied) {
            let Some(&at) = self.by_key.get(&key) else { continue };
            let frame = &mut self.frames[at as usize];
            if std::mem::take(&mut frame.dirty) {
                frame.frozen = Some(sequence);
                pages.push((key, Arc::clone(&frame.page)));
            }
        }
        self.dirty = 0;
        self.frozen = pages.len();
        pages
    }

    /// The page is no longer being written: it is at `place`, or needs none. What it had before is
    /// returned, and whether it was not changed since the freeze.
    pub fn written(&mut self, key: PageKey, place: Option<Place>) -> (Option<Place>, bool) {
        let Some(frame) = self.get(key) else { return (None, false) };
        let (was, dirty) = (frame.frozen.take().is_some(), frame.dirty);
        let former = std::mem::replace(&mut frame.place, place);
        self.frozen -= usize::from(was);
        self.both -= usize::from(was && dirty);
        (former, !dirty)
    }

    /// The page was not written after all.
    pub fn thaw(&mut self, key: PageKey) {
        let Some(frame) = self.get(key) else { return };
        let (was, dirty) = (frame.frozen.take().is_some(), frame.dirty);
        if was {
            self.frozen -= 1;
            self.both -= usize::from(dirty);
            self.mark_dirty(key);
        }
    }

    /// Drop a page from memory.
    pub fn remove(&mut self, key: PageKey) {
        let Some(at) = self.by_key.remove(&key) else { return };
        let frame = self.frames.swap_remove(at as usize);
        self.dirty -= usize::from(frame.dirty);
        self.frozen -= usize::from(frame.frozen.is_some());
        self.both -= usize::from(frame.dirty && frame.frozen.is_some());
        if let Some(moved) = self.frames.get(at as usize) {
            self.by_key.insert(moved.key, at);
        }
    }

    /// Shrink towards the budget, after a checkpoint made pages clean.
    pub fn trim(&mut self) {
        while self.frames.len() > self.pages_max {
            let Some(at) = self.victim() else { return };
            self.remove(self.frames[at].key);
        }
    }

    /// Keys of all pages of a volume.
    pub fn keys_of(&self, volume: u32) -> Vec<PageKey> {
        self.frames.iter().map(|frame| frame.key).filter(|key| key.volume == volume).collect()
    }
}

#[cfg(test)]
mod tests;
