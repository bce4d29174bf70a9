//! Real trees: added from the system and restored to it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use onefold_archive::tree::exclude::Excludes;
use onefold_archive::tree::restore::{RestoreOptions, RestoreReport, restore};
use onefold_archive::tree::scan::{ScanOptions, ScanReport, add_trees, measure, roots};
use onefold_archive::{AddOptions, Archive, ArchiveError, ArchiveSettings, LockKind};
use onefold_block::SplitMix64;

use crate::support::{IDENTITY, assert_sound};

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with everything that a tree can have.
fn make_tree(at: &Path) {
    let mut random = SplitMix64::new(3);
    let dir = |path: &str| fs::create_dir_all(at.join(path)).unwrap();
    dir("empty/nested");
    dir("sub");
    fs::write(at.join("file"), random.bytes(300_000)).unwrap();
    fs::write(at.join("sub/nothing"), "").unwrap();
    fs::write(at.join("sub/one"), "1").unwrap();
    fs::write(at.join("zeroes"), vec![0; 2_000_000]).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"not \xff\xfe UTF-8\n");
    fs::write(at.join(odd), "odd").unwrap();
    symlink("file", at.join("link")).unwrap();
    symlink("/nowhere/\u{e9}", at.join("sub/dangling")).unwrap();
    fs::hard_link(at.join("file"), at.join("sub/again")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    fs::set_permissions(at.join("sub/one"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::set_permissions(at.join("empty"), fs::Permissions::from_mode(0o1777)).unwrap();
    // Where the file system has none, there are none to lose.
    let _ = rustix::fs::setxattr(
        at.join("file"),
        "user.origin",
        b"\0here",
        rustix::fs::XattrFlags::empty(),
    );
    for (path, seconds) in [("file", 1), ("sub/one", 1_234_567_890), ("sub", 77), ("empty", 5)] {
        set_time(&at.join(path), seconds);
    }
    fs::set_permissions(at.join("sub"), fs::Permissions::from_mode(0o500)).unwrap();
}

/// Everything that must come back, one line a path.
fn describe(at: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut stack = vec![at.to_path_buf()];
    let mut inodes = std::collections::HashMap::new();
    while let Some(path) = stack.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(at).unwrap().as_os_str().as_bytes().escape_ascii().to_string();
        let kind = metadata.file_type();
        let what = if kind.is_dir() {
            let mut children: Vec<PathBuf> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
            children.sort();
            children.reverse();
            stack.extend(children);
            "folder".to_owned()
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            format!("to {}", target.as_os_str().as_bytes().escape_ascii())
        } else if kind.is_fifo() {
            "fifo".to_owned()
        } else {
            let bytes = fs::read(&path).unwrap();
            let first = inodes.entry(metadata.ino()).or_insert_with(|| name.clone());
            let mut value = [0; 100];
            let len = rustix::fs::lgetxattr(&path, "user.origin", &mut value[..]).unwrap_or(0);
            let (sum, value) = (crc32fast::hash(&bytes), value[..len].escape_ascii());
            format!("{} bytes {sum:08x} as {first} with '{value}'", bytes.len())
        };
        let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
        let (seconds, ns) = (metadata.mtime(), metadata.mtime_nsec());
        lines.push(format!("{name} {mode:o} {uid}:{gid} {seconds}.{ns:09} {what}"));
    }
    lines
}

fn archive_at(path: &Path) {
    Archive::create_at(path, &ArchiveSettings::default(), IDENTITY, None, None).unwrap();
}

fn add_at(store: &Path, paths: &[PathBuf], options: &ScanOptions) -> ScanReport {
    let mut archive = Archive::open_at(store, LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let roots = roots(paths).unwrap();
    let report = add_trees(&mut adder, &roots, options, &mut |_| true).unwrap();
    adder.commit().unwrap();
    report
}

fn restore_at(store: &Path, paths: &[&str], to: &Path, options: &RestoreOptions) -> RestoreReport {
    let archive = Archive::open_at(store, LockKind::Read).unwrap();
    let version = archive.version(None).unwrap();
    let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    restore(&archive, &version, &paths, to, options, &mut |_| true).unwrap()
}

/// The path of a system folder inside a version.
fn stored(path: &Path) -> String {
    path.to_str().unwrap().trim_start_matches('/').to_owned()
}

#[test]
fn a_tree_with_everything_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    archive_at(&store);
    let report = add_at(&store, std::slice::from_ref(&tree), &ScanOptions::default());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let expected = describe(&tree);
    // All of it, also where it is named as the whole.
    let whole: [&[&str]; 2] = [&[], &[""]];
    for (number, (sparse, paths)) in
        [(false, whole[0]), (true, whole[0]), (false, whole[1])].into_iter().enumerate()
    {
        let out = dir.path().join(format!("out-{number}"));
        let options = RestoreOptions { sparse, ..RestoreOptions::default() };
        let report = restore_at(&store, paths, &out, &options);
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let found = describe(&out.join(stored(&tree)));
        assert_eq!(found, expected);
        if sparse {
            let zeroes = out.join(stored(&tree)).join("zeroes");
            assert!(fs::metadata(zeroes).unwrap().blocks() * 512 < 1_000_000);
        }
    }
    let archive = Archive::open_at(&store, LockKind::Read).unwrap();
    assert_sound(&archive, "a real tree");
}

#[test]
fn a_file_that_is_one_large_hole_is_added_without_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    let file = fs::File::create(tree.join("sparse")).unwrap();
    file.set_len(1 << 37).unwrap();
    let data = SplitMix64::new(1).bytes(300_000);
    for at in [123_456, 70 << 30] {
        file.write_all_at(&data, at).unwrap();
    }
    archive_at(&store);
    let report = add_at(&store, std::slice::from_ref(&tree), &ScanOptions::default());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.bytes, 1 << 37);
    let archive = Archive::open_at(&store, LockKind::Read).unwrap();
    let version = archive.version(None).unwrap();
    let totals = version.info().totals;
    assert_eq!(totals.logical_bytes, 1 << 37);
    assert!(totals.new_bytes < 3_000_000, "{}", totals.new_bytes);
}

