//! The name that a restored path has until it is whole, and its change to its own.
//! Room: onefold-archive.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

/// As many restores may write into one folder at a time, and as many may have been killed there.
const OTHER_NAMES: u32 = 1000;

/// Whether there is something of that name, be it a link to nowhere.
pub fn exists(at: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<bool> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Make something under the first name that is free of those that paths have until they are whole.
/// Only a restore that was killed leaves one behind.
pub fn under_other_name<T>(
    make: impl Fn(&OsStr) -> rustix::io::Result<T>,
) -> rustix::io::Result<(T, OsString)> {
    for number in 0..OTHER_NAMES {
        let name = OsString::from(format!(".onefold-restoring.{number}"));
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
