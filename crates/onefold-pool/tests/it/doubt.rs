//! What was pending when a sync failed may be lost whenever the power goes, though it can be read
//! until then and was synced again: who opens the pool after such a failure must not build on it.

use onefold_block::{CrashMode, FaultKind, OpKind, SplitMix64};
use onefold_pool::Pool;

use crate::model::{Model, main_volume, step};
use crate::support::{assert_sound, new_pool, options, small};

const BLOCKS: usize = 400;

/// Let sync `nth` fail, open the pool again, go on, and cut the power `cut` operations later.
/// Returns whether it came so far.
fn run(kind: OpKind, nth: u64, cut: u64) -> bool {
    let context = format!("{kind:?} {nth}, cut {cut}");
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, BLOCKS).unwrap();
    let mut model = Model::new(BLOCKS);
    let mut random = SplitMix64::new(nth);
    folder.fail_once(&[kind], nth, FaultKind::Eio);
    let failed = (0..200).any(|_| step(&pool, &volume, &mut model, &mut random).is_err());
    assert!(failed, "{context}: the workload has too few of them");
    drop((volume, pool));
    folder.crash_at(folder.op_count() + 1 + cut);
    let mut live = || -> Option<()> {
        let pool = Pool::open(&folder, &options()).ok()?;
        let volume = pool.volume("main").ok()?;
        model.hold(&volume, &context);
        for _ in 0..6 {
            step(&pool, &volume, &mut model, &mut random).ok()?;
        }
        Some(())
    };
    live();
    let came = folder.has_crashed();
    for (seed, mode) in
        [CrashMode::KeepNothing, CrashMode::Random, CrashMode::Random].into_iter().enumerate()
    {
        let left = folder.after_crash(nth << 8 | cut << 2 | seed as u64, mode);
        assert_sound(&left, &context);
        let pool = Pool::open(&left, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
        model.clone().adopt(&pool.volume("main").unwrap(), &context);
    }
    came
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_not_built_upon() {
    let places = (1..40).map(|nth| (OpKind::Sync, nth)).chain([(OpKind::SyncNames, 1)]);
    for (kind, nth) in places {
        // The first ones while it is opened again.
        let cuts = (0..44).step_by(4).take_while(|cut| run(kind, nth, nth % 4 + cut)).count();
        assert!(cuts > 1, "{kind:?} {nth}: the power never went");
    }
}
