//! `onefold cache ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;
use onefold_block::ByteSize;
use onefold_cache::tier::TierSize;
use onefold_workload::TraceFormat;

use crate::args::Thousandths;
use crate::args::parse_times;

const RUN_EXAMPLES: &str = "\
SPEC is a TOML file; `onefold cache spec` prints one with every key, its unit and its default.
KEY is any key of it, with its table or without where only one table has it. Every policy runs at
every size over the same reads.
Exit status: 0 done; 2 the specification or the trace cannot be used.

Examples:
  onefold cache spec > cache.toml
  onefold cache run cache.toml
  onefold cache run --set sizes=0.05,0.2 --set 'policies=lru plc:threshold=8 toll'
  onefold cache run cache.toml --write-amplification 12,2048
  onefold cache run cache.toml --trace proj_0.csv --format msr --set trace.container_kib=512
  onefold archive trace ./store | onefold cache run --trace -";

const ADVISE_EXAMPLES: &str = "\
Examples:
  onefold serve ./pool --record reads.rec
  onefold cache advise ./pool --trace reads.rec --cache-size 20% --endurance 600T";

/// Simulate an SSD read cache in front of disks.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Hit rate, writes, latency and lifetime of policies at sizes
    #[command(after_help = RUN_EXAMPLES)]
    Run(CacheRunArgs),
    /// Replay recorded reads of a pool through policies: hits against the life of the flash
    #[command(after_help = ADVISE_EXAMPLES)]
    Advise(CacheAdviseArgs),
    /// List the policies with their settings
    Policies(CachePoliciesArgs),
    /// Print a specification with every key and its default
    Spec,
}

/// `onefold cache run`
#[derive(Clone, Debug, clap::Args)]
pub struct CacheRunArgs {
    /// Specification in TOML; without it, or with `-`, the defaults
    #[arg(value_name = "SPEC")]
    pub spec: Option<PathBuf>,
    /// Read what a trace reads, instead of the specification's workload; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Format of the trace; without it, what the first lines show
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub format: Option<TraceFormat>,
    /// Also replay the writes inside a model of the SSD, cached in units of so many KiB (as
    /// 12,2048); without a number, in containers
    #[arg(long, value_name = "KIB", num_args = 0.., value_delimiter = ',')]
    pub write_amplification: Option<Vec<u32>>,
    /// Set a key of the specification, such as workload.seed=7; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object (docs/cache.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold cache advise`
#[derive(Clone, Debug, clap::Args)]
pub struct CacheAdviseArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// What was read: a recording by `serve --record`, or any trace of one volume
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Format of the trace; without it, what the first lines show
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<TraceFormat>,
    /// Volume that requests are of which the trace names no volume for; without it, the only one
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Size of the cache: a size such as 100G, or a share of the pool such as 20%
    #[arg(long, value_name = "SIZE", default_value = "20%")]
    pub cache_size: TierSize,
    /// A policy to try, with settings or without; may be given again; without it, all of them
    #[arg(long, value_name = "POLICY")]
    pub policy: Vec<String>,
    /// How often the cache's size may be written in a day, such as 0.3
    #[arg(long, value_name = "TIMES", value_parser = parse_times)]
    pub writes_per_day: Option<Thousandths>,
    /// Bytes that the fast device can take in its life (TBW), such as 600T
    #[arg(long, value_name = "SIZE")]
    pub endurance: Option<ByteSize>,
    /// Print one JSON object (docs/pool-cache.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold cache policies`
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CachePoliciesArgs {
    /// Print one JSON object (docs/cache.md)
    #[arg(long)]
    pub json: bool,
}
