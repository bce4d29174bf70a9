//! A pool with 10,000 snapshots beside one without: opening, memory, writes, passes over the maps.
//! Room: onefold-bench.
//! A few blocks change between two snapshots. Each pool is opened in a process of its own, whose
//! anonymous resident memory counts.

use std::path::Path;

use anyhow::{Result, bail};
use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_pool::{Budgets, Pool, SpaceTarget, Thoroughness, Volume};
use serde::{Deserialize, Serialize};

use super::{fill, row};
use crate::clock;
use crate::data::{self, BLOCK};
use crate::io::Moved;
use crate::lab::{Lab, new_pool, open_pool};
use crate::measure::median_of;
use crate::memory::{self, Task};
use crate::report::{Goal, Row, Unit};

/// Blocks that change between two snapshots.
const CHANGED: u64 = 5;
/// Times that a snapshot is made while writes are measured.
const PARTS: u64 = 10;
/// Blocks whose data is made, and whose writes are timed, together.
const BATCH_BLOCKS: usize = 250;
/// Work in one step in the background, in bytes.
const STEP_BYTES: u64 = 4 << 20;
/// Steps after which it is given up that there is an end.
const STEPS_MAX: usize = 1_000_000;

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    /// CPU seconds until the first block was read.
    cpu: f64,
    /// Bytes resident more than before.
    memory: u64,
}

/// The child's part.
pub fn work(path: &Path) -> Result<()> {
    let (before, begun) = (memory::resident()?, clock::thread_cpu());
    let pool = open_pool(path, Budgets::default())?;
    let volume = pool.volume("main")?;
    volume.read_at(0, &mut [0; BLOCK])?;
    let cpu = clock::thread_cpu() - begun;
    let memory = memory::resident()?.saturating_sub(before);
    println!("{}", serde_json::to_string(&Opened { cpu, memory })?);
    drop(volume);
    Ok(pool.close()?)
}

/// Measure.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let count: u64 = lab.pick(10_000, 50);
    let bytes: u64 = lab.pick(2 << 30, 16 << 20);
    let scratch = lab.scratch()?;
    let (many, none) = (scratch.path().join("many"), scratch.path().join("none"));
    let mut rows = vec![make(lab, &many, bytes, count)?];
    let (pool, volume) = new_pool(&none, Budgets::default(), ByteSize(bytes))?;
    fill(&volume, bytes, u64::MAX)?;
    drop(volume);
    pool.close()?;
    rows.extend(opening(lab, [&many, &none], count)?);
    rows.push(writes(lab, [&many, &none], count)?);
    rows.extend(passes(lab, &many, count)?);
    Ok(rows)
}

/// A pool with so many snapshots at `path`, and what the last of them cost.
fn make(lab: &Lab, path: &Path, bytes: u64, count: u64) -> Result<Row> {
    eprintln!("snapshots: making {count}");
    let (pool, volume) = new_pool(path, Budgets::default(), ByteSize(bytes))?;
    fill(&volume, bytes, u64::MAX)?;
    let (mut random, blocks) = (SplitMix64::new(5), bytes / BLOCK as u64);
    let mut data = vec![0; BLOCK];
    let (mut last, measured) = (Vec::new(), count / 100);
    for number in 0..count {
        for _ in 0..CHANGED {
            random.fill(&mut data);
            volume.write_at(random.below(blocks) * BLOCK as u64, &data, false)?;
        }
        let (cpu, moved) = (clock::process_cpu(std::process::id())?, Moved::here()?);
        pool.snapshot(&format!("main@{number}"), number, false)?;
        if number + measured.max(1) >= count {
            let cpu = clock::process_cpu(std::process::id())? - cpu;
            last.push((cpu, Moved::here()?.since(moved).written as f64));
        }
    }
    drop(volume);
    pool.close()?;
    let kib = median_of(&last, |(_, written)| *written) / 1024.0;
    let note = format!("{kib:.0} KiB written, for {CHANGED} changed blocks, too");
    let name = format!("one snapshot beside {count}: CPU");
    let milliseconds = 1e3 * median_of(&last, |(cpu, _)| *cpu);
    let goal = Goal::AtMost(10.0);
    Ok(Row { note, ..row(lab, name, milliseconds, Unit::Milliseconds, goal) })
}

fn opening(lab: &Lab, [many, none]: [&Path; 2], count: u64) -> Result<[Row; 2]> {
    let mut pairs = Vec::new();
    for _ in 0..lab.rounds {
        let one = |path| memory::child::<Opened>(Task::Open, path, 0);
        pairs.push([one(many)?, one(none)?]);
    }
    let cpu = |number: usize| median_of(&pairs, |pair| pair[number].cpu);
    let mib = |number: usize| {
        median_of(&pairs, |pair| pair[number].memory as f64) / f64::from(1u32 << 20)
    };
    let name = format!("{count} snapshots: CPU to the first read after opening");
    let opening = Row {
        note: format!("{:.4} s without", cpu(1)),
        ..row(lab, name, cpu(0), Unit::Seconds, Goal::AtMost(2.0))
    };
    let name = format!("{count} snapshots: resident memory beyond that without");
    let memory = Row {
        note: format!("{:.1} and {:.1} MiB more than before opening", mib(0), mib(1)),
        ..row(lab, name, (mib(0) - mib(1)).max(0.0), Unit::Mebibytes, Goal::AtMost(16.0))
    };
    Ok([opening, memory])
}

