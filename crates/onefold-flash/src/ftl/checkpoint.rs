//! Checkpoints: mapping pages, block states and a root, stored bit by bit while the host goes on.
//! Room: onefold-flash.
//! Invariants: a root says up to which sequence `S` everything is in mapping pages; a mapping
//! page's seed says up to which sequence its own entries are, so that later pages and records are
//! replayed on top of each segment from there (`recover`).
//! Cost: one mapping page per `interval / segments` host pages, if it changed.

use crate::dedup::Policy;
use crate::ftl::meta::{CLEAN, Round};
use crate::ftl::{Ftl, FtlError};
use crate::nand::Nand;
use crate::op::Driver;

/// The first bytes of a root.
pub(super) const ROOT_MAGIC: [u8; 8] = *b"onefoldR";

/// What a root says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// Everything up to here is in mapping pages.
    pub seq: u64,
    pub logical_pages: u32,
    pub pages: u32,
    pub odd: bool,
    /// Sub-pages of a flash page.
    pub subpages: u32,
}

impl Root {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = ROOT_MAGIC.to_vec();
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend(self.logical_pages.to_le_bytes());
        bytes.extend(self.pages.to_le_bytes());
        bytes.push(self.odd.into());
        if self.subpages > 1 {
            bytes.push(self.subpages as u8);
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&ROOT_MAGIC)?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (logical, rest) = rest.split_first_chunk::<4>()?;
        let (pages, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            seq: u64::from_le_bytes(*seq),
            logical_pages: u32::from_le_bytes(*logical),
            pages: u32::from_le_bytes(*pages),
            odd: *rest.first()? != 0,
            // Not said where pages are not packed.
            subpages: rest.get(1).map_or(1, |&subpages| subpages.max(1).into()),
        })
    }
}

/// Marks a block as open in its state entry; the rest is its erase count.
pub(super) const OPEN: u32 = 1 << 31;

