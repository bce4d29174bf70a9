//! Trees that come from one another: which pages a tree has to itself, what a snapshot that goes
//! leaves to the one after it, and where two differ.
//! Room: onefold-pool.
//! In: a tree, that of the snapshot that it was made from, and the one tree that was made from it.
//! Invariants: (1) a page is a tree's own if it was born after the snapshot that the tree was made
//! from: every page is the own of exactly one tree, so that who visits the own pages of all trees
//! visits each page once; (2) of a snapshot that goes, an own page that the tree after it still has
//! becomes that tree's own, and all others are given up; (3) what lies before the place that this
//! has reached is as if the snapshot had never been.
//! Cost: pages that only one of two trees has are read, and those above them; equal references are
//! equal subtrees.

use onefold_block::Lba;

use super::cursor::{Missing, Prepared, State, Tree, View, child_of, corrupt_page};
use super::page::{
    ENTRIES_PER_PAGE, PageKey, PageRef, REFERENCES_PER_PAGE, blocks_under, raw_reference,
};
use super::tree::{Map, Root, Watch};
use crate::error::PoolError;
use crate::pba::{MapEntry, RAW_HOLE, RAW_LOST};

/// What a tree shares with the snapshot that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    shared: u64,
    left_to: u64,
    older: u64,
}

impl Share {
    /// Whether a page at this place is the tree's own.
    pub fn is_own(&self, level: u8, first_block: u64, birth: u64) -> bool {
        let end = first_block.saturating_add(blocks_under(level));
        birth > if end <= self.left_to { self.older } else { self.shared }
    }
}

const NOTHING: PageRef = PageRef::Uniform(RAW_HOLE);
const LOST: PageRef = PageRef::Uniform(RAW_LOST);

impl Map {
    /// What a tree shares.
    pub fn share(&self, volume: u32) -> Result<Share, PoolError> {
        let Tree { shared, left_to, older, .. } = self.state().tree(volume)?;
        Ok(Share { shared, left_to, older })
    }

    /// A snapshot was made of a volume with checkpoint `sequence`: it shares with that one alone
    /// from now on. Returns what it shared before, which the snapshot does now.
    pub fn share_with(&self, volume: u32, sequence: u64) -> Result<Share, PoolError> {
        let before = self.share(volume)?;
        self.set_share(volume, Share { shared: sequence, left_to: 0, older: 0 })?;
        Ok(before)
    }

    /// Let a tree share so.
    pub fn set_share(&self, volume: u32, share: Share) -> Result<(), PoolError> {
        let mut state = self.state();
        let tree = state.trees.get_mut(&volume).ok_or(PoolError::VolumeDeleted)?;
        (tree.shared, tree.left_to, tree.older) = (share.shared, share.left_to, share.older);
        Ok(())
    }

    /// The snapshot that a tree was made from goes and left so many blocks, from the first on, to
    /// it; before that one there was that of checkpoint `older`.
    pub fn set_left_to(&self, volume: u32, blocks: u64, older: u64) -> Result<(), PoolError> {
        let mut state = self.state();
        let tree = state.trees.get_mut(&volume).ok_or(PoolError::VolumeDeleted)?;
        (tree.left_to, tree.older) = (blocks, older);
        Ok(())
    }

    /// It is gone.
    pub fn set_left_all(&self, volume: u32, older: u64) -> Result<(), PoolError> {
        self.set_share(volume, Share { shared: older, left_to: 0, older: 0 })
    }

    /// Whether anything of a volume changed since the last freeze.
    pub fn has_changed(&self, volume: u32) -> bool {
        let state = self.state();
        state.cache.keys_of(volume).into_iter().any(|key| state.cache.is_dirty(key))
    }

    /// Whether a volume has a page that is nobody else's.
    pub fn has_own_pages(&self, volume: u32) -> bool {
        let state = self.state();
        let Ok(tree) = state.tree(volume) else { return false };
        let own = tree.root.place().is_some_and(|place| place.birth > tree.shared);
        own || state.cache.keys_of(volume).into_iter().any(|key| state.cache.is_dirty(key))
    }

