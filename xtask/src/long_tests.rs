//! Which of the tests that take long a run has: those whose turn it is, or all.
//! Room: xtask.   In: `xtask/long-tests.txt`.
//!
//! A few hundred tests of four thousand take most of all tests' time: whole experiments, power cuts
//! at every operation, real file systems that fill up. A commit has a share of them; `cargo test`
//! knows nothing of it and has all.

use crate::turn::Share;

/// A line for each, the longest first, so that all shares take as long: package, `it` or the name
/// of the library or binary, test.
const LIST: &str = include_str!("../long-tests.txt");

/// The tests of a program that a run with this share leaves out.
pub fn left_out(share: Share, package: &str, target: &str) -> Vec<&'static str> {
    let of_others = others(share).filter(|line| line[..2] == [package, target]);
    of_others.map(|line| line[2]).collect()
}

/// How many tests a run with this share leaves out.
pub fn left_out_in_all(share: Share) -> usize {
    others(share).count()
}

/// The lines of the tests that others have.
fn others(share: Share) -> impl Iterator<Item = [&'static str; 3]> {
    lines().zip(0..).filter(move |&(_, place)| !share.has(place)).map(|(line, _)| line)
}

/// The words of each line.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    LIST.lines().filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::turn::TURNS;

    #[test]
    fn every_line_is_a_test_and_none_is_there_twice() {
        let all: BTreeSet<_> = lines().collect();
        assert_eq!(all.len(), LIST.lines().count());
        assert!(all.iter().flatten().all(|word| !word.is_empty()));
    }

    #[test]
    fn every_long_test_is_had_by_one_of_the_shares() {
        let shares = (0..TURNS).map(Share::Turn);
        let count: usize = shares.clone().map(left_out_in_all).sum();
        assert_eq!(count, lines().count() * (TURNS as usize - 1));
        for [package, target, test] in lines() {
            let without = |share: &Share| left_out(*share, package, target).contains(&test);
            assert_eq!(shares.clone().filter(without).count(), TURNS as usize - 1, "{test}");
        }
        assert_eq!(left_out_in_all(Share::Whole), 0);
    }
}
