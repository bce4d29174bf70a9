//! V7 and V10: nothing is made or lost but by what is counted, and the same seed does the same.
//! Room: onefold-flash.

use std::collections::BTreeMap;

use crate::validation::kinds::{array, timed};
use crate::validation::perfect::PerfectTable;
use onefold_flash::ftl::{Counters, Durability, Pacing, VictimRule};
use onefold_flash::nand::Identity;
use onefold_flash::{Cause, Driver, FlashOp, Ftl, FtlSettings, Geometry, OpKind};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 2,
    dies_per_package: 1,
    planes_per_die: 1,
    blocks_per_plane: 24,
    pages_per_block: 8,
    page_bytes: 128,
    oob_bytes: 64,
};

/// Counts what it is told, on its own.
#[derive(Default)]
struct Watch {
    programs: BTreeMap<&'static str, u64>,
    erases: u64,
    hash: u64,
}

impl Driver for Watch {
    fn issue(&mut self, op: FlashOp) {
        match op.kind {
            OpKind::Program => *self.programs.entry(op.cause.name()).or_default() += 1,
            OpKind::Erase => self.erases += 1,
            OpKind::Read => {}
        }
        let word = u64::from(op.ppn) | (op.kind as u64) << 32 | (op.cause as u64) << 36;
        self.hash = (self.hash.rotate_left(7) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn work(&mut self, _work: onefold_flash::op::Work, _foreground: bool) {}

    fn is_idle(&self, _plane: u32) -> bool {
        true
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(u32, u64),
    Trim(u32, u32),
    Read(u32),
    Deduplicate,
    CollectIdle(u32),
    Flush,
    Checkpoint,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..140_u32, 0..60_u64).prop_map(|(lpn, content)| Op::Write(lpn, content)),
        2 => (0..130_u32, 1..10_u32).prop_map(|(lpn, count)| Op::Trim(lpn, count)),
        2 => (0..140_u32).prop_map(Op::Read),
        4 => Just(Op::Deduplicate),
        2 => (0..2_u32).prop_map(Op::CollectIdle),
        1 => Just(Op::Flush),
        1 => Just(Op::Checkpoint),
    ]
}

fn settings() -> impl Strategy<Value = FtlSettings> {
    let victims = prop_oneof![
        Just(VictimRule::Greedy),
        Just(VictimRule::Fifo),
        Just(VictimRule::DChoices(2)),
        Just(VictimRule::CostBenefit),
    ];
    let durability = prop_oneof![
        Just(Durability::Volatile),
        Just(Durability::NoJournal),
        Just(Durability::Journal),
        Just(Durability::Protected),
    ];
    (victims, durability, any::<bool>(), any::<bool>(), 0..4_u32, 1..200_u32).prop_map(
        |(victim, durability, whole, cached, wear_spread, checkpoint_pages)| FtlSettings {
            logical_pages: 140,
            gc_reserve_blocks: 4,
            victim,
            durability,
            pacing: if whole { Pacing::WholeBlock } else { Pacing::Incremental },
            map_cache_bytes: if cached { 4 * 128 } else { 0 },
            wear_spread,
            checkpoint_pages,
            ..FtlSettings::default()
        },
    )
}

fn play(settings: FtlSettings, inline_percent: u64, ops: &[Op]) -> (Counters, u64) {
    let mut watch = Watch::default();
    let d = &mut timed(&mut watch);
    let table = PerfectTable::new(inline_percent, 1);
    let mut ftl = Ftl::format(array(GEOMETRY), table, settings).expect("fits");
    let mut model = vec![None; 140];
    for op in ops {
        match *op {
            Op::Write(lpn, content) => {
                let page = Identity::of_number(content);
                ftl.write(lpn, &page, d).expect("writes");
                model[lpn as usize] = Some(page);
            }
            Op::Trim(lpn, count) => {
                ftl.trim_range(lpn, count, d).expect("trims");
                model[lpn as usize..(lpn + count) as usize].fill(None);
            }
            Op::Read(lpn) => {
                assert_eq!(ftl.read(lpn, d).expect("reads"), model[lpn as usize]);
            }
            Op::Deduplicate => {
                ftl.deduplicate_step(d).expect("looks");
            }
            Op::CollectIdle(plane) => {
                ftl.collect_idle(plane, d).expect("collects");
            }
            Op::Flush => ftl.flush(d).expect("flushes"),
            Op::Checkpoint => ftl.checkpoint(d).expect("checkpoints"),
        }
        ftl.check_invariants();
    }
    // Offline deduplication comes to an end, and leaves each content once.
    while ftl.deduplicate_step(d).expect("looks") {}
    ftl.check_invariants();
    for lpn in 0..140 {
        assert_eq!(ftl.read(lpn, d).expect("reads"), model[lpn as usize]);
    }
    assert_eq!(ftl.policy().duplicates(), 0);
    let counters = *ftl.counters();
    for cause in Cause::ALL {
        let seen = watch.programs.get(cause.name()).copied().unwrap_or(0);
        assert_eq!(counters.ops.of(OpKind::Program, cause), seen, "programs for {}", cause.name());
    }
    assert_eq!(counters.ops.all(OpKind::Erase), watch.erases);
    let host = counters.ops.of(OpKind::Program, Cause::Host);
    assert_eq!(counters.host_pages_written, host + counters.inline_pages);
    (counters, watch.hash)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_page_is_accounted_for(
        settings in settings(),
        inline_percent in 0..=100_u64,
        ops in prop::collection::vec(op(), 1..600),
    ) {
        let first = play(settings, inline_percent, &ops);
        let second = play(settings, inline_percent, &ops);
        prop_assert_eq!(first, second, "the same seed does the same");
    }
}
