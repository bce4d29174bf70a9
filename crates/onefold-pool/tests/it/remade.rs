//! Making a pool again where a making failed: what is flushed to the second one stays, whatever the
//! first one left in doubt.

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, FaultKind, OpKind, SimFolder};
use onefold_pool::{Pool, PoolError, PoolIdentity};

use crate::support::{IDENTITY, assert_sound, content, options, small};

fn make(folder: &SimFolder, number: u8) -> Result<(), PoolError> {
    Pool::create(folder, &small(), PoolIdentity { uuid: [number; 16], ..IDENTITY })
}

/// Lets each request of a making fail in a folder, and has it made again: how many failed.
fn fail_each(prepare: impl Fn() -> SimFolder) -> u64 {
    let mut failures = 0;
    for kind in OpKind::COUNTED {
        'next: for nth in 1.. {
            // Either copy of the checkpoint is the newest once, and none.
            for checkpoints in 0..3 {
                let context = format!("{kind:?} {nth} fails, {checkpoints} checkpoints");
                let folder = prepare();
                folder.fail_once(&[kind], nth, FaultKind::Eio);
                if make(&folder, 1).is_ok() {
                    break 'next;
                }
                folder.clear_faults();
                match make(&folder, 2) {
                    // Its last step is all that failed.
                    Ok(()) | Err(PoolError::NotEmpty(_)) => {}
                    Err(error) => panic!("{context}: {error}"),
                }
                use_and_cut(&folder, checkpoints, &context);
            }
            failures += 1;
        }
    }
    failures
}

fn use_and_cut(folder: &SimFolder, checkpoints: u64, context: &str) {
    let opened = |folder: &SimFolder, context: &str| {
        Pool::open(folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"))
    };
    let pool = opened(folder, context);
    let volume = pool.create_volume("a", ByteSize(1 << 20)).unwrap();
    let data = content(checkpoints, 50_000);
    volume.write_at(4096, &data[..30_000], false).unwrap();
    for _ in 0..checkpoints {
        pool.checkpoint().unwrap();
    }
    volume.write_at(34_096, &data[30_000..], false).unwrap();
    volume.flush().unwrap();
    drop((volume, pool));
    for seed in 0..8 {
        let mode = if seed == 0 { CrashMode::KeepNothing } else { CrashMode::Random };
        let left = folder.after_crash(seed, mode);
        let context = format!("{context}, {mode:?} {seed}");
        let pool = opened(&left, &context);
        let mut found = vec![0; data.len()];
        pool.volume("a").unwrap().read_at(4096, &mut found).unwrap();
        assert!(found == data, "{context}");
        drop(pool);
        assert_sound(&left, &context);
    }
}

#[test]
fn a_pool_made_again_after_a_making_that_failed_keeps_what_is_flushed() {
    let failures = fail_each(SimFolder::new);
    assert!(failures > 15, "{failures}");
}

#[test]
fn and_so_does_one_whose_making_failed_twice() {
    let failures = fail_each(|| {
        let folder = SimFolder::new();
        folder.fail_once(&[OpKind::SyncNames], 1, FaultKind::Eio);
        make(&folder, 3).unwrap_err();
        folder
    });
    assert!(failures > 15, "{failures}");
}
