//! Duplicates found with an index that has no room for all fingerprints: at once, and in the
//! background.
//! Room: onefold-bench.
//! Shares are of the blocks that are duplicates of others, which are counted while they are
//! written. A pool's index has 1 MiB at least, so that small data has larger shares. As in a
//! server, work in the background goes on between writes. Figures are of one run: they count
//! blocks and CPU seconds of the one thread that does both.

mod bench;
mod data_sets;
mod limits;
mod opening;
mod shares;
mod source;

use anyhow::{Context, Result};
use onefold_block::{OPEN_CONTAINERS_MAX, keep_containers_open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::lab::Lab;
use crate::report::Row;

const GROUP: &str = "index";
/// The least that a pool's index works with.
const INDEX_MIN: u64 = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;

/// Measure all of it.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    open_files_as_a_server()?;
    let mut rows = Vec::new();
    if lab.wants("copy") {
        rows.extend(shares::second_copy(lab)?);
    }
    if lab.wants("working set") {
        rows.extend(shares::working_set(lab)?);
    }
    if lab.wants("data sets") {
        rows.extend(data_sets::data_sets(lab)?);
    }
    if lab.wants("directories") {
        rows.push(limits::directories(lab)?);
    }
    if lab.wants("table") {
        rows.push(limits::larger_than_memory(lab)?);
    }
    if lab.wants("many") {
        rows.extend(limits::many_blocks(lab)?);
    }
    if lab.wants("opening") {
        rows.extend(opening::after_a_crash(lab)?);
    }
    Ok(rows)
}

/// Where a process may open many files, a server keeps its containers open.
fn open_files_as_a_server() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .context("the limit of open files cannot be raised")?;
    let most = limit.maximum.unwrap_or(u64::MAX) / 2;
    keep_containers_open(usize::try_from(most).unwrap_or(OPEN_CONTAINERS_MAX));
    Ok(())
}

/// Bytes that an index of so many entries takes.
fn needed(unique: u64) -> u64 {
    (unique as f64 * 10.7) as u64
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { part as f64 / of as f64 }
}
