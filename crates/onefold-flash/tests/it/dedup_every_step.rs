//! Every policy on a drive so small that all of it is checked after every operation, and what the
//! policy is told inside each of them; with power cuts as well.
//! Room: onefold-flash.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use onefold_block::SplitMix64;
use onefold_flash::dedup::{
    AnyPolicy, Identities, Look, Offline, Pair, Policy, Prepared, Site, Verdict,
};
use onefold_flash::ftl::{Durability, FtlError};
use onefold_flash::nand::{Cut, Identity, Nand as _, NandError, Sizes};
use onefold_flash::op::Work;
use onefold_flash::{Driver, FlashOp, Ftl, FtlSettings, Geometry, OpKind};

use crate::dedup_model::{CASES, is_exact};
use crate::validation::kinds::{Array, sized, timed, untimed};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 2,
    blocks_per_plane: 12,
    pages_per_block: 4,
    page_bytes: 256,
    oob_bytes: 64,
};

/// Live pages and their tags, as a policy knows them from what it is told.
type Known = Rc<RefCell<BTreeMap<u32, u64>>>;

/// Policies with their options, on drives whose map has so many entries for each page.
const MAPS: [(&[(&str, &str)], u32); 2] = [(CASES, 1), (CODEWORD_CASES, 4)];
/// Of a map of codewords: ways to decide on them.
const CODEWORD_CASES: &[(&str, &str)] = &[
    ("codeword", "codeword_bytes = 64"),
    ("codeword", "codeword_bytes = 64\nstore_share = 0.05\nbackground = true"),
    ("codeword", "codeword_bytes = 64\nprehash = true\nhash = 'sha1'"),
];

/// A policy under observation: it is told of every page once, in an order that makes sense, and
/// what it is shown is what it was told.
struct Watched {
    policy: AnyPolicy<Identities>,
    known: Known,
    /// Names that the drive may have for a page, or a codeword.
    places: u32,
}

impl Watched {
    fn check(&self, look: &impl Look) {
        let known = self.known.borrow();
        for ppn in 0..self.places {
            assert_eq!(look.is_live(ppn), known.contains_key(&ppn), "page {ppn}");
        }
    }

    fn inner(&mut self) -> &mut impl Policy<Identity> {
        &mut self.policy
    }
}

impl Policy<Identity> for Watched {
    fn prepare(
        &mut self,
        lpn: u32,
        page: &Identity,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        self.check(look);
        self.policy.prepare(lpn, page, prepared, look)
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &Identity,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        self.check(look);
        self.policy.decide(lpn, page, prepared, look)
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        let before = self.known.borrow_mut().insert(ppn, tag);
        assert_eq!(before, None, "page {ppn} is stored where one is");
        self.inner().stored(ppn, tag);
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        let before = self.known.borrow_mut().insert(ppn, tag);
        assert_eq!(before, None, "page {ppn} is found twice");
        self.inner().recovered(ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        let mut known = self.known.borrow_mut();
        assert_eq!(known.remove(&from), Some(tag), "page {from} moves with its tag");
        assert_eq!(known.insert(to, tag), None, "page {from} moves to where one is, {to}");
        drop(known);
        self.inner().moved(from, to, tag);
    }

    fn died(&mut self, ppn: u32) {
        assert!(self.known.borrow_mut().remove(&ppn).is_some(), "page {ppn} dies twice");
        self.inner().died(ppn);
    }

    fn compared(&mut self, candidate: u32, equal: bool) {
        assert!(self.known.borrow().contains_key(&candidate), "dead page {candidate} compared");
        self.inner().compared(candidate, equal);
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        self.check(look);
        let next = Policy::<Identity>::next_offline(&mut self.policy, look);
        if let Some(Offline::Scan { ppn } | Offline::ReadTag { ppn }) = next {
            assert!(look.is_live(ppn), "dead page {ppn} is to be read");
        }
        next
    }

    fn scanned(&mut self, ppn: u32, page: &Identity, look: &mut impl Look) {
        self.check(look);
        self.policy.scanned(ppn, page, look);
    }

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        assert_eq!(self.known.borrow().get(&ppn), Some(&tag), "the tag of page {ppn}");
        self.inner().tag_read(ppn, tag);
    }

