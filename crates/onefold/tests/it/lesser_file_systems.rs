//! File systems that do less than those of a Linux disk: locks that reach no further than one
//! mount, as those of sshfs and of folders that virtual machines share, rights that cannot be set,
//! and no answer at all.
//! Room: onefold.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::harness::{Cleanup, ONEFOLD, PATIENCE, Sandbox, Server, noise, run, tool};
use super::mount::can_mount;

/// `folder` of a sandbox, mounted as `name` by bindfs.
fn bind(sandbox: &Sandbox, name: &str, options: &[&str]) -> Cleanup {
    fs::create_dir_all(sandbox.path("folder")).unwrap();
    fs::create_dir(sandbox.path(name)).unwrap();
    let (from, to) = (sandbox.text("folder"), sandbox.text(name));
    tool("bindfs", &[options, &[&from, &to]].concat());
    Cleanup(["fusermount3", "-u", "-z", &to].map(str::to_owned).to_vec())
}

/// A folder as `one` and `two`, each by a mount of its own.
fn mounts() -> Option<(Sandbox, [Cleanup; 2])> {
    let sandbox = can_mount().then(Sandbox::new)?;
    let mounts = ["one", "two"].map(|name| bind(&sandbox, name, &[]));
    Some((sandbox, mounts))
}

fn of_locks(sandbox: &Sandbox, store: &str) -> usize {
    let names = fs::read_dir(sandbox.path("folder").join(store)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("lock.")).count()
}

#[test]
fn an_archive_in_use_through_one_mount_is_in_use_through_another() {
    let Some((sandbox, _mounts)) = mounts() else { return };
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::create_dir(sandbox.path("mnt")).unwrap();
    fs::write(sandbox.path("data/file"), noise(1, 100_000)).unwrap();
    sandbox.ok(&["archive", "create", "one/a"]);
    for mount in ["one", "two"] {
        sandbox.ok(&["archive", "add", &format!("{mount}/a"), "data"]);
    }
    // While somebody looks at it, somebody else may add and not remove.
    let script = format!(
        "{ONEFOLD} -q archive add two/a data && echo added
        {ONEFOLD} -q archive prune two/a --keep-last 1; echo $?"
    );
    let said = sandbox.ok(&["archive", "mount", "one/a", "mnt", "--run", &script]);
    assert_eq!(said.text(), "added\n2\n", "{}", said.err);
    assert!(said.err.contains("archive 'two/a' is in use by process "), "{}", said.err);
    assert!(said.err.contains("; if that has ended, remove 'two/a/lock.not."), "{}", said.err);
    sandbox.ok(&["archive", "prune", "two/a", "--keep-last", "1"]);
    sandbox.ok(&["archive", "verify", "one/a"]);
    assert_eq!(of_locks(&sandbox, "a"), 0);

    // Nobody reads what it writes, and Ctrl-C ends it where it is.
    let mut cat = sandbox.command(&["archive", "cat", "one/a", "data/file"]);
    let mut cat = cat.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while of_locks(&sandbox, "a") == 0 {
        assert!(begun.elapsed() < PATIENCE, "it says nowhere that it reads");
        std::thread::sleep(Duration::from_millis(1));
    }
    tool("kill", &["-INT", &cat.id().to_string()]);
    assert_eq!(cat.wait().unwrap().code(), Some(130));
    assert_eq!(of_locks(&sandbox, "a"), 0, "machines that cannot see that it ended would wait");
}

#[test]
fn what_is_served_through_one_mount_is_not_served_through_another() {
    let Some((sandbox, _mounts)) = mounts() else { return };
    let drive = ["--preset", "ses-slc", "--set", "channels=1", "--set", "packages=1"];
    let serve = |mount: &str, kind: &str, socket: &str| {
        let (store, socket) = (format!("{mount}/{kind}"), sandbox.path(socket));
        let listen = format!("unix:{}", socket.display());
        let first = if kind == "pool" {
            vec!["serve", &store]
        } else {
            [&["ssd", "serve", "--dir", &store][..], if mount == "one" { &drive } else { &[] }]
                .concat()
        };
        (sandbox.command(&[&first[..], &["--listen", &listen]].concat()), socket)
    };
    for kind in ["pool", "drive"] {
        let (command, socket) = serve("one", kind, "first");
        let server = Server::start(command, socket);
        assert_eq!(of_locks(&sandbox, kind), 1);
        let (mut command, _) = serve("two", kind, "second");
        let said = run(&mut command);
        assert_eq!(said.code, Some(2), "{kind}: {}", said.err);
        let who = format!("is in use by process {} on ", server.pid());
        assert!(said.err.contains(&who), "{kind}: {}", said.err);

        // What a killed one left holds up nobody on its machine.
        server.kill();
        assert_eq!(of_locks(&sandbox, kind), 1);
        let (command, socket) = serve("two", kind, "second");
        let server = Server::start(command, socket);
        assert_eq!(of_locks(&sandbox, kind), 1);
        server.stop();
        assert_eq!(of_locks(&sandbox, kind), 0);
    }
    sandbox.check("one/pool");
}

