//! Archives on an object store: as ordinary ones, two at once, and damage.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use onefold_archive::tree::restore::{RestoreOptions, restore};
use onefold_archive::{Archive, ArchiveError};
use onefold_block::FileFolder;
use onefold_objects::lease::{HOLD_MS, LEASE_S};
use onefold_objects::{Expect, Lease, LeaseError, ObjectFolder, Objects, SimObjects, Use};

use crate::preceded::{Look, Preceded};
use crate::support::{
    Tree, add, assert_sound, create, lock, open, owner, read, secret, trees, try_open,
};

fn with_versions(encrypted: bool, seed: u64, versions: u64) -> (SimObjects, Vec<Tree>) {
    let store = SimObjects::new();
    create(&store, encrypted).unwrap();
    let trees = trees(seed, versions);
    for tree in &trees {
        add(&mut open(&store), tree).unwrap();
    }
    (store, trees)
}

#[test]
fn a_copy_of_the_objects_is_an_ordinary_archive_and_the_other_way_round() {
    for encrypted in [false, true] {
        let (store, trees) = with_versions(encrypted, 3, 3);
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in store.contents() {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let folder = Arc::new(FileFolder::open(dir.path()).unwrap());
        let mut archive = Archive::open_with(folder, Some(&secret())).unwrap();
        assert_sound(&archive, "the copy");
        for (tree, number) in trees.iter().zip(1..) {
            assert!(read(&archive, number).unwrap() == *tree);
        }
        add(&mut archive, &trees[0]).unwrap();
        archive.remove(2).unwrap();
        drop(archive);
        // Back, as any tool would do it.
        let back = SimObjects::new();
        for folder in ["", "containers/", "versions/"] {
            for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let name = format!("{folder}{}", path.file_name().unwrap().to_str().unwrap());
                    back.put(&name, &fs::read(&path).unwrap(), &Expect::Nothing).unwrap();
                }
            }
        }
        let archive = open(&back);
        assert_sound(&archive, "the copy of the copy");
        assert!(read(&archive, 3).unwrap() == trees[2] && read(&archive, 4).unwrap() == trees[0]);
        assert!(matches!(read(&archive, 2), Err(ArchiveError::NoVersion { .. })));
    }
}

#[test]
fn an_archive_that_lost_its_last_version_is_still_one() {
    let (store, trees) = with_versions(false, 4, 1);
    let mut archive = open(&store);
    archive.remove(1).unwrap();
    drop(archive);
    let names: Vec<String> = store.contents().into_keys().collect();
    let expected =
        ["archive.0", "archive.1", "containers/.folder", "log.0", "log.1", "versions/.folder"];
    assert_eq!(names, expected);
    assert_eq!(add(&mut open(&store), &trees[0]).unwrap().number, 2);
    assert!(matches!(create(&store, false), Err(ArchiveError::NotEmpty(_))));
}

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn of_two_that_add_the_second_is_refused_and_one_that_was_away_too_long_changes_nothing() {
    let (begun, trees) = with_versions(false, 5, 1);
    let more = self::trees(50, 2);
    // The first one is cut short at each of its requests, and goes on when the other is done.
    let mut away_at = 1;
    loop {
        let store = begun.after_crash();
        let objects: Arc<dyn Objects> = Arc::new(store.clone());
        NOW_MS.set(0);
        let lease =
            Lease::take(&objects, Use::Add, &owner(1), || NOW_MS.get(), &mut |_| ()).unwrap();
        assert!(matches!(lock(&store, Use::Add, 2), Err(LeaseError::Held { .. })));
        let goes_away = goes_away(&store, store.requests() + away_at, more[1].clone());
        let folder = ObjectFolder::new(goes_away, Some(Arc::new(lease)));
        let first = Archive::open(Arc::new(folder)).and_then(|mut one| add(&mut one, &more[0]));
        let context = format!("away at its request {away_at}");
        let archive = open(&store);
        assert_sound(&archive, &context);
        assert!(read(&archive, 1).unwrap() == trees[0], "{context}");
        if NOW_MS.get() == 0 {
            first.unwrap();
            break;
        }
        let numbers: Vec<u32> = archive.versions().map(|info| info.number).collect();
        let last = *numbers.last().unwrap();
        assert!(read(&archive, last).unwrap() == more[1], "{context}: the other one's");
        // The first one's is there if the log told of it already.
        match numbers.len() {
            2 => assert!(first.is_err(), "{context}"),
            3 => assert!(read(&archive, 2).unwrap() == more[0], "{context}"),
            _ => panic!("{context}: {numbers:?}"),
        }
        away_at += 1;
    }
    assert!(away_at > 10, "{away_at}");
}

