//! What a running estimate tells its caller, and how it is told to stop.
//! Room: onefold-estimate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a running estimate; share it by reference or `Arc` and read it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_found: AtomicU64,
    bytes_done: AtomicU64,
    files_found: AtomicU64,
    files_done: AtomicU64,
    found_all: AtomicBool,
    cancelled: AtomicBool,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Bytes to be looked at, as far as found.
    pub bytes_found: u64,
    /// Bytes looked at: read, or known to be a hole, or given up.
    pub bytes_done: u64,
    /// Files to be looked at, as far as found.
    pub files_found: u64,
    /// Files looked at; one that is read in pieces counts with its first.
    pub files_done: u64,
    /// Whether the search for files is over, so that the found numbers are final and the time
    /// left can be told.
    pub found_all: bool,
}

impl Progress {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ask the run to stop soon and report what is known so far. Safe to call from a signal
    /// handler: it stores one flag.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The counters now.
    pub fn snapshot(&self) -> ProgressSnapshot {
        ProgressSnapshot {
            bytes_found: self.bytes_found.load(Ordering::Relaxed),
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            files_found: self.files_found.load(Ordering::Relaxed),
            files_done: self.files_done.load(Ordering::Relaxed),
            found_all: self.found_all.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn found(&self, files: u64, bytes: u64) {
        self.files_found.fetch_add(files, Ordering::Relaxed);
        self.bytes_found.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn found_all(&self) {
        self.found_all.store(true, Ordering::Relaxed);
    }

    pub(crate) fn done(&self, files: u64, bytes: u64) {
        self.files_done.fetch_add(files, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_counts_its_own() {
        let progress = Progress::new();
        progress.found(2, 30);
        progress.found(1, 5);
        progress.done(1, 7);
        let now = progress.snapshot();
        assert_eq!((now.files_found, now.bytes_found), (3, 35));
        assert_eq!((now.files_done, now.bytes_done), (1, 7));
        assert!(!now.found_all && !progress.is_cancelled());
        progress.found_all();
        progress.cancel();
        assert!(progress.snapshot().found_all && progress.is_cancelled());
    }
}
