//! Room: what a running server measures.
//!
//! A [`Definition`] is one metric: its name with its unit, its kind, its help, where `--json` shows
//! it, and the function that reads it from a [`Sample`]. [`definitions`] lists them, a file for
//! each subject; adding one is adding a row there. [`exposition`] writes a sample for Prometheus,
//! [`json`] for programs and the page, [`document`] the reference for people.

pub mod definition;
pub mod definitions;
pub mod document;
pub mod exposition;
pub mod json;
pub mod sample;

pub use definition::{Definition, Kind, Number, Point};
pub use definitions::all;
pub use exposition::Format;
pub use sample::{CacheSample, ExportSample, ProcessSample, Sample};
