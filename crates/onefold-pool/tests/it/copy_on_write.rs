//! File systems on which even what is written over needs space: any write may be refused.

use onefold_block::{BlockDevice, CrashMode, FaultKind, OpKind, SimFolder, SplitMix64};
use onefold_pool::Pool;

use crate::crash::many_or;
use crate::model::{CHUNK, Model, main_volume, step};
use crate::support::{assert_sound, content, new_pool, options, small};

const BLOCKS: usize = 400;

/// Run steps until the one whose write is refused, and some more, as far as the pool lets them.
/// Returns whether a write was refused.
fn live(folder: &SimFolder, pool: Pool, model: &mut Model, (seed, nth): (u64, u64)) -> bool {
    let context = format!("seed {seed}, write {nth}");
    let mut random = SplitMix64::new(seed);
    let mut volume = main_volume(&pool, BLOCKS).unwrap();
    let mut pool = pool;
    folder.fail_once(&[OpKind::Write], nth, FaultKind::Enospc);
    let (mut refused, mut left) = (false, 200);
    while left > 0 {
        left -= 1;
        match step(&pool, &volume, model, &mut random) {
            Ok(()) => continue,
            Err(error) if error.contains("no space") => {}
            Err(error) if refused && error.contains("earlier failure") => {
                // Whoever opens it again finds what was flushed, and what came after it or not.
                drop((volume, pool));
                pool = Pool::open(folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
                volume = pool.volume("main").unwrap();
            }
            Err(error) => panic!("{context}: {error}"),
        }
        model.hold(&volume, &context);
        if !refused {
            left = random.below(12);
        }
        refused = true;
    }
    refused
}

#[test]
fn whichever_write_finds_no_space_what_was_flushed_survives_a_power_cut_after_it() {
    let modes = [CrashMode::KeepNothing, CrashMode::Random, CrashMode::KeepEverything];
    let mut refused = 0;
    for nth in (1..240).step_by(many_or(1, 2) as usize) {
        let seed = nth % 7;
        let (folder, pool) = new_pool(&small());
        let mut model = Model::new(BLOCKS);
        // Not all: a witness that has no space waits for the next one.
        refused += u32::from(live(&folder, pool, &mut model, (seed, nth)));
        let context = format!("seed {seed}, write {nth}, then a power cut");
        let left = folder.after_crash(nth, modes[nth as usize % 3]);
        assert_sound(&left, &context);
        let pool = Pool::open(&left, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
        model.adopt(&pool.volume("main").unwrap(), &context);
        pool.close().unwrap();
        assert_sound(&left, &context);
    }
    assert!(refused > 60, "{refused} writes were refused");
}

#[test]
fn a_checkpoint_that_is_durable_counts_though_the_journal_after_it_finds_no_space() {
    let data: Vec<u8> = (0..BLOCKS as u64).map(|n| content(n, CHUNK)).collect::<Vec<_>>().concat();
    for nth in 1.. {
        let context = format!("write {nth} of a checkpoint");
        let (folder, pool) = new_pool(&small());
        let volume = main_volume(&pool, BLOCKS).unwrap();
        volume.write_at(0, &data, true).unwrap();
        pool.checkpoint().unwrap();
        // Containers that go with the next checkpoint.
        volume.trim(0, data.len() as u64, true).unwrap();
        folder.fail_once(&[OpKind::Write], nth, FaultKind::Enospc);
        let refused = pool.checkpoint().is_err();
        folder.clear_faults();
        // What is in them again, if the pool still takes it.
        let again = volume.write_at(0, &data, true).is_ok();
        let cut = folder.after_crash(nth, CrashMode::KeepNothing);
        assert_sound(&cut, &context);
        let pool = Pool::open(&cut, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
        let mut found = vec![0; data.len()];
        pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
        assert!(
            if again { found == data } else { found.iter().all(|byte| *byte == 0) },
            "{context}"
        );
        if !refused {
            assert!(nth > 4 && again, "{context}: all writes were refused in turn");
            break;
        }
    }
}
