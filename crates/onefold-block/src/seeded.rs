//! A small generator of repeatable random numbers for simulated media, faults and tests.
//! Room: onefold-block.
//! Source: [splitmix-14] (`SplitMix64`, with the constants of its variant 13). Not for secrets.

/// A stream of numbers fixed by its seed: the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of a seed; any seed is as good as another.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.state)
    }

    /// A number below `bound`, which must not be zero. Its bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times out of `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Random bytes.
    pub fn fill(&mut self, buf: &mut [u8]) {
        let (words, rest) = buf.as_chunks_mut::<8>();
        for word in words {
            *word = self.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&self.next_u64().to_le_bytes()[..rest.len()]);
        }
    }

    /// As many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// A stream of its own, so that one more draw here changes nothing there.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

/// The finalizer of [`SplitMix64`]: a bijection after which every bit depends on every bit.
pub const fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first outputs of the reference implementation for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let drawn: [u64; 3] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn bounded_numbers_reach_every_value_and_no_other() {
        let mut random = SplitMix64::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
        assert!((0..100).all(|_| !random.chance(0, 3) && random.chance(3, 3)));
        assert_ne!(random.bytes(13), random.bytes(13));
    }
}
