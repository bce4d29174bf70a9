//! The opportunistic batch maker.
//! Room: onefold-array.
//! Source: [ajdari-talk], "CIDR SW Support".
//! Invariants: a batch closes when it is full, or when the queue has run dry while someone is free
//! to take it; never on a timer. Chunks keep their order.

use std::collections::VecDeque;

/// Why a batch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It holds as much as it may.
    Full,
    /// Nothing more had arrived.
    Dry,
}

/// Chunks that wait to be taken together.
#[derive(Clone, Debug)]
pub struct BatchMaker<T> {
    waiting: VecDeque<T>,
    limit: usize,
}

impl<T> BatchMaker<T> {
    /// Batches of at most `limit` chunks.
    pub fn new(limit: usize) -> Self {
        assert!(limit > 0, "a batch has room for a chunk");
        Self { waiting: VecDeque::new(), limit }
    }

    /// A chunk has arrived.
    pub fn push(&mut self, chunk: T) {
        self.waiting.push_back(chunk);
    }

    /// Someone is free: the next batch, put into `to`, and why it closed. `None` if nothing waits.
    pub fn take(&mut self, to: &mut Vec<T>) -> Option<Closed> {
        if self.waiting.is_empty() {
            return None;
        }
        let count = self.next_len();
        to.extend(self.waiting.drain(..count));
        Some(if count == self.limit { Closed::Full } else { Closed::Dry })
    }

    /// Chunks of the next batch.
    pub fn next_len(&self) -> usize {
        self.waiting.len().min(self.limit)
    }

    /// Chunks that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_closes_full_or_dry_and_keeps_the_order() {
        let mut maker = BatchMaker::new(3);
        let mut batch = Vec::new();
        assert_eq!(maker.take(&mut batch), None);
        (0..5).for_each(|chunk| maker.push(chunk));
        assert_eq!(maker.take(&mut batch), Some(Closed::Full));
        assert_eq!((batch.as_slice(), maker.len(), maker.next_len()), (&[0, 1, 2][..], 2, 2));
        batch.clear();
        assert_eq!(maker.take(&mut batch), Some(Closed::Dry));
        assert_eq!(batch, [3, 4]);
        assert!(maker.is_empty());
    }
}
