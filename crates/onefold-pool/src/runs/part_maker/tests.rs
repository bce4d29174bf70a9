//! Tests: where parts and segments begin, and which of them have filters.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::{ContainerId, Folder, SimFolder};

use super::*;
use crate::format::pair::Pair;
use crate::format::run::BLOCK_BYTES;
use crate::runs::lookup::Lookup;
use crate::runs::lookup_builder::Builder;
use crate::runs::merge::Output;
use crate::runs::set::Runs;

#[test]
fn filters_are_of_the_first_segments_and_the_first_of_these_are_whole() {
    let plan = FilterPlan { filters: 2, whole: 1 };
    let mut maker = PartMaker::new(plan);
    for segment in 0..3u64 {
        (0..600).for_each(|n| maker.push((segment << 50) | (n << 32)));
        maker.end_segment();
    }
    let places: Vec<_> = maker
        .parts
        .iter()
        .map(|part| (part.segment, part.first_block, part.fences.to_vec(), part.last))
        .collect();
    let fences = |segment: u32| [0, 255, 510].map(|n| (segment << 18) | n).to_vec();
    let last = |segment: u64| (segment << 50) | (599 << 32);
    assert_eq!(
        places,
        [(0, 0, fences(0), last(0)), (1, 0, fences(1), last(1)), (2, 0, fences(2), last(2))]
    );
    let whole: Vec<bool> = maker.filters.iter().map(|filter| filter.is_whole()).collect();
    assert_eq!(whole, [true, false]);
}

#[test]
fn plans_spend_what_is_free_to_the_byte() {
    let each = half_filter_bytes(1000, 4);
    assert_eq!((filter_bytes(1000, 4), each), (5246, 656));
    assert_eq!(half_filter_bytes(1000, 0), 1);
    for (free, filters, left) in [(655, 0, 655), (656, 1, 0), (1313, 2, 1), (9000, 4, 6376)] {
        let mut now = free;
        let halves = FilterPlan::halves((1000, 4), &mut now);
        assert_eq!((halves, now), (FilterPlan { filters, whole: 0 }, left), "{free}");
        assert_eq!(halves.worth(), filters);
    }
    let halves = FilterPlan { filters: 3, whole: 0 };
    for (free, whole, left) in [(655, 0, 655), (1312, 2, 0), (9000, 3, 7032)] {
        let mut now = free;
        let plan = halves.with_wholes((1000, 4), &mut now);
        assert_eq!((plan, now), (FilterPlan { filters: 3, whole }, left), "{free}");
        assert_eq!(plan.worth(), 3 + whole);
    }
    // Two full parts in one segment, which may end in a small one.
    let pairs = 2 * PAIRS_PER_PART as u64;
    let enough = 2 * 3 * half_filter_bytes(pairs, 3);
    let alone = |bytes| FilterPlan::alone(pairs, pairs, bytes);
    assert_eq!(alone(enough), FilterPlan { filters: 3, whole: 3 });
    assert_eq!(alone(enough - 1), FilterPlan { filters: 3, whole: 2 });
}

/// A run of more than a part, in one segment.
fn long_run(runs: &mut Runs, pairs: u64) {
    let covered = (1..=9).map(ContainerId::new).collect();
    let mut output = Output::new(runs.take_number(), 1, Vec::new(), covered, u64::MAX);
    for n in 0..pairs {
        output
            .push(runs, Pair { key: n << 40, rest: ((1 + n / 8000) << 13) | (n % 8000) })
            .unwrap();
    }
    let (run, _) = output.finish(runs).unwrap();
    runs.install(run).unwrap();
}

#[test]
fn of_a_run_of_more_than_a_part_each_block_is_read_once() {
    let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
    let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
    let pairs = PAIRS_PER_PART as u64 + 300;
    long_run(&mut runs, pairs);
    let mut builder = Builder::new(runs.folder(), runs.whole(), 1 << 20, &Lookup::default());
    let mut read = Vec::new();
    while let Some(bytes) = builder.step().unwrap() {
        read.push(bytes);
    }
    // Steps that read nothing count as a byte.
    assert_eq!(read, [256 * BLOCK_BYTES as u64, 2 * BLOCK_BYTES as u64, 1, 1]);
    let lookup = builder.finish();
    let parts = &lookup.runs[0].parts;
    let at: Vec<_> = parts.iter().map(|p| (p.segment, p.first_block, p.fences.len())).collect();
    assert_eq!(at, [(0, 0, 256), (0, 256, 2)]);
    assert_eq!(parts[0].last, (PAIRS_PER_PART as u64 - 1) << 40);
    let plan = lookup.runs[0].plan();
    assert_eq!(plan, FilterPlan { filters: 2, whole: 2 });
    for n in [0, 1, 254, 255, PAIRS_PER_PART as u64 - 1, PAIRS_PER_PART as u64, pairs - 1] {
        let (mut perhaps, mut found) = (Vec::new(), Vec::new());
        lookup.perhaps(n << 40, &mut perhaps);
        for at in perhaps {
            lookup.read(at, n << 40, &mut found).unwrap();
        }
        assert_eq!(found.iter().map(|pair| pair.key).collect::<Vec<_>>(), [n << 40]);
    }
}

#[test]
fn with_less_memory_the_largest_run_loses_its_filters_first_and_runs_go_last() {
    let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
    let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
    long_run(&mut runs, PAIRS_PER_PART as u64 + 300);
    long_run(&mut runs, 400);
    let mut builder = Builder::new(runs.folder(), runs.whole(), 1 << 20, &Lookup::default());
    while builder.step().unwrap().is_some() {}
    let all = builder.finish();
    // In the order of their sizes, whatever the order they come in.
    let order: Vec<usize> = all.runs.iter().map(|run| run.parts.len()).collect();
    let mut turned = all.clone();
    turned.runs.reverse();
    let plans = |lookup: &Lookup| {
        lookup.runs.iter().map(|run| (run.plan().filters, run.plan().whole)).collect::<Vec<_>>()
    };
    for lookup in [&all, &turned] {
        let same = lookup.within(all.bytes());
        assert_eq!((plans(&same), same.bytes()), (vec![(1, 1), (2, 2)], all.bytes()), "{order:?}");
        let less = lookup.within(all.bytes() - 1);
        assert_eq!(plans(&less), [(1, 1), (2, 1)], "the last filter is halved");
        let bare: u64 = all.runs.iter().flat_map(|run| &*run.parts).map(Part::bytes).sum();
        assert_eq!(plans(&lookup.within(bare)), [(0, 0), (0, 0)]);
        let one = lookup.within(bare - 1);
        assert_eq!((plans(&one), one.runs[0].parts.len()), (vec![(0, 0)], 1));
        assert!(lookup.within(0).is_empty());
    }
}
