//! What is asked of the store and what is kept in memory: requests are what a user waits and pays
//! for.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use onefold_block::{Folder, MediaError};
use onefold_objects::lease::HOLD_MS;
use onefold_objects::{Lease, ObjectFolder, Objects, SimObjects, Use};

use crate::support::{folder, owner};

/// Bytes of a part in these tests.
const PART: usize = 4 << 10;

fn in_parts(store: &SimObjects) -> ObjectFolder {
    ObjectFolder::in_parts(Arc::new(store.clone()), None, PART)
}

/// What is asked while this is done.
fn asked(store: &SimObjects, act: impl FnOnce()) -> Vec<String> {
    let before = store.log().len();
    act();
    store.log().split_off(before)
}

fn make(folder: &dyn Folder, name: &str, bytes: &[u8]) {
    folder.create(name).unwrap().write(0, bytes).unwrap();
    folder.sync_names().unwrap();
}

fn read(folder: &dyn Folder, name: &str) -> Vec<u8> {
    let media = folder.open(name).unwrap();
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_that_was_put_stays_in_memory_while_it_is_open_if_it_is_short() {
    let store = SimObjects::new();
    let root = folder(&store);
    for (bytes, requests) in [(256 << 10, 0), ((256 << 10) + 1, 1)] {
        let media = root.create("a").unwrap();
        media.write(0, &vec![7; bytes]).unwrap();
        root.sync_names().unwrap();
        let log = asked(&store, || media.read(0, &mut [0; 100]).unwrap());
        assert_eq!(log.len(), requests, "{bytes}: {log:?}");
    }
}

#[test]
fn what_was_put_and_closed_is_asked_for_again_and_its_end_comes_at_once() {
    let store = SimObjects::new();
    let root = folder(&store);
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    make(&root, "a", &bytes);
    let log = asked(&store, || {
        let media = root.open("a").unwrap();
        for len in [1_usize, 100, 64 << 10] {
            let mut found = vec![0; len];
            media.read((bytes.len() - len) as u64, &mut found).unwrap();
            assert!(found == bytes[bytes.len() - len..], "{len}");
        }
    });
    assert_eq!(log, ["tail a"]);
    // What is read elsewhere does not take the place of its end.
    let log = asked(&store, || {
        let media = root.open("a").unwrap();
        for at in [99_900, 0, 99_900, 34_464, 100] {
            media.read(at, &mut [0; 100]).unwrap();
        }
    });
    assert_eq!(log, ["tail a", "get a"]);
    // What is before its end is one more.
    let log = asked(&store, || assert!(read(&root, "a") == bytes));
    assert_eq!(log, ["tail a", "get a"]);
}

#[test]
fn a_change_outlives_its_handle_until_it_is_put() {
    let store = SimObjects::new();
    let root = folder(&store);
    make(&root, "a", b"first");
    root.open("a").unwrap().write(0, b"FI").unwrap();
    assert_eq!(store.contents()["a"], b"first");
    let media = root.open("a").unwrap();
    media.set_len(3).unwrap();
    media.set_len(4).unwrap();
    drop(media);
    assert_eq!(read(&root, "a"), b"FIr\0");
    root.open("a").unwrap().sync().unwrap();
    assert_eq!(store.contents()["a"], b"FIr\0");
}

#[test]
fn a_long_file_is_changed_in_its_place() {
    let store = SimObjects::new();
    let root = folder(&store);
    let mut bytes = vec![7; (8 << 20) + 5];
    make(&root, "a", &bytes);
    let media = root.open("a").unwrap();
    let log = asked(&store, || media.write(9, b"changed").unwrap());
    assert_eq!(log, ["get a"; 2], "8 MiB at a time");
    media.sync().unwrap();
    bytes[9..16].copy_from_slice(b"changed");
    assert!(store.contents()["a"] == bytes);
}

#[test]
fn new_files_are_put_in_the_order_in_which_they_were_made() {
    let store = SimObjects::new();
    let root = folder(&store);
    let names = ["m", "c", "z", "a", "q", "b", "y", "d", "x", "e"];
    for name in names {
        root.create(name).unwrap();
    }
    let log = asked(&store, || root.sync_names().unwrap());
    assert_eq!(log, names.map(|name| format!("put {name}")));
}

#[test]
fn a_name_that_was_left_is_removed_once_and_is_anybodys_then() {
    let store = SimObjects::new();
    let root = folder(&store);
    make(&root, "a", b"one");
    root.rename("a", "b").unwrap();
    assert!(matches!(root.open("a"), Err(MediaError::NotFound { .. })));
    assert!(matches!(root.remove("a"), Err(MediaError::NotFound { .. })));
    let log = asked(&store, || root.sync_names().unwrap());
    assert_eq!(log, ["put b", "remove a"]);
    make(&folder(&store), "a", b"two");
    let log = asked(&store, || root.sync_names().unwrap());
    assert_eq!(log, [""; 0]);
    assert_eq!(root.list().unwrap(), ["a", "b"]);
    assert_eq!(read(&root, "a"), b"two");
}

#[test]
fn what_was_removed_can_be_made_anew_and_has_zeroes_where_nothing_was_written() {
    let store = SimObjects::new();
    let root = folder(&store);
    for name in ["a", "a", "b"] {
        let media = root.create(name).unwrap();
        media.write(3, b"x").unwrap();
        media.write(6, b"y").unwrap();
        root.sync_names().unwrap();
        assert_eq!(store.contents()[name], b"\0\0\0x\0\0y");
        root.remove(name).unwrap();
        assert!(matches!(root.remove(name), Err(MediaError::NotFound { .. })));
        assert!(store.contents().is_empty());
    }
    // No file takes the name of a folder.
    root.subfolder("inner").unwrap();
    make(&root, "a", b"file");
    let error = root.rename("a", "inner").unwrap_err().to_string();
    assert!(error.starts_with("rename to sim:inner: "), "{error}");
    root.sync_names().unwrap();
    assert_eq!(store.contents()["a"], b"file");
}

#[test]
fn a_folder_is_looked_for_once_while_it_is_there() {
    let store = SimObjects::new();
    let root = folder(&store);
    let log = asked(&store, || drop(root.subfolder("inner").unwrap()));
    assert_eq!(log, ["list inner/", "put inner/.folder"]);
    let log = asked(&store, || {
        drop(root.subfolder("inner").unwrap());
        drop(root.existing_subfolder("inner").unwrap());
    });
    assert_eq!(log, [""; 0]);
    let other = folder(&store);
    let log = asked(&store, || {
        drop(other.existing_subfolder("inner").unwrap());
        drop(other.existing_subfolder("inner").unwrap());
    });
    assert_eq!(log, ["list inner/"]);
    // One that is gone is not there, and can be made anew.
    let log = asked(&store, || root.remove_subfolder("inner").unwrap());
    assert_eq!(log, ["list inner/", "remove inner/.folder"]);
    assert!(matches!(root.existing_subfolder("inner"), Err(MediaError::NotFound { .. })));
    assert!(matches!(root.remove_subfolder("inner"), Err(MediaError::NotFound { .. })));
    make(&*root.subfolder("inner").unwrap(), "file", b"in it");
    assert!(root.remove_subfolder("inner").is_err());
    assert_eq!(store.contents().len(), 2);
}

#[test]
fn a_file_that_is_there_already_is_sent_in_parts_from_a_part_and_a_quarter_on() {
    let store = SimObjects::new();
    for (bytes, kinds) in [
        (5 * PART / 4, &["put a"][..]),
        (5 * PART / 4 + 1, &["begin a", "part a 0", "part a 1", "tail a", "complete a"]),
    ] {
        let root = in_parts(&store);
        make(&root, "a", b"short");
        let media = root.open("a").unwrap();
        media.write(0, &vec![7; bytes]).unwrap();
        let log = asked(&store, || media.sync().unwrap());
        assert_eq!(log, kinds, "{bytes} bytes");
        assert!(store.contents()["a"] == vec![7; bytes]);
    }
    assert_eq!(store.unfinished(), [""; 0]);
}

#[test]
fn what_cannot_be_completed_is_given_up() {
    let store = SimObjects::new();
    let root = in_parts(&store);
    make(&root, "a", b"short");
    let media = root.open("a").unwrap();
    media.write(0, &vec![7; 3 * PART]).unwrap();
    store.damage("a", |_| Some(b"another's".to_vec()));
    let log = asked(&store, || drop(media.sync().unwrap_err()));
    assert_eq!(log.last().map(String::as_str), Some("abort a"), "{log:?}");
    assert_eq!(store.contents()["a"], b"another's");
    assert_eq!(store.unfinished(), [""; 0]);
    assert!(store.abort("a", "upload-1").is_err(), "there is none to give up");
}

thread_local! {
    /// The store by whose requests time goes by, and after how many of them the lock has run out.
    static TIME: RefCell<Option<SimObjects>> = const { RefCell::new(None) };
    static RUNS_OUT: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn clock() -> u64 {
    let requests = TIME.with_borrow(|store| store.as_ref().map_or(0, SimObjects::requests));
    if requests >= RUNS_OUT.get() { 2 * HOLD_MS } else { 0 }
}

/// All kinds of changes, up to the first one that fails.
fn change_all(root: &ObjectFolder) -> Result<(), MediaError> {
    let inner = root.subfolder("inner")?;
    let long = inner.create("long")?;
    long.write(0, &vec![1; 2 * PART])?;
    long.write(2 * PART as u64, &vec![1; PART + 5])?;
    inner.sync_names()?;
    let log = root.create("log")?;
    log.write(0, b"short")?;
    root.sync_names()?;
    log.write(5, b" and longer")?;
    log.sync()?;
    log.write(0, &vec![2; 2 * PART])?;
    log.sync()?;
    root.rename("log", "other")?;
    root.sync_names()?;
    root.remove("other")?;
    inner.remove("long")?;
    root.remove_subfolder("inner")
}

#[test]
fn nothing_is_changed_after_the_request_during_which_the_lock_runs_out() {
    for last in 2.. {
        let store = SimObjects::new();
        RUNS_OUT.set(u64::MAX);
        TIME.set(Some(store.clone()));
        let objects = Arc::new(store.clone());
        let shared: Arc<dyn Objects> = objects;
        let lease = Lease::take(&shared, Use::Remove, &owner(1), clock, &mut |_| ()).unwrap();
        RUNS_OUT.set(last);
        let root = ObjectFolder::in_parts(shared, Some(Arc::new(lease)), PART);
        let changed = change_all(&root);
        let log = store.log();
        let late: Vec<&String> = log[log.len().min(last as usize)..]
            .iter()
            .filter(|line| !line.starts_with("tail") && !line.starts_with("list"))
            // An upload of ones own, which nobody else knows.
            .filter(|line| !line.starts_with("abort"))
            .collect();
        assert_eq!(late, [""; 0], "after request {last} of {log:?}");
        if changed.is_ok() {
            assert!(last > 20, "{log:?}");
            break;
        }
    }
}
