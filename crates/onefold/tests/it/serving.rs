//! How a server comes, goes, and refuses.
//! Room: onefold.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::harness::{ONEFOLD, PATIENCE, Sandbox, Server, nbdsh, noise, run, tool};

#[test]
fn the_first_run_makes_the_pool_and_prints_lines_that_work() {
    let sandbox = Sandbox::new();
    let command = sandbox.command(&["serve", "./demo", "--listen", "tcp:127.0.0.1:0"]);
    let mut command = command;
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let err = child.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(err));
    let mut seen = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        let last = line.starts_with("listening on tcp:127.0.0.1:");
        seen.push(line);
        if last {
            break;
        }
    }
    let text = seen.join("\n");
    assert!(text.contains("made pool './demo' with volume 'main' of 64 GiB"), "{text}");
    for client in ["nbdcopy", "qemu-img", "nbdfuse", "nbd-client"] {
        assert!(seen.iter().any(|line| line.contains(&format!("  {client} "))), "{text}");
    }
    // The lines are meant to be typed as they stand.
    fs::write(sandbox.path("disk.img"), vec![7; 1 << 20]).unwrap();
    for client in ["nbdinfo nbd", "nbdcopy disk.img nbd", "qemu-img convert"] {
        let line = seen.iter().find(|line| line.contains(client)).unwrap();
        let typed = &line[line.find(client).unwrap()..];
        let mut shell = Command::new("sh");
        let said = run(shell.args(["-c", typed]).current_dir(sandbox.path("")));
        assert_eq!(said.code, Some(0), "{typed}: {}", said.err);
    }
    tool("kill", &["-TERM", &child.id().to_string()]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(rest, ["stopped; everything is flushed"]);
    let status = sandbox.status("demo");
    assert_eq!(status["volumes"][0]["mapped_bytes"], 1 << 20);
}

#[test]
fn a_client_that_waits_for_the_socket_is_served_and_never_turned_away() {
    for round in 0..10 {
        let sandbox = Sandbox::new();
        let socket = sandbox.path("socket");
        let listen = format!("unix:{}", socket.display());
        let mut command = sandbox.command(&["serve", "pool", "--listen", &listen]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        let mut client = loop {
            if let Ok(client) = UnixStream::connect(&socket) {
                break client;
            }
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        };
        // Greeting, client flags, and NBD_OPT_LIST; the answer names the volume.
        client.read_exact(&mut [0; 18]).unwrap();
        client.write_all(&[0, 0, 0, 3]).unwrap();
        client.write_all(b"IHAVEOPT\0\0\0\x03\0\0\0\0").unwrap();
        let mut answer = [0; 28];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[24..], b"main", "round {round}");
        tool("kill", &["-TERM", &child.id().to_string()]);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        sandbox.check("pool");
    }
}

#[test]
fn a_socket_inside_of_a_pool_to_be_made_is_refused() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("pool")).unwrap();
    let listen = format!("unix:{}", sandbox.path("pool/socket").display());
    let args = ["serve", "pool", "--listen", &listen, "--run", "true"];
    let said = sandbox.onefold(&args);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("lies in the folder of the pool"), "{}", said.err);
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1M"]);
    sandbox.ok(&args);
}

