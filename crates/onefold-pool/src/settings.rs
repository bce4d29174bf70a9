//! What a pool is made with, and what it may use while open.
//! Room: onefold-pool.

use onefold_block::{ByteSize, ChunkSize};
use onefold_content::{Compression, FingerprintKind};

use crate::error::PoolError;
use crate::pba::CONTAINER_BYTES_MAX;

/// How a pool stores: fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Size of the blocks that are deduplicated.
    pub chunk_size: ChunkSize,
    /// How blocks are told apart.
    pub fingerprint: FingerprintKind,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Size at which a container is sealed, in bytes: 256 KiB to 4 MiB.
    pub container_bytes: u32,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            chunk_size: ChunkSize::default(),
            fingerprint: FingerprintKind::default(),
            compression: Compression::default(),
            container_bytes: CONTAINER_BYTES_MAX as u32,
        }
    }
}

impl PoolSettings {
    /// Smallest container, in bytes: three 64 KiB chunks with room to spare.
    pub(crate) const CONTAINER_BYTES_MIN: u32 = 256 << 10;

    /// Refuse what no pool can have.
    pub fn check(&self) -> Result<(), PoolError> {
        let sizes = Self::CONTAINER_BYTES_MIN..=CONTAINER_BYTES_MAX as u32;
        if sizes.contains(&self.container_bytes) && self.container_bytes.is_power_of_two() {
            return Ok(());
        }
        Err(PoolError::Setting(format!(
            "container size {} is not supported: accepted are powers of two from 256K to 4M",
            ByteSize(u64::from(self.container_bytes))
        )))
    }
}

/// What tells a pool from every other. Drawn at random by whoever makes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PoolIdentity {
    /// Marks the containers that belong to the pool.
    pub uuid: [u8; 16],
    /// Keys its BLAKE3 fingerprints, so that nobody without it can make two blocks collide.
    pub key: [u8; 32],
}

impl std::fmt::Debug for PoolIdentity {
    /// The key stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolIdentity").field("uuid", &self.uuid).finish_non_exhaustive()
    }
}

/// Memory that an open pool may use, in bytes. It is taken as it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Fingerprint index and the directories that candidates are verified with.
    pub index_bytes: u64,
    /// Map pages.
    pub map_bytes: u64,
    /// Decompressed chunks.
    pub cache_bytes: u64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { index_bytes: 256 << 20, map_bytes: 128 << 20, cache_bytes: 256 << 20 }
    }
}

impl Budgets {
    /// Least that a pool works with: 1 MiB of index, 1 MiB of map pages, no cache at all.
    pub fn check(&self) -> Result<(), PoolError> {
        for (name, bytes) in [("index", self.index_bytes), ("map", self.map_bytes)] {
            if bytes < 1 << 20 {
                let size = ByteSize(bytes);
                return Err(PoolError::Setting(format!(
                    "{name} memory of {size} is too little: at least 1M is needed"
                )));
            }
        }
        Ok(())
    }
}
