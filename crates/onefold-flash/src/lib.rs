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
//! [`theory`] holds the closed forms that the FTL is measured against, [`validation`] does so.

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
pub mod theory;
pub mod validation;

pub use dedup::{Policy, Verdict};
pub use ftl::{Ftl, FtlError, FtlSettings};
pub use geometry::Geometry;
pub use nand::{Nand, NandError};
pub use op::{Cause, Driver, FlashOp, OpKind, Untimed};
pub use spec::DriveSpec;
