//! What snapshots alone hold.

use onefold_block::{BlockDevice, ByteSize, CrashMode, Folder};
use onefold_pool::Pool;

use crate::snapshots::idle;
use crate::support::{content, new_pool, options, small};

const CHUNK: usize = 4096;
/// Three leaves of the map and a page above.
const BLOCKS: usize = 1300;

#[test]
fn a_snapshot_alone_holds_what_neither_the_one_before_nor_what_came_of_it_has() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    let mut seed = 0;
    let mut write = |blocks: std::ops::Range<usize>| {
        for block in blocks {
            seed += 1;
            volume.write_at((block * CHUNK) as u64, &content(seed, CHUNK), false).unwrap();
        }
    };
    let blocks = |count: usize| Some((count * CHUNK) as u64);
    let alone = |of| pool.alone(of).unwrap().into_iter().map(|(_, bytes)| bytes);
    write(0..BLOCKS);
    pool.snapshot("main@a", 0, false).unwrap();
    assert_eq!(alone(None).collect::<Vec<_>>(), [blocks(0)], "its volume has all of it");
    write(0..100);
    write(600..620);
    pool.snapshot("main@b", 0, false).unwrap();
    write(50..200);
    volume.trim(600 * CHUNK as u64, 10 * CHUNK as u64, false).unwrap();
    // Of a's 120 that b has not, none is anybody else's; of b's 100 and 20, 50 and 10 went.
    assert_eq!(alone(None).collect::<Vec<_>>(), [blocks(120), blocks(60)]);
    let copy = pool.clone_snapshot("main@b", "copy", 0).unwrap();
    assert_eq!(alone(Some("main")).collect::<Vec<_>>(), [blocks(120), blocks(0)], "cloned");
    copy.write_at(60 * CHUNK as u64, &content(90_000, CHUNK), false).unwrap();
    copy.trim(605 * CHUNK as u64, CHUNK as u64, false).unwrap();
    assert_eq!(alone(None).collect::<Vec<_>>(), [blocks(120), blocks(2)]);
    assert_eq!(alone(Some("copy")).count(), 0);
    // What is said to be so comes back, and what the next one has does not.
    let unique = || pool.status().unwrap().unique_bytes;
    let before = unique();
    pool.delete_snapshot("main@a").unwrap();
    idle(&pool);
    assert_eq!(before - unique(), blocks(120).unwrap());
    assert_eq!(alone(None).collect::<Vec<_>>(), [blocks(2)]);
    // A volume that became smaller, and larger than it was.
    pool.resize_volume("main", ByteSize((700 * CHUNK) as u64), true).unwrap();
    pool.resize_volume("main", ByteSize((4 * BLOCKS * CHUNK) as u64), false).unwrap();
    assert_eq!(alone(None).collect::<Vec<_>>(), [blocks(2)], "the clone has the rest");
}

/// Whatever page of the map is damaged, what is told is right, and what cannot be is told as such,
/// of that snapshot alone.
#[test]
fn what_a_snapshot_alone_holds_is_right_or_not_told_over_a_damaged_map() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize((3 * 512 * CHUNK) as u64)).unwrap();
    let mut seed = 0;
    let mut write = |volume: &dyn BlockDevice, blocks: &[usize]| {
        for block in blocks {
            seed += 1;
            volume.write_at((block * CHUNK) as u64, &content(seed, CHUNK), false).unwrap();
        }
    };
    write(&volume, &(0..1536).step_by(3).collect::<Vec<_>>());
    let often = [0, 513, 600, 1100, 1203];
    for name in ["main@a", "main@b", "main@c", "main@d"] {
        pool.snapshot(name, 0, false).unwrap();
        write(&volume, &often);
    }
    let copy = pool.clone_snapshot("main@d", "copy", 0).unwrap();
    write(&copy, &often[1..]);
    drop((volume, copy));
    let truth = pool.alone(None).unwrap();
    assert!(truth.iter().all(|(_, bytes)| bytes.is_some_and(|bytes| bytes > 0)), "{truth:?}");
    pool.close().unwrap();
    let (mut told, mut withheld, mut opened) = (0, 0, 0);
    for slot in 1..folder.open("map").unwrap().len().unwrap() / 4096 {
        let damaged = folder.after_crash(1, CrashMode::KeepEverything);
        damaged.flip_bit("map", slot * 4096 + 77, 2).unwrap();
        let Ok(pool) = Pool::open(&damaged, &options()) else { continue };
        opened += 1;
        for ((name, bytes), (of, right)) in pool.alone(None).unwrap().iter().zip(&truth) {
            assert_eq!(name, of);
            assert!(bytes.is_none() || bytes == right, "slot {slot}, {name}: {bytes:?}");
            told += u32::from(bytes.is_some());
            withheld += u32::from(bytes.is_none());
        }
        // It can be deleted, and the rest is still right or not told.
        if pool.delete_snapshot("main@c").is_ok() {
            let left = pool.alone(None).unwrap();
            let right = |name: &str| truth.iter().find(|(of, _)| of == name).unwrap().1;
            for (name, bytes) in left.iter().filter(|(name, _)| name != "main@d") {
                assert!(bytes.is_none_or(|b| Some(b) == right(name)), "slot {slot}, {name}");
            }
        }
    }
    assert!(opened > 10 && told > 2 * opened && withheld > 5, "{told}, {withheld} of {opened}");
}
