//! Where a server listens, and whether that is safe.
//! Room: onefold-nbd.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use nix::sys::socket::{self, VsockAddr};
use onefold_block::Group;
use rustix::fs::{self, Mode};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::Gid;

use super::ServerError;
use super::newcomers::Origin;
use super::socket::Socket;

/// Clients that may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;
/// Who may connect to a Unix socket: its owner, or its group as well.
const OWNER_MODE: Mode = Mode::from_raw_mode(0o600);
const GROUP_MODE: Mode = Mode::from_raw_mode(0o660);
/// Others connect by the right to write.
const OTHERS: u32 = 0o002;

/// A machine's number that stands for all of them, and that of this one for itself.
const ANY_MACHINE: u32 = u32::MAX;
const THIS_MACHINE: u32 = 1;
/// The number of the machine that a virtual one runs on, for that.
const HOST: u32 = 2;

/// A place to listen, as people write it: `unix:PATH`, `tcp:HOST:PORT` or `vsock:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// A TCP port; port 0 lets the system pick one.
    Tcp {
        /// A name or an address; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A port for virtual machines (`AF_VSOCK`).
    Vsock {
        /// The number (CID) under which this machine is reached; any if none is said.
        machine: Option<u32>,
        /// The port.
        port: u32,
    },
}

impl ListenAddr {
    /// The URI by which clients reach `export` here; `tls` says whether they must use TLS.
    pub fn uri(&self, export: &str, tls: bool) -> String {
        let scheme = if tls { "nbds" } else { "nbd" };
        let export = percent_encoded(export.as_bytes());
        match self {
            Self::Unix(path) => {
                let path = percent_encoded(path.as_os_str().as_encoded_bytes());
                format!("{scheme}+unix:///{export}?socket={path}")
            }
            Self::Tcp { host, port } if host.contains(':') => {
                format!("{scheme}://[{host}]:{port}/{export}")
            }
            Self::Tcp { host, port } => format!("{scheme}://{host}:{port}/{export}"),
            Self::Vsock { machine, port } => {
                format!("{scheme}+vsock://{}:{port}/{export}", machine.unwrap_or(HOST))
            }
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Self::Vsock { machine: Some(machine), port } => write!(f, "vsock:{machine}:{port}"),
            Self::Vsock { machine: None, port } => write!(f, "vsock:{port}"),
        }
    }
}

impl FromStr for ListenAddr {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let malformed = || ServerError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(malformed()),
                path => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        if let Some(rest) = text.strip_prefix("vsock:") {
            let number = |text: &str| text.parse().ok().filter(|&number| number != ANY_MACHINE);
            let (machine, port) = match rest.split_once(':') {
                Some((machine, port)) => (Some(number(machine).ok_or_else(malformed)?), port),
                None => (None, rest),
            };
            return Ok(Self::Vsock { machine, port: number(port).ok_or_else(malformed)? });
        }
        let rest = text.strip_prefix("tcp:").ok_or_else(malformed)?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(malformed)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let ambiguous = bare.is_none() && host.contains(':');
        if host.is_empty() || ambiguous {
            return Err(malformed());
        }
        let port = port.parse().map_err(|_| malformed())?;
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

/// Everything but letters, digits and what may stand in any part of a URI as it is.
fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(byte.into());
        } else {
            text.push('%');
            text.extend(
                [byte >> 4, byte & 15]
                    .map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
            );
        }
    }
    text
}

/// Whether a server may listen on `address`: only this machine reaches it, or clients must prove
/// who they are by TLS certificate, or a person said in so many words that it shall be open.
pub fn listener_is_safe(address: &SocketAddr, tls: bool, insecure: bool) -> bool {
    tls || insecure || address.ip().to_canonical().is_loopback()
}

/// What a listener asks of its address and of its clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// As in [`listener_is_safe`].
    pub tls: bool,
    /// As in [`listener_is_safe`].
    pub insecure: bool,
    /// The group that may use a Unix socket, besides the owner.
    pub group: Option<Group>,
}

/// A client that has just connected.
pub(super) struct Arrival {
    pub socket: Arc<Socket>,
    /// Its name for the log.
    pub peer: String,
    pub origin: Origin,
}

/// A socket that somebody else listens with and hands over, such as a service manager. Whoever it
/// belongs to goes on listening when the server ends.
#[derive(Clone, Debug)]
pub enum Handed {
    /// A Unix socket.
    Unix(Arc<UnixListener>),
    /// A TCP port.
    Tcp(Arc<TcpListener>),
}

impl Handed {
    /// Where it listens.
    ///
    /// # Errors
    /// A Unix socket without a path: nothing keeps any user of this machine from it.
    pub fn address(&self) -> io::Result<ListenAddr> {
        match self {
            Self::Unix(listener) => {
                let at = listener.local_addr()?;
                let path = at.as_pathname().ok_or_else(|| {
                    let why = "a Unix socket without a path is open to everybody on this machine";
                    io::Error::new(io::ErrorKind::PermissionDenied, why)
                })?;
                Ok(ListenAddr::Unix(path.to_owned()))
            }
            Self::Tcp(listener) => tcp_address(listener),
        }
    }
}

