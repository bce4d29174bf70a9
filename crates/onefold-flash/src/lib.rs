//! Room: a content-aware SSD, bit by bit or by content identity.
//!
//! Decide, do, time are three people: the [`ftl`] decides, with the [`dedup`] policy's advice; a
//! [`nand::Nand`] does it, with real bytes or identities; a [`op::Driver`] prices it in virtual
//! time, or does not. In the order data flows:
//! - [`spec`] says in TOML what a drive is made of and what is done with it;
//! - [`geometry`] says how pages, blocks and planes are numbered;
//! - [`op`] is what the FTL asks of the flash, and of whoever keeps time;
//! - [`nand`] holds pages and refuses what NAND refuses;
//! - [`dedup`] looks at a page and says program, share or verify;
//! - [`ftl`] maps, collects garbage, levels wear, journals and recovers.
//!
//! [`theory`] holds the closed forms of cleaning that the FTL itself needs; the laws that it is
//! measured against, and the measuring, are in `tests/it/validation`.

// Tests from outside, of which unit tests take a part, call the room by its name.
#[cfg(test)]
extern crate self as onefold_flash;

pub mod controller;
pub mod dedup;
pub mod drive;
pub mod ftl;
pub mod geometry;
mod memory;
pub mod nand;
pub mod op;
pub mod run;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod theory;

pub use dedup::{Policy, Verdict};
pub use ftl::{Ftl, FtlError, FtlSettings};
pub use geometry::Geometry;
pub use nand::{Nand, NandError};
pub use op::{Cause, Driver, FlashOp, OpKind, Untimed};
pub use spec::DriveSpec;
