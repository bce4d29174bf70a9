//! BLAKE3 of many equal-length blocks at once: the vector lanes run across blocks.
//! Room: onefold-content.   In: blocks of one length.   Out: their BLAKE3 digests.
//! Source: [blake3-20] sec. 2 (chunks, parents, root, keyed mode) and sec. 5.3 (lanes).
//! Invariants: equal to `blake3::hash` or `blake3::keyed_hash` of each block.
//! Cost: a 4 KiB block has only 4 chunks, so hashing it alone leaves 12 of 16 lanes idle, and
//! its 3 parents run one by one; across 16 blocks every level of the tree fills the lanes.
//! The platform layer of the `blake3` crate is hidden from its documentation, hence the exact
//! version in `Cargo.toml`.

use blake3::IncrementCounter;
use blake3::platform::Platform;
use blake3::{CHUNK_LEN, OUT_LEN};

use crate::fingerprint::Fingerprint;

/// Blocks hashed together: the widest vectors have this many 32-bit lanes.
const GROUP: usize = 16;
/// Chunks of the longest block that the lanes take; longer ones fill the lanes by themselves.
const CHUNKS_MAX: usize = 16;
/// A parent node's input: two chaining values.
const PARENT_LEN: usize = 2 * OUT_LEN;

const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// The chaining value that an unkeyed hash starts from: that of SHA-256.
const IV: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

/// BLAKE3 with an optional key, on the vectors of this machine.
#[derive(Clone)]
pub(crate) struct Blake3Lanes {
    key: Option<[u8; 32]>,
    key_words: [u32; 8],
    flags: u8,
    platform: Platform,
}

/// Fewest blocks of `len` bytes that are faster across lanes than one by one: a longer block has
/// more chunks to fill the lanes by itself (measured with 16 lanes).
const fn group_min(len: usize) -> usize {
    match len / CHUNK_LEN {
        0..=1 => 2,
        2..=4 => 4,
        5..=8 => 7,
        _ => 11,
    }
}

/// The chaining values of one level of the tree, of each block of a group in turn.
type Level = [[u8; OUT_LEN]; GROUP * CHUNKS_MAX];

impl Blake3Lanes {
    pub(crate) fn new(key: Option<&[u8; 32]>) -> Self {
        Self::on(Platform::detect(), key)
    }

