//! Craft: traces, generators, data-set profiles and scanners of real trees and images.
//!
//! Everything here ends in [`Request`]s or in content [`Identity`]s, and knows nothing of who
//! replays them:
//! - [`import`] reads the traces that others publish, [`csv`] writes and reads our own;
//! - [`generate`] makes requests from a seed;
//! - [`content`] makes content from a seed: data-set profiles and histograms;
//! - [`scan`] takes the content of a real tree or image.

pub mod content;
pub mod csv;
pub mod generate;
pub mod import;
pub mod request;
pub mod scan;

pub use content::{ContentProfile, Histogram, PRESETS};
pub use csv::CsvWriter;
pub use generate::{AddressPattern, Arrivals, Generator, ThinkTime, WorkloadSpec};
pub use import::{BlkAction, Format, ImportReport, Problem, SkipReason, TraceError, TraceReader};
pub use request::{Identity, Op, Request};
