//! Containers that go while the index is told of what was in them.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{BlockDevice, CrashMode};

use super::operations::{CHUNK, Stage, chunk};
use crate::Pool;

/// A chunk whose only container goes.
const GONE: u64 = 4;

#[test]
fn what_goes_while_the_index_is_filled_is_stored_anew() {
    let mut to_second = 1;
    loop {
        let Stage { sim, pool, volume, second, .. } = Stage::new(false);
        drop((volume, second));
        pool.close().unwrap();
        let folder = PointFolder::new(Arc::new(sim.clone()));
        let (pool, volume) = Stage::reopened_in(&folder);
        let second = pool.volume("second").unwrap();
        pool.fill_index_beside();
        let fill = || while !pool.fill_index(1) {};
        let give_up_and_write = || {
            volume.trim(0, volume.size_bytes(), false).unwrap();
            second.trim(0, second.size_bytes(), false).unwrap();
            pool.checkpoint().unwrap();
            volume.write_at(0, &chunk(GONE), true).unwrap();
        };
        let ran = run(Switches { to_second, back: None }, fill, give_up_and_write);
        let context = format!("at point {to_second} of {}", ran.points.len());
        volume.write_at(CHUNK as u64, &chunk(GONE), true).unwrap();
        let mut found = vec![0; 2 * CHUNK];
        volume.read_at(0, &mut found).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(found == [chunk(GONE), chunk(GONE)].concat(), "{context}");
        drop((volume, second, pool));
        let after_cut = sim.after_crash(1, CrashMode::KeepNothing);
        let (pool, volume) = Stage::reopened(&after_cut);
        volume.read_at(0, &mut found).unwrap_or_else(|error| panic!("{context}: cut: {error}"));
        assert!(found == [chunk(GONE), chunk(GONE)].concat(), "{context}: after a power cut");
        drop((pool, volume));
        let report = Pool::check_in(&after_cut, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{context}: {:?}", report.findings);
        if to_second > ran.points.len() {
            let read = |point: &String| point.starts_with("after read");
            assert!(ran.points.iter().any(read), "{:?}", ran.points);
            return;
        }
        to_second += 1;
    }
}
