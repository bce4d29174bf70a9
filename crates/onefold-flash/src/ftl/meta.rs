//! The FTL's own pages: mapping, journal, block states and root, in blocks of their own.
//! Room: onefold-flash.
//! Invariants: a block holds pages of the FTL or data, never both, so that recovery finds the
//! former by the first page of a block; a slot's old page dies when its new one is programmed.
//! Cost: 12 B per mapping page.

use crate::dedup::Policy;
use crate::ftl::journal::{Journal, JournalPage, RECORD_BYTES, Record};
use crate::ftl::map::{NONE, Owner};
use crate::ftl::settings::{Durability, FtlSettings};
use crate::ftl::{Ftl, FtlError, Stream};
use crate::geometry::Geometry;
use crate::nand::{Nand, NandError, Oob, PageKey, Payload};
use crate::op::{Cause, Driver, OpKind};

/// A segment that its mapping page holds as it is.
pub(super) const CLEAN: u64 = u64::MAX;

/// The numbering of the FTL's own pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    /// Entries of a mapping page.
    pub entries: u32,
    /// Mapping pages of logical pages: slots `0..logical`.
    pub logical: u32,
    /// Mapping pages in all, with those of the virtual table after `logical`.
    pub segments: u32,
    /// Pages of states: a word for each block, then two for each segment; two sets of them, after
    /// the segments, used in turn.
    pub states: u32,
    /// Words of a page of states.
    pub words_per_state: u32,
}

impl Slots {
    pub fn new(geometry: &Geometry, logical_pages: u32) -> Self {
        let entries = geometry.page_bytes / 4;
        let logical = logical_pages.div_ceil(entries);
        // Virtual pages in use are at most the logical pages, and those resting at most the
        // records of a few pages.
        let virtual_pages = logical_pages + 4 * entries;
        let segments = logical + virtual_pages.div_ceil(entries);
        Self {
            entries,
            logical,
            segments,
            states: (geometry.blocks() + 2 * segments).div_ceil(entries),
            words_per_state: entries,
        }
    }

    pub const fn state(&self, index: u32, odd: bool) -> u32 {
        self.segments + index + if odd { self.states } else { 0 }
    }

    pub const fn root(&self) -> u32 {
        self.segments + 2 * self.states
    }

    pub const fn first_journal(&self) -> u32 {
        self.root() + 1
    }

    pub fn key(&self, slot: u32) -> PageKey {
        if slot < self.segments {
            PageKey::Map(slot)
        } else if slot < self.root() {
            PageKey::Directory((slot - self.segments) % self.states)
        } else if slot == self.root() {
            PageKey::Root(0)
        } else {
            PageKey::Journal(slot - self.first_journal())
        }
    }

    pub fn lpns(&self, segment: u32) -> std::ops::Range<u32> {
        segment * self.entries..(segment + 1) * self.entries
    }
}

/// A checkpoint under way: mapping pages are stored one by one while the host goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// The checkpoint holds everything up to here.
    pub seq: u64,
    /// Segments before it are stored.
    pub next_segment: u32,
    /// Whether the second set of state pages is written by this one.
    pub odd: bool,
    /// Blocks that were open at `seq`.
    pub open: Vec<u32>,
}

/// The state of what the FTL stores of itself.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    /// Whether anything is stored at all.
    pub on: bool,
    pub protected: bool,
    pub slots: Slots,
    pub place: Vec<u32>,
    pub open: Option<u32>,
    /// Whether the power has gone and the capacitor's energy is used.
    pub emergency: bool,
    /// Pages of the FTL's own that each plane has programmed and not been let off for.
    pub ahead: Vec<u32>,
    /// Up to which sequence each segment's newest mapping page has its entries; 0 without one.
    pub stored_at: Vec<u64>,
    /// First change of each segment since it was stored, or [`CLEAN`].
    pub dirty_at: Vec<u64>,
    pub journal: Journal,
    pub round: Round,
    /// Host pages times segments towards the next segment to store.
    pub due: u64,
    /// Host pages from one checkpoint to the next.
    pub interval: u64,
    /// Journal pages that live between two checkpoints at most, roughly.
    pub journal_pages: u32,
}

