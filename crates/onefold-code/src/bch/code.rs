//! A binary BCH code: generator polynomial and systematic encoding.
//! Room: onefold-code.   In: data.   Out: parity.
//! Source: parity bit j is the coefficient of x^j and data bit i that of x^(r + i), bytes and bits
//! least significant first; the remainder is a sum of words times x^(64 j + r) mod g, reduced once.
//! Invariants: (1) g divides the codeword; (2) parity(d xor s) = parity(d) xor parity(s).
//! Cost: four carry-less products per 8 bytes.

use super::field::Field;
use crate::clmul::{WideTable, wide_sum};
use crate::cpu::Kernel;
use crate::error::CodeError;
use crate::gf2::Poly;

/// A binary BCH code with up to 256 parity bits.
#[derive(Debug, Clone)]
pub struct Bch {
    name: String,
    pub(super) field: Field,
    pub(super) t: usize,
    pub(super) parity_bits: usize,
    data_bytes: usize,
    table: WideTable,
    /// Remainders of the bits above the parity, by nibble: entries 16 p + v.
    reduce: Vec<[u64; 4]>,
    kernel: Kernel,
}

impl Bch {
    /// The code of the same budget as SES-Dedup's LDPC: GF(2^14), t = 18, 1 KiB of data and 252
    /// parity bits in 32 bytes.
    pub fn t18_1k() -> Self {
        let poly = Poly::from_bits(0x4443).expect("degree 14");
        Self::new(poly, 18, 1024).expect("x^14 + x^10 + x^6 + x + 1 is primitive, 18 * 14 < 256")
    }

    /// A code over the field of the primitive polynomial `field` that corrects `t` errors in
    /// `data_bytes` of data (a multiple of 16) and their parity.
    ///
    /// # Errors
    /// [`CodeError::Field`] for a field polynomial that is not primitive of degree 3 to 15,
    /// [`CodeError::NoSuchCode`] if the parity exceeds 256 bits or the data do not fit.
    pub fn new(field: Poly, t: usize, data_bytes: usize) -> Result<Self, CodeError> {
        let name = format!("bch-t{t}-{data_bytes}");
        let poly = field;
        let field = Field::new(poly)?;
        let generator = generator(&field, t);
        let parity_bits = generator.len() - 1;
        let refuse = |reason: String| Err(CodeError::NoSuchCode { reason });
        if t == 0 || parity_bits > 256 {
            return refuse(format!("t: {t} needs {parity_bits} parity bits; accepted: 1 to 256"));
        }
        if data_bytes == 0
            || !data_bytes.is_multiple_of(16)
            || data_bytes * 8 + parity_bits > field.order
        {
            return refuse(format!(
                "data: {data_bytes} bytes; accepted: a positive multiple of 16 up to {} bytes",
                (field.order.saturating_sub(parity_bits)) / 8 / 16 * 16
            ));
        }
        // x^(r + i) mod g, from r upwards.
        let mut power = [0u64; 4];
        for (i, &bit) in generator[..parity_bits].iter().enumerate() {
            power[i / 64] |= u64::from(bit) << (i % 64);
        }
        let low = power;
        let mut remainders = Vec::with_capacity(data_bytes * 8);
        for _ in 0..(data_bytes * 8).max(64) {
            remainders.push(power);
            let top = power[(parity_bits - 1) / 64] >> ((parity_bits - 1) % 64) & 1 == 1;
            for w in (0..4).rev() {
                let carry = if w == 0 { 0 } else { power[w - 1] >> 63 };
                power[w] = power[w] << 1 | carry;
            }
            if parity_bits < 256 {
                power[parity_bits / 64] &= !(1 << (parity_bits % 64));
            }
            if top {
                power.iter_mut().zip(low).for_each(|(p, l)| *p ^= l);
            }
        }
        let entries: Vec<[u64; 4]> =
            remainders.iter().step_by(64).copied().take(data_bytes / 8).collect();
        let reduce = (0..256)
            .map(|index| {
                let (place, value) = (index / 16, index % 16);
                (0..4).filter(|bit| value >> bit & 1 == 1).fold([0; 4], |sum: [u64; 4], bit| {
                    core::array::from_fn(|w| sum[w] ^ remainders[4 * place + bit][w])
                })
            })
            .collect();
        let table = WideTable::new(&entries);
        let kernel = Kernel::best();
        Ok(Self { name, field, t, parity_bits, data_bytes, table, reduce, kernel })
    }

