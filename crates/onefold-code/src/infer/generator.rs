//! First step: the register and the layout of its bits, from windows of 256 bits.
//! Room: onefold-code.   In: pages.   Out: polynomial, bit order, byte order.
//! Source: Berlekamp-Massey on a window free of bit errors (at 1e-3, three of four are) gives a
//! recurrence of at most 64 that 128 further bits confirm; any other window gives about 128.
//! Bytes read in a wrong order are interleaved sequences with polynomial C(x^8) or worse, so the
//! lowest degree is the right order.

use super::Pages;
use super::report::InferError;
use crate::gf2::{Poly, berlekamp_massey};
use crate::scramble::{BitOrder, LfsrSpec, lay_out_words};

/// Words of a window.
const WINDOW: usize = 4;
/// Pages looked at when the data are known.
const SAMPLE_PAGES: usize = 24;
/// Pages looked at when the data are unknown and only some pages help.
const SAMPLE_PAGES_UNKNOWN: usize = 4096;
/// Pages compared with each other when no page helps by itself.
const PAIR_PAGES: usize = 400;

/// The register and how its bits lie in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) polynomial: Poly,
    pub(super) bit_order: BitOrder,
    pub(super) word_bytes: u8,
    /// Whether every window showed a complemented key stream.
    pub(super) inverted: bool,
}

impl Layout {
    /// The canonical register of this layout.
    pub(super) fn register(&self, inverted: bool) -> LfsrSpec {
        LfsrSpec {
            bit_order: self.bit_order,
            word_bytes: self.word_bytes,
            inverted,
            allow_reducible: !self.polynomial.is_irreducible(),
            ..LfsrSpec::fibonacci(self.polynomial)
        }
    }

    /// Undoes the layout: words as stored become key stream, bit 0 first.
    pub(super) fn to_stream(self, words: &mut [u64]) {
        // Reversing bits and bytes is its own inverse.
        lay_out_words(words, self.bit_order, self.word_bytes, false);
    }
}

const LAYOUTS: [(BitOrder, u8); 8] = [
    (BitOrder::Lsb, 1),
    (BitOrder::Msb, 1),
    (BitOrder::Lsb, 2),
    (BitOrder::Msb, 2),
    (BitOrder::Lsb, 4),
    (BitOrder::Msb, 4),
    (BitOrder::Lsb, 8),
    (BitOrder::Msb, 8),
];

/// Polynomials seen in one layout.
#[derive(Debug, Default)]
struct Votes {
    windows: usize,
    constant: usize,
    polys: Vec<(Poly, usize)>,
}

impl Votes {
    fn take(&mut self, words: &[u64; WINDOW]) -> bool {
        self.windows += 1;
        let mut bits = [0u8; WINDOW * 64];
        for (i, bit) in bits.iter_mut().enumerate() {
            *bit = (words[i / 64] >> (i % 64) & 1) as u8;
        }
        let ones: usize = bits.iter().map(|&b| usize::from(b)).sum();
        if ones <= 4 || ones >= WINDOW * 64 - 4 {
            self.constant += 1;
            return false;
        }
        let found = berlekamp_massey(&bits);
        match found.poly {
            Some(poly) if poly.bits() & 1 == 1 && poly.degree() as usize == found.length => {
                match self.polys.iter_mut().find(|(p, _)| *p == poly) {
                    Some((_, votes)) => *votes += 1,
                    None => self.polys.push((poly, 1)),
                }
                true
            }
            _ => false,
        }
    }

