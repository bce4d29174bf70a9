//! Lazy LFU with counts that fade: the rule of [`super::lazy_lfu`] for popularity that moves.
//! Room: onefold-cache.
//! Source: ours, as a rival. Counts fade by a half-life ([`crate::score`]), which is what halving
//! all of them from time to time does, without its steps. Goes with
//! [`crate::eviction::score_queue`].
//! Cost: 4 bytes per container that was ever seen.

use crate::cache::Capacity;
use crate::counts::Counts;
use crate::policy::{Admission, Incoming, Parts};
use crate::score::{ONE, Scores};

/// Faded counts and what a newcomer needs.
#[derive(Clone, Debug)]
pub struct FadedLfu {
    counts: Counts<u32>,
    scores: Scores,
    factor: f64,
    distance: f64,
    /// What the present moves per request, in 2^-32 of a score's unit.
    pace: u64,
    /// The present, whole and part.
    numbers: [u64; 2],
}

impl FadedLfu {
    /// A newcomer needs more than `factor` times the lowest count plus `distance`; counts halve in
    /// `half_life` requests per object that fits.
    pub fn new(capacity: Capacity, factor: f64, distance: u32, half_life: f64) -> Self {
        let one = f64::from(ONE) * (1_u64 << 32) as f64;
        Self {
            counts: Counts::default(),
            scores: Scores::default(),
            factor,
            distance: distance.into(),
            pace: (one / (half_life * capacity.objects.max(1) as f64)) as u64,
            numbers: [u64::from(ONE), 0],
        }
    }

    fn present(&self) -> u32 {
        u32::try_from(self.numbers[0]).unwrap_or(u32::MAX)
    }

    fn count(&mut self, incoming: &mut Incoming) {
        let part = self.numbers[1] + (self.pace & 0xffff_ffff);
        self.numbers[0] += (self.pace >> 32) + (part >> 32);
        self.numbers[1] = part & 0xffff_ffff;
        let present = self.present();
        let count = self.counts.get_mut(incoming.key);
        *count = if *count == 0 { present } else { self.scores.sum(*count, present) };
        incoming.count = *count;
    }
}

impl Admission for FadedLfu {
    fn hit(&mut self, incoming: &mut Incoming) {
        self.count(incoming);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.count(incoming);
        true
    }

    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        let count = |score| self.scores.count(score, self.present());
        count(incoming.count) > self.factor * count(self.counts.get(victim)) + self.distance
    }

    fn forget(&mut self, key: u64) {
        if self.counts.get(key) != 0 {
            *self.counts.get_mut(key) = 0;
        }
    }

    fn prefetch(&self, key: u64, _: u64) {
        self.counts.prefetch(key);
    }

    fn restored(&mut self) {
        self.numbers = self.numbers.map(|number| number & 0xffff_ffff);
    }

    fn parts(&mut self) -> Parts<'_> {
        let numbers = self.numbers.iter_mut().collect();
        Parts { counts: vec![&mut self.counts], numbers, ..Parts::default() }
    }

    fn history_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }
}
