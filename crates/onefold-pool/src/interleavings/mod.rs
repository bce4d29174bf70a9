//! Two operations on one pool, interleaved at every media operation and every lock, in turn.
//! Room: onefold-pool.
//!
//! Whatever the interleaving: both answer; the volume then holds what one order of the two gives,
//! block by block; a read sees the block as it was before, or after; directories in memory belong
//! to containers that exist; and after a flush and a power cut that keeps nothing else the volume
//! holds the same, and the pool is sound.
//!
//! `ONEFOLD_INTERLEAVINGS=all` also lets the first go on at every point of the second.

mod alone;
mod checking;
mod checkpoint;
mod index_filling;
mod media;
mod operations;
mod punching;
mod resizing;
mod space;
mod storm;
mod undone;

use onefold_block::interleave::{Switches, run};
use onefold_block::{BlockDevice, CrashMode};

use crate::Pool;
use operations::{Operation, Stage, after};

/// Run a pair with one change-over; returns how many points the two had.
fn pair(operations: [Operation; 2], cold: bool, switches: Switches) -> [usize; 2] {
    let stage = Stage::new(cold);
    let ran = run(switches, || stage.perform(operations[0], 0), || stage.perform(operations[1], 1));
    let at = switches.to_second.checked_sub(1).and_then(|at| ran.points.get(at));
    let context = format!("{operations:?}, cold {cold}, {switches:?} ({at:?})");
    let results = [&ran.first, &ran.second];
    for (operation, result) in operations.iter().zip(results) {
        if let Err(error) = result {
            panic!("{context}: {operation:?}: {error}");
        }
    }
    let [a, b] = operations;
    let serial = [after(&after(&stage.state, a, 0), b, 1), after(&after(&stage.state, b, 1), a, 0)];
    let found = Stage::read_all(&stage.volume);
    for (number, found) in found.iter().enumerate() {
        let fine = serial.iter().any(|state| state[number].bytes() == *found);
        assert!(fine, "{context}: block {number} holds what no order of the two gives");
    }
    for (role, result) in results.into_iter().enumerate() {
        let Ok(Some(read)) = result else { continue };
        let states = [&stage.state, &after(&stage.state, operations[1 - role], 1 - role)];
        let fine = states.iter().any(|state| state[3].bytes() == *read);
        assert!(fine, "{context}: the read saw neither before nor after");
    }
    for id in stage.pool.inner.directories.held() {
        let known = stage.pool.inner.engine().table.get(id).is_some();
        assert!(known, "{context}: the directory of {id} outlived it");
    }
    stage.volume.flush().unwrap_or_else(|error| panic!("{context}: flush: {error}"));
    let after_cut = stage.sim.after_crash(1, CrashMode::KeepNothing);
    let (pool, volume) = Stage::reopened(&after_cut);
    assert!(Stage::read_all(&volume) == found, "{context}: a flushed block differs");
    drop((pool, volume));
    let report = Pool::check_in(&after_cut, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{context}: {:?}", report.findings);
    if operations.contains(&Operation::ResizeIndex) {
        stage.assert_knows_all(&context);
    }
    [ran.points.len(), ran.second_points]
}

/// Every change-over of a pair.
fn all_of(operations: [Operation; 2], cold: bool) -> usize {
    #[expect(clippy::disallowed_methods, reason = "the dose of a test")]
    let thorough = std::env::var("ONEFOLD_INTERLEAVINGS").is_ok_and(|dose| dose == "all");
    let (mut runs, mut to_second) = (0, 1);
    loop {
        let [points, second] = pair(operations, cold, Switches { to_second, back: None });
        runs += 1;
        for back in 1..=(if thorough { second } else { 0 }) {
            pair(operations, cold, Switches { to_second, back: Some(back) });
            runs += 1;
        }
        if to_second > points {
            return runs;
        }
        to_second += 1;
    }
}

fn everything_beside(operations: &[Operation]) {
    let mut runs = 0;
    for &first in operations {
        for second in Operation::ALL {
            runs += all_of([first, second], false);
        }
    }
    println!("{runs} interleavings of {operations:?}");
}

#[test]
fn writes_beside_everything() {
    everything_beside(&[Operation::WriteDuplicate, Operation::WriteUnique]);
}

#[test]
fn pieces_and_reads_beside_everything() {
    everything_beside(&[Operation::WritePiece, Operation::Read]);
}

#[test]
fn trims_and_flushes_beside_everything() {
    everything_beside(&[Operation::Trim, Operation::TrimAll, Operation::Flush]);
}

#[test]
fn checkpoints_beside_everything() {
    everything_beside(&[Operation::Maintain, Operation::Checkpoint]);
}

#[test]
fn a_deletion_beside_everything() {
    everything_beside(&[Operation::DeleteVolume, Operation::WriteToDeleted]);
}

#[test]
fn another_memory_of_the_index_beside_everything() {
    everything_beside(&[Operation::ResizeIndex]);
}

#[test]
fn a_duplicate_whose_directory_must_be_read_beside_checkpoints() {
    for second in [Operation::Maintain, Operation::Checkpoint, Operation::DeleteVolume] {
        all_of([Operation::WriteDuplicate, second], true);
    }
}