#[test]
fn parts_are_restored_with_links_turned_into_files_where_they_must() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    archive_at(&store);
    add_at(&store, std::slice::from_ref(&tree), &ScanOptions::default());
    let out = dir.path().join("out");
    let part = format!("{}/sub", stored(&tree));
    let report = restore_at(&store, &[&part], &out, &RestoreOptions::default());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let again = out.join(&part).join("again");
    assert_eq!(fs::read(&again).unwrap(), fs::read(tree.join("file")).unwrap());
    assert!(!out.join(stored(&tree)).join("file").exists());
    // A folder and something in it is that folder once.
    let out = dir.path().join("both");
    let inner = format!("{part}/one");
    let both = restore_at(&store, &[&inner, &part], &out, &RestoreOptions::default());
    assert_eq!(both.entries, report.entries);
}

#[test]
fn a_link_that_is_named_is_stored_as_a_link_and_the_folder_above_all_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "content").unwrap();
    symlink("sub", tree.join("link")).unwrap();
    archive_at(&store);
    add_at(&store, &[tree.join("link")], &ScanOptions::default());
    let to = dir.path().join("named");
    restore_at(&store, &[], &to, &RestoreOptions::default());
    let restored = to.join(stored(&tree)).join("link");
    assert_eq!(fs::read_link(restored).unwrap(), Path::new("sub"));
    // `link/.` is a folder, and what is in it lies at the top.
    let above = tree.join("link/../link/..");
    add_at(&store, &[above], &ScanOptions::default());
    let to = dir.path().join("above");
    restore_at(&store, &[], &to, &RestoreOptions::default());
    assert_eq!(fs::read_to_string(to.join("sub/file")).unwrap(), "content");
}