#[test]
fn stores_are_made_where_rights_cannot_be_set_and_that_is_told() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let _mounts = [
        // What FAT and exFAT do, and what others do.
        bind(&sandbox, "refuses", &["--chmod-deny", "--perms=0755"]),
        bind(&sandbox, "ignores", &["--chmod-ignore", "--perms=0755"]),
    ];
    fs::write(sandbox.path("key"), noise(1, 64)).unwrap();
    for mount in ["refuses", "ignores"] {
        let at = |name: &str| format!("{mount}/{mount}-{name}");
        let told = |name: &str| {
            let at = at(name);
            format!("warning: every user of this machine can get into '{at}': its file system")
        };
        let said = sandbox.ok(&["archive", "create", &at("archive"), "--cache", &at("copies")]);
        assert!(said.err.contains(&told("archive")), "{}", said.err);
        assert!(said.err.contains(&told("copies")), "{}", said.err);
        sandbox.ok(&["archive", "add", &at("archive"), "key"]);
        assert_ne!(fs::metadata(sandbox.path(&at("archive"))).unwrap().mode() & 0o055, 0);
        let said = sandbox.ok(&["archive", "create", &at("secret"), "--key-file", "key"]);
        assert!(!said.err.contains("warning"), "{}", said.err);

        let said = sandbox.ok(&["pool", "create", &at("pool")]);
        assert!(said.err.contains(&told("pool")), "{}", said.err);
        sandbox.check(&at("pool"));
        sandbox.ok(&["volume", "create", &at("pool"), "v", "--size", "1M"]);
        let image = at("image");
        let export = ["volume", "export", &at("pool"), "v", &image];
        let said = sandbox.ok(&export);
        let open = format!("every user of this machine can read '{image}'");
        assert!(said.err.contains(&open), "{}", said.err);
        sandbox.ok(&[&export[..], &["--force"]].concat());
        let drive = ["ssd", "serve", "--dir", &at("drive"), "--run", "true"];
        let small = ["--set", "channels=1", "--set", "packages=1"];
        let said = sandbox.ok(&[&drive[..], &small].concat());
        assert!(said.err.contains(&told("drive")), "{}", said.err);
        assert!(!sandbox.ok(&drive).err.contains("warning"), "it is told once");
    }
}

/// A program that is killed when this is dropped.
struct Killed(Child);

impl Killed {
    /// What the system tells in `file` of each of its threads.
    fn threads(&self, file: &str) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let told = |thread: fs::DirEntry| fs::read_to_string(thread.path().join(file));
        threads.map(|thread| told(thread.unwrap()).unwrap_or_default()).collect()
    }

    /// Wait for its end. Returns its status and what it said.
    fn ended(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            // Root is told where in the kernel each thread waits.
            let where_it_is = || ["stat", "stack"].map(|file| self.threads(file).concat()).concat();
            assert!(begun.elapsed() < PATIENCE, "it does not leave:\n{}", where_it_is());
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        (self.0.wait().unwrap().code(), said)
    }
}

/// The state of a thread in its `stat`: what follows its name, which stands in parentheses.
fn state_in(stat: &str) -> &str {
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Nobody waits for it, as it may wait for a disk that does not answer.
        let _ = self.0.kill();
    }
}

/// `folder` of a sandbox as `hangs`, by a process that can be stopped: then no question about it is
/// ever answered.
struct Hanging {
    bindfs: Killed,
    at: String,
}

impl Hanging {
    fn mount(sandbox: &Sandbox) -> Self {
        for name in ["folder", "hangs"] {
            fs::create_dir(sandbox.path(name)).unwrap();
        }
        let device = || fs::metadata(sandbox.path("hangs")).unwrap().dev();
        let before = device();
        let mut bindfs = Command::new("bindfs");
        bindfs.args(["-f", &sandbox.text("folder"), &sandbox.text("hangs")]);
        let bindfs = Killed(bindfs.spawn().unwrap());
        wait_until("it is mounted", || device() != before);
        Self { bindfs, at: sandbox.text("hangs") }
    }

