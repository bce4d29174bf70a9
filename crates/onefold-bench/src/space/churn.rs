//! Overwrites of a full volume: what is stored for what is alive, what is moved, what it costs.
//! Room: onefold-bench.
//! In process, one thread, requests of one block: writers do all the work that reclaim needs
//! themselves, as they do when no client is ever idle.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_pool::{Budgets, Pool, SpaceTarget, Volume};
use onefold_sim::{RandomStream, RandomStreams, Ratio, Zipf};

use crate::clock;
use crate::data::{self, BLOCK};
use crate::lab::new_pool;

/// Bytes of a request while the volume is filled.
const FILL_REQUEST: usize = 128 << 10;
/// Blocks whose data is made, and whose writes are timed, together.
const BATCH_BLOCKS: usize = 256;
/// Work in one step of an idle pool, in bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Which blocks are overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any block as likely as any other.
    Uniform,
    /// By Zipf's law with exponent 1.1, the popular blocks anywhere on the volume.
    Zipf,
}

/// Draws blocks.
enum Draw {
    Uniform(SplitMix64),
    Zipf(Zipf, RandomStream, Vec<u32>),
}

impl Draw {
    fn new(pattern: Pattern, blocks: u64) -> Result<Self> {
        let streams = RandomStreams::new(1);
        if pattern == Pattern::Uniform {
            return Ok(Self::Uniform(SplitMix64::new(1)));
        }
        let zipf = Zipf::new(blocks, Ratio::new(11, 10).context("a ratio")?)?;
        let mut by_rank: Vec<u32> = (0..blocks as u32).collect();
        streams.stream("ranks").shuffle(&mut by_rank);
        Ok(Self::Zipf(zipf, streams.stream("blocks"), by_rank))
    }

    fn block(&mut self, blocks: u64) -> u64 {
        match self {
            Self::Uniform(random) => random.below(blocks),
            Self::Zipf(zipf, stream, by_rank) => by_rank[zipf.sample(stream) as usize].into(),
        }
    }
}

/// What is stored at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Times that the volume was overwritten.
    pub overwrites: f64,
    /// Bytes of containers for each that is alive.
    pub stored_over_live: f64,
    /// Bytes of all files of the pool for each that is alive.
    pub files_over_live: f64,
}

/// What some overwrites took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU seconds of the writing thread.
    pub cpu: f64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Bytes that these took as records.
    pub record_bytes: u64,
    /// Bytes of records that were moved.
    pub moved_bytes: u64,
}

impl Cost {
    /// One cost and another.
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            written_bytes: self.written_bytes + other.written_bytes,
            record_bytes: self.record_bytes + other.record_bytes,
            moved_bytes: self.moved_bytes + other.moved_bytes,
        }
    }
}

/// A full volume that is overwritten.
pub struct Churn {
    path: PathBuf,
    pool: Pool,
    volume: Volume,
    blocks: u64,
    draw: Draw,
    next_seed: u64,
    written: u64,
}

impl Churn {
    /// A new pool at `path` with one volume, filled in order; writers keep to the target, if any.
    pub fn new(
        path: &Path,
        budgets: Budgets,
        volume_bytes: u64,
        pattern: Pattern,
        target: Option<SpaceTarget>,
    ) -> Result<Self> {
        let (pool, volume) = new_pool(path, budgets, ByteSize(volume_bytes))?;
        pool.set_space_target(target);
        let blocks = volume_bytes / BLOCK as u64;
        let draw = Draw::new(pattern, blocks)?;
        let path = path.to_owned();
        let mut churn = Self { path, pool, volume, blocks, draw, next_seed: 1, written: 0 };
        let mut data = vec![0; FILL_REQUEST];
        for at in (0..volume_bytes).step_by(FILL_REQUEST) {
            churn.fresh(&mut data);
            churn.volume.write_at(at, &data, false)?;
        }
        churn.volume.flush()?;
        Ok(churn)
    }

    /// New data.
    fn fresh(&mut self, data: &mut [u8]) {
        data::half_compressible(self.next_seed.., data);
        self.next_seed += (data.len() / BLOCK) as u64;
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Overwrite `bytes`, block by block; `see` looks at the pool every `every` bytes.
    pub fn overwrite(
        &mut self,
        bytes: u64,
        every: u64,
        see: &mut dyn FnMut(&Sample),
    ) -> Result<Cost> {
        let before = self.pool.activity();
        let mut cost = Cost::default();
        let mut data = vec![0; BATCH_BLOCKS * BLOCK];
        let mut places = vec![0; BATCH_BLOCKS];
        while cost.written_bytes < bytes {
            self.fresh(&mut data);
            for place in &mut places {
                *place = self.draw.block(self.blocks);
            }
            let start = clock::thread_cpu();
            for (block, data) in places.iter().zip(data.chunks_exact(BLOCK)) {
                self.volume.write_at(block * BLOCK as u64, data, false)?;
            }
            cost.cpu += clock::thread_cpu() - start;
            cost.written_bytes += data.len() as u64;
            self.written += data.len() as u64;
            if cost.written_bytes.is_multiple_of(every) {
                // As a server does every few seconds: what is wholly dead goes.
                let start = clock::thread_cpu();
                self.pool.maintain()?;
                cost.cpu += clock::thread_cpu() - start;
                see(&self.sample()?);
            }
        }
        let start = clock::thread_cpu();
        self.volume.flush()?;
        cost.cpu += clock::thread_cpu() - start;
        let after = self.pool.activity();
        let status = self.pool.status()?;
        let record = status.compressed_bytes as f64 / status.chunks.max(1) as f64;
        cost.record_bytes = ((after.stored - before.stored) as f64 * record) as u64;
        cost.moved_bytes = after.moved_bytes - before.moved_bytes;
        Ok(cost)
    }

    /// Give every second block up.
    pub fn trim_every_second(&self) -> Result<()> {
        for block in (0..self.blocks).step_by(2) {
            self.volume.trim(block * BLOCK as u64, BLOCK as u64, false)?;
        }
        Ok(self.volume.flush()?)
    }

    /// Work as an idle pool does until nothing is left to do. Returns the bytes moved.
    pub fn idle(&self, target: SpaceTarget) -> Result<u64> {
        let mut moved = 0;
        loop {
            let step = self.pool.background(STEP_BYTES, target)?;
            moved += step.moved_bytes;
            if step.done {
                self.pool.checkpoint()?;
                return Ok(moved);
            }
        }
    }

    /// What is stored now.
    pub fn sample(&self) -> Result<Sample> {
        let status = self.pool.status()?;
        ensure!(status.live_bytes > 0, "a full volume has live data");
        Ok(Sample {
            overwrites: self.written as f64 / (self.blocks * BLOCK as u64) as f64,
            stored_over_live: status.stored_over_live(),
            files_over_live: status.stored_bytes as f64 / status.live_bytes as f64,
        })
    }

    /// Stop the pool; returns where it is.
    pub fn close(self) -> Result<PathBuf> {
        drop(self.volume);
        self.pool.close()?;
        Ok(self.path)
    }
}
