//! Tests: which runs count, which files go, and what is merged.
//! Room: onefold-pool.

use onefold_block::SimFolder;

use super::*;
use crate::format::pair::Pair;
use crate::format::run::BLOCK_BYTES;
use crate::runs::writer::SegmentWriter;

const UUID: [u8; 16] = [4; 16];
const WHOLE: u64 = u64::MAX;

fn folder() -> Arc<dyn Folder> {
    Arc::new(SimFolder::new())
}

/// A run's only segment so far, of keys up to `last`.
fn segment(folder: &Arc<dyn Folder>, run: u32, inputs: &[u32], last: u64, keys: &[u64]) {
    let header = SegmentHeader { run, sequence: 3, inputs: inputs.to_vec(), ..Default::default() };
    let mut writer = SegmentWriter::begin(folder, UUID, header).unwrap();
    for &key in keys {
        writer.push(Pair { key, rest: 1 << 13 }).unwrap();
    }
    writer.finish(last, &[ContainerId::new(run)]).unwrap();
}

fn numbers(runs: &[Run]) -> Vec<u32> {
    runs.iter().map(|run| run.number).collect()
}

#[test]
fn what_was_merged_and_merges_that_cannot_be_gone_on_with_go() {
    let folder = folder();
    segment(&folder, 1, &[], WHOLE, &[5]);
    segment(&folder, 2, &[], WHOLE, &[6]);
    segment(&folder, 3, &[1, 2, 8], WHOLE, &[5, 6]);
    segment(&folder, 4, &[3], 100, &[5]);
    // A second one, one of nothing, one of a run that is not there, one that was merged.
    segment(&folder, 5, &[3], 100, &[5]);
    segment(&folder, 6, &[], 100, &[5]);
    segment(&folder, 7, &[3, 9], 100, &[5]);
    segment(&folder, 8, &[3], 100, &[5]);
    let found = survey(&*folder, &UUID, 3).unwrap();
    assert_eq!((numbers(&found.whole), found.problems.len()), (vec![3], 0));
    assert_eq!(found.unfinished.unwrap().number, 4);
    let mut useless = found.useless;
    useless.sort();
    assert_eq!(useless, [1, 2, 5, 6, 7, 8].map(|run| file_name(run, 0)));
    let (mut runs, problems) = Runs::open(Arc::clone(&folder), UUID, 3).unwrap();
    assert_eq!((numbers(runs.whole()), problems.len()), (vec![3], 0));
    assert_eq!(folder.list().unwrap(), [3, 4].map(|run| file_name(run, 0)));
    assert!(runs.covers(ContainerId::new(3)) && !runs.covers(ContainerId::new(1)));
    assert_eq!([runs.take_number(), runs.take_number()], [5, 6]);
    let (run, inputs) = runs.take_unfinished().unwrap();
    assert_eq!((run.number, numbers(&inputs)), (4, vec![3]));
}

#[test]
fn a_merge_that_can_be_gone_on_with_is_found_behind_others() {
    let folder = folder();
    segment(&folder, 1, &[], WHOLE, &[5]);
    segment(&folder, 2, &[], 100, &[5]);
    segment(&folder, 3, &[1, 9], 100, &[5]);
    segment(&folder, 4, &[1], 100, &[5]);
    assert_eq!(survey(&*folder, &UUID, 3).unwrap().unfinished.unwrap().number, 4);
}

#[test]
fn files_that_are_damaged_or_misnamed_go_and_are_told_of() {
    let folder = folder();
    segment(&folder, 1, &[], WHOLE, &[5]);
    folder.open(&file_name(1, 0)).unwrap().write(20, &[0xA5]).unwrap();
    segment(&folder, 2, &[], WHOLE, &[5]);
    folder.rename(&file_name(2, 0), &file_name(2, 1)).unwrap();
    drop(folder.create(&format!("{}{}", file_name(3, 0), small_file::UNFINISHED)).unwrap());
    drop(folder.create("somebody.else").unwrap());
    let useless = survey(&*folder, &UUID, 3).unwrap().useless;
    assert_eq!(useless.len(), 3, "{useless:?}");
    let (mut runs, problems) = Runs::open(Arc::clone(&folder), UUID, 3).unwrap();
    assert_eq!((runs.whole().len(), problems.len()), (0, 2));
    assert_eq!(folder.list().unwrap(), ["somebody.else"]);
    assert_eq!(runs.take_number(), 1, "the first that there is");
    segment(&folder, u32::MAX, &[], WHOLE, &[5]);
    let (mut runs, _) = Runs::open(folder, UUID, 3).unwrap();
    assert_eq!(runs.take_number(), 1, "after the last one comes the first");
}

