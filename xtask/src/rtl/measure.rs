//! The Verilated bench, and cycles by what is in the data.
//! Room: xtask.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{output, sources};

/// Sizes of messages whose cycles are counted, in bytes.
const SIZES: [usize; 3] = [4096, 32_768, 65_536];
/// Chunks of 4 KiB that show how busy the units of an array are.
const CHUNKS: usize = 200;
/// Chunks that show the same of an engine: the begin, when tables are emptied, does not count.
const ENGINE_CHUNKS: usize = 800;
/// Look-ups of the index unit.
const LOOK_UPS: u32 = 10_000;
/// Chunks of each content whose cycles are counted.
const CODED: usize = 24;

/// What chunks hold.
#[derive(Clone, Copy, Debug)]
pub enum Contents {
    /// Random bytes.
    Noise,
    /// 256 random bytes, 256 zeros, and so on: what the pool's own measurements write.
    Half,
    /// The project's licence, from changing places.
    Text,
}

impl Contents {
    pub const ALL: [(&str, Self); 3] =
        [("noise", Self::Noise), ("half", Self::Half), ("text", Self::Text)];

    /// Chunks of this kind, equal in every run.
    fn chunks(self, root: &Path, size: usize, count: usize) -> Result<Vec<Vec<u8>>> {
        let text = fs::read(root.join("LICENSE")).context("no LICENSE")?;
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 56) as u8
        };
        let chunk = |number: usize| match self {
            Self::Noise => (0..size).map(|_| byte()).collect(),
            Self::Half => (0..size).map(|at| if at / 256 % 2 == 0 { byte() } else { 0 }).collect(),
            Self::Text => text.iter().copied().cycle().skip(number * 997).take(size).collect(),
        };
        Ok((0..count).map(chunk).collect())
    }
}

/// Cycles of chunks of one content.
pub struct Coded {
    /// Compressed bytes of 1000.
    pub permille: u64,
    /// Cycles of compression of 4 KiB: mean and most.
    pub compress: (u64, u64),
    /// The same of decompression; none if nothing shrank.
    pub decompress: Option<(u64, u64)>,
}

/// Compresses chunks of 4 KiB, and decompresses what came out.
pub fn coded(root: &Path, contents: Contents) -> Result<Coded> {
    let chunks = contents.chunks(root, 4096, CODED)?;
    let compressed = answers(&ask(root, "enc", &framed(&chunks, None)?)?)?;
    ensure!(compressed.len() == CODED, "the encoder broke off");
    let size: usize = compressed.iter().map(|answer| answer.2.len()).sum();
    let shrunk: Vec<Vec<u8>> =
        compressed.iter().filter(|answer| !answer.0).map(|answer| answer.2.clone()).collect();
    let back = answers(&ask(root, "dec", &framed(&shrunk, Some(4096))?)?)?;
    ensure!(back.iter().all(|answer| !answer.0 && answer.2.len() == 4096), "not decoded");
    Ok(Coded {
        permille: (1000 * size / (4096 * CODED)) as u64,
        compress: mean_and_most(&compressed),
        decompress: (!back.is_empty()).then(|| mean_and_most(&back)),
    })
}

/// Flag, cycles and bytes of a block.
type Answer = (bool, u64, Vec<u8>);

/// The first one has a reset before it.
fn mean_and_most(answers: &[Answer]) -> (u64, u64) {
    let cycles = || answers.iter().skip(1).map(|answer| answer.1);
    let count = cycles().count().max(1) as u64;
    ((cycles().sum::<u64>() + count / 2) / count, cycles().max().unwrap_or(0))
}

fn answers(mut rest: &[u8]) -> Result<Vec<Answer>> {
    let mut all = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let [flag, cycles @ ..] = head;
        let (cycles, size) = cycles.split_at(4);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let size = number(size) as usize;
        ensure!(size <= after.len(), "the bench broke off");
        all.push((*flag == 1, number(cycles), after[..size].to_vec()));
        rest = &after[size..];
    }
    Ok(all)
}

fn framed(messages: &[Vec<u8>], limit: Option<u32>) -> Result<Vec<u8>> {
    let mut input = Vec::new();
    for message in messages {
        input.extend(limit.iter().flat_map(|limit| limit.to_le_bytes()));
        input.extend(u32::try_from(message.len())?.to_le_bytes());
        input.extend(message);
    }
    Ok(input)
}

/// Where the Verilated bench lies, for the array room's tests as well: compiling it takes half a
/// minute. What is tried on a broken copy of the tree has another version.
fn bench(root: &Path) -> PathBuf {
    root.join("target/tmp").join(concat!("rtl-", env!("CARGO_PKG_VERSION")))
}

/// As little optimising of the bench as lets it run for seconds: compiling takes longer.
const OPTIMISING: &str = "OPT_FAST=-O1 OPT_GLOBAL=-O0";

