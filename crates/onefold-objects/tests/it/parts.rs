//! Long files, which are sent in parts while they are written: what is in memory, what can be seen
//! meanwhile, and what is left when that is cut short anywhere.

use std::sync::Arc;

use onefold_archive::{Archive, ArchiveError};
use onefold_block::{Folder, MediaError, SplitMix64};
use onefold_objects::sim::Loss;
use onefold_objects::{ObjectFolder, SimObjects, Use};

use crate::support::{Tree, add, assert_sound, create, lock, open, read, secret, try_open};

/// Bytes of a part in these tests.
const PART: usize = 4 << 10;

fn root(store: &SimObjects) -> ObjectFolder {
    ObjectFolder::in_parts(Arc::new(store.clone()), None, PART)
}

fn inner(store: &SimObjects) -> Arc<dyn Folder> {
    root(store).subfolder("inner").unwrap()
}

/// Requests since there were so many that say this.
fn asked(store: &SimObjects, since: usize, what: &str) -> usize {
    store.log()[since..].iter().filter(|line| line.starts_with(what)).count()
}

#[test]
fn a_long_file_is_sent_while_it_is_written_and_seen_when_all_of_it_is_there() {
    let store = SimObjects::new();
    let folder = inner(&store);
    let bytes = SplitMix64::new(1).bytes(10 * PART + 77);
    let media = folder.create("long").unwrap();
    for (at, piece) in (0..).step_by(1000).zip(bytes.chunks(1000)) {
        media.write(at, piece).unwrap();
        // Up to two parts wait in memory, and no fewer than one.
        let written = at as usize + piece.len();
        let sent = asked(&store, 0, "part inner/long") * PART;
        assert!(written - sent < 2 * PART && (sent == 0 || written - sent >= PART), "{written}");
        assert!(!store.contents().contains_key("inner/long"));
    }
    assert_eq!(media.len().unwrap(), bytes.len() as u64);
    assert_eq!(folder.list().unwrap(), ["long"]);
    // What waits can be read and changed; what was sent cannot, and says so.
    let last = bytes.len() - PART;
    let mut found = vec![0; PART];
    media.read(last as u64, &mut found).unwrap();
    assert!(found == bytes[last..]);
    media.write(last as u64, &[0; PART]).unwrap();
    media.set_len(last as u64).unwrap();
    media.write(last as u64, &bytes[last..]).unwrap();
    let is_sent = |outcome: Result<(), MediaError>| {
        let error = outcome.unwrap_err().to_string();
        assert!(error.ends_with("it was sent, and is not complete yet"), "{error}");
    };
    is_sent(media.read(0, &mut found));
    is_sent(media.write(0, b"x"));
    is_sent(media.set_len(9));
    is_sent(folder.rename("long", "other"));
    media.sync().unwrap();
    assert!(!store.contents().contains_key("inner/long"), "its name is not durable yet");
    folder.sync_names().unwrap();
    assert!(store.contents()["inner/long"] == bytes);
    assert_eq!(store.unfinished(), [""; 0]);
    media.read(5, &mut found).unwrap();
    assert!(found == bytes[5..][..PART]);
    // From then on it is like any other, and written again in its place.
    media.write(3, b"in its place").unwrap();
    media.sync().unwrap();
    assert!(store.contents()["inner/long"][3..].starts_with(b"in its place"));
    assert_eq!(store.contents()["inner/long"].len(), bytes.len());
}

#[test]
fn a_file_of_two_parts_is_sent_and_one_byte_less_waits() {
    let store = SimObjects::new();
    let folder = inner(&store);
    for (len, parts) in [(2 * PART - 1, 0), (2 * PART, 1), (4 * PART - 1, 2), (4 * PART, 3)] {
        let before = store.log().len();
        folder.create("a").unwrap().write(0, &vec![7; len]).unwrap();
        assert_eq!(asked(&store, before, "part"), parts, "{len} bytes");
        folder.remove("a").unwrap();
        assert_eq!(store.unfinished(), [""; 0], "{len} bytes");
    }
    // Without a name nothing is sent.
    let media = folder.create("a").unwrap();
    folder.remove("a").unwrap();
    let before = store.log().len();
    media.write(0, &vec![7; 3 * PART]).unwrap();
    media.read(0, &mut [0; 9]).unwrap();
    assert_eq!(store.log().len(), before);
}

