//! A file that a command writes: it appears under its name when it is whole, or not at all.
//! Room: onefold.
//! Invariant: what stood under the name before is there, whole, until the new file is durable.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_block::set_mode;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::failure::{Failure, Result};

/// Longest name in bytes that can be part of a temporary one.
const NAME_BYTES_MAX: usize = 200;

/// Something that is being written.
pub struct Unfinished {
    number: u64,
    /// How people know it.
    pub path: PathBuf,
    /// The file that is to become it; none if it is written in place.
    pub temporary: Option<PathBuf>,
}

/// What this process is writing; whoever ends it takes files away and names the rest.
pub static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

/// Keeps something on the list of what is being written.
#[derive(Debug)]
pub struct Listed(u64);

impl Listed {
    /// Something that is written where it is, such as a device or a pipe.
    pub fn in_place(path: &Path) -> Self {
        Self::add(path, None)
    }

    fn add(path: &Path, temporary: Option<PathBuf>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        unfinished().push(Unfinished { number, path: path.to_owned(), temporary });
        Self(number)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().retain(|other| other.number != self.0);
    }
}

/// A file that is being written. Dropped before [`OutFile::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A file of its own, and where it goes.
    Whole { file: NamedTempFile, goes_to: PathBuf, replaces: bool, listed: Listed },
    /// A pipe or a device: there is nothing to rename.
    Special { file: File, _listed: Listed },
}

impl OutFile {
    /// Begin a file. What exists is refused unless `force`.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let unusable = |error| Failure::unusable("write", path, error);
        let at = path.display();
        let existing = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(error)),
        };
        if existing.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(
                Failure::nothing_done(format!("'{at}' is a folder")).hint("name a file in it")
            );
        }
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            let file = OpenOptions::new().write(true).open(path).map_err(unusable)?;
            return Ok(Self {
                path: path.to_owned(),
                kind: Kind::Special { file, _listed: Listed::in_place(path) },
            });
        }
        if existing.is_some() && !force {
            return Err(Failure::nothing_done(format!("'{at}' exists already"))
                .hint("--force overwrites it"));
        }
        // The file behind a link is replaced, not the link.
        let goes_to = match &existing {
            Some(_) => path.canonicalize().map_err(unusable)?,
            None => path.to_owned(),
        };
        let file = beside(&goes_to).map_err(unusable)?;
        if let Some(existing) = &existing {
            set_mode(file.as_file(), existing.permissions().mode()).map_err(unusable)?;
        }
        let listed = Listed::add(path, Some(file.path().to_owned()));
        let kind = Kind::Whole { file, goes_to, replaces: existing.is_some(), listed };
        Ok(Self { path: path.to_owned(), kind })
    }

    /// Begin a file that nobody but its owner may read.
    pub fn create_private(path: &Path, force: bool) -> Result<Self> {
        let file = Self::create(path, force)?;
        if let Kind::Whole { file, .. } = &file.kind {
            let unusable = |error| Failure::unusable("write", path, error);
            set_mode(file.as_file(), 0o600).map_err(unusable)?;
            if file.as_file().metadata().map_err(unusable)?.mode() & 0o007 != 0 {
                tracing::warn!(
                    "every user of this machine can read '{}': its file system keeps no rights",
                    path.display()
                );
            }
        }
        Ok(file)
    }

    /// The open file, under whatever name it has now.
    pub fn file(&self) -> &File {
        match &self.kind {
            Kind::Whole { file, .. } => file.as_file(),
            Kind::Special { file, .. } => file,
        }
    }

    /// Make it durable, and give it its name.
    pub fn finish(self) -> Result<()> {
        let Self { path, kind } = self;
        let Kind::Whole { file, goes_to, replaces, listed } = kind else { return Ok(()) };
        let broke = |error: std::io::Error| Failure::broke("write", &path, error);
        file.as_file().sync_all().map_err(broke)?;
        {
            // Whoever ends the process finds it on the list, or with its name.
            let mut unfinished = unfinished();
            rename(file.path(), &goes_to, replaces).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    let at = path.display();
                    Failure::bad(format!("'{at}' was made by another process meanwhile"))
                        .hint("--force overwrites it")
                }
                _ => broke(error),
            })?;
            unfinished.retain(|other| other.number != listed.0);
        }
        let folder = folder(&goes_to);
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| Failure::broke("sync names in", folder, error))
    }
}

