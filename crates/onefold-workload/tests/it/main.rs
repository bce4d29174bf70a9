//! Traces of every format, generators, content and scans, as users meet them.
//! Room: onefold-workload.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod content;
mod formats;
mod frames;
mod generators;
mod golden;
mod laws;
mod limits;
mod open;
#[cfg(feature = "parquet")]
mod parquet;
mod recordings;
mod scans;
