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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn damage_is_named_once_and_a_thousand_times_at_most() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let damage = Damage::new(move |what| to.lock().unwrap().push(what.to_owned()));
        assert!(!damage.was_met());
        for number in (0..NAMED_MAX + 2).chain(0..NAMED_MAX + 2) {
            damage.say(number.to_string());
            assert!(damage.was_met());
        }
        let said = said.lock().unwrap();
        let numbers = (0..NAMED_MAX).map(|number| number.to_string());
        let end = "what else is damaged is not named any more".to_owned();
        assert_eq!(*said, numbers.chain([end]).collect::<Vec<_>>());
    }
}
