//! What is on disk, byte for byte; docs/archive.md has the tables.
//! Room: onefold-archive.
//! Invariant: decoding arbitrary bytes gives a value or an error, never a panic, and allocates no
//! more than the bytes given.

pub mod bytes;
pub mod chunk_ref;
pub mod container;
pub mod entry;
pub mod log_record;
pub mod settings_file;
pub mod version_file;

/// The format version of everything here.
pub const FORMAT_VERSION: u32 = 1;