#[test]
fn options_leave_out_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("keep/target")).unwrap();
    fs::write(tree.join("keep/a.o"), "x").unwrap();
    fs::write(tree.join("keep/a.c"), "x").unwrap();
    let store = tree.join("store");
    archive_at(&store);
    let metadata = fs::metadata(&store).unwrap();
    let options = ScanOptions {
        exclude: Excludes::new(["*.o", "target"]).unwrap(),
        skip: Some((metadata.dev(), metadata.ino())),
        exclude_caches: true,
        one_file_system: true,
    };
    for (folder, tag) in [
        ("cache", "Signature: 8a477f597d28d172789f06886806bc55\n# made by a program\n"),
        ("no cache", "Signature: 8a477f597d28d172789f06886806bc56\n"),
    ] {
        fs::create_dir_all(tree.join(folder).join("sub")).unwrap();
        fs::write(tree.join(folder).join("CACHEDIR.TAG"), tag).unwrap();
        fs::write(tree.join(folder).join("sub/data"), "x").unwrap();
    }
    add_at(&store, std::slice::from_ref(&tree), &options);
    let archive = Archive::open_at(&store, LockKind::Read).unwrap();
    let version = archive.version(None).unwrap();
    let names: Vec<String> = (0..version.len())
        .map(|index| String::from_utf8(version.entry(index).unwrap().path).unwrap())
        .map(|path| path.trim_start_matches(&stored(&tree)).to_owned())
        .collect();
    let expected = [
        "",
        "/cache",
        "/cache/CACHEDIR.TAG",
        "/keep",
        "/keep/a.c",
        "/no cache",
        "/no cache/CACHEDIR.TAG",
        "/no cache/sub",
        "/no cache/sub/data",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("good"), "good").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    archive_at(&store);
    let paths = [tree.clone(), dir.path().join("missing")];
    let report = add_at(&store, &paths, &ScanOptions::default());
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].path.ends_with("missing"));
    assert_eq!((report.sockets, report.files), (1, 1));
}

#[test]
fn unchanged_files_are_taken_over_unread_and_changed_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    for name in ["grows", "same size", "same times"] {
        fs::write(tree.join(name), vec![7; 5000]).unwrap();
    }
    set_time(&tree.join("same times"), 1000);
    archive_at(&store);
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let add = |time_s: i64, skip_unchanged: bool| {
        let mut archive = Archive::open_at(&store, LockKind::Add).unwrap();
        let options = AddOptions { time_s, skip_unchanged, ..AddOptions::default() };
        let mut adder = archive.add(options).unwrap();
        let roots = roots(std::slice::from_ref(&tree)).unwrap();
        let report = add_trees(&mut adder, &roots, &ScanOptions::default(), &mut |_| true).unwrap();
        adder.commit().unwrap();
        assert_sound(&archive, "after an addition");
        (report.files, report.unchanged)
    };
    let (files, unchanged) = add(now(), true);
    assert_eq!((files, unchanged), (8, 0));
    // The files changed a moment before that version was begun: their times do not tell.
    assert_eq!(add(now() + 60, true), (files, 0));
    assert_eq!(add(now() + 60, true), (files, files));
    assert_eq!(add(now() + 60, false), (files, 0), "all is read if that is asked for");
    fs::write(tree.join("grows"), vec![7; 5001]).unwrap();
    fs::write(tree.join("same size"), vec![8; 5000]).unwrap();
    // As a program does that means to hide it: size and time are as before.
    fs::write(tree.join("same times"), vec![9; 5000]).unwrap();
    set_time(&tree.join("same times"), 1000);
    assert_eq!(add(now() + 60, true), (files, files - 3));
    let expected = describe(&tree);
    let out = dir.path().join("out");
    restore_at(&store, &[], &out, &RestoreOptions::default());
    assert_eq!(describe(&out.join(stored(&tree))), expected);
    // A container that is gone is no reason to go on without what it held.
    let container = fs::read_dir(store.join("containers")).unwrap().next().unwrap().unwrap();
    fs::rename(container.path(), dir.path().join("lost")).unwrap();
    let (_, unchanged) = add_without_check(&store, &tree, now() + 60);
    assert!(unchanged < files, "{unchanged} of {files}");
    let out = dir.path().join("out again");
    restore_at(&store, &[], &out, &RestoreOptions::default());
    assert_eq!(describe(&out.join(stored(&tree))), expected);
}

