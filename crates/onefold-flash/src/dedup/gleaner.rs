//! `gleaner`: this project's own design. It gleans what the harvest leaves, and pays by the clock.
//! Room: onefold-flash.
//! 1. The fingerprint is the page's parity, as in SES-Dedup, and costs the controller nothing:
//!    parity, shortening and correction are all affine, so the correction is done on the 8 bytes
//!    that are left, one 8-byte word per seed bit, and not on all parity of the page. See
//!    [`crate::dedup::fingerprints::ShortBasis`].
//! 2. A match is compared before sharing anyway, so the table keeps only 14 bits of it: 6 bytes
//!    an entry, and more than twice the entries in the same memory. See [`Known`].
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
//! 8. Where the hash engine outruns a read, strong hashes are trusted: a page that has a candidate
//!    whose digest is known is hashed, which tells whether they are equal without reading. Pages
//!    without a candidate are not kept waiting: they are hashed beside their own program, if the
//!    engine has time. Which of the two ways is sooner decides, page by page.
//! 9. Digests and entries share memory, which goes to whichever saves more. See
//!    [`crate::dedup::worth`].
//!
//! Invariants: table, queue and scratch table stay within their memory; what is shared without
//! reading has an equal digest of the hash that the fingerprinting trusts.

use std::collections::VecDeque;

use crate::dedup::compact_table::CompactTable;
use crate::dedup::engine::Engine;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::known::Known;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::passes::Passes;
use crate::dedup::ses::{DEFERRED, SCRATCH_SHARE, TRUNCATION};
use crate::dedup::signs::Slot;
use crate::dedup::site::Site;
use crate::dedup::split_table::SplitTable;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, SameDigest, Verdict};
use crate::op::Work;

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
        "trust",
        Kind::Word(&["where-sooner", "never"]),
        "Whether equal strong hashes are enough to share, where the engine outruns reads",
    ),
    OptionInfo::new(
        "digest_share",
        Kind::Multiple(0.4),
        "Strong hashes kept at first where they are trusted, as a share of the table's entries",
    ),
    OptionInfo::new(
        "split",
        Kind::Word(&["learnt", "fixed"]),
        "Whether strong hashes and entries get memory by what they save, or stay as at first",
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

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "gleaner",
    summary: "inline whenever comparing ends before programming would, and idle, by parity",
    source: "this project",
    options: OPTIONS,
    apart: false,
    awaits: None,
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> Gleaner<F> {
    Gleaner::new(f, options, site)
}

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
    table: Known,
    passes: Passes,
    deferred: VecDeque<Deferred>,
    deferred_max: usize,
    by_clock: bool,
    pending: Option<Deferred>,
    last: u64,
    /// The strong hash of the page that is decided on, if it is made.
    digest: Option<u128>,
    from_queue: bool,
    later: u64,
    stale: u64,
    trusted: u64,
}

