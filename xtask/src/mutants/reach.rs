//! Which tests come by which switches, and how long each test takes.
//! Room: xtask.
//! Every test runs once, alone in its process: what its threads do is then known to be its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::programs::{Outcome, Program};

/// A test may take so long.
const LIMIT: Duration = Duration::from_mins(10);
/// Tests that take longer than this are started by themselves.
const BATCH: Duration = Duration::from_secs(2);

/// What is known of the tests of one program.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    by: BTreeMap<u32, BTreeSet<String>>,
    took: BTreeMap<String, Duration>,
}

impl Reach {
    /// Run each test of a program once, unchanged, and note which switches it comes by. Notes are
    /// written into files in `folder`. Tests that take longer than `quick` are left out.
    pub fn of(program: &Program, folder: &Path, quick: Option<Duration>) -> Result<Self> {
        let tests = program.tests()?;
        let limit = quick.unwrap_or(LIMIT);
        let (next, seen) = (AtomicUsize::new(0), Mutex::new(Self::default()));
        let work = |worker: usize| -> Result<()> {
            let notes = folder.join(format!("reached-{}-{worker}", std::process::id()));
            while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = Instant::now();
                let (outcome, switches) = program.switches_of(test, &notes, limit)?;
                if outcome == Outcome::TooLong && quick.is_some() {
                    continue;
                }
                if outcome == Outcome::Failed && quick.is_some() {
                    println!("{} {test} does not pass unchanged, and is left out", program.name);
                    continue;
                }
                if outcome != Outcome::Passed {
                    bail!("{} {test} does not pass unchanged: {outcome:?}", program.name);
                }
                let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                seen.add(test, switches, start.elapsed());
            }
            Ok(())
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..workers).map(|id| scope.spawn(move || work(id))).collect();
            started.into_iter().try_for_each(|worker| match worker.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn add(&mut self, test: &str, switches: BTreeSet<u32>, took: Duration) {
        for switch in switches {
            self.by.entry(switch).or_default().insert(test.to_owned());
        }
        self.took.insert(test.to_owned(), took);
    }

    /// The tests that come by a switch, the quickest first.
    pub fn tests_by(&self, switch: u32) -> Vec<&str> {
        let mut tests: Vec<&str> =
            self.by.get(&switch).into_iter().flatten().map(String::as_str).collect();
        tests.sort_by_key(|test| self.took.get(*test));
        tests
    }

    /// The same in batches that each end soon.
    pub fn batches_by(&self, switch: u32) -> Vec<Vec<&str>> {
        let mut batches: Vec<Vec<&str>> = Vec::new();
        let mut filled = BATCH;
        for test in self.tests_by(switch) {
            let took = self.took.get(test).copied().unwrap_or_default();
            filled += took;
            match batches.last_mut() {
                Some(last) if filled <= BATCH => last.push(test),
                _ => {
                    batches.push(vec![test]);
                    filled = took;
                }
            }
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_tests_are_tried_together_and_first() {
        let mut reach = Reach::default();
        for (test, ms, switch) in
            [("slow", 5000, 1), ("a", 900, 1), ("b", 800, 1), ("c", 700, 1), ("other", 1, 2)]
        {
            reach.add(test, BTreeSet::from([switch]), Duration::from_millis(ms));
        }
        assert_eq!(reach.tests_by(1), ["c", "b", "a", "slow"]);
        assert_eq!(reach.batches_by(1), [vec!["c", "b"], vec!["a"], vec!["slow"]]);
        assert!(reach.tests_by(3).is_empty() && reach.batches_by(3).is_empty());
    }
}