/// Flash pages that the journal may need beside what waits to be packed, when the power goes.
const RESCUED_RECORDS: u32 = 2;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Does the share of checkpointing that falls to one host page.
    pub(super) fn checkpoint_share(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.meta.due += u64::from(self.meta.slots.segments);
        while self.meta.due >= self.meta.interval {
            self.meta.due -= self.meta.interval;
            self.make_meta_room(d)?;
            self.checkpoint_step(d)?;
        }
        Ok(())
    }

    /// Stores everything that has changed, and a root.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn checkpoint(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if !self.meta.on {
            return Ok(());
        }
        self.begin_round();
        while self.meta.round.next_segment < self.meta.slots.segments {
            self.checkpoint_step(d)?;
            self.make_room_everywhere(d)?;
        }
        self.finish_round(d)?;
        self.nand.sync()?;
        Ok(())
    }

    fn checkpoint_step(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let segment = self.meta.round.next_segment;
        if segment >= self.meta.slots.segments {
            return self.finish_round(d);
        }
        if self.meta.dirty_at[segment as usize] <= self.meta.round.seq {
            self.store_segment(segment, d)?;
        }
        self.meta.round.next_segment += 1;
        Ok(())
    }

    pub(super) fn begin_round(&mut self) {
        let open = self.open.iter().flatten().flatten().copied().collect();
        let odd = !self.meta.round.odd;
        self.meta.round = Round { seq: self.seq, next_segment: 0, odd, open };
    }

    /// Stores block states and root; the journal up to the root's sequence is not needed then.
    pub(super) fn finish_round(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let Round { seq, odd, .. } = self.meta.round;
        let slots = self.meta.slots;
        let mut states: Vec<u32> =
            (0..self.geometry.blocks()).map(|block| self.blocks.erases(block)).collect();
        for &block in &self.meta.round.open {
            states[block as usize] |= OPEN;
        }
        // Which mapping pages there are: without it a lost one would read as never written.
        states.extend(self.meta.stored_at.iter().flat_map(|&at| [at as u32, (at >> 32) as u32]));
        for (index, part) in (0..).zip(states.chunks(slots.words_per_state as usize)) {
            let bytes: Vec<u8> = part.iter().flat_map(|state| state.to_le_bytes()).collect();
            self.program_meta(slots.state(index, odd), seq, &bytes, d)?;
        }
        let (logical_pages, pages) = (self.settings.logical_pages, self.geometry.pages());
        let root = Root { seq, logical_pages, pages, odd, subpages: self.subpages() };
        self.program_meta(slots.root(), seq, &root.encode(), d)?;
        self.counters.checkpoints += 1;
        while let Some(page) = self.meta.journal.pages.front().copied() {
            if page.last_seq > seq {
                break;
            }
            self.meta.journal.pages.pop_front();
            self.meta.journal.free_slots.push(page.slot);
            let ppn = std::mem::replace(&mut self.meta.place[page.slot as usize], super::map::NONE);
            self.drop_meta(ppn);
        }
        self.begin_round();
        Ok(())
    }

    /// Stores one segment of the map or the virtual table.
    pub(super) fn store_segment(
        &mut self,
        segment: u32,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let slots = self.meta.slots;
        let lpns = slots.lpns(segment);
        let journal = &self.meta.journal;
        // A stored name of a virtual page is worth nothing without what says where that is.
        let depends = if segment < slots.logical {
            journal.binds(&lpns)
        } else {
            !journal.pending.is_empty()
        };
        if depends && !self.meta.protected {
            self.store_journal(d)?;
        }
        let mut bytes = Vec::with_capacity(slots.entries as usize * 4);
        if segment < slots.logical {
            let raw = self.map.raw();
            let end = raw.len().min(lpns.end as usize);
            for entry in &raw[lpns.start as usize..end] {
                bytes.extend(entry.to_le_bytes());
            }
        } else {
            for vpn in slots.lpns(segment - slots.logical) {
                bytes.extend(self.shared.stored(vpn).to_le_bytes());
            }
        }
        let seq = self.seq;
        self.program_meta(segment, seq, &bytes, d)?;
        self.meta.stored_at[segment as usize] = seq;
        self.meta.dirty_at[segment as usize] = CLEAN;
        Ok(())
    }

    /// Makes durable everything that was acknowledged.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn flush(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.counters.flushes += 1;
        self.program_packing(d)?;
        if self.meta.journal.on && !self.meta.protected {
            self.make_room_everywhere(d)?;
            self.store_journal(d)?;
        }
        self.nand.sync()?;
        Ok(())
    }

    /// Programs what waits to be packed, unless that survives a power cut where it is.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn program_packing(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.waiting_survives(0) { Ok(()) } else { self.program_waiting(d) }
    }

    /// Whether what waits to be packed, and so many flash pages more, would find a place if the
    /// power went now: a drive that has no blocks left could not keep the promise.
    pub(super) fn waiting_survives(&self, more: u32) -> bool {
        let needed = self.packing.flash_pages() + more + RESCUED_RECORDS;
        self.settings.packing_survives && self.may_write() && self.rescue_pages() >= needed
    }

    /// Flash pages that can be programmed when the power has gone, but for those of the two blocks
    /// that have most of them: so many may fail until then, and in the rescue itself.
    fn rescue_pages(&self) -> u32 {
        let pages = self.geometry.pages_per_block;
        let free: u32 = (0..self.geometry.planes()).map(|plane| self.blocks.free_of(plane)).sum();
        let open = self.open.iter().flatten().flatten();
        let left = open.map(|&block| pages - self.blocks.written(block));
        let (mut all, mut most) = (free * pages, [pages * free.min(1), pages * (free / 2).min(1)]);
        for left in left {
            all += left;
            if left > most[0] {
                most = [left, most[0]];
            } else {
                most[1] = most[1].max(left);
            }
        }
        all - most[0] - most[1]
    }

    /// After something in which blocks may have failed: what waits is programmed while there still
    /// is a place for it. Where there is none any more, power-loss protection tries again.
    pub(super) fn keep_waiting_safe(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if self.packing.is_empty() || !self.settings.packing_survives || self.waiting_survives(0) {
            return Ok(());
        }
        match self.program_waiting(d) {
            Err(FtlError::NoSpace { .. }) => Ok(()),
            programmed => programmed,
        }
    }

    /// Whether collection frees what the host needs, as it does until too many blocks are bad.
    fn may_write(&self) -> bool {
        (0..self.geometry.planes()).any(|plane| self.blocks.free_of(plane) >= self.floor())
    }

    /// What power-loss protection does with the energy of its capacitor: stores what is pending.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn power_loss(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.meta.emergency = true;
        let mut stored = Ok(());
        if !self.packing.is_empty() {
            stored = self.program_waiting(d);
        }
        if self.meta.protected {
            stored = stored.and(self.store_journal(d));
        }
        self.meta.emergency = false;
        stored?;
        self.nand.sync()?;
        Ok(())
    }
}
