//! Who reads, and how long each read takes: blocks of a pool's volume, or files of an archive.
//! Room: onefold-bench.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use onefold_block::{ByteSize, SplitMix64};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::cage::Cage;
use super::device::run;
use crate::nbd::clients::fio;
use crate::nbd::servers::{Kind, Server, ours};

/// How a job reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Some again and again, each time in the same order: Zipf 1.1, as many as there are.
    Often,
    /// All of it once, in order.
    Once,
}

/// How long reads took, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    pub mean: f64,
    pub p99: f64,
    pub all: f64,
}

/// Something that is served from a store on the slow device.
pub trait Reader {
    fn read(&mut self, how: How) -> Result<Took>;
    /// Stop what serves.
    fn stop(self: Box<Self>) -> Result<()>;
}

/// What is asked of a cache, on the command line.
pub fn cache_arguments(cache: Option<(&Path, &str, u64)>) -> Vec<String> {
    let Some((folder, policy, bytes)) = cache else { return Vec::new() };
    let words = ["--cache", &folder.display().to_string(), "--cache-policy", policy];
    let size = ["--cache-size".to_owned(), bytes.to_string()];
    words.map(str::to_owned).into_iter().chain(size).collect()
}

/// A pool's volume over NBD: 64 KiB at random, and 256 KiB in order.
pub struct Volume {
    server: Server,
    bytes: u64,
}

impl Volume {
    /// Fill a pool in `folder` with noise.
    pub fn fill(folder: &Path, bytes: u64, cache: &[String]) -> Result<()> {
        let pool = folder.join("pool");
        let image = folder.join("image");
        fs::write(&image, SplitMix64::new(1).bytes(bytes as usize))?;
        let mut create = Command::new(ours()?);
        create.args(["pool", "create"]).arg(&pool).args(["--cache-memory", "0"]);
        run(create.args(["--index-memory", "4M"]).args(cache))?;
        run(Command::new(ours()?).args(["volume", "import"]).arg(&pool).arg("main").arg(&image))?;
        Ok(fs::remove_file(&image)?)
    }

    /// Serve it from the cage.
    pub fn serve(folder: &Path, bytes: u64, cage: &Cage) -> Result<Self> {
        let server = Server::start(Kind::Onefold, folder, ByteSize(bytes))?;
        cage.take(server.process())?;
        Ok(Self { server, bytes })
    }
}

impl Reader for Volume {
    fn read(&mut self, how: How) -> Result<Took> {
        let size = format!("--size={}", self.bytes);
        let options: &[&str] = match how {
            How::Often => &["--rw=randread", "--bs=64k", "--random_distribution=zipf:1.1"],
            How::Once => &["--rw=read", "--bs=256k"],
        };
        let job: Vec<&str> = options.iter().copied().chain([&*size]).collect();
        let begun = Instant::now();
        let ran = fio(&self.server, &job)?;
        Ok(Took { mean: ran.mean, p99: ran.p99, all: begun.elapsed().as_secs_f64() })
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.server.stop()
    }
}

/// Files of an archive, through a mount.
pub struct Files {
    mount: Child,
    at: PathBuf,
    names: Vec<PathBuf>,
    buffer: Vec<u8>,
}

/// Files have between this and eight times as many bytes.
const FILE_BYTES: u64 = 64 << 10;
/// Longest that a mount may take to come or go.
const PATIENCE: Duration = Duration::from_mins(1);

impl Files {
    /// Fill an archive in `folder` with files of noise, which are made below `beside`.
    pub fn fill(folder: &Path, beside: &Path, bytes: u64, cache: &[String]) -> Result<()> {
        let tree = beside.join("tree");
        fs::create_dir(&tree)?;
        let (mut random, mut left, mut number) = (SplitMix64::new(2), bytes, 0);
        while left > 0 {
            let len = (FILE_BYTES * (1 + random.below(8))).min(left);
            fs::write(tree.join(format!("{number:05}")), random.bytes(len as usize))?;
            left -= len;
            number += 1;
        }
        let archive = folder.join("archive");
        run(Command::new(ours()?).args(["archive", "create"]).arg(&archive).args(cache))?;
        run(Command::new(ours()?).args(["archive", "add"]).arg(&archive).arg(&tree))?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    }

    /// Mount it, from the cage.
    pub fn serve(folder: &Path, at: &Path, cage: &Cage) -> Result<Self> {
        fs::create_dir_all(at)?;
        let mut command = Command::new(ours()?);
        command.args(["archive", "mount", "--read-memory", "1M"]).arg(folder.join("archive"));
        command.arg(at).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mount = command.spawn().context("cannot mount the archive")?;
        cage.take(mount.id())?;
        let mut reader =
            Self { mount, at: at.to_owned(), names: Vec::new(), buffer: vec![0; 1 << 20] };
        let begun = Instant::now();
        while reader.names.is_empty() {
            if let Some(status) = reader.mount.try_wait()? {
                bail!("the mount ended at once: {status}");
            }
            ensure!(begun.elapsed() < PATIENCE, "the archive is not mounted");
            std::thread::sleep(Duration::from_millis(20));
            reader.names = files_below(&at.join("newest")).unwrap_or_default();
        }
        Ok(reader)
    }

    /// Read a file whole, past what the kernel keeps of it for the mount.
    fn read_one(&mut self, number: usize) -> Result<f64> {
        let begun = Instant::now();
        let mut open = OpenOptions::new();
        open.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let mut file: File = open.open(&self.names[number])?;
        while file.read(&mut self.buffer)? > 0 {}
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// So many numbers below `count`, of which some come often: Zipf 1.1 over a fixed order.
fn often(count: usize, reads: usize) -> Vec<usize> {
    let mut random = SplitMix64::new(3);
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut sums = Vec::with_capacity(count);
    let mut sum = 0.0;
    for rank in 1..=count {
        sum += (rank as f64).powf(-1.1);
        sums.push(sum);
    }
    let mut draw = || {
        let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * sum;
        order[sums.partition_point(|&upto| upto <= at).min(count - 1)]
    };
    (0..reads).map(|_| draw()).collect()
}

impl Reader for Files {
    fn read(&mut self, how: How) -> Result<Took> {
        let count = self.names.len();
        let numbers = match how {
            How::Often => often(count, count * 2),
            How::Once => (0..count).collect(),
        };
        let mut took = Vec::with_capacity(numbers.len());
        for number in numbers {
            took.push(self.read_one(number)?);
        }
        let all = took.iter().sum::<f64>();
        took.sort_by(f64::total_cmp);
        let p99 = took[took.len() * 99 / 100];
        Ok(Took { mean: all / took.len() as f64, p99, all })
    }

    fn stop(mut self: Box<Self>) -> Result<()> {
        let asked = i32::try_from(self.mount.id()).ok().and_then(Pid::from_raw);
        kill_process(asked.context("it has a number")?, Signal::TERM)?;
        let status = self.mount.wait()?;
        // 143: it was asked to end.
        ensure!(matches!(status.code(), Some(0 | 143)), "the mount ended with {status}");
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if matches!(self.mount.try_wait(), Ok(None)) {
            let _ = self.mount.kill();
            let _ = self.mount.wait();
            let _ = run(Command::new("fusermount3").args(["-u", "-z"]).arg(&self.at));
        }
    }
}
