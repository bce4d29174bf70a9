//! Why the disk inside an image cannot be read.
//! Room: onefold-image.

use std::io;

use crate::detect::Format;

/// Why the disk inside an image cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A format that is known by name only.
    #[error("it is {}, which onefold does not read", .0.article())]
    NotRead(Format),
    /// Said to be of one format, and is of another.
    #[error("it is not a qcow2 image but {}", .0.article())]
    NotQcow2(Format),
    /// Some of its clusters lie in another file.
    #[error("it holds only what differs from its backing file '{0}'")]
    Backing(String),
    /// One format inside another.
    #[error("it is {}, and what is inside is {}", .outer.article(), .inner.article())]
    Nested {
        /// What the file is.
        outer: Format,
        /// What is in it.
        inner: Format,
    },
    /// Its clusters are encrypted.
    #[error("it is encrypted")]
    Encrypted,
    /// It asks for something that this reader does not have.
    #[error("it needs {0}, which onefold does not read")]
    Feature(String),
    /// It contradicts itself.
    #[error("the qcow2 image is damaged: {0}")]
    Damaged(String),
}

impl ImageError {
    /// Whether converting it to raw, by whoever reads it, would help.
    pub const fn converting_helps(&self) -> bool {
        matches!(self, Self::NotRead(_) | Self::Backing(_) | Self::Encrypted | Self::Feature(_))
    }
}
