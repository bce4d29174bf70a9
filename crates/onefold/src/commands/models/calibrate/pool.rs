//! Loads stored in a real pool: ns of CPU time of the whole process for each client byte.
//! Room: onefold.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_block::{BlockDevice, BlockError, ByteSize, SplitMix64};
use onefold_content::{Compression, FingerprintKind};
use onefold_pool::{OpenOptions, Pool, PoolError, PoolSettings};
use rustix::time::ClockId;

use super::kernels::{HALF, THIN, compressible, cpu_ns, noise};
use crate::args::models::ArrayCalibrateArgs;
use crate::failure::{Failure, Result};
use crate::make_pool::random_identity;

/// Bytes of a write, as an import makes them.
const WRITE: usize = 1 << 20;

/// What loads took that the costs are made from: ns a byte.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// New chunks of random bytes, stored as they are.
    pub noise: f64,
    /// The same chunks once more, in another order: all are duplicates.
    pub duplicates: f64,
    /// New chunks of which compression leaves little.
    pub thin: f64,
    /// Share of those that it leaves.
    pub thin_share: f64,
}

/// Stores what the costs are made from, on one thread. Half of the bytes of the first load are
/// duplicates, so that its pool is neither the largest nor the smallest of those that are checked:
/// in a larger one, what a look-up needs is in a processor's caches more rarely.
pub fn calibration(args: ArrayCalibrateArgs, kind: FingerprintKind) -> Result<Calibration> {
    let random = &mut SplitMix64::new(11);
    let mut data = noise(random, size(args) / 2 / args.chunk.bytes() * args.chunk.bytes());
    let pool = Store::new(args, kind, Compression::None, 2 * data.len())?;
    let noise = pool.write(0, &data, 1)?;
    shuffle(random, &mut data, args.chunk.bytes());
    let duplicates = pool.write(data.len(), &data, 1)?;
    pool.close()?;
    let data = compressible(random, size(args), THIN);
    let thin = store(args, kind, &data, 1)?;
    Ok(Calibration { noise, duplicates, thin: thin.ns_per_byte, thin_share: thin.left_share })
}

/// What storing a load took.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// ns a byte.
    pub ns_per_byte: f64,
    /// What compression left of the chunks that are in the pool once.
    pub left_share: f64,
}

/// Stores a load with LZ4.
pub fn store(
    args: ArrayCalibrateArgs,
    kind: FingerprintKind,
    data: &[u8],
    threads: usize,
) -> Result<Stored> {
    let pool = Store::new(args, kind, Compression::Lz4, data.len())?;
    let ns_per_byte = pool.write(0, data, threads)?;
    let left_share = pool.compressed_share()?;
    pool.close()?;
    Ok(Stored { ns_per_byte, left_share })
}

/// Chunks that compress to about half, some of them copies of any earlier one.
pub fn mixed(args: ArrayCalibrateArgs, duplicates: f64) -> Vec<u8> {
    let random = &mut SplitMix64::new(12);
    let chunk = args.chunk.bytes();
    let mut data = compressible(random, size(args), HALF);
    for at in 1..data.len() / chunk {
        if random.below(1 << 20) as f64 >= duplicates * f64::from(1 << 20) {
            continue;
        }
        let from = random.below(at as u64) as usize * chunk;
        data.copy_within(from..from + chunk, at * chunk);
    }
    data
}

/// Puts chunks into another order.
fn shuffle(random: &mut SplitMix64, data: &mut [u8], chunk: usize) {
    for at in (1..data.len() / chunk).rev() {
        let other = random.below(at as u64 + 1) as usize;
        let (before, from) = data.split_at_mut(at * chunk);
        if other < at {
            before[other * chunk..(other + 1) * chunk].swap_with_slice(&mut from[..chunk]);
        }
    }
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
    fn new(
        args: ArrayCalibrateArgs,
        fingerprint: FingerprintKind,
        compression: Compression,
        bytes: usize,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::unusable("make a folder in", &std::env::temp_dir(), error))?;
        let settings = PoolSettings {
            chunk_size: args.chunk,
            fingerprint,
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

    /// Writes from a byte of the volume on, in pieces that threads take in turn, and flushes; ns of
    /// CPU time for each byte.
    fn write(&self, offset: usize, data: &[u8], threads: usize) -> Result<f64> {
        let begin = cpu_ns(ClockId::ProcessCPUTime);
        let next = AtomicUsize::new(0);
        let work = || -> std::result::Result<(), BlockError> {
            loop {
                let from = next.fetch_add(WRITE, Ordering::Relaxed);
                let Some(rest) = data.get(from..).filter(|rest| !rest.is_empty()) else {
                    return Ok(());
                };
                let piece = &rest[..rest.len().min(WRITE)];
                self.volume.write_at((offset + from) as u64, piece, false)?;
            }
        };
        let written = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = others.into_iter().map(|thread| thread.join().expect("it does not panic"));
            joined.fold(own, std::result::Result::and)
        });
        let written = written.and_then(|()| self.volume.flush());
        written.map_err(|error| Failure::volume("load", &error))?;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn another_order_has_the_same_chunks() {
        let data = noise(&mut SplitMix64::new(1), 64 * 512);
        let mut other = data.clone();
        shuffle(&mut SplitMix64::new(2), &mut other, 512);
        assert_ne!(data, other);
        let chunks = |data: &[u8]| data.chunks(512).map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
        assert_eq!(chunks(&data), chunks(&other));
    }

    #[test]
    fn as_many_chunks_of_a_load_are_copies_as_it_says() {
        use crate::args::Command;
        use crate::args::models::{ArrayCommand, ModelCommand};
        use crate::commands::heard;

        let command = heard::parsed("array calibrate --bytes 8M");
        let Command::Model(ModelCommand::Array(ArrayCommand::Calibrate(args))) = command else {
            panic!("another command")
        };
        let chunk = args.chunk.bytes();
        let copies = |share| {
            let data = mixed(args, share);
            assert_eq!(data.len(), 8 << 20);
            let chunks = data.chunks(chunk).collect::<BTreeSet<_>>().len();
            1.0 - chunks as f64 / (data.len() / chunk) as f64
        };
        assert!(copies(0.0) < 1e-9);
        assert!((0.45..0.55).contains(&copies(0.5)), "{}", copies(0.5));
        assert!(copies(1.0) > 0.999);
        let odd = ArrayCalibrateArgs { bytes: ByteSize((8 << 20) + 5), ..args };
        assert_eq!(size(odd), 8 << 20);
    }
}
