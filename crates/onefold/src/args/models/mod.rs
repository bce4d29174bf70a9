//! The commands that simulate and measure instead of storing: feature `models`.
//! Room: onefold.

mod array;
mod cache;
mod reproduce;
mod scrambler;
mod ssd;
mod ssd_drive;
mod ssd_run;

use clap::Subcommand;

pub use array::{
    ArrayCalibrateArgs, ArrayCommand, ArrayRunArgs, ArraySizeArgs, ArraySpecArgs, ServerChoice,
};
pub use cache::{CacheAdviseArgs, CacheCommand, CachePoliciesArgs, CacheRunArgs};
pub use reproduce::ReproduceArgs;
pub use scrambler::{
    ScramblerChoice, ScramblerCommand, ScramblerInferArgs, ScramblerListArgs, ScramblerMakeArgs,
    ScramblerShowArgs,
};
pub use ssd::SsdCommand;
pub use ssd_drive::{SsdIdleArgs, SsdServeArgs, SsdSmartArgs};
pub use ssd_run::{DriveChoice, SsdCalibrateArgs, SsdRunArgs, SsdSpecArgs};

/// What to simulate or to measure.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Simulate an SSD read cache in front of disks
    #[command(subcommand, arg_required_else_help = true)]
    Cache(CacheCommand),
    /// Run, emulate and inspect drives with deduplication inside
    #[command(subcommand, arg_required_else_help = true)]
    Ssd(SsdCommand),
    /// Model data reduction servers with offloaded hashing and compression
    #[command(subcommand, arg_required_else_help = true)]
    Array(ArrayCommand),
    /// Recover scramblers from dumps of raw flash, and make such dumps
    #[command(subcommand, arg_required_else_help = true)]
    Scrambler(ScramblerCommand),
    /// Run the papers' experiments, and print their numbers beside ours
    Reproduce(ReproduceArgs),
}
