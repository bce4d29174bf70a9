//! Stores are their owner's alone, and nobody else keeps him out. What settings files may be.
//! Room: onefold.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use super::harness::{ONEFOLD, Said, Sandbox, run};
use super::ssd::SMALL;

/// Run `onefold` with a umask.
fn with_umask(sandbox: &Sandbox, mask: &str, args: &[&str]) -> Said {
    let onefold = sandbox.command(args);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\"")]);
    shell.arg(ONEFOLD).args(args).current_dir(sandbox.path(""));
    for (name, value) in onefold.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run(&mut shell)
}

/// Everything in a folder and itself, with modes.
fn modes(at: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = at.symlink_metadata().unwrap();
    let mut found = vec![(at.to_owned(), metadata.mode() & 0o7777)];
    if metadata.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            found.extend(modes(&entry.unwrap().path()));
        }
    }
    found
}

/// Make a store of each kind, with something in it.
fn make_stores(sandbox: &Sandbox, mask: &str, more: &[&str]) -> [&'static str; 5] {
    fs::write(sandbox.path("image"), vec![7; 1 << 20]).unwrap();
    let drive = [&["ssd", "serve", "--dir", "drive", "--run", "true"][..], &SMALL].concat();
    for (args, own) in [
        (&["pool", "create", "pool", "--cache", "fast", "--index-memory", "8M"][..], true),
        (&["volume", "import", "pool", "v", "image"], false),
        (&["serve", "pool", "--run", "nbdinfo $uri"], false),
        (&["volume", "export", "pool", "v", "exported"], false),
        (&drive, true),
        (&["archive", "create", "store"], true),
        (&["archive", "add", "store", "image"], false),
    ] {
        let args = if own { [args, more].concat() } else { args.to_vec() };
        let said = with_umask(sandbox, mask, &args);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
    }
    ["pool", "fast", "drive", "store", "exported"]
}

#[test]
fn stores_are_their_owners_alone_whatever_the_umask() {
    let sandbox = Sandbox::new();
    for store in make_stores(&sandbox, "000", &[]) {
        for (path, mode) in modes(&sandbox.path(store)) {
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, wanted, "{}", path.display());
        }
    }
}

#[test]
fn a_group_that_is_named_may_use_a_store() {
    let sandbox = Sandbox::new();
    let group = fs::metadata(sandbox.path("")).unwrap().gid();
    let said = sandbox.onefold(&["pool", "create", "pool", "--group", "no such group"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("there is no such group"), "{}", said.err);
    let more = ["--group", &group.to_string()];
    for store in &make_stores(&sandbox, "077", &more)[..4] {
        for (path, mode) in modes(&sandbox.path(store)) {
            let wanted = if path.is_dir() { 0o2770 } else { 0o660 };
            assert_eq!(mode, wanted, "{}", path.display());
        }
    }
    let server = sandbox.serve("pool", &more);
    let socket = fs::metadata(sandbox.path("socket")).unwrap();
    assert_eq!((socket.mode() & 0o777, socket.gid()), (0o660, group));
    server.stop();
}

#[test]
fn whoever_is_in_the_group_commands_a_server_that_does_not_know_its_users() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A group and users that no list of this machine has, as for a service that has its own.
    let (group, sandbox) = ("4000009", Sandbox::new());
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = sandbox.path("onefold");
    fs::copy(ONEFOLD, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let server = sandbox.serve("pool", &["--group", group]);
    let list = |groups: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=4000002", "--regid=4000002", groups, "--"]).arg(&program);
        run(command.args(["volume", "list", "pool"]).current_dir(sandbox.path("")))
    };
    let member = list("--groups=4000008,4000009");
    assert_eq!(member.code, Some(0), "{}", member.err);
    assert!(member.text().contains("main"), "{}", member.text());
    let other = list("--groups=4000008");
    assert_eq!(other.code, Some(2), "{}", other.err);
    server.stop();
}

/// Run a program as nobody, who has nothing to do with the owner; `None` where we are not root.
fn as_nobody(args: &[&str]) -> Option<Said> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    Some(run(command.args(args)))
}

#[test]
fn somebody_else_neither_reads_a_store_nor_keeps_its_owner_out() {
    let sandbox = Sandbox::new();
    make_stores(&sandbox, "022", &[]);
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    for (store, file) in [("pool", "super.1"), ("drive", "nand"), ("store", "log.0")] {
        // As it was made before stores were private: the folder can be opened by anybody.
        fs::set_permissions(sandbox.path(store), fs::Permissions::from_mode(0o755)).unwrap();
        let file = sandbox.text(&format!("{store}/{file}"));
        if let Some(said) = as_nobody(&["cat", &file]) {
            assert_eq!(said.code, Some(1), "read {file}");
        }
        let lock = sandbox.text(&format!("{store}/lock"));
        if let Some(said) = as_nobody(&["flock", "--nonblock", &lock, "true"]) {
            assert_ne!(said.code, Some(0), "locked {lock}");
        }
        // What anybody may do with such a folder.
        let folder = File::open(sandbox.path(store)).unwrap();
        flock(&folder, FlockOperation::NonBlockingLockExclusive).unwrap();
        let said = match store {
            "pool" => sandbox.onefold(&["serve", "pool", "--run", "true"]),
            "drive" => sandbox.onefold(&["ssd", "serve", "--dir", "drive", "--run", "true"]),
            _ => sandbox.onefold(&["archive", "remove", "store", "1"]),
        };
        assert_eq!(said.code, Some(0), "{store}: {}", said.err);
    }
    let socket = sandbox.text("socket");
    let server = sandbox.serve("pool", &[]);
    if let Some(said) = as_nobody(&["nbdinfo", &format!("nbd+unix:///?socket={socket}")]) {
        assert_ne!(said.code, Some(0), "{}", said.text());
    }
    server.stop();
}

#[test]
fn a_server_that_is_refused_leaves_no_lock_where_there_was_none() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    fs::remove_file(sandbox.path("pool/lock")).unwrap();
    fs::write(sandbox.path("pool/map"), b"no map").unwrap();
    let said = sandbox.onefold(&["serve", "pool", "--run", "true"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(!sandbox.path("pool/lock").exists());
}

#[test]
fn a_settings_file_that_lost_what_it_said_is_an_error_with_a_way_out() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool", "--index-memory", "8M"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1M"]);
    let file = sandbox.path("pool/onefold.toml");
    assert!(!sandbox.path("pool/onefold.toml.new").exists());
    let too_long = vec![b'#'; 1_100_000];
    for damaged in [&b""[..], b"\n\n", b"index-memory = ", b"\0\0\0\0", b"\xff\xfe", &too_long] {
        fs::write(&file, damaged).unwrap();
        for args in [
            &["pool", "status", "pool"][..],
            &["serve", "pool", "--run", "true"],
            &["volume", "list", "pool"],
        ] {
            let said = sandbox.onefold(args);
            assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
            for word in ["pool/onefold.toml", "rm '", "--rescue"] {
                assert!(said.err.contains(word), "{args:?}, {word}: {}", said.err);
            }
        }
        let said = sandbox.ok(&["volume", "list", "pool", "--rescue"]);
        assert!(said.err.contains("going on without the pool's own settings"), "{}", said.err);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let said = sandbox.onefold(&["pool", "status", "pool"]);
    assert!(said.code == Some(2) && said.err.contains("not a regular file"), "{}", said.err);
}