impl<F> Gleaner<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        let pages = site.geometry.pages();
        let entries = |share: &str| (f64::from(pages) * options.share(share)) as u64;
        let blocks = (options.word("rounds") == "incremental").then(|| site.places_per_block());
        let trusts = site.hash_outruns_read && options.word("trust") == "where-sooner";
        let table = entries("table_share");
        let table = if trusts {
            let digests = (table as f64 * options.share("digest_share")) as u64;
            let learns = options.word("split") == "learnt";
            Known::Digests(SplitTable::new(
                site.places,
                table,
                digests,
                site.read_of_program,
                learns,
            ))
        } else {
            Known::Fingerprints(CompactTable::new(table))
        };
        Self {
            fingerprints,
            table,
            passes: Passes::new(site.places, entries("scratch_share"), blocks),
            deferred: VecDeque::new(),
            deferred_max: options.count("deferred_entries") as usize,
            by_clock: options.word("compare") == "when-sooner",
            pending: None,
            last: 0,
            digest: None,
            from_queue: false,
            later: 0,
            stale: 0,
            trusted: 0,
        }
    }

    /// A candidate that the digest proves to be equal; those that it proves different go.
    fn proved(&mut self, digest: u128, look: &impl Look) -> Option<SameDigest> {
        for slot in self.table.find(self.last) {
            let ppn = self.table.ppn(slot);
            if !look.is_live(ppn) {
                continue;
            }
            match self.table.compare(ppn, digest) {
                Some(Ok(same)) => {
                    self.table.hit(slot);
                    return Some(same);
                }
                Some(Err(())) => self.table.remove(slot),
                None => {}
            }
        }
        None
    }

    /// Whether a page with this fingerprint has a candidate whose digest is known, and would be
    /// hashed sooner than that one could be read, or than programmed.
    fn wants_hash(&mut self, look: &impl Look) -> bool {
        let candidate = self.candidate(look).map(|slot| self.table.ppn(slot));
        let Some(candidate) = candidate.filter(|&ppn| self.table.has_digest(ppn)) else {
            return false;
        };
        look.work_ns(Work::Hash) <= look.read_ns(candidate).min(look.program_ns())
    }

    /// The page is hashed beside what it waits for, if that takes no longer.
    fn hash_beside<Page>(&mut self, page: &Page, until_ns: u64, look: &mut impl Look)
    where
        F: Fingerprinting<Page>,
    {
        if self.table.trusts() && self.digest.is_none() && look.work_ns(Work::Hash) <= until_ns {
            look.work_beside(Work::Hash);
            self.digest = Some(self.fingerprints.strong(page));
        }
    }

    /// Whether a candidate would be compared at once.
    fn is_compared(&self, candidate: u32, look: &impl Look) -> bool {
        let sooner = look.read_ns(candidate) <= look.program_ns();
        look.is_idle(candidate) || self.by_clock && sooner
    }

    /// The entry of a live page that may be equal; entries of dead pages go on the way.
    fn candidate(&mut self, look: &impl Look) -> Option<Slot> {
        for slot in self.table.find(self.last) {
            if look.is_live(self.table.ppn(slot)) {
                return Some(slot);
            }
            self.stale += 1;
            self.table.remove(slot);
        }
        None
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for Gleaner<F> {
    fn prepare(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        if prepared.steps > 0 || !self.table.trusts() {
            return None;
        }
        prepared.steps = 1;
        self.last = self.fingerprints.parity(lpn, page);
        prepared.left = !self.wants_hash(look);
        (!prepared.left).then_some(Work::Hash)
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        self.last = self.fingerprints.parity(lpn, page);
        self.pending = None;
        self.digest = None;
        if prepared.steps > 0 && !prepared.left {
            let digest = self.fingerprints.strong(page);
            self.digest = Some(digest);
            if let Some(same) = self.proved(digest, look) {
                self.trusted += 1;
                return Verdict::Share { tag: self.last, same };
            }
        }
        let program = Verdict::Program { tag: self.last, apart: false };
        let program_ns = look.program_ns();
        let Some(slot) = self.candidate(look) else {
            self.hash_beside(page, program_ns, look);
            return program;
        };
        let candidate = self.table.ppn(slot);
        self.table.hit(slot);
        let is_compared = self.is_compared(candidate, look);
        if !self.table.has_digest(candidate) {
            self.table.undigested(candidate, is_compared);
        }
        if is_compared {
            self.hash_beside(page, look.read_ns(candidate), look);
            return Verdict::Verify { tag: self.last, candidate, apart: false };
        }
        self.hash_beside(page, program_ns, look);
        self.later += 1;
        self.pending = Some(Deferred { lpn, ppn: 0, original: candidate });
        program
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        if tag == 0 {
            return;
        }
        self.passes.stored(ppn);
        if let Some(digest) = self.digest.take() {
            self.table.insert_digest(ppn, digest);
        }
        match self.pending.take() {
            Some(pending) if self.deferred.len() < self.deferred_max => {
                self.deferred.push_back(Deferred { ppn, ..pending });
            }
            // The candidate's entry stays: it names the page that others refer to.
            Some(_) => {}
            None => self.table.insert(tag, ppn),
        }
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        // Only the fingerprint is known, and nothing of who wrote last.
        (self.digest, self.pending) = (None, None);
        Policy::<Page>::stored(self, ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        self.table.moved((tag != 0).then_some(tag), from, to);
        if tag != 0 {
            self.passes.moved(from, to, tag);
        }
    }

    fn died(&mut self, ppn: u32) {
        self.table.died(ppn);
        self.passes.died();
    }

    fn compared(&mut self, candidate: u32, equal: bool) {
        if !equal {
            for slot in self.table.find(self.last) {
                if self.table.ppn(slot) == candidate {
                    self.table.remove(slot);
                }
            }
        }
        // Where they hold the same, the digest of one is that of the other.
        let digest = if equal { self.digest.take() } else { None };
        if let Some(digest) = digest {
            self.table.insert_digest(candidate, digest);
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
        let mut all = self.table.report().to_vec();
        all.extend([
            ("stale_candidates", self.stale),
            ("deferred_pairs", self.later),
            ("trusted_digests", self.trusted),
            ("tags_read", self.passes.tags_read),
            ("offline_rounds", self.passes.rounds),
        ]);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::fingerprints::Identities;
    use crate::geometry::Geometry;
    use crate::nand::Identity;
    use std::collections::BTreeSet;

    /// A drive whose hash engine is free or busy; a read takes 10 ns and a program 100.
    struct Stub {
        live: BTreeSet<u32>,
        engine_is_free: bool,
    }

    impl Look for Stub {
        fn is_live(&self, ppn: u32) -> bool {
            self.live.contains(&ppn)
        }
        fn is_idle(&self, _ppn: u32) -> bool {
            true
        }
        fn locate(&self, _lpn: u32) -> Option<u32> {
            None
        }
        fn read_ns(&self, _ppn: u32) -> u64 {
            10
        }
        fn program_ns(&self) -> u64 {
            100
        }
        fn work_ns(&self, _work: Work) -> u64 {
            if self.engine_is_free { 5 } else { 1000 }
        }
        fn work(&mut self, _work: Work) {}
    }

    /// Two contents of one fingerprint.
    const A: Identity = Identity(7);
    const LIKE_A: Identity = Identity(7 | 1 << 100);
    const B: Identity = Identity(8);

    struct Bench {
        policy: Gleaner<Identities>,
        look: Stub,
    }

    impl Bench {
        fn new() -> Self {
            let geometry = Geometry {
                channels: 1,
                packages: 1,
                dies_per_package: 1,
                planes_per_die: 1,
                blocks_per_plane: 8,
                pages_per_block: 8,
                page_bytes: 512,
                oob_bytes: 64,
            };
            let site = Site { hash_outruns_read: true, ..Site::new(geometry, None) };
            let options = Options::check("gleaner", OPTIONS, &toml::Table::new());
            let policy = Gleaner::new(Identities, &options.expect("defaults"), &site);
            Self { policy, look: Stub { live: BTreeSet::new(), engine_is_free: true } }
        }

        fn looks_at(&mut self, page: Identity) -> Verdict {
            Policy::<Identity>::inspect(&mut self.policy, 1, &page, &mut self.look)
        }

        /// A page that is new to the policy is stored, with its hash made beside that or not.
        fn store(&mut self, page: Identity, ppn: u32, engine_is_free: bool) {
            self.look.engine_is_free = engine_is_free;
            let Verdict::Program { tag, .. } = self.looks_at(page) else { panic!("it is new") };
            Policy::<Identity>::stored(&mut self.policy, ppn, tag);
            self.look.live.insert(ppn);
            self.look.engine_is_free = true;
        }

        fn shares(&mut self, page: Identity) -> Option<u32> {
            match self.looks_at(page) {
                Verdict::Share { same, .. } => Some(same.ppn()),
                Verdict::Verify { .. } | Verdict::Program { .. } => None,
            }
        }

        fn compares(&mut self, page: Identity) -> Option<u32> {
            match self.looks_at(page) {
                Verdict::Verify { candidate, .. } => Some(candidate),
                Verdict::Share { .. } | Verdict::Program { .. } => None,
            }
        }
    }

    #[test]
    fn what_is_known_of_a_page_is_not_believed_of_the_next_one_at_its_place() {
        let mut bench = Bench::new();
        bench.store(A, 0, true);
        assert_eq!(bench.shares(A), Some(0));
        Policy::<Identity>::died(&mut bench.policy, 0);
        bench.look.live.remove(&0);
        // Something else comes there, unhashed. The table still says that A may be.
        bench.store(B, 0, false);
        assert_eq!(bench.compares(A), Some(0), "it is read");
    }

    #[test]
    fn a_digest_moves_with_its_page() {
        let mut bench = Bench::new();
        bench.store(A, 0, true);
        Policy::<Identity>::moved(&mut bench.policy, 0, 9, 7);
        bench.look.live = BTreeSet::from([9]);
        assert_eq!(bench.shares(A), Some(9));
    }

    #[test]
    fn the_digest_of_one_page_is_not_that_of_the_next() {
        let mut bench = Bench::new();
        bench.store(A, 0, true);
        assert_eq!(bench.shares(A), Some(0));
        bench.store(B, 1, false);
        assert_eq!(bench.compares(B), Some(1), "nothing is known of it");
    }

    #[test]
    fn a_comparison_tells_the_digest_of_an_equal_page_only() {
        let mut bench = Bench::new();
        bench.store(A, 0, false);
        assert_eq!(bench.compares(LIKE_A), Some(0));
        Policy::<Identity>::compared(&mut bench.policy, 0, false);
        assert!(!bench.policy.table.has_digest(0));
        bench.store(B, 1, false);
        assert_eq!(bench.compares(B), Some(1));
        Policy::<Identity>::compared(&mut bench.policy, 1, true);
        assert_eq!(bench.shares(B), Some(1), "one comparison is enough");
    }

    #[test]
    fn a_digest_that_differs_is_a_proof_as_well() {
        let mut bench = Bench::new();
        bench.store(A, 0, true);
        assert_eq!(bench.compares(LIKE_A), None, "the digest says that they differ");
        assert_eq!(bench.shares(LIKE_A), None);
    }
}
