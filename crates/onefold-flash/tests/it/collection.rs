//! When collection begins and ends, which planes are passed over, and what happens to a victim.
//! Room: onefold-flash.

use crate::validation::kinds::{Array, array, none, timed, untimed};
use crate::validation::steady;
use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities};
use onefold_flash::ftl::blocks::BlockState;
use onefold_flash::ftl::{Pacing, VictimRule};
use onefold_flash::nand::Identity;
use onefold_flash::op::{Driver, FlashOp, Work};
use onefold_flash::{Cause, Ftl, FtlSettings, Geometry};

type Drive = Ftl<Array, AnyPolicy<Identities>>;

const PAGE: Identity = Identity(1);

const PAGES: u32 = 600;

/// A plane of 64 blocks of 16 pages, with 600 logical pages that are all written.
fn full(settings: FtlSettings) -> Drive {
    let geometry = steady::plane(64, 16);
    let settings = FtlSettings { logical_pages: PAGES, ..settings };
    let mut ftl = Ftl::format(array(geometry), none(), settings).expect("fits");
    for lpn in 0..PAGES {
        ftl.write(lpn, &PAGE, &mut untimed()).expect("writes");
    }
    ftl
}

/// Counts operations of collection, and wants all host pages on one plane, if any.
#[derive(Default)]
pub struct Watch {
    pub collected: u64,
    pub plane: Option<u32>,
}

impl Driver for Watch {
    fn issue(&mut self, op: FlashOp) {
        self.collected += u64::from(op.cause == Cause::Gc);
    }

    fn work(&mut self, _work: Work, _foreground: bool) {}

    fn is_idle(&self, _plane: u32) -> bool {
        true
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        self.plane
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[test]
fn collection_begins_when_no_more_blocks_than_the_reserve_are_free() {
    for reserve in 2..=6 {
        for pacing in [Pacing::Incremental, Pacing::WholeBlock] {
            let settings =
                FtlSettings { gc_reserve_blocks: reserve, pacing, ..FtlSettings::default() };
            let mut ftl = full(settings);
            let mut random = SplitMix64::new(reserve.into());
            let mut begun = None;
            for turn in 0..5_000 {
                let what = format!("reserve {reserve}, {pacing:?}, write {turn}");
                let free = ftl.blocks().free_of(0);
                let mut watch = Watch::default();
                let lpn = random.below(PAGES.into()) as u32;
                ftl.write(lpn, &PAGE, &mut timed(&mut watch))
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                let collected = watch.collected > 0;
                assert!(collected || free > reserve, "{what}: {free} free, nothing collected");
                if collected {
                    begun = begun.or(Some(free));
                }
            }
            assert_eq!(begun, Some(reserve), "{pacing:?}: the first time");
        }
    }
}

#[test]
fn idle_moments_collect_up_to_the_free_blocks_asked_for() {
    for (idle, enough) in [(0, 5), (3, 5), (5, 5), (12, 12)] {
        let settings = FtlSettings { gc_idle_blocks: idle, ..FtlSettings::default() };
        let mut ftl = full(settings);
        let mut random = SplitMix64::new(idle.into());
        for _ in 0..2_000 {
            ftl.write(random.below(PAGES.into()) as u32, &PAGE, &mut untimed()).expect("writes");
        }
        assert!(ftl.blocks().free_of(0) <= 5, "collection has begun, at a reserve of 4");
        let mut steps = 0;
        while ftl.collect_idle(0, &mut untimed()).expect("collects") {
            steps += 1;
            assert!(steps < 10_000, "it does not end");
        }
        assert_eq!(ftl.blocks().free_of(0), enough, "{idle} asked for");
        ftl.check_invariants();
    }
}

/// A driver that wants every page on one plane gets it there until collection could free nothing.
#[test]
fn a_plane_that_is_full_of_live_pages_is_passed_over() {
    let geometry = Geometry { planes_per_die: 2, ..steady::plane(32, 16) };
    let settings = FtlSettings { logical_pages: 700, ..FtlSettings::default() };
    let mut ftl = Ftl::format(array(geometry), none(), settings).expect("fits");
    let mut watch = Watch { plane: Some(0), ..Watch::default() };
    let mut random = SplitMix64::new(4);
    for turn in 0..20_000 {
        let lpn = if turn < 700 { turn } else { random.below(700) as u32 };
        ftl.write(lpn, &PAGE, &mut timed(&mut watch))
            .unwrap_or_else(|error| panic!("write {turn}: {error}"));
        // Three blocks are for the host's open one, for copies and for what is being freed.
        assert!(ftl.blocks().live_of_plane(0) <= (32 - 3) * 16, "write {turn}");
    }
    assert!(ftl.blocks().live_of_plane(0) > 28 * 16, "the plane asked for is used");
    ftl.check_invariants();
}

#[test]
fn a_victim_is_in_no_other_choice_until_it_is_erased() {
    for victim in [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit] {
        let settings = FtlSettings { gc_idle_blocks: 12, victim, ..FtlSettings::default() };
        let mut ftl = full(settings);
        let mut random = SplitMix64::new(7);
        for _ in 0..2_000 {
            ftl.write(random.below(PAGES.into()) as u32, &PAGE, &mut untimed()).expect("writes");
        }
        let victims = |ftl: &Drive| -> Vec<u32> {
            (0..64).filter(|&block| ftl.blocks().state(block) == BlockState::Victim).collect()
        };
        let mut left = 200;
        while victims(&ftl).is_empty() {
            assert!(ftl.collect_idle(0, &mut untimed()).expect("collects"), "{victim:?}");
            left -= 1;
            assert!(left > 0, "{victim:?}: nothing is being emptied");
        }
        let [block] = victims(&ftl)[..] else { panic!("{victim:?}: one at a time") };
        assert_eq!(ftl.blocks().scores(0)[block as usize], u32::MAX, "{victim:?}");
        // Even when the host trims the rest of it: only who empties it may erase it.
        for lpn in 0..PAGES {
            if ftl.locate(lpn).is_some_and(|ppn| ppn / 16 == block) {
                ftl.trim(lpn, &mut untimed()).expect("trims");
            }
        }
        assert_eq!(ftl.blocks().live(block), 0, "{victim:?}");
        assert!(!ftl.blocks().is_dead(block), "{victim:?}");
        assert_ne!(ftl.blocks().least_worn_full(0), Some(block), "{victim:?}");
        while ftl.blocks().state(block) == BlockState::Victim {
            assert!(ftl.collect_idle(0, &mut untimed()).expect("collects"), "{victim:?}");
        }
        assert_eq!(ftl.blocks().state(block), BlockState::Free, "{victim:?}");
        ftl.check_invariants();
    }
}
