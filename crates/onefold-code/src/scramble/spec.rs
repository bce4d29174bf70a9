//! The description of a scrambler: what scrambler files hold.
//! Room: onefold-code.   In: TOML text.   Out: `ScramblerSpec`, `Scrambler`.

use serde::{Deserialize, Serialize};

use super::address::{PageAddress, SeedMap, SeedSource};
use super::generator::{GeneratorSpec, LfsrSpec};
use super::lfsr::{Form, window_map};
use super::scrambler::Scrambler;
use crate::error::CodeError;

/// A scrambler in words: generator, seed source, seed map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScramblerSpec {
    /// A name for people.
    pub name: String,
    /// What the seed is made from.
    pub seed_source: SeedSource,
    /// The generator starts again from the page's seed every so many bytes; 0 for never.
    pub restart_bytes: u32,
    /// What makes the key stream from the seed.
    pub generator: GeneratorSpec,
    /// How the address becomes the seed.
    pub seed_map: SeedMap,
}

impl ScramblerSpec {
    /// A Fibonacci register seeded with the low address bits xored with `constant`.
    ///
    /// # Errors
    /// As [`ScramblerSpec::check`].
    pub fn lba_lfsr(polynomial: crate::gf2::Poly, constant: u64) -> Result<Self, CodeError> {
        let spec = Self {
            name: format!("lba-lfsr{}", polynomial.degree()),
            seed_source: SeedSource::Lba,
            restart_bytes: 0,
            generator: GeneratorSpec::Lfsr(LfsrSpec::fibonacci(polynomial)),
            seed_map: SeedMap::address_bits(polynomial.degree(), constant),
        };
        spec.check()?;
        Ok(spec)
    }

    /// Whether the description makes sense.
    ///
    /// # Errors
    /// A [`CodeError`] that names the field and what is accepted.
    pub fn check(&self) -> Result<(), CodeError> {
        self.generator.check()?;
        self.seed_map.check(self.generator.seed_bits())
    }

    /// Text of a scrambler file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field of a description has a TOML form")
    }

    /// Reads the text of a scrambler file and checks it.
    ///
    /// # Errors
    /// [`CodeError::SpecText`] with line and column, or what [`ScramblerSpec::check`] refuses.
    pub fn from_toml(text: &str) -> Result<Self, CodeError> {
        let spec: Self = toml::from_str(text)
            .map_err(|e| CodeError::SpecText { reason: e.to_string().trim_end().to_owned() })?;
        spec.check()?;
        Ok(spec)
    }

    /// Builds the tables that scrambling needs (tens of KiB, tens of microseconds).
    ///
    /// # Errors
    /// As [`ScramblerSpec::check`].
    pub fn compile(&self) -> Result<Scrambler, CodeError> {
        Scrambler::new(self)
    }

    /// Scrambles one page. For many pages, [`ScramblerSpec::compile`] once.
    ///
    /// # Errors
    /// As [`ScramblerSpec::check`] and [`Scrambler::scramble`].
    pub fn scramble(
        &self,
        address: impl Into<PageAddress>,
        page: &mut [u8],
    ) -> Result<u64, CodeError> {
        self.compile()?.scramble(&address.into(), page)
    }

    /// The same scrambler written with a Fibonacci register without warm-up, so that equal
    /// scramblers have equal descriptions. Other generators are left as they are.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let GeneratorSpec::Lfsr(register) = self.generator else {
            return self.clone();
        };
        let to_window =
            window_map(register.polynomial, register.form, u64::from(register.warmup_bits));
        Self {
            generator: GeneratorSpec::Lfsr(LfsrSpec {
                form: Form::Fibonacci,
                warmup_bits: 0,
                allow_reducible: !register.polynomial.is_irreducible(),
                ..register
            }),
            seed_map: self.seed_map.mapped(|seed| to_window.apply(seed)),
            ..self.clone()
        }
    }
}