    /// From now on it does not answer.
    fn stop(&self) {
        tool("kill", &["-STOP", &self.bindfs.0.id().to_string()]);
        // A thread that has yet to stop would take one more request, and who waits for the answer
        // to a request that was taken cannot be killed.
        wait_until("all of it has stopped", || {
            self.bindfs.threads("stat").iter().all(|stat| state_in(stat) == "T")
        });
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // What waits for it goes with it.
        let _ = self.bindfs.0.kill();
        let _ = Command::new("fusermount3").args(["-u", "-z", &self.at]).status();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_disk_that_never_answers_does_not_keep_a_server_from_leaving() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let hanging = Hanging::mount(&sandbox);
    let start = |name: &'static str, words: &[&str]| {
        let socket = sandbox.path(&format!("{name}.socket"));
        let listen = format!("unix:{}", socket.display());
        let command = sandbox.command(&[words, &["--listen", &listen]].concat());
        (name, Server::start(command, socket))
    };
    let drive = ["ssd", "serve", "--dir", "hangs/drive", "--set", "channels=1"];
    let mut servers = [
        start("pool", &["serve", "hangs/pool"]),
        start("drive", &[&drive[..], &["--set", "packages=1"]].concat()),
    ];
    hanging.stop();
    for (_, server) in &servers {
        server.signal("TERM");
    }
    for (name, server) in &mut servers {
        let told = server.wait_for_line("error: ").pop().unwrap();
        let at = format!("{name} 'hangs/{name}' could not be flushed in time");
        assert_eq!(told, format!("error: {at}"));
        assert_eq!(server.ended().code(), Some(1));
    }
}

#[test]
fn a_disk_that_never_answers_keeps_no_command_from_hearing_signals() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::write(sandbox.path("data/file"), noise(1, 3_000_000)).unwrap();
    fs::create_dir(sandbox.path("mnt")).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1M"]);
    let hanging = Hanging::mount(&sandbox);
    sandbox.ok(&["archive", "create", "hangs/a"]);
    sandbox.ok(&["archive", "add", "hangs/a", "data"]);
    sandbox.ok(&["archive", "create", "here"]);
    fs::create_dir(sandbox.path("hangs/tree")).unwrap();
    let start = |words: &[&str]| {
        let mut command = sandbox.command(words);
        Killed(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let mount = start(&["archive", "mount", "hangs/a", "mnt"]);
    let _mnt = Cleanup(
        ["fusermount3", "-u", "-z", "-q", &sandbox.text("mnt")].map(str::to_owned).to_vec(),
    );
    wait_until("it is mounted", || sandbox.path("mnt/1").exists());

    hanging.stop();
    let mut cat = Command::new("cat");
    let cat =
        Killed(cat.arg(sandbox.path("mnt/1/data/file")).stdout(Stdio::null()).spawn().unwrap());
    let add = start(&["archive", "add", "here", "hangs/tree"]);
    let export = start(&["volume", "export", "pool", "v", "hangs/image"]);
    let all =
        [("add", add, vec![130, 143]), ("export", export, vec![130]), ("mount", mount, vec![0, 1])];
    for (what, process, _) in &all {
        wait_until(what, || process.threads("comm").contains(&"signals\n".to_owned()));
        tool("kill", &["-INT", &process.0.id().to_string()]);
    }
    // The first only asks who adds, wherever that is; the second ends it.
    tool("kill", &["-TERM", &all[0].1.0.id().to_string()]);
    for (what, process, statuses) in all {
        let (code, said) = process.ended();
        assert!(statuses.contains(&code.unwrap()), "{what}: {code:?} {said}");
    }
    drop(cat);
}

#[test]
fn a_server_that_is_told_twice_leaves_at_once_and_says_so_to_other_machines() {
    let Some((sandbox, _mounts)) = mounts() else { return };
    sandbox.ok(&["pool", "create", "one/pool"]);
    sandbox.ok(&["volume", "create", "one/pool", "v", "--size", "1M"]);
    // It waits for its command, which does not want to end.
    let script = "trap '' TERM; echo $$ > told; mv told pid; exec sleep 60";
    let server = Killed(sandbox.command(&["serve", "one/pool", "--run", script]).spawn().unwrap());
    wait_until("its command runs", || sandbox.path("pid").exists());
    assert_eq!(of_locks(&sandbox, "pool"), 1);
    for signal in ["-TERM", "-INT"] {
        tool("kill", &[signal, &server.0.id().to_string()]);
    }
    let (code, _) = server.ended();
    // Both may have come before the first was heard.
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    assert_eq!(of_locks(&sandbox, "pool"), 0);
    tool("kill", &["-KILL", fs::read_to_string(sandbox.path("pid")).unwrap().trim()]);
    sandbox.check("two/pool");
}
