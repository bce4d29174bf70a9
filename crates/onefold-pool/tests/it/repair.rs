//! Whatever is damaged, after a repair every block is right, or an error and listed, and the pool
//! is sound and works on.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_block::{BlockDevice, ByteSize, CrashMode, FileFolder, Folder, SimFolder, SplitMix64};
use onefold_pool::format::superblock::{KIND_SNAPSHOT, KIND_VOLUME, Superblock, VolumeRecord};
use onefold_pool::{Pool, PoolError, PoolIdentity, RepairReport, SpaceTarget};

use crate::support::{assert_sound, content, new_pool, options, small};

const BLOCKS: u64 = 1100;
const FRESH: PoolIdentity = PoolIdentity { uuid: [8; 16], key: [9; 32] };

/// What each volume and snapshot held at each block, now and ever.
#[derive(Clone, Default)]
pub struct Truth {
    now: BTreeMap<String, BTreeMap<u64, u64>>,
    /// Contents that were once at a block of `main`.
    ever: BTreeMap<u64, Vec<u64>>,
}

impl Truth {
    fn write(&mut self, block: u64, seed: u64) {
        self.now.get_mut("main").unwrap().insert(block, seed);
        self.ever.entry(block).or_default().push(seed);
    }

    fn snapshot(&mut self, name: &str) {
        let main = self.now["main"].clone();
        self.now.insert(name.to_owned(), main);
    }
}

/// A pool with snapshots, a clone, duplicates, holes and overwritten blocks.
pub fn used(clean: bool) -> (SimFolder, Truth) {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    let mut truth = Truth::default();
    truth.now.insert("main".to_owned(), BTreeMap::new());
    let mut random = SplitMix64::new(5);
    let mut write = |truth: &mut Truth, blocks: std::ops::Range<u64>, step: usize, seeds: u64| {
        for block in blocks.step_by(step) {
            let seed = random.below(seeds);
            volume.write_at(block * 4096, &content(seed, 4096), false).unwrap();
            truth.write(block, seed);
        }
        volume.flush().unwrap();
    };
    write(&mut truth, 0..700, 1, 500);
    pool.snapshot("main@one", 1, false).unwrap();
    truth.snapshot("main@one");
    write(&mut truth, 300..340, 1, 10_000);
    write(&mut truth, 1000..1050, 1, 10_000);
    pool.snapshot("main@two", 2, false).unwrap();
    truth.snapshot("main@two");
    write(&mut truth, 0..1100, 9, 10_000);
    let clone = pool.clone_snapshot("main@one", "clone", 3).unwrap();
    let mut cloned = truth.now["main@one"].clone();
    clone.write_at(5 * 4096, &content(77, 4096), true).unwrap();
    cloned.insert(5, 77);
    truth.now.insert("clone".to_owned(), cloned);
    drop(clone);
    write(&mut truth, 20..30, 1, 10_000);
    drop(volume);
    if clean {
        pool.close().unwrap();
    } else {
        drop(pool);
    }
    (folder, truth)
}

