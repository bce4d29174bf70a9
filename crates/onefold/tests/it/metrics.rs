//! `--metrics`: what Prometheus reads is what `pool status` says, and strangers see nothing.
//! Room: onefold.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{PATIENCE, Sandbox, Server, nbdsh, noise, run, tool};

/// Asks once, with these fields in the head; the status and the body.
pub fn asked(at: SocketAddr, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{fields}");
    let all = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(all.as_bytes());
    let mut answer = Vec::new();
    let mut piece = [0; 16_384];
    // Not every server closes when it was asked to.
    while !is_whole(&answer) {
        match stream.read(&mut piece) {
            Ok(length @ 1..) => answer.extend(&piece[..length]),
            _ => break,
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), body.to_owned())
}

/// Whether an answer has come, as far as its length is told.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

/// Look at an address as a local client does.
pub fn look(at: SocketAddr, path: &str) -> String {
    let (status, body) = asked(at, "GET", path, "Host: localhost\r\n", "");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Whether a program is there; a test without it says so.
pub fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is missing, which Debian has in `{package}`");
    }
    found
}

/// A pool that is served and seen, with 4 MiB in it of which a quarter is new.
pub fn seen(sandbox: &Sandbox) -> Server {
    let more = ["--metrics", "127.0.0.1:0", "--background", "off", "--size", "64M"];
    let server = sandbox.serve("pool", &more);
    fs::write(sandbox.path("data"), noise(3, 1 << 20).repeat(4)).unwrap();
    let script = format!(
        "h.connect_uri('{}')\nd = open('{}', 'rb').read()\n\
         for at in range(0, len(d), 65536): h.pwrite(d[at:at+65536], at)\n\
         h.pread(65536, 0)\nh.flush()",
        server.uri("main"),
        sandbox.text("data")
    );
    let said = run(&mut nbdsh(&["-c", &script]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    server
}

/// A member of a document, `.` between names.
pub fn member<'a>(document: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(document, |found, name| &found[name])
}

#[test]
fn every_number_is_that_of_status_and_promtool_has_nothing_to_say() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let at = server.seen_at();
    let status = sandbox.status("pool");
    assert_eq!(status["logical_bytes"], 4 << 20, "{status}");
    let told: Value = serde_json::from_str(&look(at, "/api/v1/metrics")).unwrap();
    let value = |name: &str| {
        let metrics = told["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == name).map(|metric| &metric["value"])
    };
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
    let page = page.unwrap().replace("\n  ", " ");
    let mut compared = 0;
    for line in page.lines().filter(|line| line.starts_with("- `onefold_")) {
        let mut words = line.split('`').skip(1).step_by(2);
        let name = words.next().unwrap();
        let Some((_, path)) = line.split_once("In `--json`: `") else { continue };
        let path = path.trim_end_matches("`.");
        // Memory moves while nobody asks for anything.
        if name.contains("memory") && !name.contains("_max_") || name.starts_with("onefold_cache_")
        {
            continue;
        }
        let told = value(name).unwrap_or_else(|| panic!("{name} is told"));
        if let Some(path) = path.strip_prefix("volumes[].") {
            assert_eq!(told[0]["value"], status["volumes"][0][path], "{name}");
        } else {
            let (told, shown) = (told.as_f64().unwrap(), member(&status, path).as_f64());
            assert!(shown.is_some_and(|shown| (told - shown).abs() < 1e-9), "{name} {shown:?}");
        }
        compared += 1;
    }
    assert!(compared > 25, "{compared} are shown in both");
    let text = look(at, "/metrics");
    for line in [
        "onefold_export_requests_total{export=\"main\",verb=\"write\"} 64",
        "onefold_export_bytes_total{export=\"main\",verb=\"read\"} 65536",
        "onefold_export_request_duration_seconds_count{export=\"main\",verb=\"flush\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    if has("promtool", "prometheus") {
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = promtool.stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = said + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.trim().is_empty(), "{said}");
    }
    server.stop();
}

