//! Hardware descriptions against what they describe: the Verilated bench is a process of its own,
//! with bytes on a pipe. Without Verilator these tests say so and pass.

mod engine;
mod hash;
mod index;
mod lz4;
mod model;
mod queues;

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use onefold_block::SplitMix64;

/// Who holds a lock on it in the bench's folder may build there.
const LOCK: &str = "lock";

fn rtl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl").canonicalize().unwrap()
}

/// As little optimising of the bench as lets it run for seconds: compiling takes longer.
const OPTIMISING: &str = "OPT_FAST=-O1 OPT_GLOBAL=-O0";

/// The bench, built once; nothing if there is no Verilator.
fn bench() -> Option<&'static Path> {
    static BENCH: OnceLock<Option<PathBuf>> = OnceLock::new();
    BENCH.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    if Command::new("verilator").arg("--version").output().is_err() {
        println!("skipped, for want of verilator: apt-get install verilator");
        return None;
    }
    // The copy that `cargo xtask mutants` breaks has a version, and with it a bench, of its own.
    let folder = concat!("rtl-", env!("CARGO_PKG_VERSION"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    alone_in(&folder, || compile(&folder));
    Some(folder.join("bench"))
}

/// Does something while no other process, or thread, does something in this folder. Each test may
/// be a process of its own, and several at a time: without this one would link the bench while
/// another runs it.
fn alone_in(folder: &Path, work: impl FnOnce()) {
    std::fs::create_dir_all(folder).unwrap();
    let lock = File::create(folder.join(LOCK)).unwrap();
    lock.lock().unwrap();
    work();
}

/// Verilates what changed since it was done last, and compiles it. `cargo xtask rtl` builds the
/// same bench in the same folder, with the same words in the same order
/// (`xtask/src/rtl/measure.rs`), so that who comes second has nothing to do.
fn compile(folder: &Path) {
    let mut command = Command::new("verilator");
    command.args(["-Wall", "--cc", "--exe", "--build", "-O3", "-MAKEFLAGS", OPTIMISING]);
    command.args(["--top-module", "bench", "-o", "bench", "--Mdir"]).arg(folder);
    command.args(sources(&rtl(), "sv")).args(sources(&rtl().join("harness"), "sv"));
    let out = command.args(sources(&rtl().join("harness"), "cpp")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// The files with this extension in a folder, by name.
fn sources(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    found.sort();
    found
}

#[test]
fn a_bench_is_built_by_one_at_a_time() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rtl-lock");
    let try_lock = || File::options().write(true).open(folder.join(LOCK)).unwrap().try_lock();
    alone_in(&folder, || assert!(matches!(try_lock(), Err(TryLockError::WouldBlock))));
    assert!(try_lock().is_ok());
}

/// What a module of the bench answers.
fn ask(bench: &Path, args: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new(bench)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let out = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(out.status.success(), "{args:?}: {}", out.status);
    out.stdout
}

fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let frame = |message: &Vec<u8>| {
        let mut frame = (message.len() as u32).to_le_bytes().to_vec();
        frame.extend(message);
        frame
    };
    messages.iter().flat_map(frame).collect()
}

fn bytes(random: &mut SplitMix64, count: u64) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

/// How many random inputs: a few in every run, or as many as `ONEFOLD_TEST_CHUNKS` says.
fn dose(few: usize) -> usize {
    std::env::var("ONEFOLD_TEST_CHUNKS")
        .map_or(few, |text| text.parse().expect("a number of chunks"))
}

/// Takes numbers and bytes off an answer.
struct Answer<'a>(&'a [u8]);

impl<'a> Answer<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(count);
        self.0 = rest;
        first
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }
}