/// How many rounds of each kind: many where asked for, few by default.
fn dose() -> u64 {
    std::env::var("ONEFOLD_REPAIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

/// All files with their bytes.
pub fn files(folder: &SimFolder) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for inside in ["", "containers/", "fingerprints/"] {
        let at: Arc<dyn Folder> = match inside.strip_suffix('/') {
            None => Arc::new(folder.clone()),
            Some(inside) => match folder.existing_subfolder(inside) {
                Ok(at) => at,
                Err(_) => continue,
            },
        };
        for name in at.list().unwrap() {
            if let Ok(media) = at.open(&name) {
                let mut bytes = vec![0; media.len().unwrap() as usize];
                media.read(0, &mut bytes).unwrap();
                files.insert(format!("{inside}{name}"), bytes);
            }
        }
    }
    files
}

pub fn repair(folder: &SimFolder) -> Result<RepairReport, PoolError> {
    Pool::repair_in(Arc::new(folder.clone()), FRESH, &mut |_, _| {})?.apply()
}

/// Every block is right, or an error and listed as lost, or listed as restored and once there.
/// Returns how many are lost and how many restored.
fn assert_right_or_listed(
    folder: &SimFolder,
    truth: &Truth,
    report: &RepairReport,
    context: &str,
) -> (u64, u64) {
    let pool = Pool::open(folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
    let listed = |blocks: &onefold_pool::Blocks, name: &str, block: u64| {
        blocks.ranges.iter().any(|range| {
            let first = range.first.get();
            range.volume == name && (first..first + range.count).contains(&block)
        })
    };
    let (mut lost, mut restored) = (0, 0);
    for (name, model) in &truth.now {
        let Ok(volume) = pool.volume(name) else {
            assert!(!report.uncertain.is_empty(), "{context}: '{name}' is gone");
            continue;
        };
        let mut found = vec![0; 4096];
        for block in 0..BLOCKS {
            let expected = model.get(&block).map_or_else(|| vec![0; 4096], |&s| content(s, 4096));
            let at = format!("{context}: '{name}' block {block}");
            match volume.read_at(block * 4096, &mut found) {
                Err(error) => {
                    assert!(listed(&report.lost, name, block), "{at}: {error}");
                    lost += 1;
                }
                Ok(()) if found == expected => {
                    assert!(!listed(&report.lost, name, block), "{at} is listed as lost");
                }
                Ok(()) => {
                    let once = |seeds: &Vec<u64>| seeds.iter().any(|&s| found == content(s, 4096));
                    let was_there = truth.ever.get(&block).is_some_and(once);
                    let known = listed(&report.restored, name, block);
                    let unknown = !report.uncertain.is_empty();
                    assert!(known && was_there || unknown, "{at} is wrong: {report:#?}");
                    restored += 1;
                }
            }
        }
    }
    pool.close().unwrap_or_else(|e| panic!("{context}: {e}"));
    (lost, restored)
}

/// A pool that was repaired works on: writes, trims, snapshots, deletions, reclaim, reopening.
fn assert_works_on(folder: &SimFolder, context: &str) {
    let failed = |error: PoolError| -> ! { panic!("{context}: {error}") };
    let pool = Pool::open(folder, &options()).unwrap_or_else(|e| failed(e));
    if let Ok(volume) = pool.volume("main") {
        for block in 0..BLOCKS {
            let bytes = content(block + 50_000, 4096);
            volume.write_at(block * 4096, &bytes, false).unwrap_or_else(|e| {
                panic!("{context}: block {block}: {e}");
            });
        }
        pool.snapshot("main@after", 9, false).unwrap_or_else(|e| failed(e));
        volume.trim(0, 100 * 4096, true).unwrap();
        for name in ["main@one", "main@two", "clone"] {
            if pool.volume(name).is_ok() && name != "main@one" {
                let gone = if name.contains('@') {
                    pool.delete_snapshot(name)
                } else {
                    pool.delete_volume(name)
                };
                gone.unwrap_or_else(|e| failed(e));
            }
        }
        while !pool.give_up_deleted(1 << 20).unwrap_or_else(|e| failed(e)) {}
        let mut found = vec![0; 4096];
        for block in 100..BLOCKS {
            volume.read_at(block * 4096, &mut found).unwrap();
            assert!(found == content(block + 50_000, 4096), "{context}: block {block}");
        }
    }
    for _ in 0..20 {
        pool.background(1 << 20, SpaceTarget::new(1.2).unwrap()).unwrap_or_else(|e| failed(e));
    }
    pool.close().unwrap_or_else(|e| failed(e));
    assert_sound(folder, context);
}

#[test]
fn what_is_sound_is_left_alone() {
    for clean in [true, false] {
        let (folder, _) = used(clean);
        let before = files(&folder);
        let report = repair(&folder).unwrap();
        assert!(report.is_nothing_to_do() && !report.is_lossy(), "{report:#?}");
        assert!(files(&folder) == before);
    }
}

#[test]
fn flipped_bits_in_any_file_are_repaired_or_listed() {
    let mut random = SplitMix64::new(21);
    for clean in [true, false] {
        let (pristine, truth) = used(clean);
        for (name, bytes) in files(&pristine) {
            for round in 0..dose() {
                let folder = pristine.after_crash(0, CrashMode::KeepEverything);
                let mut flips = Vec::new();
                for _ in 0..=round * (round + 4) {
                    let (offset, bit) = (random.below(bytes.len() as u64), random.below(8) as u8);
                    folder.flip_bit(&name, offset, bit).unwrap();
                    flips.push((offset, bit));
                }
                let context = format!("clean {clean}, {name} {flips:?}");
                let report = repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_sound(&folder, &context);
                assert_right_or_listed(&folder, &truth, &report, &context);
                assert_sound(&folder, &context);
                let again = repair(&folder).unwrap();
                assert!(again.is_nothing_to_do(), "{context}: {again:#?}");
                if round % 2 == 1 {
                    assert_works_on(&folder, &context);
                }
            }
        }
    }
}

#[test]
fn without_any_one_file_what_the_others_know_is_there() {
    for clean in [true, false] {
        let (pristine, truth) = used(clean);
        for name in files(&pristine).into_keys() {
            let folder = pristine.after_crash(0, CrashMode::KeepEverything);
            match name.split_once('/') {
                Some((inside, name)) => {
                    folder.existing_subfolder(inside).unwrap().remove(name).unwrap();
                }
                None => folder.remove(&name).unwrap(),
            }
            let context = format!("clean {clean}, without {name}");
            let report = repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_sound(&folder, &context);
            let (lost, _) = assert_right_or_listed(&folder, &truth, &report, &context);
            let lossless = clean && name.starts_with("super") || name == "generation";
            assert!(!lossless || lost == 0 && report.lost.is_empty(), "{context}: {lost}");
            assert_works_on(&folder, &context);
        }
    }
}

#[test]
fn with_containers_alone_blocks_come_back_under_numbers() {
    let (folder, pool) = new_pool(&small());
    let mut model = BTreeMap::new();
    for (name, from) in [("a", 0), ("b", 5000)] {
        let volume = pool.create_volume(name, ByteSize(BLOCKS * 4096)).unwrap();
        for block in (0..BLOCKS).filter(|block| block % 5 != 3) {
            volume.write_at(block * 4096, &content(from + block, 4096), false).unwrap();
            model.insert((name, block), from + block);
        }
        for block in 0..50 {
            volume.write_at(block * 4096, &content(from + block + 2000, 4096), false).unwrap();
            model.insert((name, block), from + block + 2000);
        }
    }
    pool.close().unwrap();
    for name in ["super.0", "super.1", "journal", "map"] {
        folder.remove(name).unwrap();
    }
    let report = repair(&folder).unwrap();
    assert!(report.is_lossy() && !report.uncertain.is_empty(), "{report:#?}");
    assert_sound(&folder, "containers alone");
    let pool = Pool::open(&folder, &options()).unwrap();
    let mut right = 0;
    for (&(name, block), &seed) in &model {
        let number = if name == "a" { 1 } else { 2 };
        let volume = pool.volume(&format!("recovered-{number}")).unwrap();
        let mut found = vec![0; 4096];
        volume.read_at(block * 4096, &mut found).unwrap();
        right += u64::from(found == content(seed, 4096));
        assert!(volume.read_at(53 * 4096, &mut found).is_err(), "never written: not known");
    }
    assert_eq!(right, model.len() as u64);
    // It goes on under a new key: what is written again is found.
    let volume = pool.volume("recovered-1").unwrap();
    let before = pool.activity().duplicate;
    for block in 60..160 {
        let Some(&seed) = model.get(&("a", block)) else { continue };
        volume.write_at(block * 4096, &content(seed, 4096), false).unwrap();
    }
    volume.flush().unwrap();
    assert!(pool.activity().duplicate > before + 50);
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "afterwards");
}

/// A damaged pool in which files of every kind must be replaced.
pub fn damaged() -> (SimFolder, Truth) {
    let (folder, truth) = used(true);
    folder.flip_bit("map", 3 * 4096 + 8, 1).unwrap();
    folder.flip_bit("super.0", 50, 1).unwrap();
    let container = folder.existing_subfolder("containers").unwrap().list().unwrap().remove(1);
    folder.flip_bit(&format!("containers/{container}"), 9000, 1).unwrap();
    (folder, truth)
}

#[test]
fn who_only_looks_changes_no_byte() {
    let (folder, _) = damaged();
    let before = files(&folder);
    let plan = Pool::repair_in(Arc::new(folder.clone()), FRESH, &mut |_, _| {}).unwrap();
    assert!(!plan.report().is_nothing_to_do() && plan.report().findings_total > 0);
    drop(plan);
    assert!(files(&folder) == before);
}

/// The files that count, without those that were replaced.
fn outcome(folder: &SimFolder) -> BTreeMap<String, Vec<u8>> {
    let mut files = files(folder);
    files.retain(|name, _| !name.contains(".before-repair-") && name != "generation");
    files
}

/// Nothing is shared and nothing was moved: what was written last is known exactly.
#[test]
fn a_volume_gets_the_newest_record_and_a_snapshot_the_newest_from_before_it() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    let of = |round: u64, block: u64| content(round * 100_000 + block, 4096);
    let write = |round: u64| {
        for block in 0..BLOCKS {
            volume.write_at(block * 4096, &of(round, block), false).unwrap();
        }
        volume.flush().unwrap();
    };
    (0..2).for_each(write);
    pool.snapshot("main@one", 1, false).unwrap();
    (2..4).for_each(write);
    drop(volume);
    pool.close().unwrap();
    folder.remove("map").unwrap();

    let report = repair(&folder).unwrap();
    assert!(report.uncertain.is_empty() && report.lost.total == 0, "{report:#?}");
    let pool = Pool::open(&folder, &options()).unwrap();
    let right = |name: &str, round: u64| {
        let volume = pool.volume(name).unwrap();
        let mut found = vec![0; 4096];
        let is = |block: &u64| {
            volume.read_at(block * 4096, &mut found).unwrap();
            found == of(round, *block)
        };
        (0..BLOCKS).filter(is).count() as u64
    };
    assert_eq!(right("main", 3), BLOCKS);
    // The container that was being filled when it was made has records from after it, too.
    let right = right("main@one", 1);
    assert!(right > BLOCKS - 100, "{right} of {BLOCKS}");
}

