//! Dynamic random: admits by chance, with a probability that keeps to a budget of writes.
//! Room: onefold-cache.
//! Source: [cachelib-20], `CacheLib`'s `DynamicRandomAP`: a target of bytes per period, the
//! probability corrected at intervals by target over observed rate, at most by a factor per step.
//! Differs: time is counted in requests, and sizes do not change the probability.

use onefold_block::SplitMix64;

use crate::cache::Capacity;
use crate::policy::{Admission, Incoming, Parts};

/// Budget and controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicRandomRules {
    /// Bytes to write per period, in cache fills.
    pub fills: f64,
    /// Requests of a period, per object that fits.
    pub period: u64,
    /// Corrections per period.
    pub corrections: u64,
    /// Probability to begin with.
    pub probability: f64,
    /// Largest factor of one correction.
    pub step: f64,
}

/// The probability and what it led to.
#[derive(Clone, Debug)]
pub struct DynamicRandom {
    rules: DynamicRandomRules,
    budget_bytes: u64,
    period: u64,
    interval: u64,
    /// Numbers that survive a restart: probability (bits), requests in the period, bytes written
    /// in the period, bytes written at the last correction, draws.
    numbers: [u64; 5],
    seed: u64,
}

const PROBABILITY: usize = 0;
const REQUESTS: usize = 1;
const WRITTEN: usize = 2;
const WRITTEN_BEFORE: usize = 3;
const DRAWS: usize = 4;

impl DynamicRandom {
    /// With its own random numbers.
    pub fn new(capacity: Capacity, rules: DynamicRandomRules, seed: u64) -> Self {
        let period = (rules.period * capacity.objects as u64).max(1);
        let mut numbers = [0; 5];
        numbers[PROBABILITY] = rules.probability.to_bits();
        Self {
            rules,
            budget_bytes: (capacity.bytes as f64 * rules.fills) as u64,
            period,
            interval: (period / rules.corrections).max(1),
            numbers,
            seed,
        }
    }

    fn tick(&mut self) {
        self.numbers[REQUESTS] += 1;
        if self.numbers[REQUESTS].is_multiple_of(self.interval) {
            self.correct();
        }
        if self.numbers[REQUESTS] >= self.period {
            (self.numbers[REQUESTS], self.numbers[WRITTEN]) = (0, 0);
            self.numbers[WRITTEN_BEFORE] = 0;
        }
    }

    fn correct(&mut self) {
        let observed = self.numbers[WRITTEN] - self.numbers[WRITTEN_BEFORE];
        let left = self.period.saturating_sub(self.numbers[REQUESTS]).max(self.interval);
        let budget = self.budget_bytes.saturating_sub(self.numbers[WRITTEN]) as f64;
        let target = budget * self.interval as f64 / left as f64;
        let factor = target / (observed as f64).max(1.0);
        let factor = factor.clamp(1.0 / self.rules.step, self.rules.step);
        let probability = f64::from_bits(self.numbers[PROBABILITY]) * factor;
        self.numbers[PROBABILITY] = probability.clamp(1e-6, 1.0).to_bits();
        self.numbers[WRITTEN_BEFORE] = self.numbers[WRITTEN];
    }

    /// Whether the next draw, from 0 to 1, lies below the probability. Draws are numbered, so that
    /// a restored policy goes on where the saved one stood.
    fn draw(&mut self) -> bool {
        self.numbers[DRAWS] += 1;
        let number = self.numbers[DRAWS].wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = SplitMix64::new(self.seed ^ number).next_u64() >> 11;
        bits as f64 / (1_u64 << 53) as f64 <= f64::from_bits(self.numbers[PROBABILITY])
    }
}

impl Admission for DynamicRandom {
    fn hit(&mut self, _: &mut Incoming) {
        self.tick();
    }

    fn miss(&mut self, _: &mut Incoming) -> bool {
        self.tick();
        self.draw()
    }

    fn written(&mut self, size: u32) {
        self.numbers[WRITTEN] += u64::from(size);
    }

    fn restored(&mut self) {
        let probability = f64::from_bits(self.numbers[PROBABILITY]);
        let sane = (1e-6..=1.0).contains(&probability);
        let probability = if sane { probability } else { self.rules.probability };
        self.numbers[PROBABILITY] = probability.to_bits();
        self.numbers[REQUESTS] = self.numbers[REQUESTS].min(self.period);
        self.numbers[WRITTEN] = self.numbers[WRITTEN].min(u64::MAX / 2);
        self.numbers[WRITTEN_BEFORE] = self.numbers[WRITTEN_BEFORE].min(self.numbers[WRITTEN]);
        self.numbers[DRAWS] = self.numbers[DRAWS].min(u64::MAX / 2);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { numbers: self.numbers.iter_mut().collect(), ..Parts::default() }
    }
}
