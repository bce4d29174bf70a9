//! A client that says exactly what a test wants said, and a server for it to talk to.
//! Room: onefold-nbd.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onefold_block::BlockDevice;
use onefold_nbd::protocol::Request;
use onefold_nbd::protocol::constants::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY_MAGIC, REQUEST_BYTES, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, command, option, option_reply,
};
use onefold_nbd::{ExportTable, Exports, ListenAddr, Server, ServerConfig};
use rustix::net::{RecvFlags, recv};
use tempfile::TempDir;

/// Longer than anything a test waits for on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a Unix socket in a folder of its own.
pub struct Fixture {
    pub server: Option<Server>,
    pub folder: TempDir,
    kept: Vec<TempDir>,
}

impl Fixture {
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self::with(device, ServerConfig::default())
    }

    pub fn with(device: Arc<dyn BlockDevice>, config: ServerConfig) -> Self {
        Self::exporting(ExportTable::new().with("main", "the disk under test", device), config)
    }

    pub fn exporting(exports: impl Exports + 'static, mut config: ServerConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        config.listeners.push(ListenAddr::Unix(folder.path().join("nbd.sock")));
        let server = Server::start(Arc::new(exports), &config).unwrap();
        Self { server: Some(server), folder, kept: Vec::new() }
    }

    /// Keep another folder as long as the server.
    pub fn keep(&mut self, folder: TempDir) {
        self.kept.push(folder);
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    pub fn uri(&self, export: &str) -> String {
        ListenAddr::Unix(self.socket()).uri(export, false)
    }

    /// A client in the handshake.
    pub fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.socket());
        raw.greet();
        raw
    }

    /// A client past the handshake, with simple or structured replies.
    pub fn ready(&self, structured: bool) -> Raw {
        let mut raw = self.raw();
        if structured {
            raw.option(option::STRUCTURED_REPLY, &[]);
            assert_eq!(raw.answer().1, option_reply::ACK);
            raw.option(option::SET_META_CONTEXT, &meta_query("", &["base:allocation"]));
            assert_eq!(raw.answer().1, option_reply::META_CONTEXT);
            assert_eq!(raw.answer().1, option_reply::ACK);
        }
        raw.go();
        raw
    }
}

/// Wait until `done`, which something else brings about.
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

pub fn info_query(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = text(name);
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

pub fn meta_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = text(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| text(query)));
    data
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// One chunk of a structured reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    pub done: bool,
    pub kind: u16,
    pub cookie: u64,
    pub payload: Vec<u8>,
}

pub struct Raw {
    stream: UnixStream,
}

impl Raw {
    pub fn connect(path: PathBuf) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// Over TCP; the calls on its socket are the same.
    pub fn over_tcp(server: SocketAddr) -> Self {
        Self { stream: OwnedFd::from(TcpStream::connect(server).unwrap()).into() }
    }

    /// Exchange greetings.
    pub fn greet(&mut self) {
        assert_eq!(self.u64(), NBDMAGIC);
        assert_eq!(self.u64(), IHAVEOPT);
        assert_eq!(self.array::<2>(), [0, 3]);
        self.send(&3u32.to_be_bytes());
    }

    /// Pick the first export and end the handshake.
    pub fn go(&mut self) {
        self.option(option::GO, &info_query("", &[]));
        while self.answer().1 != option_reply::ACK {}
    }

    /// The same connection, to send from another thread.
    pub fn another_hand(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Send, minding neither a closed nor a full connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn end_of_sending(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Whether the server has closed; what it sent before is thrown away.
    pub fn is_closed(&mut self) -> bool {
        match io::copy(&mut self.stream, &mut io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether the server has sent something that was not read yet.
    pub fn is_answered(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut byte[..], flags).is_ok()
    }

    /// What the server sends before it closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    pub fn option(&mut self, option: u32, data: &[u8]) {
        self.send(&option_bytes(option, data));
    }

    /// Option, kind and data of a reply to an option.
    pub fn answer(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.u64(), OPTION_REPLY_MAGIC);
        let (option, kind, len) = (self.u32(), self.u32(), self.u32());
        (option, kind, self.bytes(len as usize))
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        self.send(&request(command, flags, cookie, offset, len));
    }

    pub fn write(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        let header = request(command::WRITE, flags, cookie, offset, data.len() as u32);
        self.send(&[&header[..], data].concat());
    }

    /// Error number and cookie of a simple reply.
    pub fn simple(&mut self) -> (u32, u64) {
        assert_eq!(self.u32(), SIMPLE_REPLY_MAGIC);
        (self.u32(), self.u64())
    }

    pub fn chunk(&mut self) -> Chunk {
        assert_eq!(self.u32(), STRUCTURED_REPLY_MAGIC);
        let flags = u16::from_be_bytes(self.array());
        let kind = u16::from_be_bytes(self.array());
        let (cookie, len) = (self.u64(), self.u32());
        let payload = self.bytes(len as usize);
        Chunk { done: flags == 1, kind, cookie, payload }
    }

    /// Read with simple replies.
    pub fn read_simple(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.request(command::READ, 0, 77, offset, len);
        assert_eq!(self.simple(), (0, 77));
        self.bytes(len as usize)
    }
}

pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

pub fn request(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
) -> [u8; REQUEST_BYTES] {
    Request { flags, command, cookie, offset, len: len.into() }.encode()
}

/// Bytes that differ from place to place, the same for the same seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
