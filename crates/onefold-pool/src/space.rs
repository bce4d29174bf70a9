//! Space set aside on the media, so that a lack of it is noticed by writes and never by flushes.
//! Room: onefold-pool.
//! Invariant: everything accepted so far fits into space that is set aside.

use std::sync::Arc;

use onefold_block::Media;

use crate::error::PoolError;
use crate::format::frame;

/// Journal space that data writes leave for trims and volume changes, which give space back.
const JOURNAL_SLACK_BYTES: u64 = 256 << 10;
/// Journal space is set aside in steps of this.
const JOURNAL_STEP_BYTES: u64 = 1 << 20;
/// Checkpoint space is set aside in steps of this.
const SUPER_STEP_BYTES: u64 = 64 << 10;
/// What file systems give out.
const PAGE_BYTES: u64 = 4096;
/// Most that a frame adds to its entries.
const FRAME_OVERHEAD_BYTES: u64 = (frame::HEADER_BYTES + frame::ALIGN_BYTES) as u64;
/// A checkpoint without volumes, generously, with the page of its witness.
const SUPER_BASE_BYTES: u64 = 1024 + 2 * 4096;
/// A volume in a checkpoint, with the longest name.
const SUPER_VOLUME_BYTES: u64 = 350;

/// What a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// New data: refused first when space runs out.
    Data,
    /// Giving data up, which must still be possible then.
    Release,
}

/// What is asked of a medium: to have bytes up to a place set aside.
type Reserve<'a> = &'a dyn Fn(u64) -> Result<(), PoolError>;

/// Sets `needed` aside in whole pages, and the rest of a whole step if that fits: on a disk that is
/// nearly full, giving data up must not fail for want of more than it needs. What is needed comes
/// first, because a step for one file of two may take what the other needs. Says how much it is.
fn stepwise(needed: u64, step: u64, reserve: Reserve<'_>) -> Result<u64, PoolError> {
    let least = needed.next_multiple_of(PAGE_BYTES);
    reserve(least)?;
    let upto = needed.next_multiple_of(step);
    match reserve(upto) {
        Ok(()) => Ok(upto),
        Err(error) if error.is_no_space() => Ok(least),
        Err(error) => Err(error),
    }
}

/// Space set aside for journal and checkpoints.
pub struct Space {
    journal: Arc<dyn Media>,
    supers: [Arc<dyn Media>; 2],
    /// The journal's length once everything accepted is in it, at most.
    journal_used: u64,
    journal_reserved: u64,
    super_reserved: u64,
}

impl Space {
    /// Nothing set aside yet; the journal is `journal_used` bytes long.
    pub fn new(journal: Arc<dyn Media>, supers: [Arc<dyn Media>; 2], journal_used: u64) -> Self {
        Self { journal, supers, journal_used, journal_reserved: 0, super_reserved: 0 }
    }

    /// See that `bytes` more of journal entries have space.
    pub fn journal(&mut self, bytes: u64, purpose: Purpose) -> Result<(), PoolError> {
        let slack = if purpose == Purpose::Data { JOURNAL_SLACK_BYTES } else { 0 };
        let needed = self.journal_used + bytes + FRAME_OVERHEAD_BYTES + slack;
        if needed > self.journal_reserved {
            let from = self.journal_reserved;
            self.journal_reserved = stepwise(needed, JOURNAL_STEP_BYTES, &|upto| {
                Ok(self.journal.reserve(from, upto - from)?)
            })?;
        }
        Ok(())
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

    /// See that a checkpoint of so many volumes has space, in both files.
    pub fn supers(&mut self, volumes: usize) -> Result<(), PoolError> {
        let needed = SUPER_BASE_BYTES + volumes as u64 * SUPER_VOLUME_BYTES;
        if needed > self.super_reserved {
            self.super_reserved = stepwise(needed, SUPER_STEP_BYTES, &|upto| {
                self.supers.iter().try_for_each(|media| Ok(media.reserve(0, upto)?))
            })?;
        }
        Ok(())
    }

    /// Files were cut to their contents.
    pub fn given_back(&mut self) {
        self.journal_reserved = 0;
        self.super_reserved = 0;
    }
}
