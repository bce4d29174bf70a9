//! The on-disk format: every structure's bytes, and nothing else.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, whose tables these modules mirror. Everything is little-endian;
//! every structure carries a magic, a version where it stands alone, and a checksum.

pub mod container;
pub mod container_table;
pub mod frame;
#[cfg(test)]
mod limits_tests;
pub mod pair;
pub mod record;
pub mod run;
pub mod superblock;
pub mod witness;

use crate::error::PoolError;

/// The only format version that this code writes and reads. Version 1 had no owners in directories
/// and no room for what follows; no release ever wrote it.
pub const FORMAT_VERSION: u32 = 2;

/// The highest number of a checkpoint: pages of the map tell with 48 bits which one wrote them.
pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// The number of a checkpoint that is about to be made.
pub(crate) fn check_sequence(sequence: u64) -> Result<u64, PoolError> {
    if sequence > SEQUENCE_MAX {
        let most = format!("a pool can have {SEQUENCE_MAX} checkpoints in its life");
        return Err(PoolError::Setting(most));
    }
    Ok(sequence)
}

/// Refuse a structure of another version, whose checksum holds, by name.
pub(crate) fn check_version(what: &str, found: u32) -> Result<(), PoolError> {
    let (what, supported) = (what.to_owned(), FORMAT_VERSION);
    match found {
        FORMAT_VERSION => Ok(()),
        0..FORMAT_VERSION => Err(PoolError::OlderFormat { what, found, supported }),
        _ => Err(PoolError::NewerFormat { what, found, supported }),
    }
}
