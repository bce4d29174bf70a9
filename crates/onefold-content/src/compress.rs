//! Compressors: a chunk's stored form and back.
//! Room: onefold-content.   In: chunks.   Out: their stored bytes and the [`Codec`] used.
//! Invariants: (1) decompressing what was compressed gives the same bytes  (2) the stored form is
//! never longer than the caller allowed  (3) corrupt input gives an error, never a panic.
//! (4) The same bytes give the same stored form, whatever was compressed before.

use std::fmt;
use std::str::FromStr;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::compressibility::looks_incompressible;
use crate::{lz4, lz4_encode};

/// How new chunks are to be compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Chunks are stored as they are.
    None,
    /// LZ4 block format: fast, about 2:1 on mixed files.
    #[default]
    Lz4,
    /// Zstandard at a level from [`Compression::ZSTD_LEVELS`].
    Zstd(i32),
}

impl Compression {
    /// The levels accepted for zstd.
    pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -7..=19;
    /// The level meant by plain `zstd`.
    pub const ZSTD_DEFAULT_LEVEL: i32 = 3;

    /// The two numbers that stand for this on disk: the codec's, and the level or 0.
    pub const fn numbers(self) -> (u8, i32) {
        match self {
            Self::None => (Codec::Raw.id(), 0),
            Self::Lz4 => (Codec::Lz4.id(), 0),
            Self::Zstd(level) => (Codec::Zstd.id(), level),
        }
    }

    /// What two numbers on disk stand for; `None` if nothing. The level of a codec that has none
    /// is not looked at.
    pub fn from_numbers(codec: u8, level: i32) -> Option<Self> {
        match Codec::from_id(codec)? {
            Codec::Raw => Some(Self::None),
            Codec::Lz4 => Some(Self::Lz4),
            Codec::Zstd => Self::ZSTD_LEVELS.contains(&level).then_some(Self::Zstd(level)),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Lz4 => f.pad("lz4"),
            Self::Zstd(level) => f.pad(&format!("zstd:{level}")),
        }
    }
}

/// A text that names no compression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCompressionError {
    /// The name before the colon is unknown.
    #[error("unknown compression `{0}`: expected none, lz4, zstd or zstd:LEVEL")]
    UnknownName(String),
    /// The level is not a number, or outside [`Compression::ZSTD_LEVELS`].
    #[error("bad zstd level `{0}`: expected a whole number from -7 to 19")]
    BadLevel(String),
}

impl FromStr for Compression {
    type Err = ParseCompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd(Self::ZSTD_DEFAULT_LEVEL)),
            _ => {
                let level = text
                    .strip_prefix("zstd:")
                    .ok_or_else(|| ParseCompressionError::UnknownName(text.to_owned()))?;
                level
                    .parse()
                    .ok()
                    .filter(|level| Self::ZSTD_LEVELS.contains(level))
                    .map(Self::Zstd)
                    .ok_or_else(|| ParseCompressionError::BadLevel(level.to_owned()))
            }
        }
    }
}

/// What the stored bytes of one chunk are encoded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The chunk's own bytes.
    Raw = 0,
    /// One LZ4 block, without a frame.
    Lz4 = 1,
    /// One zstd frame.
    Zstd = 2,
}

impl Codec {
    /// The number that stands for this codec on disk.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The codec that a number on disk stands for; `None` if there is none.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::Raw),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

/// Compresses chunks; owns all scratch memory, so each thread needs its own.
pub struct Compressor {
    engine: CompressEngine,
    compression: Compression,
}

enum CompressEngine {
    None,
    Lz4(lz4_encode::Encoder),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor. A zstd level outside [`Compression::ZSTD_LEVELS`] is taken to its nearest end.
    pub fn new(compression: Compression) -> Self {
        let engine = match compression {
            Compression::None => CompressEngine::None,
            Compression::Lz4 => CompressEngine::Lz4(lz4_encode::Encoder::new()),
            Compression::Zstd(level) => {
                let levels = Compression::ZSTD_LEVELS;
                let level = level.clamp(*levels.start(), *levels.end());
                let engine = zstd::bulk::Compressor::new(level)
                    .expect("a level in range is accepted by every zstd version");
                CompressEngine::Zstd(engine)
            }
        };
        Self { engine, compression }
    }

