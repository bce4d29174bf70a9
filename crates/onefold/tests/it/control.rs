//! A pool that is served does what a stopped one does, in the same words, while clients use it.
//! Room: onefold.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use onefold_block::SplitMix64;
use serde_json::Value;

use crate::command_line::{assert_is_file, crate_path};
use crate::harness::{ONEFOLD, PATIENCE, Said, Sandbox, nbdsh, noise, run, tool};

/// Commands, in their order; in a folder with a pool `pool` and a file `file` of 3 MiB.
const COMMANDS: [&str; 24] = [
    "volume list pool",
    "volume list pool --json",
    "volume create pool a --size 8M",
    "volume create pool a --size 8M",
    "volume create pool -bad --size 8M",
    "volume create pool b --size 0",
    "volume resize pool a --size 16M",
    "volume resize pool nosuch --size 16M",
    "volume import pool a file",
    "volume import pool c file",
    "volume resize pool a --size 1M",
    "volume resize pool a --size 1M --discard",
    "volume rename pool c d",
    "volume rename pool c e",
    "volume rename pool d a",
    "volume list pool",
    "volume list pool d --json",
    "volume list pool nosuch",
    "volume export pool d out",
    "volume export pool nosuch out2",
    "pool reclaim pool --to 1.1",
    "pool deduplicate pool",
    "volume delete pool d",
    "volume delete pool d",
];

/// What is said without what differs from run to run: times and rates, and what the pool's files
/// take, which depends on when it was last tidied.
fn words(said: &Said) -> (Option<i32>, String, String) {
    let timeless = |line: &str| {
        let ends = [" in 0", "; the pool grew", ", which freed", "x: "];
        let end = ends.iter().find_map(|end| line.find(end)).unwrap_or(line.len());
        line[..end].to_owned()
    };
    let err: Vec<String> = said.err.lines().map(timeless).collect();
    (said.code, said.text().to_owned(), err.join("\n"))
}

fn with_a_pool() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "first", "--size", "1G"]);
    fs::write(sandbox.path("file"), SplitMix64::new(7).bytes(3 << 20)).unwrap();
    sandbox
}

#[test]
fn a_served_pool_and_a_stopped_one_answer_in_the_same_words() {
    let (stopped, served) = (with_a_pool(), with_a_pool());
    let mut server = served.serve("pool", &["--background", "off"]);
    for line in COMMANDS {
        let args: Vec<&str> = line.split(' ').collect();
        let (here, there) = (words(&stopped.onefold(&args)), words(&served.onefold(&args)));
        assert_eq!(here, there, "{line}");
    }
    let keys = |sandbox: &Sandbox| -> Vec<String> {
        sandbox.status("pool").as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&stopped), keys(&served));
    assert_eq!(stopped.status("pool")["volumes"], served.status("pool")["volumes"]);
    for sandbox in [&stopped, &served] {
        let (file, out) = (fs::read(sandbox.path("file")), fs::read(sandbox.path("out")));
        assert!(file.unwrap() == out.unwrap(), "an export is what was imported");
    }
    let said = served.ok(&["pool", "drain", "pool"]);
    assert!(said.err.contains("it has stopped"), "{}", said.err);
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(served.onefold(&["pool", "drain", "pool"]).code, Some(2));
    for sandbox in [&stopped, &served] {
        sandbox.check("pool");
    }
}

#[test]
fn clients_that_are_connected_use_the_new_size_and_keep_what_is_renamed() {
    let sandbox = with_a_pool();
    let server = sandbox.serve("pool", &[]);
    let script = format!(
        "import subprocess, os\n\
         def onefold(*args):\n    \
             return subprocess.run([{onefold:?}] + list(args), capture_output=True, text=True)\n\
         h.set_strict_mode(0)\n\
         h.connect_uri({uri:?})\n\
         h.pwrite(b'x' * 4096, 0)\n\
         assert onefold('volume', 'resize', 'pool', 'first', '--size', '2G').returncode == 0\n\
         h.pwrite(b'y' * 4096, (2 << 30) - 4096)\n\
         assert h.pread(4096, (2 << 30) - 4096) == b'y' * 4096\n\
         assert onefold('volume', 'rename', 'pool', 'first', 'other').returncode == 0\n\
         said = onefold('volume', 'delete', 'pool', 'other')\n\
         assert said.returncode == 2 and 'in use by 1 client' in said.stderr, said.stderr\n\
         said = onefold('volume', 'resize', 'pool', 'other', '--size', '1M')\n\
         assert said.returncode == 2 and 'discard' in said.stderr, said.stderr\n\
         h.trim(4096, (2 << 30) - 4096)\n\
         assert onefold('volume', 'resize', 'pool', 'other', '--size', '1M').returncode == 0\n\
         try:\n    h.pwrite(b'z' * 4096, 1 << 20)\n    assert False\n\
         except nbd.Error as error:\n    assert error.errnum == 28, error\n\
         assert h.pread(4096, 0) == b'x' * 4096\n\
         assert onefold('volume', 'delete', 'pool', 'other', '--force').returncode == 0\n\
         try:\n    h.pread(512, 0)\n    assert False\n\
         except nbd.Error:\n    pass\n",
        onefold = ONEFOLD,
        uri = server.uri("first"),
    );
    let said = run(nbdsh(&["-c", &script]).current_dir(sandbox.path("")));
    assert_eq!(said.code, Some(0), "{}", said.err);
    drop(server);
    sandbox.check("pool");
}

