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
        return Err(PoolError::corrupt_whole("journal", "its first frame is damaged"));
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

#[cfg(test)]
mod tests {
    use onefold_block::{FaultKind, Folder as _, Lba, OpKind, SimFolder};

    use super::*;
    use crate::pba::MapEntry;

    const EPOCH: u64 = 7;
    /// A frame with one change, and one without any.
    const FRAME: u64 = 64;

    fn change(number: u64) -> Entries {
        let mut entries = Entries::default();
        entries.fill(1, Lba::new(number), 2, MapEntry::Zero);
        entries
    }

    fn media(bytes: &[u8]) -> Arc<dyn Media> {
        let media = SimFolder::new().create("journal").unwrap();
        media.write(0, bytes).unwrap();
        media
    }

    /// Frames from 0 on, the first of them empty.
    fn frames(epoch: u64, numbers: std::ops::Range<u64>) -> Vec<u8> {
        let entries = |number| if number == 0 { Entries::default() } else { change(number) };
        numbers.flat_map(|number| frame::encode(epoch, number, &entries(number))).collect()
    }

    fn heard(told: &mut Vec<(u64, u64)>) -> impl FnMut(u64, Change) -> Result<(), PoolError> {
        |at, change| {
            let Change::Fill { first, .. } = change else { panic!("{change:?}") };
            told.push((at, first.get()));
            Ok(())
        }
    }

    /// Where each change was heard, and what was found; or what is wrong.
    fn replayed(bytes: &[u8]) -> Result<(Vec<(u64, u64)>, Replay), String> {
        let mut told = Vec::new();
        let found = replay(&*media(bytes), EPOCH, &mut heard(&mut told));
        found.map(|found| (told, found)).map_err(|error| error.to_string())
    }

    fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
        bytes[at] ^= 1;
        bytes
    }

    fn with_version(mut bytes: Vec<u8>, at: usize, version: u32) -> Vec<u8> {
        let end = at + 32 + u32::from_le_bytes(*bytes[at + 24..].first_chunk().unwrap()) as usize;
        bytes[at + 28..at + 32].copy_from_slice(&version.to_le_bytes());
        let check = crc32fast::hash(&bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    #[test]
    fn good_frames_are_replayed_to_the_first_that_is_not_of_their_epoch_or_order() {
        let whole = frames(EPOCH, 0..4);
        let (told, found) = replayed(&whole).unwrap();
        assert_eq!(told, [(FRAME, 1), (2 * FRAME, 2), (3 * FRAME, 3)]);
        assert_eq!((found.next_number, found.end_bytes, found.torn_at), (4, 4 * FRAME, None));
        assert_eq!(found.first_epoch, Some(EPOCH));
        // What an older epoch left behind the end means nothing, whatever its version.
        let older = with_version([frames(EPOCH, 0..2), frames(6, 2..4)].concat(), 128, 3);
        let (told, found) = replayed(&older).unwrap();
        assert_eq!((told, found.end_bytes, found.torn_at), (vec![(FRAME, 1)], 2 * FRAME, None));
        let (told, found) = replayed(&frames(6, 0..3)).unwrap();
        assert_eq!((told.len(), found.next_number, found.first_epoch), (0, 0, Some(6)));
        // One that the disk put twice is no proof of another between.
        let twice = [frames(EPOCH, 0..2), vec![0; 64], frames(EPOCH, 2..3)].concat();
        assert_eq!(replayed(&twice).unwrap().1.next_number, 2);
    }

    #[test]
    fn a_frame_that_is_not_whole_is_told_of_once_its_head_is_there() {
        let (good, next) = (frames(EPOCH, 0..2), frames(EPOCH, 2..3));
        for (len, torn) in [(0, None), (31, None), (32, Some(2 * FRAME)), (63, Some(2 * FRAME))] {
            let found = replayed(&[&good, &next[..len]].concat()).unwrap().1;
            assert_eq!((found.torn_at, found.next_number), (torn, 2), "{len} bytes");
        }
        let begun = [&good[..], &frames(6, 2..3)[..40]].concat();
        assert_eq!(replayed(&begun).unwrap().1.torn_at, None, "of another epoch");
        let first = media(&[&good[..], &next[..40]].concat());
        for (at, begins) in [(0, true), (FRAME, true), (2 * FRAME, false)] {
            assert_eq!(begins_after(&*first, at, EPOCH).unwrap(), begins, "behind byte {at}");
        }
        // An empty frame is whole without what it is filled up with.
        let empty = frame::encode(EPOCH, 2, &Entries::default());
        for (len, frames) in [(31, 2), (32, 3), (33, 3), (64, 3)] {
            let found = replayed(&[&good, &empty[..len]].concat()).unwrap().1;
            assert_eq!((found.next_number, found.torn_at), (frames, None), "{len} bytes");
        }
        // A long one, whose length takes three bytes, up to its last byte.
        let long = Entries::from_payload([0u64, 0, 0].map(|_| [0; 8]).concat().repeat(3000));
        let long = frame::encode(EPOCH, 2, &long);
        let at = good.len() as u64;
        let bytes = [&good[..], &long].concat();
        let found = changes_at(&*media(&bytes), at);
        assert!(found.unwrap_err().to_string().contains("a frame's entries make no sense"));
        let good_ones = good_frames(&*media(&bytes), EPOCH).unwrap();
        assert_eq!(good_ones.last(), Some(&FoundFrame { epoch: EPOCH, number: 2, at }));
        assert_eq!(good_frames(&*media(&bytes[..bytes.len() - 64]), EPOCH).unwrap().len(), 2);
    }

    #[test]
    fn of_a_frame_that_claims_to_be_longer_than_any_the_head_alone_is_read() {
        let folder = SimFolder::new();
        let media = folder.create("journal").unwrap();
        for (claimed, more) in [(PAYLOAD_BYTES_MAX, true), (PAYLOAD_BYTES_MAX + 8, false)] {
            let mut head = frame::encode(EPOCH, 0, &Entries::default());
            head[24..28].copy_from_slice(&(claimed as u32).to_le_bytes());
            media.write(0, &head).unwrap();
            media.set_len(2 * PAYLOAD_BYTES_MAX as u64).unwrap();
            folder.fail_once(&[OpKind::Read], 2, FaultKind::Eio);
            let read = begins_after(&*media, 0, EPOCH).is_err();
            assert_eq!(read, more, "{claimed} bytes");
            folder.clear_faults();
        }
    }

    #[test]
    fn what_is_wrong_with_a_journal_is_said_with_its_place() {
        let whole = frames(EPOCH, 0..4);
        let version = "journal has format version 3";
        for (bytes, said) in [
            (vec![0; 63], "at byte 63: the file is shorter than the frame that begins it"),
            (flipped(frames(EPOCH, 0..2), 9), "at byte 0: its first frame is damaged"),
            (flipped(whole.clone(), 70), {
                "at byte 64: frame 1 is damaged: frame 2 follows intact at byte 128"
            }),
            (flipped(flipped(whole.clone(), 70), 130), {
                "at byte 64: frame 1 is damaged: frame 3 follows intact at byte 192"
            }),
            (with_version(whole.clone(), 64, 3), version),
            (with_version(whole.clone(), 192, 3), version),
        ] {
            let error = replayed(&bytes).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let (told, found) = replayed(&flipped(whole, 230)).unwrap();
        assert_eq!((told.len(), found.torn_at), (2, Some(3 * FRAME)), "the last may be torn");
        let sole = flipped(frames(EPOCH, 0..1), 9);
        let found = replayed(&sole).unwrap().1;
        assert_eq!((found.first_epoch, found.next_number, found.torn_at), (None, 0, None));
        for (len, lost) in [(63, false), (64, true), (65, false)] {
            let mut bytes = sole.clone();
            bytes.resize(len, 0);
            let witness = Witness::new(media(&[]), 1);
            let journal = Journal::resume(media(&bytes), EPOCH, &Replay::default(), witness);
            assert_eq!(journal.lost_its_only_frame(), lost, "{len} bytes");
        }
    }

    #[test]
    fn frames_are_found_wherever_they_are_and_read_once_more() {
        let bytes = [frames(8, 0..2), vec![0; 64], frames(EPOCH, 3..5), frames(6, 1..2)].concat();
        let found = good_frames(&*media(&bytes), EPOCH).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.epoch, it.number, it.at)).collect();
        assert_eq!(found, [(EPOCH, 3, 192), (EPOCH, 4, 256), (8, 0, 0), (8, 1, 64)]);
        let newer = with_version(bytes.clone(), 192, 3);
        let error = good_frames(&*media(&newer), EPOCH).unwrap_err().to_string();
        assert!(error.contains("format version 3"), "{error}");
        assert_eq!(good_frames(&*media(&newer), 8).unwrap().len(), 2, "nobody asks for that one");
        assert_eq!(changes_at(&*media(&bytes), 192).unwrap().len(), 1);
        assert!(changes_at(&*media(&bytes), 128).is_err());
        let whole = frames(EPOCH, 0..4);
        let part = |bytes: &[u8], part| {
            let mut told = Vec::new();
            let read = replay_part(&*media(bytes), part, &mut heard(&mut told));
            read.map(|()| told).map_err(|error| error.to_string())
        };
        assert_eq!(part(&whole, 64..192).unwrap(), [(64, 1), (128, 2)]);
        assert_eq!(part(&whole, 128..128).unwrap(), []);
        let error = part(&flipped(whole, 130), 64..256).unwrap_err();
        assert!(error.contains("at byte 128: a frame was good and is no longer"), "{error}");
    }

    #[test]
    fn a_journal_is_synced_frame_by_frame_and_its_witness_once_that_is_wanted() {
        let (folder, mut seen) = (SimFolder::new(), 0);
        let files = ["journal", "super.1"].map(|name| folder.create(name).unwrap());
        let [media, checkpoint] = files;
        begin(&*media, EPOCH).unwrap();
        let witness = Witness::new(Arc::clone(&checkpoint), 4097);
        let replay = Replay { next_number: 1, end_bytes: FRAME, ..Replay::default() };
        let mut journal = Journal::resume(Arc::clone(&media), EPOCH, &replay, witness);
        assert!(journal.is_clean() && !journal.lost_its_only_frame());
        let mut told = |what: &str| assert_eq!(folder.ops_since(&mut seen).trim_end(), what);
        told("Create journal\nCreate super.1\nWrite journal bytes 0..64\nSync journal");
        journal.settle().unwrap();
        assert_eq!(journal.witness().frames(EPOCH), None);
        journal.append(&change(1)).unwrap();
        told("Write journal bytes 64..128\nSync journal\nWrite super.1 bytes 8192..8216");
        let witness = journal.witness();
        assert_eq!((witness.frames(EPOCH), witness.frames(8)), (Some(2), None));
        journal.settle().unwrap();
        journal.settle().unwrap();
        told("Sync super.1");
        journal.expect_checkpoint().unwrap();
        assert!(!journal.is_clean() && journal.len_bytes() == 2 * FRAME);
        journal.hold(0).unwrap();
        journal.hold(5000).unwrap();
        journal.give_back().unwrap();
        told("Reserve journal bytes 128..5128\nSetLen journal to 128");
        journal.restart(8, witness.clone()).unwrap();
        assert!(journal.is_clean() && journal.len_bytes() == FRAME);
        journal.expect_checkpoint().unwrap();
        told("Write journal bytes 0..64\nSync journal\nWrite journal bytes 64..128\nSync journal");
        // Of several, as of a checkpoint whose length is not known, the newest counts.
        assert_eq!(Witness::search(&*checkpoint, EPOCH), Some(2));
        checkpoint.write(4096, &encode_witness(EPOCH, 5)).unwrap();
        checkpoint.write(12_288, &encode_witness(8, 9)).unwrap();
        assert_eq!(Witness::search(&*checkpoint, EPOCH), Some(5));
        assert_eq!(Witness::search(&*checkpoint, 6), None);
        assert!(!witness.is_damaged(EPOCH));
        checkpoint.write(8192 + 20, &[9]).unwrap();
        assert!(witness.is_damaged(EPOCH) && witness.frames(EPOCH).is_none());
    }
}
