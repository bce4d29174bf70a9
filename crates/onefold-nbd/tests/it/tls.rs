//! TLS with real clients: who has a certificate is served, everybody else is not.
//! Room: onefold-nbd.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::{command, option, option_reply};
use onefold_nbd::{ListenAddr, Server, ServerConfig, ServerError, TlsError, TlsFiles, TlsMode};

use crate::device::TestDevice;
use crate::raw::{Fixture, Raw, info_query, option_bytes, pattern, request};
use crate::tls_files::Authority;
use crate::tools::{fail, succeed, text};

struct Secured {
    fixture: Fixture,
    device: Arc<TestDevice>,
    ours: Authority,
}

fn secured() -> Secured {
    secured_with(&ServerConfig::default())
}

fn secured_with(config: &ServerConfig) -> Secured {
    let device = Arc::new(TestDevice::new(8 << 20));
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    ours.certify("server");
    ours.certify("client");
    let config = ServerConfig {
        listeners: vec!["tcp:127.0.0.1:0".parse().unwrap()],
        tls: TlsMode::Required(ours.server_files()),
        ..config.clone()
    };
    let mut fixture = Fixture::with(Arc::clone(&device) as Arc<dyn BlockDevice>, config);
    // The socket's folder must outlive the server, and the certificates the clients.
    fixture.keep(folder);
    Secured { fixture, device, ours }
}

impl Secured {
    fn uri(&self, certificates: &Path) -> String {
        let uri = self.fixture.server().addresses()[0].uri("main", true);
        format!("{}?tls-certificates={}", uri.replace("127.0.0.1", "localhost"), text(certificates))
    }
}

#[test]
fn clients_with_a_certificate_copy_there_and_back() {
    let secured = secured();
    let uri = secured.uri(secured.ours.folder());
    let info = succeed("nbdinfo", &[&uri]);
    assert!(info.contains("newstyle-fixed with TLS"), "{info}");
    let image = pattern(1, 8 << 20);
    let (source, copy) =
        (secured.fixture.folder.path().join("in"), secured.fixture.folder.path().join("out"));
    fs::write(&source, &image).unwrap();
    succeed("nbdcopy", &["--flush", text(&source), &uri]);
    assert!(secured.device.contents() == image);
    succeed("nbdcopy", &[&uri, text(&copy)]);
    assert!(fs::read(&copy).unwrap() == image);
}

#[test]
fn clients_without_the_right_certificate_are_refused() {
    let secured = secured();
    let folder = secured.fixture.folder.path();
    // Trusts the server and has no certificate of its own.
    let anonymous = folder.join("anonymous");
    fs::create_dir(&anonymous).unwrap();
    fs::copy(secured.ours.folder().join("ca-cert.pem"), anonymous.join("ca-cert.pem")).unwrap();
    fail("nbdinfo", &[&secured.uri(&anonymous)]);
    // Trusts the server and has a certificate of somebody else.
    let theirs = Authority::new(folder, "theirs");
    theirs.certify("client");
    fs::copy(secured.ours.folder().join("ca-cert.pem"), theirs.folder().join("ca-cert.pem"))
        .unwrap();
    fail("nbdinfo", &[&secured.uri(theirs.folder())]);
    // Does not trust the server.
    let wary = Authority::new(folder, "wary");
    wary.certify("client");
    fail("nbdinfo", &[&secured.uri(wary.folder())]);
    // Would do without TLS.
    let plain = secured.fixture.server().addresses()[0].uri("main", false);
    fail("nbdinfo", &[&plain]);
    succeed("nbdinfo", &[&secured.uri(secured.ours.folder())]);
}

