//! The FTL against theory and against power cuts: at a size for tests here, and at full size in
//! `examples/validate.rs`.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V1 to V5, V8 and V9.

pub mod content;
pub mod kinds;
pub mod laws;
pub mod perfect;
pub mod plane;
pub mod power;
pub mod steady;
