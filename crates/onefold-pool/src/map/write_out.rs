//! Writing the map out as it was at one moment, while it goes on changing.
//! Room: onefold-pool.
//! In: what changed since the last time, frozen under the engine's lock. Out: pages in free slots,
//! and the roots of all volumes for the checkpoint. No lock is held over a media operation.
//! Invariant: leaves come first, because a page's bytes hold the checksums of those below. Where a
//! page was written, both the frozen page above it and the one in memory refer to it from then on;
//! where the one in memory has changed since, it is dirty, as is all above it.

use std::collections::HashMap;
use std::sync::Arc;

use super::cursor::Tree;
use super::page::{self, PAGE_BYTES, Page, PageKey, PageRef, Place, Words};
use super::tree::{Map, NO_SNAPSHOT, Root};
use crate::error::PoolError;

/// Pages written with one call.
const PAGES_PER_WRITE: usize = 64;

/// The changed pages of the map as they were when it was frozen.
pub struct Frozen {
    /// Leaves first and in order. What is written is frozen no more.
    keys: Vec<PageKey>,
    pages: HashMap<PageKey, Arc<Page>>,
    trees: HashMap<u32, Tree>,
    /// The checkpoint that writes them.
    birth: u64,
}

impl Frozen {
    /// The root of a volume, once everything is written.
    pub fn root(&self, volume: u32) -> Option<Root> {
        let tree = self.trees.get(&volume)?;
        Some(Root { height: tree.height, reference: tree.root.raw() })
    }

    /// Let what is above `key` refer to it so.
    fn set_reference(&mut self, key: PageKey, reference: PageRef) {
        match self.trees.get_mut(&key.volume) {
            Some(tree) if tree.height == key.level => tree.root = reference,
            _ => {
                let (parent, number) = key.parent();
                let above = self.pages.get_mut(&parent).expect("ancestors of a dirty page are too");
                page::set_reference(Arc::make_mut(above), number, reference);
            }
        }
    }
}

impl Map {
    /// Take what is dirty, as it is now, for the checkpoint of this number. It counts as being
    /// written until [`Map::write_out`] is done with it, or [`Map::thaw`] makes it dirty again.
    /// Costs as much as there is.
    pub fn freeze(&self, sequence: u64) -> Frozen {
        self.begin_checkpoint(sequence);
        let (pages, trees) = {
            let mut state = self.state();
            (state.cache.freeze(sequence), state.trees.clone())
        };
        let mut keys: Vec<PageKey> = pages.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable_by_key(|key| (key.level, key.volume, key.index));
        Frozen { keys, pages: pages.into_iter().collect(), trees, birth: sequence }
    }

    /// Write what is frozen to free slots, to be synced after it. What it replaces stays until
    /// [`Map::checkpoint_is_durable`].
    pub fn write_out(&self, frozen: &mut Frozen) -> Result<(), PoolError> {
        let mut from = 0;
        while from < frozen.keys.len() {
            let level = frozen.keys[from].level;
            let batch = frozen.keys[from..].iter().take(PAGES_PER_WRITE);
            let upto = from + batch.take_while(|key| key.level == level).count();
            let keys = frozen.keys[from..upto].to_vec();
            self.write_batch(frozen, &keys)?;
            from = upto;
        }
        Ok(())
    }

    /// Make everything written durable.
    pub fn sync(&self) -> Result<(), PoolError> {
        Ok(self.media.sync()?)
    }

    fn write_batch(&self, frozen: &mut Frozen, keys: &[PageKey]) -> Result<(), PoolError> {
        let pages: Vec<&Page> = keys.iter().map(|key| &*frozen.pages[key]).collect();
        let words = if keys[0].level == 0 { Words::Entries } else { Words::References };
        let references = self.place(&pages, words, frozen.birth)?;
        let mut state = self.state();
        for (&key, reference) in keys.iter().zip(references) {
            // As it was when it was frozen: a snapshot made with this checkpoint has this page.
            let shared = frozen.trees.get(&key.volume).map_or(NO_SNAPSHOT, |t| t.shared_at(key));
            state.written(key, reference, shared);
            frozen.set_reference(key, reference);
        }
        Ok(())
    }

    /// Write pages to free slots, but for those that need none; they are born with checkpoint
    /// `birth`.
    pub(super) fn place(
        &self,
        pages: &[&Page],
        words: Words,
        birth: u64,
    ) -> Result<Vec<PageRef>, PoolError> {
        let mut placed = Vec::with_capacity(pages.len());
        for batch in pages.chunks(PAGES_PER_WRITE) {
            self.place_batch(batch, (words, birth), &mut placed)?;
        }
        Ok(placed)
    }

    fn place_batch(
        &self,
        pages: &[&Page],
        (words, birth): (Words, u64),
        placed: &mut Vec<PageRef>,
    ) -> Result<(), PoolError> {
        let mut bytes = Vec::with_capacity(pages.len() * PAGE_BYTES);
        let mut checks = Vec::with_capacity(pages.len());
        let mut references = Vec::with_capacity(pages.len());
        for page in pages {
            let uniform = page::uniform(page, words);
            references.push(uniform.map(PageRef::Uniform));
            if uniform.is_none() {
                let from = bytes.len();
                page::encode(page, &mut bytes);
                checks.push(crc32fast::hash(&bytes[from..]));
            }
        }
        let slots: Vec<u32> = {
            let mut state = self.state();
            checks.iter().map(|_| state.slots.allocate()).collect()
        };
        self.write_runs(&slots, &bytes).inspect_err(|_| {
            let mut state = self.state();
            for &slot in &slots {
                state.slots.release(slot);
            }
        })?;
        let mut written = slots.iter().zip(&checks);
        placed.extend(references.into_iter().map(|uniform| {
            uniform.unwrap_or_else(|| {
                let (&slot, &check) = written.next().expect("one for each page");
                PageRef::Stored { place: Place { slot, birth }, check }
            })
        }));
        Ok(())
    }

    /// Write pages, neighbours with one call.
    pub(super) fn write_runs(&self, slots: &[u32], bytes: &[u8]) -> Result<(), PoolError> {
        let mut from = 0;
        while from < slots.len() {
            let slot = slots[from];
            let run = (from..slots.len()).take_while(|&n| slots[n] == slot + (n - from) as u32);
            let upto = from + run.count();
            let at = u64::from(slot) * PAGE_BYTES as u64;
            self.media.write(at, &bytes[from * PAGE_BYTES..upto * PAGE_BYTES])?;
            from = upto;
        }
        Ok(())
    }

    /// What was not written is dirty as before.
    pub fn thaw(&self, frozen: &Frozen) {
        let mut state = self.state();
        for &key in &frozen.keys {
            state.cache.thaw(key);
        }
    }
}
