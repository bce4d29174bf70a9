//! Stopping: what was received is answered, what hangs is cut off.
//! Room: onefold-nbd.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::command;
use onefold_nbd::{ExportTable, Handed, Server, ServerConfig, ServerError, ShutdownReport};

use crate::device::{BLOCK, Mood, TestDevice};
use crate::raw::{Fixture, PATIENCE, Raw, wait_until};

#[test]
fn requests_in_flight_finish_and_idle_clients_are_closed() {
    let device = Arc::new(TestDevice::new(1 << 20));
    device.make_flush_wait();
    let mut fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut idle = fixture.ready(false);
    let mut silent = fixture.raw();
    let mut busy = fixture.ready(false);
    busy.request(command::FLUSH, 0, 1, 0, 0);
    wait_until("the flush has begun", || device.waiting.load(Ordering::SeqCst) == 1);
    let server = fixture.server.take().unwrap();
    let handle = server.handle();
    let stopping = std::thread::spawn(move || server.shutdown(PATIENCE));
    assert!(idle.is_closed());
    assert!(silent.is_closed());
    wait_until("only the busy one is left", || handle.connection_count() == 1);
    device.open_gate();
    assert_eq!(busy.simple(), (0, 1));
    assert!(busy.is_closed());
    let report = stopping.join().unwrap();
    assert_eq!(report, ShutdownReport { closed_by_force: 0, still_running: 0 });
    assert!(!fixture.socket().exists());
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off() {
    let device = Arc::new(TestDevice::new(4 << 20));
    let mut fixture = Fixture::new(device);
    let mut stalled = fixture.ready(false);
    stalled.request(command::READ, 0, 1, 0, 4 << 20);
    assert_eq!(stalled.simple(), (0, 1), "the reply is on its way");
    let report = fixture.server.take().unwrap().shutdown(Duration::from_millis(50));
    assert_eq!(report, ShutdownReport { closed_by_force: 1, still_running: 0 });
}

#[test]
fn a_device_that_hangs_is_left_behind() {
    let device = Arc::new(TestDevice::new(1 << 20));
    device.set_mood(3, Mood::Wait);
    let mut fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut raw = fixture.ready(false);
    raw.request(command::READ, 0, 1, 3 * BLOCK, 1);
    wait_until("the read has begun", || device.waiting.load(Ordering::SeqCst) == 1);
    let report = fixture.server.take().unwrap().shutdown(Duration::from_millis(50));
    assert_eq!(report, ShutdownReport { closed_by_force: 1, still_running: 1 });
    device.open_gate();
}

/// Somebody at a socket that nobody accepts from waits in its queue.
#[test]
fn sockets_that_were_handed_over_go_on_listening_when_the_server_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handed");
    let unix = Arc::new(UnixListener::bind(&path).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    let tcp = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let at = tcp.local_addr().unwrap();
    let handed = vec![Handed::Unix(Arc::clone(&unix)), Handed::Tcp(Arc::clone(&tcp))];
    for _ in 0..2 {
        let config = ServerConfig { handed: handed.clone(), ..ServerConfig::default() };
        let mut fixture = Fixture::with(Arc::new(TestDevice::new(1 << 20)), config);
        let addresses = fixture.server().addresses();
        assert_eq!(addresses[0].to_string(), format!("unix:{}", path.display()));
        assert_eq!(addresses[1].to_string(), format!("tcp:{at}"));
        // Both clients are served, the one over TCP by whoever accepts first.
        let mut raw = Raw::connect(path.clone());
        raw.greet();
        let mut greeting = [0; 8];
        TcpStream::connect(at).unwrap().read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGIC");
        fixture.server.take().unwrap().shutdown(PATIENCE);
        assert!(path.exists() && !fixture.socket().exists());
        let _waiting = UnixStream::connect(&path).unwrap();
        let _waiting = TcpStream::connect(at).unwrap();
        unix.accept().unwrap();
        tcp.accept().unwrap();
    }
}

#[test]
fn a_socket_that_lets_everybody_in_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handed");
    let unix = Arc::new(UnixListener::bind(&path).unwrap());
    let name = SocketAddr::from_abstract_name(path.as_os_str().as_encoded_bytes()).unwrap();
    let nameless = Arc::new(UnixListener::bind_addr(&name).unwrap());
    let tcp = Arc::new(TcpListener::bind("0.0.0.0:0").unwrap());
    let start = |handed: Handed| {
        let config = ServerConfig { handed: vec![handed], ..ServerConfig::default() };
        Server::start(Arc::new(ExportTable::new()), &config).map(drop)
    };
    for (mode, expected) in [(0o666, false), (0o602, false), (0o664, true)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        match start(Handed::Unix(Arc::clone(&unix))) {
            Ok(()) => assert!(expected, "{mode:o}"),
            Err(ServerError::OpenToAll(at)) => assert!(at == path && !expected, "{mode:o}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(matches!(start(Handed::Unix(nameless)), Err(ServerError::Handed { .. })));
    assert!(matches!(start(Handed::Tcp(tcp)), Err(ServerError::Unsafe(_))));
}
