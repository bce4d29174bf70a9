//! What is written while a volume becomes what a snapshot is: after the checkpoint that holds what
//! it was, and before the one that holds what it is to be.

use std::sync::{Arc, Mutex};

use onefold_block::{
    BlockDevice, ByteSize, ContainerId, ContainerStore, CrashMode, SimFolder, StoreError,
    StoreLayer,
};
use onefold_pool::{Pool, PoolError, Surroundings, WrapStore};

use crate::snapshots::idle;
use crate::support::{IDENTITY, assert_sound, content, options, small};

const CHUNK: u64 = 4096;

type Act = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A store that does something once, when it is told of references: a checkpoint is durable then,
/// and the next one cannot begin. Something else it does when records are made durable: a flush is
/// under way then, and what it is for was taken.
struct Meanwhile {
    inner: Arc<dyn ContainerStore>,
    act: Act,
    flushed: Act,
}

impl StoreLayer for Meanwhile {
    fn below(&self) -> &dyn ContainerStore {
        &*self.inner
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        let act = self.flushed.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
        self.inner.sync(id)
    }

    fn tell_references(&self, _totals: &[(ContainerId, u32)]) {
        let act = self.act.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

fn write(pool: &Pool, name: &str, blocks: std::ops::Range<u64>, seed: u64) {
    let volume = pool.volume(name).unwrap();
    for block in blocks {
        volume.write_at(block * CHUNK, &content(seed + block, 4096), false).unwrap();
    }
}

/// Whether each block of a volume holds what was written with this seed.
fn holds(pool: &Pool, name: &str, blocks: std::ops::Range<u64>, seed: u64) -> bool {
    let volume = pool.volume(name).unwrap();
    blocks.into_iter().all(|block| {
        let mut found = vec![0; CHUNK as usize];
        volume.read_at(block * CHUNK, &mut found).unwrap();
        found == content(seed + block, 4096)
    })
}

/// A pool with a volume, its snapshot, and one that was received into a clone of that.
fn prepared() -> (SimFolder, Pool, Act) {
    let (folder, pool, act, _) = prepared_for_both();
    (folder, pool, act)
}

fn prepared_for_both() -> (SimFolder, Pool, Act, Act) {
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let (act, flushed) = (Act::default(), Act::default());
    let (told, written) = (Arc::clone(&act), Arc::clone(&flushed));
    let wrap: Box<WrapStore<'_>> =
        Box::new(move |inner, _, _| Arc::new(Meanwhile { inner, act: told, flushed: written }));
    let around = Surroundings { wrap: Some(wrap), ..Surroundings::default() };
    let pool = Pool::open_in(&folder, &options(), around).unwrap();
    drop(pool.create_volume("main", ByteSize(700 * CHUNK)).unwrap());
    write(&pool, "main", 0..20, 100);
    write(&pool, "main", 600..610, 100);
    pool.snapshot("main@a", 1, false).unwrap();
    drop(pool.clone_snapshot("main@a", "part", 2).unwrap());
    write(&pool, "part", 0..5, 7000);
    pool.snapshot("part@b", 3, false).unwrap();
    (folder, pool, act, flushed)
}

/// Overwrite some blocks of the volume at the next checkpoint, in a leaf that it shares.
fn overwrite_meanwhile(pool: &Pool, act: &Act) {
    let volume = pool.volume("main").unwrap();
    *act.lock().unwrap() = Some(Box::new(move || {
        for block in 0..10 {
            volume.write_at(block * CHUNK, &content(9000 + block, 4096), false).unwrap();
        }
    }));
}

#[test]
fn what_is_written_while_a_volume_is_rolled_back_is_given_up_and_counted() {
    let (folder, pool, act) = prepared();
    write(&pool, "main", 3..8, 500);
    overwrite_meanwhile(&pool, &act);
    pool.rollback("main@a").unwrap();
    assert!(act.lock().unwrap().is_none(), "it was written");
    assert!(holds(&pool, "main", 0..20, 100) && holds(&pool, "main", 600..610, 100));
    // As after a power cut, and all that was given up comes back.
    let left = folder.after_crash(1, CrashMode::KeepEverything);
    let again = Pool::open(&left, &options()).unwrap();
    assert!(holds(&again, "main", 0..20, 100) && holds(&again, "main", 600..610, 100));
    again.close().unwrap();
    assert_sound(&left, "after a power cut");
    idle(&pool);
    assert_eq!(pool.status().unwrap().chunks, 50, "of main 30, of the clone's own leaf 20");
    pool.close().unwrap();
    assert_sound(&folder, "after a stop");
}

#[test]
fn what_is_written_while_a_snapshot_is_adopted_is_kept_and_the_snapshot_is_refused() {
    let (folder, pool, act) = prepared();
    overwrite_meanwhile(&pool, &act);
    let refused = pool.adopt("part@b", "main", "main@a").unwrap_err();
    assert!(matches!(refused, PoolError::ChangedSince { .. }), "{refused}");
    assert!(act.lock().unwrap().is_none(), "it was written");
    assert_eq!(pool.status().unwrap().failure, None);
    pool.flush().unwrap();
    let left = folder.after_crash(1, CrashMode::KeepNothing);
    let again = Pool::open(&left, &options()).unwrap();
    for pool in [&pool, &again] {
        assert!(holds(pool, "main", 0..10, 9000) && holds(pool, "main", 10..20, 100));
        assert!(holds(pool, "part@b", 0..5, 7000) && holds(pool, "main@a", 0..20, 100));
        let names = pool.snapshots(None).unwrap().into_iter().map(|snapshot| snapshot.name);
        assert_eq!(names.collect::<Vec<_>>(), ["main@a", "part@b"]);
    }
    again.close().unwrap();
    assert_sound(&left, "after a power cut");
    idle(&pool);
    pool.close().unwrap();
    assert_sound(&folder, "after a stop");
}

#[test]
fn what_is_written_before_a_snapshot_is_adopted_is_kept_and_the_snapshot_is_refused() {
    let (folder, pool, _, flushed) = prepared_for_both();
    drop(pool.create_volume("other", ByteSize(10 * CHUNK)).unwrap());
    write(&pool, "other", 0..2, 300);
    // After the volume was found to be as its snapshot, and before it becomes the other one.
    overwrite_meanwhile(&pool, &flushed);
    let refused = pool.adopt("part@b", "main", "main@a").unwrap_err();
    assert!(matches!(refused, PoolError::ChangedSince { .. }), "{refused}");
    assert!(flushed.lock().unwrap().is_none(), "it was written");
    assert!(holds(&pool, "main", 0..10, 9000) && holds(&pool, "main", 10..20, 100));
    idle(&pool);
    assert!(holds(&pool, "part@b", 0..5, 7000) && holds(&pool, "main@a", 0..20, 100));
    pool.close().unwrap();
    assert_sound(&folder, "after a stop");
}

#[test]
fn a_snapshot_is_what_its_volume_was_whatever_is_written_right_after_it() {
    let (folder, pool, act) = prepared();
    overwrite_meanwhile(&pool, &act);
    pool.snapshot("main@c", 4, false).unwrap();
    assert!(holds(&pool, "main@c", 0..20, 100) && holds(&pool, "main", 0..10, 9000));
    pool.delete_snapshot("main@a").unwrap_err();
    pool.delete_snapshot("main@c").unwrap();
    idle(&pool);
    assert!(holds(&pool, "main@a", 0..20, 100) && holds(&pool, "main", 0..10, 9000));
    pool.close().unwrap();
    assert_sound(&folder, "after a stop");
}
