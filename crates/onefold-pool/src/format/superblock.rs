//! A checkpoint: everything needed to open the pool, but for map pages and the journal's frames.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Checkpoint".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `ONEFOLD` and a line feed |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32 of bytes 8..12 and 16..40+n |
//! | 16 | 8 | sequence number, one more at every checkpoint |
//! | 24 | 8 | n, the payload's length in bytes |
//! | 32 | 8 | zero |
//! | 40 | n | payload: settings, counters, volumes, containers |

use onefold_block::{ByteSize, ChunkSize, ContainerId};
use onefold_content::{Compression, FingerprintKind};

use super::{FORMAT_VERSION, container};
use crate::error::PoolError;
use crate::map::{HEIGHT_MAX, VOLUME_NUMBER_MAX, height_for};
use crate::pba::CONTAINER_BYTES_MAX;
use crate::settings::{PoolIdentity, PoolSettings};
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 40;
/// Longest payload that is believed: four million containers.
pub const PAYLOAD_BYTES_MAX: u64 = 256 << 20;

const MAGIC: &[u8; 8] = b"ONEFOLD\n";

/// A map page's place and checksum, or the entry that a whole absent subtree has.
pub type RawPageRef = u64;

/// A volume as a checkpoint records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its number, never reused.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Number of map levels above the leaves.
    pub height: u8,
    /// The root of its map.
    pub root: RawPageRef,
    /// Blocks with stored data.
    pub mapped_chunks: u64,
    /// The volume was deleted, and its references are still being given up.
    pub deleting: bool,
}

/// A container as a checkpoint records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRecord {
    /// Its number.
    pub id: ContainerId,
    /// Length in bytes, once sealed; 0 while open.
    pub len_bytes: u32,
    /// Records in it.
    pub chunks: u32,
    /// Map entries that point into it.
    pub references: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// One more at every checkpoint; also the epoch of the journal frames that follow.
    pub sequence: u64,
    /// Who this pool is.
    pub identity: PoolIdentity,
    /// How it stores.
    pub settings: PoolSettings,
    /// The next container number.
    pub next_container: u32,
    /// The next volume number.
    pub next_volume: u32,
    /// All volumes, in the order in which they were made.
    pub volumes: Vec<VolumeRecord>,
    /// All containers, by number.
    pub containers: Vec<ContainerRecord>,
}

impl Superblock {
    /// Length of the encoded form.
    pub fn len_bytes(&self) -> usize {
        self.encode().len()
    }

    /// The bytes of a `super` file.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Writer(Vec::with_capacity(256 + self.containers.len() * 20));
        payload.bytes(&self.identity.uuid);
        payload.bytes(&self.identity.key);
        payload.u32(self.settings.chunk_size.get());
        payload.u8(self.settings.fingerprint.id());
        let (codec, level) = encode_compression(self.settings.compression);
        payload.u8(codec);
        payload.u16(level as u16);
        payload.u32(self.settings.container_bytes);
        payload.u32(self.next_container);
        payload.u32(self.next_volume);
        payload.u32(self.volumes.len() as u32);
        for volume in &self.volumes {
            payload.u32(volume.number);
            payload.text(&volume.name);
            payload.u64(volume.size_bytes);
            payload.u64(volume.root);
            payload.u64(volume.mapped_chunks);
            payload.u8(volume.height);
            payload.u8(u8::from(volume.deleting));
        }
        payload.u32(self.containers.len() as u32);
        for container in &self.containers {
            payload.u32(container.id.get());
            payload.u32(container.len_bytes);
            payload.u32(container.chunks);
            payload.u64(container.references);
        }
        let payload = payload.0;
        let mut writer = Writer(Vec::with_capacity(HEADER_BYTES + payload.len()));
        writer.bytes(MAGIC);
        writer.u32(FORMAT_VERSION);
        writer.u32(0);
        writer.u64(self.sequence);
        writer.u64(payload.len() as u64);
        writer.u64(0);
        writer.bytes(&payload);
        let mut bytes = writer.0;
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Verify and read the bytes of the file `name`; bytes past the payload are ignored.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, PoolError> {
        let corrupt = |offset: usize, problem: &str| {
            Err(PoolError::corrupt(name, offset as u64, problem.to_owned()))
        };
        let mut reader = Reader::new(bytes);
        let head = (|| {
            let magic = reader.array::<8>()?;
            let (version, check) = (reader.u32()?, reader.u32()?);
            Some((magic, version, check, reader.u64()?, reader.u64()?, reader.u64()?))
        })();
        let Some((magic, version, check, sequence, len, _)) = head else {
            return corrupt(bytes.len(), "the file ends inside of its header");
        };
        if &magic != MAGIC {
            return corrupt(0, "not a onefold checkpoint: the magic does not match");
        }
        if len > PAYLOAD_BYTES_MAX {
            return corrupt(24, "the length is larger than any checkpoint's");
        }
        let Some(payload) = reader.bytes(len as usize) else {
            return corrupt(bytes.len(), "the file ends inside of its payload");
        };
        let found = checksum(&bytes[..HEADER_BYTES + len as usize]);
        if found != check {
            let problem = format!("checksum is {found:08x}, but {check:08x} was expected");
            return corrupt(12, &problem);
        }
        if version > FORMAT_VERSION {
            let what = name.to_owned();
            return Err(PoolError::NewerFormat { what, found: version, supported: FORMAT_VERSION });
        }
        let mut fields = Reader::new(payload);
        Self::decode_payload(sequence, &mut fields).map_or_else(
            || corrupt(HEADER_BYTES + fields.position(), "a field makes no sense here"),
            Ok,
        )
    }