#[test]
fn a_repair_that_loses_power_anywhere_is_repeated_with_the_same_result() {
    let (pristine, truth) = damaged();
    let whole = pristine.after_crash(0, CrashMode::KeepEverything);
    let report = repair(&whole).unwrap();
    let expected = outcome(&whole);
    let before = files(&pristine);
    for mode in [CrashMode::KeepNothing, CrashMode::Random, CrashMode::KeepEverything] {
        for cut in 0.. {
            let folder = pristine.after_crash(1, CrashMode::KeepEverything);
            folder.crash_at(folder.op_count() + cut);
            let done = repair(&folder).is_ok();
            if !folder.has_crashed() {
                assert!(done && cut > 20, "{cut} operations");
                break;
            }
            let mut folder = folder.after_crash(cut, mode);
            let context = format!("cut at {cut}, {mode:?}");
            // Again, and cut once more.
            folder.crash_at(folder.op_count() + cut % 17);
            let _ = repair(&folder);
            folder = folder.after_crash(cut + 1, mode);
            let decided = folder.open("repair").is_ok();
            if decided {
                let error = Pool::open(&folder, &options()).err().expect(&context);
                assert!(matches!(error, PoolError::RepairUnfinished), "{context}: {error}");
                assert!(!Pool::check_in(&folder, &mut |_, _| {}).is_ok_and(|r| r.is_sound()));
            }
            repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(outcome(&folder) == expected, "{context}: decided {decided}");
            let kept = files(&folder);
            for (name, bytes) in &before {
                let was = |found: &str| kept.get(found) == Some(bytes);
                let backup = format!("{name}.before-repair-1");
                // Of two names of one file, a power cut may leave neither.
                let counts = name != "generation" && mode != CrashMode::Random;
                assert!(!counts || was(name) || was(&backup), "{context}: {name} is gone");
            }
        }
    }
    assert_sound(&whole, "at the end");
    assert_right_or_listed(&whole, &truth, &report, "at the end");
}

