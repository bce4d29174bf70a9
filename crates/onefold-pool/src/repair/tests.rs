//! Tests: a pool whose records are not all held in memory at once is checked and repaired as one
//! whose records are, and what is left where a repair could not be written.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, CrashMode, FaultKind, OpKind, SimFolder, SplitMix64};

use super::*;
use crate::check::CheckReport;
use crate::format::SEQUENCE_MAX;
use crate::format::container::{directory_bytes, encode_header};
use crate::map::PageRef;
use crate::{OpenOptions, PoolSettings};

const FRESH: PoolIdentity = PoolIdentity { uuid: [8; 16], key: [9; 32] };
const BLOCKS: u64 = 260;
/// Records of a full container.
const FULL: u64 = 63;

/// A pool of six full containers with a snapshot, of which the first has lost its
/// directory, the second a record, the third all, and the last, too.
fn damaged() -> SimFolder {
    let folder = SimFolder::new();
    let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
    let pool = crate::empty_pool::new(&folder, &settings);
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    let write = |block: u64, seed: u64| {
        let bytes = SplitMix64::new(seed).bytes(4096);
        volume.write_at(block * 4096, &bytes, false).unwrap();
    };
    (0..200).for_each(|block| write(block, block));
    // Records that nothing refers to, of which nobody knows whose they were.
    (3..9).for_each(|block| write(block, 1000 + block));
    pool.snapshot("main@one", 0, false).unwrap();
    (100..BLOCKS).for_each(|block| write(block, 2000 + block));
    // What was stored before.
    (40..60).for_each(|block| write(block, block + 90));
    drop(volume);
    pool.close().unwrap();
    let containers = folder.existing_subfolder(CONTAINER_FOLDER).unwrap();
    let names = containers.list().unwrap();
    assert_eq!(names.len(), 6);
    let open = |number: usize| containers.open(&names[number]).unwrap();
    let first = open(0);
    let len = directory_bytes(FULL as usize);
    first.write(first.len().unwrap() - len as u64, &vec![0; len]).unwrap();
    open(1).write(20_000, &[0; 100]).unwrap();
    for lost in [2, 5] {
        open(lost).set_len(0).unwrap();
    }
    folder
}

/// What a check says, but for how many bytes it read.
fn checked(folder: &SimFolder, chunks_per_pass: u64) -> CheckReport {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let pool = Pool::open(folder, &options).unwrap();
    let mut report = pool.check_in_passes(chunks_per_pass, &mut |_, _| true).unwrap();
    report.findings.sort_by(|a, b| a.problem.cmp(&b.problem));
    report
}

/// What a repair comes to: its report, and what each block of each volume is then.
fn repaired(folder: &SimFolder, chunks_per_pass: u64) -> (RepairReport, Vec<Option<Vec<u8>>>) {
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let mut report = RepairReport::default();
    let mut planner = Planner::begin(&folder, FRESH, &mut report).unwrap();
    planner.chunks_per_pass = chunks_per_pass;
    let replace = planner.work_out(&folder, &mut report, &mut |_, _| {}).unwrap();
    let repair = Repair {
        folder: Arc::new(folder.clone()),
        report,
        work: Work::Replace(Box::new(replace)),
        _lock: None,
    };
    let mut report = repair.apply().unwrap();
    assert!(checked(&folder, chunks_per_pass).is_sound(), "{chunks_per_pass} at once");
    // More of the map is read, and there may be pages of it that are not needed.
    (report.map_pages_read, report.bytes_to_write) = (0, 0);
    report.plan.retain(|step| !step.starts_with("write the map"));
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let mut blocks = Vec::new();
    for volume in pool.volumes() {
        for block in 0..volume.size_bytes() / 4096 {
            let mut bytes = vec![0; 4096];
            let read = volume.read_at(block * 4096, &mut bytes);
            blocks.push(read.is_ok().then_some(bytes));
        }
    }
    (report, blocks)
}

#[test]
fn in_whatever_parts_records_are_looked_at_a_check_and_a_repair_come_to_the_same() {
    let folder = damaged();
    let (said, whole) = (checked(&folder, CHUNKS_PER_PASS), repaired(&folder, CHUNKS_PER_PASS));
    let (report, blocks) = &whole;
    assert_eq!(said.chunks, 4 * FULL, "{:#?}", said.findings);
    assert!(said.findings_total > 100, "{:#?}", said.findings);
    assert_eq!(report.lost_and_found, Some(("lost-and-found".to_owned(), 6)), "{report:#?}");
    assert!(report.lost.total > 100, "{report:#?}");
    assert!(blocks.iter().flatten().count() > 150);
    for at_once in [1, FULL - 1, FULL, FULL + 1, 2 * FULL - 1, 2 * FULL, 200] {
        let again = checked(&folder, at_once);
        assert_eq!(again.findings, said.findings, "{at_once} at once");
        let numbers = |said: &CheckReport| (said.live, said.references, said.chunks, said.bytes);
        assert_eq!(numbers(&again), numbers(&said), "{at_once} at once");
        let again = repaired(&folder, at_once);
        assert_eq!(again.0, *report, "{at_once} at once");
        assert!(again.1 == *blocks, "{at_once} at once");
    }
}

