//! `onefold pool ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;

use onefold_block::ByteSize;
use onefold_cache::tier::TierSize;
use onefold_pool::SpaceTarget;

use super::background::{Background, space_target};
use super::tier::{Thousandths, parse_times, parse_years};
use super::{AccessArgs, MemoryArgs, StoreArgs, TierArgs};

/// Make, inspect and check pools.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make an empty pool in a folder that is empty or does not exist
    Create(PoolCreateArgs),
    /// What a pool holds, saves and uses
    Status(PoolStatusArgs),
    /// Verify every checksum and every reference; with --repair mend what is damaged
    #[command(after_help = "--repair says first what is wrong, what it will do, and which blocks \
        are lost or come from an older source; then it does it. Files that it replaces are kept \
        beside the new ones (docs/rescue.md).\n\
        Exit status: 0 the pool is sound, or was repaired and has lost nothing; 1 something is \
        wrong, or blocks are lost or may be old, and named; 2 it could not be checked, or nothing \
        was done.")]
    Check(PoolCheckArgs),
    /// Win the space of overwritten data back, now
    Reclaim(PoolReclaimArgs),
    /// Find all that is stored more than once, now
    #[command(
        after_help = "A server does the same in the background. What is found is stored once \
        from then on; `onefold pool reclaim` gives its space back."
    )]
    Deduplicate(PoolDeduplicateArgs),
    /// Set limits of the server that has a pool, without a restart
    #[command(
        after_help = "They hold until the server ends. What is to hold for longer is a flag \
        of `onefold serve` or a line in a settings file; memory and the cache may also stand in \
        POOL/onefold.toml (docs/settings.md)."
    )]
    Set(PoolSetArgs),
    /// Stop the server that has a pool: answer what was received, flush, and wait until it is free
    Drain(PoolDrainArgs),
    /// Read and verify every stored record, at a rate, from where the last scrub stopped
    #[command(after_help = "Reads past the page cache and changes nothing. Position and findings \
        are kept in POOL/scrub.json and shown by `onefold pool status`. A server that has the pool \
        does it beside its clients. `onefold pool check` looks at maps, totals and fingerprints \
        besides.\n\
        Exit status: 0 nothing is wrong; 1 something is, and named; 2 nothing was done.")]
    Scrub(PoolScrubArgs),
}

/// `onefold pool create`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolCreateArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// How it stores.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What it may use; what differs from the defaults is kept in POOL/onefold.toml.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// What is before it; kept in POOL/onefold.toml as well.
    #[command(flatten)]
    pub cache: TierArgs,
    /// Who may use it.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `onefold pool status`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolStatusArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Print it again every two seconds, until Ctrl-C
    #[arg(long, short)]
    pub watch: bool,
    /// What it may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// What is before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// `onefold pool check`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolCheckArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// What to do about damage.
    #[command(flatten)]
    pub repair: RepairArgs,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// What to do about damage to a pool.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct RepairArgs {
    /// Make the pool sound again, with all that can be had
    #[arg(long)]
    pub repair: bool,
    /// Only say what the repair would do
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// Don't ask (nothing is asked either when stdin is no terminal)
    #[arg(long, short, requires = "repair")]
    pub yes: bool,
}

/// `onefold pool reclaim`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolReclaimArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// How many bytes may be stored for each byte that is alive
    #[arg(long, value_name = "RATIO", default_value = "1.2", value_parser = space_target)]
    pub to: SpaceTarget,
    /// What it may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// `onefold pool deduplicate`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolDeduplicateArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// What it may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// `onefold pool set`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolSetArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// When space of overwritten data is won back, and found what is stored more than once
    #[arg(long, value_name = "WHEN")]
    pub background: Option<Background>,
    /// How many bytes may be stored for each byte that is alive
    #[arg(long, value_name = "RATIO", value_parser = space_target)]
    pub space_target: Option<SpaceTarget>,
    /// Memory for decompressed blocks that were read lately
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub cache_memory: Option<ByteSize>,
    /// Memory for finding duplicates
    ///
    /// With less, what was used least recently is let go; with more, the index is read again
    /// beside clients.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub index_memory: Option<ByteSize>,
    /// Most that the cache takes on its fast device: a size such as 100G, or a share such as 20%
    ///
    /// A smaller one gives the end of its log back, with what is kept there.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub cache_size: Option<TierSize>,
    /// How often the cache's size may be written in a day, such as 0.3, or unlimited
    #[arg(long, value_name = "TIMES", value_parser = CacheWrites::parse)]
    #[arg(allow_negative_numbers = true, conflicts_with = "cache_years")]
    pub cache_writes_per_day: Option<CacheWrites>,
    /// Years that the cache's device is to last from now on, such as 5
    ///
    /// The server has to know how much that can take (--cache-endurance).
    #[arg(long, value_name = "YEARS", value_parser = parse_years, allow_negative_numbers = true)]
    pub cache_years: Option<Thousandths>,
}

/// How much may be written to a cache in a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWrites {
    /// So many times its size.
    Times(Thousandths),
    /// As much as the policy likes.
    Unlimited,
}

impl CacheWrites {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        parse_times(text).map(Self::Times).map_err(|error| format!("{error}, or unlimited"))
    }
}

/// `onefold pool drain`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolDrainArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
}

/// `onefold pool scrub`
#[derive(Clone, Debug, clap::Args)]
pub struct PoolScrubArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Read so much in a second at most, such as 200M; without it as fast as the disk is
    #[arg(long, value_name = "SIZE", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<ByteSize>,
    /// Begin from the start, though the last scrub was interrupted
    #[arg(long)]
    pub restart: bool,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// What it may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Bytes in a second, with or without `/s` at the end.
pub(super) fn rate(text: &str) -> Result<ByteSize, String> {
    let size = text.strip_suffix("/s").unwrap_or(text);
    match size.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("nothing would ever be read".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}
