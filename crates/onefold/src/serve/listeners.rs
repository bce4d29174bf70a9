//! The servers behind the addresses: TCP ones with TLS where that is on, Unix sockets without, and
//! those for virtual machines.
//! Room: onefold.

use std::sync::Arc;
use std::time::Duration;

use onefold_block::{Group, OPEN_CONTAINERS_MIN, keep_containers_open};
use onefold_nbd::{
    Exports, Handed, ListenAddr, Server, ServerConfig, ServerError, ServerHandle, SlowRequests,
    TlsError, TlsFiles, TlsMode,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::machines::{FILES_OF_A_MACHINE, MACHINES_MAX, Machines};
use crate::args::MachineSocket;
use crate::clock;
use crate::failure::{Failure, Result};

/// Where it listens if nothing else is said.
const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 10809;

/// Where to listen for clients of NBD.
pub struct Places {
    addresses: Vec<ListenAddr>,
    handed: Vec<Handed>,
}

impl Places {
    /// What was said, what was handed over, the socket of `--run`, or the default, unless nobody
    /// but machines shall come. An address that was handed over is not opened once more.
    pub fn new(
        (said, machines): (&[ListenAddr], &[MachineSocket]),
        handed: Vec<Handed>,
        private: Option<ListenAddr>,
    ) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Failure::nothing_done(format!("a socket was handed over, but {error}"))
        };
        let open = handed.iter().map(Handed::address).collect::<std::io::Result<Vec<_>>>();
        let open = open.map_err(refused)?;
        let said = said.iter().filter(|address| !open.contains(address)).cloned();
        let mut addresses: Vec<ListenAddr> = said.chain(private).collect();
        if addresses.is_empty() && handed.is_empty() && machines.is_empty() {
            addresses.push(ListenAddr::Tcp { host: DEFAULT_HOST.to_owned(), port: DEFAULT_PORT });
        }
        Ok(Self { addresses, handed })
    }

    /// What is not open yet.
    pub fn to_open(&self) -> &[ListenAddr] {
        &self.addresses
    }
}

/// How to listen.
pub struct Listening {
    /// Where.
    pub places: Places,
    /// Where virtual machines have disks.
    pub machines: Vec<MachineSocket>,
    /// What TCP clients must show, if anything.
    pub tls: Option<TlsFiles>,
    /// Whether anyone may come in from other machines.
    pub allow_insecure: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Most clients that are served at once, over TCP and over Unix sockets each.
    pub max_connections: u32,
    /// The group that may use the Unix sockets, besides the owner.
    pub group: Option<Group>,
    /// Which requests the log is told of: those that take longer; none if it is zero.
    pub slow_request: Duration,
}

/// Servers that run; every address is served by one of them.
pub struct Servers {
    /// And whether clients must use TLS there.
    doors: Vec<(Server, bool)>,
    machines: Vec<Machines>,
    tls: Option<TlsFiles>,
}

/// Files that a server has open besides its connections and its containers: fingerprint runs, one
/// for each 64 MiB of them, the dozen that a pool or a drive consists of, and its cache's.
const OTHER_FILES: u64 = 256 + 32;
/// Files of a container that stays open: it is written past the page cache by a second one.
const FILES_OF_A_CONTAINER: u64 = 2;

/// Let this process open as many files as it may: connections and containers want a few hundred,
/// and the usual soft limit is there for programs that use select(2). Refuse what would not fit.
/// More containers stay open where clients leave more: a random read of one whose file is not open
/// has to open it.
fn allow_open_files(how: &Listening) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    // Without it the limit stays what it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    keep_containers_open(containers_of(how, most)?);
    Ok(())
}

/// How many containers may stay open where a process may open so many files.
fn containers_of(how: &Listening, most: u64) -> Result<usize> {
    let Places { addresses, handed } = &how.places;
    let tcp = addresses.iter().map(is_tcp).chain(handed.iter().map(is_tcp_too));
    let (mut kinds, tcp) = ([false; 2], tcp);
    tcp.for_each(|tcp| kinds[usize::from(tcp)] = true);
    let kinds = kinds.into_iter().filter(|&there| there).count() as u64;
    let each = u64::from(how.max_connections) + ServerConfig::default().max_handshakes as u64;
    let machines = how.machines.len() as u64 * MACHINES_MAX as u64 * FILES_OF_A_MACHINE;
    let containers = OPEN_CONTAINERS_MIN as u64 * FILES_OF_A_CONTAINER;
    let wanted = kinds * each + machines + OTHER_FILES + containers;
    if let Some(left) = most.checked_sub(wanted) {
        return Ok(containers_with(left));
    }
    Err(Failure::nothing_done(format!(
        "--max-connections {} may take {wanted} open files, but this process may open {most}",
        how.max_connections
    ))
    .hint("allow more (ulimit -n, or LimitNOFILE= of a service), or ask for fewer connections"))
}

