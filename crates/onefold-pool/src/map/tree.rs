//! The map as the engine sees it: look up, change, fill, write out.
//! Room: onefold-pool.
//! Only one thread changes the map at a time (the engine's lock sees to that); any number look
//! things up meanwhile. Pages are read from the media without any lock held.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_block::{Lba, Media};

use super::cache::PageCache;
use super::cursor::{Found, Missing, NOWHERE, Prepared, State, Tree, corrupt_page};
use super::mended::Mended;
use super::page::{
    self, ENTRIES_PER_PAGE, PAGE_BYTES, Page, PageKey, PageRef, Place, REFERENCES_PER_PAGE,
    height_for,
};
use super::slots::Slots;
use crate::error::PoolError;
use crate::format::superblock::RawPageRef;
use crate::pba::{MapEntry, RAW_HOLE};
use crate::sync;

/// Slots for which space is set aside at a time: 256 KiB.
const RESERVE_SLOTS: u32 = 64;

/// Bitmaps of slots that pages are set aside for: one that is being written and the next.
const BITMAPS: usize = 2;

/// Pages that a bitmap of slots takes at most once `more` are in use, those above among them.
const fn bitmap_pages(slots: &Slots, more: usize) -> usize {
    let mut level = slots.bitmap_pages_max(more);
    let mut pages = level;
    while level > 1 {
        level = level.div_ceil(REFERENCES_PER_PAGE);
        pages += level;
    }
    pages
}

/// See [`Map::lacking`].
fn lacking(state: &State, more: usize) -> u32 {
    let needed = state.cache.dirty() + state.cache.frozen() + more;
    let bitmaps = BITMAPS * bitmap_pages(&state.slots, 2 * needed);
    ((needed + bitmaps) as u32).saturating_sub(state.slots.free())
}

/// One past the last slot that has space once so many more have.
fn upto(slots: &Slots, more: u32) -> Result<u32, PoolError> {
    let upto = slots.reserved().checked_add(more);
    upto.ok_or_else(|| PoolError::NoSpace("the map has reached 16 TiB".to_owned()))
}

/// A volume's root, as a checkpoint records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Levels above the leaves.
    pub height: u8,
    /// The root page.
    pub reference: RawPageRef,
}

/// No checkpoint: of a volume without snapshots, nothing is shared.
pub const NO_SNAPSHOT: u64 = 0;
/// Memory that a page takes, with what is known of it beside.
const FRAME_BYTES: usize = PAGE_BYTES + 64;
/// So many pages are held at least, whatever the budget.
const PAGES_MIN: usize = 64;

/// What the map uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapStats {
    /// Memory in use, in bytes.
    pub bytes: u64,
    /// Slots in use, each of which holds a page.
    pub pages: u64,
    /// Pages read from the media since it was opened.
    pub pages_read: u64,
}

/// Hears what a change of the map does to the totals of containers, which count the entries of
/// distinct pages.
pub trait Watch {
    /// An entry is no longer there.
    fn lost(&mut self, entry: MapEntry);
    /// An entry is there once more: its leaf is a snapshot's, and was copied to be changed.
    fn copied(&mut self, entry: MapEntry);
}

/// The map of all volumes.
pub struct Map {
    pub(super) media: Arc<dyn Media>,
    state: Mutex<State>,
    pages_max: usize,
    /// The newest checkpoint that may have written a page.
    newest: AtomicU64,
    pages_read: AtomicU64,
    /// None but while a pool is being repaired.
    pub(super) mended: Mended,
}

impl Map {
    /// A map in `media` as checkpoint `sequence` left it, whose pages take at most so many bytes of
    /// memory.
    pub fn new(media: Arc<dyn Media>, budget_bytes: u64, sequence: u64) -> Self {
        let pages_max = (budget_bytes as usize / FRAME_BYTES).max(PAGES_MIN);
        let state =
            State { cache: PageCache::new(pages_max), slots: Slots::new(), trees: HashMap::new() };
        let (newest, pages_read) = (AtomicU64::new(sequence), AtomicU64::new(0));
        let mended = Mended::default();
        Self { media, state: Mutex::new(state), pages_max, newest, pages_read, mended }
    }

