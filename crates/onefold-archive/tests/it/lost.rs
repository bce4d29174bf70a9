//! Files of an archive that are gone, or end too early: named, and never a reason to delete.

use onefold_archive::Archive;
use onefold_block::{Folder as _, SimFolder, SplitMix64};
use std::sync::Arc;

use crate::support::{IDENTITY, Tree, add, names, new_archive, next, read, small, tree};

/// Bytes of a record of the log.
const RECORD: u64 = 512;

/// Three versions, the first of them removed: four records.
fn with_history() -> (SimFolder, [Tree; 3]) {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(21);
    let first = tree(&mut random, 6, 40_000);
    let second = next(&first, &mut random);
    let third = next(&second, &mut random);
    for tree in [&first, &second, &third] {
        add(&mut archive, tree).unwrap();
    }
    archive.remove(1).unwrap();
    (folder, [first, second, third])
}

/// Everything that must not go.
fn held(folder: &SimFolder) -> (Vec<String>, Vec<String>) {
    (names(folder, "containers"), names(folder, "versions"))
}

/// Nothing is said to be well, nothing is added, nothing is deleted.
fn is_refused(folder: &SimFolder, what: &str) {
    let before = held(folder);
    let mut archive = Archive::open(Arc::new(folder.clone())).unwrap();
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(!report.is_sound(), "{what}: it is said to be sound");
    let tree = tree(&mut SplitMix64::new(5), 3, 9000);
    let added = add(&mut archive, &tree);
    assert_eq!(held(folder), before, "{what}: something was added or deleted");
    let error = added.expect_err(what);
    assert!(error.is_corruption(), "{what}: {error}");
    assert!(error.to_string().contains("log"), "{what}: {error}");
    assert!(archive.remove(3).is_err(), "{what}");
    assert_eq!(held(folder), before, "{what}: something was deleted");
}

#[test]
fn a_log_without_its_end_is_named_and_nothing_is_added_or_deleted() {
    for records in 0..3 {
        let (folder, _) = with_history();
        for name in ["log.0", "log.1"] {
            folder.truncate(name, records * RECORD).unwrap();
        }
        is_refused(&folder, &format!("{records} records"));
    }
}

#[test]
fn a_log_that_is_missing_is_named_and_nothing_is_added_or_deleted() {
    let (folder, _) = with_history();
    for name in ["log.0", "log.1"] {
        folder.remove(name).unwrap();
    }
    is_refused(&folder, "no log");
    let (folder, mut archive) = new_archive(&small());
    drop(add(&mut archive, &tree(&mut SplitMix64::new(3), 3, 9000)).unwrap());
    folder.remove("log.1").unwrap();
    folder.truncate("log.0", 0).unwrap();
    is_refused(&folder, "one log is missing, the other one empty");
}

#[test]
fn a_folder_whose_archive_lost_its_settings_is_not_made_an_archive() {
    let (folder, trees) = with_history();
    let before = held(&folder);
    let settings = folder.open("archive.0").unwrap();
    let mut bytes = vec![0; settings.len().unwrap() as usize];
    settings.read(0, &mut bytes).unwrap();
    for name in ["archive.0", "archive.1"] {
        folder.remove(name).unwrap();
    }
    let made = Archive::create(&folder, &small(), IDENTITY);
    assert!(made.is_err(), "an archive was made over another one");
    for name in ["log.0", "log.1"] {
        folder.remove(name).unwrap();
    }
    assert!(Archive::create(&folder, &small(), IDENTITY).is_err(), "over its containers");
    assert_eq!(held(&folder), before);
    drop((trees, bytes));
    assert!(Archive::open(Arc::new(folder.clone())).is_err());
}

#[test]
fn an_archive_without_its_folders_is_not_written_to() {
    for sub in ["containers", "versions"] {
        let (folder, trees) = with_history();
        let gone = folder.subfolder(sub).unwrap();
        for name in gone.list().unwrap() {
            gone.remove(&name).unwrap();
        }
        let other = if sub == "versions" { "containers" } else { "versions" };
        let before = names(&folder, other);
        let mut archive = Archive::open(Arc::new(folder.clone())).unwrap();
        let _ = add(&mut archive, &trees[0]);
        assert!(!archive.verify(&mut |_, _| true).unwrap().is_sound(), "{sub}");
        let now = names(&folder, other);
        assert!(before.iter().all(|name| now.contains(name)), "{sub}: {before:?} {now:?}");
        assert!(read(&archive, 2).is_err(), "{sub}");
    }
}

#[test]
fn a_log_that_lost_its_end_together_with_what_it_told_of_is_named_by_the_containers() {
    let (folder, _) = with_history();
    let versions = folder.subfolder("versions").unwrap();
    let last = versions.list().unwrap().pop().unwrap();
    versions.remove(&last).unwrap();
    for name in ["log.0", "log.1"] {
        folder.truncate(name, 2 * RECORD).unwrap();
    }
    is_refused(&folder, "two records, and no file of the third version");
}

#[test]
fn an_archive_whose_containers_are_all_gone_is_refused_and_not_begun_anew() {
    let (folder, _) = with_history();
    let containers = folder.subfolder("containers").unwrap();
    for name in containers.list().unwrap() {
        containers.remove(&name).unwrap();
    }
    is_refused(&folder, "no container");
}

#[test]
fn without_the_end_of_the_log_the_newest_version_is_not_guessed_and_a_named_one_is_read() {
    let (folder, [_, second, _]) = with_history();
    // Two versions are known, and not that the first was removed and a third added.
    for name in ["log.0", "log.1"] {
        folder.truncate(name, 2 * RECORD).unwrap();
    }
    let archive = Archive::open(Arc::new(folder.clone())).unwrap();
    let error = archive.version(None).map(drop).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("corrupt log at byte 0: "), "{said}");
    assert!(said.ends_with("; name a version"), "{said}");
    assert!(read(&archive, 2).unwrap() == second);
}

#[test]
fn an_archive_whose_folder_is_missing_is_refused_by_its_name() {
    for kept in ["containers", "versions"] {
        let (folder, _) = with_history();
        let bare = SimFolder::new();
        for name in folder.list().unwrap() {
            let Ok(file) = folder.open(&name) else { continue };
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            bare.create(&name).unwrap().write(0, &bytes).unwrap();
        }
        bare.subfolder(kept).unwrap();
        let gone = if kept == "versions" { "containers" } else { "versions" };
        let error = Archive::open(Arc::new(bare)).err().expect(gone).to_string();
        assert_eq!(error, format!("corrupt {gone} at byte 0: the folder is missing"));
    }
}

/// As after a compaction whose records are gone from both copies of the log.
#[test]
fn a_newer_file_of_a_version_than_the_log_tells_of_is_named_by_it() {
    let (folder, _) = with_history();
    let versions = folder.subfolder("versions").unwrap();
    let old = versions.open("00000002.version").unwrap();
    let mut bytes = vec![0; old.len().unwrap() as usize];
    old.read(0, &mut bytes).unwrap();
    versions.create("00000002-1.version").unwrap().write(0, &bytes).unwrap();
    let archive = Archive::open(Arc::new(folder.clone())).unwrap();
    let damage = archive.damage().join("; ");
    assert!(damage.contains("it does not tell of version 2, whose file is there"), "{damage}");
    is_refused(&folder, "a newer file of version 2");
}
