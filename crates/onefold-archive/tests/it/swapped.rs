//! Trees that somebody changes while they are added: whatever takes the place of a folder or a file
//! at whatever moment, nothing from outside of the tree comes into the archive, and all else does.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use onefold_archive::tree::scan::{Problem, ScanOptions, add_trees, roots};
use onefold_archive::{AddOptions, Archive, ArchiveSettings, Entry, Kind, LockKind};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::support::{IDENTITY, Tree, read};

/// What only root may read.
const SECRET: &[u8] = b"for root only";
/// Moments at which a tree of these tests may change: there are fewer.
const MOMENTS_MAX: u32 = 200;

/// A tree beside a folder that is none of its business, with the same names in both.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir };
        for (top, content) in [("tree/b", &b"mine"[..]), ("outside", SECRET)] {
            let top = place.at(top);
            fs::create_dir_all(top.join("sub")).unwrap();
            for file in ["file", "sub/file", "sub/other"] {
                fs::write(top.join(file), content).unwrap();
                fs::set_permissions(top.join(file), Permissions::from_mode(0o644)).unwrap();
            }
            symlink(std::ffi::OsStr::from_bytes(content), top.join("link")).unwrap();
            for path in ["", "file", "sub", "sub/file"] {
                // Where the file system has none, none can come from there.
                let none = XattrFlags::empty();
                let _ = rustix::fs::setxattr(top.join(path), "user.x", content, none);
            }
        }
        fs::write(place.at("tree/a"), "first").unwrap();
        fs::write(place.at("tree/z"), "last").unwrap();
        place
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.dir.path().join(path)
    }
}

/// What came into an archive.
struct Added {
    tree: Tree,
    /// Each path below the tree, and what is said of it.
    problems: Vec<(String, String)>,
    entries: Vec<Entry>,
}

impl Added {
    fn content(&self, path: &str) -> Option<&[u8]> {
        self.tree.get(path.as_bytes())?.as_deref()
    }

    /// The targets of links, and the values of attributes.
    fn sayings(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().flat_map(|entry| {
            let target = match &entry.kind {
                Kind::Symlink { target } => Some(&target[..]),
                _ => None,
            };
            target.into_iter().chain(entry.metadata.xattrs.iter().map(|(_, value)| &value[..]))
        })
    }
}

/// Add the tree, and call `change` when the scan asks for the `moment`th time whether to go on;
/// `None` if it asks less often.
fn added(place: &Place, moment: u32, change: &dyn Fn()) -> Option<Added> {
    let store = tempfile::tempdir().unwrap();
    Archive::create_at(store.path(), &ArchiveSettings::default(), IDENTITY, None, None).unwrap();
    let mut archive = Archive::open_at(store.path(), LockKind::Add).unwrap();
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let mut top = roots(&[place.at("tree")]).unwrap();
    top[0].stored = b"t".to_vec();
    let mut asked = 0;
    let report = add_trees(&mut adder, &top, &ScanOptions::default(), &mut |_| {
        if asked == moment {
            change();
        }
        asked += 1;
        true
    });
    let report = report.unwrap();
    if asked <= moment {
        return None;
    }
    adder.commit().unwrap();
    let below = place.at("tree");
    let problems = report.problems.into_iter().map(|Problem { path, problem }| {
        let path = Path::new(&path).strip_prefix(&below).unwrap().to_str().unwrap().to_owned();
        (path, problem)
    });
    let version = archive.version(None).unwrap();
    let entries = (0..version.len()).map(|index| version.entry(index).unwrap()).collect();
    let tree = read(&archive, 1).unwrap();
    Some(Added { tree, problems: problems.collect(), entries })
}

/// Change a tree at each moment in turn.
fn at_each_moment(change: &dyn Fn(&Place), check: &dyn Fn(u32, &Added)) {
    for moment in 0..MOMENTS_MAX {
        let place = Place::new();
        let Some(added) = added(&place, moment, &|| change(&place)) else {
            assert!(moment > 5, "there are more moments than {moment}");
            return;
        };
        let secret = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET);
        for (path, content) in &added.tree {
            let path = path.escape_ascii();
            assert!(!content.as_deref().is_some_and(secret), "moment {moment}: {path}");
        }
        assert!(!added.sayings().any(secret), "moment {moment}");
        // Whatever happens to one folder, what is beside it is kept.
        for (path, content) in [("t/a", "first"), ("t/z", "last")] {
            assert_eq!(added.content(path), Some(content.as_bytes()), "moment {moment}: {path}");
        }
        check(moment, &added);
    }
    panic!("there are more than {MOMENTS_MAX} moments");
}

