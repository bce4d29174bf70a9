//! Listens at one socket, and serves one device to each monitor that comes.
//! Room: onefold-vhost.
//! Invariants: (1) a client can neither stop the server nor hold up another one; (2) stopping
//! flushes nothing: devices belong to who opened them.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::Source;
use crate::disk::Disk;
use crate::session::Session;

/// How long to leave the listener alone after an accept failed, for lack of descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a monitor may leave an answer unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How a server is set up.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Refuse changes.
    pub read_only: bool,
    /// Most monitors at once; further ones are closed on arrival. Each may take eight files for
    /// memory and three for each queue that it uses.
    pub max_connections: usize,
}

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    wake: UnixStream,
    acceptor: Option<JoinHandle<()>>,
}

/// A view of a running server that any thread may keep.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    source: Arc<dyn Source>,
    config: ServerConfig,
    /// Where it listens, for the log.
    at: String,
    stopping: AtomicBool,
    clients: Mutex<Clients>,
    changed: Condvar,
}

#[derive(Default)]
struct Clients {
    streams: HashMap<u64, Arc<UnixStream>>,
    next: u64,
    refused: u64,
}

impl Server {
    /// Serve who comes to a socket that is listened at. `at` names it in the log.
    ///
    /// # Errors
    /// A thread or a descriptor could not be had.
    pub fn start(
        listener: UnixListener,
        at: &str,
        source: Arc<dyn Source>,
        config: ServerConfig,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            source,
            config,
            at: at.to_owned(),
            stopping: AtomicBool::new(false),
            clients: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = Builder::new()
            .name("vhost-accept".to_owned())
            .spawn(move || accept(&listener, &woken, &accepting))?;
        Ok(Self { shared, wake, acceptor: Some(acceptor) })
    }

    /// A view to keep elsewhere.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Stop accepting, finish the requests that were taken, and close; how many clients are still
    /// in a request after `grace`.
    pub fn shutdown(mut self, grace: Duration) -> usize {
        self.stop();
        self.shared.wait_until_gone(Instant::now() + grace)
    }

    fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The acceptor polls the other end and returns once this one is closed.
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            // Its panic would have been told already.
            let _ = acceptor.join();
        }
        for stream in self.shared.locked().streams.values() {
            // A peer that is gone already has closed it for us.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Handle {
    /// How many clients are connected.
    pub fn connection_count(&self) -> usize {
        self.0.locked().streams.len()
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until_gone(&self, deadline: Instant) -> usize {
        let mut clients = self.locked();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if clients.streams.is_empty() || left.is_zero() {
                return clients.streams.len();
            }
            let waited = self.changed.wait_timeout(clients, left);
            clients = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn enter(&self, stream: UnixStream) -> Option<(u64, Arc<UnixStream>)> {
        let mut clients = self.locked();
        if self.stopping.load(Ordering::SeqCst) {
            return None;
        }
        if clients.streams.len() >= self.config.max_connections {
            clients.refused += 1;
            // Whoever tries again and again must not fill the log.
            if clients.refused.is_power_of_two() {
                let (limit, number) = (self.config.max_connections, clients.refused);
                tracing::warn!(peer = self.at, limit, number, "refused: too many connections");
            }
            return None;
        }
        let (number, stream) = (clients.next, Arc::new(stream));
        clients.next += 1;
        clients.streams.insert(number, Arc::clone(&stream));
        Some((number, stream))
    }

    fn leave(&self, number: u64) {
        self.locked().streams.remove(&number);
        self.changed.notify_all();
    }

    /// Serve one client to its end, and log how it ended.
    fn serve(&self, stream: &UnixStream) {
        let peer = &self.at;
        let device = match self.source.open() {
            Ok(device) => device,
            Err(why) => {
                tracing::warn!(peer, "refused: {why}");
                return;
            }
        };
        let export = self.source.name();
        tracing::info!(peer, export, "serving a virtual machine");
        let disk = Disk::new(device, self.config.read_only, &export, peer.clone());
        let mut session = Session::new(stream, Arc::new(disk));
        let ended = stream
            .set_write_timeout(Some(WRITE_TIMEOUT))
            .map_err(Into::into)
            .and_then(|()| session.run());
        match ended {
            Ok(()) => tracing::info!(peer, "connection ended"),
            Err(_) if self.stopping.load(Ordering::SeqCst) => tracing::info!(peer, "stopped"),
            Err(error) => tracing::warn!(peer, "connection ended: {error}"),
        }
    }
}

/// Accept clients until the other end of `wake` closes.
fn accept(listener: &UnixListener, wake: &UnixStream, shared: &Arc<Shared>) {
    loop {
        let mut polled = [PollFd::new(wake, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "waiting for clients failed; no more are accepted");
                return;
            }
        }
        if !polled[0].revents().is_empty() {
            return;
        }
        if let Err(error) = take_in(listener, shared) {
            tracing::warn!(%error, "accepting a client failed");
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

fn take_in(listener: &UnixListener, shared: &Arc<Shared>) -> io::Result<()> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error)
            if [WouldBlock, Interrupted, ConnectionAborted, ConnectionReset]
                .contains(&error.kind()) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(false)?;
    let Some((number, stream)) = shared.enter(stream) else { return Ok(()) };
    let serving = Arc::clone(shared);
    let begun = Builder::new().name("vhost-client".to_owned()).spawn(move || {
        if catch_unwind(AssertUnwindSafe(|| serving.serve(&stream))).is_err() {
            tracing::error!(peer = serving.at, "connection ended by a panic");
        }
        let _ = stream.shutdown(Shutdown::Both);
        drop(stream);
        serving.leave(number);
    });
    begun.map(drop).inspect_err(|_| shared.leave(number))
}
