//! Bytes of chunks as they are handed out, those that follow on each other in one piece of memory.
//! Room: onefold-archive.
//! Cost: a piece is there as long as one of its chunks is: chunks of one should be let go together.

use std::ops::{Deref, Range};
use std::sync::Arc;

use onefold_content::is_zero;

/// The bytes of a chunk.
#[derive(Clone, Debug)]
pub struct ChunkBytes {
    piece: Arc<Vec<u8>>,
    range: Range<usize>,
    /// That all are zeroes is known without looking.
    are_zeroes: bool,
}

impl ChunkBytes {
    /// Those at `range` of a piece.
    pub const fn of(piece: Arc<Vec<u8>>, range: Range<usize>) -> Self {
        Self { piece, range, are_zeroes: false }
    }

    /// So many of a piece that is all zeroes.
    pub const fn zeroes(piece: Arc<Vec<u8>>, len: usize) -> Self {
        Self { piece, range: 0..len, are_zeroes: true }
    }

    /// Whether all are zeroes.
    pub fn are_zeroes(&self) -> bool {
        self.are_zeroes || is_zero(self)
    }

    /// Take in the bytes of a chunk that come next, if they lie behind these; otherwise give them
    /// back.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        if Arc::ptr_eq(&self.piece, &next.piece) && self.range.end == next.range.start {
            self.range.end = next.range.end;
            self.are_zeroes &= next.are_zeroes;
            return None;
        }
        Some(next)
    }
}

impl Deref for ChunkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.piece[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_is_taken_in_and_all_else_given_back() {
        let piece = Arc::new((0..10).collect::<Vec<u8>>());
        let of = |range| ChunkBytes::of(Arc::clone(&piece), range);
        let mut bytes = of(2..4);
        assert!(bytes.join(of(4..7)).is_none());
        assert_eq!(*bytes, [2, 3, 4, 5, 6]);
        for other in [of(8..9), of(2..4), ChunkBytes::of(Arc::new(vec![0; 10]), 7..9)] {
            let expected = other.to_vec();
            assert_eq!(bytes.join(other).unwrap()[..], expected);
        }
        assert_eq!(*bytes, [2, 3, 4, 5, 6]);
    }
}
