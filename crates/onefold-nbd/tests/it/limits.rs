//! Limits: clients that stall, clients without number, addresses that are not safe.
//! Room: onefold-nbd.

use std::sync::Arc;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::command;
use onefold_nbd::{ExportTable, ListenAddr, Server, ServerConfig, ServerError};

use crate::device::TestDevice;
use crate::raw::{Fixture, Raw, request, wait_until};

fn device() -> Arc<dyn BlockDevice> {
    Arc::new(TestDevice::new(1 << 20))
}

#[test]
fn clients_beyond_the_limit_are_closed_and_room_is_reused() {
    let config = ServerConfig { max_connections: 3, ..ServerConfig::default() };
    let fixture = Fixture::with(device(), config);
    let mut served: Vec<Raw> = (0..3).map(|_| fixture.ready(false)).collect();
    assert!(Raw::connect(fixture.socket()).is_closed());
    assert_eq!(fixture.server().connection_count(), 3);
    for raw in &mut served {
        assert_eq!(raw.read_simple(0, 1), [0]);
    }
    served.pop();
    wait_until("there is room again", || fixture.server().connection_count() == 2);
    assert_eq!(fixture.ready(false).read_simple(0, 1), [0]);
}

#[test]
fn hundreds_of_clients_are_served_at_once() {
    let config = ServerConfig { max_connections: 300, ..ServerConfig::default() };
    let fixture = Fixture::with(device(), config);
    let mut served: Vec<Raw> = (0..300).map(|_| fixture.ready(false)).collect();
    for (number, raw) in served.iter_mut().enumerate() {
        raw.write(0, 1, number as u64 * 8, &(number as u64).to_be_bytes());
    }
    for raw in &mut served {
        assert_eq!(raw.simple(), (0, 1));
    }
    for (number, raw) in served.iter_mut().enumerate() {
        assert_eq!(raw.read_simple(number as u64 * 8, 8), (number as u64).to_be_bytes());
    }
    drop(served);
    wait_until("all have left", || fixture.server().connection_count() == 0);
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    // Long enough for the one that is served, on a machine that does other things.
    let handshake_timeout = Duration::from_secs(2);
    let config = ServerConfig { handshake_timeout, ..ServerConfig::default() };
    let fixture = Fixture::with(device(), config);
    let mut served = fixture.ready(false);
    let mut silent = Raw::connect(fixture.socket());
    let mut dripping = fixture.raw();
    // Bytes that come one by one do not buy more time.
    while dripping.try_send(b"IHAVEOPT\0\0\0\x63\0\0\0\0").is_ok() {
        std::thread::yield_now();
    }
    assert!(silent.is_closed());
    assert_eq!(served.read_simple(0, 1), [0], "the limit is on the handshake alone");
}

#[test]
fn a_client_that_takes_no_replies_is_closed() {
    let write_timeout = Duration::from_secs(2);
    let config = ServerConfig { write_timeout, ..ServerConfig::default() };
    let fixture = Fixture::with(device(), config);
    let mut other = fixture.ready(false);
    let mut stalled = fixture.ready(false);
    let reads: Vec<u8> =
        (0..64).flat_map(|cookie| request(command::READ, 0, cookie, 0, 1 << 20)).collect();
    stalled.send(&reads);
    assert_eq!(other.read_simple(0, 1), [0]);
    wait_until("it is closed", || fixture.server().connection_count() == 1);
    assert_eq!(other.read_simple(0, 1), [0]);
}

#[test]
fn addresses_that_others_reach_are_refused_unless_allowed() {
    let start = |address: &str, allow_insecure| {
        let listeners = vec![address.parse().unwrap()];
        let config = ServerConfig { listeners, allow_insecure, ..ServerConfig::default() };
        Server::start(Arc::new(ExportTable::new().with("main", "", device())), &config)
    };
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0"] {
        let refused = start(address, false).err().expect("not safe");
        assert!(matches!(refused, ServerError::Unsafe(_)), "{refused}");
    }
    assert!(start("tcp:0.0.0.0:0", true).is_ok());
    let server = start("tcp:127.0.0.1:0", false).unwrap();
    let ListenAddr::Tcp { port, .. } = server.addresses()[0].clone() else { panic!("TCP") };
    assert_ne!(port, 0, "the port that was picked is told");
    let refused = start(&format!("tcp:127.0.0.1:{port}"), false).err().expect("in use");
    assert!(matches!(refused, ServerError::Bind { .. }), "{refused}");
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd.sock");
    let listeners = vec![ListenAddr::Unix(path.clone())];
    let config = ServerConfig { listeners, ..ServerConfig::default() };
    let start = || Server::start(Arc::new(ExportTable::new().with("main", "", device())), &config);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let server = start().unwrap();
    assert!(start().is_err(), "another server listens there");
    drop(server);
    assert!(!path.exists(), "tidied up");
    std::fs::write(&path, "a file").unwrap();
    assert!(start().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}