#[test]
fn nothing_is_told_in_plain_text() {
    let secured = secured();
    let mut raw = secured.fixture.raw();
    for (name, data) in [
        (option::LIST, Vec::new()),
        (option::INFO, info_query("main", &[])),
        (option::GO, info_query("main", &[])),
        (option::STRUCTURED_REPLY, Vec::new()),
    ] {
        raw.option(name, &data);
        assert_eq!(raw.answer().1, option_reply::ERR_TLS_REQD);
    }
    raw.option(option::EXPORT_NAME, b"main");
    assert!(raw.is_closed());
    // Options sent along with the request for TLS must not pass for ones under TLS.
    let mut raw = secured.fixture.raw();
    let both = [option_bytes(option::STARTTLS, &[]), option_bytes(option::LIST, &[])].concat();
    raw.send(&both);
    assert!(raw.is_closed());
    // Plain requests where TLS was agreed on.
    let mut raw = secured.fixture.raw();
    raw.option(option::STARTTLS, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    // The server may close before it has all of them.
    let _ = raw.try_send(&option_bytes(option::GO, &info_query("main", &[])));
    let _ = raw.try_send(&request(command::READ, 0, 1, 0, 1));
    assert!(raw.is_closed());
}

#[test]
fn a_silent_client_in_the_middle_of_tls_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    ours.certify("server");
    let config = ServerConfig {
        tls: TlsMode::Required(ours.server_files()),
        handshake_timeout: std::time::Duration::from_secs(2),
        ..ServerConfig::default()
    };
    let fixture = Fixture::with(Arc::new(TestDevice::new(4096)), config);
    let mut raw: Raw = fixture.raw();
    raw.option(option::STARTTLS, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    assert!(raw.is_closed());
}

#[test]
fn half_open_tls_shuts_out_nobody_with_a_certificate() {
    let mut secured = secured_with(&ServerConfig {
        max_connections: 3,
        max_handshakes: 4,
        ..ServerConfig::default()
    });
    let mut crowd = Vec::new();
    for number in 0..30 {
        let mut raw = secured.fixture.raw();
        raw.option(option::STARTTLS, &[]);
        assert_eq!(raw.answer().1, option_reply::ACK);
        // Half of them begin to say hello.
        if number % 2 == 0 {
            raw.send(&[0x16, 3, 1, 2, 0, 1, 0]);
        }
        crowd.push(raw);
    }
    let mut over_tcp: Vec<Raw> = Vec::new();
    let ListenAddr::Tcp { port, .. } = secured.fixture.server().addresses()[0] else {
        panic!("TCP comes first")
    };
    for _ in 0..30 {
        over_tcp.push(Raw::over_tcp(([127, 0, 0, 1], port).into()));
    }
    succeed("nbdinfo", &[&secured.uri(secured.ours.folder())]);
    drop((crowd, over_tcp));
    secured.fixture.server.take().unwrap().shutdown(std::time::Duration::from_secs(10));
}

#[test]
fn tls_needs_no_loopback_and_bad_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    ours.certify("server");
    let start = |files| {
        let config = ServerConfig {
            listeners: vec!["tcp:0.0.0.0:0".parse().unwrap()],
            tls: TlsMode::Required(files),
            ..ServerConfig::default()
        };
        let device = Arc::new(TestDevice::new(4096));
        let exports = onefold_nbd::ExportTable::new().with("main", "", device);
        Server::start(Arc::new(exports), &config)
    };
    let server = start(ours.server_files()).unwrap();
    let ListenAddr::Tcp { port, .. } = server.addresses()[0] else { panic!("TCP") };
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[0, 0, 0, 3]).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let bad = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = ours.server_files();
        change(&mut files);
        match start(files).err().expect("not usable") {
            ServerError::Tls(error) => error,
            other => panic!("{other}"),
        }
    };
    let missing = bad(&|files| files.key = folder.path().join("nosuch.pem"));
    assert!(matches!(missing, TlsError::File { .. }) && missing.to_string().contains("nosuch.pem"));
    let swapped = bad(&|files| files.certificate = files.key.clone());
    assert!(swapped.to_string().contains("expected certificates"), "{swapped}");
    let other = Authority::new(folder.path(), "other");
    other.certify("server");
    let mismatch = bad(&|files| files.key = other.server_files().key);
    assert!(matches!(mismatch, TlsError::Mismatch(_)), "{mismatch}");
}

#[test]
fn certificates_are_renewed_for_new_connections_and_bad_ones_change_nothing() {
    let secured = secured();
    let folder = secured.fixture.folder.path();
    let ours = secured.uri(secured.ours.folder());
    let server = secured.fixture.server();
    let renewed = Authority::new(folder, "renewed");
    renewed.certify("server");
    renewed.certify("client");
    let (old, new) = (secured.ours.server_files(), renewed.server_files());
    // A key that is not the certificate's.
    let mixed = TlsFiles { key: old.key.clone(), ..new.clone() };
    server.handle().renew_tls(&mixed).unwrap_err();
    succeed("nbdinfo", &[&ours]);
    server.handle().renew_tls(&new).unwrap();
    fail("nbdinfo", &[&ours]);
    succeed("nbdinfo", &[&secured.uri(renewed.folder())]);
}
