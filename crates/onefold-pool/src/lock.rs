//! One process at a time: the lock on a pool's folder.
//! Room: onefold-pool.

use std::path::Path;

use onefold_block::{FolderLock, Hold, LockError};

use crate::error::PoolError;

/// Lock the folder of a pool: alone, or shared with others who only read.
pub fn acquire(pool: &Path, shared: bool) -> Result<FolderLock, PoolError> {
    let hold = if shared { Hold::Shared } else { Hold::Alone };
    FolderLock::take(pool, hold, hold).map_err(|error| match error {
        LockError::Held { holder } => PoolError::Locked { holder },
        LockError::Io { path, source } => {
            PoolError::Io { context: format!("lock {}", path.display()), source }
        }
        error => PoolError::Io { context: "lock".to_owned(), source: std::io::Error::other(error) },
    })
}
