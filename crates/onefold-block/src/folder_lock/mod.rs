//! One owner at a time: the locks on a store's folder.
//! Room: onefold-block.
//! Advisory `flock`s, which go with the process, however that ends: one on the file `lock`, which
//! holds the number of the process that has it, and one on the folder itself, so that a lock file
//! that was removed lets nobody in. Where others may get at the folder whom no lock keeps out
//! (`reach`), files beside the lock file say who has it (`presence`).
//! Invariants: (1) only what the owner of the store (or its group) can open is ever waited for: a
//! folder that anybody may open is not locked itself, since anybody could lock the owner out by it;
//! (2) a lock file that was made for an opening that failed is removed again.

mod hold;
mod party;
mod presence;
mod reach;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

pub use self::hold::{Hold, LOCK_FILE, LockError};
use self::party::Party;
use self::presence::{Holds, Presence};
use crate::access::Access;

/// Whether a file of this name is one of those by which a folder is locked.
pub fn is_of_a_lock(name: &str) -> bool {
    let rest = name.strip_prefix(LOCK_FILE);
    rest.is_some_and(|rest| rest.is_empty() || presence::is_one(name))
}

/// Say of all folders of this process that it has left them, if it ends now without dropping their
/// locks: a kernel forgets its own, and not what others have been told.
pub fn leave_all_folders() {
    presence::leave();
}

/// How often a lock file that was removed at the wrong moment is looked for again.
const ATTEMPTS: usize = 16;

/// Locks that are held; dropping them gives them up.
#[derive(Debug)]
pub struct FolderLock {
    /// Dropped while the locks are still held.
    presence: Option<Presence>,
    file: Option<LockFile>,
    folder: Option<File>,
}

#[derive(Debug)]
struct LockFile {
    file: File,
    path: PathBuf,
    /// Made here, for something that is not known to have succeeded.
    provisional: AtomicBool,
}

impl FolderLock {
    /// Take the locks on the folder at `path`: on its lock file, and on the folder itself where
    /// only its owner or its group may open it. Without waiting.
    ///
    /// Someone who only reads makes no lock file where there is none. One that is made here goes
    /// away again unless [`FolderLock::keep`] is called.
    ///
    /// # Errors
    /// [`LockError::Held`] if somebody else has it; [`LockError::Io`] for a `lock` that is no
    /// regular file, and for whatever the system refuses.
    pub fn take(path: &Path, file: Hold, folder: Hold) -> Result<Self, LockError> {
        Self::take_as(path, file, folder, reach::falls_short)
    }

    /// The same, where `falls_short` says whether such locks do not keep everybody out.
    fn take_as(
        path: &Path,
        file: Hold,
        folder: Hold,
        falls_short: impl Fn(&File) -> bool,
    ) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let directory = File::open(path).map_err(failed)?;
        let metadata = directory.metadata().map_err(failed)?;
        let falls_short = falls_short(&directory);
        let access = Access::of(&metadata);
        let lock = LockFile::take(&path.join(LOCK_FILE), access, file)?;
        let directory = if Access::is_private(&metadata) && folder != Hold::Not {
            if !locked(&directory, folder).map_err(failed)? {
                return Err(LockError::Held { holder: "another process".to_owned() });
            }
            Some(directory)
        } else {
            None
        };
        if let (Some(lock), Hold::Alone) = (&lock, file) {
            // For people who wonder; a full disk is no reason not to open.
            let _ = lock.sign();
        }
        let presence = if falls_short {
            let me = Party::here(metadata.dev()).map_err(failed)?;
            let is_tried = directory.is_some() || folder == Hold::Not;
            Presence::show(path, access, Holds { file, folder }, &me, is_tried)?
        } else {
            None
        };
        Ok(Self { presence, file: lock, folder: directory })
    }

    /// What the locks were taken for has succeeded: the lock file stays.
    pub fn keep(&self) {
        if let Some(file) = &self.file {
            file.provisional.store(false, Ordering::Relaxed);
        }
    }
}

