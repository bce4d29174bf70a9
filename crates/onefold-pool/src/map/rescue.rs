//! Changing a map that is damaged, in memory only: what cannot be read becomes pages under which
//! every block is lost, so that it stays an error to read and what is set on top of it can be read.
//! Room: onefold-pool.
//! Invariant: used on pools that are open read-only, and by repairs, which write to new files.

use onefold_block::Lba;

use super::cursor::{Found, Prepared, View};
use super::page::{self, ENTRIES_PER_PAGE, Page, PageKey, PageRef, REFERENCES_PER_PAGE};
use super::tree::{Map, Watch};
use crate::error::PoolError;
use crate::pba::{MapEntry, RAW_LOST};

/// A page under which every block is lost.
fn unreadable(level: u8) -> Box<Page> {
    page::uniform_page(level, RAW_LOST)
}

/// What is rescued has no totals to keep.
struct OnlyLost<'a>(&'a mut dyn FnMut(MapEntry));

impl Watch for OnlyLost<'_> {
    fn lost(&mut self, entry: MapEntry) {
        (self.0)(entry);
    }

    fn copied(&mut self, _: MapEntry) {}
}

impl Map {
    /// Set the entries of blocks from `first` on, over damage too; `on_old` hears of each former
    /// entry that can be read.
    pub fn set_over_damage(
        &self,
        volume: u32,
        first: Lba,
        entries: &[MapEntry],
        on_old: &mut dyn FnMut(MapEntry),
    ) -> Result<(), PoolError> {
        let (mut at, mut entries) = (first.get(), entries);
        while !entries.is_empty() {
            let key = PageKey::leaf(volume, at);
            let run = entries.len().min((key.end_block() - at) as usize);
            let (now, rest) = entries.split_at(run);
            let mut state = self.state();
            if let Prepared::Missing(missing) = state.prepare(key)? {
                match self.read_in(state, missing) {
                    Ok(_) => {}
                    Err(error) if error.is_unreadable() => {
                        let page = unreadable(missing.key.level);
                        self.state().cache.insert(missing.key, page, None, true);
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            let frame = state.cache.get(key).expect("it was just prepared");
            let from = at as usize % ENTRIES_PER_PAGE;
            for (slot, entry) in frame.page_mut()[from..from + run].iter_mut().zip(now) {
                if let Some(old) = MapEntry::from_raw(*slot) {
                    on_old(old);
                }
                *slot = entry.raw();
            }
            at += run as u64;
            entries = rest;
        }
        Ok(())
    }

    /// Set `count` blocks from `first` to hole or zero, over damage too.
    pub fn fill_over_damage(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
        entry: MapEntry,
        on_old: &mut dyn FnMut(MapEntry),
    ) -> Result<(), PoolError> {
        let (mut at, end) = (first.get(), first.get() + count);
        while at < end {
            let lba = Lba::new(at);
            let run = match self.uniform_run(volume, lba, end - at) {
                Ok((0, _)) => 0,
                Ok((run, found)) => {
                    if found != entry {
                        self.fill(volume, lba, run, entry, usize::MAX, &mut OnlyLost(on_old))?;
                    }
                    run
                }
                Err(error) if error.is_unreadable() => 0,
                Err(error) => return Err(error),
            };
            at += if run > 0 {
                run
            } else {
                let in_leaf = PageKey::leaf(volume, at).end_block() - at;
                let run = in_leaf.min(end - at);
                self.set_over_damage(volume, lba, &vec![entry; run as usize], on_old)?;
                run
            };
        }
        Ok(())
    }

    /// Let a tree have a copy of its own of every page that it counts as that of the snapshot
    /// `parent` and that is not the same there; of `older`, where the snapshot has left its pages
    /// to the tree. All pages of all three can be read.
    pub fn part(&self, volume: u32, parent: u32, older: u32) -> Result<(), PoolError> {
        let height = self.state().tree(volume)?.height;
        let mut ahead = vec![PageKey::root(volume, height)];
        while let Some(key) = ahead.pop() {
            match self.seen(key)? {
                View::Changed => {}
                View::At(PageRef::Uniform(_)) => continue,
                View::At(reference @ PageRef::Stored { place, .. }) => {
                    let tree = self.state().tree(volume)?;
                    if place.birth <= tree.shared_at(key) {
                        let left = key.end_block() <= tree.left_to;
                        let theirs = PageKey { volume: if left { older } else { parent }, ..key };
                        if self.is_at(theirs, reference)? {
                            continue;
                        }
                        self.make_own(key)?;
                    } else if key.level == 0 {
                        continue;
                    }
                }
                View::Missing(_) => unreachable!("what is missing was read"),
            }
            if key.level > 0 {
                let children = 0..REFERENCES_PER_PAGE as u64;
                ahead.extend(children.map(|child| PageKey {
                    level: key.level - 1,
                    index: key.index * REFERENCES_PER_PAGE as u64 + child,
                    ..key
                }));
            }
        }
        Ok(())
    }

    /// How a tree has a page, with all above it read.
    pub(super) fn seen(&self, key: PageKey) -> Result<View, PoolError> {
        let mut state = self.state();
        loop {
            match state.view(key)? {
                View::Missing(missing) => state = self.read_in(state, missing)?,
                view => return Ok(view),
            }
        }
    }

    /// Whether a tree, if it is there, has this very page at this place.
    fn is_at(&self, key: PageKey, reference: PageRef) -> Result<bool, PoolError> {
        match self.state().tree(key.volume) {
            Ok(tree) if tree.height >= key.level => {}
            _ => return Ok(false),
        }
        Ok(self.seen(key)? == View::At(reference))
    }

    /// Copy a page, to be written anew.
    fn make_own(&self, key: PageKey) -> Result<(), PoolError> {
        let mut state = self.state();
        while let Prepared::Missing(missing) = state.prepare(key)? {
            state = self.read_in(state, missing)?;
        }
        Ok(())
    }

    /// Where to go on after the entry of a block could not be read: past the page that cannot be
    /// read, or past the block if it is the entry that makes no sense.
    pub fn past_unreadable(&self, volume: u32, lba: Lba) -> u64 {
        match self.state().locate(volume, lba.get()) {
            Ok(Found::Missing(missing)) => missing.key.end_block(),
            _ => lba.get() + 1,
        }
    }
}
