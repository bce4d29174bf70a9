//! The min-sum layer with AVX2 and AVX-512: 64 checks are one register of bytes.
//! Room: onefold-code.
//! Invariants: each function is entered only with a `Kernel` of its level, and a `Kernel` exists
//! only where the machine has the instructions; same messages as `update_body`.

use core::arch::x86_64::{
    __m512i, _mm512_abs_epi8, _mm512_add_epi8, _mm512_and_si512, _mm512_cmpeq_epi8_mask,
    _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_mask_sub_epi8, _mm512_max_epu8,
    _mm512_min_epu8, _mm512_movepi8_mask, _mm512_permutexvar_epi8, _mm512_set1_epi8,
    _mm512_setzero_si512, _mm512_srli_epi16, _mm512_storeu_si512, _mm512_sub_epi8,
    _mm512_xor_si512,
};

use super::minsum::{Layer, update_body};
use crate::cpu::{Kernel, Level};

macro_rules! compiled_for {
    ($($outer:ident / $inner:ident: $feature:literal, $level:pat, $z:literal;)*) => {$(
        #[target_feature(enable = $feature)]
        fn $inner(layer: Layer<'_>) {
            update_body::<$z>(layer);
        }

        pub(super) fn $outer(kernel: Kernel, layer: Layer<'_>) {
            assert!(matches!(kernel.level(), $level));
            // SAFETY: a kernel of this level exists only where the machine has the features.
            unsafe { $inner(layer) }
        }
    )*};
}

compiled_for! {
    update64_avx2 / update64_avx2_inner: "avx2", Level::Avx2, 64;
    update256_avx2 / update256_avx2_inner: "avx2", Level::Avx2, 256;
    update256_avx512 / update256_avx512_inner: "avx512f,avx512bw,avx512vl", Level::Avx512, 256;
}

/// TURN[s][i] = (i - s) mod 64: lane i of a rotated block comes from there.
static TURN: [[u8; 64]; 65] = {
    let mut table = [[0u8; 64]; 65];
    let mut s = 0;
    while s < 65 {
        let mut i = 0;
        while i < 64 {
            table[s][i] = ((i + 64 - s) % 64) as u8;
            i += 1;
        }
        s += 1;
    }
    table
};

pub(super) fn update64_vbmi(kernel: Kernel, layer: Layer<'_>) {
    assert!(kernel.level() == Level::Avx512);
    // SAFETY: kernels of this level exist only where AVX-512 with VBMI does.
    unsafe { update64_vbmi_inner(layer) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load(bytes: &[i8]) -> __m512i {
    assert!(bytes.len() >= 64);
    // SAFETY: at least 64 bytes; unaligned load.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn store(bytes: &mut [i8], v: __m512i) {
    assert!(bytes.len() >= 64);
    // SAFETY: at least 64 bytes; unaligned store.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), v) }
}

/// The block rotated by `shift` lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn turn(v: __m512i, shift: u32) -> __m512i {
    let row = &TURN[shift as usize];
    // SAFETY: a row of the table is 64 bytes; unaligned load.
    let index = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    _mm512_permutexvar_epi8(index, v)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn update64_vbmi_inner(layer: Layer<'_>) {
    let Layer { edges, totals, messages, scratch, cap, .. } = layer;
    let mut min1 = _mm512_set1_epi8(-1);
    let mut min2 = min1;
    let mut sign = _mm512_setzero_si512();
    for ((edge, old), kept) in
        edges.iter().zip(messages.chunks_exact(64)).zip(scratch.chunks_exact_mut(64))
    {
        let total = turn(load(&totals[edge.block as usize * 128..]), edge.shift);
        let m = _mm512_sub_epi8(total, load(old));
        store(kept, m);
        sign = _mm512_xor_si512(sign, m);
        let size = _mm512_abs_epi8(m);
        min2 = _mm512_min_epu8(min2, _mm512_max_epu8(min1, size));
        min1 = _mm512_min_epu8(min1, size);
    }
    let limit = _mm512_set1_epi8(cap as i8);
    let (scaled1, scaled2) = (scale(min1, limit), scale(min2, limit));
    let zero = _mm512_setzero_si512();
    for ((edge, old), kept) in
        edges.iter().zip(messages.chunks_exact_mut(64)).zip(scratch.chunks_exact(64))
    {
        let m = load(kept);
        let smallest = _mm512_cmpeq_epi8_mask(_mm512_abs_epi8(m), min1);
        let size = _mm512_mask_blend_epi8(smallest, scaled1, scaled2);
        let negative = _mm512_movepi8_mask(_mm512_xor_si512(sign, m));
        let new = _mm512_mask_sub_epi8(size, negative, zero, size);
        let change = _mm512_sub_epi8(new, load(old));
        store(old, new);
        let block = &mut totals[edge.block as usize * 128..][..64];
        let total = _mm512_add_epi8(load(block), turn(change, 64 - edge.shift));
        store(block, total);
    }
}

/// Three quarters, rounded up, at most the limit.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn scale(v: __m512i, limit: __m512i) -> __m512i {
    let quarter = _mm512_and_si512(_mm512_srli_epi16::<2>(v), _mm512_set1_epi8(0x3f));
    _mm512_min_epu8(_mm512_sub_epi8(v, quarter), limit)
}
