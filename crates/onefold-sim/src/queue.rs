//! The event queue: a heap ordered by (time, sequence), so that ties fall in order of arrival.
//! Room: onefold-sim.   In: events with the time they are due.   Out: the earliest, one by one.
//! Invariants: (1) events leave in order of time  (2) events of one time leave in the order they
//! came  (3) nothing is scheduled before the present.
//! Cost: O(log n) per event, 16 bytes of key beside the event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::{SimSpan, SimTime};

/// The future: what is due, and when.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
    now: SimTime,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    /// Time in the upper half, sequence in the lower: one comparison orders both.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap gives out its largest entry, which must be the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> EventQueue<E> {
    /// An empty future at time zero.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0, now: SimTime::ZERO }
    }

    /// The present: when the last event taken out was due.
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// How many events are due.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is due.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Schedules an event at `at`, which must not lie in the past.
    pub fn at(&mut self, at: SimTime, event: E) {
        assert!(at >= self.now, "an event at {at} lies before the present, {}", self.now);
        let key = (u128::from(at.ns()) << 64) | u128::from(self.sequence);
        self.sequence += 1;
        self.heap.push(Entry { key, event });
    }

    /// Schedules an event `span` from now.
    pub fn after(&mut self, span: SimSpan, event: E) {
        self.at(self.now + span, event);
    }

    /// When the next event is due.
    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.peek().map(|entry| SimTime::from_ns((entry.key >> 64) as u64))
    }

    /// Takes out the next event and moves the present to it.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let entry = self.heap.pop()?;
        self.now = SimTime::from_ns((entry.key >> 64) as u64);
        Some((self.now, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_fall_in_order_of_arrival() {
        let mut queue = EventQueue::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b'), (5, 'e')] {
            queue.at(SimTime::from_ns(at), event);
        }
        assert_eq!((queue.len(), queue.next_time()), (5, Some(SimTime::from_ns(1))));
        let order: String = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, "abcde");
        assert!(queue.is_empty());
        assert_eq!(queue.now(), SimTime::from_ns(5));
    }

    #[test]
    #[should_panic(expected = "before the present")]
    fn the_past_cannot_be_changed() {
        let mut queue = EventQueue::new();
        queue.at(SimTime::from_ns(5), ());
        queue.pop();
        queue.at(SimTime::from_ns(4), ());
    }
}
