//! Finding and preparing map pages in memory: what is there, what must be read first.
//! Room: onefold-pool.

use std::collections::HashMap;

use super::cache::PageCache;
use super::page::{
    FANOUT_BITS, Page, PageKey, PageRef, Place, REFERENCES_PER_PAGE, blocks_under, raw_reference,
    set_reference, uniform_page,
};
use super::slots::Slots;
use crate::error::PoolError;
use crate::pba::RAW_HOLE;

/// A volume's tree.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    pub height: u8,
    pub root: PageRef,
    pub blocks: u64,
    /// The checkpoint that the newest snapshot of the volume was made with: what was born by then
    /// is the snapshot's too. 0 if there is none.
    pub shared: u64,
    /// That snapshot is being deleted and left so many blocks, from the first on, to this tree:
    /// there, what is shared is what was born by the checkpoint `older`, with the snapshot before.
    pub left_to: u64,
    pub older: u64,
}

impl Tree {
    /// What was born by then is, at this place, a snapshot's too.
    pub const fn shared_at(&self, key: PageKey) -> u64 {
        if key.end_block() <= self.left_to { self.older } else { self.shared }
    }
}

/// How a tree has a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// It changed since it was last written: nobody else has it.
    Changed,
    /// As this reference says.
    At(PageRef),
    /// This page above it must be read first.
    Missing(Missing),
}

/// What came of preparing a page to be changed.
pub enum Prepared {
    /// This page must be read first.
    Missing(Missing),
    /// It is in memory and dirty. If it is a copy from now on of one that a snapshot has, its
    /// entries count once more.
    Ready { copied: bool },
}

/// Where a block's entry is to be found.
pub enum Found {
    /// In this leaf, which is in memory.
    Leaf(PageKey),
    /// There is no leaf: all blocks under this key have this entry.
    Uniform { key: PageKey, entry: u64 },
    /// This page must be read first.
    Missing(Missing),
}

/// A page that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub key: PageKey,
    pub place: Place,
    pub check: u32,
}

/// Everything behind the map's lock.
pub struct State {
    pub cache: PageCache,
    pub slots: Slots,
    pub trees: HashMap<u32, Tree>,
}

/// Damage to the map file.
pub fn corrupt_page(missing: &Missing, problem: impl Into<String>) -> PoolError {
    let Missing { key, place, .. } = missing;
    let at = u64::from(place.slot) * super::page::PAGE_BYTES as u64;
    let what = format!(
        "map page of volume {} (level {}, blocks {}..{})",
        key.volume,
        key.level,
        key.first_block(),
        key.end_block()
    );
    PoolError::corrupt(what, at, problem)
}

impl State {
    pub fn tree(&self, volume: u32) -> Result<Tree, PoolError> {
        self.trees.get(&volume).copied().ok_or(PoolError::VolumeDeleted)
    }

    /// Where the entry of a block is.
    pub fn locate(&mut self, volume: u32, lba: u64) -> Result<Found, PoolError> {
        let leaf = PageKey::leaf(volume, lba);
        if self.cache.get(leaf).is_some() {
            return Ok(Found::Leaf(leaf));
        }
        let tree = self.tree(volume)?;
        // A write may be on its way to where the volume is shorter by now.
        if lba >= blocks_under(tree.height) {
            return Ok(Found::Uniform { key: leaf, entry: RAW_HOLE });
        }
        let (mut level, mut reference) = (tree.height, tree.root);
        loop {
            let key = leaf.ancestor(level);
            if let Some(frame) = self.cache.get(key) {
                reference = child_of(frame.page(), leaf, level);
                level -= 1;
                continue;
            }
            return Ok(match reference {
                PageRef::Uniform(entry) => Found::Uniform { key, entry },
                PageRef::Stored { place, check } => Found::Missing(Missing { key, place, check }),
            });
        }
    }

    /// Take a page that was read into memory, if it is still the one that is missing.
    pub fn install(
        &mut self,
        missing: Missing,
        read: Result<Box<Page>, PoolError>,
    ) -> Result<(), PoolError> {
        if !self.trees.contains_key(&missing.key.volume) {
            return Ok(());
        }
        // Not by way of the first leaf below it, which may be in memory without what is above.
        let Missing { key, place, check } = missing;
        if self.cache.get(key).is_none()
            && self.view(key)? == View::At(PageRef::Stored { place, check })
        {
            self.cache.insert(key, read?, Some(place), false);
        }
        Ok(())
    }

