//! Normalized min-sum, layer by layer, one byte lane per check of a block row.
//! Room: onefold-code.   In: signed reliabilities.   Out: hard decisions, and whether they are a
//! codeword.
//! Source: [min-sum-02] (factor 0.75); layered schedule of [layered-04]. Two entries of a column in
//! one block row are handled by adding the change of each message, not the message.
//! Invariants: |channel| + weight * |message| stays below 128, so totals never saturate.

use super::code::QcLdpc;
use crate::cpu::{Kernel, Level};

/// Magnitude of a hard decision.
const HARD: i8 = 12;
/// Largest magnitude of a soft value.
const SOFT_MAX: i8 = 31;

/// The eight hard decisions of a byte as channel values; a table, because random bits would cost
/// a mispredicted branch each.
static SPREAD: [[i8; 8]; 256] = {
    let mut table = [[HARD; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][bit] = -HARD;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// An edge of a layer: block column and shift.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) block: u32,
    pub(super) shift: u32,
}

/// Working memory of the decoder.
#[derive(Debug, Clone)]
pub(crate) struct MinSum {
    z: usize,
    layers: Vec<Vec<Edge>>,
    /// Sum of channel and messages per bit; each block stands twice, so that rotations are plain
    /// loads (once only for the AVX-512 kernel, which permutes).
    totals: Vec<i8>,
    messages: Vec<i8>,
    scratch: Vec<i8>,
    /// Changes of a layer's messages, each block twice like the totals.
    changes: Vec<i8>,
    /// Largest message, so that totals fit a byte.
    cap: u8,
    pub(crate) iterations: usize,
}

impl MinSum {
    pub(crate) fn new(code: &QcLdpc) -> Self {
        let z = code.shape().circulant;
        let layers: Vec<Vec<Edge>> = code
            .pairs
            .by_row
            .iter()
            .map(|row| row.iter().map(|&(block, s)| Edge { block, shift: u32::from(s) }).collect())
            .collect();
        let edges: usize = layers.iter().map(Vec::len).sum();
        let widest = layers.iter().map(Vec::len).max().unwrap_or(0);
        let weight = code.columns().iter().map(Vec::len).max().unwrap_or(1);
        Self {
            z,
            totals: vec![0; code.columns().len() * 2 * z],
            messages: vec![0; edges * z],
            scratch: vec![0; widest * z],
            changes: vec![0; widest * 2 * z],
            layers,
            cap: ((127 - SOFT_MAX as usize) / weight) as u8,
            iterations: 0,
        }
    }

    pub(crate) fn load_hard(&mut self, hard: &[u8]) {
        let z = self.z;
        for (block, bytes) in self.totals.chunks_exact_mut(2 * z).zip(hard.chunks_exact(z / 8)) {
            for (totals, &byte) in block[..z].chunks_exact_mut(8).zip(bytes) {
                totals.copy_from_slice(&SPREAD[usize::from(byte)]);
            }
        }
        self.start();
    }

    pub(crate) fn load_soft(&mut self, soft: &[i8]) {
        let z = self.z;
        for (block, values) in self.totals.chunks_exact_mut(2 * z).zip(soft.chunks_exact(z)) {
            for (total, value) in block[..z].iter_mut().zip(values) {
                *total = (*value).clamp(-SOFT_MAX, SOFT_MAX);
            }
        }
        self.start();
    }

    fn start(&mut self) {
        let z = self.z;
        self.messages.fill(0);
        for block in self.totals.chunks_exact_mut(2 * z) {
            let (first, second) = block.split_at_mut(z);
            second.copy_from_slice(first);
        }
    }

    /// Iterates until `hard` is a codeword (true) or the limit is reached.
    pub(crate) fn run(&mut self, code: &QcLdpc, limit: usize, hard: &mut [u8]) -> bool {
        for iteration in 1..=limit {
            self.iterations = iteration;
            let mut at = 0;
            for layer in &self.layers {
                let length = layer.len() * self.z;
                let memory = Layer {
                    edges: layer,
                    totals: &mut self.totals,
                    messages: &mut self.messages[at..at + length],
                    scratch: &mut self.scratch[..length],
                    changes: &mut self.changes[..2 * length],
                    cap: self.cap,
                };
                update(code.kernel, self.z, memory);
                at += length;
            }
            self.decide(hard);
            let (data, parity) = hard.split_at(code.data_bytes());
            if code.is_codeword(data, parity).expect("the buffer has the length of a codeword") {
                return true;
            }
        }
        false
    }

    /// Signs of the totals as bits.
    fn decide(&self, hard: &mut [u8]) {
        let z = self.z;
        for (block, bytes) in self.totals.chunks_exact(2 * z).zip(hard.chunks_exact_mut(z / 8)) {
            for (byte, totals) in bytes.iter_mut().zip(block[..z].chunks_exact(8)) {
                let lanes = u64::from_le_bytes(core::array::from_fn(|i| totals[i] as u8));
                // The sign bits of eight lanes, gathered by a multiplication.
                *byte = ((lanes >> 7 & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080)
                    >> 56) as u8;
            }
        }
    }
}

/// One block row and the memory it works on.
pub(super) struct Layer<'a> {
    pub(super) edges: &'a [Edge],
    pub(super) totals: &'a mut [i8],
    pub(super) messages: &'a mut [i8],
    pub(super) scratch: &'a mut [i8],
    pub(super) changes: &'a mut [i8],
    pub(super) cap: u8,
}