    /// Least common multiple of the polynomials seen, without the factor x + 1 of a complement if
    /// all show it (or, for unknown data, if any does: pages of ones are complements too).
    fn polynomial(&self, unknown: bool) -> Option<(Poly, bool)> {
        let complement = Poly::from_bits(3).expect("degree 1");
        let stripped = |p: Poly| p.div_exact(complement).filter(|q| q.degree() > 0);
        if !self.polys.is_empty() && self.polys.iter().all(|(p, _)| stripped(*p).is_some()) {
            let rest = lcm(self.polys.iter().filter_map(|(p, _)| stripped(*p)))?;
            return Some((rest, true));
        }
        if unknown {
            let all = self.polys.iter().map(|(p, _)| stripped(*p).unwrap_or(*p));
            return lcm(all).map(|p| (p, false));
        }
        lcm(self.polys.iter().map(|(p, _)| *p)).map(|p| (p, false))
    }
}

fn lcm(mut polys: impl Iterator<Item = Poly>) -> Option<Poly> {
    let one = Poly::from_bits(1).expect("degree 0");
    let product = polys.try_fold(one, |sum: Poly, p| {
        let cofactor = p.div_exact(sum.gcd(p))?;
        if sum.degree() + cofactor.degree() > 64 {
            return None;
        }
        let bits = cofactor.exponents().fold(0u128, |bits, e| bits ^ sum.bits() << e);
        Poly::from_bits(bits)
    })?;
    (product.degree() > 0).then_some(product)
}

/// Finds the register, or says that there is none.
pub(super) fn find_generator(pages: &Pages<'_>) -> Result<Layout, InferError> {
    let sample = if pages.unknown() { SAMPLE_PAGES_UNKNOWN } else { SAMPLE_PAGES };
    let step = pages.count.div_ceil(sample).max(1);
    let last = pages.words() - WINDOW;
    let places = [0, last / 3, 2 * last / 3, last];
    let mut best: Option<Layout> = None;
    let (mut windows, mut constant) = (0, 0);
    for (bit_order, word_bytes) in LAYOUTS {
        let layout = Layout { polynomial: Poly::default(), bit_order, word_bytes, inverted: false };
        let mut votes = Votes::default();
        for page in (0..pages.count).step_by(step) {
            for place in places {
                let mut words = [0; WINDOW];
                pages.read(page, place, &mut words);
                layout.to_stream(&mut words);
                votes.take(&words);
            }
        }
        (windows, constant) = (votes.windows, votes.constant);
        if let Some((polynomial, inverted)) = votes.polynomial(pages.unknown())
            && best.is_none_or(|b| polynomial.degree() < b.polynomial.degree())
        {
            best = Some(Layout { polynomial, inverted, ..layout });
        }
    }
    match best {
        Some(layout) => Ok(layout),
        None if constant * 2 > windows && !pages.unknown() => Err(InferError::NotScrambled),
        None => Err(InferError::NotLinear { windows }),
    }
}

/// Unknown data without pages of constant fill: pairs of equal pages still show the register,
/// because their difference is a key stream.
pub(super) fn find_generator_in_differences(pages: &Pages<'_>) -> InferError {
    let count = pages.count.min(PAIR_PAGES);
    let mut windows = 0;
    let mut best: Option<(Poly, usize)> = None;
    for (bit_order, word_bytes) in LAYOUTS {
        let layout = Layout { polynomial: Poly::default(), bit_order, word_bytes, inverted: false };
        let heads: Vec<[u64; WINDOW]> = (0..count)
            .map(|page| {
                let mut words = [0; WINDOW];
                pages.read(page, 0, &mut words);
                layout.to_stream(&mut words);
                words
            })
            .collect();
        let mut votes = Votes::default();
        let mut pairs = 0;
        for (i, a) in heads.iter().enumerate() {
            for b in &heads[i + 1..] {
                pairs += usize::from(votes.take(&core::array::from_fn(|k| a[k] ^ b[k])));
            }
        }
        windows += votes.windows;
        if let Some((polynomial, _)) = votes.polynomial(true)
            && best.is_none_or(|(p, _)| polynomial.degree() < p.degree())
        {
            best = Some((polynomial, pairs));
        }
    }
    match best {
        Some((polynomial, pairs)) => InferError::OnlyDifferences { polynomial, pairs },
        None => InferError::NotLinear { windows },
    }
}
