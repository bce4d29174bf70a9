//! A disk that fills up, or fails for want of space, at every point of an operation.
//! Room: onefold-pool.

use onefold_block::interleave::{Switches, run};
use onefold_block::{BlockDevice, BlockError, ByteSize, CrashMode, FaultKind, OpKind};

use super::operations::{CHUNK, Stage, chunk};
use crate::Pool;

#[test]
fn what_a_flush_could_not_write_for_want_of_space_is_in_the_next() {
    for nth in 1..12 {
        let context = format!("the disk is full from write {nth} on");
        let stage = Stage::new(false);
        stage.sim.fail_from(&[OpKind::Write], nth, FaultKind::Enospc);
        // These fill the open container, which a writer brings to the disk, or fails to.
        let mut held = Vec::new();
        for n in 0..4 {
            let block = 5 + n;
            let data = chunk(500 + n);
            match stage.volume.write_at(block * CHUNK as u64, &data, false) {
                Ok(()) => held.push((block, data)),
                Err(BlockError::NoSpace(_)) => {}
                Err(error) => panic!("{context}: {error}"),
            }
        }
        let first = stage.volume.flush();
        assert!(matches!(first, Ok(()) | Err(BlockError::NoSpace(_))), "{context}: {first:?}");
        stage.sim.clear_faults();
        stage.volume.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
        let after_cut = stage.sim.after_crash(1, CrashMode::KeepNothing);
        let (pool, volume) = Stage::reopened(&after_cut);
        let mut found = vec![0; CHUNK];
        for (block, data) in held {
            volume.read_at(block * CHUNK as u64, &mut found).unwrap_or_else(|error| {
                panic!("{context}: block {block}: {error}");
            });
            assert!(found == data, "{context}: block {block} was flushed and is gone");
        }
        drop((pool, volume));
        let report = Pool::check_in(&after_cut, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{context}: {:?}", report.findings);
    }
}

/// Blocks under one map leaf.
const LEAF: u64 = 512;
/// More leaves than the map sets space aside for in one step.
const LEAVES: u64 = 300;

#[test]
fn on_a_full_disk_trims_make_room_and_no_flush_or_checkpoint_lacks_it() {
    let stage = Stage::new(false);
    let size = ByteSize(LEAVES * LEAF * CHUNK as u64);
    let wide = stage.pool.create_volume("wide", size).unwrap();
    let at = |leaf: u64| leaf * LEAF * CHUNK as u64;
    for leaf in 0..LEAVES {
        wide.write_at(at(leaf), &chunk(4), false).unwrap();
    }
    let Stage { sim, pool, volume, second, .. } = stage;
    drop((wide, volume, second));
    pool.close().unwrap();
    let (pool, volume) = Stage::reopened(&sim);
    let wide = pool.volume("wide").unwrap();
    sim.set_capacity(Some(sim.used_bytes() + (16 << 10)));
    for leaf in 0..LEAVES {
        wide.trim(at(leaf), CHUNK as u64, false).expect("a checkpoint makes room for each");
    }
    wide.flush().expect("what was accepted can be made durable");
    pool.checkpoint().expect("there is space for the map pages that trims changed");
    let checkpoints = pool.status().unwrap().activity.checkpoints;
    assert!(checkpoints > 5, "the disk never ran full: {checkpoints} checkpoints");
    drop((wide, volume));
    pool.close().unwrap();
}

#[test]
fn a_disk_that_fills_up_at_any_point_of_a_trim_flushes_what_was_accepted() {
    let mut to_second = 1;
    loop {
        let stage = Stage::new(false);
        let fill = || stage.sim.set_capacity(Some(stage.sim.used_bytes()));
        let trim = || stage.volume.trim(3 * CHUNK as u64, CHUNK as u64, false);
        let ran = run(Switches { to_second, back: None }, trim, fill);
        let context = format!("full at point {to_second}");
        assert!(matches!(ran.first, Ok(()) | Err(BlockError::NoSpace(_))), "{context}");
        stage.volume.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
        stage.pool.checkpoint().unwrap_or_else(|error| panic!("{context}: {error}"));
        if to_second > ran.points.len() {
            return;
        }
        to_second += 1;
    }
}