impl Meta {
    pub fn new(geometry: &Geometry, settings: &FtlSettings) -> Self {
        let slots = Slots::new(geometry, settings.logical_pages);
        let on = settings.durability != Durability::Volatile || settings.map_cache_bytes > 0;
        let interval = match settings.checkpoint_pages {
            0 => geometry.pages() / 2,
            pages => pages,
        };
        // A host page counts once for each codeword that has an entry.
        let interval = u64::from(interval.max(1)) * u64::from(settings.logical_per_page());
        let journal = Journal {
            on: matches!(settings.durability, Durability::Journal | Durability::Protected),
            records_per_page: geometry.page_bytes as usize / RECORD_BYTES,
            ..Journal::default()
        };
        Self {
            on,
            protected: settings.durability == Durability::Protected,
            slots,
            place: if on { vec![NONE; slots.first_journal() as usize] } else { Vec::new() },
            open: None,
            emergency: false,
            ahead: vec![0; geometry.planes() as usize],
            stored_at: if on { vec![0; slots.segments as usize] } else { Vec::new() },
            dirty_at: if on { vec![CLEAN; slots.segments as usize] } else { Vec::new() },
            journal,
            round: Round::default(),
            due: 0,
            interval,
            journal_pages: (geometry.pages() / 4096).max(8),
        }
    }

    /// Most pages of the FTL that live at a time.
    pub fn pages_max(&self) -> u32 {
        if !self.on {
            return 0;
        }
        let journal = if self.journal.on { 2 * self.journal_pages + 2 } else { 0 };
        self.slots.logical + 2 * self.slots.states + 2 + journal
    }

