//! One strong hash per finest chunk; every larger chunk's name is a weighted sum of its halves'.
//! Room: onefold-estimate.   In: blocks of up to 128 KiB.   Out: a [`Level`] per chunk size.
//! Invariants: at each size, two chunks have equal names if and only if they have equal bytes and
//! equal length, but for chance: unrolled, a name is a polynomial in `LEFT` modulo 2^128 whose
//! coefficients are 128 bits of BLAKE3 of the chunk's leaves. Two different chunks differ in a
//! leaf, whose digest is as good as random; it is multiplied by sums of powers of an odd number,
//! which may clear some low bits, so that tables keep the upper 64 bits, equal by chance once in
//! 2^64. (Somebody who wants collisions can make some: this serves counting, and no data is ever
//! shared because of it.)
//! Cost: the data is hashed once; all larger sizes together cost a multiplication per leaf.

use onefold_content::{Fingerprint, Fingerprinter, is_zero};

use crate::options::CHUNK_MIN_BYTES;

/// The name of a chunk of full length that is all zero, at every size.
pub(crate) const ZERO: u128 = 0;
/// Stands, times an odd number for its size, for the half of a chunk that the file is too short
/// for: digits of pi. Without the number, a missing half would look the same as a zero quarter
/// and a missing one.
const ABSENT: u128 = 0x243F_6A88_85A3_08D3_1319_8A2E_0370_7344;
/// The weight of a leaf is a power of this: digits of e, odd.
const LEFT: u128 = 0xB7E1_5162_8AED_2A6A_BF71_5880_9CF4_F3C7;

/// The 64 bits of a name that tables keep.
pub(crate) const fn key(name: u128) -> u64 {
    (name >> 64) as u64
}

/// 128 bits of a digest.
fn name_of(digest: &Fingerprint) -> u128 {
    u128::from_le_bytes(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
}

/// A run of bytes in a batch that is cut into chunks from its start; at most 128 KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// First byte in the batch's buffer.
    pub start: usize,
    /// Length in bytes, at least 1.
    pub len: usize,
    /// Which piece of the unit it belongs to.
    pub piece: u32,
    /// Its number in its file, counting blocks of 128 KiB.
    pub index: u64,
    /// Content-defined chunking starts afresh after it.
    pub ends_stream: bool,
}

/// The chunks of one size of all blocks of a batch, in order.
#[derive(Default)]
pub(crate) struct Level {
    /// Names; [`ZERO`] for a chunk of full length that is all zero.
    pub names: Vec<u128>,
    /// Whether all bytes present are zero.
    pub zero: Vec<bool>,
}

impl Level {
    fn reset(&mut self, len: usize) {
        self.names.clear();
        self.names.resize(len, ZERO);
        self.zero.clear();
        self.zero.resize(len, true);
    }
}

/// Chunks of `size` bytes in a block.
pub(crate) fn chunks_of(block: &Block, size: usize) -> usize {
    block.len.div_ceil(size)
}

/// Hash the finest chunks of all blocks.
pub(crate) fn hash_leaves(
    hasher: &Fingerprinter,
    buffer: &[u8],
    blocks: &[Block],
    size: usize,
    out: &mut Level,
) {
    let total = blocks.iter().map(|block| chunks_of(block, size)).sum();
    out.reset(total);
    let leaves = blocks.iter().flat_map(|block| buffer[block.start..][..block.len].chunks(size));
    let mut places = Vec::with_capacity(total);
    let mut messages = Vec::with_capacity(total);
    for (place, leaf) in leaves.enumerate() {
        let zero = is_zero(leaf);
        out.zero[place] = zero;
        if !zero || leaf.len() < size {
            places.push(place);
            messages.push(leaf);
        }
    }
    let mut digests = vec![Fingerprint::ZERO; messages.len()];
    hasher.hash_many(&messages, &mut digests);
    for (place, digest) in places.into_iter().zip(&digests) {
        out.names[place] = name_of(digest);
    }
}