    /// How the volume of `key` has that page.
    pub fn view(&mut self, key: PageKey) -> Result<View, PoolError> {
        let tree = self.tree(key.volume)?;
        let mut reference = tree.root;
        for level in (key.level..=tree.height).rev() {
            let at = key.ancestor(level);
            match self.cache.get(at) {
                Some(frame) if at == key && frame.is_pinned() => return Ok(View::Changed),
                Some(_) if at == key => {}
                Some(frame) => reference = child_of(frame.page(), key, level),
                None => match reference {
                    PageRef::Stored { place, check } if at != key => {
                        return Ok(View::Missing(Missing { key: at, place, check }));
                    }
                    _ => return Ok(View::At(reference)),
                },
            }
        }
        Ok(View::At(reference))
    }

    /// Bring the page `key` and all above it into memory, dirty, making those that do not exist.
    pub fn prepare(&mut self, key: PageKey) -> Result<Prepared, PoolError> {
        let mut copied = false;
        if self.cache.is_dirty(key) {
            return Ok(Prepared::Ready { copied });
        }
        let tree = self.tree(key.volume)?;
        let mut reference = tree.root;
        for level in (key.level..=tree.height).rev() {
            let at = key.ancestor(level);
            if self.cache.get(at).is_none() {
                match reference {
                    PageRef::Uniform(entry) => {
                        self.cache.insert(at, uniform_page(level, entry), None, true);
                    }
                    PageRef::Stored { place, check } => {
                        return Ok(Prepared::Missing(Missing { key: at, place, check }));
                    }
                }
            }
            copied = self.cache.get(at).is_some_and(|frame| frame.is_shared(tree.shared_at(at)));
            self.cache.mark_dirty(at);
            if level > key.level {
                let frame = self.cache.get(at).expect("it was just put there");
                reference = child_of(frame.page(), key, level);
            }
        }
        Ok(Prepared::Ready { copied })
    }

    /// A page that was frozen is written, or needs no slot. What it replaces stays until the
    /// checkpoint is durable, and as long as a snapshot has it: one that was made with checkpoint
    /// `shared` at the latest, before the page was frozen.
    pub fn written(&mut self, key: PageKey, reference: PageRef, shared: u64) {
        let (former, unchanged) = self.cache.written(key, reference.place());
        if let Some(former) = former {
            self.give_up(former, shared);
        }
        self.set_reference(key, reference);
        if unchanged && reference.place().is_none() {
            self.cache.remove(key);
        }
    }

    /// A volume no longer refers to this page: it goes, unless the newest snapshot before has it.
    pub fn give_up(&mut self, page: Place, shared: u64) {
        if page.birth > shared {
            self.slots.release(page.slot);
        }
    }

    /// Let the parent of `key` (or the volume, for its root) refer to it so. The parent is in
    /// memory.
    pub fn set_reference(&mut self, key: PageKey, reference: PageRef) {
        let tree = self.trees.get_mut(&key.volume).expect("a page belongs to a volume");
        if key.level == tree.height {
            tree.root = reference;
            return;
        }
        let (parent, number) = key.parent();
        let frame = self.cache.get(parent).expect("ancestors of a pinned page are in memory");
        set_reference(frame.page_mut(), number, reference);
    }
}

/// Where a reference that makes no sense is taken to lead. No page can be there.
pub const NOWHERE: Place = Place { slot: u32::MAX, birth: 0 };

/// What an inner page at `level` says of the child under which `key` lies.
pub fn child_of(page: &Page, key: PageKey, level: u8) -> PageRef {
    let shift = u32::from(level - 1 - key.level) * FANOUT_BITS;
    let number = (key.index >> shift) as usize & (REFERENCES_PER_PAGE - 1);
    let reference = PageRef::from_raw(raw_reference(page, number));
    reference.unwrap_or(PageRef::Stored { place: NOWHERE, check: 0 })
}