/// Put a link to what lies outside in the place of something, which goes out of the tree.
fn link_in_place_of(place: &Place, path: &str, to: &str) {
    fs::rename(place.at(path), place.at("gone")).unwrap();
    symlink(place.at(to), place.at(path)).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_folder_is_never_followed() {
    for (path, to) in [("tree/b", "outside"), ("tree/b/sub", "outside/sub")] {
        at_each_moment(&|place| link_in_place_of(place, path, to), &|moment, added| {
            // It is stored as the folder that it was or as the link that it is, or is named.
            let sub = added.content("t/b/sub/file") == Some(b"mine");
            let link = added.sayings().any(|said| said.ends_with(to.as_bytes()));
            let named = added.problems.iter().any(|(path, _)| path.starts_with('b'));
            assert!(sub || link || named, "{path} at moment {moment}: {:?}", added.problems);
        });
    }
}

#[test]
fn what_takes_the_place_of_a_file_is_neither_followed_nor_waited_for() {
    let pipe = |place: &Place| {
        fs::remove_file(place.at("tree/b/file")).unwrap();
        let (path, mode) = (place.at("tree/b/file"), Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
    };
    let link = |place: &Place| link_in_place_of(place, "tree/b/file", "outside/file");
    let changes: [&dyn Fn(&Place); 2] = [&pipe, &link];
    for change in changes {
        let named = Cell::new(0);
        at_each_moment(change, &|moment, added| {
            let told: Vec<_> = added.problems.iter().map(|(p, said)| (&**p, &**said)).collect();
            let why = "it changed while it was read: it is no file any more";
            if told == [("b/file", why)] {
                assert_eq!(added.content("t/b/file"), None, "moment {moment}");
                named.set(named.get() + 1);
            } else {
                assert_eq!(told, [], "moment {moment}");
            }
        });
        assert!(named.get() > 0, "there is a moment between finding and opening a file");
    }
}

#[test]
fn a_file_in_the_place_of_another_one_is_stored_with_its_own_rights() {
    let change = |place: &Place| {
        let other = place.at("other");
        fs::write(&other, "of another one").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        let _ = rustix::fs::setxattr(&other, "user.x", b"other", XattrFlags::empty());
        fs::rename(&other, place.at("tree/b/file")).unwrap();
    };
    let named = Cell::new(0);
    at_each_moment(&change, &|moment, added| {
        let entry = added.entries.iter().find(|entry| entry.path == b"t/b/file").unwrap();
        let content = added.content("t/b/file").unwrap();
        let attribute = entry.metadata.xattrs.first().map(|(_, value)| &value[..]);
        let (mode, expected) = if content == b"mine" {
            (0o644, &b"mine"[..])
        } else {
            assert_eq!(content, b"of another one", "moment {moment}");
            (0o600, &b"other"[..])
        };
        assert_eq!(entry.metadata.mode, mode, "moment {moment}");
        assert!(attribute.is_none_or(|found| found == expected), "moment {moment}");
        if !added.problems.is_empty() {
            let why = "it changed while it was read; stored as it was found";
            assert_eq!(added.problems, [("b/file".to_owned(), why.to_owned())]);
            named.set(named.get() + 1);
        }
    });
    assert!(named.get() > 0, "there is a moment between finding and opening a file");
}

#[test]
fn a_folder_that_is_moved_out_of_the_tree_does_not_lead_out_of_it() {
    for path in ["tree/b", "tree/b/sub"] {
        let change = |place: &Place| {
            // Where `..` of it leads, there is something of each name.
            fs::rename(place.at(path), place.at("outside/moved")).unwrap();
        };
        at_each_moment(&change, &|moment, added| {
            let whole = added.content("t/b/sub/file") == Some(b"mine")
                && added.content("t/b/sub/other") == Some(b"mine");
            let gone = !added.tree.contains_key(&b"t/b/sub"[..]);
            let named = !added.problems.is_empty();
            assert!(whole || gone || named, "{path} at moment {moment}");
        });
    }
}