    /// A checkpoint of this number is about to write pages.
    pub(super) fn begin_checkpoint(&self, sequence: u64) {
        self.newest.store(sequence, Ordering::Release);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// Add a volume's tree. `shared` is the checkpoint that the newest snapshot of the volume was
    /// made with; 0 if there is none.
    pub fn add(&self, volume: u32, root: Root, blocks: u64, shared: u64) -> Result<(), PoolError> {
        let key = PageKey::root(volume, root.height);
        let missing = Missing { key, place: NOWHERE, check: 0 };
        let reference = PageRef::from_raw(root.reference)
            .ok_or_else(|| corrupt_page(&missing, "the root refers to no page"))?;
        let (height, root) = (root.height, reference);
        let tree = Tree { height, root, blocks, shared, left_to: 0, older: NO_SNAPSHOT };
        self.state().trees.insert(volume, tree);
        Ok(())
    }

    /// Slots of the map file.
    pub fn file_slots(&self) -> Result<u64, PoolError> {
        Ok(self.media.len()? / PAGE_BYTES as u64)
    }

    /// The slots that are in use, as the checkpoint says.
    pub fn restore_slots(&self, bits: Vec<u64>) {
        self.state().slots = Slots::restore(bits);
    }

    /// The same where no bitmap that was written says so.
    pub fn restore_slots_anew(&self, bits: Vec<u64>) {
        self.state().slots = Slots::restore_anew(bits);
    }

    /// The slots that the checkpoint to come has in use, as bits.
    pub fn slots_in_use(&self) -> Vec<u64> {
        self.state().slots.in_use()
    }

    /// Forget a volume whose blocks are all holes by now, so that it has no pages but dirty ones.
    pub fn remove(&self, volume: u32) {
        let mut state = self.state();
        let tree = state.trees.get(&volume).copied();
        for key in state.cache.keys_of(volume) {
            let shared = tree.map_or(NO_SNAPSHOT, |tree| tree.shared_at(key));
            if let Some(place) = state.cache.get(key).and_then(|frame| frame.place) {
                state.give_up(place, shared);
            }
            state.cache.remove(key);
        }
        state.trees.remove(&volume);
    }

    /// A volume's root now.
    pub fn root(&self, volume: u32) -> Result<Root, PoolError> {
        let tree = self.state().tree(volume)?;
        Ok(Root { height: tree.height, reference: tree.root.raw() })
    }

    /// Of the highest tree.
    pub fn height_max(&self) -> usize {
        self.state().trees.values().map(|tree| usize::from(tree.height)).max().unwrap_or(0)
    }

    /// Blocks that a volume's tree has room for, at its present height.
    pub fn blocks_max(&self, volume: u32) -> Result<u64, PoolError> {
        Ok(page::blocks_under(self.state().tree(volume)?.height))
    }

    /// Give a volume this many blocks. Entries past the end must be holes.
    pub fn resize(&self, volume: u32, blocks: u64) -> Result<(), PoolError> {
        loop {
            let mut state = self.state();
            let tree = state.tree(volume)?;
            if tree.height >= height_for(blocks) {
                state.trees.get_mut(&volume).expect("it was just seen").blocks = blocks;
                return Ok(());
            }
            // One more level: the old root becomes the first child of a new one, which must be
            // dirty, and so must the old root if it is in memory and dirty.
            let above = PageKey::root(volume, tree.height + 1);
            let mut page = page::uniform_page(above.level, RAW_HOLE);
            page::set_reference(&mut page, 0, tree.root);
            state.cache.insert(above, page, None, true);
            let tree = state.trees.get_mut(&volume).expect("it was just seen");
            tree.height += 1;
            tree.root = PageRef::Uniform(RAW_HOLE);
        }
    }

    /// Append the entries of `count` blocks from `first` to `out`.
    pub fn entries(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
        out: &mut Vec<MapEntry>,
    ) -> Result<(), PoolError> {
        let (mut at, end) = (first.get(), first.get() + count);
        let mut state = self.state();
        while at < end {
            match state.locate(volume, at)? {
                Found::Leaf(key) => {
                    let upto = end.min(key.end_block());
                    let frame = state.cache.get(key).expect("it was just found");
                    for lba in at..upto {
                        let raw = frame.page()[lba as usize % ENTRIES_PER_PAGE];
                        out.push(MapEntry::from_raw(raw).ok_or_else(|| bad_entry(key, raw))?);
                    }
                    at = upto;
                }
                Found::Uniform { key, entry } => {
                    let upto = end.min(key.end_block());
                    let entry = MapEntry::from_raw(entry).expect("hole or zero");
                    out.extend(std::iter::repeat_n(entry, (upto - at) as usize));
                    at = upto;
                }
                Found::Missing(missing) => state = self.read_in(state, missing)?,
            }
        }
        Ok(())
    }

    /// Append the entries of single blocks to `out`, in their order: cheaper than a call for each,
    /// most of all where neighbours follow each other. After an error, those before it are there.
    pub fn pick(
        &self,
        volume: u32,
        blocks: &[Lba],
        out: &mut Vec<MapEntry>,
    ) -> Result<(), PoolError> {
        let (mut state, mut blocks) = (self.state(), blocks);
        while let Some((&first, rest)) = blocks.split_first() {
            let key = PageKey::leaf(volume, first.get());
            let Some(frame) = state.cache.get(key) else {
                match state.locate(volume, first.get())? {
                    Found::Leaf(_) => {}
                    Found::Uniform { entry, .. } => {
                        out.push(MapEntry::from_raw(entry).expect("hole or zero"));
                        blocks = rest;
                    }
                    Found::Missing(missing) => state = self.read_in(state, missing)?,
                }
                continue;
            };
            let same = |lba: &&Lba| PageKey::leaf(volume, lba.get()) == key;
            let (here, rest) = blocks.split_at(blocks.iter().take_while(same).count());
            for lba in here {
                let raw = frame.page()[lba.get() as usize % ENTRIES_PER_PAGE];
                out.push(MapEntry::from_raw(raw).ok_or_else(|| bad_entry(key, raw))?);
            }
            blocks = rest;
        }
        Ok(())
    }

    /// The run of equal kind from `first`, for skipping holes: the number of blocks (at most
    /// `count`) known to be uniform without looking at leaves, or 0.
    pub fn uniform_run(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
    ) -> Result<(u64, MapEntry), PoolError> {
        let mut state = self.state();
        loop {
            match state.locate(volume, first.get())? {
                Found::Leaf(_) => return Ok((0, MapEntry::Hole)),
                Found::Uniform { key, entry } => {
                    let run = (key.end_block() - first.get()).min(count);
                    return Ok((run, MapEntry::from_raw(entry).expect("hole or zero")));
                }
                Found::Missing(missing) => state = self.read_in(state, missing)?,
            }
        }
    }

    /// Where to go on after the page that holds `lba` could not be read: the end of what is below
    /// it.
    pub fn past_damage(&self, volume: u32, lba: Lba) -> u64 {
        match self.state().locate(volume, lba.get()) {
            Ok(Found::Missing(missing)) => missing.key.end_block(),
            _ => PageKey::leaf(volume, lba.get()).end_block(),
        }
    }

    pub(super) fn read_in<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        missing: Missing,
    ) -> Result<MutexGuard<'a, State>, PoolError> {
        drop(state);
        let read = self.read_page(&missing);
        let mut state = self.state();
        state.install(missing, read)?;
        Ok(state)
    }

    pub(super) fn read_page(&self, missing: &Missing) -> Result<Box<Page>, PoolError> {
        if let Some(page) = self.mended.get(missing) {
            return Ok(page);
        }
        if missing.place == NOWHERE {
            return Err(corrupt_page(missing, "the page above refers to it by no valid number"));
        }
        self.read_slot(missing.place, missing.check).map_err(|error| match error {
            PoolError::Corrupt { problem, .. } => corrupt_page(missing, problem),
            other => other,
        })
    }

    /// The page at a place, with this checksum. A page that no checkpoint can have written yet is
    /// damage, as the one above it is that says so.
    pub(super) fn read_slot(&self, place: Place, check: u32) -> Result<Box<Page>, PoolError> {
        let mut bytes = [0; PAGE_BYTES];
        let at = u64::from(place.slot) * PAGE_BYTES as u64;
        let newest = self.newest.load(Ordering::Acquire);
        if place.birth > newest {
            let born = format!("checkpoint {} is said to have written it", place.birth);
            let problem = format!("{born}, but the newest is {newest}");
            return Err(PoolError::corrupt("map", at, problem));
        }
        self.media.read(at, &mut bytes)?;
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        let found = crc32fast::hash(&bytes);
        if found != check {
            let problem = format!("checksum is {found:08x}, not {check:08x}");
            return Err(PoolError::corrupt("map", at, problem));
        }
        Ok(page::decode(&bytes))
    }

    /// What this refers to is no longer in use, once the next checkpoint is durable.
    pub(super) fn release(&self, reference: PageRef) {
        if let Some(place) = reference.place() {
            self.state().slots.release(place.slot);
        }
    }

    /// Set the entries of blocks from `first` on. `watch` hears of what no longer counts, and of
    /// what counts once more.
    pub fn set(
        &self,
        volume: u32,
        first: Lba,
        entries: &[MapEntry],
        watch: &mut dyn Watch,
    ) -> Result<(), PoolError> {
        let (mut at, mut entries) = (first.get(), entries);
        let mut state = self.state();
        while !entries.is_empty() {
            let key = PageKey::leaf(volume, at);
            let copied = match state.prepare(key)? {
                Prepared::Ready { copied } => copied,
                Prepared::Missing(missing) => {
                    state = self.read_in(state, missing)?;
                    continue;
                }
            };
            let run = entries.len().min((key.end_block() - at) as usize);
            let (now, rest) = entries.split_at(run);
            let frame = state.cache.get(key).expect("it was just prepared");
            if copied {
                tell_copied(key, frame.page(), watch)?;
            }
            let from = at as usize % ENTRIES_PER_PAGE;
            for (slot, entry) in frame.page_mut()[from..from + run].iter_mut().zip(now) {
                watch.lost(MapEntry::from_raw(*slot).ok_or_else(|| bad_entry(key, *slot))?);
                *slot = entry.raw();
            }
            at += run as u64;
            entries = rest;
        }
        Ok(())
    }

    /// Set `count` blocks from `first` to hole or zero, visiting at most `leaves_max` leaves;
    /// returns how many blocks were set.
    pub fn fill(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
        entry: MapEntry,
        leaves_max: usize,
        watch: &mut dyn Watch,
    ) -> Result<u64, PoolError> {
        let raw = entry.raw();
        let (start, end) = (first.get(), first.get() + count);
        let (mut at, mut leaves) = (start, 0);
        let mut state = self.state();
        while at < end && leaves < leaves_max {
            match state.locate(volume, at)? {
                Found::Missing(missing) => state = self.read_in(state, missing)?,
                Found::Leaf(key) => {
                    let copied = match state.prepare(key)? {
                        Prepared::Ready { copied } => copied,
                        Prepared::Missing(missing) => {
                            state = self.read_in(state, missing)?;
                            continue;
                        }
                    };
                    let upto = end.min(key.end_block());
                    let frame = state.cache.get(key).expect("it was just prepared");
                    if copied {
                        tell_copied(key, frame.page(), watch)?;
                    }
                    let page = frame.page_mut();
                    for lba in at..upto {
                        let slot = &mut page[lba as usize % ENTRIES_PER_PAGE];
                        watch.lost(MapEntry::from_raw(*slot).ok_or_else(|| bad_entry(key, *slot))?);
                        *slot = raw;
                    }
                    (at, leaves) = (upto, leaves + 1);
                }
                Found::Uniform { key, entry } if entry == raw => at = end.min(key.end_block()),
                Found::Uniform { key, .. } => {
                    let tree = state.tree(volume)?;
                    let whole = key.first_block() >= at && key.end_block().min(tree.blocks) <= end;
                    // Either set the subtree's one entry in its parent, or make a page of it.
                    let below = if whole && key.level < tree.height { key.parent().0 } else { key };
                    // Where it is a leaf, it is a new one: what a snapshot has is in memory above.
                    if let Prepared::Missing(missing) = state.prepare(below)? {
                        state = self.read_in(state, missing)?;
                    } else if below != key {
                        state.set_reference(key, PageRef::Uniform(raw));
                        at = end.min(key.end_block());
                        leaves += 1;
                    }
                }
            }
        }
        Ok(at.min(end) - start)
    }

    /// Slots for which space is still to be set aside so that everything dirty or being written,
    /// `more` pages, and the bitmap of slots can be written out: no more than that needs.
    pub fn lacking(&self, more: usize) -> u32 {
        lacking(&self.state(), more)
    }

    /// See that what [`Map::lacking`] tells of is set aside.
    pub fn reserve(&self, more: usize) -> Result<(), PoolError> {
        let mut state = self.state();
        let upto = upto(&state.slots, lacking(&state, more))?;
        self.set_aside(state.slots.reserved(), upto)?;
        state.slots.grow_reserved(upto);
        Ok(())
    }

    /// Set space aside for so many slots, and hold no lock while the media are asked.
    pub fn provide(&self, slots: u32) -> Result<(), PoolError> {
        let (from, upto) = {
            let state = self.state();
            (state.slots.reserved(), upto(&state.slots, slots)?)
        };
        self.set_aside(from, upto)?;
        self.state().slots.grow_reserved(upto);
        Ok(())
    }

    /// Set the rest of a step aside in the same way, so that the next changes need not ask.
    pub fn provide_ahead(&self) -> Result<(), PoolError> {
        let reserved = self.state().slots.reserved();
        let step = reserved.checked_next_multiple_of(RESERVE_SLOTS).unwrap_or(reserved);
        self.provide(step - reserved)
    }

    fn set_aside(&self, from: u32, upto: u32) -> Result<(), PoolError> {
        let page = PAGE_BYTES as u64;
        if upto > from {
            self.media.reserve(u64::from(from) * page, u64::from(upto - from) * page)?;
        }
        Ok(())
    }

    /// Whether anything changed since the last checkpoint began.
    pub fn is_dirty(&self) -> bool {
        self.state().cache.dirty() > 0
    }

    /// Whether so much changed that a checkpoint must come. Half of the memory is for what changes,
    /// also while as much is being written.
    pub fn is_too_dirty(&self) -> bool {
        self.state().cache.dirty() > self.pages_max / 2
    }

    /// Whether half as much changed.
    pub fn is_half_dirty(&self) -> bool {
        self.state().cache.dirty() > self.pages_max / 4
    }

    /// The checkpoint that refers to what [`Map::write_out`] wrote is durable: what it replaced is
    /// free.
    pub fn checkpoint_is_durable(&self) {
        let mut state = self.state();
        state.slots.free_released();
        state.cache.trim();
    }

    /// The durable checkpoint is going to be read: its pages stay where they are until
    /// [`Map::let_go`].
    pub fn hold(&self) {
        self.state().slots.hold();
    }

    /// It is read no more.
    pub fn let_go(&self) {
        self.state().slots.let_go();
    }

    /// Cut the file after the last page, giving back space that was set aside.
    pub fn give_back(&self) -> Result<(), PoolError> {
        let mut state = self.state();
        state.slots.forget_reserved();
        self.media.set_len(u64::from(state.slots.end()) * PAGE_BYTES as u64)?;
        Ok(())
    }

    /// Pages read from the media since the map was opened.
    pub fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// What it uses now.
    pub fn stats(&self) -> MapStats {
        let state = self.state();
        MapStats {
            bytes: (state.cache.len() * FRAME_BYTES) as u64,
            pages: state.slots.used().into(),
            pages_read: self.pages_read(),
        }
    }
}

/// All entries of a leaf, as it was when it was copied.
fn tell_copied(key: PageKey, page: &Page, watch: &mut dyn Watch) -> Result<(), PoolError> {
    for &raw in page {
        watch.copied(MapEntry::from_raw(raw).ok_or_else(|| bad_entry(key, raw))?);
    }
    Ok(())
}

fn bad_entry(key: PageKey, raw: u64) -> PoolError {
    let missing = Missing { key, place: NOWHERE, check: 0 };
    corrupt_page(&missing, format!("an entry is {raw:#x}, which is neither hole, zero nor address"))
}
