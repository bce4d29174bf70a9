//! How each policy is put together.
//! Room: onefold-cache.

use super::{PlcSettings, Setting};
use crate::admission::always::Always;
use crate::admission::plc::{FilterRules, PlcFilter};
use crate::cache::Cache;
use crate::eviction::lru::Lru;
use crate::eviction::plc_clock::{ClockRules, PlcClock};
use crate::options::{NoSettings, OptionError};
use crate::policy::Policy;

type Made = Result<Box<dyn Policy>, OptionError>;

pub fn lru(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    Ok(Box::new(Cache::new(name, setting.capacity, Lru::default(), Always)))
}

pub fn plc(name: &'static str, settings: PlcSettings, setting: Setting<'_>) -> Made {
    let numbers = settings.numbers;
    let clock = PlcClock::new(ClockRules {
        delay: if numbers.delayed == 1 { numbers.delay } else { 0 },
        priority: numbers.priority,
        literal: settings.literal && numbers.delayed == 1,
    });
    let filter = PlcFilter::new(FilterRules {
        filter: numbers.filter == 1,
        compare: numbers.compare == 1,
        threshold: numbers.threshold,
        popularity: settings.popularity,
        references: numbers.references == 1,
        reset: numbers.reset == 1,
    });
    Ok(Box::new(Cache::new(name, setting.capacity, clock, filter)))
}
