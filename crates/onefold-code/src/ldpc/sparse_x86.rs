//! Sparse syndromes with AVX2 and AVX-512.
//! Room: onefold-code.
//! Invariants: each function is entered only with a `Kernel` of its level, and a `Kernel` exists
//! only where the machine has the instructions.

use core::arch::x86_64::{
    _mm_loadu_si64, _mm512_cvtepu8_epi64, _mm512_loadu_si512, _mm512_maskz_rolv_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::sparse::{QuadPlan, WordPlan, quads_body};
use crate::cpu::{Kernel, Level};

pub(super) fn words_avx512(kernel: Kernel, plan: &WordPlan, data: &[u8], out: &mut [u64]) {
    assert!(kernel.level() == Level::Avx512);
    // SAFETY: kernels of this level exist only where AVX-512 does.
    unsafe { words_avx512_inner(plan, data, out) }
}

#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
fn words_avx512_inner(plan: &WordPlan, data: &[u8], out: &mut [u64]) {
    let (groups, _) = data.as_chunks::<64>();
    for (sum, ops) in out.iter_mut().zip(&plan.ops) {
        let mut total = _mm512_setzero_si512();
        for op in ops {
            let group = &groups[usize::from(op.group)];
            // SAFETY: 64 bytes of data and 8 of shifts; unaligned loads.
            let (blocks, shifts) = unsafe {
                (_mm512_loadu_si512(group.as_ptr().cast()), _mm_loadu_si64(op.shifts.as_ptr()))
            };
            let turned = _mm512_maskz_rolv_epi64(op.mask, blocks, _mm512_cvtepu8_epi64(shifts));
            total = _mm512_xor_si512(total, turned);
        }
        let mut lanes = [0u64; 8];
        // SAFETY: the array is 64 bytes long; unaligned store.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), total) };
        *sum = lanes.into_iter().fold(0, |a, b| a ^ b);
    }
}

pub(super) fn quads_avx2(kernel: Kernel, plan: &QuadPlan, data: &[u8]) -> [u64; 4] {
    assert!(kernel.level() >= Level::Avx2);
    // SAFETY: kernels of this level exist only where AVX2 does.
    unsafe { quads_avx2_inner(plan, data) }
}

#[target_feature(enable = "avx2")]
fn quads_avx2_inner(plan: &QuadPlan, data: &[u8]) -> [u64; 4] {
    quads_body(plan, data)
}