#[test]
fn every_signal_to_stop_stops_it_in_order_with_a_client_connected() {
    for signal in ["TERM", "INT", "QUIT", "HUP"] {
        let sandbox = Sandbox::new();
        let mut server = sandbox.serve("pool", &["--size", "16M"]);
        let script = "h.pwrite(b'x' * 65536, 0); print('written', flush=True); input()";
        let mut client = nbdsh(&["-u", &server.uri("main"), "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdsh is needed");
        let mut line = String::new();
        let mut out = std::io::BufReader::new(client.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "written\n");
        server.signal(signal);
        assert_eq!(server.ended().code(), Some(0));
        client.kill().unwrap();
        client.wait().unwrap();
        // Written and never flushed by the client: the clean stop did.
        assert_eq!(sandbox.status("pool")["logical_bytes"], 65536);
    }
}

#[test]
fn a_server_that_is_to_outlive_its_terminal_does() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("socket");
    let mut command = Command::new("sh");
    // What nohup does, without its messages.
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", ONEFOLD, "serve", "pool", "--listen"]);
    command.arg(format!("unix:{}", socket.display())).current_dir(sandbox.path(""));
    let mut server = Server::start(command, socket);
    server.signal("HUP");
    // Answered after the signal has been dealt with, if at all.
    server.signal("USR1");
    server.wait_for_line("stored");
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_service_manager_hears_when_it_serves_and_when_it_stops() {
    let sandbox = Sandbox::new();
    let manager = std::os::unix::net::UnixDatagram::bind(sandbox.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut heard = [0; 64];
        let length = manager.recv(&mut heard).unwrap();
        String::from_utf8(heard[..length].to_vec()).unwrap()
    };
    let listen = format!("unix:{}", sandbox.text("socket"));
    let args = ["serve", "pool", "--listen", &listen, "--on-hangup", "reload"];
    let mut command = sandbox.command(&args);
    command.env("NOTIFY_SOCKET", sandbox.path("notify"));
    let server = Server::start(command, sandbox.path("socket"));
    assert_eq!(hear(), "READY=1");
    sandbox.ok(&["volume", "list", "pool"]);
    server.signal("HUP");
    let reloading = hear();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().is_ok(), "{reloading}");
    assert_eq!(hear(), "READY=1");
    server.stop();
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn a_pool_in_use_is_refused_by_name_and_its_status_comes_by_signal() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &[]);
    let repair = ["pool", "check", "pool", "--repair"];
    for args in [&["serve", "pool", "--run", "true"][..], &repair] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        let who = format!("pool 'pool' is in use by process {} (onefold serve pool", server.pid());
        assert!(said.err.contains(&who), "{}", said.err);
        assert!(said.err.contains("stop it with: onefold pool drain pool\n"), "{}", said.err);
    }
    assert_eq!(sandbox.status("pool")["volumes"][0]["name"], "main");
    server.signal("USR1");
    let lines = server.wait_for_line("stored");
    assert!(lines.iter().any(|line| line.starts_with("main    64 GiB")), "{lines:?}");
    server.stop();
}

#[test]
fn run_exits_as_its_command_does_and_leaves_only_the_pool() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tmp")).unwrap();
    let go = |command: &str| {
        let args = ["serve", "pool", "--size", "8M", "--run", command];
        run(sandbox.command(&args).env("TMPDIR", sandbox.path("tmp")))
    };
    let said = go("nbdinfo --size $uri && test -S $unixsocket && echo $exportname $pool");
    assert_eq!((said.code, said.text()), (Some(0), "8388608\nmain pool\n"), "{}", said.err);
    assert_eq!(go("exit 7").code, Some(7));
    assert_eq!(go("kill -KILL $$").code, Some(137));
    assert_eq!(go("qemu-io -f raw -c 'write -P 5 0 4k' \"$nbd\" && exit 3").code, Some(3));
    assert_eq!(sandbox.status("pool")["logical_bytes"], 4096);
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
    let mut names: Vec<_> =
        fs::read_dir(sandbox.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["pool", "tmp"]);
    sandbox.check("pool");
}

#[test]
fn a_signal_to_run_ends_the_command_and_passes_its_status_on() {
    let sandbox = Sandbox::new();
    let command = "trap 'exit 9' TERM; echo listening >&2; while :; do sleep 0.05; done";
    let args = ["serve", "pool", "--run", command];
    let mut server = Server::start(sandbox.command(&args), sandbox.path("none"));
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(9));
    // One that does not want to end is waited for, unless somebody asks once more.
    let command = "trap 'echo asked >&2' TERM; echo listening >&2; while kill -0 $PPID; do sleep \
                   0.05; done";
    let args = ["serve", "pool", "--run", command];
    let mut server = Server::start(sandbox.command(&args), sandbox.path("none"));
    server.signal("TERM");
    server.wait_for_line("asked");
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(143));
    sandbox.check("pool");
}

#[test]
fn read_only_refuses_changes_and_makes_nothing() {
    let sandbox = Sandbox::new();
    let said = sandbox.onefold(&["serve", "pool", "--read-only", "--run", "true"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("there is no pool at 'pool'"), "{}", said.err);
    assert!(!sandbox.path("pool").exists());

    sandbox.ok(&["serve", "pool", "--size", "8M", "--run", "true"]);
    let before = sandbox.files("pool");
    let server = sandbox.serve("pool", &["--read-only"]);
    let info = tool("nbdinfo", &["--json", &server.uri("main")]).json();
    assert_eq!(info["exports"][0]["is_read_only"], true);
    let script = "h.connect_uri(U)\ntry:\n  h.pwrite(b'x' * 512, 0)\nexcept nbd.Error as e:\n  \
                  print(e.errno)\n";
    let script = script.replace('U', &format!("{:?}", server.uri("main")));
    let set = "h.set_strict_mode(0)";
    assert_eq!(run(&mut nbdsh(&["-c", set, "-c", &script])).text(), "EPERM\n");
    server.stop();
    assert!(before == sandbox.files("pool"));
}

#[test]
fn an_address_that_others_reach_needs_tls_or_a_plain_word() {
    let sandbox = Sandbox::new();
    let open = ["serve", "pool", "--listen", "tcp:0.0.0.0:0"];
    let said = sandbox.onefold(&open);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--allow-unencrypted-network-access"), "{}", said.err);
    let args = [&open[..], &["--allow-unencrypted-network-access"]].concat();
    Server::start(sandbox.command(&args), sandbox.path("none")).stop();
}

#[test]
fn a_size_that_would_apply_to_nothing_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "other", "--size", "1G"]);
    let said = sandbox.onefold(&["serve", "pool", "--size", "2G", "--run", "true"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("no volume 'main' for --size"), "{}", said.err);
}

