//! A segment of a fingerprint run: pairs of fingerprint and place, sorted.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Fingerprint runs".
//!
//! A segment is a file of blocks of 4,096 bytes: the header, then pairs, then in the run's first
//! segment the containers that the run covers. Header:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `OFFP` |
//! | 4 | 4 | format version |
//! | 8 | 16 | the pool's UUID |
//! | 24 | 4 | number of the run |
//! | 28 | 4 | number of the segment in it, from 0 |
//! | 32 | 8 | sequence number of the checkpoint that knew all containers of the run |
//! | 40 | 8 | lowest key that it may hold |
//! | 48 | 8 | highest key that it may hold; all ones in the last segment |
//! | 56 | 8 | number of pairs |
//! | 64 | 4 | number of containers listed after the pairs |
//! | 68 | 4 | CRC-32 of that list |
//! | 72 | 4 | number of runs that this one was merged from, at most 64 |
//! | 76 | 4 each | their numbers |
//! | 4092 | 4 | CRC-32 of bytes 0..4092 |
//!
//! Block of pairs: up to 255 pairs of 16 bytes, then at 4,080 their number and the block's own in
//! the segment (4 bytes each), four zero bytes and the CRC-32 of bytes 0..4092. A pair is the key
//! (the fingerprint's 64 bits as the index has them, rotated left by 17, so that hooks come
//! first), and a word: 20 more bits of the fingerprint, 31 of the container's number, 13 of the
//! chunk's ordinal in it.

use onefold_block::ContainerId;
use onefold_block::bytes::{Reader, Writer};

use super::{FORMAT_VERSION, check_version};
use crate::error::PoolError;
use crate::format::pair::Pair;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Pairs in a block, at most.
pub const PAIRS_PER_BLOCK: usize = 255;
/// Runs that one run may be merged from.
pub const INPUTS_MAX: usize = 64;

const MAGIC: &[u8; 4] = b"OFFP";
const PAIR_BYTES: usize = 16;
const COUNT_AT: usize = PAIRS_PER_BLOCK * PAIR_BYTES;
const CHECK_AT: usize = BLOCK_BYTES - 4;

const _: () = assert!(COUNT_AT + 16 == BLOCK_BYTES);
const _: () = assert!(76 + INPUTS_MAX * 4 <= CHECK_AT);

/// What a segment says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Number of its run.
    pub run: u32,
    /// Its number in the run.
    pub part: u32,
    /// The checkpoint that knew all containers of the run.
    pub sequence: u64,
    /// Lowest key that it may hold.
    pub first: u64,
    /// Highest key that it may hold.
    pub last: u64,
    /// Pairs in it.
    pub pairs: u64,
    /// Containers listed, and the checksum of the list.
    pub containers: (u32, u32),
    /// The runs that its run replaces.
    pub inputs: Vec<u32>,
}

impl SegmentHeader {
    /// Blocks of pairs.
    pub const fn blocks(&self) -> u64 {
        self.pairs.div_ceil(PAIRS_PER_BLOCK as u64)
    }

    /// Where the list of containers begins, in bytes.
    pub const fn list_at(&self) -> u64 {
        (1 + self.blocks()) * BLOCK_BYTES as u64
    }

    /// Its block.
    pub fn encode(&self, uuid: &[u8; 16]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(MAGIC);
        writer.u32(FORMAT_VERSION);
        writer.bytes(uuid);
        writer.u32(self.run);
        writer.u32(self.part);
        writer.u64(self.sequence);
        writer.u64(self.first);
        writer.u64(self.last);
        writer.u64(self.pairs);
        writer.u32(self.containers.0);
        writer.u32(self.containers.1);
        writer.u32(self.inputs.len() as u32);
        for &input in &self.inputs {
            writer.u32(input);
        }
        finish(writer.0)
    }

