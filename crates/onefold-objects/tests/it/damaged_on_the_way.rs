//! What is read of the log is damaged before it comes: nothing of that is put back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_archive::{Archive, ArchiveError};
use onefold_objects::{ObjectFolder, SimObjects};

use crate::preceded::Preceded;
use crate::support::{Tree, add, create, open, read, secret, trees};

/// Versions, of which the first one was removed again.
fn begun(encrypted: bool) -> (SimObjects, Vec<Tree>) {
    let store = SimObjects::new();
    create(&store, encrypted).unwrap();
    let trees = trees(11, 4);
    for tree in &trees {
        add(&mut open(&store), tree).unwrap();
    }
    open(&store).remove(1).unwrap();
    (store, trees)
}

/// Add a version to a store of which each answer about the log goes through `on_the_way`.
fn add_over(
    store: &SimObjects,
    tree: &Tree,
    on_the_way: impl Fn(&str, &mut Vec<u8>) + Send + Sync + 'static,
) -> Result<u32, ArchiveError> {
    let objects = Preceded::damaged_on_the_way(store, move |name, bytes| {
        if name.starts_with("log.") {
            on_the_way(name, bytes);
        }
    });
    let folder = Arc::new(ObjectFolder::new(objects, None));
    let mut archive = Archive::open_with(folder, Some(&secret()))?;
    Ok(add(&mut archive, tree)?.number)
}

/// The archive has these versions and no other one, and nothing at all is wrong with it.
fn assert_holds(store: &SimObjects, versions: &[(u32, &Tree)], context: &str) {
    let archive = open(store);
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.findings.is_empty(), "{context}: {:?}", report.findings);
    assert!(report.notes.is_empty(), "{context}: {:?}", report.notes);
    let numbers: Vec<u32> = archive.versions().map(|info| info.number).collect();
    let expected: Vec<u32> = versions.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, expected, "{context}");
    for (number, tree) in versions {
        assert!(read(&archive, *number).unwrap() == **tree, "{context}: version {number}");
    }
}

#[test]
fn what_is_read_of_one_copy_of_the_log_and_is_damaged_is_not_put_back() {
    for encrypted in [false, true] {
        let (begun, trees) = begun(encrypted);
        let len = begun.contents()["log.0"].len();
        for damaged in ["log.0", "log.1"] {
            for at in (3..len).step_by(197) {
                let store = begun.after_crash();
                let context = format!("{damaged} at {at}, encrypted {encrypted}");
                let number = add_over(&store, &trees[0], move |name, bytes| {
                    if name == damaged {
                        bytes[at] ^= 0x10;
                    }
                });
                assert_eq!(number.unwrap(), 5, "{context}");
                let (copies, tree) = (store.contents(), &trees);
                assert!(copies["log.0"] == copies["log.1"] || encrypted, "{context}");
                let versions = [(2, &tree[1]), (3, &tree[2]), (4, &tree[3]), (5, &tree[0])];
                assert_holds(&store, &versions, &context);
            }
        }
    }
}

#[test]
fn where_each_look_at_the_log_is_damaged_elsewhere_a_version_is_added_or_nothing_is_changed() {
    for encrypted in [false, true] {
        let (store, trees) = begun(encrypted);
        let mut versions: Vec<(u32, &Tree)> = (2..).zip(&trees[1..]).collect();
        let looks = Arc::new(AtomicUsize::new(0));
        let (mut added, mut refused) = (0, 0);
        for round in 0..60 {
            let (looks, tree) = (Arc::clone(&looks), &trees[round % trees.len()]);
            let result = add_over(&store, tree, move |_, bytes| {
                let look = looks.fetch_add(1, Ordering::Relaxed);
                let at = look * 7919 % bytes.len();
                bytes[at] ^= 1 << (look % 8);
            });
            match result {
                Ok(number) => {
                    versions.push((number, tree));
                    added += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("log"), "{error}");
                    refused += 1;
                }
            }
            assert_holds(&store, &versions, &format!("round {round}, encrypted {encrypted}"));
        }
        assert!(added > 30, "{added} were added, {refused} refused");
    }
}

#[test]
fn what_is_damaged_in_both_copies_whenever_it_is_read_is_named_and_nothing_is_changed() {
    let (store, trees) = begun(false);
    let before = store.contents();
    // The last one is the removal, which nothing else tells of.
    for record in 0..5 {
        let result = add_over(&store, &trees[0], move |_, bytes| bytes[record * 512 + 9] ^= 1);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(&format!("record {record} is damaged in both copies")), "{error}");
        assert!(store.contents() == before, "record {record}");
    }
}
