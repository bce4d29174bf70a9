//! Toll: a newcomer pays for its write with evidence, at a price that keeps to a budget.
//! Room: onefold-cache.
//! Four ideas, each against one waste of flash writes (docs/cache.md explains and measures them):
//! 1. Counts fade ([`crate::score`]), slowly, so that yesterday's favourites can be replaced.
//! 2. A newcomer needs more than a higher count: the difference has to exceed a number of standard
//!    deviations of the difference of two counts, which is the square root of their sum. Two
//!    containers of equal popularity then do not take turns, and a scan, which adds one to
//!    everything, gives nobody an advantage.
//! 3. Writes are paid from a purse that fills with the requests, `fills` cache fills per `period`
//!    requests per object. The price in standard deviations is the higher the fewer writes a
//!    request may cost, and rises as the purse empties, so that what is left is spent on the surest
//!    replacements. Without money nothing is written: the budget is kept, whatever comes.
//! 4. When the hit rate falls, clearly and for three windows in a row, popularity has changed:
//!    all counts fade at once, by the more the further it fell, as far as the purse can pay for
//!    what follows.
//!
//! Cost: 4 bytes per container that was ever seen.

use crate::cache::Capacity;
use crate::counts::Counts;
use crate::policy::{Admission, Incoming, Parts};
use crate::score::{ONE, Scores};

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TollRules {
    /// Cache fills to write per period.
    pub fills: f64,
    /// Requests of a period, per object that fits.
    pub period: f64,
    /// What the purse holds at the start and at most, in cache fills.
    pub purse: f64,
    /// Requests per object that fits after which a count has halved; 0 never.
    pub half_life: f64,
    /// Standard deviations by which a newcomer has to be ahead when the purse is full and a write
    /// may be afforded every 100 requests per object.
    pub price: f64,
    /// How often the price doubles until the purse is empty.
    pub steep: f64,
    /// Requests that a container needs for free room.
    pub first: f64,
    /// Requests of a window over which the hit rate is watched, per object that fits; 0 never.
    pub window: f64,
    /// Standard deviations by which a window's hit rate is low.
    pub sigma: f64,
    /// Half-lives that counts fade at once if the hit rate falls to nothing.
    pub jump: f64,
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
    /// In 2^-20 bytes.
    purse_max: u64,
    /// Requests of a window.
    window: u64,
    capacity: f64,
    /// What survives a restart.
    numbers: [u64; 7],
}

/// The present, in units of a score and in 2^-32 of them.
const PRESENT: usize = 0;
const PRESENT_PART: usize = 1;
/// In 2^-20 bytes.
const PURSE: usize = 2;
/// Of the current window.
const REQUESTS: usize = 3;
const HITS: usize = 4;
/// Windows in a row whose hit rate was low.
const LOW_WINDOWS: usize = 5;
/// The usual hit rate, as the bits of a float.
const USUAL: usize = 6;
const LOW_WINDOWS_MAX: u64 = 3;

impl Toll {
    /// For a cache of this size.
    pub fn new(capacity: Capacity, rules: TollRules) -> Self {
        let objects = capacity.objects.max(1) as f64;
        let one = f64::from(ONE) * (1_u64 << 32) as f64;
        let pace = if rules.half_life > 0.0 { one / (rules.half_life * objects) } else { 0.0 };
        // A purse that held the whole budget would leave nothing to live on later.
        let purse = rules.purse.min(rules.fills * 0.95);
        let earned = (rules.fills - purse) * capacity.bytes as f64;
        let purse_max = ((purse * capacity.bytes as f64) as u64) << 20;
        let price = rules.price * (rules.period / rules.fills.max(1e-6)).sqrt() / 10.0;
        Self {
            rules: TollRules { price, ..rules },
            scores: Scores::default(),
            table: Counts::default(),
            pace: pace as u64,
            income: (earned / (rules.period * objects) * f64::from(1 << 20)) as u64,
            purse_max,
            window: (objects * rules.window) as u64,
            capacity: capacity.bytes as f64,
            numbers: [u64::from(ONE), 0, purse_max, 0, 0, 0, 0],
        }
    }

    /// Scores end at 2^16 half-lives, years of requests; then all counts stand still.
    fn present(&self) -> u32 {
        u32::try_from(self.numbers[PRESENT]).unwrap_or(u32::MAX)
    }

    fn count(&mut self, incoming: &mut Incoming) {
        let part = self.numbers[PRESENT_PART] + (self.pace & 0xffff_ffff);
        self.numbers[PRESENT] += (self.pace >> 32) + (part >> 32);
        self.numbers[PRESENT_PART] = part & 0xffff_ffff;
        self.numbers[PURSE] = (self.numbers[PURSE] + self.income).min(self.purse_max);
        let present = self.present();
        let score = self.table.get_mut(incoming.key);
        *score = if *score == 0 { present } else { self.scores.sum(*score, present) };
        incoming.count = *score;
    }

    /// Counts a request towards the hit rate, and lets counts fade when it has been low for long.
    fn watch(&mut self, hit: bool) {
        self.numbers[REQUESTS] += 1;
        self.numbers[HITS] += u64::from(hit);
        if self.numbers[REQUESTS] < self.window || self.window == 0 {
            return;
        }
        let requests = self.numbers[REQUESTS] as f64;
        let rate = self.numbers[HITS] as f64 / requests;
        (self.numbers[REQUESTS], self.numbers[HITS]) = (0, 0);
        let usual = f64::from_bits(self.numbers[USUAL]);
        let noise = (usual * (1.0 - usual) / requests).sqrt();
        if rate >= usual - self.rules.sigma * noise {
            self.numbers[LOW_WINDOWS] = 0;
            self.numbers[USUAL] = (usual + (rate - usual) / 8.0).to_bits();
            return;
        }
        self.numbers[LOW_WINDOWS] += 1;
        if self.numbers[LOW_WINDOWS] == LOW_WINDOWS_MAX {
            let paid = ((self.numbers[PURSE] >> 20) as f64 / self.capacity.max(1.0)).min(1.0);
            let half_lives = self.rules.jump * (1.0 - rate / usual) * paid;
            self.numbers[PRESENT] += (half_lives * f64::from(ONE)) as u64;
            (self.numbers[LOW_WINDOWS], self.numbers[USUAL]) = (0, rate.to_bits());
        }
    }

    fn affords(&self, size: u32) -> bool {
        self.numbers[PURSE] >> 20 >= u64::from(size)
    }

    /// Standard deviations that a write costs now.
    fn price(&self) -> f64 {
        let empty = 1.0 - self.numbers[PURSE] as f64 / self.purse_max.max(1) as f64;
        let doublings = (self.rules.steep * empty * f64::from(ONE)) as u32;
        self.rules.price * self.scores.count(ONE + doublings, ONE)
    }
}

impl Admission for Toll {
    fn hit(&mut self, incoming: &mut Incoming) {
        self.watch(true);
        self.count(incoming);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.watch(false);
        self.count(incoming);
        // A request counts a little less than 1 by the time of the next.
        let enough = incoming.full
            || self.scores.count(incoming.count, self.present()) >= self.rules.first * 0.97;
        enough && self.affords(incoming.size)
    }

    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        let present = self.present();
        let newcomer = self.scores.count(incoming.count, present);
        let victim = self.scores.count(self.table.get(victim), present);
        newcomer - victim > self.price() * (newcomer + victim).sqrt()
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
