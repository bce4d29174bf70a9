//! BCH decoding: syndromes of the remainder, Berlekamp-Massey, search for the roots.
//! Room: onefold-code.   In: received data and parity.   Out: corrected in place, and how many.
//! Source: [berlekamp-68] (binary form, odd steps only); [chien-64].

use super::code::Bch;
use super::field::Field;
use crate::error::CodeError;
use crate::ldpc::Decoded;

/// Largest t that fits 256 parity bits and then some; sizes of the arrays below.
const MAX_T: usize = 128;

impl Bch {
    /// Corrects up to t errors in data and parity. More errors usually fail, but may look like a
    /// correction to another codeword; a CRC over the page tells.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn decode(&self, data: &mut [u8], parity: &mut [u8]) -> Result<Decoded, CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let mut rest = self.parity_words(data);
        for (i, byte) in parity.iter().enumerate() {
            rest[i / 8] ^= u64::from(*byte) << (8 * (i % 8));
        }
        // Bits beyond the parity are always 0; a one there is an error of no consequence.
        let unused = parity.len() * 8 - self.parity_bits;
        let padding = if unused == 0 { 0 } else { parity[parity.len() - 1] >> (8 - unused) };
        if self.parity_bits < 256 {
            rest[self.parity_bits / 64] &= (1 << (self.parity_bits % 64)) - 1;
        }
        if rest == [0; 4] {
            return Ok(self.clear_padding(padding, parity, 0));
        }
        let mut syndromes = [0u16; 2 * MAX_T + 1];
        self.syndromes(&rest, &mut syndromes);
        let mut locator = [0u16; MAX_T + 1];
        let Some(errors) = massey(&self.field, self.t, &syndromes, &mut locator) else {
            return Ok(Decoded::Failed);
        };
        let mut places = [0u32; MAX_T];
        if !self.roots(&locator[..=errors], &mut places[..errors]) {
            return Ok(Decoded::Failed);
        }
        for &place in &places[..errors] {
            let place = place as usize;
            if place < self.parity_bits {
                parity[place / 8] ^= 1 << (place % 8);
            } else {
                let at = place - self.parity_bits;
                data[at / 8] ^= 1 << (at % 8);
            }
        }
        Ok(self.clear_padding(padding, parity, errors))
    }

    fn clear_padding(&self, padding: u8, parity: &mut [u8], errors: usize) -> Decoded {
        if padding != 0 {
            let used = self.parity_bits % 8;
            parity[self.parity_bits / 8] &= (1 << used) - 1;
        }
        match errors + padding.count_ones() as usize {
            0 => Decoded::Clean,
            n => Decoded::Corrected(n),
        }
    }

    /// Values of the remainder at x, x^2, .. x^(2t).
    fn syndromes(&self, rest: &[u64; 4], out: &mut [u16]) {
        let order = self.field.order;
        for (w, &word) in rest.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let place = 64 * w + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let step = 2 * place % order;
                let mut exponent = place % order;
                for i in (1..2 * self.t).step_by(2) {
                    out[i] ^= self.field.exp[exponent];
                    exponent += step;
                    if exponent >= order {
                        exponent -= order;
                    }
                }
            }
        }
        for i in 1..=self.t {
            out[2 * i] = self.field.mul(out[i], out[i]);
        }
    }

    /// Finds the error places: those p with locator(x^-p) = 0. True if there are as many as the
    /// degree, all within the codeword.
    fn roots(&self, locator: &[u16], places: &mut [u32]) -> bool {
        let order = self.field.order;
        let mut terms = [(0usize, 0usize); MAX_T];
        let mut used = 0;
        for (k, &c) in locator.iter().enumerate().skip(1).filter(|(_, c)| **c != 0) {
            terms[used] = (self.field.log(c), order - k % order);
            used += 1;
        }
        let terms = &mut terms[..used];
        let mut found = 0;
        for place in 0..self.codeword_bits() {
            let mut sum = 1u16;
            for (exponent, step) in terms.iter_mut() {
                sum ^= self.field.exp[*exponent];
                *exponent += *step;
                if *exponent >= order {
                    *exponent -= order;
                }
            }
            if sum == 0 {
                places[found] = place as u32;
                found += 1;
                if found == places.len() {
                    return true;
                }
            }
        }
        false
    }
}

/// Error locator of the syndromes (index 1 to 2t). `None` when it would have more than t roots.
fn massey(
    field: &Field,
    t: usize,
    syndromes: &[u16],
    locator: &mut [u16; MAX_T + 1],
) -> Option<usize> {
    let mut previous = [0u16; MAX_T + 1];
    (locator[0], previous[0]) = (1, 1);
    let (mut degree, mut gap, mut last) = (0usize, 1usize, 1u16);
    for n in (0..2 * t).step_by(2) {
        let discrepancy =
            (0..=degree.min(n)).fold(0, |sum, i| sum ^ field.mul(locator[i], syndromes[n + 1 - i]));
        if discrepancy == 0 {
            gap += 2;
            continue;
        }
        let factor = field.div(discrepancy, last);
        let old = *locator;
        for i in 0..=(MAX_T - gap.min(MAX_T)) {
            if previous[i] != 0 {
                locator[i + gap] ^= field.mul(factor, previous[i]);
            }
        }
        if 2 * degree <= n {
            degree = n + 1 - degree;
            previous = old;
            last = discrepancy;
            gap = 2;
        } else {
            gap += 2;
        }
        if degree > t {
            return None;
        }
    }
    (locator[degree] != 0).then_some(degree)
}
