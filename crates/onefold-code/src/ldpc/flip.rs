//! Parallel bit flipping on bit-sliced counters.
//! Room: onefold-code.
//! Source: the second algorithm of [gallager-62] in its majority form: flip the bits with the most
//! unsatisfied checks, as long as that is a majority of their checks; with trials where a
//! majority is not all.

use super::code::QcLdpc;
use super::design::Entry;

/// Blocks, syndrome and counters of a run.
#[derive(Debug, Clone)]
pub(crate) struct FlipScratch {
    words: usize,
    blocks: Vec<u64>,
    syndrome: Vec<u64>,
    /// Per block: three bit planes of the number of unsatisfied checks.
    counts: Vec<[u64; 3]>,
}

/// The block `source` rotated left by `shift` bits, word `i` of it.
#[inline]
fn rotated(source: &[u64], shift: usize, i: usize) -> u64 {
    let (w, word, bit) = (source.len(), shift / 64, shift % 64);
    let low = source[(i + w - word % w) % w];
    let high = source[(i + 2 * w - word % w - 1) % w];
    if bit == 0 { low } else { low << bit | high >> (64 - bit) }
}

impl FlipScratch {
    pub(crate) fn new(code: &QcLdpc) -> Self {
        let words = code.shape().circulant / 64;
        let blocks = code.columns().len() * words;
        Self {
            words,
            blocks: vec![0; blocks],
            syndrome: vec![0; code.shape().rows * words],
            counts: vec![[0; 3]; blocks],
        }
    }

    /// Flips until `hard` is a codeword. Where no bit has all its checks unsatisfied, one with a
    /// majority is flipped on trial: another one in each of up to `limit` attempts.
    /// (iterations, found).
    pub(crate) fn run(&mut self, code: &QcLdpc, limit: usize, hard: &mut [u8]) -> (usize, bool) {
        let mut iterations = 0;
        for attempt in 0..limit {
            for (block, bytes) in self.blocks.iter_mut().zip(hard.chunks_exact(8)) {
                *block = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            }
            let mut guess = attempt;
            for _ in 0..limit {
                self.syndromes(code.columns());
                if self.syndrome.iter().all(|&w| w == 0) {
                    for (block, bytes) in self.blocks.iter().zip(hard.chunks_exact_mut(8)) {
                        bytes.copy_from_slice(&block.to_le_bytes());
                    }
                    return (iterations, true);
                }
                iterations += 1;
                match self.flip_most(code, guess) {
                    Step::All => {}
                    Step::One => guess = 0,
                    Step::Nothing => break,
                }
            }
            if guess == attempt && attempt > 0 {
                // There was no such candidate, so there are no further ones either.
                break;
            }
        }
        (iterations, false)
    }

    fn syndromes(&mut self, columns: &[Vec<Entry>]) {
        let w = self.words;
        self.syndrome.fill(0);
        for (block, column) in self.blocks.chunks_exact(w).zip(columns) {
            for e in column {
                let row = &mut self.syndrome[usize::from(e.row) * w..][..w];
                for (i, sum) in row.iter_mut().enumerate() {
                    *sum ^= rotated(block, usize::from(e.shift), i);
                }
            }
        }
    }

    /// Counts unsatisfied checks per bit. Flips all bits that have every check unsatisfied; if
    /// there are none, bit number `guess` of those with the highest count, if that is a majority.
    fn flip_most(&mut self, code: &QcLdpc, guess: usize) -> Step {
        let (w, z) = (self.words, self.words * 64);
        let mut present = 0u32;
        let mut lightest = usize::MAX;
        for (counts, column) in self.counts.chunks_exact_mut(w).zip(code.columns()) {
            lightest = lightest.min(column.len());
            for (i, count) in counts.iter_mut().enumerate() {
                *count = [0; 3];
                for e in column {
                    let row = &self.syndrome[usize::from(e.row) * w..][..w];
                    let mut carry = rotated(row, z - usize::from(e.shift), i);
                    for plane in count.iter_mut() {
                        (*plane, carry) = (*plane ^ carry, *plane & carry);
                    }
                }
                for level in 1..=6u32 {
                    present |= u32::from(at_level(count, level) != 0) << level;
                }
            }
        }
        let most = present.checked_ilog2().unwrap_or(0);
        if (most as usize) < lightest / 2 + 1 {
            return Step::Nothing;
        }
        if most as usize >= lightest {
            for (block, count) in self.blocks.iter_mut().zip(&self.counts) {
                *block ^= at_level(count, most);
            }
            return Step::All;
        }
        let mut left = guess as u32;
        for (block, count) in self.blocks.iter_mut().zip(&self.counts) {
            let mut candidates = at_level(count, most);
            if candidates.count_ones() <= left {
                left -= candidates.count_ones();
                continue;
            }
            for _ in 0..left {
                candidates &= candidates - 1;
            }
            *block ^= 1 << candidates.trailing_zeros();
            return Step::One;
        }
        Step::Nothing
    }
}

/// What a round of flipping did.
enum Step {
    All,
    One,
    Nothing,
}

/// Bits whose count equals `level`.
#[inline]
fn at_level(count: &[u64; 3], level: u32) -> u64 {
    (0..3).fold(u64::MAX, |all, p| all & if level >> p & 1 == 1 { count[p] } else { !count[p] })
}
