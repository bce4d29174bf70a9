//! The field GF(2^m) by logarithms.
//! Room: onefold-code.
//! Cost: tables of 3 * 2^m * 2 bytes.

use crate::error::CodeError;
use crate::gf2::Poly;

/// Logarithm and exponential tables of a field with primitive element x.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// Order of the multiplicative group, 2^m - 1.
    pub(super) order: usize,
    /// exp[i] = x^i for i below 2 * order.
    pub(super) exp: Vec<u16>,
    log: Vec<u16>,
}

impl Field {
    pub(super) fn new(poly: Poly) -> Result<Self, CodeError> {
        let m = poly.degree();
        if !(3..=15).contains(&m) || !poly.is_primitive() {
            return Err(CodeError::Field {
                field: "field polynomial",
                value: poly.to_string(),
                accepted: "primitive polynomials of degree 3 to 15",
            });
        }
        let order = (1usize << m) - 1;
        let (mut exp, mut log) = (vec![0u16; 2 * order], vec![0u16; order + 1]);
        let mut x = 1u32;
        for i in 0..order {
            exp[i] = x as u16;
            exp[i + order] = x as u16;
            log[x as usize] = i as u16;
            x <<= 1;
            if x >> m & 1 == 1 {
                x ^= poly.bits() as u32;
            }
        }
        Ok(Self { order, exp, log })
    }

    /// Logarithm of a nonzero element.
    #[inline]
    pub(super) fn log(&self, a: u16) -> usize {
        debug_assert!(a != 0);
        usize::from(self.log[usize::from(a)])
    }

    #[inline]
    pub(super) fn mul(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 { 0 } else { self.exp[self.log(a) + self.log(b)] }
    }

    /// a / b, b not zero.
    #[inline]
    pub(super) fn div(&self, a: u16, b: u16) -> u16 {
        if a == 0 { 0 } else { self.exp[self.log(a) + self.order - self.log(b)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_polynomials_and_quotients_undo_them() {
        for bits in [0b1011, 0b1_0011, 0b10_0101] {
            let poly = Poly::from_bits(bits).unwrap();
            let field = Field::new(poly).unwrap();
            let all = 0..=field.order as u16;
            let element = |a: u16| Poly::from_bits(a.into()).unwrap();
            for (a, b) in all.clone().flat_map(|a| all.clone().map(move |b| (a, b))) {
                let product = field.mul(a, b);
                assert_eq!(element(product), element(a).mul_mod(element(b), poly), "{a} {b}");
                if b != 0 {
                    assert_eq!(field.div(product, b), a, "{product} / {b}");
                    assert_eq!(field.exp[field.log(b)], b);
                }
            }
        }
    }

    #[test]
    fn degrees_from_3_to_15_are_accepted() {
        let new = |text: &str| Field::new(text.parse().unwrap()).is_ok();
        assert!(new("x^3 + x + 1") && new("x^15 + x + 1"));
        assert!(!new("x^2 + x + 1") && !new("x^16 + x^5 + x^3 + x^2 + 1"));
        assert!(!new("x^4 + x^3 + x^2 + x + 1"), "irreducible, not primitive");
    }
}
