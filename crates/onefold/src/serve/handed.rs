//! Sockets that the service manager listens with and hands over: `LISTEN_FDS`, socket activation.
//! Room: onefold.
//! Invariant: what is handed over is used, or refused by its number; nothing is left aside unsaid.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;

use listenfd::ListenFd;
use onefold_nbd::Handed;
use rustix::net::sockopt::socket_acceptconn;

use crate::failure::{Failure, Result};

/// What a socket of this name is for; all others are for NBD (`FileDescriptorName=`).
const METRICS: &str = "metrics";
/// More than any unit has.
const SOCKETS_MAX: usize = 64;

/// What was handed over.
#[derive(Default)]
pub struct Sockets {
    /// For NBD.
    pub doors: Vec<Handed>,
    /// For metrics and the page.
    pub metrics: Option<TcpListener>,
}

impl Sockets {
    /// Take what the environment tells of, once.
    pub fn take() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let process = variable("LISTEN_PID").and_then(|text| text.parse().ok());
        let Some(count) = variable("LISTEN_FDS") else { return Ok(Self::default()) };
        if process != Some(std::process::id()) {
            // They were another process's, as of a shell in between.
            return Ok(Self::default());
        }
        let count: usize = count.parse().unwrap_or_default();
        if count > SOCKETS_MAX {
            let said = format!("{count} sockets were handed over, more than {SOCKETS_MAX}");
            return Err(Failure::nothing_done(said));
        }
        let names = variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut taken = ListenFd::from_env();
        let mut sockets = Self::default();
        for number in 0..taken.len() {
            let name = names.next().unwrap_or_default();
            let what = format!("socket {} ('{name}') that was handed over", number + 1);
            let refused = |why: &str| Failure::nothing_done(format!("{what} {why}"));
            if let Ok(Some(tcp)) = taken.take_tcp_listener(number) {
                refuse_connected(&tcp, refused)?;
                if name != METRICS {
                    sockets.doors.push(Handed::Tcp(Arc::new(tcp)));
                } else if sockets.metrics.replace(tcp).is_some() {
                    return Err(refused("is a second one for metrics"));
                }
            } else if name == METRICS {
                return Err(refused("is no TCP address, and metrics want one"));
            } else if let Ok(Some(unix)) = taken.take_unix_listener(number) {
                refuse_connected(&unix, refused)?;
                sockets.doors.push(Handed::Unix(Arc::new(unix)));
            } else {
                return Err(refused("is neither a TCP nor a Unix stream socket"));
            }
        }
        Ok(sockets)
    }

    /// The socket for metrics where it is at `address`, or nothing else is said.
    pub fn metrics_at(&mut self, address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
        let Some(handed) = self.metrics.take() else { return Ok(None) };
        let at = handed.local_addr().map_err(|error| Failure::nothing_done(error.to_string()))?;
        if address.is_none_or(|address| address == at) {
            return Ok(Some(handed));
        }
        Err(Failure::nothing_done(format!("the socket 'metrics' was handed over at {at}"))
            .hint("leave --metrics out, or name the same address"))
    }
}

/// A unit with `Accept=yes` starts a server for every client, which a pool cannot have.
fn refuse_connected(socket: &impl AsFd, refused: impl Fn(&str) -> Failure) -> Result<()> {
    if socket_acceptconn(socket).unwrap_or(false) {
        return Ok(());
    }
    Err(refused("does not listen").hint("a unit for it says Accept=no, or nothing of Accept"))
}