#[test]
fn what_is_removed_or_made_anew_while_it_is_sent_is_given_up() {
    let store = SimObjects::new();
    let folder = inner(&store);
    let begin = || {
        let media = folder.create("a").unwrap();
        media.write(0, &vec![7; 3 * PART]).unwrap();
        assert_eq!(store.unfinished(), ["inner/a"]);
        media
    };
    let media = begin();
    folder.remove("a").unwrap();
    drop(media);
    assert_eq!(store.unfinished(), [""; 0]);
    let old = begin();
    let media = folder.create("a").unwrap();
    media.write(0, b"new").unwrap();
    drop(old);
    assert_eq!(store.unfinished(), [""; 0]);
    folder.sync_names().unwrap();
    assert_eq!(store.contents()["inner/a"], b"new");
    // So is what nobody came to the end of.
    let store = SimObjects::new();
    let folder = inner(&store);
    folder.create("b").unwrap().write(0, &vec![7; 3 * PART]).unwrap();
    assert_eq!(store.unfinished(), ["inner/b"]);
    drop(folder);
    assert_eq!(store.unfinished(), [""; 0]);
}

#[test]
fn the_lock_ends_with_the_last_folder_also_where_something_was_never_put() {
    let store = SimObjects::new();
    let lease = Arc::new(lock(&store, Use::Add, 1).unwrap());
    let folder = ObjectFolder::new(Arc::new(store.clone()), Some(lease));
    let inner = folder.subfolder("inner").unwrap();
    inner.create("a").unwrap().write(0, b"never put").unwrap();
    drop(folder);
    assert_eq!(inner.list().unwrap(), ["a"]);
    drop(inner);
    drop(lock(&store, Use::Remove, 2).unwrap());
}

#[test]
fn what_somebody_else_put_while_it_was_sent_is_not_replaced() {
    for long in [false, true] {
        let store = SimObjects::new();
        let (one, two) = (inner(&store), inner(&store));
        let media = one.create("a").unwrap();
        media.write(0, &vec![1; 5 * PART]).unwrap();
        let other = vec![2; if long { 5 * PART } else { 9 }];
        two.create("a").unwrap().write(0, &other).unwrap();
        two.sync_names().unwrap();
        let error = one.sync_names().unwrap_err().to_string();
        assert!(error.contains("somebody else has written it meanwhile"), "{error}");
        assert!(store.contents()["inner/a"] == other);
    }
}

