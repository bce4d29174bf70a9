//! Answers clients in threads of its own, each for a bounded time and in one of a few places.
//! Room: onefold-control.
//! Invariants: (1) a client that hangs, floods or leaves costs a place for a bounded time and
//! nothing else  (2) stopping waits for answers that are under way, for a bounded time  (3) the
//! socket itself is left as it is: it may be a service manager's, which goes on listening.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::http::{Incoming, Request, Response, receive};
use crate::peer::{Admission, Peer, groups_of, user_of};
use crate::socket::Bound;

/// How connections are encrypted.
pub type TlsSettings = ServerConfig;

/// Who answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer. It may take as long as it says to clients that it may.
    fn handle(&self, request: &Request, peer: Peer) -> Response;
}

/// How much a server puts up with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most clients at once; further ones are told so and closed.
    pub clients: usize,
    /// Longest body of a request, in bytes.
    pub body_bytes: usize,
    /// How long a client may say nothing between two requests.
    pub idle: Duration,
    /// How long a request may take to come.
    pub receive: Duration,
    /// How long a client may take none of an answer.
    pub send: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 32,
            body_bytes: 4 << 20,
            idle: Duration::from_secs(30),
            receive: Duration::from_secs(10),
            send: Duration::from_secs(10),
        }
    }
}

/// How long a client that was refused may go on sending before the connection is cut.
const LINGER: Duration = Duration::from_millis(500);
/// How long stopping waits for answers.
const STOP: Duration = Duration::from_secs(5);

/// A stream of any kind.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    fn peer(&self) -> io::Result<Peer> {
        match self {
            Self::Unix(stream) => user_of(stream),
            Self::Tcp(stream) => stream.peer_addr().map(Peer::Address),
            Self::Tls(stream) => stream.sock.peer_addr().map(Peer::Address),
        }
    }

    /// The further groups of a user.
    fn groups(&self) -> Vec<u32> {
        match self {
            Self::Unix(stream) => groups_of(stream),
            Self::Tcp(_) | Self::Tls(_) => Vec::new(),
        }
    }

    /// The same connection, to end it.
    fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Tls(stream) => Self::Tcp(stream.sock.try_clone()?),
        })
    }

    fn end(&self, how: Shutdown) {
        // It may have ended already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Tls(stream) => stream.sock.shutdown(how),
        };
    }

    fn wait_to_read(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(time)),
            Self::Tls(stream) => stream.sock.set_read_timeout(Some(time)),
        }
    }

    fn wait_to_write(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_write_timeout(Some(time)),
            Self::Tls(stream) => stream.sock.set_write_timeout(Some(time)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buf),
            Self::Tcp(stream) => stream.read(buf),
            Self::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buf),
            Self::Tcp(stream) => stream.write(buf),
            Self::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

enum Listener {
    Unix(UnixListener),
    /// With encryption, if there are settings for it.
    Tcp(TcpListener, Option<RwLock<Arc<TlsSettings>>>),
}

impl Listener {
    fn never_waits(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener, _) => listener.set_nonblocking(true),
        }
    }

    /// Wait for a client, or for `wake` to be closed at its other end; whether that was it.
    fn wait(&self, wake: &UnixStream) -> io::Result<bool> {
        let clients = match self {
            Self::Unix(listener) => PollFd::new(listener, PollFlags::IN),
            Self::Tcp(listener, _) => PollFd::new(listener, PollFlags::IN),
        };
        let mut polled = [PollFd::new(wake, PollFlags::IN), clients];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!polled[0].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        let (listener, tls) = match self {
            Self::Unix(listener) => return Ok(Stream::Unix(listener.accept()?.0)),
            Self::Tcp(listener, tls) => (listener, tls),
        };
        let (stream, _) = listener.accept()?;
        // An answer is one write; nothing is won by waiting for more.
        stream.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Stream::Tcp(stream)) };
        // The handshake is the first read's, in the client's own thread and time.
        let tls = Arc::clone(&tls.read().unwrap_or_else(PoisonError::into_inner));
        let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }
}

/// A server that runs. Dropping it stops it.
pub struct Server {
    crowd: Arc<Crowd>,
    listener: Arc<Listener>,
    acceptor: Option<JoinHandle<()>>,
    /// Closed when the acceptor is to end.
    wake: Option<UnixStream>,
    /// Its file goes when it is no longer listened to.
    _bound: Option<Bound>,
}

/// What all clients share.
struct Crowd {
    clients: Mutex<BTreeMap<u64, Stream>>,
    gone: Condvar,
    stopping: AtomicBool,
    handler: Arc<dyn Handler>,
    admission: Admission,
    limits: Limits,
}

impl Server {
    /// Answer on the socket in a store's folder.
    pub fn on_socket(bound: Bound, handler: Arc<dyn Handler>, limits: Limits) -> io::Result<Self> {
        let listener = Listener::Unix(bound.listener.try_clone()?);
        let admission = bound.admission;
        Self::start(listener, Some(bound), admission, handler, limits)
    }

    /// Answer at an address, whoever asks: see [`crate::guard`]. With `tls` encrypted.
    pub fn on_address(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        handler: Arc<dyn Handler>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = Listener::Tcp(listener, tls.map(RwLock::new));
        Self::start(listener, None, Admission::All, handler, limits)
    }

    /// Encrypt connections like this from now on, where they are.
    pub fn renew_tls(&self, settings: Arc<TlsSettings>) {
        if let Listener::Tcp(_, Some(held)) = &*self.listener {
            *held.write().unwrap_or_else(PoisonError::into_inner) = settings;
        }
    }

