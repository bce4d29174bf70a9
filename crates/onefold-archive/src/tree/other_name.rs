//! The name that a restored path has until it is whole, and its change to its own.
//! Room: onefold-archive.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use crate::tree::status::{Id, Status};

/// As many restores may write into one folder at a time, and as many may have been killed there.
const OTHER_NAMES: u32 = 1000;

/// What has that name, be it a link to nowhere.
pub fn what_is_at(at: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Option<Id>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(Status::from(&found).id)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether there is something of that name.
pub fn exists(at: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<bool> {
    Ok(what_is_at(at, name)?.is_some())
}

/// Make a pipe or a device. A file system that keeps none may make a file instead, as those of
/// exFAT and FAT by FUSE do, which the system then tells as an error: that file goes.
pub fn make_special(
    at: BorrowedFd<'_>,
    name: &OsStr,
    make: impl Fn() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let made = make();
    if made == Err(Errno::IO) {
        // Where nothing was made there is nothing to remove.
        let _ = rustix::fs::unlinkat(at, name, AtFlags::empty());
    }
    made
}

/// Make something under the first name that is free of those that paths have until they are whole,
/// and not the one that it gets. Only a restore that was killed leaves one behind, and who adds
/// what that left has paths of such names.
pub fn under_other_name<T>(
    own: &OsStr,
    make: impl Fn(&OsStr) -> rustix::io::Result<T>,
) -> rustix::io::Result<(T, OsString)> {
    for number in 0..OTHER_NAMES {
        let name = OsString::from(format!(".onefold-restoring.{number}"));
        if name == own {
            continue;
        }
        match make(&name) {
            Ok(made) => return Ok((made, name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Rename within a folder; what has the name already is replaced only if `replace` says so.
pub fn rename(
    at: BorrowedFd<'_>,
    from: &OsStr,
    to: &OsStr,
    replace: bool,
) -> rustix::io::Result<()> {
    if !replace {
        match rustix::fs::renameat_with(at, from, at, to, RenameFlags::NOREPLACE) {
            // Network and older file systems cannot do both in one step.
            Err(Errno::INVAL | Errno::NOSYS) if exists(at, to)? => return Err(Errno::EXIST),
            Err(Errno::INVAL | Errno::NOSYS) => {}
            done => return done,
        }
    }
    rustix::fs::renameat(at, from, at, to)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_a_file_system_makes_in_place_of_a_pipe_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open(dir.path()).unwrap();
        let (at, name) = (folder.as_fd(), OsStr::new("other"));
        let refused = |errno| {
            make_special(at, name, || {
                fs::write(dir.path().join("other"), "").unwrap();
                Err(errno)
            })
        };
        assert_eq!(refused(Errno::IO), Err(Errno::IO));
        assert_eq!(exists(at, name), Ok(false));
        // What was there before is somebody else's.
        assert_eq!(refused(Errno::EXIST), Err(Errno::EXIST));
        assert_eq!(exists(at, name), Ok(true));
        assert_eq!(make_special(at, name, || Ok(())), Ok(()));
        assert_eq!(exists(at, name), Ok(true));
    }
}
