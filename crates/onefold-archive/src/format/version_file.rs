//! A version's file: header, references and entries as they came, then the table of entries, the
//! containers referred to, what the log says of the version, and the footer.
//! Room: onefold-archive.
//! The header holds the archive's settings, and the tail what a log record holds: an archive that
//! lost its settings or its log is put together again from its versions.

use onefold_block::ContainerId;

use super::bytes::{checked, checksum};
use super::log_record::VersionInfo;
use super::settings_file::{self, SETTINGS_BYTES};
use super::{FORMAT_VERSION, check_version};
use crate::error::ArchiveError;
use crate::settings::{ArchiveIdentity, ArchiveSettings};
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the first reference.
pub const HEADER_BYTES: usize = 24 + SETTINGS_BYTES;
/// Bytes of the table for each entry.
pub const ROW_BYTES: usize = 12;
/// Bytes for each container referred to.
pub const USE_BYTES: usize = 8;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 60;

const MAGIC: &[u8; 8] = b"OFVERSIO";
const FOOTER_MAGIC: &[u8; 8] = b"OFENTRIE";

/// Where an entry is: first byte and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First byte of the entry.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// How much of a container a version refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerUse {
    /// The container.
    pub id: ContainerId,
    /// Bytes of the chunks referred to, repeated references counted again; at most 4 GiB.
    pub bytes: u32,
}

/// The name of a version's file.
pub fn file_name(number: u32, generation: u32) -> String {
    match generation {
        0 => format!("{number:08x}.version"),
        _ => format!("{number:08x}-{generation:x}.version"),
    }
}

/// Number and generation in the name of a version's file.
pub fn parse_name(name: &str) -> Option<(u32, u32)> {
    let stem = name.strip_suffix(".version")?;
    let (number, generation) = stem.split_once('-').unwrap_or((stem, "0"));
    let hex = |digits| u32::from_str_radix(digits, 16).ok();
    let (number, generation) = (hex(number)?, hex(generation)?);
    (file_name(number, generation) == name).then_some((number, generation))
}

/// What a version's file begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version.
    pub number: u32,
    /// How many times its file was written again.
    pub generation: u32,
    /// The settings of its archive.
    pub settings: ArchiveSettings,
    /// Its archive.
    pub identity: ArchiveIdentity,
}

/// The bytes that a version's file begins with.
pub fn encode_header(header: &Header) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(FORMAT_VERSION);
    out.u32(header.number);
    out.u32(header.generation);
    out.bytes(&settings_file::encode(&header.settings, &header.identity));
    checksum(&mut out);
    out.0
}

/// What the bytes say that the file `what` begins with.
pub fn decode_header(bytes: &[u8], what: &str) -> Result<Header, ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(what, 0, problem);
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its header is damaged"))?;
    if reader.array() != Some(*MAGIC) {
        return Err(corrupt("it does not begin like a version"));
    }
    let early = || corrupt("its header ends too early");
    check_version(what, reader.u32().ok_or_else(early)?)?;
    let fields = (|| Some((reader.u32()?, reader.u32()?, reader.bytes(SETTINGS_BYTES)?)))();
    let (number, generation, block) = fields.ok_or_else(early)?;
    let (settings, identity) = settings_file::decode(block, what)?;
    Ok(Header { number, generation, settings, identity })
}

/// Check the bytes that the file `what` begins with, which is a version of this archive.
pub fn check_header(
    bytes: &[u8],
    what: &str,
    number: u32,
    generation: u32,
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    let header = decode_header(bytes, what)?;
    if (header.number, header.generation) != (number, generation) || header.identity.uuid != *uuid {
        let problem = "it was written as another version, or by another archive";
        return Err(ArchiveError::corrupt(what, 0, problem));
    }
    Ok(())
}

/// What the log keeps of a footer, to tell it from any other: the checksum that it ends with. That
/// of all its bytes, this one among them, is [`ANY_FOOTER`] whatever the footer says.
pub fn footer_sum(footer: &[u8]) -> u32 {
    footer.last_chunk().copied().map(u32::from_le_bytes).unwrap_or_default()
}

/// What logs kept of each footer until 2026-11-26: it fits every one.
pub const ANY_FOOTER: u32 = 0x2144_df1c;

