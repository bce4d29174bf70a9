//! Who may use an archive at the same time: the locks on its folder.
//! Room: onefold-archive.
//! Two advisory `flock`s, which go with the process, however that ends. The file `lock` is held by
//! the one process that adds or removes. The folder itself is shared by all that read or add, and
//! held alone by one that removes: adding disturbs no reader, since nothing that exists changes.

use std::path::Path;

use onefold_block::{FolderLock, Hold, LockError};

use crate::error::ArchiveError;

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

/// Take the locks on the archive's folder; dropping them gives them up.
pub fn acquire(path: &Path, kind: LockKind) -> Result<FolderLock, ArchiveError> {
    let (file, folder) = match kind {
        LockKind::Read => (Hold::Not, Hold::Shared),
        LockKind::Add => (Hold::Alone, Hold::Shared),
        LockKind::Remove => (Hold::Alone, Hold::Alone),
    };
    FolderLock::take(path, file, folder).map_err(|error| match error {
        LockError::Held { holder } => ArchiveError::Locked { holder },
        LockError::Io { path, source } => {
            ArchiveError::io(format!("lock {}", path.display()), source)
        }
        error => ArchiveError::io("lock", std::io::Error::other(error)),
    })
}
