//! Which of the tests that take long a run has: those whose turn it is, or all.
//! Room: xtask.   In: `xtask/long-tests.txt`.
//!
//! A few dozen tests of some four thousand take more than half of all tests' time: whole
//! experiments, power cuts at every operation, real file systems that fill up. One commit has a
//! quarter of them, and four commits in a row that differ in their turn have them all. `cargo test`
//! knows nothing of it and runs them all.

use anyhow::Result;

use crate::turn;

/// A line for each, the longest first: package, `it` or the name of the library or binary, test.
const LIST: &str = include_str!("../long-tests.txt");

/// A commit has one out of so many.
const TURNS: u64 = 4;

/// The share of the long tests that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of them.
    Whole,
    /// Each `TURNS`-th, beginning with this one.
    From(u64),
}

impl Share {
    /// The one that the commit decides.
    pub fn of_this_commit() -> Result<Self> {
        Ok(Self::From(turn::commit_number(&crate::root()?)? % TURNS))
    }

    /// The tests of a program that others have.
    pub fn left_out(self, package: &str, target: &str) -> Vec<&'static str> {
        self.others().filter(|line| line[..2] == [package, target]).map(|line| line[2]).collect()
    }

    /// How many tests others have.
    pub fn left_out_in_all(self) -> usize {
        self.others().count()
    }

    /// The lines of the tests that others have.
    fn others(self) -> impl Iterator<Item = [&'static str; 3]> {
        lines()
            .zip(0..)
            .filter(move |&(_, at)| match self {
                Self::Whole => false,
                Self::From(first) => at % TURNS != first,
            })
            .map(|(line, _)| line)
    }
}

/// The words of each line.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    LIST.lines().filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_is_a_test_and_none_is_there_twice() {
        let all: BTreeSet<_> = lines().collect();
        assert_eq!(all.len(), LIST.lines().count());
        assert!(all.iter().flatten().all(|word| !word.is_empty()));
    }

    #[test]
    fn every_long_test_is_had_by_one_of_the_shares() {
        let all = lines().count();
        let shares = (0..TURNS).map(Share::From);
        let left_out: usize = shares.clone().map(Share::left_out_in_all).sum();
        assert_eq!(left_out, all * (TURNS as usize - 1));
        for [package, target, test] in lines() {
            let without = |share: &Share| share.left_out(package, target).contains(&test);
            assert_eq!(shares.clone().filter(without).count(), TURNS as usize - 1, "{test}");
        }
        assert_eq!(Share::Whole.left_out_in_all(), 0);
    }
}
