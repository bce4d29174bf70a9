//! How a store's folder is held, and why it cannot be.
//! Room: onefold-block.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The file that is locked.
pub const LOCK_FILE: &str = "lock";

/// How something is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Not at all.
    Not,
    /// Together with others who do the same.
    Shared,
    /// Alone.
    Alone,
}

impl Hold {
    pub(super) const ALL: [Self; 3] = [Self::Not, Self::Shared, Self::Alone];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Not => "not",
            Self::Shared => "shared",
            Self::Alone => "alone",
        }
    }

    /// Whether two cannot have these at once.
    pub(super) const fn is_in_the_way_of(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Alone, Self::Shared | Self::Alone) | (Self::Shared, Self::Alone)
        )
    }
}

/// Why a folder could not be locked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has it.
    #[error("it is in use by {holder}")]
    Held {
        /// "process 1234", or "another process" where that is not known.
        holder: String,
    },
    /// The lock file is not one, or cannot be had.
    #[error("lock {}: {source}", path.display())]
    Io {
        /// The file or the folder.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}
