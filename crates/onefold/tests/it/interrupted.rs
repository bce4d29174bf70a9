//! Commands that are interrupted or run out of space: nothing half-made is left unnamed.
//! Room: onefold.
//! A pipe that gives no more bytes holds a command at a known place, however fast it is.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::harness::{Cleanup, ONEFOLD, Said, Sandbox, assert_same, machine, noise, tool};

/// A command that has its stdin and stderr as pipes.
struct Held {
    child: Child,
}

impl Held {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Send bytes, and return when all but a pipe's worth were taken.
    fn feed(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn signal(&self, name: &str) {
        tool("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
    }

    fn ended(mut self) -> Said {
        let (mut out, mut err) = (Vec::new(), String::new());
        // Waiting would close it, and the command could come to its end before the signal does.
        let _open = self.child.stdin.take();
        let status = self.child.wait().unwrap();
        self.child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code: status.code(), out, err }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn volumes(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let list = sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    let volumes = list["volumes"].as_array().unwrap().iter();
    volumes
        .map(|volume| {
            let name = volume["name"].as_str().unwrap().to_owned();
            (name, volume["size_bytes"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn an_interrupted_import_makes_no_volume_and_says_so() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let args = ["volume", "import", "pool", "v", "-", "--size", "1G"];
        let mut held = Held::start(sandbox.command(&args));
        held.feed(&noise(1, 6 << 20));
        held.signal(signal);
        let said = held.ended();
        assert_eq!(said.code, Some(code), "{}", said.err);
        assert_eq!(said.err, "error: interrupted; volume 'v' was not made\n");
        assert_eq!(volumes(&sandbox), []);
    }
    sandbox.check("pool");
    assert!(sandbox.status("pool")["stored_bytes"].as_u64().unwrap() < 3 << 20);
}

#[test]
fn a_killed_import_leaves_what_its_name_says_is_incomplete() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    let import = ["volume", "import", "pool", "v", "-", "--size", "1G"];
    let mut held = Held::start(sandbox.command(&import));
    held.feed(&noise(1, 6 << 20));
    held.signal("KILL");
    assert_eq!(held.ended().code, None);
    assert_eq!(volumes(&sandbox), [("v.incomplete".to_owned(), 1 << 30)]);
    let said = sandbox.onefold(&import);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("onefold volume delete pool v.incomplete"), "{}", said.err);
    sandbox.ok(&["volume", "delete", "pool", "v.incomplete"]);
    fs::write(sandbox.path("in"), noise(1, 1 << 20)).unwrap();
    sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    assert_eq!(volumes(&sandbox), [("v".to_owned(), 1 << 20)]);
    sandbox.ok(&["volume", "export", "pool", "v", "out"]);
    assert_same(&sandbox.path("in"), &sandbox.path("out"));
}

#[test]
fn an_interrupted_import_over_a_volume_says_what_the_volume_holds() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "16M"]);
    let mut held = Held::start(sandbox.command(&["volume", "import", "pool", "v", "-"]));
    held.feed(&noise(1, 6 << 20));
    held.signal("INT");
    let said = held.ended();
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("volume 'v' holds the beginning of '-' now"), "{}", said.err);
    assert_eq!(volumes(&sandbox), [("v".to_owned(), 16 << 20)]);
    sandbox.check("pool");
}

#[test]
fn an_interrupted_export_names_what_got_only_a_part() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in"), noise(7, 4 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    // To stdout, and nobody reads on: it is stopped in the middle for certain.
    let mut held = Held::start(sandbox.command(&["volume", "export", "pool", "v", "-"]));
    let mut first = [0; 4096];
    held.child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    held.signal("TERM");
    let said = held.ended();
    assert_eq!(said.code, Some(143), "{}", said.err);
    assert_eq!(said.err, "error: interrupted; 'stdout' got only a part of what it was to get\n");
}

