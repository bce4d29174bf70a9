//! Any bytes where a client's TLS should be, to a real server; and any PEM files for a server.
//! Room: onefold-fuzz.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use onefold_nbd::{ExportTable, ListenAddr, Server, ServerConfig, TlsFiles, TlsMode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::nbd::Zeroes;

/// Longer than a server takes to refuse nonsense on a busy machine; one that hangs is a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// The client's flags and its request for TLS.
const START_TLS: [&[u8]; 2] = [&[0, 0, 0, 3], b"IHAVEOPT\0\0\0\x05\0\0\0\0"];

struct Place {
    folder: tempfile::TempDir,
    pem: [Vec<u8>; 3],
    _server: Server,
}

fn start(files: TlsFiles, socket: PathBuf) -> Option<Server> {
    let exports = ExportTable::new().with("main", "", Arc::new(Zeroes));
    let config = ServerConfig {
        listeners: vec![ListenAddr::Unix(socket)],
        tls: TlsMode::Required(files),
        ..ServerConfig::default()
    };
    Server::start(Arc::new(exports), &config).ok()
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
    let issuer = issuer.expect("signed");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &issuer).expect("signed");
    let pem = [certificate.pem(), key.serialize_pem(), issuer.pem()].map(String::into_bytes);
    let files = write(&folder, &pem);
    let server = start(files, folder.path().join("socket")).expect("sound files");
    Place { folder, pem, _server: server }
});

/// Write the certificate, the key and the authority.
fn write(folder: &tempfile::TempDir, pem: &[Vec<u8>; 3]) -> TlsFiles {
    let paths = ["certificate", "key", "authority"].map(|name| folder.path().join(name));
    for (path, bytes) in paths.iter().zip(pem) {
        std::fs::write(path, bytes).expect("a file can be written");
    }
    let [certificate, key, client_ca] = paths;
    TlsFiles { certificate, key, client_ca }
}

/// The server answers or closes, and does not take what is no TLS for a client of its own.
pub fn talk(data: &[u8]) {
    let mut stream = UnixStream::connect(PLACE.folder.path().join("socket")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    stream.write_all(&START_TLS.concat()).expect("sent");
    let mut ready = [0; 20];
    stream.read_exact(&mut ready).expect("an answer");
    assert_eq!(ready[12..16], 1_u32.to_be_bytes(), "TLS may begin");
    // The server may have closed by the time that the last byte is sent.
    let _ = stream.write_all(data);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.take(1 << 20).read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it hangs: {error}");
    }
    let nbd = 0x0003_e889_0455_65a9_u64.to_be_bytes();
    assert!(!answer.windows(8).any(|part| part == nbd), "an answer in plain text");
}

/// Records as TLS 1.2 and 1.3 begin.
pub fn hellos() -> Vec<Vec<u8>> {
    let mut hello = vec![0x16, 3, 1, 0, 0x31, 1, 0, 0, 0x2d, 3, 3];
    hello.extend([0x55; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x2f, 0x13, 1, 1, 0, 0, 0]);
    vec![hello, b"\x15\x03\x03\0\x02\x02\x28".to_vec(), b"GET / HTTP/1.0\r\n\r\n".to_vec()]
}

/// The folder of the files that an input replaces.
static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));

/// The first byte says which of three files the rest takes the place of.
pub fn pem(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let mut pem = PLACE.pem.clone();
    pem[usize::from(first) % 3] = rest.to_vec();
    let files = write(&FOLDER, &pem);
    drop(start(files, FOLDER.path().join("socket")));
}

pub fn pems() -> Vec<Vec<u8>> {
    let numbered = (0_u8..).zip(&PLACE.pem);
    numbered.map(|(number, pem)| [&[number], pem.as_slice()].concat()).collect()
}
