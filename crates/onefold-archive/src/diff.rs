//! What differs between two versions of an archive.
//! Room: onefold-archive.
//! Both are walked in path order. Contents are compared by the names of their chunks, without
//! reading any: one chunker cuts all versions of an archive, so equal contents are cut alike.
//! Cost: one entry of each version in memory; reads both versions' files, no container.

use std::cmp::Ordering;
use std::ops::Range;

use crate::error::ArchiveError;
use crate::format::entry::{Entry, Kind, compare_paths};
use crate::version::Version;

/// A path that is not the same in both versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the newer version has it.
    Added(Entry),
    /// Only the older version has it.
    Removed(Entry),
    /// Both have it.
    Changed {
        /// As it was.
        old: Entry,
        /// As it is.
        new: Entry,
        /// The most that differs.
        what: Changed,
    },
}

/// How much of a path differs; each is said only if those after it do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// Owner, rights, times, extended attributes, or which name of a file came first.
    Metadata,
    /// The bytes of a file, the target of a link, the number of a device.
    Content,
    /// A file became a folder, or the like.
    Kind,
}

/// Tell `take` of every difference at or below `path` (everything, if it is empty), in path order,
/// until it answers false. An error if neither version has the path, or if one is damaged.
pub fn diff(
    old: &Version,
    new: &Version,
    path: &[u8],
    take: &mut dyn FnMut(Difference) -> bool,
) -> Result<(), ArchiveError> {
    let (in_old, in_new) = match (old.within(path), new.within(path)) {
        (Err(ArchiveError::NoPath { .. }), Ok(new)) => (Range::default(), new),
        (Ok(old), Err(ArchiveError::NoPath { .. })) => (old, Range::default()),
        (old, new) => (old?, new?),
    };
    let mut olds = Entries::new(old, in_old)?;
    let mut news = Entries::new(new, in_new)?;
    loop {
        let order = match (&olds.next, &news.next) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => compare_paths(&old.path, &new.path),
        };
        let was = if order.is_le() { olds.take()? } else { None };
        let is = if order.is_ge() { news.take()? } else { None };
        let difference = match (was, is) {
            (Some(entry), None) => Difference::Removed(entry),
            (None, Some(entry)) => Difference::Added(entry),
            (Some(was), Some(is)) => match changed((old, &was), (new, &is))? {
                Some(what) => Difference::Changed { old: was, new: is, what },
                None => continue,
            },
            (None, None) => return Ok(()),
        };
        if !take(difference) {
            return Ok(());
        }
    }
}

/// The entries of a version, with the next one at hand.
struct Entries<'a> {
    version: &'a Version,
    rest: Range<usize>,
    next: Option<Entry>,
}

impl<'a> Entries<'a> {
    fn new(version: &'a Version, range: Range<usize>) -> Result<Self, ArchiveError> {
        let mut entries = Self { version, rest: range, next: None };
        entries.take()?;
        Ok(entries)
    }

    fn take(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let following = self.rest.next().map(|index| self.version.entry(index)).transpose()?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

fn changed(
    (old, was): (&Version, &Entry),
    (new, is): (&Version, &Entry),
) -> Result<Option<Changed>, ArchiveError> {
    // Which of a file's names comes first is no matter of what the file is.
    if was.kind.has_content() && is.kind.has_content() {
        if !same_content((old, was), (new, is))? {
            return Ok(Some(Changed::Content));
        }
        let same = was.metadata == is.metadata && was.kind == is.kind;
        return Ok((!same).then_some(Changed::Metadata));
    }
    if std::mem::discriminant(&was.kind) != std::mem::discriminant(&is.kind) {
        return Ok(Some(Changed::Kind));
    }
    if was.kind != is.kind {
        return Ok(Some(Changed::Content));
    }
    Ok((was.metadata != is.metadata).then_some(Changed::Metadata))
}

fn same_content(
    (old, was): (&Version, &Entry),
    (new, is): (&Version, &Entry),
) -> Result<bool, ArchiveError> {
    if was.recipe.chunks != is.recipe.chunks {
        return Ok(false);
    }
    for (a, b) in old.chunks(was.recipe).zip(new.chunks(is.recipe)) {
        if a?.name != b?.name {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Difference {
    /// The path.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Added(entry) | Self::Removed(entry) | Self::Changed { new: entry, .. } => {
                &entry.path
            }
        }
    }

    /// The letter that stands for it in a list: `+`, `-`, or for a change `T` of kind, `M` of
    /// content, `U` of metadata only.
    pub const fn letter(&self) -> char {
        match self {
            Self::Added(_) => '+',
            Self::Removed(_) => '-',
            Self::Changed { what: Changed::Kind, .. } => 'T',
            Self::Changed { what: Changed::Content, .. } => 'M',
            Self::Changed { what: Changed::Metadata, .. } => 'U',
        }
    }

    /// A word for JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Added(_) => "added",
            Self::Removed(_) => "removed",
            Self::Changed { what: Changed::Kind, .. } => "kind",
            Self::Changed { what: Changed::Content, .. } => "content",
            Self::Changed { what: Changed::Metadata, .. } => "metadata",
        }
    }

    /// Bytes of content before and after; 0 where there is none.
    pub const fn sizes(&self) -> (u64, u64) {
        match self {
            Self::Added(entry) => (0, size(entry)),
            Self::Removed(entry) => (size(entry), 0),
            Self::Changed { old, new, .. } => (size(old), size(new)),
        }
    }
}

/// Another name of a file has its bytes in the list already.
const fn size(entry: &Entry) -> u64 {
    if matches!(entry.kind, Kind::File) { entry.recipe.size } else { 0 }
}
