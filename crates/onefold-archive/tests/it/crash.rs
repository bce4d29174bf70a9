//! The power goes at every operation: earlier versions stay, a committed one is there.

use onefold_archive::ArchiveError;
use onefold_block::{CrashMode, SimFolder, SplitMix64};

use crate::support::{Tree, add, assert_sound, create, next, open, read, tree, try_open};
use crate::versions::{Step, assert_versions};

/// Make an archive, add three versions, remove one, add another, until the power goes at media
/// operation `cut`; true if it went.
fn run(seed: u64, cut: u64, mode: CrashMode, encrypted: bool) -> bool {
    let context = format!("seed {seed}, cut at {cut}, {mode:?}, encrypted: {encrypted}");
    let mut random = SplitMix64::new(seed);
    let mut trees: Vec<Tree> = vec![tree(&mut random, 6, 60_000)];
    for _ in 0..3 {
        trees.push(next(&trees[trees.len() - 1], &mut random));
    }
    let folder = SimFolder::new();
    folder.crash_at(cut);
    let mut done = Vec::new();
    let outcome = drive(&folder, &trees, encrypted, &mut done);
    if outcome.is_ok() {
        return false;
    }
    let mut after = folder.after_crash(seed ^ cut << 8, mode);
    if cut.is_multiple_of(3) {
        // Recovery, that is the next addition, loses power too.
        after.crash_at(after.op_count() + cut % 11);
        if let Ok(mut archive) = try_open(&after) {
            let _ = add(&mut archive, &trees[0]);
        }
        after = after.after_crash(seed ^ cut << 16, mode);
    }
    match try_open(&after) {
        Ok(_) => {}
        Err(_) if done.is_empty() => {
            // The creation was cut short: it can be done again.
            create(&after, encrypted).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        Err(error) => panic!("{context}: {error}"),
    }
    let archive = open(&after);
    assert_sound(&archive, &context);
    assert_versions(&archive, &trees, &done, &context);
    // Life goes on, and what is left of the interrupted addition goes.
    let mut archive = open(&after);
    let info = add(&mut archive, &trees[1]).unwrap_or_else(|e| panic!("{context}: {e}"));
    let archive = open(&after);
    assert!(read(&archive, info.number).unwrap() == trees[1], "{context}: the version after");
    assert_versions(&archive, &trees, &done, &context);
    assert_sound(&archive, &context);
    let report = archive.verify(&mut |_, _| true).unwrap();
    let removal = done.iter().any(|step| matches!(step, Step::Removing(_)));
    assert!(removal || report.unused_containers == 0, "{context}: containers leak");
    true
}

fn drive(
    folder: &SimFolder,
    trees: &[Tree],
    encrypted: bool,
    done: &mut Vec<Step>,
) -> Result<(), ArchiveError> {
    create(folder, encrypted)?;
    done.push(Step::Made);
    for (number, tree) in trees.iter().enumerate() {
        // Each in a process of its own.
        let mut archive = try_open(folder)?;
        let info = add(&mut archive, tree)?;
        done.push(Step::Added(info.number, number));
        if number == 2 {
            done.push(Step::Removing(1));
            archive.remove(1)?;
            done.push(Step::Removed(1));
        }
    }
    Ok(())
}

fn cut_everywhere(seed: u64, mode: CrashMode) {
    cut_everywhere_in(seed, mode, false);
}

fn cut_everywhere_in(seed: u64, mode: CrashMode, encrypted: bool) {
    let mut cut = 1;
    while run(seed, cut, mode, encrypted) {
        cut += 1;
    }
    assert!(cut > 60, "the workload has only {cut} operations");
}

#[test]
fn torn_power_cuts_at_every_operation_lose_no_committed_version() {
    cut_everywhere(1, CrashMode::Random);
    cut_everywhere(2, CrashMode::Random);
    cut_everywhere(5, CrashMode::Random);
}

#[test]
fn power_cuts_that_keep_nothing_unsynced_lose_no_committed_version() {
    cut_everywhere(3, CrashMode::KeepNothing);
}

#[test]
fn power_cuts_that_keep_everything_lose_no_committed_version() {
    cut_everywhere(4, CrashMode::KeepEverything);
}

#[test]
fn power_cuts_lose_no_committed_version_of_an_encrypted_archive() {
    cut_everywhere_in(6, CrashMode::Random, true);
    cut_everywhere_in(7, CrashMode::KeepNothing, true);
}
