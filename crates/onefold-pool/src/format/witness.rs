//! The witness: how many frames of the journal were durable, told in another file.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Witness".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `OFJW` |
//! | 4 | 4 | CRC-32 of bytes 8..24 |
//! | 8 | 8 | epoch |
//! | 16 | 8 | number of its frames that were durable |

use onefold_block::bytes::{Reader, Writer};

/// Its length in bytes.
pub const WITNESS_BYTES: usize = 24;
/// It begins on a multiple of this, so that no page or sector of the checkpoint is written again.
const ALIGN_BYTES: u64 = 4096;

const MAGIC: &[u8; 4] = b"OFJW";

/// Where it is in the file of a checkpoint of `len_bytes`.
pub const fn witness_at(len_bytes: u64) -> u64 {
    len_bytes.next_multiple_of(ALIGN_BYTES)
}

/// Its bytes.
pub fn encode_witness(epoch: u64, frames: u64) -> Vec<u8> {
    let mut fields = Writer::default();
    fields.u64(epoch);
    fields.u64(frames);
    let mut writer = Writer::default();
    writer.bytes(MAGIC);
    writer.u32(crc32fast::hash(&fields.0));
    writer.bytes(&fields.0);
    writer.0
}

/// The number of frames, if this is the witness of `epoch`.
pub fn decode_witness(bytes: &[u8], epoch: u64) -> Option<u64> {
    let mut reader = Reader::new(bytes);
    let (magic, check) = (reader.array::<4>()?, reader.u32()?);
    let (found, frames) = (reader.u64()?, reader.u64()?);
    let intact = &magic == MAGIC && check == crc32fast::hash(bytes.get(8..WITNESS_BYTES)?);
    (intact && found == epoch).then_some(frames)
}

/// Whether these bytes were the witness of `epoch` and are damaged: part of it is intact. It lies
/// in one sector, so no power cut leaves that; nothing there, or what was there before, is no
/// damage.
pub fn is_damaged(bytes: &[u8], epoch: u64) -> bool {
    let mut reader = Reader::new(bytes);
    let fields = (reader.array::<4>(), reader.u32(), reader.u64());
    let (Some(magic), Some(check), Some(found)) = fields else { return false };
    let intact = bytes.get(8..WITNESS_BYTES).is_some_and(|b| check == crc32fast::hash(b));
    match (&magic == MAGIC, intact) {
        (true, true) => false,
        (false, false) => found == epoch,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_comes_back_and_any_flipped_bit_or_cut_is_noticed() {
        let bytes = encode_witness(7, 12);
        assert_eq!(bytes.len(), WITNESS_BYTES);
        assert_eq!(decode_witness(&bytes, 7), Some(12));
        assert_eq!(decode_witness(&bytes, 8), None, "of another epoch");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_witness(&damaged, 7), None, "bit {bit}");
            assert!(is_damaged(&damaged, 7), "bit {bit}");
        }
        assert!(!is_damaged(&bytes, 7) && !is_damaged(&bytes, 8) && !is_damaged(&[0; 24], 7));
        for len in 0..bytes.len() {
            assert_eq!(decode_witness(&bytes[..len], 7), None, "cut to {len}");
        }
        assert_eq!([0, 1, 4096, 4097].map(witness_at), [0, 4096, 4096, 8192]);
    }
}
