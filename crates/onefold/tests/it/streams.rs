//! Snapshots as streams from pool to pool, by commands, of stopped pools and running servers.
//! Room: onefold.

use std::fs;
use std::process::Stdio;

use super::harness::{Said, Sandbox, nbdsh, noise, run};

const MIB: usize = 1 << 20;

/// Pool `from` with `main@a` and `main@b`, of which the first MiB differs, and an empty pool `to`.
fn pools(sandbox: &Sandbox) {
    for pool in ["from", "to"] {
        sandbox.ok(&["pool", "create", pool]);
    }
    fs::write(sandbox.path("old"), noise(1, 3 * MIB)).unwrap();
    fs::write(sandbox.path("new"), noise(2, MIB)).unwrap();
    sandbox.ok(&["volume", "import", "from", "main", "old"]);
    sandbox.ok(&["volume", "snapshot", "from", "main@a"]);
    sandbox.ok(&["volume", "import", "from", "main", "new"]);
    sandbox.ok(&["volume", "snapshot", "from", "main@b"]);
}

fn export(sandbox: &Sandbox, pool: &str, name: &str) -> Vec<u8> {
    let said = sandbox.ok(&["volume", "export", pool, name, "-"]);
    said.out
}

fn contents() -> (Vec<u8>, Vec<u8>) {
    let old = noise(1, 3 * MIB);
    let new = [&noise(2, MIB), &old[MIB..]].concat();
    (old, new)
}

fn refused(sandbox: &Sandbox, args: &[&str], why: &str) -> Said {
    let said = sandbox.onefold(args);
    assert!(matches!(said.code, Some(1 | 2)), "{args:?}: {}", said.err);
    assert!(said.err.contains(why), "{args:?}: {}", said.err);
    said
}

#[test]
fn a_chain_of_streams_goes_through_pipes_to_a_stopped_pool() {
    let sandbox = Sandbox::new();
    pools(&sandbox);
    let (old, new) = contents();
    let pipe = |sent: &[&str], received: &[&str]| {
        let mut sender = sandbox.command(sent).stdout(Stdio::piped()).spawn().unwrap();
        let said = run(sandbox.command(received).stdin(sender.stdout.take().unwrap()));
        assert!(sender.wait().unwrap().success(), "{sent:?}");
        assert_eq!(said.code, Some(0), "{received:?}: {}", said.err);
    };
    pipe(
        &["volume", "export", "from", "main@a", "-", "--stream"],
        &["volume", "import", "to", "copy", "-"],
    );
    assert!(export(&sandbox, "to", "copy@a") == old && export(&sandbox, "to", "copy") == old);
    let since = ["volume", "export", "from", "main@b", "-", "--since", "main@a"];
    pipe(&since, &["volume", "import", "to", "second", "-", "--onto", "copy"]);
    assert!(export(&sandbox, "to", "second") == new && export(&sandbox, "to", "copy") == old);
    pipe(&since, &["volume", "import", "to", "copy", "-", "--onto", "copy@a"]);
    assert!(export(&sandbox, "to", "copy@b") == new && export(&sandbox, "to", "copy@a") == old);
    assert!(export(&sandbox, "to", "copy") == new);
    let listed = |pool| sandbox.ok(&["volume", "list", pool, "--snapshots", "--json"]).json();
    let (from, to) = (listed("from"), listed("to"));
    for (number, name) in [(0, "copy@a"), (2, "copy@b")] {
        assert_eq!(to["snapshots"][number]["name"], name, "{to}");
        let own = &to["snapshots"][number]["identity"];
        assert_eq!(own, &from["snapshots"][number / 2]["identity"], "{to}");
    }
    let sent = ["volume", "export", "from", "main@b", "b", "--since", "main@a", "--json"];
    let said = sandbox.ok(&sent).json();
    assert!(said["stream_bytes"].as_u64().unwrap() < 1_100_000, "{said}");
    refused(&sandbox, &["volume", "import", "to", "copy", "b", "--onto", "copy"], "already");
    for pool in ["from", "to"] {
        sandbox.check(pool);
    }
}

