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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_powers_of_two_from_the_smallest_to_the_largest() {
        for (bytes, fits) in [
            (128 << 10, false),
            ((256 << 10) - 1, false),
            (256 << 10, true),
            ((256 << 10) + 1, false),
            (384 << 10, false),
            (512 << 10, true),
            (4 << 20, true),
            ((4 << 20) + 1, false),
            (8 << 20, false),
        ] {
            let found = PoolSettings { container_bytes: bytes, ..PoolSettings::default() }.check();
            assert_eq!(found.is_ok(), fits, "{bytes}");
        }
        let odd = PoolSettings { container_bytes: 384 << 10, ..PoolSettings::default() }.check();
        let said = "is not supported: accepted are powers of two from 256K to 4M";
        assert!(odd.unwrap_err().to_string().contains(said));
    }

    #[test]
    fn less_memory_than_a_pool_works_with_is_refused_by_name() {
        let least = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
        least.check().unwrap();
        let little = (1 << 20) - 1;
        for (name, budgets) in [
            ("index memory of", Budgets { index_bytes: little, ..least }),
            ("map memory of", Budgets { map_bytes: little, ..least }),
        ] {
            let said = budgets.check().unwrap_err().to_string();
            assert!(said.contains(name) && said.contains("at least 1M is needed"), "{said}");
        }
    }

    #[test]
    fn what_a_pool_takes_that_is_told_nothing() {
        let Budgets { index_bytes, map_bytes, cache_bytes } = Budgets::default();
        let told = [index_bytes, map_bytes, cache_bytes].map(|bytes| ByteSize(bytes).to_string());
        assert_eq!(told, ["256 MiB", "128 MiB", "256 MiB"]);
    }

    #[test]
    fn the_key_of_a_pool_is_in_no_text() {
        let identity = PoolIdentity { uuid: [3; 16], key: [217; 32] };
        let text = format!("{identity:?}");
        assert!(text.contains("[3, 3,") && !text.contains("217"), "{text}");
    }
}
