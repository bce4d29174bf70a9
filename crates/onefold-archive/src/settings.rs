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
    /// Bytes of a container: it ends with the group that brings it nearest to that. It has at most
    /// twice as many, where that group shrinks less than those before it.
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
    /// Smallest and largest size of containers, in bytes.
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
        self.chunker_of(self.sizes())
    }

    /// The same for machine code: for chunks of twice the size, of which none is larger than others
    /// may be.
    pub fn code_chunker(&self) -> Chunker {
        let avg = self.chunk_bytes as usize;
        let sizes = ChunkSizes::new(avg / 2, avg * 2, avg * 8);
        self.chunker_of(sizes.expect("checked settings have such chunks"))
    }

    fn chunker_of(&self, sizes: ChunkSizes) -> Chunker {
        match self.chunking {
            Chunking::Rabin => Chunker::Rabin(Rabin::new(sizes)),
            Chunking::FastCdc => Chunker::FastCdc(FastCdc::new(sizes)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(chunk_bytes: u32, container_bytes: u32) -> ArchiveSettings {
        ArchiveSettings { chunk_bytes, container_bytes, ..ArchiveSettings::default() }
    }

    #[test]
    fn what_can_work_is_taken_up_to_its_limits_and_nothing_beyond() {
        for settings in [
            ArchiveSettings::default(),
            with(1 << 10, 128 << 10),
            with(8 << 10, 128 << 10),
            with(16 << 10, 256 << 10),
            with(1 << 20, 16 << 20),
            ArchiveSettings { compression: Compression::Zstd(-7), ..ArchiveSettings::default() },
            ArchiveSettings { compression: Compression::Zstd(19), ..ArchiveSettings::default() },
        ] {
            assert!(settings.check().is_ok(), "{settings:?}");
        }
        let chunk = "expected a power of two from 1K to 1M";
        for (settings, problem) in [
            (with(512, 1 << 20), format!("chunk size 512: {chunk}")),
            (with(2 << 20, 16 << 20), format!("chunk size 2097152: {chunk}")),
            (with(3000, 1 << 20), format!("chunk size 3000: {chunk}")),
            (with(1024, 131_071), "container size 131071: expected 128K to 16M".to_owned()),
            (with(1024, 16_777_217), "container size 16777217: expected 128K to 16M".to_owned()),
            (
                with(16 << 10, 262_143),
                "container size 262143: chunks of 16384 need at least 262144".to_owned(),
            ),
        ] {
            assert_eq!(settings.check().unwrap_err().to_string(), problem);
        }
        for level in [-8, 20] {
            let settings =
                ArchiveSettings { compression: Compression::Zstd(level), ..<_>::default() };
            let expected = format!("zstd level {level}: expected -7 to 19");
            assert_eq!(settings.check().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn chunks_have_a_quarter_to_eight_times_their_size() {
        let sizes = with(4096, 1 << 20).sizes();
        assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (1024, 4096, 32_768));
        let default = ArchiveSettings::default();
        assert_eq!((default.chunk_bytes, default.container_bytes), (8192, 2_097_152));
        assert_eq!(default.compression, Compression::Zstd(3));
    }

    #[test]
    fn names_of_chunkers_are_read_as_they_are_shown_and_keys_are_not_shown() {
        for chunking in Chunking::ALL {
            assert_eq!(chunking.to_string().parse(), Ok(chunking));
            assert_eq!(format!("{chunking:>9}"), format!("{:>9}", chunking.name()));
        }
        let error = "buzhash".parse::<Chunking>().unwrap_err().to_string();
        assert_eq!(error, "unknown chunker `buzhash`: expected rabin or fastcdc");
        let identity = ArchiveIdentity { uuid: [0x1f; 16], key: [0xe5; 32] };
        assert_eq!(format!("{identity:?}"), format!("ArchiveIdentity({})", "1f".repeat(16)));
    }

    #[test]
    fn machine_code_is_cut_into_chunks_of_twice_the_size_and_none_beyond_the_largest() {
        let data = onefold_block::SplitMix64::new(1).bytes(4 << 20);
        for chunking in [Chunking::FastCdc, Chunking::Rabin] {
            let settings = ArchiveSettings { chunking, ..ArchiveSettings::default() };
            let lens = |mut chunker: Chunker| {
                let mut lens = Vec::new();
                chunker.push(&data, |cut| lens.push(cut.len));
                lens
            };
            let (other, code) = (lens(settings.chunker()), lens(settings.code_chunker()));
            assert!(other.len() * 9 > code.len() * 16, "{} and {}", other.len(), code.len());
            assert!(other.len() * 7 < code.len() * 16, "{} and {}", other.len(), code.len());
            let bounds = settings.sizes();
            assert!(code.iter().all(|len| (2 * bounds.min()..=bounds.max()).contains(len)));
        }
    }
}
