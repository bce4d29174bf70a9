//! Space that comes back: removing versions and moving what is needed of containers, cut at every
//! operation.

use std::collections::BTreeMap;

use onefold_archive::{AddOptions, Archive, ArchiveError, Kind};
use onefold_block::{CrashMode, FaultKind, Folder as _, OpKind, SimFolder, SplitMix64};

use crate::support::{
    Tree, add, assert_sound, create, damage, entry, names, new_archive, open, read, small, try_open,
};

/// Bytes of all containers.
fn container_bytes(folder: &SimFolder) -> u64 {
    let containers = folder.subfolder("containers").unwrap();
    let len = |name: String| containers.open(&name).unwrap().len().unwrap();
    names(folder, "containers").into_iter().map(len).sum()
}

/// Three versions of files of which a third is exchanged each time, here and there.
fn three_trees(files: usize) -> [Tree; 3] {
    let mut random = SplitMix64::new(91);
    let mut files: Vec<Vec<u8>> = (0..files).map(|_| random.bytes(12_000)).collect();
    [0, 1, 2].map(|round| {
        for (number, file) in files.iter_mut().enumerate() {
            if number % 3 == round {
                *file = random.bytes(12_000);
            }
        }
        let named = files.iter().enumerate();
        named.map(|(n, file)| (format!("f{n:02}").into_bytes(), Some(file.clone()))).collect()
    })
}

fn three_versions(files: usize) -> (SimFolder, [Tree; 3]) {
    three_versions_in(files, false)
}

fn three_versions_in(files: usize, encrypted: bool) -> (SimFolder, [Tree; 3]) {
    let folder = SimFolder::new();
    create(&folder, encrypted).unwrap();
    let mut archive = open(&folder);
    let trees = three_trees(files);
    for tree in &trees {
        add(&mut archive, tree).unwrap();
    }
    (folder.after_crash(1, CrashMode::KeepEverything), trees)
}

fn compact(archive: &mut Archive) -> Result<onefold_archive::Compacted, ArchiveError> {
    archive.compact(0, &mut |_, _| true)
}

#[test]
fn removing_two_of_three_versions_frees_what_only_they_hold() {
    for keep in 1..=3_u32 {
        let (folder, trees) = three_versions(30);
        let mut archive = open(&folder);
        let gone: Vec<u32> = (1..=3).filter(|&number| number != keep).collect();
        archive.remove_all(&gone).unwrap();
        let before = container_bytes(&folder);
        let report = compact(&mut archive).unwrap();
        assert!(report.obstacles.is_empty() && report.unused_bytes == 0, "{report:?}");
        let tree = &trees[keep as usize - 1];
        let (fresh, mut other) = new_archive(&small());
        add(&mut other, tree).unwrap();
        let (now, least) = (container_bytes(&folder), container_bytes(&fresh));
        assert!(now <= least + least / 50, "version {keep} alone takes {least}, here {now}");
        assert!(before - now >= report.freed_bytes * 9 / 10, "{before} {now} {report:?}");
        assert_eq!(compact(&mut archive).unwrap().containers, 0, "nothing is left to do");
        let archive = open(&folder);
        assert!(read(&archive, keep).unwrap() == *tree);
        assert_sound(&archive, "after compacting");
        assert_eq!(names(&folder, "versions").len(), 1);
    }
}

#[test]
fn what_is_unused_within_the_limit_stays() {
    let (folder, _) = three_versions(30);
    let mut archive = open(&folder);
    archive.remove(1).unwrap();
    let before = names(&folder, "containers");
    let report = archive.compact(60, &mut |_, _| true).unwrap();
    assert!(report.unused_bytes > 0 && report.moved_bytes == 0, "{report:?}");
    assert_eq!(names(&folder, "containers"), before);
    let tight = archive.compact(1, &mut |_, _| true).unwrap();
    assert!(tight.unused_bytes < report.unused_bytes && tight.moved_bytes > 0, "{tight:?}");
    assert_eq!(archive.verify(&mut |_, _| true).unwrap().unused_containers, 0);
}

