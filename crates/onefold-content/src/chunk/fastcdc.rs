//! `FastCDC`: content-defined chunking with the gear hash and normalised chunk sizes.
//! Room: onefold-content.   In: a byte stream.   Out: cut points that move with the content.
//! Source: [fastcdc-20] sec. 3: minimum-size skip (3.3) and normalised chunking at level 2 (3.4).
//! Differs: the gear table and the masks are generated here, since the paper prints neither in
//! full.
//! Invariants: a cut depends on the 64 bytes before it and its distance from the last cut only.
//! Cost: one table look-up, shift and add per byte after the skipped minimum.

use super::{ChunkSizes, Cut, Progress};

/// Steps by which the masks differ from the average in bits (normalisation level).
const NORMALISATION: u32 = 2;

/// Random-looking words, one per byte value: `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
/// Part of the chunker's definition: other words would cut elsewhere.
const GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut state: u64 = 0x6F6E_6566_6F6C_6421;
    let mut i = 0;
    while i < table.len() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        table[i] = z ^ (z >> 31);
        i += 1;
    }
    table
};

/// [`GEAR`], each word shifted left by one.
static GEAR_SHIFTED: [u64; 256] = {
    let mut table = GEAR;
    let mut i = 0;
    while i < table.len() {
        table[i] <<= 1;
        i += 1;
    }
    table
};

/// `ones` set bits, spread evenly from bit 62 downwards over 48 bits: a byte leaves the hash
/// upwards after 64 steps, so the high bits see the widest window. Bit 63 stays clear so that
/// implementations that test a hash shifted left by one find the same cuts.
const fn spread_mask(ones: u32) -> u64 {
    let mut mask = 0;
    let mut i = 0;
    while i < ones {
        mask |= 1 << (62 - i * 48 / ones);
        i += 1;
    }
    mask
}

/// The `FastCDC` chunker.
#[derive(Clone, Debug)]
pub struct FastCdc {
    sizes: ChunkSizes,
    /// Tested below the average size: `NORMALISATION` bits more than the average asks for.
    mask_small: u64,
    /// Tested from the average size on: `NORMALISATION` bits fewer.
    mask_large: u64,
    progress: Progress,
    hash: u64,
}

impl FastCdc {
    /// A chunker with these bounds.
    pub const fn new(sizes: ChunkSizes) -> Self {
        let bits = sizes.avg.ilog2();
        Self {
            sizes,
            mask_small: spread_mask(bits + NORMALISATION),
            mask_large: spread_mask(bits - NORMALISATION),
            progress: Progress { offset: 0, len: 0 },
            hash: 0,
        }
    }

