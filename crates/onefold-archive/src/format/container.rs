//! A container: header, groups of chunks, directory, table of groups, footer. Written once, in one
//! go.
//! Room: onefold-archive.
//! Invariant: what is damaged, or belongs to another archive or number, does not decode.

use onefold_block::ContainerId;
use onefold_block::bytes::{Reader, Writer};

use super::bytes::{checked, checksum};
use super::chunk_ref::{ChunkName, ChunkRef, NAME_BYTES};
use super::group::{GROUP_BYTES, GROUP_ROW_BYTES, GroupTable};
use super::{FORMAT_VERSION, check_version};
use crate::error::ArchiveError;

/// Bytes before the first group.
pub const HEADER_BYTES: usize = 40;
/// Bytes of the directory for each chunk.
pub const ENTRY_BYTES: usize = NAME_BYTES + 4;
/// Bytes after the table of groups.
pub const FOOTER_BYTES: usize = 36;

/// Format version of a container with a group larger than [`GROUP_BYTES`]: builds that know none of
/// these refuse it, rather than taking it for damaged and repairing it away.
pub const LARGE_GROUPS_VERSION: u32 = 5;

const MAGIC: &[u8; 8] = b"OFCHUNKS";
const FOOTER_MAGIC: &[u8; 8] = b"OFDIRECT";

/// One chunk in a directory. It lies behind the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The chunk's name.
    pub name: ChunkName,
    /// First byte in the container's content.
    pub offset: u32,
    /// Bytes of the chunk.
    pub len: u32,
}

impl DirectoryEntry {
    /// The reference that a version holds to this chunk.
    pub const fn reference(&self, container: ContainerId) -> ChunkRef {
        let Self { name, offset, len } = *self;
        ChunkRef { container, offset, len, name }
    }
}

/// The bytes that a container of these groups begins with.
pub fn encode_header(id: ContainerId, uuid: &[u8; 16], groups: &GroupTable) -> Vec<u8> {
    let is_large = groups.groups().iter().any(|group| group.len as usize > GROUP_BYTES);
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(if is_large { LARGE_GROUPS_VERSION } else { FORMAT_VERSION });
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
    let version = reader.u32().ok_or_else(|| corrupt("its header ends too early"))?;
    if version > LARGE_GROUPS_VERSION {
        let (what, supported) = (id.to_string(), LARGE_GROUPS_VERSION);
        return Err(ArchiveError::NewerFormat { what, found: version, supported });
    }
    check_version(&id.to_string(), version.min(FORMAT_VERSION))?;
    if reader.u32() != Some(id.get()) || reader.array() != Some(*uuid) {
        return Err(corrupt("it was written as another container, or by another archive"));
    }
    Ok(())
}

/// What comes behind the groups of a container: its chunks, the groups once more, the footer.
pub fn encode_tail(id: ContainerId, entries: &[DirectoryEntry], groups: &GroupTable) -> Vec<u8> {
    let mut out = Writer::default();
    for entry in entries {
        out.bytes(&entry.name.0);
        out.u32(entry.len);
    }
    let directory_sum = crc32fast::hash(&out.0);
    let start = out.0.len();
    groups.encode(&mut out);
    let groups_sum = crc32fast::hash(&out.0[start..]);
    let mut footer = Writer::default();
    footer.bytes(FOOTER_MAGIC);
    footer.u32(id.get());
    footer.u32(groups.end());
    footer.u32(entries.len() as u32);
    footer.u32(groups.groups().len() as u32);
    footer.u32(directory_sum);
    footer.u32(groups_sum);
    checksum(&mut footer);
    out.bytes(&footer.0);
    out.0
}

/// Where directory and table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Where the groups end and the directory begins.
    pub directory_at: u32,
    /// Chunks in the container.
    pub chunks: u32,
    /// Groups in it.
    pub groups: u32,
    directory_sum: u32,
    groups_sum: u32,
}

impl Footer {
    /// Bytes of the directory.
    pub const fn directory_bytes(&self) -> usize {
        self.chunks as usize * ENTRY_BYTES
    }

    /// Bytes of the table of groups, which follows on the directory.
    pub const fn groups_bytes(&self) -> usize {
        self.groups as usize * GROUP_ROW_BYTES
    }
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
        let (chunks, groups) = (reader.u32()?, reader.u32()?);
        let (directory_sum, groups_sum) = (reader.u32()?, reader.u32()?);
        let footer = Footer { directory_at, chunks, groups, directory_sum, groups_sum };
        Some((magic, number, footer))
    })();
    match fields {
        Some((magic, number, footer)) if magic == *FOOTER_MAGIC && number == id.get() => {
            let tail = footer.directory_bytes() as u64 + footer.groups_bytes() as u64;
            let end = u64::from(footer.directory_at) + tail + FOOTER_BYTES as u64;
            if end == len_bytes && footer.directory_at as usize >= HEADER_BYTES {
                Ok(footer)
            } else {
                Err(corrupt("its footer does not fit its length"))
            }
        }
        _ => Err(corrupt("its footer is that of another container")),
    }
}

