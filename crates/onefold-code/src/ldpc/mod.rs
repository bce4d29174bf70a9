//! Quasi-cyclic LDPC codes: construction, encoding, decoding, and what they are worth.
//! Room: onefold-code.   In: data bytes.   Out: parity bytes, corrected data.
//! Source: [ses-dedup] sec. IV (1 KiB codeword, rate 32/33); construction in `design`.

mod code;
mod decoder;
mod design;
mod distance;
mod flip;
mod minsum;
#[cfg(target_arch = "x86_64")]
mod minsum_x86;
mod named;
mod sparse;
#[cfg(target_arch = "x86_64")]
mod sparse_x86;

pub use code::QcLdpc;
pub use decoder::{Decoded, LdpcDecoder};
pub use design::{Entry, Shape};
pub use distance::DistanceReport;
pub use named::{LDPC_NAMES, ldpc_by_name};
