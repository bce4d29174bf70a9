//! The process that serves a drive is killed at any moment: what it acknowledged is there, with
//! memory that outlives it, and a new generation says so where it may not be.
//! Room: onefold-flash.

use std::sync::Arc;

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{BlockDevice as _, CrashMode, SimFolder, SplitMix64};
use onefold_flash::drive::{OpenDrive, Remark};

use onefold_flash::spec::DriveSpec;

use crate::drive_power::{Model, PAGE, Still, made, made_of, spec};

const POLICIES: [&str; 4] = ["none", "caftl-online", "ses-device", "ses-host"];

fn open(folder: &SimFolder, memory: Option<&SimHandover>) -> OpenDrive {
    let memory = memory.map(|memory| Arc::new(memory.clone()) as Arc<dyn Handover>);
    OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Still), memory).expect("opens")
}

/// Pages that do not hold what was written to them last.
fn old_pages(drive: &OpenDrive, model: &Model) -> usize {
    let latest = model.durable.iter().zip(&model.since).map(|(durable, since)| {
        crate::drive_power::content(since.last().copied().unwrap_or(*durable))
    });
    let mut found = vec![0; PAGE];
    let is_old = |(lpn, content): (usize, Vec<u8>)| {
        drive.device().read_at((lpn * PAGE) as u64, &mut found).expect("read");
        found != content
    };
    latest.enumerate().map(is_old).filter(|&old| old).count()
}

/// Kill after kill with a few requests between; pages that were old after any of them.
fn kills(policy: &str, with_memory: bool) -> (usize, u64) {
    kills_of(&spec(policy), with_memory)
}

pub fn kills_of(spec: &DriveSpec, with_memory: bool) -> (usize, u64) {
    let policy = &spec.dedup.policy;
    let (mut folder, drive, mut model) = made_of(spec);
    drive.close().expect("closed");
    let mut memory = SimHandover::new();
    let (mut old, mut random) = (0, SplitMix64::new(11));
    for _ in 0..60 {
        let drive = open(&folder, with_memory.then_some(&memory));
        old += old_pages(&drive, &model);
        drive.device().with_ftl(|ftl| ftl.check_invariants());
        model.check(&drive, policy);
        for _ in 0..random.below(120) {
            model.step(&drive, &mut random).expect("done");
        }
        memory = memory.after_kill();
        folder = folder.after_crash(0, CrashMode::KeepEverything);
    }
    (old, open(&folder, with_memory.then_some(&memory)).current_generation().number)
}

#[test]
fn nothing_acknowledged_is_old_after_any_number_of_kills() {
    for policy in POLICIES {
        assert_eq!(kills(policy, true), (0, 1), "{policy}");
    }
}

#[test]
fn without_memory_writes_are_lost_and_every_start_is_a_new_generation() {
    for policy in POLICIES {
        let (old, generation) = kills(policy, false);
        assert!(old > 0, "{policy}: trims at least come back");
        assert_eq!(generation, 61, "{policy}");
    }
}

#[test]
fn a_power_cut_after_a_kill_takes_nothing_that_was_flushed_or_taken_up() {
    for policy in POLICIES {
        let (mut folder, drive, mut model) = made(policy);
        drive.close().expect("closed");
        let mut memory = SimHandover::new();
        let mut random = SplitMix64::new(5);
        for round in 0..40 {
            let drive = open(&folder, Some(&memory));
            model.check(&drive, policy);
            for _ in 0..random.below(100) {
                model.step(&drive, &mut random).expect("done");
            }
            let cut = round % 3 == 2;
            memory = if cut { memory.after_boot() } else { memory.after_kill() };
            let mode = if cut { CrashMode::Random } else { CrashMode::KeepEverything };
            folder = folder.after_crash(round, mode);
        }
    }
}

#[test]
fn memory_that_is_damaged_or_of_another_boot_begins_a_generation_and_says_why() {
    let serve = |memory: &SimHandover| {
        let (folder, drive, _) = made("ses-device");
        drive.close().expect("closed");
        let drive = open(&folder, Some(memory));
        drive.device().write_at(0, &[7; 3 * PAGE], false).expect("written");
        drive.device().trim(0, PAGE as u64, false).expect("trimmed");
        folder.after_crash(0, CrashMode::KeepEverything)
    };
    let why = |drive: &OpenDrive| {
        drive.remarks().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let memory = SimHandover::new();
    let folder = serve(&memory);
    let drive = open(&folder, Some(&memory.after_boot()));
    assert!(why(&drive).contains("started again"), "{}", why(&drive));
    assert_eq!(drive.current_generation().number, 2);

    let memory = SimHandover::new();
    let folder = serve(&memory);
    memory.damage("records", 4096, 1);
    let drive = open(&folder, Some(&memory));
    assert!(why(&drive).contains("part of it is damaged"), "{}", why(&drive));
    assert!(drive.current_generation().is_unaccepted());
    drive.accept_loss().expect("noted");
    drive.close().expect("closed");
    let drive = open(&folder, Some(&memory));
    assert!(!drive.current_generation().is_unaccepted() && drive.remarks().is_empty());
    assert_eq!(memory.list().expect("listed"), ["records"]);
    drive.close().expect("closed");
    assert!(memory.list().expect("listed").is_empty(), "nothing is left behind");

    let memory = SimHandover::new();
    let folder = serve(&memory);
    drop(open(&folder, None));
    let drive = open(&folder, Some(&memory));
    assert!(why(&drive).contains("opened since"), "{}", why(&drive));

    let memory = SimHandover::new();
    let folder = serve(&memory);
    let drive = open(&folder, Some(&memory));
    let taken = |remark: &Remark| matches!(remark, Remark::TakenUp(1..));
    assert!(drive.remarks().iter().any(taken), "{}", why(&drive));
    assert_eq!(drive.current_generation().number, 1);
}

#[test]
fn a_drive_is_served_without_memory_where_there_is_none() {
    let (folder, drive, _) = made("none");
    drive.close().expect("closed");
    let memory = SimHandover::new();
    memory.limit(0);
    let drive = open(&folder, Some(&memory));
    assert!(matches!(drive.remarks(), [Remark::NotKept(_)]), "{:?}", drive.remarks());
    drop(drive);
    assert_eq!(open(&folder, Some(&memory)).current_generation().number, 2);
}
