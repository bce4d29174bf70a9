//! `trace record`: a server that runs is recorded, and drives and arrays find the same duplicates.
//! Room: onefold.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};

use super::harness::{Sandbox, Server, nbdsh, run, tool};

/// A recording that has begun, and what it says.
type Begun = (Child, BufReader<ChildStderr>);

/// Begin one.
fn recording(sandbox: &Sandbox, args: &[&str]) -> Begun {
    begun(sandbox.command(&[&["trace", "record", "pool"], args].concat()))
}

/// One whose files get no longer than 1 KiB, as on a disk that is full.
fn recording_on_a_full_disk(sandbox: &Sandbox, args: &[&str]) -> Begun {
    let inner = sandbox.command(&[&["trace", "record", "pool"], args].concat());
    let mut command = Command::new("prlimit");
    command.arg("--fsize=1024");
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(inner.get_current_dir().unwrap()).stdin(Stdio::null());
    begun(command)
}

fn begun(mut command: Command) -> Begun {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("recording volume"), "{line}");
    (child, said)
}

/// How it ended, and what it said.
fn ended((mut child, mut said): Begun) -> (i32, String) {
    let mut text = String::new();
    while said.read_line(&mut text).unwrap() > 0 {}
    (child.wait().unwrap().code().unwrap(), text)
}

fn interrupt(child: &Child) {
    tool("kill", &["-TERM", &child.id().to_string()]);
}

fn write(server: &Server, script: &str) {
    let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", script]));
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn what_fio_writes_has_as_many_duplicates_in_the_pool_a_drive_and_an_array() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    let begun = recording(&sandbox, &["main", "a.rec"]);
    let uri = format!("--uri={}", server.uri("main"));
    let job = ["--name=x", "--ioengine=nbd", &uri, "--rw=write", "--bs=4k", "--size=1m"];
    let more = ["--dedupe_percentage=50", "--iodepth=8", "--end_fsync=1"];
    tool("fio", &[&job[..], &more].concat());
    assert!(!sandbox.path("a.rec").exists(), "it has its name once it is whole");
    interrupt(&begun.0);
    let (code, said) = ended(begun);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("recorded 257 requests in 'a.rec'"), "{said}");
    let mode = std::fs::metadata(sandbox.path("a.rec")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // No longer recorded.
    write(&server, "h.pwrite(b'x' * 4096, 8 << 20); h.flush()");
    let status = sandbox.status("pool");
    let duplicates = status["deduplication"]["found_at_once"].as_u64().unwrap();
    assert!((64..=192).contains(&duplicates), "{duplicates}");
    let info = sandbox.ok(&["trace", "info", "a.rec", "--json"]).json();
    assert_eq!((&info["writes_with_identity"], &info["lines"]), (&256.into(), &257.into()));
    assert_eq!(info["duplicate_writes"], duplicates);
    server.stop();
    if !cfg!(feature = "models") {
        return;
    }
    let drive = ["ssd", "run", "--preset", "park-shin", "--precondition", "none"];
    let mut replay = [&drive[..], &["--trace", "a.rec", "--json"]].concat();
    for set in [
        "geometry.planes_per_die=1",
        "geometry.blocks_per_plane=84",
        "ftl.over_provisioning=0.15",
        "controller.parity_correction_ns=7250",
        "dedup.policy='caftl-online'",
    ] {
        replay.extend(["--set", set]);
    }
    let json = sandbox.ok(&replay).json();
    assert_eq!(json["requests"]["pages_written"], 256);
    assert_eq!(json["dedup"]["inline_pages"], duplicates);
    let array = ["array", "run", "--trace", "a.rec", "--set", "chunk_bytes=4096", "--json"];
    let all = ["--set", "workload.warm_requests=0", "--set", "workload.requests=100000"];
    let json = sandbox.ok(&[&array[..], &all].concat()).json();
    assert_eq!(json["trace"]["chunks_known"], 256, "{json}");
    let share = json["duplicate_share"].as_f64().unwrap();
    assert!((share - duplicates as f64 / 256.0).abs() < 1e-9, "{share} of {duplicates}");
}

#[test]
fn a_recording_ends_by_its_limits_and_with_its_server_and_refuses_what_cannot_be() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    let refused = |args: &[&str], why: &str| {
        let said = sandbox.onefold(&[&["trace", "record", "pool"], args].concat());
        assert!(said.code != Some(0) && said.err.contains(why), "{args:?}: {}", said.err);
    };
    refused(&["nosuch", "b.rec"], "nosuch");
    refused(&["main@none", "b.rec"], "main@none");
    refused(&["main", "b.rec", "--unit", "8K"], "expected 512, 1K, 2K or 4K");
    refused(&["main", "pool/b.rec"], "the pool's own folder");
    assert!(!sandbox.path("b.rec").exists());

    // Two at once are refused, and the first goes on; a full disk ends it and nothing else.
    let first = recording_on_a_full_disk(&sandbox, &["main", "a.rec", "--unit", "512"]);
    refused(&["main", "b.rec"], "is being recorded already");
    write(&server, "h.pwrite(b'x' * 65536, 0)");
    let (code, said) = ended(first);
    assert!(code == 1 && said.contains("File too large"), "{said}");
    assert!(sandbox.ok(&["trace", "info", "a.rec", "--json"]).json()["lines"] == 0);
    // A client that was there before goes on being recorded by the next one.
    let limited = recording(&sandbox, &["main", "b.rec", "--max-size", "3K"]);
    write(&server, "import os\nfor at in range(64): h.pwrite(os.urandom(16384), at << 14)");
    let (code, said) = ended(limited);
    assert!(code == 0 && said.contains("as long as it may get"), "{said}");
    assert!(std::fs::metadata(sandbox.path("b.rec")).unwrap().len() <= 3 << 10);
    refused(&["main", "b.rec"], "'b.rec' exists already");
    sandbox.ok(&["trace", "record", "pool", "main", "b.rec", "--for", "1s", "--force"]);

    let last = recording(&sandbox, &["main", "c.rec"]);
    write(&server, "h.pwrite(b'y' * 4096, 0)");
    let until = std::time::Instant::now() + super::harness::PATIENCE;
    let partial = || {
        let names = std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap());
        let mut parts = names.filter(|e| e.file_name().to_string_lossy().ends_with(".partial"));
        parts.next().map_or(0, |part| part.metadata().unwrap().len())
    };
    while partial() < 60 {
        assert!(std::time::Instant::now() < until, "nothing is written");
        std::thread::yield_now();
    }
    server.stop();
    let (code, said) = ended(last);
    assert!(code == 1 && said.contains("'c.rec' has 1 request"), "{said}");
    let info = sandbox.ok(&["trace", "info", "c.rec", "--json"]).json();
    assert_eq!(info["lines"], 1);
    refused(&["main", "d.rec"], "is not served");
    sandbox.check("pool");
}
