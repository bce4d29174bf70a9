//! A snapshot on its way to another pool, broken off: the commands that go on are named, and do.
//! Room: onefold.
//! Whoever stands between the two passes on so many bytes and then breaks it off, so that the place
//! is the same however fast either is; once it has, it lets everything through.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use super::harness::{ONEFOLD, Said, Sandbox, assert_same, noise, run};

const MIB: usize = 1 << 20;

/// `between.sh HOW BYTES COMMAND...`; HOW is also the folder that says that it was done.
const BETWEEN: &str = r#"#!/bin/sh
how=$1 bytes=$2
shift 2
if [ -e "$how" ]; then exec "$@"; fi
mkdir "$how" && mkfifo "$how/pipe" || exit 9
env --default-signal=INT "$@" < "$how/pipe" & receiver=$!
exec 3> "$how/pipe"
# Bytes go on as they come: each side waits for the other. If it hangs, it is broken off, too.
timeout --foreground 60 stdbuf -o0 head -c "$bytes" >&3
case $how in
killed) kill -KILL $receiver ;;
interrupted) trap '' INT; kill -INT 0 ;;
esac
exec 3>&-
wait $receiver
"#;

/// Pools `from` with `main@a`, and `to` with nothing or `main@a` as well; `from` has `main@b`, too.
fn pools(since: bool) -> (Sandbox, Vec<&'static str>, Vec<&'static str>) {
    let sandbox = Sandbox::new();
    for pool in ["from", "to"] {
        sandbox.ok(&["pool", "create", pool]);
    }
    fs::write(sandbox.path("between.sh"), BETWEEN).unwrap();
    fs::write(sandbox.path("old"), noise(1, 3 * MIB)).unwrap();
    fs::write(sandbox.path("new"), noise(2, 70 * MIB)).unwrap();
    if !since {
        sandbox.ok(&["volume", "import", "from", "main", "new"]);
        sandbox.ok(&["volume", "snapshot", "from", "main@b"]);
        return (sandbox, vec!["main@b"], vec!["copy"]);
    }
    sandbox.ok(&["volume", "import", "from", "main", "old"]);
    sandbox.ok(&["volume", "snapshot", "from", "main@a"]);
    sandbox
        .ok(&["volume", "send", "from", "main@a", "--", ONEFOLD, "volume", "receive", "to", "x"]);
    sandbox.ok(&["volume", "resize", "from", "main", "--size", "70M"]);
    sandbox.ok(&["volume", "import", "from", "main", "new"]);
    sandbox.ok(&["volume", "snapshot", "from", "main@b"]);
    (sandbox, vec!["main@b", "--since", "main@a"], vec!["copy", "--onto", "x@a"])
}

/// Send it past whoever breaks it off, in a group of processes of its own.
fn send(sandbox: &Sandbox, what: &[&str], receive: &[&str], how: [&str; 2]) -> Said {
    let between = ["sh", "between.sh", how[0], how[1], ONEFOLD, "volume", "receive", "to"];
    let args = [&["volume", "send", "from"], what, &["--"], &between, receive].concat();
    run(sandbox.command(&args).process_group(0).stderr(Stdio::piped()))
}

/// The one command that the sender says goes on.
fn named(said: &Said) -> String {
    let mut lines = said.err.lines().filter_map(|line| {
        line.split_once("go on with: onefold volume send from ").map(|(_, rest)| rest.to_owned())
    });
    let command = lines.next().unwrap_or_else(|| panic!("{}", said.err));
    assert_eq!(lines.next(), None, "{}", said.err);
    command
}

/// Run what was named as it stands, in a shell.
fn go_on(sandbox: &Sandbox, command: &str) -> Said {
    let line = format!("exec {ONEFOLD} volume send from {command}");
    let mut plain = sandbox.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(sandbox.path("")).stdin(Stdio::null());
    for (name, value) in plain.stdin(Stdio::null()).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run(&mut shell)
}