#[test]
fn a_full_disk_leaves_the_pool_as_it_was() {
    let (folder, truth) = damaged();
    let (used, before) = (folder.used_bytes(), files(&folder));
    let mut room = 0;
    let report = loop {
        folder.set_capacity(Some(used + room));
        match repair(&folder) {
            Ok(report) => break report,
            Err(error) => assert!(error.is_no_space(), "{room}: {error}"),
        }
        assert!(files(&folder) == before, "with room for {room} bytes");
        room += 32 << 10;
        assert!(room < 4 << 20);
    };
    assert!(room > 0);
    folder.set_capacity(None);
    assert_sound(&folder, "with room");
    assert_right_or_listed(&folder, &truth, &report, "with room");
}

#[test]
fn a_generation_follows_a_loss_and_lost_blocks_stay_errors_until_they_are_written() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    for block in 0..20 {
        volume.write_at(block * 4096, &content(block, 4096), true).unwrap();
    }
    drop(volume);
    let generation = pool.generation().unwrap().number;
    pool.close().unwrap();
    let container = folder.existing_subfolder("containers").unwrap().list().unwrap().remove(0);
    folder.flip_bit(&format!("containers/{container}"), 3000, 1).unwrap();
    let report = repair(&folder).unwrap();
    assert_eq!((report.lost.total, report.lost.ranges.len()), (1, 1));
    let block = report.lost.ranges[0].first.get();
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_eq!(pool.generation().unwrap().number, generation + 1);
    let volume = pool.volume("main").unwrap();
    let error = volume.read_at(block * 4096, &mut [0; 4096]).unwrap_err().to_string();
    assert!(error.contains("is lost") && error.contains("main"), "{error}");
    assert!(volume.write_at(block * 4096 + 10, &[1; 100], false).is_err(), "a part of it");
    pool.snapshot("main@lost", 1, false).unwrap();
    volume.write_at(block * 4096, &content(99, 4096), true).unwrap();
    let mut found = vec![0; 4096];
    volume.read_at(block * 4096, &mut found).unwrap();
    assert!(found == content(99, 4096));
    drop(volume);
    pool.close().unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:#?}");
    assert_eq!(report.lost.ranges.len(), 1, "{report:#?}");
    assert_eq!(report.lost.ranges[0].volume, "main@lost");
    assert_eq!(repair(&folder).unwrap().lost.total, 1);
}

