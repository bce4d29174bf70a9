//! Space set aside on the media, so that a lack of it is noticed by writes and never by flushes.
//! Room: onefold-pool.
//! Invariant: everything accepted so far fits into space that is set aside.

use std::ops::Range;
use std::sync::Arc;

use onefold_block::Media;

use crate::error::PoolError;
use crate::format::frame;
use crate::format::superblock::NOTE_HEAD_BYTES;

/// Journal space that data writes leave for trims and volume changes, which give space back.
const JOURNAL_SLACK_BYTES: u64 = 256 << 10;
/// Journal space is set aside in steps of this.
const JOURNAL_STEP_BYTES: u64 = 256 << 10;
/// What file systems give out.
const PAGE_BYTES: u64 = 4096;
/// Most that a frame adds to its entries.
const FRAME_OVERHEAD_BYTES: u64 = (frame::HEADER_BYTES + frame::ALIGN_BYTES) as u64;
/// A checkpoint without volumes, generously, with the page of its witness.
const SUPER_BASE_BYTES: u64 = 1024 + 2 * 4096;
/// A volume or snapshot in a checkpoint, with the longest name.
const SUPER_VOLUME_BYTES: u64 = 420;

/// What a note of so many bytes takes in a checkpoint.
const fn note_bytes(bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { (NOTE_HEAD_BYTES + bytes) as u64 }
}

/// What a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// New data: refused first when space runs out.
    Data,
    /// Giving data up, which must still be possible then.
    Release,
}

/// Space set aside for journal and checkpoints.
pub struct Space {
    journal: Arc<dyn Media>,
    supers: [Arc<dyn Media>; 2],
    /// The journal's length once everything accepted is in it, at most.
    journal_used: u64,
    journal_reserved: u64,
    super_reserved: u64,
    /// What notes of volumes take in a checkpoint, at most.
    note_bytes: u64,
}

impl Space {
    /// Nothing set aside yet; the journal is `journal_used` bytes long.
    pub fn new(journal: Arc<dyn Media>, supers: [Arc<dyn Media>; 2], journal_used: u64) -> Self {
        let (journal_reserved, super_reserved, note_bytes) = (0, 0, 0);
        Self { journal, supers, journal_used, journal_reserved, super_reserved, note_bytes }
    }

    /// The part of the journal's file that `bytes` more of entries need and that is not set aside:
    /// no more than they need.
    pub fn journal_lacks(&self, bytes: u64, purpose: Purpose) -> Range<u64> {
        let slack = if purpose == Purpose::Data { JOURNAL_SLACK_BYTES } else { 0 };
        let (needed, from) =
            (self.journal_used + bytes + FRAME_OVERHEAD_BYTES + slack, self.journal_reserved);
        from..if needed > from { needed.next_multiple_of(PAGE_BYTES) } else { from }
    }

    /// The rest of a step, so that what comes next need not ask the media.
    pub fn journal_ahead(&self) -> Range<u64> {
        self.journal_reserved..self.journal_reserved.next_multiple_of(JOURNAL_STEP_BYTES)
    }

    /// The journal's file has space up to there.
    pub fn journal_has(&mut self, upto: u64) {
        self.journal_reserved = self.journal_reserved.max(upto);
    }

    /// See that `bytes` more of journal entries have space.
    pub fn journal(&mut self, bytes: u64, purpose: Purpose) -> Result<(), PoolError> {
        let lacks = self.journal_lacks(bytes, purpose);
        if !lacks.is_empty() {
            self.journal.reserve(lacks.start, lacks.end - lacks.start)?;
            self.journal_has(lacks.end);
        }
        Ok(())
    }

    /// Whether there is space for so many bytes more of entries without asking the media.
    pub fn journal_has_room(&self, bytes: u64) -> bool {
        self.journal_lacks(bytes, Purpose::Release).is_empty()
    }

    /// Entries were not written after all.
    pub fn journal_gave_back(&mut self, bytes: u64) {
        self.journal_used -= bytes;
    }

    /// Entries were accepted.
    pub fn journal_took(&mut self, bytes: u64) {
        self.journal_used += bytes;
    }

    /// A frame is about to be made of accepted entries.
    pub fn frame_begins(&mut self) {
        self.journal_used += FRAME_OVERHEAD_BYTES;
    }

    /// The journal began anew.
    pub fn journal_restarted(&mut self) {
        self.journal_used = FRAME_OVERHEAD_BYTES;
    }

    /// How much of both checkpoint files must be set aside for so many volumes; 0 if that much is.
    pub const fn supers_lack(&self, volumes: usize) -> u64 {
        let needed = SUPER_BASE_BYTES + volumes as u64 * SUPER_VOLUME_BYTES + self.note_bytes;
        if needed > self.super_reserved { needed.next_multiple_of(PAGE_BYTES) } else { 0 }
    }

    /// A note of so many bytes comes into the next checkpoint.
    pub const fn note(&mut self, bytes: usize) {
        self.note_bytes += note_bytes(bytes);
    }

    /// A note of so many bytes is in no checkpoint any more.
    pub const fn note_gone(&mut self, bytes: usize) {
        self.note_bytes -= note_bytes(bytes);
    }

    /// Both checkpoint files have space up to there.
    pub fn supers_have(&mut self, upto: u64) {
        self.super_reserved = self.super_reserved.max(upto);
    }

    /// See that a checkpoint of so many volumes has space, in both files.
    pub fn supers(&mut self, volumes: usize) -> Result<(), PoolError> {
        let upto = self.supers_lack(volumes);
        if upto > 0 {
            self.supers.iter().try_for_each(|media| media.reserve(0, upto))?;
            self.supers_have(upto);
        }
        Ok(())
    }

    /// Files were cut to their contents.
    pub fn given_back(&mut self) {
        self.journal_reserved = 0;
        self.super_reserved = 0;
    }
}
