//! Who may use an archive at the same time: the locks on its folder.
//! Room: onefold-archive.
//! Two advisory `flock`s, which go with the process, however that ends. The file `lock` is held by
//! the one process that adds or removes. The folder itself is shared by all that read or add, and
//! held alone by one that removes: adding disturbs no reader, since nothing that exists changes.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::ArchiveError;

/// The file that is locked by a writer, and holds the number of its process.
pub const LOCK_FILE: &str = "lock";

/// What a process is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Look.
    Read,
    /// Add a version.
    Add,
    /// Remove a version.
    Remove,
}

/// The locks; dropping them gives them up.
pub struct ArchiveLock {
    _folder: File,
    _file: Option<File>,
}

impl ArchiveLock {
    /// Take the locks on the archive's folder.
    pub fn acquire(path: &Path, kind: LockKind) -> Result<Self, ArchiveError> {
        let open = |e| ArchiveError::io(format!("open {}", path.display()), e);
        let folder = File::open(path).map_err(open)?;
        let file = match kind {
            LockKind::Read => None,
            LockKind::Add | LockKind::Remove => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                let at = path.join(LOCK_FILE);
                let open = |e| ArchiveError::io(format!("open {}", at.display()), e);
                let mut file = options.open(&at).map_err(open)?;
                if let Err(errno) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    return Err(refused(errno, path, Some(&mut file)));
                }
                Some(file)
            }
        };
        let operation = match kind {
            LockKind::Read | LockKind::Add => FlockOperation::NonBlockingLockShared,
            LockKind::Remove => FlockOperation::NonBlockingLockExclusive,
        };
        if let Err(errno) = flock(&folder, operation) {
            return Err(refused(errno, path, None));
        }
        if let Some(mut file) = file.as_ref() {
            // For people who wonder; nothing depends on it.
            #[expect(clippy::disallowed_methods, reason = "a note for people; nothing reads it")]
            let note = format!("{}\n", std::process::id());
            let _ = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(note.as_bytes()));
        }
        Ok(Self { _folder: folder, _file: file })
    }
}

fn refused(errno: Errno, path: &Path, file: Option<&mut File>) -> ArchiveError {
    if errno != Errno::WOULDBLOCK {
        return ArchiveError::io(format!("lock {}", path.display()), errno);
    }
    let mut holder = String::new();
    if let Some(file) = file {
        let _ = file.read_to_string(&mut holder);
    }
    let holder = match holder.trim().parse::<u32>() {
        Ok(process) => format!("process {process}"),
        Err(_) => "another process".to_owned(),
    };
    ArchiveError::Locked { holder }
}