/// Rename a file; unless `replaces`, no other one may have the name.
fn rename(from: &Path, to: &Path, replaces: bool) -> std::io::Result<()> {
    let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        // Some file systems cannot refuse to replace; there was no such file a moment ago.
        Err(Errno::INVAL | Errno::NOSYS) => Ok(rustix::fs::renameat(CWD, from, CWD, to)?),
        renamed => Ok(renamed?),
    }
}

impl Write for OutFile {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.file().write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Write a whole file at once.
pub fn write(path: &Path, content: impl AsRef<[u8]>, force: bool) -> Result<()> {
    let mut file = OutFile::create(path, force)?;
    file.write_all(content.as_ref()).map_err(|error| Failure::broke("write", path, error))?;
    file.finish()
}

fn unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file beside `path`, whose name says what it is a part of should it ever be left.
fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default();
    let mut prefix = std::ffi::OsString::from(".");
    if name.len() <= NAME_BYTES_MAX {
        prefix.push(name);
        prefix.push(".");
    }
    // Opened here, as errors of the library tell a temporary name that is nobody's matter.
    let open = |path: &Path| {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path)
    };
    tempfile::Builder::new().prefix(&prefix).suffix(".partial").make_in(folder(path), open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let mut file = OutFile::create(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        let [temporary] = &*names(folder.path()) else { panic!("one file") };
        assert!(temporary.starts_with(".out.csv.") && temporary.ends_with(".partial"));
        drop(file);
        assert!(names(folder.path()).is_empty());
        assert!(UNFINISHED.lock().unwrap().iter().all(|file| file.path != path));
        write(&path, "whole", false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert!(OutFile::create(&path, false).unwrap_err().message.contains("exists already"));
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn a_file_is_listed_while_it_is_written_and_has_the_rights_of_any_new_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let listed = |path: &Path| unfinished().iter().filter(|other| other.path == path).count();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (plain, made) = (folder.path().join("plain"), folder.path().join("made"));
        std::fs::write(&plain, "").unwrap();
        let file = OutFile::create(&made, false).unwrap();
        assert_eq!(listed(&made), 1);
        file.finish().unwrap();
        assert_eq!((listed(&made), mode(&made)), (0, mode(&plain)));
        let private = OutFile::create_private(&made, true).unwrap();
        private.finish().unwrap();
        assert_eq!(mode(&made), 0o600);
        // A device is written where it is, and is there before and after.
        let null = Path::new("/dev/null");
        let mut device = OutFile::create(null, false).unwrap();
        device.write_all(b"anything").unwrap();
        assert_eq!(listed(null), 1);
        device.finish().unwrap();
        assert_eq!(listed(null), 0);
        let refused = OutFile::create(folder.path(), true).unwrap_err();
        assert!(refused.message.ends_with("is a folder"), "{}", refused.message);
        // Names that leave no room for more begin with nothing of theirs.
        for (length, is_part) in [(200, true), (201, false)] {
            let file = OutFile::create(&folder.path().join("n".repeat(length)), false).unwrap();
            let begun = names(folder.path()).iter().any(|name| name.starts_with(".nnn"));
            assert_eq!(begun, is_part);
            drop(file);
        }
        assert_eq!(
            [self::folder(Path::new("x")), self::folder(Path::new("a/x"))],
            [".", "a"].map(Path::new)
        );
    }

    #[test]
    fn what_is_replaced_keeps_its_rights_and_its_links_and_a_rival_wins() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("old"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("old", &link).unwrap();
        write(&link, "new", true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());

        let path = folder.path().join("raced");
        let file = OutFile::create(&path, false).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        let failure = file.finish().unwrap_err();
        assert!(failure.message.contains("meanwhile"), "{}", failure.message);
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["link", "old", "raced"]);
    }
}