    fn settled(&mut self, pair: Pair, merged: bool) {
        let is_live = self.known.borrow().contains_key(&pair.duplicate);
        assert!(!(merged && is_live), "the duplicate {} is given up", pair.duplicate);
        self.inner().settled(pair, merged);
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        Policy::<Identity>::dram(&self.policy)
    }
}

/// Units that are busy at random; flash under observation.
struct Flash {
    random: SplitMix64,
    mixed: u64,
    known: Known,
    codewords: u32,
    moves: u64,
}

impl Flash {
    /// What is in so many pages.
    fn places(&self, first: u32, pages: u32) -> Range<u32> {
        first * self.codewords..(first + pages) * self.codewords
    }
}

impl Driver for Flash {
    fn issue(&mut self, op: FlashOp) {
        let known = self.known.borrow();
        match op.kind {
            OpKind::Erase => {
                let block = self.places(op.ppn, GEOMETRY.pages_per_block);
                assert_eq!(known.range(block).next(), None, "a live page is erased");
            }
            OpKind::Program => {
                let page = self.places(op.ppn, 1);
                assert_eq!(known.range(page).next(), None, "programmed over {}", op.ppn);
            }
            OpKind::Read => {}
        }
        self.moves += u64::from(op.kind == OpKind::Program && !op.foreground);
        self.mixed = self.mixed.wrapping_mul(31) ^ u64::from(op.ppn);
    }

    fn work(&mut self, _work: Work, _foreground: bool) {}

    fn is_idle(&self, plane: u32) -> bool {
        (self.mixed >> (plane % 8)) & 1 == 0
    }

    fn read_ns(&self, plane: u32) -> u64 {
        self.mixed >> (plane % 3) & 255
    }

