//! Why a stream is refused.
//! Room: onefold-pool.

use std::io;

use thiserror::Error;

/// Why a stream is refused. What came before the place was verified.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it does not begin as the stream of a snapshot does")]
    NoStream,
    /// Of a format that this onefold does not know.
    #[error("the stream has format version {0}; this onefold reads version 1")]
    Version(u32),
    /// It ends before its end.
    #[error("the stream is cut short: it ends at byte {at}, before its last frame")]
    Cut {
        /// Where, in bytes of the stream.
        at: u64,
    },
    /// A frame is damaged.
    #[error("the stream is damaged in the frame at byte {at}: {problem}")]
    Damaged {
        /// Where the frame begins, in bytes of the stream.
        at: u64,
        /// What was found.
        problem: String,
    },
    /// A frame belongs to another stream.
    #[error("the frame at byte {at} is of another stream")]
    Foreign {
        /// Where the frame begins, in bytes of the stream.
        at: u64,
    },
    /// A frame comes too early, too late or a second time.
    #[error(
        "the frame at byte {at} is for byte {found} of the volume, but that for byte {expected} \
         must come next"
    )]
    Order {
        /// Where the frame begins, in bytes of the stream.
        at: u64,
        /// The byte of the volume that it begins with.
        found: u64,
        /// The byte of the volume that must come next.
        expected: u64,
    },
    /// There is something after its end.
    #[error("there is more after the end of the stream, at byte {at}")]
    More {
        /// Where, in bytes of the stream.
        at: u64,
    },
}
