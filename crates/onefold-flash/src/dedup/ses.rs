//! SES-Dedup: the bounded table, the inline budget, the offline pass. Its two designs differ in
//! where a fingerprint comes from: [`Design`].
//! Room: onefold-flash.   Source: [ses-dedup] sec. III to V.
//! 1. A page about to be written has a fingerprint from its parity.
//! 2. The bounded table names a page with the same one, or none: then the page is programmed and
//!    its fingerprint entered.
//! 3. The page named is read and compared at once if its unit is idle, and shared if equal.
//! 4. If its unit is busy, the page is programmed and the pair queued for an idle moment.
//! 5. Idle moments first settle the queue, then look for what the table forgot: see [`Passes`].
//!
//! Invariants: table, queue and scratch table stay within their entries.

use std::collections::VecDeque;

use crate::dedup::codewords::CodewordCounter;
use crate::dedup::hot_table::HotTable;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::passes::Passes;
use crate::dedup::site::Site;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const TABLE_SHARE: OptionInfo = OptionInfo::new(
    "table_share",
    Kind::Multiple(0.15),
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
/// Also `caftl-online`'s; the papers only say that pages which cannot be checked inline are left.
pub(crate) const BUDGET_US: OptionInfo = OptionInfo::new(
    "budget_us",
    Kind::Count { default: 0, min: 0, max: 1 << 32 },
    "Microseconds in which a page's fingerprint must be ready, its engine's queue included; a page \
     that would take longer is written, and left to the offline pass; 0: no limit",
);
pub(crate) const TRUNCATION: OptionInfo = OptionInfo::new(
    "truncation",
    Kind::Word(&["crc64", "byte8", "cw2"]),
    "How 32 bytes of parity become 8 (SES-Dedup says only that a quarter is kept)",
);

pub(crate) const COUNT_CODEWORDS: OptionInfo = OptionInfo::new(
    "count_codewords",
    Kind::Switch(false),
    "Whether to count what deduplication by codeword would find beyond whole pages, among the \
     live pages (real bytes only; about 100 bytes of the host for each codeword)",
);

/// What the two designs differ in.
pub trait Design<Page> {
    /// The fingerprint of a page about to be written to `lpn`; 0 if it is not to be deduplicated.
    fn fingerprint(&mut self, lpn: u32, page: &Page, request: Option<bool>) -> u64;

    /// What the controller does before it has that.
    fn work(&self) -> Option<Work> {
        None
    }

    /// Whether the fingerprint would come too late to be looked up. Such a page is programmed with
    /// it all the same, and the offline pass, which reads fingerprints from the flash, sees it.
    fn is_late(&self, _look: &impl Look) -> bool {
        false
    }

    /// Digests of the parts of a page that have a codeword each, if parts are known.
    fn codewords(&mut self, page: &Page, each: &mut dyn FnMut(u128));

    /// The fingerprint that such a page will have, where knowing it costs nothing.
    fn foreseen(&mut self, _page: &Page) -> Option<u64> {
        None
    }
}

/// Whether the page that is being written had its fingerprint in time; if not, it gets no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    InTime,
    Late,
}

/// A page that was programmed although a page with its fingerprint was known.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    lpn: u32,
    ppn: u32,
    fingerprint: u64,
}

/// The policy, in one of its designs.
#[derive(Clone, Debug)]
pub struct Ses<D> {
    design: D,
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
    /// The fingerprint of the page that is being written.
    last: u64,
    counter: Option<CodewordCounter>,
    sight: Sight,
    late: u64,
    left_out: u64,
    busy: u64,
    stale: u64,
    queued: u64,
}

impl<D> Ses<D> {
    pub(crate) fn new(design: D, options: &Options, site: &Site) -> Self {
        let pages = u64::from(site.geometry.pages());
        let entries = (pages as f64 * options.share("table_share")) as u64;
        let scratch = (pages as f64 * options.share("scratch_share")) as u64;
        Self {
            design,
            table: HotTable::new(entries, options.word("retention") == "second-chance"),
            passes: Passes::new(site.places, scratch, None),
            deferred: VecDeque::new(),
            deferred_max: options.count("deferred_entries") as usize,
            inline: options.switch("inline"),
            offline: options.switch("offline"),
            pending: None,
            from_queue: false,
            last: 0,
            counter: options.switch("count_codewords").then(CodewordCounter::default),
            sight: Sight::InTime,
            late: 0,
            left_out: 0,
            busy: 0,
            stale: 0,
            queued: 0,
        }
    }

    /// Looks a fingerprint up.
    fn look_up(&mut self, lpn: u32, look: &impl Look) -> Verdict {
        let fingerprint = self.last;
        let program = Verdict::Program { tag: fingerprint, apart: false };
        if fingerprint == 0 || !self.inline || self.sight == Sight::Late {
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

    /// A page with a fingerprint is at `ppn` from now on.
    fn enter(&mut self, ppn: u32, tag: u64) {
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
        if self.inline && self.sight == Sight::InTime && self.table.find(tag).is_none() {
            self.table.insert(tag, ppn);
        }
    }
}

impl<Page, D: Design<Page>> Policy<Page> for Ses<D> {
    fn prepare(
        &mut self,
        _lpn: u32,
        _page: &Page,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        if prepared.steps > 0 {
            return None;
        }
        prepared.steps = 1;
        let work = self.design.work()?;
        prepared.left = self.design.is_late(look);
        (!prepared.left).then_some(work)
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        self.pending = None;
        if let Some(counter) = &mut self.counter {
            counter.begin();
            self.design.codewords(page, &mut |codeword| counter.part(codeword));
        }
        self.sight = if prepared.left { Sight::Late } else { Sight::InTime };
        self.last = self.design.fingerprint(lpn, page, prepared.request);
        self.left_out += u64::from(self.last == 0);
        self.late += u64::from(self.sight == Sight::Late);
        self.look_up(lpn, look)
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        if let Some(counter) = &mut self.counter {
            counter.stored(ppn);
        }
        self.enter(ppn, tag);
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        if let Some(counter) = &mut self.counter {
            counter.recovered(ppn);
        }
        self.enter(ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        if let Some(counter) = &mut self.counter {
            counter.moved(from, to);
        }
        if tag != 0 {
            self.table.relocate(tag, from, to);
            self.passes.moved(from, to, tag);
        }
    }

    fn died(&mut self, ppn: u32) {
        if let Some(counter) = &mut self.counter {
            counter.died(ppn);
        }
        self.passes.died();
    }

    /// A candidate that held other content: most likely its page was erased and written again.
    fn compared(&mut self, candidate: u32, equal: bool) {
        if equal && let Some(counter) = &mut self.counter {
            counter.shared(candidate);
        }
        if !equal && let Some(slot) = self.table.find(self.last) {
            self.table.remove(slot);
        }
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
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
        if self.inline
            && let Some(fingerprint) = self.design.foreseen(page)
        {
            self.table.expect(fingerprint);
        }
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
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

    fn report(&self) -> Vec<(&'static str, u64)> {
        let mut all = vec![
            ("table_entries", self.table.used()),
            ("table_evictions", self.table.evicted),
            ("stale_candidates", self.stale),
            ("late_fingerprints", self.late),
            ("busy_candidates", self.busy),
            ("deferred_pairs", self.queued),
            ("pages_left_out", self.left_out),
            ("tags_read", self.passes.tags_read),
            ("offline_rounds", self.passes.rounds),
        ];
        if let Some(counter) = &self.counter {
            all.extend(counter.report());
        }
        all
    }
}