/// A bound listener.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
    Vsock(OwnedFd),
}

/// A Unix socket's file. Dropping it removes it, unless it was handed over, or another one is in
/// its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// By which it is known again, if it goes with the listener.
    made: Option<Made>,
}

/// Device and inode of a file, and when it was made: the inode of one that is gone may be used
/// again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made([u64; 2], [i64; 2]);

impl Made {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self([found.dev(), found.ino()], [found.mtime(), found.mtime_nsec()]))
    }
}

impl Listener {
    /// Bind.
    pub fn bind(address: &ListenAddr, rules: Rules) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Bind { address: address.to_string(), source };
        let listener = match address {
            ListenAddr::Unix(path) => {
                let (listener, file) = private_socket(path, rules.group).map_err(failed)?;
                Self::Unix(listener, file)
            }
            &ListenAddr::Vsock { machine, port } => {
                let closed = rules.tls || rules.insecure || machine == Some(THIS_MACHINE);
                if !closed {
                    return Err(ServerError::OpenToMachines(address.to_string()));
                }
                let machine = machine.unwrap_or(ANY_MACHINE);
                Self::Vsock(bind_vsock(VsockAddr::new(machine, port)).map_err(failed)?)
            }
            ListenAddr::Tcp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
                let found: Vec<SocketAddr> = found.collect();
                let open = |at: &&SocketAddr| !listener_is_safe(at, rules.tls, rules.insecure);
                if let Some(open) = found.iter().find(open) {
                    return Err(ServerError::Unsafe(*open));
                }
                Self::Tcp(TcpListener::bind(found.as_slice()).map_err(failed)?)
            }
        };
        listener.never_waits().map_err(failed)?;
        Ok(listener)
    }

    /// Take over what somebody else listens with. Others must not reach it any more than what is
    /// bound here.
    pub fn take_over(handed: &Handed, rules: Rules) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Handed { source };
        let at = handed.address().map_err(failed)?;
        let failed = |source| ServerError::Bind { address: at.to_string(), source };
        let listener = match (handed, &at) {
            (Handed::Unix(listener), ListenAddr::Unix(path)) => {
                if fs::stat(path).map_err(|error| failed(error.into()))?.st_mode & OTHERS != 0 {
                    return Err(ServerError::OpenToAll(path.clone()));
                }
                let file = SocketFile { path: path.clone(), made: None };
                Self::Unix(listener.try_clone().map_err(failed)?, file)
            }
            (Handed::Tcp(listener), _) => {
                let found = listener.local_addr().map_err(failed)?;
                if !listener_is_safe(&found, rules.tls, rules.insecure) {
                    return Err(ServerError::Unsafe(found));
                }
                Self::Tcp(listener.try_clone().map_err(failed)?)
            }
            (Handed::Unix(_), _) => unreachable!("a Unix socket has a Unix socket's address"),
        };
        listener.never_waits().map_err(failed)?;
        Ok(listener)
    }

    fn never_waits(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener, _) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
            // Made so.
            Self::Vsock(_) => Ok(()),
        }
    }

    /// Where this listens, with the port the system picked.
    pub fn address(&self) -> io::Result<ListenAddr> {
        Ok(match self {
            Self::Unix(_, file) => ListenAddr::Unix(file.path.clone()),
            Self::Tcp(listener) => tcp_address(listener)?,
            Self::Vsock(listener) => {
                let at: VsockAddr = socket::getsockname(listener.as_raw_fd())?;
                let machine = (at.cid() != ANY_MACHINE).then_some(at.cid());
                ListenAddr::Vsock { machine, port: at.port() }
            }
        })
    }

    /// The next client, if one is waiting.
    pub fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Unix(listener, file) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let user = net::sockopt::socket_peercred(&stream);
                let origin = user.map_or(Origin::Unknown, |user| Origin::User(user.uid.as_raw()));
                let peer = format!("unix:{}", file.path.display());
                Ok(Arrival { socket: Arc::new(Socket::Unix(stream)), peer, origin })
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let origin = Origin::of_address(peer.ip());
                let peer = format!("tcp:{peer}");
                Ok(Arrival { socket: Arc::new(Socket::Tcp(stream)), peer, origin })
            }
            Self::Vsock(listener) => {
                let accepted = net::accept_with(listener, SocketFlags::CLOEXEC)?;
                let from: VsockAddr = socket::getpeername(accepted.as_raw_fd())?;
                let peer = format!("vsock:{}:{}", from.cid(), from.port());
                let socket = Arc::new(Socket::Vsock(UnixStream::from(accepted)));
                Ok(Arrival { socket, peer, origin: Origin::Machine(from.cid()) })
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
            Self::Vsock(listener) => listener.as_fd(),
        }
    }
}

