//! What a region must bear to be believed: whose it is, and since when.
//! Room: onefold-block.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version |
//! | 12 | 4 | 0 |
//! | 16 | 16 | UUID of the store |
//! | 32 | 16 | run of the machine |
//! | 48 | 4 | CRC-32 of what is before |

use thiserror::Error;

use super::Region;
use crate::bytes::Writer;

/// Bytes of a mark.
pub const MARK_BYTES: usize = 52;
const CHECK_AT: usize = MARK_BYTES - 4;

/// Whose a region is, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// What the region holds.
    pub magic: [u8; 8],
    /// In which version of its layout.
    pub version: u32,
    /// UUID of the store that it belongs to.
    pub owner: [u8; 16],
    /// The run of the machine, [`super::Handover::boot`].
    pub boot: [u8; 16],
}

/// Why a region counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unmarked {
    /// There is not even room for a mark.
    #[error("it is cut short")]
    CutShort,
    /// The checksum of the mark is wrong.
    #[error("its head is damaged")]
    Damaged,
    /// The mark of another kind of region.
    #[error("it is something else")]
    OtherKind,
    /// A layout that is not known here.
    #[error("another version of onefold left it")]
    OtherVersion,
    /// It says nothing about this store: the folder of that one had the same number on its disk.
    #[error("it is another store's")]
    OtherOwner,
    /// The machine stopped since.
    #[error("the machine was started again since")]
    OtherBoot,
}

impl Mark {
    /// The mark as it is stored.
    pub fn bytes(&self) -> [u8; MARK_BYTES] {
        let mut writer = Writer(Vec::with_capacity(MARK_BYTES));
        writer.bytes(&self.magic);
        writer.u32(self.version);
        writer.u32(0);
        writer.bytes(&self.owner);
        writer.bytes(&self.boot);
        let check = crc32fast::hash(&writer.0);
        writer.u32(check);
        writer.0.try_into().expect("its length is fixed")
    }

    /// Whether the region bears this mark at `at`.
    ///
    /// # Errors
    /// What it bears instead.
    pub fn check(&self, region: &Region, at: usize) -> Result<(), Unmarked> {
        let Some(found) = region.bytes().get(at..at + MARK_BYTES) else {
            return Err(Unmarked::CutShort);
        };
        let wanted = self.bytes();
        if found == wanted {
            return Ok(());
        }
        let same = |range: std::ops::Range<usize>| found[range.clone()] == wanted[range];
        Err(if crc32fast::hash(&found[..CHECK_AT]).to_le_bytes() != found[CHECK_AT..] {
            Unmarked::Damaged
        } else if !same(0..8) {
            Unmarked::OtherKind
        } else if !same(8..12) {
            Unmarked::OtherVersion
        } else if !same(16..32) {
            Unmarked::OtherOwner
        } else {
            Unmarked::OtherBoot
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Handover as _, SimHandover};
    use super::*;

    const MARK: Mark =
        Mark { magic: *b"KINDKIND", version: 7, owner: [0x11; 16], boot: [0x22; 16] };

    /// A region of so many bytes with a mark at 16.
    fn marked(bytes: usize) -> Region {
        let mut region = SimHandover::new().create("a", bytes).unwrap();
        region.bytes_mut()[16..16 + MARK_BYTES].copy_from_slice(&MARK.bytes());
        region
    }

    #[test]
    fn a_mark_is_its_fields_and_their_checksum() {
        let bytes = MARK.bytes();
        assert_eq!(&bytes[..16], b"KINDKIND\x07\0\0\0\0\0\0\0");
        assert_eq!((&bytes[16..32], &bytes[32..48]), (&[0x11; 16][..], &[0x22; 16][..]));
        assert_eq!(bytes[48..], crc32fast::hash(&bytes[..48]).to_le_bytes());
    }

    #[test]
    fn it_must_lie_inside_the_region_whole() {
        let region = marked(16 + MARK_BYTES);
        assert_eq!(MARK.check(&region, 16), Ok(()));
        assert_eq!(MARK.check(&region, 17), Err(Unmarked::CutShort));
    }

    #[test]
    fn each_byte_counts_and_what_it_says_instead_is_named() {
        let mut region = marked(4096);
        for byte in 0..MARK_BYTES {
            let original = region.bytes()[16 + byte];
            region.bytes_mut()[16 + byte] ^= 0x40;
            assert_eq!(MARK.check(&region, 16), Err(Unmarked::Damaged), "byte {byte}");
            let check = crc32fast::hash(&region.bytes()[16..64]).to_le_bytes();
            region.bytes_mut()[64..68].copy_from_slice(&check);
            let expected = match byte {
                0..8 => Err(Unmarked::OtherKind),
                8..12 => Err(Unmarked::OtherVersion),
                16..32 => Err(Unmarked::OtherOwner),
                12..16 | 32..48 => Err(Unmarked::OtherBoot),
                _ => Ok(()),
            };
            assert_eq!(MARK.check(&region, 16), expected, "byte {byte}");
            region.bytes_mut()[16 + byte] = original;
            region.bytes_mut()[16..68].copy_from_slice(&MARK.bytes());
        }
    }
}
