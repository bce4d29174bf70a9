//! The key stream of a register in wide words.
//! Room: onefold-code.   In: seed.   Out: words of key stream, bit 0 of word 0 first.
//! Source: squaring is linear over GF(2), so the characteristic polynomial C of degree L also
//! gives `s[t + L 2^k] = sum of c_i s[t + i 2^k]`: with 2^k = 64, 128, 256, 512 the recurrence runs
//! on whole words. The first L words come from a table, linear in the seed.
//! Cost: weight(C) word loads per 64 bytes once the stream is 8 L words long; the table holds
//! 16 * ceil(L / 4) * L words (4 KiB at L = 15, 128 KiB at L = 64).

use super::lfsr::window_map;
use super::{BitOrder, LfsrSpec};
use crate::cpu::{Kernel, Level};

/// Words of key stream made at a time: 8 KiB, and a tail so that whole vectors may be stored.
pub(crate) const CHUNK_WORDS: usize = 1024;
const PAD_WORDS: usize = 8;

/// Scratch for one run of the generator.
pub(crate) type Buffer = [u64; CHUNK_WORDS + PAD_WORDS];

/// Tables of one register.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    length: usize,
    /// Exponents below the degree with a coefficient, ascending.
    taps: Vec<usize>,
    /// Image of nibble value v at nibble position p: words [(16 p + v) * head ..][..head].
    nibbles: Vec<u64>,
    /// Words per table entry: the length, rounded up to 8.
    head: usize,
    bit_order: BitOrder,
    word_bytes: u8,
    inverted: bool,
}

impl Tables {
    pub(crate) fn new(spec: &LfsrSpec) -> Self {
        let poly = spec.polynomial;
        let length = poly.degree() as usize;
        let taps: Vec<usize> =
            poly.exponents().map(|e| e as usize).filter(|&e| e < length).collect();
        let head = length.next_multiple_of(8);
        let window = window_map(poly, spec.form, u64::from(spec.warmup_bits));
        let basis: Vec<Vec<u64>> = window
            .columns
            .iter()
            .map(|&start| {
                let mut bits: Vec<bool> = (0..length).map(|i| start >> i & 1 == 1).collect();
                while bits.len() < head * 64 {
                    let at = bits.len() - length;
                    bits.push(taps.iter().fold(false, |sum, &tap| sum ^ bits[at + tap]));
                }
                bits.chunks(64)
                    .map(|word| word.iter().rev().fold(0, |w, &b| w << 1 | u64::from(b)))
                    .collect()
            })
            .collect();
        let mut nibbles = vec![0; length.div_ceil(4) * 16 * head];
        for (entry, words) in nibbles.chunks_mut(head).enumerate() {
            for bit in (0..4).filter(|bit| entry >> bit & 1 == 1) {
                if let Some(image) = basis.get(entry / 16 * 4 + bit) {
                    words.iter_mut().zip(image).for_each(|(w, x)| *w ^= x);
                }
            }
        }
        let &LfsrSpec { bit_order, word_bytes, inverted, .. } = spec;
        Self { length, taps, nibbles, head, bit_order, word_bytes, inverted }
    }

    /// Fills the start of `buffer` from the seed.
    #[inline]
    fn load_head(&self, seed: u64, buffer: &mut Buffer) {
        let head = &mut buffer[..self.head];
        head.fill(0);
        for (place, table) in self.nibbles.chunks_exact(16 * self.head).enumerate() {
            let value = (seed >> (4 * place) & 15) as usize;
            let entry = &table[value * self.head..(value + 1) * self.head];
            for (w, x) in head.iter_mut().zip(entry) {
                *w ^= x;
            }
        }
    }

    /// Xors the key stream of `seed` into `page`, starting again every `restart` bytes (0: never).
    pub(crate) fn xor(&self, kernel: Kernel, seed: u64, restart: usize, page: &mut [u8]) {
        let mut buffer: Buffer = [0; CHUNK_WORDS + PAD_WORDS];
        let segment = if restart == 0 { page.len() } else { restart.min(page.len()) };
        if segment == 0 {
            return;
        }
        if segment <= CHUNK_WORDS * 8 {
            let words = segment.div_ceil(8);
            self.load_head(seed, &mut buffer);
            self.extend(kernel, &mut buffer, self.head, words);
            self.lay_out(kernel, &mut buffer[..words]);
            for part in page.chunks_mut(segment) {
                xor_words(kernel, &buffer, part);
            }
            return;
        }
        for part in page.chunks_mut(segment) {
            self.load_head(seed, &mut buffer);
            self.extend(kernel, &mut buffer, self.head, CHUNK_WORDS);
            self.xor_long(kernel, &mut buffer, part);
        }
    }

    /// A segment longer than the buffer: the tail of each chunk carries on into the next.
    fn xor_long(&self, kernel: Kernel, buffer: &mut Buffer, part: &mut [u8]) {
        let keep = (8 * self.length).max(self.head);
        for piece in part.chunks_mut((CHUNK_WORDS - keep) * 8) {
            let mut laid = *buffer;
            self.lay_out(kernel, &mut laid[..CHUNK_WORDS]);
            xor_words(kernel, &laid, piece);
            buffer.copy_within(CHUNK_WORDS - keep..CHUNK_WORDS, 0);
            self.extend(kernel, buffer, keep, CHUNK_WORDS);
        }
    }

