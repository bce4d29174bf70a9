//! A stream of what changed, against a copy of the whole over NBD.
//! Room: onefold-bench.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_pool::Budgets;

use super::{REQUEST, row};
use crate::clock;
use crate::data::{self, BLOCK};
use crate::lab::{Lab, new_pool};
use crate::measure::median_of;
use crate::nbd::clients;
use crate::nbd::servers::{Kind, Server, ours};
use crate::report::{Goal, Row, Unit};

/// One of so many blocks changes.
const CHANGED_OF: u64 = 100;

/// Commands as users run them, in turn: the stream into a file, and `nbdcopy` to nowhere.
pub fn run(lab: &Lab) -> Result<Row> {
    let bytes: u64 = lab.pick(4 << 30, 16 << 20);
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    eprintln!("snapshots: writing {} for streams", ByteSize(bytes));
    let (pool, volume) = new_pool(&path, Budgets::default(), ByteSize(bytes))?;
    for at in (0..bytes).step_by(REQUEST) {
        let data = data::unique(at / BLOCK as u64 + 1, REQUEST);
        volume.write_at(at, &data, false)?;
    }
    pool.snapshot("main@a", 1, false)?;
    let (blocks, mut random) = (bytes / BLOCK as u64, SplitMix64::new(4));
    for number in 0..blocks / CHANGED_OF {
        let data = data::unique(blocks + number + 1, BLOCK);
        volume.write_at(random.below(blocks) * BLOCK as u64, &data, false)?;
    }
    pool.snapshot("main@b", 1, false)?;
    drop(volume);
    pool.close()?;
    let mut pairs = Vec::new();
    let file = scratch.path().join("stream");
    for round in 0..lab.rounds {
        eprintln!("snapshots: streams, round {} of {}", round + 1, lab.rounds);
        let mut command = Command::new(ours()?);
        command.args(["volume", "export"]).arg(&path).arg("main@b").arg(&file);
        command.args(["--since", "main@a"]);
        let before = clock::children_cpu();
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let stream = clock::children_cpu() - before;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed: {problem}");
        let server = Server::start(Kind::Onefold, scratch.path(), ByteSize(bytes))?;
        let whole = clients::nbdcopy(&server, None, bytes)?.cpu;
        server.stop()?;
        let len = std::fs::metadata(&file).context("there is no stream")?.len();
        std::fs::remove_file(&file).context("cannot remove the stream")?;
        pairs.push([stream, whole, len as f64]);
    }
    let note = format!(
        "{:.3} and {:.3} CPU s, all processes together; {} for 1 in {CHANGED_OF} blocks of {}",
        median_of(&pairs, |pair| pair[0]),
        median_of(&pairs, |pair| pair[1]),
        ByteSize(median_of(&pairs, |pair| pair[2]) as u64),
        ByteSize(bytes)
    );
    let share = median_of(&pairs, |pair| pair[0] / pair[1]);
    let name = "`volume export --since` of 1 % against `nbdcopy` of the whole: CPU";
    Ok(Row { note, ..row(lab, name, share, Unit::Share, Goal::AtMost(0.03)) })
}
