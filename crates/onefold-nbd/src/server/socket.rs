//! One connected socket, Unix, TCP or vsock.
//! Room: onefold-nbd.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

/// Size asked for the socket's buffers, in bytes; the system may grant less. Several replies of
/// usual size then fit, so that a client works on one while the next is made.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// A connected socket. All methods take `&self`: one thread reads while others write.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
    /// To a virtual machine. The standard library knows no such stream; of a Unix one nothing is
    /// used but what any stream of bytes has.
    Vsock(UnixStream),
}

macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Unix($stream) => $call,
            Socket::Tcp($stream) => $call,
            Socket::Vsock($stream) => $call,
        }
    };
}

impl Socket {
    /// Set what serving wants of a socket. Failure is no reason not to serve.
    pub fn tune(&self) {
        let tuned = either!(self, stream => sockopt::set_socket_send_buffer_size(
            stream, SOCKET_BUFFER_BYTES
        ));
        if let Err(error) = tuned {
            tracing::debug!(%error, "send buffer stays at the system's size");
        }
        if let Self::Tcp(stream) = self {
            // Keepalive finds out peers that vanished without a word.
            let tuned = stream.set_nodelay(true).and_then(|()| {
                sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)
            });
            if let Err(error) = tuned {
                tracing::debug!(%error, "TCP options stay at the system's defaults");
            }
        }
    }

    /// Receive at least one byte; 0 at the end of the stream.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match either!(self, stream => (&mut &*stream).read(buf)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Send all of `bytes`. Timed out if the peer takes none for the write timeout.
    pub fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        either!(self, stream => (&mut &*stream).write_all(bytes))
    }

    /// How long [`Socket::recv`] waits; forever without a limit.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.set_read_timeout(limit))
    }

    /// How long [`Socket::send_all`] waits for the peer to take something.
    pub fn set_write_timeout(&self, limit: Duration) -> io::Result<()> {
        either!(self, stream => stream.set_write_timeout(Some(limit)))
    }

    /// Close one or both directions, waking whoever waits on them.
    pub fn shutdown(&self, how: Shutdown) {
        // A peer that is gone already has closed it for us.
        let _ = either!(self, stream => stream.shutdown(how));
    }
}

/// Whether an error is a socket timeout having passed.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
