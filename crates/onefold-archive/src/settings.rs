//! How an archive cuts and stores, fixed when it is made.
//! Room: onefold-archive.

use std::fmt;
use std::str::FromStr;

use onefold_content::{ChunkSizes, Chunker, Compression, FastCdc, Rabin};

use crate::error::ArchiveError;

/// Where chunks end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunking {
    /// Rabin fingerprints, as the papers use them: as many duplicates found, at two thirds of
    /// the speed (docs/archive.md).
    Rabin,
    /// The gear hash with normalised sizes.
    #[default]
    FastCdc,
}

impl Chunking {
    /// Both, in the order of their numbers on disk.
    pub const ALL: [Self; 2] = [Self::Rabin, Self::FastCdc];

    /// The name that [`FromStr`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rabin => "rabin",
            Self::FastCdc => "fastcdc",
        }
    }
}

impl fmt::Display for Chunking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no way of cutting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown chunker `{0}`: expected rabin or fastcdc")]
pub struct ParseChunkingError(String);

impl FromStr for Chunking {
    type Err = ParseChunkingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|chunking| chunking.name() == text);
        named.ok_or_else(|| ParseChunkingError(text.to_owned()))
    }
}

/// How an archive stores. Fixed for its life, so that versions share chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Where chunks end.
    pub chunking: Chunking,
    /// The size that the chunker aims at, in bytes: a power of two. The smallest chunk is a
    /// quarter of it, the largest eight times it. Rabin chunks are 1.25 times it on average.
    pub chunk_bytes: u32,
    /// Largest container, in bytes.
    pub container_bytes: u32,
    /// How chunks are compressed.
    pub compression: Compression,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            chunking: Chunking::default(),
            chunk_bytes: 8 << 10,
            container_bytes: 2 << 20,
            compression: Compression::Zstd(Compression::ZSTD_DEFAULT_LEVEL),
        }
    }
}

impl ArchiveSettings {
    /// Smallest and largest aim of the chunker, in bytes.
    pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 20;
    /// Smallest and largest container, in bytes.
    pub const CONTAINER_BYTES: std::ops::RangeInclusive<u32> = 128 << 10..=16 << 20;

    /// Refuse what cannot work, saying what can.
    pub fn check(&self) -> Result<(), ArchiveError> {
        let Self { chunk_bytes, container_bytes, .. } = *self;
        if !chunk_bytes.is_power_of_two() || !Self::CHUNK_BYTES.contains(&chunk_bytes) {
            return Err(ArchiveError::Setting(format!(
                "chunk size {chunk_bytes}: expected a power of two from 1K to 1M"
            )));
        }
        if !Self::CONTAINER_BYTES.contains(&container_bytes) {
            return Err(ArchiveError::Setting(format!(
                "container size {container_bytes}: expected 128K to 16M"
            )));
        }
        if container_bytes < 16 * chunk_bytes {
            return Err(ArchiveError::Setting(format!(
                "container size {container_bytes}: chunks of {chunk_bytes} need at least {}",
                16 * chunk_bytes
            )));
        }
        if let Compression::Zstd(level) = self.compression
            && !Compression::ZSTD_LEVELS.contains(&level)
        {
            return Err(ArchiveError::Setting(format!("zstd level {level}: expected -7 to 19")));
        }
        Ok(())
    }

    /// The bounds of a chunk.
    pub fn sizes(&self) -> ChunkSizes {
        let avg = self.chunk_bytes as usize;
        ChunkSizes::new(avg / 4, avg, avg * 8).expect("checked settings have such chunks")
    }

    /// A chunker at the start of a stream.
    pub fn chunker(&self) -> Chunker {
        match self.chunking {
            Chunking::Rabin => Chunker::Rabin(Rabin::new(self.sizes())),
            Chunking::FastCdc => Chunker::FastCdc(FastCdc::new(self.sizes())),
        }
    }
}

/// What tells an archive from all others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ArchiveIdentity {
    /// A random UUID.
    pub uuid: [u8; 16],
    /// A random key for the fingerprints.
    pub key: [u8; 32],
}

impl fmt::Debug for ArchiveIdentity {
    // By hand, because the key must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchiveIdentity({:032x})", u128::from_be_bytes(self.uuid))
    }
}
