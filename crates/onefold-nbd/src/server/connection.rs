//! The life of one connection: handshake, maybe TLS, transmission, end.
//! Room: onefold-nbd.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::ServerConfig as TlsConfig;
use thiserror::Error;

use super::certificate::common_name;
use super::channel::Channel;
use super::processors::Processors;
use super::slow::{SlowLog, Whose};
use super::socket::{Socket, is_timeout};
use super::transmission::{self, End, TransmissionError};
use crate::client::Client;
use crate::export::Exports;
use crate::protocol::{Handshake, Negotiated, Outcome, TlsPolicy};

/// Bytes of the handshake received at once.
const HANDSHAKE_PIECE_BYTES: usize = 4096;

/// What every connection of a server shares.
pub(super) struct Terms {
    pub exports: Arc<dyn Exports>,
    /// What it is may change between two connections; whether it is, may not.
    pub tls: Option<RwLock<Arc<TlsConfig>>>,
    pub read_only: bool,
    pub handshake_timeout: Duration,
    pub write_timeout: Duration,
    pub stopping: AtomicBool,
    pub processors: Processors,
    pub slow: SlowLog,
}

/// Why a connection ended early.
#[derive(Debug, Error)]
enum ConnectionError {
    #[error("handshake: {0}")]
    Refused(&'static str),
    #[error("handshake: not finished after {} s", .0.as_secs_f32())]
    HandshakeTimeout(Duration),
    #[error("handshake: the client left")]
    HandshakeLeft,
    #[error("too many clients are connected")]
    Crowded,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Transmission(#[from] TransmissionError),
}

/// Serve one client to its end, and log how it ended.
/// `settle` is told when the handshake is about to be over, and says whether the client can be
/// served. It is asked before the client hears so: whoever has that answer is served, and can no
/// longer have to go for a newcomer.
pub(super) fn serve(socket: &Arc<Socket>, peer: &str, terms: &Terms, settle: &dyn Fn() -> bool) {
    socket.tune();
    let mut channel = Channel::plain(Arc::clone(socket));
    let ended = socket
        .set_write_timeout(terms.write_timeout)
        .map_err(ConnectionError::from)
        .and_then(|()| negotiate_and_serve(&mut channel, peer, terms, settle));
    match ended {
        Ok(end) => tracing::info!(peer, ?end, "connection ended"),
        Err(error) => tracing::warn!(peer, "connection ended: {error}"),
    }
    channel.close();
}

fn negotiate_and_serve(
    channel: &mut Channel,
    peer: &str,
    terms: &Terms,
    settle: &dyn Fn() -> bool,
) -> Result<Option<End>, ConnectionError> {
    let deadline = Instant::now() + terms.handshake_timeout;
    let agreed = negotiate(channel, terms, settle, deadline).map_err(|error| match error {
        ConnectionError::Io(source) if is_timeout(&source) => {
            ConnectionError::HandshakeTimeout(terms.handshake_timeout)
        }
        other => other,
    })?;
    let Some((negotiated, rest)) = agreed else { return Ok(None) };
    let Negotiated { device, name, session, changes } = negotiated;
    tracing::info!(peer, export = name, "serving");
    channel.unlimit_read()?;
    let agreed = (session, changes.as_deref());
    let whose = Whose { peer, export: &name };
    let end = transmission::serve((&*device, whose), agreed, channel, &rest, terms)?;
    Ok(Some(end))
}

/// What was agreed and the first bytes of requests; `None` if the client only looked around.
type Agreed = Option<(Negotiated, Vec<u8>)>;

fn negotiate(
    channel: &mut Channel,
    terms: &Terms,
    settle: &dyn Fn() -> bool,
    deadline: Instant,
) -> Result<Agreed, ConnectionError> {
    let policy = if terms.tls.is_some() { TlsPolicy::Required } else { TlsPolicy::Off };
    let client = if channel.is_local() { Client::Local } else { Client::Unknown };
    let exports = Arc::clone(&terms.exports);
    let mut handshake = Handshake::new(exports, client, policy, terms.read_only);
    channel.send_all(&Handshake::greeting())?;
    let mut piece = [0; HANDSHAKE_PIECE_BYTES];
    let mut received = 0;
    loop {
        let step = handshake.feed(&piece[..received]);
        received = 0;
        if matches!(step.outcome, Outcome::Done(_)) && !settle() {
            return Err(ConnectionError::Crowded);
        }
        if !step.send.is_empty() {
            channel.send_all(&step.send)?;
        }
        match step.outcome {
            Outcome::Again => {}
            Outcome::NeedMore => {
                channel.limit_read(deadline)?;
                received = channel.recv(&mut piece)?;
                if received == 0 {
                    return Err(ConnectionError::HandshakeLeft);
                }
            }
            Outcome::StartTls => {
                let config = terms.tls.as_ref().expect("TLS is offered only with a config");
                let config = Arc::clone(&config.read().unwrap_or_else(PoisonError::into_inner));
                channel.start_tls(config, deadline).map_err(|error| {
                    if is_timeout(&error) {
                        ConnectionError::Io(error)
                    } else {
                        ConnectionError::Tls(error)
                    }
                })?;
                let name = channel.certificate().and_then(|der| common_name(&der));
                handshake.tls_started(Client::Certified { name: name.unwrap_or_default() });
            }
            Outcome::Done(negotiated) => return Ok(Some((*negotiated, handshake.into_rest()))),
            Outcome::Aborted => return Ok(None),
            Outcome::Refuse(why) => return Err(ConnectionError::Refused(why)),
        }
    }
}