    /// The setting this was made with.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Appends the compressed form of `data` to `out` if it takes at most `max_len` bytes, and
    /// says which codec it is. Otherwise leaves `out` as it was and returns [`Codec::Raw`],
    /// which means: store `data` itself.
    pub fn compress_into(&mut self, data: &[u8], out: &mut Vec<u8>, max_len: usize) -> Codec {
        if max_len == 0 || data.is_empty() {
            return Codec::Raw;
        }
        match &mut self.engine {
            CompressEngine::None => Codec::Raw,
            CompressEngine::Lz4(encoder) => {
                if encoder.compress_into(data, out, max_len) {
                    Codec::Lz4
                } else {
                    Codec::Raw
                }
            }
            // Below level 1 zstd crosses random bytes faster than the test does.
            CompressEngine::Zstd(_)
                if matches!(self.compression, Compression::Zstd(1..))
                    && looks_incompressible(data) =>
            {
                Codec::Raw
            }
            CompressEngine::Zstd(encoder) => {
                let start = out.len();
                let bound = max_len.min(zstd::zstd_safe::compress_bound(data.len()));
                out.resize(start + bound, 0);
                // The only error on this path is a destination that is too small.
                let written = encoder.compress_to_buffer(data, &mut out[start..]).ok();
                out.truncate(start + written.unwrap_or(0));
                if written.is_some() { Codec::Zstd } else { Codec::Raw }
            }
        }
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressor({})", self.compression)
    }
}

/// Bytes of a zstd frame that are looked at first: its header mostly takes as many.
const FRAME_BEGIN_BYTES: usize = 9;

/// Stored bytes that are not the compressed form of a chunk of the expected length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// A raw chunk whose stored and expected lengths differ.
    #[error("raw chunk holds {stored} bytes, expected {expected}")]
    RawLength {
        /// Bytes stored.
        stored: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// The bytes are no valid encoding in this codec.
    #[error("{stored} stored bytes are not valid {codec}")]
    Malformed {
        /// The codec they were said to be encoded with.
        codec: Codec,
        /// Bytes stored.
        stored: usize,
    },
    /// The bytes decode, but to another length.
    #[error("{codec} chunk decodes to {decoded} bytes, expected {expected}")]
    Length {
        /// The codec.
        codec: Codec,
        /// Bytes decoded.
        decoded: usize,
        /// Bytes expected.
        expected: usize,
    },
}

/// Decompresses chunks of any codec; owns its scratch memory, so each thread needs its own.
#[derive(Default)]
pub struct Decompressor {
    /// Made when the first zstd chunk comes: most pools have none.
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// A decompressor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `stored` into `out`, which must have exactly the chunk's length. After an error
    /// the contents of `out` are unspecified.
    pub fn decompress_into(
        &mut self,
        codec: Codec,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecompressError> {
        let expected = out.len();
        let malformed = DecompressError::Malformed { codec, stored: stored.len() };
        let decoded = match codec {
            Codec::Raw => {
                if stored.len() != expected {
                    return Err(DecompressError::RawLength { stored: stored.len(), expected });
                }
                out.copy_from_slice(stored);
                expected
            }
            Codec::Lz4 => lz4::decompress(stored, out).ok_or(malformed)?,
            Codec::Zstd => self.zstd().decompress(out, stored).map_err(|_| malformed)?,
        };
        if decoded == expected {
            Ok(())
        } else {
            Err(DecompressError::Length { codec, decoded, expected })
        }
    }

    /// Decodes at least the first `front` bytes of a chunk into `out`, which must have exactly the
    /// chunk's length; what `out` has behind them is unspecified, and so is all of it after an
    /// error. Of zstd, what comes later is not looked at, and its damage not found.
    ///
    /// # Panics
    ///
    /// When `front` is more than the chunk has.
    pub fn decompress_front(
        &mut self,
        codec: Codec,
        stored: &[u8],
        out: &mut [u8],
        front: usize,
    ) -> Result<(), DecompressError> {
        if codec != Codec::Zstd || front == out.len() {
            return self.decompress_into(codec, stored, out);
        }
        let malformed = |_| DecompressError::Malformed { codec, stored: stored.len() };
        let decoder = self.zstd();
        // The one before may have ended in the middle.
        decoder.reset(ResetDirective::SessionOnly).map_err(malformed)?;
        // All of `out`, so that blocks are decoded where they belong: one that ends where nothing
        // more is wanted would be decoded elsewhere, and each of them copied.
        let mut output = OutBuffer::around(out);
        let (mut at, mut wanted) = (0, FRAME_BEGIN_BYTES);
        loop {
            // No more than the next block, as what is given is decoded.
            let end = stored.len().min(at + wanted);
            let mut input = InBuffer::around(&stored[at..end]);
            wanted = decoder.decompress_stream(&mut output, &mut input).map_err(malformed)?;
            at += input.pos();
            let decoded = output.pos();
            if decoded >= front {
                return Ok(());
            }
            if wanted == 0 || at == stored.len() {
                return Err(DecompressError::Length { codec, decoded, expected: front });
            }
        }
    }

    fn zstd(&mut self) -> &mut DCtx<'static> {
        self.zstd.get_or_insert_with(|| {
            let mut decoder = DCtx::create();
            // Parts of a chunk go to where they belong, and are not copied there.
            let set = decoder.set_parameter(DParameter::StableOutBuffer(true));
            set.expect("every zstd version since 1.4.5 can do so");
            decoder
        })
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decompressor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_of_a_long_chunk_is_decoded_where_it_belongs_and_not_in_memory_of_its_own() {
        let random = onefold_block::SplitMix64::new(4).bytes(2 << 20);
        let data: Vec<u8> = random.iter().map(|byte| byte % 17).collect();
        let mut stored = Vec::new();
        let codec =
            Compressor::new(Compression::Zstd(3)).compress_into(&data, &mut stored, 2 << 20);
        let mut decompressor = Decompressor::new();
        let mut out = vec![0; 2 << 20];
        decompressor.decompress_front(codec, &stored, &mut out, 1 << 20).unwrap();
        assert!(out[..1 << 20] == data[..1 << 20]);
        let memory = decompressor.zstd().sizeof();
        assert!(memory < 1 << 20, "{memory} bytes");
    }
}
