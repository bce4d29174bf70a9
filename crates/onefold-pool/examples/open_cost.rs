//! What opening a pool reads.
//! Room: onefold-pool.
//!
//! `open_cost FOLDER [BLOCKS [STRIDE]]` makes a pool with one volume, unless the folder holds one,
//! and writes so many blocks to it (1,000,000), one of every STRIDE (512: each in a map leaf of its
//! own). Then it opens the pool and prints how often and how much was read.

#![expect(clippy::disallowed_methods, reason = "an example is a command")]

use std::path::Path;
use std::time::Instant;

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings};

type Error = Box<dyn std::error::Error>;

const BLOCK_BYTES: u64 = 4096;
/// Contents that the blocks share, so that the map is all that grows.
const CONTENTS: u64 = 1000;

fn options() -> OpenOptions {
    let budgets = Budgets { index_bytes: 64 << 20, map_bytes: 256 << 20, cache_bytes: 0 };
    OpenOptions { read_only: false, budgets }
}

fn fill(folder: &Path, blocks: u64, stride: u64) -> Result<(), Error> {
    let identity = PoolIdentity { uuid: [3; 16], key: [5; 32] };
    Pool::create_at(folder, &PoolSettings::default(), identity)?;
    let pool = Pool::open_at(folder, &options())?;
    let volume = pool.create_volume("main", ByteSize(blocks * stride * BLOCK_BYTES))?;
    for number in 0..blocks {
        let word = (number % CONTENTS + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        let data = word.repeat(BLOCK_BYTES as usize / word.len());
        volume.write_at(number * stride * BLOCK_BYTES, &data, false)?;
    }
    drop(volume);
    Ok(pool.close()?)
}

/// Reads so far, and their bytes.
fn read() -> Result<(u64, u64), Error> {
    let counts = std::fs::read_to_string("/proc/self/io")?;
    let of = |name: &str| -> Result<u64, Error> {
        let line = counts.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.ok_or("no count of reads")?.trim().parse()?)
    };
    Ok((of("syscr:")?, of("rchar:")?))
}

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: open_cost FOLDER [BLOCKS [STRIDE]]")?;
    let blocks: u64 = args.next().map_or(Ok(1_000_000), |number| number.parse())?;
    let stride: u64 = args.next().map_or(Ok(512), |number| number.parse())?;
    let folder = Path::new(&folder);
    if !folder.join("super.0").exists() {
        fill(folder, blocks, stride)?;
    }
    let (begun, before) = (Instant::now(), read()?);
    let pool = Pool::open_at(folder, &options())?;
    let (took, after) = (begun.elapsed(), read()?);
    println!(
        "opened in {took:?} with {} reads of {} bytes",
        after.0 - before.0,
        after.1 - before.1
    );
    Ok(pool.close()?)
}
