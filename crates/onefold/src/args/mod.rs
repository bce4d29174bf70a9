//! The command line, as written: parsed and checked, nothing opened and nothing changed.
//! Room: onefold.
//! Invariant: a flag is defined here and nowhere else. Help, completions, the manual pages,
//! `docs/cli.md`, the environment and the settings file all follow from these definitions.

pub mod absent;
mod access;
#[cfg(feature = "archive")]
mod archive;
mod attach;
mod background;
mod estimate;
mod keep;
mod metrics;
#[cfg(feature = "models")]
pub mod models;
mod pool;
mod record;
mod rescue;
mod serve;
mod sharing;
mod store;
mod tier;
#[cfg(feature = "top")]
mod top;
mod trace;
mod volume;
pub mod whole_number;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use access::AccessArgs;
#[cfg(feature = "mount")]
pub use archive::ArchiveMountArgs;
#[cfg(feature = "archive")]
pub use archive::{
    ArchiveAddArgs, ArchiveCatArgs, ArchiveCheckArgs, ArchiveCommand, ArchiveCreateArgs,
    ArchiveDiffArgs, ArchiveKeyArgs, ArchiveListArgs, ArchiveLsArgs, ArchivePruneArgs,
    ArchiveRemoveArgs, ArchiveRestoreArgs, ArchiveTraceArgs, ArchiveVerifyArgs, KeyArgs,
};
pub use attach::{AttachArgs, CarryArgs, DetachArgs};
pub use background::{Background, BackgroundArgs};
pub use estimate::{EstimateArgs, EstimateCommand, EstimateMergeArgs, ReportArgs};
pub use keep::{KeepArgs, SnapshotScheduleArgs};
pub use metrics::MetricsArgs;
pub use pool::{
    CacheWrites, PoolCheckArgs, PoolCommand, PoolCreateArgs, PoolDeduplicateArgs, PoolDrainArgs,
    PoolReclaimArgs, PoolScrubArgs, PoolSetArgs, PoolStatusArgs,
};
pub use record::RecordArgs;
pub use rescue::RescueArgs;
pub use serve::{GuardArgs, Hangup, MachineSocket, ServeArgs};
pub use sharing::{VolumeAllowArgs, VolumeDenyArgs, VolumeLimitArgs};
pub use store::{MemoryArgs, StoreArgs, check_volume_size};
pub use tier::{CacheMode, Thousandths, TierArgs, parse_times, parse_years};
#[cfg(feature = "top")]
pub use top::TopArgs;
pub use trace::{TraceCommand, TraceConvertArgs, TraceInfoArgs, TraceRecordArgs, Written};
pub use volume::{
    VolumeCloneArgs, VolumeCommand, VolumeCreateArgs, VolumeDeleteArgs, VolumeDiffArgs,
    VolumeExportArgs, VolumeHoldArgs, VolumeImportArgs, VolumeListArgs, VolumePruneArgs,
    VolumeReceiveArgs, VolumeRenameArgs, VolumeResizeArgs, VolumeRollbackArgs, VolumeSendArgs,
    VolumeSnapshotArgs,
};

/// The heading of options that every command takes.
pub const GLOBAL_HEADING: &str = "Everywhere";

const EXAMPLES: &str = "\
First steps:
  onefold demo                           what is it? in a minute, leaving nothing behind
  onefold estimate /home                 what would it save on my data?
  onefold serve ./demo                   a disk for any NBD client, made on first use
  onefold pool status ./demo             what does it hold and save?

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
#[command(name = "onefold", version, max_term_width = 100)]
#[command(after_help = EXAMPLES.to_owned() + &absent::note())]
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
    /// How the log is written: text for people, or json with one object on each line
    #[arg(long, value_name = "FORMAT", global = true, env = "ONEFOLD_LOG_FORMAT")]
    #[arg(default_value = "text", value_parser = ["text", "json"])]
    #[arg(hide_env = true, hide_possible_values = true)]
    pub log_format: String,
    /// No progress and no notes on stderr, only warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// `onefold doctor`
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
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
    /// Make, list, resize, delete, fill and read out volumes and their snapshots
    #[command(subcommand, arg_required_else_help = true)]
    Volume(VolumeCommand),
    /// Keep versions of file trees, each chunk of content once
    #[cfg(feature = "archive")]
    #[command(subcommand, arg_required_else_help = true)]
    Archive(ArchiveCommand),
    /// Convert and inspect block traces
    #[command(subcommand, arg_required_else_help = true)]
    Trace(TraceCommand),
    /// What to simulate or to measure.
    #[cfg(feature = "models")]
    #[command(flatten)]
    Model(models::ModelCommand),
    /// Show a running server in the terminal, second by second
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Show in a minute what this is: data are stored, the server is killed, all is there again
    Demo,
    /// Make a served volume a block device or file of this machine, and mount it if asked
    Attach(AttachArgs),
    /// Undo what `onefold attach` did
    #[command(after_help = "It can be done again where something was in use.")]
    Detach(DetachArgs),
    /// Say what this machine lacks for clients, mounts and tests, and what to install
    #[command(after_help = "Exit status: 0 nothing is missing; 1 something is, and named.")]
    Doctor(DoctorArgs),
    /// Print the document that describes the API of a running server
    Api,
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
    /// Answer for a device that `attach` makes
    #[command(hide = true)]
    Carry(CarryArgs),
    /// Print docs/cli.md, the reference of this command line
    #[command(hide = true)]
    Reference,
}

impl Command {
    /// Whether it serves clients until it is told to stop.
    pub fn serves(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            // Without the feature `mount` it only says so.
            #[cfg(feature = "archive")]
            Self::Archive(ArchiveCommand::Mount(_)) => cfg!(feature = "mount"),
            #[cfg(feature = "models")]
            Self::Model(models::ModelCommand::Ssd(models::SsdCommand::Serve(_))) => true,
            _ => false,
        }
    }
}
