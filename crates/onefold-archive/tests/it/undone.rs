//! An operation that fails once, then another one, then a power cut: what is acknowledged stays,
//! and nothing stands in the way of what comes next.

use onefold_archive::{Archive, ArchiveError};
use onefold_block::{CrashMode, FaultKind, OpKind, SimFolder, SplitMix64};

use crate::support::{Tree, add, assert_sound, new_archive, open, read, small};

type Operation = (&'static str, fn(&mut Archive) -> Result<(), ArchiveError>);

/// Files of 40 KB, of which each container holds three.
fn files(seeds: std::ops::Range<u64>) -> Tree {
    let file = |seed| (format!("f{seed}").into_bytes(), Some(SplitMix64::new(seed).bytes(40_000)));
    seeds.map(file).collect()
}

const OPERATIONS: [Operation; 4] = [
    ("add", |archive| add(archive, &files(40..41)).map(drop)),
    ("remove", |archive| archive.remove(1).map(drop)),
    ("add what is there", |archive| add(archive, &files(2..6)).map(drop)),
    ("compact", |archive| archive.compact(0, &mut |_, _| true).map(drop)),
];

/// The versions and what they hold, all of which can be read.
fn held(folder: &SimFolder, context: &str) -> Vec<(u32, Tree)> {
    let archive = open(folder);
    assert_eq!(archive.damage(), [""; 0], "{context}");
    let numbers: Vec<u32> = archive.versions().map(|info| info.number).collect();
    let tree = |number| read(&archive, number).unwrap_or_else(|e| panic!("{context}: {e}"));
    numbers.into_iter().map(|number| (number, tree(number))).collect()
}

#[test]
fn what_is_acknowledged_after_a_failure_survives_a_power_cut_and_more_can_be_added() {
    let (prepared, mut archive) = new_archive(&small());
    for seeds in [0..4, 1..5, 3..8] {
        add(&mut archive, &files(seeds)).unwrap();
    }
    drop(archive);
    let kinds = [
        (OpKind::Write, FaultKind::Eio),
        (OpKind::Sync, FaultKind::Eio),
        (OpKind::Reserve, FaultKind::Enospc),
        (OpKind::Create, FaultKind::Eio),
        (OpKind::Rename, FaultKind::Eio),
        (OpKind::Remove, FaultKind::Eio),
        (OpKind::SyncNames, FaultKind::Eio),
    ];
    let mut failures = 0;
    for (what, operation) in &OPERATIONS[..2] {
        for (kind, fault) in kinds {
            for nth in 1.. {
                let folder = prepared.after_crash(1, CrashMode::KeepEverything);
                let mut archive = open(&folder);
                folder.fail_once(&[kind], nth, fault);
                if operation(&mut archive).is_ok() {
                    break;
                }
                failures += 1;
                folder.clear_faults();
                let (then, next) = OPERATIONS[nth as usize % OPERATIONS.len()];
                let context = format!("{what}, {kind:?} {nth} fails, then {then}");
                let mut archive = open(&folder);
                // What the first one removed after all is not there any more.
                let done = next(&mut archive);
                let gone = matches!(done, Err(ArchiveError::NoVersion { number: 1, .. }));
                assert!(done.is_ok() || gone, "{context}: {done:?}");
                let now = held(&folder, &context);
                for (seed, mode) in [(0, CrashMode::KeepNothing), (3, CrashMode::Random)] {
                    let left = folder.after_crash(seed, mode);
                    let same = gone || held(&left, &context) == now;
                    assert!(same, "{context}, {mode:?}");
                    let mut archive = open(&left);
                    add(&mut archive, &files(50..51)).unwrap_or_else(|e| panic!("{context}: {e}"));
                    assert_sound(&archive, &context);
                }
            }
        }
    }
    assert!(failures > 20, "{failures}");
}
