//! Pieces of objects that were read lately, kept within a budget.
//! Room: onefold-objects.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are kept at most, but for the piece that came last.
const KEPT_BYTES: usize = 24 << 20;

/// A piece of a file: its first byte, and its bytes.
pub type Piece = (u64, Arc<Vec<u8>>);

/// Pieces by the number of their file; of each file its end, and what was read of it last.
#[derive(Default)]
pub struct Blocks {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    pieces: HashMap<(u64, bool), Piece>,
    order: VecDeque<(u64, bool)>,
    bytes: usize,
}

impl Blocks {
    /// Copy bytes of a file from what is kept of it; false if that is not all of them.
    pub fn copy(&self, file: u64, offset: u64, buf: &mut [u8]) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        [true, false].into_iter().any(|is_tail| {
            let Some((start, bytes)) = kept.pieces.get(&(file, is_tail)) else { return false };
            let Some(from) = offset.checked_sub(*start) else { return false };
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let found = bytes.get(from..from.saturating_add(buf.len()));
            if let Some(found) = found {
                buf.copy_from_slice(found);
            }
            found.is_some()
        })
    }

    /// Keep a piece of a file, in the place of the one of that kind.
    pub fn keep(&self, file: u64, is_tail: bool, piece: Piece) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += piece.1.len();
        match kept.pieces.insert((file, is_tail), piece) {
            Some(old) => kept.bytes -= old.1.len(),
            None => kept.order.push_back((file, is_tail)),
        }
        while kept.bytes > KEPT_BYTES && kept.order.len() > 1 {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some((_, bytes)) = kept.pieces.remove(&oldest) {
                kept.bytes -= bytes.len();
            }
        }
    }

    /// Forget a file.
    pub fn forget(&self, file: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for is_tail in [true, false] {
            if let Some((_, bytes)) = kept.pieces.remove(&(file, is_tail)) {
                kept.bytes -= bytes.len();
                kept.order.retain(|key| *key != (file, is_tail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_kept_within_the_budget_and_forgotten() {
        let blocks = Blocks::default();
        let mut buf = [0; 2];
        blocks.keep(1, true, (100, Arc::new(vec![1, 2, 3])));
        blocks.keep(1, false, (0, Arc::new(vec![7, 8])));
        assert!(blocks.copy(1, 101, &mut buf) && buf == [2, 3]);
        assert!(blocks.copy(1, 0, &mut buf) && buf == [7, 8]);
        for (file, offset) in [(1, 1), (1, 99), (1, 102), (1, u64::MAX), (2, 100)] {
            assert!(!blocks.copy(file, offset, &mut buf), "{file} {offset}");
        }
        // What comes pushes out what came first.
        blocks.keep(2, true, (0, Arc::new(vec![0; KEPT_BYTES])));
        assert!(!blocks.copy(1, 101, &mut buf) && blocks.copy(2, 5, &mut buf));
        blocks.keep(2, true, (0, Arc::new(vec![9; 4])));
        assert_eq!(blocks.kept.lock().unwrap().bytes, 4);
        blocks.forget(2);
        let kept = blocks.kept.lock().unwrap();
        assert!(kept.bytes == 0 && kept.order.is_empty() && kept.pieces.is_empty());
    }
}
