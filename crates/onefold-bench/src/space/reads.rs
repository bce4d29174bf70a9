//! Sequential reads of a whole volume: how often the disk is asked, and what it costs.
//! Room: onefold-bench.

use std::path::Path;

use anyhow::{Context, Result};
use onefold_block::BlockDevice;
use onefold_pool::Budgets;

use crate::clock;
use crate::lab::open_pool;

/// Bytes of a request.
const REQUEST: usize = 128 << 10;
const MIB: f64 = (1u64 << 20) as f64;

/// What reading a volume from its first byte to its last took.
#[derive(Clone, Copy, Debug)]
pub struct Sequential {
    /// Reads asked of the disk, for each MiB.
    pub reads_per_mib: f64,
    /// CPU seconds for each GiB.
    pub cpu_per_gib: f64,
}

/// Open the pool at `path`, with nothing in memory, and read its volume.
pub fn sequential(path: &Path) -> Result<Sequential> {
    let pool = open_pool(path, Budgets::default())?;
    let volume = pool.volume("main")?;
    let mut data = vec![0; REQUEST];
    let (asked, cpu) = (system_reads()?, clock::thread_cpu());
    for at in (0..volume.size_bytes()).step_by(REQUEST) {
        volume.read_at(at, &mut data)?;
    }
    let (asked, cpu) = (system_reads()? - asked, clock::thread_cpu() - cpu);
    let mib = volume.size_bytes() as f64 / MIB;
    drop(volume);
    pool.close()?;
    Ok(Sequential { reads_per_mib: asked as f64 / mib, cpu_per_gib: cpu / mib * 1024.0 })
}

/// Reads that this process has asked of the system.
fn system_reads() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io").context("no /proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("syscr:"));
    line.and_then(|count| count.trim().parse().ok()).context("no syscr in /proc/self/io")
}
