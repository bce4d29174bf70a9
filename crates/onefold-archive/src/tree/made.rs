//! What a restore made in a folder, for where it may replace what is there: a file system may take
//! two names for one, because case does not count in it or because it spells letters in one way
//! only. Then a path of a version would replace another one that was just restored.
//! Room: onefold-archive.
//! Cost: some 100 bytes for each path that was made in a folder that is not left yet.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Dir;

use crate::tree::status::Id;

/// What was made in a folder.
#[derive(Default)]
pub struct Made {
    ids: HashSet<Id>,
    /// Names, by what is left of them where case does not count.
    names: HashMap<Vec<u8>, Vec<u8>>,
}

fn folded(name: &OsStr) -> Vec<u8> {
    name.to_str().map_or_else(
        || name.as_bytes().to_ascii_lowercase(),
        |name| name.to_lowercase().into_bytes(),
    )
}

impl Made {
    /// This was made.
    pub fn add(&mut self, name: &OsStr, id: Id) {
        self.ids.insert(id);
        self.names.insert(folded(name), name.as_bytes().to_vec());
    }

    /// Whether what is found under a name, under which nothing was made yet, was made under another
    /// one. File systems of FUSE may tell of it as of two things, but list it once.
    pub fn holds(&self, at: BorrowedFd<'_>, name: &OsStr, found: Id) -> rustix::io::Result<bool> {
        if self.ids.contains(&found) {
            return Ok(true);
        }
        let Some(other) = self.names.get(&folded(name)) else { return Ok(false) };
        let mut listed = 0;
        for entry in Dir::read_from(at)? {
            let entry = entry?;
            let entry = entry.file_name().to_bytes();
            listed += usize::from(entry == name.as_bytes() || entry == other);
        }
        Ok(listed < 2)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_has_another_id_but_is_listed_once_is_one_thing_with_two_names() {
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open(dir.path()).unwrap();
        let name = |bytes| OsStr::from_bytes(bytes);
        let mut made = Made::default();
        let names = [("\u{c4}x".as_bytes(), "\u{e4}X".as_bytes()), (b"A\xFF", b"a\xFF")];
        for (number, (first, second)) in (0..).zip(names) {
            fs::write(dir.path().join(name(first)), "").unwrap();
            made.add(name(first), (1, number));
            let holds = |id| made.holds(folder.as_fd(), name(second), (1, id)).unwrap();
            assert!(holds(number) && holds(100), "as FUSE tells it");
            fs::write(dir.path().join(name(second)), "").unwrap();
            assert!(holds(number) && !holds(100), "both are there");
            fs::remove_file(dir.path().join(name(first))).unwrap();
            assert!(holds(100), "and the first by the name of the second");
            assert!(!made.holds(folder.as_fd(), name(b"else"), (1, 100)).unwrap());
        }
    }
}
