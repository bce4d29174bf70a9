//! A pool that is refused is read all the same: from one moment, or the newest of each block.

use onefold_block::{BlockDevice, ByteSize, Folder, SimFolder, SplitMix64};
use onefold_pool::{Pool, PoolError, RescuePoint, RescueReport, Volume};

use crate::support::{IDENTITY, content, new_pool, options, small};

const BLOCKS: usize = 1100;
const POINTS: [RescuePoint; 2] = [RescuePoint::Consistent, RescuePoint::Newest];

/// What the blocks of a volume held after each step: numbers of contents, 0 for zeroes.
struct History {
    states: Vec<Vec<u64>>,
    /// The last state that was flushed.
    flushed: usize,
}

fn bytes_of(number: u64) -> Vec<u8> {
    if number == 0 { vec![0; 4096] } else { content(number, 4096) }
}

/// Some work, left as a power cut would leave it.
fn worked(seed: u64, steps: usize) -> (SimFolder, History) {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS as u64 * 4096)).unwrap();
    let mut random = SplitMix64::new(seed);
    let mut history = History { states: vec![vec![0; BLOCKS]], flushed: 0 };
    for step in 0..steps {
        let mut state = history.states.last().unwrap().clone();
        let count = 1 + random.below(12) as usize;
        let first = random.below((BLOCKS - count) as u64) as usize;
        let (offset, len) = (first as u64 * 4096, count as u64 * 4096);
        let mut flushed = false;
        match random.below(20) {
            0..12 => {
                let numbers: Vec<u64> = (0..count).map(|_| 1 + random.below(400)).collect();
                let bytes: Vec<u8> =
                    numbers.iter().map(|&n| bytes_of(n)).collect::<Vec<_>>().concat();
                flushed = random.below(4) == 0;
                volume.write_at(offset, &bytes, flushed).unwrap();
                state[first..first + count].copy_from_slice(&numbers);
            }
            12..14 => {
                volume.trim(offset, len, false).unwrap();
                state[first..first + count].fill(0);
            }
            14..18 => {
                volume.flush().unwrap();
                flushed = true;
            }
            18 => {
                pool.checkpoint().unwrap();
                flushed = true;
            }
            _ => {
                let name = format!("other{step}");
                pool.create_volume(&name, ByteSize(1 << 20)).unwrap();
                pool.delete_volume(&name).unwrap();
                flushed = true;
            }
        }
        history.states.push(state);
        if flushed {
            history.flushed = history.states.len() - 1;
        }
    }
    (folder, history)
}

/// Rescue, and see that nothing is changed by it.
pub fn rescue(folder: &SimFolder, point: RescuePoint) -> Result<(Pool, RescueReport), PoolError> {
    let before = folder.op_count();
    let rescued = Pool::rescue(folder, options().budgets, point);
    assert_eq!(folder.op_count(), before, "a rescue changes nothing");
    rescued
}

/// What can be read of each block.
fn readable(volume: &Volume) -> Vec<Option<Vec<u8>>> {
    (0..BLOCKS as u64)
        .map(|n| {
            let mut found = vec![0; 4096];
            volume.read_at(n * 4096, &mut found).ok().map(|()| found)
        })
        .collect()
}

/// Every block that can be read is right for the point of the rescue. Returns how many can.
fn assert_right(
    history: &History,
    point: RescuePoint,
    found: &[Option<Vec<u8>>],
    report: &RescueReport,
    context: &str,
) -> usize {
    let fits = |state: &[u64], block: usize| {
        found[block].as_ref().is_none_or(|bytes| *bytes == bytes_of(state[block]))
    };
    for block in 0..BLOCKS {
        let ever = history.states.iter().any(|state| fits(state, block));
        assert!(ever, "{context}: block {block} holds what it never held");
    }
    let moment = history.states.iter().rposition(|state| (0..BLOCKS).all(|b| fits(state, b)));
    if point == RescuePoint::Consistent {
        assert!(moment.is_some(), "{context}: the blocks are of no one moment: {report:#?}");
    }
    if report.missing.is_empty() {
        assert!(moment >= Some(history.flushed), "{context}: a flush is missing: {report:#?}");
    }
    found.iter().flatten().count()
}

