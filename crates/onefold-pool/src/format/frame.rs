//! A journal frame: map changes that became durable together.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Journal".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `OFJF` |
//! | 4 | 4 | CRC-32 of bytes 8..32+n |
//! | 8 | 8 | epoch: the sequence number of the checkpoint that it follows |
//! | 16 | 8 | number of the frame in its epoch, from 0 |
//! | 24 | 4 | n, the payload's length in bytes, a multiple of 8 |
//! | 28 | 4 | format version |
//! | 32 | n | entries |
//!
//! Frames begin on multiples of 64 bytes. An entry is three words: kind (low byte) and volume
//! (the four bytes above), first LBA, number of blocks; then one map entry per block (kind 1) or
//! one for them all (kind 2).

use onefold_block::Lba;

use super::FORMAT_VERSION;
use crate::pba::MapEntry;
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 32;
/// Frames begin on multiples of this.
pub const ALIGN_BYTES: usize = 64;
/// Longest payload: twice the journal buffer.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

const MAGIC: &[u8; 4] = b"OFJF";
const KIND_RUN: u64 = 1;
const KIND_FILL: u64 = 2;

/// Map changes on their way into a frame.
#[derive(Default)]
pub struct Entries {
    words: Vec<u8>,
}

impl Entries {
    /// Blocks from `first` on now have these entries.
    pub fn run(&mut self, volume: u32, first: Lba, entries: &[MapEntry]) {
        self.head(KIND_RUN, volume, first, entries.len() as u64);
        for entry in entries {
            self.word(entry.raw());
        }
    }

    /// `count` blocks from `first` on now all have this entry.
    pub fn fill(&mut self, volume: u32, first: Lba, count: u64, entry: MapEntry) {
        self.head(KIND_FILL, volume, first, count);
        self.word(entry.raw());
    }

    fn head(&mut self, kind: u64, volume: u32, first: Lba, count: u64) {
        self.word(kind | u64::from(volume) << 8);
        self.word(first.get());
        self.word(count);
    }

    fn word(&mut self, word: u64) {
        self.words.extend_from_slice(&word.to_le_bytes());
    }

    /// Entries as a frame's payload holds them.
    pub const fn from_payload(words: Vec<u8>) -> Self {
        Self { words }
    }

    /// What was added since there were `before` bytes.
    pub fn since(&self, before: usize) -> &[u8] {
        &self.words[before..]
    }

    /// Bytes so far.
    pub const fn len_bytes(&self) -> usize {
        self.words.len()
    }

    /// Whether there is nothing to write.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Add what another buffer holds after this.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.words.append(&mut other.words);
        }
    }
}

/// One decoded entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Blocks from `first` on have these entries.
    Run {
        /// The volume's number.
        volume: u32,
        /// First block.
        first: Lba,
        /// One entry per block.
        entries: Vec<MapEntry>,
    },
    /// `count` blocks from `first` on all have `entry`.
    Fill {
        /// The volume's number.
        volume: u32,
        /// First block.
        first: Lba,
        /// Number of blocks.
        count: u64,
        /// The entry of each.
        entry: MapEntry,
    },
}

/// A whole frame's bytes, padded to the alignment.
pub fn encode(epoch: u64, number: u64, entries: &Entries) -> Vec<u8> {
    let payload = &entries.words;
    let mut body = Writer(Vec::with_capacity(payload.len() + HEADER_BYTES + ALIGN_BYTES));
    body.bytes(MAGIC);
    body.u32(0);
    body.u64(epoch);
    body.u64(number);
    body.u32(payload.len() as u32);
    body.u32(FORMAT_VERSION);
    body.bytes(payload);
    let mut bytes = body.0;
    let check = crc32fast::hash(&bytes[8..]);
    bytes[4..8].copy_from_slice(&check.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
    bytes
}

/// A verified frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The sequence number of the checkpoint that it follows.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
    /// Format version.
    pub version: u32,
    /// The encoded entries.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes that it takes in the journal, padding included.
    pub const fn len_bytes(&self) -> usize {
        (HEADER_BYTES + self.payload.len()).next_multiple_of(ALIGN_BYTES)
    }
}

