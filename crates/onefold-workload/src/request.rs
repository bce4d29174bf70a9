//! One request of a trace or a generator, and the identity of the content it carries.
//! Room: onefold-workload.

use std::fmt;

use onefold_block::SplitMix64;
use onefold_content::Fingerprint;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads `length` bytes.
    Read,
    /// Writes `length` bytes.
    Write,
    /// Declares `length` bytes unused.
    Trim,
    /// Makes earlier writes durable; without address, its offset and length are 0.
    Flush,
    /// The host's hint that it will ask for nothing for a while; without address, like a flush.
    Idle,
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::Idle];

    /// The name in our CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Idle => "idle",
        }
    }

    /// Whether it goes to a range of bytes.
    pub const fn has_range(self) -> bool {
        !matches!(self, Self::Flush | Self::Idle)
    }
}

/// Stands for content: equal content, equal identity. Sources differ in what they put here (a
/// digest of the trace, a number of the generator), so identities of two sources do not compare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity([u8; 16]);

impl Identity {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// Wraps 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The identity of content number `number` of a generator with this seed. Numbers of one
    /// seed never collide: the first half is a bijection of the number.
    pub fn of_number(seed: u64, number: u64) -> Self {
        let mut random = SplitMix64::new(SplitMix64::new(seed).next_u64() ^ number);
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Self(bytes)
    }

    /// The first 16 bytes of a fingerprint.
    pub fn of_fingerprint(fingerprint: &Fingerprint) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&fingerprint.as_bytes()[..16]);
        Self(bytes)
    }

    /// Fills `page` with bytes that are the same for the same identity and length, and random
    /// otherwise: real content for a model that wants bytes.
    pub fn fill(&self, page: &mut [u8]) {
        let half = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(word)
        };
        // Two streams added word by word, so that all 16 bytes count.
        let (mut first, mut second) = (SplitMix64::new(half(0)), SplitMix64::new(!half(8)));
        for piece in page.chunks_mut(8) {
            let word = first.next_u64().wrapping_add(second.next_u64().rotate_left(32));
            piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was issued, in nanoseconds from the start of the trace.
    pub time_ns: u64,
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 for a flush or a hint only.
    pub length: u64,
    /// The content read or written, where it is known.
    pub identity: Option<Identity>,
    /// The device, volume or file that it goes to, where the source tells them apart.
    pub stream: Option<u32>,
    /// The process that issued it, where the source says.
    pub pid: Option<u32>,
    /// Whether what it writes is to be deduplicated or to keep its redundancy, where the host says.
    pub deduplicate: Option<bool>,
}

impl Request {
    /// The byte after the last one.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILLED: [u8; 20] =
        [49, 70, 225, 80, 123, 200, 11, 71, 179, 187, 124, 122, 0, 104, 50, 97, 165, 48, 147, 232];

    #[test]
    fn identities_tell_content_apart_and_print_in_order() {
        let mut bytes = [0; 16];
        bytes[15] = 0xab;
        assert_eq!(Identity::from_bytes(bytes).to_string(), format!("{}ab", "0".repeat(30)));
        let page = |identity: Identity, len| {
            let mut page = vec![0; len];
            identity.fill(&mut page);
            page
        };
        let one = Identity::of_number(1, 1);
        assert_eq!(one, Identity::of_number(1, 1));
        assert_ne!(one, Identity::of_number(1, 2));
        assert_eq!(page(one, 4096), page(one, 4096));
        for at in 0..16 {
            let mut other = *one.as_bytes();
            other[at] ^= 1;
            assert_ne!(page(one, 4096), page(Identity::from_bytes(other), 4096), "byte {at}");
        }
        assert_eq!(page(one, 13), page(one, 4096)[..13]);
        // These bytes are in volumes that were made of traces.
        assert_eq!(page(Identity::from_bytes([7; 16]), 20), FILLED);
    }
}
