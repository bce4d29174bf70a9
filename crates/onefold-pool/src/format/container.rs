//! A container's header, directory and footer.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Container".
//!
//! Header, at byte 0:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `OFCT` |
//! | 4 | 4 | format version |
//! | 8 | 4 | container number |
//! | 12 | 16 | the pool's UUID |
//! | 28 | 8 | epoch of the journal when it was made |
//! | 36 | 8 | zero |
//! | 44 | 4 | CRC-32 of bytes 0..44 |
//!
//! Directory entry, one per record, in order:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 24 | fingerprint, its first 24 bytes |
//! | 24 | 4 | location |
//! | 28 | 4 | owner: number of the volume that the record was first written for; 0: not known |
//! | 32 | 8 | owner: the block of that volume |
//! | 40 | 4 | CRC-32 of bytes 0..40, xor the container number |
//!
//! Footer, the last bytes of the file:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `OFCF` |
//! | 4 | 4 | format version |
//! | 8 | 4 | container number |
//! | 12 | 4 | number of records |
//! | 16 | 4 | byte at which the directory begins |
//! | 20 | 4 | CRC-32 of the entries without their own (until 2026-11-26, with them) |
//! | 24 | 4 | zero |
//! | 28 | 4 | CRC-32 of bytes 0..28 |

use onefold_block::{ContainerId, Lba};
use onefold_content::Fingerprint;

use super::{FORMAT_VERSION, SEQUENCE_MAX, check_version};
use crate::error::PoolError;
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, CONTAINER_BYTES_MAX, Location, UNIT_BYTES};
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 48;
/// Bytes of one directory entry.
pub const ENTRY_BYTES: usize = 44;
/// Bytes after the directory.
pub const FOOTER_BYTES: usize = 32;

const HEADER_MAGIC: &[u8; 4] = b"OFCT";
const FOOTER_MAGIC: &[u8; 4] = b"OFCF";

const _: () = assert!(HEADER_BYTES.is_multiple_of(UNIT_BYTES));

/// Bytes of a fingerprint that are kept: two different chunks agree in them by chance once in 2^96.
pub const FINGERPRINT_BYTES: usize = 24;

/// A fingerprint as directories hold it: what lies past the bytes that are kept is zero.
#[must_use]
pub fn kept(fingerprint: &Fingerprint) -> Fingerprint {
    let mut bytes = *fingerprint.as_bytes();
    bytes[FINGERPRINT_BYTES..].fill(0);
    Fingerprint::from_bytes(bytes)
}

/// Which block a record was first written for. Only a hint: the block may hold something else by
/// now, other blocks may share the record, and the volume may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The volume's number; 0 where the owner is not known.
    pub volume: u32,
    /// The block.
    pub lba: Lba,
}

impl Owner {
    /// Nobody knows, as after a crash before the container had a directory.
    pub const UNKNOWN: Self = Self { volume: 0, lba: Lba::new(0) };
}

/// One chunk of a container: what it is, where, and for which block it was first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The chunk's fingerprint, as [`kept`].
    pub fingerprint: Fingerprint,
    /// Its record.
    pub location: Location,
    /// Whose it was first.
    pub owner: Owner,
}

/// The header's bytes.
pub fn encode_header(id: ContainerId, uuid: &[u8; 16], epoch: u64) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(HEADER_MAGIC);
    writer.u32(FORMAT_VERSION);
    writer.u32(id.get());
    writer.bytes(uuid);
    writer.u64(epoch);
    writer.u64(0);
    let check = crc32fast::hash(&writer.0);
    writer.u32(check);
    writer.0
}