    fn on(platform: Platform, key: Option<&[u8; 32]>) -> Self {
        let mut key_words = IV;
        if let Some(key) = key {
            for (word, bytes) in key_words.iter_mut().zip(key.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
        let flags = if key.is_some() { KEYED_HASH } else { 0 };
        Self { key: key.copied(), key_words, flags, platform }
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn hash(&self, data: &[u8]) -> [u8; 32] {
        match &self.key {
            None => blake3::hash(data).into(),
            Some(key) => blake3::keyed_hash(key, data).into(),
        }
    }

    /// `out[i]` becomes the fingerprint of `blocks[i]`; all blocks have one length.
    pub(crate) fn hash_equal_lengths(&self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        let len = blocks.first().map_or(0, |block| block.len());
        let whole_chunks = len.is_multiple_of(CHUNK_LEN) && len / CHUNK_LEN <= CHUNKS_MAX;
        for (blocks, out) in blocks.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
            // The last block fills idle lanes: the kernels take 16, 8 or 4 inputs at a time, and
            // the rest one by one.
            let mut lanes = [blocks[blocks.len() - 1]; GROUP];
            lanes[..blocks.len()].copy_from_slice(blocks);
            let lanes = match blocks.len() {
                0..=4 => &lanes[..4],
                5..=8 => &lanes[..8],
                _ => &lanes[..],
            };
            match len {
                _ if blocks.len() < group_min(len) => self.one_by_one(blocks, out),
                512 => self.single_chunks::<512>(lanes, out),
                CHUNK_LEN => self.single_chunks::<CHUNK_LEN>(lanes, out),
                1.. if whole_chunks => self.trees(lanes, len / CHUNK_LEN, out),
                _ => self.one_by_one(blocks, out),
            }
        }
    }

    fn one_by_one(&self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        for (block, out) in blocks.iter().zip(out) {
            *out = Fingerprint::from_bytes(self.hash(block));
        }
    }

    /// Blocks of at most one chunk: the chunk is the root.
    fn single_chunks<const N: usize>(&self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        let mut digests = [[0; OUT_LEN]; GROUP];
        let mut inputs = [&[0; N]; GROUP];
        for (input, block) in inputs.iter_mut().zip(blocks) {
            *input = block.first_chunk().expect("the caller matched on the length");
        }
        self.chunk_values(&inputs[..blocks.len()], 0, ROOT, digests.as_flattened_mut());
        for (out, digest) in out.iter_mut().zip(digests) {
            *out = Fingerprint::from_bytes(digest);
        }
    }

    /// Chunk number `counter` of each block: their chaining values.
    fn chunk_values<const N: usize>(
        &self,
        inputs: &[&[u8; N]],
        counter: u64,
        root: u8,
        out: &mut [u8],
    ) {
        self.platform.hash_many(
            inputs,
            &self.key_words,
            counter,
            IncrementCounter::No,
            self.flags,
            CHUNK_START,
            CHUNK_END | root,
            out,
        );
    }

    /// Blocks of `chunks` whole chunks, two or more: all chunks, then level by level the parents.
    fn trees(&self, blocks: &[&[u8]], chunks: usize, out: &mut [Fingerprint]) {
        // Node-major: node `n` of block `b` is at `n * blocks.len() + b` after the chunks, so
        // that one call per chunk number writes neighbours; parents need pairs side by side.
        let count = blocks.len();
        let mut level: Level = [[0; OUT_LEN]; GROUP * CHUNKS_MAX];
        for chunk in 0..chunks {
            let mut inputs = [&[0; CHUNK_LEN]; GROUP];
            for (input, block) in inputs.iter_mut().zip(blocks) {
                *input = block[chunk * CHUNK_LEN..].first_chunk().expect("a whole chunk");
            }
            let values = &mut level[chunk * count..][..count];
            let (inputs, values) = (&inputs[..count], values.as_flattened_mut());
            self.chunk_values(inputs, chunk as u64, 0, values);
        }
        let mut nodes = chunks;
        while nodes > 1 {
            let root = if nodes == 2 { ROOT } else { 0 };
            for pair in 0..nodes / 2 {
                let mut inputs = [[0; PARENT_LEN]; GROUP];
                for (b, input) in inputs[..count].iter_mut().enumerate() {
                    input[..OUT_LEN].copy_from_slice(&level[2 * pair * count + b]);
                    input[OUT_LEN..].copy_from_slice(&level[(2 * pair + 1) * count + b]);
                }
                let values = level[pair * count..][..count].as_flattened_mut();
                self.parent_values(&inputs.each_ref()[..count], root, values);
            }
            // A node without a partner goes up one level as it is: the tree is left-complete.
            if nodes % 2 == 1 {
                level.copy_within((nodes - 1) * count..nodes * count, nodes / 2 * count);
            }
            nodes = nodes.div_ceil(2);
        }
        for (out, digest) in out.iter_mut().zip(level) {
            *out = Fingerprint::from_bytes(digest);
        }
    }

    /// One parent per block: their chaining values.
    fn parent_values(&self, inputs: &[&[u8; PARENT_LEN]], root: u8, out: &mut [u8]) {
        self.platform.hash_many(
            inputs,
            &self.key_words,
            0,
            IncrementCounter::No,
            self.flags | PARENT | root,
            0,
            0,
            out,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every implementation this machine can run.
    fn platforms() -> Vec<Platform> {
        let mut all = vec![Platform::portable(), Platform::detect()];
        #[cfg(target_arch = "x86_64")]
        all.extend([Platform::sse41(), Platform::avx2()].into_iter().flatten());
        all
    }

    #[test]
    fn equals_the_crate_for_every_tree_shape_batch_size_and_platform() {
        let data: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let key = [7; 32];
        let lens = (0..=66).map(|chunks| chunks * CHUNK_LEN).chain([1, 511, 512, 513, 1023, 1025]);
        for len in lens {
            for count in [1, 2, 4, 7, 8, 11, 16, 17, 43] {
                let blocks: Vec<&[u8]> = (0..count).map(|i| &data[i * 37..][..len]).collect();
                for platform in platforms() {
                    if matches!(platform, Platform::Portable) && len > 9 * CHUNK_LEN {
                        continue;
                    }
                    for key in [None, Some(&key)] {
                        let lanes = Blake3Lanes::on(platform, key);
                        let mut out = vec![Fingerprint::ZERO; count];
                        lanes.hash_equal_lengths(&blocks, &mut out);
                        for (block, out) in blocks.iter().zip(&out) {
                            let expected = match key {
                                None => blake3::hash(block),
                                Some(key) => blake3::keyed_hash(key, block),
                            };
                            assert_eq!(out.as_bytes(), expected.as_bytes(), "{len} x {count}");
                        }
                    }
                }
            }
        }
    }
}
