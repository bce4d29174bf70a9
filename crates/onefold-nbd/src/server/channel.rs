//! The byte stream to one client, in plain text or under TLS.
//! Room: onefold-nbd.
//! Invariants: (1) one thread receives; any number send, each call's bytes in one piece; (2) the
//! TLS state is never locked while waiting for the client to send.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection};

use super::socket::Socket;

/// Bytes of encrypted input read at once: four TLS records of the largest size.
const CIPHER_BUFFER_BYTES: usize = 4 * (16 * 1024 + 256);

/// The stream to one client.
pub(super) struct Channel {
    socket: Arc<Socket>,
    turn: Mutex<()>,
    tls: Option<Tls>,
    broken: AtomicBool,
}

struct Tls {
    connection: Mutex<ServerConnection>,
    /// Encrypted bytes received and not yet decrypted; the receiving thread's alone.
    cipher: Mutex<Cipher>,
}

struct Cipher {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channel {
    /// A stream in plain text.
    pub fn plain(socket: Arc<Socket>) -> Self {
        Self { socket, turn: Mutex::new(()), tls: None, broken: AtomicBool::new(false) }
    }

    /// Go over to TLS, until `deadline`.
    pub fn start_tls(&mut self, config: Arc<ServerConfig>, deadline: Instant) -> io::Result<()> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let bytes = vec![0; CIPHER_BUFFER_BYTES].into_boxed_slice();
        let tls = Tls {
            connection: Mutex::new(connection),
            cipher: Mutex::new(Cipher { bytes, start: 0, end: 0 }),
        };
        loop {
            let mut connection = locked(&tls.connection);
            while connection.wants_write() {
                connection.write_tls(&mut Sender(&self.socket))?;
            }
            if !connection.is_handshaking() {
                break;
            }
            drop(connection);
            self.limit_read(deadline)?;
            if tls.receive_more(&self.socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.decrypt(&self.socket)?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// Whether the client is on this machine, let in by the system.
    pub fn is_local(&self) -> bool {
        matches!(*self.socket, Socket::Unix(_))
    }

    /// The certificate that the client has shown, which was verified.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let connection = locked(&self.tls.as_ref()?.connection);
        Some(connection.peer_certificates()?.first()?.to_vec())
    }

    /// Let the next receive wait until `deadline` at most.
    pub fn limit_read(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))
    }

    /// Let receives wait as long as the client likes.
    pub fn unlimit_read(&self) -> io::Result<()> {
        self.socket.set_read_timeout(None)
    }

    /// Receive at least one byte; 0 at the end of the stream.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.recv(buf),
            Some(tls) => tls.recv(&self.socket, buf),
        }
    }

    /// Send all of `bytes`, with nothing of other threads in between.
    pub fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.take_turn().send_all(bytes)
    }

    /// Wait until no other thread sends; none does before the turn is dropped.
    pub fn take_turn(&self) -> Turn<'_> {
        Turn { channel: self, _alone: locked(&self.turn) }
    }

    /// After a failure the stream is closed: the client could not tell where the next reply
    /// begins.
    fn send_in_turn(&self, bytes: &[u8]) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let sent = match &self.tls {
            None => self.socket.send_all(bytes),
            Some(tls) => tls.send_all(&self.socket, bytes),
        };
        if sent.is_err() {
            self.abandon();
        }
        sent
    }

    /// Close at once: whoever is still sending or receiving fails.
    pub fn abandon(&self) {
        self.broken.store(true, Ordering::Relaxed);
        self.socket.shutdown(Shutdown::Both);
    }

    /// Say goodbye where the protocol has a word for it, and close.
    pub fn close(&self) {
        if let Some(tls) = &self.tls
            && !self.broken.load(Ordering::Relaxed)
        {
            let mut connection = locked(&tls.connection);
            connection.send_close_notify();
            // The peer may be gone; then there is nobody to tell.
            let _ = connection.write_tls(&mut Sender(&self.socket));
        }
        self.socket.shutdown(Shutdown::Both);
    }
}

impl Tls {
    fn recv(&self, socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = locked(&self.connection).reader().read(buf);
            match read {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client closed without the TLS goodbye; requests carry their own lengths,
                // so nothing can be cut off unnoticed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            let waiting = {
                let cipher = locked(&self.cipher);
                cipher.start < cipher.end
            };
            if !waiting && self.receive_more(socket)? == 0 {
                return Ok(0);
            }
            self.decrypt(socket)?;
        }
    }

    /// Refill the buffer of encrypted bytes, which is empty.
    fn receive_more(&self, socket: &Socket) -> io::Result<usize> {
        let mut cipher = locked(&self.cipher);
        let count = socket.recv(&mut cipher.bytes)?;
        (cipher.start, cipher.end) = (0, count);
        Ok(count)
    }

    /// Decrypt what was received, as far as there is room for plain text.
    fn decrypt(&self, socket: &Socket) -> io::Result<()> {
        let mut cipher = locked(&self.cipher);
        let mut connection = locked(&self.connection);
        while cipher.start < cipher.end && connection.wants_read() {
            let mut rest = &cipher.bytes[cipher.start..cipher.end];
            let taken = connection.read_tls(&mut rest)?;
            cipher.start += taken;
            let processed = connection.process_new_packets();
            while connection.wants_write() {
                connection.write_tls(&mut Sender(socket))?;
            }
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        Ok(())
    }

    fn send_all(&self, socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
        let mut connection = locked(&self.connection);
        while !bytes.is_empty() {
            let taken = connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            while connection.wants_write() {
                connection.write_tls(&mut Sender(socket))?;
            }
        }
        Ok(())
    }
}

/// The right to send, one thread's at a time.
pub(super) struct Turn<'a> {
    channel: &'a Channel,
    _alone: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Send all of `bytes`.
    pub fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.channel.send_in_turn(bytes)
    }
}

/// Lets the TLS library write to a socket.
struct Sender<'a>(&'a Socket);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
