//! Snapshots: what one costs, what 10,000 cost, where two differ, and what a stream of that saves.
//! Room: onefold-bench.
//! In process but for the streams. Figures are CPU seconds, bytes and pages.

mod full;
mod many;
mod since;
mod volumes;

use anyhow::Result;
use onefold_block::BlockDevice;
use onefold_pool::Volume;

use crate::data::BLOCK;
use crate::lab::Lab;
use crate::report::{Goal, Row, Unit};

pub use many::work as opening_work;

const GROUP: &str = "snapshots";
/// Bytes of a request where much is written.
const REQUEST: usize = 1 << 20;

/// Measure all of it.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if lab.wants("full") {
        rows.extend(full::run(lab)?);
    }
    if lab.wants("many") {
        rows.extend(many::run(lab)?);
    }
    if lab.wants("since") {
        rows.push(since::run(lab)?);
    }
    if lab.wants("volumes") {
        rows.extend(volumes::run(lab)?);
    }
    Ok(rows)
}

/// A row with a goal that small sizes do not have.
fn row(lab: &Lab, name: impl Into<String>, value: f64, unit: Unit, goal: Goal) -> Row {
    Row { goal: lab.pick(Some(goal), None), ..Row::new(GROUP, name, value, unit) }
}

/// Fill a volume from its first byte on with blocks that are numbered over and over from 1 to
/// `distinct`, and hold nothing but their number.
fn fill(volume: &Volume, bytes: u64, distinct: u64) -> Result<()> {
    let mut data = vec![0; REQUEST];
    let mut next = 0;
    for at in (0..bytes).step_by(REQUEST) {
        for block in data.chunks_exact_mut(BLOCK) {
            block[..8].copy_from_slice(&(next % distinct + 1).to_le_bytes());
            next += 1;
        }
        volume.write_at(at, &data, false)?;
    }
    Ok(volume.flush()?)
}
