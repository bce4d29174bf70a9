//! The power goes at every operation, and what was flushed is there.
//!
//! A failure prints the seed, the operation and the way the cut fell: `run` with these repeats it.

use onefold_block::{CrashMode, SimFolder, SplitMix64};
use onefold_pool::Pool;

use crate::model::{Model, main_volume, step_of};
use crate::support::{IDENTITY, assert_sound, options, small};

/// What is done until the power goes.
#[derive(Debug)]
struct Load {
    blocks: usize,
    /// Different contents of whole chunks.
    contents: u64,
    steps: usize,
}

/// Three map leaves and the page above them, and much that is stored once.
const DUPLICATES: Load = Load { blocks: 1100, contents: 40, steps: 150 };

/// Nearly all that is written is new, and overwritten soon: containers fill, and are emptied.
const CHURN: Load = Load { blocks: 600, contents: 3000, steps: 250 };

/// Run a seeded workload until the power goes at media operation `cut`; true if it went.
fn run(load: &Load, seed: u64, cut: u64, mode: CrashMode) -> bool {
    let context = format!("seed {seed}, cut at {cut}, {mode:?}, {load:?}");
    let mut folder = SimFolder::new();
    folder.crash_at(cut);
    let mut model = Model::new(load.blocks);
    let mut random = SplitMix64::new(seed);
    let reached = drive(load, &folder, &mut model, &mut random);
    if reached == Reached::End {
        return false;
    }
    // Twice: recovery itself loses power too.
    for again in 0..2u64 {
        folder = folder.after_crash(seed ^ cut << 8 ^ again, mode);
        if again == 0 {
            folder.crash_at(folder.op_count() + cut % 23);
            let _ = Pool::open(&folder, &options());
        }
    }
    if reached == Reached::Nothing {
        return true;
    }
    let report =
        Pool::check_in(&folder, &mut |_, _| {}).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert!(report.is_sound(), "{context}: before recovery: {:#?}", report.findings);
    let pool = Pool::open(&folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
    if let Ok(volume) = pool.volume("main") {
        model.adopt(&volume, &context);
        // Life goes on.
        for _ in 0..10 {
            step_of(load.contents, &pool, &volume, &mut model, &mut random)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        model.assert_current(&volume, &context);
        drop(volume);
    } else {
        assert_eq!(reached, Reached::Pool, "{context}: the volume is gone");
    }
    pool.close().unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_sound(&folder, &context);
    true
}

/// What had been acknowledged when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Nothing,
    Pool,
    Volume,
    End,
}

fn drive(load: &Load, folder: &SimFolder, model: &mut Model, random: &mut SplitMix64) -> Reached {
    if Pool::create(folder, &small(), IDENTITY).is_err() {
        return Reached::Nothing;
    }
    let Ok(pool) = Pool::open(folder, &options()) else { return Reached::Pool };
    let Ok(volume) = main_volume(&pool, load.blocks) else { return Reached::Pool };
    for _ in 0..load.steps {
        if step_of(load.contents, &pool, &volume, model, random).is_err() {
            return Reached::Volume;
        }
    }
    drop(volume);
    match pool.close() {
        Ok(()) => Reached::End,
        Err(_) => Reached::Volume,
    }
}

/// Seeded workloads, the power cut at each of their operations in turn.
fn cut_everywhere(seeds: std::ops::Range<u64>, mode: CrashMode) {
    for seed in seeds {
        let mut cut = 0;
        while run(&DUPLICATES, seed, cut, mode) {
            cut += 1;
        }
        assert!(cut > 100, "the workload has only {cut} operations");
    }
}

#[test]
fn torn_power_cuts_at_every_operation_lose_nothing_that_was_flushed() {
    cut_everywhere(0..many_or(5, 2), CrashMode::Random);
}

#[test]
fn power_cuts_that_keep_nothing_unsynced_lose_nothing_that_was_flushed() {
    cut_everywhere(5..many_or(8, 6), CrashMode::KeepNothing);
}

#[test]
fn power_cuts_that_keep_everything_lose_nothing_that_was_flushed() {
    cut_everywhere(8..many_or(11, 9), CrashMode::KeepEverything);
}

#[test]
fn power_cuts_in_long_runs_lose_nothing_that_was_flushed() {
    let mut random = SplitMix64::new(0x00C0_FFEE);
    for seed in 100..many_or(140, 120) {
        for _ in 0..5 {
            run(&Load { steps: 300, ..DUPLICATES }, seed, random.below(1500), CrashMode::Random);
        }
    }
}

/// The number of cuts that was asked for, if one was.
fn asked() -> Option<u64> {
    std::env::var("ONEFOLD_CRASH_CUTS").ok().and_then(|cuts| cuts.parse().ok())
}

/// How many cuts of each kind.
fn dose() -> u64 {
    asked().unwrap_or(150)
}

/// `many` where a number of cuts was asked for, as in long runs; else `few`.
pub(super) fn many_or(many: u64, few: u64) -> u64 {
    asked().map_or(few, |_| many)
}

#[test]
fn power_cuts_while_space_is_won_back_lose_nothing_that_was_flushed() {
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let mut random = SplitMix64::new(0x5ACE);
    let mut cuts = 0;
    for number in 0.. {
        // Twelve cuts of each seed, spread over its operations.
        let seed = 1000 + number / 12;
        let cut = random.below(1600);
        cuts += u64::from(run(&CHURN, seed, cut, modes[number as usize % 3]));
        if cuts >= dose() {
            break;
        }
        assert!(number < 4 * dose() + 100, "only {cuts} of {number} runs reached their cut");
    }
}
