//! A pool in memory, for tests.
//! Room: onefold.

use onefold_block::SimFolder;
use onefold_pool::{OpenOptions, Pool, PoolIdentity, PoolSettings};

/// One without volumes.
pub fn pool() -> Pool {
    pool_of(&PoolSettings::default())
}

/// The same with these settings.
pub fn pool_of(settings: &PoolSettings) -> Pool {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(&folder, settings, identity).unwrap();
    Pool::open(&folder, &OpenOptions::default()).unwrap()
}
