//! The FTL against theory and against power cuts: for tests, and at full size for the docs.
//! Room: onefold-flash.   Source: `SSD_MODEL` section 4, V1 to V5, V8 and V9.

mod perfect;
pub mod power;
pub mod steady;

pub use perfect::PerfectTable;
