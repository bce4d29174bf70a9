//! `onefold ssd ...`, as written.
//! Room: onefold.

use clap::Subcommand;

use super::{SsdCalibrateArgs, SsdIdleArgs, SsdRunArgs, SsdServeArgs, SsdSmartArgs, SsdSpecArgs};

/// Run, emulate and inspect drives with deduplication inside.
#[derive(Debug, Subcommand)]
pub enum SsdCommand {
    /// Run a workload or a trace on a drive in virtual time
    Run(Box<SsdRunArgs>),
    /// Print a drive's specification with every key, unit and default
    Spec(SsdSpecArgs),
    /// Serve an emulated drive over NBD, and make it on first use
    Serve(Box<SsdServeArgs>),
    /// Print a drive's health: the fields of the SMART log, wear and deduplication
    Smart(SsdSmartArgs),
    /// Measure what the host's software scrambler takes on this machine
    Calibrate(SsdCalibrateArgs),
    /// Tell a drive that is served that nothing will be asked of it for a while
    Idle(SsdIdleArgs),
}
