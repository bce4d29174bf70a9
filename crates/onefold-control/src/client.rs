//! Asks the server of a store.
//! Room: onefold-control.
//! Invariants: (1) a request is sent once, unless the server said that it did nothing for want of
//! room; (2) who asks again after a long while asks by a new connection: a server lets go of those
//! on which nothing comes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use thiserror::Error;

use crate::guard::Token;
use crate::http::{Method, encoded, receive_answer};
use crate::socket;

/// Longest answer, in bytes: 10,000 volumes, or a piece of one.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long an answer may take: all that takes longer is a job, which is asked after again.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection on which nothing was asked for so long is not used again. A server lets go of it
/// after twice as long.
const RESTS: Duration = Duration::from_secs(15);
/// How often it is tried again where all places are taken, and for how long.
const LOOK: Duration = Duration::from_millis(100);
const QUEUES: Duration = Duration::from_secs(30);
/// The status of an answer of a server that has no room now, and has done nothing.
const NO_ROOM: u16 = 503;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The connection failed.
    #[error("the server does not answer: {0}")]
    Io(#[from] io::Error),
    /// What came is not what such a server says.
    #[error("the server's answer makes no sense: {0}")]
    Nonsense(String),
}

/// Bytes to and from a server.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Where a server is.
enum Place {
    Folder(PathBuf),
    Address(Box<(SocketAddr, Credentials)>),
}

/// Asks one server.
pub struct Client {
    place: Place,
    /// The connection, unless it was closed after the last answer.
    stream: Option<Box<dyn Stream>>,
    /// When that came.
    rests_since: Instant,
    /// What the server is called in every request.
    host: String,
    /// How the person who asks named the store, for messages.
    named: String,
    /// Further fields of every request.
    fields: String,
}

/// How a server that other machines can see is asked.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The word that its token file holds.
    pub token: Option<Token>,
    /// Encryption, and the name that its certificate must have.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// PEM files of a client: the authority that must have signed the server's certificate, and the
/// client's own certificate and key, if it shows one.
///
/// # Errors
/// In words: which file cannot be used, and why.
pub fn client_tls(
    authority: &Path,
    own: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, String> {
    let unusable = |path: &Path, why: String| format!("'{}': {why}", path.display());
    let chain = |path: &Path| -> Result<Vec<CertificateDer<'static>>, String> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let read: Vec<_> = read.map_err(|error| unusable(path, error.to_string()))?;
        if read.is_empty() {
            return Err(unusable(path, "there is no certificate in it".to_owned()));
        }
        Ok(read)
    };
    let mut roots = RootCertStore::empty();
    for certificate in chain(authority)? {
        roots.add(certificate).map_err(|error| unusable(authority, error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let begun = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = own else { return Ok(Arc::new(begun.with_no_client_auth())) };
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|error| unusable(key, error.to_string()))?;
    let done = begun.with_client_auth_cert(chain(certificate)?, private);
    Ok(Arc::new(done.map_err(|error| unusable(certificate, error.to_string()))?))
}

/// An answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as a document.
    pub fn json(&self) -> Result<Value, ClientError> {
        serde_json::from_slice(&self.body).map_err(|e| ClientError::Nonsense(e.to_string()))
    }
}

/// A stream on which nobody waits for longer than an answer may take.
fn patient<S: AsFd>(stream: S) -> io::Result<S> {
    for way in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&stream, way, Some(PATIENCE))?;
    }
    Ok(stream)
}

