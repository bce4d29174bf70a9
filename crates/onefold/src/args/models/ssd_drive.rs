//! `onefold ssd serve` and `onefold ssd smart`, as written.
//! Room: onefold.

use std::path::PathBuf;

use onefold_nbd::ListenAddr;

use crate::args::serve::{CrowdArgs, GuardArgs, MachineSocket, NewArgs, SlowArgs, TlsArgs};
use crate::args::{AccessArgs, MetricsArgs, RecordArgs};

const SERVE_EXAMPLES: &str = "\
The drive is a folder: its specification, its NAND in a sparse file, its counters. A drive that is
there is opened as it is: SPEC and --preset must agree with it, and --set changes it, but for what
its pages depend on (geometry, size, code, scrambler, deduplication). The export has no name. Two
more show the same pages: what is written through 'deduplicate' is deduplicated wherever it lies,
and what is written through 'keep' never shares a page with anything.
SIGTERM, SIGINT (Ctrl-C), SIGQUIT or a terminal that is closed (SIGHUP, but under nohup) stops it
with everything flushed; a second one stops it at once.

Examples:
  onefold ssd serve --preset ses-slc --dir ./drive
  onefold ssd serve drive.toml --dir ./drive --set geometry.blocks_per_plane=64 --pace
  onefold ssd serve --dir ./drive --vhost-user /run/onefold-vm1
  onefold ssd serve --dir ./drive --run 'nbdinfo $uri'";

/// `onefold ssd serve`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct SsdServeArgs {
    /// Specification of a new drive (TOML)
    #[arg(value_name = "SPEC")]
    pub spec: Option<PathBuf>,
    /// Folder of the drive; made if there is none
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Whether one is made.
    #[command(flatten)]
    pub new: NewArgs,
    /// Drive to start from: ses-slc, ses-mlc1, ses-mlc2, park-shin, tlc, ses-paper or
    /// park-shin-paper
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Set one key of the specification, or change that of a drive; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Take as long as the modelled drive would
    #[arg(long)]
    pub pace: bool,
    /// Where to accept clients: unix:PATH or tcp:HOST:PORT; may be repeated
    ///
    /// Without --listen, --vhost-user and --run it is tcp:127.0.0.1:10809. An address that is
    /// neither a Unix socket nor loopback needs TLS. Port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS", env = "ONEFOLD_LISTEN", hide_env = true)]
    #[arg(value_delimiter = ',')]
    pub listen: Vec<ListenAddr>,
    /// A socket that virtual machines have the drive from, by vhost-user; may be repeated
    ///
    /// EXPORT is 'deduplicate' or 'keep', or nothing. Requests are taken out of the machine's
    /// memory, which it must share: with QEMU, a memory-backend-memfd with share=on. At most four
    /// machines have it at once.
    #[arg(long, value_name = "PATH[=EXPORT]", env = "ONEFOLD_VHOST_USER", hide_env = true)]
    #[arg(value_delimiter = ',')]
    pub vhost_user: Vec<MachineSocket>,
    /// How many may come.
    #[command(flatten)]
    pub crowd: CrowdArgs,
    /// What the log is told of their requests.
    #[command(flatten)]
    pub slow: SlowArgs,
    /// Who may come after a loss.
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Serve on a private socket, run a shell command with $uri set, and exit with its status
    ///
    /// The command also finds $unixsocket, $nbd and $drive.
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// What is written down of the clients' requests.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Who may use a new drive and the Unix sockets.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Where it is seen.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Encryption.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// `onefold ssd smart`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "A drive that is being served is shown as of a few seconds ago.\n\
    Exit status: 0 healthy; 1 a warning is critical; 2 there is no drive to look at.")]
pub struct SsdSmartArgs {
    /// Folder of the drive
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Print one JSON object with the field names of `smartctl -j` (docs/ssd-format.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold ssd idle`
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "The drive looks for duplicates and collects garbage from now on, until the \
    next request comes,\ninstead of waiting for controller.idle_after_ns. Whoever may change the \
    folder may say so."
)]
pub struct SsdIdleArgs {
    /// Folder of the drive
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}
