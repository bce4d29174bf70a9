//! The two ways in which a report breaks the input down: by extension and by top folder.
//! Room: onefold-estimate.
//! Invariants: numbers of groups are given out in walk order, so that they are the same in every
//! shard of a tree; beyond the limit everything is in one group of others.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Groups of one kind, so that a number fits 16 bits.
const LIMIT: usize = 60_000;
/// The name of the group that takes what comes past the limit.
const OTHER: &str = "(other)";
/// Longest extension taken for one.
const EXTENSION_MAX: usize = 12;

/// Bytes of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupTally {
    pub files: u64,
    pub bytes: u64,
    pub zero_bytes: u64,
}

/// The groups of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Groups {
    pub names: Vec<String>,
    pub tallies: Vec<GroupTally>,
    #[serde(skip)]
    numbers: HashMap<String, u16>,
}

impl Default for Groups {
    fn default() -> Self {
        let mut groups = Self { names: Vec::new(), tallies: Vec::new(), numbers: HashMap::new() };
        groups.push(OTHER);
        groups
    }
}

impl Groups {
    fn push(&mut self, name: &str) -> u16 {
        let number = self.names.len() as u16;
        self.names.push(name.to_owned());
        self.tallies.push(GroupTally::default());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of a group, made if need be.
    pub(crate) fn number(&mut self, name: &str) -> u16 {
        match self.numbers.get(name) {
            Some(&number) => number,
            None if self.names.len() < LIMIT => self.push(name),
            None => 0,
        }
    }

    pub(crate) fn add(&mut self, number: u16, tally: GroupTally) {
        let sum = &mut self.tallies[usize::from(number)];
        sum.files = sum.files.saturating_add(tally.files);
        sum.bytes = sum.bytes.saturating_add(tally.bytes);
        sum.zero_bytes = sum.zero_bytes.saturating_add(tally.zero_bytes);
    }

    /// Add those of another run; what its numbers are here.
    pub(crate) fn absorb(&mut self, other: &Self) -> Vec<u16> {
        let renumber = |(name, &tally): (&String, &GroupTally)| {
            let number = self.number(name);
            self.add(number, tally);
            number
        };
        other.names.iter().zip(&other.tallies).map(renumber).collect()
    }

    /// Whether what was read back from a file fits together.
    pub(crate) fn is_sound(&self) -> bool {
        self.names.len() == self.tallies.len()
            && (1..=LIMIT).contains(&self.names.len())
            && self.names[0] == OTHER
    }
}

/// Both numbers of a file in one word.
pub(crate) const fn pack(extension: u16, folder: u16) -> u32 {
    extension as u32 | (folder as u32) << 16
}

/// Extension and top folder out of one word.
pub(crate) const fn unpack(group: u32) -> (u16, u16) {
    (group as u16, (group >> 16) as u16)
}

/// The group of a file by its name: the last part after a dot, in lower case, that is no version
/// number: `libz.so.1.3` is a `so`, `ls.1` has only a number.
pub(crate) fn extension_of(path: &Path) -> String {
    let name = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
    let name = name.strip_prefix(b".").unwrap_or(name);
    let mut parts = name.split(|&b| b == b'.').skip(1).collect::<Vec<_>>();
    let some = !parts.is_empty();
    while parts.last().is_some_and(|part| part.iter().all(u8::is_ascii_digit)) {
        parts.pop();
    }
    match parts.last() {
        None if some => "(number)".to_owned(),
        None => "(none)".to_owned(),
        Some(part)
            if part.len() <= EXTENSION_MAX
                && part.iter().all(|&b| b.is_ascii_alphanumeric() || b"_-+~".contains(&b)) =>
        {
            String::from_utf8_lossy(part).to_ascii_lowercase()
        }
        Some(_) => "(unusual)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_what_people_call_them() {
        for (name, extension) in [
            ("a/b.TXT", "txt"),
            ("b.tar.gz", "gz"),
            ("libz.so.1.3", "so"),
            ("ls.1", "(number)"),
            ("README", "(none)"),
            (".bashrc", "(none)"),
            (".config.toml", "toml"),
            ("x.", "(number)"),
            ("a.b c", "(unusual)"),
            ("a.averyverylongtail", "(unusual)"),
            ("a.twelveletter", "twelveletter"),
            ("a.thirteenchars", "(unusual)"),
            ("a.b_-+~9", "b_-+~9"),
            ("a.txt.7a", "7a"),
            ("..x", "x"),
            ("", "(none)"),
        ] {
            assert_eq!(extension_of(Path::new(name)), extension, "{name}");
        }
    }

    #[test]
    fn tallies_add_up_and_what_does_not_fit_together_is_unsound() {
        let mut groups = Groups::default();
        assert!(groups.is_sound());
        let tally = GroupTally { files: 1, bytes: 20, zero_bytes: 3 };
        groups.add(0, tally);
        groups.add(0, tally);
        assert_eq!(groups.tallies, [GroupTally { files: 2, bytes: 40, zero_bytes: 6 }]);
        assert_eq!([groups.number("a"), groups.number("b"), groups.number("a")], [1, 2, 1]);
        let with = |names: &[&str], tallies: usize| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let tallies = vec![GroupTally::default(); tallies];
            Groups { names, tallies, numbers: HashMap::new() }.is_sound()
        };
        assert!(with(&[OTHER], 1) && with(&[OTHER, "a"], 2));
        assert!(!with(&[], 0) && !with(&[OTHER, "a"], 1) && !with(&["a"], 1));
        assert!(with(&vec![OTHER; LIMIT], LIMIT) && !with(&vec![OTHER; LIMIT + 1], LIMIT + 1));
    }

    #[test]
    fn groups_past_the_limit_are_others_and_merging_renumbers() {
        let mut groups = Groups::default();
        for i in 0..LIMIT + 5 {
            groups.number(&i.to_string());
        }
        assert_eq!(groups.names.len(), LIMIT);
        assert_eq!(groups.number("new"), 0);

        let tally = |bytes| GroupTally { files: 1, bytes, zero_bytes: 0 };
        let (mut left, mut right) = (Groups::default(), Groups::default());
        let (a, b) = (left.number("a"), left.number("b"));
        let (b2, c2) = (right.number("b"), right.number("c"));
        left.add(a, tally(1));
        left.add(b, tally(2));
        right.add(b2, tally(10));
        right.add(c2, tally(20));
        assert_eq!(left.absorb(&right), [0, b, 3]);
        let bytes: Vec<u64> = left.tallies.iter().map(|t| t.bytes).collect();
        assert_eq!(bytes, [0, 1, 12, 20]);
        assert_eq!(unpack(pack(7, 60_000)), (7, 60_000));
    }
}