#[test]
fn what_is_called_a_container_past_the_last_one_is_none_to_a_repair() {
    let folder = damaged();
    let containers = folder.existing_subfolder(CONTAINER_FOLDER).unwrap();
    let expected = repaired(&folder, CHUNKS_PER_PASS);
    let uuid = Superblock::read(&*folder.open("super.0").unwrap(), "");
    let uuid = uuid.unwrap().unwrap().identity.uuid;
    for number in [CONTAINER_ID_MAX + 1, u32::MAX] {
        let header = encode_header(ContainerId::new(number), &uuid, 1);
        let media = containers.create(&format!("{number:08x}.container")).unwrap();
        media.write(0, &header).unwrap();
    }
    assert!(repaired(&folder, CHUNKS_PER_PASS) == expected, "it changes nothing");
}

/// Names of new files that are not in place.
fn new_files(folder: &SimFolder) -> Vec<String> {
    let containers = folder.existing_subfolder(CONTAINER_FOLDER).unwrap();
    let names = [folder.list().unwrap(), containers.list().unwrap()].concat();
    names.into_iter().filter(|name| name.contains(".repaired")).collect()
}

#[test]
fn new_files_that_never_come_to_be_used_go_at_once_and_others_stay_until_they_are_in_place() {
    let plan = |folder: &SimFolder| {
        Pool::repair_in(Arc::new(folder.clone()), FRESH, &mut |_, _| {}).unwrap()
    };
    let folder = damaged();
    folder.remove(GENERATION_FILE).unwrap();
    for written in [1, 6] {
        let repair = plan(&folder);
        folder.fail_from(&[OpKind::Write], written, FaultKind::Enospc);
        assert!(repair.apply().unwrap_err().is_no_space());
        folder.clear_faults();
        assert_eq!(new_files(&folder), Vec::<String>::new());
    }
    // The note is there, though nobody knows whether it is durable.
    let repair = plan(&folder);
    folder.fail_once(&[OpKind::SyncNames], 3, FaultKind::Eio);
    assert!(repair.apply().is_err());
    assert!(new_files(&folder).len() > 8, "{:?}", new_files(&folder));
    let repair = plan(&folder);
    assert!(repair.report().finishes);
    repair.apply().unwrap();
    assert_eq!(new_files(&folder), Vec::<String>::new());
    assert!(checked(&folder, CHUNKS_PER_PASS).is_sound());
    // Where no file says of which generation the pool was, it is one that it cannot have had.
    let supers = crate::open::files(&folder).unwrap().supers;
    let newest = crate::open::read_supers(&supers).unwrap().0;
    let generation = GenerationFile::read(&folder, &newest.identity.uuid).unwrap();
    assert_eq!(generation.number, newest.sequence);
}

#[test]
fn the_last_number_that_a_volume_can_have_is_given_to_what_was_found_and_none_past_it() {
    let folder = damaged();
    for (next, named) in [(VOLUME_NUMBER_MAX, true), (VOLUME_NUMBER_MAX + 1, false)] {
        let mut report = RepairReport::default();
        let mut planner = Planner::begin(&folder, FRESH, &mut report).unwrap();
        planner.base.next_volume = next;
        planner.work_out(&folder, &mut report, &mut |_, _| {}).unwrap();
        assert_eq!(report.lost_and_found.is_some(), named, "{next}");
    }
}

#[test]
fn a_pool_that_has_no_two_checkpoints_left_is_not_repaired() {
    let folder = damaged();
    let mut planner = Planner::begin(&folder, FRESH, &mut RepairReport::default()).unwrap();
    planner.newest_epoch = SEQUENCE_MAX - 2;
    assert_eq!(planner.newest_sequence().unwrap(), SEQUENCE_MAX - 2);
    planner.newest_epoch = SEQUENCE_MAX - 1;
    assert!(matches!(planner.newest_sequence(), Err(PoolError::Setting(_))));
}

#[test]
fn a_volume_that_is_found_again_has_a_name_of_its_own() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let names = [5, 6, 7].map(|number| {
        let mut record = guess::recovered(number, 1, 4096, 1);
        LOST_AND_FOUND.clone_into(&mut record.name);
        add_volume(&pool.inner, record).unwrap()
    });
    assert_eq!(names, ["lost-and-found", "lost-and-found-2", "lost-and-found-3"]);
}

/// Flip a bit of the page at the root of a snapshot's map.
fn damage_root(folder: &SimFolder, name: &str) {
    let supers = crate::open::files(folder).unwrap().supers;
    let newest = crate::open::read_supers(&supers).unwrap().0;
    let record = newest.volumes.iter().find(|record| record.name == name).unwrap();
    let place = PageRef::from_raw(record.root).and_then(PageRef::place).unwrap();
    folder.flip_bit(MAP_FILE, u64::from(place.slot) * PAGE_BYTES as u64 + 9, 3).unwrap();
}