/// Verify a header. Returns the epoch of the journal when the container was made: that epoch's
/// first frame was durable by then.
pub fn check_header(bytes: &[u8], id: ContainerId, uuid: &[u8; 16]) -> Result<u64, PoolError> {
    let corrupt =
        |offset, problem: String| Err(PoolError::corrupt(id.to_string(), offset, problem));
    let mut reader = Reader::new(bytes);
    let fields = (|| {
        let magic = reader.array::<4>()?;
        let (version, number, uuid) = (reader.u32()?, reader.u32()?, reader.array::<16>()?);
        let (epoch, _) = (reader.u64()?, reader.u64()?);
        Some((magic, version, number, uuid, epoch, reader.u32()?))
    })();
    let Some((magic, version, number, found_uuid, epoch, check)) = fields else {
        return corrupt(0, format!("a header of {HEADER_BYTES} bytes was expected"));
    };
    if &magic != HEADER_MAGIC {
        return corrupt(0, format!("magic is {magic:02x?}, but {HEADER_MAGIC:02x?} was expected"));
    }
    let expected = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    if check != expected {
        return corrupt(
            HEADER_BYTES as u64 - 4,
            format!("header checksum is {check:08x}, not {expected:08x}"),
        );
    }
    check_version(&id.to_string(), version)?;
    if number != id.get() {
        return corrupt(8, format!("the header says container {number}"));
    }
    if &found_uuid != uuid {
        return corrupt(12, "the container belongs to another pool".to_owned());
    }
    if epoch > SEQUENCE_MAX {
        return corrupt(28, format!("no pool comes to checkpoint {epoch}"));
    }
    Ok(epoch)
}

/// Bytes that `count` entries and the footer take.
pub const fn directory_bytes(count: usize) -> usize {
    count * ENTRY_BYTES + FOOTER_BYTES
}

/// The checksum of a directory. It leaves out the checksums of the entries: that of bytes which end
/// with their own is the same whatever the bytes are.
fn directory_sum(directory: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for entry in directory.chunks(ENTRY_BYTES) {
        sum.update(&entry[..entry.len().min(ENTRY_BYTES - 4)]);
    }
    sum.finalize()
}

/// Directory and footer of a container whose records end at `directory_at`.
pub fn encode_directory(
    id: ContainerId,
    entries: &[DirectoryEntry],
    directory_at: usize,
) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(directory_bytes(entries.len())));
    for entry in entries {
        let start = writer.0.len();
        writer.bytes(&entry.fingerprint.as_bytes()[..FINGERPRINT_BYTES]);
        writer.u32(entry.location.raw());
        writer.u32(entry.owner.volume);
        writer.u64(entry.owner.lba.get());
        let check = crc32fast::hash(&writer.0[start..]) ^ id.get();
        writer.u32(check);
    }
    let directory_check = directory_sum(&writer.0);
    let start = writer.0.len();
    writer.bytes(FOOTER_MAGIC);
    writer.u32(FORMAT_VERSION);
    writer.u32(id.get());
    writer.u32(entries.len() as u32);
    writer.u32(directory_at as u32);
    writer.u32(directory_check);
    writer.u32(0);
    let check = crc32fast::hash(&writer.0[start..]);
    writer.u32(check);
    writer.0
}

/// What a footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Number of records.
    pub count: usize,
    /// Byte at which the directory begins.
    pub directory_at: usize,
    /// CRC-32 of the directory's entries without their own.
    pub directory_check: u32,
}

