//! What is wrong with a trace, and where.
//! Room: onefold-workload.

use std::io;

use super::Format;

/// A trace that cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The input failed.
    #[error("reading line {line}")]
    Read {
        /// The line that was being read, from 1.
        line: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A row of a Parquet file makes no sense.
    #[error("row {row} is no request: {problem}")]
    Row {
        /// The row, from 1.
        row: u64,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A Parquet file does not have the columns of a trace.
    #[error("column `{column}` {got}: expected {expected}")]
    Column {
        /// The column's name.
        column: String,
        /// What is wrong with it.
        got: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// A Parquet file that cannot be decoded.
    #[error("after row {row}: no readable Parquet: {message}")]
    Parquet {
        /// Rows read before.
        row: u64,
        /// What the decoder says.
        message: String,
    },
    /// A frame of a recording that is damaged, and not the last.
    #[error("frame {frame} of the recording: {problem}")]
    Frame {
        /// The frame, from 1; 0 for the header of the file.
        frame: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A line makes no sense.
    #[error("line {line} is no line of the format {format}: {problem}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// The format it should have.
        format: Format,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The line ends before this field.
    #[error("it ends before the {field}")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// More fields than the format has.
    #[error("unexpected `{got}` after the last field")]
    Surplus {
        /// What is left.
        got: String,
    },
    /// A field is not what it should be.
    #[error("{field} `{got}`: expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it holds, shortened.
        got: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// The first line is not the header.
    #[error("it begins with `{got}`: expected the header `{expected}`")]
    Header {
        /// What it holds, shortened.
        got: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// Digests do not add up to the length of the request.
    #[error(
        "{hex} hex digits of digests for {bytes} bytes: expected 32 or 8 for every 4096 bytes \
         or for every 512"
    )]
    Digests {
        /// Hex digits found.
        hex: usize,
        /// Bytes of the request.
        bytes: u64,
    },
    /// A line without end.
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// The longest accepted line, in bytes.
        limit: usize,
    },
    /// More devices than any trace has.
    #[error("it names one more device or file than the {limit} that are accepted")]
    Streams {
        /// The most accepted.
        limit: usize,
    },
}

impl Problem {
    pub(super) fn value(field: &'static str, got: &[u8], expected: &'static str) -> Self {
        Self::Value { field, got: shown(got), expected }
    }
}

/// Bytes as text for a message, at most 60 of them, without control characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(60)];
    let dots = if bytes.len() > 60 { "..." } else { "" };
    let text = String::from_utf8_lossy(head).replace(char::is_control, "?");
    format!("{text}{dots}")
}