/// A store whose client is suspended before one of its looks, long enough for another to add.
fn goes_away(store: &SimObjects, away_at: u64, other: Tree) -> Arc<Preceded> {
    Preceded::new(store, move |store, _| {
        if store.requests() + 1 == away_at {
            NOW_MS.set(10 * HOLD_MS);
            store.pass_s(2 * LEASE_S);
            let lease = lock(store, Use::Add, 9).unwrap();
            add(&mut open(store), &other).unwrap();
            drop(lease);
        }
    })
}

#[test]
fn damaged_and_missing_objects_are_named() {
    let (store, _) = with_versions(false, 6, 2);
    let names: Vec<String> = store.contents().into_keys().collect();
    let container = names.iter().find(|name| name.ends_with(".container")).unwrap();
    let version = names.iter().find(|name| name.starts_with("versions/0")).unwrap();
    for (name, is_gone) in
        [(container, false), (container, true), (version, false), (version, true)]
    {
        let after = store.after_crash();
        after.damage(name, |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            (!is_gone).then_some(bytes)
        });
        let report = open(&after).verify(&mut |_, _| true).unwrap();
        assert!(!report.is_sound(), "{name} {is_gone}");
    }
    // One copy of settings and log is enough; the next addition writes the other one.
    for name in ["archive.0", "archive.1", "log.0", "log.1"] {
        let after = store.after_crash();
        after.damage(name, |_| None);
        add(&mut open(&after), &trees(60, 1)[0]).unwrap();
        assert!(after.contents().contains_key(name), "{name}");
        assert_sound(&open(&after), name);
    }
    let cut = store.after_crash();
    cut.damage(container, |bytes| Some(bytes[..bytes.len() - 1000].to_vec()));
    assert!(!open(&cut).verify(&mut |_, _| true).unwrap().is_sound());
    let empty = SimObjects::new();
    assert!(matches!(try_open(&empty), Err(ArchiveError::NoArchive)));
}

/// An archive of these objects whose first reads of containers are answered four at a time, and how
/// many there were.
fn open_far(store: &SimObjects) -> (Arc<AtomicU64>, Archive) {
    let (waiting, reads) = (Barrier::new(4), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&reads);
    let together = Preceded::new(store, move |_, look| {
        let is_container = matches!(look, Look::Get(name) if name.starts_with("containers/"));
        // One after the other, the first of these would wait for ever.
        if is_container && count.fetch_add(1, Ordering::Relaxed) < 4 {
            waiting.wait();
        }
    });
    let folder = ObjectFolder::new(together, None).with_reads_at_once(4);
    (reads, Archive::open(Arc::new(folder)).unwrap())
}

#[test]
fn directories_are_read_at_once_and_known_in_the_same_order() {
    let (store, trees) = with_versions(false, 8, 5);
    let (reads, mut archive) = open_far(&store);
    let info = add(&mut archive, &trees[4]).unwrap();
    assert!(reads.load(Ordering::Relaxed) > 4);
    assert_eq!(info.totals.new_bytes, 0, "all of it was known");
    archive.compact(0, &mut |_, _| true).unwrap();
    drop(archive);
    assert_sound(&open(&store), "read at once");
}

#[test]
fn containers_are_read_at_once_for_verifying_and_restoring() {
    let (store, trees) = with_versions(false, 8, 5);
    let (reads, archive) = open_far(&store);
    assert_sound(&archive, "read at once");
    assert!(reads.load(Ordering::Relaxed) > 4);
    let (reads, archive) = open_far(&store);
    let (version, target) = (archive.version(None).unwrap(), tempfile::tempdir().unwrap());
    let options = RestoreOptions { assembly_bytes: 16 << 20, ..RestoreOptions::default() };
    let report = restore(&archive, &version, &[], target.path(), &options, &mut |_| true).unwrap();
    assert!(reads.load(Ordering::Relaxed) > 4);
    assert_eq!(report.problems, []);
    for (path, content) in trees.last().unwrap() {
        let path = target.path().join(OsStr::from_bytes(path));
        // These trees let nobody read them but root; a folder comes before what is in it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(content.as_ref().is_none_or(|content| fs::read(&path).unwrap() == *content));
        assert!(path.exists());
    }
}

#[test]
fn what_an_addition_costs_in_requests() {
    let (store, trees) = with_versions(false, 7, 2);
    let mut archive = open(&store);
    let before = store.log().len();
    add(&mut archive, &trees[1]).unwrap();
    let log = store.log();
    let puts: Vec<&String> = log[before..].iter().filter(|line| line.starts_with("put")).collect();
    let expected = ["put pending", "put versions/", "put log.0", "put log.1"];
    assert!(
        puts.iter().zip(&expected).all(|(put, expected)| put.starts_with(expected)),
        "{puts:?}"
    );
    assert_eq!(puts.len(), expected.len());
}
