//! The server is killed, and what was acknowledged is there: for clients that connect again, and
//! for those of qemu, whose connection outlives the server.
//! Room: onefold.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::harness::{PATIENCE, Sandbox, Server, nbdsh, run, tool};
use super::ssd;

#[test]
fn kill_after_kill_loses_nothing_that_was_acknowledged() {
    let sandbox = Sandbox::new();
    let mut more: &[&str] = &["--size", "16M"];
    for round in 0..6 {
        let server = sandbox.serve("pool", more);
        more = &[];
        let script = format!(
            "for n in range({round}):\n  for k in range(50):\n    \
             assert h.pread(4096, (n * 50 + k) * 4096) == bytes([n + 1, k]) * 2048, (n, k)\n\
             for k in range(50):\n  \
             h.pwrite(bytes([{round} + 1, k]) * 2048, ({round} * 50 + k) * 4096)\n\
             print('done')"
        );
        let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", &script]));
        assert_eq!(said.text(), "done\n", "round {round}: {}", said.err);
        server.kill();
    }
}

/// `qemu-nbd` between a client and a server: it connects again and sends nothing a second time.
struct Qemu {
    child: Child,
    uri: String,
}

impl Qemu {
    fn between(sandbox: &Sandbox, export: &str, delay_s: u64) -> Self {
        let (from, to) = (sandbox.text("qemu.sock"), sandbox.text("socket"));
        let image = format!(
            "driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={to},\
             file.export={export},file.reconnect-delay={delay_s}"
        );
        let child = Command::new("qemu-nbd")
            .args(["--socket", &from, "--image-opts", &image])
            .stderr(Stdio::null())
            .spawn()
            .expect("qemu-nbd is needed (qemu-utils)");
        let this = Self { child, uri: format!("nbd+unix:///?socket={from}") };
        let until = Instant::now() + PATIENCE;
        while !sandbox.path("qemu.sock").exists() {
            assert!(Instant::now() < until, "qemu-nbd never listened");
            std::thread::sleep(Duration::from_millis(10));
        }
        this
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every second block is new, the others are the same as one that is already there.
const CLIENT: &str = "
import hashlib, sys
def content(kind, k):
    return hashlib.sha256(b'%s %d' % (kind, k if k % 2 else k % 16)).digest() * 128
for k in range(256):
    h.pwrite(content(b'old', k), k * 4096)
h.flush()
for k in range(256):
    h.pwrite(content(b'new', k) if k % 8 else content(b'old', k + 2), k * 4096)
print('acknowledged', flush=True)
sys.stdin.readline()
h.flush()
old = [k for k in range(256)
       if h.pread(4096, k * 4096) != (content(b'new', k) if k % 8 else content(b'old', k + 2))]
print(len(old), 'of 256 blocks are old', flush=True)
";

/// The client of a qemu whose server is killed and started again between write and flush.
fn flush_after_kill(sandbox: &Sandbox, export: &str, serve: impl Fn() -> Server) {
    let server = serve();
    let qemu = Qemu::between(sandbox, export, PATIENCE.as_secs());
    let mut client = nbdsh(&["-u", &qemu.uri, "-c", CLIENT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nbdsh is needed");
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "acknowledged");
    server.kill();
    let server = serve();
    client.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().expect("an answer").unwrap(), "0 of 256 blocks are old");
    assert!(client.wait().unwrap().success());
    drop(qemu);
    server.stop();
}

#[test]
fn a_flush_through_qemu_after_a_kill_tells_the_truth_about_a_pool() {
    let sandbox = Sandbox::new();
    let make = ["serve", "pool", "--size", "16M", "--run", "true"];
    sandbox.ok(&make);
    flush_after_kill(&sandbox, "main", || sandbox.serve("pool", &[]));
    sandbox.check("pool");
}

#[test]
fn a_flush_through_qemu_after_a_kill_tells_the_truth_about_a_drive() {
    let sandbox = Sandbox::new();
    let drive = [&ssd::SMALL[..], &ssd::SHARING].concat();
    flush_after_kill(&sandbox, "", || ssd::serve(&sandbox, &drive));
}

#[test]
fn who_only_looks_at_a_killed_pool_is_told_what_is_not_shown() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    let write = "h.pwrite(b'x' * 65536, 0)";
    assert_eq!(run(&mut nbdsh(&["-u", &server.uri("main"), "-c", write])).code, Some(0));
    server.kill();
    let told = |said: &str| said.contains("not shown here");
    let status = ["pool", "status", "pool"];
    assert!(told(&sandbox.ok(&status).err));
    let read_only = ["serve", "pool", "--read-only", "--run", "true"];
    assert!(told(&sandbox.ok(&read_only).err));
    sandbox.ok(&["serve", "pool", "--run", "true"]);
    let said = sandbox.ok(&status);
    assert!(!told(&said.err), "{}", said.err);
    assert!(said.text().contains(", generation 1\n"), "{}", said.text());
}

/// Write without a flush, and lose it: the server dies, and its memory with it.
fn lose_writes(sandbox: &Sandbox, server: Server, export: &str) {
    let write = "h.pwrite(b'x' * 65536, 0)";
    assert_eq!(run(&mut nbdsh(&["-u", &server.uri(export), "-c", write])).code, Some(0));
    server.kill();
    sandbox.forget_memory();
}

/// What a client of this export is told: by qemu, which shows what the server says.
fn connect(server: &Server, export: &str) -> Result<(), String> {
    let read = ["-f", "raw", "-c", "read 0 4096", "-c", "flush", &server.uri(export)];
    let said = run(Command::new("qemu-io").args(read));
    if said.code == Some(0) { Ok(()) } else { Err(said.err) }
}

#[test]
fn after_a_loss_the_guard_lets_in_who_knows_of_it() {
    let sandbox = Sandbox::new();
    let guard = ["--guard-reconnect"];
    let server = sandbox.serve("pool", &["--size", "16M", "--guard-reconnect"]);
    connect(&server, "main").unwrap();
    connect(&server, "main@g1").unwrap();
    assert!(connect(&server, "main@g2").unwrap_err().contains("it is 1 now"));
    lose_writes(&sandbox, server, "main");

    let server = sandbox.serve("pool", &guard);
    for export in ["main", ""] {
        let refused = connect(&server, export).unwrap_err();
        assert!(refused.contains("--accept-loss 2"), "{refused}");
    }
    assert!(connect(&server, "main@g1").unwrap_err().contains("it is 2 now"));
    connect(&server, "main@g2").unwrap();
    server.wait_for_log("a client is refused");
    let list = tool("nbdinfo", &["--list", "--json", &server.uri("")]);
    assert_eq!(list.json()["exports"][0]["export-name"], "main@g2", "{}", list.text());
    server.stop();
    let status = sandbox.status("pool");
    assert_eq!(status["generation"], serde_json::json!({ "number": 2, "accepted": 1 }));

    let said = sandbox.onefold(&["serve", "pool", "--accept-loss", "3", "--run", "true"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("there is no 3"), "{}", said.err);
    let server = sandbox.serve("pool", &["--guard-reconnect", "--accept-loss", "2"]);
    connect(&server, "main").unwrap();
    server.stop();
    let server = sandbox.serve("pool", &guard);
    connect(&server, "main").unwrap();
    lose_writes(&sandbox, server, "main");

    // The number that was accepted is not the one that is.
    let server = sandbox.serve("pool", &["--guard-reconnect", "--accept-loss", "2"]);
    assert!(connect(&server, "main").unwrap_err().contains("--accept-loss 3"));
    server.stop();
    // Whoever serves without the guard accepts.
    let server = sandbox.serve("pool", &[]);
    connect(&server, "main").unwrap();
    server.stop();
    assert_eq!(sandbox.status("pool")["generation"]["accepted"], 3);
}

#[test]
fn a_flush_through_qemu_after_a_loss_fails_under_the_guard() {
    let sandbox = Sandbox::new();
    let drive = [&ssd::SMALL[..], &["--guard-reconnect"]].concat();
    let server = ssd::serve(&sandbox, &drive);
    let qemu = Qemu::between(&sandbox, "", 2);
    let script = "
import sys
h.pwrite(b'x' * 65536, 0)
print('acknowledged', flush=True)
sys.stdin.readline()
try:
    h.flush()
    print('a flush that lies', flush=True)
except nbd.Error as error:
    print('refused', flush=True)
";
    let mut client = nbdsh(&["-u", &qemu.uri, "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nbdsh is needed");
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "acknowledged");
    server.kill();
    sandbox.forget_memory();
    let server = ssd::serve(&sandbox, &drive);
    client.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().expect("an answer").unwrap(), "refused");
    assert!(client.wait().unwrap().success());
    drop(qemu);
    assert!(connect(&server, "").unwrap_err().contains("'@g2'"));
    connect(&server, "@g2").unwrap();
    server.stop();
    let smart = sandbox.ok(&["ssd", "smart", "drive", "--json"]).json();
    assert_eq!(smart["generation"], serde_json::json!({ "number": 2, "accepted": 1 }));
}

/// Pick an export over this socket by hand; the server's bytes after the option, to its next wait.
fn pick(socket: &Path, option: u32, data: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    let parts = [
        &3u32.to_be_bytes()[..],
        b"IHAVEOPT",
        &option.to_be_bytes(),
        &(data.len() as u32).to_be_bytes(),
        data,
    ];
    stream.write_all(&parts.concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn the_guard_refuses_on_the_wire_by_policy_and_by_closing() {
    const EXPORT_NAME: u32 = 1;
    const GO: u32 = 7;
    const ERR_POLICY: u32 = 0x8000_0002;
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    lose_writes(&sandbox, server, "main");
    let server = sandbox.serve("pool", &["--guard-reconnect"]);
    let socket = sandbox.path("socket");
    let go = |name: &str| {
        let query = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat();
        pick(&socket, GO, &query)
    };
    for (name, told) in [("main", "--accept-loss 2"), ("", "--accept-loss 2"), ("main@g1", "2 now")]
    {
        let answer = go(name);
        let head = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &GO.to_be_bytes()].concat();
        assert_eq!(answer[..12], head, "{name}");
        assert_eq!(answer[12..16], ERR_POLICY.to_be_bytes(), "{name}");
        assert_eq!(answer[16..20], (answer.len() as u32 - 20).to_be_bytes(), "{name}: no more");
        let why = std::str::from_utf8(&answer[20..]).unwrap();
        assert!(why.contains(told), "{name}: {why}");
        assert_eq!(pick(&socket, EXPORT_NAME, name.as_bytes()), b"", "{name}: no export at all");
    }
    let size = (16_u64 << 20).to_be_bytes();
    assert_eq!(pick(&socket, EXPORT_NAME, b"main@g2")[..8], size);
    assert_eq!(go("main@g2")[22..30], size, "after the reply's head and the kind of information");
    server.stop();
}

#[test]
fn what_a_removed_store_left_goes_with_the_next_start_and_what_a_killed_one_left_stays() {
    let sandbox = Sandbox::new();
    let write = "h.pwrite(b'x' * 65536, 0)";
    for pool in ["gone", "killed"] {
        let server = sandbox.serve(pool, &["--size", "16M"]);
        assert_eq!(run(&mut nbdsh(&["-u", &server.uri("main"), "-c", write])).code, Some(0));
        server.kill();
    }
    assert_eq!(sandbox.remembered(), 2);
    // Who only looks removes nothing.
    std::fs::remove_dir_all(sandbox.path("gone")).unwrap();
    sandbox.status("killed");
    assert_eq!(sandbox.remembered(), 2);
    ssd::serve(&sandbox, &ssd::SMALL).stop();
    assert_eq!(sandbox.remembered(), 1, "a drive's start does it for a pool, too");
    let server = sandbox.serve("killed", &[]);
    let read = "assert h.pread(65536, 0) == b'x' * 65536";
    assert_eq!(run(&mut nbdsh(&["-u", &server.uri("main"), "-c", read])).code, Some(0));
    server.stop();
    assert_eq!(sandbox.remembered(), 0);
}
