//! The envelope of everything in a stream, and what is in it.
//! Room: onefold-pool.
//! Source: docs/stream-format.md, "Frame".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | n, the body's length in bytes |
//! | 4 | 1 | kind: 1 header, 2 data, 3 end; to one that is asked 4 offer, 5 answer, 6 rest |
//! | 5 | 3 | zero |
//! | 8 | 8 | identity of the base; 0 if there is none |
//! | 16 | 8 | identity of the snapshot |
//! | 24 | 8 | first byte of the volume that it tells of |
//! | 32 | 8 | the byte after the last |
//! | 40 | n | body |
//! | 40+n | 16 | check: the first 16 bytes of the BLAKE3 digest of all before it |
//!
//! Invariant: a frame that is read is the one that was written, or refused.

use onefold_block::bytes::{Reader, Writer};
use onefold_block::{ByteSize, ChunkSize};
use onefold_content::{Codec, FingerprintKind, Fingerprinter};

/// What a stream begins with.
pub const MAGIC: &[u8; 8] = b"ONEFSNAP";
/// The version that is written and read.
pub const VERSION: u32 = 1;
/// Bytes before the body.
pub const HEAD_BYTES: usize = 40;
/// Bytes after the body.
pub const CHECK_BYTES: usize = 16;
/// Longest body that is believed, in bytes.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a volume: sizes of devices end there.
const SIZE_MAX: u64 = i64::MAX as u64;

const KIND_HEADER: u8 = 1;
const KIND_DATA: u8 = 2;
const KIND_END: u8 = 3;
const KIND_OFFER: u8 = 4;
const KIND_ANSWER: u8 = 5;
const KIND_REST: u8 = 6;

/// Words of items begin with a codec's number or one of these.
const TAG_SAME: u8 = 0xF0;
const TAG_HOLE: u8 = 0xF1;
const TAG_ZERO: u8 = 0xF2;

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Identity of the base; 0 if there is none.
    pub base: u64,
    /// Identity of the snapshot.
    pub snapshot: u64,
}

/// What a stream says of itself first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose stream it is.
    pub names: Names,
    /// Length of the blocks that it is made of, in bytes.
    pub chunk_size: ChunkSize,
    /// Size of the volume in the snapshot, in bytes.
    pub size_bytes: u64,
    /// When the snapshot was made, in seconds since the beginning of 1970; 0 if that is not known.
    pub created_seconds: u64,
    /// What the snapshot is called where it comes from.
    pub name: String,
    /// What the base is called there; empty if there is none.
    pub base_name: String,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Header,
    Data,
    End,
    /// Fingerprints of blocks to come.
    Offer,
    /// Which of these there are.
    Answer,
    /// Data without those.
    Rest,
}

/// A frame: where it lies in the volume, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(super) kind: Kind,
    /// Whose stream it is of.
    pub names: Names,
    /// First byte of the volume that it tells of.
    pub from: u64,
    /// The byte after the last.
    pub upto: u64,
    pub(super) body: Vec<u8>,
}

/// What a data frame says of blocks, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// So many are what they are in the base.
    Same(u64),
    /// So many are holes.
    Hole(u64),
    /// So many are zeroes that are no holes.
    Zero(u64),
    /// One is this, decoded.
    Block(Codec, &'a [u8]),
}

pub(super) fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Fingerprinter::new(FingerprintKind::Blake3).hash(bytes);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&digest.as_bytes()[..CHECK_BYTES]);
    check
}

/// The length of its body that the beginning of a frame claims, unverified.
pub(super) fn body_len(head: &[u8; HEAD_BYTES]) -> usize {
    u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize
}