impl LockFile {
    fn take(path: &Path, access: Access, hold: Hold) -> Result<Option<Self>, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        if hold == Hold::Not {
            return Ok(None);
        }
        for _ in 0..ATTEMPTS {
            let Some(lock) = Self::open(path, hold == Hold::Alone).map_err(failed)? else {
                if hold == Hold::Shared {
                    return Ok(None);
                }
                continue;
            };
            let metadata = lock.file.metadata().map_err(failed)?;
            if !metadata.is_file() {
                let source = io::Error::other("it is not a regular file");
                return Err(failed(source));
            }
            if hold == Hold::Alone {
                // One that anybody could open is closed to them; whose it is may be another's.
                let _ = access.set_file(&lock.file);
            }
            if !locked(&lock.file, hold).map_err(failed)? {
                // If it was made here, somebody has taken it since.
                lock.provisional.store(false, Ordering::Relaxed);
                let holder = lock.holder();
                return Err(LockError::Held { holder });
            }
            // Whoever had it may have removed it between our opening and our locking it.
            let same = |found: fs::Metadata| {
                (found.dev(), found.ino()) == (metadata.dev(), metadata.ino())
            };
            if fs::symlink_metadata(path).is_ok_and(same) {
                return Ok(Some(lock));
            }
            lock.provisional.store(false, Ordering::Relaxed);
        }
        Err(failed(io::Error::other("it comes and goes")))
    }

    /// Open the lock file; `None` if there is none, and it is not to be made or somebody made it
    /// at the same time.
    fn open(path: &Path, make: bool) -> io::Result<Option<Self>> {
        // What is no regular file must be refused, neither followed nor waited for.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).write(make).custom_flags(flags.bits().cast_signed());
        options.mode(Access::OWNER_FILE_MODE);
        let opened = |file, made| {
            Some(Self { file, path: path.to_owned(), provisional: AtomicBool::new(made) })
        };
        match options.open(path) {
            Ok(file) => return Ok(opened(file, false)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
                return Err(io::Error::other("it is a symbolic link"));
            }
            Err(error) => return Err(error),
        }
        if !make {
            return Ok(None);
        }
        match options.create_new(true).open(path) {
            Ok(file) => Ok(opened(file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Note who has it, for whoever comes second.
    fn sign(&self) -> io::Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a note for people; nothing depends on it")]
        let note = format!("{}\n", std::process::id());
        // In this order a reader finds a whole number at any time.
        self.file.write_all_at(note.as_bytes(), 0)?;
        self.file.set_len(note.len() as u64)
    }

    fn holder(&self) -> String {
        let mut note = [0; 16];
        let len = self.file.read_at(&mut note, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&note[..len]);
        match text.lines().next().unwrap_or_default().parse::<u32>() {
            Ok(process) => format!("process {process}"),
            Err(_) => "another process".to_owned(),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        drop(self.presence.take());
        if let Some(folder) = &self.folder {
            give_up(folder);
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if *self.provisional.get_mut() {
            // While it is still locked: who opened it meanwhile finds that it is gone.
            let _ = fs::remove_file(&self.path);
        }
        give_up(&self.file);
    }
}

/// Unlock by name. Closing alone would not do: a child that another thread is about to start has
/// a copy of the open file until its program is there, and the lock lives as long as a copy.
fn give_up(file: &File) {
    let _ = flock(file, FlockOperation::Unlock);
}

/// Lock an open file without waiting; whether that worked.
fn locked(file: &File, hold: Hold) -> io::Result<bool> {
    let operation = match hold {
        Hold::Not => return Ok(true),
        Hold::Shared => FlockOperation::NonBlockingLockShared,
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_that_a_starting_child_has_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let lock = FolderLock::take(dir.path(), Hold::Alone, Hold::Alone).unwrap();
        lock.keep();
        let file = lock.file.as_ref().unwrap().file.try_clone().unwrap();
        let folder = lock.folder.as_ref().unwrap().try_clone().unwrap();
        assert!(FolderLock::take(dir.path(), Hold::Alone, Hold::Alone).is_err());
        drop(lock);
        FolderLock::take(dir.path(), Hold::Alone, Hold::Alone).unwrap();
        drop((file, folder));
    }

    #[test]
    fn where_locks_fall_short_a_file_says_who_has_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        // Not locked itself, so that the locks of another say nothing of it.
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let take =
            |is_short| FolderLock::take_as(dir.path(), Hold::Alone, Hold::Alone, move |_| is_short);
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
        };
        let lock = take(true).unwrap();
        lock.keep();
        assert_eq!(names().count(), 2);
        assert!(names().all(|name| is_of_a_lock(&name)));
        // What another mount of the same folder does: it knows of no lock.
        give_up(&lock.file.as_ref().unwrap().file);
        drop(take(false).unwrap());
        let LockError::Held { holder } = take(true).unwrap_err() else { panic!("let in") };
        assert!(holder.contains("; if that has ended, remove '"), "{holder}");
        drop(lock);
        assert_eq!(names().collect::<Vec<_>>(), [LOCK_FILE]);
        take(true).unwrap();
        assert!(!is_of_a_lock("lock.txt") && !is_of_a_lock("locks") && !is_of_a_lock("log.0"));
    }
}
