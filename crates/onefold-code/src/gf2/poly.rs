//! Polynomials over GF(2) of degree up to 64, one bit per coefficient.
//! Room: onefold-code.   In: text or bits.   Out: arithmetic, irreducible, primitive.
//! Source: [lidl-niederreiter] ch. 3 (Rabin's irreducibility test, order of x).

use core::fmt;
use core::str::FromStr;

use crate::error::CodeError;

/// A polynomial over GF(2): bit i of the number is the coefficient of x^i. Degree at most 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Poly(u128);

/// Alias kept short for signatures: parsing fails with [`CodeError::PolynomialText`].
pub type ParsePolyError = CodeError;

impl Poly {
    /// The polynomial with these coefficient bits. `None` above degree 64.
    pub fn from_bits(bits: u128) -> Option<Self> {
        (bits >> 65 == 0).then_some(Self(bits))
    }

    /// The monic polynomial of degree `degree` whose lower coefficients are `low`.
    /// `degree` must be 1 to 64 and `low` must fit below it.
    pub fn monic(degree: u32, low: u64) -> Option<Self> {
        let fits = degree == 64 || low >> degree.min(63) == 0;
        ((1..=64).contains(&degree) && fits).then(|| Self((1u128 << degree) | u128::from(low)))
    }

    /// Coefficient bits.
    pub fn bits(self) -> u128 {
        self.0
    }

    /// Degree; 0 for the constants 0 and 1.
    pub fn degree(self) -> u32 {
        (self.0 | 1).ilog2()
    }

    /// Coefficients below the leading one.
    pub fn low(self) -> u64 {
        (self.0 ^ (1u128 << self.degree())) as u64
    }

    /// Exponents with a coefficient, ascending.
    pub fn exponents(self) -> impl Iterator<Item = u32> {
        (0..=64).filter(move |&i| self.0 >> i & 1 == 1)
    }

    /// The reciprocal polynomial x^degree p(1/x).
    #[must_use]
    pub fn reciprocal(self) -> Self {
        Self(self.0.reverse_bits() >> (127 - self.degree()))
    }

    /// Remainder of `self` by `modulus`, which must not be zero.
    #[must_use]
    pub fn modulo(self, modulus: Self) -> Self {
        assert!(modulus.0 != 0, "remainder by the zero polynomial");
        let (mut a, degree) = (self.0, modulus.degree());
        while a != 0 && Self(a).degree() >= degree {
            if degree == 0 {
                return Self(0);
            }
            a ^= modulus.0 << (Self(a).degree() - degree);
        }
        Self(a)
    }

    /// Exact quotient of `self` by `divisor`, if the division leaves no rest.
    pub fn div_exact(self, divisor: Self) -> Option<Self> {
        if divisor.0 == 0 {
            return None;
        }
        let (mut rest, mut quotient) = (self.0, 0u128);
        while rest != 0 && Self(rest).degree() >= divisor.degree() {
            let shift = Self(rest).degree() - divisor.degree();
            quotient |= 1 << shift;
            rest ^= divisor.0 << shift;
        }
        (rest == 0).then_some(Self(quotient))
    }

    /// Product of `self` and `other` modulo `modulus` (not zero); both must be reduced.
    #[must_use]
    pub fn mul_mod(self, other: Self, modulus: Self) -> Self {
        let (degree, mut a, mut b, mut r) = (modulus.degree(), self.0, other.0, 0u128);
        while b != 0 {
            if b & 1 == 1 {
                r ^= a;
            }
            b >>= 1;
            a <<= 1;
            if a >> degree & 1 == 1 {
                a ^= modulus.0;
            }
        }
        Self(r).modulo(modulus)
    }

    /// x^exponent modulo `self`.
    #[must_use]
    pub fn x_pow(self, exponent: u128) -> Self {
        let mut base = Self(2).modulo(self);
        let (mut result, mut e) = (Self(1).modulo(self), exponent);
        while e != 0 {
            if e & 1 == 1 {
                result = result.mul_mod(base, self);
            }
            base = base.mul_mod(base, self);
            e >>= 1;
        }
        result
    }

    /// Greatest common divisor.
    #[must_use]
    pub fn gcd(self, other: Self) -> Self {
        let (mut a, mut b) = (self, other);
        while b.0 != 0 {
            (a, b) = (b, a.modulo(b));
        }
        a
    }

    /// Whether no polynomial of lower positive degree divides `self` (Rabin's test).
    pub fn is_irreducible(self) -> bool {
        let n = self.degree();
        if n == 0 {
            return false;
        }
        let frobenius = |k: u32| {
            let mut y = Self(2).modulo(self);
            for _ in 0..k {
                y = y.mul_mod(y, self);
            }
            Self(y.0 ^ Self(2).modulo(self).0)
        };
        prime_factors(u128::from(n)).iter().all(|&q| self.gcd(frobenius(n / q as u32)).0 == 1)
            && frobenius(n).0 == 0
    }

