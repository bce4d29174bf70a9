//! `block-separation`: CRC-32 when writing decides on the block, a strong hash follows when idle.
//! Room: onefold-flash.   Source: [park-shin] sec. II on [ahn-shin-13], not read.
//! 1. The CRC-32 of a page is looked up among those of the live pages.
//! 2. Known: the page may be a duplicate and goes to the ND blocks; unknown: to the U blocks. So
//!    what deduplication invalidates lies together, and collecting it moves little.
//! 3. Idle moments hash the ND pages first, then (`hash_unique`) all others, as CAFTL does, and
//!    merge pages of equal hash. [park-shin] says that this costs more than CAFTL's own offline
//!    pass, which is so only if the U pages are hashed too.
//!
//! Invariants: see [`Store`] and [`Buckets`].

use crate::dedup::buckets::Buckets;
use crate::dedup::crc_compare::{CRC_HIDDEN, CRC_TABLE};
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::scanner::Scanner;
use crate::dedup::site::Site;
use crate::dedup::store::{HASH, STORE_SHARE, Store};
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const OPTIONS: &[OptionInfo] = &[
    HASH,
    STORE_SHARE,
    CRC_HIDDEN,
    CRC_TABLE,
    OptionInfo::new(
        "hash_unique",
        Kind::Switch(true),
        "Whether pages of the U blocks are hashed at all; if not, only those that an ND page names",
    ),
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "block-separation",
    summary: "idle, by a strong hash; CRC-32 inline keeps likely duplicates in blocks apart",
    source: "Ahn & Shin (FAST'13), as Park & Shin (JSTS 2015) describe it",
    options: OPTIONS,
    apart: true,
    awaits: Some(&[Work::LightHash]),
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> BlockSeparation<F> {
    BlockSeparation::new(f, options, site)
}

/// The policy.
#[derive(Clone, Debug)]
pub struct BlockSeparation<F> {
    fingerprints: F,
    buckets: Buckets,
    store: Store,
    /// Pages of the ND blocks, and U pages that one of them may equal.
    first: Scanner,
    /// Other pages.
    later: Scanner,
    hidden: bool,
    hash_unique: bool,
    pending: Option<bool>,
    hashed: u64,
    undetermined: u64,
}

impl<F> BlockSeparation<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        let (pages, places) = (site.geometry.pages(), site.places);
        Self {
            fingerprints,
            buckets: Buckets::new(pages, places, options.share("table_share")),
            store: Store::new((pages, places), options.share("store_share"), options.word("hash")),
            first: Scanner::new(places),
            later: Scanner::new(places),
            hidden: options.switch("crc_hidden"),
            hash_unique: options.switch("hash_unique"),
            pending: None,
            hashed: 0,
            undetermined: 0,
        }
    }

    fn enter(&mut self, ppn: u32, crc: u32, apart: bool) {
        let bucket = self.buckets.insert(crc, ppn, apart);
        if apart {
            self.undetermined += 1;
            self.first.add(ppn);
            // The page that it may equal was not hashed when it seemed to be alone.
            if !self.hash_unique
                && let Some(partner) = self.buckets.first(bucket, None, false)
                && !self.store.names(partner)
            {
                self.first.add(partner);
            }
        } else if self.hash_unique {
            self.later.add(ppn);
        }
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for BlockSeparation<F> {
    fn prepare(
        &mut self,
        _lpn: u32,
        _page: &Page,
        prepared: &mut Prepared,
        _look: &mut impl Look,
    ) -> Option<Work> {
        let first = prepared.steps == 0;
        prepared.steps = 1;
        (first && !self.hidden).then_some(Work::LightHash)
    }

    fn decide(
        &mut self,
        _lpn: u32,
        page: &Page,
        _prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        let crc = self.fingerprints.light(page);
        let apart = self.buckets.has(crc);
        self.pending = Some(apart);
        Verdict::Program { tag: u64::from(crc) | 1 << 32, apart }
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        let apart = self.pending.take().unwrap_or(false);
        self.enter(ppn, tag as u32, apart);
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        if tag != 0 {
            let apart = self.buckets.has(tag as u32);
            self.enter(ppn, tag as u32, apart);
        }
    }

    fn moved(&mut self, from: u32, to: u32, _tag: u64) {
        self.buckets.relocate(from, to);
        self.store.relocate(from, to);
        self.first.moved(from, to);
        self.later.moved(from, to);
    }

    fn died(&mut self, ppn: u32) {
        self.buckets.remove(ppn);
        self.store.remove(ppn);
        self.first.died(ppn);
        self.later.died(ppn);
    }

    fn compared(&mut self, _candidate: u32, _equal: bool) {}

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        self.first.next(look).or_else(|| self.later.next(look))
    }

    fn scanned(&mut self, ppn: u32, page: &Page, look: &mut impl Look) {
        look.work(Work::Hash);
        self.hashed += 1;
        self.first.scanned(ppn, self.fingerprints.strong(page), &mut self.store);
    }

    fn settled(&mut self, _pair: Pair, _merged: bool) {}

    fn expect_write(&mut self, page: &Page) {
        if F::FREE {
            self.buckets.expect(self.fingerprints.light(page));
        }
    }

    fn expect_deaths(&self, ppns: &[u32]) {
        self.buckets.expect_deaths(ppns);
        self.store.expect_deaths(ppns);
    }

    fn expect_move(&self, ppn: u32) {
        self.buckets.expect_move(ppn);
        self.store.expect_move(ppn);
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.store.dram().to_vec();
        all.extend(self.buckets.dram());
        all.push(("pages to hash", self.first.bytes() + self.later.bytes()));
        all
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("store_entries", self.store.used()),
            ("store_evictions", self.store.evicted),
            ("undetermined_pages", self.undetermined),
            ("pages_hashed", self.hashed),
            ("pages_to_hash", self.first.len() + self.later.len()),
        ]
    }
}
