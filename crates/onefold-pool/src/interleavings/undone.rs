//! Changes of a volume that find no space, beside a checkpoint that finds some.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{BlockDevice, ByteSize, CrashMode, FaultKind, OpKind, SimFolder};

use crate::{OpenOptions, Pool, PoolError, PoolSettings};

const CHUNK: u64 = 4096;
const LAST: u64 = 19;

type Change = fn(&Pool) -> Result<(), PoolError>;

const CHANGES: [(&str, Change); 8] = [
    ("delete the volume", |pool| pool.delete_volume("main")),
    ("delete the snapshot", |pool| pool.delete_snapshot("other@one")),
    ("hold", |pool| pool.hold_snapshot("other@one", true)),
    ("rename", |pool| pool.rename_volume("main", "renamed")),
    ("note", |pool| pool.set_note("main", b"after")),
    ("shrink", |pool| pool.resize_volume("main", ByteSize(10 * CHUNK), true)),
    ("grow", |pool| pool.resize_volume("main", ByteSize(30 * CHUNK), true)),
    ("grow by much", |pool| pool.resize_volume("main", ByteSize(30_000 * CHUNK), true)),
];

/// All that is said of volumes and snapshots.
fn said(pool: &Pool) -> String {
    let volumes = pool.volumes().into_iter().map(|volume| {
        format!("{} {} {:?}", volume.name(), volume.size_bytes() / CHUNK, volume.note())
    });
    let snapshots = pool.snapshots(None).unwrap();
    let snapshots = snapshots.iter().map(|snapshot| format!("{} {}", snapshot.name, snapshot.held));
    volumes.chain(snapshots).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_failed_is_not_brought_by_a_power_cut_and_takes_nothing_that_was_flushed_since() {
    for (name, change) in CHANGES {
        let [mut failed, mut done] = [0; 2];
        for to_second in 1.. {
            let sim = SimFolder::new();
            let folder = PointFolder::new(Arc::new(sim.clone()));
            let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
            drop(pool.create_volume("other", ByteSize(CHUNK)).unwrap());
            pool.snapshot("other@one", 0, false).unwrap();
            let volume = pool.create_volume("main", ByteSize((LAST + 1) * CHUNK)).unwrap();
            pool.set_note("main", b"before").unwrap();
            let before = said(&pool);
            let second = || {
                pool.checkpoint().unwrap();
                sim.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
            };
            let ran = run(Switches { to_second, back: None }, || change(&pool), second);
            sim.clear_faults();
            let at = format!("{name} at {:?}", ran.points.get(to_second - 1));
            let after = said(&pool);
            let is_as_before = after == before;
            match &ran.first {
                Ok(()) => assert!(!is_as_before, "{at}"),
                // Its blocks are given up afterwards.
                Err(error) if error.to_string().contains("is deleted") => assert!(!is_as_before),
                Err(error) => assert!(is_as_before, "{at}: {error}: {after}"),
            }
            if is_as_before {
                failed += 1;
                volume.write_at(LAST * CHUNK, &[7; CHUNK as usize], false).unwrap();
                volume.flush().unwrap();
            } else {
                done += 1;
            }
            let left = sim.after_crash(1, CrashMode::KeepNothing);
            let again = Pool::open(&left, &OpenOptions::default()).unwrap();
            assert_eq!(said(&again), after, "{at}");
            if is_as_before {
                let mut found = [0; CHUNK as usize];
                again.volume("main").unwrap().read_at(LAST * CHUNK, &mut found).unwrap();
                assert_eq!(found, [7; CHUNK as usize], "{at}");
            }
            if to_second > ran.points.len() {
                break;
            }
        }
        assert!(failed > 0 && done > 0, "{name}: {failed} failed, {done} done");
    }
}
