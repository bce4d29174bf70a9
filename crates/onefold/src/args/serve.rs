//! `onefold serve`, as written.
//! Room: onefold.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use onefold_block::ByteSize;
use onefold_nbd::ListenAddr;

use super::{
    AccessArgs, BackgroundArgs, MemoryArgs, MetricsArgs, RecordArgs, RescueArgs,
    SnapshotScheduleArgs, StoreArgs, TierArgs,
};

const EXAMPLES: &str = "\
Every volume is an export of its name; the empty name is the first one.
SIGTERM, SIGINT (Ctrl-C), SIGQUIT or a terminal that is closed (SIGHUP, but under nohup) stops it
with everything flushed; a second one stops it at once.
SIGUSR1 prints the pool's status to stderr.

Examples:
  onefold serve ./demo
  onefold serve ./demo --listen unix:/run/onefold.sock --size 1TiB
  onefold serve ./demo --vhost-user /run/onefold-vm1=vm1
  onefold serve ./demo --run 'nbdinfo $uri'";

/// `onefold serve`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Folder of the pool; made with one volume `main` if there is none
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Where to accept clients: unix:PATH, tcp:HOST:PORT or vsock:PORT; may be repeated
    ///
    /// Without --listen, --vhost-user and --run it is tcp:127.0.0.1:10809. An address that is
    /// neither a Unix socket nor loopback needs TLS; vsock:PORT is reached by the virtual machines
    /// of this one. Port 0 takes any free one. Sockets that a service manager hands over are served
    /// besides, and then there is no default.
    #[arg(long, value_name = "ADDRESS", env = "ONEFOLD_LISTEN", hide_env = true)]
    #[arg(value_delimiter = ',')]
    pub listen: Vec<ListenAddr>,
    /// A socket that virtual machines have a disk from, by vhost-user; may be repeated
    ///
    /// The disk is the volume EXPORT, or the first one. Requests are taken out of the machine's
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
    /// What SIGHUP does: stop, as when a terminal is closed, or reload
    ///
    /// Reloading reads the TLS files again, for connections from then on, and the settings files:
    /// work in the background, the space target and the memory of the read cache and of the index.
    /// What cannot be used is told in the log and stays as it was.
    #[arg(long, value_name = "WHAT", env = "ONEFOLD_ON_HANGUP", hide_env = true)]
    #[arg(default_value = "stop", hide_possible_values = true)]
    pub on_hangup: Hangup,
    /// Refuse all changes
    #[arg(long, conflicts_with_all = ["guard_reconnect", "accept_loss"])]
    pub read_only: bool,
    /// For a pool that is refused; with --read-only.
    #[command(flatten)]
    pub rescue: RescueArgs,
    /// Serve on a private socket, run a shell command with $uri set, and exit with its status
    ///
    /// The command also finds $unixsocket, $exportname, $nbd and $pool. It is served besides
    /// what --listen names, and leaves nothing behind but the pool.
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Whether one is made.
    #[command(flatten)]
    pub new: NewArgs,
    /// Size of the volume `main` of a new pool
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_SIZE", hide_env = true)]
    #[arg(default_value = "64G", allow_negative_numbers = true, help_heading = "A new pool")]
    pub size: ByteSize,
    /// How a new pool stores.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What the pool may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// What it does besides.
    #[command(flatten)]
    pub background: BackgroundArgs,
    /// What it verifies besides.
    #[command(flatten)]
    pub scrub: ScrubArgs,
    /// What it keeps of what volumes were.
    #[command(flatten)]
    pub snapshots: SnapshotScheduleArgs,
    /// What is before the pool.
    #[command(flatten)]
    pub cache: TierArgs,
    /// What is written down of the clients' requests.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Who may use a new pool and its cache, and the Unix sockets.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Where it is seen.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Encryption.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// What happens where there is nothing to serve.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct NewArgs {
    /// Make nothing: end with an error where there is nothing to serve
    ///
    /// For a store on a disk of its own: while that is not mounted, an empty store would be made
    /// and served in its place.
    #[arg(long, env = "ONEFOLD_MUST_EXIST", hide_env = true)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub must_exist: bool,
}

/// A socket for virtual machines, and the export that they have there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSocket {
    /// Where it is.
    pub path: PathBuf,
    /// The export; empty for the first one.
    pub export: String,
}

impl FromStr for MachineSocket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path may have the sign in it, names of volumes may not.
        let (path, export) = text.rsplit_once('=').unwrap_or((text, ""));
        if path.is_empty() {
            return Err(format!("'{text}' names no socket: write PATH or PATH=EXPORT"));
        }
        Ok(Self { path: PathBuf::from(path), export: export.to_owned() })
    }
}

