//! How large a cache is: bytes, or a share of what the slow store holds.
//! Room: onefold-cache.

use std::fmt;
use std::str::FromStr;

use onefold_block::ByteSize;

/// Containers that fit at least, whatever the share says.
const CONTAINERS_MIN: u64 = 16;

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierSize {
    /// This many bytes.
    Bytes(u64),
    /// This share of the bytes in the slow store, growing with it; at least 16 containers.
    Percent(u32),
}

impl TierSize {
    /// Bytes for a slow store of `slow_bytes` in containers of up to `container_bytes`.
    pub fn bytes(self, slow_bytes: u64, container_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let share = u128::from(slow_bytes) * u128::from(percent) / 100;
                (share as u64).max(CONTAINERS_MIN * container_bytes)
            }
        }
    }
}

impl fmt::Display for TierSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => ByteSize(*bytes).fmt(f),
            Self::Percent(percent) => f.pad(&format!("{percent}%")),
        }
    }
}

/// A text that is no size of a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad cache size `{0}`: expected a size such as 100G, or a share such as 20%")]
pub struct ParseTierSizeError(String);

impl FromStr for TierSize {
    type Err = ParseTierSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseTierSizeError(text.to_owned());
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|p| (1..=100).contains(p));
            return percent.map(Self::Percent).ok_or_else(refused);
        }
        let bytes: ByteSize = text.parse().map_err(|_| refused())?;
        if bytes.bytes() == 0 { Err(refused()) } else { Ok(Self::Bytes(bytes.bytes())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_shares() {
        assert_eq!("20%".parse(), Ok(TierSize::Percent(20)));
        assert_eq!("1.5G".parse(), Ok(TierSize::Bytes(3 << 29)));
        for bad in ["", "%", "0%", "101%", "0", "-1", "many"] {
            assert!(bad.parse::<TierSize>().is_err(), "{bad}");
        }
        assert_eq!(TierSize::Percent(20).bytes(1000 << 20, 1 << 20), 200 << 20);
        assert_eq!(TierSize::Percent(20).bytes(0, 1 << 20), 16 << 20);
        assert_eq!(TierSize::Percent(20).to_string(), "20%");
    }

    #[test]
    fn shares_are_of_a_hundred_and_sizes_are_shown_as_they_are_read() {
        for (text, size) in [("1%", TierSize::Percent(1)), ("100 %", TierSize::Percent(100))] {
            assert_eq!(text.parse(), Ok(size));
        }
        assert_eq!(TierSize::Percent(33).bytes(1_000, 1), 330);
        assert_eq!(TierSize::Percent(33).bytes(10_000, 300), 4_800);
        assert_eq!(TierSize::Bytes(5).bytes(10_000, 300), 5);
        assert_eq!(TierSize::Bytes(3 << 30).to_string().parse(), Ok(TierSize::Bytes(3 << 30)));
        let error = "many".parse::<TierSize>().unwrap_err().to_string();
        let expected = "expected a size such as 100G, or a share such as 20%";
        assert_eq!(error, format!("bad cache size `many`: {expected}"));
    }
}
