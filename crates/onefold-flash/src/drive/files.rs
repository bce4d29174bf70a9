//! The files of a drive's folder.
//! Room: onefold-flash.   Layout: docs/ssd-format.md.

/// The specification of the drive.
pub const SPEC_FILE: &str = "spec.toml";
/// The cells.
pub const NAND_FILE: &str = "nand";
/// Says that the rest is not yet a drive.
pub(super) const MAKING_FILE: &str = "making";
/// Second copies of what pages say of themselves.
pub const COPIES_FILE: &str = "copies";