fn add_without_check(store: &Path, tree: &Path, time_s: i64) -> (u64, u64) {
    let mut archive = Archive::open_at(store, LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions { time_s, ..AddOptions::default() }).unwrap();
    let roots = roots(&[tree.to_owned()]).unwrap();
    let report = add_trees(&mut adder, &roots, &ScanOptions::default(), &mut |_| true).unwrap();
    adder.commit().unwrap();
    (report.files, report.unchanged)
}

#[test]
fn attributes_of_symbolic_links_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    symlink("nowhere", tree.join("link")).unwrap();
    let link = tree.join("link");
    let (name, none) = ("trusted.origin", rustix::fs::XattrFlags::empty());
    if let Err(error) = rustix::fs::lsetxattr(&link, name, b"here", none) {
        println!("skipped: a symbolic link cannot have attributes here: {error}");
        return;
    }
    archive_at(&store);
    add_at(&store, std::slice::from_ref(&tree), &ScanOptions::default());
    let out = dir.path().join("out");
    let report = restore_at(&store, &[], &out, &RestoreOptions::default());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let mut value = [0; 10];
    let restored = out.join(stored(&link));
    assert_eq!(rustix::fs::lgetxattr(&restored, name, &mut value[..]), Ok(4));
    assert_eq!(&value[..4], b"here");
}

#[test]
fn one_process_writes_and_others_read() {
    let dir = tempfile::tempdir().unwrap();
    archive_at(dir.path());
    let reader = Archive::open_at(dir.path(), LockKind::Read).unwrap();
    let writer = Archive::open_at(dir.path(), LockKind::Add).unwrap();
    let second = Archive::open_at(dir.path(), LockKind::Add);
    let holder = format!("process {}", std::process::id());
    assert!(matches!(second, Err(ArchiveError::Locked { holder: h }) if h == holder));
    let another = Archive::open_at(dir.path(), LockKind::Read).unwrap();
    drop(writer);
    let remover = Archive::open_at(dir.path(), LockKind::Remove);
    assert!(matches!(remover, Err(ArchiveError::Locked { .. })), "somebody reads");
    drop((reader, another));
    let remover = Archive::open_at(dir.path(), LockKind::Remove).unwrap();
    assert!(Archive::open_at(dir.path(), LockKind::Read).is_err());
    drop(remover);
    assert!(matches!(
        Archive::open_at(&dir.path().join("nothing"), LockKind::Read),
        Err(ArchiveError::NoArchive)
    ));
}

#[test]
fn an_archive_that_cannot_be_looked_at_is_not_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    // Root may look everywhere; a link that leads to itself stops everybody.
    let closed = dir.path().join("closed");
    symlink(&closed, &closed).unwrap();
    for refused in [
        Archive::open_at(&closed, LockKind::Read).err(),
        Archive::secret_kind_at(&closed).err(),
        Archive::check_at(&closed, false, None).err(),
    ] {
        let said = refused.unwrap().to_string();
        assert!(said.starts_with(&format!("open {}: ", closed.display())), "{said}");
    }
}

#[test]
fn stopping_leaves_the_archive_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    archive_at(&store);
    let mut archive = Archive::open_at(&store, LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let roots = roots(&[tree]).unwrap();
    // In the middle of a file, too.
    let stopped = add_trees(&mut adder, &roots, &ScanOptions::default(), &mut |report| {
        report.bytes < 200_000
    });
    assert!(matches!(stopped, Err(ArchiveError::Interrupted)));
    drop(adder);
    assert_eq!(archive.versions().len(), 0);
}

