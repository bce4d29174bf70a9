//! Tests: what is left of a volume that could not be made, and what lies past the end of one.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, BlockError, CrashMode, FaultKind, OpKind, SimFolder};
use onefold_block::{WriteRequest, ZeroOptions};

use super::*;
use crate::commit::Tally;
use crate::write::Reach;
use crate::{OpenOptions, Pool, PoolSettings};

const CHUNK: u64 = 4096;

fn new_pool() -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    (folder, pool)
}

#[test]
fn a_volume_whose_checkpoint_had_no_space_is_gone_at_once() {
    let (folder, pool) = new_pool();
    drop(pool.create_volume("first", ByteSize(1 << 20)).unwrap());
    folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
    let failed = pool.create_volume("second", ByteSize(1 << 20));
    assert!(failed.map(drop).unwrap_err().is_no_space());
    let names = || pool.inner.all_volumes().iter().map(|v| v.name()).collect::<Vec<_>>();
    assert_eq!(names(), ["first"], "not even as one that is being deleted");
    drop(pool.create_volume("second", ByteSize(1 << 20)).unwrap());
    assert_eq!(names(), ["first", "second"]);
    pool.close().unwrap();
    assert!(Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn of_a_volume_that_is_given_up_nothing_stays_but_what_a_checkpoint_may_have() {
    let (_folder, pool) = new_pool();
    let inner = &pool.inner;
    let volume = pool.create_volume("noted", ByteSize(1 << 20)).unwrap();
    assert_eq!(volume.state.created_seconds, 0);
    pool.set_note("noted", &[7; 9000]).unwrap();
    assert!(inner.engine().space.notes() > 9000);
    inner.give_up_new(&volume.state);
    assert!(volume.is_deleted() && inner.all_volumes().is_empty());
    assert!(inner.map.blocks_max(volume.state.number).is_err(), "it has no map either");
    assert_eq!(inner.engine().space.notes(), 0, "its note takes no space in checkpoints");
    // Somebody wrote to it: it goes as what is deleted does.
    let volume = pool.create_volume("written", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    inner.give_up_new(&volume.state);
    assert!(volume.is_deleted() && pool.volume("written").is_err());
    assert!(matches!(volume.write_at(0, &[8; 4096], false), Err(BlockError::ShuttingDown)));
    assert_eq!(inner.all_volumes().len(), 1);
}

/// Set bytes as they are after a repair that has a block as it was when the volume was longer.
fn leave(volume: &Volume, offset: u64, data: &[u8]) {
    let request = WriteRequest { offset, data, fua: false };
    volume.inner.write_within(&volume.state, &[request], Reach::Anywhere).unwrap();
}

#[test]
fn what_a_volume_grows_by_is_zero_also_in_the_block_in_which_it_ended() {
    let (_folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(CHUNK + 100)).unwrap();
    leave(&volume, 0, &[5; 2 * 4096]);
    pool.resize_volume("main", ByteSize(CHUNK + 200), false).unwrap();
    pool.resize_volume("main", ByteSize(2 * CHUNK), false).unwrap();
    let mut found = [1; 2 * 4096];
    volume.read_at(0, &mut found).unwrap();
    assert!(found[..4196].iter().all(|&byte| byte == 5));
    assert!(found[4196..].iter().all(|&byte| byte == 0));
    // A block that cannot be had keeps nobody from growing, and is not taken for zeroes.
    lose(&volume, 2, 1);
    pool.resize_volume("main", ByteSize(2 * CHUNK + 7), false).unwrap();
    lose(&volume, 2, 1);
    pool.resize_volume("main", ByteSize(3 * CHUNK), false).unwrap();
    assert_eq!(lost_blocks(&volume, 3), [2]);
}

/// Set blocks as a repair does that cannot have them.
fn lose(volume: &Volume, first: u64, count: usize) {
    let (map, lost) = (&volume.inner.map, vec![MapEntry::Lost; count]);
    map.set(volume.state.number, Lba::new(first), &lost, &mut Tally::default()).unwrap();
}

fn lost_blocks(volume: &Volume, blocks: u64) -> Vec<u64> {
    let (mut entries, map) = (Vec::new(), &volume.inner.map);
    map.entries(volume.state.number, Lba::new(0), blocks, &mut entries).unwrap();
    (0..blocks).filter(|&block| entries[block as usize] == MapEntry::Lost).collect()
}

#[test]
fn nothing_is_lost_in_what_a_volume_grows_by() {
    let (_folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(520 * CHUNK)).unwrap();
    for (first, count) in [(3, 1), (520, 2), (1022, 3), (2047, 1), (131_071, 1)] {
        lose(&volume, first, count);
    }
    // A part of the map that is lost as a whole.
    let (map, number) = (&volume.inner.map, volume.state.number);
    let filled =
        map.fill(number, Lba::new(1536), 512, MapEntry::Lost, usize::MAX, &mut Tally::default());
    assert_eq!(filled.unwrap(), 512);
    pool.resize_volume("main", ByteSize(1023 * CHUNK), false).unwrap();
    let left: Vec<u64> = [3, 1023, 1024].into_iter().chain(1536..2048).collect();
    assert_eq!(lost_blocks(&volume, 2048), left);
    pool.resize_volume("main", ByteSize(200_000 * CHUNK), false).unwrap();
    assert_eq!(lost_blocks(&volume, 200_000), [3], "that one was there before");
}

#[test]
fn a_part_of_the_map_that_cannot_be_read_keeps_nothing_back_of_those_before_it() {
    let (folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(520 * CHUNK)).unwrap();
    for block in [522, 1100] {
        lose(&volume, block, 1);
    }
    drop(volume);
    pool.close().unwrap();
    // The page of the second of these alone.
    crate::empty_pool::damage_leaf(&folder, 1100, MapEntry::Lost);
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    pool.resize_volume("main", ByteSize(1200 * CHUNK), false).unwrap();
    let (volume, mut entries) = (pool.volume("main").unwrap(), Vec::new());
    let (map, number) = (&pool.inner.map, volume.state.number);
    map.entries(number, Lba::new(512), 18, &mut entries).unwrap();
    assert!(entries.iter().all(|entry| *entry == MapEntry::Hole), "{entries:?}");
    assert!(map.entries(number, Lba::new(1100), 1, &mut entries).is_err());
}

#[test]
fn a_change_that_finds_no_space_leaves_a_volume_as_it_was() {
    let (folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(10 * CHUNK)).unwrap();
    volume.write_at(0, &[7; 4096], true).unwrap();
    let refused = |change: &dyn Fn() -> Result<(), PoolError>| {
        // Nothing but the checkpoint is left to be written.
        pool.checkpoint().unwrap();
        folder.fail_from(&[OpKind::Write], 1, FaultKind::Enospc);
        let refused = change().unwrap_err();
        folder.clear_faults();
        assert!(refused.is_no_space(), "{refused}");
        assert_eq!((volume.size_bytes(), volume.is_deleted()), (10 * CHUNK, false));
        let mut found = [0; 4096];
        volume.read_at(0, &mut found).unwrap();
        assert_eq!(found, [7; 4096]);
    };
    refused(&|| pool.resize_volume("main", ByteSize(20 * CHUNK), false));
    refused(&|| pool.resize_volume("main", ByteSize(5 * CHUNK), false));
    refused(&|| pool.delete_volume("main"));
    volume.write_at(9 * CHUNK, &[9; 4096], true).unwrap();
    assert!(volume.write_at(10 * CHUNK, &[9; 1], true).is_err());
    pool.checkpoint().unwrap();
    let left = folder.after_crash(1, CrashMode::KeepNothing);
    let again = Pool::open(&left, &OpenOptions::default()).unwrap();
    assert_eq!(again.volume("main").unwrap().size_bytes(), 10 * CHUNK);
}

#[test]
fn a_shrink_says_how_many_blocks_it_would_lose() {
    let (_folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(512 * CHUNK)).unwrap();
    volume.write_at(0, &vec![7; 512 * 4096], false).unwrap();
    let lost = |blocks: u64| match pool.resize_volume("main", ByteSize(blocks * CHUNK), false) {
        Err(PoolError::ShrinkLosesData { lost, .. }) => lost.bytes() / CHUNK,
        other => panic!("{other:?}"),
    };
    assert_eq!((lost(300), lost(511)), (212, 1));
    // As long as a map of one page can be.
    pool.resize_volume("main", ByteSize(512 * CHUNK - 1), true).unwrap();
    pool.resize_volume("main", ByteSize(512 * CHUNK), false).unwrap();
    // Of the second leaf, one block.
    pool.resize_volume("main", ByteSize(1500 * CHUNK), false).unwrap();
    volume.write_at(600 * CHUNK, &[7; 4096], false).unwrap();
    assert_eq!((lost(300), lost(512), lost(600)), (213, 1, 1));
    pool.resize_volume("main", ByteSize(601 * CHUNK), false).unwrap();
    // What is past its end is none of it.
    volume.trim(600 * CHUNK, 4096, false).unwrap();
    leave(&volume, 610 * CHUNK, &[7; 4096]);
    pool.resize_volume("main", ByteSize(590 * CHUNK), false).unwrap();
}

#[test]
fn who_may_only_read_is_told_so_whatever_is_asked_for() {
    let (folder, pool) = new_pool();
    drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
    pool.close().unwrap();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let pool = Pool::open(&folder, &options).unwrap();
    for name in ["main", "none", "../x"] {
        let size = ByteSize(0);
        for done in [
            pool.create_volume(name, size).map(drop),
            pool.rename_volume(name, name),
            pool.resize_volume(name, size, false),
            pool.delete_volume(name),
        ] {
            assert!(matches!(done, Err(PoolError::ReadOnly)), "{name}: {done:?}");
        }
    }
    let volume = pool.volume("main").unwrap();
    let zeroed = volume.write_zeroes(0, 4096, ZeroOptions::default());
    assert!(matches!(zeroed, Err(BlockError::ReadOnly)));
    // Nothing at all, too.
    assert!(matches!(volume.write_at(0, &[], false), Err(BlockError::ReadOnly)));
}

/// As one that was on its way when the volume became shorter.
#[test]
fn nothing_is_written_past_the_end_that_a_volume_has_by_then() {
    let (_folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(3 * CHUNK + 100)).unwrap();
    let before = [5; 3 * 4096 + 100];
    volume.write_at(0, &before, false).unwrap();
    for (offset, len) in [(3 * CHUNK, 101), (3 * CHUNK, 4096), (4 * CHUNK, 4096), (0, 5 * 4096)] {
        let data = vec![9; len];
        let request = WriteRequest { offset, data: &data, fua: false };
        let refused = pool.inner.write(&volume.state, &[request]).unwrap_err();
        let refused = BlockError::from(refused);
        assert!(matches!(refused, BlockError::OutOfRange { .. }), "{refused}");
    }
    let mut found = vec![0; before.len()];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == before);
    volume.write_at(2 * CHUNK, &[9; 4196], false).unwrap();
}

#[test]
fn what_was_on_its_way_to_a_larger_volume_than_it_is_after_a_rollback_is_refused() {
    let (folder, pool) = new_pool();
    let volume = pool.create_volume("main", ByteSize(100 * CHUNK)).unwrap();
    volume.write_at(0, &[5; 4096], false).unwrap();
    pool.snapshot("main@one", 0, false).unwrap();
    pool.resize_volume("main", ByteSize(1000 * CHUNK), false).unwrap();
    volume.write_at(700 * CHUNK, &[6; 4096], false).unwrap();
    pool.rollback("main@one").unwrap();
    for block in [100, 188, 700] {
        let request = WriteRequest { offset: block * CHUNK, data: &[9; 4096], fua: false };
        let refused = pool.inner.write(&volume.state, &[request]).unwrap_err();
        assert!(matches!(refused, PoolError::PastEnd { .. }), "{refused}");
    }
    // The first block that a map of one page has no room for.
    let (mut entries, map) = (Vec::new(), &pool.inner.map);
    map.entries(volume.state.number, Lba::new(512), 1, &mut entries).unwrap();
    assert_eq!(entries, [MapEntry::Hole]);
    let mut found = vec![0; 100 * 4096];
    volume.read_at(0, &mut found).unwrap();
    let is_right = |(at, &byte): (usize, &u8)| byte == if at < 4096 { 5 } else { 0 };
    assert!(found.iter().enumerate().all(is_right));
    let number = volume.state.number;
    drop(volume);
    pool.delete_snapshot("main@one").unwrap();
    while !pool.give_up_deleted(u64::MAX).unwrap() {}
    pool.delete_volume("main").unwrap();
    while !pool.give_up_deleted(u64::MAX).unwrap() {}
    assert!(pool.inner.map.blocks_max(number).is_err(), "its map is gone, too");
    pool.close().unwrap();
    assert!(Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn a_name_has_255_bytes_at_most() {
    assert!(check_volume_name(&"a".repeat(255)).is_ok());
    assert!(check_volume_name(&"a".repeat(256)).is_err());
}

#[test]
fn both_checkpoint_files_have_room_for_each_snapshot_that_is_made() {
    let (_folder, pool) = new_pool();
    drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
    for number in 0..30 {
        pool.snapshot(&format!("main@{number}"), 0, false).unwrap();
        let volumes = pool.inner.all_volumes().len();
        assert_eq!(pool.inner.engine().space.supers_lack(volumes), 0, "{volumes}");
    }
}
