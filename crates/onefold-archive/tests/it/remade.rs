//! Making an archive again where a making failed: what is added to the second one stays, whatever
//! the first one left in doubt.

use onefold_archive::ArchiveError;
use onefold_block::{CrashMode, FaultKind, OpKind, SimFolder, SplitMix64};

use crate::support::{add, assert_sound, create, open, read, tree, try_open};

/// Lets each request of a making fail in a folder, and has it made again: how many failed.
fn fail_each(encrypted: bool, prepare: impl Fn() -> SimFolder) -> u64 {
    let mut failures = 0;
    for kind in OpKind::COUNTED {
        for nth in 1.. {
            let context = format!("{kind:?} {nth} fails");
            let folder = prepare();
            folder.fail_once(&[kind], nth, FaultKind::Eio);
            if create(&folder, encrypted).is_ok() {
                break;
            }
            folder.clear_faults();
            failures += 1;
            match create(&folder, encrypted) {
                // There is one already.
                Ok(()) | Err(ArchiveError::NotEmpty(_)) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            let mut archive = open(&folder);
            let files = tree(&mut SplitMix64::new(nth), 3, 20_000);
            add(&mut archive, &files).unwrap_or_else(|e| panic!("{context}: {e}"));
            drop(archive);
            for seed in 0..8 {
                let mode = if seed == 0 { CrashMode::KeepNothing } else { CrashMode::Random };
                let left = folder.after_crash(seed, mode);
                let context = format!("{context}, {mode:?} {seed}");
                let mut archive = try_open(&left).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert!(read(&archive, 1).unwrap() == files, "{context}");
                // One of two copies of the settings may be gone, and is made again.
                add(&mut archive, &tree(&mut SplitMix64::new(nth + 1), 1, 5_000)).unwrap();
                assert_sound(&archive, &context);
            }
        }
    }
    failures
}

fn in_doubt(encrypted: bool, nth: u64) -> SimFolder {
    let folder = SimFolder::new();
    folder.fail_once(&[OpKind::SyncNames], nth, FaultKind::Eio);
    create(&folder, encrypted).unwrap_err();
    folder
}

#[test]
fn an_archive_made_again_after_a_making_that_failed_keeps_what_is_added() {
    for encrypted in [false, true] {
        let failures = fail_each(encrypted, SimFolder::new);
        assert!(failures > 15, "{failures}");
    }
}

#[test]
fn and_so_does_one_whose_making_failed_twice() {
    for nth in 1..=3 {
        let failures = fail_each(false, || in_doubt(false, nth));
        assert!(failures > 15, "{failures}");
    }
}
