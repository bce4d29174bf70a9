//! The folder that is restored into: folders, files and links, made by handles and never by path.
//! Room: onefold-archive.
//! Invariants: (1) a folder's times and rights are set when nothing more comes into it  (2) a path
//! has its own name only once it is whole: until then it has a name that begins with
//! `.onefold-restoring`, and what it replaces stays.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
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
use crate::tree::first_names::{self, FirstNames};
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
    /// Links, pipes and devices that have other names.
    first_names: FirstNames,
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
        std::fs::create_dir_all(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let problem = format!("'{}' is no folder to restore into", path.display());
                ArchiveError::Setting(problem)
            }
            _ => refused(error),
        })?;
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
            first_names: FirstNames::default(),
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
        if entry.kind == Kind::File {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let (file, other) =
                under_other_name(name, |other| rustix::fs::openat(at, other, flags, mode))?;
            self.file = Some(OpenFile::new(entry, file.into(), other));
            return Ok(());
        }
        let (is_link, other) = match self.link_to_first(&entry, name) {
            Some(other) => (true, other),
            None => (matches!(entry.kind, Kind::HardLink { .. }), self.make_other(&entry, name)?),
        };
        // What it is another name of has all that is set here.
        if !is_link {
            dress_by_name(at, &other, &entry, self.gives_away, problems);
        }
        let done = rename(at, &other, name, self.overwrite);
        // Of two names of one file a rename leaves both. A second failure tells no more than the
        // first.
        if done.is_err() || is_link {
            let _ = rustix::fs::unlinkat(at, &other, AtFlags::empty());
        }
        done?;
        if self.overwrite
            && let Some(made) = what_is_at(at, name)?
        {
            self.remember(name, made);
        }
        self.remember_first(entry);
        Ok(())
    }

    /// Make what is neither file nor folder, or another name of a file, under a name that is not
    /// its own.
    fn make_other(&self, entry: &Entry, name: &OsStr) -> rustix::io::Result<OsString> {
        let (at, mode) = (self.last(), Mode::RUSR | Mode::WUSR);
        let special = |other: &OsStr, kind, number| {
            make_special(at, other, || rustix::fs::mknodat(at, other, kind, mode, number))
        };
        let ((), other) = under_other_name(name, |other| match &entry.kind {
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
            Kind::File | Kind::Directory => unreachable!("they are made elsewhere"),
        })?;
        Ok(other)
    }

    /// Link what is neither file nor folder, and has another name that was made, under a name that
    /// is not its own.
    fn link_to_first(&self, entry: &Entry, name: &OsStr) -> Option<OsString> {
        let (first, id) = self.first_names.of(entry)?;
        let (folder, from) = split(first);
        let folder = self.walk(folder).ok()?;
        let from_at = folder.as_ref().map_or(self.top(), |folder| folder.as_fd());
        first_names::link((from_at, from), id, self.last(), name)
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

    /// Other names of what was just made may come.
    fn remember_first(&mut self, entry: Entry) {
        if entry.shared().is_some() {
            let name = split(&entry.path).1.to_owned();
            let at = self.folders.handle().expect(HAS_TOP);
            self.first_names.remember(entry, at, &name);
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
mod tests;
