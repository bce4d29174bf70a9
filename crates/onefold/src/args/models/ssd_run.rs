//! `onefold ssd run` and `onefold ssd spec`, as written.
//! Room: onefold.

use std::path::PathBuf;

use onefold_flash::spec::PRESET_NAMES;
use onefold_workload::TraceFormat;

const RUN_EXAMPLES: &str = "\
KEY is any key of the specification, with its table or without where only one table has it;
`onefold ssd spec` lists them. Exit status: 0 every request was answered; 1 the run failed; 2 the
specification, the trace or the arguments cannot be used.

Examples:
  onefold ssd run --preset ses-mlc1 --set over_provisioning=0.28 --set gc_reserve_blocks=4
  onefold ssd run drive.toml --trace hm_0.csv --set wrap_addresses=true --json
  onefold ssd run --preset tlc --sweep queue_depth=1,8,64 --sweep read_share=0,0.7";

const SPEC_EXAMPLES: &str = "\
Examples:
  onefold ssd spec > drive.toml
  onefold ssd spec --preset tlc --set workload=zipf";

/// Which drive.
#[derive(Clone, Debug, clap::Args)]
pub struct DriveChoice {
    /// Specification to start from: ses-slc (the default), ses-mlc1, ses-mlc2,
    /// park-shin, tlc, ses-paper or park-shin-paper
    #[arg(long, value_name = "NAME", value_parser = PRESET_NAMES, hide_possible_values = true)]
    pub preset: Option<String>,
    /// Set a key of the specification; may be given again, the last one wins
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Root of all random numbers, from 0 to 2^63 - 1
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
}

/// `onefold ssd run`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct SsdRunArgs {
    /// Specification in TOML, laid over the preset that it names, or over ses-slc
    #[arg(value_name = "SPEC", conflicts_with = "preset")]
    pub spec: Option<PathBuf>,
    /// Which drive.
    #[command(flatten)]
    pub drive: DriveChoice,
    /// Replay a trace instead of the workload of the specification; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Format of the trace; without it, what the first lines show
    #[arg(long, value_name = "FORMAT", requires = "trace", alias = "trace-format")]
    pub format: Option<TraceFormat>,
    /// Number of requests; of a trace, at most so many
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub requests: Option<u64>,
    /// State before the first request: steady (as after endless writes), none (empty) or prefill
    /// (written once)
    #[arg(long, value_name = "STATE", value_parser = ["none", "steady", "prefill"])]
    #[arg(hide_possible_values = true)]
    pub precondition: Option<String>,
    /// Run every value of a key, with --sweep again every combination
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub sweep: Vec<String>,
    /// Threads: runs of a sweep at a time, and up to 2 for a single run; 0 means one per core
    #[arg(long, value_name = "COUNT", env = "ONEFOLD_THREADS", hide_env = true)]
    #[arg(default_value_t = 0)]
    pub threads: usize,
    /// Write a row per request to FILE, as CSV or Parquet by its name
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub request_log: Option<PathBuf>,
    /// Write the first flash operations to FILE, as JSON for Perfetto or Chrome
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub chrome_trace: Option<PathBuf>,
    /// Operations in the Chrome trace
    #[arg(long, value_name = "COUNT", requires = "chrome_trace", default_value_t = 10_000)]
    pub chrome_operations: usize,
    /// Overwrite the files of --request-log and --chrome-trace
    #[arg(long, short)]
    pub force: bool,
    /// Print one JSON object (docs/ssd.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold ssd spec`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SPEC_EXAMPLES)]
pub struct SsdSpecArgs {
    /// Which drive.
    #[command(flatten)]
    pub drive: DriveChoice,
}

/// `onefold ssd calibrate`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "The output is a part of a specification: host.scrambler_mb_per_s, which \
    `ssd run` takes for\ndrives with dedup.policy = ses-host.")]
pub struct SsdCalibrateArgs {
    /// Which drive.
    #[command(flatten)]
    pub drive: DriveChoice,
    /// Print one JSON object (docs/ssd.md)
    #[arg(long)]
    pub json: bool,
}
