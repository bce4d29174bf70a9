//! Everything that can go wrong in a pool, and how it looks to a block device's user.
//! Room: onefold-pool.

use std::io;

use onefold_block::{BlockError, ByteSize, ContainerId, Lba, Meaning, MediaError, StoreError};
use onefold_content::DecompressError;
use thiserror::Error;

/// Why a pool operation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no pool where one was expected.
    #[error("no pool here: neither super.0 nor super.1 exists")]
    NoPool,
    /// There is something already where a pool was to be made.
    #[error("cannot make a pool here: the folder already holds {0}")]
    NotEmpty(String),
    /// Writes needed space that a check beside them kept back.
    #[error("the check was given up: the disk is full, and writes needed what it kept back")]
    CheckGaveWay,
    /// Another process has the pool open.
    #[error("the pool is in use by {holder}")]
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
    /// Written by a onefold from before the first release.
    #[error(
        "{what} has format version {found}; this onefold reads version {supported}: copy the \
         data out with the onefold that made the pool"
    )]
    OlderFormat {
        /// The file or structure.
        what: String,
        /// Its version.
        found: u32,
        /// The version that is understood.
        supported: u32,
    },
    /// It has features that this onefold does not know and must not ignore.
    #[error(
        "{what} uses features that this onefold does not know (bits {bits:#x}{names}), without \
         which it cannot be {action}"
    )]
    UnknownFeatures {
        /// The file or structure.
        what: String,
        /// The unknown bits of the feature word.
        bits: u64,
        /// What those are called that were given a meaning since, each after a colon.
        names: String,
        /// What must not be done without knowing them: "read" or "changed".
        action: &'static str,
    },
    /// It holds something of a kind that this onefold does not know and must not pass over.
    #[error("{what} is {kind}, which this onefold does not know")]
    UnknownKind {
        /// What it is called.
        what: String,
        /// What it is.
        kind: String,
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
    /// Stored data of a volume is damaged.
    #[error("corrupt data of volume '{volume}' at {lba}, {id} byte {offset}: {problem}")]
    CorruptChunk {
        /// The volume that was read.
        volume: String,
        /// The chunk that was read.
        lba: Lba,
        /// The container that should hold it.
        id: ContainerId,
        /// Where in the container, in bytes.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// A block that a repair had to give up.
    #[error(
        "{lba} of volume '{volume}' is lost: what was there could be had from nowhere; once it is \
         written it can be read again"
    )]
    Lost {
        /// The volume that was read.
        volume: String,
        /// The chunk that was read.
        lba: Lba,
    },
    /// A repair that was interrupted when it had begun to put its files in place.
    #[error(
        "a repair of this pool was interrupted: run 'onefold pool check POOL --repair' again, \
         which finishes it"
    )]
    RepairUnfinished,
    /// No volume of that name.
    #[error("no volume '{name}'; there are: {known}")]
    NoVolume {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A volume of that name exists.
    #[error("volume '{0}' already exists")]
    VolumeExists(String),
    /// A volume name that is not accepted.
    #[error(
        "'{0}' cannot name a volume: use 1 to 255 letters, digits, '.', '_', '-' or ':', \
         beginning with a letter or digit"
    )]
    VolumeName(String),
    /// A name that no snapshot can have.
    #[error(
        "'{0}' cannot name a snapshot: use VOLUME@NAME, with a NAME of 1 to 64 letters, digits, \
         '.', '_', '-' or ':', beginning with a letter or digit, that is not 'g' and a number, \
         which names a generation"
    )]
    SnapshotName(String),
    /// No snapshot of that name.
    #[error(
        "no snapshot '{name}'; 'onefold volume list POOL --snapshots' shows those of '{volume}'"
    )]
    NoSnapshot {
        /// The name asked for.
        name: String,
        /// The volume.
        volume: String,
    },
    /// Something that only a volume can have done to it.
    #[error("'{0}' is a snapshot, which never changes; make a clone of it to write to")]
    IsSnapshot(String),
    /// A snapshot that is held.
    #[error("snapshot '{0}' is held: release it first")]
    SnapshotHeld(String),
    /// A snapshot that others were made from.
    #[error("'{name}' cannot be deleted: made from it and still there: {by}; delete these first")]
    SnapshotNeeded {
        /// The snapshot.
        name: String,
        /// What was made from it.
        by: String,
    },
    /// A snapshot that its volume was rolled back to, past others that are still there.
    #[error(
        "'{name}' cannot be deleted: volume '{volume}' was rolled back to it, past {past}, which \
         came from it, too; delete what it went past first"
    )]
    SnapshotPassed {
        /// The snapshot.
        name: String,
        /// The volume.
        volume: String,
        /// Snapshots that were made after it, before the rollback.
        past: String,
    },
    /// A volume with snapshots.
    #[error("volume '{name}' has snapshots ({count}, the first is {first}): delete these first")]
    HasSnapshots {
        /// The volume.
        name: String,
        /// How many.
        count: usize,
        /// The oldest.
        first: String,
    },
    /// What was received cannot become a volume that is something else by now.
    #[error("volume '{name}' was written to since '{base}': roll it back to that first")]
    ChangedSince {
        /// The volume.
        name: String,
        /// The snapshot that what was received is made onto.
        base: String,
    },
    /// What only a snapshot can have done to it.
    #[error("'{0}' is a volume, which may change meanwhile; make a snapshot of it, and name that")]
    NoSnapshotNamed(String),
    /// A volume size that is not accepted.
    #[error("{size} cannot be the size of a volume: {reason}")]
    VolumeSize {
        /// The size asked for.
        size: ByteSize,
        /// What is accepted.
        reason: String,
    },
    /// A shrink that would throw data away.
    #[error("shrinking '{name}' to {size} would discard {lost} of stored data")]
    ShrinkLosesData {
        /// The volume.
        name: String,
        /// The size asked for.
        size: ByteSize,
        /// How much data lies past it.
        lost: ByteSize,
    },
    /// The volume became shorter while this was on its way to it.
    #[error("a write up to byte {end} reaches past the end of the volume, at byte {size} by now")]
    PastEnd {
        /// One past the last byte that was to be written.
        end: u64,
        /// The size of the volume.
        size: u64,
    },
    /// The volume was deleted while it was in use.
    #[error("the volume was deleted")]
    VolumeDeleted,
    /// A setting outside of what is accepted.
    #[error("{0}")]
    Setting(String),
    /// A change was asked of a pool opened read-only.
    #[error("the pool is open read-only")]
    ReadOnly,
    /// No space on the device below.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// Refused after an earlier failure.
    #[error("refused until the pool is reopened, because of an earlier failure: {0}")]
    Poisoned(String),
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
}

