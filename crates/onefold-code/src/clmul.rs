//! Carry-less multiplication of words, and the two sums of products that encoders are made of.
//! Room: onefold-code.
//! Source: [clmul-14]; products are summed unreduced and reduced once at the end.
//! Invariants: every kernel gives the same words.

use crate::cpu::{Kernel, Level};

/// Carry-less product of two words: (low, high).
#[inline]
pub(crate) fn clmul64(a: u64, b: u64) -> (u64, u64) {
    let mut table = [0u128; 16];
    table[1] = u128::from(a);
    for i in 2..16 {
        table[i] = if i % 2 == 0 { table[i / 2] << 1 } else { table[i - 1] ^ table[1] };
    }
    let mut r = 0u128;
    for shift in (0..64).step_by(4).rev() {
        r = r << 4 ^ table[(b >> shift & 15) as usize];
    }
    (r as u64, (r >> 64) as u64)
}

/// Carry-less product, on the processor's multiplier if `kernel` has one. For set-up work.
pub(crate) fn clmul64_with(kernel: Kernel, a: u64, b: u64) -> (u64, u64) {
    match kernel.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => crate::clmul_x86::clmul64(kernel, a, b),
        _ => clmul64(a, b),
    }
}

/// acc ^= a * b modulo x^z + 1, where all three are z = 64 * len bits.
pub(crate) fn circulant_mul_acc(kernel: Kernel, acc: &mut [u64], a: &[u64], b: &[u64]) {
    let w = acc.len();
    for (i, &x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
        for (j, &y) in b.iter().enumerate() {
            let (lo, hi) = clmul64_with(kernel, x, y);
            acc[(i + j) % w] ^= lo;
            acc[(i + j + 1) % w] ^= hi;
        }
    }
}

/// The inverse modulo x^z + 1 (z a power of two): it exists for odd weight, and then is a^(z-1),
/// because a^z = a(1) = 1.
pub(crate) fn circulant_inverse(kernel: Kernel, a: &[u64]) -> Option<Vec<u64>> {
    let z = a.len() * 64;
    if !z.is_power_of_two() || a.iter().map(|w| w.count_ones()).sum::<u32>() % 2 == 0 {
        return None;
    }
    let mul = |x: &[u64], y: &[u64]| {
        let mut acc = vec![0; a.len()];
        circulant_mul_acc(kernel, &mut acc, x, y);
        acc
    };
    // a^(2^k - 1): square and multiply, log2(z) times.
    let mut power = a.to_vec();
    for _ in 1..z.trailing_zeros() {
        power = mul(&mul(&power, &power), a);
    }
    Some(power)
}

/// Table of [`dense256`]: one dense circulant of 256 bits per data block.
#[derive(Debug, Clone)]
pub(crate) struct Dense256 {
    /// The circulants, 4 words each.
    words: Vec<[u64; 4]>,
    /// The same for 4-lane multipliers: for each block 16 words, lane i of the first 8 holds
    /// (b[-i], b[1-i]) and of the second 8 (b[2-i], b[3-i]), indices modulo 4.
    lanes: Vec<[u64; 16]>,
}

impl Dense256 {
    pub(crate) fn new(words: Vec<[u64; 4]>) -> Self {
        let lanes = words
            .iter()
            .map(|b| {
                core::array::from_fn(|k| {
                    let (half, lane, high) = (k / 8, k % 8 / 2, k % 2);
                    b[(2 * half + high + 4 - lane) % 4]
                })
            })
            .collect();
        Self { words, lanes }
    }
}

/// Sum over the blocks of `data` (32 bytes each) of block times circulant, modulo x^256 + 1.
pub(crate) fn dense256(kernel: Kernel, table: &Dense256, data: &[u8]) -> [u64; 4] {
    debug_assert_eq!(data.len(), table.words.len() * 32);
    match kernel.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => crate::clmul_x86::dense256_pclmul(kernel, &table.words, data),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => crate::clmul_x86::dense256_vpclmul(kernel, &table.lanes, data),
        _ => {
            let mut sum = [0; 4];
            for (block, circulant) in data.chunks_exact(32).zip(&table.words) {
                circulant_mul_acc(kernel, &mut sum, &load4(block), circulant);
            }
            sum
        }
    }
}

/// Four little-endian words.
#[inline]
pub(crate) fn load4(bytes: &[u8]) -> [u64; 4] {
    core::array::from_fn(|i| {
        u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"))
    })
}

/// Table of [`wide_sum`]: for each word of data a polynomial of up to 256 bits, in pairs of data
/// words: words 4 i .. 4 i + 4 of a pair are (first[2 i], second[2 i], first[2 i + 1], ...), so
/// that lane i of a vector holds word i of both.
#[derive(Debug, Clone)]
pub(crate) struct WideTable {
    pairs: Vec<[u64; 8]>,
}

impl WideTable {
    /// One entry per data word, padded to an even number.
    pub(crate) fn new(entries: &[[u64; 4]]) -> Self {
        let pairs = entries
            .chunks(2)
            .map(|pair| {
                let second = pair.get(1).copied().unwrap_or_default();
                core::array::from_fn(|k| if k % 2 == 0 { pair[0][k / 2] } else { second[k / 2] })
            })
            .collect();
        Self { pairs }
    }
}

