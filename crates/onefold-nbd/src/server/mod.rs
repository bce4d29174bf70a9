//! One server for any set of block devices: sockets, threads, limits.
//! Room: onefold-nbd.
//! Invariants: (1) a client can neither stop the server nor hold up another one: each has its own
//! threads and bounded memory; (2) stopping flushes nothing: devices belong to who opened them.

mod accept;
mod certificate;
mod channel;
mod connection;
mod cost;
mod execute;
mod extents;
mod helpers;
mod listen;
#[cfg(test)]
mod log_lines;
mod newcomers;
mod processors;
mod receive;
mod replies;
mod slow;
mod socket;
mod tls;
mod transmission;

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onefold_block::Group;
use thiserror::Error;

use crate::export::Exports;
use accept::Clients;
use connection::Terms;
pub use listen::{Handed, ListenAddr, SocketFile, listener_is_safe, private_socket};
use processors::Processors;
pub use slow::{SlowCall, SlowLog, SlowRequests, Whose};
pub use tls::{TlsError, TlsFiles, TlsMode};
pub use transmission::CONNECTION_BYTES_MAX;

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Not an address to listen on.
    #[error("'{0}' is no address to listen on: write unix:PATH, tcp:HOST:PORT or vsock:PORT")]
    Address(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address as it was given.
        address: String,
        /// The system's own error.
        source: io::Error,
    },
    /// Anyone who reaches this address could read and change every export.
    #[error(
        "refusing to listen on {0}, which other machines may reach, without TLS: turn TLS on, \
         listen on 127.0.0.1 or a Unix socket, or allow insecure listeners explicitly"
    )]
    Unsafe(SocketAddr),
    /// Every virtual machine of this one could read and change every export.
    #[error("refusing to listen on {0}, which virtual machines may reach, without TLS")]
    OpenToMachines(String),
    /// A socket that was handed over is none that a server can use.
    #[error("a socket that was handed over cannot be listened on: {source}")]
    Handed {
        /// The system's own error, or what is wrong with it.
        source: io::Error,
    },
    /// A Unix socket that was handed over lets everybody in.
    #[error("every user of this machine could connect to {}", .0.display())]
    OpenToAll(PathBuf),
    /// No address was given.
    #[error("no address to listen on was given")]
    NoListeners,
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// A thread or a descriptor could not be had.
    #[error("starting the server: {0}")]
    Start(#[source] io::Error),
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen; at least one, unless something is handed over.
    pub listeners: Vec<ListenAddr>,
    /// What is listened on already.
    pub handed: Vec<Handed>,
    /// Whether clients must use TLS, on every listener.
    pub tls: TlsMode,
    /// Let machines in without TLS on listeners that are not loopback.
    pub allow_insecure: bool,
    /// The group that may use the Unix sockets, besides the owner.
    pub socket_group: Option<Group>,
    /// Refuse changes on every export.
    pub read_only: bool,
    /// Most clients served at once; further ones are closed on arrival.
    pub max_connections: usize,
    /// Most clients in the handshake at once, besides those. Where more arrive, the oldest one of
    /// those who share an address (a user, on a Unix socket) with the most others is closed.
    pub max_handshakes: usize,
    /// Time for a client to get through the handshake, TLS included.
    pub handshake_timeout: Duration,
    /// Time for a client to take at least one byte of a reply that does not fit the socket. A
    /// suspended virtual machine looks the same as a stalled client: mind its longest pause.
    pub write_timeout: Duration,
    /// Which requests the log is told of; none if nothing is said.
    pub slow: Option<SlowRequests>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            handed: Vec::new(),
            tls: TlsMode::Off,
            allow_insecure: false,
            socket_group: None,
            read_only: false,
            max_connections: 128,
            max_handshakes: 64,
            handshake_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_mins(2),
            slow: None,
        }
    }
}

/// A running server. Dropping it stops it without waiting for requests in flight.
pub struct Server {
    handle: ServerHandle,
    wake: UnixStream,
    acceptor: Option<JoinHandle<()>>,
}