/// Whether these bytes begin as a frame does.
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The frame at the start of `bytes`, if there is a whole one and its checksum holds.
pub fn decode(bytes: &[u8]) -> Option<Frame<'_>> {
    let mut reader = Reader::new(bytes);
    let (magic, check) = (reader.array::<4>()?, reader.u32()?);
    let (epoch, number) = (reader.u64()?, reader.u64()?);
    let (len, version) = (reader.u32()? as usize, reader.u32()?);
    if &magic != MAGIC || len > PAYLOAD_BYTES_MAX || !len.is_multiple_of(8) {
        return None;
    }
    let payload = reader.bytes(len)?;
    let found = crc32fast::hash(bytes.get(8..HEADER_BYTES + len)?);
    (found == check).then_some(Frame { epoch, number, version, payload })
}

/// The entries of a frame's payload; `None` if one makes no sense.
pub fn decode_changes(payload: &[u8]) -> Option<Vec<Change>> {
    let mut reader = Reader::new(payload);
    let mut changes = Vec::new();
    while reader.remaining() > 0 {
        let head = reader.u64()?;
        let volume = u32::try_from(head >> 8).ok()?;
        let (first, count) = (Lba::new(reader.u64()?), reader.u64()?);
        first.checked_add(count)?;
        changes.push(match head & 0xFF {
            KIND_RUN => {
                let count = usize::try_from(count).ok().filter(|&n| n <= reader.remaining() / 8)?;
                let entries: Option<Vec<_>> =
                    (0..count).map(|_| MapEntry::from_raw(reader.u64()?)).collect();
                Change::Run { volume, first, entries: entries? }
            }
            KIND_FILL => {
                let entry = MapEntry::from_raw(reader.u64()?)?;
                Change::Fill { volume, first, count, entry }
            }
            _ => return None,
        });
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use onefold_block::ContainerId;

    use super::*;
    use crate::pba::{Location, Pba};

    fn sample() -> (Entries, Vec<Change>) {
        let stored = |n| {
            let location = Location::new(n, 3);
            MapEntry::Stored(Pba { container: ContainerId::new(4), location })
        };
        let run = vec![stored(1), MapEntry::Hole, MapEntry::Zero, stored(9)];
        let mut entries = Entries::default();
        entries.run(3, Lba::new(10), &run);
        entries.fill(u32::MAX, Lba::new(0), 1 << 40, MapEntry::Hole);
        let changes = vec![
            Change::Run { volume: 3, first: Lba::new(10), entries: run },
            Change::Fill {
                volume: u32::MAX,
                first: Lba::new(0),
                count: 1 << 40,
                entry: MapEntry::Hole,
            },
        ];
        (entries, changes)
    }

    #[test]
    fn a_frame_comes_back_and_any_flipped_bit_or_cut_is_noticed() {
        let (entries, changes) = sample();
        let bytes = encode(7, 2, &entries);
        assert!(bytes.len().is_multiple_of(ALIGN_BYTES));
        let frame = decode(&bytes).unwrap();
        assert_eq!((frame.epoch, frame.number, frame.len_bytes()), (7, 2, bytes.len()));
        assert_eq!(decode_changes(frame.payload).unwrap(), changes);
        let meaningful = HEADER_BYTES + frame.payload.len();
        for bit in 0..meaningful * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
        for len in 0..meaningful {
            assert_eq!(decode(&bytes[..len]), None, "cut to {len}");
        }
    }

    #[test]
    fn entries_that_make_no_sense_are_refused() {
        let word = |w: u64| w.to_le_bytes();
        for words in [
            vec![9, 0, 1, 0],           // unknown kind
            vec![1, 0, 5, 0],           // run longer than the payload
            vec![1, 0, u64::MAX, 0],    // absurd count
            vec![2, u64::MAX, 2, 0],    // past the last LBA
            vec![2, 0, 1, 5],           // no such map entry
            vec![2 | 1 << 60, 0, 1, 0], // volume number too large
            vec![2, 0, 1],              // cut short
        ] {
            let bytes: Vec<u8> = words.into_iter().flat_map(word).collect();
            assert_eq!(decode_changes(&bytes), None, "{bytes:?}");
        }
    }
}
