//! Limits: what cannot be had is refused by name, and crowds shut nobody out.
//! Room: onefold.

use std::os::unix::net::UnixStream;

use super::harness::{ONEFOLD, Sandbox, Server, run, tool};

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
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &serve]).arg(ONEFOLD).current_dir(sandbox.path(""));
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

/// A server may open 128 files more than clients, handshakes, a pool and 256 containers take, and
/// keeps 42 containers more: of each there may be two.
#[test]
fn more_containers_stay_open_where_a_process_may_open_more_files_and_clients_have_theirs() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("file"), super::harness::noise(5, 100 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "pool", "--container-size", "256K", "--cache-memory", "0"]);
    sandbox.ok(&["volume", "import", "pool", "v", "file"]);
    let containers = std::fs::read_dir(sandbox.path("pool/containers")).unwrap().count();
    assert!(containers > 390, "{containers}");
    let socket = sandbox.path("socket");
    let (flags, listen) = ("--max-connections 8", format!("unix:{}", socket.display()));
    let serve = format!("ulimit -n 1000; exec \"$0\" serve pool {flags} --listen {listen}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &serve]).arg(ONEFOLD).current_dir(sandbox.path(""));
    let server = Server::start(shell, socket);
    tool("nbdcopy", &[&server.uri("v"), "null:"]);
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    assert!((298..298 + 60).contains(&open), "{open} files open");
    server.stop();
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

/// Every file of a store, one at a time, claims 4 TiB of which it has only what it had. Nothing
/// takes memory or time for what nobody wrote: 20 s of processor time and 4 GB are the limits.
#[test]
fn a_file_that_claims_to_be_huge_is_not_read_to_its_end() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("file"), super::harness::noise(7, 900_000)).unwrap();
    sandbox.ok(&["pool", "create", "pool", "--container-size", "256K"]);
    sandbox.ok(&["volume", "import", "pool", "v", "file"]);
    sandbox.ok(&["archive", "create", "archive"]);
    sandbox.ok(&["archive", "add", "archive", "file"]);
    let pool = ["pool status S", "pool check S", "volume list S --rescue", "volume export S v -"];
    let archive = ["archive list S", "archive verify S", "archive check S", "archive cat S file"];
    for (store, commands) in [("pool", pool), ("archive", archive)] {
        let files: Vec<_> = sandbox.files(store).into_keys().collect();
        assert!(files.len() > 4);
        for file in files {
            let name = file.strip_prefix(sandbox.path(store)).unwrap();
            let copy = sandbox.path("copy");
            tool("cp", &["-r", "--sparse=always", &sandbox.text(store), &sandbox.text("copy")]);
            let long = std::fs::File::options().write(true).open(copy.join(name)).unwrap();
            let len = long.metadata().unwrap().len();
            if long.set_len(4 << 40).is_err() {
                eprintln!("skipped: no file of 4 TiB can be had here");
                return;
            }
            for command in commands {
                let line = format!("ulimit -t 20 -v 4000000; exec \"$0\" {command} >/dev/null");
                let mut shell = std::process::Command::new("bash");
                shell.args(["-c", &line.replace(" S", " copy")]).arg(ONEFOLD);
                let said = run(shell.current_dir(sandbox.path("")));
                let (name, code) = (name.display(), said.code);
                let ended = matches!(code, Some(0..=2));
                assert!(ended, "{name} of {len} bytes, {command}: {code:?}, {}", said.err);
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
}
