//! Data to measure on: the same bytes on every machine and in every run.
//! Room: onefold-bench.
//! Source: fio's `buffer_compress_percentage=50` and `dedupe_mode=working_set`, which the
//! published figures of other systems were measured with.
//! Invariants: a block's bytes depend on its seed alone; different seeds give different blocks.

use onefold_block::SplitMix64;

/// The unit of deduplication, in bytes.
pub const BLOCK: usize = 4096;
/// Compressible data is made in pieces of this many bytes: half random, half zero.
const PIECE: usize = 512;

/// Fill whole blocks, one for each seed, with data that compresses to about 52 % as LZ4.
pub fn half_compressible(seeds: impl Iterator<Item = u64>, out: &mut [u8]) {
    for (block, seed) in out.chunks_exact_mut(BLOCK).zip(seeds) {
        // A seed's stream must not be its neighbour's shifted by one draw.
        let mut random = SplitMix64::new(seed).split();
        for piece in block.chunks_exact_mut(PIECE) {
            let (noise, rest) = piece.split_at_mut(PIECE / 2);
            random.fill(noise);
            rest.fill(0);
        }
    }
}

/// Unique half-compressible data, `bytes` long, whose seeds start at `first`.
pub fn unique(first: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    half_compressible(first.., &mut data);
    data
}

/// The seeds of an image of `blocks` blocks as fio writes it with `dedupe_percentage=75`,
/// `dedupe_mode=working_set` and `dedupe_working_set_percentage=20`: three of four blocks are
/// drawn from the working set, which is the first fifth of an image's worth of unique blocks;
/// the others are the unique blocks in turn. Duplicates are thousands of blocks apart.
pub fn working_set_seeds(seed: u64, blocks: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(seed);
    let first = random.next_u64();
    let working_set = (blocks / 5).max(1);
    let mut next = 0;
    let mut seed_of = |_| {
        if random.chance(3, 4) {
            first.wrapping_add(random.below(working_set))
        } else {
            next += 1;
            first.wrapping_add(next - 1)
        }
    };
    (0..blocks).map(&mut seed_of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use onefold_content::{Codec, Compression, Compressor};

    use super::*;

    #[test]
    fn blocks_differ_and_compress_as_those_of_fio_do() {
        let data = unique(7, 64 * BLOCK);
        let blocks: HashSet<&[u8]> = data.chunks(BLOCK).collect();
        assert_eq!(blocks.len(), 64);
        let mut compressor = Compressor::new(Compression::Lz4);
        let mut stored = Vec::new();
        for block in data.chunks(BLOCK) {
            stored.clear();
            assert_eq!(compressor.compress_into(block, &mut stored, BLOCK), Codec::Lz4);
            // fio's own: 2,115 bytes.
            assert!((2050..2200).contains(&stored.len()), "{}", stored.len());
        }
        assert_eq!(unique(8, BLOCK), data[BLOCK..2 * BLOCK], "seeds count up");
    }

    #[test]
    fn working_sets_have_the_published_shares_of_unique_blocks() {
        // 65,536 blocks: 16,242 unique; the first half of them dedups 2.65 to 1.
        let seeds = working_set_seeds(1, 65_536);
        let unique = |seeds: &[u64]| seeds.iter().collect::<HashSet<_>>().len() as f64;
        assert!((unique(&seeds) / 16_242.0 - 1.0).abs() < 0.03, "{}", unique(&seeds));
        let half = &seeds[..32_768];
        assert!((32_768.0 / unique(half) / 2.65 - 1.0).abs() < 0.03, "{}", unique(half));
    }
}
