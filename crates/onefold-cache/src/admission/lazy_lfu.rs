//! Lazy LFU: a newcomer is written if its count clearly exceeds the lowest count in the cache.
//! Room: onefold-cache.
//! Source: ours, as a rival to the filters: admit on count > m * min + d, counts of all containers,
//! never aged. Goes with [`crate::eviction::lfu`] ordered by the same counts.
//! Cost: 4 bytes per container that was ever seen.

use crate::counts::Counts;
use crate::policy::{Admission, Incoming, Parts};

/// Counts and what a newcomer needs.
#[derive(Clone, Debug)]
pub struct LazyLfu {
    counts: Counts<u32>,
    factor: f64,
    distance: u32,
}

impl LazyLfu {
    /// A newcomer needs more than `factor` times the lowest count plus `distance`.
    pub fn new(factor: f64, distance: u32) -> Self {
        Self { counts: Counts::default(), factor, distance }
    }

    fn count(&mut self, incoming: &mut Incoming) {
        let count = self.counts.get_mut(incoming.key);
        *count = count.saturating_add(1);
        incoming.count = *count;
    }
}

impl Admission for LazyLfu {
    fn hit(&mut self, incoming: &mut Incoming) {
        self.count(incoming);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.count(incoming);
        true
    }

    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        let lowest = f64::from(self.counts.get(victim));
        f64::from(incoming.count) > self.factor * lowest + f64::from(self.distance)
    }

    fn forget(&mut self, key: u64) {
        if self.counts.get(key) != 0 {
            *self.counts.get_mut(key) = 0;
        }
    }

    fn prefetch(&self, key: u64, _: u64) {
        self.counts.prefetch(key);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { counts: vec![&mut self.counts], ..Parts::default() }
    }

    fn history_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }
}