#[test]
fn an_addition_is_interrupted_within_a_long_file() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("long"), SplitMix64::new(1).bytes(8 << 20)).unwrap();
    let roots = roots(std::slice::from_ref(&tree)).unwrap();
    archive_at(&store);
    let mut archive = Archive::open_at(&store, LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let (limit, mut last) = (1 << 20, 0);
    let stopped = add_trees(&mut adder, &roots, &ScanOptions::default(), &mut |report| {
        last = report.bytes;
        last < limit
    });
    assert!(matches!(stopped, Err(ArchiveError::Interrupted)), "{stopped:?}");
    assert!((limit..=3 * limit).contains(&last), "stopped at {last} of {limit}");
    drop(adder);
    assert_eq!(archive.versions().len(), 0);
}

#[test]
fn what_is_to_be_added_is_measured_or_given_up_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    for (name, len) in [("a", 1), ("sub/b", 5000), ("sub/nothing", 0)] {
        fs::write(tree.join(name), vec![1; len]).unwrap();
    }
    symlink("a", tree.join("link")).unwrap();
    let both = [tree.join("sub"), tree.join("a")];
    let options = ScanOptions::default();
    let whole = roots(std::slice::from_ref(&tree)).unwrap();
    assert_eq!(measure(&whole, &options, &|| false), Some(5001));
    assert_eq!(measure(&roots(&both).unwrap(), &options, &|| false), Some(5001));
    assert_eq!(measure(&whole, &options, &|| true), None);
}

/// What a scan of a tree tells; `during` is called whenever it asks whether to go on.
fn scanned(tree: &Path, during: &mut dyn FnMut(&ScanReport)) -> ScanReport {
    let store = tempfile::tempdir().unwrap();
    archive_at(store.path());
    let mut archive = Archive::open_at(store.path(), LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let roots = roots(&[tree.to_owned()]).unwrap();
    let options = ScanOptions::default();
    let mut report = add_trees(&mut adder, &roots, &options, &mut |report| {
        during(report);
        true
    })
    .unwrap();
    let top = format!("{}/", tree.display());
    for told in &mut report.problems {
        told.path = told.path.replace(&top, "");
    }
    report
}

#[test]
fn a_file_that_changes_while_it_is_read_is_told_whatever_changes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let set = |seconds| set_time(&file, seconds);
    let changes: [(&str, &dyn Fn()); 3] = [
        ("nothing", &|| {}),
        ("its time", &|| set(77)),
        ("its length", &|| {
            fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(500_000).unwrap();
            set(5);
        }),
    ];
    for (what, change) in changes {
        fs::write(&file, vec![7; 600_000]).unwrap();
        set(5);
        let mut changed = false;
        let report = scanned(dir.path(), &mut |report| {
            if report.bytes >= 500_000 && !changed {
                changed = true;
                change();
            }
        });
        assert!(changed && report.files == 1, "{what}");
        let told: Vec<_> = report.problems.iter().map(|p| (&*p.path, &*p.problem)).collect();
        let why = "it changed while it was read; stored as it was found";
        assert_eq!(told, [("file", why)][..usize::from(what != "nothing")], "{what}");
    }
}

