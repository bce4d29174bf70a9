//! How a person wants a file to be read.
//! Room: onefold-image.

use std::str::FromStr;

use crate::detect::Format;
use crate::error::ImageError;

/// How to read a file that may be an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// As what it is.
    #[default]
    Auto,
    /// Its bytes as they are, whatever they look like.
    Raw,
    /// As a qcow2 image, and nothing else.
    Qcow2,
}

/// A text that names no way of reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown image format `{0}`: expected auto, raw or qcow2")]
pub struct ParseChoiceError(String);

impl FromStr for Choice {
    type Err = ParseChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "raw" => Ok(Self::Raw),
            "qcow2" => Ok(Self::Qcow2),
            _ => Err(ParseChoiceError(text.to_owned())),
        }
    }
}

impl Choice {
    /// What a file that begins with `head` is to be read as.
    pub fn of(self, head: &[u8]) -> Result<Format, ImageError> {
        let found = Format::detect(head);
        match self {
            Self::Raw => Ok(Format::Raw),
            Self::Auto => match found {
                Format::Raw | Format::Qcow2 | Format::Gzip | Format::Zstd => Ok(found),
                other => Err(ImageError::NotRead(other)),
            },
            Self::Qcow2 if found == Format::Qcow2 => Ok(found),
            Self::Qcow2 => Err(ImageError::NotQcow2(found)),
        }
    }
}
