//! One strong hash per finest chunk; every larger chunk's fingerprint is made of its halves'.
//! Room: onefold-estimate.   In: blocks of up to 128 KiB.   Out: a [`Level`] per chunk size.
//! Invariants: at each size, two chunks have equal fingerprints if and only if they have equal
//! bytes and equal length (up to collisions of the hash): by induction, because a node's message
//! is its two children, a full zero child is [`Fingerprint::ZERO`] and a missing one is `ABSENT`,
//! which no digest is expected to be.
//! Cost: the data is hashed once; all larger sizes together hash one 64-byte message per leaf.

use onefold_content::{Fingerprint, Fingerprinter, is_zero};

/// Stands for the half of a chunk that the file is too short for.
const ABSENT: Fingerprint = Fingerprint::from_bytes([0xFF; 32]);

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
    /// Fingerprints; [`Fingerprint::ZERO`] for a chunk of full length that is all zero.
    pub fps: Vec<Fingerprint>,
    /// Whether all bytes present are zero.
    pub zero: Vec<bool>,
}

impl Level {
    fn reset(&mut self, len: usize) {
        self.fps.clear();
        self.fps.resize(len, Fingerprint::ZERO);
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
    scatter(hasher, &messages, &places, out);
}

fn scatter(hasher: &Fingerprinter, messages: &[&[u8]], places: &[usize], out: &mut Level) {
    let mut digests = vec![Fingerprint::ZERO; messages.len()];
    hasher.hash_many(messages, &mut digests);
    for (&place, digest) in places.iter().zip(digests) {
        out.fps[place] = digest;
    }
}

/// From the chunks of `size / 2` bytes to those of `size`.
pub(crate) fn hash_parents(
    hasher: &Fingerprinter,
    below: &Level,
    blocks: &[Block],
    size: usize,
    out: &mut Level,
) {
    let total = blocks.iter().map(|block| chunks_of(block, size)).sum();
    out.reset(total);
    let mut places = Vec::with_capacity(total);
    let mut pairs: Vec<[u8; 64]> = Vec::with_capacity(total);
    let (mut place, mut child) = (0, 0);
    for block in blocks {
        let end = child + chunks_of(block, size / 2);
        while child < end {
            let left = below.fps[child];
            let right = if child + 1 < end { below.fps[child + 1] } else { ABSENT };
            out.zero[place] = below.zero[child] && (child + 1 == end || below.zero[child + 1]);
            if left != Fingerprint::ZERO || right != Fingerprint::ZERO {
                let mut pair = [0; 64];
                pair[..32].copy_from_slice(left.as_bytes());
                pair[32..].copy_from_slice(right.as_bytes());
                pairs.push(pair);
                places.push(place);
            }
            place += 1;
            child = (child + 2).min(end);
        }
    }
    let messages: Vec<&[u8]> = pairs.iter().map(<[u8; 64]>::as_slice).collect();
    scatter(hasher, &messages, &places, out);
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
            hash_parents(&hasher, levels.last().unwrap(), &blocks, size, &mut next);
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

    proptest! {
        #[test]
        fn equal_fingerprints_mean_equal_chunks_and_back(
            files in prop::collection::vec(file(), 1..6)
        ) {
            for (level, size) in levels(&files).iter().zip([512, 1024, 2048, 4096]) {
                let chunks: Vec<&[u8]> = files.iter().flat_map(|file| file.chunks(size)).collect();
                prop_assert_eq!(chunks.len(), level.fps.len());
                for (i, chunk) in chunks.iter().enumerate() {
                    let zero = chunk.iter().all(|&b| b == 0);
                    prop_assert_eq!(level.zero[i], zero);
                    prop_assert_eq!(
                        level.fps[i] == Fingerprint::ZERO,
                        zero && chunk.len() == size
                    );
                    for (j, other) in chunks.iter().enumerate() {
                        prop_assert_eq!(level.fps[i] == level.fps[j], chunk == other);
                    }
                }
            }
        }
    }
}
