//! Duplicates found with an index that has no room for all fingerprints: at once, and in the
//! background.
//! Room: onefold-bench.
//! Shares are of the blocks that are duplicates of others. What an index needs for all fingerprints
//! is taken from a pool that has all of them. A pool's index has 1 MiB at least, so that small data
//! has no row for the smallest shares. Figures are of one run: they count blocks and CPU seconds of
//! the thread that writes.

mod source;

use std::path::Path;

use anyhow::{Context, Result};
use onefold_block::{BlockDevice, ByteSize};
use onefold_pool::{Budgets, Pool, Thoroughness, Volume};

use crate::clock;
use crate::data::BLOCK;
use crate::lab::{Lab, new_pool, open_pool};
use crate::memory;
use crate::report::{Goal, Row, Unit};

use source::{Small, Source, Tree, WorkingSet, copies_of_random_blocks};

const GROUP: &str = "index";
/// Bytes of a request.
const REQUEST: usize = 128 << 10;
/// Work in one step in the background, in bytes.
const STEP_BYTES: u64 = 4 << 20;
const VOLUME_BYTES: u64 = 1 << 40;
/// The least that a pool's index works with.
const INDEX_MIN: u64 = 1 << 20;
/// Shares of what the index needs, and what is to be found at once of a second copy.
const SHARES: [(u64, f64); 3] = [(5, 0.90), (15, 0.95), (50, 0.97)];
/// Copies of parts of many blocks.
const COPIES: u64 = 8;
const GIB: f64 = (1u64 << 30) as f64;

/// A pool of its own folder.
struct Bench {
    pool: Pool,
    volume: Volume,
    budgets: Budgets,
    buffer: Vec<u8>,
}

/// What writing took.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    blocks: u64,
    /// Blocks found to be stored already.
    found: u64,
    cpu: f64,
}

/// What the background came to.
#[derive(Clone, Copy, Debug, Default)]
struct Later {
    found: u64,
    work_bytes: u64,
    cpu: f64,
}

impl Bench {
    fn new(path: &Path, index_bytes: u64) -> Result<Self> {
        let budgets = Budgets { index_bytes, cache_bytes: 0, ..Budgets::default() };
        let (pool, volume) = new_pool(path, budgets, ByteSize(VOLUME_BYTES))?;
        Ok(Self { pool, volume, budgets, buffer: vec![0; REQUEST] })
    }

    /// Write all of a source, from this byte of the volume on.
    fn write(&mut self, source: &mut dyn Source, mut at: u64) -> Result<Written> {
        let before = self.pool.activity();
        let mut cpu = 0.0;
        loop {
            let len = source.fill(&mut self.buffer)?;
            if len == 0 {
                break;
            }
            let begun = clock::thread_cpu();
            self.volume.write_at(at, &self.buffer[..len], false)?;
            cpu += clock::thread_cpu() - begun;
            at += len as u64;
        }
        self.volume.flush()?;
        let now = self.pool.activity();
        Ok(Written {
            blocks: now.written - before.written - (now.zero - before.zero),
            found: now.duplicate - before.duplicate,
            cpu,
        })
    }

    /// Find the rest, also of the container that was being filled: opened anew, it is sealed.
    fn deduplicate(self, path: &Path) -> Result<Later> {
        let budgets = self.budgets;
        drop(self.volume);
        self.pool.close()?;
        let pool = open_pool(path, budgets)?;
        let (begun, mut work_bytes) = (clock::thread_cpu(), 0);
        loop {
            let step = pool.deduplicate(STEP_BYTES, Thoroughness::Whole)?;
            work_bytes += step.work_bytes;
            if step.done {
                break;
            }
        }
        let cpu = clock::thread_cpu() - begun;
        let found = pool.status()?.deduplication.found;
        Ok(Later { found, work_bytes, cpu })
    }
}

