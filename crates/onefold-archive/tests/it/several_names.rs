//! Symbolic links, pipes and devices that have several names.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use onefold_archive::browse::{BrowseMemory, Browser, Node};
use onefold_archive::tree::restore::{RestoreOptions, RestoreReport, restore};
use onefold_archive::tree::scan::{Root, ScanOptions, add_trees};
use onefold_archive::{AddOptions, Archive};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{new_archive, small};

/// Names of a link (`a`, `sub/b`, `sub/c`), of a pipe (`p`, `q`), and a link and a pipe that are
/// like them and have no other name.
fn make_tree(tree: &Path) {
    let at = |name: &str| tree.join(name);
    fs::create_dir_all(at("sub")).unwrap();
    symlink("nowhere", at("a")).unwrap();
    symlink("nowhere", at("alone")).unwrap();
    for name in ["p", "pipe"] {
        mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    for (first, other) in [("a", "sub/b"), ("a", "sub/c"), ("p", "q")] {
        fs::hard_link(at(first), at(other)).unwrap();
    }
}

fn archive_of(tree: &Path) -> Archive {
    let (_, mut archive) = new_archive(&small());
    let options = AddOptions { index_bytes: 1 << 20, ..AddOptions::default() };
    let mut adder = archive.add(options).unwrap();
    let root = Root { path: tree.to_path_buf(), stored: Vec::new() };
    let report = add_trees(&mut adder, &[root], &ScanOptions::default(), &mut |_| true).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    adder.commit().unwrap();
    archive
}

fn restore_to(archive: &Archive, paths: &[&str], to: &Path, overwrite: bool) -> RestoreReport {
    let version = archive.version(None).unwrap();
    let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
    let report = restore(archive, &version, &paths, to, &options, &mut |_| true).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    report
}

/// Which of these are names of one thing, by the first of its names, and how many it has.
fn names_of(at: &Path, names: &[&str]) -> Vec<String> {
    let inode = |name: &str| fs::symlink_metadata(at.join(name)).unwrap().ino();
    let first = |name: &str| names.iter().find(|first| inode(first) == inode(name)).unwrap();
    let links = |name: &str| fs::symlink_metadata(at.join(name)).unwrap().nlink();
    names.iter().map(|name| format!("{name} {} {}", first(name), links(name))).collect()
}

const ALL: [&str; 7] = ["a", "sub/b", "sub/c", "alone", "p", "q", "pipe"];

#[test]
fn names_of_one_link_or_pipe_are_such_again_after_a_restore() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, out) = (dir.path().join("tree"), dir.path().join("out"));
    make_tree(&tree);
    let archive = archive_of(&tree);
    let expected = ["a a 3", "sub/b a 3", "sub/c a 3", "alone alone 1", "p p 2", "q p 2"];
    let expected = [&expected[..], &["pipe pipe 1"]].concat();
    assert_eq!(names_of(&tree, &ALL), expected);
    // And once more over what is there.
    for overwrite in [false, true] {
        let report = restore_to(&archive, &[], &out, overwrite);
        assert_eq!(
            (report.entries, names_of(&out, &ALL)),
            (8, expected.iter().map(ToString::to_string).collect())
        );
        let times = |at: &Path| fs::symlink_metadata(at.join("sub/b")).unwrap().mtime_nsec();
        assert_eq!(times(&out), times(&tree));
        let left = fs::read_dir(&out).unwrap().chain(fs::read_dir(out.join("sub")).unwrap());
        assert_eq!(left.count(), 8, "and no other name is left behind");
    }
    // Of a part, those that are restored.
    let part = dir.path().join("part");
    restore_to(&archive, &["sub", "q"], &part, false);
    assert_eq!(
        names_of(&part, &["sub/b", "sub/c", "q"]),
        ["sub/b sub/b 2", "sub/c sub/b 2", "q q 1"]
    );
}

#[test]
fn names_of_one_link_or_pipe_are_one_thing_where_an_archive_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path());
    let browser = Browser::new(archive_of(dir.path()), BrowseMemory::default()).unwrap();
    let find = |folder: Node, name: &str| browser.find(folder, name.as_bytes()).unwrap().unwrap();
    let top = Node::Version(0);
    let sub = find(top, "sub").node;
    let first = find(top, "a");
    assert_eq!(first.links, 3);
    for name in ["b", "c"] {
        assert_eq!(find(sub, name), first);
    }
    assert_eq!(find(top, "q"), find(top, "p"));
    assert_eq!(find(top, "q").links, 2);
    for name in ["alone", "pipe"] {
        let alone = find(top, name);
        assert_eq!(alone.links, 1);
        assert!(alone.node != first.node && alone.node != find(top, "p").node);
    }
    assert_eq!(browser.node(first.node).unwrap(), first);
}
