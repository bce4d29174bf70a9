//! The journal: the sequence of all that happens, and what changes the map and is said by no
//! page's out-of-band area.
//! Room: onefold-flash.
//! Invariants: records are stored in the order of their sequence; a page of records lives until a
//! checkpoint holds all of them, or until another page repeats them with those that followed; no
//! block is erased while a record that made one of its pages dead is only in DRAM
//! (`Ftl::erase_block`).
//! Cost: 20 B per record; one page of records in DRAM.

use std::collections::VecDeque;

use crate::ftl::settings::Durability;

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

/// The newest sequence with which a drive is opened. Sequences have 48 bits, and no run takes as
/// many steps as are left behind this one.
pub const SEQ_MAX: u64 = 1 << 47;

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
struct JournalPage {
    slot: u32,
    last_seq: u64,
}

/// The sequence of all that happens; records that are not stored yet, and the pages of those that
/// are.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    /// Whether records are kept at all.
    on: bool,
    /// Whether those in memory survive a power cut.
    protected: bool,
    seq: u64,
    /// What the next page is to hold. It begins with the records of the newest page, where that is
    /// not full: a drive that is flushed after each of them would have a page for each otherwise.
    records: Vec<(u64, Record)>,
    /// How many of them are stored, in the newest page.
    stored: usize,
    records_per_page: usize,
    /// Sequence of the newest record, and of the newest one that is stored.
    last: u64,
    durable: u64,
    pages: VecDeque<JournalPage>,
    free_slots: Vec<u32>,
}

impl Journal {
    /// Nothing has happened yet.
    pub fn new(durability: Durability, page_bytes: u32) -> Self {
        Self {
            on: matches!(durability, Durability::Journal | Durability::Protected),
            protected: durability == Durability::Protected,
            seq: 0,
            records: Vec::new(),
            stored: 0,
            records_per_page: page_bytes as usize / RECORD_BYTES,
            last: 0,
            durable: 0,
            pages: VecDeque::new(),
            free_slots: Vec::new(),
        }
    }

    /// Whether records are kept at all.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether records in memory survive a power cut.
    #[inline]
    pub const fn is_protected(&self) -> bool {
        self.protected
    }

    /// The sequence of what happened last.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.seq
    }

    /// Something happens.
    #[inline]
    pub const fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// So much happened without anybody asking for its sequence.
    pub const fn advance_to(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// Everything up to a sequence, at which a drive was opened, is durable.
    pub const fn resume_at(&mut self, seq: u64) {
        self.seq = seq;
        self.durable = seq;
    }

    /// A change that no page's out-of-band area says; `false` if records are not kept.
    pub fn log(&mut self, record: Record) -> bool {
        if self.on {
            let seq = self.next_seq();
            self.records.push((seq, record));
            self.last = seq;
        }
        self.on
    }

    /// Records that are not stored yet, with their sequence, in order.
    #[inline]
    pub fn pending(&self) -> &[(u64, Record)] {
        &self.records[self.stored..]
    }

    /// The record that must be durable before a page that dies now may be erased, if there is one.
    #[inline]
    pub fn awaited(&self) -> Option<u64> {
        if self.pending().is_empty() { None } else { Some(self.last) }
    }

    /// Whether a record up to a sequence is durable, or as good as that.
    #[inline]
    pub const fn is_durable(&self, seq: u64) -> bool {
        self.protected || seq <= self.durable
    }

    /// Records that fill a page.
    pub const fn records_per_page(&self) -> usize {
        self.records_per_page
    }

    /// Whether what is pending has to become a page.
    pub const fn is_page_full(&self) -> bool {
        self.records.len() + 1 >= self.records_per_page
    }

    /// What is pending in its stored form, behind the records of the newest page if that was not
    /// full; and the sequence of its newest record.
    pub fn page(&self) -> (Vec<u8>, u64) {
        let bytes = self.records.iter().flat_map(|&(seq, record)| encode(seq, record)).collect();
        (bytes, self.last)
    }

    /// The slot of the newest page, if the next one repeats it.
    pub fn repeated(&self) -> Option<u32> {
        let newest = self.pages.back().filter(|_| self.stored > 0);
        newest.map(|page| page.slot)
    }

    /// A slot of a page that is not needed any more.
    pub fn free_slot(&mut self) -> Option<u32> {
        self.free_slots.pop()
    }

    /// What is pending was stored as the page of a slot.
    pub fn stored(&mut self, slot: u32) {
        if self.repeated().is_some() {
            self.pages.pop_back();
        }
        self.found(slot, self.last);
        self.stored = self.records.len();
        if self.is_page_full() {
            self.forget_stored();
        }
        self.durable = self.last;
    }

    /// The next page repeats nothing.
    fn forget_stored(&mut self) {
        self.records.drain(..self.stored);
        self.stored = 0;
    }

    /// There is a page of records up to a sequence.
    pub fn found(&mut self, slot: u32, last_seq: u64) {
        self.pages.push_back(JournalPage { slot, last_seq });
    }

    /// The slot of the oldest page, if a checkpoint of a sequence holds all of it: it may be used
    /// anew.
    pub fn outlived(&mut self, seq: u64) -> Option<u32> {
        let page = self.pages.front().copied()?;
        if page.last_seq > seq {
            return None;
        }
        self.pages.pop_front();
        if self.pages.is_empty() {
            self.forget_stored();
        }
        self.free_slots.push(page.slot);
        Some(page.slot)
    }

    /// Whether a checkpoint holds all that was stored.
    #[cfg(test)]
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Nothing counts as durable: records are known that are not on the flash.
    pub const fn distrust(&mut self) {
        self.durable = 0;
    }

    /// Makes pending what is known from elsewhere.
    pub fn take_over(&mut self, records: Vec<(u64, Record)>) {
        if let Some(&(last, _)) = records.last() {
            self.last = last;
        }
        (self.records, self.stored) = (records, 0);
    }

    /// Whether a pending record binds one of these logical pages.
    pub fn binds(&self, lpns: &std::ops::Range<u32>) -> bool {
        self.pending().iter().any(|(_, record)| match record {
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
