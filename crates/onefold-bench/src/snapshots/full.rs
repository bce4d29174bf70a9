//! A snapshot of a volume whose every block is mapped, and where two of its snapshots differ.
//! Room: onefold-bench.
//! The map of 1 TiB is full, each leaf a page of its own in the file (2 GiB of them). What it
//! refers to is 16 GiB of distinct blocks over and over, which compress to nearly nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_pool::{Budgets, Pool, Volume};

use super::{GROUP, fill, row};
use crate::clock;
use crate::data::BLOCK;
use crate::io::Moved;
use crate::lab::{Lab, new_pool, open_pool};
use crate::measure::{median, median_of};
use crate::report::{Goal, Row, Unit};

/// Blocks that change between two snapshots that are compared.
const CHANGED: usize = 1000;

/// What a snapshot took.
struct Taken {
    cpu: f64,
    written: f64,
}

/// What a writer saw.
#[derive(Default)]
struct Seen {
    writes: u64,
    slowest: f64,
}

/// Measure.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let bytes: u64 = lab.pick(1 << 40, 64 << 20);
    let distinct: u64 = lab.pick(16 << 30, 8 << 20) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let (pool, volume) = new_pool(&path, Budgets::default(), ByteSize(bytes))?;
    eprintln!("snapshots: filling {}", ByteSize(bytes));
    fill(&volume, bytes, distinct)?;
    pool.checkpoint()?;
    let mapped = pool.status()?.logical_bytes;
    ensure!(mapped == bytes, "only {} are mapped", ByteSize(mapped));

    eprintln!("snapshots: of a full volume");
    let (mut still, mut changed) = (Vec::new(), Vec::new());
    let mut random = SplitMix64::new(1);
    for round in 0..lab.rounds {
        still.push(take(&pool, &format!("main@still-{round}"))?);
        change(&volume, &mut random, CHANGED)?;
        changed.push(take(&pool, &format!("main@changed-{round}"))?);
        pool.checkpoint()?;
    }
    let size = ByteSize(bytes);
    let kib = |taken: &Taken| taken.written / 1024.0;
    let mut rows = vec![
        Row {
            note: format!(
                "{:.1} ms with {CHANGED} blocks changed just before, whose map pages it writes",
                1e3 * median_of(&changed, |taken| taken.cpu)
            ),
            ..row(
                lab,
                format!("snapshot of a full volume of {size}: CPU"),
                1e3 * median_of(&still, |taken| taken.cpu),
                Unit::Milliseconds,
                Goal::AtMost(10.0),
            )
        },
        Row {
            note: format!("{:.0} KiB with these", median_of(&changed, kib)),
            ..row(
                lab,
                format!("snapshot of a full volume of {size}: written"),
                median_of(&still, kib),
                Unit::Kibibytes,
                Goal::AtMost(64.0),
            )
        },
        beside(lab, &pool, &volume)?,
    ];
    drop(volume);
    rows.push(differences(lab, pool, &path, bytes)?);
    Ok(rows)
}

fn take(pool: &Pool, name: &str) -> Result<Taken> {
    let (cpu, moved) = (clock::process_cpu(std::process::id())?, Moved::here()?);
    pool.snapshot(name, 1, false)?;
    let cpu = clock::process_cpu(std::process::id())? - cpu;
    Ok(Taken { cpu, written: Moved::here()?.since(moved).written as f64 })
}

/// Write so many blocks, and return which.
fn change(volume: &Volume, random: &mut SplitMix64, count: usize) -> Result<BTreeSet<u64>> {
    let blocks = volume.size_bytes() / BLOCK as u64;
    let mut changed = BTreeSet::new();
    let mut data = vec![0; BLOCK];
    while changed.len() < count {
        let block = random.below(blocks);
        if changed.insert(block) {
            random.fill(&mut data);
            volume.write_at(block * BLOCK as u64, &data, false)?;
        }
    }
    volume.flush()?;
    Ok(changed)
}

/// Blocks written one after another by another thread while snapshots are made, and while none are.
fn beside(lab: &Lab, pool: &Pool, volume: &Volume) -> Result<Row> {
    let count = lab.pick(100, 3);
    let (pause, stop) = (std::time::Duration::from_millis(5), AtomicBool::new(false));
    let seen = |work: &(dyn Fn() -> Result<()> + Sync)| -> Result<Seen> {
        stop.store(false, Ordering::Release);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_until(volume, &stop));
            let worked = work();
            stop.store(true, Ordering::Release);
            let seen = writer.join().expect("a writer does not panic");
            worked.and(seen)
        })
    };
    let with = seen(&|| {
        for number in 0..count {
            pool.snapshot(&format!("main@beside-{number}"), 1, false)?;
            std::thread::sleep(pause);
        }
        Ok(())
    })?;
    let without = seen(&|| {
        for _ in 0..count {
            // The same checkpoints, without a snapshot.
            pool.checkpoint()?;
            std::thread::sleep(pause);
        }
        Ok(())
    })?;
    let note = format!(
        "by the wall clock; with as many checkpoints that make none {:.1} ms; {} and {} writes",
        1e3 * without.slowest,
        with.writes,
        without.writes
    );
    let name = format!("slowest 4 KiB write beside {count} snapshots");
    Ok(Row { note, ..Row::new(GROUP, name, 1e3 * with.slowest, Unit::Milliseconds) })
}

fn write_until(volume: &Volume, stop: &AtomicBool) -> Result<Seen> {
    let mut random = SplitMix64::new(2);
    let blocks = volume.size_bytes() / BLOCK as u64;
    let (mut seen, mut data) = (Seen::default(), vec![0; BLOCK]);
    while !stop.load(Ordering::Acquire) {
        data[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        let start = Instant::now();
        volume.write_at(random.below(blocks) * BLOCK as u64, &data, false)?;
        seen.slowest = seen.slowest.max(start.elapsed().as_secs_f64());
        seen.writes += 1;
    }
    Ok(seen)
}

/// With no map page in memory.
fn differences(lab: &Lab, pool: Pool, path: &std::path::Path, bytes: u64) -> Result<Row> {
    eprintln!("snapshots: differences");
    let volume = pool.volume("main")?;
    pool.snapshot("main@before", 1, false)?;
    let changed = change(&volume, &mut SplitMix64::new(3), CHANGED)?;
    pool.snapshot("main@after", 1, false)?;
    drop(volume);
    pool.close()?;
    let (mut cpu, mut pages) = (Vec::new(), 0);
    for _ in 0..lab.rounds {
        let pool = open_pool(path, Budgets::default())?;
        let mut found = BTreeSet::new();
        let read = pool.status()?.map_pages_read;
        let start = clock::thread_cpu();
        pool.differences(["main@before", "main@after"], &mut |offset, len| {
            let first = offset / BLOCK as u64;
            found.extend(first..first + len / BLOCK as u64);
            true
        })?;
        cpu.push(clock::thread_cpu() - start);
        pages = pool.status()?.map_pages_read - read;
        ensure!(found == changed, "{} blocks differ, not {}", found.len(), changed.len());
        pool.close()?;
    }
    let size = ByteSize(bytes);
    let name = format!("differences of two snapshots of {size}, {CHANGED} blocks changed: CPU");
    let note = format!("{pages} map pages read, none of them in memory before");
    Ok(Row { note, ..row(lab, name, 1e3 * median(cpu), Unit::Milliseconds, Goal::AtMost(50.0)) })
}