impl fmt::Display for MachineSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vhost-user:{}", self.path.display())
    }
}

/// What is verified while it serves.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Work in the background")]
pub struct ScrubArgs {
    /// Read and verify everything that is stored, over and over, so much in a second, such as 20M
    ///
    /// Without it nothing is verified but what is read. What is found is in `onefold pool status`.
    /// It pauses while --background is off.
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_SCRUB_RATE", hide_env = true)]
    #[arg(value_parser = super::pool::rate, allow_negative_numbers = true)]
    pub scrub_rate: Option<ByteSize>,
}

/// What SIGHUP does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Hangup {
    /// Stop with everything flushed.
    Stop,
    /// Read certificates and settings again.
    Reload,
}

/// How many clients may come.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CrowdArgs {
    /// Most connections that are served at once, over TCP and over Unix sockets each
    ///
    /// Further ones are closed on arrival. Clients that have not got through the handshake do not
    /// count: they have places of their own, and the oldest of them makes room for the next.
    #[arg(long, value_name = "N", env = "ONEFOLD_MAX_CONNECTIONS", hide_env = true)]
    #[arg(default_value = "128", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub max_connections: u32,
}

/// What the log is told of requests.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct SlowArgs {
    /// Tell the log of requests that take longer, such as 100ms or 2s, and where their time went
    ///
    /// Ten at once are told, and then one in ten seconds; what is left out is counted. Time that a
    /// limit of the volume takes does not count, nor does that of a client that is slow to take its
    /// replies. 0 tells of none.
    #[arg(long, value_name = "TIME", env = "ONEFOLD_SLOW_REQUEST", hide_env = true)]
    #[arg(default_value = "1s", value_parser = short_time, allow_negative_numbers = true)]
    pub slow_request: Duration,
}

/// `100ms`, `2s` or `1m`; 0 needs no unit.
fn short_time(text: &str) -> Result<Duration, String> {
    let refused = || format!("'{text}' is no time: write 100ms, 2s or 1m");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| refused())?;
    let ms = match unit {
        "" if number == 0 => 0,
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err(refused()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(refused)
}

/// What happens to clients that connect again after acknowledged writes may have been lost.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct GuardArgs {
    /// After a loss, refuse clients that do not know of it
    ///
    /// Whenever writes that were acknowledged and not flushed may have been lost, as by a power
    /// cut, a new generation begins. Clients are refused then, with a sentence that says why,
    /// until it is accepted; who names the generation (export NAME@gN) is served at any time.
    #[arg(long)]
    pub guard_reconnect: bool,
    /// Accept that writes were lost before generation N began, and serve everybody again
    ///
    /// Stop and check what used the volumes first. A generation that is past is no harm.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub accept_loss: Option<u64>,
}

/// Encryption of TCP connections.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Encryption")]
pub struct TlsArgs {
    /// This server's certificate chain (PEM); with it, TCP clients must use TLS
    #[arg(long, value_name = "FILE", env = "ONEFOLD_TLS_CERT", hide_env = true)]
    #[arg(requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", env = "ONEFOLD_TLS_KEY", hide_env = true)]
    #[arg(requires_all = ["tls_cert", "tls_ca"])]
    pub tls_key: Option<PathBuf>,
    /// Certificate authority (PEM) that must have signed the clients' certificates
    #[arg(long, value_name = "FILE", env = "ONEFOLD_TLS_CA", hide_env = true)]
    #[arg(requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// Let anyone who reaches a TCP address read and overwrite all volumes, unencrypted
    #[arg(long)]
    pub allow_unencrypted_network_access: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_for_a_machine_has_a_path_and_may_name_an_export() {
        let parsed = |text: &str| {
            let socket: MachineSocket = text.parse().unwrap();
            (socket.path.display().to_string(), socket.export)
        };
        let pair = |path: &str, export: &str| (path.to_owned(), export.to_owned());
        assert_eq!(parsed("/run/x"), pair("/run/x", ""));
        assert_eq!(parsed("/run/x=disk"), pair("/run/x", "disk"));
        assert_eq!(parsed("/run/a=b=disk"), pair("/run/a=b", "disk"));
        for text in ["", "=disk"] {
            let why = text.parse::<MachineSocket>().unwrap_err();
            assert!(why.contains("names no socket"), "{why}");
        }
    }
}