#[test]
fn a_lock_that_is_a_pipe_is_refused_and_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    fs::remove_file(sandbox.path("pool/lock")).unwrap();
    tool("mkfifo", &[&sandbox.text("pool/lock")]);
    for args in [&["pool", "check", "pool"][..], &["serve", "pool", "--run", "true"]] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(1), "{args:?}: {}", said.err);
        assert!(said.err.contains("not a regular file"), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_log_for_programs_has_one_object_on_each_line() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--log", "debug", "--log-format", "json"]);
    // A client that says nonsense is logged.
    let mut client = UnixStream::connect(sandbox.path("socket")).unwrap();
    client.write_all(&[0xFF; 64]).unwrap();
    drop(client);
    let line = server.wait_for_line("{").pop().unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
    assert!(event["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    server.stop();
}

#[test]
fn nothing_is_made_in_place_of_what_must_be_there() {
    let sandbox = Sandbox::new();
    let here = |name: &str| sandbox.path(name).exists();
    for (store, line) in [
        ("pool", &["serve", "pool", "--run", "true"][..]),
        ("drive", &["ssd", "serve", "--dir", "drive", "--run", "true"]),
    ] {
        let none = format!("there is no {store} '{store}', and --must-exist makes none");
        let said = sandbox.onefold(&[line, &["--must-exist"]].concat());
        assert!(said.code == Some(2) && said.err.contains(&none) && !here(store), "{}", said.err);
        let said = run(sandbox.command(line).env("ONEFOLD_MUST_EXIST", "yes"));
        assert!(said.code == Some(2) && said.err.contains(&none) && !here(store), "{}", said.err);
        // Nor is it made where nobody has made a folder for it.
        let deep = format!("none/{store}");
        let line_of = |at: &str| -> Vec<String> {
            line.iter().map(|&word| if word == store { at } else { word }.to_owned()).collect()
        };
        let words = line_of(&deep);
        let said = sandbox.onefold(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let missing = format!("there is no folder 'none' in which a new {store} '{deep}' could be");
        assert!(said.code == Some(2) && said.err.contains(&missing), "{}", said.err);
        assert!(!here("none"));
        // What is there is served.
        let said = run(sandbox.command(line).env("ONEFOLD_MUST_EXIST", "no"));
        assert!(said.code == Some(0) && here(store), "{}", said.err);
        let said = sandbox.onefold(&[line, &["--must-exist"]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}

#[test]
fn a_server_keeps_to_its_folder_when_that_is_moved_and_another_pool_takes_its_place() {
    let sandbox = Sandbox::new();
    let (first, second) = (noise(1, 12 << 20), noise(2, 12 << 20));
    fs::write(sandbox.path("first"), &first).unwrap();
    fs::write(sandbox.path("second"), &second).unwrap();
    let old = sandbox.serve("pool", &["--size", "16M"]);
    fs::rename(sandbox.path("pool"), sandbox.path("moved")).unwrap();
    // Another server makes its pool where the first one has been.
    let socket = sandbox.path("other");
    let listen = format!("unix:{}", socket.display());
    let args = ["serve", "pool", "--size", "16M", "--listen", &listen];
    let new = Server::start(sandbox.command(&args), socket);
    for (server, file) in [(&new, "second"), (&old, "first")] {
        let copy = ["--", &sandbox.path(file).display().to_string(), &server.uri("main")];
        let said = tool("nbdcopy", &copy);
        assert_eq!(said.code, Some(0), "{file}: {}", said.err);
    }
    old.stop();
    new.stop();
    for (pool, bytes) in [("pool", &second), ("moved", &first)] {
        sandbox.check(pool);
        sandbox.ok(&["volume", "export", pool, "main", "out", "--force"]);
        let out = fs::read(sandbox.path("out")).unwrap();
        assert!(out[..bytes.len()] == bytes[..], "{pool}");
    }
}
