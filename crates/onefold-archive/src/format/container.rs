//! A container: header, stored chunks, directory, footer. Written once, in one go.
//! Room: onefold-archive.
//! Invariant: what is damaged, or belongs to another archive or number, does not decode.

use onefold_block::ContainerId;
use onefold_content::{Codec, Fingerprint};

use super::bytes::{checked, checksum};
use super::chunk_ref::{ChunkName, ChunkRef, pack, unpack};
use super::{FORMAT_VERSION, check_version};
use crate::error::ArchiveError;
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the first chunk.
pub const HEADER_BYTES: usize = 40;
/// Bytes of the directory for each chunk.
pub const ENTRY_BYTES: usize = 44;
/// Bytes after the directory.
pub const FOOTER_BYTES: usize = 28;

const MAGIC: &[u8; 8] = b"OFCHUNKS";
const FOOTER_MAGIC: &[u8; 8] = b"OFDIRECT";

/// One chunk in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The whole fingerprint of the chunk.
    pub fingerprint: Fingerprint,
    /// First stored byte in the container.
    pub offset: u32,
    /// Stored bytes.
    pub stored: u32,
    /// How they are encoded.
    pub codec: Codec,
    /// Bytes of the chunk itself.
    pub len: u32,
}

impl DirectoryEntry {
    /// The reference that a version holds to this chunk.
    pub fn reference(&self, container: ContainerId) -> ChunkRef {
        let Self { ref fingerprint, offset, stored, codec, len } = *self;
        ChunkRef { container, offset, stored, codec, len, name: ChunkName::of(fingerprint) }
    }
}

/// The bytes that a container begins with.
pub fn encode_header(id: ContainerId, uuid: &[u8; 16]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(FORMAT_VERSION);
    out.u32(id.get());
    out.bytes(uuid);
    out.u32(0);
    checksum(&mut out);
    out.0
}

/// Check the bytes that a container begins with.
pub fn check_header(bytes: &[u8], id: ContainerId, uuid: &[u8; 16]) -> Result<(), ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(id.to_string(), 0, problem);
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its header is damaged"))?;
    if reader.array() != Some(*MAGIC) {
        return Err(corrupt("it does not begin like a container of an archive"));
    }
    check_version(&id.to_string(), reader.u32().unwrap_or(0))?;
    if reader.u32() != Some(id.get()) || reader.array() != Some(*uuid) {
        return Err(corrupt("it was written as another container, or by another archive"));
    }
    Ok(())
}

/// The directory and footer of a container whose chunks end at `directory_at`.
pub fn encode_directory(id: ContainerId, entries: &[DirectoryEntry], directory_at: u32) -> Vec<u8> {
    let mut out = Writer::default();
    for entry in entries {
        out.bytes(entry.fingerprint.as_bytes());
        out.u32(entry.offset);
        out.u32(pack(entry.stored, entry.codec));
        out.u32(entry.len);
    }
    let sum = crc32fast::hash(&out.0);
    let mut footer = Writer::default();
    footer.bytes(FOOTER_MAGIC);
    footer.u32(id.get());
    footer.u32(directory_at);
    footer.u32(entries.len() as u32);
    footer.u32(sum);
    checksum(&mut footer);
    out.bytes(&footer.0);
    out.0
}

/// Where a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// First byte of the directory.
    pub directory_at: u32,
    /// Chunks in the container.
    pub count: u32,
    /// CRC-32 of the directory.
    checksum: u32,
}

/// What the last bytes of a container of `len_bytes` say.
pub fn decode_footer(
    bytes: &[u8],
    id: ContainerId,
    len_bytes: u64,
) -> Result<Footer, ArchiveError> {
    let corrupt = |problem: &str| {
        let at = len_bytes.saturating_sub(FOOTER_BYTES as u64);
        ArchiveError::corrupt(id.to_string(), at, problem)
    };
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its footer is damaged"))?;
    let fields = (|| {
        let magic: [u8; 8] = reader.array()?;
        let (number, directory_at) = (reader.u32()?, reader.u32()?);
        let (count, checksum) = (reader.u32()?, reader.u32()?);
        Some((magic, number, Footer { directory_at, count, checksum }))
    })();
    match fields {
        Some((magic, number, footer)) if magic == *FOOTER_MAGIC && number == id.get() => {
            let directory = u64::from(footer.count) * ENTRY_BYTES as u64;
            let end = u64::from(footer.directory_at) + directory + FOOTER_BYTES as u64;
            if end == len_bytes && footer.directory_at as usize >= HEADER_BYTES {
                Ok(footer)
            } else {
                Err(corrupt("its footer does not fit its length"))
            }
        }
        _ => Err(corrupt("its footer is that of another container")),
    }
}

/// The directory that `footer` tells of.
pub fn decode_directory(
    bytes: &[u8],
    id: ContainerId,
    footer: &Footer,
) -> Result<Vec<DirectoryEntry>, ArchiveError> {
    let corrupt =
        |problem: &str| ArchiveError::corrupt(id.to_string(), footer.directory_at.into(), problem);
    if crc32fast::hash(bytes) != footer.checksum {
        return Err(corrupt("its directory is damaged"));
    }
    let mut reader = Reader::new(bytes);
    let mut entries = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    for _ in 0..footer.count {
        let entry = (|| {
            let fingerprint = Fingerprint::from_bytes(reader.array()?);
            let offset = reader.u32()?;
            let (stored, codec) = unpack(reader.u32()?)?;
            let end = offset.checked_add(stored)?;
            let inside = offset as usize >= HEADER_BYTES && end <= footer.directory_at;
            let len = reader.u32()?;
            inside.then_some(DirectoryEntry { fingerprint, offset, stored, codec, len })
        })();
        entries.push(entry.ok_or_else(|| corrupt("an entry of its directory has no meaning"))?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_back_and_damage_is_noticed() {
        let id = ContainerId::new(5);
        let entry = |n: u8| DirectoryEntry {
            fingerprint: Fingerprint::from_bytes([n; 32]),
            offset: HEADER_BYTES as u32 + u32::from(n) * 10,
            stored: 10,
            codec: Codec::Lz4,
            len: 30,
        };
        let entries: Vec<_> = (0..3).map(entry).collect();
        let at = HEADER_BYTES as u32 + 30;
        let bytes = encode_directory(id, &entries, at);
        let len = u64::from(at) + bytes.len() as u64;
        let read = |bytes: &[u8]| {
            let (directory, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
            let footer = decode_footer(footer, id, len)?;
            decode_directory(directory, id, &footer)
        };
        assert_eq!(read(&bytes).unwrap(), entries);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        assert!(decode_footer(&bytes[bytes.len() - FOOTER_BYTES..], id, len + 1).is_err());
        let header = encode_header(id, &[1; 16]);
        assert_eq!(header.len(), HEADER_BYTES);
        check_header(&header, id, &[1; 16]).unwrap();
        assert!(check_header(&header, ContainerId::new(6), &[1; 16]).is_err());
        assert!(check_header(&header, id, &[2; 16]).is_err());
    }
}
