//! The contract of folders, and what comes of it in the store.

use std::sync::Arc;

use onefold_block::conformance::media::{check_folder, check_model};
use onefold_block::{Folder as _, MediaError, SplitMix64, small_file};
use onefold_objects::SimObjects;
use onefold_objects::sim::Loss;

use crate::support::folder;

#[test]
fn a_folder_of_objects_keeps_the_contract_of_folders() {
    check_folder(&|| Arc::new(folder(&SimObjects::new())));
}

#[test]
fn a_folder_of_objects_does_as_a_plain_one_over_many_steps() {
    for seed in 100..108 {
        check_model(&|| Arc::new(folder(&SimObjects::new())), seed, 200);
    }
}

#[test]
fn objects_have_the_names_and_bytes_of_the_files() {
    let store = SimObjects::new();
    let root = folder(&store);
    small_file::replace(&root, "settings", b"first").unwrap();
    small_file::replace(&root, "settings", b"second").unwrap();
    let inner = root.subfolder("inner").unwrap();
    let media = inner.create("a").unwrap();
    media.write(0, b"some").unwrap();
    media.sync().unwrap();
    assert!(!store.contents().contains_key("inner/a"), "its name is not durable yet");
    inner.sync_names().unwrap();
    media.write(4, b"thing").unwrap();
    media.sync().unwrap();
    let contents = store.contents();
    let found: Vec<(&str, &[u8])> = contents.iter().map(|(n, b)| (&n[..], &b[..])).collect();
    let expected: [(&str, &[u8]); 3] =
        [("inner/.folder", b""), ("inner/a", b"something"), ("settings", b"second")];
    assert_eq!(found, expected);
    inner.rename("a", "b").unwrap();
    assert_eq!(inner.list().unwrap(), ["b"]);
    inner.sync_names().unwrap();
    let names: Vec<String> = store.contents().into_keys().collect();
    assert_eq!(names, ["inner/.folder", "inner/b", "settings"]);
    assert_eq!(store.contents()["inner/b"], b"something");
    // One request each for what is written whole.
    let puts = store.log().iter().filter(|line| line.contains("settings")).count();
    assert_eq!(puts, 2, "{:?}", store.log());
}

#[test]
fn a_file_that_is_complete_waits_in_memory_no_longer() {
    let store = SimObjects::new();
    let inner = folder(&store).subfolder("inner").unwrap();
    let media = inner.create("a").unwrap();
    media.write(0, &[7; 1000]).unwrap();
    media.set_len(1000).unwrap();
    assert_eq!(store.contents()["inner/a"], [7; 1000]);
    let requests = store.requests();
    media.sync().unwrap();
    inner.sync_names().unwrap();
    assert_eq!(store.requests(), requests, "nothing is left to be done");
}

#[test]
fn what_another_client_has_put_is_not_replaced() {
    let store = SimObjects::new();
    let (one, two) = (folder(&store), folder(&store));
    one.create("log").unwrap().sync().unwrap();
    one.sync_names().unwrap();
    let logs = [one.open("log").unwrap(), two.open("log").unwrap()];
    for log in &logs {
        log.write(0, b"a record").unwrap();
    }
    logs[0].sync().unwrap();
    // The same bytes could be its own, with an answer that was lost.
    logs[1].sync().unwrap();
    logs[1].write(8, b" of two").unwrap();
    logs[1].sync().unwrap();
    logs[0].write(8, b" of one").unwrap();
    // A later look does not make it right to replace what was not there at the first one.
    assert_eq!(one.list().unwrap(), ["log"]);
    drop(one.open("log").unwrap());
    let error = logs[0].sync().unwrap_err();
    assert_eq!(error.to_string(), "write sim:log: somebody else has written it meanwhile");
    assert_eq!(store.contents()["log"], b"a record of two");
    // Neither is a new file put over one that came meanwhile.
    two.create("fresh").unwrap().write(0, b"two").unwrap();
    two.sync_names().unwrap();
    one.create("fresh").unwrap().write(0, b"one").unwrap();
    one.sync_names().unwrap_err();
    assert_eq!(store.contents()["fresh"], b"two");
}

