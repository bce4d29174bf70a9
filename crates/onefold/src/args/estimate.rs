//! `onefold estimate`, as written.
//! Room: onefold.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Subcommand;
use onefold_block::ByteSize;
use onefold_content::{ChunkSizes, Compression};
use onefold_estimate::{Options, Shard, content_defined};
use onefold_image::Choice;

use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Nothing is written. Ctrl-C prints what is known so far. Every file, image or device is cut from
its own start. Exit status: 0 all of it was read; 1 some of it could not be, and is named; 2 usage.

Examples:
  onefold estimate /home /srv/vm
  onefold estimate /dev/sda --compression lz4,zstd --json
  onefold estimate /data --shard 0/4 --partial 0.part    one of four runs over one tree,
  onefold estimate merge *.part                          and all of them together";

/// `onefold estimate`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub struct EstimateArgs {
    /// Combine partial results instead.
    #[command(subcommand)]
    pub merge: Option<EstimateCommand>,
    /// Files, folders, disk images and block devices
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Memory for tables and buffers; past it, a sample is kept and intervals are printed
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_MEMORY", hide_env = true)]
    #[arg(default_value = "256M", allow_negative_numbers = true)]
    pub memory: ByteSize,
    /// Chunk sizes from 512 to 128K, and means of content-defined ones, such as 4K,64K,cdc:8K
    ///
    /// Without it: all powers of two from 512 to 128K, and cdc:8K.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub chunks: Vec<Chunks>,
    /// The chunk size of the answer, of compression and of all lists
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    pub primary: ByteSize,
    /// Compressions to try, such as lz4,zstd:9; the answer is about the first one
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "lz4")]
    pub compression: Vec<Compression>,
    /// Worker threads; 0 means one per core
    #[arg(long, value_name = "COUNT", env = "ONEFOLD_THREADS", hide_env = true)]
    #[arg(default_value_t = 0)]
    pub threads: usize,
    /// How to read disk images: raw, qcow2, or auto, which sees what they are
    ///
    /// auto counts the disks inside qcow2 images, and what is inside a PATH that is compressed with
    /// gzip or zstd. raw counts the bytes of all files as they are.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: Choice,
    /// Stay on the file systems of the inputs
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
    /// Do one of n parts of the work, i/n with i from 0
    #[arg(long, value_name = "I/N", requires = "partial")]
    pub shard: Option<Shard>,
    /// Keep the whole result in FILE for `onefold estimate merge`
    #[arg(long, value_name = "FILE")]
    pub partial: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// What else `onefold estimate` does.
#[derive(Clone, Debug, Subcommand)]
pub enum EstimateCommand {
    /// Combine results kept with --partial: all shards of a tree, or of different trees
    Merge(EstimateMergeArgs),
}

/// `onefold estimate merge`
#[derive(Clone, Debug, clap::Args)]
pub struct EstimateMergeArgs {
    /// Files written with --partial
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Memory for the combination; without it, the most that any part was allowed
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory: Option<ByteSize>,
    /// Keep the combination in FILE
    #[arg(long, value_name = "FILE")]
    pub partial: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ReportArgs {
    /// Print one JSON object (docs/estimate.md)
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print a table of chunk sizes as CSV
    #[arg(long)]
    pub csv: bool,
    /// Rows of each list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub rows: usize,
}

/// A way of cutting: a fixed size, or `cdc:` and a mean.
#[derive(Clone, Copy, Debug)]
pub enum Chunks {
    /// Equal pieces of this many bytes.
    Fixed(u32),
    /// Content-defined.
    Cdc(ChunkSizes),
}

/// A text that is no way of cutting.
#[derive(Clone, Debug)]
pub struct ParseChunksError(String);

impl fmt::Display for ParseChunksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseChunksError {}

impl FromStr for Chunks {
    type Err = ParseChunksError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseChunksError> {
        let size = |text: &str| {
            let size: ByteSize = text.parse().map_err(|e| ParseChunksError(format!("{e}")))?;
            u32::try_from(size.bytes())
                .map_err(|_| ParseChunksError(format!("chunks of {size} are too large")))
        };
        match text.strip_prefix("cdc:") {
            Some(mean) => content_defined(size(mean)?)
                .map(Self::Cdc)
                .map_err(|e| ParseChunksError(e.to_string())),
            None => size(text).map(Self::Fixed),
        }
    }
}

impl EstimateArgs {
    /// The same for the estimator, which checks it.
    pub fn options(&self) -> Result<Options> {
        let primary_bytes = u32::try_from(self.primary.bytes()).map_err(|_| {
            Failure::nothing_done(format!("primary chunks of {} are too large", self.primary))
        })?;
        let mut options = Options {
            primary_bytes,
            compressions: self.compression.clone(),
            memory_bytes: self.memory.bytes(),
            threads: self.threads,
            shard: self.shard.unwrap_or_default(),
            one_file_system: self.one_file_system,
            images: self.format,
            ..Options::default()
        };
        if !self.chunks.is_empty() {
            options.chunk_sizes.clear();
            options.content_defined.clear();
        }
        for chunks in &self.chunks {
            match chunks {
                Chunks::Fixed(bytes) => options.chunk_sizes.push(*bytes),
                Chunks::Cdc(sizes) => options.content_defined.push(*sizes),
            }
        }
        Ok(options)
    }
}
