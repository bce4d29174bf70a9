//! The folder that is restored into, tried without an archive.
//! Room: onefold-archive.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use super::*;
use crate::format::entry::{Recipe, Stamp};
use crate::tree::dress::NO_SET_ID;

#[test]
fn what_has_another_owner_does_not_run_with_the_rights_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let owner = folder.path().metadata().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    // As for who is not root.
    target.gives_away = false;
    let mut problems = Vec::new();
    for (path, kind, uid, gid, mode) in [
        ("both", Kind::File, 0, 0, 0o6755),
        ("neither", Kind::File, 1, 1, 0o755),
        ("group", Kind::File, 1, 0, 0o2755),
        ("user", Kind::File, 0, 1, 0o4755),
        ("folder", Kind::Directory, 1, 1, 0o6755),
    ] {
        let (uid, gid) = (owner.uid() + uid, owner.gid() + gid);
        let metadata = Metadata { mode: 0o6755, uid, gid, ..Metadata::default() };
        let (recipe, stamp) = (Recipe::default(), Stamp::default());
        let is_file = kind == Kind::File;
        let entry = Entry { path: path.as_bytes().to_vec(), kind, metadata, recipe, stamp };
        assert!(target.begin(entry, &mut problems).unwrap());
        if is_file {
            target.end(&mut problems).unwrap();
        } else {
            target.leave(&mut problems);
        }
        let made = folder.path().join(path).metadata().unwrap();
        assert_eq!(made.mode() & 0o7777, mode, "{path}");
    }
    let told: Vec<_> = problems.iter().map(|p| (&*p.path, &*p.problem)).collect();
    assert_eq!(told, ["neither", "group", "user"].map(|path| (path, NO_SET_ID)));
}

#[test]
fn nothing_is_open_to_others_before_it_has_its_own_rights() {
    let folder = tempfile::tempdir().unwrap();
    let owner = folder.path().metadata().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    let mut problems = Vec::new();
    let mut begin = |path: &str, kind: Kind, mode: u32| {
        let (uid, gid) = (owner.uid(), owner.gid());
        let metadata = Metadata { mode, uid, gid, ..Metadata::default() };
        let recipe = Recipe::default();
        let path = path.as_bytes().to_vec();
        let entry = Entry { path, kind, metadata, recipe, stamp: Stamp::default() };
        assert!(target.begin(entry, &mut problems).unwrap());
    };
    let mode = |path: &str| folder.path().join(path).metadata().unwrap().mode() & 0o7777;
    begin("usual", Kind::Directory, 0o755);
    begin("usual/secret", Kind::Directory, 0o750);
    begin("usual/secret/file", Kind::File, 0o640);
    for (path, private) in [("usual", 0o700), ("usual/secret", 0o700)] {
        assert_eq!(mode(path), private, "{path} while it is filled");
    }
    assert_eq!(mode("usual/secret/.onefold-restoring.0"), 0o600);
    assert!(!folder.path().join("usual/secret/file").exists(), "it is not whole yet");
    target.end(&mut problems).unwrap();
    target.finish(&mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(mode("usual"), 0o755);
    assert_eq!((mode("usual/secret"), mode("usual/secret/file")), (0o750, 0o640));
}

fn entry(path: &str, kind: Kind, mode: u32) -> Entry {
    let mut entry = Entry {
        path: path.as_bytes().to_vec(),
        kind,
        metadata: Metadata { mode, mtime_s: 5, ..Metadata::default() },
        stamp: Stamp::default(),
        recipe: Recipe::default(),
    };
    let owner = std::fs::metadata("/proc/self").unwrap();
    (entry.metadata.uid, entry.metadata.gid) = (owner.uid(), owner.gid());
    entry
}

fn said(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|told| format!("{}: {}", told.path, told.problem)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_there_already_stays_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    let mut problems = Vec::new();
    for made in [true, false] {
        assert_eq!(target.begin(entry("a", Kind::File, 0o644), &mut problems).unwrap(), made);
        target.end(&mut problems).unwrap();
        let link = Kind::Symlink { target: b"a".to_vec() };
        assert_eq!(target.begin(entry("b", link, 0o777), &mut problems).unwrap(), made);
    }
    let expected = ["a: it exists already", "b: it exists already"];
    assert_eq!(said(&problems), expected);
    let link = Kind::HardLink { target: b"gone".to_vec() };
    problems.clear();
    assert!(!target.begin(entry("c", link, 0), &mut problems).unwrap());
    assert_eq!(said(&problems), ["c: No such file or directory (os error 2)"]);
    assert_eq!(names(folder.path()), ["a", "b"]);
    let refused = Target::open(folder.path(), false).err().unwrap().to_string();
    assert!(refused.contains("is not empty: it holds '"), "{refused}");
}

#[test]
fn what_replaces_something_leaves_no_other_name_behind() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("full/inside")).unwrap();
    std::fs::create_dir_all(at("too/inside")).unwrap();
    let mut target = Target::open(folder.path(), true).unwrap();
    let mut problems = Vec::new();
    let link = |target: &str| Kind::Symlink { target: target.into() };
    assert!(!target.begin(entry("full", link("x"), 0o777), &mut problems).unwrap());
    assert!(target.begin(entry("too", Kind::File, 0o644), &mut problems).unwrap());
    target.end(&mut problems).unwrap();
    assert!(problems.len() == 2 && problems[1].path == "too", "{problems:?}");
    assert_eq!(names(folder.path()), ["full", "too"]);
    // Another name of a file in the place of that name, twice.
    problems.clear();
    for _ in 0..2 {
        target = Target::open(folder.path(), true).unwrap();
        assert!(target.begin(entry("a", Kind::File, 0o644), &mut problems).unwrap());
        target.end(&mut problems).unwrap();
        let link = Kind::HardLink { target: b"a".to_vec() };
        assert!(target.begin(entry("b", link, 0), &mut problems).unwrap());
    }
    assert_eq!(said(&problems), [""; 0]);
    assert_eq!(names(folder.path()), ["a", "b", "full", "too"]);
    assert_eq!(at("a").metadata().unwrap().nlink(), 2);
}

