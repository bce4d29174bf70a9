//! Damage that was met, named once.
//! Room: onefold.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use onefold_archive::{ArchiveError, OpenFile};

use crate::output::Printer;

/// What is named; what comes after it is only counted as met.
const NAMED_MAX: usize = 1000;

/// What was said about damage.
#[derive(Default)]
pub struct Damage {
    named: Mutex<HashSet<String>>,
}

impl Damage {
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
        let printer = Printer::new(false);
        printer.warning(&what);
        named.insert(what);
        if named.len() == NAMED_MAX {
            printer.warning("what else is damaged is not named any more");
        }
    }
}
