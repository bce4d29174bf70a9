//! Restoring over what is there: it stays until what replaces it is whole.

use onefold_archive::tree::restore::{RestoreOptions, restore};
use onefold_archive::{AddOptions, Archive, Kind};
use onefold_block::{SimFolder, SplitMix64};

use crate::support::{Tree, add, damage, entry, names, new_archive, open, small};

const OVER: RestoreOptions =
    RestoreOptions { assembly_bytes: 64 << 20, overwrite: true, sparse: false };

#[test]
fn a_file_stays_if_what_would_replace_it_cannot_be_read() {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(5);
    let tree: Tree = [(b"file".to_vec(), Some(random.bytes(200_000)))].into();
    add(&mut archive, &tree).unwrap();
    drop(archive);
    let container = names(&folder, "containers").pop().unwrap();
    damage(&folder, &format!("containers/{container}"), 5000);
    let target = tempfile::tempdir().unwrap();
    std::fs::write(target.path().join("file"), "precious").unwrap();

    let archive = open(&folder);
    let version = archive.version(None).unwrap();
    let report = restore(&archive, &version, &[], target.path(), &OVER, &mut |_| true).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(std::fs::read(target.path().join("file")).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "and nothing beside it");
}

#[test]
fn an_interrupted_restore_leaves_what_was_there() {
    let (_, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(6);
    let data = random.bytes(200_000);
    add(&mut archive, &[(b"file".to_vec(), Some(data.clone()))].into()).unwrap();
    let version = archive.version(None).unwrap();
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let steps = std::cell::Cell::new(0);
    let mut interrupted = 0;
    // Interrupted at each step, until the restore has none left.
    for step in 0.. {
        steps.set(0);
        let go_on = &mut |_| {
            steps.set(steps.get() + 1);
            steps.get() <= step
        };
        if restore(&archive, &version, &[], target.path(), &OVER, go_on).is_ok() {
            break;
        }
        interrupted += 1;
        let kept = std::fs::read(&file).unwrap();
        assert!(kept == b"precious" || kept == data, "after {step} steps");
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1, "after {step} steps");
    }
    assert!(interrupted > 10, "{interrupted}");
    assert_eq!(std::fs::read(&file).unwrap(), data);
}

#[test]
fn what_a_killed_restore_left_stands_in_nobodys_way() {
    let (_, mut archive) = new_archive(&small());
    add(&mut archive, &[(b"file".to_vec(), Some(b"text".to_vec()))].into()).unwrap();
    let version = archive.version(None).unwrap();
    let target = tempfile::tempdir().unwrap();
    std::fs::write(target.path().join(".onefold-restoring.0"), "half").unwrap();
    let report = restore(&archive, &version, &[], target.path(), &OVER, &mut |_| true).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(std::fs::read(target.path().join("file")).unwrap(), b"text");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 2);
}

/// An archive with a file of two names.
fn with_two_names(content: &[u8]) -> (SimFolder, Archive) {
    let (folder, mut archive) = new_archive(&small());
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let mut source = content;
    adder.file(entry(b"first", Kind::File), true, &mut source).unwrap().unwrap();
    let target = b"first".to_vec();
    adder.entry(entry(b"second", Kind::HardLink { target })).unwrap();
    adder.commit().unwrap();
    (folder, archive)
}

#[test]
fn another_name_of_a_file_that_cannot_be_restored_is_not_given_to_what_stays_in_its_place() {
    let (folder, archive) = with_two_names(&SplitMix64::new(7).bytes(200_000));
    drop(archive);
    let container = names(&folder, "containers").pop().unwrap();
    damage(&folder, &format!("containers/{container}"), 5000);
    let target = tempfile::tempdir().unwrap();
    for name in ["first", "second"] {
        std::fs::write(target.path().join(name), name).unwrap();
    }
    let archive = open(&folder);
    let version = archive.version(None).unwrap();
    let report = restore(&archive, &version, &[], target.path(), &OVER, &mut |_| true).unwrap();
    let paths: Vec<_> = report.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["first", "second"], "{:?}", report.problems);
    for name in ["first", "second"] {
        assert_eq!(std::fs::read_to_string(target.path().join(name)).unwrap(), name);
    }
}

#[test]
fn another_name_of_a_file_that_has_no_place_is_named_and_left_out() {
    let (_, archive) = with_two_names(b"text");
    let version = archive.version(None).unwrap();
    let target = tempfile::tempdir().unwrap();
    std::fs::create_dir(target.path().join("first")).unwrap();
    std::fs::write(target.path().join("second"), "precious").unwrap();
    let report = restore(&archive, &version, &[], target.path(), &OVER, &mut |_| true).unwrap();
    let told = "it is another name of 'first', which could not be restored";
    let last = report.problems.last().unwrap();
    assert_eq!((report.problems.len(), last.problem.as_str()), (2, told), "{:?}", report.problems);
    assert_eq!(std::fs::read(target.path().join("second")).unwrap(), b"precious");
}

#[test]
fn what_a_killed_restore_left_and_was_added_is_restored_as_it_is() {
    let (_, mut archive) = new_archive(&small());
    let names = [0, 1, 2].map(|number| format!(".onefold-restoring.{number}").into_bytes());
    let tree: Tree = names.iter().map(|name| (name.clone(), Some(name.clone()))).collect();
    add(&mut archive, &tree).unwrap();
    let version = archive.version(None).unwrap();
    for overwrite in [false, true] {
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions { overwrite, ..OVER };
        let restored = restore(&archive, &version, &[], target.path(), &options, &mut |_| true);
        assert_eq!(restored.unwrap().problems, []);
        for name in names.each_ref().map(|name| std::str::from_utf8(name).unwrap()) {
            assert_eq!(std::fs::read_to_string(target.path().join(name)).unwrap(), name);
        }
    }
}
