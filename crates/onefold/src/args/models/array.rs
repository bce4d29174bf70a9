//! `onefold array ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;

const RUN_EXAMPLES: &str = "\
KEY is any key of the description, with its table or without where only one table has it;
`onefold array spec` lists them. Values that are nobody's published figure are marked `assumed`
there, and counted below the report.

Examples:
  onefold array run --preset cidr --set read_share=0.5
  onefold array run --preset cidr-1 --sweep engine.count=1,2,4,8,10 --json
  onefold array run server.toml --set workload.load=poisson --set workload.gb_per_s=8";

const SPEC_EXAMPLES: &str = "\
Examples:
  onefold array spec --preset fidr > server.toml
  onefold array spec --preset cidr+ --set table.cache_bytes=268435456";

/// Model data reduction servers with offloaded hashing and compression.
#[derive(Debug, Subcommand)]
pub enum ArrayCommand {
    /// Run a load on a server in virtual time, and name what stops it
    Run(ArrayRunArgs),
    /// Print a server's description with every key, unit, default and where it comes from
    Spec(ArraySpecArgs),
}

/// Which server.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerChoice {
    /// Description to start from: software (the default), cal17-baseline, dedicated, cidr, cidr-1
    /// to cidr-10, cidr+, fidr-index, fidr-nic, fidr-direct or fidr
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set a key of the description; may be given again, the last one wins
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root of all random numbers, from 0 to 2^63 - 1
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
}

/// `onefold array run`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct ArrayRunArgs {
    /// Description in TOML, laid over the preset that it names, or over software
    #[arg(value_name = "SPEC", conflicts_with = "preset")]
    pub spec: Option<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub server: ServerChoice,
    /// Run every value of a key, with --sweep again every combination
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub sweep: Vec<String>,
    /// Runs of a sweep at a time; 0 means one per core
    #[arg(long, value_name = "COUNT", env = "ONEFOLD_THREADS", hide_env = true)]
    #[arg(default_value_t = 0)]
    pub threads: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `onefold array spec`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SPEC_EXAMPLES)]
pub struct ArraySpecArgs {
    /// Which server.
    #[command(flatten)]
    pub server: ServerChoice,
}