/// Sum of word times polynomial over the little-endian words of `data`, whose length is a
/// multiple of 16 bytes; 320 bits, unreduced.
pub(crate) fn wide_sum(kernel: Kernel, table: &WideTable, data: &[u8]) -> [u64; 5] {
    debug_assert_eq!(data.len(), table.pairs.len() * 16);
    match kernel.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => crate::clmul_x86::wide_sum_pclmul(kernel, &table.pairs, data),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => crate::clmul_x86::wide_sum_vpclmul(kernel, &table.pairs, data),
        _ => {
            let mut sum = [0u64; 5];
            for (bytes, pair) in data.chunks_exact(8).zip(
                table
                    .pairs
                    .iter()
                    .flat_map(|p| [[p[0], p[2], p[4], p[6]], [p[1], p[3], p[5], p[7]]]),
            ) {
                let word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                for (i, &p) in pair.iter().enumerate() {
                    let (lo, hi) = clmul64(word, p);
                    sum[i] ^= lo;
                    sum[i + 1] ^= hi;
                }
            }
            sum
        }
    }
}

/// Folds four 128-bit lanes, lane r weighing x^(64 r), into 320 bits.
pub(crate) fn lanes_to_words(lanes: [[u64; 2]; 4]) -> [u64; 5] {
    let mut sum = [0; 5];
    for (r, [lo, hi]) in lanes.into_iter().enumerate() {
        sum[r] ^= lo;
        sum[r + 1] ^= hi;
    }
    sum
}

/// y[i] = sum over j of x[j] * matrix[j][i], circulants of 64 bits, modulo x^64 + 1. `matrix` is
/// by input, `rows` words each, `rows` a multiple of 8 (padded with zeros), at most 64.
pub(crate) fn dense64(kernel: Kernel, matrix: &[u64], rows: usize, x: &[u64], y: &mut [u64]) {
    debug_assert!(rows.is_multiple_of(8) && rows <= 64 && matrix.len() == rows * x.len());
    match kernel.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => crate::clmul_x86::dense64_pclmul(kernel, matrix, rows, x, y),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => crate::clmul_x86::dense64_vpclmul(kernel, matrix, rows, x, y),
        _ => {
            y.fill(0);
            for (column, &value) in matrix.chunks_exact(rows).zip(x) {
                for (sum, &c) in y.iter_mut().zip(column) {
                    let (lo, hi) = clmul64(value, c);
                    *sum ^= lo ^ hi;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn slow(a: u64, b: u64) -> u128 {
        (0..64).filter(|i| b >> i & 1 == 1).fold(0, |r, i| r ^ u128::from(a) << i)
    }

    #[test]
    fn products_agree() {
        let mut rng = Rng::new(3);
        for kernel in Kernel::available() {
            for _ in 0..200 {
                let (a, b) = (rng.next_u64(), rng.next_u64() >> rng.below(64));
                let (lo, hi) = clmul64_with(kernel, a, b);
                assert_eq!(u128::from(hi) << 64 | u128::from(lo), slow(a, b));
            }
        }
    }

    #[test]
    fn inverses_of_odd_weight() {
        let mut rng = Rng::new(4);
        for w in [1, 2, 4] {
            let mut a: Vec<u64> = (0..w).map(|_| rng.next_u64()).collect();
            let odd = a.iter().map(|x| x.count_ones()).sum::<u32>() % 2 == 1;
            assert_eq!(circulant_inverse(Kernel::best(), &a).is_some(), odd);
            a[0] ^= u64::from(!odd);
            let inverse = circulant_inverse(Kernel::best(), &a).unwrap();
            let mut one = vec![0; w];
            circulant_mul_acc(Kernel::PORTABLE, &mut one, &a, &inverse);
            assert!(one[0] == 1 && one[1..].iter().all(|&x| x == 0));
        }
    }

    #[test]
    fn sums_agree_on_every_kernel() {
        let mut rng = Rng::new(5);
        for blocks in [1usize, 2, 3, 32] {
            let mut data = vec![0u8; blocks * 32];
            rng.fill(&mut data);
            let circulants: Vec<[u64; 4]> =
                (0..blocks).map(|_| core::array::from_fn(|_| rng.next_u64())).collect();
            let entries: Vec<[u64; 4]> =
                (0..blocks * 4).map(|_| core::array::from_fn(|_| rng.next_u64())).collect();
            let (dense, wide) = (Dense256::new(circulants), WideTable::new(&entries));
            let rows = 8 * blocks.min(8);
            let x: Vec<u64> = (0..blocks).map(|_| rng.next_u64()).collect();
            let matrix: Vec<u64> = (0..rows * blocks).map(|_| rng.next_u64()).collect();
            let run = |kernel| {
                let mut y = vec![0; rows];
                dense64(kernel, &matrix, rows, &x, &mut y);
                (dense256(kernel, &dense, &data), wide_sum(kernel, &wide, &data), y)
            };
            for kernel in Kernel::available() {
                assert_eq!(run(kernel), run(Kernel::PORTABLE), "{kernel}");
            }
        }
    }
}
