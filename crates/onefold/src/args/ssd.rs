//! `onefold ssd ...`, as written.
//! Room: onefold.

use clap::Subcommand;

use super::{SsdServeArgs, SsdSmartArgs};

/// Emulate and inspect drives with deduplication inside.
#[derive(Debug, Subcommand)]
pub enum SsdCommand {
    /// Serve an emulated drive over NBD, and make it on first use
    Serve(Box<SsdServeArgs>),
    /// Print a drive's health, as the NVMe SMART log and beyond
    Smart(SsdSmartArgs),
}
