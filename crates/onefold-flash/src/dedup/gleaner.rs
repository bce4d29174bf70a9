//! `gleaner`: this project's own design. It gleans what the harvest leaves, and pays by the clock.
//! Room: onefold-flash.
//! 1. The fingerprint is the page's parity, as in SES-Dedup, and costs the controller nothing:
//!    parity, shortening and correction are all affine, so the correction is done on the 8 bytes
//!    that are left, one 8-byte word per seed bit, and not on all parity of the page. See
//!    [`crate::dedup::fingerprints::ShortBasis`].
//! 2. A match is compared before sharing anyway, so the table keeps only 14 bits of it: 6 bytes
//!    an entry, and more than twice the entries in the same memory. See [`CompactTable`].
//! 3. A candidate is compared whenever that ends before programming would, waiting included, and
//!    not only when its unit is idle: a program takes ten or twenty times as long as a read, so
//!    waiting for a busy unit often is the shorter way, and takes load off the drive as well.
//! 4. If not, the page is programmed, and the pair waits in a queue for an idle moment.
//! 5. Idle moments settle the queue first, then look for the rest among the out-of-band
//!    fingerprints; one bit a page says which came since the last round, and only those go into
//!    the scratch table, so that a round reads most tags once. See [`Passes`].
//! 6. A compression engine before the scrambler changes what the parity is of, and nothing else:
//!    see [`crate::dedup::ses_device`]. Behind it, the parity is that of what goes in.
//! 7. Nothing is compared that was found different before: an entry that failed goes.
//!
//! Invariants: table, queue and scratch table stay within their entries.

use std::collections::VecDeque;

use crate::dedup::compact_table::CompactTable;
use crate::dedup::engine::Engine;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::passes::Passes;
use crate::dedup::registry::Site;
use crate::dedup::ses::{DEFERRED, SCRATCH_SHARE, TRUNCATION};
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};

pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::new(
        "table_share",
        Kind::Multiple(0.27),
        "Entries of the fingerprint table, as a share of the drive's pages",
    ),
    SCRATCH_SHARE,
    DEFERRED,
    TRUNCATION,
    OptionInfo::new(
        "compare",
        Kind::Word(&["when-sooner", "when-idle"]),
        "When a candidate is compared at once: if that ends before programming would, or if its \
         unit is idle",
    ),
    OptionInfo::new(
        "rounds",
        Kind::Word(&["incremental", "whole"]),
        "Which pages an offline round puts into its table: those since the last one, or all",
    ),
    OptionInfo::new(
        "compression",
        Kind::Word(Engine::NAMES),
        "Where the drive compresses; what is found is the same",
    ),
];

/// A pair left for an idle moment.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    lpn: u32,
    ppn: u32,
    original: u32,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Gleaner<F> {
    fingerprints: F,
    table: CompactTable,
    passes: Passes,
    deferred: VecDeque<Deferred>,
    deferred_max: usize,
    by_clock: bool,
    pending: Option<Deferred>,
    last: u64,
    from_queue: bool,
    later: u64,
    stale: u64,
}

impl<F> Gleaner<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        let pages = site.geometry.pages();
        let entries = |share: &str| (f64::from(pages) * options.share(share)) as u64;
        let incremental = options.word("rounds") == "incremental";
        Self {
            fingerprints,
            table: CompactTable::new(entries("table_share")),
            passes: Passes::new(site.places, entries("scratch_share"), incremental),
            deferred: VecDeque::new(),
            deferred_max: options.count("deferred_entries") as usize,
            by_clock: options.word("compare") == "when-sooner",
            pending: None,
            last: 0,
            from_queue: false,
            later: 0,
            stale: 0,
        }
    }

    /// A live page that may be equal; entries of dead pages go on the way.
    fn candidate(&mut self, look: &impl Look) -> Option<u32> {
        for slot in self.table.find(self.last) {
            let ppn = self.table.ppn(slot);
            if look.is_live(ppn) {
                self.table.hit(slot);
                return Some(ppn);
            }
            self.stale += 1;
            self.table.remove(slot);
        }
        None
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for Gleaner<F> {
    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        _prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        self.last = self.fingerprints.parity(lpn, page);
        self.pending = None;
        let program = Verdict::Program { tag: self.last, apart: false };
        let Some(candidate) = self.candidate(look) else { return program };
        let sooner = || self.by_clock && look.read_ns(candidate) <= look.program_ns();
        if look.is_idle(candidate) || sooner() {
            return Verdict::Verify { tag: self.last, candidate, apart: false };
        }
        self.later += 1;
        self.pending = Some(Deferred { lpn, ppn: 0, original: candidate });
        program
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        if tag == 0 {
            return;
        }
        self.passes.stored(ppn);
        match self.pending.take() {
            Some(pending) if self.deferred.len() < self.deferred_max => {
                self.deferred.push_back(Deferred { ppn, ..pending });
            }
            // The candidate's entry stays: it names the page that others refer to.
            Some(_) => {}
            None => self.table.insert(tag, ppn),
        }
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        if tag != 0 {
            self.table.relocate(tag, from, to);
            self.passes.moved(from, to, tag);
        }
    }

    fn died(&mut self, ppn: u32) {
        self.passes.died(ppn);
    }

    fn compared(&mut self, candidate: u32, equal: bool) {
        if !equal {
            for slot in self.table.find(self.last) {
                if self.table.ppn(slot) == candidate {
                    self.table.remove(slot);
                }
            }
        }
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        self.from_queue = false;
        while let Some(Deferred { lpn, ppn, original }) = self.deferred.pop_front() {
            // Overwritten, moved or dead since: the offline round will see what is left.
            if look.locate(lpn) == Some(ppn) && ppn != original && look.is_live(original) {
                self.from_queue = true;
                return Some(Offline::Compare(Pair { duplicate: ppn, original }));
            }
        }
        self.passes.next(look)
    }

    fn scanned(&mut self, _ppn: u32, _page: &Page, _look: &mut impl Look) {}

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        self.passes.tag_read(ppn, tag);
    }

    fn settled(&mut self, _pair: Pair, merged: bool) {
        if !self.from_queue {
            self.passes.settled(merged);
        }
    }

    fn expect_write(&mut self, page: &Page) {
        if F::FREE {
            self.table.expect(self.fingerprints.plain_parity(page));
        }
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("fingerprint table", self.table.dram()),
            ("deferred pairs", self.deferred_max as u64 * 12),
            ("offline scratch", self.passes.dram()),
        ]
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("table_entries", self.table.used()),
            ("table_evictions", self.table.evicted),
            ("stale_candidates", self.stale),
            ("deferred_pairs", self.later),
            ("tags_read", self.passes.tags_read),
            ("offline_rounds", self.passes.rounds),
        ]
    }
}
