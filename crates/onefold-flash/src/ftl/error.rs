//! Why the FTL refused or failed a request.
//! Room: onefold-flash.

use thiserror::Error;

use crate::nand::NandError;

/// Why the FTL refused or failed a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FtlError {
    /// The host addressed a page that the drive does not have.
    #[error("logical page {lpn} is outside the drive of {pages} pages")]
    OutOfRange {
        /// The page.
        lpn: u32,
        /// Logical pages of the drive.
        pages: u32,
    },
    /// There is no block left to write to: too many have gone bad.
    #[error(
        "no block can be freed: {bad_blocks} of {blocks} blocks are bad; the drive is read-only"
    )]
    NoSpace {
        /// Blocks out of use.
        bad_blocks: u32,
        /// Blocks of the drive.
        blocks: u32,
    },
    /// The logical pages do not fit beside what collection needs.
    #[error(
        "{logical} logical pages and {own} of the map do not fit: {good} good blocks less {kept} \
         for collection and open blocks hold {usable} pages"
    )]
    NoRoom {
        /// Logical pages asked for.
        logical: u32,
        /// Pages of the FTL's own.
        own: u32,
        /// Good blocks of the drive.
        good: u32,
        /// Blocks of these that hold no data: the reserve, and those being filled.
        kept: u32,
        /// Pages of the others.
        usable: u64,
    },
    /// The settings cannot work with this array.
    #[error("{0}")]
    Settings(String),
    /// The array holds no drive, or not the one that the settings describe.
    #[error("{0}")]
    Unrecoverable(String),
    /// Damage took the page, or what said where it was; writing or trimming it ends that.
    #[error("logical page {lpn} is lost: the flash that held it is damaged")]
    Lost {
        /// The page.
        lpn: u32,
    },
    /// The array failed.
    #[error(transparent)]
    Nand(#[from] NandError),
}
