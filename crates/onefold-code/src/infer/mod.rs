//! Recovery of a scrambler from a raw dump: register, bit layout, restarts and seed rule.
//! Room: onefold-code.   In: dump, what was written, first address.   Out: `Inference`.
//! Source: [ses-dedup] sec. III (write known data, dump the chips, infer); [zandwijk-15] for
//! unknown data; the steps and their limits are in docs/scramblers.md.
//! Invariants: nothing is reported that was not checked on pages that it was not derived from.

mod generator;
mod make;
mod report;
mod ring;
mod seed_rule;
mod states;

pub use make::DumpMaker;
pub use report::{InferError, Inference, SeedRuleKind};

use generator::{find_generator, find_generator_in_differences};
use ring::recover_ring;
use seed_rule::fit_seed_rule;
use states::{PageStates, recover_states};

use crate::scramble::{GeneratorSpec, ScramblerSpec, SeedSource};

/// What is known of the data that the dumped pages were written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<'a> {
    /// Every page was written with zeros.
    Zeros,
    /// These bytes: one page, written to every address, or all pages one after another.
    Bytes(&'a [u8]),
    /// Nothing: works as far as pages of constant fill are in the dump.
    Unknown,
}

/// How to read a dump.
#[derive(Debug, Clone, Copy)]
pub struct InferOptions<'a> {
    /// Data bytes of a page; at least 64.
    pub page_size: usize,
    /// Bytes after the data of each page, which are skipped.
    pub oob: usize,
    /// What the pages were written with.
    pub known: Known<'a>,
    /// Address of the first page; the others follow by one.
    pub first_address: u64,
    /// What the addresses are, for the description; a dump cannot tell.
    pub seed_source: SeedSource,
}

impl InferOptions<'_> {
    /// Pages of `page_size` bytes written with zeros from logical address 0.
    pub fn zeros(page_size: usize) -> Self {
        Self {
            page_size,
            oob: 0,
            known: Known::Zeros,
            first_address: 0,
            seed_source: SeedSource::Lba,
        }
    }
}

/// Smallest page: two windows of 256 bits.
const PAGE_MIN: usize = 64;
/// Fewest pages that say anything about a seed rule.
const PAGES_MIN: usize = 4;

/// Pages of a dump with what was written taken off.
pub(crate) struct Pages<'a> {
    dump: &'a [u8],
    options: InferOptions<'a>,
    pub(crate) count: usize,
}

impl<'a> Pages<'a> {
    fn new(dump: &'a [u8], options: InferOptions<'a>) -> Result<Self, InferError> {
        let InferOptions { page_size, oob, known, .. } = options;
        if page_size < PAGE_MIN {
            return Err(InferError::PageSize { got: page_size, accepted: PAGE_MIN });
        }
        let stride = page_size + oob;
        if dump.is_empty() || !dump.len().is_multiple_of(stride) {
            return Err(InferError::DumpLength { got: dump.len(), page: stride });
        }
        let count = dump.len() / stride;
        if let Known::Bytes(bytes) = known
            && bytes.len() != page_size
            && bytes.len() != count * page_size
        {
            return Err(InferError::KnownLength {
                got: bytes.len(),
                page: page_size,
                all: count * page_size,
            });
        }
        if count < PAGES_MIN {
            return Err(InferError::TooFewPages { pages: count, needed: PAGES_MIN });
        }
        Ok(Self { dump, options, count })
    }

    /// Whole words of a page.
    pub(crate) fn words(&self) -> usize {
        self.options.page_size / 8
    }

    pub(crate) fn address(&self, page: usize) -> u64 {
        self.options.first_address.wrapping_add(page as u64)
    }

    pub(crate) fn unknown(&self) -> bool {
        self.options.known == Known::Unknown
    }

    /// Words `from..from + out.len()` of the key stream of a page as the dump has it, still in
    /// the byte order of the flash.
    pub(crate) fn read(&self, page: usize, from: usize, out: &mut [u64]) {
        let size = self.options.page_size;
        let at = page * (size + self.options.oob) + from * 8;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let stored = self.dump[at..at + out.len() * 8].chunks_exact(8);
        out.iter_mut().zip(stored).for_each(|(o, bytes)| *o = word(bytes));
        if let Known::Bytes(known) = self.options.known {
            let start = if known.len() == size { 0 } else { page * size } + from * 8;
            let written = known[start..start + out.len() * 8].chunks_exact(8);
            out.iter_mut().zip(written).for_each(|(o, bytes)| *o ^= word(bytes));
        }
    }
}

/// Finds the scrambler behind a dump of pages at consecutive addresses.
///
/// # Errors
/// [`InferError`]: for input that cannot be read ([`InferError::is_bad_input`]), or when no
/// linear generator and seed rule explains the dump.
pub fn infer(dump: &[u8], options: InferOptions<'_>) -> Result<Inference, InferError> {
    let pages = Pages::new(dump, options)?;
    let generator = match find_generator(&pages) {
        Err(InferError::NotLinear { .. }) if pages.unknown() => {
            return Err(find_generator_in_differences(&pages));
        }
        other => other?,
    };
    let (spec, found) = match recover_states(&pages, &generator) {
        Ok(found) => (GeneratorSpec::Lfsr(generator.register(found.inverted)), found),
        Err(error) => recover_ring(&pages, &generator).ok_or(error)?,
    };
    let rule = fit_seed_rule(&found, generator.polynomial)?;
    Ok(inference(&pages, spec, generator.polynomial.degree(), &found, rule))
}

fn inference(
    pages: &Pages<'_>,
    generator: GeneratorSpec,
    length: u32,
    found: &PageStates,
    rule: seed_rule::SeedRule,
) -> Inference {
    let spec = ScramblerSpec {
        name: "inferred".into(),
        seed_source: pages.options.seed_source,
        restart_bytes: found.restart_bytes,
        generator,
        seed_map: rule.map,
    };
    Inference {
        spec,
        rule: rule.kind,
        pages_in_dump: pages.count,
        pages_explained: found.explained,
        pages_needed: rule.pages_needed,
        pages_verified: rule.pages_verified,
        bits_checked: found.bits_checked,
        bit_errors: found.bit_errors,
        chance_log2: -(f64::from(length) * rule.pages_verified as f64),
    }
}