    /// Verify and read it.
    pub fn decode(bytes: &[u8], name: &str, uuid: &[u8; 16]) -> Result<Self, PoolError> {
        let corrupt = |problem: &str| PoolError::corrupt_whole(name, problem);
        let mut reader =
            Reader::new(checked(bytes).ok_or_else(|| corrupt("its checksum is wrong"))?);
        let header = (|| {
            let (magic, version) = (reader.array::<4>()?, reader.u32()?);
            let owner = reader.array::<16>()?;
            let mut header = Self {
                run: reader.u32()?,
                part: reader.u32()?,
                sequence: reader.u64()?,
                first: reader.u64()?,
                last: reader.u64()?,
                pairs: reader.u64()?,
                containers: (reader.u32()?, reader.u32()?),
                inputs: Vec::new(),
            };
            let inputs = reader.u32()? as usize;
            for _ in 0..inputs.min(INPUTS_MAX) {
                header.inputs.push(reader.u32()?);
            }
            Some((magic, version, owner, header))
        })();
        let Some((magic, version, owner, header)) = header else {
            return Err(corrupt("its header is cut short"));
        };
        if magic != *MAGIC {
            return Err(corrupt("it is no segment of a fingerprint run"));
        }
        check_version(name, version)?;
        if owner != *uuid {
            return Err(corrupt("it belongs to another pool"));
        }
        if header.first > header.last {
            return Err(corrupt("its range of keys is empty"));
        }
        Ok(header)
    }
}

