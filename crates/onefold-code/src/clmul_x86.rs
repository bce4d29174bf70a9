//! Sums of carry-less products on PCLMULQDQ and VPCLMULQDQ.
//! Room: onefold-code.
//! Invariants: each function is entered only with a `Kernel` of its level, and a `Kernel` exists
//! only where the machine has the instructions.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128,
    _mm_set_epi64x, _mm_set1_epi64x, _mm_setzero_si128, _mm_xor_si128, _mm256_loadu_si256,
    _mm512_broadcast_i32x4, _mm512_castsi256_si512, _mm512_clmulepi64_epi128, _mm512_loadu_si512,
    _mm512_permutexvar_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::clmul::{lanes_to_words, load4};
use crate::cpu::{Kernel, Level};

pub(crate) fn clmul64(kernel: Kernel, a: u64, b: u64) -> (u64, u64) {
    assert!(kernel.level() >= Level::Avx2);
    // SAFETY: kernels of this level exist only where PCLMULQDQ does.
    unsafe { clmul64_inner(a, b) }
}

#[target_feature(enable = "pclmulqdq,sse4.1")]
fn clmul64_inner(a: u64, b: u64) -> (u64, u64) {
    let product =
        _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, a as i64), _mm_set_epi64x(0, b as i64));
    split(product)
}

#[target_feature(enable = "sse4.1")]
fn split(v: __m128i) -> (u64, u64) {
    (_mm_cvtsi128_si64(v) as u64, _mm_extract_epi64::<1>(v) as u64)
}

pub(crate) fn dense256_pclmul(kernel: Kernel, table: &[[u64; 4]], data: &[u8]) -> [u64; 4] {
    assert!(kernel.level() == Level::Avx2 && data.len() == table.len() * 32);
    // SAFETY: kernels of this level exist only where PCLMULQDQ does.
    unsafe { dense256_pclmul_inner(table, data) }
}

#[target_feature(enable = "avx2,pclmulqdq")]
fn dense256_pclmul_inner(table: &[[u64; 4]], data: &[u8]) -> [u64; 4] {
    let mut sum = [_mm_setzero_si128(); 4];
    for (block, b) in data.chunks_exact(32).zip(table) {
        let a = load4(block);
        let b =
            [_mm_set_epi64x(b[1] as i64, b[0] as i64), _mm_set_epi64x(b[3] as i64, b[2] as i64)];
        for (i, word) in a.into_iter().enumerate() {
            let x = _mm_set_epi64x(0, word as i64);
            for (j, y) in b.iter().enumerate() {
                let (r0, r1) = ((i + 2 * j) % 4, (i + 2 * j + 1) % 4);
                sum[r0] = _mm_xor_si128(sum[r0], _mm_clmulepi64_si128::<0x00>(x, *y));
                sum[r1] = _mm_xor_si128(sum[r1], _mm_clmulepi64_si128::<0x10>(x, *y));
            }
        }
    }
    let mut out = [0; 4];
    for (r, lane) in sum.into_iter().enumerate() {
        let (lo, hi) = split(lane);
        out[r] ^= lo;
        out[(r + 1) % 4] ^= hi;
    }
    out
}

