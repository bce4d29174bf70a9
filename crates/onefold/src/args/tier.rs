//! The cache on a fast device before a pool: options that several commands share.
//! Room: onefold.

use std::path::PathBuf;

use onefold_cache::Choice;
use onefold_cache::tier::TierSize;

/// A fast device before a slow one.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cache")]
pub struct PoolCacheArgs {
    /// Folder on a fast device for copies of containers that are read often
    ///
    /// It may fill up, fail or be lost at any time: reads then go to the pool. One folder serves
    /// one pool.
    #[arg(long, value_name = "FOLDER", env = "ONEFOLD_CACHE", hide_env = true)]
    pub cache: Option<PathBuf>,
    /// Most that the copies take: a size such as 100G, or a share of the pool such as 20%
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CACHE_SIZE", hide_env = true)]
    #[arg(default_value = "20%", allow_negative_numbers = true)]
    pub cache_size: TierSize,
    /// What is worth a write to the fast device: a policy such as toll, plc or lru
    #[arg(long, value_name = "POLICY", env = "ONEFOLD_CACHE_POLICY", hide_env = true)]
    #[arg(default_value = "toll", value_parser = parse_policy)]
    pub cache_policy: String,
}

fn parse_policy(text: &str) -> Result<String, String> {
    let choice = Choice::parse(text).map_err(|error| error.to_string())?;
    if choice.entry().offline {
        return Err(format!("policy `{text}` has to know the future: it is for simulations only"));
    }
    Ok(text.to_owned())
}
