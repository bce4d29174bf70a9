//! Everything that can go wrong in an archive.
//! Room: onefold-archive.

use std::io;

use onefold_block::{Meaning, MediaError, StoreError};
use thiserror::Error;

use crate::seal::SecretKind;

/// Why an archive operation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// There is no archive where one was expected.
    #[error("no archive here: neither archive.0 nor archive.1 exists")]
    NoArchive,
    /// There is something already where an archive was to be made.
    #[error("cannot make an archive here: the folder already holds {0}")]
    NotEmpty(String),
    /// Another process is at work on the archive.
    #[error("the archive is in use by {holder}")]
    Locked {
        /// Who holds it, as far as that is known.
        holder: String,
    },
    /// Written by a newer onefold.
    #[error("{what} has format version {found}; this onefold reads up to version {supported}")]
    NewerFormat {
        /// The file or structure.
        what: String,
        /// Its version.
        found: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// Written by an older onefold, in a format that is not read any more.
    #[error(
        "{what} has format version {found}, which is not read any more: version {supported} is; \
         restore with the onefold that made it, and add the files to a new archive"
    )]
    OlderFormat {
        /// The file or structure.
        what: String,
        /// Its version.
        found: u32,
        /// The version that is understood.
        supported: u32,
    },
    /// A structure is damaged or not what it should be.
    #[error("corrupt {what} at byte {offset}: {problem}")]
    Corrupt {
        /// The file or structure.
        what: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The archive is encrypted, and this opens it.
    #[error("the archive is encrypted: a {} opens it", kind.name())]
    KeyNeeded {
        /// What opens it.
        kind: SecretKind,
    },
    /// What was given does not open the archive.
    #[error("the {} is not the one that opens this archive", kind.name())]
    WrongKey {
        /// What was given.
        kind: SecretKind,
    },
    /// No version with that number.
    #[error("there is no version {number}; there are: {known}")]
    NoVersion {
        /// The number asked for.
        number: u32,
        /// Those that exist.
        known: String,
    },
    /// The archive holds no version at all.
    #[error("the archive holds no version yet")]
    NoVersions,
    /// No such path in a version.
    #[error("version {version} holds no '{path}'")]
    NoPath {
        /// The version asked.
        version: u32,
        /// The path asked for.
        path: String,
    },
    /// A setting outside of what is accepted.
    #[error("{0}")]
    Setting(String),
    /// A path that no version can hold, or that comes out of order.
    #[error("'{path}' cannot be added: {reason}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A version was to be made of nothing.
    #[error("there is nothing to add: no file, and nothing else but folders")]
    Nothing,
    /// No space on the device below.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The media failed.
    #[error(transparent)]
    Media(MediaError),
    /// The container store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The system failed at something that is no media operation.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: String,
        /// The system's own error.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ArchiveError {
    /// Damage to a named structure.
    pub(crate) fn corrupt(
        what: impl Into<String>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Corrupt { what: what.into(), offset, problem: problem.into() }
    }

    /// A system call that failed.
    pub(crate) fn io(context: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { context: context.into(), source: source.into() }
    }

    /// The same once more, for the next of several things that it stands for.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Corrupt { what, offset, problem } => Self::corrupt(what, *offset, problem),
            other => Self::io("read", io::Error::other(other.to_string())),
        }
    }

    /// Whether stored bytes are damaged, as opposed to unreachable.
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

impl From<MediaError> for ArchiveError {
    fn from(error: MediaError) -> Self {
        match error.meaning() {
            Meaning::NoSpace(what) => Self::NoSpace(what),
            Meaning::CutShort { name, len, problem } => Self::corrupt(name, len, problem),
            Meaning::Missing { .. } | Meaning::Unreachable => Self::Media(error),
        }
    }
}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> Self {
        match error.meaning() {
            Meaning::NoSpace(what) => Self::NoSpace(what),
            Meaning::CutShort { name, len, problem } => Self::corrupt(name, len, problem),
            Meaning::Missing { name } => Self::corrupt(name, 0, "it is missing"),
            Meaning::Unreachable => Self::Store(error),
        }
    }
}
