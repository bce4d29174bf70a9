//! The future of the controller: packed events in a few lines, each in order, and a heap.
//! Room: onefold-flash.
//! Invariants: events leave by (time, order of scheduling); one is 16 bytes: 64 bits of time, 36 of
//! sequence, 28 of event. 2^25 units or chains and 2^36 events are limits that are asserted.
//! Cost: most events are due a fixed time after they are scheduled, a read's, a program's, an
//! erase's, so that those of one kind come in the order in which they are due. Each goes to the
//! line of its kind; or, where it is due before the last one there, or of no such kind, to the line
//! whose last one is due latest before it. A pop looks at the firsts of the lines alone. What fits
//! into none of them goes to a four-way heap, which takes a few hundred events within two or three
//! cache lines. With the heap alone a run in steady collection takes a tenth longer.

use crate::controller::ring::Ring;

/// Something that will happen at a known time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The unit's present phase ends, unless it was interrupted since.
    Unit(u32),
    /// The engine step of this chain ends.
    Chain(u32),
    /// Background work on an engine ends.
    Engine,
    /// The present stage of this request ends.
    Stage(u32),
    /// The next request arrives.
    Arrival,
    /// The drive may have been idle for long enough.
    Idle,
}

/// Largest index that an event carries.
pub(crate) const INDEX_MAX: u32 = (1 << 25) - 1;
const SEQUENCE_MAX: u64 = (1 << 36) - 1;

impl Event {
    const fn pack(self) -> u32 {
        let (kind, index) = match self {
            Self::Unit(index) => (0, index),
            Self::Chain(index) => (1, index),
            Self::Engine => (2, 0),
            Self::Stage(index) => (3, index),
            Self::Arrival => (4, 0),
            Self::Idle => (5, 0),
        };
        assert!(index <= INDEX_MAX, "events number at most 2^25 things");
        (kind << 25) | index
    }

    const fn unpack(packed: u32) -> Self {
        let index = packed & INDEX_MAX;
        match packed >> 25 {
            0 => Self::Unit(index),
            1 => Self::Chain(index),
            2 => Self::Engine,
            3 => Self::Stage(index),
            4 => Self::Arrival,
            _ => Self::Idle,
        }
    }
}

/// What is due, earliest first.
#[derive(Clone, Debug)]
pub(crate) struct EventHeap {
    lines: [Ring<u128>; LINES],
    /// The first of each line, and of the heap.
    firsts: [u128; LINES + 1],
    /// When the last of each line is due, 0 without.
    lasts: [u64; LINES],
    heap: Vec<u128>,
    sequence: u64,
}

/// Lines: for reads, programs and erases, and one for what comes between.
const LINES: usize = 4;
/// No event.
const NEVER: u128 = u128::MAX;

impl Default for EventHeap {
    fn default() -> Self {
        Self {
            lines: Default::default(),
            firsts: [NEVER; LINES + 1],
            lasts: [0; LINES],
            heap: Vec::new(),
            sequence: 0,
        }
    }
}