#[test]
fn paths_that_a_file_system_takes_for_one_are_named_and_the_first_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let link = || Kind::Symlink { target: b"nowhere".to_vec() };
    for overwrite in [false, true] {
        let mut target = Target::open(folder.path(), overwrite).unwrap();
        let mut problems = Vec::new();
        let mut begin = |path: &str, kind: Kind| {
            let made = target.begin(entry(path, kind, 0o755), &mut problems).unwrap();
            target.end(&mut problems).unwrap();
            made
        };
        for (name, kind) in [("A", Kind::File), ("B", link()), ("C", Kind::Directory)] {
            assert!(begin(name, kind), "{name}");
        }
        // As if case did not count: what has one name is there under another one.
        for (upper, lower) in [("A", "a"), ("B", "b"), ("C", "c")] {
            std::fs::rename(at(upper), at(lower)).unwrap();
        }
        assert!(!begin("a", link()) && !begin("b", Kind::File));
        let hard = Kind::HardLink { target: b"a".to_vec() };
        assert!(!begin("b", hard) && begin("c", Kind::Directory) && begin("c/in", Kind::File));
        target.finish(&mut problems);
        let why = if overwrite { SAME_NAME } else { "it exists already" };
        let said = said(&problems);
        assert_eq!(said[..2], ["a", "b"].map(|name| format!("{name}: {why}")));
        assert_eq!(said[3..], [format!("c: {SAME_FOLDER}")]);
        assert_eq!(names(folder.path()), ["a", "b", "c"]);
        assert!(at("a").symlink_metadata().unwrap().is_file() && at("c/in").exists());
        std::fs::remove_dir_all(at("c")).unwrap();
        let _ = ["a", "b"].map(|name| std::fs::remove_file(at(name)).unwrap());
    }
}

