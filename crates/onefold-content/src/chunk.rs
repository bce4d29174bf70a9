//! Chunkers: where one chunk ends and the next begins.
//! Room: onefold-content.   In: bytes, in one piece or many.   Out: [`Cut`]s, in order.
//! Invariants: (1) the cuts tile the input without gap or overlap  (2) they do not depend on how
//! the input was split into pieces  (3) every chunk but the last has min to max bytes.

mod fastcdc;
mod fixed;
mod rabin;

pub use fastcdc::FastCdc;
pub use fixed::FixedChunker;
pub use rabin::Rabin;

/// One chunk of a stream: `offset..offset + len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the start of the stream.
    pub offset: u64,
    /// Bytes in the chunk, at least 1.
    pub len: usize,
}

/// Bounds of a content-defined chunk, in bytes; checked when made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    min: usize,
    avg: usize,
    max: usize,
}

/// Chunk sizes that no chunker can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkSizesError {
    /// Zero, or beyond what a chunk may have.
    #[error("chunk size {got}: expected 1 to {limit} bytes", limit = ChunkSizes::MAX)]
    Size {
        /// The size asked for.
        got: usize,
    },
    /// The minimum is below the rolling hash's window.
    #[error("minimum chunk size {got}: expected at least {limit} bytes", limit = ChunkSizes::MIN)]
    Min {
        /// The minimum asked for.
        got: usize,
    },
    /// The average is too small, or not a power of two, or not above the minimum.
    #[error("average chunk size {got}: expected a power of two above the minimum of {min} bytes")]
    Avg {
        /// The average asked for.
        got: usize,
        /// The minimum it must exceed.
        min: usize,
    },
    /// The maximum is not above the average, or beyond the limit.
    #[error(
        "maximum chunk size {got}: expected more than the average of {avg}, at most {limit} bytes",
        limit = ChunkSizes::MAX
    )]
    Max {
        /// The maximum asked for.
        got: usize,
        /// The average it must exceed.
        avg: usize,
    },
}

impl ChunkSizes {
    /// Smallest minimum: the width of the rolling hashes' windows.
    pub const MIN: usize = 64;
    /// Largest maximum, 16 MiB: bounds the memory a reader needs for one chunk.
    pub const MAX: usize = 16 << 20;

    /// Bounds with 64 <= `min` < `avg` < `max` <= 16 MiB and `avg` a power of two.
    pub const fn new(min: usize, avg: usize, max: usize) -> Result<Self, ChunkSizesError> {
        if min < Self::MIN {
            return Err(ChunkSizesError::Min { got: min });
        }
        if avg <= min || !avg.is_power_of_two() {
            return Err(ChunkSizesError::Avg { got: avg, min });
        }
        if max <= avg || max > Self::MAX {
            return Err(ChunkSizesError::Max { got: max, avg });
        }
        Ok(Self { min, avg, max })
    }

    /// Smallest chunk, except the last of a stream.
    pub const fn min(self) -> usize {
        self.min
    }

    /// Aimed-at chunk.
    pub const fn avg(self) -> usize {
        self.avg
    }

    /// Largest chunk.
    pub const fn max(self) -> usize {
        self.max
    }
}

/// Any chunker, as settings choose it.
#[derive(Clone, Debug)]
pub enum Chunker {
    /// Equal pieces.
    Fixed(FixedChunker),
    /// Gear hash with normalised chunking.
    FastCdc(FastCdc),
    /// Rabin fingerprint of a sliding window.
    Rabin(Rabin),
}

impl Chunker {
    /// Feeds the next piece of the stream and reports each chunk that ends inside it.
    pub fn push(&mut self, piece: &[u8], found: impl FnMut(Cut)) {
        match self {
            Self::Fixed(chunker) => chunker.push(piece, found),
            Self::FastCdc(chunker) => chunker.push(piece, found),
            Self::Rabin(chunker) => chunker.push(piece, found),
        }
    }

    /// Ends the stream: the last chunk, if any bytes are left. The chunker is then as new.
    pub fn finish(&mut self) -> Option<Cut> {
        match self {
            Self::Fixed(chunker) => chunker.finish(),
            Self::FastCdc(chunker) => chunker.finish(),
            Self::Rabin(chunker) => chunker.finish(),
        }
    }
}

/// Where a stream stands; shared by all chunkers.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Where the open chunk starts.
    offset: u64,
    /// Bytes of the open chunk seen so far.
    len: usize,
}

impl Progress {
    /// Closes the open chunk and starts the next.
    fn cut(&mut self) -> Cut {
        let cut = Cut { offset: self.offset, len: self.len };
        self.offset += self.len as u64;
        self.len = 0;
        cut
    }

    /// Ends the stream: the open chunk unless it is empty; back to the start.
    fn finish(&mut self) -> Option<Cut> {
        let last = (self.len > 0).then(|| self.cut());
        *self = Self::default();
        last
    }
}