    /// Forget a tree that has given up or left all of its pages.
    pub fn forget(&self, volume: u32) {
        let mut state = self.state();
        for key in state.cache.keys_of(volume) {
            state.cache.remove(key);
        }
        state.trees.remove(&volume);
    }

    /// Let a volume be what a snapshot is. All that it had by the last checkpoint must be another
    /// snapshot's, and no checkpoint may be under way; `watch` hears of what it wrote since.
    pub fn replace(
        &self,
        volume: u32,
        root: Root,
        (blocks, shared): (u64, u64),
        watch: &mut dyn Watch,
    ) -> Result<(), PoolError> {
        let mut state = self.state();
        for key in state.cache.keys_of(volume) {
            if key.level == 0 && state.cache.is_dirty(key) {
                let frame = state.cache.get(key).expect("it is in memory");
                tell_lost(key, frame.page(), watch)?;
            }
            state.cache.remove(key);
        }
        drop(state);
        self.add(volume, root, blocks, shared)
    }

    /// Blocks from `first` on, at most `count`, whose pages are not the tree's own or not there; 0
    /// if the leaf there is its own.
    pub fn not_own_run(&self, volume: u32, first: Lba, count: u64) -> Result<u64, PoolError> {
        Ok(self.not_own(volume, first, count)?.0)
    }

    /// The same, and what is there where it is a page that is not there. No page is read that is
    /// not the tree's own.
    pub fn not_own(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
    ) -> Result<(u64, Option<MapEntry>), PoolError> {
        let leaf = PageKey::leaf(volume, first.get());
        let mut state = self.state();
        'again: loop {
            let tree = state.tree(volume)?;
            let (mut level, mut reference) = (tree.height, tree.root);
            loop {
                let key = leaf.ancestor(level);
                let shared = tree.shared_at(key);
                let not_own = match state.cache.get(key) {
                    Some(frame) if frame.is_pinned() => frame.is_shared(shared),
                    _ => reference.place().is_none_or(|place| place.birth <= shared),
                };
                if not_own {
                    let entry = match reference {
                        PageRef::Uniform(raw) => MapEntry::from_raw(raw),
                        PageRef::Stored { .. } => None,
                    };
                    return Ok(((key.end_block() - first.get()).min(count), entry));
                }
                if level == 0 {
                    return Ok((0, None));
                }
                let Some(frame) = state.cache.get(key) else {
                    state = self.read_in(state, missing(key, reference))?;
                    continue 'again;
                };
                reference = child_of(frame.page(), leaf, level);
                level -= 1;
            }
        }
    }

    /// Give up what only a tree has that goes, from block `from` on, and leave the rest to `heir`,
    /// until `leaves_max` leaves were given up. Returns where to go on. Without `watch` what that
    /// takes is only read.
    pub fn drop_pages(
        &self,
        (volume, heir): (u32, Option<u32>),
        from: u64,
        leaves_max: usize,
        mut watch: Option<&mut dyn Watch>,
    ) -> Result<u64, PoolError> {
        let (mut at, mut leaves) = (from, 0);
        let mut state = self.state();
        'next: loop {
            let tree = state.tree(volume)?;
            if at >= blocks_under(tree.height) || leaves >= leaves_max {
                return Ok(at);
            }
            let leaf = PageKey::leaf(volume, at);
            let mut reference = tree.root;
            for level in (0..=tree.height).rev() {
                let key = leaf.ancestor(level);
                let there = state.cache.get(key).map(|frame| frame.is_pinned());
                if there != Some(true) {
                    let theirs = match reference.place() {
                        // Zeroes and lost blocks would keep the page above from being left out.
                        None => true,
                        Some(place) if place.birth <= tree.shared => true,
                        Some(place) => match heir.map(|heir| state.view(key.of(heir))) {
                            Some(Ok(View::Missing(missing))) => {
                                state = self.read_in(state, missing)?;
                                continue 'next;
                            }
                            Some(view) => {
                                matches!(view?, View::At(theirs) if theirs.place() == Some(place))
                            }
                            None => false,
                        },
                    };
                    if theirs {
                        if watch.is_some()
                            && reference != NOTHING
                            && let Some(missing) = leave_out(&mut state, key, tree.height)?
                        {
                            state = self.read_in(state, missing)?;
                            continue 'next;
                        }
                        at = key.end_block();
                        continue 'next;
                    }
                }
                let Some(frame) = state.cache.get(key) else {
                    state = self.read_in(state, missing(key, reference))?;
                    continue 'next;
                };
                if level > 0 {
                    reference = child_of(frame.page(), leaf, level);
                    continue;
                }
                if let Some(watch) = watch.as_deref_mut() {
                    if let Prepared::Missing(missing) = state.prepare(key)? {
                        state = self.read_in(state, missing)?;
                        continue 'next;
                    }
                    let frame = state.cache.get(key).expect("it was just prepared");
                    tell_lost(key, frame.page(), watch)?;
                    frame.page_mut().fill(RAW_HOLE);
                }
                (at, leaves) = (key.end_block(), leaves + 1);
            }
        }
    }

    /// Blocks from `first` on, at most `count`, that two trees are known to have alike without
    /// looking at leaves; 0 if the leaves there must be looked at. What is lost in both is not
    /// known to have been alike.
    pub fn alike_run(&self, [a, b]: [u32; 2], first: Lba, count: u64) -> Result<u64, PoolError> {
        let mut state = self.state();
        'again: loop {
            let height = state.tree(a)?.height.min(state.tree(b)?.height);
            for level in (0..=height).rev() {
                let key = PageKey::leaf(a, first.get()).ancestor(level);
                let mut views = [View::Changed; 2];
                for (view, volume) in views.iter_mut().zip([a, b]) {
                    *view = state.view(PageKey { volume, ..key })?;
                    if let View::Missing(missing) = *view {
                        state = self.read_in(state, missing)?;
                        continue 'again;
                    }
                }
                let both = matches!(views, [View::At(_), View::At(_)]);
                if both && views[0] == views[1] && views[0] != View::At(LOST) {
                    let end = alike_until(&mut state, key, b);
                    return Ok((end - first.get()).min(count));
                }
            }
            return Ok(0);
        }
    }
}

