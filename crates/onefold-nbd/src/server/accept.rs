//! Takes clients in: one thread for all listeners, one per client.
//! Room: onefold-nbd.
//! Invariants: (1) no more clients than the limit are served, and no client that is served is ever
//! closed for another; (2) the handshake has places of its own (`newcomers.rs`); (3) a client's
//! thread is counted until it has ended, whatever it ended by.

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
use super::listen::{Arrival, Listener};
use super::newcomers::{Attention, Newcomers};
use super::socket::Socket;

/// How long to leave a listener alone after an accept failed, for lack of descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long after its time a client in the handshake is closed from here: its own thread does it
/// first, unless it hangs in sending to a client that takes nothing.
const LATE: Duration = Duration::from_millis(100);

/// The clients being served.
pub(super) struct Clients {
    pub terms: Terms,
    limit: usize,
    table: Mutex<Table>,
    changed: Condvar,
}

struct Table {
    newcomers: Newcomers,
    served: HashMap<u64, Arc<Socket>>,
    next: u64,
    refused: u64,
}

impl Table {
    fn len(&self) -> usize {
        self.newcomers.len() + self.served.len()
    }
}

impl Clients {
    /// `limit` clients are served at once, besides `handshakes` that are not that far yet.
    pub fn new(terms: Terms, limit: usize, handshakes: usize) -> Self {
        let newcomers = Newcomers::new(handshakes, terms.handshake_timeout + LATE);
        let table = Table { newcomers, served: HashMap::new(), next: 0, refused: 0 };
        Self { terms, limit, table: Mutex::new(table), changed: Condvar::new() }
    }

    /// How many clients are connected.
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// The handshake with a client is over; whether it can be served.
    pub fn settle(&self, number: u64) -> bool {
        let mut table = self.locked();
        let Some(socket) = table.newcomers.leave(number) else { return false };
        let room = table.served.len() < self.limit;
        // Without room it stays counted until its thread has ended.
        table.served.insert(number, socket);
        room
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
            if table.len() == 0 || left.is_zero() {
                return table.len();
            }
            let waited = self.changed.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Close every connection's socket in one or both directions.
    pub fn close_all(&self, how: Shutdown) {
        let table = self.locked();
        for socket in table.newcomers.sockets().chain(table.served.values()) {
            socket.shutdown(how);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend(&self) -> Attention {
        self.locked().newcomers.attend(Instant::now())
    }

    fn enter(&self, arrival: &Arrival) -> Option<u64> {
        let mut table = self.locked();
        if self.terms.stopping.load(Ordering::SeqCst) {
            return None;
        }
        if table.served.len() >= self.limit {
            table.refused += 1;
            // Whoever tries again and again must not fill the log.
            if table.refused.is_power_of_two() {
                let (peer, number) = (&arrival.peer, table.refused);
                tracing::warn!(peer, limit = self.limit, number, "refused: too many connections");
            }
            return None;
        }
        let number = table.next;
        table.next += 1;
        let socket = Arc::clone(&arrival.socket);
        table.newcomers.enter(number, socket, arrival.origin, Instant::now());
        Some(number)
    }

    fn leave(&self, number: u64) {
        let mut table = self.locked();
        let _ = table.newcomers.leave(number);
        table.served.remove(&number);
        drop(table);
        self.changed.notify_all();
    }
}

/// Accept clients until something arrives on `wake` or its other end closes.
pub(super) fn run(listeners: &[Listener], wake: &UnixStream, clients: &Arc<Clients>) {
    let mut pausing = false;
    loop {
        let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
        let Attention { open, until } = clients.attend();
        if open && !pausing {
            polled.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let pause = pausing.then_some(ACCEPT_PAUSE);
        let until = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = pause.into_iter().chain(until).min().map(timespec);
        pausing = false;
        match poll(&mut polled, limit.as_ref()) {
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
    let arrival = match listener.accept() {
        Ok(arrival) => arrival,
        Err(error) if is_passing(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let Some(number) = clients.enter(&arrival) else { return Ok(()) };
    let Arrival { socket, peer, .. } = arrival;
    let served = Arc::clone(clients);
    let begun = std::thread::Builder::new().name("nbd-client".to_owned()).spawn(move || {
        let serve = || connection::serve(&socket, &peer, &served.terms, &|| served.settle(number));
        if catch_unwind(AssertUnwindSafe(serve)).is_err() {
            tracing::error!(peer, "connection ended by a panic");
            socket.shutdown(Shutdown::Both);
        }
        drop(socket);
        served.leave(number);
    });
    begun.map(drop).inspect_err(|_| clients.leave(number))
}

/// At least a millisecond, so that what is waited for is over when this returns.
fn timespec(time: Duration) -> Timespec {
    let time = time.max(Duration::from_millis(1));
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

/// Errors of one client that was gone before it was accepted.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Longest time a connection gets to notice that its socket was closed under it.
pub(super) const CLOSE_GRACE: Duration = Duration::from_secs(2);
