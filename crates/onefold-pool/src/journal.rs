//! The journal: map changes since the last checkpoint, a frame per flush.
//! Room: onefold-pool.
//! Invariants: (1) a frame is written only after the one before is durable, so that a broken frame
//! with a good one after it is damage and not a crash; (2) each epoch begins with an empty frame,
//! written after its checkpoint is durable: a journal that is ahead of every readable checkpoint
//! shows that the newest one was lost; (3) a checkpoint is written only when its epoch has a second
//! frame: with one frame alone, an unreadable checkpoint is damage and not a crash; (4) when a
//! frame with changes is durable, the witness is told, behind the checkpoint in its file, and not
//! synced: once that has reached the media, the loss of the last frames is no power cut either.

use std::sync::Arc;

use onefold_block::{Media, MediaError, data_end};

use crate::error::PoolError;
use crate::format::frame::{
    self, ALIGN_BYTES, Change, Entries, HEADER_BYTES, PAYLOAD_BYTES_MAX, Sealed,
};
use crate::format::witness::{
    WITNESS_BYTES, decode_witness, encode_witness, is_damaged, witness_at,
};

/// A journal longer than this asks for a checkpoint.
pub const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The journal's file, written from the start in every epoch.
pub struct Journal {
    media: Arc<dyn Media>,
    epoch: u64,
    next_number: u64,
    end_bytes: u64,
    torn_at: Option<u64>,
    /// Where the witness of this epoch is kept.
    witness: Witness,
}

/// The file of a checkpoint, and where in it the witness of its epoch is.
#[derive(Clone)]
pub struct Witness {
    media: Arc<dyn Media>,
    at: u64,
    unsynced: bool,
}

impl Witness {
    /// The witness in the file of a checkpoint of `len_bytes`.
    pub fn new(media: Arc<dyn Media>, len_bytes: u64) -> Self {
        Self { media, at: witness_at(len_bytes), unsynced: false }
    }

    /// How many frames of `epoch` it says were durable, if it is there.
    pub fn frames(&self, epoch: u64) -> Option<u64> {
        let mut bytes = [0; WITNESS_BYTES];
        self.media.read(self.at, &mut bytes).ok()?;
        decode_witness(&bytes, epoch)
    }

    /// Whether it was there and is damaged.
    pub fn is_damaged(&self, epoch: u64) -> bool {
        let mut bytes = [0; WITNESS_BYTES];
        self.media.read(self.at, &mut bytes).is_ok() && is_damaged(&bytes, epoch)
    }

    /// The same, looked for in all of the file: for when the checkpoint's length is not known.
    pub fn search(media: &dyn Media, epoch: u64) -> Option<u64> {
        let pages = (0..data_end(media).ok()?).step_by(witness_at(1) as usize);
        pages
            .filter_map(|at| {
                let mut bytes = [0; WITNESS_BYTES];
                media.read(at, &mut bytes).ok()?;
                decode_witness(&bytes, epoch)
            })
            .max()
    }

    /// So many frames of `epoch` are durable. A full disk may keep it from being told.
    fn tell(&mut self, epoch: u64, frames: u64) -> Result<(), PoolError> {
        match self.media.write(self.at, &encode_witness(epoch, frames)) {
            Err(MediaError::NoSpace { .. }) => Ok(()),
            other => {
                self.unsynced = true;
                Ok(other?)
            }
        }
    }
}

/// What a scan of the journal found.
#[derive(Debug, Default)]
pub struct Replay {
    /// Containers that are sealed, and were durable before a frame was.
    pub sealed: Vec<Sealed>,
    /// Number of the next frame.
    pub next_number: u64,
    /// Where the next frame begins.
    pub end_bytes: u64,
    /// Where a frame of the epoch begins that is not whole: what a power cut leaves, or damage to
    /// the last frame, which looks the same.
    pub torn_at: Option<u64>,
    /// The epoch of the first frame, if there is a good one.
    pub first_epoch: Option<u64>,
}

impl Journal {
    /// A journal that goes on after what a scan found.
    pub fn resume(media: Arc<dyn Media>, epoch: u64, replay: &Replay, witness: Witness) -> Self {
        let Replay { next_number, end_bytes, torn_at, .. } = *replay;
        Self { media, epoch, next_number, end_bytes, torn_at, witness }
    }

    /// Length in bytes.
    pub const fn len_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Where a frame that is not whole was found when the pool was opened.
    pub const fn torn_at(&self) -> Option<u64> {
        self.torn_at
    }

    /// Whether a stop cut the journal to the frame that begins an epoch, which is now damaged: no
    /// power cut leaves that.
    pub fn lost_its_only_frame(&self) -> bool {
        self.next_number == 0 && self.media.len().is_ok_and(|len| len == ALIGN_BYTES as u64)
    }

