//! An empty pool, for unit tests.
//! Room: onefold-pool.

use onefold_block::Folder;

use crate::{OpenOptions, Pool, PoolIdentity, PoolSettings};

/// A new pool in a folder, always the same one, opened for use.
pub fn new(folder: &dyn Folder, settings: &PoolSettings) -> Pool {
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(folder, settings, identity).unwrap();
    Pool::open(folder, &OpenOptions::default()).unwrap()
}
