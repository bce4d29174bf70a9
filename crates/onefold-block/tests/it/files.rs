//! Real files: space, names and errors as the system reports them.
//! Room: onefold-block.

use std::error::Error as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use onefold_block::{FileFolder, Folder, MediaError, data_end};
use rustix::fs::{FallocateFlags, fallocate};
use tempfile::TempDir;

fn folder() -> (TempDir, FileFolder) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let folder = FileFolder::open(dir.path()).expect("it was just made");
    (dir, folder)
}

#[test]
fn contents_outlive_the_handle() {
    let (dir, folder) = folder();
    let media = folder.create("journal").unwrap();
    media.write(5, b"hello").unwrap();
    media.sync().unwrap();
    media.write(5, b"H").unwrap();
    media.sync().unwrap();
    folder.sync_names().unwrap();
    drop((media, folder));
    let folder = FileFolder::open(dir.path()).unwrap();
    let mut buf = [9; 10];
    Folder::open(&folder, "journal").unwrap().read(0, &mut buf).unwrap();
    assert_eq!(&buf, b"\0\0\0\0\0Hello");
    assert_eq!(fs::read(dir.path().join("journal")).unwrap(), buf);
}

#[test]
fn errors_name_the_whole_path() {
    let (dir, folder) = folder();
    let path = dir.path().join("absent").display().to_string();
    match Folder::open(&folder, "absent").err() {
        Some(MediaError::NotFound { name }) => assert_eq!(name, path),
        other => panic!("{other:?}"),
    }
    let media = folder.create("short").unwrap();
    media.write(0, &[1; 100]).unwrap();
    let path = dir.path().join("short").display().to_string();
    for offset in [99, 100, u64::MAX - 1, u64::MAX, i64::MAX as u64] {
        match media.read(offset, &mut [0; 2]) {
            Err(MediaError::Truncated { name, len: 100, offset: at, end }) => {
                assert_eq!((name, at, end), (path.clone(), offset, offset.saturating_add(2)));
            }
            other => panic!("{other:?}"),
        }
    }
    for result in [media.write(u64::MAX, &[1; 2]), media.set_len(1 << 63)] {
        let error = result.expect_err("no file is that long");
        assert!(error.to_string().contains(&path), "{error}");
    }
    media.write(i64::MAX as u64, &[]).unwrap();
    media.write(i64::MAX as u64 + 1, &[]).expect_err("no file reaches so far");
    assert_eq!(media.len().unwrap(), 100);
}

#[test]
fn names_that_would_leave_the_folder_are_refused() {
    let (_dir, folder) = folder();
    for name in ["", ".", "..", "a/b", "/etc/passwd", "a\0b", &"x".repeat(256)] {
        for error in [
            Folder::open(&folder, name).err(),
            Folder::create(&folder, name).err(),
            folder.remove(name).err(),
            folder.subfolder(name).err(),
        ] {
            let error = error.expect("refused");
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(cause.starts_with("a name must"), "{name:?}: {error}");
        }
    }
    assert!(folder.list().unwrap().is_empty());
}

#[test]
fn reserved_space_is_given_back_by_every_way_of_setting_the_length() {
    const RESERVED: u64 = 4 << 20;
    // What a file system may keep beyond the contents: its last block and an indirect one.
    const SLACK: u64 = 128 << 10;
    for new_len in [0, 5000, 10_000, 10_001, 100_000] {
        let (_dir, folder) = folder();
        let media = folder.create("container").unwrap();
        media.write(0, &[7; 10_000]).unwrap();
        media.reserve(0, RESERVED).unwrap();
        assert_eq!(media.len().unwrap(), 10_000, "reserving leaves the length");
        let before = media.allocated_bytes().unwrap();
        media.set_len(new_len).unwrap();
        media.sync().unwrap();
        assert_eq!(media.len().unwrap(), new_len);
        let after = media.allocated_bytes().unwrap();
        // A file system without reservations never took the space in the first place.
        if before >= RESERVED {
            assert!(after <= new_len + SLACK, "length {new_len}: {after} bytes still taken");
        }
    }
}

