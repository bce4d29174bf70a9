//! `onefold array ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;
use onefold_block::{ByteSize, ChunkSize};
use onefold_content::FingerprintKind;
use onefold_workload::TraceFormat;

const RUN_EXAMPLES: &str = "\
KEY is any key of the description, with its table or without where only one table has it;
`onefold array spec` lists them. Values that are nobody's published figure are marked `assumed`
there, and counted below the report. `workload.preset` lays a load by name over the server's own:
`write-only`, `mixed` (half reads) or `fiu-like` (4 KiB, a web and mail server's). A trace may be
in any format that `onefold trace` reads (docs/workloads.md); `workload.load` says whether its
requests come one for each that is answered (`closed`, the default), at its times (`timestamps`),
or at random. Exit status: 0 every request was answered; 1 the run failed; 2 the description, the
trace or the arguments cannot be used.

Examples:
  onefold array run --preset cidr --set read_share=0.5
  onefold array run --preset cidr-1 --sweep engine.count=1,2,4,8,10 --json
  onefold array run --preset cidr --sweep workload.preset=write-only,mixed,fiu-like
  onefold array run server.toml --set workload.load=poisson --set workload.gb_per_s=8
  onefold array run --preset cidr --flow bytes.svg --chrome-trace steps.json
  onefold array run --preset fidr --trace work.rec --set trace_before=nothing
  onefold array run --set ssd.model=ses-slc --set ssd.count=4
  onefold array run --preset cidr+ --trace hm_0.csv --set load=timestamps --set speed=10";

const SIZE_EXAMPLES: &str = "\
Parts are found by running the model: with one part less of any kind the goal is not reached. What
they cost rests on assumed prices; --set price.engine_usd=3000 and others change them.

Examples:
  onefold array size --throughput 80GB/s --capacity 400TB --reduction 75%
  onefold array size --throughput 10GB/s --capacity 1PB --reduction 60% --preset fidr --json";

const CALIBRATE_EXAMPLES: &str = "\
It stores a load in pools of its own, in a folder that it makes and removes, and measures CPU time:
what else runs on the machine costs little accuracy. Metadata and the index are one figure, since
the pool does them together. Loads with 0, 30 and 75 % duplicates, stored by one thread and by two,
that no cost comes from, stand beside what the model makes of them.

Examples:
  onefold array calibrate > software-today.toml
  onefold array run software-today.toml
  onefold array calibrate --check --bytes 1G --rounds 5";

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
    /// Find the least hardware that reaches a goal, what it costs and from when on it pays
    Size(ArraySizeArgs),
    /// Measure what storing takes on this machine, and print it as a description
    Calibrate(ArrayCalibrateArgs),
}

/// Which server.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerChoice {
    /// Description to start from: software (the default), software-today, cal17-baseline, cal17,
    /// dedicated, cidr, cidr-1 to cidr-10, cidr+, fidr-index, fidr-nic, fidr-direct, fidr,
    /// fidr-hooks or intra-ssd
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
    /// Replay a trace instead of drawing requests; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub trace: Option<String>,
    /// Format of the trace; without it, what the first lines show
    #[arg(long, value_name = "FORMAT", alias = "trace-format")]
    pub format: Option<TraceFormat>,
    /// Run every value of a key, with --sweep again every combination
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub sweep: Vec<String>,
    /// Runs of a sweep at a time; 0 means one per core
    #[arg(long, value_name = "COUNT", env = "ONEFOLD_THREADS", hide_env = true)]
    #[arg(default_value_t = 0)]
    pub threads: usize,
    /// Draw where written bytes went, and what memory moved, to FILE as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub flow: Option<PathBuf>,
    /// Write the first steps of batches to FILE, as JSON for Perfetto or Chrome
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub chrome_trace: Option<PathBuf>,
    /// Steps in the Chrome trace
    #[arg(long, value_name = "COUNT", requires = "chrome_trace", default_value_t = 10_000)]
    pub chrome_steps: usize,
    /// Overwrite the files of --flow and --chrome-trace
    #[arg(long, short)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `onefold array size`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SIZE_EXAMPLES)]
pub struct ArraySizeArgs {
    /// Client bytes that the server has to take, such as 80GB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub throughput: f64,
    /// Client bytes that it has to hold, such as 400TB
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    pub capacity: f64,
    /// Share of them that deduplication and compression save together, such as 75%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub reduction: f64,
    /// Description to size; may be given again [default: software, cidr, cidr+ and fidr]
    #[arg(long, value_name = "NAME")]
    pub preset: Vec<String>,
    /// Set a key of every description; may be given again, the last one wins
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `onefold array calibrate`
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub struct ArrayCalibrateArgs {
    /// Size of the blocks that are deduplicated: 4K to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub chunk: ChunkSize,
    /// Fingerprint: blake3, sha256 or sha1
    #[arg(long, value_name = "KIND", default_value = "blake3")]
    pub fingerprint: FingerprintKind,
    /// Client bytes of each load
    #[arg(long, value_name = "SIZE", default_value = "128M")]
    pub bytes: ByteSize,
    /// Times that everything is measured; the middle counts
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Print only how far the model is off, with blake3 and with sha256
    #[arg(long, conflicts_with = "fingerprint")]
    pub check: bool,
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

/// A rate in GB/s, 10^9 bytes a second.
fn rate(text: &str) -> Result<f64, String> {
    amount(text, &[("GB/s", 1.0), ("MB/s", 1e-3), ("TB/s", 1e3)], "80GB/s")
}

/// A capacity in TB, 10^12 bytes.
fn capacity(text: &str) -> Result<f64, String> {
    amount(text, &[("TB", 1.0), ("GB", 1e-3), ("PB", 1e3)], "400TB")
}

/// A share from 0 to below 1.
fn share(text: &str) -> Result<f64, String> {
    let share = amount(text, &[("%", 0.01), ("", 1.0)], "75%");
    share
        .ok()
        .filter(|share| *share < 1.0)
        .ok_or_else(|| "expected a share from 0% to below 100%, such as 75% or 0.75".to_owned())
}

/// A number, not negative, with one of these units.
fn amount(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let read = |(unit, factor): &(&str, f64)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number * factor)
    };
    units.iter().find_map(read).ok_or_else(|| {
        let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        format!("expected a number with {}, such as {example}", names.join(", "))
    })
}
