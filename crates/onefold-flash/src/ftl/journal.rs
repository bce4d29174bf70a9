//! The journal: what changes the map and is said by no page's out-of-band area.
//! Room: onefold-flash.
//! Invariants: records are stored in the order of their sequence; a page of records lives until a
//! checkpoint holds all of them; no block is erased while a record that made one of its pages dead
//! is only in DRAM (`Ftl::erase_block`).
//! Cost: 20 B per record; one page of records in DRAM.

use std::collections::VecDeque;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A logical page refers to a virtual page, which is at a physical page.
    Bind {
        /// The logical page.
        lpn: u32,
        /// The virtual page.
        vpn: u32,
        /// Where it is.
        ppn: u32,
    },
    /// Logical pages hold nothing any more.
    Trim {
        /// The first one.
        lpn: u32,
        /// How many.
        count: u32,
    },
    /// A virtual page is an alias of another one, which is at a physical page.
    Alias {
        /// The alias.
        vpn: u32,
        /// What it stands for.
        of: u32,
        /// Where that is.
        ppn: u32,
    },
}

/// Bytes of a stored record: sequence (6), kind (2), three numbers of 4 bytes.
pub const RECORD_BYTES: usize = 20;

const BIND: u64 = 1;
const TRIM: u64 = 2;
const ALIAS: u64 = 3;

/// A record with its sequence, as stored.
pub fn encode(seq: u64, record: Record) -> [u8; RECORD_BYTES] {
    let (kind, numbers) = match record {
        Record::Bind { lpn, vpn, ppn } => (BIND, [lpn, vpn, ppn]),
        Record::Trim { lpn, count } => (TRIM, [lpn, count, 0]),
        Record::Alias { vpn, of, ppn } => (ALIAS, [vpn, of, ppn]),
    };
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&(seq | kind << 48).to_le_bytes());
    for (at, number) in numbers.into_iter().enumerate() {
        bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The records of a page, up to the first that is none.
pub fn decode(bytes: &[u8]) -> Vec<(u64, Record)> {
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    records.iter().map_while(decode_one).collect()
}

fn decode_one(bytes: &[u8; RECORD_BYTES]) -> Option<(u64, Record)> {
    let (words, _) = bytes.as_chunks::<4>();
    let word = |at: usize| u32::from_le_bytes(words[at]);
    let head = u64::from(word(0)) | u64::from(word(1)) << 32;
    let (a, b, c) = (word(2), word(3), word(4));
    let record = match head >> 48 {
        BIND => Record::Bind { lpn: a, vpn: b, ppn: c },
        TRIM => Record::Trim { lpn: a, count: b },
        ALIAS => Record::Alias { vpn: a, of: b, ppn: c },
        _ => return None,
    };
    Some((head & ((1 << 48) - 1), record))
}

/// A page of records that no checkpoint holds yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalPage {
    pub slot: u32,
    pub last_seq: u64,
}

/// Records that are not stored yet, and the pages of those that are.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// Whether records are kept at all.
    pub on: bool,
    pub pending: Vec<(u64, Record)>,
    pub records_per_page: usize,
    /// Sequence of the newest record, and of the newest one that is stored.
    pub last: u64,
    pub durable: u64,
    pub pages: VecDeque<JournalPage>,
    pub free_slots: Vec<u32>,
}

impl Journal {
    pub fn push(&mut self, seq: u64, record: Record) {
        self.pending.push((seq, record));
        self.last = seq;
    }

    /// The stored form of what is pending.
    pub fn page(&self) -> Vec<u8> {
        self.pending.iter().flat_map(|&(seq, record)| encode(seq, record)).collect()
    }

    /// Whether a pending record binds one of these logical pages.
    pub fn binds(&self, lpns: &std::ops::Range<u32>) -> bool {
        self.pending.iter().any(|(_, record)| match record {
            Record::Bind { lpn, .. } => lpns.contains(lpn),
            Record::Trim { .. } | Record::Alias { .. } => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order_and_stop_at_what_is_none() {
        let records = [
            (1, Record::Bind { lpn: 1, vpn: 2, ppn: 3 }),
            (7, Record::Trim { lpn: u32::MAX >> 2, count: 9 }),
            ((1 << 48) - 1, Record::Alias { vpn: 4, of: 5, ppn: 6 }),
        ];
        let mut bytes: Vec<u8> = records.iter().flat_map(|&(s, r)| encode(s, r)).collect();
        assert_eq!(decode(&bytes), records);
        bytes.extend([0; RECORD_BYTES]);
        bytes.extend(encode(8, records[0].1));
        assert_eq!(decode(&bytes), records, "an empty record ends the page");
    }
}
