//! The experiments of seed 004: published figures beside measured ones, row by row.
//! Room: onefold-cache.   In: the published figures (TOML), quick or full.   Out: [`Row`]s.
//! Invariant: what is measured comes from runs alone; of the published figures, only those that
//! the seed states as settings enter the runs.
//! The workload of the seed (data of its authors' servers) is not known. Three families stand in,
//! and each figure says with which regime, in reads per container, it was made (docs/cache.md).

mod figures;
mod published;

use serde::Serialize;

pub use figures::{ExperimentError, Scale, all};
pub use published::{Published, PublishedError};

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Identifier of the published figure; empty where none was published.
    pub id: String,
    /// Table or figure.
    pub place: String,
    /// What was run.
    pub row: String,
    /// What was measured.
    pub column: String,
    /// The published figure.
    pub published: Option<f64>,
    /// The measured figure.
    pub measured: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// `result`, or `arithmetic` where nothing had to be run.
    pub kind: String,
    /// Regime and reservations.
    pub note: String,
}
