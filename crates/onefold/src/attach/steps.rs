//! What is done to the machine, one thing after the other, each with how it is undone.
//! Room: onefold.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onefold_nbd::ListenAddr;
use onefold_ublk::{Control, Device};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::carrier::Started;
use super::netlink::Netlink;
use super::{Note, Wanted, client, queues};
use crate::failure::{Failure, Result};

/// How long a device or file may take to come, or to go.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// So much of a device is looked at to see whether there is anything on it.
const BEGIN_BYTES: u64 = 1 << 20;
/// The file that nbdfuse shows in its folder.
const FILE: &str = "nbd";
/// What is mounted where.
const MOUNTS: &str = "/proc/self/mountinfo";

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A folder was made.
    Folder(PathBuf),
    /// nbdfuse shows its file in a folder.
    Fuse(PathBuf),
    /// A loop device was put on a file.
    Loop(PathBuf),
    /// The kernel's NBD client has the device of this number.
    Nbd(u32),
    /// A ublk device of this number, for which this process answers.
    Ublk {
        /// Its number.
        device: u32,
        /// The carrier's.
        process: u32,
    },
    /// A file system was mounted.
    Mount(PathBuf),
}

impl Step {
    /// The device that is there by it.
    pub fn device(&self) -> Option<PathBuf> {
        match self {
            Self::Loop(device) => Some(device.clone()),
            Self::Nbd(index) => Some(device_of(*index)),
            Self::Ublk { device, .. } => Some(Device::path_of(*device)),
            Self::Folder(_) | Self::Fuse(_) | Self::Mount(_) => None,
        }
    }

    /// Undo it, unless somebody else did: what has its place by now is not this note's.
    pub fn undo(&self, note: &Note) -> Result<()> {
        match self {
            Self::Folder(at) => match std::fs::remove_dir(at) {
                Err(error) if at.exists() => Err(Failure::broke("remove", at, error)),
                _ => Ok(()),
            },
            Self::Fuse(at) => {
                if !is_mounted(at) {
                    return Ok(());
                }
                run("fusermount3", &["-u".as_ref(), at.as_os_str()])?;
                wait_until(PATIENCE, at, "go", || !is_mounted(at))
            }
            Self::Loop(device) => {
                if is_on(device, &note.folder().join(FILE)) {
                    let_go(device)?;
                    run("losetup", &["-d".as_ref(), device.as_os_str()])?;
                }
                Ok(())
            }
            Self::Nbd(index) => {
                let device = device_of(*index);
                let_go(&device)?;
                let gone = Netlink::open().and_then(|mut netlink| netlink.disconnect(*index));
                gone.map_err(|error| Failure::broke("disconnect", &device, error))
            }
            Self::Ublk { device, process } => remove_ublk(*device, *process),
            Self::Mount(at) => {
                let mounts = std::fs::read_to_string(MOUNTS)
                    .map_err(|error| Failure::unusable("read", Path::new(MOUNTS), error))?;
                let sources = sources_at(&mounts, at);
                let ours = note.device().unwrap_or_default();
                match sources.iter().position(|source| *source == ours) {
                    None => Ok(()),
                    Some(place) if place + 1 == sources.len() => {
                        run("umount", &[at.as_os_str()]).map(drop)
                    }
                    Some(_) => {
                        let over = "something else is mounted over it";
                        Err(Failure::broke("unmount", at, over))
                    }
                }
            }
        }
    }
}

fn device_of(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/nbd{index}"))
}

