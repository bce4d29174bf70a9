//! Damage that was met, named once.
//! Room: onefold-mount.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use onefold_archive::{ArchiveError, OpenFile};

/// What is named; what comes after it is only counted as met.
const NAMED_MAX: usize = 1000;

/// What was said about damage.
pub struct Damage {
    named: Mutex<HashSet<String>>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl Damage {
    /// None yet. `warn` is told of it.
    pub fn new(warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { named: Mutex::default(), warn: Box::new(warn) }
    }

    /// Something could not be read.
    pub fn meet(&self, error: &ArchiveError) {
        self.say(error.to_string());
    }

    /// A file could not be read.
    pub fn meet_in(&self, file: &OpenFile, error: &ArchiveError) {
        self.say(format!("'{}': {error}", String::from_utf8_lossy(file.path())));
    }

    /// Whether there was any.
    pub fn was_met(&self) -> bool {
        !self.named.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn say(&self, what: String) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() == NAMED_MAX || named.contains(&what) {
            return;
        }
        (self.warn)(&what);
        named.insert(what);
        if named.len() == NAMED_MAX {
            (self.warn)("what else is damaged is not named any more");
        }
    }
}