/// A block of pairs, the one with this number.
pub fn encode_block(pairs: &[Pair], number: u32, out: &mut Vec<u8>) {
    debug_assert!(pairs.len() <= PAIRS_PER_BLOCK);
    let from = out.len();
    for pair in pairs {
        out.extend_from_slice(&pair.key.to_le_bytes());
        out.extend_from_slice(&pair.rest.to_le_bytes());
    }
    out.resize(from + COUNT_AT, 0);
    out.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.resize(from + CHECK_AT, 0);
    let check = crc32fast::hash(&out[from..]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// Verify a block of pairs and append them to `out`.
pub fn decode_block(
    bytes: &[u8],
    (name, number): (&str, u32),
    out: &mut Vec<Pair>,
) -> Result<(), PoolError> {
    let corrupt = |problem: &str| {
        let at = (u64::from(number) + 1) * BLOCK_BYTES as u64;
        PoolError::corrupt(name, at, problem)
    };
    let whole = checked(bytes).ok_or_else(|| corrupt("the checksum of its pairs is wrong"))?;
    let (pairs, tail) = whole.split_at(COUNT_AT);
    let mut tail = Reader::new(tail);
    let (count, found) = (tail.u32().map(|count| count as usize), tail.u32());
    let Some(count) = count.filter(|&count| found == Some(number) && count <= PAIRS_PER_BLOCK)
    else {
        return Err(corrupt("its pairs are not those that belong here"));
    };
    out.extend(pairs.as_chunks().0.iter().take(count).map(decode_pair));
    Ok(())
}

/// Append the pairs of a block that have this key to `out`. Returns whether there may be more in
/// the next block. Its checksum is not looked at: what damage leads to is a hint that turns out to
/// be wrong, or is missing.
pub fn search_block(
    bytes: &[u8; BLOCK_BYTES],
    (name, number): (&str, u32),
    key: u64,
    out: &mut Vec<Pair>,
) -> Result<bool, PoolError> {
    let (pairs, tail) = bytes.split_at(COUNT_AT);
    let mut tail = Reader::new(tail);
    let (count, found) = (tail.u32().map(|count| count as usize), tail.u32());
    let Some(count) = count.filter(|&count| found == Some(number) && count <= PAIRS_PER_BLOCK)
    else {
        let at = (u64::from(number) + 1) * BLOCK_BYTES as u64;
        return Err(PoolError::corrupt(name, at, "its pairs are not those that belong here"));
    };
    let (pairs, _) = pairs.as_chunks::<PAIR_BYTES>();
    let pairs = &pairs[..count];
    let first = pairs.partition_point(|pair| decode_pair(pair).key < key);
    let same = pairs[first..].iter().map(decode_pair).take_while(|pair| pair.key == key);
    out.extend(same);
    Ok(pairs.last().is_none_or(|last| decode_pair(last).key <= key))
}

/// Bytes of so many pairs of a block, which begin with it.
pub const fn pairs_bytes(pairs: usize) -> usize {
    pairs * PAIR_BYTES
}

/// Append those of some pairs of a full block that have this key to `out`. Returns whether these
/// are all, which is so if there are pairs before and behind them; else nothing is appended. What
/// damage leads to is a hint that turns out to be wrong, or is missing.
pub fn search_pairs(bytes: &[u8], key: u64, out: &mut Vec<Pair>) -> bool {
    let (pairs, _) = bytes.as_chunks::<PAIR_BYTES>();
    let first = pairs.partition_point(|pair| decode_pair(pair).key < key);
    let end = pairs.partition_point(|pair| decode_pair(pair).key <= key);
    let is_all = first > 0 && end < pairs.len();
    if is_all {
        // There is no such range where damage has put pairs out of order.
        let same = pairs.get(first..end).unwrap_or_default();
        out.extend(same.iter().map(decode_pair));
    }
    is_all
}

fn decode_pair(bytes: &[u8; PAIR_BYTES]) -> Pair {
    let word =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, &b| word << 8 | u64::from(b));
    Pair { key: word(0), rest: word(8) }
}

/// The list of containers, with its checksum.
pub fn encode_containers(ids: &[ContainerId]) -> (Vec<u8>, u32) {
    let mut writer = Writer::default();
    for id in ids {
        writer.u32(id.get());
    }
    let check = crc32fast::hash(&writer.0);
    (writer.0, check)
}

/// The list back from its bytes.
pub fn decode_containers(
    bytes: &[u8],
    name: &str,
    header: &SegmentHeader,
) -> Result<Vec<ContainerId>, PoolError> {
    if crc32fast::hash(bytes) != header.containers.1 {
        let problem = "the checksum of its list of containers is wrong";
        return Err(PoolError::corrupt(name, header.list_at(), problem));
    }
    let mut reader = Reader::new(bytes);
    Ok(std::iter::from_fn(|| reader.u32()).map(ContainerId::new).collect())
}

fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(CHECK_AT, 0);
    let check = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// A block without its checksum, if that is right.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (whole, check) = bytes.split_last_chunk::<4>()?;
    let right = bytes.len() == BLOCK_BYTES && crc32fast::hash(whole) == u32::from_le_bytes(*check);
    right.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    fn header() -> SegmentHeader {
        SegmentHeader {
            run: 9,
            part: 2,
            sequence: 77,
            first: 100,
            last: 5000,
            pairs: 256,
            containers: (3, 0x1234),
            inputs: vec![4, 5, 8],
        }
    }

    #[test]
    fn what_is_encoded_comes_back_and_every_flipped_bit_is_noticed() {
        let header = header();
        let bytes = header.encode(&UUID);
        assert_eq!(SegmentHeader::decode(&bytes, "x", &UUID).unwrap(), header);
        let other = SegmentHeader::decode(&bytes, "x", &[8; 16]).unwrap_err();
        assert!(other.to_string().contains("another pool"), "{other}");
        let pairs: Vec<Pair> = (0..255).map(|n| Pair { key: n * n, rest: n << 40 | n }).collect();
        let mut block = Vec::new();
        encode_block(&pairs, 5, &mut block);
        let mut found = Vec::new();
        decode_block(&block, ("x", 5), &mut found).unwrap();
        assert_eq!(found, pairs);
        assert!(decode_block(&block, ("x", 6), &mut found).is_err(), "another block's");
        for at in (0..BLOCK_BYTES).step_by(7) {
            for (bytes, is_header) in [(&bytes, true), (&block, false)] {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let noticed = if is_header {
                    SegmentHeader::decode(&flipped, "x", &UUID).is_err()
                } else {
                    decode_block(&flipped, ("x", 5), &mut found).is_err()
                };
                assert!(noticed, "byte {at}");
            }
        }
    }

    #[test]
    fn what_has_no_use_yet_is_zero() {
        let mut block = Vec::new();
        encode_block(&[Pair { key: u64::MAX, rest: u64::MAX }], 5, &mut block);
        assert!(block[PAIR_BYTES..COUNT_AT].iter().all(|&byte| byte == 0));
        assert_eq!(block[COUNT_AT + 8..CHECK_AT], [0; 4]);
        let header = header().encode(&UUID);
        assert_eq!(header[84..88], [8, 0, 0, 0], "the last of the inputs");
        assert!(header[88..CHECK_AT].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn lists_of_containers_come_back() {
        let ids: Vec<ContainerId> = [1, 5, 900].map(ContainerId::new).to_vec();
        let (mut bytes, check) = encode_containers(&ids);
        let header = SegmentHeader { containers: (3, check), ..header() };
        assert_eq!(decode_containers(&bytes, "x", &header).unwrap(), ids);
        bytes[3] ^= 1;
        assert!(decode_containers(&bytes, "x", &header).is_err());
    }
}
