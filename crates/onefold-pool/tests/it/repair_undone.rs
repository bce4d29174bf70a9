//! A repair of which one request to the disk fails, then the same again, then the power goes: what
//! is repaired and what is flushed after it stays.

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, FaultKind, OpKind, SimFolder};
use onefold_pool::Pool;

use crate::repair::{damaged, repair};
use crate::support::{assert_sound, content, options};

fn is_thorough() -> bool {
    std::env::var("ONEFOLD_UNDONE").is_ok_and(|dose| dose == "all")
}

fn copy(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

fn cuts(seeds: u64) -> impl Iterator<Item = (u64, CrashMode)> {
    let modes = (1..=seeds).map(|seed| (seed, CrashMode::Random));
    [(0, CrashMode::KeepNothing)].into_iter().chain(modes)
}

/// What all volumes hold; blocks that are lost read as zeroes.
fn held(folder: &SimFolder, context: &str) -> Vec<(String, Vec<u64>)> {
    let pool = Pool::open(folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
    let volumes = pool.volumes();
    let of = |volume: &onefold_pool::Volume| {
        let mut block = [0; 4096];
        let blocks = volume.size_bytes() / 4096;
        let mut word = |number: u64| match volume.read_at(number * 4096, &mut block) {
            Ok(()) => u64::from_le_bytes(block[..8].try_into().unwrap()),
            Err(_) => 1,
        };
        (volume.name(), (0..blocks).map(&mut word).collect())
    };
    volumes.iter().map(of).collect()
}

#[test]
fn what_a_repair_that_failed_once_and_was_repeated_comes_to_stays() {
    let (pristine, _) = damaged();
    let whole = copy(&pristine);
    repair(&whole).unwrap();
    let expected = held(&whole, "repaired");
    let mut failures = 0;
    for kind in OpKind::COUNTED {
        for nth in 1.. {
            let context = format!("{kind:?} {nth} fails");
            let folder = copy(&pristine);
            folder.fail_once(&[kind], nth, FaultKind::Eio);
            if repair(&folder).is_ok() {
                break;
            }
            folder.clear_faults();
            failures += 1;
            if !is_thorough() && kind != OpKind::SyncNames && nth % 5 > 0 {
                continue;
            }
            // Cut at once, and repaired.
            for (seed, mode) in cuts(2).skip(if is_thorough() { 0 } else { nth as usize % 3 }) {
                let context = format!("{context}, {mode:?} {seed}");
                let left = folder.after_crash(seed, mode);
                repair(&left).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert!(held(&left, &context) == expected, "{context}");
            }
            // Repeated, and cut at each step. What is in doubt after a failed sync of names is
            // another thing each time.
            let step = match kind {
                _ if is_thorough() => 1,
                OpKind::SyncNames => 5,
                _ => 97,
            };
            for cut in (1 + nth % step..).step_by(step as usize) {
                let folder = copy_in_doubt(&pristine, kind, nth);
                folder.crash_at(folder.op_count() + cut);
                let done = repair(&folder);
                if !folder.has_crashed() {
                    done.unwrap_or_else(|e| panic!("{context}: {e}"));
                    break;
                }
                let (seed, mode) = cuts(2).nth(cut as usize % 3).unwrap();
                let context = format!("{context}, cut at {cut}, {mode:?} {seed}");
                let left = folder.after_crash(seed, mode);
                repair(&left).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert!(held(&left, &context) == expected, "{context}");
            }
            // Repeated and used.
            repair(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
            use_and_cut(&folder, &context);
        }
    }
    assert!(failures > 60, "{failures}");
}

/// A disk on which what failed is in doubt: a copy of one would be sure of it.
fn copy_in_doubt(pristine: &SimFolder, kind: OpKind, nth: u64) -> SimFolder {
    let folder = copy(pristine);
    folder.fail_once(&[kind], nth, FaultKind::Eio);
    repair(&folder).unwrap_err();
    folder
}

fn use_and_cut(folder: &SimFolder, context: &str) {
    let pool = Pool::open(folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
    let volume = pool.create_volume("new", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &content(5, 50_000), false).unwrap();
    volume.flush().unwrap();
    drop((volume, pool));
    let now = held(&copy(folder), context);
    for (seed, mode) in cuts(4) {
        let context = format!("{context}, used, {mode:?} {seed}");
        let left = folder.after_crash(seed, mode);
        assert!(held(&left, &context) == now, "{context}");
        assert_sound(&left, &context);
    }
}
