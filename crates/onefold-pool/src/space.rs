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
        Self {
            journal,
            supers,
            journal_used,
            journal_reserved: 0,
            super_reserved: 0,
            note_bytes: 0,
        }
    }

    /// The part of the journal's file that `bytes` more of entries need and that is not set aside:
    /// no more than they need.
    pub fn journal_lacks(&self, bytes: u64, purpose: Purpose) -> Range<u64> {
        let slack = if purpose == Purpose::Data { JOURNAL_SLACK_BYTES } else { 0 };
        let needed = self.journal_used + bytes + FRAME_OVERHEAD_BYTES + slack;
        // What is set aside are whole pages.
        let from = self.journal_reserved;
        from..needed.next_multiple_of(PAGE_BYTES).max(from)
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

    /// The journal began anew; so many bytes of entries are to come into it.
    pub fn journal_restarted(&mut self, bytes: u64) {
        self.journal_used = FRAME_OVERHEAD_BYTES + bytes;
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

    /// What notes of volumes take in a checkpoint, at most.
    #[cfg(test)]
    pub const fn notes(&self) -> u64 {
        self.note_bytes
    }

    /// The journal's length once everything accepted is in it, at most.
    #[cfg(test)]
    pub const fn journal_used(&self) -> u64 {
        self.journal_used
    }

    /// Files were cut to their contents.
    pub fn given_back(&mut self) {
        self.journal_reserved = 0;
        self.super_reserved = 0;
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder};

    use super::*;

    fn space(folder: &SimFolder, journal_used: u64) -> Space {
        let file = |name| folder.create(name).unwrap();
        Space::new(file("journal"), [file("super.0"), file("super.1")], journal_used)
    }

    #[test]
    fn the_journal_has_room_to_the_byte_and_asks_for_no_more_than_is_needed() {
        let folder = SimFolder::new();
        let (mut space, mut seen) = (space(&folder, 1000), 0);
        // A frame has 32 bytes before its entries, and up to 64 behind them.
        assert_eq!(space.journal_lacks(3000, Purpose::Release), 0..4096);
        assert_eq!(space.journal_lacks(3001, Purpose::Release), 0..8192);
        assert_eq!(space.journal_lacks(3000, Purpose::Data), 0..4096 + (256 << 10));
        folder.ops_since(&mut seen);
        for _ in 0..2 {
            space.journal(3000, Purpose::Release).unwrap();
        }
        assert_eq!(folder.ops_since(&mut seen), "Reserve journal bytes 0..4096\n");
        let room = |space: &Space| (0..5000).filter(|&n| space.journal_has_room(n)).count() - 1;
        assert_eq!(room(&space), 3000);
        space.journal_took(600);
        assert_eq!(room(&space), 2400);
        space.journal_gave_back(200);
        assert_eq!(room(&space), 2600);
        space.frame_begins();
        assert_eq!(room(&space), 2504);
        space.journal_restarted(100);
        assert_eq!(room(&space), 4096 - 2 * 96 - 100);
        space.journal(5000, Purpose::Release).unwrap();
        assert_eq!(folder.ops_since(&mut seen), "Reserve journal bytes 4096..8192\n");
        assert_eq!(space.journal_ahead(), 8192..256 << 10);
        space.journal_has(256 << 10);
        space.journal_has(12);
        assert_eq!(space.journal_ahead(), 256 << 10..256 << 10);
        space.given_back();
        assert_eq!(space.journal_lacks(0, Purpose::Release), 0..4096);
    }

    #[test]
    fn checkpoints_have_room_for_volumes_and_their_notes_to_the_byte() {
        let folder = SimFolder::new();
        let (mut space, mut seen) = (space(&folder, 0), 0);
        assert_eq!((space.supers_lack(0), space.supers_lack(8)), (12_288, 16_384));
        folder.ops_since(&mut seen);
        for _ in 0..2 {
            space.supers(7).unwrap();
        }
        let both = ["super.0", "super.1"].map(|name| format!("Reserve {name} bytes 0..12288\n"));
        assert_eq!(folder.ops_since(&mut seen), both.concat());
        // Seven volumes leave 132 bytes, and a note takes 8 beside its own.
        for (note, lack) in [(0, 0), (1, 0), (124, 0), (125, 16_384)] {
            space.note(note);
            assert_eq!(space.supers_lack(7), lack, "a note of {note} bytes");
            space.note_gone(note);
        }
        assert_eq!((space.supers_lack(7), space.supers_lack(8)), (0, 16_384));
        space.supers_have(16_384);
        space.supers_have(5);
        assert_eq!(space.supers_lack(8), 0);
        space.given_back();
        assert_eq!(space.supers_lack(0), 12_288);
    }
}
