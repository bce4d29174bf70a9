//! A snapshot that is half given up: writes, other snapshots, a stop, a power cut and damage come
//! between.

use std::sync::Arc;

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, Folder, SimFolder};
use onefold_pool::{Pool, PoolIdentity, SpaceTarget, Volume};

use crate::support::{assert_sound, content, new_pool, options, small};

/// Leaves of the volume's map. Sixteen that a snapshot has alone are given up at a time: a sixth
/// must be more than that.
const LEAVES: u64 = 120;
const LEAF_BYTES: u64 = 512 * 4096;
/// Blocks that are written under each leaf.
const WRITTEN: u64 = 3;
/// One turn of giving up.
const TURN_BYTES: u64 = 16 * 4096;

fn write(volume: &Volume, leaf: u64, round: u64) {
    for block in 0..WRITTEN {
        let bytes = content(round * 10_000 + leaf * WRITTEN + block, 4096);
        volume.write_at(leaf * LEAF_BYTES + block * 4096, &bytes, false).unwrap();
    }
}

/// Each leaf's blocks are those of its round.
fn assert_holds(pool: &Pool, name: &str, rounds: &[u64], context: &str) {
    let volume = pool.volume(name).unwrap();
    let mut found = vec![0; 4096];
    for (leaf, round) in (0..).zip(rounds) {
        for block in 0..WRITTEN {
            volume.read_at(leaf * LEAF_BYTES + block * 4096, &mut found).unwrap();
            let expected = content(round * 10_000 + leaf * WRITTEN + block, 4096);
            assert!(found == expected, "{context}: {name}, leaf {leaf}, block {block}");
        }
    }
}

/// What comes between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Stop,
    PowerCut,
}

/// The pool as it is after that.
fn after(between: Between, folder: SimFolder, pool: Pool) -> (SimFolder, Pool) {
    match between {
        Between::Nothing => return (folder, pool),
        Between::Stop => pool.close().unwrap(),
        Between::PowerCut => {
            pool.volume("main").unwrap().flush().unwrap();
            let disk = folder.after_crash(11, CrashMode::KeepNothing);
            let pool = Pool::open(&disk, &options()).unwrap();
            return (disk, pool);
        }
    }
    let pool = Pool::open(&folder, &options()).unwrap();
    (folder, pool)
}

#[test]
fn what_a_snapshot_left_to_its_volume_is_the_volumes_while_the_rest_is_still_shared() {
    for between in [Between::Nothing, Between::Stop, Between::PowerCut] {
        for older in [false, true] {
            let context = format!("{between:?}, with an older snapshot: {older}");
            let (folder, pool) = new_pool(&small());
            let volume = pool.create_volume("main", ByteSize(LEAVES * LEAF_BYTES)).unwrap();
            let mut now = vec![1; LEAVES as usize];
            (0..LEAVES).for_each(|leaf| write(&volume, leaf, 1));
            let first = now.clone();
            if older {
                pool.snapshot("main@older", 1, false).unwrap();
            }
            for leaf in (0..LEAVES).step_by(3) {
                write(&volume, leaf, 2);
                now[leaf as usize] = 2;
            }
            pool.snapshot("main@going", 2, false).unwrap();
            // Half of its leaves are its own from here on.
            for leaf in (0..LEAVES).step_by(2) {
                write(&volume, leaf, 3);
                now[leaf as usize] = 3;
            }
            pool.delete_snapshot("main@going").unwrap();
            assert!(!pool.give_up_deleted(TURN_BYTES).unwrap(), "{context}: it went in one turn");
            drop(volume);
            let (folder, pool) = after(between, folder, pool);
            // Leaves that were given up, and leaves that were not.
            let volume = pool.volume("main").unwrap();
            for leaf in [0, 1, 2, 3, 14, 15, 29, 31, 33, 34, 35, 50, 51, 59] {
                write(&volume, leaf, 4);
                now[leaf as usize] = 4;
            }
            assert_holds(&pool, "main", &now, &context);
            pool.snapshot("main@newer", 3, false).unwrap();
            let newer = now.clone();
            for leaf in [1, 5, 16, 20, 53] {
                write(&volume, leaf, 5);
                now[leaf as usize] = 5;
            }
            drop(volume);
            let (folder, pool) = after(between, folder, pool);
            let gone = (0..100).any(|_| pool.give_up_deleted(TURN_BYTES).unwrap());
            assert!(gone, "{context}: it never goes");
            assert_holds(&pool, "main", &now, &context);
            assert_holds(&pool, "main@newer", &newer, &context);
            if older {
                assert_holds(&pool, "main@older", &first, &context);
            }
            pool.close().unwrap();
            assert_sound(&folder, &context);
        }
    }
}

