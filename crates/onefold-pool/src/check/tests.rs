//! Tests: what a check says of references and of fingerprints that are not what they should be.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::{
    BlockDevice as _, ByteSize, ContainerStore as _, Folder as _, FolderContainerStore, SimFolder,
};

use super::*;
use crate::PoolSettings;
use crate::format::container::FOOTER_BYTES;

#[test]
fn totals_that_are_not_what_was_counted_are_named() {
    let id = ContainerId::new;
    let with = |references| ContainerInfo { references, ..ContainerInfo::default() };
    let containers = [(id(1), with(3)), (id(2), with(0)), (id(4), with(2)), (id(5), with(7))];
    let counted = BTreeMap::from([(id(1), 3), (id(3), 9), (id(4), 1)]);
    let mut report = CheckReport::default();
    check_totals(&containers, &counted, &mut report);
    let said: Vec<&str> = report.findings.iter().map(|found| found.problem.as_str()).collect();
    assert_eq!(
        said,
        [
            "container 4 is referred to 1 times, but 2 were expected",
            "container 5 is referred to 0 times, but 7 were expected",
            "9 map entries refer to container 3, which is unknown",
        ]
    );
}

#[test]
fn findings_are_counted_past_those_that_are_named_and_one_is_not_told_twice() {
    let mut report = CheckReport::default();
    assert!(report.is_sound());
    for number in 0..FINDINGS_NAMED_MAX + 5 {
        report.found(format!("{number}"));
        if number < FINDINGS_NAMED_MAX {
            report.found(format!("{number}"));
        }
    }
    assert_eq!(report.findings.len(), FINDINGS_NAMED_MAX);
    assert_eq!(report.findings_total, FINDINGS_NAMED_MAX as u64 + 5);
    assert!(!report.is_sound());
}

#[test]
fn a_fingerprint_that_is_another_chunks_is_found() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for block in 0..3u8 {
        volume.write_at(u64::from(block) << 12, &[block + 1; 4096], false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let containers = folder.existing_subfolder("containers").unwrap();
    let id = ContainerId::new(1);
    let store = FolderContainerStore::new(Arc::clone(&containers));
    let len = store.len(id).unwrap();
    let mut entries = directories::load(&store, id, len).unwrap();
    assert_eq!(entries.len(), 3);
    (entries[0].fingerprint, entries[1].fingerprint) =
        (entries[1].fingerprint, entries[0].fingerprint);
    let at = len as usize - FOOTER_BYTES - 3 * container::ENTRY_BYTES;
    let name = containers.list().unwrap().remove(0);
    let bytes = container::encode_directory(id, &entries, at);
    containers.open(&name).unwrap().write(at as u64, &bytes).unwrap();
    let mut heard = Vec::new();
    let report = Pool::check_in(&folder, &mut |done, of| heard.push((done, of))).unwrap();
    assert_eq!(heard, [(len, len)]);
    let said: Vec<&str> = report.findings.iter().map(|found| found.problem.as_str()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("the chunk's fingerprint is") && said[0].contains("directory says"));
    // A header that is damaged is named beside them.
    containers.open(&name).unwrap().write(13, &[0xA5]).unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert_eq!(report.findings_total, 3, "{:?}", report.findings);
    assert!(report.findings.iter().any(|found| found.problem.contains("header")));
    // And a length that is none of what the table says.
    containers.open(&name).unwrap().set_len(len + 48).unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    let expected = format!("{id} has {} bytes, but {len} were expected", len + 48);
    assert!(report.findings.iter().any(|found| found.problem == expected), "{report:?}");
}

#[test]
fn the_one_frame_that_a_clean_stop_leaves_is_missed_where_it_is_damaged() {
    let folder = SimFolder::new();
    crate::empty_pool::new(&folder, &PoolSettings::default()).close().unwrap();
    let check = || Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(check().is_sound());
    folder.flip_bit("journal", 9, 1).unwrap();
    let said = check().findings.into_iter().map(|found| found.problem).collect::<Vec<_>>();
    assert_eq!(said, ["corrupt journal at byte 0: its only frame is damaged"]);
}

#[test]
fn what_is_past_the_end_of_a_volume_is_not_looked_at() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(520 * 4096)).unwrap();
    for block in [0, 511, 515, 519, 520, 1023] {
        let (number, lba) = (volume.state.number, Lba::new(block));
        let mut tally = crate::commit::Tally::default();
        pool.inner.map.set(number, lba, &[MapEntry::Lost], &mut tally).unwrap();
    }
    for all in [false, true] {
        let (mut report, mut lost) = (CheckReport::default(), Vec::new());
        let how = (all, true);
        for_each_entry(&pool.inner, &volume.state, how, &mut report, &mut |_, lba, own, entry| {
            assert!(own && lba.get() < 520);
            if entry == MapEntry::Lost {
                lost.push(lba.get());
            }
        });
        assert_eq!(lost, [0, 511, 515, 519]);
        assert!(report.is_sound());
    }
}

#[test]
fn a_pool_that_died_behind_a_checkpoint_was_not_stopped_cleanly() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    drop(volume);
    pool.checkpoint().unwrap();
    drop(pool);
    // Nothing follows the checkpoint, but a container is not full.
    let notes = || Pool::check_in(&folder, &mut |_, _| {}).unwrap().notes;
    assert_eq!(notes(), ["the pool was not stopped cleanly: its journal was followed"]);
    Pool::open(&folder, &OpenOptions::default()).unwrap().close().unwrap();
    assert_eq!(notes(), Vec::<String>::new());
}
