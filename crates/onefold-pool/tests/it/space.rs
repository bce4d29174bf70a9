//! Space comes back, whatever is overwritten or given up.

use onefold_block::{BlockDevice, BlockError, CrashMode, SimFolder, SplitMix64};
use onefold_pool::{Pool, PoolStatus, SpaceTarget};

use crate::model::{CHUNK, main_volume};
use crate::support::{assert_sound, content, new_pool, options, small};

const BLOCKS: usize = 3000;

fn write(volume: &dyn BlockDevice, block: u64, seed: u64) -> Result<(), BlockError> {
    volume.write_at(block * CHUNK as u64, &content(seed, CHUNK), false)
}

fn assert_holds(volume: &dyn BlockDevice, seeds: &[u64], context: &str) {
    let mut found = vec![0; CHUNK];
    for (block, &seed) in seeds.iter().enumerate() {
        volume.read_at((block * CHUNK) as u64, &mut found).unwrap();
        let expected = if seed == 0 { vec![0; CHUNK] } else { content(seed, CHUNK) };
        assert!(found == expected, "{context}: block {block}");
    }
}

/// Bytes of all files, and of the containers alone.
fn stored(pool: &Pool) -> (PoolStatus, f64) {
    let status = pool.status().unwrap();
    let over = status.stored_over_live();
    (status, over)
}

/// Work in the background until nothing is left.
fn reclaim(pool: &Pool, target: f64) -> u64 {
    let target = SpaceTarget::new(target).unwrap();
    let mut moved = 0;
    for _ in 0..10_000 {
        let step = pool.background(100_000, target).unwrap();
        moved += step.moved_bytes;
        if step.done {
            return moved;
        }
    }
    panic!("it never ends");
}

#[test]
fn overwrites_under_a_target_never_store_more_than_it_allows() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, BLOCKS).unwrap();
    pool.set_space_target(Some(SpaceTarget::new(1.5).unwrap()));
    let mut random = SplitMix64::new(1);
    let mut seeds: Vec<u64> = (1..=BLOCKS as u64).collect();
    for (block, &seed) in (0..).zip(&seeds) {
        write(&volume, block, seed).unwrap();
    }
    let mut most = 0.0f64;
    for n in 0..6 * BLOCKS as u64 {
        let block = random.below(BLOCKS as u64);
        seeds[block as usize] = 1_000_000 + n;
        write(&volume, block, 1_000_000 + n).unwrap();
        if n % 100 == 0 {
            most = most.max(stored(&pool).1);
        }
    }
    // The containers being filled and those of the reserve are much of so small a pool.
    assert!(most < 1.8, "{most} stored for each live byte");
    let (status, _) = stored(&pool);
    let written = 6 * BLOCKS as u64 * 2128;
    assert!(status.activity.moved_bytes < 2 * written, "{} moved", status.activity.moved_bytes);
    assert_holds(&volume, &seeds, "after overwrites");
    assert!(reclaim(&pool, 1.1) > 0);
    pool.checkpoint().unwrap();
    let (_, over) = stored(&pool);
    assert!(over < 1.25, "{over} after an idle reclaim");
    assert_holds(&volume, &seeds, "after an idle reclaim");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_holds(&pool.volume("main").unwrap(), &seeds, "reopened");
}

/// A pool in which all but a few popular blocks were given up, and nothing tells of it.
fn all_but_popular_blocks() -> (SimFolder, Pool, Vec<u64>) {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, BLOCKS).unwrap();
    // One block of each container is referred to by many others.
    let mut seeds = vec![0; BLOCKS];
    for block in 0..1500u64 {
        seeds[block as usize] = block + 1;
        write(&volume, block, block + 1).unwrap();
    }
    for block in 1500..3000u64 {
        let popular = (block - 1500) / 100 * 100 + 1;
        seeds[block as usize] = popular;
        write(&volume, block, popular).unwrap();
    }
    // All but the popular ones go.
    for block in (0..1500u64).filter(|block| block % 100 != 0) {
        seeds[block as usize] = 0;
        volume.trim(block * CHUNK as u64, CHUNK as u64, false).unwrap();
    }
    drop(volume);
    (folder, pool, seeds)
}