#[test]
fn punched_ranges_take_no_space_and_leave_their_neighbours() {
    let (_dir, folder) = folder();
    let media = folder.create("container").unwrap();
    media.write(0, &vec![7; 1 << 20]).unwrap();
    media.sync().unwrap();
    let before = media.allocated_bytes().unwrap();
    media.punch(65_536, 0).unwrap();
    media.punch(65_536, 131_072).unwrap();
    media.punch(983_040, u64::MAX).unwrap();
    media.punch(u64::MAX, u64::MAX).unwrap();
    let mut all = vec![0; 1 << 20];
    media.read(0, &mut all).unwrap();
    let after = media.allocated_bytes().unwrap();
    if after < before {
        assert!(before - after >= 196_608, "{before} to {after}");
        assert!(all[65_536..196_608].iter().all(|&b| b == 0));
    }
    assert!(all[..65_536].iter().chain(&all[196_608..983_040]).all(|&b| b == 7));
    assert_eq!(media.len().unwrap(), 1 << 20);
}

#[test]
fn folders_are_made_with_their_parents_and_files_are_no_folders() {
    let (dir, folder) = folder();
    let deep = dir.path().join("a/b/c");
    FileFolder::create(&deep).unwrap().create("x").unwrap();
    assert_eq!(FileFolder::create(&deep).unwrap().list().unwrap(), ["x"]);
    assert!(matches!(
        FileFolder::open(dir.path().join("nowhere")),
        Err(MediaError::NotFound { .. })
    ));
    let error = FileFolder::open(deep.join("x")).expect_err("a file");
    assert!(error.to_string().contains("a/b/c/x"), "{error}");
    assert!(folder.list().unwrap().is_empty(), "directories are not media");
    assert!(folder.remove("a").is_err());
}

