//! A page of the container table.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Container table".
//!
//! A record of 16 bytes per container, at its number modulo 256 of page number / 256:
//!
//! | bits | field |
//! |---|---|
//! | 0..32 | its length in bytes; 0 while it is open |
//! | 32..48 | records in it |
//! | 48..64 | records of it that may be referred to, at most |
//! | 64..108 | map entries that point into it |
//! | 108..120 | punched: pages of 4 KiB of it that may be gone |
//! | 120..128 | kind: 0 there is no such container, 1 a container of records, 2 reserved |

use onefold_block::ContainerId;

use super::container;
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, CONTAINER_BYTES_MAX};

/// Records of a page.
pub const RECORDS_PER_PAGE: usize = ENTRIES_PER_PAGE / 2;

/// A container of records.
const KIND_CONTAINER: u64 = 1;
/// A table of where records are now. There is no writer yet; refused by name.
const KIND_FORWARDING: u64 = 2;
const KIND_BITS: u32 = 8;
const PUNCHED_BITS: u32 = 12;
const REFERENCE_BITS: u32 = 64 - KIND_BITS - PUNCHED_BITS;

/// Most map entries that can point into a container.
pub const REFERENCES_MAX: u64 = (1 << REFERENCE_BITS) - 1;
/// What is punched of a container is counted in these, and lies on multiples of it.
pub const PUNCH_BYTES: usize = 4096;

const _: () = assert!(CONTAINER_BYTES_MAX / PUNCH_BYTES < 1 << PUNCHED_BITS);

/// A page as numbers.
pub type RecordPage = [u64; ENTRIES_PER_PAGE];

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
    /// At most so many of its records are referred to.
    pub live_max: u32,
    /// So many pages of 4 KiB of it may be gone. If any, none of its records is shared any more.
    pub punched: u16,
}

/// Put a record where it belongs.
pub fn encode(record: &ContainerRecord, page: &mut RecordPage) {
    let at = record.id.get() as usize % RECORDS_PER_PAGE * 2;
    page[at] = u64::from(record.len_bytes)
        | u64::from(record.chunks) << 32
        | u64::from(record.live_max) << 48;
    page[at + 1] = record.references
        | u64::from(record.punched) << REFERENCE_BITS
        | KIND_CONTAINER << (64 - KIND_BITS);
}

/// The records of the page that begins with number `first`, all below `next_container`.
pub fn decode(
    page: &RecordPage,
    first: ContainerId,
    next_container: u32,
) -> Result<Vec<ContainerRecord>, PoolError> {
    let mut records = Vec::with_capacity(RECORDS_PER_PAGE);
    for (place, words) in page.chunks_exact(2).enumerate() {
        if words == [0, 0] {
            continue;
        }
        let id = ContainerId::new(first.get() + place as u32);
        let record = ContainerRecord {
            id,
            len_bytes: words[0] as u32,
            chunks: u32::from((words[0] >> 32) as u16),
            references: words[1] & REFERENCES_MAX,
            punched: (words[1] >> REFERENCE_BITS) as u16 & ((1 << PUNCHED_BITS) - 1),
            live_max: u32::from((words[0] >> 48) as u16),
        };
        let kind = words[1] >> (64 - KIND_BITS);
        if kind == KIND_FORWARDING {
            let kind = "a forwarding container".to_owned();
            return Err(PoolError::UnknownKind { what: id.to_string(), kind });
        }
        if kind != KIND_CONTAINER || id.get() >= next_container || !is_plausible(&record) {
            let what = format!("container table, record of {id}");
            return Err(PoolError::corrupt(what, place as u64 * 16, "it makes no sense here"));
        }
        records.push(record);
    }
    Ok(records)
}

/// How often each container of a page that begins with number `first` is referred to.
pub fn references(
    page: &RecordPage,
    first: ContainerId,
) -> impl Iterator<Item = (ContainerId, u32)> {
    let numbers = (first.get()..).map(ContainerId::new);
    let there = numbers.zip(page.chunks_exact(2)).filter(|(_, words)| *words != [0, 0]);
    there.map(|(id, words)| (id, u32::try_from(words[1] & REFERENCES_MAX).unwrap_or(u32::MAX)))
}

fn is_plausible(record: &ContainerRecord) -> bool {
    let &ContainerRecord { id, len_bytes, chunks, live_max, punched, .. } = record;
    let around = container::HEADER_BYTES + container::directory_bytes(chunks as usize);
    let sealed = (around..=CONTAINER_BYTES_MAX).contains(&(len_bytes as usize));
    let fits = if len_bytes == 0 { chunks == 0 } else { sealed };
    let fits = fits && usize::from(punched) * PUNCH_BYTES <= len_bytes as usize;
    fits && id.get() > 0 && chunks as usize <= CHUNKS_PER_CONTAINER_MAX && live_max <= chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_those_that_make_no_sense_are_named() {
        let record = ContainerRecord {
            id: ContainerId::new(256 + 8),
            len_bytes: 4 << 20,
            chunks: 2000,
            references: REFERENCES_MAX,
            live_max: 1500,
            punched: 1024,
        };
        let open = ContainerRecord {
            id: ContainerId::new(511),
            len_bytes: 0,
            chunks: 0,
            references: 3,
            live_max: 0,
            punched: 0,
        };
        let mut page = [0; ENTRIES_PER_PAGE];
        encode(&record, &mut page);
        encode(&open, &mut page);
        let first = ContainerId::new(256);
        assert_eq!(decode(&page, first, 512).unwrap(), [record, open]);
        assert!(decode(&page, first, 511).is_err(), "a number that was not given out yet");
        assert!(decode(&page, ContainerId::new(0), 512).is_ok());
        let mut forwarding = page;
        forwarding[17] ^= 3 << 56;
        let error = decode(&forwarding, first, 512).unwrap_err();
        assert!(error.is_other_format(), "{error}");
        assert!(error.to_string().contains("264 is a forwarding container"), "{error}");
        let wrong =
            [(16, 16, 0), (16, 48, 0), (17, 56, 0x2), (17, 56, 0xff), (17, 44, 1), (0, 0, 1)];
        for (word, shift, flip) in wrong {
            let mut page = page;
            page[word] ^= if flip == 0 { 0xffff << shift } else { flip << shift };
            let error = decode(&page, first, 512).unwrap_err().to_string();
            assert!(error.contains("container table"), "{word} {shift}: {error}");
        }
    }
}
