//! What can be set of each policy, with defaults and ranges.
//! Room: onefold-cache.

use crate::admission::plc::Popularity;
use crate::options::{OptionInfo, Settings, settings};

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