/// Random writes of one block in both pools in turn.
fn writes(lab: &Lab, paths: [&Path; 2], count: u64) -> Result<Row> {
    let part: u64 = lab.pick(100_000, 500);
    eprintln!("snapshots: {} writes beside {count}", part * PARTS);
    let mut sides = Vec::new();
    for path in paths {
        let pool = open_pool(path, Budgets::default())?;
        let volume = pool.volume("main")?;
        sides.push((pool, volume, SplitMix64::new(6)));
    }
    let mut cpu = [0.0; 2];
    for number in 0..PARTS {
        for (side, (pool, volume, random)) in sides.iter_mut().enumerate() {
            cpu[side] += write(volume, random, number * part, part)?;
            let start = clock::thread_cpu();
            if side == 0 {
                pool.snapshot(&format!("main@part-{number}"), number, false)?;
            } else {
                pool.flush()?;
            }
            cpu[side] += clock::thread_cpu() - start;
        }
    }
    for (pool, volume, _) in sides {
        drop(volume);
        pool.close()?;
    }
    let speed = |side: usize| (PARTS * part) as f64 * BLOCK as f64 / cpu[side];
    let name = format!("{count} snapshots and one more every {part} random 4 KiB writes: speed");
    Ok(Row {
        speed: Some(speed(0)),
        reference: Some(speed(1)),
        note: "per CPU second of one thread, beside a pool without; nothing is reclaimed"
            .to_owned(),
        ..row(lab, name, speed(0) / speed(1), Unit::Share, Goal::AtLeast(0.7))
    })
}

/// CPU seconds of `count` writes of fresh data.
fn write(volume: &Volume, random: &mut SplitMix64, first: u64, count: u64) -> Result<f64> {
    let blocks = volume.size_bytes() / BLOCK as u64;
    let (mut cpu, mut seed) = (0.0, first + (1 << 40));
    let mut data = vec![0; BATCH_BLOCKS * BLOCK];
    for _ in 0..count / BATCH_BLOCKS as u64 {
        data::half_compressible(seed.., &mut data);
        seed += BATCH_BLOCKS as u64;
        let start = clock::thread_cpu();
        for block in data.chunks_exact(BLOCK) {
            volume.write_at(random.below(blocks) * BLOCK as u64, block, false)?;
        }
        cpu += clock::thread_cpu() - start;
    }
    Ok(cpu)
}

/// Map pages read for each pass, with memory for a part of them: of little, a count takes many.
fn passes(lab: &Lab, path: &Path, count: u64) -> Result<[Row; 2]> {
    eprintln!("snapshots: passes over the maps");
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 64 << 20, cache_bytes: 0 };
    let pool = open_pool(path, budgets)?;
    let target = SpaceTarget::new(1.05)?;
    // What they alone had is dead from then on.
    for number in 0..PARTS {
        pool.delete_snapshot(&format!("main@part-{number}"))?;
    }
    while !pool.give_up_deleted(STEP_BYTES)? {}
    let reclaimed = pass(&pool, &mut || Ok(pool.background(STEP_BYTES, target)?.done))?;
    // Copies of what an index this small does not know.
    let volume = pool.volume("main")?;
    let half = volume.size_bytes() / BLOCK as u64 / 2;
    let mut data = vec![0; BLOCK];
    for block in (0..half).step_by(lab.pick(16, 4)) {
        volume.read_at(block * BLOCK as u64, &mut data)?;
        volume.write_at((half + block) * BLOCK as u64, &data, false)?;
    }
    volume.flush()?;
    let merged = pass(&pool, &mut || Ok(pool.deduplicate(STEP_BYTES, Thoroughness::Whole)?.done))?;
    let name = |what: &str| {
        format!("{count} snapshots: map pages read by a pass of {what}, for each there is")
    };
    let row = |what: &str, [read, passes, pages]: [u64; 3]| {
        // No pass is no figure.
        let value = read as f64 / passes as f64 / pages as f64;
        let note = format!("{read} in {passes} passes; {pages} distinct pages, 64 MiB for them");
        Row { note, ..row(lab, name(what), value, Unit::Times, Goal::AtMost(1.0)) }
    };
    drop(volume);
    Ok([row("reclaim", reclaimed), row("merges", merged)])
}

/// Pages read, passes, and pages there are.
fn pass(pool: &Pool, step: &mut dyn FnMut() -> Result<bool>) -> Result<[u64; 3]> {
    let before = pool.status()?;
    for _ in 0..STEPS_MAX {
        if step()? {
            let after = pool.status()?;
            let read = after.map_pages_read - before.map_pages_read;
            return Ok([read, after.map_passes - before.map_passes, after.map_pages]);
        }
    }
    bail!("work in the background does not come to its end")
}
