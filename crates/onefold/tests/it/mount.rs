//! Archives as file systems: what the kernel shows is what a restore makes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::XattrFlags;

use super::harness::{PATIENCE, Sandbox, noise, tool};

/// Whether archives can be mounted here.
pub fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists()
        && Command::new("fusermount3").arg("-V").output().is_ok_and(|said| said.status.success());
    if !can {
        eprintln!("skipped: /dev/fuse or fusermount3 is missing");
    }
    can
}

/// A tree with one of everything, and its archive with two versions.
fn archive(create: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    fs::create_dir_all(data.join("sub/empty")).unwrap();
    fs::write(data.join("large"), noise(1, 3_000_000)).unwrap();
    fs::write(data.join("sub/text"), "first").unwrap();
    fs::write(data.join(std::ffi::OsStr::from_bytes(b"not \xff UTF-8")), "name").unwrap();
    fs::hard_link(data.join("sub/text"), data.join("another name")).unwrap();
    symlink("sub/text", data.join("link")).unwrap();
    symlink("/nowhere/at/all", data.join("dangling")).unwrap();
    let sparse = fs::File::create(data.join("sparse")).unwrap();
    sparse.set_len(5_000_000).unwrap();
    tool("mkfifo", &[sandbox.path("data/pipe").to_str().unwrap()]);
    for (name, mode) in [("sub/text", 0o4751), ("large", 0o600), ("sub", 0o1777)] {
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for number in 0..300 {
        fs::write(data.join(format!("sub/file {number}")), noise(number, 700)).unwrap();
    }
    // Not every file system has attributes.
    let _ = rustix::fs::setxattr(data.join("large"), "user.a", b"\0b", XattrFlags::empty());
    sandbox.ok(&[&["archive", "create", "store"], create].concat());
    fs::create_dir(sandbox.path("mnt")).unwrap();
    sandbox
}

/// Everything below a folder but sizes and links of folders, which are the file system's own.
const TREE: &str = r"find . -printf '%P %y %m %U %G %T@ %l ' \
    \( -type f -printf '%n %s\n' -o -printf '\n' \) | sort";

#[test]
fn what_is_mounted_is_what_a_restore_makes() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("phrase"), "correct horse\n").unwrap();
    let phrase = sandbox.text("phrase");
    for key in [&[][..], &["--passphrase-file", phrase.as_str()]] {
        let sandbox = archive(key);
        let run = |args: &[&str]| sandbox.ok(&[&["archive"], args, key].concat());
        run(&["add", "store", "data"]);
        fs::write(sandbox.path("data/sub/text"), "second").unwrap();
        fs::remove_file(sandbox.path("data/pipe")).unwrap();
        run(&["add", "store", "data"]);
        for version in ["1", "2"] {
            run(&["restore", "store", "--target", version, "--version", version]);
        }
        // Two at once, beside what is told of names, rights, owners, times and links.
        let script = format!(
            "set -e
            export LC_ALL=C
            diff -r --no-dereference -x pipe 1 $mount/1 & first=$!
            diff -r --no-dereference 2 $mount/newest/ & second=$!
            for version in 1 2; do
                (cd $version && {TREE}) > restored.$version
                (cd $mount/$version && {TREE}) > mounted.$version
            done
            wait $first; wait $second
            readlink $mount/newest; ls $mount | tr '\\n' ' '
            ! test -e $mount/3; ! test -e $mount/01; ! test -e $mount/1/data/..x
            ! touch $mount/1/new 2> errors; cat errors
            tail -c 5 2/data/large > end; tail -c 5 $mount/2/data/large | cmp - end"
        );
        let said = run(&["mount", "store", "mnt", "--run", &script]);
        let expected = "2\n1 2 newest ";
        assert!(said.text().starts_with(expected), "{}{}", said.text(), said.err);
        assert!(said.text().contains("Read-only file system"), "{}", said.text());
        for version in ["1", "2"] {
            let lines = |name: &str| fs::read(sandbox.path(&format!("{name}.{version}"))).unwrap();
            let (restored, mounted) = (lines("restored"), lines("mounted"));
            assert!(restored.len() > 300 * 30);
            // The top is the target on one side, and made by the archive on the other.
            let below = |text: &[u8]| {
                let lines = text.split(|&byte| byte == b'\n').map(String::from_utf8_lossy);
                lines.filter(|line| !line.starts_with(" d")).collect::<Vec<_>>().join("\n")
            };
            pretty(&below(&restored), &below(&mounted));
        }
        assert_eq!(fs::read_dir(sandbox.path("mnt")).unwrap().count(), 0, "it is unmounted");
    }
}

