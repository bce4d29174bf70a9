//! Interrupted additions: nothing of them shows, what they stored is made use of, the rest goes.

use onefold_archive::{AddOptions, Archive, ArchiveError, Kind};
use onefold_block::{CrashMode, FaultKind, Folder as _, OpKind, SimFolder, SplitMix64};

use crate::support::{
    add, assert_sound, damage, entry, names, new_archive, open, read, small, tree,
};

/// Add a large file and stop before the commit.
fn interrupt(archive: &mut Archive, data: &[u8]) {
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let mut source = data;
    adder.file(entry(b"large", Kind::File), false, &mut source).unwrap().unwrap();
}

#[test]
fn an_interrupted_addition_does_not_show_and_is_taken_up_again() {
    let (folder, mut archive) = new_archive(&small());
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    add(&mut archive, &first).unwrap();
    let data = SplitMix64::new(2).bytes(3_000_000);
    interrupt(&mut archive, &data);
    let mut archive = open(&folder);
    assert_eq!(archive.versions().len(), 1);
    assert!(read(&archive, 1).unwrap() == first);
    assert_sound(&archive, "after an interruption");
    let left = names(&folder, "containers").len();
    assert!(left > 10, "{left} containers are there to be used");
    let again = [(b"large".to_vec(), Some(data))].into();
    let info = add(&mut archive, &again).unwrap();
    assert!(info.totals.new_bytes < 1_500_000, "{:?}: most was there", info.totals);
    // The power goes right after: containers of the process that was stopped count as well.
    let folder = folder.after_crash(5, CrashMode::KeepNothing);
    let archive = open(&folder);
    assert!(read(&archive, info.number).unwrap() == again);
    assert_sound(&archive, "after taking up an interrupted addition");
}

#[test]
fn a_chunk_that_an_interrupted_addition_left_damaged_is_stored_again() {
    let (folder, mut archive) = new_archive(&small());
    let data = SplitMix64::new(4).bytes(3_000_000);
    interrupt(&mut archive, &data);
    let left = names(&folder, "containers");
    assert!(left.len() > 3, "{left:?}");
    // What never reached the disk, though the directory behind it did.
    for name in &left {
        damage(&folder, &format!("containers/{name}"), 60_000);
    }
    let mut archive = open(&folder);
    let again = [(b"large".to_vec(), Some(data))].into();
    add(&mut archive, &again).unwrap();
    let archive = open(&folder);
    assert!(read(&archive, 1).unwrap() == again);
    assert_sound(&archive, "stored again");
}

#[test]
fn what_nobody_takes_up_is_cleared_away() {
    let (folder, mut archive) = new_archive(&small());
    interrupt(&mut archive, &SplitMix64::new(2).bytes(2_000_000));
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    let mut archive = open(&folder);
    add(&mut archive, &first).unwrap();
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert_eq!(report.unused_containers, 0);
    assert_eq!(names(&folder, "versions").len(), 1);
}

#[test]
fn what_is_cleared_away_does_not_come_back_with_the_power() {
    let (folder, mut archive) = new_archive(&small());
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    add(&mut archive, &first).unwrap();
    let known = names(&folder, "containers");
    interrupt(&mut archive, &SplitMix64::new(2).bytes(2_000_000));
    // The power goes, and what was stored by then has reached the disk.
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    assert!(names(&folder, "containers").len() > known.len() + 5);
    let mut archive = open(&folder);
    // Nothing of this is new, so that no container is made either.
    add(&mut archive, &first).unwrap();
    assert_eq!(names(&folder, "containers"), known);
    let folder = folder.after_crash(2, CrashMode::KeepNothing);
    let archive = open(&folder);
    assert_eq!(names(&folder, "containers"), known);
    assert_eq!(archive.versions().len(), 2);
    assert_sound(&archive, "after another power cut");
}

#[test]
fn a_removal_takes_along_what_an_earlier_one_left() {
    let (folder, mut archive) = new_archive(&small());
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    for _ in 0..3 {
        add(&mut archive, &first).unwrap();
    }
    let known = names(&folder, "versions");
    archive.remove(1).unwrap();
    drop(archive);
    // As if the power had gone between the log and the file.
    let versions = folder.subfolder("versions").unwrap();
    for name in [known[0].as_str(), "notes"] {
        versions.create(name).unwrap();
    }
    open(&folder).remove(2).unwrap();
    assert_eq!(names(&folder, "versions"), [known[2].clone(), "notes".to_owned()]);
}

