//! Sparse syndromes: the sum of rotated blocks for every block row.
//! Room: onefold-code.   In: blocks of a word (or four).   Out: one block per block row.
//! Cost: one rotate and one exclusive-or per entry; eight at a time with AVX-512.

use super::design::Entry;
use crate::clmul::load4;
use crate::cpu::{Kernel, Level};

/// Entries arranged for speed.
#[derive(Debug, Clone)]
pub(crate) enum SparsePlan {
    /// Circulants of 64 bits.
    Words(WordPlan),
    /// One row of circulants of 256 bits.
    Quads(QuadPlan),
}

/// Eight blocks at once: rotate each by its shift where the mask says so.
#[derive(Debug, Clone)]
pub(crate) struct WordOp {
    pub(crate) group: u16,
    pub(crate) mask: u8,
    pub(crate) shifts: [u8; 8],
}

#[derive(Debug, Clone)]
pub(crate) struct WordPlan {
    /// Per block row: (block, shift).
    entries: Vec<Vec<(u32, u32)>>,
    /// Per block row: the same in groups of eight blocks.
    pub(crate) ops: Vec<Vec<WordOp>>,
    blocks: usize,
}

/// Rotations of 256 bits by byte-wise unaligned loads from doubled blocks, summed by the
/// remaining 0 to 7 bits, and shifted by those only once.
#[derive(Debug, Clone)]
pub(crate) struct QuadPlan {
    /// Byte offsets into the doubled blocks, by shift modulo 8.
    offsets: [Vec<u16>; 8],
    blocks: usize,
}

/// Most blocks of 256 bits that a plan can hold: the size of the doubled scratch.
const QUAD_BLOCKS: usize = 32;

impl SparsePlan {
    /// A plan for the first `columns.len()` blocks.
    pub(crate) fn new(z: usize, rows: usize, columns: &[Vec<Entry>]) -> Self {
        if z == 256 {
            assert!(rows == 1 && columns.len() <= QUAD_BLOCKS);
            let mut offsets: [Vec<u16>; 8] = Default::default();
            for (block, column) in columns.iter().enumerate() {
                for e in column {
                    let start = block * 64 + 32 - usize::from(e.shift / 8);
                    offsets[usize::from(e.shift % 8)].push(start as u16);
                }
            }
            return Self::Quads(QuadPlan { offsets, blocks: columns.len() });
        }
        let mut entries = vec![Vec::new(); rows];
        let mut ops: Vec<Vec<WordOp>> = vec![Vec::new(); rows];
        for (block, column) in columns.iter().enumerate() {
            for e in column {
                let row = usize::from(e.row);
                entries[row].push((block as u32, u32::from(e.shift)));
                let (group, lane) = ((block / 8) as u16, block % 8);
                let free =
                    ops[row].iter().rposition(|op| op.group == group && op.mask >> lane & 1 == 0);
                let at = free.unwrap_or_else(|| {
                    ops[row].push(WordOp { group, mask: 0, shifts: [0; 8] });
                    ops[row].len() - 1
                });
                ops[row][at].mask |= 1 << lane;
                ops[row][at].shifts[lane] = e.shift as u8;
            }
        }
        Self::Words(WordPlan { entries, ops, blocks: columns.len() })
    }

    /// Sums of rotated blocks: `out` gets the words of every block row. `data` holds the blocks.
    pub(crate) fn run(&self, kernel: Kernel, data: &[u8], out: &mut [u64]) {
        match self {
            Self::Words(plan) => {
                assert_eq!(data.len(), plan.blocks * 8);
                assert_eq!(out.len(), plan.entries.len());
                match kernel.level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 if plan.blocks % 8 == 0 => {
                        super::sparse_x86::words_avx512(kernel, plan, data, out);
                    }
                    _ => words_body(plan, data, out),
                }
            }
            Self::Quads(plan) => {
                assert_eq!(data.len(), plan.blocks * 32);
                let sum = match kernel.level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 | Level::Avx512 => {
                        super::sparse_x86::quads_avx2(kernel, plan, data)
                    }
                    _ => quads_body(plan, data),
                };
                out.copy_from_slice(&sum);
            }
        }
    }
}

fn words_body(plan: &WordPlan, data: &[u8], out: &mut [u64]) {
    for (sum, entries) in out.iter_mut().zip(&plan.entries) {
        *sum = entries.iter().fold(0, |sum, &(block, shift)| {
            let at = block as usize * 8;
            let word = u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"));
            sum ^ word.rotate_left(shift)
        });
    }
}

#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
pub(super) fn quads_body(plan: &QuadPlan, data: &[u8]) -> [u64; 4] {
    let mut doubled = [0u8; QUAD_BLOCKS * 64];
    for (block, twice) in data.chunks_exact(32).zip(doubled.chunks_exact_mut(64)) {
        twice[..32].copy_from_slice(block);
        twice[32..].copy_from_slice(block);
    }
    let mut out = [0u64; 4];
    for (bit, offsets) in plan.offsets.iter().enumerate() {
        let mut sum = [0u64; 4];
        for &offset in offsets {
            let source = load4(&doubled[usize::from(offset)..usize::from(offset) + 32]);
            for (s, x) in sum.iter_mut().zip(source) {
                *s ^= x;
            }
        }
        for i in 0..4 {
            let carry = (sum[(i + 3) % 4] >> 1) >> (63 - bit);
            out[i] ^= sum[i] << bit | carry;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Bit by bit from the definition.
    fn slow(z: usize, rows: usize, columns: &[Vec<Entry>], data: &[u8]) -> Vec<u64> {
        let mut out = vec![0u64; rows * z / 64];
        for (block, column) in columns.iter().enumerate() {
            for bit in 0..z {
                let at = block * z + bit;
                if data[at / 8] >> (at % 8) & 1 == 1 {
                    for e in column {
                        let check = usize::from(e.row) * z + (bit + usize::from(e.shift)) % z;
                        out[check / 64] ^= 1 << (check % 64);
                    }
                }
            }
        }
        out
    }

    #[test]
    fn plans_equal_the_definition() {
        let mut rng = Rng::new(8);
        for (z, rows, blocks) in [(64, 4, 16), (64, 3, 13), (64, 1, 8), (256, 1, 32), (256, 1, 5)] {
            let columns: Vec<Vec<Entry>> = (0..blocks)
                .map(|_| {
                    (0..4)
                        .map(|_| Entry {
                            row: rng.below(rows as u64) as u16,
                            shift: rng.below(z as u64) as u16,
                        })
                        .collect()
                })
                .collect();
            let mut data = vec![0; blocks * z / 8];
            rng.fill(&mut data);
            let plan = SparsePlan::new(z, rows, &columns);
            let mut out = vec![0; rows * z / 64];
            for kernel in Kernel::available() {
                plan.run(kernel, &data, &mut out);
                assert_eq!(out, slow(z, rows, &columns, &data), "{kernel} z {z} rows {rows}");
            }
        }
    }
}
