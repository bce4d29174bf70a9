//! `onefold ssd ...`, as written.
//! Room: onefold.

use clap::Subcommand;

use super::{SsdRunArgs, SsdSpecArgs};

/// Emulate and inspect drives with deduplication inside.
#[derive(Debug, Subcommand)]
pub enum SsdCommand {
    /// Run a workload or a trace on a drive in virtual time
    Run(Box<SsdRunArgs>),
    /// Print a drive's specification with every key, unit and default
    Spec(SsdSpecArgs),
}