/// Containers to keep open where so many files more than are wanted may be: two thirds of these
/// are theirs.
fn containers_with(left: u64) -> usize {
    let more = left / (FILES_OF_A_CONTAINER + 1);
    OPEN_CONTAINERS_MIN.saturating_add(usize::try_from(more).unwrap_or(usize::MAX))
}

/// Whether clients there must use TLS where it is on.
fn is_tcp(at: &ListenAddr) -> bool {
    matches!(at, ListenAddr::Tcp { .. } | ListenAddr::Vsock { .. })
}

fn is_tcp_too(handed: &Handed) -> bool {
    matches!(handed, Handed::Tcp(_))
}

impl Servers {
    /// Start them. Once this returns, clients can connect.
    pub fn start(exports: &Arc<dyn Exports>, how: &Listening) -> Result<Self> {
        allow_open_files(how)?;
        let tls = how.tls.as_ref().map(|files| TlsMode::Required(files.clone()));
        let Places { addresses, handed } = &how.places;
        let (tcp, unix): (Vec<_>, Vec<_>) = addresses.iter().cloned().partition(is_tcp);
        let (tcp_too, unix_too): (Vec<_>, Vec<_>) = handed.iter().cloned().partition(is_tcp_too);
        let slow = Some(SlowRequests { after: how.slow_request, clock: clock::system() });
        let mut servers = Vec::new();
        for (listeners, handed, tls) in [(tcp, tcp_too, tls), (unix, unix_too, None)] {
            if listeners.is_empty() && handed.is_empty() {
                continue;
            }
            let encrypted = tls.is_some();
            let config = ServerConfig {
                listeners,
                handed,
                tls: tls.unwrap_or_default(),
                allow_insecure: how.allow_insecure,
                read_only: how.read_only,
                socket_group: how.group,
                max_connections: how.max_connections as usize,
                slow: slow.clone(),
                ..ServerConfig::default()
            };
            let server = Server::start(Arc::clone(exports), &config).map_err(refused)?;
            servers.push((server, encrypted));
        }
        let start = |socket| Machines::start(socket, exports, (how, slow.as_ref()));
        let machines = how.machines.iter().map(start).collect::<Result<_>>()?;
        Ok(Self { doors: servers, machines, tls: how.tls.clone() })
    }

    /// The sockets that virtual machines have disks from.
    pub fn machine_sockets(&self) -> impl Iterator<Item = &MachineSocket> {
        self.machines.iter().map(Machines::socket)
    }

    /// Read the certificates again, for connections from now on.
    pub fn renew_tls(&self) -> std::result::Result<(), TlsError> {
        let Some(files) = &self.tls else { return Ok(()) };
        self.doors.iter().try_for_each(|(server, _)| server.handle().renew_tls(files))
    }

    /// Where they listen, and whether clients must use TLS there.
    pub fn addresses(&self) -> impl Iterator<Item = (&ListenAddr, bool)> {
        self.doors
            .iter()
            .flat_map(|(server, tls)| server.addresses().iter().map(|address| (address, *tls)))
    }

    /// Counts the clients that are connected.
    pub fn counter(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let handles: Vec<_> = self.doors.iter().map(|(server, _)| server.handle()).collect();
        let machines: Vec<_> = self.machines.iter().map(Machines::handle).collect();
        move || {
            let clients = handles.iter().map(ServerHandle::connection_count);
            let machines = machines.iter().map(onefold_vhost::Handle::connection_count);
            clients.chain(machines).map(|count| count as u64).sum()
        }
    }

    /// Stop accepting, answer what was received, and close; how many connections hang in a
    /// request that does not return.
    pub fn stop(self, grace: Duration) -> usize {
        std::thread::scope(|scope| {
            let stopping: Vec<_> = self
                .doors
                .into_iter()
                .map(|(server, _)| scope.spawn(move || server.shutdown(grace).still_running))
                .chain(
                    self.machines
                        .into_iter()
                        .map(|machines| scope.spawn(move || machines.stop(grace))),
                )
                .collect();
            stopping.into_iter().map(|stopped| stopped.join().unwrap_or_default()).sum()
        })
    }
}