fn repair(folder: &SimFolder) -> RepairReport {
    let repair = Pool::repair_in(Arc::new(folder.clone()), FRESH, &mut |_, _| {}).unwrap();
    repair.apply().unwrap()
}

#[test]
fn a_page_all_of_which_others_have_comes_back_and_nothing_is_lost() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1024 * 4096)).unwrap();
    let content = |seed| SplitMix64::new(seed).bytes(4096);
    for (block, seed) in [(0, 1), (600, 2)] {
        volume.write_at(block * 4096, &content(seed), false).unwrap();
    }
    // Each has one of the snapshot's two leaves.
    pool.snapshot("main@one", 0, false).unwrap();
    let clone = pool.clone_snapshot("main@one", "clone", 0).unwrap();
    volume.write_at(0, &content(3), false).unwrap();
    clone.write_at(600 * 4096, &content(4), false).unwrap();
    drop((volume, clone));
    pool.close().unwrap();
    damage_root(&folder, "main@one");
    let report = repair(&folder);
    assert!(report.lost.is_empty() && report.restored.is_empty(), "{report:#?}");
    assert!(checked(&folder, CHUNKS_PER_PASS).is_sound());
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let snapshot = pool.volume("main@one").unwrap();
    for (block, seed) in [(0, 1), (600, 2)] {
        let mut found = vec![0; 4096];
        snapshot.read_at(block * 4096, &mut found).unwrap();
        assert!(found == content(seed), "block {block}");
    }
}

#[test]
fn all_pages_of_a_large_map_are_there_after_a_repair() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(200 * 512 * 4096)).unwrap();
    for leaf in 0..200u64 {
        volume.write_at(leaf * 512 * 4096, &[leaf as u8 + 1; 4096], false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    folder.flip_bit(&format!("{CONTAINER_FOLDER}/00000001.container"), 3, 1).unwrap();
    assert!(!repair(&folder).is_lossy());
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let volume = pool.volume("main").unwrap();
    for leaf in 0..200u64 {
        let mut found = [0; 4096];
        volume.read_at(leaf * 512 * 4096, &mut found).unwrap();
        assert_eq!(found, [leaf as u8 + 1; 4096]);
    }
}

#[test]
fn what_a_snapshot_has_again_from_a_later_one_its_predecessor_has_again_from_that() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(3 * 512 * 4096)).unwrap();
    let write = |block: u64, seed| {
        volume.write_at(block * 4096, &SplitMix64::new(seed).bytes(4096), false).unwrap();
    };
    (0..3).for_each(|leaf| write(leaf * 512, leaf));
    pool.snapshot("main@one", 0, false).unwrap();
    write(512, 8);
    pool.snapshot("main@two", 0, false).unwrap();
    write(1024, 9);
    drop(volume);
    pool.close().unwrap();
    damage_root(&folder, "main@one");
    damage_root(&folder, "main@two");
    let report = repair(&folder);
    let in_doubt = |blocks: &Blocks| -> BTreeSet<(String, u64)> {
        let each = blocks.ranges.iter().map(|range| (range.volume.clone(), range.first.get()));
        each.collect()
    };
    // The first leaf is that of all three, and the second one that of the later snapshot and of
    // the volume.
    let doubt = in_doubt(&report.restored);
    let expected = [("main@one", 512), ("main@one", 1024), ("main@two", 1024)];
    assert_eq!(doubt, expected.map(|(name, block)| (name.to_owned(), block)).into(), "{report:#?}");
}

#[test]
fn what_an_earlier_repair_gave_up_is_named_again_though_nothing_else_is_lost() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(512 * 4096)).unwrap();
    for block in 0..20 {
        volume.write_at(block * 4096, &SplitMix64::new(block).bytes(4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let container = format!("{CONTAINER_FOLDER}/00000001.container");
    folder.flip_bit(&container, 30_000, 1).unwrap();
    assert_eq!(repair(&folder).lost.total, 1);
    // Its header, which a repair writes anew.
    folder.flip_bit(&container, 3, 1).unwrap();
    let report = repair(&folder);
    assert!(!report.is_nothing_to_do());
    assert_eq!((report.lost.total, report.restored.total), (1, 0), "{report:#?}");
}

#[test]
fn the_lock_of_a_pool_stays_in_its_folder_once_a_repair_was_worked_out() {
    let folder = tempfile::tempdir().unwrap();
    let pool =
        crate::empty_pool::new(&FileFolder::open(folder.path()).unwrap(), &PoolSettings::default());
    pool.close().unwrap();
    let files = || {
        let names =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<BTreeSet<_>>()
    };
    let before = files();
    drop(Pool::repair_at(folder.path(), false, FRESH, &mut |_, _| {}).unwrap());
    let new: Vec<_> = files().difference(&before).cloned().collect();
    assert_eq!(new, ["lock"]);
}
