//! Why an emulated drive cannot be made or opened.
//! Room: onefold-flash.

use onefold_block::{BlockError, LockError, MediaError};
use onefold_code::CodeError;
use thiserror::Error;

use super::files::{COPIES_FILE, NAND_FILE, SPEC_FILE};
use crate::dedup::PolicyError;
use crate::ftl::FtlError;
use crate::nand::bytes::{FileError, OpenError};
use crate::spec::ParseError;

/// Why an emulated drive cannot be made or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The folder holds something, but no drive.
    #[error("the folder is neither a drive nor empty: it holds '{0}'")]
    NotEmpty(String),
    /// The folder holds no drive.
    #[error("the folder holds no drive: it has no {name}", name = SPEC_FILE)]
    NoDrive,
    /// Another process has the drive open.
    #[error("the drive is in use by {holder}")]
    Locked {
        /// Who, as far as is known.
        holder: String,
    },
    /// The drive was made with another specification.
    #[error("the drive was made with '{has}', not '{wants}'")]
    Different {
        /// The line as recorded.
        has: String,
        /// The line as asked for.
        wants: String,
    },
    /// Something of the drive that cannot change any more.
    #[error("the drive was made with '{has}', not '{wants}', and that cannot change: {why}")]
    Fixed {
        /// The key and its value, as recorded.
        has: String,
        /// As asked for.
        wants: String,
        /// What depends on it.
        why: &'static str,
    },
    /// Files of two drives.
    #[error(
        "{nand} and {copies} are of different drives: put back the one that belongs here, or \
         remove {copies} if that is the other drive's",
        nand = NAND_FILE, copies = COPIES_FILE
    )]
    Mixed,
    /// What is to be changed is no specification.
    #[error(transparent)]
    Words(ParseError),
    /// The specification of the drive cannot be read or used.
    #[error("{name}: {0}", name = SPEC_FILE)]
    Spec(String),
    /// The scrambler or the code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The deduplication policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The map of an emulated drive names pages.
    #[error(
        "dedup.policy = \"codeword\" is simulated only, by `onefold ssd run`: the map of an \
         emulated drive names pages, which a power cut leaves old or new as a whole; expected \
         another policy"
    )]
    Codewords,
    /// The NAND file.
    #[error("{name}: {0}", name = NAND_FILE)]
    File(#[from] FileError),
    /// The array in it.
    #[error("{name}: {0}", name = NAND_FILE)]
    Nand(#[from] OpenError),
    /// The FTL.
    #[error(transparent)]
    Ftl(#[from] FtlError),
    /// The drive around it.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A file failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl From<LockError> for DriveError {
    fn from(error: LockError) -> Self {
        let (name, source) = match error {
            LockError::Held { holder } => return Self::Locked { holder },
            LockError::Io { path, source } => (path.display().to_string(), source),
            error => (String::new(), std::io::Error::other(error)),
        };
        Self::Media(MediaError::Io { action: "lock", name, source })
    }
}
