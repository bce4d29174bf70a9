//! A version's file: header, references and entries as they came, then the table of entries, the
//! containers referred to, and the footer.
//! Room: onefold-archive.

use onefold_block::ContainerId;

use super::FORMAT_VERSION;
use super::bytes::{checked, checksum};
use crate::error::ArchiveError;
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the first reference.
pub const HEADER_BYTES: usize = 36;
/// Bytes of the table for each entry.
pub const ROW_BYTES: usize = 12;
/// Bytes for each container referred to.
pub const USE_BYTES: usize = 8;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 56;

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
    /// Stored bytes referred to, repeated references counted again, at most the container's size.
    pub bytes: u32,
}

/// The name of a version's file.
pub fn file_name(number: u32) -> String {
    format!("{number:08x}.version")
}

/// The number in the name of a version's file.
pub fn parse_name(name: &str) -> Option<u32> {
    let number = u32::from_str_radix(name.strip_suffix(".version")?, 16).ok()?;
    (file_name(number) == name).then_some(number)
}

/// The bytes that a version's file begins with.
pub fn encode_header(number: u32, uuid: &[u8; 16]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(FORMAT_VERSION);
    out.u32(number);
    out.bytes(uuid);
    checksum(&mut out);
    out.0
}

/// Check the bytes that the file `what` of version `number` begins with.
pub fn check_header(
    bytes: &[u8],
    what: &str,
    number: u32,
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(what, 0, problem);
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its header is damaged"))?;
    if reader.array() != Some(*MAGIC) {
        return Err(corrupt("it does not begin like a version"));
    }
    match reader.u32() {
        Some(found) if found > FORMAT_VERSION => {
            let what = what.to_owned();
            return Err(ArchiveError::NewerFormat { what, found, supported: FORMAT_VERSION });
        }
        _ => {}
    }
    if reader.u32() != Some(number) || reader.array() != Some(*uuid) {
        return Err(corrupt("it was written as another version, or by another archive"));
    }
    Ok(())
}

/// The tail of a version's file that is `body_bytes` long so far, and the checksum that the log
/// keeps of it.
pub fn encode_tail(
    number: u32,
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
    let mut footer = Writer::default();
    footer.bytes(FOOTER_MAGIC);
    footer.u32(number);
    footer.u64(body_bytes);
    footer.u64(rows.len() as u64);
    footer.u64(uses.len() as u64);
    footer.u32(rows_checksum);
    footer.u32(uses_checksum);
    // For fields to come.
    footer.u64(0);
    checksum(&mut footer);
    let checksum = crc32fast::hash(&footer.0);
    out.bytes(&footer.0);
    (out.0, checksum)
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
    rows_checksum: u32,
    uses_checksum: u32,
}

/// The footer of the file `what`, which the log says is `file_bytes` long and has `checksum`.
pub fn decode_footer(
    bytes: &[u8],
    what: &str,
    number: u32,
    file_bytes: u64,
    checksum: u32,
) -> Result<Footer, ArchiveError> {
    let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
    let corrupt = |problem: &str| ArchiveError::corrupt(what, at, problem);
    if crc32fast::hash(bytes) != checksum {
        return Err(corrupt("its footer is not the one that the log tells of"));
    }
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its footer is damaged"))?;
    let footer = (|| {
        if reader.array()? != *FOOTER_MAGIC || reader.u32()? != number {
            return None;
        }
        let (rows_at, rows, uses) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (rows_checksum, uses_checksum) = (reader.u32()?, reader.u32()?);
        let uses_at = rows.checked_mul(ROW_BYTES as u64)?.checked_add(rows_at)?;
        let end = uses.checked_mul(USE_BYTES as u64)?.checked_add(uses_at)?;
        let fits = end == at && rows_at >= HEADER_BYTES as u64;
        fits.then_some(Footer { rows_at, rows, uses_at, uses, rows_checksum, uses_checksum })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_come_back_and_damage_is_noticed() {
        let rows = [Row { at: 36, len: 10 }, Row { at: 46, len: 4 }];
        let uses = [ContainerUse { id: ContainerId::new(1), bytes: 7 }];
        let (tail, checksum) = encode_tail(3, &rows, &uses, 50);
        let file_bytes = 50 + tail.len() as u64;
        let read = |tail: &[u8]| {
            let (body, footer) = tail.split_at(tail.len() - FOOTER_BYTES);
            let footer = decode_footer(footer, "x", 3, file_bytes, checksum)?;
            let (first, second) = body.split_at((footer.uses_at - footer.rows_at) as usize);
            Ok::<_, ArchiveError>((
                decode_rows(first, "x", &footer)?,
                decode_uses(second, "x", &footer)?,
            ))
        };
        assert_eq!(read(&tail).unwrap(), (rows.to_vec(), uses.to_vec()));
        for at in 0..tail.len() {
            let mut damaged = tail.clone();
            damaged[at] ^= 2;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(parse_name(&file_name(77)), Some(77));
        assert_eq!(parse_name("0000004D.version"), None);
        let header = encode_header(3, &[1; 16]);
        assert_eq!(header.len(), HEADER_BYTES);
        check_header(&header, "x", 3, &[1; 16]).unwrap();
        assert!(check_header(&header, "x", 4, &[1; 16]).is_err());
    }
}
