//! Crowds that do not get on with the handshake: nobody else is kept out, and nobody is dropped.
//! Room: onefold-nbd.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use onefold_block::{BlockDevice, Group};
use onefold_nbd::protocol::constants::option;
use onefold_nbd::{ExportTable, ListenAddr, ServerConfig};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::device::TestDevice;
use crate::raw::{Fixture, Raw, info_query, wait_until};

fn device() -> Arc<dyn BlockDevice> {
    Arc::new(TestDevice::new(1 << 20))
}

fn small() -> ServerConfig {
    ServerConfig { max_connections: 3, max_handshakes: 4, ..ServerConfig::default() }
}

#[test]
fn silent_clients_without_number_shut_nobody_out() {
    let fixture = Fixture::with(device(), small());
    let mut served = fixture.ready(false);
    let silent: Vec<UnixStream> =
        (0..60).map(|_| UnixStream::connect(fixture.socket()).unwrap()).collect();
    let mut late = fixture.ready(false);
    for raw in [&mut served, &mut late] {
        assert_eq!(raw.read_simple(0, 1), [0]);
    }
    drop(silent);
    wait_until("only the two are left", || fixture.server().connection_count() == 2);
}

#[test]
fn clients_that_drip_shut_nobody_out() {
    let fixture = Fixture::with(device(), small());
    let mut served = fixture.ready(false);
    let mut dripping: Vec<Raw> = Vec::new();
    for _ in 0..30 {
        dripping.push(fixture.raw());
        // One more byte of an option that never ends, from everybody who is still there.
        for (raw, byte) in dripping.iter_mut().zip(b"IHAVEOPT".iter().cycle()) {
            let _ = raw.try_send(&[*byte]);
        }
    }
    assert_eq!(fixture.ready(false).read_simple(0, 1), [0]);
    assert_eq!(served.read_simple(0, 1), [0]);
}

#[test]
fn a_client_that_reads_nothing_in_the_handshake_is_closed_in_time() {
    let mut exports = ExportTable::new();
    for number in 0..200 {
        exports = exports.with(&format!("{number}"), &"long ".repeat(200), device());
    }
    let handshake_timeout = Duration::from_millis(300);
    let config = ServerConfig { handshake_timeout, ..ServerConfig::default() };
    let fixture = Fixture::exporting(exports, config);
    let mut deaf = fixture.raw();
    // More answers than fit between the two: the server waits in sending.
    for _ in 0..60 {
        deaf.option(option::LIST, &[]);
    }
    wait_until("it is closed", || fixture.server().connection_count() == 0);
}

#[test]
fn the_limit_counts_those_who_are_served_and_drops_none_of_them() {
    let fixture = Fixture::with(device(), small());
    let mut halfway = fixture.raw();
    let mut served: Vec<Raw> = (0..3).map(|_| fixture.ready(false)).collect();
    assert!(Raw::connect(fixture.socket()).is_closed(), "refused on arrival");
    halfway.option(option::GO, &info_query("", &[]));
    assert!(halfway.is_closed(), "and at the end of the handshake");
    for raw in &mut served {
        assert_eq!(raw.read_simple(0, 1), [0]);
    }
}

/// A client with another address of this machine.
fn from_elsewhere(server: SocketAddr) -> TcpStream {
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&client, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    connect(&client, &server).unwrap();
    client.into()
}

#[test]
fn one_address_takes_no_places_from_another() {
    let listeners = vec!["tcp:127.0.0.1:0".parse().unwrap()];
    let fixture = Fixture::with(device(), ServerConfig { listeners, ..small() });
    let ListenAddr::Tcp { port, .. } = fixture.server().addresses()[0].clone() else {
        panic!("TCP comes first")
    };
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // The first to come, and slower than all of the others.
    let mut slow = Raw::over_tcp(server);
    let crowd: Vec<TcpStream> = (0..30).map(|_| from_elsewhere(server)).collect();
    wait_until("the crowd was taken in", || {
        let gone = |stream: &&TcpStream| {
            stream.set_nonblocking(true).unwrap();
            let mut greeting = [0; 64];
            // The greeting and then the end: it had a place and lost it.
            loop {
                match std::io::Read::read(&mut &**stream, &mut greeting) {
                    Ok(0) => return true,
                    Ok(_) => {}
                    Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
                }
            }
        };
        crowd.iter().filter(gone).count() >= 20
    });
    slow.greet();
    slow.go();
    assert_eq!(slow.read_simple(0, 1), [0]);
}

#[test]
fn a_unix_socket_is_its_owners_or_its_groups() {
    use std::os::unix::fs::MetadataExt as _;
    let own = std::fs::metadata(tempfile::tempdir().unwrap().path()).unwrap().gid();
    for (group, mode) in [(None, 0o600), (Some(Group(own)), 0o660)] {
        let config = ServerConfig { socket_group: group, ..ServerConfig::default() };
        let fixture = Fixture::with(device(), config);
        let found = std::fs::metadata(fixture.socket()).unwrap();
        assert_eq!((found.mode() & 0o777, found.gid()), (mode, own));
        assert_eq!(fixture.ready(false).read_simple(0, 1), [0]);
    }
}