pub(crate) fn dense256_vpclmul(kernel: Kernel, table: &[[u64; 16]], data: &[u8]) -> [u64; 4] {
    assert!(kernel.level() == Level::Avx512 && data.len() == table.len() * 32);
    // SAFETY: kernels of this level exist only where VPCLMULQDQ and AVX-512 do.
    unsafe { dense256_vpclmul_inner(table, data) }
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn dense256_vpclmul_inner(table: &[[u64; 16]], data: &[u8]) -> [u64; 4] {
    // Lane i of the first operand holds word i of the block, in both halves.
    let spread = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    let mut sum = [_mm512_setzero_si512(); 4];
    for (block, entry) in data.chunks_exact(32).zip(table) {
        // SAFETY: the block is 32 bytes and the entry 128 bytes long; unaligned loads.
        let (a, b01, b23) = unsafe {
            (
                _mm256_loadu_si256(block.as_ptr().cast()),
                _mm512_loadu_si512(entry.as_ptr().cast()),
                _mm512_loadu_si512(entry.as_ptr().add(8).cast()),
            )
        };
        let a = _mm512_permutexvar_epi64(spread, _mm512_castsi256_si512(a));
        sum[0] = _mm512_xor_si512(sum[0], _mm512_clmulepi64_epi128::<0x00>(a, b01));
        sum[1] = _mm512_xor_si512(sum[1], _mm512_clmulepi64_epi128::<0x10>(a, b01));
        sum[2] = _mm512_xor_si512(sum[2], _mm512_clmulepi64_epi128::<0x00>(a, b23));
        sum[3] = _mm512_xor_si512(sum[3], _mm512_clmulepi64_epi128::<0x10>(a, b23));
    }
    let mut out = [0; 4];
    for (r, lanes) in sum.into_iter().enumerate() {
        for [lo, hi] in to_lanes(lanes) {
            out[r] ^= lo;
            out[(r + 1) % 4] ^= hi;
        }
    }
    out
}

#[target_feature(enable = "avx512f")]
fn to_lanes(v: __m512i) -> [[u64; 2]; 4] {
    let mut lanes = [[0u64; 2]; 4];
    // SAFETY: the array is 64 bytes long; unaligned store.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), v) };
    lanes
}

pub(crate) fn wide_sum_pclmul(kernel: Kernel, pairs: &[[u64; 8]], data: &[u8]) -> [u64; 5] {
    assert!(kernel.level() == Level::Avx2 && data.len() == pairs.len() * 16);
    // SAFETY: kernels of this level exist only where PCLMULQDQ does.
    unsafe { wide_sum_pclmul_inner(pairs, data) }
}

#[target_feature(enable = "avx2,pclmulqdq")]
fn wide_sum_pclmul_inner(pairs: &[[u64; 8]], data: &[u8]) -> [u64; 5] {
    let mut sum = [_mm_setzero_si128(); 4];
    for (bytes, pair) in data.chunks_exact(16).zip(pairs) {
        // SAFETY: 16 bytes of data; unaligned load.
        let words = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        for (lane, entry) in sum.iter_mut().zip(pair.chunks_exact(2)) {
            let entry = _mm_set_epi64x(entry[1] as i64, entry[0] as i64);
            *lane = _mm_xor_si128(*lane, _mm_clmulepi64_si128::<0x00>(words, entry));
            *lane = _mm_xor_si128(*lane, _mm_clmulepi64_si128::<0x11>(words, entry));
        }
    }
    lanes_to_words(sum.map(|lane| split(lane).into()))
}

pub(crate) fn wide_sum_vpclmul(kernel: Kernel, pairs: &[[u64; 8]], data: &[u8]) -> [u64; 5] {
    assert!(kernel.level() == Level::Avx512 && data.len() == pairs.len() * 16);
    // SAFETY: kernels of this level exist only where VPCLMULQDQ and AVX-512 do.
    unsafe { wide_sum_vpclmul_inner(pairs, data) }
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn wide_sum_vpclmul_inner(pairs: &[[u64; 8]], data: &[u8]) -> [u64; 5] {
    let mut sums = [_mm512_setzero_si512(); 4];
    for (bytes, pair) in data.chunks(32).zip(pairs.chunks(2)) {
        for (k, (word, entry)) in bytes.chunks_exact(16).zip(pair).enumerate() {
            // SAFETY: 16 bytes of data and 64 of table; unaligned loads.
            let (words, entry) = unsafe {
                (
                    _mm512_broadcast_i32x4(_mm_loadu_si128(word.as_ptr().cast())),
                    _mm512_loadu_si512(entry.as_ptr().cast()),
                )
            };
            let (low, high) = (2 * k, 2 * k + 1);
            sums[low] = _mm512_xor_si512(sums[low], _mm512_clmulepi64_epi128::<0x00>(words, entry));
            sums[high] =
                _mm512_xor_si512(sums[high], _mm512_clmulepi64_epi128::<0x11>(words, entry));
        }
    }
    let sum =
        _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
    lanes_to_words(to_lanes(sum))
}

pub(crate) fn dense64_pclmul(
    kernel: Kernel,
    matrix: &[u64],
    rows: usize,
    x: &[u64],
    y: &mut [u64],
) {
    assert!(kernel.level() == Level::Avx2 && matrix.len() == rows * x.len());
    // SAFETY: kernels of this level exist only where PCLMULQDQ does.
    unsafe { dense64_pclmul_inner(matrix, rows, x, y) }
}

#[target_feature(enable = "avx2,pclmulqdq")]
fn dense64_pclmul_inner(matrix: &[u64], rows: usize, x: &[u64], y: &mut [u64]) {
    for (i, out) in y.iter_mut().enumerate() {
        let mut sum = _mm_setzero_si128();
        for (column, &value) in matrix.chunks_exact(rows).zip(x) {
            let product = _mm_clmulepi64_si128::<0>(
                _mm_set1_epi64x(value as i64),
                _mm_set1_epi64x(column[i] as i64),
            );
            sum = _mm_xor_si128(sum, product);
        }
        let (lo, hi) = split(sum);
        *out = lo ^ hi;
    }
}

pub(crate) fn dense64_vpclmul(
    kernel: Kernel,
    matrix: &[u64],
    rows: usize,
    x: &[u64],
    y: &mut [u64],
) {
    assert!(kernel.level() == Level::Avx512 && matrix.len() == rows * x.len());
    assert!(rows.is_multiple_of(8) && rows >= y.len());
    // SAFETY: kernels of this level exist only where VPCLMULQDQ and AVX-512 do.
    unsafe { dense64_vpclmul_inner(matrix, rows, x, y) }
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn dense64_vpclmul_inner(matrix: &[u64], rows: usize, x: &[u64], y: &mut [u64]) {
    for (group, out) in y.chunks_mut(8).enumerate() {
        let mut even = _mm512_setzero_si512();
        let mut odd = _mm512_setzero_si512();
        for (column, &value) in matrix.chunks_exact(rows).zip(x) {
            let entry = &column[8 * group..8 * group + 8];
            // SAFETY: 8 words of table; unaligned load.
            let entry = unsafe { _mm512_loadu_si512(entry.as_ptr().cast()) };
            let value = _mm512_set1_epi64(value as i64);
            even = _mm512_xor_si512(even, _mm512_clmulepi64_epi128::<0x00>(value, entry));
            odd = _mm512_xor_si512(odd, _mm512_clmulepi64_epi128::<0x11>(value, entry));
        }
        let (even, odd) = (to_lanes(even), to_lanes(odd));
        for (k, word) in out.iter_mut().enumerate() {
            let [lo, hi] = if k % 2 == 0 { even[k / 2] } else { odd[k / 2] };
            *word = lo ^ hi;
        }
    }
}
