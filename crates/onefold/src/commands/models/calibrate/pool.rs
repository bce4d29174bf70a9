//! Loads stored in a real pool: ns of CPU time of the whole process for each client byte.
//! Room: onefold.

use std::path::Path;

use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_content::Compression;
use onefold_pool::{OpenOptions, Pool, PoolError, PoolSettings};
use rustix::time::ClockId;

use super::kernels::{cpu_ns, half_noise, noise};
use crate::args::models::ArrayCalibrateArgs;
use crate::failure::{Failure, Result};
use crate::make_pool::random_identity;

/// Bytes of a write.
const WRITE: usize = 1 << 20;

/// Random chunks as they are, and the same again: the second time all are duplicates.
pub fn unique_then_duplicate(args: ArrayCalibrateArgs) -> Result<(f64, f64)> {
    let data = noise(&mut SplitMix64::new(11), size(args));
    let store = Store::new(args, Compression::None, 2 * size(args))?;
    let unique = store.write(0, &data)?;
    let duplicate = store.write(data.len() as u64, &data)?;
    store.close()?;
    Ok((unique, duplicate))
}

/// Chunks that compress to about half, some of them copies of earlier ones: ns for each byte, and
/// the share of the new ones that compression leaves.
pub fn mixed(args: ArrayCalibrateArgs, duplicates: f64) -> Result<(f64, f64)> {
    let random = &mut SplitMix64::new(12);
    let chunk = args.chunk.bytes();
    let mut data = half_noise(random, size(args));
    for at in 1..data.len() / chunk {
        if random.below(1 << 20) as f64 >= duplicates * f64::from(1 << 20) {
            continue;
        }
        let from = random.below(at as u64) as usize * chunk;
        data.copy_within(from..from + chunk, at * chunk);
    }
    let store = Store::new(args, Compression::Lz4, data.len())?;
    let ns = store.write(0, &data)?;
    let left = store.compressed_share()?;
    store.close()?;
    Ok((ns, left))
}

fn size(args: ArrayCalibrateArgs) -> usize {
    let chunk = args.chunk.bytes();
    args.bytes.0 as usize / WRITE * WRITE / chunk * chunk
}

/// A pool in a folder that goes away with it.
struct Store {
    folder: tempfile::TempDir,
    pool: Pool,
    volume: onefold_pool::Volume,
}

impl Store {
    fn new(args: ArrayCalibrateArgs, compression: Compression, bytes: usize) -> Result<Self> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::unusable("make a folder in", &std::env::temp_dir(), error))?;
        let settings = PoolSettings {
            chunk_size: args.chunk,
            fingerprint: args.fingerprint,
            compression,
            ..PoolSettings::default()
        };
        let path = folder.path().join("pool");
        let failed = |error: PoolError| Failure::pool(&path, error);
        Pool::create_at(&path, &settings, random_identity()?).map_err(failed)?;
        let pool = Pool::open_at(&path, &OpenOptions::default()).map_err(failed)?;
        let volume = pool.create_volume("load", ByteSize(bytes as u64)).map_err(failed)?;
        Ok(Self { folder, pool, volume })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes and flushes; ns of CPU time for each byte.
    fn write(&self, offset: u64, data: &[u8]) -> Result<f64> {
        let begin = cpu_ns(ClockId::ProcessCPUTime);
        let mut at = offset;
        for piece in data.chunks(WRITE) {
            let written = self.volume.write_at(at, piece, false);
            written.map_err(|error| Failure::volume("load", &error))?;
            at += piece.len() as u64;
        }
        self.volume.flush().map_err(|error| Failure::volume("load", &error))?;
        Ok((cpu_ns(ClockId::ProcessCPUTime) - begin) / data.len() as f64)
    }

    /// What compression left of the chunks that are in the pool once.
    fn compressed_share(&self) -> Result<f64> {
        let status = self.pool.status().map_err(|error| Failure::pool(self.path(), error))?;
        Ok(status.compressed_bytes as f64 / status.unique_bytes.max(1) as f64)
    }

    fn close(self) -> Result<()> {
        let Self { folder, pool, volume } = self;
        drop(volume);
        pool.close().map_err(|error| Failure::pool(folder.path(), error))
    }
}
