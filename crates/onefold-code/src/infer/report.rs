//! What recovery says: the findings with their evidence, or why there are none.
//! Room: onefold-code.

use core::fmt;

use crate::gf2::Poly;
use crate::scramble::{GeneratorSpec, ScramblerSpec, SeedMap};

/// How the seed follows from the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SeedRuleKind {
    /// Every page has the same seed.
    Constant,
    /// A linear map over GF(2) of so many address bits, and a constant.
    Linear {
        /// Address bits that vary in the dump.
        address_bits: u32,
    },
    /// A table that repeats.
    Table {
        /// Addresses after which it repeats.
        period: u64,
    },
}

/// A recovered scrambler and the evidence for it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Inference {
    /// The scrambler, in canonical form: a Fibonacci register without warm-up, whose seed is its
    /// first bits of output.
    pub spec: ScramblerSpec,
    /// Kind of seed rule.
    pub rule: SeedRuleKind,
    /// Pages in the dump.
    pub pages_in_dump: usize,
    /// Pages that the register explains.
    pub pages_explained: usize,
    /// Pages that the seed rule was derived from.
    pub pages_needed: usize,
    /// Other pages, whose seeds the rule predicted correctly.
    pub pages_verified: usize,
    /// Bits compared with the recovered key stream.
    pub bits_checked: u64,
    /// Of these, bits that differ: the raw bit errors of the dump.
    pub bit_errors: u64,
    /// Logarithm to base 2 of the chance that unrelated seeds would pass the verification.
    pub chance_log2: f64,
}

impl Inference {
    /// Raw bit error rate of the dump.
    pub fn raw_bit_error_rate(&self) -> f64 {
        self.bit_errors as f64 / (self.bits_checked.max(1)) as f64
    }
}

impl fmt::Display for Inference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (register, ring) = match self.spec.generator {
            GeneratorSpec::Lfsr(register) => (Some(register), None),
            GeneratorSpec::Ring { register, ring_bytes, .. } => (Some(register), Some(ring_bytes)),
            GeneratorSpec::AddRotate { .. } => (None, None),
        };
        if let Some(register) = register {
            writeln!(f, "register length      {}", register.polynomial.degree())?;
            writeln!(f, "polynomial           {}", register.polynomial)?;
            let order = if register.bit_order == crate::BitOrder::Lsb { "least" } else { "most" };
            writeln!(f, "bit order            {order} significant first")?;
            match register.word_bytes {
                1 => writeln!(f, "byte order           as stored")?,
                n => writeln!(f, "byte order           reversed in words of {n} bytes")?,
            }
            if register.inverted {
                writeln!(f, "key stream           complemented")?;
            }
        }
        if let Some(bytes) = ring {
            writeln!(f, "ring                 {bytes} bytes; the seed is the first byte used")?;
        }
        match self.spec.restart_bytes {
            0 => writeln!(f, "restarts             never within a page")?,
            n => writeln!(f, "restarts             every {n} bytes")?,
        }
        match (&self.spec.seed_map, self.rule) {
            (_, SeedRuleKind::Constant) => {
                writeln!(f, "seed                 the same for all pages")?;
            }
            (SeedMap::Linear { mask, base, .. }, SeedRuleKind::Linear { address_bits }) => {
                writeln!(
                    f,
                    "seed                 linear in {address_bits} address bits (mask {mask:#x}, \
                 base {base:#x})"
                )?;
            }
            (_, SeedRuleKind::Table { period }) => {
                writeln!(f, "seed                 table with a period of {period} pages")?;
            }
            _ => {}
        }
        writeln!(
            f,
            "pages                {} in the dump, {} explained, {} needed, {} verified",
            self.pages_in_dump, self.pages_explained, self.pages_needed, self.pages_verified
        )?;
        writeln!(
            f,
            "raw bit error rate   {:.2e} ({} of {} bits)",
            self.raw_bit_error_rate(),
            self.bit_errors,
            self.bits_checked
        )?;
        write!(f, "odds of chance       below 2^{:.0}", self.chance_log2)
    }
}

/// Why no scrambler is reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The page size is too small to see anything.
    #[error("page size: {got} bytes; accepted: at least {accepted}")]
    PageSize {
        /// Page size given.
        got: usize,
        /// Smallest accepted.
        accepted: usize,
    },
    /// The dump is not a whole number of pages.
    #[error("dump: {got} bytes; accepted: a positive multiple of page size + oob, {page} bytes")]
    DumpLength {
        /// Bytes given.
        got: usize,
        /// Bytes of a page with its out-of-band area.
        page: usize,
    },
    /// The known data fit neither one page nor all pages.
    #[error("known data: {got} bytes; accepted: {page} (one page) or {all} (every page)")]
    KnownLength {
        /// Bytes given.
        got: usize,
        /// Bytes of one page.
        page: usize,
        /// Bytes of all pages.
        all: usize,
    },
    /// Too few pages to derive and verify a seed rule.
    #[error("dump: {pages} usable pages are too few; accepted: at least {needed}")]
    TooFewPages {
        /// Pages that could be used.
        pages: usize,
        /// Pages that would do.
        needed: usize,
    },
    /// The pages hold what was written: there is no scrambler.
    #[error("the dump holds the data as written: it is not scrambled")]
    NotScrambled,
    /// No register of up to 64 bits makes the key stream.
    #[error(
        "no linear generator of up to 64 bits explains the dump ({windows} windows of 256 bits \
         tried in 8 bit and byte orders); is the known data right?"
    )]
    NotLinear {
        /// Windows tried.
        windows: usize,
    },
    /// A register was found, but too many pages do not follow it.
    #[error(
        "contradictory dump: {unexplained} of {pages} pages do not follow the register \
         {polynomial}, the first is page {first}; is the known data right for every page?"
    )]
    Contradictory {
        /// The register.
        polynomial: Poly,
        /// First page that does not follow it, from 0.
        first: usize,
        /// How many do not.
        unexplained: usize,
        /// Pages in the dump.
        pages: usize,
    },
    /// The register was found, but its seeds follow no rule that is known here.
    #[error(
        "the register is {polynomial}, but the seeds of {pages} pages are neither linear in the \
         address nor a table seen to repeat; a longer dump may show the period"
    )]
    NoSeedRule {
        /// The register.
        polynomial: Poly,
        /// Pages with a known seed.
        pages: usize,
    },
    /// Unknown data: equal pages give the register, but not the seeds.
    #[error(
        "the register is {polynomial} (from {pairs} pairs of equal pages), but without known data \
         or pages of constant fill the seeds stay unknown by a constant; give the known data"
    )]
    OnlyDifferences {
        /// The register.
        polynomial: Poly,
        /// Pairs of pages that showed it.
        pairs: usize,
    },
}

impl InferError {
    /// Whether the input could not be used at all (as against: no scrambler was found in it).
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::PageSize { .. }
                | Self::DumpLength { .. }
                | Self::KnownLength { .. }
                | Self::TooFewPages { .. }
        )
    }
}
