//! A check of a pool that is used, while a writer makes the container that comes next.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{BlockDevice, ByteSize, SimFolder, SplitMix64};
use onefold_content::Compression;

use crate::pool::Pool;
use crate::{Budgets, OpenOptions, PoolIdentity, PoolSettings};

const CHUNK: usize = 4096;
/// A container has room for little more.
const CHUNKS: usize = 64;
/// Chunks that are there before; the write beside the check leaves little room behind them.
const BEFORE: usize = 50;
const BESIDE: usize = 7;

fn pool() -> Pool {
    let folder = PointFolder::new(Arc::new(SimFolder::new()));
    let settings = PoolSettings {
        compression: Compression::None,
        container_bytes: (CHUNKS * CHUNK) as u32,
        ..PoolSettings::default()
    };
    Pool::create(&folder, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
    drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
    pool
}

#[test]
fn a_container_that_is_being_made_is_no_stray() {
    let bytes = SplitMix64::new(1).bytes((BEFORE + BESIDE) * CHUNK);
    let (before, beside) = bytes.split_at(BEFORE * CHUNK);
    for to_second in 1.. {
        let pool = pool();
        let volume = pool.volume("main").unwrap();
        volume.write_at(0, before, true).unwrap();
        let ready = pool.inner.engine().ready.clone();
        // The writer stops at each of its points, one of which lies between a file that is made
        // and its container's entry in the table. All is checked then.
        let write = || volume.write_at(before.len() as u64, beside, false);
        let check = || pool.check_beside(&mut |_, _| true).unwrap().unwrap();
        let ran = run(Switches { to_second, back: None }, write, check);
        ran.first.unwrap();
        let said = (ran.second.findings, ran.second.notes);
        assert_eq!(said, (Vec::new(), Vec::new()), "write at {:?}", ran.points.get(to_second - 1));
        if to_second > ran.points.len() {
            assert!(ran.points.iter().any(|point| point == "made ahead"), "no container was made");
            assert_ne!(pool.inner.engine().ready, ready, "no container was made ahead");
            return;
        }
    }
}
