//! Linear feedback shift registers, bit by bit: the slow twin of the key stream.
//! Room: onefold-code.
//! Source: the characteristic polynomial is `sum c_i x^i` with
//! `s[t+L] = sum over i < L of c_i s[t+i]`; a Fibonacci register holds s[t] .. s[t+L-1] with s[t]
//! in bit 0, a Galois register shifts right and feeds the output bit back through the reversed
//! coefficients.

use serde::{Deserialize, Serialize};

use crate::error::CodeError;
use crate::gf2::{LinearMap, Poly};

/// How the register is wired. Both forms make the same sequences, from different seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The new bit is a sum of taps; output is bit 0, shifting right.
    Fibonacci,
    /// The output bit 0 is added into the taps, shifting right.
    Galois,
}

/// A register with its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lfsr {
    poly: Poly,
    form: Form,
    state: u64,
}

/// Bits of a register of `length` (1 to 64).
pub(crate) fn mask(length: u32) -> u64 {
    u64::MAX >> (64 - length)
}

impl Lfsr {
    /// A register with characteristic polynomial `poly` and first state `seed`.
    ///
    /// # Errors
    /// Refuses degrees outside 1..=64, no constant term, reducible polynomials (their period
    /// depends on the seed), and seeds wider than the register.
    pub fn new(poly: Poly, form: Form, seed: u64) -> Result<Self, CodeError> {
        if poly.degree() >= 1 && poly.bits() & 1 == 1 && !poly.is_irreducible() {
            return Err(CodeError::PolynomialReducible { poly });
        }
        Self::new_any_period(poly, form, seed)
    }

    /// Like [`Lfsr::new`], but takes reducible polynomials too, as some real controllers have.
    ///
    /// # Errors
    /// As [`Lfsr::new`], except for reducible polynomials.
    pub fn new_any_period(poly: Poly, form: Form, seed: u64) -> Result<Self, CodeError> {
        let degree = poly.degree();
        if degree == 0 {
            return Err(CodeError::PolynomialDegree { poly, degree });
        }
        if poly.bits() & 1 == 0 {
            return Err(CodeError::PolynomialSingular { poly });
        }
        if seed & !mask(degree) != 0 {
            return Err(CodeError::SeedTooWide { seed, bits: degree });
        }
        Ok(Self { poly, form, state: seed })
    }

    /// Length of the register in bits.
    pub fn length(&self) -> u32 {
        self.poly.degree()
    }

    /// Current state.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// Puts out one bit and moves on.
    pub fn step(&mut self) -> u8 {
        let (length, out) = (self.length(), self.state & 1);
        let low = self.poly.low();
        match self.form {
            Form::Fibonacci => {
                let feedback = u64::from((self.state & low).count_ones() & 1);
                self.state = (self.state >> 1) | (feedback << (length - 1));
            }
            Form::Galois => {
                let reversed = low.reverse_bits() >> (64 - length);
                self.state = (self.state >> 1) ^ if out == 1 { reversed } else { 0 };
            }
        }
        out as u8
    }

    /// Moves on by `steps` bits in O(length^2 log steps).
    pub fn leap(&mut self, steps: u64) {
        let one = LinearMap::of(self.length(), |state| {
            let mut other = Self { state, ..*self };
            other.step();
            other.state
        });
        self.state = one.power(steps).apply(self.state);
    }
}

/// The linear map from a seed of the register to its next `length` output bits after `warmup`
/// bits: the state of the Fibonacci register that puts out the same.
pub(crate) fn window_map(poly: Poly, form: Form, warmup: u64) -> LinearMap {
    let length = poly.degree();
    LinearMap::of(length, |seed| {
        let mut register = Lfsr { poly, form, state: seed };
        register.leap(warmup);
        (0..length).fold(0, |window, i| window | u64::from(register.step()) << i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poly(text: &str) -> Poly {
        text.parse().unwrap()
    }

    #[test]
    fn refuses_bad_polynomials_and_seeds() {
        let refuse = |text: &str, seed| Lfsr::new(poly(text), Form::Fibonacci, seed).unwrap_err();
        assert!(matches!(refuse("0", 1), CodeError::PolynomialDegree { degree: 0, .. }));
        assert!(matches!(refuse("1", 1), CodeError::PolynomialDegree { .. }));
        assert!(matches!(refuse("x^3 + x", 1), CodeError::PolynomialSingular { .. }));
        assert!(matches!(refuse("x^4 + x^2 + 1", 1), CodeError::PolynomialReducible { .. }));
        assert!(matches!(refuse("x^15 + x + 1", 1 << 15), CodeError::SeedTooWide { bits: 15, .. }));
    }

    #[test]
    fn every_state_of_small_primitive_registers() {
        for (text, form) in [
            ("x^4 + x + 1", Form::Fibonacci),
            ("x^4 + x + 1", Form::Galois),
            ("x^9 + x^4 + 1", Form::Galois),
            ("x + 1", Form::Fibonacci),
        ] {
            let mut register = Lfsr::new(poly(text), form, 1).unwrap();
            let period = (1u64 << register.length()) - 1;
            let mut seen = std::collections::BTreeSet::new();
            while seen.insert(register.state()) {
                register.step();
            }
            assert_eq!((seen.len() as u64, register.state()), (period, 1), "{text} {form:?}");
        }
    }

    #[test]
    fn galois_and_fibonacci_obey_one_recurrence() {
        let poly = poly("x^16 + x^12 + x^3 + x + 1");
        for form in [Form::Fibonacci, Form::Galois] {
            let mut register = Lfsr::new(poly, form, 0xace1).unwrap();
            let bits: Vec<u8> = (0..200).map(|_| register.step()).collect();
            for t in 0..200 - 16 {
                assert_eq!(bits[t + 16], bits[t] ^ bits[t + 1] ^ bits[t + 3] ^ bits[t + 12]);
            }
            let window = window_map(poly, form, 0).apply(0xace1);
            assert!((0..16).all(|i| (window >> i & 1) as u8 == bits[i]));
            let later = window_map(poly, form, 100).apply(0xace1);
            assert!((0..16).all(|i| (later >> i & 1) as u8 == bits[100 + i]));
        }
    }
}