#[test]
fn what_cannot_be_read_is_named_and_left_out() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root reads everything");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["closed", "listed"] {
        fs::create_dir(at(folder)).unwrap();
        fs::write(at(folder).join("file"), "x").unwrap();
    }
    fs::write(at("secret"), "x").unwrap();
    let has_attributes =
        rustix::fs::setxattr(at("secret"), "user.x", b"1", rustix::fs::XattrFlags::empty());
    let modes = [("closed", 0), ("listed", 0o400), ("secret", 0)];
    for (name, mode) in modes {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let report = scanned(dir.path(), &mut |_| {});
    for (name, _) in modes {
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let told: Vec<String> =
        report.problems.iter().map(|told| format!("{}: {}", told.path, told.problem)).collect();
    let denied = "Permission denied (os error 13)";
    let mut expected = vec![format!("secret: {denied}")];
    if has_attributes.is_ok() {
        let attributes = format!("secret: its extended attributes cannot be read: {denied}");
        expected.insert(0, attributes);
    }
    expected.push(format!("closed: cannot list it: {denied}"));
    expected.push(format!("listed/file: {denied}"));
    assert_eq!(told, expected);
    assert_eq!((report.files, report.bytes), (0, 0));
}

#[test]
fn paths_that_lie_in_each_other_are_restored_once() {
    let (folder, mut archive) = crate::support::new_archive(&crate::support::small());
    let file = |path: &str, len| (path.as_bytes().to_vec(), Some(vec![5; len]));
    let tree = [(b"a".to_vec(), None), file("a/b", 10), file("a/c", 20), file("d", 30)].into();
    crate::support::add(&mut archive, &tree).unwrap();
    let version = archive.version(None).unwrap();
    let restored = |paths: &[&str]| {
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let out = tempfile::tempdir().unwrap();
        let options = RestoreOptions::default();
        let report = restore(&archive, &version, &paths, out.path(), &options, &mut |_| true);
        let report = report.unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        (report.entries, report.totals.bytes)
    };
    assert_eq!(restored(&["a", "a/b", "a", "a/c"]), (3, 30));
    assert_eq!(restored(&["d", "a/c", "a/c"]), (2, 50));
    assert_eq!(restored(&["a/b", "", "d"]), (4, 60));
    let RestoreOptions { assembly_bytes, overwrite, sparse } = RestoreOptions::default();
    assert_eq!((assembly_bytes, overwrite, sparse), (67_108_864, false, false));
    // What cannot be had is told as it is.
    folder.flip_bit("containers/00000001.container", 62, 0).unwrap();
    let out = tempfile::tempdir().unwrap();
    let options = RestoreOptions::default();
    let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
    let told = format!("{:?}", report.problems);
    let problem = "corrupt container 1 at byte 0: the chunk at 0 of its content has a wrong";
    assert!(told.contains("a/b") && told.contains(problem), "{told}");
    assert!(report.problems.len() == 1 && !out.path().join("a/b").exists());
}

#[test]
fn attributes_of_files_and_folders_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir_all(tree.join("folder")).unwrap();
    fs::write(tree.join("file"), "x").unwrap();
    let none = rustix::fs::XattrFlags::empty();
    for path in ["folder", "file"] {
        for (name, value) in [("user.b", &b"second"[..]), ("user.a", b"\0first"), ("user.c", b"")] {
            if let Err(error) = rustix::fs::setxattr(tree.join(path), name, value, none) {
                println!("skipped: there are no attributes here: {error}");
                return;
            }
        }
    }
    archive_at(&store);
    add_at(&store, std::slice::from_ref(&tree), &ScanOptions::default());
    let archive = Archive::open_at(&store, LockKind::Read).unwrap();
    let version = archive.version(None).unwrap();
    let out = dir.path().join("out");
    let report = restore_at(&store, &[], &out, &RestoreOptions::default());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    for path in ["folder", "file"] {
        let entry = version.find(format!("{}/{path}", stored(&tree)).as_bytes()).unwrap();
        let names: Vec<_> = entry.metadata.xattrs.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, [b"user.a", b"user.b", b"user.c"]);
        let restored = out.join(stored(&tree)).join(path);
        for (name, value) in [("user.a", &b"\0first"[..]), ("user.b", b"second"), ("user.c", b"")] {
            let mut found = [0; 20];
            let len = rustix::fs::getxattr(&restored, name, &mut found[..]).unwrap();
            assert_eq!(&found[..len], value, "{name} of {path}");
        }
    }
}
