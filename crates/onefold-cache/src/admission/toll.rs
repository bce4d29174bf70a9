//! Toll: a write has to buy hits, at a price that keeps to a budget.
//! Room: onefold-cache.
//! Three ideas (docs/cache.md explains and measures them):
//! 1. How often a container will be asked for is forecast, and the forecast learns
//!    ([`crate::forecast`]): counting, recency and the reverse of both are cases of it.
//! 2. A newcomer is written if its forecast exceeds that of the object that would go by the
//!    **price**: hits that the write has to buy. Until then it waits in memory
//!    ([`crate::eviction::staged`]), where it may be asked for again without any write.
//! 3. A budget, if there is one, is a purse that fills with the requests (`purse.rs`), of
//!    which more may be spent ahead the longer popularity stands still (`steady.rs`). The
//!    price rises as it empties, so that what is left is spent on the surest replacements; without
//!    money nothing is written. Nobody has to know how long a run will be.
//!
//! Cost: 4 bytes per container that was seen lately ([`crate::forecast`]).

use super::purse::{Budget, Purse};
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

/// Forecasts and a purse.
#[derive(Clone, Debug)]
pub struct Toll {
    rules: TollRules,
    forecast: Forecast,
    /// Nothing if there is no budget.
    purse: Option<Purse>,
}

impl Toll {
    /// For a cache of this size.
    pub fn new(capacity: Capacity, rules: TollRules) -> Self {
        let objects = capacity.objects.max(1) as f64;
        let bytes = capacity.bytes as f64;
        let budget = Budget {
            bytes: rules.fills * bytes,
            period: rules.period * objects,
            at_once: rules.purse * bytes,
        };
        let purse = (rules.fills > 0.0).then(|| Purse::new(budget));
        Self { rules, forecast: Forecast::new(rules.forecast), purse }
    }

    fn count(&mut self, key: u64) -> First {
        if let Some(purse) = &mut self.purse {
            purse.request();
            self.forecast.compare(key);
        }
        self.forecast.count(key)
    }

    /// Bytes that may be written now, and what each write has to buy.
    fn offer(&self) -> (f64, f64) {
        let Some(purse) = &self.purse else { return (f64::INFINITY, self.rules.hits) };
        let (room, share) = purse.room(self.forecast.steadiness());
        let octaves = (1.0 - share) * self.rules.steep;
        (room, self.rules.hits * onefold_sim::exp(octaves * std::f64::consts::LN_2))
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
        let (room, price) = self.offer();
        let victim = victim.map_or(0.0, |victim| self.forecast.requests(victim));
        room >= f64::from(size) && self.forecast.requests(newcomer) - victim > price
    }

    fn written(&mut self, size: u32) {
        if let Some(purse) = &mut self.purse {
            purse.spend(size);
        }
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
        if let Some(purse) = &mut self.purse {
            purse.restored();
        }
    }

    fn parts(&mut self) -> Parts<'_> {
        let mut parts = self.forecast.parts();
        parts.numbers.extend(self.purse.iter_mut().flat_map(Purse::numbers));
        parts
    }

    fn memory_bytes(&self) -> usize {
        self.forecast.memory_bytes()
    }

    fn history_bytes(&self) -> usize {
        self.forecast.history_bytes()
    }
}
