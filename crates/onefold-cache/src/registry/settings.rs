//! What can be set of each policy, with defaults and ranges.
//! Room: onefold-cache.

use crate::admission::plc::Popularity;
use crate::options::{OptionInfo, Settings, settings};

settings! {
    /// Settings of CLOCK.
    pub struct ClockSettings {
        /// rounds that an object can earn
        rounds: u32 = 1, 1 => 255;
    }
}

settings! {
    /// Settings of 2Q.
    pub struct TwoQSettings {
        /// share of the capacity that newcomers have (Kin)
        newcomers: f64 = 0.25, 0.001 => 0.9;
        /// ghosts per object that fits (Kout)
        ghosts: f64 = 0.5, 0.0 => 10.0;
    }
}

settings! {
    /// Settings of LIRS.
    pub struct LirsSettings {
        /// share of the capacity for objects with a long distance
        long: f64 = 0.01, 0.0001 => 0.9;
    }
}

settings! {
    /// Settings of S3-FIFO.
    pub struct S3FifoSettings {
        /// share of the capacity that the small queue has
        small: f64 = 0.1, 0.001 => 0.9;
        /// ghosts per object that fits
        ghosts: f64 = 0.9, 0.0 => 10.0;
        /// further requests that move an object to the main queue
        promote: u32 = 2, 1 => 100;
    }
}

settings! {
    /// Settings of `W-TinyLFU`.
    pub struct WTinyLfuSettings {
        /// share of the capacity that the window has; 0: none
        window: f64 = 0.01, 0.0 => 0.9;
        /// share of the rest that is protected
        protected: f64 = 0.8, 0.0 => 1.0;
        /// 1: the window lies in memory and costs no writes; 0: on the fast device
        memory: u8 = 0, 0 => 1;
        /// requests per object that fits after which counters are halved
        sample: u64 = 10, 1 => 1_000_000_000;
        /// largest count
        counter: u8 = 15, 1 => 255;
        /// by how much a newcomer's count has to exceed the victim's
        margin: u8 = 1, 1 => 200;
    }
}

settings! {
    /// Settings of reject-first.
    pub struct RejectFirstSettings {
        /// objects remembered, per object that fits
        remember: f64 = 1.0, 0.0 => 100.0;
    }
}

settings! {
    /// Settings of dynamic random admission.
    pub struct DynamicRandomSettings {
        /// bytes to write per period, in cache fills
        fills: f64 = 1.0, 0.0001 => 1_000_000.0;
        /// requests of a period, per object that fits
        period: u64 = 100, 1 => 1_000_000_000;
        /// corrections of the probability per period
        corrections: u64 = 100, 1 => 1_000_000;
        /// probability to begin with
        probability: f64 = 0.1, 1e-6 => 1.0;
        /// largest factor of one correction
        step: f64 = 1.5, 1.01 => 100.0;
    }
}

settings! {
    /// Settings of lazy LFU.
    pub struct LazyLfuSettings {
        /// how many times the lowest count in the cache a newcomer has to exceed
        m: f64 = 1.0, 0.0 => 1_000.0;
        /// what is added to that
        d: u32 = 4, 0 => 1_000_000;
        /// requests per object that fits after which counts have halved; 0 never
        half_life: f64 = 0.0, 0.0 => 1_000_000_000.0;
    }
}

settings! {
    /// Settings of the Flashield-like policy.
    pub struct FlashieldSettings {
        /// share of the capacity that lies in memory
        memory: f64 = 0.05, 0.0001 => 0.9;
        /// further reads in memory that are worth a write
        reads: u32 = 1, 1 => 1_000_000;
    }
}