fn must_be_whole(sandbox: &Sandbox) {
    for name in ["copy", "copy@b"] {
        sandbox.ok(&["volume", "export", "to", name, "out", "--force"]);
        assert_same(&sandbox.path("new"), &sandbox.path("out"));
    }
    sandbox.check("to");
    let listed = sandbox.ok(&["volume", "list", "to"]);
    assert!(!listed.text().contains("incomplete"), "{}", listed.text());
}

#[test]
fn a_receiver_that_is_killed_goes_on_with_the_commands_that_the_sender_names() {
    for since in [false, true] {
        let (sandbox, what, receive) = pools(since);
        let said = send(&sandbox, &what, &receive, ["killed", "70000000"]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        let command = named(&said);
        // What it was killed in is past what it had marked.
        assert!(command.contains("--resume 67108864 -- sh between.sh"), "{command}");
        assert!(command.contains("volume receive --resume to copy"), "{command}");
        let said = go_on(&sandbox, &command);
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
        // The rest alone, and of that what did not last.
        let sent = said.err.split_once("': ").unwrap().1;
        assert!(["4.", "5.", "6."].iter().any(|mib| sent.starts_with(mib)), "{}", said.err);
        must_be_whole(&sandbox);
    }
}

#[test]
fn a_receiver_that_is_killed_before_its_first_mark_goes_on_from_the_beginning() {
    let (sandbox, what, receive) = pools(true);
    let said = send(&sandbox, &what, &receive, ["killed", "9000000"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let command = named(&said);
    assert!(command.starts_with("main@b --since main@a -- sh between.sh"), "{command}");
    assert!(!said.err.contains("leave --resume out"), "{}", said.err);
    let said = go_on(&sandbox, &command);
    assert_eq!(said.code, Some(0), "{command}: {}", said.err);
    must_be_whole(&sandbox);
}

#[test]
fn both_sides_of_a_pipe_that_breaks_name_commands_that_go_on() {
    let (sandbox, what, receive) = pools(true);
    let said = send(&sandbox, &what, &receive, ["broken", "5000000"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    // The receiver knows its place exactly, and not the sender's pool.
    let theirs = "go on with: onefold volume send POOL main@b --since main@a --resume 4194304 -- \
                  COMMAND onefold volume receive to copy --onto x@a --resume";
    assert!(said.err.contains(theirs), "{}", said.err);
    assert!(said.err.contains("'copy.incomplete' holds the stream up to byte"), "{}", said.err);
    let exact = named(&said).replace(" -- ", " --resume 4194304 -- ");
    let said = go_on(&sandbox, &exact);
    assert_eq!(said.code, Some(0), "{exact}: {}", said.err);
    must_be_whole(&sandbox);
}

#[test]
fn an_interrupted_sender_and_receiver_name_commands_that_go_on() {
    let (sandbox, what, receive) = pools(false);
    let said = send(&sandbox, &what, &receive, ["interrupted", "5000000"]);
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert_eq!(said.err.matches("error: interrupted").count(), 2, "{}", said.err);
    let command = named(&said);
    let said = go_on(&sandbox, &command);
    assert_eq!(said.code, Some(0), "{command}: {}", said.err);
    must_be_whole(&sandbox);
}

#[test]
fn what_never_began_and_what_was_refused_name_nothing_to_go_on_with() {
    let (sandbox, what, receive) = pools(false);
    // Killed before it could read what the stream is.
    let said = send(&sandbox, &what, &receive, ["killed", "0"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(!said.err.contains("go on with: onefold volume send from"), "{}", said.err);
    fs::remove_dir_all(sandbox.path("killed")).unwrap();
    sandbox.ok(&["volume", "create", "to", "copy", "--size", "1M"]);
    let said = send(&sandbox, &what, &receive, ["killed", "70000000"]);
    assert!(said.err.contains("is there already"), "{}", said.err);
    assert!(!said.err.contains("go on with"), "{}", said.err);
}
