//! `onefold trace ...`, as written.
//! Room: onefold.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use onefold_block::ByteSize;
use onefold_workload::TraceFormat;

const CONVERT_EXAMPLES: &str = "\
Formats: csv and parquet (our own), recording (what --record wrote), msr, blkparse, blkparse-issue,
blkparse-complete, fio, disksim, cachesim, alibaba, fiu (docs/workloads.md). Text may be compressed
with gzip or zstd. Nothing is left of OUT if IN turns out to be bad.

Examples:
  onefold trace convert hm_0.csv hm_0.parquet
  blkparse -i sda | onefold trace convert - sda.csv --format blkparse";

const RECORD_EXAMPLES: &str = "\
Examples:
  onefold trace record ./pool main work.rec --for 15min
  onefold trace info work.rec
  onefold ssd run --preset park-shin --trace work.rec";

/// Record, convert and inspect block traces.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Rewrite a trace in our own format
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(TraceConvertArgs),
    /// Count what is in a trace
    Info(TraceInfoArgs),
    /// Record what is asked of a volume while it is served
    ///
    /// The server goes on serving: recording begins with the next request, and ends at Ctrl-C, at a
    /// limit, or when the server stops. FILE holds times, ranges and, for writes, identities from
    /// which contents can be told apart but not told; it is for its owner only, and gets its name
    /// once it is whole. Clients never wait for the recording: one that cannot go on, as on a full
    /// disk, ends with a message and keeps what it has. For a server that is yet to be started
    /// there is `serve --record`.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(TraceRecordArgs),
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

/// `onefold trace record`
#[derive(Clone, Debug, clap::Args)]
pub struct TraceRecordArgs {
    /// Pool that is served
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub pool: PathBuf,
    /// Volume, or snapshot, to record
    pub volume: String,
    /// File to write
    #[arg(value_name = "FILE")]
    pub output: PathBuf,
    /// Record for so long: 90s, 15min or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = super::keep::parse_every)]
    pub lasting: Option<Duration>,
    /// End before FILE gets longer than this
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<ByteSize>,
    /// What an identity stands for: 512, 1K, 2K or 4K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub unit: ByteSize,
    /// Overwrite FILE if it exists
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