/// The super file with the higher sequence number.
fn newest_super(folder: &SimFolder) -> &'static str {
    let sequence = |name: &str| {
        let mut bytes = [0; 8];
        folder.open(name).unwrap().read(16, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    if sequence("super.0") > sequence("super.1") { "super.0" } else { "super.1" }
}

/// Damage one thing; what it was.
fn damage(folder: &SimFolder, random: &mut SplitMix64) -> String {
    let journal_len = folder.open("journal").unwrap().len().unwrap();
    let map_len = folder.open("map").unwrap().len().unwrap();
    let flip = |name: &str, len: u64, random: &mut SplitMix64| {
        let offset = random.below(len.max(1));
        folder.flip_bit(name, offset, random.below(8) as u8).unwrap();
        format!("{name} byte {offset}")
    };
    match random.below(7) {
        0 => flip(newest_super(folder), 100, random),
        1 => {
            let name = newest_super(folder);
            folder.remove(name).unwrap();
            format!("no {name}")
        }
        2 => flip("journal", journal_len, random),
        3 => {
            let len = random.below(journal_len);
            folder.truncate("journal", len).unwrap();
            format!("journal cut to {len}")
        }
        4 => flip("map", map_len, random),
        5 => {
            folder.remove("journal").unwrap();
            "no journal".to_owned()
        }
        _ => {
            let containers = folder.subfolder("containers").unwrap();
            let names = containers.list().unwrap();
            let name = &names[random.below(names.len() as u64) as usize];
            containers.remove(name).unwrap();
            format!("no {name}")
        }
    }
}

#[test]
fn a_pool_with_any_one_thing_damaged_shows_one_moment_or_the_newest_of_each_block() {
    let mut random = SplitMix64::new(4);
    let mut read = 0;
    for seed in 0..60 {
        let (folder, history) = worked(seed, 40 + (seed as usize % 3) * 40);
        let what = damage(&folder, &mut random);
        for point in POINTS {
            let context = format!("seed {seed}, {what}, {point:?}");
            let (pool, report) =
                rescue(&folder, point).unwrap_or_else(|e| panic!("{context}: {e}"));
            let volume = pool.volume("main").unwrap();
            read += assert_right(&history, point, &readable(&volume), &report, &context);
        }
    }
    assert!(read > 60 * BLOCKS, "only {read} blocks could be read");
}

#[test]
fn a_sound_pool_is_rescued_whole() {
    for seed in 100..110 {
        let (folder, history) = worked(seed, 80);
        for point in POINTS {
            let (pool, report) = rescue(&folder, point).unwrap();
            assert!(report.damage.is_empty() && report.missing.is_empty(), "{report:#?}");
            let found = readable(&pool.volume("main").unwrap());
            assert!(found.iter().all(Option::is_some));
            let zeroes = bytes_of(0);
            let mapped = found.iter().flatten().filter(|bytes| **bytes != zeroes).count();
            let status = pool.status().unwrap();
            let main = status.volumes.iter().find(|volume| volume.name == "main").unwrap();
            assert_eq!(main.mapped_bytes, 4096 * mapped as u64, "seed {seed}, {point:?}");
            assert_right(&history, point, &found, &report, "sound");
        }
    }
}

#[test]
fn a_lost_checkpoint_loses_nothing_while_the_journal_before_it_is_there() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for n in 0..9 {
        volume.write_at(n * 4096, &content(n, 4096), true).unwrap();
    }
    pool.checkpoint().unwrap();
    drop((volume, pool));
    folder.remove(newest_super(&folder)).unwrap();
    assert!(Pool::open(&folder, &options()).is_err());
    for point in POINTS {
        let (pool, report) = rescue(&folder, point).unwrap();
        let volume = pool.volume("main").unwrap();
        let mut found = vec![0; 4096];
        for n in 0..9 {
            volume.read_at(n * 4096, &mut found).unwrap();
            assert!(found == content(n, 4096), "chunk {n}");
        }
        assert_eq!(report.damage.len(), 1, "{report:#?}");
        assert_eq!(report.missing.len(), 1, "of volumes alone: {report:#?}");
    }
}

#[test]
fn after_a_clean_stop_either_checkpoint_has_everything() {
    for name in ["super.0", "super.1"] {
        let (folder, pool) = new_pool(&small());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        for n in 0..9 {
            volume.write_at(n * 4096, &content(n, 4096), false).unwrap();
        }
        drop(volume);
        pool.close().unwrap();
        folder.flip_bit(name, 60, 3).unwrap();
        for point in POINTS {
            let (pool, report) = rescue(&folder, point).unwrap();
            assert!(report.damage[0].contains(name), "{report:#?}");
            let volume = pool.volume("main").unwrap();
            let mut found = vec![0; 4096];
            for n in 0..9 {
                volume.read_at(n * 4096, &mut found).unwrap();
                assert!(found == content(n, 4096), "{name}: chunk {n}");
            }
        }
    }
}

#[test]
fn a_damaged_frame_ends_one_moment_and_costs_the_newest_only_its_own_blocks() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for n in 0..9 {
        volume.write_at(n * 4096, &content(n, 4096), true).unwrap();
    }
    drop((volume, pool));
    // The fifth frame with a change: the first is empty, and each takes 64 bytes.
    folder.flip_bit("journal", 5 * 64 + 40, 0).unwrap();
    for (point, lost) in [(RescuePoint::Consistent, 4..9), (RescuePoint::Newest, 4..5)] {
        let (pool, report) = rescue(&folder, point).unwrap();
        let volume = pool.volume("main").unwrap();
        let mut found = vec![0; 4096];
        for n in 0..9 {
            volume.read_at(n * 4096, &mut found).unwrap();
            let expected = if lost.contains(&n) { vec![0; 4096] } else { content(n, 4096) };
            assert!(found == expected, "{point:?}: chunk {n}");
        }
        assert!(report.missing[0].contains("frame 5 of checkpoint"), "{report:#?}");
    }
}

