//! The locks on a store's folder: who is kept out, and who cannot keep anybody out.
//! Room: onefold-block.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use onefold_block::{FolderLock, Hold, LOCK_FILE, LockError};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use tempfile::TempDir;

fn folder(mode: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    dir
}

fn alone(path: &Path) -> Result<FolderLock, LockError> {
    FolderLock::take(path, Hold::Alone, Hold::Alone)
}

fn shared(path: &Path) -> Result<FolderLock, LockError> {
    FolderLock::take(path, Hold::Shared, Hold::Shared)
}

fn holder(result: Result<FolderLock, LockError>) -> String {
    match result {
        Err(LockError::Held { holder }) => holder,
        other => panic!("expected to be kept out, got {other:?}"),
    }
}

#[test]
fn one_alone_or_many_together() {
    for mode in [0o700, 0o755] {
        let dir = folder(mode);
        let first = alone(dir.path()).unwrap();
        first.keep();
        let me = format!("process {}", std::process::id());
        assert_eq!(holder(alone(dir.path())), me, "mode {mode:o}");
        assert_eq!(holder(shared(dir.path())), me, "mode {mode:o}");
        drop(first);
        let two = [shared(dir.path()).unwrap(), shared(dir.path()).unwrap()];
        holder(alone(dir.path()));
        drop(two);
        alone(dir.path()).unwrap();
    }
}

#[test]
fn a_lock_file_that_was_removed_lets_nobody_in() {
    let dir = folder(0o700);
    let first = alone(dir.path()).unwrap();
    fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
    assert_eq!(holder(alone(dir.path())), "another process");
    assert_eq!(holder(shared(dir.path())), "another process");
    drop(first);
    alone(dir.path()).unwrap();
}

#[test]
fn somebody_who_can_read_the_folder_keeps_nobody_out() {
    let dir = folder(0o755);
    alone(dir.path()).unwrap().keep();
    // What another user may do with such a folder: open it, and lock it.
    let theirs = File::open(dir.path()).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
    alone(dir.path()).unwrap();
    let mode = fs::metadata(dir.path().join(LOCK_FILE)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600, "and the lock file they cannot open");
}

#[test]
fn a_lock_file_that_others_could_open_is_closed_to_them() {
    let dir = folder(0o755);
    let path = dir.path().join(LOCK_FILE);
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(alone(dir.path()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o2770)).unwrap();
    drop(alone(dir.path()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660, "a group's folder");
}

#[test]
fn a_lock_file_stays_only_where_opening_succeeded() {
    let dir = folder(0o700);
    let path = dir.path().join(LOCK_FILE);
    drop(alone(dir.path()).unwrap());
    assert!(!path.exists(), "nothing came of it");
    drop(shared(dir.path()).unwrap());
    assert!(!path.exists(), "who reads makes none");
    let first = alone(dir.path()).unwrap();
    holder(alone(dir.path()));
    assert!(path.exists(), "it belongs to the first");
    first.keep();
    drop(first);
    drop(alone(dir.path()).unwrap());
    assert!(path.exists(), "it was there before");
}

#[test]
fn what_is_no_lock_file_is_refused_at_once() {
    let dir = folder(0o700);
    let path = dir.path().join(LOCK_FILE);
    let target = dir.path().join("target");
    let refused = |what: &str| {
        for result in [alone(dir.path()), shared(dir.path())] {
            let error = result.expect_err(what).to_string();
            assert!(error.starts_with(&format!("lock {}: ", path.display())), "{what}: {error}");
        }
    };
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused("a FIFO");
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    refused("a link to nothing");
    assert!(!target.exists(), "nothing is made through a link");
    fs::write(&target, b"theirs").unwrap();
    refused("a link");
    let told = alone(dir.path()).unwrap_err().to_string();
    assert!(told.ends_with(": it is a symbolic link"), "{told}");
    assert_eq!(fs::read(&target).unwrap(), b"theirs", "nothing is written through a link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("a folder");
}

#[test]
fn each_hold_is_taken_by_itself() {
    let dir = folder(0o700);
    // As an archive is used: one adds while others read, and nobody while one removes.
    let take = |file, folder| FolderLock::take(dir.path(), file, folder);
    let reader = take(Hold::Not, Hold::Shared).unwrap();
    let adder = take(Hold::Alone, Hold::Shared).unwrap();
    holder(take(Hold::Alone, Hold::Shared));
    drop(adder);
    holder(take(Hold::Alone, Hold::Alone));
    drop(reader);
    let remover = take(Hold::Alone, Hold::Alone).unwrap();
    holder(take(Hold::Not, Hold::Shared));
    drop(remover);
}
