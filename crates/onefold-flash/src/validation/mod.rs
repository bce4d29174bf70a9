//! The FTL against theory and against power cuts: for tests, and at full size for the docs.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V1 to V5, V8 and V9.

pub mod content;
mod perfect;
pub mod power;
pub mod steady;

pub use perfect::PerfectTable;
