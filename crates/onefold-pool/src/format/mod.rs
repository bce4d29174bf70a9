//! The on-disk format: every structure's bytes, and nothing else.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, whose tables these modules mirror. Everything is little-endian;
//! every structure carries a magic, a version where it stands alone, and a checksum.

pub mod container;
pub mod frame;
pub mod record;
pub mod superblock;
pub mod witness;

/// The format version that this code writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