#[test]
fn links_and_files_that_were_given_up_survive_a_move() {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(5);
    let (mut first, second) = (random.bytes(90_000), random.bytes(90_000));
    let large = [first.clone(), second.clone()].concat();
    add(&mut archive, &[(b"x".to_vec(), Some(large))].into()).unwrap();
    first.truncate(50_000);
    let mut adder = archive.add(AddOptions::default()).unwrap();
    adder.file(entry(b"a", Kind::File), true, &mut first.as_slice()).unwrap().unwrap();
    let link = Kind::HardLink { target: b"a".to_vec() };
    adder.entry(entry(b"b", link)).unwrap();
    adder.file(entry(b"empty", Kind::File), true, &mut &b""[..]).unwrap().unwrap();
    let link = Kind::HardLink { target: b"empty".to_vec() };
    adder.entry(entry(b"empty too", link)).unwrap();
    adder.entry(entry(b"folder", Kind::Directory)).unwrap();
    adder.commit().unwrap();
    archive.remove(1).unwrap();
    let report = compact(&mut archive).unwrap();
    assert!(report.moved_bytes > 0 && report.freed_bytes > 0, "{report:?}");
    let tree = read(&open(&folder), 2).unwrap();
    assert!(tree[&b"a"[..]].as_ref() == Some(&first) && tree[&b"b"[..]].as_ref() == Some(&first));
    assert!(tree[&b"empty too"[..]] == Some(Vec::new()) && tree[&b"folder"[..]].is_none());
    assert_sound(&open(&folder), "links");
}

#[test]
fn a_damaged_container_stays_and_a_damaged_version_keeps_everything() {
    let (folder, trees) = three_versions(30);
    let mut archive = open(&folder);
    archive.remove(1).unwrap();
    let first = names(&folder, "containers")[0].clone();
    damage(&folder, &format!("containers/{first}"), 700);
    let report = compact(&mut archive);
    // The damaged chunk may be one that nobody needs.
    assert!(report.is_ok(), "{report:?}");
    assert!(
        read(&archive, 3).is_ok_and(|tree| tree == trees[2])
            || names(&folder, "containers").contains(&first)
    );
    let (folder, _) = three_versions(30);
    let mut archive = open(&folder);
    archive.remove(1).unwrap();
    damage(&folder, "versions/00000003.version", 200);
    let before = (names(&folder, "containers"), names(&folder, "versions"));
    let report = compact(&mut archive).unwrap();
    assert_eq!(report.obstacles.len(), 1, "{report:?}");
    assert_eq!((names(&folder, "containers"), names(&folder, "versions")), before);
}

/// Remove a version, compact, until the power goes at operation `cut`; true if it went.
fn cut_at(cut: u64, mode: CrashMode, pristine: &SimFolder, trees: &[Tree; 3]) -> bool {
    let what = format!("cut at {cut}, {mode:?}");
    let folder = pristine.after_crash(1, CrashMode::KeepEverything);
    folder.crash_at(folder.op_count() + cut);
    let done = try_open(&folder)
        .and_then(|mut archive| {
            archive.remove_all(&[1])?;
            compact(&mut archive)
        })
        .is_ok();
    let after = folder.after_crash(cut, mode);
    let check = |archive: &Archive| {
        for number in [1, 2, 3] {
            match read(archive, number) {
                Ok(tree) => assert!(tree == trees[number as usize - 1], "{what}: {number}"),
                Err(ArchiveError::NoVersion { .. }) if number == 1 => {}
                Err(error) => panic!("{what}: version {number}: {error}"),
            }
        }
        assert_sound(archive, &what);
    };
    check(&open(&after));
    // The next work loses power too, now and then.
    if cut.is_multiple_of(3) {
        let again = after.after_crash(1, CrashMode::KeepEverything);
        again.crash_at(again.op_count() + cut % 17);
        let _ = try_open(&again).and_then(|mut archive| compact(&mut archive));
        check(&open(&again.after_crash(cut, mode)));
    }
    let mut archive = open(&after);
    let new = add(&mut archive, &trees[0]).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(read(&open(&after), new.number).unwrap() == trees[0], "{what}");
    let mut archive = open(&after);
    let report = compact(&mut archive).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((report.unused_bytes, report.obstacles.len()), (0, 0), "{what}");
    let archive = open(&after);
    check(&archive);
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.unused_containers == 0 && report.notes.is_empty(), "{what}: {report:?}");
    assert_eq!(names(&after, "versions").len(), archive.versions().len(), "{what}");
    assert!(!after.list().unwrap().contains(&"pending".to_owned()), "{what}");
    !done
}

