//! The folder that is restored into: folders, files and links, made by handles and never by path.
//! Room: onefold-archive.
//! Invariants: (1) a folder's times and rights are set when nothing more comes into it  (2) a path
//! has its own name only once it is whole: until then it has a name that begins with
//! `.onefold-restoring`, and what it replaces stays.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::chunk_bytes::ChunkBytes;
use crate::error::ArchiveError;
use crate::format::entry::{Entry, Kind, Metadata, is_within};
use crate::tree::dress::{dress, dress_by_name};
use crate::tree::folders::{Folders, let_owner_in, open_folder, open_up};
use crate::tree::made::Made;
use crate::tree::open_file::OpenFile;
use crate::tree::other_name::{exists, make_special, rename, under_other_name, what_is_at};
use crate::tree::scan::Problem;
use crate::tree::status::{Id, Status};

/// The rights of a folder of which the version does not say any; less the umask.
const USUAL: Mode = Mode::from_raw_mode(0o777);

const HAS_TOP: &str = "the target stays open";
const MOVED: &str = "it, or a folder that it lies in, was moved away while it was restored";
const SAME_NAME: &str = "the file system takes its name for that of another path of the version, \
                         which is restored already";
const SAME_FOLDER: &str = "the file system takes its name for that of another folder: what is in \
                           both goes there";

/// Where restored paths go.
pub struct Target {
    /// The target, and the folders in it that lead to where it is.
    folders: Folders<OpenFolder>,
    /// The path of the last of these in the version.
    path: Vec<u8>,
    /// A folder that was moved away while it was filled: nothing more can be put into it.
    lost: Option<Vec<u8>>,
    file: Option<OpenFile>,
    /// Files that could not be restored: what has their names was there before.
    missed: HashSet<Vec<u8>>,
    overwrite: bool,
    /// Only root may give files away.
    gives_away: bool,
}

struct OpenFolder {
    /// Length of its path in the version.
    len: usize,
    /// Set if the version holds the folder itself.
    metadata: Option<Metadata>,
    /// What was made in it, if what was there before is replaced.
    made: Made,
}

impl OpenFolder {
    fn new(len: usize) -> Self {
        Self { len, metadata: None, made: Made::default() }
    }
}

