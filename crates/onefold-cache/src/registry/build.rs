//! How each policy is put together.
//! Room: onefold-cache.

use super::{
    BeladySettings, ClockSettings, DynamicRandomSettings, FlashieldSettings, LazyLfuSettings,
    LirsSettings, PlcSettings, RejectFirstSettings, S3FifoSettings, Setting, TollSettings,
    TwoQSettings, WTinyLfuSettings,
};
use crate::admission::always::Always;
use crate::admission::chosen::Chosen;
use crate::admission::dynamic_random::{DynamicRandom, DynamicRandomRules};
use crate::admission::faded_lfu::FadedLfu;
use crate::admission::larc::Larc;
use crate::admission::lazy_lfu::LazyLfu;
use crate::admission::plc::{FilterRules, PlcFilter};
use crate::admission::reject_first::RejectFirst;
use crate::admission::toll::{Toll, TollRules};
use crate::cache::Cache;
use crate::eviction::arc::Arc;
use crate::eviction::clock::Clock;
use crate::eviction::fifo::Fifo;
use crate::eviction::flashield::Flashield;
use crate::eviction::lfu::Lfu;
use crate::eviction::lirs::Lirs;
use crate::eviction::lru::Lru;
use crate::eviction::opt::Opt;
use crate::eviction::plc_clock::{ClockRules, PlcClock};
use crate::eviction::s3_fifo::{S3Fifo, S3FifoRules};
use crate::eviction::score_queue::ScoreQueue;
use crate::eviction::sieve::Sieve;
use crate::eviction::staged::Staged;
use crate::eviction::two_q::TwoQ;
use crate::eviction::w_tiny_lfu::{WTinyLfu, WTinyLfuRules};
use crate::forecast::ForecastRules;
use crate::options::{NoSettings, OptionError};
use crate::policy::{Admission, Eviction, Policy};
use crate::trace::Future;

type Made = Result<Box<dyn Policy>, OptionError>;

#[expect(clippy::unnecessary_wraps, reason = "all constructors give the same")]
fn cache<E, A>(name: &'static str, setting: Setting<'_>, eviction: E, admission: A) -> Made
where
    E: Eviction + Send + 'static,
    A: Admission + Send + 'static,
{
    Ok(Box::new(Cache::new(name, setting.capacity, eviction, admission)))
}

fn future<'a>(policy: &str, setting: Setting<'a>) -> Result<&'a Future, OptionError> {
    setting.future.ok_or_else(|| OptionError::Offline { policy: policy.to_owned() })
}

pub fn fifo(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Fifo::default(), Always)
}

pub fn lru(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Lru::default(), Always)
}

pub fn lfu(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Lfu::default(), Always)
}

pub fn clock(name: &'static str, settings: ClockSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Clock::new(settings.rounds), Always)
}

pub fn two_q(name: &'static str, settings: TwoQSettings, setting: Setting<'_>) -> Made {
    let two_q = TwoQ::new(setting.capacity, settings.newcomers, settings.ghosts);
    cache(name, setting, two_q, Always)
}

pub fn arc(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Arc::new(setting.capacity), Always)
}

pub fn lirs(name: &'static str, settings: LirsSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Lirs::new(setting.capacity, settings.long), Always)
}

pub fn s3_fifo(name: &'static str, settings: S3FifoSettings, setting: Setting<'_>) -> Made {
    let S3FifoSettings { small, ghosts, promote } = settings;
    let s3_fifo = S3Fifo::new(setting.capacity, S3FifoRules { small, ghosts, promote });
    cache(name, setting, s3_fifo, Always)
}

pub fn sieve(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Sieve::default(), Always)
}

pub fn w_tiny_lfu(name: &'static str, settings: WTinyLfuSettings, setting: Setting<'_>) -> Made {
    let rules = WTinyLfuRules {
        window: settings.window,
        protected: settings.protected,
        in_memory: settings.memory == 1,
        sample: settings.sample,
        counter_max: settings.counter,
        margin: settings.margin,
    };
    cache(name, setting, WTinyLfu::new(setting.capacity, rules), Always)
}

pub fn larc(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    cache(name, setting, Lru::default(), Larc::new(setting.capacity.objects))
}

pub fn reject_first(
    name: &'static str,
    settings: RejectFirstSettings,
    setting: Setting<'_>,
) -> Made {
    let most = (setting.capacity.objects as f64 * settings.remember) as usize;
    cache(name, setting, Lru::default(), RejectFirst::new(most))
}

pub fn dynamic_random(
    name: &'static str,
    settings: DynamicRandomSettings,
    setting: Setting<'_>,
) -> Made {
    let DynamicRandomSettings { fills, period, corrections, probability, step } = settings;
    let rules = DynamicRandomRules { fills, period, corrections, probability, step };
    let admission = DynamicRandom::new(setting.capacity, rules, setting.seed);
    cache(name, setting, Lru::default(), admission)
}

pub fn lazy_lfu(name: &'static str, settings: LazyLfuSettings, setting: Setting<'_>) -> Made {
    let LazyLfuSettings { m, d, half_life } = settings;
    if half_life > 0.0 {
        let faded = FadedLfu::new(setting.capacity, m, d, half_life);
        return cache(name, setting, ScoreQueue::default(), faded);
    }
    cache(name, setting, Lfu::default(), LazyLfu::new(m, d))
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
    cache(name, setting, clock, filter)
}

pub fn belady(name: &'static str, settings: BeladySettings, setting: Setting<'_>) -> Made {
    let next = future(name, setting)?.next.clone();
    cache(name, setting, Opt::new(next, settings.bypass == 1), Always)
}

pub fn best_static(name: &'static str, _: NoSettings, setting: Setting<'_>) -> Made {
    let chosen = Chosen::best(future(name, setting)?, setting.capacity.bytes);
    cache(name, setting, Fifo::default(), chosen)
}

pub fn flashield(name: &'static str, settings: FlashieldSettings, setting: Setting<'_>) -> Made {
    let flashield = Flashield::new(setting.capacity, settings.memory, settings.reads);
    cache(name, setting, flashield, Always)
}

pub fn toll(name: &'static str, settings: TollSettings, setting: Setting<'_>) -> Made {
    let capacity = setting.capacity;
    let objects = capacity.objects.max(1) as f64;
    let stage = (capacity.bytes as f64 * settings.memory) as u64;
    let stage = stage.min(u64::from(settings.memory_mib) << 20);
    let rules = TollRules {
        hits: settings.hits,
        fills: settings.fills,
        period: settings.period,
        purse: settings.purse,
        steep: settings.steep,
        stage_bytes: stage,
        forecast: ForecastRules {
            slow: settings.slow * objects,
            fast: settings.fast * objects,
            horizon: settings.horizon * objects,
            floor: settings.floor * objects,
            doubt: settings.doubt,
            believe: settings.believe,
        },
    };
    let staged = Staged::new(capacity, stage, settings.window, settings.look as usize);
    cache(name, setting, staged, Toll::new(capacity, rules))
}
