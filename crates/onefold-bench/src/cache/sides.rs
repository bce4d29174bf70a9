//! The two sides: a pool with a cache, and a file behind nbdkit's cache filter.
//! Room: onefold-bench.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use onefold_block::ByteSize;
use serde_json::Value;
use tempfile::TempDir;

use crate::lab::Lab;
use crate::nbd::clients::{Run, fio};
use crate::nbd::servers::{Kind, Server, ours};

/// Bytes of a volume for each byte of the cache.
const SHARE: u64 = 4;
/// Smallest cache of ours.
const CACHE_MIN: u64 = 2 << 20;

/// What a run moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// Read from the slow store.
    pub slow_read: u64,
    /// Read from the fast device.
    pub fast_read: u64,
    /// Written to the fast device.
    pub fast_written: u64,
    /// Share of the bytes that clients asked for that needed nothing of the slow store.
    pub hit_share: f64,
    /// CPU seconds of the server.
    pub cpu: f64,
}

/// One of the two.
pub trait Side {
    /// Start the server, run a job, stop the server.
    fn run(&mut self, job: &[&str]) -> Result<Bytes>;
}

/// A pool with a cache, as it is made without further options.
pub struct Tier {
    folder: TempDir,
    bytes: u64,
}

impl Tier {
    /// A pool that holds the image.
    pub fn new(lab: &Lab, image: &Path, bytes: u64, through: bool) -> Result<Self> {
        let folder = lab.scratch()?;
        let cache = (bytes / SHARE).max(CACHE_MIN).to_string();
        let fast = folder.path().join("ssd");
        let pool = folder.path().join("pool");
        let mut create = Command::new(ours()?);
        create.args(["pool", "create"]).arg(&pool).arg("--cache").arg(fast);
        create.args(["--cache-size", &cache, "--cache-memory", "0"]);
        if through {
            create.args(["--cache-mode", "write-through"]);
        }
        run(&mut create)?;
        run(Command::new(ours()?).args(["volume", "import"]).arg(&pool).arg("main").arg(image))?;
        Ok(Self { folder, bytes })
    }

    fn counts(&self) -> Result<Value> {
        let pool = self.folder.path().join("pool");
        let mut status = Command::new(ours()?);
        let output = run(status.args(["pool", "status", "--json"]).arg(pool))?;
        let status: Value = serde_json::from_slice(&output).context("no JSON of the status")?;
        Ok(status["cache"].clone())
    }
}

impl Side for Tier {
    fn run(&mut self, job: &[&str]) -> Result<Bytes> {
        let before = self.counts()?;
        let server = Server::start(Kind::Onefold, self.folder.path(), ByteSize(self.bytes))?;
        let Run { server_cpu: cpu, .. } = fio(&server, job)?;
        server.stop()?;
        let after = self.counts()?;
        let count = |name: &str| {
            let of = |counts: &Value| counts[name].as_u64().unwrap_or(0);
            of(&after) - of(&before)
        };
        Ok(Bytes {
            slow_read: count("slow_bytes"),
            fast_read: count("fast_bytes"),
            fast_written: count("written_bytes") + count("state_bytes"),
            hit_share: count("hit_bytes") as f64 / count("read_bytes").max(1) as f64,
            cpu,
        })
    }
}

/// A file behind the cache filter. Its cache does not outlive it.
pub struct Filter {
    folder: TempDir,
    bytes: u64,
}

impl Filter {
    /// A file that holds the image.
    pub fn new(lab: &Lab, image: &Path, bytes: u64) -> Result<Self> {
        let folder = lab.scratch()?;
        std::fs::copy(image, folder.path().join("image")).context("cannot copy the image")?;
        Ok(Self { folder, bytes })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("requests")
    }
}

impl Side for Filter {
    fn run(&mut self, job: &[&str]) -> Result<Bytes> {
        // What the server before left.
        for name in ["requests", "nbdkit.sock"] {
            let _ = std::fs::remove_file(self.folder.path().join(name));
        }
        let kind = Kind::NbdkitCache { cache: self.bytes / SHARE };
        let server = Server::start(kind, self.folder.path(), ByteSize(self.bytes))?;
        let before = server.moved()?;
        let logged_before = std::fs::metadata(self.log()).map_or(0, |log| log.len());
        let ran = fio(&server, job)?;
        let moved = server.moved()?.since(before);
        let log = std::fs::read_to_string(self.log()).context("nbdkit wrote no log")?;
        server.stop()?;
        let of = |verb: &str| -> u64 {
            let lines = log.lines().filter(|line| line.contains(verb) && line.ends_with("..."));
            lines.filter_map(count_in).sum()
        };
        let (slow_read, slow_written) = (of(" Read "), of(" Write "));
        ensure!(moved.read >= slow_read, "the log tells of more reads than there were");
        let logged = log.len() as u64 - logged_before;
        Ok(Bytes {
            slow_read,
            fast_read: moved.read - slow_read,
            fast_written: moved.written.saturating_sub(slow_written + logged),
            hit_share: 1.0 - slow_read as f64 / ran.bytes,
            cpu: ran.server_cpu,
        })
    }
}

/// The bytes of a request in a line of nbdkit's log: `count=0x10000`.
fn count_in(line: &str) -> Option<u64> {
    let (_, count) = line.split_once("count=0x")?;
    let digits: String = count.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).ok()
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {problem}");
    Ok(output.stdout)
}
