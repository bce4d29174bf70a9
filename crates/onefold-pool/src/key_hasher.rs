//! The hasher of the hot maps, whose keys are numbers that the pool itself gave out.
//! Room: onefold-pool.

use std::hash::Hasher;

/// Keys are well spread by a multiplication; they come from no adversary who could profit from
/// more than slowing down his own lookups.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    /// In how many of 1,024 buckets so many keys are, by the lowest bits.
    fn buckets<K: Hash>(keys: impl Iterator<Item = K>) -> usize {
        let bucket = |key: K| {
            let mut hasher = KeyHasher::default();
            key.hash(&mut hasher);
            hasher.finish() % 1024
        };
        keys.map(bucket).collect::<HashSet<u64>>().len()
    }

    #[test]
    fn keys_of_each_kind_are_spread_over_many_buckets() {
        // By chance it would be 647.
        for spread in [
            buckets(0..1024_u32),
            buckets((0..1024_u64).map(|n| n << 20)),
            buckets((0..1024_u32).map(|n| (n, 7_u8, 3_u64))),
            buckets((0..1024_u64).map(|n| (7_u32, (n % 3) as u8, n))),
        ] {
            assert!(spread > 400, "{spread}");
        }
        // Bytes, one by one: 226 by chance.
        let spread = buckets(0..=u8::MAX);
        assert!(spread > 160, "{spread}");
    }
}