    fn program_ns(&self) -> u64 {
        self.mixed >> 8 & 255
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        self.random.chance(1, 2).then(|| self.random.below(2) as u32)
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

type Drive = Ftl<Array, Watched>;

fn policy(case: (&str, &str), codewords: u32, known: &Known) -> Watched {
    // Where policies may trust strong hashes, they do.
    let site = Site { hash_outruns_read: true, ..Site::new(GEOMETRY, None) };
    let site = if codewords > 1 { site.of_codewords(codewords, 1) } else { site };
    let options = case.1.parse().expect("TOML");
    let policy = AnyPolicy::new::<Identity>(case.0, &options, &site, Identities);
    known.borrow_mut().clear();
    Watched { policy: policy.expect("accepted"), known: Rc::clone(known), places: site.places }
}

fn settings(durability: Durability, codewords: u32) -> FtlSettings {
    // The rest of the drive is full of mapping pages where there are any.
    let pages = if durability == Durability::Volatile { 50 } else { 26 };
    FtlSettings {
        // Codewords need a page of each block to be packed anew in, and four times the map.
        logical_pages: if codewords > 1 { codewords * pages * 3 / 5 } else { pages },
        gc_reserve_blocks: 2,
        durability,
        subpages: codewords,
        codewords: codewords > 1,
        ..FtlSettings::default()
    }
}

fn nand(codewords: u32) -> Array {
    sized(GEOMETRY, (codewords > 1).then(|| Sizes::codewords(codewords)))
}

/// Map, owners, references and what the policy knows say the same of every page; and every logical
/// page holds what it may.
fn check(drive: &mut Drive, known: &Known, may_hold: &dyn Fn(u32, Option<u128>) -> bool) {
    drive.check_invariants();
    if drive.settings().codewords {
        return check_codewords(drive, known, may_hold);
    }
    let mut references: BTreeMap<u32, u32> = BTreeMap::new();
    for lpn in 0..drive.settings().logical_pages {
        let place = drive.locate(lpn);
        let content = place.map(|ppn| drive.nand().read(ppn).expect("readable").0);
        assert!(may_hold(lpn, content), "logical page {lpn} holds {content:?}");
        if let Some(ppn) = place {
            *references.entry(ppn).or_default() += 1;
        }
    }
    let referred: BTreeSet<u32> = references.keys().copied().collect();
    let live: BTreeSet<u32> = known.borrow().keys().copied().collect();
    assert_eq!(live, referred, "live pages are those that are referred to");
    let stored = drive.stored();
    let logical = references.values().map(|&count| u64::from(count)).sum();
    assert_eq!((stored.logical_pages, stored.data_pages), (logical, references.len() as u64));
    let several = references.values().filter(|&&count| count > 1).count();
    assert!(drive.shared().live() as usize >= several, "pages with several references are shared");
}

/// The same of codewords, of which some wait for others to fill a flash page with: those are known
/// by places that no logical one is at.
fn check_codewords(drive: &mut Drive, known: &Known, may_hold: &dyn Fn(u32, Option<u128>) -> bool) {
    let flash = drive.places();
    let mut referred: BTreeSet<u32> = BTreeSet::new();
    for lpn in 0..drive.settings().logical_pages {
        let content = drive.read(lpn, &mut untimed()).expect("readable").map(|page| page.0);
        assert!(may_hold(lpn, content), "logical codeword {lpn} holds {content:?}");
        referred.extend(drive.locate(lpn));
    }
    let live: BTreeSet<u32> = known.borrow().range(..flash).map(|(&place, _)| place).collect();
    assert_eq!(live, referred, "live codewords are those that are referred to");
    let stored = drive.stored();
    assert_eq!((stored.contents, stored.data_subpages), (live.len() as u64, live.len() as u64));
    let waiting = known.borrow().range(flash..).count();
    assert!(waiting <= drive.settings().subpages as usize * 2, "{waiting} wait");
}

enum Did {
    Write(u32, u128),
    Trim(u32),
    Flush,
    Nothing,
}

/// One random operation, and whether it was done; the power may be off instead.
fn act(
    drive: &mut Drive,
    flash: &mut Flash,
    contents: u64,
    random: &mut SplitMix64,
) -> (Did, bool) {
    let flash = &mut timed(flash);
    let lpn = random.below(u64::from(drive.settings().logical_pages)) as u32;
    let (did, result) = match random.below(16) {
        0 => (Did::Trim(lpn), drive.trim(lpn, flash)),
        1 => (Did::Flush, drive.flush(flash)),
        2..5 => (Did::Nothing, drive.deduplicate_step(flash).map(drop)),
        5 => (Did::Nothing, drive.collect_idle(random.below(2) as u32, flash).map(drop)),
        _ => {
            let content = u128::from(random.below(contents));
            let written = drive.write(lpn, &Identity(content), flash);
            (Did::Write(lpn, content), written.map(drop))
        }
    };
    match result {
        Ok(()) => (did, true),
        Err(FtlError::Nand(NandError::PowerOff)) => (did, false),
        Err(error) => panic!("unexpected: {error}"),
    }
}

fn flash(seed: u64, codewords: u32, known: &Known) -> Flash {
    let random = SplitMix64::new(seed);
    Flash { random, mixed: seed, known: Rc::clone(known), codewords, moves: 0 }
}

/// Every case, with the entries that the map has for a page.
fn cases() -> impl Iterator<Item = ((&'static str, &'static str), u32)> {
    MAPS.iter().flat_map(|&(cases, codewords)| cases.iter().map(move |&case| (case, codewords)))
}

#[test]
fn references_are_counted_right_after_every_operation_of_every_policy() {
    let mut moves = 0;
    for (case, codewords) in cases() {
        for (seed, contents) in [(1, 3), (2, 12), (3, 1000)] {
            println!("{case:?} seed {seed} contents {contents}");
            let known = Known::default();
            let watched = policy(case, codewords, &known);
            let durability = if seed == 2 { Durability::Journal } else { Durability::Volatile };
            let settings = settings(durability, codewords);
            let mut drive = Ftl::format(nand(codewords), watched, settings).expect("fits");
            let mut flash = flash(seed, codewords, &known);
            let mut random = SplitMix64::new(seed ^ 0x51);
            let mut model: Vec<Option<u128>> = vec![None; settings.logical_pages as usize];
            for _ in 0..1200 {
                match act(&mut drive, &mut flash, contents, &mut random).0 {
                    Did::Write(lpn, content) => model[lpn as usize] = Some(content),
                    Did::Trim(lpn) => model[lpn as usize] = None,
                    Did::Flush | Did::Nothing => {}
                }
                check(&mut drive, &known, &|lpn, content| content == model[lpn as usize]);
            }
            moves += flash.moves;
            assert!(flash.moves > 50 || contents < 1000, "{case:?}: {} moved", flash.moves);
            while drive.deduplicate_step(&mut timed(&mut flash)).expect("done") {
                check(&mut drive, &known, &|lpn, content| content == model[lpn as usize]);
            }
            if is_exact(case.0, case.1) {
                let distinct: BTreeSet<u128> = model.iter().flatten().copied().collect();
                assert_eq!(known.borrow().len(), distinct.len(), "{case:?}: one page a content");
            }
        }
    }
    println!("{moves} pages moved");
    assert!(moves > 5000, "{moves} pages moved");
}

/// What each page may hold: its contents since the last flush, the newest last.
type Allowed = Vec<Vec<Option<u128>>>;

/// Operations until the power goes; everything is checked after each of them.
fn until_cut(drive: &mut Drive, flash: &mut Flash, allowed: &mut Allowed, random: &mut SplitMix64) {
    for _ in 0..400 {
        let (did, on) = act(drive, flash, 12, random);
        match did {
            Did::Write(lpn, content) => allowed[lpn as usize].push(Some(content)),
            Did::Trim(lpn) => allowed[lpn as usize].push(None),
            Did::Flush if on => {
                for all in allowed.iter_mut() {
                    *all = vec![*all.last().expect("never empty")];
                }
            }
            Did::Flush | Did::Nothing => {}
        }
        if !on {
            return;
        }
        let known = Rc::clone(&flash.known);
        let newest = |lpn: u32, held| allowed[lpn as usize].last() == Some(&held);
        check(drive, &known, &newest);
    }
}

#[test]
fn references_are_counted_right_after_every_operation_between_power_cuts() {
    for (case, codewords) in cases() {
        for seed in 0..4 {
            println!("{case:?} seed {seed}");
            let known = Known::default();
            let settings = settings(Durability::Journal, codewords);
            let watched = policy(case, codewords, &known);
            let mut drive = Ftl::format(nand(codewords), watched, settings).expect("fits");
            let mut flash = flash(seed, codewords, &known);
            let mut random = SplitMix64::new(seed ^ 0x77);
            let mut allowed: Allowed = vec![vec![None]; settings.logical_pages as usize];
            for _ in 0..6 {
                let cut = [Cut::Before, Cut::Torn, Cut::After][random.below(3) as usize];
                drive.nand().cut_after(random.below(200), cut);
                until_cut(&mut drive, &mut flash, &mut allowed, &mut random);
                let mut nand = drive.into_nand();
                nand.restore();
                let opened = Ftl::open(nand, policy(case, codewords, &known), settings);
                drive = opened.expect("recovered").0;
                let may = |lpn: u32, held| allowed[lpn as usize].contains(&held);
                check(&mut drive, &known, &may);
                for lpn in 0..settings.logical_pages {
                    let held = drive
                        .read(lpn, &mut timed(&mut flash))
                        .expect("readable")
                        .map(|page| page.0);
                    allowed[lpn as usize] = vec![held];
                }
            }
            while drive.deduplicate_step(&mut timed(&mut flash)).expect("done") {
                check(&mut drive, &known, &|lpn, held| allowed[lpn as usize] == [held]);
            }
        }
    }
}
