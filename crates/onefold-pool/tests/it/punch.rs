//! On a disk so full that nothing can be moved, what is dead is given back where it lies.

use onefold_block::{
    BlockDevice, BlockError, CrashMode, FaultKind, Folder, OpKind, SimFolder, SplitMix64,
};
use onefold_content::Compression;
use onefold_pool::{Pool, PoolSettings, Volume};

use crate::model::{CHUNK, main_volume};
use crate::support::{IDENTITY, assert_sound, content, options, read_only, small};

/// Five containers of 63 blocks: a pool so small has no reserve.
const BLOCKS: u64 = 300;
/// Of so many blocks side by side one in eight lives on.
const RUN: u64 = 16;
/// For map and journal, and for one container.
const ROOM_BYTES: u64 = 1300 << 10;

/// More operations than punching takes.
const CUTS_MAX: u64 = 500;

fn write(volume: &dyn BlockDevice, block: u64, seed: u64) -> Result<(), BlockError> {
    volume.write_at(block * CHUNK as u64, &content(seed, CHUNK), false)
}

fn settings() -> PoolSettings {
    PoolSettings { compression: Compression::None, ..small() }
}

/// Such a pool. What each block holds is its seed; 0 for zeroes.
fn pool_of_few() -> (SimFolder, Pool, Volume, Vec<u64>) {
    let folder = SimFolder::new();
    Pool::create(&folder, &settings(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = main_volume(&pool, 2000).unwrap();
    let mut seeds = vec![0; 2000];
    for block in 0..BLOCKS {
        write(&volume, block, block + 1).unwrap();
        seeds[block as usize] = block + 1;
    }
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    (folder, pool, volume, seeds)
}

/// Give up most of what is there, so that whole pages of each container are dead; the disk has no
/// room for many more containers. Returns how many blocks were given up.
fn give_up(folder: &SimFolder, volume: &Volume, seeds: &mut [u64]) -> u64 {
    let mut freed = 0;
    for block in (0..BLOCKS).filter(|block| block % RUN >= 2) {
        volume.trim(block * CHUNK as u64, CHUNK as u64, false).unwrap();
        seeds[block as usize] = 0;
        freed += 1;
    }
    folder.set_capacity(Some(folder.used_bytes() + ROOM_BYTES));
    freed
}

fn assert_holds(volume: &dyn BlockDevice, seeds: &[u64], context: &str) {
    let mut found = vec![0; CHUNK];
    for (block, &seed) in seeds.iter().enumerate() {
        volume.read_at((block * CHUNK) as u64, &mut found).unwrap_or_else(|error| {
            panic!("{context}: block {block}: {error}");
        });
        let expected = if seed == 0 { vec![0; CHUNK] } else { content(seed, CHUNK) };
        assert!(found == expected, "{context}: block {block}");
    }
}

/// Bytes of containers that the disk has no longer.
fn punched(folder: &SimFolder) -> u64 {
    let containers = folder.subfolder("containers").unwrap();
    let of = |name: &String| {
        let media = containers.open(name).unwrap();
        media.len().unwrap().saturating_sub(media.allocated_bytes().unwrap())
    };
    containers.list().unwrap().iter().map(of).sum()
}

#[test]
fn where_nothing_can_be_moved_dead_pages_are_given_back_where_they_lie() {
    let (folder, pool, volume, mut seeds) = pool_of_few();
    let stored = pool.status().unwrap().container_bytes;
    let freed = give_up(&folder, &volume, &mut seeds);
    // Also what was given up: what is gone must be stored anew.
    for (seed, block) in (RUN / 2..).zip(1000..1000 + freed * 6 / 10) {
        let seed = if block % 2 == 0 { seed } else { 5000 + seed };
        write(&volume, block, seed).unwrap_or_else(|error| panic!("block {block}: {error}"));
        seeds[block as usize] = seed;
    }
    volume.flush().unwrap();
    let status = pool.status().unwrap();
    assert!(status.activity.punched_bytes > 500_000, "{:?}", status.activity);
    assert!(punched(&folder) > 500_000, "{}", punched(&folder));
    assert!(status.container_bytes < stored + (200 << 10), "{stored}: {status:?}");
    assert_holds(&volume, &seeds, "after punching");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
    folder.set_capacity(None);
    let before = pool_space(&folder);
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_eq!(pool.space(), before, "what was punched is remembered");
    let volume = pool.volume("main").unwrap();
    assert_holds(&volume, &seeds, "reopened");
    // All contents that were ever there: what is gone must not be found.
    for (block, seed) in (1500..).zip(1..=BLOCKS) {
        write(&volume, block, seed).unwrap();
        seeds[block as usize] = seed;
    }
    assert_holds(&volume, &seeds, "written again");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed again");
}

fn pool_space(folder: &SimFolder) -> onefold_pool::SpaceTotals {
    Pool::open(folder, &read_only()).unwrap().space()
}

#[test]
fn a_store_that_cannot_punch_is_a_full_disk_and_nothing_else() {
    full_without_punching(|folder| folder.fail_from(&[OpKind::Punch], 1, FaultKind::Enospc));
}

/// btrfs counts a page as given back that its extent still takes: what was dead would count as
/// gone, and not be moved any more when there is room for that.
#[test]
fn a_store_that_gives_no_single_page_back_is_not_asked_to() {
    let folder = full_without_punching(SimFolder::keep_pages);
    assert!(!folder.op_log().contains("Punch"), "{}", folder.op_log());
}

fn full_without_punching(cannot: impl Fn(&SimFolder)) -> SimFolder {
    let (folder, pool, volume, mut seeds) = pool_of_few();
    cannot(&folder);
    give_up(&folder, &volume, &mut seeds);
    let failed = (1000..2000).find(|&block| match write(&volume, block, 5000 + block) {
        Ok(()) => {
            seeds[block as usize] = 5000 + block;
            false
        }
        Err(BlockError::NoSpace(_)) => true,
        Err(error) => panic!("{error}"),
    });
    assert!(failed.is_some_and(|block| block < 1150), "the disk is full: {failed:?}");
    assert_eq!(pool.status().unwrap().activity.punched_bytes, 0);
    assert!(pool.status().unwrap().failure.is_none());
    volume.flush().unwrap();
    assert_holds(&volume, &seeds, "full");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
    folder
}

#[test]
fn a_map_that_cannot_be_read_keeps_every_page_that_it_may_refer_to() {
    let (folder, pool, volume, mut seeds) = pool_of_few();
    give_up(&folder, &volume, &mut seeds);
    volume.flush().unwrap();
    // Another volume, all of whose pages must be read, on a disk that fails to.
    drop(volume);
    pool.close().unwrap();
    folder.set_capacity(None);
    let pool = Pool::open(&folder, &options()).unwrap();
    let other = pool.create_volume("other", onefold_block::ByteSize(64 << 20)).unwrap();
    for n in 0..4 {
        other.write_at(n * (8 << 20), &content(1, CHUNK), false).unwrap();
    }
    drop(other);
    pool.close().unwrap();
    let map = folder.open("map").unwrap();
    let end = map.len().unwrap() / 4096;
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    folder.set_capacity(Some(folder.used_bytes() + (100 << 10)));
    // Any page of the map may be the one.
    for slot in 1..end {
        folder.flip_bit("map", slot * 4096 + 40, 2).unwrap();
    }
    let failed = (1000..2000).find(|&block| match write(&volume, block, 5000 + block) {
        Ok(()) => false,
        Err(BlockError::NoSpace(_) | BlockError::Corrupt(_)) => true,
        Err(error) => panic!("{error}"),
    });
    assert!(failed.is_some(), "nothing came back");
    assert_eq!(pool.status().unwrap().activity.punched_bytes, 0);
    assert_eq!(punched(&folder), 0);
}

#[test]
fn power_cuts_at_every_operation_of_punching_lose_nothing_that_was_flushed() {
    let mut deepest = 0;
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        for cut in 1..=CUTS_MAX {
            assert!(cut < CUTS_MAX, "what was written never ends");
            let (folder, pool, volume, mut seeds) = pool_of_few();
            give_up(&folder, &volume, &mut seeds);
            // For not one container more.
            folder.set_capacity(Some(folder.used_bytes() + (1060 << 10)));
            let flushed = cut % 2 == 0;
            if flushed {
                volume.flush().unwrap();
            }
            folder.crash_at(folder.op_count() + cut);
            let written = (1000..1010).try_for_each(|block| write(&volume, block, 5000 + block));
            let ended = written.and_then(|()| volume.flush()).is_ok();
            let context = format!("{mode:?}, cut {cut}");
            let mut random = SplitMix64::new(cut);
            let left = folder.after_crash(random.next_u64(), mode);
            drop((volume, pool));
            deepest = deepest.max(punched(&left));
            left.set_capacity(None);
            assert_sound(&left, &context);
            let pool = Pool::open(&left, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
            let volume = pool.volume("main").unwrap();
            // What was given up and not flushed may be there or not; what was kept is there.
            let mut found = vec![0; CHUNK];
            for block in 0..BLOCKS {
                volume.read_at(block * CHUNK as u64, &mut found).unwrap_or_else(|error| {
                    panic!("{context}: block {block}: {error}");
                });
                let kept = found == content(block + 1, CHUNK);
                let given_up = found == vec![0; CHUNK] && seeds[block as usize] == 0;
                assert!(given_up || kept, "{context}: block {block}");
                assert!(!flushed || kept == (seeds[block as usize] > 0), "{context}: {block}");
            }
            // Contents that are gone are stored anew.
            for (block, seed) in (1500..).zip(1..=BLOCKS) {
                write(&volume, block, seed).unwrap();
            }
            for (block, seed) in (1500..).zip(1..=BLOCKS) {
                volume.read_at(block * CHUNK as u64, &mut found).unwrap();
                assert!(found == content(seed, CHUNK), "{context}: content {seed}");
            }
            drop(volume);
            pool.close().unwrap();
            assert_sound(&left, &context);
            if ended {
                assert!(cut > 10, "{context}: too few operations");
                break;
            }
        }
    }
    assert!(deepest > 100_000, "no cut came after a punch: {deepest}");
}
