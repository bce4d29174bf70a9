//! Rabin: content-defined chunking by a polynomial fingerprint of a sliding window.
//! Room: onefold-content.   In: a byte stream.   Out: cut points that move with the content.
//! Source: [rabin-81]; window and cut rule as in LBFS ([lbfs-01] sec. 3.1), window 64 bytes rather
//! than 48.
//! Invariants: a cut depends on the 64 bytes before it and its distance from the last cut only.
//! Cost: two table look-ups per byte from `min - 64` on.

use super::{ChunkSizes, Cut, Progress};

/// Bytes under the window.
const WINDOW: usize = 64;
/// Degree of the modulus.
const DEGREE: u32 = 53;
/// The modulus: an irreducible polynomial over GF(2) of degree 53, bit i the coefficient of x^i.
const MODULUS: u64 = 0x3D_A335_8B4D_C173;

/// What the byte shifted out at the top contributes, and clears: `b * x^DEGREE mod MODULUS`
/// together with `b * x^DEGREE` itself.
static REDUCE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let high = (byte as u64) << DEGREE;
        table[byte] = high ^ reduce(high);
        byte += 1;
    }
    table
};

/// What the oldest byte of the window contributes: `b * x^(8 * (WINDOW - 1)) mod MODULUS`.
static LEAVE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut i = 0;
        while i < WINDOW - 1 {
            value = reduce(value << 8);
            i += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// `value mod MODULUS`, bit by bit.
const fn reduce(mut value: u64) -> u64 {
    let mut bit = 63;
    while bit >= DEGREE {
        if value >> bit & 1 == 1 {
            value ^= MODULUS << (bit - DEGREE);
        }
        bit -= 1;
    }
    value
}

/// Appends one byte at the young end.
#[inline]
fn append(hash: u64, byte: u8) -> u64 {
    let shifted = hash << 8 | u64::from(byte);
    shifted ^ REDUCE[(shifted >> DEGREE) as usize & 0xFF]
}

/// The Rabin chunker.
#[derive(Clone, Debug)]
pub struct Rabin {
    sizes: ChunkSizes,
    /// The low bits that must all be set at a cut.
    mask: u64,
    progress: Progress,
    hash: u64,
    /// The last bytes of the open chunk before the current piece, newest at the end.
    recent: [u8; WINDOW],
}

impl Rabin {
    /// A chunker with these bounds. A chunk grows past its minimum by `avg - min` bytes on
    /// average, to the nearest power of two, unless the maximum cuts it.
    pub const fn new(sizes: ChunkSizes) -> Self {
        // Nearest power of two: round up from 1.5 times the lower one.
        let beyond = sizes.avg - sizes.min;
        let low = 1_u64 << beyond.ilog2();
        let expected = if (beyond as u64) * 2 >= low * 3 { low * 2 } else { low };
        Self {
            sizes,
            mask: expected - 1,
            progress: Progress { offset: 0, len: 0 },
            hash: 0,
            recent: [0; WINDOW],
        }
    }

    /// The bounds it was made with.
    pub const fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    /// The chunks of `data`, as `(offset, len)`.
    pub fn cuts<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let mut chunker = Self::new(self.sizes);
        let mut offset = 0;
        std::iter::from_fn(move || {
            let cut = match chunker.scan(&data[offset..]) {
                Some(_) => chunker.progress.cut(),
                None => chunker.progress.finish()?,
            };
            let start = offset;
            offset += cut.len;
            Some((start, cut.len))
        })
    }

    /// Feeds the next piece of the stream and reports each chunk that ends inside it.
    pub fn push(&mut self, mut piece: &[u8], mut found: impl FnMut(Cut)) {
        while let Some(used) = self.scan(piece) {
            piece = &piece[used..];
            found(self.progress.cut());
        }
    }

    /// Ends the stream: the last chunk, if any bytes are left. The chunker is then as new.
    pub fn finish(&mut self) -> Option<Cut> {
        self.hash = 0;
        self.recent = [0; WINDOW];
        self.progress.finish()
    }

    /// Adds `data` to the open chunk up to the next cut: how many bytes that took, or `None` if
    /// the chunk is still open after all of them.
    fn scan(&mut self, data: &[u8]) -> Option<usize> {
        let ChunkSizes { min, max, .. } = self.sizes;
        let before = self.progress.len;
        let at = |size: usize| size.saturating_sub(before).min(data.len());
        let (fill, first, end) = (at(min - WINDOW), at(min), at(max));
        let mut hash = self.hash;
        // Fill the window with the last bytes before the first possible cut.
        for &byte in &data[fill..first] {
            hash = append(hash, byte);
        }
        let mut cut = None;
        // A chunk of exactly `min` bytes ends where the window is first full.
        if before < min && before + first == min && hash & self.mask == self.mask {
            cut = Some(first);
        }
        if cut.is_none() {
            cut = self.roll(&data[..end], first, &mut hash);
        }
        let cut = cut.or((before + end == max).then_some(end));
        self.progress.len += cut.unwrap_or(data.len());
        if cut.is_some() {
            self.hash = 0;
            self.recent = [0; WINDOW];
        } else {
            self.hash = hash;
            self.remember(data);
        }
        cut
    }

    /// Rolls a full window over `data[from..]`: the first position after whose byte the hash
    /// shows a cut.
    fn roll(&self, data: &[u8], from: usize, hash: &mut u64) -> Option<usize> {
        let mut rolling = *hash;
        // The bytes that leave lie in earlier pieces first, then in this one.
        let split = data.len().min(WINDOW.max(from));
        for i in from..split {
            let oldest = if i < WINDOW { self.recent[i] } else { data[i - WINDOW] };
            rolling = append(rolling ^ LEAVE[usize::from(oldest)], data[i]);
            if rolling & self.mask == self.mask {
                return Some(i + 1);
            }
        }
        let tail = &data[split..];
        let leaving = if tail.is_empty() { tail } else { &data[split - WINDOW..] };
        for (i, (&byte, &oldest)) in tail.iter().zip(leaving).enumerate() {
            rolling = append(rolling ^ LEAVE[usize::from(oldest)], byte);
            if rolling & self.mask == self.mask {
                return Some(split + i + 1);
            }
        }
        *hash = rolling;
        None
    }

    /// Keeps the last [`WINDOW`] bytes of the open chunk for the next piece.
    fn remember(&mut self, data: &[u8]) {
        if let Some(last) = data.last_chunk() {
            self.recent = *last;
        } else {
            self.recent.copy_within(data.len().., 0);
            self.recent[WINDOW - data.len()..].copy_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a * b mod MODULUS` over GF(2), bit by bit.
    fn multiply(a: u64, b: u64) -> u64 {
        (0..=DEGREE)
            .rev()
            .fold(0, |product, bit| reduce(product << 1) ^ if b >> bit & 1 == 1 { a } else { 0 })
    }

    /// `x^(2^n) mod MODULUS`.
    fn x_to_the_two_to_the(n: u32) -> u64 {
        (0..n).fold(2, |power, _| multiply(power, power))
    }

    #[test]
    fn the_modulus_is_irreducible() {
        // Rabin's test: x^(2^53) = x, and since 53 is prime, gcd(x^2 - x, MODULUS) = 1: neither 0
        // nor 1 is a root.
        assert_eq!(MODULUS.ilog2(), DEGREE);
        assert_eq!(x_to_the_two_to_the(DEGREE), 2);
        assert_eq!(MODULUS & 1, 1, "0 is no root");
        assert_eq!(MODULUS.count_ones() % 2, 1, "1 is no root");
    }

    /// The definition: the polynomial of each window from scratch.
    fn slow_cuts(chunker: &Rabin, data: &[u8]) -> Vec<(usize, usize)> {
        let ChunkSizes { min, max, .. } = chunker.sizes;
        let (mut cuts, mut start) = (Vec::new(), 0);
        while start < data.len() {
            let left = data.len() - start;
            let is_cut = |len: &usize| {
                let window = &data[start + len - WINDOW..start + len];
                let hash = window.iter().fold(0, |h, &b| reduce(h << 8 | u64::from(b)));
                hash & chunker.mask == chunker.mask
            };
            let len = (min..=max.min(left)).find(is_cut).unwrap_or(max.min(left));
            cuts.push((start, len));
            start += len;
        }
        cuts
    }

    #[test]
    fn equals_its_definition() {
        let data: Vec<u8> = (0..60_000_u64)
            .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8)
            .map(|b| b ^ (b >> 3))
            .collect();
        for (min, avg, max) in [(64, 256, 1024), (65, 512, 700), (1000, 2048, 9000)] {
            let chunker = Rabin::new(ChunkSizes::new(min, avg, max).expect("valid"));
            for len in [0, 1, 63, 64, 65, min, max + 1, data.len()] {
                let data = &data[..len];
                let cuts: Vec<_> = chunker.cuts(data).collect();
                assert_eq!(cuts, slow_cuts(&chunker, data), "{min}/{avg}/{max}, {len} bytes");
            }
        }
    }
}