#[test]
fn a_repeated_put_whose_first_answer_was_lost_is_known_for_ones_own() {
    for (loss, works) in [(Loss::Repeated, true), (Loss::AnswerLost, false)] {
        let store = SimObjects::new();
        let root = folder(&store);
        let media = root.create("a").unwrap();
        media.write(0, b"bytes").unwrap();
        store.lose(store.requests() + 1, loss);
        assert_eq!(root.sync_names().is_ok(), works);
        media.write(5, b" more").unwrap();
        root.sync_names().unwrap_or_else(|error| assert!(!works, "{error}"));
        if works {
            media.sync().unwrap();
            assert_eq!(store.contents()["a"], b"bytes more");
        }
    }
}

#[test]
fn reads_take_few_requests_and_right_bytes() {
    let store = SimObjects::new();
    let inner = folder(&store).subfolder("inner").unwrap();
    let bytes = SplitMix64::new(9).bytes(1_000_000);
    inner.create("a").unwrap().write(0, &bytes).unwrap();
    inner.sync_names().unwrap();
    let requests = |act: &dyn Fn(&dyn onefold_block::Media)| {
        let reader = folder(&store).existing_subfolder("inner").unwrap();
        let media = reader.open("a").unwrap();
        let before = store.requests();
        act(&*media);
        store.requests() - before
    };
    let read = |media: &dyn onefold_block::Media, at: usize, len: usize| {
        let mut buf = vec![0; len];
        media.read(at as u64, &mut buf).unwrap();
        assert!(buf == bytes[at..at + len], "{len} bytes at {at}");
    };
    let forward = requests(&|media| (0..1000).for_each(|n| read(media, n * 1000, 1000)));
    assert!(forward <= 12, "{forward}");
    let table = requests(&|media| {
        read(media, 999_970, 30);
        (1..50).for_each(|n| read(media, 999_970 - n * 1000, 1000));
    });
    assert_eq!(table, 1);
    let whole = requests(&|media| read(media, 0, 1_000_000));
    assert_eq!(whole, 1);
    let reader = folder(&store).existing_subfolder("inner").unwrap();
    let media = reader.open("a").unwrap();
    let mut random = SplitMix64::new(5);
    for _ in 0..300 {
        let at = random.below(1_000_000) as usize;
        let most = if random.below(2) == 0 { 1000 } else { 300_000 };
        read(&*media, at, random.below(most) as usize % (1_000_001 - at));
    }
}

#[test]
fn nothing_of_an_object_is_read_beside_what_has_replaced_it() {
    let store = SimObjects::new();
    let writer = folder(&store);
    writer.create("a").unwrap().write(0, &vec![1; 300_000]).unwrap();
    writer.sync_names().unwrap();
    let reader = folder(&store);
    let media = reader.open("a").unwrap();
    let of = |at: u64| {
        let mut buf = [0; 100];
        media.read(at, &mut buf).unwrap();
        buf
    };
    // Its end and a piece of its middle are kept from now on.
    assert_eq!([of(299_900), of(100_000)], [[1; 100]; 2]);
    store.damage("a", |_| Some(vec![2; 300_000]));
    // Found out by a read of what is not kept.
    assert_eq!([of(0), of(299_900), of(100_000)], [[2; 100]; 3]);
}

#[test]
fn an_object_that_is_short_or_gone_is_an_error() {
    let store = SimObjects::new();
    let inner = folder(&store).subfolder("inner").unwrap();
    inner.create("a").unwrap().write(0, &vec![5; 300_000]).unwrap();
    inner.sync_names().unwrap();
    let media = inner.open("a").unwrap();
    let mut buf = [0; 100];
    store.damage("inner/a", |bytes| Some(bytes[..250_000].to_vec()));
    // It was replaced, so it is looked at anew: what is there is read, and nothing behind it.
    media.read(200_000, &mut buf).unwrap();
    assert_eq!(media.len().unwrap(), 250_000);
    let error = media.read(249_950, &mut buf).unwrap_err();
    assert!(matches!(error, MediaError::Truncated { len: 250_000, .. }), "{error}");
    store.damage("inner/a", |_| None);
    assert!(matches!(media.read(0, &mut buf), Err(MediaError::NotFound { .. })));
}
