//! Compressed pages and codewords that wait, and what is told of them.
//! Room: onefold-flash.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dedup::{Engine, Look, NoDedup};
use crate::ftl::packing::TOGETHER_MAX;
use crate::ftl::view::view;
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings, Written};
use crate::nand::{Identity, IdentityNand, Sizes};
use crate::op::{Driver, FlashOp, Untimed, Work};
use crate::testing::plane::plane;

use super::told::{Asked, Teller, Telling, Told};

fn settings() -> FtlSettings {
    FtlSettings { logical_pages: 200, subpages: 4, packing_pages: 2, ..FtlSettings::default() }
}

fn nand() -> IdentityNand {
    let engine = Engine::BeforeScrambler;
    let sizes = Sizes { subpages: 4, percent: 50, spread: 0, engine, plain: None };
    IdentityNand::new(plane(64, 16)).with_sizes(Some(sizes))
}

/// A page that waits takes so many logical ones, and the next of them shares it in the flash.
#[test]
fn many_wait_for_one_page_until_it_has_to_be_programmed() {
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(nand(), &told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings()).expect("fits");
    let page = Identity::of_number(7);
    assert_eq!(ftl.write(3, &page, d).expect("writes"), Written::Waits);
    assert_eq!(ftl.write(3, &page, d).expect("writes"), Written::SharesWaiting);
    let most = TOGETHER_MAX as u32;
    for lpn in 10..10 + most - 1 {
        assert_eq!(ftl.write(lpn, &page, d).expect("writes"), Written::SharesWaiting);
        let version = ftl.packing_version();
        assert_eq!(ftl.write(lpn, &page, d).expect("again"), Written::SharesWaiting);
        assert_eq!(ftl.packing_version(), version, "it waits there already");
        ftl.check_invariants();
    }
    assert_eq!(ftl.waiting().next().expect("waits").0.len(), TOGETHER_MAX);
    let Written::Shared { ppn } = ftl.write(100, &page, d).expect("writes") else {
        panic!("one too many waits");
    };
    assert_eq!(ftl.waiting().count(), 0);
    for lpn in [3, 10, 11, 10 + most - 2, 100] {
        assert_eq!(ftl.locate(lpn), Some(ppn), "page {lpn}");
        assert_eq!(ftl.read(lpn, d).expect("reads"), Some(page));
    }
    ftl.check_invariants();
    assert_eq!(ftl.counters().inline_pages, 2 * u64::from(most));
    assert_eq!((ftl.counters().packed_pages, ftl.counters().packed_subpages), (1, 2));
}

/// A codeword for which there would be no page when the power goes does not wait.
#[test]
fn a_codeword_that_may_not_wait_is_programmed_alone() {
    let settings = FtlSettings {
        durability: Durability::Protected,
        codewords: true,
        packing_survives: true,
        ..settings()
    };
    let made = || {
        let nand = IdentityNand::new(plane(64, 16)).with_sizes(Some(Sizes::codewords(4)));
        Ftl::format(nand, NoDedup, settings).expect("fits")
    };
    let mut ftl = made();
    let page = |lpn: u32| Identity::of_number(100 + u64::from(lpn));
    ftl.write(0, &page(0), &mut Untimed).expect("writes");
    assert!(ftl.packing.has(0), "there is room for the rescue");
    while ftl.space.blocks().free_of(0) > 2 {
        ftl.space.take_free(0);
    }
    ftl.write(1, &page(1), &mut Untimed).expect("writes");
    assert!(!ftl.packing.has(0) && !ftl.packing.has(1), "nothing waits any more");
    for lpn in [0, 1] {
        assert_eq!(ftl.read(lpn, &mut Untimed).expect("reads"), Some(page(lpn)));
    }
    assert_eq!((ftl.counters().fragments, ftl.counters().packed_pages), (2, 2));
    // Where there is no page either, it was never written.
    let mut ftl = made();
    while ftl.space.blocks().free_of(0) > 0 {
        ftl.space.take_free(0);
    }
    let refused = ftl.write(1, &page(1), &mut Untimed).expect_err("there is no page");
    assert!(matches!(refused, FtlError::NoSpace { .. }), "{refused}");
    assert_eq!(ftl.read(1, &mut Untimed).expect("reads"), None);
    assert_eq!((ftl.counters().fragments, ftl.counters().fragments_dropped), (0, 0));
    ftl.check_invariants();
}