#[test]
fn a_full_file_system_says_no_space() {
    // The device that is always full stands in for a full disk.
    let Ok(folder) = FileFolder::open("/dev") else { return };
    let Ok(media) = Folder::open(&folder, "full") else { return };
    match media.write(0, &[1; 512]) {
        Err(MediaError::NoSpace { name }) => assert_eq!(name, "/dev/full"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reservation_that_cannot_succeed_takes_nothing() {
    let (_dir, folder) = folder();
    let media = folder.create("container").unwrap();
    media.write(0, &[1; 8192]).unwrap();
    media.sync().unwrap();
    let before = media.allocated_bytes().unwrap();
    // More than any disk has, less than what a file system refuses for being no length at all.
    match media.reserve(0, 1 << 62) {
        Err(MediaError::NoSpace { name }) => assert!(name.ends_with("/container"), "{name}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(media.allocated_bytes().unwrap(), before);
}

#[test]
fn names_are_up_to_255_bytes_long() {
    let (_dir, folder) = folder();
    let longest = "x".repeat(255);
    folder.create(&longest).unwrap();
    assert_eq!(folder.list().unwrap(), [longest]);
}

#[test]
fn holes_are_told_from_data() {
    let (_dir, folder) = folder();
    let media = folder.create("sparse").unwrap();
    media.write(1 << 20, &[1; 4096]).unwrap();
    media.set_len(2 << 20).unwrap();
    media.sync().unwrap();
    let told = media.next_data(0).unwrap();
    assert!(told == Some(1 << 20) || told == Some(0), "{told:?}");
    assert_eq!(media.next_data((1 << 20) + 5).unwrap(), Some((1 << 20) + 5));
    if told == Some(1 << 20) {
        assert_eq!(media.next_data((1 << 20) + 4096).unwrap(), None);
    }
    assert_eq!(media.next_data(2 << 20).unwrap(), None);
}

#[test]
fn a_full_folder_of_the_system_says_how_much_is_free() {
    let (_dir, folder) = folder();
    let free = folder.free_bytes().unwrap();
    assert!(free.is_none_or(|bytes| (1 << 12..1 << 62).contains(&bytes)), "{free:?}");
}

/// Large writes go past the page cache in the middle and through it at both ends.
#[test]
fn large_writes_at_any_place_read_back() {
    let (_dir, folder) = folder();
    let media = folder.create("large").unwrap();
    let bytes: Vec<u8> =
        (0..1_100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let aligned = bytes.as_ptr().align_offset(4096);
    for (at, start, len) in [
        (0, aligned, 1 << 20),
        (4096, aligned, (1 << 20) + 17),
        (100, aligned + 100, 600_000),
        (101, aligned + 100, 600_000),
        (0, aligned, 256 << 10),
        (5000, aligned + 904, (256 << 10) - 1),
    ] {
        let data = &bytes[start..start + len];
        media.set_len(0).unwrap();
        media.write(at, data).unwrap();
        assert_eq!(media.len().unwrap(), at + len as u64);
        let mut found = vec![0; at as usize + len];
        media.read(0, &mut found).unwrap();
        assert!(found[at as usize..] == *data, "{len} at {at}");
        assert!(found[..at as usize].iter().all(|&byte| byte == 0));
        // Into memory that is aligned as the file is, from its middle on.
        let mut memory = vec![0; len + 4096];
        let place = memory.as_ptr().align_offset(4096) + at as usize % 4096;
        let place = if place + len > memory.len() { place - 4096 } else { place };
        let buf = &mut memory[place..place + len];
        media.read(at, buf).unwrap();
        assert!(*buf == *data, "{len} from {at}");
        let past = media.read(at + 4096, buf).expect_err("a page past the end");
        assert!(matches!(past, MediaError::Truncated { .. }), "{past}");
    }
}

/// Whether the file system of this folder can do so, asked without us.
fn can(dir: &TempDir, flags: FallocateFlags) -> bool {
    let path = dir.path().join("asked");
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let can = fallocate(&file, flags, 0, 1 << 20).is_ok();
    fs::remove_file(path).unwrap();
    can
}

#[test]
fn space_is_set_aside_and_given_back_where_the_file_system_can() {
    let (dir, folder) = folder();
    let blocks = |name| fs::metadata(dir.path().join(name)).unwrap().blocks() * 512;
    let media = folder.create("container").unwrap();
    media.reserve(0, 1 << 20).unwrap();
    if can(&dir, FallocateFlags::KEEP_SIZE) {
        assert!(blocks("container") >= 1 << 20, "{}", blocks("container"));
    }
    assert_eq!(media.allocated_bytes().unwrap(), blocks("container"));
    media.write(0, &vec![7; 1 << 20]).unwrap();
    media.sync().unwrap();
    media.punch(0, 1 << 20).unwrap();
    if can(&dir, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE) {
        assert!(blocks("container") < 64 << 10, "{}", blocks("container"));
        let mut all = vec![1; 1 << 20];
        media.read(0, &mut all).unwrap();
        assert!(all.iter().all(|&byte| byte == 0));
    }
    assert_eq!(media.len().unwrap(), 1 << 20);
}

/// Linux keeps no names of processes, and no bytes that were written to its endless zeroes.
#[test]
fn a_sync_that_the_system_refuses_is_an_error() {
    let Ok(processes) = FileFolder::open("/proc") else { return };
    let Err(refused) = fs::File::open("/proc").unwrap().sync_all() else { return };
    let error = processes.sync_names().unwrap_err();
    assert_eq!(error.to_string(), format!("sync names in /proc: {refused}"));
    let Ok(devices) = FileFolder::open("/dev") else { return };
    let Ok(zeroes) = Folder::open(&devices, "zero") else { return };
    let Err(refused) = fs::File::open("/dev/zero").unwrap().sync_all() else { return };
    for _ in 0..2 {
        let error = zeroes.sync().unwrap_err();
        assert_eq!(error.to_string(), format!("sync /dev/zero: {refused}"));
    }
}

/// Names above those that are made are somebody else's, and need not be readable.
#[test]
fn only_the_folders_whose_names_are_new_are_opened() {
    let (dir, _) = folder();
    let outer = dir.path().join("outer");
    fs::create_dir_all(outer.join("inner")).unwrap();
    fs::set_permissions(&outer, Permissions::from_mode(0o300)).unwrap();
    let made = FileFolder::create(outer.join("inner/made/store"));
    fs::set_permissions(&outer, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(made.unwrap().list().unwrap(), [""; 0]);
}

#[test]
fn data_end_where_nobody_wrote_any_more() {
    let (_dir, folder) = folder();
    let media = folder.create("sparse").unwrap();
    assert_eq!(data_end(&*media).unwrap(), 0);
    media.write(1 << 20, &[1; 4096]).unwrap();
    assert_eq!(data_end(&*media).unwrap(), (1 << 20) + 4096, "no further than it is long");
    media.set_len(3 << 20).unwrap();
    let found = data_end(&*media).unwrap();
    let knows_holes = media.next_data((1 << 20) + 4096).unwrap().is_none();
    assert_eq!(found, if knows_holes { (1 << 20) + (64 << 10) } else { 3 << 20 });
    // Media that know no holes.
    let media = onefold_block::SimFolder::new().create("plain").unwrap();
    media.set_len(200_000).unwrap();
    assert_eq!(data_end(&*media).unwrap(), 200_000);
    assert_eq!(
        [0, 199_999, 200_000].map(|at| media.next_data(at).unwrap()),
        [Some(0), Some(199_999), None]
    );
}
