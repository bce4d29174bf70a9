//! Disks of virtual machines: what `serve --vhost-user` makes of the sockets. How requests are
//! served is tried where that is, with a driver of queues (`onefold-vhost`).
//! Room: onefold.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::harness::{Sandbox, Server};
use super::ssd;

/// A monitor that only asks.
struct Monitor(UnixStream);

impl Monitor {
    fn at(path: &Path) -> Self {
        Self(UnixStream::connect(path).unwrap())
    }

    /// Ask; the answer without its header. `None` if the connection has ended.
    fn ask(&mut self, number: u32, payload: &[u8]) -> Option<Vec<u8>> {
        let mut message = [number, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        message.extend(payload);
        self.0.write_all(&message).ok()?;
        let mut header = [0; 12];
        self.0.read_exact(&mut header).ok()?;
        let mut answer = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
        self.0.read_exact(&mut answer).ok()?;
        Some(answer)
    }

    /// How many bytes the disk has (`GET_CONFIG`).
    fn size(&mut self) -> Option<u64> {
        let asked = [[0u32, 60, 0].map(u32::to_le_bytes).concat(), vec![0; 60]].concat();
        let answer = self.ask(24, &asked)?;
        Some(u64::from_le_bytes(answer[12..20].try_into().unwrap()) * 512)
    }

    /// Whether it is told that it may not write (`GET_FEATURES`).
    fn is_read_only(&mut self) -> bool {
        let features = self.ask(1, &[]).unwrap();
        u64::from_le_bytes(features.try_into().unwrap()) & 1 << 5 != 0
    }
}

/// Serve with these sockets and nothing else.
fn serve(sandbox: &Sandbox, more: &[&str]) -> Server {
    Server::start(sandbox.command(&[&["serve", "pool"], more].concat()), sandbox.path("nothing"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn each_socket_has_its_volume_in_its_size_and_goes_with_the_server() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "main", "--size", "16M"]);
    sandbox.ok(&["volume", "create", "pool", "vm1", "--size", "32M"]);
    sandbox.ok(&["volume", "snapshot", "pool", "vm1@before"]);
    let places = ["vm=main", "vm1=vm1", "old=vm1@before"];
    let sockets = places.map(|place| format!("--vhost-user={}/{place}", sandbox.text("")));
    let sockets = sockets.each_ref().map(String::as_str);
    let server = serve(&sandbox, &[&sockets[..], &["--metrics", "127.0.0.1:0"]].concat());
    assert!(server.listening_at("vhost-user:").ends_with("/vm"));
    let paths = ["vm", "vm1", "old"].map(|name| sandbox.path(name));
    assert_eq!(paths.each_ref().map(|path| mode(path)), [0o600; 3]);
    let mut monitors = paths.each_ref().map(|path| Monitor::at(path));
    let sizes = monitors.each_mut().map(|monitor| monitor.size().unwrap() >> 20);
    assert_eq!(sizes, [16, 32, 32]);
    let read_only = monitors.each_mut().map(Monitor::is_read_only);
    assert_eq!(read_only, [false, false, true]);
    let metrics = scraped(&server);
    assert!(metrics.contains("\nonefold_connections 3\n"), "{metrics}");
    // Nobody takes the volume from under a machine, and it may grow under one.
    assert_ne!(sandbox.onefold(&["volume", "delete", "pool", "vm1"]).code, Some(0));
    sandbox.ok(&["volume", "resize", "pool", "vm1", "--size", "48M"]);
    assert_eq!(monitors[1].size(), Some(48 << 20));
    server.stop();
    assert!(paths.iter().all(|path| !path.exists()));
    assert_eq!(monitors[0].size(), None);
}

/// What the server says of its metrics.
fn scraped(server: &Server) -> String {
    let host = server.seen_at();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_volume_that_is_not_there_is_named_and_comes_when_it_is_made() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "main", "--size", "16M"]);
    let socket = sandbox.path("vm");
    let place = format!("{}=later", socket.display());
    for (named, missing) in [(place.clone(), true), (format!("{}=main", socket.display()), false)] {
        let said = sandbox.ok(&["serve", "pool", "--vhost-user", &named, "--run", "true"]);
        let told = said.err.contains("there is no volume 'later'");
        assert_eq!(told, missing, "{}", said.err);
    }
    let server = serve(&sandbox, &["--vhost-user", &place, "--read-only"]);
    assert_eq!(Monitor::at(&socket).size(), None);
    server.wait_for_log("there is no export 'later'");
    server.stop();
    let server = serve(&sandbox, &["--vhost-user", &place]);
    sandbox.ok(&["volume", "create", "pool", "later", "--size", "8M"]);
    let mut monitor = Monitor::at(&socket);
    assert_eq!(monitor.size(), Some(8 << 20));
    assert!(!monitor.is_read_only());
    server.stop();
    let server = serve(&sandbox, &["--vhost-user", &place, "--read-only"]);
    assert!(Monitor::at(&socket).is_read_only());
    server.stop();
}

#[test]
fn an_emulated_drive_is_the_disk_of_a_machine_too() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("vm");
    let (plain, keep) = (socket.display().to_string(), format!("{}=keep", socket.display()));
    let start = |more: &[&str]| {
        let args = [&["ssd", "serve", "--dir", "drive"], more].concat();
        Server::start(sandbox.command(&args), sandbox.path("nothing"))
    };
    let refused = |more: &[&str]| {
        let said = sandbox.onefold(&[&["ssd", "serve", "--dir", "drive"], more].concat());
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("no export"), "{}", said.err);
        assert!(!socket.exists());
        said.err
    };
    let small = [&ssd::SMALL[..], &ssd::SHARING].concat();
    let bad = format!("{plain}=main");
    let said = refused(&[&small[..], &["--vhost-user", &bad]].concat());
    assert!(said.contains("'deduplicate' and 'keep'"), "{said}");
    assert!(!sandbox.path("drive").exists(), "made for nothing");
    let said = refused(&[&ssd::SMALL[..], &["--vhost-user", &keep]].concat());
    assert!(said.contains("one export without a name"), "{said}");
    let server = start(&[&small[..], &["--vhost-user", &keep]].concat());
    assert!(server.listening_at("vhost-user:").ends_with("/vm"));
    let size = Monitor::at(&socket).size().unwrap();
    server.stop();
    assert!(!socket.exists());
    refused(&["--vhost-user", &bad]);
    let server = start(&["--vhost-user", &plain, "--metrics", "127.0.0.1:0"]);
    let mut monitor = Monitor::at(&socket);
    assert_eq!(monitor.size(), Some(size));
    assert!(!monitor.is_read_only());
    let metrics = scraped(&server);
    assert!(metrics.contains("\nonefold_connections 1\n"), "{metrics}");
    server.stop();
}

#[test]
fn what_a_killed_server_left_is_replaced_and_a_file_is_not() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("vm");
    let place = socket.display().to_string();
    serve(&sandbox, &["--size", "16M", "--vhost-user", &place]).kill();
    assert!(socket.exists());
    let server = serve(&sandbox, &["--vhost-user", &place]);
    assert_eq!(Monitor::at(&socket).size(), Some(16 << 20));
    server.stop();
    fs::write(&socket, "mine").unwrap();
    let said = sandbox.onefold(&["serve", "pool", "--vhost-user", &place]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("is no socket"), "{}", said.err);
    assert_eq!(fs::read(&socket).unwrap(), b"mine");
    let said = sandbox.onefold(&["serve", "pool", "--vhost-user", "=main"]);
    assert!(said.err.contains("names no socket"), "{}", said.err);
}
