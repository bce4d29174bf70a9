//! A volume as a file or device of this machine, mounted, and all of it undone.
//! Room: onefold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::harness::{Said, Sandbox, Server, machine, run, tool};

/// A pool that is served, and a folder for notes.
struct Stage {
    sandbox: Sandbox,
    server: Server,
}

impl Stage {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let server = sandbox.serve("pool", &["--size", "64M"]);
        fs::create_dir(sandbox.path("mnt")).unwrap();
        Self { sandbox, server }
    }

    fn onefold(&self, args: &[&str]) -> Said {
        let mut command = self.sandbox.command(args);
        run(command.env("ONEFOLD_ATTACHED", self.sandbox.path("notes")))
    }

    /// By nbdfuse, whatever this machine has: the device or file.
    fn attach(&self, args: &[&str]) -> PathBuf {
        let said = self.onefold(&[&["attach", "pool", "--by", "file"], args].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        said.text().trim().into()
    }

    fn detach(&self, volume: &str) {
        let said = self.onefold(&["detach", "pool", volume]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        self.assert_nothing_is_left();
    }

    /// No note, no mount, no loop device, no process.
    fn assert_nothing_is_left(&self) {
        let notes = fs::read_dir(self.sandbox.path("notes")).unwrap();
        let notes: Vec<_> = notes.map(|note| note.unwrap().file_name()).collect();
        assert!(notes.is_empty(), "{notes:?}");
        let here = self.sandbox.text("");
        for listed in [fs::read_to_string("/proc/mounts").unwrap(), loops()] {
            assert!(!listed.contains(&here), "{listed}");
        }
    }
}

fn loops() -> String {
    tool("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]).text().to_owned()
}

#[test]
fn a_volume_is_a_file_gets_a_file_system_and_is_mounted_and_nothing_is_left() {
    let _machine = machine();
    let stage = Stage::new();
    let file = stage.attach(&["main"]);
    assert_eq!(fs::metadata(&file).unwrap().len(), 64 << 20);
    tool("mkfs.ext4", &["-q", "-F", file.to_str().unwrap()]);
    let again = stage.onefold(&["attach", "pool", "main", "--by", "file"]);
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("onefold detach pool main"), "{}", again.err);
    // What is not there is named beside what is.
    let there = "there are: main";
    for (name, why) in [("nosuch", there), ("main@x", "'main@x'"), ("nosuch@g1", there)] {
        let said = stage.onefold(&["attach", "pool", name, "--by", "file"]);
        assert_eq!(said.code, Some(2), "{name}: {}", said.err);
        assert!(said.err.contains(why) && !said.err.contains("nbdfuse"), "{name}: {}", said.err);
    }
    let dated = stage.attach(&["main@g1"]);
    assert_eq!(fs::metadata(&dated).unwrap().len(), 64 << 20);
    assert_eq!(stage.onefold(&["detach", "pool", "main@g1"]).code, Some(0));
    stage.detach("main");
    assert!(!file.exists());

    let mnt = stage.sandbox.text("mnt");
    let device = stage.attach(&["main", &mnt]);
    assert!(device.to_str().unwrap().starts_with("/dev/loop"), "{}", device.display());
    let inside = Path::new(&mnt).join("file");
    fs::write(&inside, b"what is written").unwrap();
    // Who is in it keeps it; then it is detached as a whole.
    let open = fs::File::open(&inside).unwrap();
    let busy = stage.onefold(&["detach", "pool", "main"]);
    assert_eq!(busy.code, Some(1), "{}", busy.err);
    assert!(busy.err.contains("umount") && busy.err.contains("detach it again"), "{}", busy.err);
    assert!(inside.exists());
    drop(open);
    // What somebody has mounted by hand is not pulled away.
    let elsewhere = stage.sandbox.text("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    tool("mount", &[device.to_str().unwrap(), &elsewhere]);
    let busy = stage.onefold(&["detach", "pool", "main"]);
    let is_there = Path::new(&elsewhere).join("file").exists();
    tool("umount", &[&elsewhere]);
    assert_eq!(busy.code, Some(1), "{}", busy.err);
    assert!(is_there && busy.err.contains("it is in use"), "{}", busy.err);
    stage.detach("main");
    assert!(!inside.exists());

    // A snapshot beside its volume, which has changed since.
    stage.sandbox.ok(&["volume", "snapshot", "pool", "main@then"]);
    stage.attach(&["main", &mnt]);
    fs::write(&inside, b"something else").unwrap();
    let then = stage.sandbox.text("then");
    fs::create_dir(&then).unwrap();
    // ext4 would write its journal anew.
    stage.attach(&["main@then", "--read-only"]);
    stage.detach_one("main@then");
    // One of a file system in use wants its journal replayed; nobody is told to make a new one.
    tool("sync", &["--file-system", &mnt]);
    stage.sandbox.ok(&["volume", "snapshot", "pool", "main@used"]);
    let used = ["attach", "pool", "main@used", &then, "--read-only", "--by", "file"];
    let used = stage.onefold(&used);
    assert_eq!(used.code, Some(1), "{}", used.err);
    assert!(used.err.contains("volume clone") && !used.err.contains("mkfs"), "{}", used.err);
    stage.sandbox.ok(&["volume", "clone", "pool", "main@used", "look"]);
    stage.attach(&["look", &then]);
    assert_eq!(fs::read(Path::new(&then).join("file")).unwrap(), b"something else");
    stage.detach_one("look");
    stage.detach("main");
    let none = stage.onefold(&["detach", "pool", "main"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
    stage.server.stop();
    stage.sandbox.check("pool");
}

impl Stage {
    fn detach_one(&self, volume: &str) {
        let said = self.onefold(&["detach", "pool", volume]);
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}

#[test]
fn what_fails_half_way_and_what_a_killed_helper_leaves_is_undone() {
    let _machine = machine();
    let stage = Stage::new();
    let mnt = stage.sandbox.text("mnt");
    // There is no file system on it.
    let said = stage.onefold(&["attach", "pool", "main", &mnt, "--by", "file"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("mkfs.ext4"), "{}", said.err);
    stage.assert_nothing_is_left();
    // The server gives it to nobody in that generation.
    let said = stage.onefold(&["attach", "pool", "main@g9", "--by", "file"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    stage.assert_nothing_is_left();
    // nbdfuse dies, and its folder answers nobody.
    let file = stage.attach(&["main"]);
    let listed = tool("pgrep", &["--full", &format!("nbdfuse.*{}", stage.sandbox.text(""))]);
    tool("kill", &["-KILL", listed.text().trim()]);
    while file.exists() {
        std::thread::yield_now();
    }
    stage.detach("main");
    // Without a server there is nothing to attach; without a Unix socket neither.
    stage.server.stop();
    let said = stage.sandbox.onefold(&["attach", "pool", "main"]);
    assert!(said.code == Some(2) && said.err.contains("onefold serve"), "{}", said.err);
    let args = ["serve", "pool", "--listen", "tcp:127.0.0.1:0"];
    let server = Server::start(stage.sandbox.command(&args), stage.sandbox.path("none"));
    let said = stage.sandbox.onefold(&["attach", "pool", "main"]);
    assert!(said.code == Some(2) && said.err.contains("--listen unix:PATH"), "{}", said.err);
    server.stop();
}

#[test]
fn what_somebody_else_has_put_in_its_place_is_left_alone() {
    let _machine = machine();
    let stage = Stage::new();
    let mnt = stage.sandbox.text("mnt");
    let must = |program: &str, args: &[&str]| {
        let said = tool(program, args);
        assert_eq!(said.code, Some(0), "{program} {args:?}: {}", said.err);
    };
    let foreign = || fs::write(Path::new(&mnt).join("foreign"), b"").unwrap();
    let is_foreign = || Path::new(&mnt).join("foreign").exists();
    // There is no file system on the volume, and another one where it was to be mounted.
    must("mount", &["-t", "tmpfs", "none", &mnt]);
    foreign();
    let said = stage.onefold(&["attach", "pool", "main", &mnt, "--by", "file"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(is_foreign());
    must("umount", &[&mnt]);
    stage.assert_nothing_is_left();

    let file = stage.attach(&["main"]);
    must("mkfs.ext4", &["-q", "-F", file.to_str().unwrap()]);
    stage.detach("main");
    // Another file system is above it: nothing of either is undone.
    let device = stage.attach(&["main", &mnt]);
    must("mount", &["-t", "tmpfs", "none", &mnt]);
    foreign();
    let said = stage.onefold(&["detach", "pool", "main"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("something else is mounted over it"), "{}", said.err);
    assert!(is_foreign());
    must("umount", &[&mnt]);
    // It was unmounted by hand, its loop device given to another file, and something else mounted.
    must("umount", &[&mnt]);
    let device = device.to_str().unwrap();
    must("losetup", &["--detach", device]);
    let other = stage.sandbox.path("other");
    fs::write(&other, vec![0; 1 << 20]).unwrap();
    must("losetup", &[device, other.to_str().unwrap()]);
    must("mount", &["-t", "tmpfs", "none", &mnt]);
    foreign();
    let said = stage.onefold(&["detach", "pool", "main"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(is_foreign() && loops().contains(other.to_str().unwrap()), "{}", loops());
    must("umount", &[&mnt]);
    must("losetup", &["--detach", device]);
    stage.assert_nothing_is_left();

    // Nobody sees nbdfuse's file any more, and the pool's folder is gone: it is undone all the
    // same.
    let device = stage.attach(&["main", &mnt]);
    let listed =
        tool("losetup", &["--noheadings", "--output", "BACK-FILE", device.to_str().unwrap()]);
    let shown = Path::new(listed.text().trim()).parent().unwrap().to_owned();
    must("umount", &["--lazy", shown.to_str().unwrap()]);
    let Stage { sandbox, server } = stage;
    server.stop();
    fs::rename(sandbox.path("pool"), sandbox.path("gone")).unwrap();
    let (server, sandbox) = (sandbox.serve("elsewhere", &["--size", "64M"]), sandbox);
    let stage = Stage { sandbox, server };
    stage.detach("main");
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let on = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    assert!(on.is_err(), "{on:?}");
}

#[test]
fn of_several_that_attach_a_volume_at_once_one_does() {
    let stage = Stage::new();
    let begin = |_| {
        let mut command = stage.sandbox.command(&["attach", "pool", "main", "--by", "file"]);
        command.env("ONEFOLD_ATTACHED", stage.sandbox.path("notes"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let begun: Vec<_> = (0..4).map(begin).collect();
    let ended = begun.into_iter().map(|command| command.wait_with_output().unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let said: Vec<_> =
        ended.map(|end| (end.status.code(), text(&end.stdout), text(&end.stderr))).collect();
    let (done, refused): (Vec<_>, Vec<_>) = said.iter().partition(|said| said.0 == Some(0));
    assert_eq!(done.len(), 1, "{said:?}");
    assert!(Path::new(&done[0].1).exists(), "{said:?}");
    for (code, _, why) in refused {
        assert_eq!(*code, Some(2), "{why}");
        assert!(why.contains("volume 'main' is attached"), "{why}");
    }
    stage.detach("main");
    stage.server.stop();
}

#[test]
fn notes_are_kept_where_nobody_else_can_write() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "64M"]);
    fs::create_dir(sandbox.path("notes")).unwrap();
    tool("chmod", &["0777", &sandbox.text("notes")]);
    let mut command: Command = sandbox.command(&["attach", "pool", "main", "--by", "file"]);
    let said = run(command.env("ONEFOLD_ATTACHED", sandbox.path("notes")));
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("others may write to"), "{}", said.err);
    server.stop();
}