#[test]
fn each_request_that_is_lost_can_be_made_again() {
    for loss in [Loss::RequestLost, Loss::AnswerLost, Loss::Repeated] {
        for lost in 1.. {
            let context = format!("{loss:?} at request {lost}");
            let store = SimObjects::new();
            let folder = inner(&store);
            let bytes = SplitMix64::new(2).bytes(5 * PART + 7);
            store.lose(store.requests() + lost, loss);
            let media = folder.create("a").unwrap_or_else(|_| folder.create("a").unwrap());
            for (at, piece) in (0..).step_by(PART).zip(bytes.chunks(PART)) {
                let written = media.write(at, piece).or_else(|_| media.write(at, piece));
                written.unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            let named = folder.sync_names();
            assert!(loss != Loss::Repeated || named.is_ok(), "{context}: {named:?}");
            named.or_else(|_| folder.sync_names()).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(store.contents()["inner/a"] == bytes, "{context}");
            assert_eq!(media.len().unwrap(), bytes.len() as u64);
            if !store.has_lost() {
                assert!(lost > 8, "{context}");
                break;
            }
        }
    }
}

/// A tree whose list of chunks is long and whose containers are small.
fn tree(seed: u64) -> Tree {
    let mut random = SplitMix64::new(seed);
    let mut tree = Tree::new();
    tree.insert(b"of itself".to_vec(), Some(random.bytes(3000)));
    tree.insert(b"zeroes".to_vec(), Some(vec![0; 3 << 20]));
    tree
}

fn try_open_in_parts(store: &SimObjects) -> Result<Archive, ArchiveError> {
    Archive::open_with(Arc::new(root(store)), Some(&secret()))
}

#[test]
fn a_version_whose_list_is_sent_in_parts_counts_when_it_is_complete_and_not_before() {
    let trees = [tree(1), tree(2)];
    for encrypted in [false, true] {
        let begun = SimObjects::new();
        create(&begun, encrypted).unwrap();
        add(&mut open(&begun), &trees[0]).unwrap();
        let losses = [Loss::DiesBefore, Loss::DiesAfter, Loss::AnswerLost, Loss::Repeated];
        for (turn, loss) in losses.into_iter().enumerate() {
            // Each second request of a plain archive, and each fourth of an encrypted one.
            for lost in (1 + turn as u64..).step_by(if encrypted { 4 } else { 2 }) {
                let context = format!("{loss:?} at request {lost}, encrypted: {encrypted}");
                let store = begun.after_crash();
                let lease = lock(&store, Use::Add, 1).unwrap();
                store.lose(store.requests() + lost, loss);
                let added = try_open_in_parts(&store).and_then(|mut one| add(&mut one, &trees[1]));
                drop(lease);
                let is_over = !store.has_lost();
                if is_over {
                    assert!(asked(&store, 0, "part versions/") > 2, "{:?}", store.log());
                    assert_eq!(store.unfinished(), [""; 0]);
                }
                assert!(added.is_ok() || (!is_over && loss != Loss::Repeated), "{context}");
                let after = store.after_crash();
                after.pass_s(400);
                let archive = try_open(&after).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_sound(&archive, &context);
                assert!(read(&archive, 1).unwrap() == trees[0], "{context}");
                match read(&archive, 2) {
                    Ok(found) => assert!(found == trees[1], "{context}"),
                    Err(_) => assert!(added.is_err(), "{context}"),
                }
                drop(archive);
                // Life goes on.
                let mut archive = try_open_in_parts(&after).unwrap();
                let number = add(&mut archive, &trees[1]).unwrap().number;
                drop(archive);
                let archive = open(&after);
                assert!(read(&archive, number).unwrap() == trees[1], "{context}");
                let report = archive.verify(&mut |_, _| true).unwrap();
                assert!(report.is_sound() && report.unused_containers == 0, "{context}");
                if is_over {
                    break;
                }
            }
        }
    }
}

#[test]
fn whoever_lost_the_lock_sends_no_more_parts() {
    let store = SimObjects::new();
    let objects: Arc<dyn onefold_objects::Objects> = Arc::new(store.clone());
    let owner = crate::support::owner(1);
    let lease =
        onefold_objects::Lease::take(&objects, Use::Add, &owner, || NOW_MS.get(), &mut |_| ());
    let folder = ObjectFolder::in_parts(objects, Some(Arc::new(lease.unwrap())), PART);
    let folder = folder.subfolder("inner").unwrap();
    let media = folder.create("a").unwrap();
    media.write(0, &vec![1; 3 * PART]).unwrap();
    NOW_MS.set(10 * onefold_objects::lease::HOLD_MS);
    let before = store.log().len();
    media.write(3 * PART as u64, &vec![1; 2 * PART]).unwrap_err();
    folder.sync_names().unwrap_err();
    let changes = ["begin", "part", "complete", "put"];
    assert!(changes.iter().all(|what| asked(&store, before, what) == 0), "{:?}", store.log());
}

thread_local! {
    static NOW_MS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