#[test]
fn limits_are_set_while_it_runs() {
    let sandbox = with_a_pool();
    let _server = sandbox.serve("pool", &["--background", "off"]);
    let set = |args: &[&str]| sandbox.onefold(&[&["pool", "set", "pool"], args].concat());
    let said = set(&["--cache-memory", "1M", "--background", "always", "--space-target", "1.3"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("always") && said.err.contains("1.30x"), "{}", said.err);
    assert_eq!(sandbox.status("pool")["memory"]["cache_max_bytes"], 1 << 20);
    assert_eq!(set(&[]).code, Some(2));
    assert_eq!(set(&["--space-target", "0.5"]).code, Some(2));
    let said = set(&["--cache-memory", "1024T"]);
    assert!(said.err.contains("of this machine"), "{}", said.err);
}

#[test]
fn a_cache_is_given_another_size_and_budget_while_it_runs() {
    let sandbox = with_a_pool();
    let set = |args: &[&str]| sandbox.onefold(&[&["pool", "set", "pool"], args].concat());
    let cache = || sandbox.status("pool")["cache"].clone();
    {
        let _server = sandbox.serve("pool", &[]);
        let said = set(&["--cache-size", "64M"]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("no cache") && said.err.contains("--cache"), "{}", said.err);
        // Nor is anything else set that is asked for with it.
        let memory = || sandbox.status("pool")["memory"]["cache_max_bytes"].clone();
        let before = memory();
        assert_eq!(set(&["--cache-memory", "1M", "--cache-size", "64M"]).code, Some(2));
        assert_eq!(memory(), before);
    }
    fs::create_dir(sandbox.path("flash")).unwrap();
    let more = ["--cache", "flash", "--cache-size", "64M", "--on-hangup", "reload"];
    let server = sandbox.serve("pool", &more);
    assert_eq!(cache()["capacity_bytes"], 64 << 20);
    assert!(cache()["writes_per_day_bytes"].is_null(), "{}", cache());
    // Which of them are refused, before any of them is set.
    for (args, why) in [
        (&["--cache-size", "0"][..], "bad cache size"),
        (&["--cache-writes-per-day", "0"], "or unlimited"),
        (&["--cache-size", "32M", "--cache-years", "5"], "how much it can take"),
        (&["--cache-writes-per-day", "1", "--cache-years", "5"], "cannot be used with"),
    ] {
        let said = set(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(why), "{args:?}: {}", said.err);
        assert_eq!(cache()["capacity_bytes"], 64 << 20, "{args:?}");
    }
    let said = set(&["--cache-size", "48M", "--cache-writes-per-day", "0.5"]);
    assert!(said.err.contains("cache on the fast device: 48 MiB"), "{}", said.err);
    assert!(said.err.contains("24 MiB a day"), "{}", said.err);
    assert_eq!(cache()["capacity_bytes"], 48 << 20);
    assert_eq!(cache()["writes_per_day_bytes"], 24 << 20);
    assert_eq!(fs::metadata(sandbox.path("flash/extents")).unwrap().len(), 48 << 20);
    set(&["--cache-writes-per-day", "unlimited"]);
    assert!(cache()["writes_per_day_bytes"].is_null(), "{}", cache());
    // And taken back by what the server was started with, when that is read again.
    server.signal("HUP");
    server.wait_for_line("reloaded");
    assert_eq!(cache()["capacity_bytes"], 64 << 20);
    assert!(cache()["writes_per_day_bytes"].is_null(), "{}", cache());
}

#[test]
fn the_index_is_given_another_memory_while_it_runs_and_knows_again_what_it_let_go() {
    let sandbox = with_a_pool();
    let text = "index-memory = '1M'\n";
    fs::write(sandbox.path("pool/onefold.toml"), text).unwrap();
    let more = ["--background", "off", "--on-hangup", "reload"];
    let server = sandbox.serve("pool", &more);
    let max = || sandbox.status("pool")["memory"]["index_max_bytes"].as_u64().unwrap();
    let index = || sandbox.status("pool")["index"].clone();
    assert_eq!(max(), 1 << 20);
    // 1 MiB has room for a hundred thousand blocks, of which there are more.
    let write = "blocks = iter(range(1, 600 * 256 + 1))\n\
        block = lambda: next(blocks).to_bytes(8, 'little') + bytes(4088)\n\
        for n in range(600): h.pwrite(b''.join(block() for _ in range(256)), n << 20)\nh.flush()";
    let said = run(nbdsh(&["-u", &server.uri("first"), "-c", write]).current_dir(sandbox.path("")));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let stored = index();
    assert!(stored["let_go"].as_u64().unwrap() > 0, "{stored}");
    let set = |args: &[&str]| sandbox.onefold(&[&["pool", "set", "pool"], args].concat());
    for (size, why) in [("1K", "index"), ("1024T", "of this machine")] {
        let said = set(&["--index-memory", size]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(why), "{}", said.err);
        assert_eq!(max(), 1 << 20);
    }
    let said = set(&["--index-memory", "64M"]);
    assert!(said.err.contains("memory for finding duplicates: 64 MiB"), "{}", said.err);
    assert_eq!(max(), 64 << 20);
    let until = Instant::now() + PATIENCE;
    // Read again by the thread that is there for it, without a write.
    while index()["containers_left"] != 0 || index()["entries"] != 600 * 256 {
        assert!(Instant::now() < until, "{}", index());
        std::thread::sleep(Duration::from_millis(50));
    }
    // And taken back by a file, when it is read again.
    server.signal("HUP");
    server.wait_for_line("reloaded");
    assert_eq!(max(), 1 << 20);
    fs::write(sandbox.path("pool/onefold.toml"), "index-memory = '1024T'\n").unwrap();
    server.signal("HUP");
    server.wait_for_log("the memory stays what it was");
    // Commands read the file as well.
    fs::write(sandbox.path("pool/onefold.toml"), text).unwrap();
    assert_eq!(max(), 1 << 20);
    server.stop();
    sandbox.check("pool");
}

#[test]
fn a_pool_is_checked_while_it_is_written_to() {
    let sandbox = with_a_pool();
    let server = sandbox.serve("pool", &["--background", "always"]);
    let uri = server.uri("first");
    tool("nbdcopy", &["--flush", &sandbox.text("file"), &uri]);
    let check = |more: &[&str]| sandbox.onefold(&[&["pool", "check", "pool"], more].concat());
    let said = check(&["--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let beside = said.json();
    assert_eq!(beside["sound"], true);
    assert_eq!(beside["references"], 768);
    assert_eq!(beside["notes"], serde_json::json!([]));
    let script = "import threading\n\
        stop = threading.Event()\n\
        def write():\n    \
            n = 0\n    \
            while not stop.is_set():\n        \
                h.pwrite(bytes([n % 251]) * 65536, (n % 4000 + 100) * 65536); n += 1\n        \
                if n % 100 == 0: h.flush()\n\
        writer = threading.Thread(target=write)\n\
        writer.start()\n\
        import sys; print('writing', flush=True); sys.stdin.read(); stop.set(); writer.join()";
    let mut client = nbdsh(&["-u", &uri, "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nbdsh is needed");
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "writing\n");
    for _ in 0..5 {
        let said = check(&[]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("pool 'pool' is sound: "), "{}", said.err);
    }
    drop(client.stdin.take());
    client.wait().unwrap();
    // Damage is named, while clients are served.
    let folder = sandbox.path("pool/containers");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let largest = names.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[9_000..9_016].fill(0xA5);
    fs::write(&largest, bytes).unwrap();
    let beside = check(&[]);
    assert_eq!(beside.code, Some(1), "{}", beside.err);
    assert!(beside.text().contains("corrupt container"), "{}", beside.text());
    server.stop();
    let alone = check(&[]);
    assert_eq!((alone.code, alone.text()), (Some(1), beside.text()));
}

/// The answer to a request on the socket of a pool, as a document.
fn ask(sandbox: &Sandbox, head: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(sandbox.path("pool/control")).unwrap();
    let length = body.len();
    let text =
        format!("{head} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn two_commands_at_once_and_one_that_is_cut_off_leave_nothing_half_done() {
    let sandbox = with_a_pool();
    let server = sandbox.serve("pool", &[]);
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let create = |size: u64| {
            let body = format!("{{\"name\": \"one\", \"size_bytes\": {size}}}");
            ask(&sandbox, "POST /api/v1/volume/create", &body).0
        };
        let both: Vec<_> = (1..=8).map(|n| scope.spawn(move || create(n << 20))).collect();
        both.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|&&code| code == 200).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|&&code| code == 422).count(), 7, "{codes:?}");
    // Whoever is cut off asks by the name that it gave.
    let body = "{\"name\": \"two\", \"size_bytes\": 4096}";
    let mut leaving = UnixStream::connect(sandbox.path("pool/control")).unwrap();
    let head = format!(
        "POST /api/v1/volume/create?job=mine HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    leaving.write_all((head + body).as_bytes()).unwrap();
    drop(leaving);
    let job = (0..1000).map(|_| ask(&sandbox, "GET /api/v1/jobs/mine?wait=10", ""));
    let job = job.into_iter().find(|(status, _)| *status != 404).unwrap();
    assert_eq!((job.0, &job.1["state"]), (200, &"done".into()));
    // One that is cut off before it came whole was never begun.
    let mut cut = UnixStream::connect(sandbox.path("pool/control")).unwrap();
    cut.write_all(b"POST /api/v1/volume/create HTTP/1.1\r\nContent-Length: 40\r\n\r\n{\"name\"")
        .unwrap();
    drop(cut);
    assert_eq!(ask(&sandbox, "POST /api/v1/volume/create", "{\"name\": 1}").0, 422);
    assert_eq!(ask(&sandbox, "POST /api/v1/volume/create", "{").0, 400);
    let more = "{\"name\": \"three\", \"size_bytes\": 4096, \"size\": 1}";
    assert_eq!(ask(&sandbox, "POST /api/v1/volume/create", more).0, 422, "no such member");
    let twice = "{\"name\": \"three\", \"size_bytes\": 4096, \"name\": \"five\"}";
    for body in [twice, "[\"three\", 4096]"] {
        assert_eq!(ask(&sandbox, "POST /api/v1/volume/create", body).0, 400, "{body}");
    }
    let names = |sandbox: &Sandbox| -> Vec<String> {
        let listed = sandbox.ok(&["volume", "list", "pool", "--json"]).json();
        let name = |volume: &Value| volume["name"].as_str().unwrap().to_owned();
        listed["volumes"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(&sandbox), ["first", "one", "two"]);
    // What was reported as done is there after a kill, and the socket that is left is no obstacle.
    server.kill();
    let socket = sandbox.path("pool/control");
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!(names(&sandbox), ["first", "one", "two"]);
    let again = sandbox.serve("pool", &[]);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    sandbox.ok(&["volume", "create", "pool", "four", "--size", "1M"]);
    drop(again);
    assert_eq!(names(&sandbox).len(), 4);
    sandbox.check("pool");
}

#[test]
fn a_command_whose_server_is_killed_says_so_and_where_to_look() {
    let sandbox = with_a_pool();
    fs::write(sandbox.path("data"), noise(3, 12 << 20)).unwrap();
    sandbox.ok(&["volume", "import", "pool", "data", "data"]);
    let server = sandbox.serve("pool", &[]);
    // It would take three minutes.
    let mut command = sandbox.command(&["pool", "scrub", "pool", "--rate", "64K"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    let runs = || ask(&sandbox, "GET /api/v1/jobs", "").1["jobs"][0]["state"] == "running";
    while !runs() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    server.kill();
    let ended = command.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "error: pool 'pool' is served, but the server does not answer: it closed the \
             connection without an answer",
            "hint: the server has ended: look at the pool to see whether it was done",
        ]
    );
}

#[test]
fn the_document_of_the_api_is_fresh_and_names_every_operation() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok(&["api"]);
    assert_is_file(&crate_path("../../docs/openapi.json"), said.text());
    let document = said.json();
    for path in ["volume/create", "pool/status", "jobs/{id}"] {
        assert!(document["paths"].get(format!("/api/v1/{path}")).is_some(), "{path}");
    }
}

#[test]
fn a_deep_folder_is_served_and_found() {
    let sandbox = Sandbox::new();
    let deep = format!("{}/{}", "a".repeat(120), "b".repeat(120));
    fs::create_dir_all(sandbox.path(&deep)).unwrap();
    let pool = format!("{deep}/pool");
    let _server = sandbox.serve(&pool, &["--size", "1M"]);
    sandbox.ok(&["volume", "create", &pool, "more", "--size", "1M"]);
    tool("test", &["-S", &sandbox.text(&format!("{pool}/control"))]);
}

#[test]
fn a_volume_that_is_not_there_is_told_in_the_same_words_by_a_server() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "main", "--size", "1M"]);
    let said = |name| {
        let said = sandbox.onefold(&["volume", "export", "pool", name, "out"]);
        (said.code, said.err)
    };
    let names = ["nosuch", "main@nosuch"];
    let alone = names.map(said);
    assert!(alone[0].1.contains("no volume 'nosuch'; there are: main"), "{}", alone[0].1);
    let server = sandbox.serve("pool", &[]);
    assert_eq!(names.map(said), alone);
    assert!(!sandbox.path("out").exists());
    server.stop();
}
