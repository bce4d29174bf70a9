//! `onefold trace ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use onefold_workload::TraceFormat;

const CONVERT_EXAMPLES: &str = "\
Formats: csv and parquet (our own), recording (what --record wrote), msr, blkparse, blkparse-issue,
blkparse-complete, fio, disksim, cachesim, alibaba, fiu (docs/workloads.md). Text may be compressed
with gzip or zstd. Nothing is left of OUT if IN turns out to be bad.

Examples:
  onefold trace convert hm_0.csv hm_0.parquet
  blkparse -i sda | onefold trace convert - sda.csv --format blkparse";

/// Convert and inspect block traces.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Rewrite a trace in our own format
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(TraceConvertArgs),
    /// Count what is in a trace
    Info(TraceInfoArgs),
}

/// `onefold trace convert`
#[derive(Clone, Debug, clap::Args)]
pub struct TraceConvertArgs {
    /// Trace to read, or `-` for stdin
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File to write, or `-` for stdout
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format of IN; without it, what the first lines show
    #[arg(long, value_name = "FORMAT", alias = "from")]
    pub format: Option<TraceFormat>,
    /// Format of OUT, csv or parquet; without it, by its name
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub to: Option<Written>,
    /// Overwrite OUT if it exists
    #[arg(long, short)]
    pub force: bool,
}

/// `onefold trace info`
#[derive(Clone, Debug, clap::Args)]
pub struct TraceInfoArgs {
    /// Trace to read, or `-` for stdin
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Format of IN; without it, what the first lines show
    #[arg(long, value_name = "FORMAT", alias = "from")]
    pub format: Option<TraceFormat>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The formats that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// Text with one line per request.
    Csv,
    /// Columns, compressed.
    Parquet,
}
