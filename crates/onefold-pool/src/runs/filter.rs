//! What keys a part of a run has, in a byte or in half a byte for each.
//! Room: onefold-pool.
//! Source: [binary-fuse-22]. Each bit of its fingerprints is a filter by itself: with four of the
//! eight, one key in 16 that is not there seems to be, instead of one in 256. So there is half a
//! byte for twice as many keys where memory is short, and what is there can be halved at any time
//! without the keys.

use xorf::{BinaryFuse8, Filter as _};

/// Bits of half a filter for each key.
const HALF_BITS: u32 = 4;

/// A filter.
pub enum Filter {
    /// All eight bits.
    Whole(BinaryFuse8),
    /// Four of them.
    Half(Half),
}

/// The low four bits of all fingerprints of another filter, two in a byte.
pub struct Half {
    seed: u64,
    segment_length: u32,
    segment_length_mask: u32,
    segment_count_length: u32,
    nibbles: Box<[u8]>,
}

impl Filter {
    /// Of these keys, each there once; none by bad luck once in many billions.
    pub fn of(keys: &[u64]) -> Option<Self> {
        BinaryFuse8::try_from(keys).ok().map(Self::Whole)
    }

    /// Whether a key may be there.
    pub fn contains(&self, key: u64) -> bool {
        match self {
            Self::Whole(filter) => filter.contains(&key),
            Self::Half(half) => half.contains(key),
        }
    }

    /// Whether it has all eight bits.
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    /// Memory in use, in bytes.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Whole(filter) => filter.fingerprints.len() as u64,
            Self::Half(half) => half.nibbles.len() as u64,
        }
    }

    /// The same in half the memory, or as it is if it is that already.
    pub fn half(self) -> Self {
        self.halved().unwrap_or(self)
    }

    /// The same in half the memory; none if it is that already.
    pub fn halved(&self) -> Option<Self> {
        let Self::Whole(filter) = self else { return None };
        let pack = |two: &[u8]| two[0] & 15 | two.get(1).map_or(0, |high| high << 4);
        let of = &filter.descriptor;
        Some(Self::Half(Half {
            seed: of.seed,
            segment_length: of.segment_length,
            segment_length_mask: of.segment_length_mask,
            segment_count_length: of.segment_count_length,
            nibbles: filter.fingerprints.chunks(2).map(pack).collect(),
        }))
    }
}

impl Half {
    /// The hashes are those of `xorf`, whose filter it was.
    fn contains(&self, key: u64) -> bool {
        let hash = mix(key.wrapping_add(self.seed));
        let first = ((u128::from(hash) * u128::from(self.segment_count_length)) >> 64) as u32;
        let (second, third) = (first + self.segment_length, first + 2 * self.segment_length);
        let second = second ^ ((hash >> 18) as u32 & self.segment_length_mask);
        let third = third ^ (hash as u32 & self.segment_length_mask);
        let wanted = (hash ^ (hash >> 32)) as u8;
        let found = self.nibble(first) ^ self.nibble(second) ^ self.nibble(third);
        (wanted ^ found).trailing_zeros() >= HALF_BITS
    }

    fn nibble(&self, at: u32) -> u8 {
        self.nibbles[at as usize / 2] >> (at % 2 * 4)
    }
}

/// Finalizer of Murmur 3.
const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    #[test]
    fn half_a_filter_knows_every_key_and_one_in_sixteen_strangers() {
        for count in [1, 2, 3, 100, 65_280] {
            let mut random = SplitMix64::new(count);
            let keys: Vec<u64> = (0..count).map(|_| random.next_u64()).collect();
            let whole = Filter::of(&keys).unwrap();
            let half = whole.halved().unwrap();
            assert!(half.halved().is_none());
            assert_eq!(half.bytes(), whole.bytes().div_ceil(2));
            assert!(keys.iter().all(|&key| whole.contains(key) && half.contains(key)), "{count}");
            let strangers: Vec<u64> = (0..20_000).map(|_| random.next_u64()).collect();
            let of_whole = strangers.iter().filter(|&&key| whole.contains(key)).count();
            let of_half = strangers.iter().filter(|&&key| half.contains(key)).count();
            assert!(strangers.iter().all(|&key| !whole.contains(key) || half.contains(key)));
            assert!(of_whole < 200 && of_half < 2000, "{of_whole} and {of_half} of 20,000");
        }
        assert!(Filter::of(&[]).is_none_or(|none| none.bytes() < 100));
    }
}