/// What the volume has of the oldest snapshot, where the one between has left all to it, it keeps
/// when that snapshot lost it and goes.
#[test]
fn damage_beside_what_is_half_given_up_takes_nothing_from_the_volume() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(LEAVES * LEAF_BYTES)).unwrap();
    (0..LEAVES).for_each(|leaf| write(&volume, leaf, 1));
    pool.snapshot("main@older", 1, false).unwrap();
    (0..LEAVES).step_by(3).for_each(|leaf| write(&volume, leaf, 2));
    pool.snapshot("main@going", 2, false).unwrap();
    (0..LEAVES).step_by(2).for_each(|leaf| write(&volume, leaf, 3));
    pool.delete_snapshot("main@going").unwrap();
    assert!(!pool.give_up_deleted(TURN_BYTES / 2).unwrap());
    drop(volume);
    pool.close().unwrap();

    let read = |pool: &Pool| -> Vec<Option<Vec<u8>>> {
        let volume = pool.volume("main").unwrap();
        let mut found = vec![0; 4096];
        let blocks = (0..LEAVES * WRITTEN).map(|n| n / WRITTEN * LEAF_BYTES + n % WRITTEN * 4096);
        blocks.map(|at| volume.read_at(at, &mut found).ok().map(|()| found.clone())).collect()
    };
    let map = folder.open("map").unwrap();
    let (slots, mut lossy) = (map.len().unwrap() / 4096, 0);
    for slot in 1..slots {
        // Pages above the leaves, which are nearly full.
        let mut page = [0; 4096];
        map.read(slot * 4096, &mut page).unwrap();
        if page.chunks(8).filter(|word| *word != [0; 8]).count() < LEAVES as usize {
            continue;
        }
        let folder = folder.after_crash(0, CrashMode::KeepEverything);
        folder.flip_bit("map", slot * 4096 + 20, 2).unwrap();
        let context = format!("slot {slot}");
        let fresh = PoolIdentity { uuid: [8; 16], key: [9; 32] };
        let repair = Pool::repair_in(Arc::new(folder.clone()), fresh, &mut |_, _| {}).unwrap();
        let report = repair.apply().unwrap();
        lossy += u64::from(report.lost.total + report.restored.total > LEAF_BYTES / 4096);
        assert_sound(&folder, &context);
        let pool = Pool::open(&folder, &options()).unwrap();
        let before = read(&pool);
        pool.delete_snapshot("main@older").unwrap();
        while !pool.give_up_deleted(1 << 20).unwrap() {}
        let other = pool.create_volume("other", ByteSize(LEAVES * LEAF_BYTES)).unwrap();
        (0..LEAVES).for_each(|leaf| write(&other, leaf, 7));
        drop(other);
        for _ in 0..5 {
            pool.background(1 << 20, SpaceTarget::new(1.2).unwrap()).unwrap();
        }
        assert!(read(&pool) == before, "{context}");
        pool.close().unwrap();
        assert_sound(&folder, &context);
        let pool = Pool::open(&folder, &options()).unwrap();
        assert!(read(&pool) == before, "{context}: opened again");
    }
    assert!(lossy > 0, "no page above the leaves was hit");
}

#[test]
fn a_deletion_that_a_stop_came_between_goes_on_from_there_and_takes_nothing_from_others() {
    let leaves = 40;
    let (folder, pool) = new_pool(&small());
    let size = ByteSize(leaves as u64 * LEAF_BYTES);
    let volume = pool.create_volume("main", size).unwrap();
    let write = |volume: &Volume, every: usize, seed: usize| {
        for leaf in (0..leaves).step_by(every) {
            let data = content((seed + leaf) as u64, 4096);
            volume.write_at((leaf * LEAF_BYTES as usize) as u64, &data, false).unwrap();
        }
    };
    write(&volume, 1, 1000);
    pool.snapshot("main@a", 0, false).unwrap();
    write(&volume, 1, 2000);
    pool.snapshot("main@b", 0, false).unwrap();
    write(&volume, 2, 3000);
    drop(volume);
    pool.delete_snapshot("main@b").unwrap();
    // A turn of 16 leaves.
    assert!(!pool.give_up_deleted(1).unwrap());
    let left = pool.deleting_bytes().bytes();
    assert!((1..size.bytes()).contains(&left), "{left}");
    pool.close().unwrap();
    let mut pool = Pool::open(&folder, &options()).unwrap();
    assert_eq!(pool.deleting_bytes().bytes(), left);
    // What was left to the volume is its own by now: to overwrite it gives it up.
    write(&pool.volume("main").unwrap(), 1, 4000);
    for _ in 0..20 {
        if pool.give_up_deleted(1).unwrap() {
            break;
        }
        pool.checkpoint().unwrap();
        pool.close().unwrap();
        pool = Pool::open(&folder, &options()).unwrap();
    }
    assert_eq!(pool.deleting_bytes().bytes(), 0);
    for (name, seed) in [("main@a", 1000), ("main", 4000)] {
        let volume = pool.volume(name).unwrap();
        for leaf in 0..leaves {
            let mut found = vec![0; 4096];
            volume.read_at((leaf * LEAF_BYTES as usize) as u64, &mut found).unwrap();
            assert!(found == content((seed + leaf) as u64, 4096), "{name}, leaf {leaf}");
        }
    }
    assert_eq!(pool.status().unwrap().chunks, 2 * leaves as u64);
    pool.close().unwrap();
    assert_sound(&folder, "after the deletion");
}

/// After a rollback two have the pages of the older snapshot: it goes once the newer one has gone.
#[test]
fn snapshots_of_two_branches_that_go_together_take_nothing_from_who_stays() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(12 * LEAF_BYTES)).unwrap();
    (0..12).for_each(|leaf| write(&volume, leaf, 1));
    pool.snapshot("main@a", 0, false).unwrap();
    (3..6).for_each(|leaf| write(&volume, leaf, 2));
    pool.snapshot("main@b", 0, false).unwrap();
    (8..10).for_each(|leaf| write(&volume, leaf, 3));
    pool.rollback("main@a").unwrap();
    write(&volume, 0, 4);
    pool.delete_snapshot("main@b").unwrap();
    pool.delete_snapshot("main@a").unwrap();
    assert!((0..1000).any(|_| pool.give_up_deleted(1).unwrap()), "it never ends");
    pool.checkpoint().unwrap();
    let rounds = [&[4][..], &[1; 11]].concat();
    assert_holds(&pool, "main", &rounds, "given up");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
    assert_holds(&Pool::open(&folder, &options()).unwrap(), "main", &rounds, "opened again");
}
