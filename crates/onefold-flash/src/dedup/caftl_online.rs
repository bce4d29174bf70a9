//! `caftl-online`: every page is hashed before it is written, and shared if its hash is known.
//! Room: onefold-flash.   Source: [caftl-11] as [park-shin] sec. II describes it.
//! 1. A page is hashed (SHA-1 or SHA-256) on the hash engine; the host waits.
//! 2. The fingerprint store in memory names a live page with that hash: the page is shared at
//!    once. Indirect mapping begins with the second reference. With SHA-1 the two are compared
//!    first, as CAFTL did not: two pages of one SHA-1 have been public since 2017.
//! 3. Otherwise it is programmed and its hash entered. A bounded store drops entries without hits.
//! 4. `sample_one_in` hashes only pages whose light fingerprint falls into the sample, and leaves
//!    the rest alone. CAFTL's own sampling rule could not be read; this one is ours.
//! 5. `prehash` takes a CRC-32 first, and hashes only pages whose CRC-32 is known; others are
//!    hashed in an idle moment, because a later page can only be found by a hash.
//! 6. `budget_us` leaves pages whose hash would come too late, because others wait for the engine.
//! 7. `background` hashes in idle moments what was not hashed inline, and merges.
//!
//! Invariants: see [`Store`].

use crate::dedup::buckets::Buckets;
use crate::dedup::crc_compare::CRC_TABLE;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::scanner::Scanner;
use crate::dedup::ses::BUDGET_US;
use crate::dedup::site::Site;
use crate::dedup::store::{HASH, Match, STORE_SHARE, Store};
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

pub(crate) const SAMPLE: OptionInfo = OptionInfo::new(
    "sample_one_in",
    Kind::Count { default: 1, min: 1, max: 1 << 20 },
    "N: one in N distinct contents is hashed inline; 1 hashes all",
);
pub(crate) const PREHASH: OptionInfo = OptionInfo::new(
    "prehash",
    Kind::Switch(false),
    "Whether a CRC-32 decides which pages are hashed inline; implies background",
);
pub(crate) const BACKGROUND: OptionInfo = OptionInfo::new(
    "background",
    Kind::Switch(false),
    "Whether idle moments hash what was not hashed inline",
);

