//! A server with 10,000 volumes: making one more, and listing all, by the command.
//! Room: onefold-bench.
//! Seconds of the clock, as whoever types the command waits for; the pool is on a disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use onefold_block::ByteSize;
use onefold_pool::Budgets;

use super::row;
use crate::lab::{Lab, new_pool};
use crate::measure::median_of;
use crate::nbd::servers::{Kind, Server, ours};
use crate::report::{Goal, Row, Unit};

/// Commands of each kind that are timed.
const TIMES: usize = 9;

/// Measure.
pub fn run(lab: &Lab) -> Result<[Row; 2]> {
    let count: usize = lab.pick(10_000, 50);
    eprintln!("snapshots: making {count} volumes");
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let (pool, volume) = new_pool(&path, Budgets::default(), ByteSize(1 << 30))?;
    for number in 1..count {
        pool.create_volume(&format!("v{number}"), ByteSize(1 << 30))?;
    }
    drop(volume);
    pool.close()?;
    let server = Server::start(Kind::Onefold, scratch.path(), ByteSize(1 << 30))?;
    let time = |args: &[&str]| -> Result<f64> {
        let begun = Instant::now();
        command(&path, args)?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let (mut made, mut listed) = (Vec::new(), Vec::new());
    for number in 0..TIMES {
        made.push(time(&["create", &format!("more{number}"), "--size", "1G"])?);
        listed.push(time(&["list"])?);
    }
    server.stop()?;
    let milliseconds = |times: &[f64]| 1e3 * median_of(times, |seconds| *seconds);
    let name = format!("`volume create` beside {count} volumes of a running server");
    let created = row(lab, name, milliseconds(&made), Unit::Milliseconds, Goal::AtMost(50.0));
    let name = format!("`volume list` of {count} volumes of a running server");
    let list = row(lab, name, milliseconds(&listed), Unit::Milliseconds, Goal::AtMost(200.0));
    Ok([created, list])
}

/// `onefold volume WHAT POOL ...`, to its end.
fn command(pool: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new(ours()?);
    command.arg("volume").arg(args[0]).arg(pool).args(&args[1..]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "volume {args:?}: {status}");
    Ok(())
}
