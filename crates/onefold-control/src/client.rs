//! Asks the server of a store.
//! Room: onefold-control.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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

/// A connection to a server.
pub struct Client {
    stream: Box<dyn Stream>,
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

impl Client {
    /// A connection to whoever serves the store in a folder; `None` if nobody does.
    pub fn connect(folder: &Path) -> io::Result<Option<Self>> {
        let Some(stream) = socket::connect(folder)? else { return Ok(None) };
        let stream = patient(stream)?;
        let named = encoded(folder.as_os_str().as_encoded_bytes());
        let (host, fields) = ("onefold".to_owned(), String::new());
        Ok(Some(Self { stream: Box::new(stream), host, named, fields }))
    }

    /// A connection to an address at which a server is seen.
    pub fn connect_to(at: SocketAddr, by: &Credentials) -> io::Result<Self> {
        let mut stream = patient(TcpStream::connect_timeout(&at, PATIENCE)?)?;
        let stream: Box<dyn Stream> = match &by.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                let connection = ClientConnection::new(Arc::clone(config), name.clone());
                let mut connection = connection.map_err(io::Error::other)?;
                // What is wrong with a certificate is said now, and not by the first request.
                while connection.is_handshaking() {
                    connection.complete_io(&mut stream)?;
                }
                Box::new(StreamOwned::new(connection, stream))
            }
        };
        let fields = by.token.as_ref().map_or_else(String::new, |token| {
            format!("Authorization: Bearer {}\r\n", token.word())
        });
        Ok(Self { stream, host: at.to_string(), named: String::new(), fields })
    }

    /// Ask once.
    pub fn ask(
        &mut self,
        method: Method,
        target: &str,
        body: &[u8],
    ) -> Result<Answer, ClientError> {
        let head = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\nOnefold-Pool: {}\r\n{}\
             Content-Length: {}\r\n\r\n",
            method.name(),
            self.host,
            self.named,
            self.fields,
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        // A read that has a time limit is not begun again by the system when a signal comes: Ctrl-C
        // is for whoever asks, who wants the answer still.
        let read = &mut |piece: &mut [u8]| loop {
            match self.stream.read(piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        };
        let (status, body) = receive_answer(ANSWER_BYTES_MAX, read)?;
        Ok(Answer { status, body })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

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
            let mut client = Client { stream: Box::new(stream), host, named, fields };
            client.ask(Method::Get, "/", &[]).map(|answer| answer.body)
        };
        let (signal, late) = (io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock);
        assert_eq!(asked(&[signal, signal]).unwrap(), b"ab");
        assert!(matches!(asked(&[signal, late]), Err(ClientError::Io(e)) if e.kind() == late));
    }
}