/// Whether the other end closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The error of a connection in words: the system's say what happened to a socket, and not to the
/// server behind it.
fn in_words(error: io::Error) -> io::Error {
    let why = match error.kind() {
        _ if is_closed(&error) => "it closed the connection without an answer",
        // By the limits of time that a stream has.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it said nothing for 30 s",
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

/// A connection to an address.
fn opened(at: SocketAddr, by: &Credentials) -> io::Result<Box<dyn Stream>> {
    let mut stream = patient(TcpStream::connect_timeout(&at, PATIENCE)?)?;
    let Some((config, name)) = &by.tls else { return Ok(Box::new(stream)) };
    let connection = ClientConnection::new(Arc::clone(config), name.clone());
    let mut connection = connection.map_err(io::Error::other)?;
    // What is wrong with a certificate is said now, and not by the first request.
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(Box::new(StreamOwned::new(connection, stream)))
}

impl Client {
    /// A connection to whoever serves the store in a folder; `None` if nobody does.
    pub fn connect(folder: &Path) -> io::Result<Option<Self>> {
        let Some(stream) = socket::connect(folder)? else { return Ok(None) };
        let stream: Box<dyn Stream> = Box::new(patient(stream)?);
        let named = encoded(folder.as_os_str().as_encoded_bytes());
        let (host, fields) = ("onefold".to_owned(), String::new());
        let (place, rests_since) = (Place::Folder(folder.to_owned()), Instant::now());
        Ok(Some(Self { place, stream: Some(stream), rests_since, host, named, fields }))
    }

    /// A connection to an address at which a server is seen.
    pub fn connect_to(at: SocketAddr, by: &Credentials) -> io::Result<Self> {
        let stream = opened(at, by)?;
        let fields = by.token.as_ref().map_or_else(String::new, |token| {
            format!("Authorization: Bearer {}\r\n", token.word())
        });
        let (place, rests_since) = (Place::Address(Box::new((at, by.clone()))), Instant::now());
        let (host, named) = (at.to_string(), String::new());
        Ok(Self { place, stream: Some(stream), rests_since, host, named, fields })
    }

    /// Another connection to the same place.
    fn open(&self) -> io::Result<Box<dyn Stream>> {
        match &self.place {
            Place::Folder(folder) => match socket::connect(folder)? {
                Some(stream) => Ok(Box::new(patient(stream)?)),
                None => Err(io::Error::new(io::ErrorKind::NotConnected, "it is gone")),
            },
            Place::Address(place) => opened(place.0, &place.1),
        }
    }

    /// Ask once. A server that has no room for a command now is asked again, for a while.
    pub fn ask(
        &mut self,
        method: Method,
        target: &str,
        body: &[u8],
    ) -> Result<Answer, ClientError> {
        let until = Instant::now() + QUEUES;
        let mut refused = None;
        loop {
            let answer = match (self.ask_once(method, target, body), refused) {
                // It was about to stop, and has by now.
                (Err(_), Some(refused)) => return Ok(refused),
                (answer, _) => answer.map_err(in_words)?,
            };
            let queues = answer.status == NO_ROOM && matches!(self.place, Place::Folder(_));
            if !queues || Instant::now() >= until {
                return Ok(answer);
            }
            refused = Some(answer);
            std::thread::sleep(LOOK);
        }
    }

    fn ask_once(&mut self, method: Method, target: &str, body: &[u8]) -> io::Result<Answer> {
        let kept = self.stream.take().filter(|_| self.rests_since.elapsed() < RESTS);
        let mut stream = kept.map_or_else(|| self.open(), Ok)?;
        let head = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\nOnefold-Pool: {}\r\n{}\
             Content-Length: {}\r\n\r\n",
            method.name(),
            self.host,
            self.named,
            self.fields,
            body.len()
        );
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        // A read that has a time limit is not begun again by the system when a signal comes: Ctrl-C
        // is for whoever asks, who wants the answer still.
        let read = &mut |piece: &mut [u8]| loop {
            match stream.read(piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        };
        // Who refuses a client as it comes answers before all of the request is there, and closes.
        let received = match sent {
            Err(error) if !is_closed(&error) => return Err(error),
            Err(error) => receive_answer(ANSWER_BYTES_MAX, read).map_err(|_| error)?,
            Ok(()) => receive_answer(ANSWER_BYTES_MAX, read)?,
        };
        if received.keeps {
            (self.stream, self.rests_since) = (Some(stream), Instant::now());
        }
        Ok(Answer { status: received.status, body: received.body })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::http::{Request, Response};
    use crate::peer::Peer;
    use crate::server::{Handler, Limits, Server};

    /// A server that has answered, and what comes in between when that is read.
    struct Answered(VecDeque<io::ErrorKind>, &'static [u8]);

    impl Read for Answered {
        fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
            let halted = self.0.pop_front();
            halted.map_or_else(|| self.1.read(piece), |kind| Err(kind.into()))
        }
    }

    impl Write for Answered {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Says what it was asked.
    struct Says;

    impl Handler for Says {
        fn handle(&self, request: &Request, _: Peer) -> Response {
            Response::json(200, &Value::from(request.body.len()))
        }
    }

    fn serving(limits: Limits) -> (tempfile::TempDir, Server) {
        let folder = tempfile::tempdir().unwrap();
        let bound = socket::Bound::new(folder.path()).unwrap();
        let server = Server::on_socket(bound, Arc::new(Says), limits).unwrap();
        (folder, server)
    }

    #[test]
    fn who_asks_again_after_a_long_while_asks_by_a_new_connection() {
        assert!(RESTS * 2 <= Limits::default().idle, "a server still knows the old one");
        // One that lets go of its clients as soon as they say nothing.
        let idle = Duration::from_millis(1);
        let (folder, _server) = serving(Limits { idle, ..Limits::default() });
        let mut client = Client::connect(folder.path()).unwrap().unwrap();
        for body in [1, 2 << 20] {
            // As if so much time had gone by.
            client.rests_since = client.rests_since.checked_sub(RESTS).unwrap();
            let answer = client.ask(Method::Put, "/", &vec![7; body]).unwrap();
            assert_eq!(answer.json().unwrap(), body);
        }
        assert!(client.stream.is_some(), "which is kept for the next request");
    }

    #[test]
    fn who_finds_no_room_asks_again_and_is_told_so_if_the_server_is_gone_by_then() {
        let (folder, server) = serving(Limits { clients: 1, ..Limits::default() });
        let mut client = Client::connect(folder.path()).unwrap().unwrap();
        // The client has the one place: there is none for this one, until it is gone.
        let mut other = Client::connect(folder.path()).unwrap().unwrap();
        let asked = std::thread::spawn(move || {
            let answer = other.ask(Method::Put, "/", &vec![7; 2 << 20]).unwrap();
            (answer.status, answer.json().unwrap())
        });
        assert_eq!(client.ask(Method::Get, "/", &[]).unwrap().status, 200);
        assert!(client.stream.is_none(), "whoever has the last place gives it back");
        assert_eq!(asked.join().unwrap(), (200, Value::from(2 << 20)));

        // One that stops is gone by the time that it is asked again.
        drop(server);
        let at = folder.path().join(socket::NAME);
        let listener = std::os::unix::net::UnixListener::bind(&at).unwrap();
        let mut client = Client::connect(folder.path()).unwrap().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        std::fs::remove_file(&at).unwrap();
        Response::error(NO_ROOM, "the server stops").send(&mut stream, false).unwrap();
        assert_eq!(client.ask(Method::Get, "/", &[]).unwrap().status, NO_ROOM);
    }

    #[test]
    fn nobody_waits_for_longer_than_an_answer_may_take() {
        let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = patient(stream).unwrap();
        let waits = [stream.read_timeout().unwrap(), stream.write_timeout().unwrap()];
        assert_eq!(waits, [Some(Duration::from_secs(30)); 2]);
    }

    #[test]
    fn an_answer_comes_through_signals_and_no_other_error() {
        let asked = |halts: &[io::ErrorKind]| {
            let halts = halts.iter().copied().collect();
            let stream = Answered(halts, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
            let [host, named, fields] = [const { String::new() }; 3];
            let (place, rests_since) = (Place::Folder(PathBuf::new()), Instant::now());
            let stream: Option<Box<dyn Stream>> = Some(Box::new(stream));
            let mut client = Client { place, stream, rests_since, host, named, fields };
            client.ask(Method::Get, "/", &[]).map(|answer| answer.body)
        };
        let (signal, late) = (io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock);
        assert_eq!(asked(&[signal, signal]).unwrap(), b"ab");
        let error = asked(&[signal, late]).unwrap_err();
        assert_eq!(error.to_string(), "the server does not answer: it said nothing for 30 s");
        assert!(matches!(error, ClientError::Io(e) if e.kind() == late));
    }
}
