//! What is said of a value that was to be a whole number. The parser's own words are those of a
//! programmer: "invalid digit found in string".
//! Room: onefold.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ErrorKind};

/// The same mistake in words for whoever typed it; any other error is left as it is.
pub fn in_plain_words(error: clap::Error) -> clap::Error {
    let Some(source) = error.source() else { return error };
    let said = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (value, of) = (said(ContextKind::InvalidValue), said(ContextKind::InvalidArg));
    let wanted = if let Some(why) = source.downcast_ref::<ParseIntError>() {
        match why.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            IntErrorKind::NegOverflow => "the number is too small",
            _ if value.starts_with('-') => "it must be a whole number of 0 or more",
            _ => "it must be a whole number",
        }
    } else if source.is::<ParseFloatError>() {
        "it must be a number"
    } else {
        return error;
    };
    clap::Error::raw(
        ErrorKind::ValueValidation,
        format!(
            "invalid value '{value}' for '{of}': {wanted}\n\nFor more information, try '--help'.\n"
        ),
    )
}