#[test]
fn what_a_crash_left_without_a_directory_keeps_its_owners() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    for block in 0..150 {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
    }
    volume.flush().unwrap();
    drop((volume, pool));
    Pool::open(&folder, &options()).unwrap().close().unwrap();
    for name in ["super.0", "super.1", "journal", "map"] {
        folder.remove(name).unwrap();
    }
    repair(&folder).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("recovered-1").unwrap();
    let mut found = vec![0; 4096];
    for block in 0..150 {
        volume.read_at(block * 4096, &mut found).unwrap();
        assert!(found == content(block, 4096), "block {block}");
    }
}

#[test]
fn files_that_are_said_to_be_huge_cost_no_more() {
    let (simulated, _) = used(true);
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    for (name, bytes) in files(&simulated) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let grow = |name: &str, len: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(root.join(name)).unwrap();
        file.set_len(len).unwrap();
    };
    let folder = FileFolder::open(root).unwrap();
    let containers = folder.existing_subfolder("containers").unwrap();
    let container = containers.list().unwrap().remove(0);
    grow(&format!("containers/{container}"), 1 << 40);
    let small = ["map", "journal", "super.0", "super.1", "generation"];
    for name in small {
        grow(name, 1 << 38);
    }
    let report = Pool::repair_at(root, false, FRESH, &mut |_, _| {}).unwrap().apply().unwrap();
    assert!(report.lost.is_empty(), "{report:#?}");
    assert!(Pool::check_at(root, &mut |_, _| {}).unwrap().is_sound());
    for name in small {
        assert!(std::fs::metadata(root.join(name)).unwrap().len() < 1 << 20, "{name}");
    }
    assert!(containers.open(&container).unwrap().len().unwrap() <= 256 << 10);
}

