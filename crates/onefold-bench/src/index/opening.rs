//! What opening a large pool takes that was not stopped, up to its first answer.
//! Room: onefold-bench.
//! The files are copied while the pool is open, after a flush: that is what a killed process
//! leaves, without the memory beside them that would outlive it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use onefold_block::{BlockDevice, ByteSize};
use onefold_pool::Budgets;

use super::bench::{Bench, Beside, VOLUME_BYTES};
use super::source::Small;
use super::{GROUP, INDEX_MIN};
use crate::clock;
use crate::data::BLOCK;
use crate::io::Moved;
use crate::lab::{Lab, open_pool};
use crate::report::{Goal, Row, Unit};

/// Half of what the volume holds is stored.
pub fn after_a_crash(lab: &Lab) -> Result<[Row; 2]> {
    let (unique, index_bytes) = lab.pick((50 << 30, 256 << 20), (50 << 20, INDEX_MIN));
    let blocks = unique / BLOCK as u64;
    let scratch = lab.scratch()?;
    eprintln!("index: opening, {} stored", ByteSize(unique));
    let (killed, path) = (scratch.path().join("killed"), scratch.path().join("served"));
    let mut bench = Bench::new(&path, index_bytes, Beside::Levels)?;
    for half in 0..2 {
        bench.write(&mut Small::new(0..blocks), half * VOLUME_BYTES / 2)?;
    }
    copy(&path, &killed)?;

    let (begun, read) = (clock::thread_cpu(), Moved::here()?);
    let pool = open_pool(&killed, Budgets { index_bytes, ..Budgets::default() })?;
    let volume = pool.volume("main")?;
    let mut block = [0; BLOCK];
    volume.read_at(VOLUME_BYTES / 2 + (blocks / 3) * BLOCK as u64, &mut block)?;
    let (cpu, read) = (clock::thread_cpu() - begun, Moved::here()?.since(read).read);
    ensure!(block[..8] == (blocks / 3 + 1).to_le_bytes(), "the first read is of another block");

    let row = |what: &str, value, unit, goal| {
        let logical = ByteSize(2 * unique);
        let name = format!("killed with {logical} of which half is stored: {what}");
        Row { goal: lab.pick(Some(goal), None), ..Row::new(GROUP, name, value, unit) }
    };
    let journal = pool.status()?.journal_bytes;
    Ok([
        Row {
            note: format!("a journal of {}", ByteSize(journal)),
            ..row("CPU to the first read", cpu, Unit::Seconds, Goal::AtMost(1.0))
        },
        Row {
            note: "by read calls, also from the page cache".to_owned(),
            ..row(
                "read up to it",
                read as f64 / f64::from(1 << 20),
                Unit::Mebibytes,
                Goal::AtMost(100.0),
            )
        },
    ])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}
