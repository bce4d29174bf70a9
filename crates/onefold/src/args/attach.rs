//! `onefold attach` and `onefold detach`, as written.
//! Room: onefold.

use std::path::PathBuf;

use crate::attach::Way;

const EXAMPLES: &str = "\
The server of the pool must listen at a Unix socket. The kernel's NBD client is used where it is
there and the user is root, else its ublk, and nbdfuse otherwise; mounting needs root. What is
printed is the device or file. What is done is noted in /run/onefold-attached, or for others than
root in $XDG_RUNTIME_DIR, until it is undone.

Examples:
  onefold attach ./demo main               /dev/nbd0, or a file
  onefold attach ./demo main /mnt          and what is on it mounted
  onefold attach ./demo main@monday /mnt --read-only
  onefold detach ./demo main";

/// `onefold attach`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AttachArgs {
    /// Folder of the pool, which a server has
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume or snapshot
    #[arg(value_name = "VOLUME")]
    pub volume: String,
    /// Mount what is on it there
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Change nothing; a snapshot needs it
    #[arg(long)]
    pub read_only: bool,
    /// By the kernel's NBD client (nbd), its ublk (ublk) or nbdfuse (file); without it by what the
    /// machine has
    #[arg(long, value_name = "WAY", hide_possible_values = true)]
    pub by: Option<Way>,
}

/// `onefold detach`
#[derive(Clone, Debug, clap::Args)]
pub struct DetachArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume or snapshot
    #[arg(value_name = "VOLUME")]
    pub volume: String,
}

/// What answers for a ublk device; `attach` starts it.
#[derive(Clone, Debug, clap::Args)]
pub struct CarryArgs {
    /// Socket of the server
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    /// Name of the volume or snapshot
    #[arg(value_name = "VOLUME")]
    pub volume: String,
    /// Change nothing
    #[arg(long)]
    pub read_only: bool,
}
