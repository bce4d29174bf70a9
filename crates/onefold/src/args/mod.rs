//! The command line, as written: parsed and checked, nothing opened and nothing changed.
//! Room: onefold.
//! Invariant: a flag is defined here and nowhere else. Help, completions, the manual pages,
//! `docs/cli.md`, the environment and the settings file all follow from these definitions.

mod access;
mod archive;
mod array;
mod background;
mod cache;
mod estimate;
mod pool;
mod record;
mod reproduce;
mod rescue;
mod scrambler;
mod serve;
mod ssd;
mod ssd_drive;
mod ssd_run;
mod store;
mod tier;
mod trace;
mod volume;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use access::AccessArgs;
pub use archive::{
    ArchiveAddArgs, ArchiveCatArgs, ArchiveCheckArgs, ArchiveCommand, ArchiveCreateArgs,
    ArchiveListArgs, ArchiveLsArgs, ArchivePruneArgs, ArchiveRemoveArgs, ArchiveRestoreArgs,
    ArchiveTraceArgs, ArchiveVerifyArgs,
};
pub use array::{ArrayCommand, ArrayRunArgs, ArraySpecArgs, ServerChoice};
pub use background::{Background, BackgroundArgs};
pub use cache::{CacheCommand, CachePoliciesArgs, CacheRunArgs};
pub use estimate::{EstimateArgs, EstimateCommand, EstimateMergeArgs, ReportArgs};
pub use pool::{PoolCheckArgs, PoolCommand, PoolCreateArgs, PoolReclaimArgs, PoolStatusArgs};
pub use record::RecordArgs;
pub use reproduce::ReproduceArgs;
pub use rescue::RescueArgs;
pub use scrambler::{
    ScramblerChoice, ScramblerCommand, ScramblerInferArgs, ScramblerListArgs, ScramblerMakeArgs,
    ScramblerShowArgs,
};
pub use serve::{CrowdArgs, ServeArgs, TlsArgs};
pub use ssd::SsdCommand;
pub use ssd_drive::{SsdServeArgs, SsdSmartArgs};
pub use ssd_run::{DriveChoice, SsdRunArgs, SsdSpecArgs};
pub use store::{MemoryArgs, StoreArgs, check_volume_size};
pub use tier::PoolCacheArgs;
pub use trace::{TraceCommand, TraceConvertArgs, TraceInfoArgs, Written};
pub use volume::{
    VolumeCommand, VolumeCreateArgs, VolumeDeleteArgs, VolumeExportArgs, VolumeImportArgs,
    VolumeListArgs, VolumeResizeArgs,
};

/// The heading of options that every command takes.
pub const GLOBAL_HEADING: &str = "Everywhere";

const EXAMPLES: &str = "\
First steps:
  onefold estimate /home                 what would it save on my data?
  onefold serve ./demo                   a disk for any NBD client, made on first use
  onefold pool status ./demo             what does it hold and save? (stop the server first)

Sizes are written like 4096, 64K, 1.5G or 1TiB (powers of 1024), or 500GB (powers of 1000).
Exit status: 0 done; 1 what was asked about is bad, or work failed half-way; 2 nothing was done.";

const COMPLETIONS_EXAMPLES: &str = "\
The script asks the `onefold` in PATH for every candidate, so it belongs to that version: let the
shell make it when it starts.

  ~/.bashrc                   source <(onefold completions bash)
  ~/.zshrc                    source <(onefold completions zsh)
  ~/.config/fish/config.fish  onefold completions fish | source";

/// Store every block once: deduplicated, compressed, thin disks over NBD.
#[derive(Debug, Parser)]
#[command(name = "onefold", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = GLOBAL_HEADING)]
pub struct GlobalArgs {
    /// Settings file; without it, `onefold/config.toml` in `$XDG_CONFIG_HOME` or ~/.config
    #[arg(long, value_name = "FILE", global = true, env = "ONEFOLD_CONFIG")]
    #[arg(hide_env = true)]
    pub config: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, trace or off
    #[arg(long, value_name = "LEVEL", global = true, env = "ONEFOLD_LOG", default_value = "warn")]
    #[arg(value_parser = ["off", "error", "warn", "info", "debug", "trace"])]
    #[arg(hide_env = true, hide_possible_values = true)]
    pub log: String,
    /// No progress and no notes on stderr, only warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a pool's volumes over NBD, and make the pool on first use
    Serve(Box<ServeArgs>),
    /// Tell what deduplication and compression would save on your data
    Estimate(Box<EstimateArgs>),
    /// Make, inspect and check pools
    #[command(subcommand, arg_required_else_help = true)]
    Pool(PoolCommand),
    /// Make, list, resize, delete, fill and read out volumes
    #[command(subcommand, arg_required_else_help = true)]
    Volume(VolumeCommand),
    /// Keep versions of file trees, each chunk of content once
    #[command(subcommand, arg_required_else_help = true)]
    Archive(ArchiveCommand),
    /// Simulate an SSD read cache in front of disks
    #[command(subcommand, arg_required_else_help = true)]
    Cache(CacheCommand),
    /// Recover scramblers from dumps of raw flash, and make such dumps
    #[command(subcommand, arg_required_else_help = true)]
    Scrambler(ScramblerCommand),
    /// Run the papers' experiments, and print their numbers beside ours
    Reproduce(ReproduceArgs),
    /// Convert and inspect block traces
    #[command(subcommand, arg_required_else_help = true)]
    Trace(TraceCommand),
    /// Run, emulate and inspect drives with deduplication inside
    #[command(subcommand, arg_required_else_help = true)]
    Ssd(SsdCommand),
    /// Model data reduction servers with offloaded hashing and compression
    #[command(subcommand, arg_required_else_help = true)]
    Array(ArrayCommand),
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        #[arg(value_name = "SHELL", hide_possible_values = true)]
        #[arg(value_parser = ["bash", "zsh", "fish", "elvish", "powershell"])]
        shell: String,
    },
    /// Write the manual pages into a folder
    #[command(after_help = "For all users:  onefold man /usr/local/share/man/man1")]
    Man {
        /// Folder for onefold.1, onefold-serve.1 and so on; made if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print docs/cli.md, the reference of this command line
    #[command(hide = true)]
    Reference,
}
