//! The future of the controller: a four-way heap of packed events.
//! Room: onefold-flash.
//! Invariants: events leave by (time, order of scheduling); one is 16 bytes: 64 bits of time, 36 of
//! sequence, 28 of event. 2^25 units or chains and 2^36 events are limits that are asserted.
//! Cost: a push or pop of a heap of a few hundred events stays within two or three cache lines.

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
#[derive(Clone, Debug, Default)]
pub(crate) struct EventHeap {
    heap: Vec<u128>,
    sequence: u64,
}

impl EventHeap {
    /// Schedules an event.
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        assert!(self.sequence < SEQUENCE_MAX, "a run has at most 2^36 events");
        let key =
            u128::from(at_ns) << 64 | u128::from(self.sequence) << 28 | u128::from(event.pack());
        self.sequence += 1;
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
    }

    /// Takes the earliest event out.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let last = self.heap.pop()?;
        let top = match self.heap.first() {
            None => last,
            Some(&top) => {
                self.sink(last);
                top
            }
        };
        Some(((top >> 64) as u64, Event::unpack((top & 0xfff_ffff) as u32)))
    }

    /// When the earliest event is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|top| (top >> 64) as u64)
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
}