#[test]
fn an_interrupted_conversion_leaves_the_old_file_and_no_other() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("out")).unwrap();
    fs::write(sandbox.path("out/old.csv"), "old").unwrap();
    for name in ["out/old.csv", "out/new.csv"] {
        let args = ["trace", "convert", "-", name, "--force", "--format", "disksim"];
        let mut held = Held::start(sandbox.command(&args));
        held.feed("1 0 8 8 1\n".repeat(200_000).as_bytes());
        held.signal("INT");
        let said = held.ended();
        assert_eq!(said.code, Some(130), "{}", said.err);
        assert_eq!(said.err, format!("error: interrupted; '{name}' was not written\n"));
        assert_eq!(names(&sandbox.path("out")), ["old.csv"]);
        assert_eq!(fs::read(sandbox.path("out/old.csv")).unwrap(), b"old");
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let sandbox = Sandbox::new();
    let line = "trap '' HUP; exec \"$0\" trace convert - out.csv --format disksim";
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).arg(ONEFOLD);
    shell.current_dir(sandbox.path("."));
    let mut held = Held::start(shell);
    held.feed("1 0 8 8 1\n".repeat(200_000).as_bytes());
    held.signal("HUP");
    drop(held.child.stdin.take());
    let said = held.ended();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(sandbox.path("out.csv").exists());
}

/// A file system of this size in the sandbox.
fn small_disk(sandbox: &Sandbox, name: &str, mib: u32) -> Cleanup {
    let folder = sandbox.text(name);
    fs::create_dir(&folder).unwrap();
    tool("mount", &["-t", "tmpfs", "-o", &format!("size={mib}M"), "none", &folder]);
    Cleanup(["umount", "-l", &folder].map(str::to_owned).to_vec())
}

#[test]
fn a_full_disk_leaves_no_half_made_file() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    let _disk = small_disk(&sandbox, "disk", 4);
    fs::write(sandbox.path("in"), noise(7, 8 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    fs::write(sandbox.path("disk/old"), "old").unwrap();
    for (name, args) in [
        ("export", &["volume", "export", "pool", "v", "disk/new"][..]),
        ("force", &["volume", "export", "pool", "v", "disk/old", "--force"]),
        (
            "make",
            &[
                "scrambler",
                "make",
                "--preset",
                "samsung-prbs15",
                "--pages",
                "1000",
                "--page-size",
                "8K",
                "-o",
                "disk/new",
            ],
        ),
    ] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(1), "{name}: {}", said.err);
        assert!(said.err.contains("No space left on device"), "{name}: {}", said.err);
        assert_eq!(names(&sandbox.path("disk")), ["old"], "{name}");
        assert_eq!(fs::read(sandbox.path("disk/old")).unwrap(), b"old", "{name}");
    }
}

#[test]
fn an_import_that_fills_the_disk_gives_the_space_back_and_status_tells_the_truth() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    let _disk = small_disk(&sandbox, "disk", 40);
    fs::write(sandbox.path("in"), noise(7, 64 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "disk/pool"]);
    let said = sandbox.onefold(&["volume", "import", "disk/pool", "v", "in"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("volume 'v' was not made"), "{}", said.err);
    let status = sandbox.status("disk/pool");
    assert_eq!(status["volumes"].as_array().unwrap().len(), 0);
    let used = tool("du", &["-s", "--block-size=1", &sandbox.text("disk/pool")]);
    let used: u64 = used.text().split_whitespace().next().unwrap().parse().unwrap();
    let stored = status["stored_bytes"].as_u64().unwrap();
    assert!(used < stored + (1 << 20), "{used} bytes used, {stored} said to be stored");
    assert!(used < 8 << 20, "{used} bytes are still taken");
    sandbox.check("disk/pool");
}

#[test]
fn status_counts_what_a_killed_process_left_and_says_what_becomes_of_it() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1G"]);
    // What was acknowledged outlives the process; without the memory for that it does not.
    let mut command = sandbox.command(&["volume", "import", "pool", "v", "-"]);
    command.env("ONEFOLD_HANDOVER", "off");
    let mut held = Held::start(command);
    held.feed(&noise(1, 20 << 20));
    held.signal("KILL");
    held.ended();
    let stored = || sandbox.status("pool")["stored_bytes"].as_u64().unwrap();
    let used: u64 = fs::read_dir(sandbox.path("pool/containers"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(used > 4 << 20 && stored() >= used, "{used} bytes used, {} stored", stored());
    let status = sandbox.ok(&["pool", "status", "pool"]);
    assert!(status.text().contains("of a write that was cut off"), "{}", status.text());
    sandbox.ok(&["volume", "create", "pool", "w", "--size", "1M"]);
    assert!(stored() < 1 << 20, "{} bytes are still stored", stored());
    assert_eq!(sandbox.status("pool")["containers"]["unfinished"], 0);
}
