//! Asks the server of a store.
//! Room: onefold-control.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

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

impl Client {
    /// A connection to whoever serves the store in a folder; `None` if nobody does.
    pub fn connect(folder: &Path) -> io::Result<Option<Self>> {
        let Some(stream) = socket::connect(folder)? else { return Ok(None) };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let named = encoded(folder.as_os_str().as_encoded_bytes());
        Ok(Some(Self { stream: Box::new(stream), host: "onefold".to_owned(), named }))
    }

    /// A connection to an address at which a server is seen, without encryption.
    pub fn connect_to(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: Box::new(stream), host: at.to_string(), named: String::new() })
    }

    /// Ask once.
    pub fn ask(
        &mut self,
        method: Method,
        target: &str,
        body: &[u8],
    ) -> Result<Answer, ClientError> {
        let head = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\nOnefold-Pool: {}\r\n\
             Content-Length: {}\r\n\r\n",
            method.name(),
            self.host,
            self.named,
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