/// The tail of a version's file that is `body_bytes` long so far, and what the log keeps of its
/// footer. Of `info`, the fields about the file itself are not used.
pub fn encode_tail(
    info: &VersionInfo,
    next_container: u32,
    rows: &[Row],
    uses: &[ContainerUse],
    body_bytes: u64,
) -> (Vec<u8>, u32) {
    let mut out = Writer::default();
    for row in rows {
        out.u64(row.at);
        out.u32(row.len);
    }
    let rows_checksum = crc32fast::hash(&out.0);
    let uses_start = out.0.len();
    for container in uses {
        out.u32(container.id.get());
        out.u32(container.bytes);
    }
    let uses_checksum = crc32fast::hash(&out.0[uses_start..]);
    let facts_start = out.0.len();
    out.u32(next_container);
    info.encode_facts(&mut out);
    let facts = &out.0[facts_start..];
    let mut footer = Writer::default();
    footer.bytes(FOOTER_MAGIC);
    footer.u32(info.number);
    footer.u32(info.generation);
    footer.u64(body_bytes);
    footer.u64(rows.len() as u64);
    footer.u64(uses.len() as u64);
    footer.u32(facts.len() as u32);
    for checksum in [rows_checksum, uses_checksum, crc32fast::hash(facts)] {
        footer.u32(checksum);
    }
    checksum(&mut footer);
    let sum = footer_sum(&footer.0);
    out.bytes(&footer.0);
    (out.0, sum)
}

/// Where the tail's parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// First byte of the table of entries.
    pub rows_at: u64,
    /// Number of entries.
    pub rows: u64,
    /// First byte of the containers.
    pub uses_at: u64,
    /// Number of containers.
    pub uses: u64,
    /// First byte of what the log says as well.
    pub facts_at: u64,
    /// Bytes of that.
    pub facts_bytes: u32,
    rows_checksum: u32,
    uses_checksum: u32,
    facts_checksum: u32,
}

/// The footer of the file `what`, a version that is `file_bytes` long.
pub fn decode_footer(
    bytes: &[u8],
    what: &str,
    (number, generation): (u32, u32),
    file_bytes: u64,
) -> Result<Footer, ArchiveError> {
    let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
    let corrupt = |problem: &str| ArchiveError::corrupt(what, at, problem);
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its footer is damaged"))?;
    let footer = (|| {
        let whose: ([u8; 8], u32, u32) = (reader.array()?, reader.u32()?, reader.u32()?);
        if whose != (*FOOTER_MAGIC, number, generation) {
            return None;
        }
        let (rows_at, rows, uses) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let facts_bytes = reader.u32()?;
        let (rows_checksum, uses_checksum) = (reader.u32()?, reader.u32()?);
        let facts_checksum = reader.u32()?;
        let uses_at = rows.checked_mul(ROW_BYTES as u64)?.checked_add(rows_at)?;
        let facts_at = uses.checked_mul(USE_BYTES as u64)?.checked_add(uses_at)?;
        let end = facts_at.checked_add(facts_bytes.into())?;
        let fits = end == at && rows_at >= HEADER_BYTES as u64;
        fits.then_some(Footer {
            rows_at,
            rows,
            uses_at,
            uses,
            facts_at,
            facts_bytes,
            rows_checksum,
            uses_checksum,
            facts_checksum,
        })
    })();
    footer.ok_or_else(|| corrupt("its footer does not fit its length"))
}

/// The table of entries; each row lies before the table.
pub fn decode_rows(bytes: &[u8], what: &str, footer: &Footer) -> Result<Vec<Row>, ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(what, footer.rows_at, problem);
    if crc32fast::hash(bytes) != footer.rows_checksum {
        return Err(corrupt("its table of entries is damaged"));
    }
    let mut reader = Reader::new(bytes);
    let mut rows = Vec::with_capacity(bytes.len() / ROW_BYTES);
    while let (Some(at), Some(len)) = (reader.u64(), reader.u32()) {
        if at.checked_add(len.into()).is_none_or(|end| end > footer.rows_at) {
            return Err(corrupt("a row of its table of entries has no meaning"));
        }
        rows.push(Row { at, len });
    }
    Ok(rows)
}

/// The containers referred to, in ascending order.
pub fn decode_uses(
    bytes: &[u8],
    what: &str,
    footer: &Footer,
) -> Result<Vec<ContainerUse>, ArchiveError> {
    if crc32fast::hash(bytes) != footer.uses_checksum {
        let problem = "its list of containers is damaged";
        return Err(ArchiveError::corrupt(what, footer.uses_at, problem));
    }
    let mut reader = Reader::new(bytes);
    let mut uses = Vec::with_capacity(bytes.len() / USE_BYTES);
    while let (Some(id), Some(bytes)) = (reader.u32(), reader.u32()) {
        uses.push(ContainerUse { id: ContainerId::new(id), bytes });
    }
    Ok(uses)
}

