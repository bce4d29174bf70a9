//! Checkpoints: mapping pages, block states and a root, stored bit by bit while the host goes on.
//! Room: onefold-flash.
//! Invariants: a root says up to which sequence `S` everything is in mapping pages; a mapping
//! page's seed says up to which sequence its own entries are, so that later pages and records are
//! replayed on top of each segment from there (`recover`).
//! Cost: one mapping page per `interval / segments` host pages, if it changed.

use std::ops::Range;

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::blocks::Blocks;
use crate::ftl::error::FtlError;
use crate::ftl::root::{OPEN, Root};
use crate::ftl::rounds::Rounds;
use crate::ftl::segments::Segments;
use crate::nand::Nand;
use crate::op::Driver;

/// The pages of block states: erase counts, which blocks were open, and which mapping pages there
/// are, without which a lost one would read as never written.
fn state_pages(
    blocks: &Blocks,
    all: Range<u32>,
    rounds: &Rounds,
    segments: &Segments,
) -> Vec<Vec<u8>> {
    let mut states: Vec<u32> = all.map(|block| blocks.erases(block)).collect();
    for &block in rounds.open() {
        states[block as usize] |= OPEN;
    }
    states.extend(segments.words());
    let pages = states.chunks(segments.slots().words_per_state());
    pages.map(|page| page.iter().flat_map(|state| state.to_le_bytes()).collect()).collect()
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Does the share of checkpointing that falls to one host page.
    pub(super) fn checkpoint_share(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.rounds.count();
        while self.rounds.take_step() {
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
        if !self.own.is_on() {
            return Ok(());
        }
        self.begin_round();
        while self.rounds.next_segment().is_some() {
            self.checkpoint_step(d)?;
            self.make_room_everywhere(d)?;
        }
        self.finish_round(d)?;
        self.nand.sync()?;
        Ok(())
    }

    fn checkpoint_step(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let Some(segment) = self.rounds.next_segment() else { return self.finish_round(d) };
        if self.books.segments().changed_by(segment, self.rounds.seq()) {
            self.store_segment(segment, d)?;
        }
        self.rounds.advance();
        Ok(())
    }

    pub(super) fn begin_round(&mut self) {
        self.rounds.begin(self.journal.now(), self.space.open_blocks().collect());
    }

    /// Stores block states and root; the journal up to the root's sequence is not needed then.
    pub(super) fn finish_round(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        let (seq, odd) = (self.rounds.seq(), self.rounds.is_odd());
        let slots = self.own.slots();
        let blocks = 0..self.layout.geometry().blocks();
        let states = state_pages(self.space.blocks(), blocks, &self.rounds, self.books.segments());
        for (index, bytes) in (0..).zip(&states) {
            self.program_meta(slots.state(index, odd), seq, bytes, d)?;
        }
        let (logical_pages, pages) = (self.settings.logical_pages, self.layout.geometry().pages());
        let root = Root { seq, logical_pages, pages, odd, subpages: self.layout.subpages() };
        self.program_meta(slots.root(), seq, &root.encode(), d)?;
        self.counters.checkpoints += 1;
        while let Some(slot) = self.journal.outlived(seq) {
            if let Some(place) = self.own.vacate(slot) {
                self.drop_own(place);
            }
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
        let slots = self.own.slots();
        // A stored name of a virtual page is worth nothing without what says where that is.
        let depends = if slots.is_of_map(segment) {
            self.journal.binds(&slots.lpns(segment))
        } else {
            !self.journal.pending().is_empty()
        };
        if depends && !self.journal.is_protected() {
            self.store_journal(d)?;
        }
        let bytes = self.books.segment_bytes(segment);
        let seq = self.journal.now();
        self.program_meta(segment, seq, &bytes, d)?;
        self.books.segments_mut().stored(segment, seq);
        Ok(())
    }
}
