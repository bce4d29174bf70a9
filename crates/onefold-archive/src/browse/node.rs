//! Numbers for everything in an archive, which need no table.
//! Room: onefold-archive.
//! Invariant: every node has one number, and every number stands for one node or for none.
//!
//! | bits | 20 | 33 | 11 |
//! |---|---|---|---|
//! | holds | place of the version among all, and 1 | index of an entry, and 1 | components |
//!
//! A folder in which something lies need not have an entry of its own: it is named by the first
//! entry that lies in it, and by how many components of that one's path are its own. No components
//! stand for the entry itself; no entry either, for the version.

/// Versions that fit.
pub const VERSIONS_MAX: usize = (1 << 20) - 1;
/// Entries of a version that fit.
pub const ENTRIES_MAX: usize = (1 << ENTRY_BITS) - 1;
/// Components of a folder without an entry that fit. A path that the system can name has fewer.
pub const COMPONENTS_MAX: usize = (1 << COMPONENT_BITS) - 1;

const ENTRY_BITS: u32 = 33;
const COMPONENT_BITS: u32 = 11;

/// Something in an archive. Versions are counted from 0, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The folder of all versions.
    Root,
    /// A symbolic link to the newest version.
    Newest,
    /// The folder of a version.
    Version(usize),
    /// An entry of a version.
    Entry(usize, usize),
    /// A folder without an entry: version, first entry in it, and components of that one's path.
    Implied(usize, usize, usize),
}

impl Node {
    /// Its number; the root has 1, as file systems have it. `None` if it does not fit.
    pub fn number(self) -> Option<u64> {
        let pack = |version: usize, entry: usize, components: usize| {
            let fits = version < VERSIONS_MAX && entry <= ENTRIES_MAX;
            let fits = fits && components <= COMPONENTS_MAX;
            let version = (version as u64 + 1) << (ENTRY_BITS + COMPONENT_BITS);
            fits.then_some(version | (entry as u64) << COMPONENT_BITS | components as u64)
        };
        match self {
            Self::Root => Some(1),
            Self::Newest => Some(2),
            Self::Version(version) => pack(version, 0, 0),
            Self::Entry(version, entry) => pack(version, entry + 1, 0),
            Self::Implied(version, entry, components) => pack(version, entry + 1, components),
        }
    }

    /// What a number stands for.
    pub fn of(number: u64) -> Option<Self> {
        let low = |bits: u32| (1 << bits) - 1;
        let components = (number & low(COMPONENT_BITS)) as usize;
        let entry = (number >> COMPONENT_BITS & low(ENTRY_BITS)) as usize;
        let version = (number >> (ENTRY_BITS + COMPONENT_BITS)) as usize;
        match (version.checked_sub(1), entry.checked_sub(1), components) {
            (None, _, _) => match number {
                1 => Some(Self::Root),
                2 => Some(Self::Newest),
                _ => None,
            },
            (Some(version), None, 0) => Some(Self::Version(version)),
            (Some(_), None, _) => None,
            (Some(version), Some(entry), 0) => Some(Self::Entry(version, entry)),
            (Some(version), Some(entry), components) => {
                Some(Self::Implied(version, entry, components))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_what_does_not_fit_has_none() {
        let (version, entry) = (VERSIONS_MAX - 1, ENTRIES_MAX - 1);
        for node in [
            Node::Root,
            Node::Newest,
            Node::Version(0),
            Node::Version(version),
            Node::Entry(0, 0),
            Node::Entry(version, entry),
            Node::Implied(3, 0, 1),
            Node::Implied(version, entry, COMPONENTS_MAX),
        ] {
            let number = node.number().unwrap();
            assert_eq!(Node::of(number), Some(node), "{number:#x}");
        }
        assert_eq!(Node::Version(VERSIONS_MAX).number(), None);
        assert_eq!(Node::Entry(0, ENTRIES_MAX).number(), None);
        assert_eq!(Node::Implied(0, 0, COMPONENTS_MAX + 1).number(), None);
        for strange in [0, 3, 1 << COMPONENT_BITS, 1 << (ENTRY_BITS + COMPONENT_BITS) | 5] {
            assert_eq!(Node::of(strange), None, "{strange:#x}");
        }
    }
}
