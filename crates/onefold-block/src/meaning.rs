//! What a failed operation below means to a store that keeps data there: no space, damage, or
//! trouble of another kind.
//! Room: onefold-block.

use crate::container_store::StoreError;
use crate::media::MediaError;

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It passes once there is space; the error as text.
    NoSpace(String),
    /// Bytes are missing that were stored, or are not what was stored: damage, to be named.
    CutShort {
        /// The file or container.
        name: String,
        /// Where in it: its length, if bytes are missing.
        len: u64,
        /// What was expected, or found, there.
        problem: String,
    },
    /// A container is not there at all.
    Missing {
        /// Which.
        name: String,
    },
    /// The system cannot reach what is stored; whether it is sound is not known.
    Unreachable,
}

fn cut_short(name: String, what: &str, len: u64, offset: u64, end: u64) -> Meaning {
    let problem = format!("the {what} ends here, but bytes {offset}..{end} were expected");
    Meaning::CutShort { name, len, problem }
}

impl MediaError {
    /// What it means to whoever keeps data there. A file that does not exist is unreachable: only
    /// its owner knows whether it should.
    pub fn meaning(&self) -> Meaning {
        match self {
            Self::NoSpace { .. } => Meaning::NoSpace(self.to_string()),
            Self::Truncated { name, len, offset, end } => {
                cut_short(name.clone(), "file", *len, *offset, *end)
            }
            Self::Damaged { name, offset, problem } => {
                Meaning::CutShort { name: name.clone(), len: *offset, problem: problem.clone() }
            }
            Self::NotFound { .. } | Self::Io { .. } => Meaning::Unreachable,
        }
    }
}

impl StoreError {
    /// What it means to whoever keeps data there.
    pub fn meaning(&self) -> Meaning {
        match self {
            Self::Media { source: MediaError::NoSpace { .. }, .. }
            | Self::Names(MediaError::NoSpace { .. }) => Meaning::NoSpace(self.to_string()),
            Self::Media { id, source: MediaError::Truncated { len, offset, end, .. } } => {
                cut_short(id.to_string(), "container", *len, *offset, *end)
            }
            Self::Media { id, source: MediaError::Damaged { offset, problem, .. } } => {
                Meaning::CutShort { name: id.to_string(), len: *offset, problem: problem.clone() }
            }
            Self::NotFound { id } => Meaning::Missing { name: id.to_string() },
            Self::Media { .. } | Self::Names(_) => Meaning::Unreachable,
        }
    }
}
