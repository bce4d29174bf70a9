//! Memory at a 1 TiB thin volume with 16 GiB of unique blocks written.
//! Room: onefold-bench.
//! Each pool is opened in a process of its own, whose anonymous resident memory counts: memory
//! that was freed but not given back is included, the program's code and files it maps are not.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use onefold_block::{BlockDevice, ByteSize};
use onefold_pool::{Budgets, Pool};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::{self, BLOCK};
use crate::lab::{Lab, new_pool, open_pool};
use crate::report::{Goal, Row, Unit};

const GROUP: &str = "memory";
const VOLUME_BYTES: u64 = 1 << 40;
/// Bytes of a request.
const REQUEST: usize = 1 << 20;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// Make a pool, fill it, stop it.
    Fill,
    /// Open the pool and read from it.
    Read,
    /// Make a pool, fill it, overwrite it while space is won back.
    Churn,
    /// Open a pool, which may have many snapshots, and read its first block.
    Open,
}

/// What a child says, in bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// Resident before the pool was opened.
    before: u64,
    /// Resident at the end of the work, the pool still open.
    after: u64,
    chunks: u64,
    /// Without directories.
    index: u64,
    directories: u64,
    map: u64,
    cache: u64,
    buffers: u64,
    tables: u64,
    /// Index entries, and those let go.
    entries: u64,
    let_go: u64,
}

/// Measure: one child fills a pool without a read cache, one reads from it with the default.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let bytes: u64 = lab.pick(16 << 30, 64 << 20);
    let mut rows = Vec::new();
    eprintln!("memory: writing {}", ByteSize(bytes));
    let filled: Said = child(Task::Fill, &path, bytes)?;
    let goal = lab.pick(Some(Goal::AtMost(24.0)), None);
    let name = format!("written {}, no read cache", ByteSize(bytes));
    rows.push(Row { goal, ..row(name, &filled) });
    let read: Said = child(Task::Read, &path, bytes.min(1 << 30))?;
    let name = format!("reopened, {} read, default budgets", ByteSize(bytes.min(1 << 30)));
    rows.push(row(name, &read));
    Ok(rows)
}

fn row(name: String, said: &Said) -> Row {
    let resident = said.after.saturating_sub(said.before);
    let each = |bytes: u64| bytes as f64 / said.chunks.max(1) as f64;
    let parts = [
        ("index", said.index),
        ("directories", said.directories),
        ("map", said.map),
        ("cache", said.cache),
        ("buffers", said.buffers),
        ("tables", said.tables),
    ];
    let rest = resident.saturating_sub(parts.iter().map(|(_, bytes)| bytes).sum());
    let parts: Vec<String> = parts
        .into_iter()
        .chain([("rest", rest)])
        .map(|(name, bytes)| format!("{name} {:.1}", each(bytes)))
        .collect();
    let note = format!(
        "resident {}; per block: {} B; {} entries, {} let go",
        ByteSize(resident),
        parts.join(", "),
        said.entries,
        said.let_go
    );
    Row { note, ..Row::new(GROUP, name, each(resident), Unit::Bytes) }
}

/// Do a task in a process of its own, and hear what it says.
pub fn child<S: DeserializeOwned>(task: Task, path: &Path, bytes: u64) -> Result<S> {
    let task = match task {
        Task::Fill => "fill",
        Task::Read => "read",
        Task::Churn => "churn",
        Task::Open => "open",
    };
    let bench = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(bench);
    command.args(["memory", "--child", task, "--child-bytes", &bytes.to_string(), "--dir"]);
    let output = command.arg(path).output().context("cannot run this program again")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "measuring memory failed: {problem}");
    serde_json::from_slice(&output.stdout).context("a child did not say what it measured")
}

/// The child's part: work on the pool at `path` and print what it takes.
pub fn work(task: Task, path: &Path, bytes: u64) -> Result<()> {
    match task {
        Task::Churn => return crate::space::memory_work(path, bytes),
        Task::Open => return crate::snapshots::opening_work(path),
        Task::Fill | Task::Read => {}
    }
    let mut data = vec![1; REQUEST];
    let before = resident()?;
    let (pool, after) = match task {
        Task::Fill => {
            let budgets = Budgets { cache_bytes: 0, ..Budgets::default() };
            let (pool, volume) = new_pool(path, budgets, ByteSize(VOLUME_BYTES))?;
            for at in (0..bytes).step_by(REQUEST) {
                data::half_compressible(at / BLOCK as u64.., &mut data);
                volume.write_at(at, &data, false)?;
            }
            volume.flush()?;
            (pool, resident()?)
        }
        Task::Read | Task::Churn | Task::Open => {
            let pool = open_pool(path, Budgets::default())?;
            let volume = pool.volume("main")?;
            for at in (0..bytes).step_by(REQUEST) {
                volume.read_at(at, &mut data)?;
            }
            (pool, resident()?)
        }
    };
    println!("{}", serde_json::to_string(&said(&pool, before, after)?)?);
    Ok(pool.close()?)
}

fn said(pool: &Pool, before: u64, after: u64) -> Result<Said> {
    let status = pool.status()?;
    Ok(Said {
        before,
        after,
        chunks: status.chunks,
        index: status.index_memory_bytes - status.directory_memory_bytes,
        directories: status.directory_memory_bytes,
        map: status.map_memory_bytes,
        cache: status.cache_memory_bytes,
        buffers: status.buffer_memory_bytes,
        tables: status.table_memory_bytes,
        entries: status.index_entries,
        let_go: status.index_let_go,
    })
}

/// Anonymous resident memory of this process, in bytes.
pub fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no RssAnon in /proc/self/status")? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_taken_shows() {
        let before = resident().unwrap();
        let taken = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = resident().unwrap();
        assert!(after >= before + (60 << 20), "{before} {after} {}", taken.len());
    }
}