/// Nobody has a device mounted, or claims it in another way.
fn let_go(device: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(device, flags, Mode::empty()) {
        Err(Errno::BUSY) => Err(Failure::broke("let go of", device, "it is in use")),
        // One that is gone, or whose server is.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a loop device is on this file of nbdfuse.
fn is_on(device: &Path, file: &Path) -> bool {
    let name = device.file_name().unwrap_or_default();
    let told = Path::new("/sys/block").join(name).join("loop/backing_file");
    let Ok(told) = std::fs::read(told) else { return false };
    let told = told.strip_suffix(b"\n").unwrap_or(&told);
    // That is what a file is called whose file system nobody sees any more (`umount --lazy`).
    let unseen = Path::new("/").join(FILE);
    told == file.as_os_str().as_encoded_bytes()
        || (told == unseen.as_os_str().as_encoded_bytes() && !unseen.exists())
}

/// What is mounted at a folder, by the system's list of mounts: the last is above the others.
fn sources_at(mounts: &str, at: &Path) -> Vec<PathBuf> {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let is_there = unescaped(place.split(' ').nth(4)?) == at;
        is_there.then(|| kind.split(' ').nth(1).map(unescaped))?
    };
    mounts.lines().filter_map(mount).collect()
}

/// A path of the list of mounts, in which some characters are three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Remove a ublk device, if it is still the one that was made.
fn remove_ublk(number: u32, process: u32) -> Result<()> {
    if !Control::is_there() {
        return Ok(());
    }
    let device = Device::path_of(number);
    let failed = |error: std::io::Error| Failure::broke("remove", &device, error);
    let mut control = Control::open().map_err(failed)?;
    queues::remove(&mut control, (number, process), || let_go(&device), failed)
}

/// Whether something is mounted at a folder: it is on another device than the folder above it.
fn is_mounted(at: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let device = |at: &Path| std::fs::metadata(at).map(|found| found.dev());
    match (device(at), at.parent().map(device)) {
        (Ok(here), Some(Ok(above))) => here != above,
        // A file system whose server is gone.
        (Err(error), _) => error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()),
        _ => false,
    }
}

/// Whether a program of this name is in the search path.
pub fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Run a program that must succeed.
fn run(program: &str, args: &[&std::ffi::OsStr]) -> Result<String> {
    let failed = |why: String| Failure::bad(format!("{program}: {}", why.trim()));
    let output =
        Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|error| {
            failed(error.to_string()).hint("what is missing, and how to install it: onefold doctor")
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(if said.trim().is_empty() { output.status.to_string() } else { said.into_owned() }))
}

fn wait_until(patience: Duration, at: &Path, what: &str, done: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > patience {
            return Err(Failure::bad(format!("'{}' does not {what}", at.display())));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// By the kernel's NBD client.
pub fn by_kernel(wanted: &Wanted<'_>, note: &mut Note) -> Result<PathBuf> {
    let failed = |error: std::io::Error| {
        Failure::bad(format!("'{}' cannot be attached: {error}", wanted.export))
    };
    let (stream, mut shown) = client::connect(wanted.socket, wanted.export).map_err(failed)?;
    if wanted.read_only {
        shown.flags |= onefold_nbd::protocol::constants::transmission_flag::READ_ONLY;
    }
    let connected = Netlink::open().and_then(|mut kernel| kernel.connect(stream.as_fd(), &shown));
    let index = connected.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => super::no_kernels(wanted.export),
        _ => failed(error),
    })?;
    note.add(Step::Nbd(index))?;
    let device = device_of(index);
    comes_as_device(&device)?;
    mount(&device, wanted, note)?;
    Ok(device)
}

fn comes_as_device(device: &Path) -> Result<()> {
    wait_until(PATIENCE, device, "come", || is_shown(device, Path::new("/sys/block")))
}

/// Whether a device is there and has a size, by the kernel's list of devices.
fn is_shown(device: &Path, listed: &Path) -> bool {
    let size = listed.join(device.file_name().unwrap_or_default()).join("size");
    device.exists() && std::fs::read_to_string(size).is_ok_and(|text| text.trim() != "0")
}

/// By the kernel's ublk, and a process that carries requests to the server.
pub fn by_ublk(wanted: &Wanted<'_>, note: &mut Note) -> Result<PathBuf> {
    if !Control::is_there() {
        return Err(super::no_ublk(wanted.export));
    }
    let carrier = Started::start(wanted)?;
    note.add(Step::Ublk { device: carrier.device, process: carrier.process() })?;
    let device = Device::path_of(carrier.device);
    carrier.wait()?;
    comes_as_device(&device)?;
    mount(&device, wanted, note)?;
    Ok(device)
}

