//! `crc-compare`: light fingerprints when writing, byte comparison when idle (Park & Shin).
//! Room: onefold-flash.   Source: [park-shin] sec. III.
//! 1. The CRC-32 of a page in the buffer is looked up in the bucket table.
//! 2. No bucket: the page is unique (U) as far as anybody knows, goes to the U blocks and opens
//!    one. A bucket: the page is undetermined (ND), goes to the ND blocks and joins it.
//! 3. In an idle moment the bucket in which most duplicates were found goes first; its first ND
//!    page is compared with the bucket's U pages, one after another.
//! 4. Equal to one: merged into it, and the bucket's count goes up. Equal to none: it becomes U.
//! 5. No U page left in the bucket, because it was overwritten before the idle moment: the first
//!    ND page becomes U without a comparison. The paper is silent here; without this rule pages
//!    like it would stay undetermined for good.
//! 6. With `predict`, an undetermined page that will be overwritten soon, as far as past overwrites
//!    tell, gets no entry. One that outlives the prediction has its CRC read again and gets one,
//!    when all others are compared. See [`ShortLived`].
//!
//! Invariants: the U pages of a bucket are all different; see [`Buckets`].

use std::collections::BinaryHeap;

use crate::dedup::buckets::Buckets;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::short_lived::{
    EPOCH_SHARE, OVERWRITES_PERCENT, PREDICT, REGION_PAGES, ShortLived,
};
use crate::dedup::site::Site;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const CRC_HIDDEN: OptionInfo = OptionInfo::new(
    "crc_hidden",
    Kind::Switch(true),
    "Whether the CRC is made while the page comes in, so that nobody waits for it",
);

pub(crate) const CRC_TABLE: OptionInfo = OptionInfo::new(
    "table_share",
    Kind::Share(1.0),
    "Entries of the CRC table, as a share of the drive's pages",
);

pub(crate) const OPTIONS: &[OptionInfo] = &[
    CRC_HIDDEN,
    CRC_TABLE,
    OptionInfo::new(
        "order",
        Kind::Word(&["highest-count", "first-come"]),
        "Which bucket with undetermined pages goes first",
    ),
    OptionInfo::new(
        "without_unique",
        Kind::Word(&["promote-first", "leave"]),
        "What becomes of undetermined pages in a bucket without unique ones",
    ),
    PREDICT,
    REGION_PAGES,
    EPOCH_SHARE,
    OVERWRITES_PERCENT,
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "crc-compare",
    summary: "idle, by comparison of pages with the same CRC-32, in blocks apart",
    source: "Park & Shin (JSTS 2015) sec. III",
    options: OPTIONS,
    apart: true,
    awaits: Some(&[Work::LightHash]),
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> CrcCompare<F> {
    CrcCompare::new(f, options, site)
}

/// The comparison under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    bucket: u32,
    duplicate: u32,
    /// The unique page that it is compared with next; `None` before the first.
    unique: Option<u32>,
}

/// What was decided on the page that is being written.
#[derive(Clone, Copy, Debug)]
struct Pending {
    undetermined: bool,
    /// Whether it is left alone for now.
    held: bool,
}

