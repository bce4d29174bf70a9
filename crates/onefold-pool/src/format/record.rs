//! A record: one chunk as it is stored, with its own checksum.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Record".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | check: CRC-32 of bytes 4..8+n, xor the placement word of container and location |
//! | 4 | 3 | n, the stored length in bytes |
//! | 7 | 1 | codec |
//! | 8 | n | the chunk, encoded |
//! | 8+n | | zeroes up to a multiple of 16 |
//!
//! Invariant: a record read from any place but the one it was written for fails its check.

use onefold_block::ContainerId;
use onefold_content::{Codec, Compressor, Decompressor};

use crate::error::RecordError;
use crate::pba::{Location, Pba, UNIT_BYTES};

/// Bytes before the encoded chunk.
pub const HEADER_BYTES: usize = 8;

/// Units that a chunk of `chunk_bytes` takes when stored raw.
pub const fn raw_units(chunk_bytes: usize) -> usize {
    (HEADER_BYTES + chunk_bytes).div_ceil(UNIT_BYTES)
}

/// The longest encoding of a chunk that still saves a unit over storing it raw.
pub const fn encoded_len_max(chunk_bytes: usize) -> usize {
    (raw_units(chunk_bytes) - 1) * UNIT_BYTES - HEADER_BYTES
}

/// Append the record of `chunk` to `out`, its check still lacking the placement word; returns its
/// length in units.
pub fn draft(chunk: &[u8], compressor: &mut Compressor, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let codec = compressor.compress_into(chunk, out, encoded_len_max(chunk.len()));
    if codec == Codec::Raw {
        out.extend_from_slice(chunk);
    }
    let stored = out.len() - start - HEADER_BYTES;
    let word = (stored as u32) | u32::from(codec.id()) << 24;
    let padded = (HEADER_BYTES + stored).next_multiple_of(UNIT_BYTES);
    out[start + 4..start + 8].copy_from_slice(&word.to_le_bytes());
    let check = crc32fast::hash(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&check.to_le_bytes());
    out.resize(start + padded, 0);
    padded / UNIT_BYTES
}

/// Give a drafted record its place: the first four bytes change.
pub fn place(record: &mut [u8], pba: Pba) {
    let (check, _) = record.split_first_chunk_mut::<4>().expect("a record has a header");
    *check = (u32::from_le_bytes(*check) ^ placement_word(pba)).to_le_bytes();
}

/// Mixes container and location, so that neighbours differ in many bits.
fn placement_word(pba: Pba) -> u32 {
    let mixed = (u64::from(pba.container.get()) << 32 | u64::from(pba.location.raw()))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

/// Verify a record and decode it into `chunk`, which has the pool's chunk size.
pub(crate) fn decode(
    record: &[u8],
    pba: Pba,
    decompressor: &mut Decompressor,
    chunk: &mut [u8],
) -> Result<(), RecordError> {
    let (codec, payload) = verify(record, pba)?;
    decompressor.decompress_into(codec, payload, chunk)?;
    Ok(())
}

/// Verify a record's length and check; gives its codec and its encoded chunk.
pub(crate) fn verify(record: &[u8], pba: Pba) -> Result<(Codec, &[u8]), RecordError> {
    let units = pba.location.len_units() as u32;
    let (stored, codec) = header_fields(record);
    let found = (HEADER_BYTES + stored).div_ceil(UNIT_BYTES) as u32;
    if found != units || record.len() < HEADER_BYTES + stored {
        return Err(RecordError::Length { units, found });
    }
    let found = crc32fast::hash(&record[4..HEADER_BYTES + stored]) ^ placement_word(pba);
    let expected = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
    if found != expected {
        return Err(RecordError::Checksum { found, expected });
    }
    let codec = Codec::from_id(codec).ok_or(RecordError::Codec(codec))?;
    Ok((codec, &record[HEADER_BYTES..HEADER_BYTES + stored]))
}

/// Stored length and codec number of a record, unverified; zeroes where it has no header.
fn header_fields(record: &[u8]) -> (usize, u8) {
    let word = record
        .get(4..HEADER_BYTES)
        .map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")));
    ((word & 0x00FF_FFFF) as usize, (word >> 24) as u8)
}

/// The location of the record that seems to begin at `offset_bytes` of a container's bytes, if its
/// header makes sense and its check holds; how a container without directory is walked.
pub(crate) fn probe(
    bytes: &[u8],
    offset_bytes: usize,
    id: ContainerId,
    chunk_bytes: usize,
) -> Option<Location> {
    let record = bytes.get(offset_bytes..)?;
    if record.len() < UNIT_BYTES {
        return None;
    }
    let (stored, _) = header_fields(record);
    if stored == 0 || stored > chunk_bytes {
        return None;
    }
    let units = (HEADER_BYTES + stored).div_ceil(UNIT_BYTES);
    let location = Location::new(offset_bytes / UNIT_BYTES, units);
    verify(record, Pba { container: id, location }).ok().map(|_| location)
}

#[cfg(test)]
mod tests {
    use onefold_content::Compression;

    use super::*;

    fn chunk(seed: u64, compressible: bool) -> Vec<u8> {
        let mut state = seed;
        (0..4096)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if compressible && i % 4 != 0 { 7 } else { (state >> 56) as u8 }
            })
            .collect()
    }

    fn stored(chunk: &[u8], pba_offset: usize) -> (Vec<u8>, Pba) {
        let mut compressor = Compressor::new(Compression::Lz4);
        let mut record = Vec::new();
        let units = draft(chunk, &mut compressor, &mut record);
        let location = Location::new(pba_offset, units);
        let pba = Pba { container: ContainerId::new(5), location };
        place(&mut record, pba);
        (record, pba)
    }

    #[test]
    fn what_a_place_is_mixed_to_is_for_ever() {
        let word = |container, offset, units| {
            let location = Location::new(offset, units);
            placement_word(Pba { container: ContainerId::new(container), location })
        };
        assert_eq!([word(1, 3, 257), word(u32::MAX >> 1, 0, 1)], [0x8469_c550, 0x00b5_83eb]);
    }

    #[test]
    fn a_record_gives_its_chunk_back() {
        for compressible in [true, false] {
            let chunk = chunk(1, compressible);
            let (record, pba) = stored(&chunk, 2);
            assert_eq!(record.len() < 4096, compressible);
            assert!(record.len().is_multiple_of(UNIT_BYTES));
            let mut out = vec![0; 4096];
            decode(&record, pba, &mut Decompressor::new(), &mut out).unwrap();
            assert_eq!(out, chunk);
            assert_eq!(probe(&record, 0, ContainerId::new(5), 4096), None, "another offset");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_place_is_noticed() {
        let (record, pba) = stored(&chunk(2, true), 2);
        let unpadded = HEADER_BYTES + header_fields(&record).0;
        for bit in 0..unpadded * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&damaged, pba).is_err(), "bit {bit}");
        }
        for offset in (0..4000).filter(|&o| o != 2) {
            let location = Location::new(offset, pba.location.len_units());
            assert!(verify(&record, Pba { location, ..pba }).is_err(), "offset {offset}");
        }
        for len in 0..unpadded {
            assert!(verify(&record[..len], pba).is_err(), "cut to {len}");
        }
    }
}