    fn start(
        listener: Listener,
        bound: Option<Bound>,
        admission: Admission,
        handler: Arc<dyn Handler>,
        limits: Limits,
    ) -> io::Result<Self> {
        let crowd = Arc::new(Crowd {
            clients: Mutex::default(),
            gone: Condvar::new(),
            stopping: AtomicBool::new(false),
            handler,
            admission,
            limits,
        });
        let listener = Arc::new(listener);
        listener.never_waits()?;
        let (wake, woken) = UnixStream::pair()?;
        let (of_thread, coming) = (Arc::clone(&listener), Arc::clone(&crowd));
        let run = move || accept(&of_thread, &woken, &coming);
        let acceptor = Some(Builder::new().name("control-accept".to_owned()).spawn(run)?);
        Ok(Self { crowd, listener, acceptor, wake: Some(wake), _bound: bound })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crowd.stopping.store(true, Ordering::Release);
        self.wake.take();
        // Should it have failed, it has said so.
        let _ = self.acceptor.take().map(JoinHandle::join);
        let deadline = Instant::now() + STOP;
        let mut clients = self.crowd.clients();
        for client in clients.values() {
            client.end(Shutdown::Read);
        }
        while !clients.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.crowd.gone.wait_timeout(clients, left);
            clients = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        for client in clients.values() {
            client.end(Shutdown::Both);
        }
    }
}

/// How long to leave the listener alone after a failure: without descriptors or memory the next
/// attempt would fail at once, too.
const PAUSE: Duration = Duration::from_millis(10);

fn accept(listener: &Listener, wake: &UnixStream, crowd: &Arc<Crowd>) {
    for number in 0.. {
        let accepted = match listener.wait(wake) {
            Ok(true) => return,
            Ok(false) => listener.accept(),
            Err(error) => Err(error),
        };
        // The client may be gone, or somebody else who has the socket took it.
        if let Err(error) = accepted.and_then(|stream| begin(number, stream, crowd)) {
            tracing::debug!("a client of the control socket: {error}");
            std::thread::sleep(PAUSE);
        }
    }
}

fn begin(number: u64, mut stream: Stream, crowd: &Arc<Crowd>) -> io::Result<()> {
    stream.wait_to_write(crowd.limits.send)?;
    let full = {
        let mut clients = crowd.clients();
        let full = clients.len() >= crowd.limits.clients;
        if !full {
            clients.insert(number, stream.again()?);
        }
        full
    };
    if full {
        if matches!(stream, Stream::Tls(_)) {
            // Nothing can be said before a handshake, which nobody waits for here.
            return Ok(());
        }
        // It fits any socket's buffer: nobody waits for the client.
        let answer = Response::error(503, "all places are taken, try again");
        return answer.with("Retry-After", "1").send(&mut stream, false).map(|_| ());
    }
    let leaving = Leaving(Arc::clone(crowd), number);
    let run = move || {
        let Leaving(crowd, _) = &leaving;
        if let Err(error) = crowd.serve(stream) {
            tracing::debug!("a client of the control socket: {error}");
        }
    };
    Builder::new().name("control-client".to_owned()).spawn(run).map(|_| ())
}

/// A client's place is free again, however its thread ends, and if there is none.
struct Leaving(Arc<Crowd>, u64);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.clients().remove(&self.1);
        self.0.gone.notify_all();
    }
}

impl Crowd {
    /// Whether more than three quarters of the places are taken.
    fn is_crowded(&self) -> bool {
        self.clients().len() > self.limits.clients / 4 * 3
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Stream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: Stream) -> io::Result<()> {
        let (peer, groups) = (stream.peer()?, stream.groups());
        let mut left = Vec::new();
        loop {
            let mut deadline = (!left.is_empty()).then(|| Instant::now() + self.limits.receive);
            let mut more = |piece: &mut [u8]| {
                let now = Instant::now();
                let wait =
                    deadline.map_or(self.limits.idle, |end| end.saturating_duration_since(now));
                if wait.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.wait_to_read(wait)?;
                let count = stream.read(piece)?;
                deadline.get_or_insert_with(|| Instant::now() + self.limits.receive);
                Ok(count)
            };
            let request = match receive(&mut left, self.limits.body_bytes, &mut more)? {
                Incoming::Gone => return Ok(()),
                Incoming::Refused(refusal) => {
                    let answer = Response::error(refusal.status, &refusal.why);
                    answer.send(&mut stream, false)?;
                    return linger(&mut stream, LINGER);
                }
                Incoming::Request(request) => request,
            };
            let response = if self.admission.admits(peer, &groups) {
                self.handler.handle(&request, peer)
            } else {
                Response::error(403, "this server listens to its owner, to root and to its group")
            };
            // It may have taken long: what is true now is said. Where places run short, each client
            // has one for a request: commands get through beside those who ask without end.
            let keeps =
                request.keeps && !self.stopping.load(Ordering::Acquire) && !self.is_crowded();
            if !response.send(&mut stream, keeps)? {
                return Ok(());
            }
        }
    }
}

/// Let a client read why it is refused: a connection that is closed on bytes that nobody took is
/// reset, and the answer is lost with it.
fn linger(stream: &mut Stream, time: Duration) -> io::Result<()> {
    stream.end(Shutdown::Write);
    let deadline = Instant::now() + time;
    let mut waste = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.wait_to_read(left)?;
        if stream.read(&mut waste)? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
