//! Requests that take long are told to the log, with where their time went.
//! Room: onefold.

use super::harness::{Sandbox, Server, noise, run, tool};

/// Serve with a limit of one millisecond, and write 64 MiB of noise and a flush, which take longer.
fn slow_lines(sandbox: &Sandbox, format: &str) -> Vec<String> {
    let socket = sandbox.path("socket");
    let listen = format!("unix:{}", socket.display());
    let args = ["--log-format", format, "serve", "pool", "--listen", &listen];
    let args = [&args[..], &["--slow-request", "1ms", "--size", "64M"]].concat();
    let server = Server::start(sandbox.command(&args), socket);
    let uri = server.uri("main");
    tool("nbdcopy", &["--flush", "--request-size=33554432", sandbox.text("noise").as_str(), &uri]);
    let lines = server.wait_for_log("slow request");
    server.stop();
    lines
}

#[test]
fn slow_requests_are_told_as_text_and_as_json_with_where_their_time_went() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("noise"), noise(1, 64 << 20)).unwrap();
    let text = slow_lines(&sandbox, "text").pop().unwrap();
    assert!(text.contains("WARN slow request peer=\"unix:"), "{text}");
    let json = slow_lines(&sandbox, "json").pop().unwrap();
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&line["message"], &line["export"]), (&"slow request".into(), &"main".into()));
    let ms = |name: &str| line[name].as_f64().unwrap();
    let parts = ["queue", "wait", "read", "hash", "compress", "write", "sync", "other"];
    let sum: f64 = parts.iter().map(|part| ms(&format!("{part}_ms"))).sum();
    // Each part loses less than a tenth of a millisecond in being written.
    assert!(ms("ms") >= 1.0 && (ms("ms") - sum - ms("reply_ms")).abs() < 1.2, "{json}");
    assert!(line["bytes"].as_u64().unwrap() >= 1 << 20, "{json}");
}

#[test]
fn nothing_is_told_of_quick_requests_or_where_nothing_is_asked_for() {
    let sandbox = Sandbox::new();
    for time in ["1m", "0"] {
        let args = ["serve", "pool", "--size", "8M", "--slow-request", time, "--run"];
        let said = sandbox.ok(&[&args[..], &["nbdcopy --flush /usr/bin/env $uri"]].concat());
        assert!(!said.err.contains("slow request"), "{}", said.err);
    }
    for wrong in ["5", "1h", "ms", "-1", "99999999999999999999s", "18446744073709551615m"] {
        let args = ["serve", "pool", "--run", "true", "--slow-request", wrong];
        let said = run(&mut sandbox.command(&args));
        assert_eq!(said.code, Some(2), "{wrong}: {}", said.err);
        assert!(said.err.contains("is no time: write 100ms, 2s or 1m"), "{}", said.err);
    }
}
