//! Which writes a flush waits for: those that came before it and are not stored yet.
//! Room: onefold-array.
//! Invariants: a flush is done once all writes before it are, and flushes are done in their order.

use std::collections::VecDeque;

/// Writes under way, by how many flushes came before them.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Flushes that are done.
    done: u32,
    /// For each flush that is on its way or waits: what came since the flush before it and is not
    /// done, itself included until it is received, and the number of its request.
    waiting: VecDeque<(u32, u32)>,
    /// Flushes of these that are received.
    received: u32,
    /// Writes since the last flush.
    open: u32,
}

impl Order {
    /// A write comes; the answer goes to [`Self::stored`].
    pub fn write(&mut self) -> u32 {
        self.open += 1;
        self.done.wrapping_add(self.waiting.len() as u32)
    }

    /// A flush comes; the answer goes to [`Self::flush_received`].
    pub fn flush(&mut self, request: u32) -> u32 {
        let epoch = self.write();
        self.waiting.push_back((self.open, request));
        self.open = 0;
        epoch
    }

    /// A flush is in the server: it waits for the writes before it alone.
    pub fn flush_received(&mut self, epoch: u32) {
        self.received += 1;
        self.stored(epoch);
    }

    /// A write is stored.
    pub fn stored(&mut self, epoch: u32) {
        let at = epoch.wrapping_sub(self.done) as usize;
        match self.waiting.get_mut(at) {
            Some((open, _)) => *open -= 1,
            None => self.open -= 1,
        }
    }

    /// The next flush that is done.
    pub fn next_done(&mut self) -> Option<u32> {
        let &(0, request) = self.waiting.front()? else { return None };
        self.waiting.pop_front();
        self.received -= 1;
        self.done = self.done.wrapping_add(1);
        Some(request)
    }

    /// Whether a flush waits in the server.
    pub const fn flush_waits(&self) -> bool {
        self.received > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_the_writes_before_it_and_for_no_others() {
        let mut order = Order::default();
        let first = order.flush(7);
        assert!(order.next_done().is_none() && !order.flush_waits(), "it is on its way");
        order.flush_received(first);
        assert_eq!((order.next_done(), order.next_done()), (Some(7), None));
        let (a, b) = (order.write(), order.write());
        let second = order.flush(8);
        let c = order.write();
        let third = order.flush(9);
        let d = order.write();
        order.flush_received(third);
        order.stored(c);
        order.stored(b);
        assert!(order.next_done().is_none() && order.flush_waits());
        order.stored(a);
        assert!(order.next_done().is_none(), "the first of the two is on its way");
        order.flush_received(second);
        assert_eq!([order.next_done(), order.next_done()], [Some(8), Some(9)]);
        assert!(!order.flush_waits());
        order.stored(d);
        let last = order.flush(10);
        order.flush_received(last);
        assert_eq!(order.next_done(), Some(10));
    }
}
