//! Memory while space is won back: a process whose budgets are small beside its volume.
//! Room: onefold-bench.

use std::path::Path;

use anyhow::Result;
use onefold_block::ByteSize;
use onefold_pool::Budgets;
use serde::{Deserialize, Serialize};

use super::churn::{Churn, Pattern};
use super::{GROUP, goal, target};
use crate::lab::Lab;
use crate::memory::{Task, child, resident};
use crate::report::{Goal, Row, Unit};

const BUDGETS: Budgets =
    Budgets { index_bytes: 32 << 20, map_bytes: 16 << 20, cache_bytes: 64 << 20 };

/// What the process says, in bytes of resident memory.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    before: u64,
    most: u64,
    moved: u64,
}

/// Measure in a process of its own.
pub fn run(lab: &Lab) -> Result<Row> {
    let scratch = lab.scratch()?;
    let bytes: u64 = lab.pick(4 << 30, 16 << 20);
    eprintln!("space: memory, {}", ByteSize(bytes));
    let said: Said = child(Task::Churn, &scratch.path().join("pool"), bytes)?;
    let budgets = BUDGETS.index_bytes + BUDGETS.map_bytes + BUDGETS.cache_bytes;
    let most = said.most.saturating_sub(said.before);
    let note = format!(
        "most resident {}, budgets {} together; a volume of {}, half of it overwritten at random, \
         {} moved",
        ByteSize(most),
        ByteSize(budgets),
        ByteSize(bytes),
        ByteSize(said.moved)
    );
    let name = "memory with reclaim running, against the sum of the budgets";
    let share = most as f64 / budgets as f64;
    let goal = goal(lab, Goal::AtMost(1.1));
    Ok(Row { goal, note, ..Row::new(GROUP, name, share, Unit::Share) })
}

/// The process's part.
pub fn work(path: &Path, bytes: u64) -> Result<()> {
    let before = resident()?;
    let mut churn = Churn::new(path, BUDGETS, bytes, Pattern::Uniform, Some(target()?))?;
    let mut most = resident()?;
    let mut trouble = None;
    churn.overwrite(bytes / 2, bytes / 64, &mut |_| match resident() {
        Ok(now) => most = most.max(now),
        Err(error) => trouble = Some(error),
    })?;
    trouble.map_or(Ok(()), Err)?;
    let moved = churn.pool().activity().moved_bytes;
    println!("{}", serde_json::to_string(&Said { before, most, moved })?);
    churn.close().map(drop)
}
