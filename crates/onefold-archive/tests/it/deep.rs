//! Trees that are deeper than a path may be long.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;

use onefold_archive::tree::restore::{RestoreOptions, restore};
use onefold_archive::tree::scan::{ScanOptions, add_trees, measure, roots};
use onefold_archive::{AddOptions, Archive, ArchiveSettings, LockKind};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::support::{IDENTITY, read};

fn open(at: &OwnedFd, name: &str) -> OwnedFd {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty()).unwrap()
}

/// Folders in each other, with a file in the last one.
struct Deep {
    dir: tempfile::TempDir,
    top: &'static str,
    name: String,
    levels: usize,
}

impl Deep {
    fn top(&self) -> OwnedFd {
        File::open(self.dir.path().join(self.top)).unwrap().into()
    }

    fn new(name: String, levels: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        let deep = Self { dir, top: "tree", name, levels };
        let mut at = deep.top();
        for _ in 0..levels {
            rustix::fs::mkdirat(&at, &deep.name, Mode::RWXU).unwrap();
            at = open(&at, &deep.name);
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&at, "file", flags, Mode::RUSR).unwrap();
        rustix::io::write(&file, b"deepest").unwrap();
        deep
    }

    /// Take it away from its end: what removes trees by path, or with a handle for each folder,
    /// does not get there. Answers what the file held.
    fn remove(&self) -> Vec<u8> {
        let mut at = self.top();
        for _ in 0..self.levels {
            at = open(&at, &self.name);
        }
        let file = rustix::fs::openat(&at, "file", OFlags::RDONLY, Mode::empty()).unwrap();
        let mut content = vec![0; 100];
        let len = rustix::io::read(&file, &mut content[..]).unwrap();
        content.truncate(len);
        drop(file);
        rustix::fs::unlinkat(&at, "file", AtFlags::empty()).unwrap();
        for _ in 0..self.levels {
            at = open(&at, "..");
            rustix::fs::unlinkat(&at, &self.name, AtFlags::REMOVEDIR).unwrap();
        }
        content
    }
}

fn add(store: &Path, tree: &Path) -> (Archive, Vec<String>) {
    Archive::create_at(store, &ArchiveSettings::default(), IDENTITY, None, None).unwrap();
    let mut archive = Archive::open_at(store, LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions { allow_empty: true, ..AddOptions::default() }).unwrap();
    let mut top = roots(&[tree.to_owned()]).unwrap();
    top[0].stored = b"t".to_vec();
    let options = ScanOptions::default();
    assert!(measure(&top, &options, &|| false).is_some());
    let report = add_trees(&mut adder, &top, &options, &mut |_| true).unwrap();
    adder.commit().unwrap();
    (archive, report.problems.into_iter().map(|told| told.problem).collect())
}

#[test]
fn a_tree_that_is_deeper_than_a_path_is_long_comes_back() {
    let (levels, store, out) = (3000, tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tree = Deep::new("d".to_owned(), levels);
    let (archive, problems) = add(store.path(), &tree.dir.path().join("tree"));
    assert_eq!((problems, tree.remove()), (vec![], b"deepest".to_vec()));
    let version = archive.version(None).unwrap();
    let options = RestoreOptions::default();
    let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
    let restored = Deep { dir: out, top: "t", name: "d".to_owned(), levels };
    assert_eq!((report.problems, restored.remove()), (vec![], b"deepest".to_vec()));
}

#[test]
fn a_folder_whose_path_is_too_long_is_named_and_not_gone_into() {
    let store = tempfile::tempdir().unwrap();
    let tree = Deep::new("n".repeat(254), 200);
    let (archive, problems) = add(store.path(), &tree.dir.path().join("tree"));
    assert_eq!(tree.remove(), b"deepest");
    assert_eq!(problems, ["cannot list it: File name too long (os error 36)"]);
    // Of the tree and 255 bytes for each folder: one more would have no room for a name.
    let longest = read(&archive, 1).unwrap().keys().map(Vec::len).max().unwrap();
    assert_eq!(longest, 1 + 128 * 255);
}
