//! Why an experiment cannot be run.
//! Room: onefold-lab.

use std::path::PathBuf;

/// What experiments return.
pub type Result<T> = std::result::Result<T, LabError>;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A name that selects nothing.
    #[error("no experiment `{got}`: expected {papers}, or one of their experiments{}",
        nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?")))]
    Unknown {
        /// What was asked for.
        got: String,
        /// The papers, all of whose experiments can be asked for.
        papers: String,
        /// The name that is much like it, if there is one.
        nearest: Option<&'static str>,
    },
    /// A file of the experiment that is not what it should be.
    #[error("experiments/{id}/{file}: {problem}")]
    File {
        /// The experiment.
        id: String,
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A parameter that is missing or of another type.
    #[error("experiments/{id}/spec.toml: parameter `{name}` is not {expected}")]
    Parameter {
        /// The experiment.
        id: String,
        /// The parameter.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A published number that the experiment refers to and that is not there.
    #[error("experiments/{id}/published.toml: no row `{row}` with column `{column}`")]
    NoPublished {
        /// The experiment.
        id: String,
        /// The row.
        row: String,
        /// The column.
        column: String,
    },
    /// A shape that the experiment decides and that is not there.
    #[error("experiments/{id}/published.toml: no shape `{shape}`")]
    NoShape {
        /// The experiment.
        id: String,
        /// The shape.
        shape: String,
    },
    /// Data given by the user that cannot be read.
    #[error("data '{}': {problem}", path.display())]
    Data {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A part of the experiment refuses its parameters.
    #[error("{id}: {problem}")]
    Refused {
        /// The experiment.
        id: String,
        /// What it says.
        problem: String,
    },
}
