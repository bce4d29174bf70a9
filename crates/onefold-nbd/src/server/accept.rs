//! Takes clients in: one thread for all listeners, one per client.
//! Room: onefold-nbd.
//! Invariants: (1) no more clients than the limit are served; the rest are closed at once;
//! (2) a client's thread is counted until it has ended, whatever it ended by.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{self, Terms};
use super::listen::Listener;
use super::socket::Socket;

/// How long to leave a listener alone after an accept failed, for lack of descriptors say.
const ACCEPT_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The clients being served.
pub(super) struct Clients {
    pub terms: Terms,
    limit: usize,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    sockets: HashMap<u64, Arc<Socket>>,
    next: u64,
}

impl Clients {
    pub fn new(terms: Terms, limit: usize) -> Self {
        Self { terms, limit, table: Mutex::default(), changed: Condvar::new() }
    }

    /// How many clients are connected.
    pub fn count(&self) -> usize {
        self.locked().sockets.len()
    }

    /// Receive nothing more from anyone: what was received is answered, then connections end.
    pub fn stop(&self) {
        self.terms.stopping.store(true, Ordering::SeqCst);
        self.close_all(Shutdown::Read);
    }

    /// Wait until nobody is connected, at most until `deadline`; how many then still are.
    pub fn wait_until_gone(&self, deadline: Instant) -> usize {
        let mut table = self.locked();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if table.sockets.is_empty() || left.is_zero() {
                return table.sockets.len();
            }
            let waited = self.changed.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Close every connection's socket in one or both directions.
    pub fn close_all(&self, how: Shutdown) {
        for socket in self.locked().sockets.values() {
            socket.shutdown(how);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, socket: &Arc<Socket>) -> Option<u64> {
        let mut table = self.locked();
        if table.sockets.len() >= self.limit || self.terms.stopping.load(Ordering::SeqCst) {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.sockets.insert(number, Arc::clone(socket));
        Some(number)
    }

    fn leave(&self, number: u64) {
        self.locked().sockets.remove(&number);
        self.changed.notify_all();
    }
}

/// Accept clients until something arrives on `wake` or its other end closes.
pub(super) fn run(listeners: &[Listener], wake: &UnixStream, clients: &Arc<Clients>) {
    let mut pausing = false;
    loop {
        let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
        if !pausing {
            polled.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let limit = pausing.then_some(&ACCEPT_PAUSE);
        pausing = false;
        match poll(&mut polled, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "waiting for clients failed; no more are accepted");
                return;
            }
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        if ready.next() == Some(true) {
            return;
        }
        for (listener, ready) in listeners.iter().zip(ready) {
            if ready && let Err(error) = take_in(listener, clients) {
                tracing::warn!(%error, "accepting a client failed");
                pausing = true;
            }
        }
    }
}

fn take_in(listener: &Listener, clients: &Arc<Clients>) -> io::Result<()> {
    let (socket, peer) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if is_passing(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let Some(number) = clients.enter(&socket) else {
        tracing::warn!(peer, limit = clients.limit, "refused: too many connections");
        return Ok(());
    };
    let served = Arc::clone(clients);
    let begun = std::thread::Builder::new().name("nbd-client".to_owned()).spawn(move || {
        let serve = || connection::serve(&socket, &peer, &served.terms);
        if catch_unwind(AssertUnwindSafe(serve)).is_err() {
            tracing::error!(peer, "connection ended by a panic");
            socket.shutdown(Shutdown::Both);
        }
        drop(socket);
        served.leave(number);
    });
    begun.map(drop).inspect_err(|_| clients.leave(number))
}

/// Errors of one client that was gone before it was accepted.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Longest time a connection gets to notice that its socket was closed under it.
pub(super) const CLOSE_GRACE: Duration = Duration::from_secs(2);
