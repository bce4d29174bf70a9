//! A fingerprint, as far as runs hold it, and where its chunk is.
//! Room: onefold-pool.

use onefold_block::ContainerId;
use onefold_content::Fingerprint;

use crate::pba::CHUNKS_PER_CONTAINER_MAX;

const ORDINAL_BITS: u32 = CHUNKS_PER_CONTAINER_MAX.trailing_zeros();
const CONTAINER_BITS: u32 = 31;
const MORE_AT: u32 = ORDINAL_BITS + CONTAINER_BITS;
/// By so many bits the index's hash is rotated to the left, which brings those that mark a hook to
/// the top.
const ROTATED: u32 = 17;
/// Keys of hooks are below this.
pub const HOOKS_END: u64 = 1 << 58;

/// The key of what the index knows by this hash.
pub const fn key_of(hash: u64) -> u64 {
    hash.rotate_left(ROTATED)
}

/// A key and a place. Pairs are in the order of their keys, then of the other bits of their
/// fingerprints, then of their containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// 64 bits of the fingerprint.
    pub key: u64,
    /// 20 more bits of the fingerprint, 31 of the container and 13 of the ordinal.
    pub rest: u64,
}

impl Pair {
    /// Chunk `ordinal` of a container, which has this fingerprint.
    pub fn new(fingerprint: &Fingerprint, id: ContainerId, ordinal: usize) -> Self {
        let bytes = fingerprint.as_bytes();
        let more = u64::from(bytes[8]) | u64::from(bytes[9]) << 8 | u64::from(bytes[10] & 15) << 16;
        Self {
            key: key_of(fingerprint.prefix64()),
            rest: more << MORE_AT | u64::from(id.get()) << ORDINAL_BITS | ordinal as u64,
        }
    }

    /// What the index knows the chunk by.
    pub const fn hash(self) -> u64 {
        self.key.rotate_right(ROTATED)
    }

    /// The container.
    pub const fn container(self) -> ContainerId {
        let mask = (1 << CONTAINER_BITS) - 1;
        ContainerId::new((self.rest >> ORDINAL_BITS & mask) as u32)
    }

    /// The chunk's ordinal in it.
    pub const fn ordinal(self) -> usize {
        (self.rest & ((1 << ORDINAL_BITS) - 1)) as usize
    }

    /// Whether both are of the same fingerprint, as far as these bits tell.
    pub const fn may_equal(self, other: Self) -> bool {
        self.key == other.key && self.rest >> MORE_AT == other.rest >> MORE_AT
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;
    use crate::index::is_hook;
    use crate::pba::CONTAINER_ID_MAX;

    #[test]
    fn every_corner_survives_packing_and_hooks_come_first() {
        let mut random = SplitMix64::new(1);
        let mut hooks = 0;
        for n in 0..10_000 {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            let fingerprint = Fingerprint::from_bytes(bytes);
            let id = ContainerId::new([1, CONTAINER_ID_MAX, 77][n % 3]);
            let ordinal = [0, CHUNKS_PER_CONTAINER_MAX - 1, 5][n / 3 % 3];
            let pair = Pair::new(&fingerprint, id, ordinal);
            assert_eq!((pair.container(), pair.ordinal()), (id, ordinal));
            assert_eq!(pair.hash(), fingerprint.prefix64());
            assert_eq!(pair.key < HOOKS_END, is_hook(pair.hash()));
            hooks += usize::from(pair.key < HOOKS_END);
            let mut other = bytes;
            other[8 + n % 2] ^= 1;
            let other = Pair::new(&Fingerprint::from_bytes(other), id, ordinal);
            assert!(pair.may_equal(pair) && !pair.may_equal(other));
        }
        assert!((120..200).contains(&hooks), "{hooks} hooks of 10,000");
    }
}
