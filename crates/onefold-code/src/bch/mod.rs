//! Binary BCH codes: the hard-decision rival of LDPC in the same parity budget.
//! Room: onefold-code.   In: data bytes.   Out: parity bytes, corrected data.
//! Invariants: every pattern of up to t errors is corrected.

mod code;
mod decode;
mod field;

pub use code::Bch;