impl EventHeap {
    /// Schedules an event.
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        let key = self.key(at_ns, event);
        self.push_somewhere(at_ns, key);
    }

    /// Schedules an event that is mostly due as long after it is scheduled as others of its kind,
    /// one of [`LINES`].
    #[inline]
    pub(crate) fn push_like(&mut self, kind: usize, at_ns: u64, event: Event) {
        let key = self.key(at_ns, event);
        if self.lasts[kind] <= at_ns {
            self.push_line(kind, at_ns, key);
        } else {
            self.push_somewhere(at_ns, key);
        }
    }

    #[inline]
    fn key(&mut self, at_ns: u64, event: Event) -> u128 {
        let sequence = self.sequence;
        assert!(sequence < SEQUENCE_MAX, "a run has at most 2^36 events");
        self.sequence += 1;
        u128::from(at_ns) << 64 | u128::from(sequence << 28 | u64::from(event.pack()))
    }

    /// What is scheduled later comes after what is due at the same time.
    #[inline]
    fn push_line(&mut self, line: usize, at_ns: u64, key: u128) {
        if self.lines[line].is_empty() {
            self.firsts[line] = key;
        }
        self.lines[line].push(key);
        self.lasts[line] = at_ns;
    }

    #[inline(never)]
    fn push_somewhere(&mut self, at_ns: u64, key: u128) {
        let (mut line, mut most) = (LINES, 0);
        for (at, &last) in self.lasts.iter().enumerate() {
            let closer = last <= at_ns && last >= most;
            (line, most) = if closer { (at, last) } else { (line, most) };
        }
        if line == LINES {
            self.push_heap(key);
        } else {
            self.push_line(line, at_ns, key);
        }
    }

    #[inline(never)]
    fn push_heap(&mut self, key: u128) {
        let mut hole = self.heap.len();
        self.heap.push(key);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = key;
        self.firsts[LINES] = self.heap[0];
    }

    /// Takes the earliest event out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let (line, top) = self.first();
        if top == NEVER {
            return None;
        }
        if line == LINES {
            self.pop_heap();
        } else {
            self.lines[line].drop_first();
            if let Some(&next) = self.lines[line].first() {
                self.firsts[line] = next;
            } else {
                self.firsts[line] = NEVER;
                self.lasts[line] = 0;
            }
        }
        Some(((top >> 64) as u64, Event::unpack((top & 0xfff_ffff) as u32)))
    }

    /// The event that is due earliest, and whether it is the first of a line or of the heap.
    #[inline]
    fn first(&self) -> (usize, u128) {
        let (mut line, mut least) = (0, self.firsts[0]);
        for (at, &first) in self.firsts.iter().enumerate().skip(1) {
            (line, least) = if first < least { (at, first) } else { (line, least) };
        }
        (line, least)
    }

    #[inline(never)]
    fn pop_heap(&mut self) {
        if let Some(last) = self.heap.pop().filter(|_| !self.heap.is_empty()) {
            self.sink(last);
        }
        self.firsts[LINES] = self.heap.first().copied().unwrap_or(NEVER);
    }

    /// When the earliest event is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let (_, least) = self.first();
        (least != NEVER).then_some((least >> 64) as u64)
    }

    /// Events scheduled so far.
    pub(crate) const fn scheduled(&self) -> u64 {
        self.sequence
    }

    /// Fills the hole at the root with `key`.
    fn sink(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            let children = match heap.get(first..) {
                None | Some([]) => break,
                Some(rest) => &rest[..rest.len().min(4)],
            };
            let (mut at, mut least) = (0, children[0]);
            for (index, &child) in children.iter().enumerate().skip(1) {
                if child < least {
                    (at, least) = (index, child);
                }
            }
            if key <= least {
                break;
            }
            heap[hole] = least;
            hole = first + at;
        }
        heap[hole] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::SplitMix64;

    #[test]
    fn events_leave_in_the_order_of_a_sort() {
        let mut random = SplitMix64::new(1);
        for size in [1_u32, 2, 3, 5, 17, 300] {
            let (mut heap, mut want) = (EventHeap::default(), Vec::new());
            for index in 0..size {
                let at = random.below(50);
                heap.push(at, Event::Unit(index));
                want.push((at, index));
            }
            // Pop half, push as many later ones, pop all.
            want.sort_unstable();
            let half = want.len() / 2;
            for &(at, index) in &want[..half] {
                assert_eq!(heap.pop(), Some((at, Event::Unit(index))));
            }
            let mut rest = want.split_off(half);
            for index in 0..size / 2 {
                let at = 50 + random.below(9);
                heap.push(at, Event::Chain(index));
                rest.push((at, index + size));
            }
            rest.sort_unstable();
            for (at, index) in rest {
                let event =
                    if index < size { Event::Unit(index) } else { Event::Chain(index - size) };
                assert_eq!(heap.pop(), Some((at, event)));
            }
            assert_eq!(heap.pop(), None);
        }
    }

    #[test]
    fn events_of_few_and_of_many_delays_leave_in_the_order_of_a_sort() {
        for delays in [1, 3, 4, 5, 1000] {
            let mut random = SplitMix64::new(delays);
            let (mut heap, mut want, mut now) = (EventHeap::default(), Vec::new(), 0);
            for index in 0..3000_u32 {
                let at = now + random.below(delays) * 17;
                heap.push(at, Event::Unit(index));
                want.push((at, index));
                if random.below(3) == 0 || want.len() > 200 {
                    want.sort_unstable();
                    let (at, index) = want.remove(0);
                    assert_eq!(heap.next_ns(), Some(at), "{delays} delays");
                    assert_eq!(heap.pop(), Some((at, Event::Unit(index))), "{delays} delays");
                    now = at;
                }
            }
            want.sort_unstable();
            assert!(
                want.into_iter().all(|(at, index)| heap.pop() == Some((at, Event::Unit(index))))
            );
            assert_eq!((heap.next_ns(), heap.pop()), (None, None));
        }
    }

    #[test]
    fn events_are_unpacked_as_they_were_packed() {
        for event in [
            Event::Unit(INDEX_MAX),
            Event::Chain(7),
            Event::Engine,
            Event::Stage(0),
            Event::Arrival,
            Event::Idle,
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }

    #[test]
    fn events_of_one_time_keep_their_order_up_to_the_last_number() {
        for begun in [0, (1 << 35) - 1, SEQUENCE_MAX - 2] {
            let mut heap = EventHeap { sequence: begun, ..EventHeap::default() };
            heap.push_like(1, 5, Event::Unit(1));
            heap.push_like(0, 5, Event::Unit(2));
            let out = [heap.pop(), heap.pop(), heap.pop()];
            assert_eq!(out, [Some((5, Event::Unit(1))), Some((5, Event::Unit(2))), None]);
            assert_eq!(heap.scheduled(), begun + 2);
        }
    }
}