/// The space of those that were given up comes back.
fn assert_comes_back(folder: &SimFolder, pool: Pool, seeds: &[u64], context: &str) {
    let (before, _) = stored(&pool);
    reclaim(&pool, 1.1);
    let (after, _) = stored(&pool);
    let (before, after) = (before.container_bytes, after.container_bytes);
    assert!(after * 4 < before, "{context}: {before} before, {after} after");
    assert_holds(&pool.volume("main").unwrap(), seeds, context);
    pool.close().unwrap();
    assert_sound(folder, context);
}

#[test]
fn a_popular_block_does_not_hide_what_died_beside_it() {
    let (folder, pool, seeds) = all_but_popular_blocks();
    assert_comes_back(&folder, pool, &seeds, "after reclaim");
}

#[test]
fn what_died_beside_popular_blocks_is_counted_though_the_pool_was_opened_again() {
    let (folder, pool, seeds) = all_but_popular_blocks();
    pool.close().unwrap();
    let reopen = |folder: &SimFolder| Pool::open(folder, &options()).unwrap();
    // Twice, so that nothing but the checkpoint tells of it.
    reopen(&folder).close().unwrap();
    assert_comes_back(&folder, reopen(&folder), &seeds, "after a stop");
    // After a power cut, by the journal.
    let (folder, pool, seeds) = all_but_popular_blocks();
    pool.volume("main").unwrap().flush().unwrap();
    let left = folder.after_crash(1, CrashMode::KeepNothing);
    drop(pool);
    assert_comes_back(&left, reopen(&left), &seeds, "after a power cut");
    // A count that did not come to its end, wherever it was.
    for steps in [1, 2, 5, 7, 9] {
        let (folder, pool, seeds) = all_but_popular_blocks();
        for _ in 0..steps {
            let step = pool.background(1, SpaceTarget::new(1.1).unwrap()).unwrap();
            assert!(!step.done && step.moved_bytes == 0, "{steps} steps are the whole count");
        }
        pool.close().unwrap();
        let context = format!("a count of {steps} steps");
        assert_comes_back(&folder, reopen(&folder), &seeds, &context);
    }
}

#[test]
fn a_count_that_a_snapshot_came_between_is_made_again() {
    let (folder, pool, seeds) = all_but_popular_blocks();
    for number in 0..3 {
        for _ in 0..3 {
            let step = pool.background(1, SpaceTarget::new(1.1).unwrap()).unwrap();
            assert!(!step.done && step.moved_bytes == 0);
        }
        let name = format!("main@{number}s");
        pool.snapshot(&name, 0, false).unwrap();
        pool.delete_snapshot(&name).unwrap();
        assert!((0..100).any(|_| pool.give_up_deleted(u64::MAX).unwrap()));
    }
    assert_comes_back(&folder, pool, &seeds, "after three counts in vain");
}

#[test]
fn short_containers_are_merged() {
    let (folder, mut pool) = new_pool(&small());
    let mut seeds = vec![0; BLOCKS];
    for n in 0..12u64 {
        let volume = main_volume(&pool, BLOCKS).unwrap();
        seeds[n as usize] = n + 1;
        write(&volume, n, n + 1).unwrap();
        drop(volume);
        pool.close().unwrap();
        pool = Pool::open(&folder, &options()).unwrap();
    }
    assert_eq!(pool.status().unwrap().containers, 12);
    reclaim(&pool, 1.5);
    assert!(pool.status().unwrap().containers <= 2, "{}", pool.status().unwrap().containers);
    assert_holds(&pool.volume("main").unwrap(), &seeds, "merged");
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}

#[test]
fn after_containers_were_left_without_owners_references_are_found_all_the_same() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, BLOCKS).unwrap();
    let mut seeds = vec![0; BLOCKS];
    for n in 0..40u64 {
        seeds[n as usize] = n + 1;
        write(&volume, n, n + 1).unwrap();
    }
    volume.flush().unwrap();
    // As after a power cut: the container gets its directory from its records alone.
    drop((volume, pool));
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    for n in 100..2000u64 {
        seeds[n as usize % BLOCKS] = n + 1;
        write(&volume, n % BLOCKS as u64, n + 1).unwrap();
    }
    for n in (0..40u64).chain(100..1500).filter(|n| n % 4 != 0) {
        seeds[n as usize] = 0;
        volume.trim(n * CHUNK as u64, CHUNK as u64, false).unwrap();
    }
    reclaim(&pool, 1.05);
    let containers = folder_containers(&folder);
    assert!(!containers.iter().any(|name| name.starts_with("00000001")), "{containers:?}");
    assert_holds(&volume, &seeds, "moved without owners");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}

