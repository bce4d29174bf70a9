//! Walking a tree: everything below a root, each folder before what is in it.
//! Room: onefold-archive.
//! Invariant: below the root nothing is reached by a path that somebody else could change
//! meanwhile, only by a name in an open folder, and no link is followed.
//! Cost: the names of the folders that lead to where it is, and their handles (`folders.rs`).

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::error::ArchiveError;
use crate::tree::exclude::{CACHE_TAG, is_cache};
use crate::tree::folders::{Folders, open_folder};
use crate::tree::scan::{Problem, Root, ScanOptions};
use crate::tree::status::{Id, Status};
use crate::tree::xattrs::{self, Xattrs};

/// Bytes of names that the system tells at a time.
const LISTED_BYTES: usize = 32 << 10;

/// Longest path that is added, in bytes: somebody who makes folders in each other without end would
/// make the time that it takes to add them grow with the square of their number.
const PATH_BYTES_MAX: usize = 32 << 10;
/// Longest name of Linux, and what stands before it.
const NAME_BYTES_MAX: usize = 256;

/// What is told of something that took the place of something else, and was read.
pub const CHANGED: &str = "it changed while it was read; stored as it was found";
const NO_FOLDER: &str = "it changed while it was read: it is no folder any more";
const NO_FILE: &str = "it changed while it was read: it is no file any more";
const NO_LINK: &str = "it changed while it was read: it is no link any more";
const LOST: &str = "it changed while it was read: what is left in it cannot be reached any more";

/// Something that a walk came by.
pub struct Found<'a> {
    /// The open folder that it lies in, and its name there; of a root, the path.
    at: BorrowedFd<'a>,
    name: &'a CStr,
    root: &'a Root,
    /// Its path in the version.
    pub stored: &'a [u8],
    pub status: Status,
    /// Its own handle, if it is a folder that is listed.
    handle: Option<BorrowedFd<'a>>,
}

/// Hears of everything that is found.
pub type Visit<'a> = dyn FnMut(&Found<'_>) -> Result<(), ArchiveError> + 'a;

