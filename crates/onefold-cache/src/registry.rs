//! The one table of policies: names, what they are, and how to make them.
//! Room: onefold-cache.   In: `NAME` or `NAME:SETTING=VALUE,...`.   Out: a [`Policy`].
//! A new policy is a file in `eviction` or `admission`, its settings, and one row in [`POLICIES`].

use onefold_block::nearest;

use crate::cache::Capacity;
use crate::options::{NoSettings, OptionError, OptionInfo, Settings};
use crate::policy::Policy;
use crate::trace::Future;

mod build;
mod settings;

pub use settings::*;

/// What a policy may need besides its settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// How large the cache is.
    pub capacity: Capacity,
    /// Root of the random numbers of policies that draw some.
    pub seed: u64,
    /// All requests that will come, for the policies that have to know.
    pub future: Option<&'a Future>,
}

type Build =
    fn(&'static str, &[(String, String)], Setting<'_>) -> Result<Box<dyn Policy>, OptionError>;

/// A row of the table.
pub struct PolicyEntry {
    /// The name that people choose it by.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Whether it has to know all requests beforehand.
    pub offline: bool,
    /// Its settings.
    pub infos: fn() -> Vec<OptionInfo>,
    build: Build,
}

macro_rules! row {
    ($name:literal, $settings:ty, $make:path, $doc:literal) => {
        row!($name, $settings, $make, $doc, false)
    };
    ($name:literal, $settings:ty, $make:path, $doc:literal, $offline:literal) => {
        PolicyEntry {
            name: $name,
            doc: $doc,
            offline: $offline,
            infos: <$settings>::infos,
            build: |name, options, setting| {
                let read: $settings = read(name, options)?;
                $make(name, read, setting)
            },
        }
    };
}

/// Every policy, the plain ones first, then those that spare the flash, then the bounds.
pub const POLICIES: &[PolicyEntry] = &[
    row!("fifo", NoSettings, build::fifo, "first in, first out"),
    row!("lru", NoSettings, build::lru, "least recently used first"),
    row!("lfu", NoSettings, build::lfu, "least often used since its arrival first"),
    row!("clock", ClockSettings, build::clock, "FIFO with another round for what was used"),
    row!("2q", TwoQSettings, build::two_q, "newcomers in a FIFO, what comes back in an LRU"),
    row!("arc", NoSettings, build::arc, "recency and frequency, balanced by ghosts"),
    row!("lirs", LirsSettings, build::lirs, "shortest distance between two requests"),
    row!("s3-fifo", S3FifoSettings, build::s3_fifo, "small and main FIFO with ghosts"),
    row!("sieve", NoSettings, build::sieve, "FIFO with a hand that passes over what was used"),
    row!(
        "w-tinylfu",
        WTinyLfuSettings,
        build::w_tiny_lfu,
        "LRU window, segmented LRU, and a sketch that judges newcomers"
    ),
    row!("larc", NoSettings, build::larc, "LRU; written at the second miss, adaptive ghosts"),
    row!(
        "reject-first",
        RejectFirstSettings,
        build::reject_first,
        "LRU; written at the second miss while remembered"
    ),
    row!(
        "dynamic-random",
        DynamicRandomSettings,
        build::dynamic_random,
        "LRU; written by chance, within a budget of writes"
    ),
    row!(
        "lazy-lfu",
        LazyLfuSettings,
        build::lazy_lfu,
        "LFU by counts of all; a newcomer has to exceed m * min + d"
    ),
    row!(
        "flashield",
        FlashieldSettings,
        build::flashield,
        "CLOCK; written once it was read often enough in memory"
    ),
    row!("plc", PlcSettings, build::plc, "PLC-Cache: popularity filter, delay, comparison"),
    row!(
        "toll",
        TollSettings,
        build::toll,
        "our own: a write has to buy hits, by a forecast that learns, and keeps to a budget"
    ),
    row!("belady", BeladySettings, build::belady, "the last to be asked for goes first", true),
    row!("static", NoSettings, build::best_static, "the best set that never changes", true),
];

fn read<S: Settings>(policy: &str, options: &[(String, String)]) -> Result<S, OptionError> {
    let mut settings = S::default();
    for (name, value) in options {
        match settings.set(name, value) {
            Some(Ok(())) => {}
            Some(Err(accepted)) => {
                let (policy, name, got) = (policy.to_owned(), name.clone(), value.clone());
                return Err(OptionError::Value { policy, name, got, accepted });
            }
            None => {
                let infos = S::infos();
                let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
                return Err(OptionError::Name {
                    policy: policy.to_owned(),
                    got: name.clone(),
                    nearest: nearest(name, names.iter().copied()).map(str::to_owned),
                    accepted: if names.is_empty() { "none".into() } else { names.join(", ") },
                });
            }
        }
    }
    Ok(settings)
}

/// A policy that was chosen and checked, and can be made for any capacity.
#[derive(Clone)]
pub struct Choice {
    /// As it was written.
    pub text: String,
    entry: &'static PolicyEntry,
    options: Vec<(String, String)>,
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Choice").field(&self.text).finish()
    }
}

impl Choice {
    /// Reads `NAME` or `NAME:SETTING=VALUE,SETTING=VALUE`.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let entry = POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
            OptionError::Policy {
                got: name.to_owned(),
                nearest: nearest(name, names.iter().copied()).map(str::to_owned),
                accepted: names.join(", "),
            }
        })?;
        let mut options = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let form = || OptionError::Form { got: text.to_owned() };
            let (key, value) = pair.split_once('=').ok_or_else(form)?;
            options.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        let choice = Self { text: text.to_owned(), entry, options };
        // Made once for a probe, so that a mistake is found before any work is done.
        let capacity = Capacity { bytes: 1 << 20, objects: 1 << 10 };
        let future = Future::default();
        choice.make(Setting { capacity, seed: 0, future: Some(&future) })?;
        Ok(choice)
    }

    /// The policy's row.
    pub const fn entry(&self) -> &'static PolicyEntry {
        self.entry
    }

    /// The policy, empty.
    pub fn make(&self, setting: Setting<'_>) -> Result<Box<dyn Policy>, OptionError> {
        (self.entry.build)(self.entry.name, &self.options, setting)
    }
}

/// The policy of this text for a cache that serves requests as they come.
pub fn make_online(
    text: &str,
    capacity: Capacity,
    seed: u64,
) -> Result<Box<dyn Policy>, OptionError> {
    Choice::parse(text)?.make(Setting { capacity, seed, future: None })
}
