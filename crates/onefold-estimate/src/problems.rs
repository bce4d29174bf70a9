//! What could not be looked at: counted, and named up to a limit.
//! Room: onefold-estimate.
//! Invariants: which problems are named does not depend on the order in which they came.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Problems that are named; more are only counted.
const NAMED_LIMIT: usize = 1000;

/// What kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A file could not be opened.
    UnreadableFile,
    /// A folder could not be listed.
    UnreadableFolder,
    /// A part of a file could not be read and was left out.
    ReadError,
    /// A file became shorter while it was read.
    Changed,
    /// A socket, pipe or device inside a folder: not looked at.
    Special,
}

/// One named problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// The file or folder.
    pub path: String,
    /// The system's words.
    pub reason: String,
}

/// A set of problems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problems {
    counts: BTreeMap<ProblemKind, u64>,
    /// In walk order: number of files before it, then its name.
    #[serde(with = "as_list")]
    named: BTreeMap<(u32, String, ProblemKind), String>,
}

impl Problems {
    /// Note one. A problem of a file that was noted already, through another of its segments,
    /// is not counted again.
    pub(crate) fn add(&mut self, number: u32, path: String, kind: ProblemKind, reason: String) {
        if self.name(number, path, kind, reason) {
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    /// Whether it was not named before.
    fn name(&mut self, number: u32, path: String, kind: ProblemKind, reason: String) -> bool {
        let is_new = self.named.insert((number, path, kind), reason).is_none();
        if self.named.len() > NAMED_LIMIT {
            self.named.pop_last();
        }
        is_new
    }

    /// Add those of another run whose first file has number `base` here.
    pub(crate) fn absorb(&mut self, other: Self, base: u32) {
        for (kind, count) in other.counts {
            let sum = self.counts.entry(kind).or_default();
            *sum = sum.saturating_add(count);
        }
        for ((number, path, kind), reason) in other.named {
            if !self.name(number.saturating_add(base), path, kind, reason) {
                *self.counts.entry(kind).or_default() -= 1;
            }
        }
    }

    pub(crate) fn count(&self, kind: ProblemKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// The named ones, in walk order, each with the number of files before it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (u32, Problem)> {
        self.named.iter().map(|((number, path, kind), reason)| {
            (*number, Problem { kind: *kind, path: path.clone(), reason: reason.clone() })
        })
    }
}

/// A map with a composite key as a list of rows, since JSON keys are texts.
mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ProblemKind;

    type Named = BTreeMap<(u32, String, ProblemKind), String>;

    pub(super) fn serialize<S: Serializer>(map: &Named, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Named, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_two_runs_are_counted_and_named_in_walk_order() {
        let add = |problems: &mut Problems, number, kind| {
            problems.add(number, format!("f{number}"), kind, "denied".to_owned());
        };
        let (mut one, mut other) = (Problems::default(), Problems::default());
        for number in [3, 1, 3] {
            add(&mut one, number, ProblemKind::ReadError);
        }
        add(&mut one, 1, ProblemKind::Changed);
        assert_eq!((one.count(ProblemKind::ReadError), one.count(ProblemKind::Changed)), (2, 1));
        assert_eq!(one.count(ProblemKind::Special), 0);
        add(&mut other, 1, ProblemKind::ReadError);
        add(&mut other, 4, ProblemKind::Special);
        let mut same = one.clone();
        // The same files: what both met is counted once.
        same.absorb(other.clone(), 0);
        assert_eq!((same.count(ProblemKind::ReadError), same.count(ProblemKind::Special)), (2, 1));
        one.absorb(other, 10);
        assert_eq!((one.count(ProblemKind::ReadError), one.count(ProblemKind::Special)), (3, 1));
        let named: Vec<_> = one.named().map(|(number, problem)| (number, problem.path)).collect();
        let wanted = [(1, "f1"), (1, "f1"), (3, "f3"), (11, "f1"), (14, "f4")];
        assert_eq!(named, wanted.map(|(number, path)| (number, path.to_owned())));
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Problems>(&text).unwrap(), one);
    }

    #[test]
    fn a_problem_counts_once_and_the_first_thousand_are_named() {
        let mut problems = Problems::default();
        for number in (0..1500).rev() {
            for _ in 0..2 {
                let (path, reason) = (format!("f{number}"), "denied".to_owned());
                problems.add(number, path, ProblemKind::UnreadableFile, reason);
            }
        }
        let names: Vec<String> = problems.named().map(|(_, p)| p.path).collect();
        assert_eq!(names.len(), NAMED_LIMIT);
        assert_eq!((names[0].as_str(), names[999].as_str()), ("f0", "f999"));
        let mut both = problems.clone();
        both.absorb(problems, 0);
        assert_eq!(both.named().count(), NAMED_LIMIT);
    }
}