pub fn refused(error: ServerError) -> Failure {
    match error {
        ServerError::Unsafe(at) => Failure::nothing_done(format!(
            "{at} can be reached from other machines, and without TLS anyone there could read \
             and overwrite every volume"
        ))
        .hint("turn TLS on: --tls-cert FILE --tls-key FILE --tls-ca FILE (docs/tls.md)")
        .hint("or listen on tcp:127.0.0.1:10809 or unix:PATH, and let clients come over SSH")
        .hint("or, where every machine is trusted: --allow-unencrypted-network-access"),
        ServerError::OpenToMachines(_) => Failure::nothing_done(error.to_string())
            .hint("turn TLS on: --tls-cert FILE --tls-key FILE --tls-ca FILE (docs/tls.md)")
            .hint("or give one machine a disk of its own: --vhost-user PATH=EXPORT")
            .hint("or, where every machine is trusted: --allow-unencrypted-network-access"),
        ServerError::OpenToAll(_) => Failure::nothing_done(error.to_string())
            .hint("close it: SocketMode=0660 in its unit, and SocketUser= and SocketGroup="),
        ServerError::Bind { ref source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::nothing_done(error.to_string())
                .hint("another server listens there; choose another place with --listen")
        }
        ServerError::Bind { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::nothing_done(error.to_string())
                .hint("the folder of a socket must exist, and the name of a host be known")
        }
        error => Failure::nothing_done(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &str) -> ListenAddr {
        ListenAddr::Unix(path.into())
    }

    fn tcp(port: u16) -> ListenAddr {
        ListenAddr::Tcp { host: "127.0.0.1".to_owned(), port }
    }

    fn machine(path: &str) -> MachineSocket {
        MachineSocket { path: path.into(), export: String::new() }
    }

    #[test]
    fn files_are_counted_for_each_kind_of_clients_and_for_machines_and_the_rest_is_for_containers()
    {
        let most = |addresses: &[ListenAddr], machines: &[MachineSocket]| {
            let how = Listening {
                places: Places { addresses: addresses.to_vec(), handed: Vec::new() },
                machines: machines.to_vec(),
                tls: None,
                allow_insecure: false,
                read_only: false,
                max_connections: 100,
                group: None,
                slow_request: Duration::ZERO,
            };
            // The fewest with which it serves, and what containers have of some more.
            let fits = |most: &u64| containers_of(&how, *most).is_ok();
            let fewest = (0..10_000).find(fits).unwrap();
            let refused = containers_of(&how, fewest - 1).unwrap_err().message;
            let told = format!("--max-connections 100 may take {fewest} open files, but ");
            assert!(refused.starts_with(&told), "{refused}");
            let kept = [0, 2, 3, 300].map(|more| containers_of(&how, fewest + more).unwrap());
            let some = OPEN_CONTAINERS_MIN;
            assert_eq!(kept, [some, some, some + 1, some + 100]);
            fewest
        };
        let each = 100 + ServerConfig::default().max_handshakes as u64;
        let none = most(&[], &[]);
        assert_eq!(none, OTHER_FILES + OPEN_CONTAINERS_MIN as u64 * 2);
        assert_eq!(most(&[tcp(1)], &[]), none + each);
        assert_eq!(most(&[unix("a"), unix("b")], &[]), none + each);
        let vsock = ListenAddr::Vsock { machine: None, port: 1 };
        assert_eq!(most(&[vsock, unix("b"), tcp(1)], &[]), none + 2 * each);
        let machines = 4 * FILES_OF_A_MACHINE;
        assert_eq!(most(&[], &[machine("m"), machine("n")]), none + 2 * machines);
    }

    #[test]
    fn it_listens_where_that_was_said_and_at_the_usual_place_only_if_nothing_was() {
        let places = |said: &[ListenAddr], machines: &[MachineSocket], private| {
            Places::new((said, machines), Vec::new(), private).unwrap().to_open().to_vec()
        };
        assert_eq!(places(&[], &[], None), [tcp(10809)]);
        assert_eq!(places(&[], &[machine("m")], None), []);
        assert_eq!(places(&[], &[], Some(unix("p"))), [unix("p")]);
        assert_eq!(places(&[unix("a"), tcp(1)], &[], None), [unix("a"), tcp(1)]);
    }
}
