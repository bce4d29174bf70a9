//! Room: what deduplication and compression would save on files, folders, images and devices.
//!
//! [`scan`] reads everything once and counts every chunk at every chunk size, within a fixed
//! memory budget and without writing anything; past the budget it keeps a sample. The
//! [`Partial`] result can be written, merged with others, and reported on. In data-flow order:
//! - `options`: the question, its limits and the plan;
//! - `walk`, `queue`, `read`: which files, in which order, and their bytes;
//! - `worker`, `tree`, `content_defined`, `quick_hash`: bytes to chunks to fingerprints;
//! - `table`, `files`, `groups`, `problems`: what is remembered;
//! - `partial`, `format`: the result, as a file too, and merging;
//! - `sample`: from a sample to numbers with intervals;
//! - `report`, `text`, `csv`: the answer for programs and people.
//!
//! ```no_run
//! use onefold_estimate::{Options, Progress, scan};
//!
//! let progress = Progress::new();
//! let partial = scan(&["/home".into()], &Options::default(), &progress)?;
//! let report = partial.report(20);
//! println!("{}", report.answer.line);
//! # Ok::<(), onefold_estimate::EstimateError>(())
//! ```

mod error;
mod options;

mod progress;
mod queue;
mod read;
mod walk;

mod content_defined;
mod quick_hash;
mod scan;
mod tree;
mod worker;

mod files;
mod groups;
mod image;
mod problems;
mod table;

mod format;
mod partial;

mod build;
mod csv;
mod report;
mod sample;
mod text;

pub use build::{CONTAINER_ENTRY_BYTES, INDEX_BYTES_PER_CHUNK, MAP_ENTRY_BYTES};
pub use error::EstimateError;
pub use options::{
    CHUNK_MAX_BYTES, CHUNK_MIN_BYTES, DEFAULT_MEMORY_BYTES, Method, Options, SEGMENT_BYTES, Shard,
    content_defined,
};
pub use partial::Partial;
pub use problems::{Problem, ProblemKind};
pub use progress::{Progress, ProgressSnapshot};
pub use report::{
    Answer, Compressed, Copies, DuplicateFile, Group, InputReport, Interval, ProblemReport,
    RepeatedFile, Report, SCHEMA_VERSION, SizeReport, Skew,
};
pub use scan::scan;
