//! A journal frame: map changes that became durable together, and containers that did with them.
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
//! one for them all (kind 2). Of kind 3 the words are the kind with a container's number instead of
//! a volume's, the container's length in bytes, and how many records it has.

use onefold_block::{ContainerId, Lba};

use super::{FORMAT_VERSION, SEQUENCE_MAX, container};
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, CONTAINER_BYTES_MAX, MapEntry};
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
const KIND_SEALED: u64 = 3;
/// Bytes of an entry that tells of a sealed container.
pub const SEALED_BYTES: usize = 24;

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

    /// A container is sealed, and all of it is durable.
    pub fn sealed(&mut self, sealed: &Sealed) {
        self.word(KIND_SEALED | u64::from(sealed.id.get()) << 8);
        self.word(sealed.len_bytes as u64);
        self.word(sealed.chunks as u64);
    }

    /// Take back what was added since there were `before` bytes.
    pub fn truncate(&mut self, before: usize) {
        self.words.truncate(before);
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

/// A container that takes no more, with all that it holds durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its number.
    pub id: ContainerId,
    /// Its length, directory and all.
    pub len_bytes: usize,
    /// Its records.
    pub chunks: usize,
}

/// What a frame says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Map changes, in order.
    pub changes: Vec<Change>,
    /// Containers that were durable before the frame was.
    pub sealed: Vec<Sealed>,
}

/// One decoded map change.
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
    let fits = len <= PAYLOAD_BYTES_MAX && len.is_multiple_of(8) && epoch <= SEQUENCE_MAX;
    if &magic != MAGIC || !fits {
        return None;
    }
    let payload = reader.bytes(len)?;
    let found = crc32fast::hash(bytes.get(8..HEADER_BYTES + len)?);
    (found == check).then_some(Frame { epoch, number, version, payload })
}

/// The map changes of a payload that tells of no containers; `None` if an entry makes no sense.
pub fn decode_changes(payload: &[u8]) -> Option<Vec<Change>> {
    let contents = decode_contents(payload)?;
    contents.sealed.is_empty().then_some(contents.changes)
}

/// The entries of a frame's payload; `None` if one makes no sense.
pub fn decode_contents(payload: &[u8]) -> Option<Contents> {
    let mut reader = Reader::new(payload);
    let mut contents = Contents::default();
    while reader.remaining() > 0 {
        let head = reader.u64()?;
        let number = u32::try_from(head >> 8).ok()?;
        let (first, count) = (reader.u64()?, reader.u64()?);
        if head & 0xFF == KIND_SEALED {
            contents.sealed.push(decode_sealed(number, first, count)?);
            continue;
        }
        let (volume, first) = (number, Lba::new(first));
        first.checked_add(count)?;
        contents.changes.push(match head & 0xFF {
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
    Some(contents)
}

fn decode_sealed(number: u32, len_bytes: u64, chunks: u64) -> Option<Sealed> {
    let (len_bytes, chunks) = (usize::try_from(len_bytes).ok()?, usize::try_from(chunks).ok()?);
    let fits = (container::HEADER_BYTES..=CONTAINER_BYTES_MAX).contains(&len_bytes)
        && (1..=CHUNKS_PER_CONTAINER_MAX).contains(&chunks);
    (fits && number > 0).then_some(Sealed { id: ContainerId::new(number), len_bytes, chunks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pba::{Location, Pba};

    fn sample() -> (Entries, Contents) {
        let stored = |n| {
            let location = Location::new(n, 3);
            MapEntry::Stored(Pba { container: ContainerId::new(4), location })
        };
        let run = vec![stored(1), MapEntry::Hole, MapEntry::Zero, stored(9)];
        let mut entries = Entries::default();
        entries.run(3, Lba::new(10), &run);
        let sealed = Sealed { id: ContainerId::new(4), len_bytes: 4 << 20, chunks: 1000 };
        entries.sealed(&sealed);
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
        (entries, Contents { changes, sealed: vec![sealed] })
    }

    #[test]
    fn a_payload_ends_with_its_last_entry() {
        let (entries, contents) = sample();
        let mut payload = entries.since(0).to_vec();
        assert_eq!(decode_contents(&payload), Some(contents));
        payload.push(0);
        assert_eq!(decode_contents(&payload), None);
    }

    #[test]
    fn a_frame_comes_back_and_any_flipped_bit_or_cut_is_noticed() {
        let (entries, contents) = sample();
        let bytes = encode(7, 2, &entries);
        assert!(bytes.len().is_multiple_of(ALIGN_BYTES));
        let frame = decode(&bytes).unwrap();
        assert_eq!((frame.epoch, frame.number, frame.len_bytes()), (7, 2, bytes.len()));
        assert_eq!(decode_contents(frame.payload).unwrap(), contents);
        assert_eq!(decode_changes(frame.payload), None, "nobody tells of containers there");
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
            vec![3, 4096, 1],           // no container has this number
            vec![3 | 4 << 8, container::HEADER_BYTES as u64 - 1, 1],
            vec![3 | 4 << 8, 5 << 20, 1], // longer than any
            vec![3 | 4 << 8, 4096, 0],    // sealed with nothing in it
            vec![3 | 4 << 8, 4096, 1 << 20],
        ] {
            let bytes: Vec<u8> = words.into_iter().flat_map(word).collect();
            assert_eq!(decode_contents(&bytes), None, "{bytes:?}");
        }
    }
}
