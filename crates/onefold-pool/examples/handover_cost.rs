//! What it costs to keep acknowledged writes in memory that outlives the process.
//! Room: onefold-pool.
//!
//! `perf stat -e instructions:u target/release/examples/handover_cost FOLDER on|off [MIB]` (or
//! `valgrind --tool=callgrind`) writes chunks of 4 KiB that compress to half, one request each,
//! with a flush every 16 MiB; the difference between `on` and `off` is the cost.

#![expect(clippy::disallowed_methods, reason = "an example is a command")]

use std::path::Path;
use std::sync::Arc;

use onefold_block::handover::{FileHandover, Handover};
use onefold_block::{BlockDevice as _, ByteSize, SplitMix64};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Surroundings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(keep)) = (args.next(), args.next()) else {
        return Err("usage: handover_cost FOLDER on|off [MIB]".into());
    };
    let mib: u64 = args.next().map_or(Ok(256), |mib| mib.parse())?;
    let folder = Path::new(&folder);
    Pool::create_at(
        folder,
        &PoolSettings::default(),
        PoolIdentity { uuid: [3; 16], key: [5; 32] },
    )?;
    let handover: Option<Arc<dyn Handover>> = if keep == "on" {
        let name = format!("/dev/shm/handover-cost-{}", std::process::id());
        Some(Arc::new(FileHandover::open(Path::new(&name), [1; 16])?))
    } else {
        None
    };
    let budgets = Budgets { index_bytes: 64 << 20, map_bytes: 64 << 20, cache_bytes: 0 };
    let options = OpenOptions { read_only: false, budgets };
    let pool = Pool::open_at_in(folder, &options, Surroundings { handover, wrap: None })?;
    let volume = pool.create_volume("main", ByteSize(mib << 20))?;
    let mut random = SplitMix64::new(1);
    let mut chunk = vec![7; 4096];
    for number in 0..mib * 256 {
        for word in chunk[..2048].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        volume.write_at(number * 4096, &chunk, false)?;
        if number % 4096 == 4095 {
            volume.flush()?;
        }
    }
    drop(volume);
    pool.close()?;
    Ok(())
}
