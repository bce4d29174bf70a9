//! The folders that lead to where a tree is walked, each within the one before it.
//! Room: onefold-archive.
//! Invariants: (1) a folder is opened from the one that it lies in, and never through a link
//! (2) what is opened again is what it was: device and inode are the same.
//! Cost: a handle for each of the last `HELD_MAX` folders and for the first one, however deep the
//! tree is. One that was let go is opened again from the folder in it, by `..`; where that leads
//! elsewhere by now, from the first one, step by step.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::tree::status::{Id, Status};

/// Folders beside the first one that are held open.
const HELD_MAX: usize = 32;

/// Open folders, and something for each of them.
pub struct Folders<T> {
    levels: Vec<Level<T>>,
}

struct Level<T> {
    /// The first and the last have one.
    handle: Option<OwnedFd>,
    id: Id,
    /// Its name in the folder before it.
    name: CString,
    what: T,
}

impl<T> Level<T> {
    /// Of the first or the last one.
    fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_ref().expect(IS_OPEN).as_fd()
    }
}

const IS_OPEN: &str = "the first folder and the last one are open";

/// Open a folder, be it reached by a link only if that is to be followed.
pub fn open_folder(at: BorrowedFd<'_>, name: &CStr, follow: bool) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let flags = if follow { flags } else { flags | OFlags::NOFOLLOW };
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Open a folder if it is that one.
fn open_same(at: BorrowedFd<'_>, name: &CStr, id: Id) -> Option<OwnedFd> {
    let handle = open_folder(at, name, false).ok()?;
    Status::of(&handle).is_ok_and(|found| found.id == id).then_some(handle)
}

/// Let the owner of a folder, if that is us, put something into it.
pub fn let_owner_in(handle: BorrowedFd<'_>, found: &Status) -> rustix::io::Result<()> {
    let rights = Mode::RWXU.as_raw_mode();
    if found.mode & rights == rights || found.uid != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let path = Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string());
    let mode = Mode::from_raw_mode(found.mode | rights);
    rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty())
}

/// Open a folder that its owner may not list.
pub fn open_up(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let_owner_in(handle.as_fd(), &Status::of(&handle)?)?;
    open_folder(at, name, false)
}

