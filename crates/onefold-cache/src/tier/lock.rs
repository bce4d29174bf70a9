//! One cache, one folder: the lock on the fast tier's folder.
//! Room: onefold-cache.
//! An advisory `flock` on the folder itself, which goes with the process, however that ends.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::saved::TierError;

/// The lock; dropping it gives it up.
#[derive(Debug)]
pub struct TierLock {
    _folder: File,
}

impl TierLock {
    /// Take the lock on the folder at `path`.
    pub fn acquire(path: &Path) -> Result<Self, TierError> {
        let io = |source| TierError::Io { path: path.display().to_string(), source };
        let folder = File::open(path).map_err(io)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _folder: folder }),
            Err(Errno::WOULDBLOCK) => Err(TierError::Locked { path: path.display().to_string() }),
            Err(errno) => Err(io(errno.into())),
        }
    }
}