    /// Carries the recurrence on from `have` words to `want` words.
    fn extend(&self, kernel: Kernel, buffer: &mut Buffer, have: usize, want: usize) {
        match kernel.level() {
            #[cfg(target_arch = "x86_64")]
            // Measured faster than wider vectors, which wait longer for words just stored.
            Level::Avx2 | Level::Avx512 => super::keystream_x86::extend_avx2(
                kernel,
                buffer,
                self.length,
                &self.taps,
                have,
                want,
            ),
            _ => extend_body(buffer, self.length, &self.taps, have, want),
        }
    }

    /// Puts the bits where the description says, from the least-significant-first order.
    fn lay_out(&self, kernel: Kernel, words: &mut [u64]) {
        if self.bit_order == BitOrder::Lsb && self.word_bytes == 1 && !self.inverted {
            return;
        }
        match kernel.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => super::keystream_x86::lay_out_avx2(
                kernel,
                words,
                self.bit_order,
                self.word_bytes,
                self.inverted,
            ),
            _ => lay_out_body(words, self.bit_order, self.word_bytes, self.inverted),
        }
    }
}

/// The word recurrence. `have` is at least `length`, `want` at most `CHUNK_WORDS`.
#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
pub(super) fn extend_body(
    buffer: &mut Buffer,
    length: usize,
    taps: &[usize],
    mut have: usize,
    want: usize,
) {
    let reach = length - taps.last().copied().unwrap_or(0);
    while have < want {
        // The widest leap that the words so far allow, in words: 1, 2, 4 or 8.
        let unit = 1 << (have / length).ilog2().min(3);
        let distance = reach * unit;
        if distance >= 8 {
            run::<8>(buffer, length * unit, taps, unit, have, want);
            return;
        }
        // Past `have`, since below 8 the unit is what `have` allows.
        let until = want.min(2 * length * unit);
        if distance >= 4 {
            run::<4>(buffer, length * unit, taps, unit, have, until);
        } else if distance >= 2 {
            run::<2>(buffer, length * unit, taps, unit, have, until);
        } else {
            run::<1>(buffer, length * unit, taps, unit, have, until);
        }
        have = until;
    }
}

/// Makes words `from..to` (rounded up to whole vectors of N), each the sum of the words `unit`
/// times a tap after the one `back` before it.
#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
fn run<const N: usize>(
    buffer: &mut Buffer,
    back: usize,
    taps: &[usize],
    unit: usize,
    from: usize,
    to: usize,
) {
    for at in (from..to).step_by(N) {
        let mut sum = [0u64; N];
        for &tap in taps {
            let start = at - back + tap * unit;
            let source: &[u64] = &buffer[start..start + N];
            for (s, x) in sum.iter_mut().zip(source) {
                *s ^= x;
            }
        }
        buffer[at..at + N].copy_from_slice(&sum);
    }
}

#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
pub(crate) fn lay_out_body(words: &mut [u64], order: BitOrder, word_bytes: u8, inverted: bool) {
    if order == BitOrder::Msb {
        for w in &mut *words {
            let x = (*w >> 4 & 0x0f0f_0f0f_0f0f_0f0f) | (*w & 0x0f0f_0f0f_0f0f_0f0f) << 4;
            let x = (x >> 2 & 0x3333_3333_3333_3333) | (x & 0x3333_3333_3333_3333) << 2;
            *w = (x >> 1 & 0x5555_5555_5555_5555) | (x & 0x5555_5555_5555_5555) << 1;
        }
    }
    match word_bytes {
        2 => {
            for w in &mut *words {
                *w = (*w >> 8 & 0x00ff_00ff_00ff_00ff) | (*w & 0x00ff_00ff_00ff_00ff) << 8;
            }
        }
        4 => {
            for w in &mut *words {
                *w = w.swap_bytes().rotate_left(32);
            }
        }
        8 => {
            for w in &mut *words {
                *w = w.swap_bytes();
            }
        }
        _ => {}
    }
    if inverted {
        for w in words {
            *w = !*w;
        }
    }
}

fn xor_words(kernel: Kernel, words: &Buffer, bytes: &mut [u8]) {
    match kernel.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => super::keystream_x86::xor_avx2(kernel, words, bytes),
        _ => xor_body(words, bytes),
    }
}

#[expect(clippy::inline_always, reason = "compiled anew inside each target_feature caller")]
#[inline(always)]
pub(super) fn xor_body(words: &Buffer, bytes: &mut [u8]) {
    let mut whole = bytes.chunks_exact_mut(8);
    let mut used = 0;
    for (chunk, word) in whole.by_ref().zip(words) {
        let mixed = u64::from_le_bytes(chunk.try_into().expect("chunks of 8")) ^ word;
        chunk.copy_from_slice(&mixed.to_le_bytes());
        used += 1;
    }
    let rest = whole.into_remainder();
    if !rest.is_empty() {
        rest.iter_mut().zip(words[used].to_le_bytes()).for_each(|(b, k)| *b ^= k);
    }
}