/// Two trees have the page `key` alike: the end of the pages from there on, side by side below one,
/// that they have alike as what is above them in memory says.
fn alike_until(state: &mut State, key: PageKey, other: u32) -> u64 {
    let (above, number) = key.parent();
    let mut page_above = |volume: u32| {
        // Nothing below changed since it was written.
        let frame = state.cache.get(above.of(volume)).filter(|frame| !frame.is_pinned());
        frame.map(|frame| frame.shared_page())
    };
    let (Some(a), Some(b)) = (page_above(key.volume), page_above(other)) else {
        return key.end_block();
    };
    let alike = |&number: &usize| {
        let reference = raw_reference(&a, number);
        reference == raw_reference(&b, number)
            && PageRef::from_raw(reference).is_some_and(|reference| reference != LOST)
    };
    let more = (number + 1..REFERENCES_PER_PAGE).take_while(alike).count() as u64;
    PageKey { index: key.index + more, ..key }.end_block()
}

/// Let a tree of this height have no page at this place any more; or say what must be read first.
fn leave_out(state: &mut State, key: PageKey, height: u8) -> Result<Option<Missing>, PoolError> {
    if key.level < height
        && let Prepared::Missing(missing) = state.prepare(key.parent().0)?
    {
        return Ok(Some(missing));
    }
    state.set_reference(key, NOTHING);
    Ok(None)
}

fn missing(key: PageKey, reference: PageRef) -> Missing {
    match reference {
        PageRef::Stored { place, check } => Missing { key, place, check },
        PageRef::Uniform(_) => unreachable!("who asks has seen that there is a page"),
    }
}

fn tell_lost(
    key: PageKey,
    page: &[u64; ENTRIES_PER_PAGE],
    watch: &mut dyn Watch,
) -> Result<(), PoolError> {
    for &raw in page {
        let Some(entry) = MapEntry::from_raw(raw) else {
            let nowhere = Missing { key, place: super::cursor::NOWHERE, check: 0 };
            return Err(corrupt_page(&nowhere, format!("an entry is {raw:#x}")));
        };
        watch.lost(entry);
    }
    Ok(())
}