/// Verify and read the footer of a container of `container_len` bytes.
pub fn decode_footer(
    bytes: &[u8],
    id: ContainerId,
    container_len: u64,
) -> Result<Footer, PoolError> {
    let at = container_len.saturating_sub(FOOTER_BYTES as u64);
    let corrupt = |problem: String| Err(PoolError::corrupt(id.to_string(), at, problem));
    let mut reader = Reader::new(bytes);
    let fields = (|| {
        let magic = reader.array::<4>()?;
        let (version, number, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (directory_at, directory_check) = (reader.u32()?, reader.u32()?);
        Some((
            magic,
            version,
            number,
            count,
            directory_at,
            directory_check,
            reader.u32()?,
            reader.u32()?,
        ))
    })();
    let Some((magic, version, number, count, directory_at, directory_check, _, check)) = fields
    else {
        return corrupt(format!("a footer of {FOOTER_BYTES} bytes was expected"));
    };
    if &magic != FOOTER_MAGIC {
        return corrupt(format!("magic is {magic:02x?}, but {FOOTER_MAGIC:02x?} was expected"));
    }
    let expected = crc32fast::hash(&bytes[..FOOTER_BYTES - 4]);
    if check != expected {
        return corrupt(format!("footer checksum is {check:08x}, not {expected:08x}"));
    }
    check_version(&id.to_string(), version)?;
    if number != id.get() {
        return corrupt(format!("the footer says container {number}"));
    }
    let (count, directory_at) = (count as usize, directory_at as usize);
    let expected = directory_at as u64 + directory_bytes(count) as u64;
    if count > CHUNKS_PER_CONTAINER_MAX || expected != container_len {
        return corrupt(format!(
            "{count} records and a directory at byte {directory_at} make {expected} bytes, \
             but the container has {container_len}"
        ));
    }
    Ok(Footer { count, directory_at, directory_check })
}

/// Verify and read a whole directory (without its footer).
pub fn decode_directory(
    bytes: &[u8],
    id: ContainerId,
    footer: &Footer,
) -> Result<Vec<DirectoryEntry>, PoolError> {
    let at = footer.directory_at as u64;
    let found = directory_sum(bytes);
    // What was written until 2026-11-26 fits any directory of so many records of this container.
    if ![found, crc32fast::hash(bytes)].contains(&footer.directory_check) {
        let problem =
            format!("directory checksum is {found:08x}, not {:08x}", footer.directory_check);
        return Err(PoolError::corrupt(id.to_string(), at, problem));
    }
    let entries: Option<Vec<_>> =
        bytes.chunks(ENTRY_BYTES).map(|entry| decode_entry(entry, id)).collect();
    let entries = entries.filter(|entries| entries.len() == footer.count).ok_or_else(|| {
        PoolError::corrupt(id.to_string(), at, "a directory entry fails its checksum")
    })?;
    let mut end = HEADER_BYTES;
    for (ordinal, entry) in entries.iter().enumerate() {
        // A gap is where a damaged record was when the container was sealed after a crash.
        if entry.location.offset_bytes() < end {
            let problem = format!(
                "record {ordinal} begins at byte {}, but the one before ends at {end}",
                entry.location.offset_bytes()
            );
            return Err(PoolError::corrupt(id.to_string(), at, problem));
        }
        end = entry.location.end_bytes();
    }
    if end != footer.directory_at || end > CONTAINER_BYTES_MAX {
        let problem = format!("records end at byte {end}, not where the directory begins");
        return Err(PoolError::corrupt(id.to_string(), at, problem));
    }
    Ok(entries)
}

/// Verify and read one directory entry by itself.
pub fn decode_entry(bytes: &[u8], id: ContainerId) -> Option<DirectoryEntry> {
    let mut reader = Reader::new(bytes);
    let mut fingerprint = [0; Fingerprint::LEN];
    fingerprint[..FINGERPRINT_BYTES].copy_from_slice(&reader.array::<FINGERPRINT_BYTES>()?);
    let fingerprint = Fingerprint::from_bytes(fingerprint);
    let location = Location::from_raw(reader.u32()?)?;
    let owner = Owner { volume: reader.u32()?, lba: Lba::new(reader.u64()?) };
    let expected = crc32fast::hash(bytes.get(..ENTRY_BYTES - 4)?) ^ id.get();
    (reader.u32()? == expected).then_some(DirectoryEntry { fingerprint, location, owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ContainerId = ContainerId::new(77);
    const UUID: [u8; 16] = [9; 16];

    fn entries() -> Vec<DirectoryEntry> {
        let mut offset = HEADER_BYTES / UNIT_BYTES;
        (0..20u8)
            .map(|n| {
                let location = Location::new(offset, usize::from(n) + 1);
                offset += usize::from(n) + 1;
                let fingerprint = kept(&Fingerprint::from_bytes([n; 32]));
                let owner = Owner { volume: u32::from(n), lba: Lba::new(u64::MAX - u64::from(n)) };
                DirectoryEntry { fingerprint, location, owner }
            })
            .collect()
    }

    fn decode(bytes: &[u8], at: usize) -> Result<Vec<DirectoryEntry>, PoolError> {
        let len = (at + bytes.len()) as u64;
        let split = bytes.len().saturating_sub(FOOTER_BYTES);
        let footer = decode_footer(&bytes[split..], ID, len)?;
        decode_directory(&bytes[..split], ID, &footer)
    }

    #[test]
    fn what_has_no_use_yet_is_zero() {
        let header = encode_header(ID, &UUID, u64::MAX);
        assert_eq!(header[36..HEADER_BYTES - 4], [0; 8]);
        let directory = encode_directory(ID, &entries(), 1 << 20);
        let footer = &directory[directory.len() - FOOTER_BYTES..];
        assert_eq!(footer[24..28], [0; 4]);
    }

    #[test]
    fn a_checkpoint_that_no_pool_comes_to_is_named_where_it_stands() {
        let said = |epoch| check_header(&encode_header(ID, &UUID, epoch), ID, &UUID);
        assert_eq!(said(SEQUENCE_MAX).unwrap(), SEQUENCE_MAX);
        let error = said(SEQUENCE_MAX + 1).unwrap_err().to_string();
        assert!(error.contains("at byte 28: no pool comes to checkpoint"), "{error}");
    }

    #[test]
    fn a_directory_comes_back_and_any_flipped_bit_is_noticed() {
        let entries = entries();
        let at = entries.last().unwrap().location.end_bytes();
        let bytes = encode_directory(ID, &entries, at);
        assert_eq!(bytes.len(), directory_bytes(entries.len()));
        assert_eq!(decode(&bytes, at).unwrap(), entries);
        assert_eq!(decode_entry(&bytes[44..88], ID), Some(entries[1]));
        assert_eq!(decode_entry(&bytes[44..88], ContainerId::new(78)), None);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, at).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn entries_that_are_right_by_themselves_do_not_pass_for_those_of_the_directory() {
        let entries = entries();
        let at = entries.last().unwrap().location.end_bytes();
        let bytes = encode_directory(ID, &entries, at);
        // As it was before some of the records were written anew.
        let mut before = entries.clone();
        before[3].fingerprint = kept(&Fingerprint::from_bytes([99; 32]));
        before[4].owner = Owner { volume: 9, lba: Lba::new(9) };
        let before = encode_directory(ID, &before, at);
        assert_eq!(decode(&before, at).unwrap().len(), entries.len());
        for entry in [3, 4] {
            let mut mixed = bytes.clone();
            let range = entry * ENTRY_BYTES..(entry + 1) * ENTRY_BYTES;
            mixed[range.clone()].copy_from_slice(&before[range.clone()]);
            assert!(decode_entry(&mixed[range], ID).is_some());
            let error = decode(&mixed, at).unwrap_err().to_string();
            assert!(error.contains("directory checksum is"), "{error}");
        }
    }

    #[test]
    fn a_directory_with_the_checksum_of_old_is_read() {
        let entries = entries();
        let at = entries.last().unwrap().location.end_bytes();
        let mut bytes = encode_directory(ID, &entries, at);
        let footer = entries.len() * ENTRY_BYTES;
        let old = crc32fast::hash(&bytes[..footer]);
        bytes[footer + 20..footer + 24].copy_from_slice(&old.to_le_bytes());
        let check = crc32fast::hash(&bytes[footer..footer + FOOTER_BYTES - 4]);
        bytes[footer + FOOTER_BYTES - 4..].copy_from_slice(&check.to_le_bytes());
        assert_eq!(decode(&bytes, at).unwrap(), entries);
    }

    #[test]
    fn a_foreign_damaged_newer_or_older_header_is_named() {
        let header = encode_header(ID, &UUID, 7);
        assert_eq!(header.len(), HEADER_BYTES);
        assert_eq!(check_header(&header, ID, &UUID).unwrap(), 7);
        assert!(check_header(&header, ContainerId::new(1), &UUID).is_err());
        assert!(check_header(&header, ID, &[8; 16]).is_err());
        assert!(check_header(&header[..HEADER_BYTES - 1], ID, &UUID).is_err());
        let mut newer = header;
        newer[4] = 3;
        let check = crc32fast::hash(&newer[..HEADER_BYTES - 4]);
        newer[HEADER_BYTES - 4..].copy_from_slice(&check.to_le_bytes());
        assert!(matches!(check_header(&newer, ID, &UUID), Err(PoolError::NewerFormat { .. })));
        newer[4] = 1;
        let check = crc32fast::hash(&newer[..HEADER_BYTES - 4]);
        newer[HEADER_BYTES - 4..].copy_from_slice(&check.to_le_bytes());
        assert!(matches!(check_header(&newer, ID, &UUID), Err(PoolError::OlderFormat { .. })));
    }
}
