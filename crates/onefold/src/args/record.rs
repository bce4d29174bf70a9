//! Recording what clients ask of a server: options that the servers share.
//! Room: onefold.

use std::path::PathBuf;

use onefold_block::ByteSize;

/// A recording of all requests.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordArgs {
    /// Record every request in a new FILE, for `trace info`, `trace convert` and `ssd run --trace`
    ///
    /// It holds times, ranges and, for writes, identities from which contents can be told apart
    /// but not told. A recording that cannot go on, as on a full disk, ends with a message;
    /// clients never wait for it. See docs/workloads.md.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// What an identity in the recording stands for: 512, 1K, 2K or 4K
    #[arg(long, value_name = "SIZE", requires = "record", default_value = "4K")]
    pub record_unit: ByteSize,
}