/// By nbdfuse, and where it is to be mounted by a loop device on its file.
pub fn by_fuse(wanted: &Wanted<'_>, note: &mut Note) -> Result<PathBuf> {
    let folder = note.folder();
    note.add(Step::Folder(folder.clone()))?;
    let unusable = |error| Failure::unusable("make a folder at", &folder, error);
    std::fs::create_dir(&folder).map_err(unusable)?;
    note.add(Step::Fuse(folder.clone()))?;
    let uri = ListenAddr::Unix(wanted.socket.to_owned()).uri(wanted.export, false);
    let mut command = Command::new("nbdfuse");
    command.args(wanted.read_only.then_some("-r"));
    // It outlives this command, and the terminal.
    command.arg(&folder).arg(&uri).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    let started = command.stderr(Stdio::null()).spawn();
    let mut child = started.map_err(|error| Failure::bad(format!("nbdfuse: {error}")))?;
    let file = folder.join(FILE);
    comes(&mut child, &file)?;
    let Some(_) = wanted.mount else { return Ok(file) };
    let mut args = vec!["--find".as_ref(), "--show".as_ref()];
    args.extend(wanted.read_only.then_some(std::ffi::OsStr::new("--read-only")));
    args.push(file.as_os_str());
    let device = PathBuf::from(run("losetup", &args)?);
    note.add(Step::Loop(device.clone()))?;
    mount(&device, wanted, note)?;
    Ok(device)
}

fn comes(child: &mut Child, file: &Path) -> Result<()> {
    let begun = Instant::now();
    while !file.exists() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Failure::bad(format!("nbdfuse has ended: {status}"))
                .hint("what is missing, and how to install it: onefold doctor"));
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::bad("nbdfuse shows no file"));
        }
        sleep(LOOK);
    }
    Ok(())
}

fn mount(device: &Path, wanted: &Wanted<'_>, note: &mut Note) -> Result<()> {
    let Some(point) = wanted.mount else { return Ok(()) };
    let unusable = |error| Failure::unusable("mount at", point, error);
    let point = point.canonicalize().map_err(unusable)?;
    note.add(Step::Mount(point.clone()))?;
    let mut args = vec![device.as_os_str(), point.as_os_str()];
    args.extend(wanted.read_only.then_some(std::ffi::OsStr::new("-oro")));
    run("mount", &args)
        .map(drop)
        .map_err(|failure| failure.hint(why_not_mounted(begins_empty(device), wanted)))
}

/// Whether nothing was ever written to the beginning of a device, where all file systems, and what
/// else lies on disks, say what they are; where that cannot be read it is not known.
fn begins_empty(device: &Path) -> Option<bool> {
    let mut begin = Vec::new();
    let read = File::open(device).and_then(|at| at.take(BEGIN_BYTES).read_to_end(&mut begin));
    read.ok().map(|_| begin.iter().all(|&byte| byte == 0))
}