/// The options.
#[derive(Clone, Copy, Debug)]
struct Rules {
    hidden: bool,
    by_count: bool,
    promote: bool,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct CrcCompare<F> {
    fingerprints: F,
    buckets: Buckets,
    /// Buckets with undetermined pages by count, then the earlier one first. Entries are checked
    /// when they come up.
    queue: BinaryHeap<(Option<u32>, u64, u32)>,
    turn: u64,
    rules: Rules,
    pending: Option<Pending>,
    short_lived: Option<ShortLived>,
    current: Option<Current>,
    /// Between a comparison asked for and its answer.
    comparing: bool,
    undetermined: u64,
    promoted: u64,
    found_unique: u64,
    found_duplicate: u64,
}

impl<F> CrcCompare<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        Self {
            fingerprints,
            buckets: Buckets::new(site.geometry.pages(), site.places, options.share("table_share")),
            queue: BinaryHeap::new(),
            turn: u64::MAX,
            rules: Rules {
                hidden: options.switch("crc_hidden"),
                by_count: options.word("order") == "highest-count",
                promote: options.word("without_unique") == "promote-first",
            },
            pending: None,
            short_lived: ShortLived::new(options, site.geometry.pages(), site.places),
            current: None,
            comparing: false,
            undetermined: 0,
            promoted: 0,
            found_unique: 0,
            found_duplicate: 0,
        }
    }

    fn enter(&mut self, crc: u32, ppn: u32, undetermined: bool) {
        let bucket = self.buckets.insert(crc, ppn, undetermined);
        if undetermined {
            self.undetermined += 1;
            // A bucket is queued once for each time that it goes from none to one.
            if self.buckets.undetermined(bucket) == 1 {
                self.enqueue(bucket);
            }
        }
    }

    /// A page of which nothing is known but its tag.
    fn enter_found(&mut self, ppn: u32, tag: u64) {
        if tag != 0 {
            let undetermined = self.buckets.has(tag as u32);
            self.enter(tag as u32, ppn, undetermined);
        }
    }

    fn enqueue(&mut self, bucket: u32) {
        self.turn -= 1;
        let count = self.rules.by_count.then(|| self.buckets.found(bucket));
        self.queue.push((count, self.turn, bucket));
    }

    /// The next pair of the page under comparison, or of the next one.
    fn next_pair(&mut self, look: &impl Look) -> Option<Pair> {
        loop {
            let Some(current) = self.current else {
                let (_, _, bucket) = self.queue.pop()?;
                if let Some(duplicate) = self.first_undetermined(bucket) {
                    self.current = Some(Current { bucket, duplicate, unique: None });
                }
                continue;
            };
            let Current { bucket, duplicate, unique } = current;
            let here = |page: u32| self.buckets.bucket_of(page) == Some(bucket);
            if !here(duplicate) || unique.is_some_and(|unique| !here(unique)) {
                // The bounded table dropped one of them.
                self.current = None;
                continue;
            }
            if let Some(original) = self.next_unique(bucket, unique) {
                if look.is_live(original) {
                    self.current = Some(Current { unique: Some(original), ..current });
                    return Some(Pair { duplicate, original });
                }
                self.buckets.remove(original);
                continue;
            }
            if unique.is_some() {
                self.found_unique += 1;
                self.buckets.determine(duplicate);
            } else if self.rules.promote {
                self.found_unique += 1;
                self.promoted += 1;
                self.buckets.determine(duplicate);
            } else {
                self.current = None;
                continue;
            }
            self.advance(bucket);
        }
    }

    fn first_undetermined(&self, bucket: u32) -> Option<u32> {
        if self.buckets.undetermined(bucket) == 0 {
            return None;
        }
        self.buckets.first(bucket, None, true)
    }

    /// The unique page of the bucket behind the one compared last.
    fn next_unique(&self, bucket: u32, last: Option<u32>) -> Option<u32> {
        match last {
            None => self.buckets.first(bucket, None, false),
            Some(last) => self.buckets.first(bucket, Some(self.buckets.after(last)?), false),
        }
    }

    /// The page under comparison is settled; its bucket goes back into the queue.
    fn advance(&mut self, bucket: u32) {
        self.current = None;
        if self.buckets.undetermined(bucket) > 0 {
            self.enqueue(bucket);
        }
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for CrcCompare<F> {
    fn prepare(
        &mut self,
        _lpn: u32,
        _page: &Page,
        prepared: &mut Prepared,
        _look: &mut impl Look,
    ) -> Option<Work> {
        let first = prepared.steps == 0;
        prepared.steps = 1;
        (first && !self.rules.hidden).then_some(Work::LightHash)
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        _prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        let crc = self.fingerprints.light(page);
        let apart = self.buckets.has(crc);
        let soon = self.short_lived.as_mut().is_some_and(|lives| lives.write(lpn));
        self.pending = Some(Pending { undetermined: apart, held: apart && soon });
        // Above the 32 bits of the CRC, so that it is never 0.
        Verdict::Program { tag: u64::from(crc) | 1 << 32, apart }
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        let crc = tag as u32;
        let pending = self.pending.take();
        if let Some(short_lived) = &mut self.short_lived
            && pending.is_some_and(|pending| pending.held)
        {
            short_lived.hold(ppn);
            return;
        }
        // The page that made this one undetermined may have died while room was made.
        self.enter(crc, ppn, pending.is_some_and(|pending| pending.undetermined));
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        self.enter_found(ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, _tag: u64) {
        self.buckets.relocate(from, to);
        if let Some(short_lived) = &mut self.short_lived {
            short_lived.moved(from, to);
        }
        if let Some(current) = &mut self.current {
            if current.duplicate == from {
                current.duplicate = to;
            }
            if current.unique == Some(from) {
                current.unique = Some(to);
            }
        }
    }

    fn died(&mut self, ppn: u32) {
        if let Some(short_lived) = &mut self.short_lived {
            short_lived.died(ppn);
        }
        if let Some(current) = self.current
            && (current.duplicate == ppn || current.unique == Some(ppn))
        {
            // The bucket starts over with what is left of it.
            self.current = None;
            self.buckets.remove(ppn);
            if !self.comparing && self.buckets.undetermined(current.bucket) > 0 {
                self.enqueue(current.bucket);
            }
        }
        self.buckets.remove(ppn);
    }

    fn compared(&mut self, _candidate: u32, _equal: bool) {}

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        let pair = self.next_pair(look);
        self.comparing = pair.is_some();
        if let Some(pair) = pair {
            return Some(Offline::Compare(pair));
        }
        let due = || self.short_lived.as_mut()?.next_due();
        std::iter::from_fn(due).find(|&ppn| look.is_live(ppn)).map(|ppn| Offline::ReadTag { ppn })
    }

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        self.enter_found(ppn, tag);
    }

    fn scanned(&mut self, _ppn: u32, _page: &Page, _look: &mut impl Look) {}

    fn settled(&mut self, pair: Pair, merged: bool) {
        self.comparing = false;
        if merged {
            self.found_duplicate += 1;
            // The duplicate has left its bucket; the original is still there to name it.
            if let Some(bucket) = self.buckets.bucket_of(pair.original) {
                self.buckets.count(bucket);
                self.advance(bucket);
            }
        }
    }

    fn expect_write(&mut self, page: &Page) {
        if F::FREE {
            self.buckets.expect(self.fingerprints.light(page));
        }
    }

    fn expect_deaths(&self, ppns: &[u32]) {
        self.buckets.expect_deaths(ppns);
    }

    fn expect_move(&self, ppn: u32) {
        self.buckets.expect_move(ppn);
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        let predicting = self.short_lived.iter().flat_map(ShortLived::dram);
        self.buckets.dram().into_iter().chain(predicting).collect()
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let counted = |of: fn(&ShortLived) -> u64| self.short_lived.as_ref().map_or(0, of);
        vec![
            ("table_entries", self.buckets.used()),
            ("table_evictions", self.buckets.evicted),
            ("undetermined_pages", self.undetermined),
            ("undetermined_found_unique", self.found_unique),
            ("undetermined_promoted", self.promoted),
            ("undetermined_found_duplicate", self.found_duplicate),
            ("held_pages", counted(|pages| pages.held)),
            ("held_pages_overwritten", counted(|pages| pages.foreseen)),
        ]
    }
}