impl PoolError {
    /// Damage to a named structure.
    pub(crate) fn corrupt(
        what: impl Into<String>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Corrupt { what: what.into(), offset, problem: problem.into() }
    }

    /// Damage to a named structure as a whole, rather than somewhere in it.
    pub(crate) fn corrupt_whole(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::corrupt(what, 0, problem)
    }

    /// Whether this is only a lack of space, which passes once there is some.
    pub const fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace(_))
    }

    /// Whether it is sound, but not of a format that is known here.
    pub(crate) const fn is_other_format(&self) -> bool {
        matches!(
            self,
            Self::NewerFormat { .. }
                | Self::OlderFormat { .. }
                | Self::UnknownFeatures { .. }
                | Self::UnknownKind { .. }
        )
    }

    /// Whether stored bytes cannot be had, for damage or because the system cannot read them.
    pub(crate) const fn is_unreadable(&self) -> bool {
        self.is_corruption() || matches!(self, Self::Media(_) | Self::Store(_))
    }

    /// Whether stored bytes are damaged, as opposed to unreachable.
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::CorruptChunk { .. } | Self::Lost { .. })
    }
}

impl From<MediaError> for PoolError {
    fn from(error: MediaError) -> Self {
        match error.meaning() {
            Meaning::NoSpace(what) => Self::NoSpace(what),
            Meaning::CutShort { name, len, problem } => Self::corrupt(name, len, problem),
            Meaning::Missing { .. } | Meaning::Unreachable => Self::Media(error),
        }
    }
}

impl From<StoreError> for PoolError {
    fn from(error: StoreError) -> Self {
        match error.meaning() {
            Meaning::NoSpace(what) => Self::NoSpace(what),
            Meaning::CutShort { name, len, problem } => Self::corrupt(name, len, problem),
            Meaning::Missing { .. } | Meaning::Unreachable => Self::Store(error),
        }
    }
}

impl From<PoolError> for BlockError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::ReadOnly => Self::ReadOnly,
            PoolError::VolumeDeleted => Self::ShuttingDown,
            PoolError::PastEnd { end, size } => {
                Self::OutOfRange { offset: size, len: end.saturating_sub(size), size }
            }
            PoolError::NoSpace(what) => Self::NoSpace(what),
            PoolError::Poisoned(why) => Self::Poisoned(why),
            PoolError::Corrupt { .. } | PoolError::CorruptChunk { .. } | PoolError::Lost { .. } => {
                Self::Corrupt(error.to_string())
            }
            PoolError::Io { context, source } => Self::Io { context, source },
            other => {
                Self::Io { context: "pool".to_owned(), source: io::Error::other(other.to_string()) }
            }
        }
    }
}

/// What is wrong with one record, before it is known whose it is.
#[derive(Debug, Error)]
pub(crate) enum RecordError {
    #[error("checksum is {found:08x}, but {expected:08x} was expected")]
    Checksum { found: u32, expected: u32 },
    #[error("a record of {units} units of 16 bytes was expected, but its header says {found}")]
    Length { units: u32, found: u32 },
    #[error("unknown codec {0}")]
    Codec(u8),
    #[error("does not decompress: {0}")]
    Decompress(#[from] DecompressError),
}
