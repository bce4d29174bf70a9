//! Owner, rights, attributes and times of what is restored.
//! Room: onefold-archive.
//! Invariant: they are set by handles of what was made here: where another user may write, a name
//! may be that of something else by now.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::format::entry::{Entry, Kind, Metadata};
use crate::tree::scan::Problem;
use crate::tree::status::Status;
use crate::tree::target::problem;

const REPLACED: &str = "something took its place before its rights were set";

fn times(metadata: &Metadata) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let (tv_sec, tv_nsec) = (metadata.mtime_s, metadata.mtime_ns.into());
    Timestamps { last_access: omit, last_modification: Timespec { tv_sec, tv_nsec } }
}

/// Owner, attributes, rights and times, in the order in which each survives the next. What cannot
/// be set is told; what was made stays.
pub fn dress(
    handle: BorrowedFd<'_>,
    path: &[u8],
    metadata: &Metadata,
    gives_away: bool,
    problems: &mut Vec<Problem>,
) {
    let mut check = |what, result| tell(path, what, result, problems);
    if gives_away {
        let (uid, gid) = (Uid::from_raw(metadata.uid), Gid::from_raw(metadata.gid));
        check(OWNER, rustix::fs::fchown(handle, Some(uid), Some(gid)));
    }
    for (name, value) in &metadata.xattrs {
        let name = OsStr::from_bytes(name);
        check(ATTRIBUTE, rustix::fs::fsetxattr(handle, name, value, XattrFlags::empty()));
    }
    let (mode, is_less) = safe_mode(handle, metadata);
    check(RIGHTS, rustix::fs::fchmod(handle, Mode::from_raw_mode(mode)));
    check(TIMES, rustix::fs::futimens(handle, &times(metadata)));
    if is_less {
        problem(path, &NO_SET_ID, problems);
    }
}

/// The rights of a file or folder whose owner is what it could be set to, and whether they are
/// less than those that the version tells of: a program that runs with the rights of its owner, or
/// of its group, would do so with those of somebody else.
fn safe_mode(handle: BorrowedFd<'_>, metadata: &Metadata) -> (u32, bool) {
    let mut mode = metadata.mode;
    if mode & (SET_USER_ID | SET_GROUP_ID) != 0 {
        let found = rustix::fs::fstat(handle).ok();
        // Of a folder it says what group new files get, and no more.
        let is_folder =
            found.as_ref().is_some_and(|it| FileType::from_raw_mode(it.st_mode).is_dir());
        if found.as_ref().is_none_or(|it| it.st_uid != metadata.uid) && !is_folder {
            mode &= !SET_USER_ID;
        }
        if found.as_ref().is_none_or(|it| it.st_gid != metadata.gid) && !is_folder {
            mode &= !SET_GROUP_ID;
        }
    }
    (mode, mode != metadata.mode)
}

/// The same for what was made by name, and is no file or folder.
pub fn dress_by_name(
    at: BorrowedFd<'_>,
    name: &OsStr,
    entry: &Entry,
    gives_away: bool,
    problems: &mut Vec<Problem>,
) {
    let metadata = &entry.metadata;
    let handle = match made_here(at, name, &entry.kind) {
        Ok(Some(handle)) => handle,
        Ok(None) => return problem(&entry.path, &REPLACED, problems),
        Err(errno) => return problem(&entry.path, &io::Error::from(errno), problems),
    };
    let mut check = |what, result| tell(&entry.path, what, result, problems);
    if gives_away {
        let (uid, gid) = (Uid::from_raw(metadata.uid), Gid::from_raw(metadata.gid));
        check(OWNER, rustix::fs::chownat(&handle, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH));
    }
    // What the handle is of, be it a link itself: it is followed no further.
    let path = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string());
    if !matches!(entry.kind, Kind::Symlink { .. }) {
        let mode = Mode::from_raw_mode(metadata.mode);
        check(RIGHTS, rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty()));
    }
    for (attribute, value) in &metadata.xattrs {
        let attribute = OsStr::from_bytes(attribute);
        check(ATTRIBUTE, rustix::fs::setxattr(&path, attribute, value, XattrFlags::empty()));
    }
    let times = times(metadata);
    let set = match rustix::fs::utimensat(&handle, c"", &times, AtFlags::EMPTY_PATH) {
        // Systems before Linux 5.8; no link is followed there either.
        Err(Errno::INVAL) => rustix::fs::utimensat(at, name, &times, AtFlags::SYMLINK_NOFOLLOW),
        set => set,
    };
    check(TIMES, set);
}

/// A handle of what was made under a name a moment ago, or none if that is something else by now,
/// or something that has other names: who may write into the folder may have put it there.
fn made_here(at: BorrowedFd<'_>, name: &OsStr, kind: &Kind) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let found = Status::of(&handle)?;
    let is_it = match kind {
        Kind::Symlink { .. } => found.kind.is_symlink(),
        Kind::Fifo => found.kind.is_fifo(),
        Kind::CharDevice { number } => found.kind.is_char_device() && found.device == *number,
        Kind::BlockDevice { number } => found.kind.is_block_device() && found.device == *number,
        Kind::File | Kind::Directory | Kind::HardLink { .. } => false,
    };
    Ok((is_it && !found.has_other_names()).then_some(handle))
}

const OWNER: &str = "its owner cannot be set";
const ATTRIBUTE: &str = "an extended attribute cannot be set";
const RIGHTS: &str = "its rights cannot be set";
const TIMES: &str = "its times cannot be set";
pub const NO_SET_ID: &str =
    "it does not run with the rights of its owner or group: they are others here";

/// Bits of rights.
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// Tell of what could not be set.
fn tell(path: &[u8], what: &str, result: rustix::io::Result<()>, problems: &mut Vec<Problem>) {
    if let Err(errno) = result {
        problem(path, &format!("{what}: {}", io::Error::from(errno)), problems);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::format::entry::{Recipe, Stamp};

    #[test]
    fn what_takes_the_place_of_a_pipe_before_it_has_its_rights_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("other"), "x").unwrap();
        fs::set_permissions(at("other"), Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(at("other"), at("file")).unwrap();
        symlink("other", at("link")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::hard_link(at("pipe"), at("again")).unwrap();
        let handle = File::open(folder.path()).unwrap();
        let xattrs = vec![(b"user.x".to_vec(), b"1".to_vec())];
        let pipe = Entry {
            path: b"pipe".to_vec(),
            kind: Kind::Fifo,
            metadata: Metadata { mode: 0o666, mtime_s: 5, xattrs, ..Metadata::default() },
            stamp: Stamp::default(),
            recipe: Recipe::default(),
        };
        for name in ["link", "file", "again"] {
            let mut problems = Vec::new();
            dress_by_name(handle.as_fd(), OsStr::new(name), &pipe, false, &mut problems);
            assert_eq!(at("other").metadata().unwrap().mode() & 0o7777, 0o600, "{name}");
            assert_eq!(at("pipe").metadata().unwrap().mode() & 0o7777, 0o400, "{name}");
            assert_ne!(at("other").metadata().unwrap().mtime(), 5, "{name}");
            let said: Vec<_> = problems.iter().map(|p| (&*p.path, &*p.problem)).collect();
            assert_eq!(said, [("pipe", REPLACED)], "{name}");
        }
    }
}