#[test]
fn power_cuts_at_every_operation_of_a_move_lose_no_version_and_leak_nothing() {
    let all = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    cut_a_move(false, &all);
}

#[test]
fn power_cuts_in_a_move_of_an_encrypted_archive_lose_nothing_either() {
    cut_a_move(true, &[CrashMode::Random]);
}

fn cut_a_move(encrypted: bool, modes: &[CrashMode]) {
    let (pristine, trees) = three_versions_in(12, encrypted);
    for &mode in modes {
        let mut cut = 1;
        while cut_at(cut, mode, &pristine, &trees) {
            cut += 1;
        }
        assert!(cut > 40, "the workload has only {cut} operations");
    }
}

#[test]
fn a_move_without_space_changes_nothing_and_leaves_nothing() {
    let (pristine, trees) = three_versions(12);
    for nth in 1.. {
        let folder = pristine.after_crash(1, CrashMode::KeepEverything);
        let mut archive = open(&folder);
        archive.remove(1).unwrap();
        folder.fail_once(&[OpKind::Reserve, OpKind::Write], nth, FaultKind::Enospc);
        let Err(error) = compact(&mut archive) else {
            assert!(nth > 5, "only {nth} places to fail");
            break;
        };
        assert!(matches!(error, ArchiveError::NoSpace(_)), "write {nth}: {error}");
        let mut archive = open(&folder);
        let kept: BTreeMap<u32, &Tree> = [(2, &trees[1]), (3, &trees[2])].into();
        for (number, tree) in kept {
            assert!(read(&archive, number).unwrap() == *tree, "write {nth}");
        }
        assert_sound(&archive, &format!("write {nth}"));
        assert_eq!(compact(&mut archive).unwrap().unused_bytes, 0, "write {nth}");
        assert_eq!(archive.verify(&mut |_, _| true).unwrap().unused_containers, 0, "write {nth}");
    }
}

#[test]
fn a_move_that_is_interrupted_leaves_nothing_and_can_be_done_again() {
    let (pristine, trees) = three_versions(30);
    for step in 0.. {
        let folder = pristine.after_crash(1, CrashMode::KeepEverything);
        let mut archive = open(&folder);
        archive.remove_all(&[1, 2]).unwrap();
        let before = (names(&folder, "containers"), names(&folder, "versions"));
        let mut steps = 0;
        let stopped = archive.compact(0, &mut |_, _| {
            steps += 1;
            steps <= step
        });
        if stopped.is_ok() {
            // That all is done is told, and not asked.
            assert!(step > 2 && steps == step + 1, "{step} of {steps}");
            break;
        }
        assert!(matches!(stopped, Err(ArchiveError::Interrupted)), "{stopped:?}");
        assert_eq!((names(&folder, "containers"), names(&folder, "versions")), before);
        assert!(!folder.list().unwrap().contains(&"pending".to_owned()), "after {step} steps");
        assert!(compact(&mut archive).unwrap().moved_bytes > 0);
        assert!(read(&archive, 3).unwrap() == trees[2]);
    }
}
