//! How a pool stores, and what it may use: options that several commands share.
//! Room: onefold.

use onefold_block::{ByteSize, ChunkSize};
use onefold_content::{Compression, FingerprintKind};
use onefold_pool::{Budgets, PoolSettings, VOLUME_BYTES_MAX_AT_4K};

use crate::failure::{Failure, Result};

/// How a new pool stores. Fixed for its life.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "A new pool")]
pub struct StoreArgs {
    /// Size of the blocks that are stored once: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CHUNK_SIZE", hide_env = true)]
    #[arg(default_value = "4K", allow_negative_numbers = true)]
    pub chunk_size: ChunkSize,
    /// How blocks are told apart: blake3, sha256, sha1 or crc32
    ///
    /// BLAKE3 is keyed per pool and trusted; so is SHA-256. Blocks with equal SHA-1 or CRC32
    /// fingerprints are compared byte by byte before they are shared.
    #[arg(long, value_name = "KIND", env = "ONEFOLD_FINGERPRINT", hide_env = true)]
    #[arg(default_value = "blake3")]
    pub fingerprint: FingerprintKind,
    /// How blocks are compressed: none, lz4, zstd or zstd:LEVEL with a level from -7 to 19
    #[arg(long, value_name = "KIND", env = "ONEFOLD_COMPRESSION", hide_env = true)]
    #[arg(default_value = "lz4")]
    pub compression: Compression,
    /// Size of a container file: a power of two from 256K to 4M
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CONTAINER_SIZE", hide_env = true)]
    #[arg(default_value = "4M", allow_negative_numbers = true, hide_short_help = true)]
    pub container_size: ByteSize,
}

/// Refuse a size that no volume of a pool with such chunks can have.
pub fn check_volume_size(size: ByteSize, chunk_size: ChunkSize) -> Result<()> {
    let chunks_max = VOLUME_BYTES_MAX_AT_4K / ChunkSize::MIN.bytes64();
    let most = chunks_max.saturating_mul(chunk_size.bytes64()).min(i64::MAX as u64);
    if (1..=most).contains(&size.bytes()) {
        return Ok(());
    }
    Err(Failure::nothing_done(format!(
        "{size} cannot be the size of a volume: from 1 byte to {} is possible",
        ByteSize(most)
    )))
}

impl StoreArgs {
    /// The same for the pool, checked.
    pub fn settings(&self) -> Result<PoolSettings> {
        let settings = PoolSettings {
            chunk_size: self.chunk_size,
            fingerprint: self.fingerprint,
            compression: self.compression,
            // What does not fit 32 bits is refused like any other size that is too large.
            container_bytes: u32::try_from(self.container_size.bytes()).unwrap_or(u32::MAX),
        };
        settings.check().map_err(|e| Failure::nothing_done(e.to_string()))?;
        Ok(settings)
    }
}

/// Memory that an open pool may use. It is taken as it is needed.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Memory")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub struct MemoryArgs {
    /// Memory for finding duplicates; past it, the least recently used entries are let go
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_INDEX_MEMORY", hide_env = true)]
    #[arg(default_value = "256M", allow_negative_numbers = true)]
    pub index_memory: ByteSize,
    /// Memory for the maps of volumes
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_MAP_MEMORY", hide_env = true)]
    #[arg(default_value = "128M", allow_negative_numbers = true)]
    pub map_memory: ByteSize,
    /// Memory for decompressed blocks that were read lately
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_CACHE_MEMORY", hide_env = true)]
    #[arg(default_value = "256M", allow_negative_numbers = true)]
    pub cache_memory: ByteSize,
}

/// The memory of this machine, in bytes.
fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).saturating_mul(info.totalram)
}

impl MemoryArgs {
    /// Refuse what a machine with `has` bytes of memory can never give.
    fn must_be_had(&self, has: u64) -> Result<()> {
        let rows = [
            ("--index-memory", self.index_memory),
            ("--map-memory", self.map_memory),
            ("--cache-memory", self.cache_memory),
        ];
        let sum = rows.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(size.bytes()));
        let too_much = match rows.iter().find(|(_, size)| size.bytes() > has) {
            Some((flag, size)) => format!("{flag} {size} is"),
            None if sum > has => {
                let flags = rows.map(|(flag, size)| format!("{flag} {size}"));
                format!("{} are together", flags.join(", "))
            }
            None => return Ok(()),
        };
        let message = format!("{too_much} more than the {} of this machine", ByteSize(has));
        Err(Failure::nothing_done(message).hint("leave some memory to the system as well"))
    }

    /// The same for the pool, checked.
    pub fn budgets(&self) -> Result<Budgets> {
        let budgets = Budgets {
            index_bytes: self.index_memory.bytes(),
            map_bytes: self.map_memory.bytes(),
            cache_bytes: self.cache_memory.bytes(),
        };
        budgets.check().map_err(|e| Failure::nothing_done(e.to_string()))?;
        self.must_be_had(memory_bytes())?;
        Ok(budgets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_machine_does_not_have_is_refused_by_name() {
        let args = |index: u64, map: u64, cache: u64| MemoryArgs {
            index_memory: ByteSize(index << 30),
            map_memory: ByteSize(map << 30),
            cache_memory: ByteSize(cache << 30),
        };
        let refused = |args: MemoryArgs| args.must_be_had(8 << 30).unwrap_err().message;
        assert!(args(4, 2, 2).must_be_had(8 << 30).is_ok());
        assert_eq!(
            refused(args(1, 9, 1)),
            "--map-memory 9 GiB is more than the 8 GiB of this machine"
        );
        assert_eq!(
            refused(args(4, 2, 3)),
            "--index-memory 4 GiB, --map-memory 2 GiB, --cache-memory 3 GiB are together more \
             than the 8 GiB of this machine"
        );
        let most = ByteSize(u64::MAX);
        let all = MemoryArgs { index_memory: most, map_memory: most, cache_memory: most };
        assert!(refused(all).starts_with("--index-memory"));
    }

    #[test]
    fn a_volume_has_a_byte_at_least_and_what_its_chunks_allow_at_most() {
        let chunk = ChunkSize::MIN;
        let check = |bytes| check_volume_size(ByteSize(bytes), chunk);
        assert!(check(1).is_ok() && check(VOLUME_BYTES_MAX_AT_4K).is_ok());
        for bytes in [0, VOLUME_BYTES_MAX_AT_4K + 1] {
            let message = check(bytes).unwrap_err().message;
            let most = ByteSize(VOLUME_BYTES_MAX_AT_4K);
            assert!(message.ends_with(&format!("from 1 byte to {most} is possible")), "{message}");
        }
        let here = crate::commands::heard::Folder::new();
        for line in ["--container-size 1K", "--container-size 5G"] {
            here.refused(&format!("pool create ./p {line}"), 2);
        }
        let little = here.refused("pool create ./p --index-memory 0", 2);
        assert!(!here.path("p").exists(), "{little}");
    }
}