#[test]
fn a_stream_goes_from_server_to_server_and_a_client_in_the_way_is_named() {
    let sandbox = Sandbox::new();
    pools(&sandbox);
    let (old, new) = contents();
    sandbox.ok(&["volume", "create", "to", "other", "--size", "1M"]);
    // A sandbox has one socket.
    let second = Sandbox::new();
    let from = sandbox.serve("from", &[]);
    let to = second.serve(&sandbox.text("to"), &[]);
    sandbox.ok(&["volume", "export", "from", "main@a", "a", "--stream"]);
    sandbox.ok(&["volume", "export", "from", "main@b", "b", "--since", "main@a"]);
    sandbox.ok(&["volume", "import", "to", "main", "a"]);
    let import = ["volume", "import", "to", "main", "b", "--onto", "main"];
    let program = env!("CARGO_BIN_EXE_onefold");
    let script = format!(
        "
import subprocess
command = ['{program}'] + '{}'.split()
said = subprocess.run(command, capture_output=True, text=True)
assert said.returncode == 2 and 'in use by 1 client' in said.stderr, said
",
        import.join(" ")
    );
    let mut client = nbdsh(&["-u", &to.uri("main"), "-c", &script]);
    let said = run(client.current_dir(sandbox.path("")));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(export(&sandbox, "to", "main") == old);
    sandbox.ok(&[&import[..], &["--resume"]].concat());
    assert!(export(&sandbox, "to", "main") == new && export(&sandbox, "to", "main@a") == old);
    refused(&sandbox, &["volume", "export", "from", "main", "c", "--stream"], "is no snapshot");
    from.stop();
    to.stop();
    sandbox.check("to");
}

#[test]
fn what_is_wrong_changes_nothing_and_says_why() {
    let sandbox = Sandbox::new();
    pools(&sandbox);
    let (old, _) = contents();
    sandbox.ok(&["volume", "export", "from", "main@a", "a", "--stream"]);
    sandbox.ok(&["volume", "export", "from", "main@b", "b", "--since", "main@a"]);
    let onto = |file| ["volume", "import", "to", "main", file, "--onto", "main"];
    // The same bytes under the same name are not that snapshot.
    sandbox.ok(&["volume", "import", "to", "main", "old"]);
    sandbox.ok(&["volume", "snapshot", "to", "main@a"]);
    refused(&sandbox, &onto("b"), "that very snapshot");
    refused(&sandbox, &["volume", "import", "to", "main", "a"], "another snapshot 'main@a'");
    sandbox.ok(&["volume", "delete", "to", "main@a", "--yes"]);
    refused(&sandbox, &["volume", "import", "to", "main", "a"], "is there already");
    sandbox.ok(&["volume", "delete", "to", "main", "--yes"]);
    sandbox.ok(&["volume", "import", "to", "main", "a"]);
    refused(&sandbox, &["volume", "import", "to", "main", "b"], "--onto VOLUME");
    refused(&sandbox, &onto("old"), "is no stream");
    refused(&sandbox, &onto("a"), "already");
    refused(&sandbox, &["volume", "import", "to", "x", "a", "--onto", "main"], "onto nothing");
    refused(&sandbox, &[&onto("b")[..], &["--resume"]].concat(), "no import to go on with");
    let whole = fs::read(sandbox.path("b")).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(sandbox.path("flipped"), flipped).unwrap();
    let said = refused(&sandbox, &onto("flipped"), "checksum does not match");
    assert!(said.err.contains("nothing was changed"), "{}", said.err);
    fs::write(sandbox.path("cut"), &whole[..whole.len() - 20]).unwrap();
    let said = refused(&sandbox, &onto("cut"), "is cut short");
    assert!(said.err.contains("up to byte 3145728 of the volume"), "{}", said.err);
    assert!(said.err.contains("--onto main --resume"), "{}", said.err);
    assert!(export(&sandbox, "to", "main") == old);
    refused(&sandbox, &onto("b"), "--resume goes on with it");
    // The sender begins where it stood.
    let rest = ["volume", "export", "from", "main@b", "rest", "--since", "main@a", "--resume"];
    refused(&sandbox, &[&rest[..], &["5"]].concat(), "multiples of 4096");
    sandbox.ok(&[&rest[..], &["3145728"]].concat());
    assert!(fs::metadata(sandbox.path("rest")).unwrap().len() < 400);
    sandbox.ok(&[&onto("rest")[..], &["--resume"]].concat());
    assert!(export(&sandbox, "to", "main@b") == contents().1);
    // Written to since, it is not overwritten.
    sandbox.ok(&["volume", "rollback", "to", "main@a", "--yes"]);
    sandbox.ok(&["volume", "delete", "to", "main@b", "--yes"]);
    sandbox.ok(&["volume", "import", "to", "main", "new"]);
    refused(&sandbox, &onto("b"), "was written to since 'main@a'");
    sandbox.check("to");
}