/// The folder and the name of a path.
fn split(path: &[u8]) -> (&[u8], &OsStr) {
    let (folder, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    (folder, OsStr::from_bytes(name))
}

pub fn problem(path: &[u8], problem: &dyn Display, problems: &mut Vec<Problem>) {
    let path = String::from_utf8_lossy(path).into_owned();
    problems.push(Problem { path, problem: problem.to_string() });
}

/// A name in a form that the system takes without copying it.
fn c_name(name: &[u8]) -> rustix::io::Result<CString> {
    CString::new(name).map_err(|_| Errno::INVAL)
}

impl Target {
    /// The folder at `path`, which is made if it is missing, and empty unless `overwrite`.
    pub fn open(path: &Path, overwrite: bool) -> Result<Self, ArchiveError> {
        let refused =
            |error: io::Error| ArchiveError::io(format!("open {}", path.display()), error);
        std::fs::create_dir_all(path).map_err(refused)?;
        let name = c_name(path.as_os_str().as_bytes()).map_err(|e| refused(e.into()))?;
        let root = open_folder(CWD, &name, true).map_err(|e| refused(e.into()))?;
        let mut listed = Dir::read_from(&root).map_err(|e| refused(e.into()))?;
        let holds = listed.find_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            (name != "." && name != "..").then_some(name)
        });
        if let Some(name) = holds.filter(|_| !overwrite) {
            return Err(ArchiveError::Setting(format!(
                "'{}' is not empty: it holds '{name}'",
                path.display()
            )));
        }
        let gives_away = rustix::process::geteuid().is_root();
        let id = Status::of(&root).map_err(|e| refused(e.into()))?.id;
        let mut folders = Folders::new();
        folders.enter(root, id, name, OpenFolder::new(0));
        Ok(Self {
            folders,
            path: Vec::new(),
            lost: None,
            file: None,
            missed: HashSet::new(),
            overwrite,
            gives_away,
        })
    }

    /// A path comes; answers whether it could be made. A file's content follows by
    /// [`Target::write`] and [`Target::end`].
    pub fn begin(
        &mut self,
        entry: Entry,
        problems: &mut Vec<Problem>,
    ) -> Result<bool, ArchiveError> {
        assert!(self.file.is_none(), "a file ends before the next path comes");
        let path = entry.path.clone();
        if let Kind::HardLink { target } = &entry.kind
            && self.missed.contains(target)
        {
            let first = String::from_utf8_lossy(target);
            let why = format!("it is another name of '{first}', which could not be restored");
            problem(&path, &why, problems);
            return Ok(false);
        }
        let is_file = entry.kind == Kind::File;
        let is_folder = entry.kind == Kind::Directory;
        self.leave_for(if is_folder { &path } else { split(&path).0 }, problems);
        let made = match &self.lost {
            Some(lost) if is_within(&path, lost) => {
                problem(&path, &MOVED, problems);
                if is_file {
                    self.missed.insert(path);
                }
                return Ok(false);
            }
            _ => self.make(entry, problems),
        };
        if made.is_err() && is_file {
            self.missed.insert(path.clone());
        }
        match made {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(ArchiveError::NoSpace(format!(
                "restoring '{}'",
                String::from_utf8_lossy(&path)
            ))),
            Err(Errno::EXIST) => {
                problem(&path, &"it exists already", problems);
                Ok(false)
            }
            Err(Errno::NOTUNIQ) => {
                problem(&path, &SAME_NAME, problems);
                Ok(false)
            }
            Err(errno) => {
                problem(&path, &io::Error::from(errno), problems);
                Ok(false)
            }
        }
    }

    fn make(&mut self, entry: Entry, problems: &mut Vec<Problem>) -> rustix::io::Result<()> {
        if entry.kind == Kind::Directory {
            // Nobody else is let in before it has its own rights.
            self.enter(&entry.path, Mode::RWXU, problems)?;
            let (_, folder) = self.folders.last().expect("it was just entered");
            folder.metadata = Some(entry.metadata);
            return Ok(());
        }
        let (folder, name) = split(&entry.path);
        self.enter(folder, USUAL, problems)?;
        if let Some(there) = what_is_at(self.last(), name)? {
            if !self.overwrite {
                return Err(Errno::EXIST);
            }
            if self.is_made_here(name, there)? {
                return Err(Errno::NOTUNIQ);
            }
        }
        let at = self.last();
        let mode = Mode::RUSR | Mode::WUSR;
        let kind = &entry.kind;
        if *kind == Kind::File {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let (file, other) =
                under_other_name(name, |other| rustix::fs::openat(at, other, flags, mode))?;
            self.file = Some(OpenFile::new(entry, file.into(), other));
            return Ok(());
        }
        let special = |other: &OsStr, kind, number| {
            make_special(at, other, || rustix::fs::mknodat(at, other, kind, mode, number))
        };
        let ((), other) = under_other_name(name, |other| match kind {
            Kind::HardLink { target } => {
                let (folder, from) = split(target);
                let folder = self.walk(folder)?;
                let from_at = folder.as_ref().map_or(self.top(), |folder| folder.as_fd());
                rustix::fs::linkat(from_at, from, at, other, AtFlags::empty())
            }
            Kind::Symlink { target } => rustix::fs::symlinkat(OsStr::from_bytes(target), at, other),
            Kind::Fifo => special(other, FileType::Fifo, 0),
            Kind::CharDevice { number } => special(other, FileType::CharacterDevice, *number),
            Kind::BlockDevice { number } => special(other, FileType::BlockDevice, *number),
            Kind::File | Kind::Directory => unreachable!("handled above"),
        })?;
        // The file that it is another name of has all that is set here.
        if !matches!(kind, Kind::HardLink { .. }) {
            dress_by_name(at, &other, &entry, self.gives_away, problems);
        }
        let done = rename(at, &other, name, self.overwrite);
        // Of two names of one file a rename leaves both. A second failure tells no more than the
        // first.
        if done.is_err() || matches!(kind, Kind::HardLink { .. }) {
            let _ = rustix::fs::unlinkat(at, &other, AtFlags::empty());
        }
        done?;
        if self.overwrite
            && let Some(made) = what_is_at(at, name)?
        {
            self.remember(name, made);
        }
        Ok(())
    }

    /// Whether what has a name in the last folder was made there by this restore.
    fn is_made_here(&mut self, name: &OsStr, found: Id) -> rustix::io::Result<bool> {
        let (at, folder) = self.folders.last().expect(HAS_TOP);
        folder.made.holds(at, name, found)
    }

    /// That was made in the last folder, and is not to be replaced.
    fn remember(&mut self, name: &OsStr, id: Id) {
        if let Some((_, folder)) = self.folders.last().filter(|_| self.overwrite) {
            folder.made.add(name, id);
        }
    }

    /// The next bytes of the file; dropped if it could not be made. They are written with those
    /// that follow.
    pub fn write(
        &mut self,
        data: ChunkBytes,
        sparse: bool,
        problems: &mut Vec<Problem>,
    ) -> Result<(), ArchiveError> {
        let Some(open) = &mut self.file else { return Ok(()) };
        let done = if sparse && data.are_zeroes() { open.skip(data.len()) } else { open.put(data) };
        self.settle(done, problems)
    }

    /// Give the file up if `done` failed; a full disk ends the whole restore.
    fn settle(
        &mut self,
        done: io::Result<()>,
        problems: &mut Vec<Problem>,
    ) -> Result<(), ArchiveError> {
        let Err(error) = done else { return Ok(()) };
        let full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        self.abandon(&error.to_string(), problems);
        if full { Err(ArchiveError::NoSpace("restoring".to_owned())) } else { Ok(()) }
    }

    /// The file cannot be had whole: take away what there is of it, and say why.
    pub fn abandon(&mut self, why: &str, problems: &mut Vec<Problem>) {
        if let Some(open) = self.file.take() {
            self.take_away(&open, why, problems);
        }
    }

    fn take_away(&mut self, open: &OpenFile, why: &str, problems: &mut Vec<Problem>) {
        self.missed.insert(open.entry.path.clone());
        problem(&open.entry.path, &why, problems);
        if let Err(errno) = rustix::fs::unlinkat(self.last(), &open.name, AtFlags::empty()) {
            let why = format!("a part of it is left behind: {}", io::Error::from(errno));
            problem(&open.entry.path, &why, problems);
        }
    }

    /// The folder that was entered last.
    fn last(&self) -> BorrowedFd<'_> {
        self.folders.handle().expect(HAS_TOP)
    }

    /// The target itself.
    fn top(&self) -> BorrowedFd<'_> {
        self.folders.first().expect(HAS_TOP)
    }

    /// The file is complete.
    pub fn end(&mut self, problems: &mut Vec<Problem>) -> Result<(), ArchiveError> {
        let Some(open) = &mut self.file else { return Ok(()) };
        if open.len != open.entry.recipe.size {
            let why = format!("it has {} bytes, not {}", open.len, open.entry.recipe.size);
            self.abandon(&why, problems);
            return Ok(());
        }
        let done = open.complete();
        self.settle(done, problems)?;
        let Some(open) = self.file.take() else { return Ok(()) };
        let (path, metadata) = (&open.entry.path, &open.entry.metadata);
        dress(open.file.as_fd(), path, metadata, self.gives_away, problems);
        match self.put_in_place(&open) {
            Ok(Some(id)) => self.remember(split(&open.entry.path).1, id),
            Ok(None) => {}
            Err(error) => self.take_away(&open, &error.to_string(), problems),
        }
        Ok(())
    }

    /// Give a complete file its own name. What it replaces goes only once the new one is durable.
    fn put_in_place(&self, open: &OpenFile) -> io::Result<Option<Id>> {
        let (_, name) = split(&open.entry.path);
        if self.overwrite && exists(self.last(), name)? {
            open.file.sync_all()?;
        }
        rename(self.last(), &open.name, name, self.overwrite)?;
        if self.overwrite { Ok(Some(Status::of(&open.file)?.id)) } else { Ok(None) }
    }

    /// Nothing more comes.
    pub fn finish(mut self, problems: &mut Vec<Problem>) {
        while !self.path.is_empty() {
            self.leave(problems);
        }
    }

    /// Go back to the folder that the last one lies in.
    fn leave(&mut self, problems: &mut Vec<Problem>) {
        let gives_away = self.gives_away;
        if let Some((handle, OpenFolder { metadata: Some(metadata), .. })) = self.folders.last() {
            dress(handle, &self.path, metadata, gives_away, problems);
        }
        let Some((_, lost)) = self.folders.leave() else { return };
        for lost in &lost {
            problem(&self.path[..lost.len], &MOVED, problems);
        }
        self.lost = lost.first().map(|lost| self.path[..lost.len].to_vec()).or(self.lost.take());
        let (_, folder) = self.folders.last().expect(HAS_TOP);
        self.path.truncate(folder.len);
    }

    /// Go back to the folder that `folder` lies in, or is.
    fn leave_for(&mut self, folder: &[u8], problems: &mut Vec<Problem>) {
        while !self.path.is_empty() && !is_within(folder, &self.path) {
            self.leave(problems);
        }
    }

    /// Make `folder`, which lies in the last one, the last one, making those that are missing:
    /// itself with `mode`, those that it lies in and that the version does not hold with the usual
    /// one.
    fn enter(
        &mut self,
        folder: &[u8],
        mode: Mode,
        problems: &mut Vec<Problem>,
    ) -> rustix::io::Result<()> {
        let mut start = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        while start < folder.len() {
            let end = folder[start..].iter().position(|&byte| byte == b'/');
            let end = end.map_or(folder.len(), |len| start + len);
            let (own, name) =
                (OsStr::from_bytes(&folder[start..end]), c_name(&folder[start..end])?);
            let mode = if end == folder.len() { mode } else { USUAL };
            let is_new = match rustix::fs::mkdirat(self.last(), &name, mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno),
            };
            let handle = match open_folder(self.last(), &name, false) {
                // What is to get the rights that the version tells of may get others before.
                Err(Errno::ACCESS) if mode == Mode::RWXU => open_up(self.last(), &name)?,
                handle => handle?,
            };
            let found = Status::of(&handle)?;
            if !is_new {
                // Each path comes once.
                if !self.overwrite || self.is_made_here(own, found.id)? {
                    problem(&folder[..end], &SAME_FOLDER, problems);
                }
                if mode == Mode::RWXU {
                    let_owner_in(handle.as_fd(), &found)?;
                }
            }
            self.remember(own, found.id);
            self.folders.enter(handle, found.id, name, OpenFolder::new(end));
            self.path.extend_from_slice(&folder[self.path.len()..end]);
            start = end + 1;
        }
        Ok(())
    }

    /// A handle of a folder that exists; `None` is the target itself.
    fn walk(&self, folder: &[u8]) -> rustix::io::Result<Option<OwnedFd>> {
        let mut handle: Option<OwnedFd> = None;
        for name in folder.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let at = handle.as_ref().map_or(self.top(), |handle| handle.as_fd());
            handle = Some(open_folder(at, &c_name(name)?, false)?);
        }
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
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
}
