//! Restoring over what is there: it stays until what replaces it is whole.

use onefold_archive::tree::restore::{RestoreOptions, restore};
use onefold_block::SplitMix64;

use crate::support::{Tree, add, damage, names, new_archive, open, small};

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