    /// The bounds it was made with.
    pub const fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    /// The chunks of `data`, as `(offset, len)`.
    pub fn cuts<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let mut chunker = Self { progress: Progress::default(), hash: 0, ..self.clone() };
        let mut offset = 0;
        std::iter::from_fn(move || {
            let rest = &data[offset..];
            let cut = match chunker.scan(rest) {
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
        self.progress.finish()
    }

    /// Adds `data` to the open chunk up to the next cut: how many bytes that took, or `None` if
    /// the chunk is still open after all of them.
    fn scan(&mut self, data: &[u8]) -> Option<usize> {
        let ChunkSizes { min, avg, max } = self.sizes;
        let before = self.progress.len;
        // Positions below are relative to `data`; a bound already passed becomes 0.
        let at = |size: usize| size.saturating_sub(before).min(data.len());
        let (skip, middle, end) = (at(min), at(avg), at(max));
        let mut hash = self.hash;
        let found = gear_scan(&data[..middle], skip, self.mask_small, &mut hash)
            .or_else(|| gear_scan(&data[..end], skip.max(middle), self.mask_large, &mut hash));
        let cut = found.or((before + end == max).then_some(end));
        self.progress.len += cut.unwrap_or(data.len());
        self.hash = if cut.is_some() { 0 } else { hash };
        cut
    }
}

/// Rolls the gear hash over `data[from..]`: the first position whose byte brings all bits of
/// `mask` to zero. That byte starts the next chunk.
///
/// Two bytes per turn (paper sec. 3.7): after the first, the hash is held shifted left by one,
/// which the mask follows, so that the second costs an addition only.
fn gear_scan(data: &[u8], from: usize, mask: u64, hash: &mut u64) -> Option<usize> {
    let mut rolling = *hash;
    let (pairs, last) = data[from.min(data.len())..].as_chunks::<2>();
    for (i, &[first, second]) in pairs.iter().enumerate() {
        rolling = (rolling << 2).wrapping_add(GEAR_SHIFTED[usize::from(first)]);
        if rolling & (mask << 1) == 0 {
            return Some(from + 2 * i);
        }
        rolling = rolling.wrapping_add(GEAR[usize::from(second)]);
        if rolling & mask == 0 {
            return Some(from + 2 * i + 1);
        }
    }
    if let &[byte] = last {
        rolling = (rolling << 1).wrapping_add(GEAR[usize::from(byte)]);
        if rolling & mask == 0 {
            return Some(data.len() - 1);
        }
    }
    *hash = rolling;
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x0123_4567_89AB_CDEF_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// The definition, byte by byte.
    fn slow_cuts(chunker: &FastCdc, data: &[u8]) -> Vec<(usize, usize)> {
        let ChunkSizes { min, avg, max } = chunker.sizes;
        let (mut cuts, mut start) = (Vec::new(), 0);
        while start < data.len() {
            let (mut hash, mut len) = (0_u64, min.min(data.len() - start));
            while start + len < data.len() && len < max {
                hash = (hash << 1).wrapping_add(GEAR[usize::from(data[start + len])]);
                let mask = if len < avg { chunker.mask_small } else { chunker.mask_large };
                if hash & mask == 0 {
                    break;
                }
                len += 1;
            }
            cuts.push((start, len));
            start += len;
        }
        cuts
    }

    #[test]
    fn equals_its_definition_and_the_fastcdc_crate_with_this_table() {
        let data = noise(600_000);
        for (min, avg, max) in [(64, 256, 1024), (2048, 8192, 65536), (1000, 4096, 5000)] {
            let chunker = FastCdc::new(ChunkSizes::new(min, avg, max).expect("valid"));
            for len in [0, 1, min, min + 1, avg + 1, 99_999, data.len()] {
                let data = &data[..len];
                let cuts: Vec<_> = chunker.cuts(data).collect();
                assert_eq!(cuts, slow_cuts(&chunker, data), "{min}/{avg}/{max}, {len} bytes");
                for &(start, len) in &cuts {
                    let (_, oracle) = fastcdc::v2020::cut_gear(
                        &data[start..],
                        min,
                        avg,
                        max,
                        chunker.mask_small,
                        chunker.mask_large,
                        chunker.mask_small << 1,
                        chunker.mask_large << 1,
                        &GEAR,
                        &GEAR_SHIFTED,
                    );
                    // At the end of the data the crate leaves an odd last byte untested.
                    if start + len + 2 < data.len() {
                        assert_eq!(len, oracle, "{min}/{avg}/{max} at {start}");
                    }
                }
            }
        }
    }

    #[test]
    fn masks_have_their_bits_spread_below_the_top() {
        for ones in 4..=26 {
            let mask = spread_mask(ones);
            assert_eq!(mask.count_ones(), ones);
            assert!(mask.leading_zeros() == 1 && mask.trailing_zeros() >= 14, "{mask:x}");
        }
    }

    #[test]
    fn chunks_average_what_was_asked_for() {
        let data = noise(4 << 20);
        let chunker = FastCdc::new(ChunkSizes::new(2048, 8192, 65536).expect("valid"));
        let mean = data.len() / chunker.cuts(&data).count();
        assert!((8192..12_288).contains(&mean), "{mean}");
    }
}
