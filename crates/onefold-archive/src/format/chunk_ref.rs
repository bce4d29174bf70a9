//! A chunk reference: where a chunk lies, and how to tell that it is the right one.
//! Room: onefold-archive.
//! Invariant: a reference that was damaged, or that stands in another place or version than it was
//! written for, does not decode.

use onefold_block::ContainerId;
use onefold_content::Fingerprint;

use onefold_block::bytes::{Reader, Writer};

/// Length of a reference in bytes.
pub const REF_BYTES: usize = 32;
/// Bytes of a fingerprint that references and the index keep: 128 bits of keyed BLAKE3.
pub const NAME_BYTES: usize = 16;

/// The first half of a fingerprint: names a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkName(pub [u8; NAME_BYTES]);

impl ChunkName {
    /// The name that goes with a fingerprint.
    pub fn of(fingerprint: &Fingerprint) -> Self {
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&fingerprint.as_bytes()[..NAME_BYTES]);
        Self(name)
    }
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkRef {
    /// The container.
    pub container: ContainerId,
    /// First byte in its content, which is all chunks of it one behind the other.
    pub offset: u32,
    /// Bytes of the chunk.
    pub len: u32,
    /// The chunk's name.
    pub name: ChunkName,
}

/// The checksum of a reference's fields at a byte position of a version.
fn checksum(version: u32, position: u64, fields: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(&position.to_le_bytes());
    hasher.update(fields);
    hasher.finalize()
}

impl ChunkRef {
    /// Append the bytes of this reference as they stand at `position` of version `version`.
    pub fn encode(&self, version: u32, position: u64, out: &mut Vec<u8>) {
        let mut fields = Writer(std::mem::take(out));
        let start = fields.0.len();
        fields.u32(self.container.get());
        fields.u32(self.offset);
        fields.u32(self.len);
        fields.bytes(&self.name.0);
        let sum = checksum(version, position, &fields.0[start..]);
        fields.u32(sum);
        *out = fields.0;
    }

    /// The reference at `position` of version `version`; `None` if it is damaged.
    pub fn decode(bytes: &[u8; REF_BYTES], version: u32, position: u64) -> Option<Self> {
        let (fields, sum) = bytes.split_last_chunk::<4>()?;
        if checksum(version, position, fields) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = Reader::new(fields);
        let (container, offset) = (ContainerId::new(reader.u32()?), reader.u32()?);
        let (len, name) = (reader.u32()?, ChunkName(reader.array()?));
        Some(Self { container, offset, len, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_counts_only_where_it_was_written() {
        let chunk = ChunkRef {
            container: ContainerId::new(7),
            offset: 64,
            len: 70_000,
            name: ChunkName([3; NAME_BYTES]),
        };
        let mut bytes = Vec::new();
        chunk.encode(2, 720, &mut bytes);
        let bytes: [u8; REF_BYTES] = bytes.try_into().unwrap();
        assert_eq!(ChunkRef::decode(&bytes, 2, 720), Some(chunk));
        assert_eq!(ChunkRef::decode(&bytes, 2, 752), None);
        assert_eq!(ChunkRef::decode(&bytes, 3, 720), None);
        for bit in 0..REF_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkRef::decode(&damaged, 2, 720), None, "bit {bit}");
        }
    }
}
