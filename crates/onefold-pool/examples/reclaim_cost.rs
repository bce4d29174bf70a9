//! What writers pay to win space back, and how the pool reads afterwards.
//! Room: onefold-pool.
//!
//! `reclaim_cost FOLDER on|off [MIB] [PASSES]` fills a volume, overwrites it at random, block by
//! block, with chunks that compress to half, lets the pool be idle, and reads the volume in order.
//! To see where the time goes: `perf record -e cpu-clock -g`, or `valgrind --tool=callgrind`.

#![expect(clippy::disallowed_methods, reason = "an example is a command")]

use std::path::Path;

use onefold_block::{BlockDevice as _, ByteSize, SplitMix64};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, SpaceTarget, Volume};

const CHUNK: usize = 4096;
const TARGET: f64 = 1.5;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(keep)) = (args.next(), args.next()) else {
        return Err("usage: reclaim_cost FOLDER on|off [MIB] [PASSES]".into());
    };
    let mut number = |default: u64| args.next().map_or(Ok(default), |word| word.parse());
    let (mib, passes) = (number(128)?, number(5)?);
    let (folder, target) = (Path::new(&folder), SpaceTarget::new(TARGET)?);
    let identity = PoolIdentity { uuid: [3; 16], key: [5; 32] };
    Pool::create_at(folder, &PoolSettings::default(), identity)?;
    let pool = open(folder)?;
    pool.set_space_target((keep == "on").then_some(target));
    let volume = pool.create_volume("main", ByteSize(mib << 20))?;
    let (blocks, mut random) = (mib * 256, SplitMix64::new(1));
    let mut chunk = vec![7; CHUNK];
    let mut write = |volume: &Volume, block: u64| -> Result<(), Failed> {
        for word in chunk[..CHUNK / 2].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Ok(volume.write_at(block * CHUNK as u64, &chunk, false)?)
    };
    for block in 0..blocks {
        write(&volume, block)?;
    }
    volume.flush()?;
    let mut places = SplitMix64::new(2);
    for pass in 1..=passes {
        let (cpu, before) = (cpu_seconds()?, pool.activity());
        for _ in 0..blocks {
            write(&volume, places.below(blocks))?;
        }
        volume.flush()?;
        let (after, status) = (pool.activity(), pool.status()?);
        println!(
            "pass {pass}: {:.3} CPU s/GiB, {:.3} moved for each byte written, {:.3} stored over \
             live",
            (cpu_seconds()? - cpu) / mib as f64 * 1024.0,
            (after.moved_bytes - before.moved_bytes) as f64 / (mib << 20) as f64,
            status.stored_over_live()
        );
    }
    let (cpu, before) = (cpu_seconds()?, pool.activity().moved_bytes);
    while !pool.background(1 << 20, target)?.done {}
    println!(
        "idle: {:.3} CPU s/GiB, {} moved",
        (cpu_seconds()? - cpu) / mib as f64 * 1024.0,
        ByteSize(pool.activity().moved_bytes - before)
    );
    drop(volume);
    pool.close()?;
    let pool = open(folder)?;
    let volume = pool.volume("main")?;
    let (reads, cpu, mut bytes) = (system_reads()?, cpu_seconds()?, vec![0; 128 << 10]);
    for at in (0..mib << 20).step_by(bytes.len()) {
        volume.read_at(at, &mut bytes)?;
    }
    println!(
        "read in order: {:.1} reads per MiB, {:.3} CPU s/GiB",
        (system_reads()? - reads) as f64 / mib as f64,
        (cpu_seconds()? - cpu) / mib as f64 * 1024.0
    );
    drop(volume);
    pool.close()?;
    Ok(())
}

fn open(folder: &Path) -> Result<Pool, Failed> {
    let budgets = Budgets { index_bytes: 64 << 20, map_bytes: 64 << 20, cache_bytes: 0 };
    Ok(Pool::open_at(folder, &OpenOptions { read_only: false, budgets })?)
}

/// CPU time of this process so far, in seconds.
fn cpu_seconds() -> Result<f64, Failed> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns: f64 = text.split(' ').next().ok_or("no time in /proc/self/schedstat")?.parse()?;
    Ok(ns / 1e9)
}

/// Reads that this process asked of the system.
fn system_reads() -> Result<u64, Failed> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("syscr:"));
    Ok(line.ok_or("no syscr in /proc/self/io")?.trim().parse()?)
}