impl Found<'_> {
    /// What went wrong with it.
    pub fn problem(&self, problem: String) -> Problem {
        problem_of(self.root, self.stored, problem)
    }

    /// What a symbolic link says.
    pub fn target(&self) -> io::Result<Vec<u8>> {
        match rustix::fs::readlinkat(self.at, self.name, Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            Err(Errno::INVAL) => Err(io::Error::other(NO_LINK)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Open a file. What has its name by now may be another one: its status is told along.
    pub fn open(&self) -> io::Result<(File, Status)> {
        open_file(self.at, self.name)
    }

    pub fn xattrs(&self) -> io::Result<Xattrs> {
        let found = match self.handle {
            Some(handle) => xattrs::of_handle(handle),
            None if self.stored == self.root.stored => xattrs::of_path(&self.root.path),
            None => xattrs::of_name(self.at, self.name),
        };
        Ok(found?)
    }
}

fn problem_of(root: &Root, stored: &[u8], problem: String) -> Problem {
    let below = stored.get(root.stored.len()..).unwrap_or_default();
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let path =
        if below.is_empty() { root.path.clone() } else { root.path.join(OsStr::from_bytes(below)) };
    Problem { path: path.display().to_string(), problem }
}

/// Open what was a file a moment ago, without following a link or waiting for a pipe.
pub fn open_file(at: BorrowedFd<'_>, name: &CStr) -> io::Result<(File, Status)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::openat(at, name, flags | OFlags::CLOEXEC, Mode::empty());
    let no_file = || io::Error::other(NO_FILE);
    match opened {
        Ok(handle) => {
            let status = Status::of(&handle)?;
            if status.kind.is_file() { Ok((handle.into(), status)) } else { Err(no_file()) }
        }
        // A link, or a socket.
        Err(Errno::LOOP | Errno::NXIO) => Err(no_file()),
        Err(errno) => Err(errno.into()),
    }
}

/// A folder that is to be gone into.
struct Opened {
    handle: OwnedFd,
    id: Id,
    listed: Listed,
}

/// The names of an open folder that are still to be looked at.
struct Listed {
    /// Length of the folder's path in the version.
    stored_len: usize,
    names: std::vec::IntoIter<CString>,
}

/// Visit everything below a root: a folder before what is in it, names by their bytes.
pub fn walk(
    root: &Root,
    options: &ScanOptions,
    visit: &mut Visit<'_>,
    problems: &mut Vec<Problem>,
) -> Result<(), ArchiveError> {
    let buffer = Vec::with_capacity(LISTED_BYTES);
    let mut walk = Walk { root, options, visit, problems, buffer, device: 0 };
    // What is in a folder that goes to the top is meant, and not a link to it.
    let follow = root.stored.is_empty();
    let top = CString::new(root.path.as_os_str().as_bytes()).map_err(io::Error::from);
    let status = top.and_then(|name| Ok((Status::of_name(CWD, &name, follow)?, name)));
    let (status, name) = match status {
        Ok(found) => found,
        Err(error) => {
            walk.trouble(&root.stored, error.to_string());
            return Ok(());
        }
    };
    walk.device = status.id.0;
    let mut folders = Folders::new();
    let mut stored = root.stored.clone();
    if let Some(Opened { handle, id, listed }) = walk.look(CWD, &name, &stored, status)? {
        folders.enter(handle, id, name, listed);
    }
    while let Some((at, listed)) = folders.last() {
        let Some(name) = listed.names.next() else {
            let lost = folders.leave().map(|(_, lost)| lost).unwrap_or_default();
            for lost in lost.iter().filter(|lost| lost.names.len() > 0) {
                walk.trouble(&stored[..lost.stored_len], LOST.to_owned());
            }
            continue;
        };
        stored.truncate(listed.stored_len);
        if !stored.is_empty() {
            stored.push(b'/');
        }
        stored.extend_from_slice(name.to_bytes());
        if options.exclude.matches(&stored, name.to_bytes()) {
            continue;
        }
        match Status::of_name(at, &name, false) {
            Ok(status) if options.skip == Some(status.id) => {}
            Ok(status) => {
                if let Some(Opened { handle, id, listed }) =
                    walk.look(at, &name, &stored, status)?
                {
                    folders.enter(handle, id, name, listed);
                }
            }
            Err(errno) => walk.trouble(&stored, io::Error::from(errno).to_string()),
        }
    }
    Ok(())
}

struct Walk<'a, 'b> {
    root: &'a Root,
    options: &'a ScanOptions,
    visit: &'a mut Visit<'b>,
    problems: &'a mut Vec<Problem>,
    /// The room for names that the system tells.
    buffer: Vec<u8>,
    /// That of the root.
    device: u64,
}

impl Walk<'_, '_> {
    fn trouble(&mut self, stored: &[u8], problem: String) {
        self.problems.push(problem_of(self.root, stored, problem));
    }

    /// Visit what was found, and list it if it is a folder that is to be walked.
    fn look(
        &mut self,
        at: BorrowedFd<'_>,
        name: &CStr,
        stored: &[u8],
        status: Status,
    ) -> Result<Option<Opened>, ArchiveError> {
        let is_top = stored == self.root.stored;
        let (mut status, mut changed, mut handle, mut error) = (status, false, None, None);
        if self.is_walked(&status) && stored.len() > PATH_BYTES_MAX - NAME_BYTES_MAX {
            error = Some(Errno::NAMETOOLONG);
        } else if self.is_walked(&status) {
            // All that is told of it from here on is told of what is listed.
            let opened = open_folder(at, name, is_top && stored.is_empty())
                .and_then(|opened| Ok((Status::of(&opened)?, opened)));
            match opened {
                Ok((now, opened)) => {
                    changed = now.id != status.id;
                    if changed && !is_top && self.options.skip == Some(now.id) {
                        return Ok(None);
                    }
                    status = now;
                    handle = self.is_walked(&status).then_some(opened);
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    self.trouble(stored, NO_FOLDER.to_owned());
                    return Ok(None);
                }
                Err(errno) => error = Some(errno),
            }
        }
        let id = status.id;
        if !stored.is_empty() {
            let (root, handle) = (self.root, handle.as_ref().map(|handle| handle.as_fd()));
            (self.visit)(&Found { at, name, root, stored, status, handle })?;
        }
        if changed {
            self.trouble(stored, CHANGED.to_owned());
        }
        if let Some(errno) = error {
            self.trouble(stored, format!("cannot list it: {}", io::Error::from(errno)));
        }
        let Some(handle) = handle else { return Ok(None) };
        let names = self.names(handle.as_fd(), stored);
        let listed = Listed { stored_len: stored.len(), names };
        Ok(Some(Opened { handle, id, listed }))
    }

    /// Whether a folder, or what is none, is gone into.
    fn is_walked(&self, status: &Status) -> bool {
        let elsewhere = self.options.one_file_system && status.id.0 != self.device;
        status.is_dir() && !elsewhere && self.options.skip != Some(status.id)
    }

    /// The names in an open folder, in order; as many as could be had.
    fn names(&mut self, folder: BorrowedFd<'_>, stored: &[u8]) -> std::vec::IntoIter<CString> {
        if self.options.exclude_caches && is_cache(folder) {
            return vec![CACHE_TAG.to_owned()].into_iter();
        }
        let mut names = Vec::new();
        let mut listed = RawDir::new(folder, self.buffer.spare_capacity_mut());
        let mut failed = None;
        while let Some(entry) = listed.next() {
            match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Ok(entry) => names.push(entry.file_name().to_owned()),
                Err(errno) => {
                    failed = Some(errno);
                    break;
                }
            }
        }
        if let Some(errno) = failed {
            self.trouble(stored, format!("cannot list it: {}", io::Error::from(errno)));
        }
        names.sort_unstable();
        names.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::FileType;

    use super::*;

    /// Look at `top/it` when it is no more what it was a moment ago. What is visited and listed,
    /// and what is said.
    fn looked(
        before: &dyn Fn(&Path),
        change: &dyn Fn(&Path),
        options: &ScanOptions,
    ) -> (Vec<String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let it = dir.path().join("it");
        before(&it);
        let root = Root { path: dir.path().to_owned(), stored: Vec::new() };
        let folder = File::open(dir.path()).unwrap();
        let status = Status::of_name(folder.as_fd(), c"it", false).unwrap();
        change(&it);
        let (mut seen, mut problems) = (Vec::new(), Vec::new());
        let mut visit = |found: &Found<'_>| {
            let now = Status::of_name(found.at, found.name, false).unwrap();
            assert_eq!(now, found.status, "all is told of what is there by now");
            seen.push(String::from_utf8_lossy(found.stored).into_owned());
            Ok(())
        };
        let buffer = Vec::with_capacity(LISTED_BYTES);
        let (visit, problems_ref) = (&mut visit, &mut problems);
        let (root, device) = (&root, status.id.0);
        let mut walk = Walk { root, options, visit, problems: problems_ref, buffer, device };
        let listed = walk.look(folder.as_fd(), c"it", b"it", status).unwrap();
        for name in listed.into_iter().flat_map(|opened| opened.listed.names) {
            seen.push(format!("it/{}", name.to_str().unwrap()));
        }
        let said = problems.into_iter().map(|told: Problem| {
            assert_eq!(Path::new(&told.path), it);
            told.problem
        });
        (seen, said.collect())
    }

    fn folder_with(file: &'static str) -> impl Fn(&Path) {
        move |it| {
            fs::create_dir(it).unwrap();
            fs::write(it.join(file), "x").unwrap();
        }
    }

    #[test]
    fn what_takes_the_place_of_a_folder_is_listed_only_if_it_is_one() {
        let options = ScanOptions::default();
        let gone = |it: &Path| fs::rename(it, it.with_file_name("gone")).unwrap();
        let link = |it: &Path| {
            gone(it);
            symlink("gone", it).unwrap();
        };
        let file = |it: &Path| {
            gone(it);
            fs::write(it, "x").unwrap();
        };
        let pipe = |it: &Path| {
            gone(it);
            rustix::fs::mknodat(CWD, it, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        };
        let before = folder_with("old");
        let nothing = (vec![], vec![NO_FOLDER.to_owned()]);
        let changes: [&dyn Fn(&Path); 3] = [&link, &file, &pipe];
        for change in changes {
            assert_eq!(looked(&before, change, &options), nothing);
        }
        let other = |it: &Path| {
            gone(it);
            folder_with("new")(it);
        };
        let found = (vec!["it".to_owned(), "it/new".to_owned()], vec![CHANGED.to_owned()]);
        assert_eq!(looked(&before, &other, &options), found);
        let found = (vec!["it".to_owned(), "it/old".to_owned()], vec![]);
        assert_eq!(looked(&before, &|_| {}, &options), found);
    }

    #[test]
    fn what_is_not_to_be_walked_is_not_walked_in_the_place_of_something_else_either() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("archive");
        folder_with("log")(&archive);
        let skip = Some(Status::of(&File::open(&archive).unwrap()).unwrap().id);
        let options = ScanOptions { skip, ..ScanOptions::default() };
        let change = |it: &Path| {
            fs::rename(it, it.with_file_name("gone")).unwrap();
            fs::rename(&archive, it).unwrap();
        };
        assert_eq!(looked(&folder_with("old"), &change, &options), (vec![], vec![]));
    }

    #[test]
    fn what_takes_the_place_of_a_link_is_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root { path: dir.path().to_owned(), stored: Vec::new() };
        let folder = File::open(dir.path()).unwrap();
        let it = dir.path().join("it");
        symlink("there", &it).unwrap();
        let status = Status::of_name(folder.as_fd(), c"it", false).unwrap();
        let (at, name, root) = (folder.as_fd(), c"it", &root);
        let found = Found { at, name, root, stored: b"it", status, handle: None };
        assert_eq!(found.target().unwrap(), b"there");
        assert_eq!(found.open().unwrap_err().to_string(), NO_FILE);
        fs::remove_file(&it).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&it).unwrap();
        assert_eq!(found.target().unwrap_err().to_string(), NO_LINK);
        assert_eq!(found.open().unwrap_err().to_string(), NO_FILE);
        fs::remove_file(&it).unwrap();
        let missing = "No such file or directory (os error 2)";
        assert_eq!(found.target().unwrap_err().to_string(), missing);
        assert_eq!(found.open().unwrap_err().to_string(), missing);
    }
}
