//! What can be wrong with a question to the estimator, and with partial results.
//! Room: onefold-estimate.

use std::io;
use std::path::PathBuf;

use onefold_block::{ByteSize, ParseSizeError};
use onefold_content::ChunkSizesError;
use thiserror::Error;

/// Why there is no estimate. Files that cannot be read are no such error: they are counted and
/// named in the report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// Nothing to look at was named.
    #[error("no input: name at least one file, folder, disk image or block device")]
    NoInput,
    /// An input that was named cannot be looked at, so nothing was started.
    #[error("{}: {source}", path.display())]
    Input {
        /// The input as it was named.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// An input that was named holds something that cannot be read.
    #[error("{}: {source}", path.display())]
    Image {
        /// The input as it was named.
        path: PathBuf,
        /// What it is.
        source: onefold_image::ImageError,
    },
    /// An input that is neither file, folder nor block device.
    #[error(
        "{}: is a {kind}; accepted are files, folders, disk images and block devices",
        path.display()
    )]
    InputKind {
        /// The input as it was named.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A text that names no chunk size.
    #[error("chunk size: {0}")]
    ChunkText(ParseSizeError),
    /// A fixed chunk size out of range.
    #[error("chunk size {0}: accepted are the powers of two from 512 B to 128 KiB")]
    ChunkSize(ByteSize),
    /// No chunk size at all.
    #[error("no chunk size: choose at least the primary one")]
    NoChunkSize,
    /// More chunk sizes, chunkers or compressions than a run takes.
    #[error("{got} {what}: at most {limit} in one run")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many were asked for.
        got: usize,
        /// How many are accepted.
        limit: usize,
    },
    /// The primary chunk size is not among the fixed ones.
    #[error("primary chunk size {0} is not among the fixed chunk sizes of this run")]
    Primary(ByteSize),
    /// Content-defined chunk sizes that no chunker can work with.
    #[error("content-defined chunks: {0}")]
    ContentDefined(#[from] ChunkSizesError),
    /// The memory budget is too small for what was asked.
    #[error("memory of {got} is too little for these settings: at least {need} is needed")]
    Memory {
        /// What was offered.
        got: ByteSize,
        /// The least that works.
        need: ByteSize,
    },
    /// A shard that is none.
    #[error("shard {index}/{count}: expected i/n with 0 <= i < n <= 65536")]
    Shard {
        /// Number of the shard, from 0.
        index: u32,
        /// Number of shards.
        count: u32,
    },
    /// A text that names no shard.
    #[error("'{0}' is no shard: expected i/n with 0 <= i < n, such as 0/4")]
    ShardText(String),
    /// A file of partial results cannot be read or written.
    #[error("{}: {source}", path.display())]
    PartialIo {
        /// The file.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// A file of partial results that is damaged, cut short, foreign or of another version.
    #[error("{}, byte {offset}: {what}", path.display())]
    BadPartial {
        /// The file.
        path: PathBuf,
        /// Where it was noticed, in bytes from the start.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// Partial results that do not belong together.
    #[error("{}: {what}", path.display())]
    Mismatch {
        /// The file that does not fit those before it.
        path: PathBuf,
        /// In what they differ.
        what: String,
    },
    /// Some shards of a set are not there.
    #[error(
        "of {inputs}, shard {missing} of {count} is missing: merge all shards of a tree at once"
    )]
    MissingShard {
        /// The inputs of the set.
        inputs: String,
        /// The first one that is missing.
        missing: u32,
        /// How many there are.
        count: u32,
    },
}
