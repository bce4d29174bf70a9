//! Sockets that a service manager listens with and hands over.
//! Room: onefold.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::harness::{ONEFOLD, PATIENCE, Sandbox, Server, run, tool};
use super::ssd::SMALL;

/// `onefold` as `systemd-socket-activate` starts it once somebody connects.
fn activated(sandbox: &Sandbox, sockets: &[&str], names: &str, args: &[&str]) -> Command {
    let onefold = sandbox.command(args);
    let mut command = Command::new("systemd-socket-activate");
    for socket in sockets {
        command.args(["--listen", socket]);
    }
    command.arg(format!("--fdname={names}"));
    for (name, value) in onefold.get_envs() {
        if let Some(value) = value {
            command.arg(format!("--setenv={}={}", name.display(), value.display()));
        }
    }
    // It passes nothing on by itself, not even what is broken on purpose.
    for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("ONEFOLD_MUTANT")) {
        command.arg(format!("--setenv={name}={value}"));
    }
    command.arg(ONEFOLD).args(onefold.get_args().skip(2));
    command.current_dir(sandbox.path(""));
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Started by the first client, and served with all that was handed over.
fn comes_with_its_first_client(args: &[&str], export: &str) {
    let sandbox = Sandbox::new();
    let (socket, port) = (sandbox.text("socket"), free_port());
    let (tcp, seen) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port()));
    let sockets = [socket.as_str(), &tcp, &seen];
    let mut command = activated(&sandbox, &sockets, "door:door:metrics", args);
    command.stderr(Stdio::null());
    // The manager listens before the server is there, which has no say in who comes.
    let mut manager = command.spawn().expect("systemd-socket-activate is needed");
    let uri = format!("nbd+unix:///{export}?socket={socket}");
    while !sandbox.path("socket").exists() {
        assert!(manager.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let before = tool("nbdinfo", &["--size", &uri]);
    assert_eq!(
        before.text().trim(),
        tool("nbdinfo", &["--size", &format!("nbd://{tcp}/{export}")]).text().trim()
    );
    let metrics = tool("curl", &["--silent", "--fail", &format!("http://{seen}/metrics")]);
    assert!(metrics.text().contains("onefold_"), "{}", metrics.text());
    tool("kill", &["-TERM", &manager.id().to_string()]);
    assert_eq!(manager.wait().unwrap().code(), Some(0));
    // It is the manager's: the next server is found at the same place.
    assert!(sandbox.path("socket").exists());
}

#[test]
fn a_pool_comes_with_its_first_client() {
    comes_with_its_first_client(&["serve", "pool", "--size", "64M"], "main");
}

#[test]
fn a_drive_comes_with_its_first_client() {
    let args = [&["ssd", "serve", "--dir", "drive"], &SMALL[..]].concat();
    comes_with_its_first_client(&args, "");
}

/// A server that is started at once: somebody connects as soon as the socket is there, with the
/// mode that it is to have, and leaves.
fn with_a_client(sandbox: &Sandbox, mode: u32) -> std::thread::JoinHandle<()> {
    let socket = sandbox.path("socket");
    std::thread::spawn(move || {
        let until = Instant::now() + PATIENCE;
        let mode = || fs::Permissions::from_mode(mode);
        while fs::set_permissions(&socket, mode()).is_err() || UnixStream::connect(&socket).is_err()
        {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    })
}

#[test]
fn an_address_that_was_handed_over_is_not_opened_twice() {
    let sandbox = Sandbox::new();
    let socket = sandbox.text("socket");
    let listen = format!("unix:{socket}");
    let args = ["serve", "pool", "--size", "64M", "--listen", &listen];
    let client = with_a_client(&sandbox, 0o600);
    let server =
        Server::start(activated(&sandbox, &[&socket], "door", &args), sandbox.path("socket"));
    client.join().unwrap();
    assert_eq!(server.listening_at("unix:"), listen);
    tool("nbdinfo", &["--size", &server.uri("main")]);
    server.stop();
}

#[test]
fn what_nobody_should_have_handed_over_is_refused_by_its_name() {
    let sandbox = Sandbox::new();
    let socket = sandbox.text("socket");
    let refused = |sockets: &[&str], names: &str, mode: u32, more: &[&str]| {
        let args = [&["serve", "pool", "--run", "true"], more].concat();
        let client = with_a_client(&sandbox, mode);
        let said = run(&mut activated(&sandbox, sockets, names, &args));
        client.join().unwrap();
        fs::remove_file(&socket).unwrap();
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(!sandbox.path("pool").exists());
        said.err
    };
    let err = refused(&[&socket], "door", 0o606, &[]);
    assert!(err.contains("every user of this machine could connect"), "{err}");
    assert!(err.contains("SocketMode=0660"), "{err}");
    let everywhere = format!("0.0.0.0:{}", free_port());
    let err = refused(&[&socket, &everywhere], "door:door", 0o660, &[]);
    assert!(err.contains("can be reached from other machines"), "{err}");
    let err = refused(&[&socket, &everywhere], "door:metrics", 0o660, &[]);
    assert!(err.contains("everybody there could look"), "{err}");
    let err = refused(&[&socket], "metrics", 0o660, &[]);
    assert!(err.contains("socket 1 ('metrics') that was handed over is no TCP address"), "{err}");
    let seen = format!("127.0.0.1:{}", free_port());
    let err = refused(&[&socket, &seen], "door:metrics", 0o660, &["--metrics", "127.0.0.1:1"]);
    assert!(err.contains("was handed over at 127.0.0.1:"), "{err}");
}

#[test]
fn sockets_of_another_process_are_left_alone() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "pool", "--run", "true"]);
    let said = run(command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1"));
    assert_eq!(said.code, Some(0), "{}", said.err);
}
