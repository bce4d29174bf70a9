//! Clients that flood, hang, leave in the middle, or come twice.
//! Room: onefold-control.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use onefold_control::socket::{self, Bound};
use onefold_control::{
    Api, Client, Fault, Job, Jobs, Limits, Method, OperationInfo, Operations, Report, Server, Turn,
};
use serde_json::Value;

/// One operation, which counts how often it was done, and can be held until somebody else comes.
struct Counting {
    done: AtomicUsize,
    gate: Option<Barrier>,
}

impl Operations for Counting {
    fn infos(&self) -> Vec<OperationInfo> {
        vec![OperationInfo {
            name: "thing make",
            summary: "Make a thing",
            changes: true,
            turn: Turn::Waits("things"),
            request: schemars::SchemaGenerator::subschema_for::<()>,
            result: schemars::SchemaGenerator::subschema_for::<()>,
        }]
    }

    fn run(&self, _: usize, _: Option<&[u8]>, _: Value, _: &Job) -> Result<Report, Fault> {
        if let Some(gate) = &self.gate {
            gate.wait();
        }
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(Report::note("made"))
    }
}

fn serve(folder: &Path, gate: Option<Barrier>, looks_only: bool) -> (Arc<Counting>, Server) {
    let counting = Arc::new(Counting { done: AtomicUsize::new(0), gate });
    let jobs = Arc::new(Jobs::default());
    let api = Api::new(Arc::clone(&counting) as _, jobs, looks_only);
    let limits = Limits { clients: 4, receive: Duration::from_secs(2), ..Limits::default() };
    let bound = Bound::new(folder).unwrap();
    (counting, Server::on_socket(bound, Arc::new(api), limits).unwrap())
}

/// What is answered to these bytes, until the server closes.
fn said(folder: &Path, bytes: &[u8]) -> String {
    let mut stream = socket::connect(folder).unwrap().unwrap();
    // A server that has heard enough may close before all of it is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn nonsense_floods_and_other_versions_are_answered_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (counting, server) = serve(folder.path(), None, false);
    let ask = |method: &str, path: &str, more: &str| {
        let text = format!("{method} {path} HTTP/1.1\r\n{more}\r\n");
        said(folder.path(), text.as_bytes())
    };
    for (answer, status) in [
        (said(folder.path(), b"\x00\x01\x02\x03\r\n\r\n"), "400"),
        (ask("GET", "/api/v2/thing/make", ""), "404"),
        (ask("GET", "/../../etc/passwd", ""), "404"),
        (ask("GET", "/api/v1/thing/make", ""), "405"),
        (ask("POST", "/api/v1/thing/unmake", ""), "404"),
        (ask("POST", "/api/v1/thing/make", "Content-Length: 104857600\r\n"), "413"),
        (ask("POST", "/api/v1/thing/make?job=../x", ""), "400"),
        (ask("GET", "/api/v1/jobs/none", ""), "404"),
    ] {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
    let flood = [
        &b"POST /api/v1/thing/make HTTP/1.1\r\nContent-Length: 104857600\r\n\r\n"[..],
        &vec![7; 8 << 20],
    ];
    assert!(said(folder.path(), &flood.concat()).contains(" 413 "), "and the answer arrives");
    assert_eq!(counting.done.load(Ordering::SeqCst), 0);
    assert!(ask("GET", "/api", "").contains("v1"));
    assert!(ask("GET", "/api/v1/openapi.json", "").contains("/api/v1/thing/make"));
    drop(server);
    assert!(socket::connect(folder.path()).unwrap().is_none());
}

#[test]
fn a_client_that_leaves_can_ask_later_and_come_again_without_doing_it_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (counting, _server) = serve(folder.path(), Some(Barrier::new(2)), false);
    let mut leaving = socket::connect(folder.path()).unwrap().unwrap();
    leaving.write_all(b"POST /api/v1/thing/make?job=j1 HTTP/1.1\r\n\r\n").unwrap();
    let mut asking = Client::connect(folder.path()).unwrap().unwrap();
    let mut look = |method, path: &str| asking.ask(method, path, &[]).unwrap().json().unwrap();
    for attempt in 0.. {
        let state = look(Method::Get, "/api/v1/jobs/j1");
        if state["state"] == "running" {
            break;
        }
        assert!(attempt < 10_000, "the job never began: {state}");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(leaving);
    // The same command again, while the first is under way, waits for its end and is the same.
    let again = look(Method::Post, "/api/v1/thing/make?job=j1&wait=0");
    assert_eq!(again["state"], "running");
    counting.gate.as_ref().unwrap().wait();
    let end = look(Method::Get, "/api/v1/jobs/j1?wait=20");
    assert_eq!((&end["state"], &end["report"]["notes"][0]), (&"done".into(), &"made".into()));
    assert_eq!(look(Method::Post, "/api/v1/thing/make?job=j1"), end);
    assert_eq!(counting.done.load(Ordering::SeqCst), 1);
}

#[test]
fn clients_that_hang_have_few_places_and_lose_them() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _server) = serve(folder.path(), None, false);
    let hang = || -> UnixStream {
        let mut stream = socket::connect(folder.path()).unwrap().unwrap();
        stream.write_all(b"GET /api HTTP/1.1\r\nHost: ").unwrap();
        stream
    };
    let hanging: Vec<UnixStream> = (0..4).map(|_| hang()).collect();
    let answer = said(folder.path(), b"GET /api HTTP/1.1\r\n\r\n");
    assert!(answer.is_empty() || answer.contains(" 503 "), "{answer}");
    for mut stream in hanging {
        // Its time ends, and then its place is free.
        assert_eq!(stream.read(&mut [0; 1000]).unwrap_or(0), 0);
    }
    let free = (0..60_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        said(folder.path(), b"GET /api HTTP/1.1\r\n\r\n").contains("v1")
    });
    assert!(free);
}

#[test]
fn what_only_looks_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (counting, _server) = serve(folder.path(), None, true);
    let answer = said(folder.path(), b"POST /api/v1/thing/make HTTP/1.1\r\n\r\n");
    assert!(answer.contains(" 403 "), "{answer}");
    assert_eq!(counting.done.load(Ordering::SeqCst), 0);
}