#[test]
fn an_addition_that_finds_no_space_gives_back_what_it_took() {
    let (folder, mut archive) = new_archive(&small());
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    add(&mut archive, &first).unwrap();
    // What an interrupted one left goes along.
    interrupt(&mut archive, &SplitMix64::new(2).bytes(500_000));
    let files = |folder: &SimFolder| {
        let mut files = folder.list().unwrap();
        files.extend(names(folder, "containers"));
        files.extend(names(folder, "versions"));
        files
    };
    let with_leftovers = files(&folder).len();
    for nth in 1.. {
        let folder = folder.after_crash(1, CrashMode::KeepEverything);
        let mut archive = open(&folder);
        let mut adder = archive.add(AddOptions::default()).unwrap();
        folder.fail_once(&[OpKind::Reserve, OpKind::Write], nth, FaultKind::Enospc);
        let data = SplitMix64::new(3).bytes(700_000);
        let added = adder.file(entry(b"large", Kind::File), false, &mut data.as_slice());
        let failed = match added {
            Ok(read) => {
                assert_eq!(read.unwrap(), 700_000);
                adder.commit().is_err()
            }
            Err(error) => {
                assert!(matches!(error, ArchiveError::NoSpace(_)), "{error}");
                assert!(adder.discard().unwrap().containers > 0);
                true
            }
        };
        let mut archive = open(&folder);
        if !failed {
            assert!(nth > 8, "only {nth} places to fail");
            break;
        }
        if folder.list().unwrap().contains(&"pending".to_owned()) {
            // In the log itself: whether the version counts is known now, and nothing is lost.
            assert!(nth > 8, "only {nth} places to fail");
            add(&mut archive, &first).unwrap();
            assert!(!folder.list().unwrap().contains(&"pending".to_owned()), "write {nth}");
            continue;
        }
        assert!(files(&folder).len() < with_leftovers, "write {nth}");
        assert_eq!(archive.verify(&mut |_, _| true).unwrap().unused_containers, 0, "write {nth}");
        assert_eq!(names(&folder, "versions").len(), 1, "write {nth}");
        assert!(read(&archive, 1).unwrap() == first, "write {nth}");
        add(&mut archive, &first).unwrap();
    }
}

#[test]
fn what_an_interruption_left_goes_with_a_removal_too() {
    let (folder, mut archive) = new_archive(&small());
    let first = tree(&mut SplitMix64::new(1), 5, 30_000);
    for _ in 0..2 {
        add(&mut archive, &first).unwrap();
    }
    interrupt(&mut archive, &SplitMix64::new(2).bytes(2_000_000));
    let mut archive = open(&folder);
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.is_sound() && report.unused_containers > 5, "{report:?}");
    archive.remove(2).unwrap();
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.is_sound() && report.unused_containers == 0, "{report:?}");
    assert!(!folder.list().unwrap().contains(&"pending".to_owned()));
}

#[test]
fn a_version_of_nothing_is_made_only_if_asked_for() {
    let (folder, mut archive) = new_archive(&small());
    let empty = [(b"folder".to_vec(), None)].into();
    let refused = add(&mut archive, &empty).unwrap_err();
    assert!(matches!(refused, ArchiveError::Nothing), "{refused}");
    assert!(names(&folder, "versions").is_empty());
    let options = AddOptions { allow_empty: true, ..AddOptions::default() };
    crate::support::add_with(&mut archive, &empty, options).unwrap();
    assert!(read(&archive, 1).unwrap() == empty);
}