fn tcp_address(listener: &TcpListener) -> io::Result<ListenAddr> {
    let at = listener.local_addr()?;
    Ok(ListenAddr::Tcp { host: at.ip().to_string(), port: at.port() })
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.made.is_some() && self.made == Made::of(&self.path) {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A Unix socket that only its owner can connect to, and `group` if one is named, in place of one
/// that a server which is no more left behind. Nothing else is replaced.
///
/// # Errors
/// Something else is there, or a server listens there; or the system's own.
pub fn private_socket(path: &Path, group: Option<Group>) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(path)?;
    let listener = bind_private(path, group)?;
    Ok((listener, SocketFile { path: path.to_owned(), made: Made::of(path) }))
}

fn bind_vsock(at: VsockAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = net::socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?;
    socket::bind(made.as_raw_fd(), &at)?;
    net::listen(&made, BACKLOG)?;
    Ok(made)
}

/// A Unix socket that only its owner can connect to, and `group` if one is named. It is made so:
/// there is no moment at which others could.
fn bind_private(path: &Path, group: Option<Group>) -> io::Result<UnixListener> {
    // A program that is started here must not keep it open: it would look as if somebody listened.
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // The file gets the mode that the socket has when it is bound, less the umask.
    fs::fchmod(&socket, OWNER_MODE)?;
    net::bind(&socket, &net::SocketAddrUnix::new(path)?)?;
    let made = || {
        if let Some(Group(group)) = group {
            fs::chown(path, None, Some(Gid::from_raw(group)))?;
        }
        fs::chmod(path, if group.is_some() { GROUP_MODE } else { OWNER_MODE })?;
        net::listen(&socket, BACKLOG)
    };
    if let Err(error) = made() {
        let _ = std::fs::remove_file(path);
        return Err(error.into());
    }
    Ok(UnixListener::from(socket))
}

/// Remove a socket that a server which is no more left behind. Nothing else is removed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path exists and is no socket",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn no_program_that_is_started_keeps_a_socket_open() {
        let folder = tempfile::tempdir().unwrap();
        let listener = bind_private(&folder.path().join("socket"), None).unwrap();
        let flags = rustix::io::fcntl_getfd(&listener).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn a_socket_goes_with_its_server_and_another_one_in_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(private_socket(&path, None).unwrap());
        assert!(!path.exists());
        // The first server listens no more when the next one comes, and is not gone yet.
        let (listener, first) = private_socket(&path, None).unwrap();
        drop(listener);
        let second = loop {
            // Times of files are not exact.
            let second = private_socket(&path, None).unwrap();
            if second.1.made != first.made {
                break second;
            }
        };
        drop(first);
        assert!(UnixStream::connect(&path).is_ok(), "the next one is reached");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn addresses_read_and_print_as_people_write_them() {
        for text in [
            "unix:/run/a b.sock",
            "tcp:localhost:10809",
            "tcp:[::1]:0",
            "vsock:10809",
            "vsock:1:4294967294",
        ] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "tcp:", "tcp:1", "tcp::1", "tcp:::1:5", "tcp:a:70000", "a:1"] {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
        for text in ["vsock:", "vsock:a", "vsock:1:", "vsock::1", "vsock:1:2:3", "vsock:4294967295"]
        {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
    }

    #[test]
    fn uris_are_what_clients_read() {
        let unix = ListenAddr::Unix("/run/a b.sock".into());
        assert_eq!(unix.uri("", false), "nbd+unix:///?socket=/run/a%20b.sock");
        let tcp: ListenAddr = "tcp:[::1]:10809".parse().unwrap();
        assert_eq!(tcp.uri("my disk", true), "nbds://[::1]:10809/my%20disk");
        let vsock: ListenAddr = "vsock:10809".parse().unwrap();
        assert_eq!(vsock.uri("main", false), "nbd+vsock://2:10809/main", "as a guest reaches it");
        let vsock: ListenAddr = "vsock:1:7".parse().unwrap();
        assert_eq!(vsock.uri("main", true), "nbds+vsock://1:7/main");
    }

    #[test]
    fn virtual_machines_are_other_machines() {
        let rules = Rules { tls: false, insecure: false, group: None };
        for text in ["vsock:10809", "vsock:2:10809", "vsock:3:1"] {
            let bound = Listener::bind(&text.parse().unwrap(), rules);
            assert!(matches!(bound, Err(ServerError::OpenToMachines(_))), "{text}");
        }
        // What is for this machine alone is refused, if at all, by the system.
        let bound = Listener::bind(&"vsock:1:10809".parse().unwrap(), rules);
        assert!(!matches!(bound, Err(ServerError::OpenToMachines(_))));
    }

    #[test]
    fn only_loopback_is_safe_without_tls() {
        for (address, alone) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.168.1.7:1", false),
            ("[fe80::1]:1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(listener_is_safe(&address, false, false), alone, "{address}");
            assert!(listener_is_safe(&address, true, false));
            assert!(listener_is_safe(&address, false, true));
        }
    }
}
