//! What snapshots alone hold, asked while others write, and make and delete snapshots.
//! Room: onefold-pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{BlockDevice, ByteSize, SimFolder};

use crate::pool::Pool;
use crate::{Budgets, OpenOptions, PoolIdentity, PoolSettings};

const CHUNK: u64 = 4096;
const LEAF: u64 = 512;
const LEAVES: u64 = 3;

/// What happens meanwhile.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Write,
    Snapshot,
    Delete,
    RollBack,
    DeleteClone,
}

const ALL: [Meanwhile; 5] = [
    Meanwhile::Write,
    Meanwhile::Snapshot,
    Meanwhile::Delete,
    Meanwhile::RollBack,
    Meanwhile::DeleteClone,
];

type Told = BTreeMap<String, Option<u64>>;

fn told(pool: &Pool) -> Told {
    pool.alone(None).unwrap().into_iter().collect()
}

fn write(pool: &Pool, name: &str, seed: u64, blocks: &[u64]) {
    let volume = pool.volume(name).unwrap();
    for block in blocks {
        let bytes = [(seed % 250) as u8 + 1; CHUNK as usize];
        let mut bytes = bytes.to_vec();
        bytes[..8].copy_from_slice(&(seed << 16 | block).to_le_bytes());
        volume.write_at(block * CHUNK, &bytes, false).unwrap();
    }
}

/// A pool that was just opened, so that pages of its maps must be read.
fn opened() -> Pool {
    let folder = PointFolder::new(Arc::new(SimFolder::new()));
    let identity = PoolIdentity { uuid: [3; 16], key: [5; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let options = OpenOptions { read_only: false, budgets };
    let pool = Pool::open(&folder, &options).unwrap();
    drop(pool.create_volume("main", ByteSize(LEAVES * LEAF * CHUNK)).unwrap());
    write(&pool, "main", 1, &(0..LEAVES * LEAF).step_by(5).collect::<Vec<_>>());
    for (seed, name) in ["main@a", "main@b", "main@c"].into_iter().enumerate() {
        pool.snapshot(name, 0, false).unwrap();
        write(&pool, "main", 10 + seed as u64, &[0, 5, 600, 1100]);
    }
    drop(pool.clone_snapshot("main@c", "copy", 0).unwrap());
    write(&pool, "copy", 20, &[600]);
    pool.close().unwrap();
    Pool::open(&folder, &options).unwrap()
}

fn happen(pool: &Pool, meanwhile: Meanwhile) {
    match meanwhile {
        Meanwhile::Write => write(pool, "main", 30, &[1105]),
        Meanwhile::Snapshot => pool.snapshot("main@new", 0, false).unwrap(),
        Meanwhile::Delete => {
            pool.delete_snapshot("main@b").unwrap();
            let goes = (0..100).any(|_| pool.give_up_deleted(u64::MAX).unwrap());
            assert!(goes, "what is deleted never goes");
        }
        Meanwhile::RollBack => pool.rollback("main@a").unwrap(),
        Meanwhile::DeleteClone => {
            pool.delete_volume("copy").unwrap();
            let goes = (0..100).any(|_| pool.give_up_deleted(u64::MAX).unwrap());
            assert!(goes, "what is deleted never goes");
        }
    }
}

#[test]
fn what_snapshots_alone_hold_is_told_between_before_and_after_whatever_happens_meanwhile() {
    for meanwhile in ALL {
        let pool = opened();
        let before = told(&pool);
        happen(&pool, meanwhile);
        let after = told(&pool);
        assert!(before.values().all(Option::is_some), "{before:?}");
        let (mut to_second, mut met) = (1, 0);
        loop {
            let pool = opened();
            let ask = || told(&pool);
            let ran = run(Switches { to_second, back: None }, ask, || happen(&pool, meanwhile));
            let context = format!("{meanwhile:?} at {:?}", ran.points.get(to_second - 1));
            for (name, bytes) in &ran.first {
                let (Some(bytes), Some(before)) = (bytes, before.get(name).copied().flatten())
                else {
                    // It goes, or is there for the first time.
                    let stays = before.contains_key(name) && after.contains_key(name);
                    assert!(!stays, "{context}: {name} is not told");
                    continue;
                };
                let after = after.get(name).copied().flatten().unwrap_or(before);
                let between = before.min(after)..=before.max(after);
                assert!(between.contains(bytes), "{context}: {name} {bytes} not in {between:?}");
            }
            assert_eq!(told(&pool), after, "{context}");
            if to_second > ran.points.len() {
                break;
            }
            (to_second, met) = (to_second + 1, met + 1);
        }
        assert!(met > 5, "{meanwhile:?}: {met} points");
    }
}
