//! Small files are there whole, before and after, whenever the power goes.
//! Room: onefold-block.

use onefold_block::{CrashMode, FaultKind, Folder, OpKind, SimFolder, small_file};

const OLD: &[u8] = b"what was there before";

/// Longer than a sector, so that a write can tear.
fn new() -> Vec<u8> {
    (0..3000u32).map(|i| (i % 251) as u8 + 1).collect()
}

fn with_old() -> SimFolder {
    let folder = SimFolder::new();
    small_file::replace(&folder, "settings", OLD).unwrap();
    folder
}

fn found(folder: &SimFolder) -> Vec<u8> {
    small_file::read(folder, "settings", 10_000).unwrap()
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new_file() {
    let whole = with_old();
    let before = whole.op_count();
    small_file::replace(&whole, "settings", &new()).unwrap();
    let after = whole.op_count();
    let mut seen = [0; 2];
    for op in before + 1..=after + 1 {
        let modes = [CrashMode::KeepNothing, CrashMode::KeepEverything];
        let random = (0..40).map(|seed| (seed, CrashMode::Random));
        for (seed, mode) in modes.map(|mode| (0, mode)).into_iter().chain(random) {
            let folder = with_old();
            folder.crash_at(op);
            let written = small_file::replace(&folder, "settings", &new());
            assert_eq!(written.is_ok(), op > after, "{}", folder.op_log());
            let found = found(&folder.after_crash(seed, mode));
            assert!(found == OLD || found == new(), "cut at {op}, seed {seed}, {mode:?}");
            assert!(written.is_err() || found == new(), "what was answered is durable");
            seen[usize::from(found == OLD)] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 20), "both outcomes happen: {seen:?}");
}

#[test]
fn what_a_power_cut_left_is_overwritten() {
    let folder = with_old();
    folder.create("settings.new").unwrap().write(0, &[7; 5000]).unwrap();
    small_file::replace(&folder, "settings", &new()).unwrap();
    assert_eq!((found(&folder), folder.list().unwrap()), (new(), vec!["settings".to_owned()]));
}

#[test]
fn a_failure_leaves_the_old_file_and_no_other() {
    for kind in [OpKind::Create, OpKind::Write, OpKind::Sync, OpKind::Rename] {
        let folder = with_old();
        folder.fail_once(&[kind], 1, FaultKind::Enospc);
        small_file::replace(&folder, "settings", &new()).unwrap_err();
        assert_eq!(found(&folder), OLD, "{kind:?}");
        assert_eq!(folder.list().unwrap(), ["settings"], "{kind:?}");
    }
}

#[test]
fn a_file_that_is_not_small_is_not_read() {
    let folder = with_old();
    let error = small_file::read(&folder, "settings", OLD.len() as u64 - 1).unwrap_err();
    assert!(error.to_string().contains("settings: 21 bytes, but 20 at most"), "{error}");
    assert_eq!(small_file::read(&folder, "settings", OLD.len() as u64).unwrap(), OLD);
}

#[test]
fn a_real_file_is_replaced_in_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("settings");
    for bytes in [OLD, &new()] {
        small_file::replace_at(&path, bytes).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(small_file::replace_at(&dir.path().join(".."), OLD).is_err());
}
