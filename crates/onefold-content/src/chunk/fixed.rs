//! The fixed chunker: equal pieces, aligned to the start of the stream.
//! Room: onefold-content.   Cost: O(1) per chunk; the bytes are not looked at.

use super::{ChunkSizes, ChunkSizesError, Cut, Progress};

/// Cuts a stream into chunks of one size; only the last may be shorter.
#[derive(Clone, Debug)]
pub struct FixedChunker {
    size: usize,
    progress: Progress,
}

impl FixedChunker {
    /// A chunker for chunks of `size` bytes, 1 to [`ChunkSizes::MAX`].
    pub const fn new(size: usize) -> Result<Self, ChunkSizesError> {
        if size == 0 || size > ChunkSizes::MAX {
            return Err(ChunkSizesError::Size { got: size });
        }
        Ok(Self { size, progress: Progress { offset: 0, len: 0 } })
    }

    /// The chunks of `data`, as `(offset, len)`.
    pub fn cuts(&self, data: &[u8]) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (size, total) = (self.size, data.len());
        (0..total).step_by(size).map(move |offset| (offset, size.min(total - offset)))
    }

    /// Feeds the next piece of the stream and reports each chunk that ends inside it.
    pub fn push(&mut self, piece: &[u8], mut found: impl FnMut(Cut)) {
        let mut left = piece.len();
        while self.progress.len + left >= self.size {
            left -= self.size - self.progress.len;
            self.progress.len = self.size;
            found(self.progress.cut());
        }
        self.progress.len += left;
    }

    /// Ends the stream: the last chunk, if any bytes are left. The chunker is then as new.
    pub fn finish(&mut self) -> Option<Cut> {
        self.progress.finish()
    }
}
