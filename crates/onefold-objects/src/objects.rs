//! What is asked of an object store.
//! Room: onefold-objects.
//! Invariants: (1) an object is put whole or not at all, also one that was sent in parts; (2) what
//! was put is seen by every request that is made afterwards; (3) of two that expect the same state
//! of a name, one is refused.
//! Names are those of files below the place that is meant, with a `/` after each folder.

use std::io;
use std::ops::Range;

use onefold_block::MediaError;
use thiserror::Error;

/// Why a request failed. No text of it holds credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// There is no object of that name.
    #[error("there is no such object")]
    NotFound,
    /// The name does not hold what was expected, or did not a moment ago.
    #[error("somebody else has written it meanwhile")]
    Conflict,
    /// These credentials may not do that, or are none.
    #[error("{0}")]
    Refused(String),
    /// The store has no space left.
    #[error("{0}")]
    NoSpace(String),
    /// Anything else, such as no answer. Whether the request had an effect is not known.
    #[error("{0}")]
    Failed(String),
}

impl ObjectError {
    /// The same of the file `name`, while doing what `action` says.
    pub fn of(self, action: &'static str, name: String) -> MediaError {
        match self {
            Self::NotFound => MediaError::NotFound { name },
            Self::NoSpace(_) => MediaError::NoSpace { name },
            Self::Refused(_) => {
                let source = io::Error::new(io::ErrorKind::PermissionDenied, self.to_string());
                MediaError::Io { action, name, source }
            }
            other => MediaError::Io { action, name, source: io::Error::other(other.to_string()) },
        }
    }
}

/// An object as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its length.
    pub bytes: u64,
    /// Names this state of it (an `ETag`); empty where the store has none.
    pub tag: String,
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name in the folder that was listed.
    pub name: String,
    /// What it is now.
    pub stored: Stored,
    /// When it was put, in seconds since 1970 by the clock of the store.
    pub modified_s: i64,
}

/// The end of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// What it is now.
    pub stored: Stored,
    /// Its last bytes, or all of them.
    pub bytes: Vec<u8>,
}

/// What a put expects under its name; otherwise it is refused with [`ObjectError::Conflict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Nothing,
    /// An object with this tag.
    Tag(String),
    /// Whatever it may be.
    Anything,
}

/// A place in an object store. A request that fails may have had its effect all the same.
pub trait Objects: Send + Sync {
    /// The last `at_most` bytes of an object, or all of it if it is shorter.
    fn tail(&self, name: &str, at_most: u64) -> Result<Tail, ObjectError>;

    /// Bytes of an object that has this tag; [`ObjectError::Conflict`] if it has another. Fewer
    /// bytes than were asked for are an error of the caller's or of the store's.
    fn get(&self, name: &str, range: Range<u64>, tag: &str) -> Result<Vec<u8>, ObjectError>;

    /// Put an object, and answer its tag.
    fn put(&self, name: &str, bytes: &[u8], expect: &Expect) -> Result<String, ObjectError>;

    /// Begin an object that is sent in parts, and answer what names the upload. Nothing is under
    /// its name before it is completed.
    fn begin(&self, name: &str) -> Result<String, ObjectError>;

    /// Send a part of an upload, counted from 0 on, in the place of what was sent under that
    /// number; answers its tag. All but the last have the same size.
    fn part(
        &self,
        name: &str,
        upload: &str,
        number: usize,
        bytes: &[u8],
    ) -> Result<String, ObjectError>;

    /// Put the object that the parts with these tags make, in the place of whatever has its name;
    /// answers its tag.
    fn complete(&self, name: &str, upload: &str, tags: &[String]) -> Result<String, ObjectError>;

    /// Give up an upload and what was sent of it.
    fn abort(&self, name: &str, upload: &str) -> Result<(), ObjectError>;

    /// Remove an object; one that is not there is no error.
    fn remove(&self, name: &str) -> Result<(), ObjectError>;

    /// The objects right in a folder, in any order; the folder is empty, or ends with a `/`.
    fn list(&self, folder: &str) -> Result<Vec<Listed>, ObjectError>;

    /// The name of an object as a person would write it.
    fn address(&self, name: &str) -> String;
}
