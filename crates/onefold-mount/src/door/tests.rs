//! A kernel of a few lines asks an archive all that a real one asks, over a socket; what it is told
//! is held word for word by `told.txt`, which `ONEFOLD_UPDATE=1` writes anew.
//! Room: onefold-mount.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use fuser::{Session, SessionACL};
use onefold_archive::{
    AddOptions, Archive, ArchiveIdentity, ArchiveSettings, BrowseMemory, Entry, LockKind, Recipe,
    Stamp,
};
use onefold_block::kept_text::assert_text;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::*;
use crate::mounted::{Mounted, config};

#[test]
fn times_before_1970_and_device_numbers_are_as_the_kernel_has_them() {
    let before = time(-2, 500_000_000);
    assert_eq!(UNIX_EPOCH.duration_since(before).unwrap(), Duration::from_millis(1500));
    assert_eq!(time(3, 7).duration_since(UNIX_EPOCH).unwrap(), Duration::new(3, 7));
    assert_eq!(time(i64::MAX, u32::MAX), UNIX_EPOCH, "no such moment");
    assert_eq!(device(rustix::fs::makedev(8, 1)), 0x801);
    assert_eq!(device(rustix::fs::makedev(259, 300)), 0x0011_032c);
}

/// Questions, by their numbers in the protocol.
#[derive(Clone, Copy, Debug)]
enum Question {
    LookUp = 1,
    GetAttributes = 3,
    ReadLink = 5,
    Open = 14,
    Read = 15,
    StatFs = 17,
    GetXattr = 22,
    ListXattr = 23,
    Init = 26,
    OpenDir = 27,
    ReadDir = 28,
    ReadDirPlus = 44,
}

const MADE: &[InitFlags] = &[InitFlags::FUSE_NO_OPEN_SUPPORT, InitFlags::FUSE_NO_OPENDIR_SUPPORT];
/// What makes it quick.
const QUICK: InitFlags = InitFlags::FUSE_DO_READDIRPLUS
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_ASYNC_READ)
    .union(InitFlags::FUSE_CACHE_SYMLINKS);
const ROOT: u64 = 1;

/// The kernel, and the session that answers it.
struct Kernel {
    socket: OwnedFd,
    mounted: Option<Mounted>,
    has_ended: Receiver<()>,
    /// What was handed over unasked: numbers and contents.
    kept: RefCell<Vec<(u64, Vec<u8>)>>,
}