impl<T> Folders<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Go into a folder that was opened from the last one, by this name.
    pub fn enter(&mut self, handle: OwnedFd, id: Id, name: CString, what: T) {
        self.levels.push(Level { handle: Some(handle), id, name, what });
        let last = self.levels.len() - 1;
        if last > HELD_MAX {
            self.levels[last - HELD_MAX].handle = None;
        }
    }

    /// The handle of the last folder, if there is one.
    pub fn handle(&self) -> Option<BorrowedFd<'_>> {
        self.levels.last().map(Level::handle)
    }

    /// That of the first one.
    pub fn first(&self) -> Option<BorrowedFd<'_>> {
        self.levels.first().map(Level::handle)
    }

    /// The last folder, if there is one.
    pub fn last(&mut self) -> Option<(BorrowedFd<'_>, &mut T)> {
        let Level { handle, what, .. } = self.levels.last_mut()?;
        Some((handle.as_ref().expect(IS_OPEN).as_fd(), what))
    }

    /// Go back to the folder before the last one. Also tells, the outermost first, of folders that
    /// are where they were no longer: they are left as well.
    pub fn leave(&mut self) -> Option<(T, Vec<T>)> {
        let left = self.levels.pop()?;
        let mut lost = Vec::new();
        if let Some(last) = self.levels.last_mut()
            && last.handle.is_none()
        {
            last.handle = open_same(left.handle(), c"..", last.id);
            if last.handle.is_none() {
                lost = self.find_again();
            }
        }
        Some((left.what, lost))
    }

    /// Open the last folder from the first one.
    fn find_again(&mut self) -> Vec<T> {
        let mut found: Option<OwnedFd> = None;
        let mut reached = 1;
        while let Some(level) = self.levels.get(reached) {
            let at = found.as_ref().map_or(self.levels[0].handle(), OwnedFd::as_fd);
            let Some(next) = open_same(at, &level.name, level.id) else { break };
            found = Some(next);
            reached += 1;
        }
        let lost = self.levels.split_off(reached);
        if found.is_some() {
            self.levels[reached - 1].handle = found;
        }
        lost.into_iter().map(|level| level.what).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    const DEPTH: usize = 3 * HELD_MAX;

    fn c(path: &Path) -> CString {
        CString::new(path.to_str().unwrap()).unwrap()
    }

    /// Make folders in each other, and go into all of them.
    fn deep(top: &Path) -> Folders<usize> {
        let mut folders = Folders::new();
        let mut path = top.to_path_buf();
        for depth in 0..DEPTH {
            let name = if depth == 0 { c(top) } else { c"d".to_owned() };
            let handle = match folders.last() {
                None => open_folder(CWD, &name, true).unwrap(),
                Some((at, _)) => {
                    path.push("d");
                    fs::create_dir(&path).unwrap();
                    open_folder(at, &name, false).unwrap()
                }
            };
            let id = Status::of(&handle).unwrap().id;
            folders.enter(handle, id, name, depth);
        }
        folders
    }

    fn below(top: &Path, depth: usize) -> PathBuf {
        (0..depth).fold(top.to_path_buf(), |path, _| path.join("d"))
    }

    fn held(folders: &Folders<usize>) -> usize {
        folders.levels.iter().filter(|level| level.handle.is_some()).count()
    }

    /// Leave all of them; what was left, and what was lost on the way.
    fn leave_all(mut folders: Folders<usize>) -> (Vec<usize>, Vec<usize>) {
        let (mut left, mut lost) = (Vec::new(), Vec::new());
        while let Some((what, others)) = folders.leave() {
            left.push(what);
            lost.extend(others);
            assert!(held(&folders) <= HELD_MAX + 1);
            if let Some((handle, what)) = folders.last() {
                let (what, id) = (*what, Status::of(&handle).unwrap().id);
                assert_eq!(folders.levels[what].id, id);
            }
        }
        (left, lost)
    }

    #[test]
    fn few_folders_are_held_and_the_others_are_found_again_on_the_way_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = deep(dir.path());
        assert_eq!(held(&folders), HELD_MAX + 1);
        // Back past those that are held, and down again.
        for _ in 0..DEPTH / 2 {
            folders.leave().unwrap();
        }
        for depth in DEPTH - DEPTH / 2..DEPTH {
            let (at, _) = folders.last().unwrap();
            let handle = open_folder(at, c"d", false).unwrap();
            let id = Status::of(&handle).unwrap().id;
            folders.enter(handle, id, c"d".to_owned(), depth);
            assert!(held(&folders) <= HELD_MAX + 1);
        }
        let (left, lost) = leave_all(folders);
        assert_eq!((left, lost), ((0..DEPTH).rev().collect(), vec![]));
    }

    #[test]
    fn what_a_moved_folder_was_in_is_found_from_the_first_one() {
        // The last one is still held when it is left, and the others are not.
        for moved in [1, 10, DEPTH - 1] {
            let dir = tempfile::tempdir().unwrap();
            let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
            fs::create_dir(&top).unwrap();
            let folders = deep(&top);
            fs::rename(below(&top, moved), &outside).unwrap();
            symlink(&outside, below(&top, moved)).unwrap();
            let (left, lost) = leave_all(folders);
            assert_eq!((left, lost), ((0..DEPTH).rev().collect(), vec![]), "{moved}");
        }
    }

    /// What is open below `top`, and a folder beside that.
    fn deep_beside_another() -> (tempfile::TempDir, PathBuf, PathBuf, Folders<usize>) {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&outside).unwrap();
        let folders = deep(&top);
        (dir, top, outside, folders)
    }

    #[test]
    fn a_link_to_a_folder_is_not_taken_for_it() {
        let (_dir, top, outside, folders) = deep_beside_another();
        // What 20 lies in is reached by neither, though a link leads there.
        fs::rename(below(&top, 21), outside.join("inner")).unwrap();
        fs::rename(below(&top, 20), outside.join("outer")).unwrap();
        symlink(outside.join("outer"), below(&top, 20)).unwrap();
        let (left, lost) = leave_all(folders);
        let expected: Vec<usize> = (21..DEPTH).rev().chain((0..20).rev()).collect();
        assert_eq!((left, lost), (expected, vec![20]));
    }

    #[test]
    fn what_is_left_of_two_that_were_moved_apart_is_told() {
        let (_dir, top, outside, folders) = deep_beside_another();
        // Neither `..` of 21 nor a way from the first one leads to 11 to 20.
        fs::rename(below(&top, 21), outside.join("inner")).unwrap();
        fs::rename(below(&top, 11), outside.join("outer")).unwrap();
        let (left, lost) = leave_all(folders);
        let expected: Vec<usize> = (21..DEPTH).rev().chain((0..11).rev()).collect();
        assert_eq!((left, lost), (expected, (11..21).collect()));
    }
}
