//! `caftl-offline`: pages are written as they come and hashed in idle moments.
//! Room: onefold-flash.   Source: [caftl-11] as [park-shin] sec. II describes it.
//! 1. A page is programmed and noted as not hashed (one bit a page).
//! 2. In an idle moment the next such page is read and hashed (SHA-1 or SHA-256).
//! 3. If the fingerprint store names a live page with that hash, the two are merged: the page
//!    that came later goes; with SHA-1 they are compared first. Otherwise its hash is entered.
//!
//! Invariants: see [`Store`]; a page is hashed once in its life.

use crate::dedup::caftl_online::{HASH, STORE_SHARE};
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::options::{OptionInfo, Options};
use crate::dedup::page_set::PageSet;
use crate::dedup::registry::Site;
use crate::dedup::store::{Match, Store};
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const OPTIONS: &[OptionInfo] = &[HASH, STORE_SHARE];

/// Pages to be hashed, and the pair that the last one made.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    pages: PageSet,
    /// The page to give up, and the one to keep.
    pair: Option<(u32, Match)>,
}

impl Scanner {
    pub fn new(pages: u32) -> Self {
        Self { pages: PageSet::new(pages), pair: None }
    }

    /// A page is to be hashed.
    pub fn add(&mut self, ppn: u32) {
        self.pages.insert(ppn);
    }

    pub fn moved(&mut self, from: u32, to: u32) {
        if self.pages.remove(from) {
            self.pages.insert(to);
        }
        if let Some((duplicate, original)) = &mut self.pair {
            if *duplicate == from {
                *duplicate = to;
            }
            match original {
                Match::Same(same) => *same = same.moved(from, to),
                Match::Perhaps(page) if *page == from => *page = to,
                Match::Perhaps(_) => {}
            }
        }
    }

    pub fn died(&mut self, ppn: u32) {
        self.pages.remove(ppn);
        let of_pair =
            |&(duplicate, original): &(u32, Match)| [duplicate, original.ppn()].contains(&ppn);
        if let Some((duplicate, original)) = self.pair.filter(of_pair) {
            self.pair = None;
            if original.ppn() == ppn {
                // Its hash has not been entered: it is to be read again.
                self.pages.insert(duplicate);
            }
        }
    }

    pub fn next(&mut self, look: &impl Look) -> Option<Offline> {
        match self.pair.take() {
            Some((duplicate, Match::Same(original))) => {
                return Some(Offline::Merge { duplicate, original });
            }
            Some((duplicate, Match::Perhaps(original))) => {
                return Some(Offline::Compare(Pair { duplicate, original }));
            }
            None => {}
        }
        loop {
            let ppn = self.pages.pop()?;
            if look.is_live(ppn) {
                return Some(Offline::Scan { ppn });
            }
        }
    }

    pub fn scanned(&mut self, ppn: u32, strong: u128, store: &mut Store) {
        match store.look_up(strong) {
            Some(original) if original.ppn() != ppn => self.pair = Some((ppn, original)),
            Some(_) => {}
            None => store.insert(strong, ppn),
        }
    }

    pub fn len(&self) -> u64 {
        self.pages.len()
    }

    pub fn bytes(&self) -> u64 {
        self.pages.bytes()
    }
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
