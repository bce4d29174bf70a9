//! An operation that fails once, then another one, then a power cut: what is acknowledged stays,
//! and nothing stands in the way of what comes next. `ONEFOLD_UNDONE=all` does each operation after
//! each failure.

use std::sync::Arc;

use onefold_archive::{AddOptions, Archive, ArchiveError, Argon2Cost, Kind, NewKey, Secret};
use onefold_block::{CrashMode, FaultKind, Folder as _, OpKind, SimFolder, SplitMix64};

use crate::support::{
    Tree, add, assert_sound, check, create, damage, entry, names, open, read, secret, try_open,
};

type Operation = (&'static str, fn(&mut Archive) -> Result<(), ArchiveError>);

/// Files of 40 KB, of which each container holds three.
fn files(seeds: std::ops::Range<u64>) -> Tree {
    let file = |seed| (format!("f{seed}").into_bytes(), Some(SplitMix64::new(seed).bytes(40_000)));
    seeds.map(file).collect()
}

const OPERATIONS: [Operation; 6] = [
    ("add", |archive| add(archive, &files(40..41)).map(drop)),
    ("remove", |archive| archive.remove(2).map(drop)),
    ("compact", |archive| archive.compact(0, &mut |_, _| true).map(drop)),
    ("give back", |archive| archive.compact(100, &mut |_, _| true).map(drop)),
    ("add what is there", |archive| add(archive, &files(2..6)).map(drop)),
    ("add nothing", |archive| match add(archive, &Tree::new()) {
        Err(ArchiveError::Nothing) => Ok(()),
        added => added.map(drop),
    }),
];
const FAULTS: [(OpKind, FaultKind); 8] = [
    (OpKind::Write, FaultKind::Eio),
    (OpKind::Write, FaultKind::Enospc),
    (OpKind::Sync, FaultKind::Eio),
    (OpKind::Reserve, FaultKind::Enospc),
    (OpKind::Create, FaultKind::Eio),
    (OpKind::Rename, FaultKind::Eio),
    (OpKind::Remove, FaultKind::Eio),
    (OpKind::SyncNames, FaultKind::Eio),
];

fn is_thorough() -> bool {
    std::env::var("ONEFOLD_UNDONE").is_ok_and(|dose| dose == "all")
}

fn copy(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

/// An archive with something to be moved and, if it is so, what an interrupted addition left.
fn prepared(encrypted: bool, interrupted: bool) -> SimFolder {
    let folder = SimFolder::new();
    create(&folder, encrypted).unwrap();
    let mut archive = open(&folder);
    for seeds in [0..4, 1..5, 3..8] {
        add(&mut archive, &files(seeds)).unwrap();
    }
    archive.remove(1).unwrap();
    if interrupted {
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let data = SplitMix64::new(60).bytes(1_500_000);
        adder.file(entry(b"large", Kind::File), false, &mut &data[..]).unwrap().unwrap();
    }
    assert_eq!(names(&folder, "versions").len(), 2 + usize::from(interrupted));
    copy(&folder)
}

/// The versions and what they hold, all of which can be read.
fn held(folder: &SimFolder, context: &str) -> Vec<(u32, Tree)> {
    let archive = open(folder);
    assert_eq!(archive.damage(), [""; 0], "{context}");
    let numbers: Vec<u32> = archive.versions().map(|info| info.number).collect();
    let tree = |number| read(&archive, number).unwrap_or_else(|e| panic!("{context}: {e}"));
    numbers.into_iter().map(|number| (number, tree(number))).collect()
}

/// After power cuts there is what was there, and more can be added.
fn check_cuts(folder: &SimFolder, now: &[(u32, Tree)], seed: u64, context: &str) {
    let seeds = if is_thorough() { 6 } else { 1 };
    for seed in [0].into_iter().chain(seed..seed + seeds) {
        let mode = if seed == 0 { CrashMode::KeepNothing } else { CrashMode::Random };
        let left = folder.after_crash(seed, mode);
        let context = format!("{context}, {mode:?} {seed}");
        assert!(held(&left, &context) == now, "{context}");
        let mut archive = open(&left);
        add(&mut archive, &files(50..51)).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_sound(&archive, &context);
    }
}

/// Lets each request of each operation fail, and then has another one done. How many failed.
fn fail_each(encrypted: bool, interrupted: bool) -> u64 {
    let prepared = prepared(encrypted, interrupted);
    let mut failures = 0;
    for &(what, operation) in &OPERATIONS[..3] {
        for (kind, fault) in FAULTS {
            for nth in 1.. {
                if failed(&prepared, operation, (kind, fault), nth).is_none() {
                    break;
                }
                failures += 1;
                // Each costs more there.
                if encrypted && !is_thorough() && failures % 3 > 0 {
                    continue;
                }
                for (number, (then, next)) in (0..).zip(OPERATIONS) {
                    // What is in doubt after a failed sync of names is another thing each time.
                    let all = is_thorough() || kind == OpKind::SyncNames;
                    if !all && number != (failures + nth) % 6 {
                        continue;
                    }
                    // A copy of a disk would be sure of what is in doubt on it.
                    let folder = failed(&prepared, operation, (kind, fault), nth);
                    let folder = folder.expect("it fails each time");
                    let context = format!("{what}, {kind:?} {nth} fails, then {then}");
                    let mut archive = open(&folder);
                    // What the first one removed after all is not there any more.
                    let done = next(&mut archive);
                    let gone = matches!(done, Err(ArchiveError::NoVersion { number: 2, .. }));
                    assert!(done.is_ok() || gone, "{context}: {done:?}");
                    drop(archive);
                    if !gone {
                        check_cuts(&folder, &held(&folder, &context), nth, &context);
                    }
                }
            }
        }
    }
    failures
}

/// The disk after an operation of which one request failed; none where nothing did.
fn failed(
    prepared: &SimFolder,
    operation: fn(&mut Archive) -> Result<(), ArchiveError>,
    (kind, fault): (OpKind, FaultKind),
    nth: u64,
) -> Option<SimFolder> {
    let folder = copy(prepared);
    let mut archive = open(&folder);
    folder.fail_once(&[kind], nth, fault);
    let failed = operation(&mut archive).is_err();
    folder.clear_faults();
    failed.then_some(folder)
}

#[test]
fn what_is_acknowledged_after_a_failure_survives_a_power_cut_and_more_can_be_added() {
    let failures = fail_each(false, false);
    assert!(failures > 60, "{failures}");
}

#[test]
fn so_it_does_where_an_addition_was_interrupted_before() {
    let failures = fail_each(false, true);
    assert!(failures > 60, "{failures}");
}

#[test]
fn so_it_does_in_an_encrypted_archive() {
    let failures = fail_each(true, true);
    assert!(failures > 60, "{failures}");
}

/// A process that is killed has removed what it has not made durable.
#[test]
fn what_a_killed_process_cleared_away_does_not_come_back_when_nothing_tells_of_it() {
    let folder = prepared(false, true);
    folder.subfolder("versions").unwrap().remove("00000004.version").unwrap();
    // There is nothing to be moved, but what was interrupted is given back.
    let given_back = open(&folder).compact(100, &mut |_, _| true).unwrap();
    assert!(given_back.containers > 0 && given_back.moved_bytes == 0, "{given_back:?}");
    check_cuts(&folder, &held(&folder, "a killed process"), 1, "a killed process");
}

#[test]
fn whatever_fails_once_in_a_repair_the_next_one_does_it() {
    let mut failures = 0;
    for encrypted in [false, true] {
        let whole = prepared(encrypted, false);
        let before = held(&whole, "whole");
        let log = if encrypted { 512 } else { 0 };
        let damages: [&[&str]; 3] = [&["log.0", "archive.1"], &["log.0", "log.1"], &["archive.0"]];
        for damaged in damages {
            for (kind, fault) in FAULTS {
                for nth in 1.. {
                    let folder = copy(&whole);
                    for name in damaged {
                        damage(&folder, name, if name.starts_with("log") { log + 70 } else { 20 });
                    }
                    folder.fail_once(&[kind], nth, fault);
                    let result = check(&folder, true);
                    folder.clear_faults();
                    if result.is_ok() {
                        break;
                    }
                    failures += 1;
                    let context = format!("encrypted {encrypted}, {damaged:?}, {kind:?} {nth}");
                    let repaired = check(&folder, true);
                    repaired.unwrap_or_else(|error| panic!("{context}: {error}"));
                    let sound = check(&folder, false).unwrap();
                    assert!(sound.is_sound(), "{context}: {sound:?}");
                    assert!(held(&folder, &context) == before, "{context}");
                    check_cuts(&folder, &before, nth, &context);
                }
            }
        }
    }
    assert!(failures > 30, "{failures}");
}

#[test]
fn whatever_fails_once_while_the_secret_changes_one_opens_it_and_the_change_can_be_made() {
    let whole = prepared(true, false);
    let before = held(&whole, "whole");
    let new = Secret::KeyFile(vec![7; 40]);
    let open_by = |folder: &SimFolder, secret: &Secret| {
        Archive::open_with(Arc::new(folder.clone()), Some(secret))
    };
    let mut failures = 0;
    for (kind, fault) in FAULTS {
        for nth in 1.. {
            let folder = copy(&whole);
            let mut archive = open(&folder);
            folder.fail_once(&[kind], nth, fault);
            let (cost, master) = (Argon2Cost::default(), [9; 32]);
            let key = NewKey { secret: &new, cost, salt: [8; 16], master };
            let changed = archive.change_secret(&key);
            folder.clear_faults();
            drop(archive);
            let context = format!("{kind:?} {nth}: {changed:?}");
            for seed in 0..8 {
                let left = folder.after_crash(seed, CrashMode::Random);
                let by = [&secret(), &new].map(|secret| open_by(&left, secret).is_ok());
                assert!(by[0] || by[1], "{context}");
            }
            if changed.is_ok() {
                break;
            }
            failures += 1;
            let old = open_by(&folder, &secret());
            let mut archive = old.or_else(|_| open_by(&folder, &new)).unwrap();
            archive.change_secret(&key).unwrap_or_else(|e| panic!("{context}: {e}"));
            drop(archive);
            for seed in 0..8 {
                let left = folder.after_crash(seed, CrashMode::Random);
                assert!(try_open(&left).is_err(), "{context}: the old one opens it no more");
                let mut archive = open_by(&left, &new).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert!(read(&archive, 3).unwrap() == before[1].1, "{context}");
                add(&mut archive, &files(50..51)).unwrap();
            }
        }
    }
    assert!(failures > 6, "{failures}");
}