/// What waits goes on waiting while there is just room for it, and no longer.
#[test]
fn a_flush_leaves_what_would_find_a_page_without_power() {
    let settings = FtlSettings {
        durability: Durability::Protected,
        codewords: true,
        packing_survives: true,
        packing_pages: 8,
        ..settings()
    };
    let nand = IdentityNand::new(plane(256, 4)).with_sizes(Some(Sizes::codewords(4)));
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    let page = |lpn: u32| Identity::of_number(100 + u64::from(lpn));
    for lpn in 0..5 {
        ftl.write(lpn, &page(lpn), &mut Untimed).expect("writes");
    }
    while ftl.space.blocks().free_of(0) > 3 {
        ftl.space.take_free(0);
    }
    // The pages of one block, as two may fail: for the two that wait and two of records.
    assert_eq!((ftl.packing.flash_pages(), ftl.space.rescue_pages()), (2, 4));
    ftl.flush(&mut Untimed).expect("flushes");
    ftl.keep_waiting_safe(&mut Untimed).expect("nothing to do");
    assert_eq!(ftl.waiting().count(), 5);
    ftl.write(5, &page(5), &mut Untimed).expect("writes");
    assert_eq!(ftl.waiting().count(), 0, "a page more might find none");
}

/// A driver whose planes are busy.
struct Busy;

impl Driver for Busy {
    fn issue(&mut self, _op: FlashOp) {}

    fn work(&mut self, _work: Work, _foreground: bool) {}

    fn is_idle(&self, _plane: u32) -> bool {
        false
    }

    fn read_ns(&self, plane: u32) -> u64 {
        500 + u64::from(plane)
    }

    fn program_ns(&self) -> u64 {
        700
    }

    fn work_ns(&self, _work: Work) -> u64 {
        900
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[test]
fn a_policy_sees_what_waits_at_once_and_the_flash_in_its_time() {
    let mut ftl = Ftl::format(nand(), NoDedup, settings()).expect("fits");
    let page = Identity::of_number(7);
    ftl.write(5, &page, &mut Untimed).expect("writes");
    ftl.flush(&mut Untimed).expect("flushes");
    ftl.write(6, &page, &mut Untimed).expect("writes");
    ftl.write_asked(7, &page, Some(false), &mut Untimed).expect("writes");
    let mut busy = Busy;
    let look = view!(ftl, &mut busy, true);
    let [stored, waits, kept] = [5, 6, 7].map(|lpn| look.locate(lpn).expect("there"));
    assert_eq!(look.locate(8), None);
    assert_eq!([stored, waits, kept].map(|at| look.is_live(at)), [true, true, false]);
    assert_eq!([stored, waits].map(|at| look.is_idle(at)), [false, true]);
    assert_eq!([stored, waits].map(|at| look.read_ns(at)), [500, 0]);
    assert_eq!((look.program_ns(), look.work_ns(Work::Hash)), (700, 900));
}

/// What dies on its way out of a victim is forgotten with the block: what is written to its old
/// place later has nothing to do with it.
#[test]
fn what_died_on_its_way_is_on_its_way_no_more() {
    let settings = FtlSettings { gc_idle_blocks: 64, packing_pages: 1, ..settings() };
    let mut ftl = Ftl::format(nand(), NoDedup, settings).expect("fits");
    for lpn in 0..100 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut Untimed).expect("writes");
    }
    ftl.flush(&mut Untimed).expect("flushes");
    for lpn in (0..100).step_by(2) {
        ftl.trim(lpn, &mut Untimed).expect("trims");
    }
    while ftl.gathered[0].is_empty() {
        assert!(ftl.collect_idle(0, &mut Untimed).expect("collects"));
    }
    let victim = ftl.victims.of(0).expect("chosen").block;
    for lpn in 0..100 {
        if ftl.locate(lpn).is_some_and(|place| ftl.layout.block_of(place) == victim) {
            ftl.trim(lpn, &mut Untimed).expect("trims");
        }
    }
    assert!(ftl.collect_idle(0, &mut Untimed).expect("collects"));
    assert_eq!(ftl.space.blocks().written(victim), 0, "erased");
    assert!(ftl.gathered[0].is_empty());
}

#[test]
fn a_page_that_waits_twice_is_found() {
    let mut ftl = Ftl::format(nand(), NoDedup, settings()).expect("fits");
    ftl.write(5, &Identity::of_number(7), &mut Untimed).expect("writes");
    ftl.check_invariants();
    let place = ftl.packing.place_of(5).expect("waits");
    ftl.packing.join(5, place);
    let checked = catch_unwind(AssertUnwindSafe(|| ftl.check_invariants()));
    assert!(checked.is_err());
}
