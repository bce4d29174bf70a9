//! Work on its way from the walk to the workers, bounded in bytes.
//! Room: onefold-estimate.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue of units of work with a price in bytes each.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    limit_bytes: usize,
}

struct State<T> {
    units: VecDeque<(T, usize)>,
    bytes: usize,
    is_closed: bool,
}

#[cfg(test)]
impl<T> Queue<T> {
    /// Bytes of the units that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.lock().bytes
    }
}

impl<T> Queue<T> {
    /// At most about `limit_bytes` of waiting units; one unit always fits.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let state = State { units: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), limit_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until there is room, then add a unit. After [`Queue::close`] the unit is dropped.
    pub(crate) fn push(&self, unit: T, bytes: usize) {
        let mut state = self.lock();
        while state.bytes > 0 && state.bytes + bytes > self.limit_bytes && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.is_closed {
            state.units.push_back((unit, bytes));
            state.bytes += bytes;
            self.changed.notify_all();
        }
    }

    /// The next unit; `None` once the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some((unit, bytes)) = state.units.pop_front() {
                state.bytes -= bytes;
                self.changed.notify_all();
                return Some(unit);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more units will come.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// No more units will come, and those waiting are let go.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.units.clear();
        state.is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_comes_out_once_through_a_tiny_queue() {
        let queue = Queue::new(10);
        let sum: u64 = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| queue.pop()).sum::<u64>()))
                .collect();
            (0..1000).for_each(|unit| queue.push(unit, 7));
            queue.close();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(sum, 999 * 1000 / 2);
    }

    #[test]
    fn units_come_in_order_and_fit_up_to_the_limit_or_alone() {
        let queue = Queue::new(10);
        queue.push(1, 100);
        assert_eq!((queue.waiting_bytes(), queue.pop()), (100, Some(1)));
        queue.push(2, 4);
        queue.push(3, 6);
        assert_eq!(queue.waiting_bytes(), 10);
        assert_eq!((queue.pop(), queue.pop(), queue.waiting_bytes()), (Some(2), Some(3), 0));
        queue.push(5, 3);
        queue.close();
        queue.push(6, 1);
        assert_eq!((queue.pop(), queue.pop(), queue.waiting_bytes()), (Some(5), None, 0));
    }

    #[test]
    fn an_abandoned_queue_lets_a_waiting_giver_go() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let giver = scope.spawn(|| (0..100).for_each(|unit| queue.push(unit, 1)));
            assert_eq!(queue.pop(), Some(0));
            queue.abandon();
            giver.join().unwrap();
        });
        assert_eq!(queue.pop(), None);
    }
}