#[track_caller]
fn pretty(restored: &str, mounted: &str) {
    let differs = restored.lines().zip(mounted.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(restored.lines().count(), mounted.lines().count());
}

/// A mount of its own process, which is not left behind.
struct Mount {
    child: Child,
    dir: std::path::PathBuf,
}

impl Mount {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["archive", "mount", "store", "mnt"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let dir = sandbox.path("mnt");
        let line = lines.find(|line| line.as_ref().unwrap().contains("to unmount it")).unwrap();
        assert!(line.unwrap().contains("fusermount3 -u mnt"));
        // Nobody reads the rest, and nobody waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, dir }
    }

    fn ends(&mut self) -> Option<i32> {
        let until = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("the mount does not end");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(&self.dir).status();
    }
}

#[test]
fn it_ends_by_fusermount_and_by_a_signal_and_keeps_others_from_removing() {
    if !can_mount() {
        return;
    }
    let sandbox = archive(&[]);
    sandbox.ok(&["archive", "add", "store", "data"]);
    let file = sandbox.path("mnt/1/data/sub/text");
    let mut mount = Mount::start(&sandbox);
    assert_eq!(fs::read(&file).unwrap(), b"first");
    let attribute = |path: &Path| {
        let mut value = [0; 10];
        rustix::fs::getxattr(path, "user.a", &mut value).map(|len| value[..len].to_vec())
    };
    let (here, mounted) = (sandbox.path("data/large"), sandbox.path("mnt/1/data/large"));
    if let Ok(value) = attribute(&here) {
        assert_eq!(attribute(&mounted).unwrap(), value);
    }
    assert!(attribute(&file).is_err());
    assert_eq!(mounted.metadata().unwrap().size(), 3_000_000);
    // Somebody adds, which does no harm; nobody removes.
    sandbox.ok(&["archive", "add", "store", "data"]);
    let said = sandbox.onefold(&["archive", "remove", "store", "1"]);
    assert!(said.err.contains("in use"), "{}", said.err);
    assert!(!sandbox.path("mnt/2").exists());
    tool("fusermount3", &["-u", sandbox.path("mnt").to_str().unwrap()]);
    assert_eq!(mount.ends(), Some(0));
    assert!(!file.exists());

    let mut mount = Mount::start(&sandbox);
    // In use all the while: it goes out of sight nevertheless.
    let mut open = fs::File::open(&file).unwrap();
    assert!(sandbox.path("mnt/2").exists());
    tool("kill", &["-INT", &mount.child.id().to_string()]);
    assert_eq!(mount.ends(), Some(0));
    assert!(!file.exists());
    assert!(open.read(&mut [0; 1]).is_err());
    sandbox.ok(&["archive", "remove", "store", "1"]);
}

#[test]
fn damage_is_an_error_to_that_read_and_is_named() {
    if !can_mount() {
        return;
    }
    let sandbox = archive(&[]);
    sandbox.ok(&["archive", "add", "store", "data"]);
    let container = sandbox.path("store/containers/00000001.container");
    let container = if container.exists() {
        container
    } else {
        fs::read_dir(sandbox.path("store/containers")).unwrap().next().unwrap().unwrap().path()
    };
    let mut bytes = fs::read(&container).unwrap();
    // In the middle of what only the large file holds.
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::set_permissions(&container, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&container, bytes).unwrap();
    let script = "cat mnt/1/data/large > large; echo $?; cat mnt/1/data/sub/f* > others; echo $?";
    let said = sandbox.onefold(&["archive", "mount", "store", "mnt", "--run", script]);
    assert_eq!((said.code, said.text()), (Some(1), "1\n0\n"), "{}", said.err);
    assert!(said.err.contains("Input/output error"), "{}", said.err);
    assert!(said.err.contains("warning: 'data/large': "), "{}", said.err);
    assert!(said.err.contains("fingerprint") || said.err.contains("damaged"), "{}", said.err);
    // What came before the damage is right.
    let (got, whole) = (sandbox.path("large"), sandbox.path("data/large"));
    let (got, whole) = (fs::read(got).unwrap(), fs::read(whole).unwrap());
    assert!(got.len() < whole.len() && whole.starts_with(&got));
}

#[test]
fn what_cannot_be_mounted_is_refused_by_name() {
    let sandbox = archive(&[]);
    for (args, why) in [
        (&["mount", "store", "nowhere"][..], "mkdir nowhere"),
        (&["mount", "store", "data"], "which would be hidden"),
        (&["mount", "data", "mnt"], "there is no archive"),
        (&["mount", "store", "data/large"], "Not a directory"),
    ] {
        let said = sandbox.onefold(&[&["archive"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains(why), "{args:?}: {}", said.err);
    }
}

/// What is handed to the kernel unasked waits for pages that it has asked for, and the other way
/// round nobody may wait.
#[test]
fn many_readers_of_the_same_small_files_wait_for_nobody_and_read_what_is_there() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    for folder in 0..8 {
        let folder = sandbox.path(&format!("data/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..150_u64 {
            let len = if file.is_multiple_of(40) { 200_000 } else { 60 * file as usize };
            fs::write(folder.join(format!("{file:03}")), noise(file, len)).unwrap();
        }
    }
    sandbox.ok(&["archive", "create", "store"]);
    sandbox.ok(&["archive", "add", "store", "data"]);
    fs::create_dir(sandbox.path("mnt")).unwrap();
    let read = "find . -type f -print0 | sort -z $order | xargs -0 cat | sha256sum";
    let script = format!(
        "export LC_ALL=C
        for reader in 1 2 3 4 5 6; do
            (cd $mount/1/data && {read} > ../../../sum.$reader) & readers=\"$readers $!\"
        done
        order=-r
        (cd $mount/1/data && {read} > ../../../back) & readers=\"$readers $!\"
        wait $readers
        (cd data && {read} > ../back.data); order= ; (cd data && {read} > ../sum.data)"
    )
    .replace("../../../", &format!("{}/", sandbox.path("").display()));
    sandbox.ok(&["archive", "mount", "store", "mnt", "--run", &script]);
    let sum = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap();
    for reader in 1..=6 {
        assert_eq!(sum(&format!("sum.{reader}")), sum("sum.data"));
    }
    assert_eq!(sum("back"), sum("back.data"));
    assert_ne!(sum("back"), sum("sum.data"));
}