    /// Whether x generates every nonzero residue: the register runs through all nonzero states.
    pub fn is_primitive(self) -> bool {
        let order = (1u128 << self.degree()) - 1;
        self.0 & 1 == 1
            && self.is_irreducible()
            && prime_factors(order).iter().all(|&q| order == 1 || self.x_pow(order / q).0 != 1)
    }
}

/// Distinct prime factors of a number below 2^64 (trial division, then Pollard's rho).
fn prime_factors(mut n: u128) -> Vec<u128> {
    let mut found = Vec::new();
    for q in (2u128..1 << 12).take_while(|q| q * q <= 1 << 24) {
        if n.is_multiple_of(q) {
            found.push(q);
            while n.is_multiple_of(q) {
                n /= q;
            }
        }
    }
    split(n, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn split(n: u128, found: &mut Vec<u128>) {
    if n == 1 {
        return;
    }
    if is_prime(n) {
        found.push(n);
        return;
    }
    for c in 1.. {
        let step = |x: u128| (x * x + c) % n;
        let (mut slow, mut fast, mut d) = (2, 2, 1);
        while d == 1 {
            slow = step(slow);
            fast = step(step(fast));
            d = gcd_int(slow.abs_diff(fast), n);
        }
        if d != n {
            split(d, found);
            split(n / d, found);
            return;
        }
    }
}

fn gcd_int(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Miller-Rabin with the bases that are exact below 2^64.
fn is_prime(n: u128) -> bool {
    const BASES: [u128; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 || BASES.iter().any(|&p| n.is_multiple_of(p)) {
        return BASES.contains(&n);
    }
    let s = (n - 1).trailing_zeros();
    let d = (n - 1) >> s;
    let pow = |mut b: u128, mut e: u128| {
        let mut r = 1;
        while e != 0 {
            if e & 1 == 1 {
                r = r * b % n;
            }
            b = b * b % n;
            e >>= 1;
        }
        r
    };
    BASES.iter().all(|&a| {
        let mut x = pow(a, d);
        if x == 1 || x == n - 1 {
            return true;
        }
        (1..s).any(|_| {
            x = x * x % n;
            x == n - 1
        })
    })
}

impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0");
        }
        let mut first = true;
        for i in (0..=64).rev().filter(|i| self.0 >> i & 1 == 1) {
            if !first {
                f.write_str(" + ")?;
            }
            first = false;
            match i {
                0 => f.write_str("1")?,
                1 => f.write_str("x")?,
                _ => write!(f, "x^{i}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Poly {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let bad = || CodeError::PolynomialText { text: text.to_owned() };
        let trimmed = text.trim();
        if let Some(hex) = trimmed.strip_prefix("0x") {
            let bits = u128::from_str_radix(hex, 16).map_err(|_| bad())?;
            return Self::from_bits(bits).ok_or_else(bad);
        }
        let mut bits = 0u128;
        for term in trimmed.split('+').map(str::trim) {
            let exponent: u32 = match term {
                "1" => 0,
                "x" => 1,
                "0" if trimmed == "0" => return Ok(Self(0)),
                _ => term.strip_prefix("x^").and_then(|e| e.parse().ok()).ok_or_else(bad)?,
            };
            if exponent > 64 || bits >> exponent & 1 == 1 {
                return Err(bad());
            }
            bits |= 1 << exponent;
        }
        Ok(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> Poly {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_below_the_leading_coefficient_is_the_rest() {
        assert_eq!(
            ["x^3 + x + 1", "x^15 + x^14 + 1", "1"].map(|text| p(text).low()),
            [3, 0x4001, 0]
        );
        assert_eq!(p("x^64 + x^4 + x^3 + x + 1").low(), 0x1b);
    }

    #[test]
    fn known_polynomials() {
        assert!(p("x^15 + x + 1").is_primitive());
        assert!(p("x^31 + x^28 + 1").is_primitive());
        assert!(p("x^64 + x^4 + x^3 + x + 1").is_primitive());
        assert!(p("x^4 + x^3 + x^2 + x + 1").is_irreducible());
        assert!(!p("x^4 + x^3 + x^2 + x + 1").is_primitive());
        assert!(!p("x^4 + x^2 + 1").is_irreducible());
        assert_eq!(p("0xc001"), p("x^15 + x^14 + 1"));
        assert_eq!(p("0xc001").reciprocal(), p("x^15 + x + 1"));
        assert!("x^65".parse::<Poly>().is_err() && "x^2 + x^2".parse::<Poly>().is_err());
    }

    #[test]
    fn irreducible_agrees_with_trial_division_up_to_degree_10() {
        let mut count = [0; 11];
        for bits in 2u128..1 << 11 {
            let f = Poly(bits);
            let half = 1u128 << (f.degree() / 2 + 1);
            let slow =
                (2..half).all(|d| d >= bits || f.modulo(Poly(d)).0 != 0 || Poly(d).degree() == 0);
            assert_eq!(f.is_irreducible(), slow, "{f}");
            count[f.degree() as usize] += u32::from(slow);
        }
        assert_eq!(count[1..], [2, 1, 2, 3, 6, 9, 18, 30, 56, 99]);
    }

    #[test]
    fn factors_and_primes_agree_with_trial_division() {
        let slow = |n: u128| -> Vec<u128> {
            let prime = |q: u128| (2..q).take_while(|d| d * d <= q).all(|d| !q.is_multiple_of(d));
            (2..=n).filter(|&q| n.is_multiple_of(q) && prime(q)).collect()
        };
        for n in 1..1200 {
            assert_eq!(prime_factors(n), slow(n), "{n}");
            assert_eq!(is_prime(n), slow(n) == [n], "{n}");
        }
        // Beyond the trial division: squares, twins, and numbers that fool single bases.
        for factors in [
            &[4099u128, 4111][..],
            &[4099, 4099, 65_537],
            &[4_294_967_279, 4_294_967_291],
            &[151, 751, 28_351],
            &[1009, 4093, 4099],
            &[16_785_407],
        ] {
            let mut expected = factors.to_vec();
            expected.dedup();
            assert_eq!(prime_factors(factors.iter().product()), expected);
            assert_eq!(is_prime(factors.iter().product()), factors.len() == 1);
        }
        let mersenne = [3, 5, 17, 257, 641, 65_537, 6_700_417];
        assert_eq!(prime_factors((1 << 64) - 1), mersenne);
        assert!(!is_prime(0) && !is_prime(1) && is_prime(2) && is_prime(37) && is_prime(41));
    }

    #[test]
    fn division_and_powers_agree_with_the_definition() {
        for a in 0u128..64 {
            for b in 0u128..64 {
                let product = (0..6).filter(|i| b >> i & 1 == 1).fold(0, |sum, i| sum ^ a << i);
                let (a, b, product) = (Poly(a), Poly(b), Poly(product));
                let quotient = (b.0 != 0).then_some(a);
                assert_eq!(product.div_exact(b), quotient, "{product} / {b}");
                if b.0 > 1 {
                    assert_eq!(Poly(product.0 ^ 1).div_exact(b), None);
                    assert_eq!(Poly(product.0 ^ 1).modulo(b), Poly(1));
                    let reduced = a.modulo(b);
                    assert_eq!(reduced.mul_mod(reduced, b), {
                        let square = (0..6)
                            .filter(|i| reduced.0 >> i & 1 == 1)
                            .fold(0, |sum, i| sum ^ reduced.0 << i);
                        Poly(square).modulo(b)
                    });
                }
                let divisor = a.gcd(b);
                for x in [a, b] {
                    assert!(divisor.0 == 0 || x.modulo(divisor).0 == 0, "{a} {b}");
                }
            }
        }
        let f = p("x^7 + x + 1");
        for e in 0..20 {
            assert_eq!(f.x_pow(e), Poly(1 << e).modulo(f), "x^{e}");
        }
        assert_eq!(Poly(9).modulo(Poly(1)), Poly(0));
    }

    #[test]
    fn degrees_from_1_to_64_are_taken_and_no_others() {
        assert_eq!(Poly::monic(1, 1), Some(Poly(3)));
        assert_eq!(Poly::monic(5, 31), Some(Poly(63)));
        assert_eq!(Poly::monic(63, u64::MAX >> 1), Some(Poly((1 << 64) - 1)));
        assert_eq!(Poly::monic(64, u64::MAX), Some(Poly((1 << 65) - 1)));
        assert_eq!([Poly::monic(0, 0), Poly::monic(65, 1), Poly::monic(5, 32)], [None; 3]);
        assert_eq!(Poly::monic(63, 1 << 63), None);
        assert_eq!(Poly::from_bits((1 << 65) - 1).map(Poly::low), Some(u64::MAX));
        assert_eq!(Poly::from_bits(1 << 65), None);
        assert_eq!((Poly(0).degree(), Poly(1).degree(), Poly(1 << 64).degree()), (0, 0, 64));
        assert_eq!(p("x^64 + x + 1").exponents().collect::<Vec<_>>(), [0, 1, 64]);
        assert_eq!((p("x^64 + 1"), p("0x10000000000000001")), (Poly((1 << 64) + 1), p("1 + x^64")));
        assert!(!p("1").is_irreducible() && p("x").is_irreducible() && p("x + 1").is_primitive());
        assert!(!p("x").is_primitive());
    }

    #[test]
    fn text_round_trip() {
        for bits in [0, 1, 2, 3, 0x1_0000_0000_0000_001b, 0x8003] {
            let f = Poly::from_bits(bits).unwrap();
            assert_eq!(f.to_string().parse::<Poly>().unwrap(), f);
        }
    }
}
