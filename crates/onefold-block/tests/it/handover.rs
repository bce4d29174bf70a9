//! Memory that outlives processes: both implementations, and what the one on files refuses.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use onefold_block::conformance::check_handover;
use onefold_block::handover::{FileHandover, Handover, SimHandover};

#[test]
fn both_do_what_the_contract_says() {
    check_handover(&|| Arc::new(SimHandover::new()));
    let folders = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    check_handover(&|| {
        made.set(made.get() + 1);
        let folder = folders.path().join(format!("{}", made.get()));
        Arc::new(FileHandover::open(&folder, [1; 16]).unwrap())
    });
}

#[test]
fn a_copy_is_what_a_kill_would_leave_and_another_boot_differs() {
    let memory = SimHandover::new();
    let mut region = memory.create("a", 4096).unwrap();
    region.bytes_mut()[10] = 1;
    let left = memory.after_kill();
    region.bytes_mut()[10] = 2;
    assert_eq!(left.open("a").unwrap().bytes()[10], 1);
    left.damage("a", 10, 0x80);
    assert_eq!(left.open("a").unwrap().bytes()[10], 0x81);
    assert_eq!(left.boot(), memory.boot());
    assert_ne!(memory.after_boot().boot(), memory.boot());
}

#[test]
fn folders_and_files_that_others_can_touch_are_refused() {
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().join("memory");
    let memory = FileHandover::open(&folder, [1; 16]).unwrap();
    drop(memory.create("a", 4096).unwrap());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("a"))), (0o700, 0o600));
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    set(&folder.join("a"), 0o644);
    assert!(memory.open("a").is_err(), "others may read it");
    symlink(folder.join("a"), folder.join("b")).unwrap();
    assert!(memory.open("b").is_err(), "a link is no region");
    for name in ["", "..", "a/b", ".hidden", "a.new"] {
        assert!(memory.create(name, 4096).is_err(), "{name:?}");
    }
    set(&folder, 0o755);
    assert!(FileHandover::open(&folder, [1; 16]).is_err(), "others may look into it");
}
