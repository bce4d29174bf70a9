//! Toll: a newcomer pays for its write with evidence, at a price that keeps to a budget.
//! Room: onefold-cache.
//! Three ideas, each against one waste of flash writes (docs/cache.md explains and measures them):
//! 1. Counts fade ([`crate::score`]), so that yesterday's favourites can be replaced, and a scan,
//!    which adds one to everything, adds nothing to anybody's advantage.
//! 2. A newcomer needs more than a higher count: the difference has to exceed `z` standard
//!    deviations of the difference of two counts, which is `z` times the square root of their sum.
//!    Two containers of equal popularity then do not take turns.
//! 3. Writes are paid from a purse that fills with the requests, `fills` cache fills per `period`
//!    requests per object. While the purse is full the price is `z`; as it empties the price rises,
//!    so that what is left is spent on the surest replacements. Free room is filled only by
//!    containers that were asked for `first` times.
//! Cost: 4 bytes per container that was ever seen.

use crate::cache::Capacity;
use crate::counts::Counts;
use crate::policy::{Admission, Incoming, Parts};
use crate::score::{ONE, Scores};

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TollRules {
    /// Requests per object that fits after which a count has halved; 0 never.
    pub half_life: f64,
    /// Standard deviations by which a newcomer has to be ahead with a full purse.
    pub z: f64,
    /// Standard deviations that are added as the purse empties.
    pub steep: f64,
    /// Requests that a container needs for free room.
    pub first: f64,
    /// Cache fills to write per period.
    pub fills: f64,
    /// Requests of a period, per object that fits.
    pub period: f64,
    /// What the purse holds at the start and at most, in cache fills.
    pub purse: f64,
}

/// Scores of all containers and the purse.
#[derive(Clone, Debug)]
pub struct Toll {
    rules: TollRules,
    scores: Scores,
    table: Counts<u32>,
    /// What the present moves per request, in 2^-32 of a score's unit.
    pace: u64,
    /// What a request puts into the purse, in 2^-20 bytes.
    income: u64,
    purse_max: u64,
    /// Present (2^-32 of a score's unit, upper and lower half) and purse: what survives a restart.
    numbers: [u64; 3],
}

const HIGH: usize = 0;
const LOW: usize = 1;
const PURSE: usize = 2;

impl Toll {
    /// For a cache of this size.
    pub fn new(capacity: Capacity, rules: TollRules) -> Self {
        let objects = capacity.objects.max(1) as f64;
        let one = f64::from(ONE) * (1_u64 << 32) as f64;
        let pace = if rules.half_life > 0.0 { one / (rules.half_life * objects) } else { 0.0 };
        let per_request = rules.fills * capacity.bytes as f64 / (rules.period * objects);
        let purse_max = (rules.purse * capacity.bytes as f64) as u64;
        Self {
            rules,
            scores: Scores::default(),
            table: Counts::default(),
            pace: pace as u64,
            income: (per_request * f64::from(1 << 20)) as u64,
            purse_max: purse_max << 20,
            numbers: [u64::from(ONE), 0, purse_max << 20],
        }
    }

    const fn present(&self) -> u32 {
        self.numbers[HIGH] as u32
    }

    fn count(&mut self, incoming: &mut Incoming) {
        let low = self.numbers[LOW] + (self.pace & 0xffff_ffff);
        self.numbers[HIGH] += (self.pace >> 32) + (low >> 32);
        self.numbers[LOW] = low & 0xffff_ffff;
        self.numbers[PURSE] = (self.numbers[PURSE] + self.income).min(self.purse_max);
        let present = self.present();
        let score = self.table.get_mut(incoming.key);
        *score = if *score == 0 { present } else { self.scores.sum(*score, present) };
        incoming.count = *score;
    }

    fn affords(&self, size: u32) -> bool {
        self.numbers[PURSE] >> 20 >= u64::from(size)
    }
}

impl Admission for Toll {
    fn hit(&mut self, incoming: &mut Incoming) {
        self.count(incoming);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.count(incoming);
        let enough = incoming.full
            || self.scores.count(incoming.count, self.present()) >= self.rules.first * 0.97;
        enough && self.affords(incoming.size)
    }

    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        let present = self.present();
        let newcomer = self.scores.count(incoming.count, present);
        let victim = self.scores.count(self.table.get(victim), present);
        let empty = 1.0 - self.numbers[PURSE] as f64 / self.purse_max.max(1) as f64;
        let price = self.rules.z + self.rules.steep * empty;
        newcomer - victim > price * (newcomer + victim).sqrt()
    }

    fn written(&mut self, incoming: &Incoming) {
        let cost = u64::from(incoming.size) << 20;
        self.numbers[PURSE] = self.numbers[PURSE].saturating_sub(cost);
    }

    fn forget(&mut self, key: u64) {
        if self.table.get(key) != 0 {
            *self.table.get_mut(key) = 0;
        }
    }

    fn prefetch(&self, key: u64, _: u64) {
        self.table.prefetch(key);
    }

    fn parts(&mut self) -> Parts<'_> {
        let numbers = self.numbers.iter_mut().collect();
        Parts { counts: vec![&mut self.table], numbers, ..Parts::default() }
    }

    fn history_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}
