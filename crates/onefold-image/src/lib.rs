//! Craft: disk images in files: which format it is, and what the disk inside holds.
//!
//! [`Format::detect`] tells by the first bytes what a file is. [`Qcow2`] reads the disk inside a
//! qcow2 image at any place; [`decoder`] gives the bytes inside gzip and Zstandard. Everything else
//! is a name to refuse it by.

mod choice;
mod detect;
mod error;
mod qcow2;
mod stream;

pub use choice::{Choice, ParseChoiceError};
pub use detect::{DETECT_BYTES, Format};
pub use error::ImageError;
pub use qcow2::{Extent, Qcow2};
pub use stream::decoder;
