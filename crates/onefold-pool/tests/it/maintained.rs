//! What upkeep does now and then, and what it leaves alone.

use std::sync::Arc;

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{BlockDevice as _, ByteSize, Folder as _, SimFolder};
use onefold_pool::{Pool, PoolError, RescuePoint, Surroundings};

use crate::support::{IDENTITY, content, new_pool, options, small};

const CHUNK: u64 = 4096;

fn containers(folder: &SimFolder) -> usize {
    folder.existing_subfolder("containers").unwrap().list().unwrap().len()
}

#[test]
fn a_few_dead_containers_go_once_nobody_writes() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(600 * CHUNK)).unwrap();
    for block in 0..200 {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
    pool.maintain().unwrap();
    volume.trim(0, 200 * CHUNK, false).unwrap();
    let (checkpoints, before) = (pool.activity().checkpoints, containers(&folder));
    pool.maintain().unwrap();
    assert_eq!(pool.activity().checkpoints, checkpoints, "somebody wrote since the last time");
    assert_eq!(containers(&folder), before);
    pool.maintain().unwrap();
    assert_eq!(pool.activity().checkpoints, checkpoints + 1);
    assert!(containers(&folder) < before);
    pool.maintain().unwrap();
    assert_eq!(pool.activity().checkpoints, checkpoints + 1, "nothing is dead");
}

#[test]
fn memory_that_others_left_goes_before_a_process_leaves_its_own() {
    let (folder, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    drop(memory.create("container.77", 8192).unwrap());
    let handover: Arc<dyn Handover> = Arc::new(memory.clone());
    let around = Surroundings { handover: Some(handover), ..Surroundings::default() };
    let pool = Pool::open_in(&folder, &options(), around).unwrap();
    assert!(!memory.list().unwrap().contains(&"container.77".to_owned()));
    pool.close().unwrap();
    assert!(memory.list().unwrap().is_empty());
}

#[test]
fn a_closed_pool_that_nobody_wrote_to_leaves_no_memory() {
    let (folder, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    for number in 0..2 {
        let handover: Arc<dyn Handover> = Arc::new(memory.clone());
        let around = Surroundings { handover: Some(handover), ..Surroundings::default() };
        let pool = Pool::open_in(&folder, &options(), around).unwrap();
        assert!(!memory.list().unwrap().is_empty());
        pool.close().unwrap();
        assert!(memory.list().unwrap().is_empty(), "time {number}");
    }
}

#[test]
fn the_cache_of_blocks_is_as_large_as_it_was_told_to_be() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(600 * CHUNK)).unwrap();
    for block in 0..200 {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
    pool.checkpoint().unwrap();
    let hits = || {
        let mut bytes = vec![0; 100 * CHUNK as usize];
        volume.read_at(0, &mut bytes).unwrap();
        let before = pool.activity().cache_hits;
        volume.read_at(0, &mut bytes).unwrap();
        pool.activity().cache_hits - before
    };
    assert!(hits() > 0);
    pool.set_cache_memory(0).unwrap();
    assert_eq!(hits(), 0);
    pool.set_cache_memory(32 << 20).unwrap();
    assert_eq!(hits(), 100);
}

#[test]
fn what_is_not_stored_has_no_container_made_for_it() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(600 * CHUNK)).unwrap();
    volume.write_at(0, &vec![0; 20 * CHUNK as usize], true).unwrap();
    volume.trim(0, 40 * CHUNK, false).unwrap();
    assert_eq!(containers(&folder), 0);
    volume.write_at(0, &[1; 1], false).unwrap();
    assert_eq!(containers(&folder), 1);
}

#[test]
fn a_clone_has_a_name_that_a_volume_may_have() {
    let (_folder, pool) = new_pool(&small());
    drop(pool.create_volume("main", ByteSize(20 * CHUNK)).unwrap());
    pool.snapshot("main@a", 1, false).unwrap();
    for wrong in ["", "a@b", "a/b", " a", "main"] {
        assert!(pool.clone_snapshot("main@a", wrong, 2).is_err(), "'{wrong}'");
    }
    assert_eq!(pool.volumes().len(), 1);
    drop(pool.clone_snapshot("main@a", "other", 2).unwrap());
}

#[test]
fn what_a_repair_has_not_ended_is_not_rescued() {
    let (folder, pool) = new_pool(&small());
    drop(pool.create_volume("main", ByteSize(20 * CHUNK)).unwrap());
    pool.close().unwrap();
    let rescue = |folder: &SimFolder, index_bytes| {
        let budgets = onefold_pool::Budgets { index_bytes, ..options().budgets };
        Pool::rescue(folder, budgets, RescuePoint::Newest).map(drop)
    };
    rescue(&folder, 1 << 20).unwrap();
    assert!(matches!(rescue(&folder, (1 << 20) - 1), Err(PoolError::Setting(_))));
    folder.create("repair").unwrap().write(0, b"onefold repair 1\n").unwrap();
    assert!(matches!(rescue(&folder, 1 << 20), Err(PoolError::RepairUnfinished)));
}

#[test]
fn a_note_that_is_replaced_gives_its_space_back() {
    let (folder, pool) = new_pool(&small());
    drop(pool.create_volume("main", ByteSize(600 * CHUNK)).unwrap());
    pool.set_note("main", &[1; 3000]).unwrap();
    pool.set_note("main", &[2; 3000]).unwrap();
    let mut seen = 0;
    folder.ops_since(&mut seen);
    for number in 0..20 {
        pool.set_note("main", &[number; 3000]).unwrap();
    }
    let ops = folder.ops_since(&mut seen);
    assert!(!ops.contains("Reserve super"), "{ops}");
}