    /// A segment has changed.
    pub fn dirty(&mut self, segment: u32, seq: u64) {
        let at = &mut self.dirty_at[segment as usize];
        *at = (*at).min(seq);
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Notes a change that no page's out-of-band area says, before it is made. The caller lets
    /// [`Ftl::settle_journal`] store a full page of them afterwards.
    pub(super) fn log(&mut self, record: Record) {
        if self.meta.journal.on {
            let seq = self.next_seq();
            self.meta.journal.push(seq, record);
        } else {
            self.shared.synced();
        }
    }

    /// Stores the pending records if they fill a page.
    pub(super) fn settle_journal(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let journal = &self.meta.journal;
        if journal.pending.len() + 1 < journal.records_per_page {
            Ok(())
        } else {
            self.store_journal(d)
        }
    }

    /// Stores the pending records.
    pub(super) fn store_journal(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.meta.journal.pending.is_empty() {
            self.shared.synced();
            return Ok(());
        }
        let bytes = self.meta.journal.page();
        let last_seq = self.meta.journal.last;
        let slot = if let Some(slot) = self.meta.journal.free_slots.pop() {
            slot
        } else {
            self.meta.place.push(NONE);
            (self.meta.place.len() - 1) as u32
        };
        self.program_meta(slot, last_seq, &bytes, d)?;
        let journal = &mut self.meta.journal;
        journal.pages.push_back(JournalPage { slot, last_seq });
        journal.pending.clear();
        journal.durable = last_seq;
        self.shared.synced();
        // A long journal makes for a long recovery: checkpoints keep up with it.
        let share = self.meta.interval * u64::from(self.meta.slots.segments);
        self.meta.due += share / u64::from(self.meta.journal_pages);
        Ok(())
    }

    /// Whether a record that is not durable is the reason why pages of a block died.
    pub(super) fn waits_for_journal(&self, block: u32) -> bool {
        !self.meta.protected && self.blocks.needs(block) > self.meta.journal.durable
    }

    /// Programs one of the FTL's own pages; the one that was there before is dead then.
    pub(super) fn program_meta(
        &mut self,
        slot: u32,
        seed: u64,
        bytes: &[u8],
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let ppn = loop {
            let ppn = match self.next_meta_page(d) {
                Err(FtlError::NoSpace { .. }) if self.meta.emergency => self.any_page()?,
                page => page?,
            };
            let key = self.meta.slots.key(slot);
            let oob = Oob { key, seq: self.next_seq(), seed, tag: 0 };
            match self.nand.program(self.page_of(ppn), Payload::Meta(bytes), &oob) {
                Ok(()) => break ppn,
                Err(NandError::Failed { block, .. }) => self.give_up_open(block),
                Err(error) => return Err(error.into()),
            }
        };
        self.issue(d, OpKind::Program, Cause::Map, ppn, false);
        let plane = self.geometry.plane_of(self.page_of(ppn));
        self.meta.ahead[plane as usize] += 1;
        self.settle(ppn, Owner::Meta(slot));
        let old = std::mem::replace(&mut self.meta.place[slot as usize], ppn);
        if old != NONE {
            self.drop_meta(old);
        }
        Ok(())
    }

    /// A program in an open block failed.
    pub(super) fn give_up_open(&mut self, block: u32) {
        let open = self.open.iter_mut().flatten().chain([&mut self.meta.open]);
        open.filter(|open| **open == Some(block)).for_each(|open| *open = None);
        self.blocks.condemn(block);
        self.counters.block_failures += 1;
    }

    pub(super) fn drop_meta(&mut self, ppn: u32) {
        let freed = self.owners.clear(ppn, self.subpages());
        self.blocks.lose(self.block_of(ppn), freed);
    }

    /// Puts one of the FTL's own pages elsewhere, as it is.
    pub(super) fn move_meta(&mut self, slot: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let from = self.meta.place[slot as usize];
        self.issue(d, OpKind::Read, Cause::Map, from, false);
        if !N::KEEPS_META {
            return self.program_meta(slot, 0, &[], d);
        }
        let page = self.page_of(from);
        let bytes = match self.nand.read_meta(page) {
            // The entries are in DRAM, or they are lost.
            Err(NandError::Uncorrectable { .. }) if slot < self.meta.slots.segments => {
                return self.restore_segment(slot, d);
            }
            bytes => bytes?,
        };
        let seed = self.nand.read_oob(page)?.seed;
        self.program_meta(slot, seed, &bytes, d)
    }

    /// Stores a segment whose mapping page cannot be read any more.
    fn restore_segment(&mut self, segment: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        let in_dram = segment >= self.meta.slots.logical || self.cache.holds(segment);
        if in_dram {
            return self.store_segment(segment, d);
        }
        self.map.lose(self.meta.slots.lpns(segment));
        self.store_segment(segment, d)?;
        self.map.forget(self.meta.slots.lpns(segment));
        Ok(())
    }

    fn next_meta_page(&mut self, d: &mut impl Driver) -> Result<u32, FtlError> {
        // The last page of a block is for what power-loss protection stores in the end.
        let kept = u32::from(self.meta.protected && !self.meta.emergency);
        let limit = self.geometry.pages_per_block - kept;
        let block = match self.meta.open {
            Some(block) if self.blocks.written(block) < limit => block,
            _ => self.open_meta_block(d)?,
        };
        Ok(self.first_place(block) + self.blocks.append(block) * self.subpages())
    }

    /// A page of any open block, when the power has gone and there is no other. Recovery finds it,
    /// because it looks at every page of the blocks that were open.
    pub(super) fn any_page(&mut self) -> Result<u32, FtlError> {
        let mut open = self.open.iter().flatten().flatten().copied();
        let block = match open.find(|&block| !self.blocks.is_full(block)) {
            Some(block) => block,
            None => self.open_last_block()?,
        };
        Ok(self.first_place(block) + self.blocks.append(block) * self.subpages())
    }

    /// A block that collection would have needed, now that there is none.
    fn open_last_block(&mut self) -> Result<u32, FtlError> {
        for plane in 0..self.geometry.planes() {
            if let Some(block) = self.blocks.take_free(plane, false) {
                let open = &mut self.open[plane as usize][Stream::Host as usize];
                if let Some(full) = open.replace(block) {
                    self.blocks.close(full, self.seq);
                }
                return Ok(block);
            }
        }
        Err(self.no_space())
    }

    fn open_meta_block(&mut self, d: &mut impl Driver) -> Result<u32, FtlError> {
        let roomiest = |ftl: &Self| {
            let planes = 0..ftl.geometry.planes();
            planes.max_by_key(|&plane| (ftl.blocks.free_of(plane), u32::MAX - plane))
        };
        let mut roomy = roomiest(self);
        if roomy.is_some_and(|plane| self.blocks.free_of(plane) < 2) {
            // In the middle of anything, a block without live pages may be erased.
            let dead = (0..self.geometry.blocks())
                .find(|&block| self.blocks.is_dead(block) && !self.waits_for_journal(block));
            if let Some(block) = dead {
                self.erase_block(block, Cause::Map, d)?;
                roomy = roomiest(self);
            }
        }
        let Some(block) = roomy.and_then(|plane| self.blocks.take_free(plane, false)) else {
            return Err(self.no_space());
        };
        if let Some(full) = self.meta.open.replace(block) {
            self.blocks.close(full, self.seq);
        }
        Ok(block)
    }
}