/// What to do about a mount that failed. Nobody is told to make a file system where something is.
fn why_not_mounted(is_empty: Option<bool>, wanted: &Wanted<'_>) -> String {
    match (is_empty, wanted.read_only) {
        (Some(true), _) => {
            "a new volume needs a file system first: attach it without a folder, mkfs.ext4".into()
        }
        (_, true) => format!(
            "what was mounted when a snapshot was made wants its journal replayed, and a volume to \
             do that on: onefold volume clone POOL {} NAME",
            wanted.export
        ),
        (_, false) => "it is not empty: attach it without a folder, and see what is on it with \
                       blkid --probe"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_and_what_is_not_is_told_apart() {
        assert!(is_mounted(Path::new("/proc")));
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_mounted(folder.path()) && !is_mounted(Path::new("/")));
        assert!(!is_mounted(&folder.path().join("none")));
    }

    #[test]
    fn what_is_mounted_at_a_folder_is_told_by_the_devices_in_their_order() {
        let mounts = "22 1 7:0 / / rw - ext4 /dev/vda rw\n\
                      23 22 7:1 / /mnt/a\\040b rw,relatime shared:1 - ext4 /dev/loop1 rw\n\
                      24 22 7:2 / /mnt/a rw - ext4 /dev/loop2 rw\n\
                      25 23 0:9 / /mnt/a\\040b rw master:1 - tmpfs some\\134thing rw\n\
                      26 22 0:9 / /mnt rw - tmpfs\n";
        let at = |path: &str| sources_at(mounts, Path::new(path));
        assert_eq!(at("/mnt/a b"), [Path::new("/dev/loop1"), Path::new("some\\thing")]);
        assert_eq!(at("/mnt/a"), [Path::new("/dev/loop2")]);
        assert_eq!(at("/mnt"), [] as [PathBuf; 0]);
        assert_eq!(unescaped("\\04\\0400\\777\\"), Path::new("\\04 0\\777\\"));
    }

    #[test]
    fn a_file_system_is_asked_for_only_where_there_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        assert_eq!(begins_empty(&device), None);
        std::fs::write(&device, vec![0; 3 << 20]).unwrap();
        assert_eq!(begins_empty(&device), Some(true));
        // The last place that is looked at.
        let mut content = vec![0; 3 << 20];
        content[BEGIN_BYTES as usize - 1] = 1;
        std::fs::write(&device, content).unwrap();
        assert_eq!(begins_empty(&device), Some(false));
        let wanted = |read_only| Wanted {
            socket: Path::new("s"),
            export: "main@then",
            mount: None,
            read_only,
        };
        let hint = |is_empty, read_only| why_not_mounted(is_empty, &wanted(read_only));
        for read_only in [false, true] {
            assert!(hint(Some(true), read_only).ends_with("mkfs.ext4"));
            for is_empty in [Some(false), None] {
                assert!(!hint(is_empty, read_only).contains("mkfs"));
            }
        }
        assert!(hint(None, true).ends_with("onefold volume clone POOL main@then NAME"));
        assert!(hint(None, false).ends_with("blkid --probe"));
    }

    #[test]
    fn a_device_is_shown_once_it_is_there_with_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let (device, listed) = (folder.path().join("d0"), folder.path().join("block"));
        std::fs::create_dir_all(listed.join("d0")).unwrap();
        let shown = |size: &str| {
            std::fs::write(listed.join("d0/size"), size).unwrap();
            is_shown(&device, &listed)
        };
        assert!(!shown("8\n"));
        std::fs::write(&device, "").unwrap();
        assert_eq!(["0\n", "8\n"].map(shown), [false, true]);
        let wait = |patience, done| wait_until(patience, &device, "come", || done);
        assert!(wait(Duration::ZERO, true).is_ok());
        let late = wait(Duration::ZERO, false).unwrap_err().message;
        assert!(late.ends_with("d0' does not come"), "{late}");
    }

    #[test]
    fn a_program_that_fails_is_told_with_what_it_said() {
        let said = |script: &str| run("sh", &["-c".as_ref(), script.as_ref()]);
        assert_eq!(said("echo ' /dev/loop7'"), Ok("/dev/loop7".to_owned()));
        let why = |script| said(script).unwrap_err().message;
        assert_eq!(why("echo no device >&2; exit 1"), "sh: no device");
        assert_eq!(why("exit 3"), "sh: exit status: 3");
        let missing = run("onefold-no-such-program", &[]).unwrap_err();
        assert!(missing.hints.concat().contains("onefold doctor"), "{missing:?}");
        assert!(is_program("sh") && !is_program("onefold-no-such-program"));
    }

    #[test]
    fn steps_that_are_undone_or_never_were_are_undone_without_harm() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note::in_file(folder.path().join("n.json"));
        let inside = folder.path().join("d");
        std::fs::create_dir(&inside).unwrap();
        for _ in 0..2 {
            Step::Folder(inside.clone()).undo(&note).unwrap();
            assert!(!inside.exists());
        }
        for step in [Step::Fuse(folder.path().into()), Step::Mount(folder.path().into())] {
            step.undo(&note).unwrap();
        }
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("file"), "x").unwrap();
        assert!(Step::Folder(inside).undo(&note).is_err(), "what is in it stays");
    }

    #[test]
    fn nbdfuse_that_ends_before_its_file_is_there_is_told_and_one_that_shows_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let started = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder.path()).stdin(Stdio::piped());
            command.spawn().unwrap()
        };
        let file = folder.path().join(FILE);
        let mut ended = started("exit 4");
        assert_eq!(
            comes(&mut ended, &file).unwrap_err().message,
            "nbdfuse has ended: exit status: 4"
        );
        let mut shows = started("echo > nbd; cat");
        comes(&mut shows, &file).unwrap();
        drop(shows.stdin.take());
        shows.wait().unwrap();
    }
}