fn folder_containers(folder: &SimFolder) -> Vec<String> {
    use onefold_block::Folder;
    folder.subfolder("containers").unwrap().list().unwrap()
}

/// Fill a disk of `capacity` with unique blocks until there is no space.
fn fill(volume: &dyn BlockDevice, seeds: &mut [u64], from: u64) -> u64 {
    for block in 0..seeds.len() as u64 {
        match write(volume, block, from + block) {
            Ok(()) => seeds[block as usize] = from + block,
            Err(BlockError::NoSpace(_)) => return block,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk is never full");
}

/// Whether the block with this number is given up.
type GivenUp = fn(u64) -> bool;

#[test]
fn on_a_full_disk_what_was_given_up_can_be_written_again_whatever_the_pattern() {
    let patterns: [(&str, GivenUp); 4] = [
        ("every second", |block| block % 2 == 0),
        ("the first half", |block| block < 2000),
        ("three of four", |block| block % 4 != 1),
        ("one of eight", |block| block % 8 == 3),
    ];
    for (name, given_up) in patterns {
        let (folder, pool) = new_pool(&small());
        folder.set_capacity(Some(12 << 20));
        let volume = main_volume(&pool, 20_000).unwrap();
        let mut seeds = vec![0; 20_000];
        let full = fill(&volume, &mut seeds, 1);
        let mut freed = 0;
        for block in (0..full).filter(|&block| given_up(block)) {
            volume.trim(block * CHUNK as u64, CHUNK as u64, false).unwrap();
            seeds[block as usize] = 0;
            freed += 1;
        }
        let mut written = 0;
        for block in 10_000.. {
            match write(&volume, block, 100_000 + block) {
                Ok(()) => seeds[block as usize] = 100_000 + block,
                Err(BlockError::NoSpace(_)) => break,
                Err(error) => panic!("{name}: {error}"),
            }
            written += 1;
        }
        assert!(written * 10 >= freed * 8, "{name}: {written} of {freed} were written again");
        volume.flush().unwrap();
        assert_holds(&volume, &seeds, name);
        drop(volume);
        pool.close().unwrap();
        assert_sound(&folder, name);
    }
}

#[test]
fn owners_in_volumes_that_are_gone_or_shorter_by_now_lead_nobody_astray() {
    let (folder, pool) = new_pool(&small());
    let (gone, kept) = (main_volume(&pool, BLOCKS).unwrap(), "kept");
    let kept = pool.create_volume(kept, onefold_block::ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    let mut seeds = vec![0; BLOCKS];
    // Stored for the one, shared by the other: half of it in the first half of the blocks.
    for block in 0..2000u64 {
        write(&gone, block, block + 1).unwrap();
        let volume: &dyn BlockDevice = &kept;
        let shared = 2000 - block;
        write(volume, shared, block + 1).unwrap();
        seeds[shared as usize] = block + 1;
    }
    pool.resize_volume("main", onefold_block::ByteSize(1000 * CHUNK as u64), true).unwrap();
    let trim = |seeds: &mut [u64], keep: u64| {
        for block in (1..=2000u64).filter(|block| block % 4 != keep) {
            kept.trim(block * CHUNK as u64, CHUNK as u64, false).unwrap();
            seeds[block as usize] = 0;
        }
    };
    reclaim(&pool, 1.05);
    assert_holds(&kept, &seeds, "shrunk");
    drop(gone);
    pool.delete_volume("main").unwrap();
    trim(&mut seeds, 1);
    let before = pool.space().stored_bytes;
    reclaim(&pool, 1.05);
    assert!(pool.space().stored_bytes * 2 < before, "{before}, then {:?}", pool.space());
    assert_holds(&kept, &seeds, "deleted");
    drop(kept);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}
