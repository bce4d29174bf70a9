//! What is on disk, byte for byte; docs/archive.md has the tables.
//! Room: onefold-archive.
//! Invariant: decoding arbitrary bytes gives a value or an error, never a panic, and allocates no
//! more than the bytes given.

use crate::error::ArchiveError;

pub mod bytes;
pub mod chunk_ref;
pub mod container;
pub mod entry;
pub mod group;
pub mod log_record;
pub mod pending_file;
pub mod settings_file;
pub mod version_file;

/// The format version of everything here. Version 1 kept what a version took in the log only,
/// version 2 compressed each chunk by itself; 3 was that of an encrypted archive's settings then.
pub const FORMAT_VERSION: u32 = 4;

/// Refuse a format version that is not this one's.
pub(crate) fn check_version(what: &str, found: u32) -> Result<(), ArchiveError> {
    let (what, supported) = (what.to_owned(), FORMAT_VERSION);
    match found.cmp(&FORMAT_VERSION) {
        std::cmp::Ordering::Less => Err(ArchiveError::OlderFormat { what, found, supported }),
        std::cmp::Ordering::Greater => Err(ArchiveError::NewerFormat { what, found, supported }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}