#[test]
fn a_folder_that_its_owner_may_not_write_to_is_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let rights = |path: &str| folder.path().join(path).metadata().unwrap().mode() & 0o7777;
    for round in [false, true] {
        let mut target = Target::open(folder.path(), round).unwrap();
        let mut problems = Vec::new();
        for (path, mode) in [("it", 0o555), ("it/shut", 0o000)] {
            assert!(target.begin(entry(path, Kind::Directory, mode), &mut problems).unwrap());
        }
        let made = target.begin(entry("it/shut/file", Kind::File, 0o444), &mut problems);
        assert!(made.unwrap());
        assert_eq!((rights("it") & 0o700, rights("it/shut") & 0o700), (0o700, 0o700));
        target.end(&mut problems).unwrap();
        target.finish(&mut problems);
        assert_eq!(said(&problems), [""; 0]);
        assert_eq!((rights("it"), rights("it/shut")), (0o555, 0));
    }
    // Of one that the version does not hold nothing is changed.
    let mut target = Target::open(folder.path(), true).unwrap();
    let made = target.begin(entry("it/file", Kind::File, 0o444), &mut Vec::new());
    assert_eq!((made.unwrap(), rights("it")), (rustix::process::geteuid().is_root(), 0o555));
    target.abandon("enough", &mut Vec::new());
    target.finish(&mut Vec::new());
    for path in ["it", "it/shut"] {
        let path = folder.path().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// As if the file below were another one.
fn with_file(path: &str, file: File, overwrite: bool) -> (tempfile::TempDir, Target) {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::open(folder.path(), overwrite).unwrap();
    let made = target.begin(entry(path, Kind::File, 0o644), &mut Vec::new());
    assert!(made.unwrap());
    let open = target.file.as_mut().unwrap();
    (open.file, open.entry.recipe.size) = (file, 4);
    (folder, target)
}

fn data(bytes: &[u8]) -> ChunkBytes {
    ChunkBytes::of(Arc::new(bytes.to_vec()), 0..bytes.len())
}

#[test]
fn a_file_that_cannot_be_written_goes_and_a_full_disk_ends_it_all() {
    let mut problems = Vec::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (folder, mut target) = with_file("f", full, false);
    target.write(data(b"data"), false, &mut problems).unwrap();
    let error = target.end(&mut problems).unwrap_err().to_string();
    assert_eq!(error, "no space left: restoring");
    assert_eq!(said(&problems), ["f: No space left on device (os error 28)"]);
    assert_eq!(names(folder.path()), [""; 0]);
    problems.clear();
    let (folder, mut target) = with_file("f", File::open("/dev/null").unwrap(), false);
    target.write(data(b"data"), false, &mut problems).unwrap();
    target.end(&mut problems).unwrap();
    assert_eq!(said(&problems), ["f: Bad file descriptor (os error 9)"]);
    assert_eq!(names(folder.path()), [""; 0]);
    // What comes of a file that was given up is dropped.
    target.write(data(b"more"), false, &mut problems).unwrap();
    target.end(&mut problems).unwrap();
    assert_eq!(problems.len(), 1);
    // Its length cannot be set.
    problems.clear();
    let (folder, mut target) = with_file("f", File::open("/dev/null").unwrap(), false);
    target.write(data(&[0; 4]), true, &mut problems).unwrap();
    target.end(&mut problems).unwrap();
    assert_eq!(said(&problems), ["f: Invalid argument (os error 22)"]);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_file_of_another_length_goes_and_what_is_left_of_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    let mut problems = Vec::new();
    let begin = |target: &mut Target, problems: &mut Vec<Problem>| {
        let mut file = entry("d/f", Kind::File, 0o644);
        file.recipe.size = 5;
        assert!(target.begin(file, problems).unwrap());
        target.write(data(b"1234"), false, problems).unwrap();
    };
    begin(&mut target, &mut problems);
    target.end(&mut problems).unwrap();
    assert_eq!(said(&problems), ["d/f: it has 4 bytes, not 5"]);
    assert_eq!(names(&folder.path().join("d")), [""; 0]);
    problems.clear();
    begin(&mut target, &mut problems);
    std::fs::remove_file(folder.path().join("d/.onefold-restoring.0")).unwrap();
    target.abandon("because", &mut problems);
    let gone = "a part of it is left behind: No such file or directory (os error 2)";
    assert_eq!(said(&problems), ["d/f: because".to_owned(), format!("d/f: {gone}")]);
}

#[test]
fn files_are_given_away_by_who_may_and_it_is_told_where_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(target.gives_away, is_root);
    target.gives_away = true;
    let mut problems = Vec::new();
    let link = Kind::Symlink { target: b"nowhere".to_vec() };
    let (mut file, mut link) = (entry("f", Kind::File, 0o640), entry("l", link, 0o777));
    for entry in [&mut file, &mut link] {
        (entry.metadata.uid, entry.metadata.gid) = (4711, 4712);
    }
    target.begin(file, &mut problems).unwrap();
    target.end(&mut problems).unwrap();
    target.begin(link, &mut problems).unwrap();
    let owner = |name: &str| {
        let found = folder.path().join(name).symlink_metadata().unwrap();
        (found.uid(), found.gid())
    };
    if is_root {
        assert_eq!((owner("f"), owner("l")), ((4711, 4712), (4711, 4712)));
        assert_eq!(said(&problems), [""; 0]);
    } else {
        let why = "Operation not permitted (os error 1)";
        let expected = ["f", "l"].map(|name| format!("{name}: its owner cannot be set: {why}"));
        assert_eq!(said(&problems), expected);
        assert_eq!(names(folder.path()), ["f", "l"]);
    }
    // Nothing but files and folders has attributes of users.
    problems.clear();
    let mut pipe = entry("p", Kind::Fifo, 0o600);
    pipe.metadata.xattrs = vec![(b"user.x".to_vec(), b"1".to_vec())];
    assert!(target.begin(pipe, &mut problems).unwrap());
    assert_eq!(problems.len(), 1);
    assert!(problems[0].problem.starts_with("an extended attribute cannot be set: "));
}

