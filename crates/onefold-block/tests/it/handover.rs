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
fn a_copy_holds_every_byte_of_every_page() {
    let memory = SimHandover::new();
    let mut region = memory.create("a", 4 * 4096 + 100).unwrap();
    let pages = region.bytes_mut().chunks_mut(4096);
    // One of zeroes, of ones alone, of all kinds, and two whose first or last byte counts.
    for (page, fill) in pages.zip([0, 1, 2, 3, 4]) {
        match fill {
            2 => page.iter_mut().zip(0..).for_each(|(byte, at): (_, u32)| *byte = at as u8),
            3 => page[0] = 9,
            4 => page[99] = 9,
            all => page.fill(all),
        }
    }
    assert!(memory.after_kill().open("a").unwrap().bytes() == region.bytes());
}

#[test]
fn a_file_with_holes_gets_all_its_memory_when_it_is_opened() {
    let folders = tempfile::tempdir().unwrap();
    let memory = FileHandover::open(&folders.path().join("memory"), [1; 16]).unwrap();
    drop(memory.create("a", 1 << 20).unwrap());
    let path = memory.folder().join("a");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(0).unwrap();
    file.set_len(1 << 20).unwrap();
    let region = Handover::open(&memory, "a").unwrap();
    assert!(region.bytes().iter().all(|&byte| byte == 0));
    let blocks = std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
    assert!(blocks * 512 >= 1 << 20, "{blocks} blocks");
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
    drop(memory.create("c", 4096).unwrap());
    symlink(folder.join("c"), folder.join("b")).unwrap();
    assert!(memory.open("b").is_err(), "a link is no region");
    for name in ["", "..", "a/b", ".hidden", "a.new"] {
        assert!(memory.create(name, 4096).is_err(), "{name:?}");
    }
    set(&folder, 0o755);
    assert!(FileHandover::open(&folder, [1; 16]).is_err(), "others may look into it");
}

#[test]
fn numbers_are_stored_in_words_up_to_the_last_one() {
    let memory = SimHandover::new();
    let mut region = memory.create("a", 24).unwrap();
    for at in [0, 8, 16] {
        region.publish(at, 0x0102_0304_0506_0708 + at as u64);
        assert_eq!(region.number(at), 0x0102_0304_0506_0708 + at as u64);
    }
    assert_eq!(region.bytes()[8..16], [0x10, 7, 6, 5, 4, 3, 2, 1]);
    for at in [4, 17, 24, 32] {
        let stored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            region.publish(at, 1);
        }));
        assert!(stored.is_err(), "{at} is no word of it");
    }
}

#[test]
fn regions_are_listed_replaced_removed_and_lost_with_an_empty_file() {
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().join("memory");
    let memory = FileHandover::open(&folder, [1; 16]).unwrap();
    for name in ["b", "a-1", "c.2"] {
        memory.create(name, 8192).unwrap().bytes_mut()[0] = 7;
    }
    std::fs::write(folder.join("d.new"), b"unfinished").unwrap();
    assert_eq!(memory.list().unwrap(), ["a-1", "b", "c.2"]);
    assert_eq!(memory.create("b", 4096).unwrap().bytes(), [0; 4096]);
    assert_eq!(memory.open("a-1").unwrap().bytes()[..2], [7, 0]);
    memory.remove("a-1").unwrap();
    memory.remove("a-1").unwrap();
    assert!(matches!(memory.open("a-1"), Err(onefold_block::MediaError::NotFound { .. })));
    std::fs::OpenOptions::new().write(true).open(folder.join("b")).unwrap().set_len(0).unwrap();
    assert!(memory.open("b").is_err(), "it has no bytes");
    std::fs::hard_link(folder.join("c.2"), folder.join("e")).unwrap();
    assert!(memory.open("e").is_err() && memory.open("c.2").is_err(), "another name leads to it");
    drop(memory);
    assert!(folder.exists(), "regions are left");
    let empty = FileHandover::open(&folders.path().join("empty"), [1; 16]).unwrap();
    assert_eq!(empty.folder(), folders.path().join("empty"));
    drop(empty);
    assert!(!folders.path().join("empty").exists());
    std::fs::write(folders.path().join("file"), b"").unwrap();
    assert!(FileHandover::open(&folders.path().join("file"), [1; 16]).is_err());
}