#[test]
fn an_import_that_was_killed_goes_on() {
    let sandbox = Sandbox::new();
    for pool in ["from", "to"] {
        sandbox.ok(&["pool", "create", pool]);
    }
    fs::write(sandbox.path("old"), noise(3, 70 * MIB)).unwrap();
    sandbox.ok(&["volume", "import", "from", "main", "old"]);
    sandbox.ok(&["volume", "snapshot", "from", "main@a"]);
    sandbox.ok(&["volume", "export", "from", "main@a", "a", "--stream"]);
    // All but the end of it, and then the pipe stays open.
    let bytes = fs::read(sandbox.path("a")).unwrap();
    let mut import = sandbox.command(&["volume", "import", "to", "main", "-"]);
    let mut import = import.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = import.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &bytes[..bytes.len() - 600_000]).unwrap();
    // What it has not read is in the pipe: it was marked at 64 MiB.
    import.kill().unwrap();
    import.wait().unwrap();
    drop(input);
    let stood = (64 << 20).to_string();
    let rest = ["volume", "export", "from", "main@a", "rest", "--stream", "--resume", &stood];
    sandbox.ok(&rest);
    assert!(fs::metadata(sandbox.path("rest")).unwrap().len() < 7 << 20);
    sandbox.ok(&["volume", "import", "to", "main", "rest", "--resume"]);
    assert!(export(&sandbox, "to", "main@a") == fs::read(sandbox.path("old")).unwrap());
    sandbox.check("to");
}