#[test]
fn what_a_snapshot_lost_its_volume_keeps_when_the_snapshot_goes() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    for block in 0..BLOCKS {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
    }
    pool.snapshot("main@one", 1, false).unwrap();
    // The root and one of three leaves are the volume's own from now on.
    volume.write_at(0, &content(7000, 4096), true).unwrap();
    drop(volume);
    pool.close().unwrap();
    let slots = folder.open("map").unwrap().len().unwrap() / 4096;
    for slot in 1..slots {
        let folder = folder.after_crash(0, CrashMode::KeepEverything);
        folder.flip_bit("map", slot * 4096 + 20, 2).unwrap();
        let context = format!("slot {slot}");
        let report = repair(&folder).unwrap();
        assert_sound(&folder, &context);
        let pool = Pool::open(&folder, &options()).unwrap();
        let read = |pool: &Pool| -> Vec<Option<Vec<u8>>> {
            let volume = pool.volume("main").unwrap();
            let mut found = vec![0; 4096];
            let block = |n: u64| volume.read_at(n * 4096, &mut found).ok().map(|()| found.clone());
            (0..BLOCKS).map(block).collect()
        };
        let before = read(&pool);
        let lost = before.iter().filter(|block| block.is_none()).count() as u64;
        assert!(lost <= report.lost.total && report.lost.total <= 3 * BLOCKS, "{context}");
        pool.delete_snapshot("main@one").unwrap();
        while !pool.give_up_deleted(1 << 20).unwrap() {}
        // What was given up is written over.
        let other = pool.create_volume("other", ByteSize(4 * BLOCKS * 4096)).unwrap();
        for block in 0..2 * BLOCKS {
            other.write_at(block * 4096, &content(block + 30_000, 4096), false).unwrap();
        }
        drop(other);
        pool.close().unwrap();
        let pool = Pool::open(&folder, &options()).unwrap();
        assert!(read(&pool) == before, "{context}: {report:#?}");
        drop(pool);
        assert_sound(&folder, &context);
    }
}

/// Pages of the map that are in use.
fn map_pages(folder: &SimFolder) -> u64 {
    let pool = Pool::open(folder, &options()).unwrap();
    let pages = pool.status().unwrap().map_pages;
    pool.close().unwrap();
    pages
}

/// Seeds of `main`'s blocks, of which each snapshot changes a few: what was written last by then.
fn with_many_snapshots(snapshots: u64) -> (SimFolder, Vec<Vec<u64>>) {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    let mut now: Vec<u64> = (0..BLOCKS).collect();
    for block in 0..BLOCKS {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
    }
    let mut all = Vec::new();
    for snapshot in 0..snapshots {
        // In the last leaf alone, so that all share those before it.
        let (block, seed) = (1030 + snapshot % 7, 10_000 + snapshot);
        volume.write_at(block * 4096, &content(seed, 4096), false).unwrap();
        now[block as usize] = seed;
        pool.snapshot(&format!("main@{snapshot}"), 1, false).unwrap();
        all.push(now.clone());
    }
    drop(volume);
    pool.close().unwrap();
    (folder, all)
}

