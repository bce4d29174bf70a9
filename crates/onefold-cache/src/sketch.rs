//! A count-min sketch with aging: how often a key was seen lately, in a few bytes per object.
//! Room: onefold-cache.
//! Source: [count-min-05]; aging as in `TinyLFU` [tiny-lfu-17]: after a sample of additions every
//! counter is halved. Of a key's counters only the lowest ones are raised.
//! Cost: four lines of memory per key; 4 rows of at least two counters of a byte per object.

/// Rows, each with its own hash.
const ROWS: u32 = 4;

/// Approximate counts.
#[derive(Clone, Debug)]
pub struct Sketch {
    counters: Vec<u8>,
    /// Counters of a row, a power of two.
    width: usize,
    counter_max: u8,
    /// Additions since the last halving.
    pub(crate) additions: u64,
    sample: u64,
}

impl Sketch {
    /// For this many objects; counters end at `counter_max` and are halved after `sample`
    /// additions.
    pub fn new(objects: usize, counter_max: u8, sample: u64) -> Self {
        let width = (objects.max(8) * 2).next_power_of_two();
        let counters = vec![0; width * ROWS as usize];
        Self { counters, width, counter_max, additions: 0, sample: sample.max(1) }
    }

    fn place(&self, hash: u64, row: u32) -> usize {
        let spread = (hash.rotate_left(row * 16) | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        row as usize * self.width + (spread >> 32) as usize % self.width
    }

    /// How often this hash was seen, at least; more by collisions, less by aging.
    pub fn count(&self, hash: u64) -> u8 {
        let counts = (0..ROWS).map(|row| self.counters[self.place(hash, row)]);
        counts.min().expect("there are rows")
    }

    /// This hash was seen.
    pub fn add(&mut self, hash: u64) {
        let count = self.count(hash);
        if count < self.counter_max {
            for row in 0..ROWS {
                let place = self.place(hash, row);
                self.counters[place] = self.counters[place].max(count + 1);
            }
        }
        self.additions += 1;
        if self.additions >= self.sample {
            self.additions /= 2;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
    }

    /// The counters and the additions since the last halving, for saving.
    pub fn parts(&mut self) -> (&mut [u8], &mut u64) {
        (&mut self.counters, &mut self.additions)
    }

    /// Both were loaded: no more additions than there can be.
    pub fn restored(&mut self) {
        self.additions = self.additions.min(self.sample);
    }

    /// Bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.counters.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_of;

    #[test]
    fn counts_are_at_least_true_and_rarely_more() {
        let mut sketch = Sketch::new(1000, 255, u64::MAX);
        for key in 0..1000 {
            (0..key % 10).for_each(|_| sketch.add(hash_of(key)));
        }
        let over: u64 = (0..1000)
            .map(|key| u64::from(sketch.count(hash_of(key))).checked_sub(key % 10).unwrap())
            .sum();
        assert!(over < 45, "{over} counted too much over 4500 additions");
    }

    #[test]
    fn counters_are_bounded_and_age() {
        let mut sketch = Sketch::new(8, 15, 40);
        (0..30).for_each(|_| sketch.add(hash_of(1)));
        assert_eq!(sketch.count(hash_of(1)), 15);
        (0..10).for_each(|_| sketch.add(hash_of(2)));
        assert_eq!((sketch.count(hash_of(1)), sketch.additions), (7, 20));
    }
}