/// From the chunks of `size / 2` bytes to those of `size`.
pub(crate) fn join_halves(below: &Level, blocks: &[Block], size: usize, out: &mut Level) {
    out.reset(blocks.iter().map(|block| chunks_of(block, size)).sum());
    // With this exponent, every leaf of a chunk has a power of its own: its distance from the
    // chunk's end.
    let weight = LEFT.wrapping_pow((size / (2 * CHUNK_MIN_BYTES as usize)) as u32);
    let absent = ABSENT.wrapping_mul(2 * size as u128 + 1);
    let (mut place, mut child) = (0, 0);
    for block in blocks {
        let end = child + chunks_of(block, size / 2);
        while child < end {
            let left = below.names[child].wrapping_mul(weight);
            let is_pair = child + 1 < end;
            let right = if is_pair { below.names[child + 1] } else { absent };
            out.names[place] = left.wrapping_add(right);
            out.zero[place] = below.zero[child] && (!is_pair || below.zero[child + 1]);
            place += 1;
            child = (child + 2).min(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_content::FingerprintKind;
    use proptest::prelude::*;

    use super::*;

    /// All levels from 512 bytes to 4 KiB of some files, a block each.
    fn levels(files: &[Vec<u8>]) -> Vec<Level> {
        let hasher = Fingerprinter::new(FingerprintKind::Blake3);
        let (mut buffer, mut blocks) = (Vec::new(), Vec::new());
        for file in files {
            let (start, len) = (buffer.len(), file.len());
            blocks.push(Block { start, len, piece: 0, index: 0, ends_stream: true });
            buffer.extend_from_slice(file);
        }
        let mut levels = vec![Level::default()];
        hash_leaves(&hasher, &buffer, &blocks, 512, &mut levels[0]);
        for size in [1024, 2048, 4096] {
            let mut next = Level::default();
            join_halves(levels.last().unwrap(), &blocks, size, &mut next);
            levels.push(next);
        }
        levels
    }

    /// Files of few distinct 256-byte pieces, among them zeroes: many equal chunks.
    fn file() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![Just(0u8), Just(0), 0u8..3];
        (prop::collection::vec(piece, 1..40), 0usize..256).prop_map(|(pieces, cut)| {
            let mut bytes: Vec<u8> = pieces.iter().flat_map(|&byte| [byte; 256]).collect();
            bytes.truncate(bytes.len() - cut);
            bytes
        })
    }

    /// The name of a chunk as the head of this file says it, half by half.
    fn name(hasher: &Fingerprinter, bytes: &[u8], size: u32) -> u128 {
        if size == 512 {
            let is_zero = bytes.len() == 512 && bytes.iter().all(|&byte| byte == 0);
            let digest = hasher.hash(bytes);
            let low = u128::from_le_bytes(digest.as_bytes()[..16].try_into().unwrap());
            return if is_zero { 0 } else { low };
        }
        let half = size as usize / 2;
        let left = name(hasher, &bytes[..bytes.len().min(half)], size / 2);
        let right = match bytes.get(half..) {
            Some(rest) if !rest.is_empty() => name(hasher, rest, size / 2),
            _ => {
                0x243F_6A88_85A3_08D3_1319_8A2E_0370_7344u128.wrapping_mul(2 * u128::from(size) + 1)
            }
        };
        let e: u128 = 0xB7E1_5162_8AED_2A6A_BF71_5880_9CF4_F3C7;
        left.wrapping_mul(e.wrapping_pow(size / 1024)).wrapping_add(right)
    }

    #[test]
    fn names_are_the_polynomials_of_their_leaves() {
        let hasher = Fingerprinter::new(FingerprintKind::Blake3);
        let bytes: Vec<u8> = (0..9000u32).map(|i| ((i * i) >> 7) as u8).collect();
        let zeroes = [vec![0; 1536], vec![5; 100], vec![0; 6000]].concat();
        let files =
            [bytes[..8192].to_vec(), bytes[7..8000].to_vec(), zeroes, vec![0; 700], vec![9]];
        for (level, size) in levels(&files).iter().zip([512, 1024, 2048, 4096]) {
            let wanted: Vec<u128> = files
                .iter()
                .flat_map(|file| file.chunks(size as usize))
                .map(|chunk| name(&hasher, chunk, size))
                .collect();
            assert_eq!(level.names, wanted, "{size}");
        }
        assert_eq!(key(7 << 64 | 5), 7);
    }

    #[test]
    fn nothing_is_left_of_the_batch_before() {
        let hasher = Fingerprinter::new(FingerprintKind::Blake3);
        let block = |len| [Block { start: 0, len, piece: 0, index: 0, ends_stream: true }];
        let (mut level, mut above) = (Level::default(), Level::default());
        let batches = [(vec![1; 3000], 6), (vec![0; 2048], 4)];
        for (bytes, leaves) in batches {
            let blocks = block(bytes.len());
            hash_leaves(&hasher, &bytes, &blocks, 512, &mut level);
            join_halves(&level, &blocks, 1024, &mut above);
            assert_eq!((level.names.len(), above.names.len()), (leaves, leaves / 2));
        }
        assert!(level.names.iter().chain(&above.names).all(|&name| name == ZERO));
        assert!(level.zero.iter().chain(&above.zero).all(|&zero| zero));
    }

    proptest! {
        #[test]
        fn equal_fingerprints_mean_equal_chunks_and_back(
            files in prop::collection::vec(file(), 1..6)
        ) {
            for (level, size) in levels(&files).iter().zip([512, 1024, 2048, 4096]) {
                let chunks: Vec<&[u8]> = files.iter().flat_map(|file| file.chunks(size)).collect();
                prop_assert_eq!(chunks.len(), level.names.len());
                for (i, chunk) in chunks.iter().enumerate() {
                    let zero = chunk.iter().all(|&b| b == 0);
                    prop_assert_eq!(level.zero[i], zero);
                    prop_assert_eq!(
                        level.names[i] == ZERO,
                        zero && chunk.len() == size
                    );
                    for (j, other) in chunks.iter().enumerate() {
                        prop_assert_eq!(level.names[i] == level.names[j], chunk == other);
                    }
                }
            }
        }
    }
}
