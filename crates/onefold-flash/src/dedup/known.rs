//! What `gleaner` knows of stored pages: fingerprints, and strong digests where they are trusted.
//! Room: onefold-flash.
//! Invariants: those of [`CompactTable`] and [`SplitTable`]; without trust nothing is known but
//! fingerprints.

use crate::dedup::SameDigest;
use crate::dedup::compact_table::CompactTable;
use crate::dedup::signs::{Candidates, Slot};
use crate::dedup::split_table::SplitTable;

/// The table of a drive.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// Whose candidates are read and compared.
    Fingerprints(CompactTable),
    /// Which trusts strong hashes.
    Digests(SplitTable),
}

use Known::{Digests, Fingerprints};

impl Known {
    /// Whether digests are trusted.
    pub const fn trusts(&self) -> bool {
        matches!(self, Digests(_))
    }

    /// A fingerprint will be looked up soon.
    pub fn expect(&self, fingerprint: u64) {
        match self {
            Fingerprints(table) => table.expect(fingerprint),
            Digests(table) => table.expect(fingerprint),
        }
    }

    /// The entries that may be of this fingerprint.
    pub fn find(&self, fingerprint: u64) -> Candidates {
        match self {
            Fingerprints(table) => table.find(fingerprint),
            Digests(table) => table.find(fingerprint),
        }
    }

    /// The page of an entry.
    pub fn ppn(&self, slot: Slot) -> u32 {
        match self {
            Fingerprints(table) => table.ppn(slot),
            Digests(table) => table.ppn(slot),
        }
    }

    /// The entry was of use.
    pub fn hit(&mut self, slot: Slot) {
        match self {
            Fingerprints(table) => table.hit(slot),
            Digests(table) => table.hit(slot),
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, slot: Slot) {
        match self {
            Fingerprints(table) => table.remove(slot),
            Digests(table) => table.remove(slot),
        }
    }

    /// Enters a page.
    pub fn insert(&mut self, fingerprint: u64, ppn: u32) {
        match self {
            Fingerprints(table) => table.insert(fingerprint, ppn),
            Digests(table) => table.insert(fingerprint, ppn),
        }
    }

    /// A page moved: its entry, if it has a fingerprint, and its digest follow.
    pub fn moved(&mut self, fingerprint: Option<u64>, from: u32, to: u32) {
        if let Digests(table) = self {
            table.digest_moved(from, to);
        }
        match (self, fingerprint) {
            (_, None) => {}
            (Fingerprints(table), Some(fingerprint)) => table.relocate(fingerprint, from, to),
            (Digests(table), Some(fingerprint)) => table.relocate(fingerprint, from, to),
        }
    }

    /// A page died, and nothing must be believed of the next one at its place.
    pub fn died(&mut self, ppn: u32) {
        if let Digests(table) = self {
            table.digest_died(ppn);
        }
    }

    /// Whether the digest of a page is known.
    pub fn has_digest(&self, ppn: u32) -> bool {
        match self {
            Fingerprints(_) => false,
            Digests(table) => table.has(ppn),
        }
    }

    /// Whether a page has this digest: the proof that it holds the same, that it holds something
    /// else, or nothing if its digest is not known.
    pub fn compare(&mut self, ppn: u32, digest: u128) -> Option<Result<SameDigest, ()>> {
        match self {
            Fingerprints(_) => None,
            Digests(table) => table.compare(ppn, digest),
        }
    }

    /// Enters the digest of a page, if digests are trusted.
    pub fn insert_digest(&mut self, ppn: u32, digest: u128) {
        if let Digests(table) = self {
            table.insert_digest(ppn, digest);
        }
    }

    /// A candidate without a digest was compared at once, or left for later.
    pub fn undigested(&mut self, ppn: u32, is_compared: bool) {
        if let Digests(table) = self {
            table.undigested(ppn, is_compared);
        }
    }

    /// Bytes in the controller.
    pub fn dram(&self) -> u64 {
        match self {
            Fingerprints(table) => table.dram(),
            Digests(table) => table.dram(),
        }
    }

    /// What there is to report: entries in use, those that went for others, digests that are known,
    /// and the share of memory that is meant for them.
    pub fn report(&self) -> [(&'static str, u64); 4] {
        let (entries, evicted, digests, percent) = match self {
            Fingerprints(table) => (table.used(), table.evicted, 0, 0),
            Digests(table) => (table.entries, table.evicted, table.digests, table.digest_percent()),
        };
        [
            ("table_entries", entries),
            ("table_evictions", evicted),
            ("digests_kept", digests),
            ("digest_percent", percent),
        ]
    }
}