/// The table of groups that `footer` tells of.
pub fn decode_groups(
    bytes: &[u8],
    id: ContainerId,
    footer: &Footer,
) -> Result<GroupTable, ArchiveError> {
    let corrupt = |problem: &str| {
        let at = u64::from(footer.directory_at) + footer.directory_bytes() as u64;
        ArchiveError::corrupt(id.to_string(), at, problem)
    };
    if crc32fast::hash(bytes) != footer.groups_sum {
        return Err(corrupt("its table of groups is damaged"));
    }
    let table = GroupTable::decode(bytes, footer.directory_at);
    table.ok_or_else(|| corrupt("its table of groups has no meaning"))
}

/// The directory that `footer` tells of, of a container with these groups.
pub fn decode_directory(
    bytes: &[u8],
    id: ContainerId,
    footer: &Footer,
    groups: &GroupTable,
) -> Result<Vec<DirectoryEntry>, ArchiveError> {
    let corrupt =
        |problem: &str| ArchiveError::corrupt(id.to_string(), footer.directory_at.into(), problem);
    if crc32fast::hash(bytes) != footer.directory_sum {
        return Err(corrupt("its directory is damaged"));
    }
    let mut reader = Reader::new(bytes);
    let mut entries = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    let mut offset = 0;
    for _ in 0..footer.chunks {
        let entry = (|| {
            let (name, len) = (ChunkName(reader.array()?), reader.u32()?);
            // Also says that it ends within the content.
            groups.find(offset, len)?;
            Some(DirectoryEntry { name, offset, len })
        })();
        let entry = entry.ok_or_else(|| corrupt("an entry of its directory has no meaning"))?;
        offset += entry.len;
        entries.push(entry);
    }
    if offset != groups.content_bytes() {
        return Err(corrupt("its chunks and its groups differ"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use onefold_content::Codec;

    use super::*;
    use crate::forged::with_checksum;

    #[test]
    fn directories_come_back_and_damage_is_noticed() {
        let id = ContainerId::new(5);
        let entry = |n: u8| DirectoryEntry {
            name: ChunkName([n; NAME_BYTES]),
            offset: u32::from(n) * 10,
            len: 10,
        };
        let entries: Vec<_> = (0..3).map(entry).collect();
        let mut groups = GroupTable::default();
        groups.push(20, 15, Codec::Lz4).unwrap();
        groups.push(10, 10, Codec::Raw).unwrap();
        let bytes = encode_tail(id, &entries, &groups);
        let len = u64::from(groups.end()) + bytes.len() as u64;
        let read = |bytes: &[u8]| {
            let (rest, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
            let footer = decode_footer(footer, id, len)?;
            let (directory, table) = rest.split_at(footer.directory_bytes());
            let table = decode_groups(table, id, &footer)?;
            assert_eq!(table, groups);
            decode_directory(directory, id, &footer, &table)
        };
        assert_eq!(read(&bytes).unwrap(), entries);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        assert!(decode_footer(&bytes[bytes.len() - FOOTER_BYTES..], id, len + 1).is_err());
        // Chunks of which the groups hold less, more, or one across a border.
        for (lens, problem) in
            [(&[10, 10][..], "differ"), (&[10, 10, 10, 1], "no meaning"), (&[10, 20], "no meaning")]
        {
            let at = |n: usize| lens[..n].iter().sum();
            let entries: Vec<_> = (0..lens.len())
                .map(|n| DirectoryEntry { offset: at(n), len: lens[n], ..entry(0) })
                .collect();
            let bytes = encode_tail(id, &entries, &groups);
            let len = u64::from(groups.end()) + bytes.len() as u64;
            let (rest, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
            let footer = decode_footer(footer, id, len).unwrap();
            let directory = &rest[..footer.directory_bytes()];
            let error = decode_directory(directory, id, &footer, &groups).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        let header = encode_header(id, &[1; 16], &GroupTable::default());
        assert_eq!(header.len(), HEADER_BYTES);
        check_header(&header, id, &[1; 16]).unwrap();
        assert!(check_header(&header, ContainerId::new(6), &[1; 16]).is_err());
        assert!(check_header(&header, id, &[2; 16]).is_err());
    }

    #[test]
    fn older_builds_refuse_a_container_with_a_large_group() {
        let id = ContainerId::new(5);
        for (len, version) in [(262_144, 4), (262_145, 5)] {
            let mut groups = GroupTable::default();
            groups.push(100, 50, Codec::Lz4).unwrap();
            groups.push(len, 50, Codec::Lz4).unwrap();
            let header = encode_header(id, &[1; 16], &groups);
            assert_eq!(header[8..12], u32::to_le_bytes(version));
            check_header(&header, id, &[1; 16]).unwrap();
            let mut newer = Writer(header[..36].to_vec());
            newer.0[8] = 6;
            checksum(&mut newer);
            let error = check_header(&newer.0, id, &[1; 16]).unwrap_err().to_string();
            assert!(
                error.contains("format version 6; this onefold reads up to version 5"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_container_is_named_with_its_place() {
        let id = ContainerId::new(5);
        let header = encode_header(id, &[1; 16], &GroupTable::default());
        assert_eq!(header[..16], *b"OFCHUNKS\x04\0\0\0\x05\0\0\0");
        assert_eq!(header[16..36], [[1; 16].as_slice(), &[0; 4]].concat());
        let said = |bytes: &[u8]| check_header(bytes, id, &[1; 16]).unwrap_err().to_string();
        assert_eq!(said(&header[1..]), "corrupt container 5 at byte 0: its header is damaged");
        let other = with_checksum(header.clone(), |bytes| bytes[0] = b'o');
        let expected = "it does not begin like a container of an archive";
        assert_eq!(said(&other), format!("corrupt container 5 at byte 0: {expected}"));
        let short = with_checksum(header.clone(), |bytes| bytes.truncate(10));
        let expected = "corrupt container 5 at byte 0: its header ends too early";
        assert_eq!(said(&short), expected);
        let newer = with_checksum(header.clone(), |bytes| bytes[8] = 9);
        let expected = "container 5 has format version 9; this onefold reads up to version 5";
        assert_eq!(said(&newer), expected);
        let older = with_checksum(header.clone(), |bytes| bytes[8] = 3);
        assert!(said(&older).starts_with("container 5 has format version 3, which is not read"));
        let expected = "it was written as another container, or by another archive";
        for at in [12, 16] {
            let other = with_checksum(header.clone(), |bytes| bytes[at] ^= 1);
            assert_eq!(said(&other), format!("corrupt container 5 at byte 0: {expected}"));
        }

        let mut groups = GroupTable::default();
        groups.push(20, 15, Codec::Lz4).unwrap();
        let entry = DirectoryEntry { name: ChunkName([3; 16]), offset: 0, len: 20 };
        let tail = encode_tail(id, &[entry], &groups);
        let len = u64::from(groups.end()) + tail.len() as u64;
        assert_eq!((groups.end(), tail.len(), len), (75, 20 + 8 + 36, 139));
        let (rest, end) = tail.split_at(28);
        let footer = decode_footer(end, id, len).unwrap();
        assert_eq!((footer.directory_at, footer.chunks, footer.groups), (75, 1, 1));
        let said = |bytes: &[u8], id: u32, len: u64| {
            decode_footer(bytes, ContainerId::new(id), len).unwrap_err().to_string()
        };
        let damaged = "its footer is damaged";
        assert_eq!(said(&end[1..], 5, 139), format!("corrupt container 5 at byte 103: {damaged}"));
        assert_eq!(said(&end[1..], 5, 9), format!("corrupt container 5 at byte 0: {damaged}"));
        let other = "its footer is that of another container";
        assert_eq!(said(end, 6, 139), format!("corrupt container 6 at byte 103: {other}"));
        let magic = with_checksum(end.to_vec(), |bytes| bytes[0] ^= 1);
        assert_eq!(said(&magic, 5, 139), format!("corrupt container 5 at byte 103: {other}"));
        let length = "its footer does not fit its length";
        assert_eq!(said(end, 5, 140), format!("corrupt container 5 at byte 104: {length}"));
        // One without anything is whole; one whose directory begins within its header is not.
        let none = encode_tail(id, &[], &GroupTable::default());
        assert_eq!(decode_footer(&none, id, 76).unwrap().directory_at, 40);
        let early = with_checksum(none, |bytes| bytes[12] = 39);
        assert_eq!(said(&early, 5, 75), format!("corrupt container 5 at byte 39: {length}"));

        let said = |bytes: &[u8]| decode_groups(bytes, id, &footer).unwrap_err().to_string();
        let damaged = "its table of groups is damaged";
        assert_eq!(said(&rest[21..]), format!("corrupt container 5 at byte 95: {damaged}"));
        let elsewhere = Footer { directory_at: 76, ..footer };
        let error = decode_groups(&rest[20..], id, &elsewhere).unwrap_err().to_string();
        let expected = "corrupt container 5 at byte 96: its table of groups has no meaning";
        assert_eq!(error, expected);
        let error = decode_directory(&rest[1..20], id, &footer, &groups).unwrap_err().to_string();
        assert_eq!(error, "corrupt container 5 at byte 75: its directory is damaged");
    }
}