#[test]
fn what_cannot_be_dressed_is_there_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::open(folder.path(), false).unwrap();
    let mut problems = Vec::new();
    let link = Kind::Symlink { target: b"nowhere".to_vec() };
    for (name, kind) in [("f", Kind::File), ("l", link), ("p", Kind::Fifo)] {
        let mut entry = entry(name, kind, 0o600);
        // No file system takes such a time; sshfs takes none for a link to nothing.
        entry.metadata.mtime_ns = 2_000_000_000;
        assert!(target.begin(entry, &mut problems).unwrap(), "{name}");
        target.end(&mut problems).unwrap();
    }
    let why = "its times cannot be set: Invalid argument (os error 22)";
    assert_eq!(said(&problems), ["f", "l", "p"].map(|name| format!("{name}: {why}")));
    assert_eq!(names(folder.path()), ["f", "l", "p"]);
}

#[test]
fn what_lies_in_a_folder_that_is_moved_away_is_named_and_goes_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    std::fs::create_dir_all(at("outside")).unwrap();
    let mut target = Target::open(&at("top"), false).unwrap();
    let mut problems = Vec::new();
    let (mut path, mut depths) = ("d".to_owned(), Vec::new());
    // More than are held open.
    for _ in 0..100 {
        let folder = entry(&path, Kind::Directory, 0o755);
        assert!(target.begin(folder, &mut problems).unwrap());
        depths.push(path.clone());
        path.push_str("/d");
    }
    assert_eq!(problems, []);
    // Neither `..` of the twentieth nor a way from the top leads to the nineteenth any more.
    for (depth, name) in [(20, "inner"), (19, "outer")] {
        std::fs::rename(at("top").join(&depths[depth]), at("outside").join(name)).unwrap();
    }
    let begin = |target: &mut Target, path: &str, problems: &mut Vec<Problem>| {
        let made = target.begin(entry(path, Kind::File, 0o644), problems).unwrap();
        target.end(problems).unwrap();
        made
    };
    // In the moved one that is still open, and in one that it was in.
    assert!(begin(&mut target, &format!("{}/file", depths[99]), &mut problems));
    assert_eq!(problems, []);
    let (there, lost) = (format!("{}/file", depths[18]), format!("{}/file", depths[19]));
    assert!(!begin(&mut target, &lost, &mut problems));
    let link = Kind::HardLink { target: lost.clone().into_bytes() };
    assert!(!target.begin(entry("d/e", link, 0o644), &mut problems).unwrap());
    assert_eq!((problems[0].path.as_str(), problems.len()), (&*depths[19], 3));
    assert_eq!((&*problems[1].path, &*problems[1].problem), (&*lost, MOVED));
    assert!(begin(&mut target, "d/file", &mut problems));
    target.finish(&mut problems);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(names(&at("outside/outer")), [""; 0]);
    assert_eq!(names(&at("top/d")), ["d", "file"]);
    assert!(!at("top").join(there).exists() && !at("top").join(&depths[19]).exists());
}

#[test]
fn what_a_store_calls_one_thing_and_is_not_or_is_not_there_any_more_is_made_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let inode = |name: &str| at(name).symlink_metadata().unwrap().ino();
    let mut target = Target::open(folder.path(), false).unwrap();
    let mut problems = Vec::new();
    let mut begin = |name: &str, to: &str, mtime_s: i64| {
        let kind = Kind::Symlink { target: to.as_bytes().to_vec() };
        let mut link = entry(name, kind, 0o777);
        (link.stamp.inode, link.metadata.mtime_s) = (7, mtime_s);
        assert!(target.begin(link, &mut problems).unwrap(), "{name}");
    };
    begin("a", "x", 5);
    begin("b", "x", 5);
    assert_eq!(inode("a"), inode("b"));
    // Not what the first one is, though it has its number.
    begin("c", "y", 5);
    begin("d", "x", 6);
    assert_eq!(std::fs::read_link(at("c")).unwrap().to_str(), Some("y"));
    assert!(inode("c") != inode("a") && inode("d") != inode("a"));
    // Somebody puts something else in the place of the first name, or takes it away.
    std::fs::remove_file(at("a")).unwrap();
    std::fs::write(at("a"), "of somebody else").unwrap();
    begin("e", "x", 5);
    std::fs::remove_file(at("a")).unwrap();
    begin("f", "x", 5);
    for name in ["e", "f"] {
        assert_eq!(std::fs::read_link(at(name)).unwrap().to_str(), Some("x"), "{name}");
        assert_eq!(at(name).symlink_metadata().unwrap().nlink(), 1, "{name}");
    }
    target.finish(&mut problems);
    assert_eq!(said(&problems), [""; 0]);
    assert_eq!(names(folder.path()), ["b", "c", "d", "e", "f"]);
}

#[test]
fn a_target_that_is_no_folder_is_told_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, "text").unwrap();
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    for path in [file, link] {
        for overwrite in [false, true] {
            let error = Target::open(&path, overwrite).err().unwrap();
            let expected = format!("'{}' is no folder to restore into", path.display());
            assert_eq!(error.to_string(), expected);
            assert!(matches!(error, ArchiveError::Setting(_)));
        }
    }
}