/// A view of a running server that any thread may keep.
#[derive(Clone)]
pub struct ServerHandle {
    addresses: Arc<[ListenAddr]>,
    clients: Arc<Clients>,
}

/// How stopping went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Connections that did not end by themselves in time and were closed.
    pub closed_by_force: usize,
    /// Connections that are still in a device call that does not return.
    pub still_running: usize,
}

impl Server {
    /// Listen and serve. Once this returns, clients can connect.
    pub fn start(exports: Arc<dyn Exports>, config: &ServerConfig) -> Result<Self, ServerError> {
        if config.listeners.is_empty() && config.handed.is_empty() {
            return Err(ServerError::NoListeners);
        }
        let tls = config.tls.load()?;
        let rules = listen::Rules {
            tls: tls.is_some(),
            insecure: config.allow_insecure,
            group: config.socket_group,
        };
        let bind = |at| listen::Listener::bind(at, rules);
        let take_over = |handed| listen::Listener::take_over(handed, rules);
        let listeners = config.handed.iter().map(take_over);
        let listeners = listeners.chain(config.listeners.iter().map(bind));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let addresses: Result<Vec<_>, _> =
            listeners.iter().map(listen::Listener::address).collect();
        let addresses = addresses.map_err(ServerError::Start)?.into();
        let (wake, woken) = UnixStream::pair().map_err(ServerError::Start)?;
        let terms = Terms {
            exports,
            tls: tls.map(RwLock::new),
            read_only: config.read_only,
            handshake_timeout: config.handshake_timeout,
            write_timeout: config.write_timeout,
            stopping: AtomicBool::new(false),
            processors: Processors::of_machine(),
            slow: SlowLog::new(config.slow.as_ref()),
        };
        let clients = Arc::new(Clients::new(terms, config.max_connections, config.max_handshakes));
        let accepting = Arc::clone(&clients);
        let acceptor = std::thread::Builder::new()
            .name("nbd-accept".to_owned())
            .spawn(move || accept::run(&listeners, &woken, &accepting))
            .map_err(ServerError::Start)?;
        let handle = ServerHandle { addresses, clients };
        Ok(Self { handle, wake, acceptor: Some(acceptor) })
    }

    /// A view to keep elsewhere.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Where this server listens, with ports that the system picked.
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.handle.addresses
    }

    /// How many clients are connected.
    pub fn connection_count(&self) -> usize {
        self.handle.connection_count()
    }

    /// Stop: accept and receive nothing more, let what was received finish and be answered for
    /// up to `grace`, then close what is left. Flushes nothing.
    pub fn shutdown(mut self, grace: Duration) -> ShutdownReport {
        self.stop_accepting();
        let clients = &self.handle.clients;
        clients.stop();
        let closed_by_force = clients.wait_until_gone(Instant::now() + grace);
        clients.close_all(Shutdown::Both);
        let still_running = clients.wait_until_gone(Instant::now() + accept::CLOSE_GRACE);
        ShutdownReport { closed_by_force, still_running }
    }

    fn stop_accepting(&mut self) {
        // The acceptor polls the other end and returns once this one is closed.
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            // Its panic would have been told already, and listeners are closed either way.
            let _ = acceptor.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_accepting();
        self.handle.clients.stop();
        self.handle.clients.close_all(Shutdown::Both);
    }
}

impl ServerHandle {
    /// Where the server listens, with ports that the system picked.
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.addresses
    }

    /// How many clients are connected.
    pub fn connection_count(&self) -> usize {
        self.clients.count()
    }

    /// Read certificates, key and authority again, for connections from now on. Where they cannot
    /// be used, those before go on being used. Without TLS there is nothing to do.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn renew_tls(&self, files: &TlsFiles) -> Result<(), TlsError> {
        let Some(held) = &self.clients.terms.tls else { return Ok(()) };
        let renewed = files.load(true)?;
        *held.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(())
    }
}
