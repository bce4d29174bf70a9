//! Craft: traces, generators, data-set profiles and scanners of real trees and images.
//!
//! Everything here ends in [`Request`]s or in content [`Identity`]s, and knows nothing of who
//! replays them:
//! - [`trace`] opens any of them and writes our own;
//! - [`import`] reads the traces that others publish, [`csv`] and `parquet` write our own;
//! - [`recording`] is what servers write down of their clients' requests;
//! - [`summary`] counts what is in a trace;
//! - [`request_log`] writes down what became of each request;
//! - [`generate`] makes requests from a seed;
//! - [`composed`] says what units hold that were written in pieces, and [`joined`] puts pieces
//!   together that readers cut;
//! - [`idle_hints`] says of requests where a host that knows would have said that it is idle;
//! - [`content`] makes content from a seed: data-set profiles and histograms;
//! - [`scan`] takes the content of a real tree or image.

pub mod composed;
pub mod content;
pub mod csv;
pub mod generate;
pub mod idle_hints;
pub mod import;
pub mod joined;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod recording;
pub mod request;
pub mod request_log;
pub mod scan;
pub mod summary;
#[cfg(feature = "parquet")]
mod table;
pub mod trace;

pub use content::{ContentProfile, Histogram, PRESETS};
pub use csv::CsvWriter;
pub use generate::{AddressPattern, Arrivals, Generator, ThinkTime, WorkloadSpec};
pub use idle_hints::IdleHints;
#[cfg(feature = "parquet")]
pub use import::ParquetReader;
pub use import::{BlkAction, Format, ImportReport, Problem, SkipReason, TraceError, TraceReader};
pub use joined::Joined;
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;
pub use recording::{Recorded, RecordingEncoder, RecordingReader};
pub use request::{Identity, Op, Request};
pub use request_log::{LOG_HEADER, LoggedRequest, RequestLog};
pub use summary::TraceSummary;
pub use trace::{Trace, TraceFormat, TraceRequests, TraceWriter};
