//! The delayed chunk buffer: unique chunks that nobody has compressed yet.
//! Room: onefold-array.
//! Source: [ajdari-talk], "CIDR SW Support" and Key Idea #4.
//! Invariants: chunks leave in the order they came; none stays past its deadline while it could
//! leave; room is set aside before a batch may put chunks in, so that none is ever lost.

use std::collections::VecDeque;

use super::budget::Budget;

/// When chunks leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// The compression units are the ones that is waited for.
    pub units_contended: bool,
    /// Nothing else is there to do.
    pub idle: bool,
    /// Someone waits for room in the buffer, or a flush for what is in it.
    pub wanted: bool,
}

/// Chunks with the time, in ns, by which they have to leave.
#[derive(Clone, Debug)]
pub struct DelayedBuffer<T> {
    chunks: VecDeque<(u64, T)>,
    budget: Budget,
    chunk_bytes: u64,
    batch: usize,
    defers: bool,
}

impl<T> DelayedBuffer<T> {
    /// A buffer of `bytes`; batches of at most `batch` chunks leave it. With `defers` they wait
    /// for compression units that are free.
    pub fn new(bytes: u64, chunk_bytes: u64, batch: usize, defers: bool) -> Self {
        let (chunks, budget) = (VecDeque::new(), Budget::new(bytes));
        Self { chunks, budget, chunk_bytes, batch, defers }
    }

    /// Chunks that an empty buffer has room for.
    pub fn holds(&self) -> usize {
        usize::try_from(self.budget.limit() / self.chunk_bytes).unwrap_or(usize::MAX)
    }

    /// Sets room aside for as many chunks as a batch may put in.
    #[must_use]
    pub fn reserve(&mut self, chunks: usize) -> bool {
        self.budget.try_take(chunks as u64 * self.chunk_bytes)
    }

    /// Gives room back that was set aside and not used, or whose chunks have been compressed.
    pub fn release(&mut self, chunks: usize) {
        self.budget.give(chunks as u64 * self.chunk_bytes);
    }

    /// Puts a chunk into room that was set aside.
    pub fn push(&mut self, deadline_ns: u64, chunk: T) {
        self.chunks.push_back((deadline_ns, chunk));
    }

    /// Takes a batch if one should leave now.
    pub fn take(&mut self, now_ns: u64, pressure: Pressure, to: &mut Vec<T>) -> bool {
        let Some(&(deadline_ns, _)) = self.chunks.front() else { return false };
        let full = self.chunks.len() >= self.batch;
        let contended = self.defers && pressure.units_contended;
        let leaves =
            now_ns >= deadline_ns || pressure.wanted || pressure.idle || (full && !contended);
        if leaves {
            let count = self.chunks.len().min(self.batch);
            to.extend(self.chunks.drain(..count).map(|(_, chunk)| chunk));
        }
        leaves
    }

    /// When the first chunk has to leave, in ns.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.chunks.front().map(|(deadline_ns, _)| *deadline_ns)
    }

    /// Chunks in the buffer.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes that were ever taken at once.
    pub const fn peak_bytes(&self) -> u64 {
        self.budget.peak()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Pressure = Pressure { units_contended: false, idle: false, wanted: false };

    #[test]
    fn chunks_leave_full_free_late_or_wanted_and_never_else() {
        let mut buffer = DelayedBuffer::new(40, 10, 2, true);
        let mut taken = Vec::new();
        assert_eq!((buffer.holds(), DelayedBuffer::<()>::new(39, 10, 2, true).holds()), (4, 3));
        assert!(buffer.reserve(3) && !buffer.reserve(2));
        buffer.push(100, 'a');
        assert!(!buffer.take(99, CALM, &mut taken));
        buffer.push(200, 'b');
        buffer.push(300, 'c');
        let contended = Pressure { units_contended: true, ..CALM };
        assert!(!buffer.take(99, contended, &mut taken));
        assert!(buffer.take(99, CALM, &mut taken));
        assert_eq!((taken.as_slice(), buffer.next_deadline_ns()), (&['a', 'b'][..], Some(300)));
        assert!(!buffer.take(299, Pressure { units_contended: true, ..CALM }, &mut taken));
        assert!(buffer.take(300, contended, &mut taken) && buffer.is_empty());
        buffer.release(3);
        assert!(buffer.reserve(4));
        buffer.push(900, 'd');
        assert!(buffer.clone().take(0, Pressure { idle: true, ..contended }, &mut taken));
        assert!(buffer.take(0, Pressure { wanted: true, ..contended }, &mut taken));
        assert_eq!((taken, buffer.peak_bytes()), (vec!['a', 'b', 'c', 'd', 'd'], 40));
    }
}
