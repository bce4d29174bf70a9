//! Tests: what stays of a checkpoint that could not be written.
//! Room: onefold-pool.

use std::sync::atomic::Ordering::Acquire;

use onefold_block::{
    BlockDevice as _, ByteSize, FaultKind, Folder as _, OpKind, SimFolder, SplitMix64,
};

use crate::format::SEQUENCE_MAX;
use crate::format::superblock::Superblock;
use crate::open::SUPER_FILES;
use crate::{Pool, PoolError, PoolSettings};

#[test]
fn what_is_dead_goes_with_the_checkpoint_after_one_that_found_no_space() {
    let folder = SimFolder::new();
    let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
    let pool = crate::empty_pool::new(&folder, &settings);
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    let bytes = SplitMix64::new(1).bytes(1 << 20);
    volume.write_at(0, &bytes, false).unwrap();
    pool.checkpoint().unwrap();
    let stored = || pool.inner.store.list().unwrap().len();
    let before = stored();
    volume.trim(0, 1 << 20, false).unwrap();
    volume.flush().unwrap();
    // How many containers are dead, and how many are about to go.
    let dead = || {
        let engine = pool.inner.engine();
        (engine.table.dead(), engine.leaving)
    };
    let (count, _) = dead();
    assert!(count >= 3, "{count}");
    folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
    assert!(pool.checkpoint().unwrap_err().is_no_space());
    assert_eq!((dead(), stored()), ((count, 0), before));
    pool.checkpoint().unwrap();
    assert_eq!((dead(), stored()), ((0, 0), before - count as usize));
}

#[test]
fn after_the_last_number_there_is_no_checkpoint_and_nothing_else_is_lost() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    let now = std::mem::replace(&mut pool.inner.flusher().sequence, SEQUENCE_MAX);
    let error = pool.checkpoint().unwrap_err().to_string();
    assert!(error.contains("281474976710655 checkpoints in its life"), "{error}");
    assert!(pool.create_volume("other", ByteSize(1 << 20)).is_err());
    pool.inner.flusher().sequence = now;
    volume.write_at(4096, &[8; 4096], false).unwrap();
    drop(volume);
    pool.close().unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(report.is_sound() && report.live == 2, "{report:?}");
}

#[test]
fn what_a_checkpoint_for_want_of_space_did_not_write_out_is_so_by_the_next_one() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    let inner = &pool.inner;
    let failed = inner.checkpoint_locked(&mut inner.flusher(), &mut |engine, _| {
        // A container is full once all before it was flushed, and the disk is, too.
        let open = engine.open.take().unwrap();
        engine.seal(&open);
        folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
        Ok(None)
    });
    assert!(failed.unwrap_err().is_no_space());
    assert_eq!(inner.engine().unsynced.len(), 1, "it is still to be written out");
    pool.checkpoint().unwrap();
    assert_eq!(inner.engine().unsynced.len(), 0);
    drop(volume);
    pool.close().unwrap();
    assert!(Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn a_snapshot_of_a_checkpoint_that_found_no_space_was_never_there() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    pool.snapshot("main@one", 0, false).unwrap();
    volume.write_at(4096, &[8; 4096], true).unwrap();
    let number = volume.state.number;
    let seen = || {
        let all = pool.inner.all_volumes();
        let parents = all.iter().map(|volume| (volume.number, volume.parent.load(Acquire)));
        (parents.collect::<Vec<_>>(), pool.inner.map.share(number).unwrap())
    };
    let before = seen();
    folder.fail_from(&[OpKind::Write], 1, FaultKind::Enospc);
    assert!(pool.snapshot("main@two", 0, false).unwrap_err().is_no_space());
    folder.clear_faults();
    assert_eq!(seen(), before);
    volume.write_at(8192, &[9; 4096], true).unwrap();
    pool.snapshot("main@two", 0, false).unwrap();
    pool.delete_snapshot("main@one").unwrap();
    drop(volume);
    pool.close().unwrap();
    assert!(Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn the_newest_checkpoint_is_written_over_itself_and_synced() {
    let (folder, mut seen) = (SimFolder::new(), 0);
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    for _ in 0..2 {
        pool.checkpoint().unwrap();
        let sequence = pool.inner.flusher().sequence;
        let name = SUPER_FILES[sequence as usize % 2];
        let newest = Superblock::read(&*folder.open(name).unwrap(), name).unwrap().unwrap();
        folder.ops_since(&mut seen);
        pool.inner.affirm_checkpoint(sequence).unwrap();
        let len = newest.len_bytes();
        let expected = format!("Write {name} bytes 0..{len}\nSync {name}");
        assert_eq!(folder.ops_since(&mut seen).trim_end(), expected);
        assert_eq!(newest.sequence, sequence);
    }
}

#[test]
fn a_pool_that_may_not_write_any_more_writes_no_checkpoint() {
    let (folder, mut seen) = (SimFolder::new(), 0);
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    let inner = &pool.inner;
    volume.write_at(0, &[7; 4096], false).unwrap();
    let before = inner.flusher().sequence;
    inner.poison.set("a test".to_owned()).unwrap();
    let refused = |done: Result<(), PoolError>| {
        assert!(matches!(done, Err(PoolError::Poisoned(_))), "{done:?}");
        assert_eq!(inner.flusher().sequence, before);
    };
    folder.ops_since(&mut seen);
    refused(pool.checkpoint());
    refused(inner.checkpoint_or_undo(&mut |_| Ok(()), || panic!("nothing was done")));
    assert_eq!(folder.ops_since(&mut seen), "", "nothing is flushed either");
    let done = inner.checkpoint_locked(&mut inner.flusher(), &mut |_, _| Ok(None));
    refused(done);
}

#[test]
fn a_checkpoint_of_which_a_part_may_count_stops_a_pool_and_no_other_does() {
    for (ahead, stops) in [(1, false), (0, true)] {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let newest = pool.inner.flusher().sequence;
        pool.inner.doubt_checkpoint(newest + ahead);
        assert_eq!(pool.inner.poison.get().is_some(), stops, "{ahead} ahead");
    }
}