impl Frame {
    /// The frame that these bytes are, with its checksum verified; else what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some((covered, found)) = bytes.split_last_chunk::<CHECK_BYTES>() else {
            return Err("it is too short".to_owned());
        };
        if check(covered) != *found {
            return Err("its checksum does not match".to_owned());
        }
        let mut reader = Reader::new(covered);
        let fields = (|| {
            let (len, kind) = (reader.u32()?, reader.u8()?);
            let zero = reader.array::<3>()?;
            let names = Names { base: reader.u64()?, snapshot: reader.u64()? };
            let (from, upto) = (reader.u64()?, reader.u64()?);
            let kind = match kind {
                KIND_HEADER => Kind::Header,
                KIND_DATA => Kind::Data,
                KIND_END => Kind::End,
                KIND_OFFER => Kind::Offer,
                KIND_ANSWER => Kind::Answer,
                KIND_REST => Kind::Rest,
                _ => return None,
            };
            let body = reader.bytes(len as usize)?;
            let fits = zero == [0; 3] && reader.remaining() == 0 && from <= upto;
            fits.then(|| Self { kind, names, from, upto, body: body.to_vec() })
        })();
        fields.ok_or_else(|| "a field makes no sense".to_owned())
    }

    /// Append its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut writer = Writer(std::mem::take(out));
        writer.u32(self.body.len() as u32);
        writer.u8(match self.kind {
            Kind::Header => KIND_HEADER,
            Kind::Data => KIND_DATA,
            Kind::End => KIND_END,
            Kind::Offer => KIND_OFFER,
            Kind::Answer => KIND_ANSWER,
            Kind::Rest => KIND_REST,
        });
        writer.bytes(&[0; 3]);
        writer.u64(self.names.base);
        writer.u64(self.names.snapshot);
        writer.u64(self.from);
        writer.u64(self.upto);
        writer.bytes(&self.body);
        let check = check(&writer.0[start..]);
        writer.bytes(&check);
        *out = writer.0;
    }

    /// Whether it is the last.
    pub fn is_end(&self) -> bool {
        self.kind == Kind::End
    }

    /// Append the frame that a stream begins with.
    pub(super) fn of_header(header: &Header, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let mut body = Writer::default();
        body.u32(VERSION);
        body.u32(header.chunk_size.get());
        body.u64(header.size_bytes);
        body.u64(header.created_seconds);
        body.text(&header.name);
        body.text(&header.base_name);
        let frame =
            Self { kind: Kind::Header, names: header.names, from: 0, upto: 0, body: body.0 };
        frame.encode(out);
    }

    /// The frame as that with which a stream begins; the version, if that is another.
    pub(super) fn header(&self) -> Result<Header, Option<u32>> {
        let mut reader = Reader::new(&self.body);
        let version = reader.u32().ok_or(None)?;
        if self.kind == Kind::Header && version != VERSION {
            return Err(Some(version));
        }
        let fields = (|| {
            let chunk_size = ChunkSize::new(ByteSize(u64::from(reader.u32()?))).ok()?;
            let (size_bytes, created_seconds) = (reader.u64()?, reader.u64()?);
            let (name, base_name) = (reader.text()?, reader.text()?);
            let names = self.names;
            let has_base = (names.base != 0) != base_name.is_empty();
            let fits = self.kind == Kind::Header
                && reader.remaining() == 0
                && (1..=SIZE_MAX).contains(&size_bytes)
                && names.snapshot != 0
                && names.snapshot != names.base
                && has_base;
            fits.then_some(Header {
                names,
                chunk_size,
                size_bytes,
                created_seconds,
                name,
                base_name,
            })
        })();
        fields.ok_or(None)
    }

    /// What it says of blocks, each item in turn. Of a frame that a reader gave, these cover
    /// exactly its part of the volume.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let mut reader = Reader::new(&self.body);
        std::iter::from_fn(move || next_item(&mut reader))
    }

    /// Whether the items cover its part of the volume, and make sense there.
    pub(super) fn fits(&self, header: &Header) -> bool {
        let chunk = header.chunk_size.bytes64();
        let mut reader = Reader::new(&self.body);
        let mut blocks = 0u64;
        while reader.remaining() > 0 {
            let more = match next_item(&mut reader) {
                None | Some(Item::Same(0) | Item::Hole(0) | Item::Zero(0)) => return false,
                Some(Item::Same(_)) if header.names.base == 0 => return false,
                Some(Item::Block(_, stored)) if stored.len() as u64 > chunk => return false,
                Some(Item::Same(more) | Item::Hole(more) | Item::Zero(more)) => more,
                Some(Item::Block(..)) => 1,
            };
            let Some(sum) = blocks.checked_add(more) else { return false };
            blocks = sum;
        }
        self.kind == Kind::Data
            && self.from.is_multiple_of(chunk)
            && (self.upto.is_multiple_of(chunk) || self.upto == header.size_bytes)
            && self.from < self.upto
            && self.upto <= header.size_bytes
            && (self.upto - self.from).div_ceil(chunk) == blocks
    }
}

fn next_item<'a>(reader: &mut Reader<'a>) -> Option<Item<'a>> {
    let word = reader.u32()?;
    let (value, tag) = (word & 0x00FF_FFFF, (word >> 24) as u8);
    let run = |reader: &mut Reader<'a>| if value == 0 { reader.u64() } else { None };
    Some(match tag {
        TAG_SAME => Item::Same(run(reader)?),
        TAG_HOLE => Item::Hole(run(reader)?),
        TAG_ZERO => Item::Zero(run(reader)?),
        codec => Item::Block(Codec::from_id(codec)?, reader.bytes(value as usize)?),
    })
}

/// The body of a data frame as it grows.
#[derive(Default)]
pub(super) struct Body {
    writer: Writer,
    /// A run that may grow still.
    run: Option<(u8, u64)>,
}

impl Body {
    pub fn len(&self) -> usize {
        self.writer.0.len()
    }

    fn run(&mut self, tag: u8, blocks: u64) {
        match &mut self.run {
            Some((last, count)) if *last == tag => *count += blocks,
            _ => {
                self.end_run();
                self.run = Some((tag, blocks));
            }
        }
    }

    fn end_run(&mut self) {
        if let Some((tag, blocks)) = self.run.take() {
            self.writer.u32(u32::from(tag) << 24);
            self.writer.u64(blocks);
        }
    }

    pub fn push(&mut self, item: Item<'_>) {
        match item {
            Item::Same(blocks) => self.run(TAG_SAME, blocks),
            Item::Hole(blocks) => self.run(TAG_HOLE, blocks),
            Item::Zero(blocks) => self.run(TAG_ZERO, blocks),
            Item::Block(codec, stored) => {
                self.end_run();
                self.writer.u32(u32::from(codec.id()) << 24 | stored.len() as u32);
                self.writer.bytes(stored);
            }
        }
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.end_run();
        self.writer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_another_version_is_told_from_what_is_no_stream() {
        let frame = |kind, version| {
            let mut body = Writer::default();
            body.u32(version);
            Frame { kind, names: Names { base: 0, snapshot: 7 }, from: 0, upto: 0, body: body.0 }
        };
        assert_eq!(frame(Kind::Header, VERSION + 1).header(), Err(Some(VERSION + 1)));
        assert_eq!(frame(Kind::Data, VERSION + 1).header(), Err(None));
        assert_eq!(frame(Kind::Header, VERSION).header(), Err(None), "it says nothing else");
    }
}