    /// Whether nothing followed the frame that begins the epoch: no change, and no checkpoint
    /// that a power cut may have torn.
    pub const fn is_clean(&self) -> bool {
        self.next_number == 1
    }

    /// A checkpoint is about to be written: from here on one that is torn is no surprise.
    pub fn expect_checkpoint(&mut self) -> Result<(), PoolError> {
        if self.is_clean() { self.append(&Entries::default()) } else { Ok(()) }
    }

    /// Write a frame and make it durable.
    pub fn append(&mut self, entries: &Entries) -> Result<(), PoolError> {
        debug_assert!(entries.len_bytes() <= PAYLOAD_BYTES_MAX);
        let bytes = frame::encode(self.epoch, self.next_number, entries);
        self.media.write(self.end_bytes, &bytes)?;
        self.media.sync()?;
        self.end_bytes += bytes.len() as u64;
        self.next_number += 1;
        if entries.is_empty() { Ok(()) } else { self.witness.tell(self.epoch, self.next_number) }
    }

    /// Make the witness durable.
    pub fn settle(&mut self) -> Result<(), PoolError> {
        if std::mem::take(&mut self.witness.unsynced) {
            self.witness.media.sync()?;
        }
        Ok(())
    }

    /// Begin a new epoch: the checkpoint with this sequence number is durable, in the file where
    /// the witness shall be.
    pub fn restart(&mut self, epoch: u64, witness: Witness) -> Result<(), PoolError> {
        self.epoch = epoch;
        self.witness = witness;
        self.next_number = 0;
        self.end_bytes = 0;
        self.append(&Entries::default())
    }

    /// Where the witness of this epoch is.
    pub fn witness(&self) -> Witness {
        self.witness.clone()
    }

    /// Cut the file after the last frame, giving back space that was set aside.
    pub fn give_back(&mut self) -> Result<(), PoolError> {
        self.media.set_len(self.end_bytes)?;
        Ok(())
    }

    /// Hold so much space past the end, for the next process: [`Journal::give_back`] is how it gets
    /// it.
    pub fn hold(&self, bytes: u64) -> Result<(), PoolError> {
        if bytes > 0 {
            self.media.reserve(self.end_bytes, bytes)?;
        }
        Ok(())
    }
}

/// Begin the journal of a new pool.
pub fn begin(media: &dyn Media, epoch: u64) -> Result<(), PoolError> {
    media.write(0, &frame::encode(epoch, 0, &Entries::default()))?;
    Ok(media.sync()?)
}

/// Hears a map change, and where the frame begins that it is in.
pub type OnChange<'a> = &'a mut dyn FnMut(u64, Change) -> Result<(), PoolError>;

/// Read all good frames of `epoch`; `on_change` gets their map changes in order.
pub fn replay(media: &dyn Media, epoch: u64, on_change: OnChange<'_>) -> Result<Replay, PoolError> {
    let len = media.len()?;
    let mut found = Replay::default();
    let mut buffer = Vec::new();
    while let Some(frame_len) = read_frame(media, found.end_bytes, len, &mut buffer)? {
        let frame = frame::decode(&buffer).expect("it was just verified");
        if found.end_bytes == 0 {
            found.first_epoch = Some(frame.epoch);
        }
        if frame.epoch != epoch || frame.number != found.next_number {
            break;
        }
        refuse_other_version(&frame)?;
        let contents = frame::decode_contents(frame.payload).ok_or_else(|| {
            PoolError::corrupt("journal", found.end_bytes, "a frame's entries make no sense")
        })?;
        for change in contents.changes {
            on_change(found.end_bytes, change)?;
        }
        found.sealed.extend(contents.sealed);
        found.next_number += 1;
        found.end_bytes += frame_len;
    }
    found.torn_at = begins_at(media, found.end_bytes, len, epoch)?.then_some(found.end_bytes);
    if len < ALIGN_BYTES as u64 {
        let problem = "the file is shorter than the frame that begins it";
        return Err(PoolError::corrupt("journal", len, problem));
    }
    // A journal cut to one frame by a clean stop cannot have held anything; any other begins with
    // a frame that lies within one sector, and is therefore never torn.
    if found.first_epoch.is_none() && len > ALIGN_BYTES as u64 {
        return Err(PoolError::corrupt("journal", 0, "its first frame is damaged"));
    }
    refuse_damage(media, epoch, len, &found)?;
    Ok(found)
}

/// Read the frames of a range that a replay has found good, from the beginning of one of them.
pub fn replay_part(
    media: &dyn Media,
    part: std::ops::Range<u64>,
    on_change: OnChange<'_>,
) -> Result<(), PoolError> {
    let (mut at, mut buffer) = (part.start, Vec::new());
    while at < part.end {
        let frame_len = read_frame(media, at, part.end, &mut buffer)?;
        let contents = frame::decode(&buffer).and_then(|it| frame::decode_contents(it.payload));
        let (Some(frame_len), Some(contents)) = (frame_len, contents) else {
            return Err(PoolError::corrupt("journal", at, "a frame was good and is no longer"));
        };
        for change in contents.changes {
            on_change(at, change)?;
        }
        at += frame_len;
    }
    Ok(())
}

