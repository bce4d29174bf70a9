//! The codes that have names.
//! Room: onefold-code.
//! Source: `ses-33x256` is the form of [ses-dedup] sec. IV: 33 circulants of 256 bits in one row,
//! weight 3; the others are designed here. The seeds were picked by the example `design`, which
//! prints the table in docs/codes.md.

use std::sync::OnceLock;

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

/// Those that were asked for, in the order of their names. A drive asks for its code several times
/// while it is opened.
static DESIGNED: [OnceLock<QcLdpc>; LDPC_NAMES.len()] =
    [const { OnceLock::new() }; LDPC_NAMES.len()];

/// The code called `name`: designed when it is first asked for (tens of milliseconds), copied after
/// that.
///
/// # Errors
/// [`CodeError::NoSuchCode`] with the list of names.
pub fn ldpc_by_name(name: &str) -> Result<QcLdpc, CodeError> {
    let place = LDPC_NAMES.iter().position(|&known| known == name);
    let (Some(place), Some(shape)) = (place, shape_of(name)) else {
        return Err(CodeError::NoSuchCode {
            reason: format!("{name:?} is unknown; accepted: {}", LDPC_NAMES.join(", ")),
        });
    };
    let place = &DESIGNED[place];
    if let Some(code) = place.get() {
        return Ok(code.clone());
    }
    let code = QcLdpc::design(name, shape)?;
    Ok(place.get_or_init(|| code).clone())
}

/// The shape of a code with a name.
fn shape_of(name: &str) -> Option<Shape> {
    let shape =
        |rows, data_blocks, weight, seed| Shape { circulant: 64, rows, data_blocks, weight, seed };
    Some(match name {
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
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_what_is_designed_under_the_name() {
        for name in LDPC_NAMES {
            let designed = QcLdpc::design(name, shape_of(name).unwrap()).unwrap();
            for _ in 0..2 {
                let copy = ldpc_by_name(name).unwrap();
                assert_eq!(format!("{copy:?}"), format!("{designed:?}"));
            }
        }
    }
}