#[test]
fn a_failing_disk_leaves_the_archive_as_it_was() {
    let faults = [
        (OpKind::Write, FaultKind::Eio),
        (OpKind::Write, FaultKind::Enospc),
        (OpKind::Sync, FaultKind::Eio),
        (OpKind::Create, FaultKind::Eio),
        (OpKind::SyncNames, FaultKind::Eio),
        (OpKind::Reserve, FaultKind::Enospc),
    ];
    let first = tree(&mut SplitMix64::new(1), 10, 60_000);
    let second = tree(&mut SplitMix64::new(2), 10, 60_000);
    let cases = faults.into_iter().flat_map(|fault| [(fault, false), (fault, true)]);
    for ((kind, fault), at_once) in cases {
        let mut failures = 0;
        for nth in 1.. {
            let (folder, mut archive) = new_archive(&small());
            add(&mut archive, &first).unwrap();
            folder.fail_once(&[kind], nth, fault);
            let context = format!("{kind:?} {nth} fails with {fault:?}, again at once: {at_once}");
            let Err(error) = add(&mut archive, &second) else { break };
            failures += 1;
            if fault == FaultKind::Enospc {
                assert!(matches!(error, ArchiveError::NoSpace(_)), "{context}: {error}");
            }
            // The same process may try again, unless the log is in doubt; the next one may.
            if at_once {
                let _ = add(&mut archive, &second);
            }
            let mut archive = open(&folder);
            assert!(read(&archive, 1).unwrap() == first, "{context}");
            assert_sound(&archive, &context);
            let info = add(&mut archive, &second).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(read(&archive, info.number).unwrap() == second, "{context}");
            assert_sound(&archive, &context);
            // What a failed sync was for could be read until now, whether it was durable or not. A
            // record may be back in one copy of the log alone, for the next addition to repair.
            for (seed, mode) in [(0, CrashMode::KeepNothing), (nth, CrashMode::Random)] {
                let context = format!("{context}, then the power goes: {mode:?}");
                let archive = open(&folder.after_crash(seed, mode));
                assert!(archive.damage().is_empty(), "{context}: {:?}", archive.damage());
                assert!(read(&archive, 1).unwrap() == first, "{context}");
                assert!(read(&archive, info.number).unwrap() == second, "{context}");
            }
        }
        assert!(failures > 0, "{kind:?} was never reached");
    }
}

#[test]
fn after_a_failed_sync_the_power_may_go_at_every_step_of_the_next_addition() {
    let first = tree(&mut SplitMix64::new(1), 3, 40_000);
    let second = tree(&mut SplitMix64::new(2), 6, 60_000);
    for kind in [OpKind::Sync, OpKind::SyncNames] {
        let mut cuts = 0;
        for (nth, step) in (1..8).flat_map(|nth| (0..40).map(move |step| (nth, 2 * step))) {
            let context = format!("{kind:?} {nth} fails, then the power goes after {step}");
            let (folder, mut archive) = new_archive(&small());
            add(&mut archive, &first).unwrap();
            folder.fail_once(&[kind], nth, FaultKind::Eio);
            if add(&mut archive, &second).is_ok() {
                break;
            }
            folder.crash_at(folder.op_count() + 1 + step);
            let _ = add(&mut open(&folder), &second);
            cuts += u32::from(folder.has_crashed());
            let mut archive = open(&folder.after_crash(step, CrashMode::KeepNothing));
            assert!(archive.damage().is_empty(), "{context}: {:?}", archive.damage());
            assert!(read(&archive, 1).unwrap() == first, "{context}");
            let info = add(&mut archive, &second).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(read(&archive, info.number).unwrap() == second, "{context}");
        }
        assert!(cuts > 20, "{kind:?}: {cuts}");
    }
}

#[test]
fn removing_a_version_gives_back_what_only_it_used() {
    let (folder, mut archive) = new_archive(&small());
    let trees = [1, 2, 3].map(|seed| tree(&mut SplitMix64::new(seed), 20, 60_000));
    for tree in &trees {
        add(&mut archive, tree).unwrap();
    }
    let before = names(&folder, "containers").len();
    let removed = archive.remove(2).unwrap();
    assert!(removed.containers > 0 && removed.bytes > 0);
    let after = names(&folder, "containers").len();
    assert_eq!(before - after, removed.containers as usize);
    assert!(matches!(archive.remove(2), Err(ArchiveError::NoVersion { number: 2, .. })));
    let mut archive = open(&folder);
    let known: Vec<u32> = archive.versions().map(|info| info.number).collect();
    assert_eq!(known, [1, 3]);
    assert!(read(&archive, 1).unwrap() == trees[0] && read(&archive, 3).unwrap() == trees[2]);
    let info = add(&mut archive, &trees[1]).unwrap();
    assert_eq!(info.number, 4, "numbers are not given out twice");
    assert_sound(&archive, "after a removal");
    for number in [1, 3, 4] {
        archive.remove(number).unwrap();
    }
    assert!(names(&folder, "containers").is_empty() && names(&folder, "versions").is_empty());
    assert!(matches!(archive.version(None), Err(ArchiveError::NoVersions)));
}

#[test]
fn making_an_archive_needs_a_free_folder() {
    let folder = SimFolder::new();
    Archive::create(&folder, &small(), crate::support::IDENTITY).unwrap();
    let again = Archive::create(&folder, &small(), crate::support::IDENTITY);
    assert!(matches!(again, Err(ArchiveError::NotEmpty(_))));
}