/// Where a good frame is, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFrame {
    /// The sequence number of the checkpoint that it follows.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
    /// Where it begins, in bytes.
    pub at: u64,
}

/// All good frames of `epoch` and later ones, wherever they are, by epoch and number.
pub fn good_frames(media: &dyn Media, epoch: u64) -> Result<Vec<FoundFrame>, PoolError> {
    let (len, end) = (media.len()?, data_end(media)?);
    let (mut frames, mut buffer, mut at) = (Vec::new(), Vec::new(), 0);
    while at < end {
        let Some(frame_len) = read_frame(media, at, len, &mut buffer)? else {
            at += ALIGN_BYTES as u64;
            continue;
        };
        let frame = frame::decode(&buffer).expect("it was just verified");
        if frame.epoch >= epoch {
            refuse_other_version(&frame)?;
            frames.push(FoundFrame { epoch: frame.epoch, number: frame.number, at });
        }
        at += frame_len;
    }
    frames.sort_unstable();
    Ok(frames)
}

/// The map changes of the good frame at `at`.
pub fn changes_at(media: &dyn Media, at: u64) -> Result<Vec<Change>, PoolError> {
    let mut buffer = Vec::new();
    let whole = read_frame(media, at, media.len()?, &mut buffer)?;
    let frame = whole.and_then(|_| frame::decode(&buffer));
    frame
        .and_then(|frame| frame::decode_contents(frame.payload))
        .map(|contents| contents.changes)
        .ok_or_else(|| PoolError::corrupt("journal", at, "a frame's entries make no sense"))
}

/// Whether behind the good frame at `at` something begins like a frame of `epoch`.
pub fn begins_after(media: &dyn Media, at: u64, epoch: u64) -> Result<bool, PoolError> {
    let (len, mut buffer) = (media.len()?, Vec::new());
    let Some(frame_len) = read_frame(media, at, len, &mut buffer)? else { return Ok(false) };
    begins_at(media, at + frame_len, len, epoch)
}

fn begins_at(media: &dyn Media, at: u64, len: u64, epoch: u64) -> Result<bool, PoolError> {
    if len < at + HEADER_BYTES as u64 {
        return Ok(false);
    }
    let mut header = [0; HEADER_BYTES];
    media.read(at, &mut header)?;
    Ok(frame::has_magic(&header) && header[8..16] == epoch.to_le_bytes())
}

fn refuse_other_version(frame: &frame::Frame<'_>) -> Result<(), PoolError> {
    crate::format::check_version("journal", frame.version)
}

/// A good frame of this epoch past the end of the good ones means that one between is damaged.
fn refuse_damage(media: &dyn Media, epoch: u64, len: u64, found: &Replay) -> Result<(), PoolError> {
    let mut buffer = Vec::new();
    let mut at = found.end_bytes + ALIGN_BYTES as u64;
    // Nothing was written past it: a file that says to be longer is not searched to its end.
    let end = data_end(media)?;
    while at < end {
        if let Some(frame_len) = read_frame(media, at, len, &mut buffer)? {
            let frame = frame::decode(&buffer).expect("it was just verified");
            if frame.epoch == epoch && frame.number > found.next_number {
                let problem = format!(
                    "frame {} is damaged: frame {} follows intact at byte {at}",
                    found.next_number, frame.number
                );
                return Err(PoolError::corrupt("journal", found.end_bytes, problem));
            }
            at += frame_len;
        } else {
            at += ALIGN_BYTES as u64;
        }
    }
    Ok(())
}

/// Read the frame at `at` into `buffer`; gives its padded length, or none if there is no good one.
fn read_frame(
    media: &dyn Media,
    at: u64,
    len: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<u64>, PoolError> {
    let left = len.saturating_sub(at);
    if left < HEADER_BYTES as u64 {
        return Ok(None);
    }
    buffer.resize(HEADER_BYTES, 0);
    media.read(at, buffer)?;
    let payload = u32::from_le_bytes([buffer[24], buffer[25], buffer[26], buffer[27]]) as usize;
    let whole = HEADER_BYTES + payload;
    if !frame::has_magic(buffer) || payload > PAYLOAD_BYTES_MAX || whole as u64 > left {
        return Ok(None);
    }
    let padded = (whole.next_multiple_of(ALIGN_BYTES) as u64).min(left) as usize;
    buffer.resize(padded, 0);
    media.read(at + HEADER_BYTES as u64, &mut buffer[HEADER_BYTES..])?;
    if buffer[whole..].iter().any(|&byte| byte != 0) {
        return Ok(None);
    }
    Ok(frame::decode(buffer).map(|frame| frame.len_bytes() as u64))
}