settings! {
    /// Settings of Toll.
    pub struct TollSettings {
        /// hits within the horizon that a write has to buy
        hits: f64 = 1.0, 0.0 => 1_000_000.0;
        /// cache fills to write per period; 0: no budget, as many as buy enough
        fills: f64 = 0.0, 0.0 => 1_000_000.0;
        /// requests of a period, per object that fits
        period: f64 = 160.0, 1.0 => 1_000_000_000.0;
        /// cache fills of the budget that may be spent at once, wherever popularity goes
        purse: f64 = 0.8, 0.01 => 1_000.0;
        /// how often the price doubles until the purse is empty
        steep: f64 = 3.5, 0.0 => 30.0;
        /// share of the capacity that lies in memory, where newcomers wait; 0: none
        memory: f64 = 0.05, 0.0 => 0.9;
        /// MiB that lie in memory at most
        memory_mib: u32 = 64, 1 => 1_048_576;
        /// share of memory that newcomers get at least, and those that come back; 1: newcomers all
        window: f64 = 0.1, 0.0 => 1.0;
        /// requests per object that fits after which a slow count has halved
        slow: f64 = 20.0, 0.1 => 1_000_000.0;
        /// requests per object that fits after which a fast count has halved
        fast: f64 = 1.25, 0.01 => 1_000_000.0;
        /// requests per object that fits for which a forecast is
        horizon: f64 = 4.0, 0.01 => 1_000_000.0;
        /// requests per object that fits that count as seen before the first one
        floor: f64 = 2.0, 0.0001 => 1_000_000.0;
        /// requests that outweigh what a forecast begins with
        doubt: f64 = 16.0, 0.0001 => 1_000_000.0;
        /// share of a change that is believed before anything was learnt
        believe: f64 = 0.1, 0.0 => 1.0;
        /// objects that are looked at for one to go
        look: u32 = 32, 1 => 1_000;
    }
}

settings! {
    /// Settings of Belady's OPT.
    pub struct BeladySettings {
        /// 1: a newcomer that would be the victim itself is not written
        bypass: u8 = 1, 0 => 1;
    }
}

settings! {
    /// Numbers and switches of PLC-Cache.
    pub struct PlcNumbers {
        /// accesses that a newcomer has to exceed
        threshold: u32 = 4, 0 => 1_000_000;
        /// how often a victim has to be chosen before it is compared; 0 is 1
        delay: u8 = 2, 0 => 100;
        /// inner priority of a container that was just written
        priority: u32 = 1, 0 => 1_000_000;
        /// the popularity filter: 1 on, 0 off
        filter: u8 = 1, 0 => 1;
        /// the delayed eviction: 1 on, 0 off
        delayed: u8 = 1, 0 => 1;
        /// the in-out comparison: 1 on, 0 off
        compare: u8 = 1, 0 => 1;
        /// 1: more files alone let a newcomer in
        references: u8 = 1, 0 => 1;
        /// 1: the access count of a replaced container starts again from 0
        reset: u8 = 1, 0 => 1;
    }
}

/// Settings of PLC-Cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlcSettings {
    /// Numbers and switches.
    pub numbers: PlcNumbers,
    /// f(x) of the in-out comparison.
    pub popularity: Popularity,
    /// Whether the pseudo code is taken to the letter, which freezes the cache.
    pub literal: bool,
}

impl Default for PlcSettings {
    fn default() -> Self {
        Self { numbers: PlcNumbers::default(), popularity: Popularity::Clamp, literal: false }
    }
}

const RULES: &str = "rearm, literal";
const FACTORS: &str = "clamp, const1, const2, linear, log";

impl Settings for PlcSettings {
    fn infos() -> Vec<OptionInfo> {
        let mut infos = PlcNumbers::infos();
        infos.push(OptionInfo {
            name: "f",
            doc: "how many thresholds a newcomer needs, by the victim's count",
            default: "clamp".to_owned(),
            accepted: FACTORS.to_owned(),
        });
        infos.push(OptionInfo {
            name: "rules",
            doc: "after a failed comparison: arm again and go on, or the pseudo code to the letter",
            default: "rearm".to_owned(),
            accepted: RULES.to_owned(),
        });
        infos
    }

    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        match name {
            "f" => {
                let found = Popularity::ALL.into_iter().find(|&(name, _)| name == value);
                let set = found.map(|(_, f)| self.popularity = f);
                Some(set.ok_or_else(|| FACTORS.to_owned()))
            }
            "rules" => match value {
                "rearm" | "literal" => {
                    self.literal = value == "literal";
                    Some(Ok(()))
                }
                _ => Some(Err(RULES.to_owned())),
            },
            _ => self.numbers.set(name, value),
        }
    }
}