#[test]
fn a_receiver_that_is_asked_gets_only_what_it_lacks() {
    let sandbox = Sandbox::new();
    pools(&sandbox);
    let (old, new) = contents();
    // Another volume there has the first MiB of what the first snapshot is.
    fs::write(sandbox.path("part"), &old[..MIB]).unwrap();
    sandbox.ok(&["volume", "import", "to", "other", "part"]);
    let send = |what: &[&str], receiver: &[&str]| {
        let command = [&["volume", "send", "from"], what, &["--"], receiver].concat();
        sandbox.onefold(&command)
    };
    let receive = |more: &[&'static str]| {
        let receive = [super::harness::ONEFOLD, "volume", "receive", "to"];
        [&receive[..], more].concat()
    };
    let said = send(&["main@a"], &receive(&["copy"]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("without 1 MiB that the receiver had"), "{}", said.err);
    assert!(export(&sandbox, "to", "copy@a") == old && export(&sandbox, "to", "copy") == old);

    // From server to server, what both have: a few bytes for each block.
    sandbox.ok(&["volume", "import", "to", "another", "new"]);
    let from = sandbox.serve("from", &[]);
    let listen = format!("unix:{}", sandbox.text("socket-2"));
    let to = super::harness::Server::start(
        sandbox.command(&["serve", "to", "--listen", &listen]),
        sandbox.path("socket-2"),
    );
    let said = send(&["main@b", "--since", "main@a"], &receive(&["copy", "--onto", "copy"]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("KiB, without 1 MiB that the receiver had"), "{}", said.err);
    assert!(export(&sandbox, "to", "copy@b") == new);
    from.stop();
    to.stop();

    // What cannot be: both sides say so, and nothing is changed.
    let before = sandbox.files("to");
    for (what, receiver, why) in [
        (&["main@b"][..], receive(&["copy"]), "is the snapshot of this stream already"),
        (
            &["main@b", "--since", "main@a"],
            receive(&["x", "--onto", "other"]),
            "that very snapshot",
        ),
        (&["main@b"], vec!["false"], "ended with exit status: 1"),
        (&["main@b"], vec!["cat"], "does not answer as a receiver does"),
        (&["main@b"], vec!["./no-such-program"], "cannot run './no-such-program'"),
        (&["main"], vec!["true"], "is no snapshot"),
        (&["main@b", "--resume", "5"], vec!["true"], "not at 5"),
    ] {
        let said = send(what, &receiver);
        assert!(matches!(said.code, Some(1 | 2)), "{what:?} {receiver:?}: {}", said.err);
        assert!(said.err.contains(why), "{what:?} {receiver:?}: {}", said.err);
    }
    assert!(sandbox.files("to") == before, "a pool that refuses stays as it is");
    sandbox.check("to");
}

/// Import all of `bytes` as `main` into the served pool `to`, while its volume is renamed halfway
/// and another gets its name.
fn import_while_another_gets_the_name(sandbox: &Sandbox, bytes: &[u8]) {
    let mut import = sandbox.command(&["volume", "import", "to", "main", "-"]);
    import.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut import = import.spawn().unwrap();
    let mut input = import.stdin.take().unwrap();
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    std::io::Write::write_all(&mut input, first).unwrap();
    for attempt in 0.. {
        let listed = sandbox.ok(&["volume", "list", "to", "--json"]).json();
        if listed["volumes"][1]["mapped_bytes"].as_u64().is_some_and(|bytes| bytes > 0) {
            break;
        }
        assert!(attempt < 1000, "nothing is received: {listed}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    sandbox.ok(&["volume", "rename", "to", "main.incomplete", "kept"]);
    sandbox.ok(&["volume", "create", "to", "main.incomplete", "--size", "1M"]);
    std::io::Write::write_all(&mut input, rest).unwrap();
    drop(input);
    let said = import.wait_with_output().unwrap();
    let err = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{err}");
    assert!(err.contains("volume 'main.incomplete' was deleted or renamed meanwhile"), "{err}");
}

#[test]
fn a_volume_that_got_the_name_of_one_that_is_filled_is_no_copy_of_anything() {
    let sandbox = Sandbox::new();
    pools(&sandbox);
    sandbox.ok(&["volume", "export", "from", "main@a", "a", "--stream"]);
    sandbox.ok(&["volume", "create", "to", "other", "--size", "1M"]);
    let to = sandbox.serve("to", &[]);
    for file in ["a", "old"] {
        let bytes = fs::read(sandbox.path(file)).unwrap();
        import_while_another_gets_the_name(&sandbox, &bytes);
        let listed = sandbox.ok(&["volume", "list", "to", "--json"]).json();
        let volumes = listed["volumes"].as_array().unwrap();
        let names: Vec<_> = volumes.iter().map(|volume| &volume["name"]).collect();
        assert_eq!(names, ["other", "kept", "main.incomplete"], "{file}");
        assert_eq!(volumes[2]["size_bytes"], 1 << 20, "{file}: it has its size still");
        let snapshots = sandbox.ok(&["volume", "list", "to", "--snapshots", "--json"]).json();
        assert_eq!(snapshots["snapshots"].as_array().unwrap().len(), 0, "{snapshots}");
        for name in ["kept", "main.incomplete"] {
            sandbox.ok(&["volume", "delete", "to", name, "--yes"]);
        }
    }
    to.stop();
    sandbox.check("to");
}
