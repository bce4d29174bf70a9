//! What both designs of SES-Dedup share: the bounded table, the inline budget, the offline pass.
//! Room: onefold-flash.   Source: seed 000 sec. III to V.
//! 1. A page about to be written has a fingerprint from its parity.
//! 2. The bounded table names a page with the same one, or none: then the page is programmed and
//!    its fingerprint entered.
//! 3. The page named is read and compared at once if its unit is idle, and shared if equal.
//! 4. If its unit is busy, the page is programmed and the pair queued for an idle moment.
//! 5. Idle moments first settle the queue, then look for what the table forgot: see [`Passes`].
//!
//! Invariants: table, queue and scratch table stay within their entries.

use std::collections::VecDeque;

use crate::dedup::hot_table::HotTable;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::passes::Passes;
use crate::dedup::registry::Site;
use crate::dedup::{Look, Offline, Pair, Verdict};

pub(crate) const TABLE_SHARE: OptionInfo = OptionInfo::new(
    "table_share",
    Kind::Share(0.15),
    "Entries of the fingerprint table, as a share of the drive's pages",
);
pub(crate) const RETENTION: OptionInfo = OptionInfo::new(
    "retention",
    Kind::Word(&["second-chance", "fifo"]),
    "Which entry of a full set goes: the oldest without a saved hit, or the oldest",
);
pub(crate) const INLINE: OptionInfo =
    OptionInfo::new("inline", Kind::Switch(true), "Whether pages are looked up when written");
pub(crate) const OFFLINE: OptionInfo =
    OptionInfo::new("offline", Kind::Switch(true), "Whether idle moments are used");
pub(crate) const SCRATCH_SHARE: OptionInfo = OptionInfo::new(
    "scratch_share",
    Kind::Share(0.05),
    "Entries of the offline pass's table, as a share of the drive's pages",
);
pub(crate) const DEFERRED: OptionInfo = OptionInfo::new(
    "deferred_entries",
    Kind::Count { default: 4096, min: 0, max: 1 << 24 },
    "Pairs that wait for an idle moment; what does not fit is left to the offline pass",
);
pub(crate) const TRUNCATION: OptionInfo = OptionInfo::new(
    "truncation",
    Kind::Word(&["crc64", "byte8", "cw2"]),
    "How 32 bytes of parity become 8 (SES-Dedup says only that a quarter is kept)",
);

/// A page that was programmed although a page with its fingerprint was known.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    lpn: u32,
    ppn: u32,
    fingerprint: u64,
}

/// The part of SES-Dedup behind the fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct Ses {
    table: HotTable,
    passes: Passes,
    deferred: VecDeque<Deferred>,
    deferred_max: usize,
    inline: bool,
    offline: bool,
    /// The page that is being written would have been compared, had its candidate been idle.
    pending: Option<Deferred>,
    /// The pair under comparison comes from the queue.
    from_queue: bool,
    busy: u64,
    stale: u64,
    queued: u64,
}

impl Ses {
    pub fn new(options: &Options, site: &Site) -> Self {
        let pages = u64::from(site.geometry.pages());
        let entries = (pages as f64 * options.share("table_share")) as u64;
        let scratch = (pages as f64 * options.share("scratch_share")) as u64;
        Self {
            table: HotTable::new(entries, options.word("retention") == "second-chance"),
            passes: Passes::new(site.geometry.pages(), scratch, false),
            deferred: VecDeque::new(),
            deferred_max: options.count("deferred_entries") as usize,
            inline: options.switch("inline"),
            offline: options.switch("offline"),
            pending: None,
            from_queue: false,
            busy: 0,
            stale: 0,
            queued: 0,
        }
    }

    /// Looks at a page with this fingerprint; 0 for a page that is not to be deduplicated.
    pub fn inspect(&mut self, lpn: u32, fingerprint: u64, look: &mut impl Look) -> Verdict {
        self.pending = None;
        let program = Verdict::Program { tag: fingerprint, apart: false };
        if fingerprint == 0 || !self.inline {
            return program;
        }
        let Some(slot) = self.table.find(fingerprint) else { return program };
        let candidate = self.table.ppn(slot);
        if !look.is_live(candidate) {
            self.stale += 1;
            self.table.remove(slot);
            return program;
        }
        self.table.hit(slot);
        if look.is_idle(candidate) {
            return Verdict::Verify { tag: fingerprint, candidate, apart: false };
        }
        self.busy += 1;
        self.pending = Some(Deferred { lpn, ppn: 0, fingerprint });
        program
    }

    /// A page with this fingerprint will be looked at soon.
    pub fn expect(&self, fingerprint: u64) {
        if self.inline {
            self.table.expect(fingerprint);
        }
    }

    pub fn stored(&mut self, ppn: u32, tag: u64) {
        if tag == 0 {
            return;
        }
        self.passes.stored(ppn);
        if let Some(pending) = self.pending.take()
            && self.deferred.len() < self.deferred_max
        {
            self.queued += 1;
            self.deferred.push_back(Deferred { ppn, ..pending });
        }
        if self.inline && self.table.find(tag).is_none() {
            self.table.insert(tag, ppn);
        }
    }

    pub fn moved(&mut self, from: u32, to: u32, tag: u64) {
        if tag != 0 {
            self.table.relocate(tag, from, to);
            self.passes.moved(from, to, tag);
        }
    }

    pub fn died(&mut self, ppn: u32) {
        self.passes.died(ppn);
    }

    /// A candidate that held other content: most likely its page was erased and written again.
    pub fn compared(&mut self, fingerprint: u64, equal: bool) {
        if !equal && let Some(slot) = self.table.find(fingerprint) {
            self.table.remove(slot);
        }
    }

    pub fn next_offline(&mut self, look: &impl Look) -> Option<Offline> {
        if !self.offline {
            return None;
        }
        self.from_queue = false;
        while let Some(Deferred { lpn, ppn, fingerprint }) = self.deferred.pop_front() {
            // Overwritten or moved since: the offline pass will see it.
            if look.locate(lpn) != Some(ppn) {
                continue;
            }
            let original = self.table.find(fingerprint).map(|slot| self.table.ppn(slot));
            if let Some(original) = original.filter(|&page| page != ppn && look.is_live(page)) {
                self.from_queue = true;
                return Some(Offline::Compare(Pair { duplicate: ppn, original }));
            }
        }
        self.passes.next(look)
    }

    pub fn tag_read(&mut self, ppn: u32, tag: u64) {
        self.passes.tag_read(ppn, tag);
    }

    pub fn settled(&mut self, merged: bool) {
        if !self.from_queue {
            self.passes.settled(merged);
        }
    }

    pub fn dram(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        if self.inline {
            all.extend(self.table.dram());
        }
        if self.offline {
            all.push(("deferred pairs", self.deferred_max as u64 * 16));
            all.push(("offline scratch", self.passes.dram()));
        }
        all
    }

    pub fn report(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("table_entries", self.table.used()),
            ("table_evictions", self.table.evicted),
            ("stale_candidates", self.stale),
            ("busy_candidates", self.busy),
            ("deferred_pairs", self.queued),
            ("tags_read", self.passes.tags_read),
            ("offline_rounds", self.passes.rounds),
        ]
    }
}
