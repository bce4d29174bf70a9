//! Implementations broken on purpose, each of which its suite must catch: a suite that nothing
//! can fail proves nothing. Every check of every suite is failed by at least one of them.
//! Room: onefold-block.

mod device;
mod media;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

/// What a broken implementation remembers: who made it, and how often it was called.
struct Memory {
    owner: ThreadId,
    calls: AtomicU64,
}

impl Memory {
    fn new() -> Self {
        Self { owner: thread::current().id(), calls: AtomicU64::new(0) }
    }

    /// Whether another thread calls.
    fn is_stranger(&self) -> bool {
        thread::current().id() != self.owner
    }

    /// True at every `period`-th call.
    fn every(&self, period: u64) -> bool {
        (self.calls.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(period)
    }
}

/// Whether a check fails.
fn fails(check: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(check)).is_err()
}

/// Check a table of bugs, each beside the check that must catch it, against a suite.
fn all_are_caught<B: Copy + std::fmt::Debug>(
    bugs: &[(B, &'static str)],
    checks: &[&'static str],
    mut fails_on: impl FnMut(&'static str, Option<B>) -> bool,
) {
    for &(bug, check) in bugs {
        assert!(checks.contains(&check), "there is no check '{check}'");
        assert!(fails_on(check, Some(bug)), "'{check}' does not catch {bug:?}");
    }
    for &check in checks {
        assert!(!fails_on(check, None), "'{check}' fails without a bug");
        assert!(bugs.iter().any(|&(_, by)| by == check), "nothing shows that '{check}' can fail");
    }
}
