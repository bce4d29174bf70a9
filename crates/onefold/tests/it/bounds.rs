//! Limits: what cannot be had is refused by name, and crowds shut nobody out.
//! Room: onefold.

use std::os::unix::net::UnixStream;

use super::harness::{Sandbox, run, tool};

#[test]
fn limits_that_cannot_be_had_are_refused_at_once_and_by_name() {
    let sandbox = Sandbox::new();
    for (flags, expected) in [
        (&["--index-memory", "2E"][..], "--index-memory 2 EiB is more than the "),
        (&["--map-memory", "1P"], "--map-memory 1 PiB is more than the "),
        (&["--cache-size", "1G"], "--cache-size without a cache"),
        (&["--cache-policy", "lru"], "--cache-policy without a cache"),
    ] {
        for command in [&["pool", "create", "pool"][..], &["serve", "pool", "--run", "true"]] {
            let said = sandbox.onefold(&[command, flags].concat());
            assert_eq!(said.code, Some(2), "{flags:?}: {}", said.err);
            assert!(said.err.contains(expected), "{flags:?}: {}", said.err);
            assert!(!sandbox.path("pool").exists(), "{flags:?}");
        }
    }
    // With a cache from any source the flag has something to apply to.
    sandbox.ok(&["pool", "create", "pool", "--cache", "fast"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1M"]);
    sandbox.ok(&["serve", "pool", "--cache-size", "1G", "--run", "true"]);
}

#[test]
fn connections_that_the_system_has_no_files_for_are_refused() {
    let sandbox = Sandbox::new();
    for flags in ["--max-connections 60000", ""] {
        let serve = format!("ulimit -n 400; exec \"$0\" serve pool --run true {flags}");
        let program = sandbox.command(&[]).get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &serve]).arg(program).current_dir(sandbox.path(""));
        let said = run(&mut shell);
        assert_eq!(said.code, Some(2), "{}", said.err);
        let named = said.err.contains("--max-connections") && said.err.contains("may open 400");
        assert!(named && said.err.contains("LimitNOFILE"), "{}", said.err);
        assert!(!sandbox.path("pool").exists());
    }
    for wrong in ["0", "65537", "many"] {
        let said = sandbox.onefold(&["serve", "pool", "--max-connections", wrong]);
        assert_eq!(said.code, Some(2), "{wrong}: {}", said.err);
    }
}

#[test]
fn a_crowd_of_silent_clients_shuts_nobody_out() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--max-connections", "2"]);
    let crowd: Vec<UnixStream> =
        (0..150).map(|_| UnixStream::connect(sandbox.path("socket")).unwrap()).collect();
    tool("nbdinfo", &[&server.uri("main")]);
    drop(crowd);
    server.stop();
}