/// Measure all of it.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if lab.wants("copy") {
        rows.extend(second_copy(lab)?);
    }
    if lab.wants("working set") {
        rows.extend(working_set(lab)?);
    }
    if lab.wants("directories") {
        rows.push(directories(lab)?);
    }
    if lab.wants("table") {
        rows.push(larger_than_memory(lab)?);
    }
    if lab.wants("many") {
        rows.extend(many_blocks(lab)?);
    }
    Ok(rows)
}

/// Bytes that an index of so many entries takes.
fn needed(unique: u64) -> u64 {
    (unique as f64 * 10.7) as u64
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { part as f64 / of as f64 }
}

/// Budgets for parts of what is needed, where these are not less than the least; at tiny sizes the
/// least for all.
fn budgets(lab: &Lab, unique: u64) -> impl Iterator<Item = (u64, f64, u64)> {
    // Directories have an eighth.
    let of = move |(percent, goal)| (percent, goal, needed(unique) * percent / 100 * 8 / 7);
    let least = lab.pick(0, INDEX_MIN);
    let clipped = move |(percent, goal, bytes): (u64, f64, u64)| (percent, goal, bytes.max(least));
    SHARES.into_iter().map(of).map(clipped).filter(|&(.., bytes)| bytes >= INDEX_MIN)
}

/// Trees of files, written twice.
fn second_copy(lab: &Lab) -> Result<Vec<Row>> {
    let tree = Tree::find(&lab.trees, lab.pick(16 << 30, 64 << 20))?;
    let scratch = lab.scratch()?;
    eprintln!("index: {} of files, all fingerprints in memory", ByteSize(tree.bytes()));
    let mut all = Bench::new(&scratch.path().join("all"), 1 << 30)?;
    let first = all.write(&mut tree.read(), 0)?;
    let unique = first.blocks - first.found;
    drop(all);
    std::fs::remove_dir_all(scratch.path().join("all")).context("a scratch folder")?;
    let mut rows = Vec::new();
    for (percent, goal, index_bytes) in budgets(lab, unique) {
        eprintln!("index: {} of files, index for {percent} %", ByteSize(tree.bytes()));
        let path = scratch.path().join(format!("{percent}"));
        let mut bench = Bench::new(&path, index_bytes)?;
        let once = bench.write(&mut tree.read(), 0)?;
        let again = bench.write(&mut tree.read(), VOLUME_BYTES / 2)?;
        let later = bench.deduplicate(&path)?;
        let note = format!(
            "{} of files; of the first copy's own duplicates {:.1} %; index of {}",
            ByteSize(tree.bytes()),
            100.0 * share(once.found, first.found),
            ByteSize(index_bytes)
        );
        let name = format!("second copy of files, index for {percent} %: found at once");
        let found = share(again.found, again.blocks);
        let goal = lab.pick(Some(Goal::AtLeast(goal)), None);
        rows.push(Row { goal, note, ..Row::new(GROUP, name, found, Unit::Share) });
        let possible = again.blocks + first.found;
        rows.extend(background(lab, "files", percent, possible, &[once, again], later));
        std::fs::remove_dir_all(&path).context("a scratch folder")?;
    }
    Ok(rows)
}

/// What was found in all, and what the background took for it.
fn background(
    lab: &Lab,
    what: &str,
    percent: u64,
    possible: u64,
    written: &[Written],
    later: Later,
) -> [Row; 3] {
    let at_once: u64 = written.iter().map(|written| written.found).sum();
    let blocks: u64 = written.iter().map(|written| written.blocks).sum();
    let stored_gib = ((blocks - at_once) * BLOCK as u64) as f64 / GIB;
    let row = |name: &str, value, unit, goal| Row {
        goal: lab.pick(Some(goal), None),
        ..Row::new(GROUP, format!("{what}, index for {percent} %: {name}"), value, unit)
    };
    let all = share(at_once + later.found, possible);
    [
        Row {
            note: format!("{} blocks in the background", later.found),
            ..row("found at once and later", all, Unit::Share, Goal::AtLeast(1.0))
        },
        Row {
            note: "of blocks stored, before compression".to_owned(),
            ..row("background pass", later.cpu / stored_gib, Unit::CpuPerGib, Goal::AtMost(0.3))
        },
        row(
            "background pass, bytes read and written for each stored",
            later.work_bytes as f64 / (stored_gib * GIB),
            Unit::Share,
            Goal::AtMost(0.05),
        ),
    ]
}