#[test]
fn a_run_is_verified_from_its_first_pair_on() {
    let folder = folder();
    segment(&folder, 1, &[], WHOLE, &[0; 300]);
    let (runs, _) = Runs::open(Arc::clone(&folder), UUID, 3).unwrap();
    runs.whole()[0].read_all(&folder).unwrap();
    folder.open(&file_name(1, 0)).unwrap().write(BLOCK_BYTES as u64 + 9, &[1]).unwrap();
    assert!(runs.whole()[0].read_all(&folder).is_err());
    // It goes, and what it was read for is read again.
    let (mut runs, _) = Runs::open(Arc::clone(&folder), UUID, 3).unwrap();
    runs.drop_damaged(1).unwrap();
    assert!(!runs.covers(ContainerId::new(1)) && folder.list().unwrap().is_empty());
}

/// Runs of so many pairs each, those with a mark merged ones.
fn runs_of(pairs: &[(u64, bool)]) -> Runs {
    let (mut runs, _) = Runs::open(folder(), UUID, 3).unwrap();
    runs.whole = (1..)
        .zip(pairs)
        .map(|(number, &(pairs, merged))| {
            let inputs = if merged { vec![900] } else { Vec::new() };
            let part = SegmentHeader { run: number, pairs, inputs, ..Default::default() };
            Run { number, parts: [part].into(), covered: Arc::default() }
        })
        .collect();
    runs
}

/// Numbers of those that are merged next.
fn merged(pairs: &[u64], least: u64, thoroughness: Thoroughness) -> Option<Vec<u32>> {
    let pairs: Vec<(u64, bool)> = pairs.iter().map(|&pairs| (pairs, false)).collect();
    runs_of(&pairs).to_merge(least, thoroughness).map(|runs| numbers(&runs))
}

#[test]
fn eight_runs_of_a_level_are_merged_and_sixteen_at_most() {
    let levels = |pairs: &[u64], least| merged(pairs, least, Thoroughness::Levels);
    assert_eq!(levels(&[100; 7], 100), None);
    assert_eq!(levels(&[100; 8], 100), Some((1..=8).collect()));
    assert_eq!(levels(&[100; 17], 100), Some((1..=16).collect()));
    // Up to 100, to 800 and to 6400 pairs.
    for (below, above) in [(100, 101), (800, 801), (6400, 6401)] {
        let of = |n, last| [vec![n; 7], vec![last]].concat();
        assert_eq!(levels(&of(below, above), 100), None, "{below}");
        assert_eq!(levels(&of(below, below), 100).unwrap().len(), 8, "{below}");
        assert_eq!(levels(&of(above, above), 100).unwrap().len(), 8, "{above}");
    }
    for least in [0, 1] {
        assert_eq!(levels(&[1, 1, 1, 1, 2, 2, 2, 2], least), None, "{least}");
        assert_eq!(levels(&[2, 3, 4, 5, 6, 7, 8, 8], least).unwrap().len(), 8, "{least}");
    }
    // The lowest level comes first.
    let both = [vec![500; 8], vec![50; 8]].concat();
    assert_eq!(levels(&both, 100), Some((9..=16).collect()));
}

#[test]
fn where_all_is_to_meet_the_smallest_are_merged_first() {
    let whole = |pairs: &[u64]| merged(pairs, 100, Thoroughness::Whole);
    assert_eq!(whole(&[]), None);
    assert_eq!(whole(&[70]), Some(vec![1]), "its own pairs have not met");
    let three_levels = [vec![5000; 7], vec![500; 7], vec![50; 7]].concat();
    let smallest: Vec<u32> = (15..=21).chain(8..=14).chain(1..=2).collect();
    assert_eq!(whole(&three_levels), Some(smallest));
    assert_eq!(merged(&three_levels, 100, Thoroughness::Levels), None);
    // One that is merged has met all of its own.
    assert!(runs_of(&[(70, true)]).to_merge(100, Thoroughness::Whole).is_none());
    for (new, idle) in [(249, false), (250, true)] {
        let runs = runs_of(&[(1000, true), (new, false)]);
        assert_eq!(runs.to_merge(100, Thoroughness::Idle).is_some(), idle, "{new}");
        assert!(runs.to_merge(100, Thoroughness::Whole).is_some());
    }
    assert!(runs_of(&[(3, true)]).to_merge(100, Thoroughness::Idle).is_none());
    assert!(runs_of(&[(3, true), (1, false)]).to_merge(100, Thoroughness::Idle).is_some());
}

#[test]
fn a_run_that_lacks_a_segment_goes_and_is_told_of() {
    let folder = folder();
    let header = SegmentHeader { run: 7, part: 1, sequence: 3, first: 5, ..Default::default() };
    let writer = SegmentWriter::begin(&folder, UUID, header).unwrap();
    writer.finish(WHOLE, &[]).unwrap();
    let found = survey(&*folder, &UUID, 3).unwrap();
    assert_eq!((found.whole.len(), found.useless), (0, vec![file_name(7, 1)]));
    let [problem] = &found.problems[..] else { panic!("{:?}", found.problems) };
    let said = format!("corrupt {} at byte 0: a segment of its run is missing", file_name(7, 0));
    assert_eq!(problem.to_string(), said);
}
