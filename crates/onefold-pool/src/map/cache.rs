//! Map pages in memory.
//! Room: onefold-pool.
//! Invariant: the number of pages stays within the budget unless all that could go are dirty.
//! Cost: a page and about 40 bytes beside it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::page::{Page, PageKey};
use crate::key_hasher::KeyHasher;

/// A page in memory.
pub struct Frame {
    pub key: PageKey,
    pub page: Box<Page>,
    /// Differs from what its slot holds, or has no slot.
    pub dirty: bool,
    /// Its slot in the file, if it has one.
    pub slot: Option<u32>,
    referenced: bool,
}

/// All pages in memory, with second-chance eviction.
pub struct PageCache {
    frames: Vec<Frame>,
    by_key: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    hand: usize,
    pages_max: usize,
    dirty: usize,
}

impl PageCache {
    /// At most `pages_max` pages, dirty ones aside.
    pub fn new(pages_max: usize) -> Self {
        Self { frames: Vec::new(), by_key: HashMap::default(), hand: 0, pages_max, dirty: 0 }
    }

    /// Pages in memory.
    pub const fn len(&self) -> usize {
        self.frames.len()
    }

    /// Dirty pages in memory.
    pub const fn dirty(&self) -> usize {
        self.dirty
    }

    /// The page, if it is in memory.
    pub fn get(&mut self, key: PageKey) -> Option<&mut Frame> {
        let &at = self.by_key.get(&key.packed())?;
        let frame = &mut self.frames[at as usize];
        frame.referenced = true;
        Some(frame)
    }

    /// Whether the page is in memory and dirty.
    pub fn is_dirty(&self, key: PageKey) -> bool {
        self.by_key.get(&key.packed()).is_some_and(|&at| self.frames[at as usize].dirty)
    }

    /// Take a page into memory; another may leave for it.
    pub fn insert(&mut self, key: PageKey, page: Box<Page>, slot: Option<u32>, dirty: bool) {
        debug_assert!(!self.by_key.contains_key(&key.packed()));
        self.dirty += usize::from(dirty);
        let frame = Frame { key, page, dirty, slot, referenced: true };
        if self.frames.len() >= self.pages_max
            && let Some(at) = self.victim()
        {
            let old = std::mem::replace(&mut self.frames[at], frame);
            self.by_key.remove(&old.key.packed());
            self.by_key.insert(key.packed(), at as u32);
            return;
        }
        self.by_key.insert(key.packed(), self.frames.len() as u32);
        self.frames.push(frame);
    }

    /// A clean page that was not asked for since the hand last passed. `None` after two rounds.
    fn victim(&mut self) -> Option<usize> {
        // A cache full of dirty pages is about to be checkpointed: looking further would cost a
        // scan per page for nothing.
        let rounds = if self.dirty * 8 > self.frames.len() * 7 { 0 } else { 2 };
        for _ in 0..rounds * self.frames.len() {
            self.hand = if self.hand + 1 < self.frames.len() { self.hand + 1 } else { 0 };
            let frame = &mut self.frames[self.hand];
            if !frame.dirty && !std::mem::take(&mut frame.referenced) {
                return Some(self.hand);
            }
        }
        None
    }

    /// The page in memory now differs from its slot.
    pub fn mark_dirty(&mut self, key: PageKey) {
        let mut newly = false;
        if let Some(frame) = self.get(key) {
            newly = !std::mem::replace(&mut frame.dirty, true);
        }
        self.dirty += usize::from(newly);
    }

    /// The page in memory was written to `slot`.
    pub fn mark_clean(&mut self, key: PageKey, slot: u32) {
        let mut newly = false;
        if let Some(frame) = self.get(key) {
            newly = std::mem::replace(&mut frame.dirty, false);
            frame.slot = Some(slot);
        }
        self.dirty -= usize::from(newly);
    }

    /// Drop a page from memory.
    pub fn remove(&mut self, key: PageKey) {
        let Some(at) = self.by_key.remove(&key.packed()) else { return };
        let frame = self.frames.swap_remove(at as usize);
        self.dirty -= usize::from(frame.dirty);
        if let Some(moved) = self.frames.get(at as usize) {
            self.by_key.insert(moved.key.packed(), at);
        }
    }

    /// Shrink towards the budget, after a checkpoint made pages clean.
    pub fn trim(&mut self) {
        while self.frames.len() > self.pages_max {
            let Some(at) = self.victim() else { return };
            self.remove(self.frames[at].key);
        }
    }

    /// Keys of all dirty pages, leaves first and in order.
    pub fn dirty_keys(&self) -> Vec<PageKey> {
        let mut keys: Vec<PageKey> =
            self.frames.iter().filter(|frame| frame.dirty).map(|frame| frame.key).collect();
        keys.sort_unstable_by_key(|key| (key.level, key.volume, key.index));
        keys
    }

    /// Keys of all pages of a volume.
    pub fn keys_of(&self, volume: u32) -> Vec<PageKey> {
        self.frames.iter().map(|frame| frame.key).filter(|key| key.volume == volume).collect()
    }
}
