//! What is made is its owner's alone, or its group's, whatever was there and whatever the umask.
//! Room: onefold-block.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use onefold_block::handover::{FileHandover, Handover};
use onefold_block::{FileFolder, Folder, Group, small_file};
use rustix::fs::Mode;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn make_all(folder: &mut FileFolder, group: Option<Group>) {
    folder.restrict(group).unwrap();
    folder.create("file").unwrap();
    folder.subfolder("inner").unwrap().create("file").unwrap();
    small_file::replace(folder, "small", b"x").unwrap();
}

fn modes(at: &Path) -> [u32; 5] {
    ["", "file", "inner", "inner/file", "small"].map(|name| mode(&at.join(name)))
}

#[test]
fn nobody_else_is_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("parent/store");
    make_all(&mut FileFolder::create(&at).unwrap(), None);
    assert_eq!(modes(&at), [0o700, 0o600, 0o700, 0o600, 0o600]);
    assert_eq!(mode(&dir.path().join("parent")) & 0o700, 0o700, "parents are not the store's");
}

#[test]
fn what_was_open_to_all_is_closed_when_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("store");
    fs::create_dir(&at).unwrap();
    fs::write(at.join("file"), b"old").unwrap();
    for (name, mode) in [("", 0o777), ("file", 0o666)] {
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Made before the folder is closed: private all the same.
    FileFolder::open(&at).unwrap().subfolder("inner").unwrap();
    assert_eq!(mode(&at.join("inner")), 0o700);
    make_all(&mut FileFolder::create(&at).unwrap(), None);
    assert_eq!(modes(&at), [0o700, 0o600, 0o700, 0o600, 0o600]);
}

#[test]
fn a_group_that_is_named_is_let_in_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("store");
    let own = fs::metadata(dir.path()).unwrap().gid();
    make_all(&mut FileFolder::create(&at).unwrap(), Some(Group(own)));
    let shared = [0o2770, 0o660, 0o2770, 0o660, 0o660];
    assert_eq!(modes(&at), shared);
    assert_eq!(fs::metadata(at.join("inner/file")).unwrap().gid(), own);
    // Opened later, by a process that was told of no group.
    make_all(&mut FileFolder::open(&at).unwrap(), None);
    assert_eq!(modes(&at), shared);
}

#[test]
fn a_folder_that_only_happens_to_be_shared_is_not_taken_for_one_that_was() {
    // As `mkdir` leaves it inside a folder that a team shares; by no group's bit; for no group.
    for shared in [0o2775, 0o770, 0o2700] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("store");
        fs::create_dir(&at).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(shared)).unwrap();
        make_all(&mut FileFolder::create(&at).unwrap(), None);
        assert_eq!(modes(&at), [0o700, 0o600, 0o700, 0o600, 0o600], "{shared:o}");
    }
}

#[test]
fn the_umask_neither_opens_nor_closes() {
    const MASK: &str = "ONEFOLD_TEST_UMASK";
    if let Some(mask) = std::env::var_os(MASK) {
        let dir = tempfile::tempdir().unwrap();
        let mask = u32::from_str_radix(mask.to_str().unwrap(), 8).unwrap();
        let place = FileFolder::open(dir.path()).unwrap();
        rustix::process::umask(Mode::from_raw_mode(mask));
        place.subfolder("inner").unwrap().create("file").unwrap();
        assert_eq!(mode(&dir.path().join("inner")), 0o700, "umask {mask:o}");
        let memory = FileHandover::open(&dir.path().join("memory"), [1; 16]).unwrap();
        drop(memory.create("a", 4096).unwrap());
        Handover::open(&memory, "a").unwrap();
        let at = dir.path().join("store");
        make_all(&mut FileFolder::create(&at).unwrap(), None);
        assert_eq!(modes(&at), [0o700, 0o600, 0o700, 0o600, 0o600], "umask {mask:o}");
        return;
    }
    // The umask is the whole process's: other tests must not be in it.
    for mask in ["000", "777"] {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "private_files::the_umask_neither_opens_nor_closes"])
            .env(MASK, mask)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&status.stdout);
        assert!(status.status.success() && told.contains("1 passed"), "{mask}: {told}");
    }
}