    /// The same code on another instruction set.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Name of the code.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Errors that are always corrected.
    pub fn t(&self) -> usize {
        self.t
    }

    /// Data bytes of a codeword.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Parity bits of a codeword.
    pub fn parity_bits(&self) -> usize {
        self.parity_bits
    }

    /// Parity bytes of a codeword; unused bits of the last byte are 0.
    pub fn parity_bytes(&self) -> usize {
        self.parity_bits.div_ceil(8)
    }

    /// Data and parity bits.
    pub fn codeword_bits(&self) -> usize {
        self.data_bytes * 8 + self.parity_bits
    }

    pub(super) fn check_lengths(&self, data: usize, parity: usize) -> Result<(), CodeError> {
        let length = |what, got, accepted| CodeError::Length { what, got, accepted };
        if data != self.data_bytes {
            return Err(length("data", data, self.data_bytes));
        }
        if parity != self.parity_bytes() {
            return Err(length("parity", parity, self.parity_bytes()));
        }
        Ok(())
    }

    /// Writes the parity of `data`.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) -> Result<(), CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let words = self.parity_words(data);
        for (i, byte) in parity.iter_mut().enumerate() {
            *byte = (words[i / 8] >> (8 * (i % 8))) as u8;
        }
        Ok(())
    }

    /// Parity of `data`, whose length has been checked.
    pub(crate) fn parity_words(&self, data: &[u8]) -> [u64; 4] {
        let sum = wide_sum(self.kernel, &self.table, data);
        let r = self.parity_bits;
        let mut out = [sum[0], sum[1], sum[2], sum[3]];
        // Bits r .. r + 63, as one word.
        let (word, bit) = (r / 64, r % 64);
        let next = if word < 4 { sum[word + 1] } else { 0 };
        let top = sum[word] >> bit | (next << 1) << (63 - bit);
        for (w, value) in out.iter_mut().enumerate().skip(word) {
            *value = if w == word { *value & ((1 << bit) - 1) } else { 0 };
        }
        for place in 0..16 {
            let entry = &self.reduce[16 * place + (top >> (4 * place) & 15) as usize];
            out.iter_mut().zip(entry).for_each(|(o, e)| *o ^= e);
        }
        out
    }

    /// Parity by long division, bit by bit: the slow twin of [`Bch::encode`].
    pub fn encode_slow(&self, data: &[u8]) -> Vec<u8> {
        let generator = generator(&self.field, self.t);
        let r = self.parity_bits;
        let mut word = vec![0u8; r];
        word.extend(data.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1)));
        for top in (r..word.len()).rev() {
            if word[top] == 1 {
                for (i, &g) in generator.iter().enumerate() {
                    word[top - r + i] ^= g;
                }
            }
        }
        let mut parity = vec![0u8; self.parity_bytes()];
        for (i, &bit) in word[..r].iter().enumerate() {
            parity[i / 8] |= bit << (i % 8);
        }
        parity
    }
}

/// Generator polynomial, one coefficient a byte, ascending: the product of the minimal
/// polynomials of x, x^3, .. x^(2t - 1).
fn generator(field: &Field, t: usize) -> Vec<u8> {
    let mut covered = vec![false; field.order];
    let mut product = vec![1u16];
    for root in (1..2 * t).step_by(2) {
        let mut conjugate = root % field.order;
        while !covered[conjugate] {
            covered[conjugate] = true;
            let alpha = field.exp[conjugate];
            // Times (X + alpha).
            let mut next = vec![0u16; product.len() + 1];
            for (i, &c) in product.iter().enumerate() {
                next[i + 1] ^= c;
                next[i] ^= field.mul(c, alpha);
            }
            product = next;
            conjugate = 2 * conjugate % field.order;
        }
    }
    debug_assert!(product.iter().all(|&c| c <= 1), "minimal polynomials are binary");
    product.into_iter().map(|c| c as u8).collect()
}