#[test]
fn what_many_snapshots_share_they_share_after_a_repair() {
    const SNAPSHOTS: u64 = 300;
    let (pristine, all) = with_many_snapshots(SNAPSHOTS);
    let pages = map_pages(&pristine);
    let bytes = files(&pristine);
    // The first leaf, by the number of its entries that are the same in no other page.
    let leaf = |page: &[u8]| page.chunks_exact(8).filter(|word| *word != [0; 8]).count() == 512;
    let map = &bytes["map"];
    let leaves: Vec<usize> =
        (1..map.len() / 4096).filter(|&slot| leaf(&map[slot * 4096..][..4096])).collect();
    let first = *leaves.first().unwrap();
    let container = bytes.keys().find(|name| name.starts_with("containers/")).unwrap().clone();
    for (name, offset) in [("map".to_owned(), first as u64 * 4096 + 20), (container, 9000)] {
        let folder = pristine.after_crash(0, CrashMode::KeepEverything);
        folder.flip_bit(&name, offset, 3).unwrap();
        let context = format!("{name} at {offset}");
        let report = repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(!report.is_nothing_to_do(), "{context}");
        assert_sound(&folder, &context);
        let listed = report.lost.total + report.restored.total;
        assert!(listed >= SNAPSHOTS && listed.is_multiple_of(SNAPSHOTS + 1), "{context}: {listed}");
        let after = map_pages(&folder);
        assert!(after <= pages, "{context}: {after} pages after the repair, {pages} before");
        let pool = Pool::open(&folder, &options()).unwrap();
        for (snapshot, seeds) in all.iter().enumerate().step_by(37) {
            let volume = pool.volume(&format!("main@{snapshot}")).unwrap();
            let mut found = vec![0; 4096];
            for (block, &seed) in (0..).zip(seeds) {
                match volume.read_at(block * 4096, &mut found) {
                    Err(_) => assert!(report.lost.total > 0, "{context}: block {block}"),
                    Ok(()) => assert!(found == content(seed, 4096), "{context}: block {block}"),
                }
            }
        }
        assert_works_on(&folder, &context);
    }
}

/// Nothing of any map is left: each snapshot gets the newest record from before it, and whatever
/// two of them have alike is one page.
#[test]
fn what_is_alike_in_many_snapshots_is_one_page_after_all_maps_are_lost() {
    const SNAPSHOTS: u64 = 100;
    let (folder, all) = with_many_snapshots(SNAPSHOTS);
    let pages = map_pages(&folder);
    folder.remove("map").unwrap();
    let report = repair(&folder).unwrap();
    assert_sound(&folder, "without a map");
    let after = map_pages(&folder);
    assert!(after <= pages, "{after} pages after the repair, {pages} before");
    assert_eq!(report.lost.total, 0, "{report:#?}");
    let pool = Pool::open(&folder, &options()).unwrap();
    let mut right = 0;
    for (snapshot, seeds) in all.iter().enumerate() {
        let volume = pool.volume(&format!("main@{snapshot}")).unwrap();
        let mut found = vec![0; 4096];
        for block in [0, 600, 1030, 1033, 1099] {
            volume.read_at(block * 4096, &mut found).unwrap();
            right += u64::from(found == content(seeds[block as usize], 4096));
        }
    }
    // Of those that changed, the container that was being filled has what came later, too.
    assert!(right >= 3 * SNAPSHOTS, "{right}");
    pool.close().unwrap();
    assert_works_on(&folder, "without a map");
}