#[test]
fn changes_of_a_volume_that_no_checkpoint_knows_are_left_out_and_named() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for n in 0..4 {
        volume.write_at(n * 4096, &content(n, 4096), true).unwrap();
    }
    drop((volume, pool));
    // The third frame with a change is made one of volume 77.
    let journal = folder.open("journal").unwrap();
    let (at, mut frame) = (3 * 64, [0; 64]);
    journal.read(at, &mut frame).unwrap();
    frame[33..37].copy_from_slice(&77_u32.to_le_bytes());
    let payload = u32::from_le_bytes(frame[24..28].try_into().unwrap()) as usize;
    let check = crc32fast::hash(&frame[8..32 + payload]);
    frame[4..8].copy_from_slice(&check.to_le_bytes());
    journal.write(at, &frame).unwrap();
    for point in [RescuePoint::Consistent, RescuePoint::Newest] {
        let (pool, report) = rescue(&folder, point).unwrap();
        let named: Vec<_> = report.missing.iter().filter(|what| what.contains("77")).collect();
        let expected = "1 changes to blocks of volume number 77, whose name is not known in the \
                        journal: checkpoint 2 has no such blocks";
        assert_eq!(named, [expected], "{point:?}: {report:#?}");
        let volume = pool.volume("main").unwrap();
        let mut found = vec![0; 4096];
        for n in 0..4 {
            volume.read_at(n * 4096, &mut found).unwrap();
            let expected = if n == 2 { vec![0; 4096] } else { content(n, 4096) };
            assert!(found == expected, "{point:?}: chunk {n}");
        }
    }
}

#[test]
fn a_pool_that_was_never_used_has_one_checkpoint_and_no_damage() {
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let (pool, report) = rescue(&folder, RescuePoint::Newest).unwrap();
    assert!(pool.volumes().is_empty() && report.damage.is_empty(), "{report:#?}");
}

#[test]
fn without_any_checkpoint_there_is_nothing_to_rescue() {
    let (folder, _) = worked(1, 30);
    for name in ["super.0", "super.1"] {
        folder.flip_bit(name, 50, 1).unwrap();
    }
    let error = rescue(&folder, RescuePoint::Newest).err().unwrap();
    assert!(error.to_string().contains("neither checkpoint can be read"), "{error}");
}

#[test]
fn extents_stop_before_damage_and_go_on_after_it() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS as u64 * 4096)).unwrap();
    for n in 0..BLOCKS as u64 {
        volume.write_at(n * 4096, &content(n % 100, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    // Slots are taken in order, leaves first: the second leaf is in slot 2.
    folder.flip_bit("map", 2 * 4096 + 9, 0).unwrap();
    let (pool, _) = rescue(&folder, RescuePoint::Consistent).unwrap();
    let volume = pool.volume("main").unwrap();
    let size = volume.size_bytes();
    let leaf = 512 * 4096;
    let before: u64 = volume.block_status(0, size).unwrap().iter().map(|e| e.len_bytes).sum();
    assert_eq!(before, leaf);
    assert!(volume.block_status(leaf, size - leaf).is_err());
    assert_eq!(volume.damaged_until(leaf), 2 * leaf);
    let after = volume.block_status(2 * leaf, size - 2 * leaf).unwrap();
    assert_eq!(after.iter().map(|e| e.len_bytes).sum::<u64>(), size - 2 * leaf);
}

#[test]
fn a_folder_of_containers_that_is_missing_is_named_and_what_needs_none_is_read() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(4096, &content(1, 4096), false).unwrap();
    drop(volume);
    pool.close().unwrap();
    let containers = folder.existing_subfolder("containers").unwrap();
    for name in containers.list().unwrap() {
        containers.remove(&name).unwrap();
    }
    folder.remove_subfolder("containers").unwrap();
    for point in POINTS {
        let (pool, report) = rescue(&folder, point).unwrap();
        assert_eq!(report.damage, ["the folder 'containers' is missing"]);
        let gone = "1 of the 1 containers of checkpoint 4 are gone (container 1 the first): blocks \
                    in them cannot be read";
        assert_eq!(report.missing, [gone]);
        let volume = pool.volume("main").unwrap();
        let mut found = vec![1; 4096];
        volume.read_at(0, &mut found).unwrap();
        assert!(found == vec![0; 4096]);
        volume.read_at(4096, &mut found).unwrap_err();
    }
}

#[test]
fn a_folder_where_a_file_is_to_be_is_as_if_nothing_were_there() {
    let (simulated, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(4096, &content(1, 4096), false).unwrap();
    drop(volume);
    pool.close().unwrap();
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    for (name, bytes) in crate::repair::files(&simulated) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for name in ["journal", "map"] {
        let path = root.join(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let (pool, report) = Pool::rescue_at(root, options().budgets, RescuePoint::Newest).unwrap();
        assert!(report.damage.iter().any(|damage| damage.contains(name)), "{report:#?}");
        assert_eq!(pool.volume("main").unwrap().size_bytes(), 1 << 20);
    }
}
