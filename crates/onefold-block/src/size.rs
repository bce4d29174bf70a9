//! Sizes as people write them, and chunk sizes as pools accept them.
//! Room: onefold-block.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A number of bytes, written like `4096`, `64K`, `64KiB`, `1.5G`, `1TiB` (all binary) or `64kB`,
/// `1TB` (decimal, as the SI prefix with a final `B` says).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseSizeError {
    /// Not a number with a known unit.
    #[error(
        "'{0}' is not a size: write a number and a unit, such as 4096, 64K, 1.5G or 1TiB \
         (binary), or 500GB (decimal)"
    )]
    Malformed(String),
    /// More than 64 bits hold, or less than one byte.
    #[error("'{0}' is not a whole number of bytes below 16 EiB")]
    OutOfRange(String),
    /// No chunk size of a pool.
    #[error("chunk size {0} is not supported: accepted are 4K, 8K, 16K, 32K and 64K")]
    Chunk(ByteSize),
}

impl ByteSize {
    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

const BINARY_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for ByteSize {
    /// Exact when the number is a whole multiple of a unit, else three significant digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 0;
        let mut scale = 1u64;
        while unit + 1 < BINARY_UNITS.len() && self.0 / scale >= 1024 {
            scale <<= 10;
            unit += 1;
        }
        let name = BINARY_UNITS[unit];
        let text = if self.0.is_multiple_of(scale) {
            format!("{} {name}", self.0 / scale)
        } else {
            let value = self.0 as f64 / scale as f64;
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            format!("{value:.digits$} {name}")
        };
        f.pad(&text)
    }
}

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let malformed = || ParseSizeError::Malformed(text.to_owned());
        let out_of_range = || ParseSizeError::OutOfRange(text.to_owned());
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let scale = unit_scale(unit.trim()).ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
            return Err(malformed());
        }
        if fraction.contains('.') || fraction.len() > 18 {
            return Err(malformed());
        }
        let whole: u64 = whole.parse().map_err(|_| out_of_range())?;
        let mut total = u128::from(whole) * u128::from(scale);
        if !fraction.is_empty() {
            let digits: u64 = fraction.parse().map_err(|_| malformed())?;
            let denominator = 10u128.pow(fraction.len() as u32);
            let numerator = u128::from(digits) * u128::from(scale);
            if !numerator.is_multiple_of(denominator) && scale == 1 {
                return Err(out_of_range());
            }
            total += numerator / denominator;
        }
        u64::try_from(total).map(ByteSize).map_err(|_| out_of_range())
    }
}

/// Bytes per unit; `None` for an unknown unit. A bare letter and `iB` are binary.
fn unit_scale(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Some(1);
    }
    let mut letters = unit.chars();
    let power = "kmgtpe".find(letters.next()?.to_ascii_lowercase())? as u32 + 1;
    match letters.as_str().to_ascii_lowercase().as_str() {
        "" | "ib" | "i" => Some(1024u64.pow(power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

/// The size of the blocks that a pool deduplicates: a power of two from 4 KiB to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkSize(u32);

impl ChunkSize {
    /// Smallest accepted, in bytes.
    pub const MIN: Self = Self(4096);
    /// Largest accepted, in bytes.
    pub const MAX: Self = Self(65536);

    /// A checked chunk size.
    pub fn new(size: ByteSize) -> Result<Self, ParseSizeError> {
        let bytes = size.bytes();
        let inside = (u64::from(Self::MIN.0)..=u64::from(Self::MAX.0)).contains(&bytes);
        if inside && bytes.is_power_of_two() {
            Ok(Self(bytes as u32))
        } else {
            Err(ParseSizeError::Chunk(size))
        }
    }

    /// In bytes, as a 32-bit number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// In bytes, for lengths in memory.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// In bytes, for device offsets.
    pub const fn bytes64(self) -> u64 {
        self.0 as u64
    }

    /// Base-two logarithm.
    pub const fn shift(self) -> u32 {
        self.0.trailing_zeros()
    }
}

impl Default for ChunkSize {
    fn default() -> Self {
        Self::MIN
    }
}

impl fmt::Display for ChunkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.bytes64()).fmt(f)
    }
}

impl FromStr for ChunkSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        Self::new(text.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 65536),
            ("64k", 65536),
            ("64KiB", 65536),
            ("64kB", 64000),
            ("1.5G", 3 << 29),
            ("1TiB", 1 << 40),
            ("1 TiB", 1 << 40),
            ("1TB", 1_000_000_000_000),
            ("15EiB", 15 << 60),
            ("7b", 7),
            (" 3 MB ", 3_000_000),
            ("2m", 2 << 20),
            ("2GB", 2_000_000_000),
            ("2g", 2 << 30),
            ("2Pi", 2 << 50),
            ("2pb", 2_000_000_000_000_000),
            ("1E", 1 << 60),
            ("1.0", 1),
            ("1.0005K", 1024),
            ("0.5K", 512),
            ("0.000000000000000001E", 1),
            ("18446744073709551615", u64::MAX),
            ("15.999999999999999999EiB", u64::MAX - 1),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "1.",
            ".5G",
            "1..5G",
            "12X",
            "1e9",
            "4 4K",
            "1.5.2G",
            "1i",
            "0.0000000000000000001E",
        ] {
            assert!(
                matches!(text.parse::<ByteSize>(), Err(ParseSizeError::Malformed(_))),
                "{text}"
            );
        }
        for text in ["16EiB", "99999999999999999999", "1.5", "1.5B", "18446744073709551616"] {
            assert!(
                matches!(text.parse::<ByteSize>(), Err(ParseSizeError::OutOfRange(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_print_short_and_exact_ones_exactly() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (1536, "1.50 KiB"),
            (64 << 30, "64 GiB"),
            (1_000_000_000_000, "931 GiB"),
            (1024, "1 KiB"),
            (1025, "1.00 KiB"),
            (10_234, "9.99 KiB"),
            (10_235, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_349, "100 KiB"),
            ((1 << 20) - 1, "1024 KiB"),
            (1 << 60, "1 EiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn chunk_sizes_are_the_powers_of_two_from_4k_to_64k() {
        let accepted: Vec<u64> =
            (0..=131_072).filter(|&b| ChunkSize::new(ByteSize(b)).is_ok()).collect();
        assert_eq!(accepted, [4096, 8192, 16384, 32768, 65536]);
    }
}
