//! What every group of measurements needs: settings, a scratch folder, pools in it.
//! Room: onefold-bench.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use onefold_block::ByteSize;
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Volume};
use tempfile::TempDir;

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Tiny sizes and one round: shows that everything runs, not how fast.
    pub quick: bool,
    /// Rounds of interleaved measurements; their median counts.
    pub rounds: usize,
    /// Where scratch folders are made.
    pub dir: PathBuf,
    /// Measure only what has this in its name.
    pub only: Option<String>,
    /// Folders whose files are written.
    pub trees: Vec<PathBuf>,
    /// The page of documentation that is written; pictures go beside it.
    pub page: Option<PathBuf>,
}

impl Lab {
    /// One of two sizes.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether a figure is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// A folder that goes away with its handle.
    pub fn scratch(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("onefold-bench-")
            .tempdir_in(&self.dir)
            .with_context(|| format!("cannot make a folder in {}", self.dir.display()))
    }
}

/// A new pool with one volume, `main`.
pub fn new_pool(path: &Path, budgets: Budgets, size: ByteSize) -> Result<(Pool, Volume)> {
    // Fixed, so that every run does the same.
    let identity = PoolIdentity { uuid: [0x0f; 16], key: [0x1d; 32] };
    Pool::create_at(path, &PoolSettings::default(), identity)?;
    let pool = open_pool(path, budgets)?;
    let volume = pool.create_volume("main", size)?;
    Ok((pool, volume))
}

/// Open a pool to read and write.
pub fn open_pool(path: &Path, budgets: Budgets) -> Result<Pool> {
    Ok(Pool::open_at(path, &OpenOptions { read_only: false, budgets })?)
}
