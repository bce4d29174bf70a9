//! Making the folder of a store: its owner's alone, or shared with one group.
//! Room: onefold.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use onefold_block::{FileFolder, Group};

use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Make the folder, or take one that is there. An empty one is closed to everybody else; one that
/// holds something is left as it is, for whoever knows what belongs there.
pub fn make(path: &Path, group: Option<Group>) -> Result<FileFolder> {
    let refused = |error| Failure::nothing_done(format!("{error}"));
    let mut folder = FileFolder::create(path).map_err(refused)?;
    let empty = std::fs::read_dir(path)
        .map_err(|error| Failure::unusable("list", path, error))?
        .next()
        .is_none();
    if empty {
        folder.restrict(group).map_err(refused)?;
    }
    Ok(folder)
}

/// Folders that are to be made, with those above them that are missing. What is still empty of them
/// goes again when this is dropped, unless it was said that all is done.
pub struct Making(Vec<PathBuf>);

impl Making {
    /// Of these.
    pub fn begin<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let above = folders.into_iter().flat_map(Path::ancestors);
        let missing = above.filter(|at| !at.as_os_str().is_empty() && !at.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        // What is in a folder goes before it.
        missing.sort_by_key(|at| Reverse(at.components().count()));
        Self(missing)
    }

    /// They stay.
    pub fn done(mut self) {
        self.0.clear();
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        for folder in &self.0 {
            // It was never made, or there is something in it.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Refuse to make a store where one that is there must have been meant: `must_exist` was said, or
/// the folder in which it would be made is missing, too. A folder that cannot be looked into may
/// hold one.
pub fn may_be_made(path: &Path, store: &str, must_exist: bool) -> Result<()> {
    let at = path.display();
    match std::fs::read_dir(path) {
        Err(error) if ![ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Err(Failure::unusable("open", path, error));
        }
        _ => {}
    }
    if must_exist {
        let message = format!("there is no {store} '{at}', and --must-exist makes none");
        return Err(Failure::nothing_done(message)
            .hint("where it has a disk of its own, see whether that is mounted"));
    }
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() && !above.exists() => {
            let above = above.display();
            let message =
                format!("there is no folder '{above}' in which a new {store} '{at}' could be made");
            Err(Failure::nothing_done(message)
                .hint(format!("if the path is right, make that first: mkdir -p '{above}'")))
        }
        _ => Ok(()),
    }
}

/// Warn if others can get into the folder of a new store, or of its cache, all the same: FAT and
/// exFAT keep no rights, and some file systems take them without a word.
pub fn tell_if_open(store: &Path, cache: Option<&Path>, printer: &Printer) {
    for path in [Some(store), cache].into_iter().flatten() {
        if std::fs::metadata(path).is_ok_and(|folder| folder.mode() & 0o007 != 0) {
            printer.warning(&format!(
                "every user of this machine can get into '{}': its file system keeps no rights but \
                 those that it was mounted with",
                path.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_store_is_made_by_the_way_only_where_nothing_else_can_be_meant() {
        let at = tempfile::tempdir().unwrap();
        let said = |path: &Path, must_exist| {
            may_be_made(path, "pool", must_exist).err().map(|failure| failure.message)
        };
        let (new, deep) = (at.path().join("new"), at.path().join("none/new"));
        for path in [&new, at.path(), Path::new("new"), Path::new("/")] {
            assert_eq!(said(path, false), None);
        }
        let at = at.path().display();
        let folder = format!(
            "there is no folder '{at}/none' in which a new pool '{at}/none/new' could be made"
        );
        assert_eq!(said(&deep, false), Some(folder));
        let none = format!("there is no pool '{at}/new', and --must-exist makes none");
        assert_eq!(said(&new, true), Some(none));
        // Root may look everywhere; a link that leads to itself stops everybody.
        std::os::unix::fs::symlink(&deep, &new).unwrap();
        std::os::unix::fs::symlink(&new, new.with_file_name("none")).unwrap();
        for must_exist in [false, true] {
            let said = said(&new, must_exist).unwrap();
            assert!(said.starts_with(&format!("cannot open '{at}/new': ")), "{said}");
        }
    }

    #[test]
    fn folders_that_were_made_for_nothing_go_again_and_no_others() {
        let at = tempfile::tempdir().unwrap();
        let [store, cache, used] =
            ["new/a/store", "new/b", "used"].map(|name| at.path().join(name));
        std::fs::create_dir(&used).unwrap();
        let make = || {
            for folder in [&store, &cache] {
                std::fs::create_dir_all(folder).unwrap();
            }
            Making::begin([&*store, &*cache, &*used]);
        };
        make();
        assert!(store.exists() && cache.exists(), "they were there before");
        std::fs::remove_dir_all(at.path().join("new")).unwrap();
        let making = Making::begin([&*store, &*cache, &*used]);
        make();
        drop(making);
        let names = |at: &Path| std::fs::read_dir(at).unwrap().count();
        assert!(names(at.path()) == 1 && used.exists());
        // What holds something stays, with what is above it.
        let making = Making::begin([&*store, &*cache, &*used]);
        make();
        std::fs::write(store.join("file"), "").unwrap();
        drop(making);
        assert!(store.exists() && !cache.exists());
        let making = Making::begin([&*cache]);
        make();
        making.done();
        assert!(cache.exists());
    }

    #[test]
    fn a_new_folder_is_closed_to_others_and_one_that_holds_something_is_left_as_it_is() {
        let at = tempfile::tempdir().unwrap();
        let others = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077;
        let (new, used) = (at.path().join("new"), at.path().join("used"));
        make(&new, None).unwrap();
        assert_eq!(others(&new), 0);
        std::fs::create_dir(&used).unwrap();
        std::fs::set_permissions(&used, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(used.join("file"), "").unwrap();
        make(&used, None).unwrap();
        assert_eq!(others(&used), 0o055);

        let printer = Printer::kept(false);
        for (store, cache) in [(&new, Some(&*used)), (&used, None), (&at.path().join("no"), None)] {
            tell_if_open(store, cache, &printer);
        }
        let told = printer.told();
        let expected = format!("every user of this machine can get into '{}': ", used.display());
        assert_eq!(told.matches(&expected).count(), 2, "{told}");
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}
