//! A small seeded generator for code design, error injection and tests.
//! Room: onefold-code.
//! Source: xoshiro256** [xoshiro-21], seeded by splitmix64 [splitmix-14].
//! Invariants: same seed, same stream, on every machine.

/// Seeded random stream (xoshiro256**). Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A stream that depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Self(core::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number below `bound` (which must be positive); the bias is below 2^-32 for small bounds.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in the half-open interval from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal number (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (core::f64::consts::TAU * v).cos()
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Distance to the next flipped bit of a channel that flips each bit with probability `p`.
    pub fn gap(&mut self, p: f64) -> usize {
        debug_assert!(p > 0.0 && p < 1.0);
        ((1.0 - self.unit()).ln() / (1.0 - p).ln()) as usize
    }

    /// Flips each bit of `bytes` with probability `p`; returns how many were flipped.
    pub fn flip_bits(&mut self, bytes: &mut [u8], p: f64) -> usize {
        let (mut at, mut count) = (0usize, 0);
        if p <= 0.0 {
            return 0;
        }
        loop {
            at += self.gap(p);
            if at >= bytes.len() * 8 {
                return count;
            }
            bytes[at / 8] ^= 1 << (at % 8);
            at += 1;
            count += 1;
        }
    }
}
