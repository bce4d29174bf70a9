//! A record of the version log: a version was added, or removed. 512 bytes, one disk sector.
//! Room: onefold-archive.

use super::bytes::{checked, checksum};
use onefold_block::bytes::{Reader, Writer};

/// The two copies of the log.
pub const LOG_FILES: [&str; 2] = ["log.0", "log.1"];
/// Length of a record in bytes: a power cut tears between sectors, never inside one.
pub const RECORD_BYTES: usize = 512;
/// Longest label in bytes.
pub const LABEL_BYTES_MAX: usize = 200;

const MAGIC: &[u8; 4] = b"OFLG";

/// What adding a version took, in bytes and chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddTotals {
    /// Paths in the version.
    pub entries: u64,
    /// Files among them, hard links not counted.
    pub files: u64,
    /// Bytes of all files, hard links not counted.
    pub logical_bytes: u64,
    /// Chunks of all files.
    pub chunks: u64,
    /// Bytes of the chunks that were stored, before compression.
    pub new_bytes: u64,
    /// The same after compression.
    pub stored_bytes: u64,
    /// Bytes among `new_bytes` that were stored before, and again for faster restores.
    pub rewritten_bytes: u64,
}

/// What is known of a version without opening it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionInfo {
    /// Its number; never given out twice.
    pub number: u32,
    /// How many times its file was written again, because its chunks moved.
    pub generation: u32,
    /// When it was added, in seconds since 1970, as the caller said.
    pub time_s: i64,
    /// A name for people; may be empty.
    pub label: String,
    /// What it took.
    pub totals: AddTotals,
    /// Length of its file in bytes.
    pub file_bytes: u64,
    /// CRC-32 that the file's footer must end with.
    pub footer_checksum: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A version was added; or, if the log has it, its file was written again.
    Added(VersionInfo),
    /// The version of that number was removed.
    Removed(u32),
    /// The log begins here, because what was before is lost; the next version gets this number
    /// or a higher one.
    Rebuilt(u32),
}

impl VersionInfo {
    /// What a version's own file says of it as well.
    pub(super) fn encode_facts(&self, out: &mut Writer) {
        out.bytes(&self.time_s.to_le_bytes());
        let AddTotals { entries, files, logical_bytes, chunks, .. } = self.totals;
        let AddTotals { new_bytes, stored_bytes, rewritten_bytes, .. } = self.totals;
        for field in [entries, files, logical_bytes, chunks] {
            out.u64(field);
        }
        for field in [new_bytes, stored_bytes, rewritten_bytes] {
            out.u64(field);
        }
        assert!(self.label.len() <= LABEL_BYTES_MAX, "labels are checked when given");
        out.sized(self.label.as_bytes());
    }

    /// The same read back; the file's own fields are left empty.
    pub(super) fn decode_facts(number: u32, reader: &mut Reader<'_>) -> Option<Self> {
        let time_s = i64::from_le_bytes(reader.array()?);
        let totals = AddTotals {
            entries: reader.u64()?,
            files: reader.u64()?,
            logical_bytes: reader.u64()?,
            chunks: reader.u64()?,
            new_bytes: reader.u64()?,
            stored_bytes: reader.u64()?,
            rewritten_bytes: reader.u64()?,
        };
        let label = reader.text().filter(|label| label.len() <= LABEL_BYTES_MAX)?;
        Some(Self { number, time_s, label, totals, ..Self::default() })
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its place in the log, from 0.
    pub sequence: u32,
    /// The number that the next new container gets.
    pub next_container: u32,
    /// What happened.
    pub event: LogEvent,
}

/// The record's bytes.
pub fn encode(record: &LogRecord, uuid: &[u8; 16]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.bytes(uuid);
    out.u32(record.sequence);
    out.u32(record.next_container);
    match &record.event {
        LogEvent::Removed(number) => {
            out.u8(2);
            out.u32(*number);
        }
        LogEvent::Added(info) => {
            out.u8(1);
            out.u32(info.number);
            out.u32(info.generation);
            out.u64(info.file_bytes);
            out.u32(info.footer_checksum);
            info.encode_facts(&mut out);
        }
        LogEvent::Rebuilt(next_version) => {
            out.u8(3);
            out.u32(*next_version);
        }
    }
    assert!(out.0.len() <= RECORD_BYTES - 4, "the longest record fits");
    out.0.resize(RECORD_BYTES - 4, 0);
    checksum(&mut out);
    out.0
}

/// The record in a slot; `None` if there is none, or it is damaged or another archive's.
pub fn decode(bytes: &[u8], sequence: u32, uuid: &[u8; 16]) -> Option<LogRecord> {
    let mut reader = checked(bytes)?;
    if reader.array()? != *MAGIC || reader.array()? != *uuid || reader.u32()? != sequence {
        return None;
    }
    let next_container = reader.u32()?;
    let event = match reader.u8()? {
        1 => {
            let (number, generation) = (reader.u32()?, reader.u32()?);
            let (file_bytes, footer_checksum) = (reader.u64()?, reader.u32()?);
            let info = VersionInfo::decode_facts(number, &mut reader)?;
            LogEvent::Added(VersionInfo { generation, file_bytes, footer_checksum, ..info })
        }
        2 => LogEvent::Removed(reader.u32()?),
        3 => LogEvent::Rebuilt(reader.u32()?),
        _ => return None,
    };
    Some(LogRecord { sequence, next_container, event })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_their_place_only() {
        let totals = AddTotals { entries: 1, files: 2, logical_bytes: u64::MAX, ..<_>::default() };
        let info = VersionInfo {
            number: 3,
            generation: 2,
            time_s: -1,
            label: "x".repeat(LABEL_BYTES_MAX),
            totals,
            file_bytes: 10,
            footer_checksum: 11,
        };
        for event in [LogEvent::Added(info), LogEvent::Removed(9), LogEvent::Rebuilt(8)] {
            let record = LogRecord { sequence: 4, next_container: 5, event };
            let bytes = encode(&record, &[1; 16]);
            assert_eq!(bytes.len(), RECORD_BYTES);
            let used =
                if matches!(record.event, LogEvent::Added(_)) { RECORD_BYTES - 4 } else { 37 };
            assert!(bytes[used..RECORD_BYTES - 4].iter().all(|&byte| byte == 0), "padded");
            assert_eq!(decode(&bytes, 4, &[1; 16]), Some(record));
            assert_eq!(decode(&bytes, 5, &[1; 16]), None);
            assert_eq!(decode(&bytes, 4, &[2; 16]), None);
            for at in 0..RECORD_BYTES {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x80;
                assert_eq!(decode(&damaged, 4, &[1; 16]), None, "byte {at}");
            }
        }
    }
}