/// Builds the Verilated bench, unless the tests have done so or are about it: the words and their
/// order are those of `crates/onefold-array/tests/it/rtl/mod.rs`.
pub fn build(root: &Path) -> Result<()> {
    let folder = bench(root);
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join("lock"))?;
    lock.lock().context("cannot lock the bench")?;
    let mut command = Command::new("verilator");
    command.args(["-Wall", "--cc", "--exe", "--build", "-O3", "-MAKEFLAGS", OPTIMISING]);
    command.args(["--top-module", "bench", "-o", "bench", "--Mdir"]).arg(&folder);
    command.args(sources(root, "rtl", "sv")?).args(sources(root, "rtl/harness", "sv")?);
    output(command.args(sources(root, "rtl/harness", "cpp")?))?;
    Ok(())
}

/// Feeds bytes to a module of the bench; what it answers.
fn ask(root: &Path, module: &str, input: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(bench(root).join("bench"))
        .arg(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the bench")?;
    let mut stdin = child.stdin.take().context("no input")?;
    let out = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || stdin.write_all(input));
        let out = child.wait_with_output();
        feeder.join().map_err(|_| anyhow::anyhow!("the feeder of the bench panicked"))??;
        anyhow::Ok(out?)
    })?;
    ensure!(out.status.success(), "the bench ended with {}", out.status);
    Ok(out.stdout)
}

/// Cycles of SHA-256, which do not depend on the contents, as a list in TOML.
pub fn hash_cycles(root: &Path) -> Result<Vec<String>> {
    let messages = SIZES.map(|size| vec![0x5a; size]);
    let answers = ask(root, "sha", &framed(&messages, None)?)?;
    let of = |(answer, size): (&[u8], usize)| match answer.last_chunk::<4>() {
        Some(cycles) => Ok(format!("[{size}, {}]", u32::from_le_bytes(*cycles))),
        None => bail!("the bench broke off"),
    };
    answers.chunks(36).zip(SIZES).map(of).collect()
}

/// How much of the time the units of an array work.
pub fn busy_permille(root: &Path) -> Result<u64> {
    let chunks = vec![vec![0x5a; 4096]; CHUNKS];
    let answers = ask(root, "array", &framed(&chunks, None)?)?;
    let Some((rest, busy)) = answers.split_last_chunk::<8>() else { bail!("the bench broke off") };
    let cycles = rest.last_chunk::<8>().context("the bench broke off")?;
    let (busy, cycles) = (u64::from_le_bytes(*busy), u64::from_le_bytes(*cycles));
    Ok(1000 * busy / (4 * cycles).max(1))
}

/// Look-ups of the index unit, and the cycles that they take.
pub fn look_ups(root: &Path) -> Result<(u32, u64)> {
    let input: Vec<u8> = (0..LOOK_UPS)
        .flat_map(|key| {
            (key.wrapping_mul(2_654_435_769) % 2000).to_le_bytes().into_iter().chain([0])
        })
        .collect();
    let answers = ask(root, "index", &input)?;
    let cycles = answers.last_chunk::<8>().context("the bench broke off")?;
    Ok((LOOK_UPS, u64::from_le_bytes(*cycles)))
}

/// How busy the hash and the compression units of an engine are with noise that is new, of 1000.
pub fn engine_writes(root: &Path) -> Result<(u64, u64)> {
    let chunks = Contents::Noise.chunks(root, 4096, ENGINE_CHUNKS)?;
    let [hash, compress, _] = engine(root, 0b011, &chunks)?;
    Ok((hash / 4, compress / 4))
}

/// How busy its decompression units are when nothing else is asked of it, of 1000.
pub fn engine_reads(root: &Path) -> Result<u64> {
    let chunks = Contents::Half.chunks(root, 4096, ENGINE_CHUNKS)?;
    let blocks = answers(&ask(root, "enc", &framed(&chunks, None)?)?)?;
    let blocks: Vec<Vec<u8>> = blocks.into_iter().map(|answer| answer.2).collect();
    Ok(engine(root, 0b100, &blocks)?[2] / 2)
}

/// Cycles in which units work, in 1000 of all, summed over the units of each kind.
fn engine(root: &Path, kind: u8, chunks: &[Vec<u8>]) -> Result<[u64; 3]> {
    let mut input = Vec::new();
    for chunk in chunks {
        input.push(kind);
        input.extend(4096_u32.to_le_bytes());
        input.extend(framed(std::slice::from_ref(chunk), None)?);
    }
    let answers = ask(root, "engine", &input)?;
    let end = answers.last_chunk::<32>().context("the bench broke off")?;
    let number =
        |at: usize| end[at * 8..at * 8 + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    let cycles = number(0).max(1);
    Ok([1, 2, 3].map(|at| 1000 * number(at) / cycles))
}
