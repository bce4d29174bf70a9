//! A drive whose files' disk is full, or fails: clients get errors, and what was flushed is there
//! when the disk is well again.
//! Room: onefold-flash.

use onefold_block::{BlockDevice as _, BlockError, CrashMode, FaultKind, OpKind, SplitMix64};
use onefold_flash::drive::{self, DriveError, OpenDrive, Remark};

use crate::drive_power::{Model, PAGE, made, open, spec};

/// Works until something fails; the answer is that.
fn work(model: &mut Model, drive: &OpenDrive, seed: u64) -> Option<BlockError> {
    let mut random = SplitMix64::new(seed);
    (0..1500).find_map(|_| model.step(drive, &mut random).err())
}

#[test]
fn a_full_disk_stops_the_drive_and_takes_nothing_that_was_flushed() {
    let mut stopped = 0;
    for seed in 0..30 {
        let policy = ["none", "caftl-online", "ses-device"][seed as usize % 3];
        let (folder, drive, mut model) = made(policy);
        let what = format!("{policy}, seed {seed}");
        // Somewhere between no further page and all that the drive can hold.
        folder.set_capacity(Some(folder.used_bytes() + 4096 * SplitMix64::new(seed).below(90)));
        if let Some(error) = work(&mut model, &drive, seed) {
            let said = error.to_string();
            assert!(said.contains("space"), "{what}: {said}");
            assert!(drive.device().read_at(0, &mut [0; PAGE]).is_err(), "{what}: until reopened");
            assert!(drive.save_health().is_err() || drive.close().is_err(), "{what}");
            stopped += 1;
        } else {
            drop(drive);
        }
        // While the disk is full it opens or says why; nothing that is there is hurt by trying.
        if let Ok(drive) = open(&folder) {
            let _ = work(&mut model.clone(), &drive, seed + 100);
        }
        let half = folder.after_crash(seed, CrashMode::KeepEverything);
        half.set_capacity(None);
        let drive = open(&half).unwrap_or_else(|error| panic!("{what}: {error}"));
        drive.device().with_ftl(|ftl| ftl.check_invariants());
        drop(drive);
        // The model knows of the first run only, so that run is looked at alone.
        let (folder, drive, mut model) = made(policy);
        folder.set_capacity(Some(folder.used_bytes() + 4096 * SplitMix64::new(seed).below(90)));
        let _ = work(&mut model, &drive, seed);
        drop(drive);
        folder.set_capacity(None);
        let drive = open(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
        model.check(&drive, &what);
        assert!(work(&mut model, &drive, seed + 200).is_none(), "{what}: it goes on");
        drive.close().expect("closed");
        model.flushed();
        model.check(&open(&folder).expect("opened"), &what);
    }
    assert!(stopped > 12, "{stopped}");
}

#[test]
fn failing_operations_below_are_errors_and_take_nothing_that_was_flushed() {
    let kinds = [OpKind::Write, OpKind::Sync, OpKind::Punch];
    let mut stopped = 0;
    for seed in 0..45 {
        let policy = ["none", "caftl-online", "ses-device"][seed as usize % 3];
        let (folder, drive, mut model) = made(policy);
        let kind = kinds[seed as usize / 3 % 3];
        let nth = 1 + SplitMix64::new(seed).below(if kind == OpKind::Write { 800 } else { 60 });
        folder.fail_once(&[kind], nth, FaultKind::Eio);
        let what = format!("{policy}, seed {seed}: {kind:?} {nth}");
        stopped += u64::from(work(&mut model, &drive, seed).is_some());
        drop(drive);
        folder.clear_faults();
        let left = folder.after_crash(seed, CrashMode::Random);
        let drive = open(&left).unwrap_or_else(|error| panic!("{what}: {error}"));
        model.check(&drive, &what);
        drive.device().with_ftl(|ftl| ftl.check_invariants());
        assert!(work(&mut model, &drive, seed + 200).is_none(), "{what}: it goes on");
    }
    assert!(stopped > 25, "{stopped}");
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_not_built_upon() {
    for seed in 0..120 {
        let policy = ["none", "caftl-online", "ses-device"][seed as usize % 3];
        let (folder, drive, mut model) = made(policy);
        let mut random = SplitMix64::new(seed);
        let nth = 1 + random.below(30);
        folder.fail_once(&[OpKind::Sync], nth, FaultKind::Eio);
        let what = format!("{policy}, seed {seed}: sync {nth}");
        assert!(work(&mut model, &drive, seed).is_some(), "{what}: it never came");
        drop(drive);
        // What that sync was for can be read until the power goes.
        folder.crash_at(folder.op_count() + 1 + random.below(300));
        if let Ok(drive) = open(&folder)
            && !folder.has_crashed()
        {
            model.hold(&drive, &what);
            let _ = work(&mut model, &drive, seed + 100);
        }
        let left = folder
            .after_crash(seed, [CrashMode::KeepNothing, CrashMode::Random][seed as usize % 2]);
        let drive = open(&left).unwrap_or_else(|error| panic!("{what}: {error}"));
        model.check(&drive, &what);
        drive.device().with_ftl(|ftl| ftl.check_invariants());
    }
}

#[test]
fn counters_that_cannot_be_read_begin_anew() {
    let (folder, drive, _) = made("none");
    drive.close().expect("closed");
    for name in ["health.0", "health.1"] {
        use onefold_block::Folder as _;
        folder.open(name).expect("there").write(40, b"????????").expect("written");
    }
    assert!(!drive::inspect(&folder).expect("looked at").counted);
    let drive = open(&folder).expect("opened");
    assert_eq!(drive.remarks(), [Remark::CountersLost]);
    assert_eq!(drive.health().since_unix_s, Some(1_700_000_000));
    drive.close().expect("closed");
    let drive = open(&folder).expect("opened");
    assert_eq!((drive.remarks(), drive.health().power_cycles), (&[][..], 2));
    assert_eq!(drive.health().since_unix_s, Some(1_700_000_000), "for good");
}

#[test]
fn a_change_of_settings_that_is_cut_short_is_made_or_not() {
    let (whole, drive, _) = made("none");
    drive.close().expect("closed");
    let change = ["ftl.victim=fifo".to_owned(), "controller.idle_steps=7".to_owned()];
    let after = {
        let folder = whole.after_crash(0, CrashMode::KeepEverything);
        let begun = folder.op_count();
        assert_eq!(drive::revise(&folder, &change, None).expect("changed").len(), 2);
        assert_eq!(drive::revise(&folder, &change, None).expect("again").len(), 0);
        folder.op_count() - begun
    };
    let before = spec("none");
    let mut seen = [0; 2];
    for op in 1..=after {
        for mode in [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random] {
            let folder = whole.after_crash(op, mode);
            folder.crash_at(folder.op_count() + op);
            assert!(drive::revise(&folder, &change, None).is_err(), "operation {op}");
            let left = folder.after_crash(op * 3, mode);
            let spec = drive::read_spec(&left).unwrap_or_else(|e| panic!("{op}, {mode:?}: {e}"));
            let changed = spec != before;
            assert!(
                !changed || (spec.ftl.victim.name() == "fifo" && spec.controller.idle_steps == 7)
            );
            seen[usize::from(changed)] += 1;
            let drive = open(&left).unwrap_or_else(|e| panic!("{op}, {mode:?}: {e}"));
            assert_eq!(drive.spec(), &spec, "{op}, {mode:?}");
            drop(drive);
            assert_eq!(drive::read_spec(&left).expect("read"), spec, "{op}, {mode:?}");
        }
    }
    assert!(seen[0] > 2 && seen[1] > 2, "{seen:?}");
    let fixed = ["geometry.channels=2".to_owned(), "geometry.packages=2".to_owned()];
    let refused = drive::revise(&whole, &fixed, None).expect_err("fixed");
    assert!(matches!(refused, DriveError::Fixed { .. }), "{refused}");
}

#[test]
fn a_change_that_the_policy_does_not_take_leaves_the_drive_as_it_was() {
    for (policy, change) in [
        ("gleaner", "dedup.lba_ranges=[]"),
        ("none", "dedup.lba_ranges=[[0, 9]]"),
        ("ses-host", "dedup.lba_ranges=[[9, 3]]"),
    ] {
        let (folder, drive, _) = made(policy);
        drive.close().expect("closed");
        drive::revise(&folder, &[change.to_owned()], None).expect_err(change);
        open(&folder).unwrap_or_else(|error| panic!("{policy}, {change}: {error}"));
    }
}