/// What is answered to a greeting, or the error.
type Greeting = Result<Vec<u8>, i32>;

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Kernel {
    /// One that can do this, and the answer to its greeting.
    fn mount(browser: Browser, damage: &Arc<Damage>, can: &[InitFlags]) -> (Self, Greeting) {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (socket, other) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let (ahead, runs) = Ahead::new();
        let browser = Arc::new(browser);
        let mut door = Door::new(Arc::clone(&browser), Arc::clone(damage), ahead);
        (door.uid, door.gid) = (1001, 1002);
        let (end, has_ended) = channel();
        let kept = RefCell::default();
        let mut kernel = Self { socket, mounted: None, has_ended, kept };
        let can = can.iter().fold(QUICK, |all, &flag| all | flag);
        let greeting = words([7, 40, 16 << 20, can.bits() as u32, 0]);
        kernel.send(Question::Init, 0, &[&greeting[..], &[0; 44]].concat());
        // One thread: with two the first answer may be noticed after the second.
        let mut config = config(true);
        config.n_threads = Some(1);
        if let Ok(session) = Session::from_fd(door, other, SessionACL::All, config) {
            let ended = move || end.send(()).unwrap();
            kernel.mounted = Some(Mounted::answering(session, (browser, runs), ended).unwrap());
        }
        let answer = kernel.receive();
        (kernel, answer)
    }

    fn send(&self, question: Question, node: u64, body: &[u8]) {
        let mut bytes = words([40 + body.len() as u32, question as u32, 77, 0]);
        bytes.extend(node.to_le_bytes());
        bytes.extend(words([1, 2, 3, 0]));
        bytes.extend(body);
        rustix::io::write(&self.socket, &bytes).unwrap();
    }

    /// The next message: an answer, or none where nobody answers any more.
    fn message(&self) -> Option<Result<Vec<u8>, i32>> {
        let mut bytes = vec![0; 1 << 18];
        loop {
            let len = rustix::io::read(&self.socket, &mut bytes).unwrap();
            if len == 0 {
                return None;
            }
            let header = [0, 4, 8].map(|at| word(&bytes, at));
            assert_eq!(header[0], len as u32);
            if header[2] == 0 {
                // Something to keep: a whole file.
                assert_eq!(
                    (header[1], long(&bytes, 24), word(&bytes, 32)),
                    (4, 0, len as u32 - 40)
                );
                self.kept.borrow_mut().push((long(&bytes, 16), bytes[40..len].to_vec()));
                continue;
            }
            assert_eq!(header[2], 77);
            let error = -(header[1] as i32);
            return Some(if error == 0 { Ok(bytes[16..len].to_vec()) } else { Err(error) });
        }
    }

    fn receive(&self) -> Result<Vec<u8>, i32> {
        self.message().expect("an answer")
    }

    fn ask(&self, question: Question, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        self.send(question, node, body);
        self.receive()
    }

    fn look_up(&self, folder: u64, name: &str) -> Result<u64, i32> {
        let name = [name.as_bytes(), &[0]].concat();
        self.ask(Question::LookUp, folder, &name).map(|answer| long(&answer, 0))
    }

    fn read(&self, question: Question, node: u64, from: u64, size: u32) -> Result<Vec<u8>, i32> {
        let mut body = [0_u64.to_le_bytes(), from.to_le_bytes()].concat();
        body.extend(words([size, 0, 0, 0, 0, 0]));
        self.ask(question, node, &body)
    }

    /// End it; what was handed over ahead of who read.
    fn leave(self) -> Vec<(u64, Vec<u8>)> {
        let mounted = self.mounted.as_ref().unwrap();
        assert!(!mounted.is_over());
        shutdown(&self.socket, Shutdown::Write).unwrap();
        assert!(self.message().is_none(), "nobody asked");
        self.has_ended.recv().unwrap();
        let over = (0..10_000_000).any(|_| {
            std::thread::yield_now();
            mounted.is_over()
        });
        assert!(over);
        self.kept.into_inner()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The attributes that stand in these bytes.
fn attributes(bytes: &[u8]) -> String {
    let [number, size, blocks, access, change, status] =
        [0, 8, 16, 24, 32, 40].map(|at| long(bytes, at));
    let parts = [48, 52, 56].map(|at| word(bytes, at));
    let [mode, links, user, group, device, block] =
        [60, 64, 68, 72, 76, 80].map(|at| word(bytes, at));
    let times = [access, change, status].map(|seconds| seconds as i64);
    format!(
        "{number:#x}: mode {mode:o}, {size} bytes in {blocks}, {links} links, {user}:{group}, \
         times {times:?} {parts:?}, device {device:#x}, blocks of {block}"
    )
}

/// What is said of a name: its number, how long that is kept, and its attributes.
fn entry(bytes: &[u8]) -> String {
    let [number, generation, name_s, attributes_s] = [0, 8, 16, 24].map(|at| long(bytes, at));
    let keep = [name_s, attributes_s, word(bytes, 32).into(), word(bytes, 36).into()];
    format!("{number:#x} {generation} {keep:?} {}", attributes(&bytes[40..]))
}

/// The names in a listing, each after `before` bytes; what is said of each, and where it goes on.
fn names(mut bytes: &[u8], before: usize) -> (Vec<String>, u64) {
    let (mut all, mut next) = (Vec::new(), 0);
    while !bytes.is_empty() {
        let (said, rest) = bytes.split_at(before);
        let len = word(rest, 16) as usize;
        let name = String::from_utf8_lossy(&rest[24..24 + len]);
        let (number, kind) = (long(rest, 0), word(rest, 20));
        next = long(rest, 8);
        let said = if said.is_empty() { String::new() } else { format!(" {}", entry(said)) };
        all.push(format!("{name} {number:#x} kind {kind}, then {next}{said}"));
        bytes = &rest[(24 + len).next_multiple_of(8)..];
    }
    (all, next)
}

fn archive(folder: &Path, files: &[(&str, Kind, Metadata, &[u8])]) -> Browser {
    let identity = ArchiveIdentity { uuid: [7; 16], key: [8; 32] };
    Archive::create_at(folder, &ArchiveSettings::default(), identity, None, None).unwrap();
    let mut archive = Archive::open_at(folder, LockKind::Add).unwrap();
    let options = AddOptions { time_s: 5000, ..AddOptions::default() };
    let mut adder = archive.add(options).unwrap();
    for (path, kind, metadata, mut content) in files.iter().cloned() {
        let is_file = kind == Kind::File;
        let (path, stamp, recipe) = (path.into(), Stamp::default(), Recipe::default());
        let entry = Entry { path, kind, metadata, stamp, recipe };
        if is_file {
            adder.file(entry, true, &mut content).unwrap().unwrap();
        } else {
            adder.entry(entry).unwrap();
        }
    }
    adder.commit().unwrap();
    drop(archive);
    let archive = Archive::open_at(folder, LockKind::Read).unwrap();
    Browser::new(archive, BrowseMemory::default()).unwrap()
}

fn some_of_everything(folder: &Path) -> Browser {
    let metadata = Metadata {
        mode: 0o10_4751,
        uid: 11,
        gid: 12,
        mtime_s: -3,
        mtime_ns: 250_000_000,
        xattrs: vec![(b"user.a".to_vec(), b"one".to_vec()), (b"user.b".to_vec(), vec![7; 40])],
    };
    let plain = || Metadata { mode: 0o644, mtime_s: 99, ..Metadata::default() };
    let (target, link) = (b"a/first".to_vec(), b"../nowhere".to_vec());
    let number = rustix::fs::makedev(259, 300);
    archive(
        folder,
        &[
            ("a", Kind::Directory, metadata.clone(), &[]),
            ("a/first", Kind::File, metadata, &[1; 1025]),
            ("a/second", Kind::File, plain(), b"second"),
            ("a/third", Kind::File, plain(), &[3; 3066]),
            ("b", Kind::Symlink { target: link }, plain(), &[]),
            ("c", Kind::HardLink { target }, plain(), &[]),
            ("d", Kind::Fifo, plain(), &[]),
            ("e", Kind::CharDevice { number }, plain(), &[]),
            ("f", Kind::BlockDevice { number: 0x801 }, plain(), &[]),
            ("implied/empty", Kind::File, plain(), &[]),
        ],
    )
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the environment says whether texts are written")]
fn what_a_kernel_is_told_of_an_archive_is_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let damage = Arc::new(Damage::new(|what| panic!("{what}")));
    let (kernel, greeting) = Kernel::mount(some_of_everything(folder.path()), &damage, MADE);
    let mut told = String::new();
    let mut line = |text: String| writeln!(told, "{text}").unwrap();
    let greeting = greeting.unwrap();
    let flags = InitFlags::from_bits_retain(word(&greeting, 12).into());
    line(format!("reads ahead {}, uses {flags:?}", word(&greeting, 8)));

    // Names, one folder after another, with what they are.
    let version = kernel.look_up(ROOT, "1").unwrap();
    let (a, b) = (kernel.look_up(version, "a").unwrap(), kernel.look_up(version, "b").unwrap());
    let implied = kernel.look_up(version, "implied").unwrap();
    for folder in [ROOT, version, a, implied] {
        line(format!("folder {folder:#x}"));
        for question in [Question::ReadDir, Question::ReadDirPlus] {
            let before = if matches!(question, Question::ReadDir) { 0 } else { 128 };
            let (all, next) = names(&kernel.read(question, folder, 0, 1 << 16).unwrap(), before);
            for name in &all {
                line(format!("  {name}"));
            }
            assert_eq!(kernel.read(question, folder, next, 1 << 16).unwrap(), [0; 0], "the end");
            // A few bytes at a time, the same names come.
            let (mut few, mut from) = (Vec::new(), 0);
            while from < next {
                let answer = kernel.read(question, folder, from, before as u32 + 40).unwrap();
                let (names, then) = names(&answer, before);
                assert_eq!(names.len(), 1);
                few.extend(names);
                from = then;
            }
            assert_eq!(few, all);
        }
    }

    // One by one.
    let first = kernel.look_up(a, "first").unwrap();
    for (folder, name) in [(version, "c"), (a, "first"), (a, "none"), (first, "x")] {
        let question = [name.as_bytes(), &[0]].concat();
        let answer = kernel.ask(Question::LookUp, folder, &question);
        line(format!("{name}: {:?}", answer.map(|answer| entry(&answer))));
    }
    for node in [ROOT, 2, version, first, 3] {
        let answer = kernel.ask(Question::GetAttributes, node, &[0; 16]);
        let answer =
            answer.map(|answer| format!("{} {}", long(&answer, 0), attributes(&answer[16..])));
        let link = kernel.ask(Question::ReadLink, node, &[]);
        line(format!("{node:#x}: {answer:?}, leads to {link:?}"));
    }
    let link = kernel.ask(Question::ReadLink, b, &[]).unwrap();
    assert_eq!(link, b"../nowhere");

    // Attributes beside these.
    for (node, name) in [(first, "user.a"), (first, "user.b"), (first, "user.c"), (3, "user.a")] {
        for size in [0, 2, 3, 100] {
            let (body, name) = (words([size, 0]), [name.as_bytes(), &[0]].concat());
            let value = kernel.ask(Question::GetXattr, node, &[body, name].concat());
            line(format!("{node:#x} in {size} bytes: {value:?}"));
        }
    }
    for (node, size) in [(first, 0), (first, 13), (first, 14), (b, 9), (3, 9)] {
        let list = kernel.ask(Question::ListXattr, node, &words([size, 0]));
        let list = list.map(|list| String::from_utf8_lossy(&list).into_owned());
        line(format!("{node:#x} in {size} bytes: {list:?}"));
    }
    let all = kernel.ask(Question::StatFs, ROOT, &[]).unwrap();
    let sizes: Vec<u64> = (0..5).map(|at| long(&all, 8 * at)).collect();
    line(format!("in all {sizes:?} {} {} {}", word(&all, 40), word(&all, 44), word(&all, 48)));
    for question in [Question::Open, Question::OpenDir] {
        line(format!("{question:?}: {:?}", kernel.ask(question, first, &[0; 8])));
    }
    kernel.leave();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/door/told.txt");
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}

#[test]
fn contents_are_read_as_they_are_and_who_reads_on_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let damage = Arc::new(Damage::new(|what| panic!("{what}")));
    let (kernel, _) = Kernel::mount(some_of_everything(folder.path()), &damage, &MADE[..1]);
    let version = kernel.look_up(ROOT, "1").unwrap();
    let a = kernel.look_up(version, "a").unwrap();
    let file = |name| kernel.look_up(a, name).unwrap();
    let [first, second, third] = ["first", "second", "third"].map(file);
    let read = |node, from, size| kernel.read(Question::Read, node, from, size);
    // A few bytes in the middle of files say nothing of what is read next.
    assert_eq!(read(first, 1000, 4096).unwrap(), [1; 25]);
    assert_eq!(read(third, 2, 3).unwrap(), [3; 3]);
    assert_eq!(read(first, 1025, 4096).unwrap(), [0; 0]);
    assert_eq!(read(version, 0, 10), Err(116), "stale, as it is no file");
    assert_eq!(read(3, 0, 10), Err(116));
    // A kernel that opens folders keeps what it lists.
    let opened = kernel.ask(Question::OpenDir, a, &[0; 8]).unwrap();
    let keep = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
    assert_eq!((long(&opened, 0), word(&opened, 8)), (0, keep.bits()));
    assert_eq!(read(first, 0, 4096).unwrap(), [1; 1025]);
    assert_eq!(read(second, 0, 4096).unwrap(), b"second");
    let kept = kernel.leave();
    assert!(kept == [(third, vec![3; 3066])], "{} files", kept.len());
    assert!(!damage.was_met());
}

#[test]
fn what_is_damaged_is_an_error_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&said);
    let damage = Arc::new(Damage::new(move |what| to.lock().unwrap().push(what.to_owned())));
    let browser = some_of_everything(folder.path());
    let spoil = |folder: &Path| {
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                let len = file.metadata().unwrap().len();
                std::fs::write(file, vec![0x55; len as usize]).unwrap();
            }
        }
    };
    spoil(&folder.path().join("containers"));
    let (kernel, _) = Kernel::mount(browser, &damage, MADE);
    let version = kernel.look_up(ROOT, "1").unwrap();
    let a = kernel.look_up(version, "a").unwrap();
    let second = kernel.look_up(a, "second").unwrap();
    for _ in 0..2 {
        assert_eq!(kernel.read(Question::Read, second, 0, 4096), Err(5));
    }
    assert!(kernel.leave().is_empty());
    // The same of names.
    let folder = tempfile::tempdir().unwrap();
    let browser = some_of_everything(folder.path());
    spoil(&folder.path().join("versions"));
    let (kernel, _) = Kernel::mount(browser, &damage, MADE);
    let version = kernel.look_up(ROOT, "1").unwrap();
    assert_eq!(kernel.look_up(version, "a"), Err(5));
    assert_eq!(kernel.read(Question::ReadDir, version, 2, 4096), Err(5));
    assert_eq!(kernel.ask(Question::GetAttributes, second, &[0; 16]), Err(5));
    assert_eq!(kernel.read(Question::Read, second, 0, 4096), Err(5));
    kernel.leave();
    let said = said.lock().unwrap();
    assert!(said.len() == 2 && said[0].starts_with("'a/second': "), "{said:?}");
    assert!(damage.was_met() && said[1].contains("00000001.version"), "{said:?}");
}

#[test]
fn a_kernel_that_cannot_read_what_it_has_not_opened_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let damage = Arc::new(Damage::new(|what| panic!("{what}")));
    let (kernel, greeting) = Kernel::mount(some_of_everything(folder.path()), &damage, &MADE[1..]);
    assert!(kernel.mounted.is_none() && greeting.is_err(), "{greeting:?}");
}
