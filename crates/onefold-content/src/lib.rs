//! Craft: chunkers, fingerprints in batches, compressors and the compressibility test.
//!
//! Everything here is a pure function of bytes: no files, no clock, no threads. The modules in
//! the order in which data meets them:
//! - [`chunk`] finds where one chunk ends and the next begins;
//! - [`zero`] tells all-zero blocks, which are stored as holes;
//! - [`fingerprint`] names a block by its content, many blocks at once;
//! - [`compressibility`] tells blocks that no compressor will shrink;
//! - [`compress`] turns a chunk into its stored form and back.

pub mod chunk;
pub mod compress;
pub mod compressibility;
pub mod fingerprint;
pub mod zero;

mod blake3_lanes;
mod lz4;
mod lz4_encode;
mod sha256_lanes;
#[cfg(target_arch = "x86_64")]
mod sha256_x86;

pub use chunk::{ChunkSizes, ChunkSizesError, Chunker, Cut, FastCdc, FixedChunker, Rabin};
pub use compress::{
    Codec, Compression, Compressor, DecompressError, Decompressor, ParseCompressionError,
};
pub use compressibility::looks_incompressible;
pub use fingerprint::{Fingerprint, FingerprintKind, Fingerprinter, ParseFingerprintKindError};
pub use zero::is_zero;
