//! What makes the key stream: the description of a generator, as written in scrambler files.
//! Room: onefold-code.

use serde::{Deserialize, Serialize};

use super::lfsr::{Form, Lfsr, mask};
use super::text::{hex, poly};
use crate::error::CodeError;
use crate::gf2::Poly;

/// Which bit of a byte the first key stream bit meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitOrder {
    /// The least significant bit first.
    Lsb,
    /// The most significant bit first.
    Msb,
}

/// A linear feedback shift register and how its bits are laid into bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LfsrSpec {
    /// Characteristic polynomial, degree 1 to 64, constant term 1.
    #[serde(with = "poly")]
    pub polynomial: Poly,
    /// Wiring, which decides what a seed means.
    pub form: Form,
    /// Order of the bits in a byte.
    pub bit_order: BitOrder,
    /// Bytes are reversed within words of this many bytes: 1 (not at all), 2, 4 or 8.
    pub word_bytes: u8,
    /// Bits that the register throws away after loading the seed.
    pub warmup_bits: u32,
    /// Whether the key stream is complemented.
    pub inverted: bool,
    /// Whether a polynomial that factors is accepted.
    pub allow_reducible: bool,
}

impl LfsrSpec {
    /// A Fibonacci register, least significant bit first, no warm-up.
    pub fn fibonacci(polynomial: Poly) -> Self {
        Self {
            polynomial,
            form: Form::Fibonacci,
            bit_order: BitOrder::Lsb,
            word_bytes: 1,
            warmup_bits: 0,
            inverted: false,
            allow_reducible: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CodeError> {
        let new = if self.allow_reducible { Lfsr::new_any_period } else { Lfsr::new };
        new(self.polynomial, self.form, 0)?;
        if ![1, 2, 4, 8].contains(&self.word_bytes) {
            return Err(CodeError::Field {
                field: "generator.word_bytes",
                value: self.word_bytes.to_string(),
                accepted: "1, 2, 4 or 8",
            });
        }
        Ok(())
    }
}

/// What makes the key stream from a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GeneratorSpec {
    /// A register loaded with the seed of the page.
    Lfsr(LfsrSpec),
    /// A fixed ring of key stream bytes, made once from one register; the seed of the page is the
    /// byte at which it starts, and it wraps around.
    Ring {
        /// The register that fills the ring.
        register: LfsrSpec,
        /// What the register is loaded with.
        #[serde(with = "hex")]
        ring_seed: u64,
        /// Bytes of the ring, a positive multiple of 8.
        ring_bytes: u32,
    },
    /// 32-bit words; after each, add `increment` and rotate left. Not linear: it cannot be
    /// recovered from a dump, and parity corrections cost a whole encoding.
    AddRotate {
        /// Added after each word.
        increment: u32,
        /// Bits to rotate left after adding.
        rotate: u32,
    },
}

impl GeneratorSpec {
    /// Bits of a seed.
    pub fn seed_bits(&self) -> u32 {
        match self {
            Self::Lfsr(register) => register.polynomial.degree(),
            Self::Ring { ring_bytes, .. } => 32 - (ring_bytes.max(&2) - 1).leading_zeros(),
            Self::AddRotate { .. } => 32,
        }
    }

    /// Whether the key stream is a linear map of the seed, up to a constant.
    pub fn is_linear(&self) -> bool {
        matches!(self, Self::Lfsr(_))
    }

    pub(crate) fn check(&self) -> Result<(), CodeError> {
        match self {
            Self::Lfsr(register) => register.check(),
            Self::AddRotate { .. } => Ok(()),
            &Self::Ring { register, ring_seed, ring_bytes } => {
                register.check()?;
                let bits = register.polynomial.degree();
                if ring_seed & !mask(bits) != 0 {
                    return Err(CodeError::SeedTooWide { seed: ring_seed, bits });
                }
                if ring_bytes == 0 || ring_bytes % 8 != 0 || ring_bytes > 1 << 24 {
                    return Err(CodeError::Field {
                        field: "generator.ring_bytes",
                        value: ring_bytes.to_string(),
                        accepted: "a positive multiple of 8 up to 16 MiB",
                    });
                }
                Ok(())
            }
        }
    }
}
