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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_reported_with_the_piece_that_completes_it() {
        let mut chunker = FixedChunker::new(10).expect("a size");
        let mut push = |len: usize| {
            let mut found = Vec::new();
            chunker.push(&vec![0; len], |cut| found.push((cut.offset, cut.len)));
            found
        };
        assert_eq!(push(9), []);
        assert_eq!(push(1), [(0, 10)]);
        assert_eq!(push(10), [(10, 10)]);
        assert_eq!(push(25), [(20, 10), (30, 10)]);
        assert_eq!(push(0), []);
        assert_eq!(push(15), [(40, 10), (50, 10)]);
        assert_eq!(chunker.finish().map(|cut| (cut.offset, cut.len)), None);
        chunker.push(&[0; 3], |_| panic!("too short"));
        assert_eq!(chunker.finish().map(|cut| (cut.offset, cut.len)), Some((0, 3)));
        for wrong in [0, ChunkSizes::MAX + 1] {
            assert!(FixedChunker::new(wrong).is_err(), "{wrong}");
        }
        assert!(FixedChunker::new(ChunkSizes::MAX).is_ok());
    }
}
