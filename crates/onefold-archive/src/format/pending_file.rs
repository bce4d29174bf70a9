//! `pending`: somebody is writing what the log does not tell of yet. It is durable before the
//! first container or version's file of the work is there, and goes after the log tells of them.
//! Room: onefold-archive.
//! So containers and versions' files that neither the log nor this file explains mean that the log
//! lost its end.

use super::bytes::{checked, checksum};
use onefold_block::bytes::Writer;

/// Its name.
pub const PENDING_FILE: &str = "pending";
/// Its length in bytes.
pub const PENDING_BYTES: usize = 44;

const MAGIC: &[u8; 8] = b"OFPENDIN";

/// Work under way, or cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Records in the log when it began.
    pub sequence: u32,
    /// Records that it is going to write.
    pub records: u32,
    /// The first number that its new version may have.
    pub version: u32,
    /// The first number that its containers may have.
    pub container: u32,
}

impl Pending {
    /// Whether it explains what is there when the log has that many records.
    pub const fn is_under_way(&self, log_records: u32) -> bool {
        self.sequence <= log_records && log_records < self.sequence.saturating_add(self.records)
    }
}

/// The file's bytes.
pub fn encode(pending: &Pending, uuid: &[u8; 16]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.bytes(uuid);
    for field in [pending.sequence, pending.records, pending.version, pending.container] {
        out.u32(field);
    }
    checksum(&mut out);
    out.0
}

/// What the file's bytes say; `None` if it was torn or is damaged, or is another archive's.
pub fn decode(bytes: &[u8], uuid: &[u8; 16]) -> Option<Pending> {
    let mut reader = checked(bytes)?;
    if reader.array()? != *MAGIC || reader.array()? != *uuid {
        return None;
    }
    let (sequence, records) = (reader.u32()?, reader.u32()?);
    let (version, container) = (reader.u32()?, reader.u32()?);
    Some(Pending { sequence, records, version, container })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_under_way_comes_back_and_damage_is_noticed() {
        let pending = Pending { sequence: 4, records: 2, version: 3, container: 9 };
        let bytes = encode(&pending, &[7; 16]);
        assert_eq!(bytes.len(), PENDING_BYTES);
        assert_eq!(decode(&bytes, &[7; 16]), Some(pending));
        assert_eq!(decode(&bytes, &[8; 16]), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, &[7; 16]), None, "byte {at}");
        }
        assert_eq!([3, 4, 5, 6].map(|n| pending.is_under_way(n)), [false, true, true, false]);
    }
}
