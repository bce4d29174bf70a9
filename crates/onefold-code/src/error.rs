//! Errors of codes and scramblers: every one names the argument and what is accepted.
//! Room: onefold-code.

use crate::gf2::Poly;

/// What can be wrong with the description of a scrambler or a code, or with a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// The polynomial has no feedback at all.
    #[error("polynomial: {poly} has degree {degree}; accepted: degree 1 to 64")]
    PolynomialDegree {
        /// The refused polynomial.
        poly: Poly,
        /// Its degree (0 for constants).
        degree: u32,
    },
    /// The constant term is zero, so the register forgets its state.
    #[error("polynomial: {poly} has no constant term; accepted: polynomials with a term 1")]
    PolynomialSingular {
        /// The refused polynomial.
        poly: Poly,
    },
    /// The polynomial factors, so the period depends on the seed.
    #[error(
        "polynomial: {poly} is reducible; accepted: irreducible polynomials, or set allow_reducible"
    )]
    PolynomialReducible {
        /// The refused polynomial.
        poly: Poly,
    },
    /// Text that is not a polynomial.
    #[error("polynomial: cannot read {text:?}; accepted: like \"x^15 + x^14 + 1\" or \"0xc001\"")]
    PolynomialText {
        /// The text given.
        text: String,
    },
    /// A seed wider than the register.
    #[error("seed: {seed:#x} does not fit in {bits} bits")]
    SeedTooWide {
        /// The seed given.
        seed: u64,
        /// Length of the register in bits.
        bits: u32,
    },
    /// A field of a scrambler description that makes no sense.
    #[error("{field}: {value} is not accepted; accepted: {accepted}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value given.
        value: String,
        /// What would have been accepted.
        accepted: &'static str,
    },
    /// A scrambler file that is not TOML or lacks fields.
    #[error("scrambler file: {reason}")]
    SpecText {
        /// What the parser said, with line and column.
        reason: String,
    },
    /// A preset that does not exist.
    #[error("preset: {name:?} is unknown; accepted: {accepted}")]
    UnknownPreset {
        /// Name asked for.
        name: String,
        /// Every known name.
        accepted: String,
    },
    /// The seed rule of an inferred scrambler says nothing about this address.
    #[error(
        "address: {address:#x} is outside what the seed rule covers (base {base:#x}, \
         mask {mask:#x})"
    )]
    AddressNotCovered {
        /// Address asked for.
        address: u64,
        /// Value of the bits outside the mask.
        base: u64,
        /// Address bits that the rule knows.
        mask: u64,
    },
    /// A self-seeded page is read without the seed that was stored with it.
    #[error("seed: a self-seeded page needs the seed stored with it; none was given")]
    SeedNotStored,
    /// The host cannot undo a scrambler whose seed it cannot know.
    #[error(
        "seed source: the host cannot scramble ahead for {source_name}; accepted: lba, because \
         only the logical address is known to the host and kept by a move"
    )]
    HostCannotKnowSeed {
        /// The refused source.
        source_name: &'static str,
    },
    /// A buffer of the wrong length.
    #[error("{what}: {got} bytes given; accepted: {accepted} bytes")]
    Length {
        /// Which argument.
        what: &'static str,
        /// Length given in bytes.
        got: usize,
        /// Length accepted in bytes.
        accepted: usize,
    },
    /// The page is not a whole number of codewords.
    #[error(
        "page size: {page} bytes is not a positive multiple of the codeword data, {codeword} bytes"
    )]
    PageSize {
        /// Page size given in bytes.
        page: usize,
        /// Data bytes of one codeword.
        codeword: usize,
    },
    /// The parity part of a parity-check matrix cannot be inverted.
    #[error(
        "parity circulants: not invertible; accepted: a parity part of full rank (for one \
         circulant: no common factor with x^{size}+1)"
    )]
    NotInvertible {
        /// Bits of one circulant.
        size: usize,
    },
    /// No code with these parameters exists or was found.
    #[error("code: {reason}")]
    NoSuchCode {
        /// What is impossible and why.
        reason: String,
    },
}
