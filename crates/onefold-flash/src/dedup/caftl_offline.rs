//! `caftl-offline`: pages are written as they come and hashed in idle moments.
//! Room: onefold-flash.   Source: [caftl-11] as [park-shin] sec. II describes it.
//! 1. A page is programmed and noted as not hashed (one bit a page).
//! 2. In an idle moment the next such page is read and hashed (SHA-1 or SHA-256).
//! 3. If the fingerprint store names a live page with that hash, the two are merged: the page
//!    that came later goes; with SHA-1 they are compared first. Otherwise its hash is entered.
//!
//! Invariants: see [`Store`]; a page is hashed once in its life.

use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{OptionInfo, Options};
use crate::dedup::scanner::Scanner;
use crate::dedup::site::Site;
use crate::dedup::store::{HASH, STORE_SHARE, Store};
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const OPTIONS: &[OptionInfo] = &[HASH, STORE_SHARE];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "caftl-offline",
    summary: "idle, by a strong hash of every page read back",
    source: "CAFTL (FAST'11), as Park & Shin (JSTS 2015) describe it",
    options: OPTIONS,
    apart: false,
    awaits: Some(&[]),
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> CaftlOffline<F> {
    CaftlOffline::new(f, options, site)
}

/// The policy.
#[derive(Clone, Debug)]
pub struct CaftlOffline<F> {
    fingerprints: F,
    store: Store,
    scanner: Scanner,
    hashed: u64,
}

impl<F> CaftlOffline<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        let (pages, places) = (site.geometry.pages(), site.places);
        let hash = options.word("hash");
        let store = Store::new((pages, places), options.share("store_share"), hash);
        let scanner = Scanner::new(places);
        Self { fingerprints, store, scanner, hashed: 0 }
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for CaftlOffline<F> {
    fn decide(
        &mut self,
        _lpn: u32,
        _page: &Page,
        _prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        Verdict::Program { tag: 0, apart: false }
    }

    fn stored(&mut self, ppn: u32, _tag: u64) {
        self.scanner.add(ppn);
    }

    fn moved(&mut self, from: u32, to: u32, _tag: u64) {
        self.store.relocate(from, to);
        self.scanner.moved(from, to);
    }

    fn died(&mut self, ppn: u32) {
        self.store.remove(ppn);
        self.scanner.died(ppn);
    }

    fn compared(&mut self, _candidate: u32, _equal: bool) {}

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        self.scanner.next(look)
    }

    fn scanned(&mut self, ppn: u32, page: &Page, look: &mut impl Look) {
        look.work(Work::Hash);
        self.hashed += 1;
        self.scanner.scanned(ppn, self.fingerprints.strong(page), &mut self.store);
    }

    fn settled(&mut self, _pair: Pair, _merged: bool) {}

    fn expect_deaths(&self, ppns: &[u32]) {
        self.store.expect_deaths(ppns);
    }

    fn expect_move(&self, ppn: u32) {
        self.store.expect_move(ppn);
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.store.dram().to_vec();
        all.push(("pages to hash", self.scanner.bytes()));
        all
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("store_entries", self.store.used()),
            ("store_evictions", self.store.evicted),
            ("pages_hashed", self.hashed),
            ("pages_to_hash", self.scanner.len()),
        ]
    }
}
