//! Toll: a write has to buy hits, at a price that keeps to a budget.
//! Room: onefold-cache.
//! Three ideas (docs/cache.md explains and measures them):
//! 1. How often a container will be asked for is forecast, and the forecast learns
//!    ([`crate::forecast`]): counting, recency and the reverse of both are cases of it.
//! 2. A newcomer is written if its forecast exceeds that of the object that would go by the
//!    **price**: hits that the write has to buy. Until then it waits in memory
//!    ([`crate::eviction::staged`]), where it may be asked for again without any write.
//! 3. A budget, if there is one, is a purse that fills with the requests. The price rises as it
//!    empties, so that what is left is spent on the surest replacements; without money nothing is
//!    written. Nobody has to know how long a run will be.
//!
//! Cost: 4 bytes per container that was seen lately ([`crate::forecast`]).

use crate::cache::Capacity;
use crate::forecast::{First, Forecast, ForecastRules};
use crate::policy::{Admission, Incoming, Parts};

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TollRules {
    /// Hits within the horizon that a write has to buy.
    pub hits: f64,
    /// Cache fills to write per period; 0: as many as buy enough.
    pub fills: f64,
    /// Requests of a period, per object that fits.
    pub period: f64,
    /// What the purse holds at the start and at most, in cache fills.
    pub purse: f64,
    /// How often the price doubles until the purse is empty.
    pub steep: f64,
    /// Bytes of memory in which newcomers wait before they are judged; larger ones do not.
    pub stage_bytes: u64,
    /// What forecasts are made by.
    pub forecast: ForecastRules,
}

/// Forecasts and the purse.
#[derive(Clone, Debug)]
pub struct Toll {
    rules: TollRules,
    forecast: Forecast,
    /// What a request puts into the purse, in 2^-20 bytes.
    income: u64,
    /// In 2^-20 bytes; 0 if there is no budget.
    purse_max: u64,
    /// In 2^-20 bytes.
    purse: u64,
}

impl Toll {
    /// For a cache of this size.
    pub fn new(capacity: Capacity, rules: TollRules) -> Self {
        let objects = capacity.objects.max(1) as f64;
        // A purse that held the whole budget would leave nothing to live on later.
        let purse = rules.purse.min(rules.fills * 0.95);
        let earned = (rules.fills - purse) * capacity.bytes as f64;
        let purse_max = ((purse * capacity.bytes as f64) as u64) << 20;
        Self {
            rules,
            forecast: Forecast::new(rules.forecast),
            income: (earned / (rules.period * objects) * f64::from(1 << 20)) as u64,
            purse_max,
            purse: purse_max,
        }
    }

    fn count(&mut self, key: u64) -> First {
        self.purse = (self.purse + self.income).min(self.purse_max);
        self.forecast.count(key)
    }

    const fn has_budget(&self) -> bool {
        self.rules.fills > 0.0
    }

    /// Hits that a write has to buy now.
    fn price(&self) -> f64 {
        if !self.has_budget() {
            return self.rules.hits;
        }
        let empty = 1.0 - self.purse as f64 / self.purse_max.max(1) as f64;
        self.rules.hits * onefold_sim::exp(empty * self.rules.steep * std::f64::consts::LN_2)
    }
}

impl Admission for Toll {
    fn hit(&mut self, incoming: &mut Incoming) {
        self.count(incoming.key);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        let first = self.count(incoming.key);
        // Newcomers are watched every other time, and objects under the hand the others.
        if incoming.time.is_multiple_of(2) && self.forecast.is_due() {
            self.forecast.watch(incoming.key, first);
        }
        u64::from(incoming.size) <= self.rules.stage_bytes
            || self.pays(incoming.key, incoming.size, None)
    }

    fn worth(&mut self, key: u64) -> i64 {
        if self.forecast.is_due() {
            self.forecast.watch(key, First::default());
        }
        self.forecast.octaves_of(key)
    }

    fn pays(&mut self, newcomer: u64, size: u32, victim: Option<u64>) -> bool {
        let affords = !self.has_budget() || self.purse >> 20 >= u64::from(size);
        let victim = victim.map_or(0.0, |victim| self.forecast.requests(victim));
        affords && self.forecast.requests(newcomer) - victim > self.price()
    }

    fn written(&mut self, size: u32) {
        self.purse = self.purse.saturating_sub(u64::from(size) << 20);
    }

    fn set_references(&mut self, key: u64, references: u32) {
        self.forecast.set_references(key, references);
    }

    fn forget(&mut self, key: u64) {
        self.forecast.forget(key);
    }

    fn prefetch(&self, key: u64, _: u64) {
        self.forecast.prefetch(key);
    }

    fn restored(&mut self) {
        self.forecast.restored();
        self.purse = self.purse.min(self.purse_max);
    }

    fn parts(&mut self) -> Parts<'_> {
        let mut parts = self.forecast.parts();
        parts.numbers.push(&mut self.purse);
        parts
    }

    fn memory_bytes(&self) -> usize {
        self.forecast.memory_bytes()
    }

    fn history_bytes(&self) -> usize {
        self.forecast.history_bytes()
    }
}