#[test]
fn a_prometheus_scrapes_it() {
    if !has("prometheus", "prometheus") {
        return;
    }
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let settings = format!(
        "global: {{scrape_interval: 200ms}}\nscrape_configs:\n  - job_name: onefold\n    \
         static_configs: [{{targets: ['{}']}}]\n",
        server.seen_at()
    );
    fs::write(sandbox.path("prometheus.yml"), settings).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", sandbox.text("prometheus.yml")))
        .arg(format!("--storage.tsdb.path={}", sandbox.text("tsdb")))
        .arg(format!("--web.listen-address={free}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asked_of_it = |query: &str| {
        let mut stream = TcpStream::connect(free).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let head = "HTTP/1.0\r\nHost: localhost\r\n\r\n";
        write!(stream, "GET /api/v1/query?query={query} {head}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        body["data"]["result"][0]["value"][1].as_str()?.parse::<f64>().ok()
    };
    let until = Instant::now() + PATIENCE;
    let wanted = [
        ("onefold_pool_logical_bytes", (4 << 20).into()),
        ("onefold_export_requests_total%7Bverb=%22write%22%7D", 64.0),
        ("onefold_export_request_duration_seconds_count%7Bverb=%22write%22%7D", 64.0),
        ("up", 1.0),
    ];
    for (query, value) in wanted {
        while asked_of_it(query) != Some(value) {
            assert!(Instant::now() < until, "{query}: {:?}", asked_of_it(query));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    server.stop();
}

#[test]
fn strangers_changes_and_open_addresses_are_refused() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let at = server.seen_at();
    let local = "Host: localhost\r\n";
    for (method, path, fields, expected) in [
        ("GET", "/", "Host: evil.example\r\n", 421),
        ("GET", "/metrics", "", 400),
        ("POST", "/api/v1/volume/create", local, 405),
        ("PUT", "/api/v1/data/main/bytes?offset=0", local, 405),
        ("GET", "/api/v1/data/main/bytes?offset=0&length=512", local, 404),
        ("GET", "/api/v1/volume/create", local, 403),
        ("GET", "/../../../etc/passwd", local, 404),
        ("GET", "/metrics/..%2f..%2fetc/passwd", local, 404),
        ("GET", "/api/v1/pool/status", local, 200),
        ("GET", "/api/v1/openapi.json", local, 200),
    ] {
        let (status, body) = asked(at, method, path, fields, "");
        assert_eq!(status, expected, "{method} {path}: {body}");
    }
    // An open page does not keep the server from stopping.
    let mut open = TcpStream::connect(at).unwrap();
    open.write_all(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 64];
    open.read_exact(&mut first).unwrap();
    server.stop();
    // Other machines could reach this.
    let refused = |args: &[&str]| {
        let said = sandbox.onefold(&[&["serve", "pool", "--run", "true"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        said.err
    };
    assert!(refused(&["--metrics", "0.0.0.0:0"]).contains("--metrics-token-file"));
    assert!(refused(&["--metrics", "nonsense"]).contains("127.0.0.1:9469"));
    fs::write(sandbox.path("token"), "0123456789abcdef0123\n").unwrap();
    let token = ["--metrics", "0.0.0.0:0", "--metrics-token-file", "token"];
    fs::set_permissions(sandbox.path("token"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&token).contains("chmod o="));
    fs::set_permissions(sandbox.path("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let server = sandbox.serve("pool", &token);
    let at = SocketAddr::from(([127, 0, 0, 1], server.seen_at().port()));
    assert_eq!(asked(at, "GET", "/metrics", local, "").0, 401);
    let known = "Authorization: Bearer 0123456789abcdef0123\r\n";
    assert_eq!(asked(at, "GET", "/metrics", known, "").0, 200);
    server.stop();
    fs::write(sandbox.path("token"), "short").unwrap();
    assert!(refused(&token).contains("16 to 1024"));
}

#[test]
fn a_drive_is_seen_with_its_blocks() {
    let sandbox = Sandbox::new();
    let args = ["ssd", "serve", "--dir", "drive", "--preset", "park-shin", "--listen"];
    let listen = format!("unix:{}", sandbox.text("socket"));
    let seen = [&args[..], &[&listen, "--metrics", "127.0.0.1:0"]].concat();
    let server = Server::start(sandbox.command(&seen), sandbox.path("socket"));
    let at = server.seen_at();
    fs::write(sandbox.path("data"), noise(5, 1 << 20)).unwrap();
    tool("nbdcopy", &[&sandbox.text("data"), &server.uri("")]);
    let text = look(at, "/metrics");
    let written = "onefold_drive_host_written_bytes_total 1048576";
    assert!(text.lines().any(|line| line == written), "{text}");
    assert!(text.contains("onefold_drive_operations_total{kind=\"program\",cause=\"host\"}"));
    let mut open = TcpStream::connect(at).unwrap();
    open.set_read_timeout(Some(PATIENCE)).unwrap();
    open.write_all(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut told = String::new();
    while !told.contains("\n\n") || !told.contains("data: ") {
        let mut piece = [0; 4096];
        let length = open.read(&mut piece).unwrap();
        assert!(length > 0);
        told.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    let event = told.split_once("data: ").unwrap().1.split("\n\n").next().unwrap();
    let event: Value = serde_json::from_str(event).unwrap();
    let states = event["drive"]["states"].as_str().unwrap();
    let (cells, each) = (states.len() as u64, event["drive"]["blocks_per_cell"].as_u64().unwrap());
    assert!(states.bytes().all(|state| b"foubcv".contains(&state)), "{states}");
    assert!(cells <= 4096 && event["drive"]["blocks"].as_u64().unwrap().div_ceil(each) == cells);
    let filled = event["drive"]["written"].as_array().unwrap().iter().filter(|share| **share != 0);
    assert!(filled.count() > 0, "what was written is seen");
    assert_eq!(states.len(), event["drive"]["written"].as_array().unwrap().len());
    assert!(look(at, "/").contains("drive drive"));
    server.stop();
}
