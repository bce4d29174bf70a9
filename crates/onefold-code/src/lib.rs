//! Craft: GF(2) algebra, LFSR scramblers and their recovery, LDPC and BCH codes, fingerprints from
//! parity.
//! Room: onefold-code.   In: pages and dumps as byte slices.   Out: scrambled pages, parity,
//! corrected data, fingerprints, descriptions of scramblers.
//! Invariants: pure functions of their arguments: no files, no clock, no threads.

pub mod gf2;

mod bch;
mod clmul;
#[cfg(target_arch = "x86_64")]
mod clmul_x86;
mod cpu;
mod crc64;
mod error;
mod fingerprint;
pub mod infer;
mod ldpc;
mod page_code;
mod rng;
mod scramble;

pub use bch::Bch;
pub use cpu::Kernel;
pub use crc64::crc64;
pub use error::CodeError;
pub use fingerprint::{KEPT_BYTES, ParityFingerprint, Truncation};
pub use ldpc::{
    Decoded, DistanceReport, Entry, LDPC_NAMES, LdpcDecoder, QcLdpc, Shape, ldpc_by_name,
};
pub use page_code::{PageCode, PageCodec, PageStatus};
pub use rng::Rng;
pub use scramble::{
    BitOrder, Form, GeneratorSpec, Lfsr, LfsrSpec, PRESET_NAMES, PageAddress, Scrambler,
    ScramblerSpec, SeedMap, SeedSource, preset,
};