/// Duplicates all over the place.
fn working_set(lab: &Lab) -> Result<Vec<Row>> {
    let blocks: u64 = lab.pick(12 << 30, 64 << 20) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let unique = WorkingSet::new(blocks).unique();
    let mut rows = Vec::new();
    for (percent, _, index_bytes) in budgets(lab, unique) {
        eprintln!("index: working set, index for {percent} %");
        let path = scratch.path().join(format!("{percent}"));
        let mut bench = Bench::new(&path, index_bytes)?;
        let written = bench.write(&mut WorkingSet::new(blocks), 0)?;
        let later = bench.deduplicate(&path)?;
        let possible = blocks - unique;
        let name = format!("working set, index for {percent} %: found at once");
        let note = "61 % at 50 % before hooks and read-ahead".to_owned();
        let found = share(written.found, possible);
        rows.push(Row { note, ..Row::new(GROUP, name, found, Unit::Share) });
        rows.extend(background(lab, "working set", percent, possible, &[written], later));
        std::fs::remove_dir_all(&path).context("a scratch folder")?;
    }
    Ok(rows)
}

/// The same, with all fingerprints in memory, where directories of half the containers fit.
fn directories(lab: &Lab) -> Result<Row> {
    let blocks: u64 = lab.pick(3 << 30, 64 << 20) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let unique = WorkingSet::new(blocks).unique();
    let per_gib = |written: Written| written.cpu / ((written.blocks * BLOCK as u64) as f64 / GIB);
    let measure = |name: &str, parts: u64| -> Result<f64> {
        eprintln!("index: directories, {name}");
        // An eighth of the index memory is for directories, 28 bytes a chunk.
        let index_bytes = (unique * 28 * 8 * parts / 2).max(INDEX_MIN);
        let mut bench = Bench::new(&scratch.path().join(name), index_bytes)?;
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
fn larger_than_memory(lab: &Lab) -> Result<Row> {
    let before: u64 = lab.pick(4 << 30, 16 << 20) / BLOCK as u64;
    let blocks = before / 4;
    let scratch = lab.scratch()?;
    let measure = |name: &str, index_bytes: u64| -> Result<Written> {
        eprintln!("index: table, {name}");
        let mut bench = Bench::new(&scratch.path().join(name), index_bytes)?;
        bench.write(&mut copies_of_random_blocks(0, before, 0), 0)?;
        bench.write(&mut copies_of_random_blocks(before, blocks, 30), VOLUME_BYTES / 2)
    };
    let tenth = measure("a tenth", (needed(before) / 10).max(INDEX_MIN))?;
    let all = measure("all", 1 << 30)?;
    let speed = |written: Written| written.blocks as f64 / written.cpu;
    Ok(Row {
        goal: lab.pick(Some(Goal::AtLeast(0.6)), None),
        speed: Some(speed(tenth) * BLOCK as f64),
        reference: Some(speed(all) * BLOCK as f64),
        note: format!(
            "per CPU second; {:.1} % of the duplicates found at once, with all in memory {:.1} %",
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
fn many_blocks(lab: &Lab) -> Result<[Row; 2]> {
    let (blocks, index_bytes) = lab.pick((25_000_000, 16 << 20), (100_000, INDEX_MIN));
    let scratch = lab.scratch()?;
    eprintln!("index: {blocks} blocks, an index of {}", ByteSize(index_bytes));
    let before = memory::resident()?;
    let mut bench = Bench::new(&scratch.path().join("many"), index_bytes)?;
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