    fn decode_payload(sequence: u64, reader: &mut Reader<'_>) -> Option<Self> {
        let identity = PoolIdentity { uuid: reader.array()?, key: reader.array()? };
        let chunk_size = ChunkSize::new(ByteSize(u64::from(reader.u32()?))).ok()?;
        let fingerprint = FingerprintKind::from_id(reader.u8()?)?;
        let compression = decode_compression(reader.u8()?, reader.u16()? as i16)?;
        let container_bytes = reader.u32()?;
        let settings = PoolSettings { chunk_size, fingerprint, compression, container_bytes };
        settings.check().ok()?;
        let (next_container, next_volume) = (reader.u32()?, reader.u32()?);
        let count = reader.u32()?;
        let volumes: Option<Vec<_>> =
            (0..count).map(|_| decode_volume(reader, chunk_size)).collect();
        let count = reader.u32()?;
        let containers: Option<Vec<_>> = (0..count).map(|_| decode_container(reader)).collect();
        let (volumes, containers) = (volumes?, containers?);
        Some(Self {
            sequence,
            identity,
            settings,
            next_container,
            next_volume,
            volumes,
            containers,
        })
    }
}

/// The checksum of a checkpoint: of everything but the magic and itself. Every version keeps it
/// where it is, so that a damaged version number is not taken for a newer format.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[8..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

fn decode_volume(reader: &mut Reader<'_>, chunk_size: ChunkSize) -> Option<VolumeRecord> {
    let number = reader.u32()?;
    let name = reader.text()?;
    let (size_bytes, root, mapped_chunks) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (height, deleting) = (reader.u8()?, reader.u8()? != 0);
    let blocks = size_bytes.div_ceil(chunk_size.bytes64());
    if height > HEIGHT_MAX || height < height_for(blocks) || number > VOLUME_NUMBER_MAX {
        return None;
    }
    Some(VolumeRecord { number, name, size_bytes, height, root, mapped_chunks, deleting })
}

fn decode_container(reader: &mut Reader<'_>) -> Option<ContainerRecord> {
    let id = ContainerId::new(reader.u32()?);
    let (len_bytes, chunks, references) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let around = container::HEADER_BYTES + container::directory_bytes(chunks as usize);
    let sealed = (around..=CONTAINER_BYTES_MAX).contains(&(len_bytes as usize));
    let plausible = if len_bytes == 0 { chunks == 0 } else { sealed };
    (id.get() > 0 && plausible).then_some(ContainerRecord { id, len_bytes, chunks, references })
}

const fn encode_compression(compression: Compression) -> (u8, i16) {
    match compression {
        Compression::None => (0, 0),
        Compression::Lz4 => (1, 0),
        Compression::Zstd(level) => (2, level as i16),
    }
}

fn decode_compression(codec: u8, level: i16) -> Option<Compression> {
    match codec {
        0 => Some(Compression::None),
        1 => Some(Compression::Lz4),
        2 => format!("zstd:{level}").parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            sequence: 12,
            identity: PoolIdentity { uuid: [1; 16], key: [2; 32] },
            settings: PoolSettings {
                compression: Compression::Zstd(-3),
                ..PoolSettings::default()
            },
            next_container: 9,
            next_volume: 4,
            volumes: vec![VolumeRecord {
                number: 3,
                name: "main".to_owned(),
                size_bytes: 64 << 30,
                height: 2,
                root: 0x1234_5678_9abc_def0,
                mapped_chunks: 99,
                deleting: false,
            }],
            containers: vec![ContainerRecord {
                id: ContainerId::new(8),
                len_bytes: 4 << 20,
                chunks: 2000,
                references: 5000,
            }],
        }
    }

    #[test]
    fn a_checkpoint_comes_back_and_any_flipped_bit_or_cut_is_noticed() {
        let bytes = sample().encode();
        assert_eq!(Superblock::decode("super.0", &bytes).unwrap(), sample());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode("super.0", &damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Superblock::decode("super.0", &bytes[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = sample().encode();
        bytes[8] = 2;
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        let error = Superblock::decode("super.0", &bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "super.0 has format version 2; this onefold reads up to version 1"
        );
    }
}
