//! The cache on a fast device before a pool or an archive: options that several commands share.
//! Room: onefold.

use std::path::PathBuf;

use onefold_cache::Choice;
use onefold_cache::tier::TierSize;

use crate::endurance::Endurance;

/// A fast device before a slow one.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cache")]
pub struct TierArgs {
    /// Folder on a fast device for what is read often
    ///
    /// It may fill up, fail or be lost at any time: reads then go to the store behind it.
    /// One folder serves one pool or archive.
    #[arg(long, value_name = "FOLDER", env = "ONEFOLD_CACHE", hide_env = true)]
    pub cache: Option<PathBuf>,
    /// Most that it takes there: a size such as 100G, or a share of the store such as 20%
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CACHE_SIZE", hide_env = true)]
    #[arg(default_value = "20%", allow_negative_numbers = true)]
    pub cache_size: TierSize,
    /// What is worth a write to the fast device: a policy such as toll, plc or lru
    #[arg(long, value_name = "POLICY", env = "ONEFOLD_CACHE_POLICY", hide_env = true)]
    #[arg(default_value = "toll", value_parser = parse_policy)]
    pub cache_policy: String,
    /// How often the cache's size may be written in a day, such as 0.3: its budget of wear
    ///
    /// No 24 hours take more, whatever is read; without it the policy writes as it likes.
    #[arg(long, value_name = "TIMES", env = "ONEFOLD_CACHE_WRITES_PER_DAY", hide_env = true)]
    #[arg(value_parser = parse_times, allow_negative_numbers = true)]
    pub cache_writes_per_day: Option<Thousandths>,
    /// What becomes of new data: left to its first reader, or kept as soon as it is stored
    ///
    /// With write-through it is in the cache whatever the policy says of it, and the device is
    /// written for all of it: with a budget of wear, in half of that at most.
    #[arg(long, value_name = "MODE", env = "ONEFOLD_CACHE_MODE", hide_env = true)]
    #[arg(default_value = "write-around")]
    pub cache_mode: CacheMode,
    /// Years that the fast device is to last, such as 5: each day has its share of what is left
    ///
    /// What is left is as --cache-endurance says. With --cache-writes-per-day, that is the budget.
    #[arg(long, value_name = "YEARS", env = "ONEFOLD_CACHE_YEARS", hide_env = true)]
    #[arg(value_parser = parse_years, allow_negative_numbers = true)]
    pub cache_years: Option<Thousandths>,
    /// Bytes that the fast device can take in its life (TBW), such as 600T, or smart: ask the drive
    ///
    /// smart takes smartctl, of the package smartmontools, and mostly root. Where the drive beneath
    /// the folder cannot be told, smart:PATH names it.
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CACHE_ENDURANCE", hide_env = true)]
    pub cache_endurance: Option<Endurance>,
}

/// What becomes of new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheMode {
    /// It goes past the cache; who reads it may bring it there
    WriteAround,
    /// It is stored, and kept in the cache too
    WriteThrough,
}

/// A number of times, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thousandths(pub u32);

impl Thousandths {
    /// As a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl std::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.value())
    }
}

pub fn parse_times(text: &str) -> Result<Thousandths, String> {
    let times: Option<f64> = text.parse().ok();
    let times = times.filter(|times| (0.001..=1000.0).contains(times));
    let times = times.ok_or("expected a number of times from 0.001 to 1000, such as 0.3")?;
    Ok(Thousandths((times * 1000.0).round() as u32))
}

pub fn parse_years(text: &str) -> Result<Thousandths, String> {
    let years: Option<f64> = text.parse().ok();
    let years = years.filter(|years| (0.1..=100.0).contains(years));
    let years = years.ok_or("expected a number of years from 0.1 to 100, such as 5")?;
    Ok(Thousandths((years * 1000.0).round() as u32))
}

fn parse_policy(text: &str) -> Result<String, String> {
    let choice = Choice::parse(text).map_err(|error| error.to_string())?;
    if choice.entry().offline {
        return Err(format!("policy `{text}` has to know the future: it is for simulations only"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
impl TierArgs {
    /// What these words of a command line say, of which the first is the program.
    pub fn of<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            tier: TierArgs,
        }
        <Line as clap::Parser>::parse_from(words).tier
    }
}