/// Blocks that share a record with others say nothing of where they were: only the pages below one
/// that is damaged tell.
#[test]
fn pages_above_the_leaves_come_back_from_whoever_was_made_from_the_snapshot() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    let seed = |block: u64| block % 7;
    for block in 0..BLOCKS {
        volume.write_at(block * 4096, &content(seed(block), 4096), false).unwrap();
    }
    for snapshot in 0..20 {
        pool.snapshot(&format!("main@{snapshot}"), 1, false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    // All of these have the same root page; the volume gets another.
    let before = map_pages(&folder);
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    volume.write_at(1050 * 4096, &content(9000, 4096), true).unwrap();
    drop(volume);
    pool.close().unwrap();
    assert!(map_pages(&folder) > before);
    let bytes = files(&folder);
    let mut repaired = 0;
    for slot in 1..bytes["map"].len() / 4096 {
        let damaged = folder.after_crash(0, CrashMode::KeepEverything);
        damaged.flip_bit("map", slot as u64 * 4096 + 20, 2).unwrap();
        let report = repair(&damaged).unwrap();
        let context = format!("slot {slot}");
        assert_sound(&damaged, &context);
        let pool = Pool::open(&damaged, &options()).unwrap();
        let last = pool.volume("main@0").unwrap();
        let mut found = vec![0; 4096];
        let is_right = |block: &u64| {
            last.read_at(block * 4096, &mut found).is_ok() && found == content(seed(*block), 4096)
        };
        let right = (0..BLOCKS).filter(is_right).count() as u64;
        // The two leaves that all have, and not the third, which is the snapshots' alone.
        repaired += u64::from(right == 1024 && report.lost.total > 0);
        pool.close().unwrap();
    }
    assert_eq!(repaired, 2, "the root of the snapshots, and that leaf");
}

/// Ten thousand snapshots of a volume of 40 leaves: a hundred that differ in a leaf, each with 99
/// after it that are as it is. Those are put into the checkpoint as if they had been made between,
/// as making them writes every checkpoint with all the others in it.
fn with_ten_thousand_snapshots() -> SimFolder {
    const DIFFERENT: u64 = 100;
    const EACH: u64 = 100;
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(40 * 512 * 4096)).unwrap();
    for block in 0..40 * 512u64 {
        // But for the first leaf the same few blocks: the map is what matters.
        let seed = if block < 512 { block } else { 600 + block % 100 };
        volume.write_at(block * 4096, &content(seed, 4096), false).unwrap();
    }
    for snapshot in 0..DIFFERENT {
        volume
            .write_at(snapshot % 40 * 512 * 4096, &content(1000 + snapshot, 4096), false)
            .unwrap();
        pool.snapshot(&format!("main@{snapshot}"), 1, false).unwrap();
        for _ in 1..EACH {
            pool.checkpoint().unwrap();
        }
    }
    drop(volume);
    pool.close().unwrap();
    let supers = ["super.0", "super.1"].map(|name| {
        let bytes = &files(&folder)[name];
        (name, Superblock::decode(name, bytes).unwrap())
    });
    for (name, mut superblock) in supers {
        let (mut all, mut last) = (Vec::new(), 0);
        for record in &superblock.volumes {
            if record.kind != KIND_SNAPSHOT {
                continue;
            }
            for more in 0..EACH {
                let number = 2 + all.len() as u32;
                let name = format!("{}-{more}", record.name);
                let birth = record.birth + more;
                all.push(VolumeRecord { number, name, birth, parent: last, ..record.clone() });
                last = number;
            }
        }
        let mut main = superblock.volumes[0].clone();
        assert_eq!((main.number, main.kind), (1, KIND_VOLUME));
        main.parent = last;
        all.insert(0, main);
        superblock.next_volume = last + 1;
        superblock.volumes = all;
        folder.create(name).unwrap().write(0, &superblock.encode()).unwrap();
    }
    folder
}

#[test]
fn beside_ten_thousand_snapshots_a_repair_reads_distinct_pages() {
    let pristine = with_ten_thousand_snapshots();
    let pages = map_pages(&pristine);
    assert_sound(&pristine, "as it was made");
    assert!(pages < 500, "{pages} pages");
    let container = files(&pristine).keys().find(|n| n.starts_with("containers/")).unwrap().clone();
    let damaged = pristine.after_crash(0, CrashMode::KeepEverything);
    damaged.flip_bit(&container, 9000, 3).unwrap();
    let lost = pristine.after_crash(0, CrashMode::KeepEverything);
    lost.remove("journal").unwrap();
    for (folder, context) in [(damaged, "a record"), (lost, "the journal")] {
        let report = repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
        let listed = report.lost.total + report.restored.total;
        let read = report.map_pages_read;
        assert!(read < 20 * pages + 8 * listed, "{context}: {read} read of {pages}, {listed}");
        assert!(listed == if context == "a record" { 10_001 } else { 0 }, "{context}: {listed}");
        assert_sound(&folder, context);
        let pool = Pool::open(&folder, &options()).unwrap();
        assert_eq!(pool.snapshots(None).unwrap().len(), 10_000, "{context}");
        let last = pool.volume("main@99-99").unwrap();
        let mut found = vec![0; 4096];
        last.read_at(512 * 7 * 4096, &mut found).unwrap();
        assert!(found == content(1087, 4096), "{context}");
    }
}
