//! What is neither file nor folder and has several names, while it is restored: its first name is
//! made, and the others are links to that.
//! Room: onefold-archive.
//! Cost: path and metadata of each first name.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

use rustix::fs::AtFlags;

use crate::format::entry::Entry;
use crate::tree::other_name::{under_other_name, what_is_at};
use crate::tree::status::Id;

/// First names, by the number that all names of a thing share.
#[derive(Default)]
pub struct FirstNames(HashMap<u64, (Entry, Id)>);

impl FirstNames {
    /// This was made, in the last folder and by this name. Others of the same may come.
    pub fn remember(&mut self, entry: Entry, at: BorrowedFd<'_>, name: &OsStr) {
        let Some(number) = entry.shared().filter(|number| !self.0.contains_key(number)) else {
            return;
        };
        if let Ok(Some(id)) = what_is_at(at, name) {
            self.0.insert(number, (entry, id));
        }
    }

    /// The first name of what an entry is another name of, and what it was when it was made.
    pub fn of(&self, entry: &Entry) -> Option<(&[u8], Id)> {
        let (first, id) = self.0.get(&entry.shared()?)?;
        // Whoever made the store may have said anything.
        first.is_like(entry).then_some((&first.path, *id))
    }
}

/// Link what has the name `from` in one folder into another one, and answer the name that it has
/// there; `None` where that cannot be, or where the name is that of something else by now. Then it
/// is made anew: two that are equal are better than one that is missing.
pub fn link(
    (from_at, from): (BorrowedFd<'_>, &OsStr),
    first: Id,
    at: BorrowedFd<'_>,
    own: &OsStr,
) -> Option<OsString> {
    let make = |other: &OsStr| rustix::fs::linkat(from_at, from, at, other, AtFlags::empty());
    let ((), other) = under_other_name(own, make).ok()?;
    if what_is_at(at, &other) == Ok(Some(first)) {
        return Some(other);
    }
    // What cannot be removed is what a restore that was killed leaves, too.
    let _ = rustix::fs::unlinkat(at, &other, AtFlags::empty());
    None
}