pub(crate) const OPTIONS: &[OptionInfo] = &[
    HASH,
    STORE_SHARE,
    SAMPLE,
    PREHASH,
    // Of the CRC-32s that `prehash` knows.
    CRC_TABLE,
    BACKGROUND,
    BUDGET_US,
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "caftl-online",
    summary: "inline, by a strong hash on the hash engine",
    source: "CAFTL (FAST'11), as Park & Shin (JSTS 2015) describe it",
    options: OPTIONS,
    apart: false,
    awaits: None,
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> CaftlOnline<F> {
    CaftlOnline::new(f, options, site)
}

/// A tag that marks pages that have been hashed; recovery does not trust it.
pub(crate) fn tag_of(strong: u128) -> u64 {
    (strong as u64).max(1)
}

/// What to remember once the page is programmed.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Nothing,
    Hashed(u128),
    Unhashed,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct CaftlOnline<F> {
    fingerprints: F,
    store: Store,
    scanner: Scanner,
    /// CRC-32 of every live page, with `prehash`.
    known: Option<Buckets>,
    sample: u32,
    background: bool,
    /// 0 for no limit.
    budget_ns: u64,
    pending: Pending,
    late: u64,
    light: u32,
    hashed: u64,
}

impl<F> CaftlOnline<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        // What is deduplicated: pages, or codewords.
        let (pages, places) = (site.geometry.pages() * site.codewords, site.places);
        let prehash = options.switch("prehash");
        Self {
            fingerprints,
            store: Store::new((pages, places), options.share("store_share"), options.word("hash")),
            scanner: Scanner::new(places),
            known: prehash.then(|| Buckets::new(pages, places, options.share("table_share"))),
            sample: options.count("sample_one_in") as u32,
            background: prehash || options.switch("background"),
            budget_ns: options.count("budget_us") * 1000,
            pending: Pending::Nothing,
            late: 0,
            light: 0,
            hashed: 0,
        }
    }

    /// Whether light fingerprints are made.
    fn takes_light(&self) -> bool {
        self.sample > 1 || self.known.is_some()
    }

    /// Whether a page with this light fingerprint is to be hashed inline.
    fn wanted(&mut self, light: u32, look: &impl Look) -> bool {
        let sampled = self.sample == 1 || light.is_multiple_of(self.sample);
        if !sampled || self.known.as_mut().is_some_and(|known| !known.has(light)) {
            return false;
        }
        let late = self.budget_ns > 0 && look.work_ns(Work::Hash) > self.budget_ns;
        self.late += u64::from(late);
        !late
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for CaftlOnline<F> {
    fn prepare(
        &mut self,
        _lpn: u32,
        page: &Page,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        let step = prepared.steps;
        prepared.steps += 1;
        match step {
            0 if self.takes_light() => Some(Work::LightHash),
            0 | 1 if step == 0 || self.takes_light() => {
                if step == 1 {
                    prepared.light = self.fingerprints.light(page);
                }
                prepared.steps = 2;
                prepared.left = !self.wanted(prepared.light, look);
                (!prepared.left).then_some(Work::Hash)
            }
            _ => None,
        }
    }

    fn decide(
        &mut self,
        _lpn: u32,
        page: &Page,
        prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        self.light = prepared.light;
        if prepared.left {
            self.pending = Pending::Unhashed;
            return Verdict::Program { tag: 0, apart: false };
        }
        self.hashed += 1;
        let strong = self.fingerprints.strong(page);
        self.pending = Pending::Hashed(strong);
        let tag = tag_of(strong);
        match self.store.look_up(strong) {
            Some(Match::Perhaps(candidate)) => Verdict::Verify { tag, candidate, apart: false },
            Some(Match::Same(same)) => Verdict::Share { tag, same },
            None => Verdict::Program { tag, apart: false },
        }
    }

    fn stored(&mut self, ppn: u32, _tag: u64) {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Hashed(strong) => self.store.insert(strong, ppn),
            Pending::Unhashed if self.background => self.scanner.add(ppn),
            Pending::Unhashed | Pending::Nothing => {}
        }
        if let Some(known) = &mut self.known {
            known.insert(self.light, ppn, false);
        }
    }

    fn recovered(&mut self, ppn: u32, _tag: u64) {
        if self.background {
            self.scanner.add(ppn);
        }
    }

    fn moved(&mut self, from: u32, to: u32, _tag: u64) {
        self.store.relocate(from, to);
        self.scanner.moved(from, to);
        if let Some(known) = &mut self.known {
            known.relocate(from, to);
        }
    }

    fn died(&mut self, ppn: u32) {
        self.store.remove(ppn);
        self.scanner.died(ppn);
        if let Some(known) = &mut self.known {
            known.remove(ppn);
        }
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

    fn expect_write(&mut self, page: &Page) {
        if F::FREE {
            self.store.expect(self.fingerprints.strong(page));
        }
    }

    fn expect_deaths(&self, ppns: &[u32]) {
        self.store.expect_deaths(ppns);
        if let Some(known) = &self.known {
            known.expect_deaths(ppns);
        }
    }

    fn expect_move(&self, ppn: u32) {
        self.store.expect_move(ppn);
        if let Some(known) = &self.known {
            known.expect_move(ppn);
        }
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.store.dram().to_vec();
        if self.background {
            all.push(("pages to hash", self.scanner.bytes()));
        }
        if let Some(known) = &self.known {
            all.extend(known.dram());
        }
        all
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("store_entries", self.store.used()),
            ("store_evictions", self.store.evicted),
            ("pages_hashed", self.hashed),
            ("late_fingerprints", self.late),
            ("pages_to_hash", self.scanner.len()),
        ]
    }
}
