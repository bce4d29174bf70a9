//! The codes that have names.
//! Room: onefold-code.
//! Source: `ses-33x256` is the form of [ses-dedup] sec. IV: 33 circulants of 256 bits in one row,
//! weight 3; the others are designed here. The seeds were picked by the example `design`, which
//! prints the table in docs/codes.md.

use super::code::QcLdpc;
use super::design::Shape;
use crate::error::CodeError;

/// Names that [`ldpc_by_name`] knows: data KiB per codeword and rate.
pub const LDPC_NAMES: [&str; 10] = [
    "ses-33x256",
    "qc-1k-32/33",
    "qc-2k-32/33",
    "qc-4k-32/33",
    "qc-1k-15/16",
    "qc-2k-15/16",
    "qc-4k-15/16",
    "qc-1k-8/9",
    "qc-2k-8/9",
    "qc-4k-8/9",
];

/// The code called `name`, designed anew (tens of milliseconds).
///
/// # Errors
/// [`CodeError::NoSuchCode`] with the list of names.
pub fn ldpc_by_name(name: &str) -> Result<QcLdpc, CodeError> {
    let shape =
        |rows, data_blocks, weight, seed| Shape { circulant: 64, rows, data_blocks, weight, seed };
    let shape = match name {
        "ses-33x256" => Shape { circulant: 256, rows: 1, data_blocks: 32, weight: 3, seed: 3 },
        "qc-1k-32/33" => shape(4, 128, 3, 3),
        "qc-2k-32/33" => shape(8, 256, 4, 1),
        "qc-4k-32/33" => shape(16, 512, 4, 1),
        "qc-1k-15/16" => shape(9, 128, 4, 1),
        "qc-2k-15/16" => shape(17, 256, 4, 1),
        "qc-4k-15/16" => shape(34, 512, 4, 1),
        "qc-1k-8/9" => shape(16, 128, 4, 1),
        "qc-2k-8/9" => shape(32, 256, 4, 1),
        "qc-4k-8/9" => shape(64, 512, 4, 1),
        _ => {
            return Err(CodeError::NoSuchCode {
                reason: format!("{name:?} is unknown; accepted: {}", LDPC_NAMES.join(", ")),
            });
        }
    };
    QcLdpc::design(name, shape)
}