fn update(kernel: Kernel, z: usize, layer: Layer<'_>) {
    match (kernel.level(), z) {
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, 64) => super::minsum_x86::update64_vbmi(kernel, layer),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, _) => super::minsum_x86::update256_avx512(kernel, layer),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, 64) => super::minsum_x86::update64_avx2(kernel, layer),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, _) => super::minsum_x86::update256_avx2(kernel, layer),
        (_, 64) => update_body::<64>(layer),
        _ => update_body::<256>(layer),
    }
}

fn lanes<const Z: usize>(slice: &[i8]) -> &[i8; Z] {
    slice.try_into().expect("one lane per check")
}

/// Check-node update of one block row for any lane count.
#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
pub(super) fn update_body<const Z: usize>(layer: Layer<'_>) {
    let Layer { edges, totals, messages, scratch, changes, cap } = layer;
    let (mut min1, mut min2, mut sign) = ([255u8; Z], [255u8; Z], [0i8; Z]);
    for ((edge, old), kept) in
        edges.iter().zip(messages.chunks_exact(Z)).zip(scratch.chunks_exact_mut(Z))
    {
        let start = edge.block as usize * 2 * Z + Z - edge.shift as usize;
        let (total, old) = (lanes::<Z>(&totals[start..start + Z]), lanes::<Z>(old));
        let kept: &mut [i8; Z] = kept.try_into().expect("one lane per check");
        for i in 0..Z {
            let m = total[i].wrapping_sub(old[i]);
            kept[i] = m;
            sign[i] ^= m;
            let size = m.unsigned_abs();
            min2[i] = min2[i].min(min1[i].max(size));
            min1[i] = min1[i].min(size);
        }
    }
    let (mut scaled1, mut scaled2) = ([0u8; Z], [0u8; Z]);
    for i in 0..Z {
        scaled1[i] = (min1[i] - min1[i] / 4).min(cap);
        scaled2[i] = (min2[i] - min2[i] / 4).min(cap);
    }
    for ((old, kept), change) in messages
        .chunks_exact_mut(Z)
        .zip(scratch.chunks_exact(Z))
        .zip(changes.chunks_exact_mut(2 * Z))
    {
        let old: &mut [i8; Z] = old.try_into().expect("one lane per check");
        let kept = lanes::<Z>(kept);
        let (first, second) = change.split_at_mut(Z);
        let first: &mut [i8; Z] = first.try_into().expect("one lane per check");
        for i in 0..Z {
            let smallest = kept[i].unsigned_abs() == min1[i];
            let size = if smallest { scaled2[i] } else { scaled1[i] } as i8;
            let negative = (sign[i] ^ kept[i]) >> 7;
            let new = (size ^ negative).wrapping_sub(negative);
            first[i] = new.wrapping_sub(old[i]);
            old[i] = new;
        }
        second.copy_from_slice(first);
    }
    // A pass of its own, so that the shifted loads do not wait for the stores just made.
    for (edge, change) in edges.iter().zip(changes.chunks_exact(2 * Z)) {
        let back = lanes::<Z>(&change[edge.shift as usize..edge.shift as usize + Z]);
        let block = &mut totals[edge.block as usize * 2 * Z..][..2 * Z];
        let (first, second) = block.split_at_mut(Z);
        let first: &mut [i8; Z] = first.try_into().expect("one lane per check");
        for i in 0..Z {
            first[i] = first[i].wrapping_add(back[i]);
        }
        second.copy_from_slice(first);
    }
}
