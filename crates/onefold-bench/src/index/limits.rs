//! What little memory costs: of directories, of an index that knows a tenth, of hooks alone.
//! Room: onefold-bench.

use anyhow::Result;
use onefold_block::ByteSize;

use super::bench::{Bench, Beside, VOLUME_BYTES, Written};
use super::source::{Small, WorkingSet, copies_of_random_blocks};
use super::{GIB, GROUP, INDEX_MIN, needed, share};
use crate::data::BLOCK;
use crate::lab::Lab;
use crate::memory;
use crate::report::{Goal, Row, Unit};

/// Copies of parts of many blocks.
const COPIES: u64 = 8;

/// Duplicates all over the place, with all fingerprints in memory, where directories of half the
/// containers fit.
pub fn directories(lab: &Lab) -> Result<Row> {
    let blocks: u64 = lab.pick(3 << 30, 64 << 20) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let unique = WorkingSet::new(blocks).unique();
    let per_gib = |written: Written| written.cpu / ((written.blocks * BLOCK as u64) as f64 / GIB);
    let measure = |name: &str, parts: u64| -> Result<f64> {
        eprintln!("index: directories, {name}");
        // An eighth of the index memory is for directories, 28 bytes a chunk.
        let index_bytes = (unique * 28 * 8 * parts / 2).max(INDEX_MIN);
        let mut bench = Bench::new(&scratch.path().join(name), index_bytes, Beside::Nothing)?;
        Ok(per_gib(bench.write(&mut WorkingSet::new(blocks), 0)?))
    };
    let (half, all) = (measure("half", 1)?, measure("all", 3)?);
    Ok(Row {
        goal: lab.pick(Some(Goal::AtMost(1.3)), None),
        cpu_per_gib: Some(half),
        note: format!("{all:.2} CPU s/GiB where all fit"),
        ..Row::new(
            GROUP,
            "working set, directories of half the containers fit: CPU",
            half / all,
            Unit::Times,
        )
    })
}

/// A table of ten times the memory, and writes of which 30 % are duplicates from anywhere.
pub fn larger_than_memory(lab: &Lab) -> Result<Row> {
    let before: u64 = lab.pick(4 << 30, 16 << 20) / BLOCK as u64;
    let blocks = before / 4;
    let scratch = lab.scratch()?;
    let measure = |name: &str, index_bytes: u64| -> Result<(Written, String)> {
        eprintln!("index: table, {name}");
        let mut bench = Bench::new(&scratch.path().join(name), index_bytes, Beside::Levels)?;
        bench.write(&mut copies_of_random_blocks(0, before, 0), 0)?;
        let written =
            bench.write(&mut copies_of_random_blocks(before, blocks, 30), VOLUME_BYTES / 2)?;
        Ok((written, bench.asked()?))
    };
    let (tenth, asked) = measure("a tenth", (needed(before) / 10).max(INDEX_MIN))?;
    let (all, _) = measure("all", 1 << 30)?;
    let speed = |written: Written| written.blocks as f64 / written.cpu;
    Ok(Row {
        goal: lab.pick(Some(Goal::AtLeast(0.6)), None),
        speed: Some(speed(tenth) * BLOCK as f64),
        reference: Some(speed(all) * BLOCK as f64),
        note: format!(
            "per CPU second; {:.1} % of the duplicates found at once ({asked}), with all in memory \
             {:.1} %",
            100.0 * share(tenth.found, blocks * 30 / 100),
            100.0 * share(all.found, blocks * 30 / 100)
        ),
        ..Row::new(
            GROUP,
            "table of ten times the memory, 30 % duplicates: writes",
            speed(tenth) / speed(all),
            Unit::Share,
        )
    })
}

/// So many blocks that the hooks of all take a quarter of the index, and copies from anywhere.
pub fn many_blocks(lab: &Lab) -> Result<[Row; 2]> {
    let (blocks, index_bytes) = lab.pick((100_000_000, 64 << 20), (20_000, INDEX_MIN));
    let scratch = lab.scratch()?;
    eprintln!("index: {blocks} blocks, an index of {}", ByteSize(index_bytes));
    let before = memory::resident()?;
    let path = scratch.path().join("many");
    let mut bench = Bench::new(&path, index_bytes, Beside::Levels)?.without_counter();
    bench.write(&mut Small::new(0..blocks), 0)?;
    let len = blocks / COPIES / 4;
    let (mut copied, mut found) = (0, 0);
    for copy in 0..COPIES {
        let from = copy * (blocks / COPIES);
        let at = VOLUME_BYTES / 2 + copy * (VOLUME_BYTES / 64);
        let written = bench.write(&mut Small::new(from..from + len), at)?;
        copied += written.blocks;
        found += written.found;
    }
    let resident = memory::resident()?.saturating_sub(before);
    let status = bench.pool.status()?;
    let name = |what: &str| format!("{blocks} blocks, index of {}: {what}", ByteSize(index_bytes));
    let row = |what: &str, value, unit, goal| Row {
        goal: lab.pick(Some(goal), None),
        ..Row::new(GROUP, name(what), value, unit)
    };
    let memory = status.index_memory_bytes as f64 / index_bytes as f64;
    let beside = status.memory_bytes() - status.index_memory_bytes;
    Ok([
        Row {
            note: format!("{COPIES} copies of {} each", ByteSize(len * BLOCK as u64)),
            ..row("copies found at once", share(found, copied), Unit::Share, Goal::AtLeast(0.9))
        },
        Row {
            note: format!(
                "resident in all {}; maps, tables and buffers {}",
                ByteSize(resident),
                ByteSize(beside)
            ),
            ..row("memory of its limit", memory, Unit::Share, Goal::AtMost(1.1))
        },
    ])
}