/// What the log says as well: of a version whose file is `file_bytes` long and has this footer.
/// Also returns the next container's number at that time.
pub fn decode_facts(
    bytes: &[u8],
    what: &str,
    footer: &Footer,
    (number, generation): (u32, u32),
) -> Result<(VersionInfo, u32), ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(what, footer.facts_at, problem);
    if crc32fast::hash(bytes) != footer.facts_checksum {
        return Err(corrupt("what it says of the version is damaged"));
    }
    let mut reader = Reader::new(bytes);
    let next_container = reader.u32();
    let info = VersionInfo::decode_facts(number, &mut reader);
    let (info, next) = info
        .zip(next_container)
        .filter(|_| reader.remaining() == 0)
        .ok_or_else(|| corrupt("what it says of the version has no meaning"))?;
    Ok((VersionInfo { generation, ..info }, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forged::with_checksum;
    use crate::format::log_record::AddTotals;

    #[test]
    fn tails_come_back_and_damage_is_noticed() {
        let rows = [Row { at: 130, len: 10 }, Row { at: 140, len: 4 }];
        let uses = [ContainerUse { id: ContainerId::new(1), bytes: 7 }];
        let info = VersionInfo {
            number: 3,
            generation: 2,
            time_s: -4,
            label: "monday".to_owned(),
            totals: AddTotals { chunks: 9, ..AddTotals::default() },
            file_bytes: 0,
            footer_checksum: 0,
        };
        let (tail, checksum) = encode_tail(&info, 17, &rows, &uses, 150);
        let file_bytes = 150 + tail.len() as u64;
        let read = |tail: &[u8]| {
            let (body, footer) = tail.split_at(tail.len() - FOOTER_BYTES);
            let footer = decode_footer(footer, "x", (3, 2), file_bytes)?;
            let (first, second) = body.split_at((footer.uses_at - footer.rows_at) as usize);
            let (second, third) = second.split_at((footer.facts_at - footer.uses_at) as usize);
            let (info, next) = decode_facts(third, "x", &footer, (3, 2))?;
            let rows = decode_rows(first, "x", &footer)?;
            let uses = decode_uses(second, "x", &footer)?;
            Ok::<_, ArchiveError>((rows, uses, info, next))
        };
        let (body, sum) = tail[tail.len() - FOOTER_BYTES..].split_last_chunk().unwrap();
        assert_eq!((checksum, checksum.to_le_bytes()), (crc32fast::hash(body), *sum));
        assert_eq!(read(&tail).unwrap(), (rows.to_vec(), uses.to_vec(), info, 17));
        for at in 0..tail.len() {
            let mut damaged = tail.clone();
            damaged[at] ^= 2;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        for (number, generation) in [(77, 0), (77, 1), (u32::MAX, u32::MAX)] {
            let name = file_name(number, generation);
            assert_eq!(parse_name(&name), Some((number, generation)), "{name}");
        }
        for strange in ["0000004D.version", "0000004d-0.version", "0000004d-01.version", "x"] {
            assert_eq!(parse_name(strange), None, "{strange}");
        }
        let header = Header {
            number: 3,
            generation: 1,
            settings: ArchiveSettings::default(),
            identity: ArchiveIdentity { uuid: [1; 16], key: [2; 32] },
        };
        let bytes = encode_header(&header);
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(decode_header(&bytes, "x").unwrap(), header);
        check_header(&bytes, "x", 3, 1, &[1; 16]).unwrap();
        for (number, generation, uuid) in [(4, 1, 1), (3, 0, 1), (3, 1, 2)] {
            assert!(check_header(&bytes, "x", number, generation, &[uuid; 16]).is_err());
        }
    }

    #[test]
    fn what_is_wrong_with_a_version_is_named_with_its_place() {
        let header = Header {
            number: 3,
            generation: 1,
            settings: ArchiveSettings::default(),
            identity: ArchiveIdentity { uuid: [1; 16], key: [2; 32] },
        };
        let bytes = encode_header(&header);
        assert_eq!(bytes[..20], *b"OFVERSIO\x04\0\0\0\x03\0\0\0\x01\0\0\0");
        let said = |bytes: &[u8]| decode_header(bytes, "x").unwrap_err().to_string();
        assert_eq!(said(&bytes[1..]), "corrupt x at byte 0: its header is damaged");
        let other = with_checksum(bytes.clone(), |bytes| bytes[7] ^= 1);
        assert_eq!(said(&other), "corrupt x at byte 0: it does not begin like a version");
        for len in [8, 11, 12, 20, 105] {
            let short = with_checksum(bytes.clone(), |bytes| bytes.truncate(len));
            assert_eq!(said(&short), "corrupt x at byte 0: its header ends too early", "{len}");
        }
        let newer = with_checksum(bytes.clone(), |bytes| bytes[8] = 5);
        let expected = "x has format version 5; this onefold reads up to version 4";
        assert_eq!(said(&newer), expected);
        let error = check_header(&bytes, "x", 4, 1, &[1; 16]).unwrap_err().to_string();
        let expected = "it was written as another version, or by another archive";
        assert_eq!(error, format!("corrupt x at byte 0: {expected}"));

        let rows = [Row { at: 110, len: 30 }];
        let uses = [ContainerUse { id: ContainerId::new(1), bytes: 7 }];
        let info = VersionInfo {
            number: 3,
            generation: 1,
            time_s: 0,
            label: String::new(),
            totals: AddTotals::default(),
            file_bytes: 0,
            footer_checksum: 0,
        };
        let (tail, sum) = encode_tail(&info, 17, &rows, &uses, 140);
        let len = 140 + tail.len() as u64;
        assert_eq!(len, 140 + 12 + 8 + 4 + 68 + 60);
        let (rest, end) = tail.split_at(tail.len() - FOOTER_BYTES);
        assert_eq!(sum.to_le_bytes(), end[56..]);
        let footer = decode_footer(end, "x", (3, 1), len).unwrap();
        let places = (footer.rows_at, footer.uses_at, footer.facts_at, footer.facts_bytes);
        assert_eq!(places, (140, 152, 160, 72));
        let said = |bytes: &[u8], whose: (u32, u32), len: u64| {
            decode_footer(bytes, "x", whose, len).unwrap_err().to_string()
        };
        assert_eq!(said(&end[1..], (3, 1), len), "corrupt x at byte 232: its footer is damaged");
        assert_eq!(said(&end[1..], (3, 1), 5), "corrupt x at byte 0: its footer is damaged");
        let length = "its footer does not fit its length";
        for (whose, len) in [((4, 1), 292), ((3, 2), 292), ((3, 1), 293), ((3, 1), 291)] {
            let expected = format!("corrupt x at byte {}: {length}", len - 60);
            assert_eq!(said(end, whose, len), expected);
        }
        // A table that begins behind the header, and one that begins within it.
        let (tail, _) = encode_tail(&info, 17, &[], &[], 110);
        let end = &tail[tail.len() - FOOTER_BYTES..];
        assert!(decode_footer(end, "x", (3, 1), 110 + tail.len() as u64).is_ok());
        let early = with_checksum(end.to_vec(), |bytes| bytes[16] = 109);
        let expected = format!("corrupt x at byte 181: {length}");
        assert_eq!(said(&early, (3, 1), 109 + tail.len() as u64), expected);
        // Numbers that no file has.
        for at in [24, 32] {
            let huge = with_checksum(end.to_vec(), |bytes| bytes[at..at + 8].fill(0xff));
            assert!(said(&huge, (3, 1), 292).contains(length));
        }

        let error = decode_rows(&rest[1..12], "x", &footer).unwrap_err().to_string();
        assert_eq!(error, "corrupt x at byte 140: its table of entries is damaged");
        let error = decode_uses(&rest[13..20], "x", &footer).unwrap_err().to_string();
        assert_eq!(error, "corrupt x at byte 152: its list of containers is damaged");
        let error = decode_facts(&rest[21..], "x", &footer, (3, 1)).unwrap_err().to_string();
        assert_eq!(error, "corrupt x at byte 160: what it says of the version is damaged");
        let mut long = rest[20..].to_vec();
        long.push(0);
        let facts_checksum = crc32fast::hash(&long);
        let more = Footer { facts_checksum, ..footer };
        let error = decode_facts(&long, "x", &more, (3, 1)).unwrap_err().to_string();
        let expected = "corrupt x at byte 160: what it says of the version has no meaning";
        assert_eq!(error, expected);
        // Entries lie before the table, up to its first byte.
        for (at, len, fits) in [(130, 10, true), (130, 11, false), (u64::MAX, 1, false)] {
            let (tail, _) = encode_tail(&info, 17, &[Row { at, len }], &[], 140);
            let end = &tail[tail.len() - FOOTER_BYTES..];
            let footer = decode_footer(end, "x", (3, 1), 140 + tail.len() as u64).unwrap();
            match decode_rows(&tail[..12], "x", &footer) {
                Ok(rows) => assert_eq!((rows, fits), (vec![Row { at, len }], true)),
                Err(error) => {
                    let expected = "a row of its table of entries has no meaning";
                    assert_eq!(error.to_string(), format!("corrupt x at byte 140: {expected}"));
                    assert!(!fits);
                }
            }
        }
    }
}
