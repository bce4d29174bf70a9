//! The last version, while the next one is added: files that did not change are taken over from it
//! without being read.
//! Room: onefold-archive.
//! Source: what git calls a racy entry: a file that was changed in the same moment in which it was
//! read has times that do not tell, so only files are trusted that were at rest for a while before
//! the last version was begun.
//! Cost: one entry of the last version is read for each path.

use std::cmp::Ordering;
use std::collections::HashSet;

use onefold_block::ContainerId;

use crate::adder::AddOptions;
use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::entry::{Entry, Kind, Recipe, compare_paths};
use crate::version::Version;

/// Seconds for which a file must have been at rest before the last version was begun. File systems
/// with the coarsest times count in steps of two. A program that writes to a file in its memory
/// (`mmap`) changes the file's times with its first write to a page, and with the next one only
/// after the system has written that page out, which it does within 35 seconds unless it is told
/// otherwise: until then content changes under times that stay.
const AT_REST_S: i64 = 60;

/// A version to take files over from.
pub struct Parent {
    version: Version,
    /// The entry that was looked at last; paths come in order.
    at: usize,
    /// The containers that are there.
    containers: HashSet<ContainerId>,
}

impl Archive {
    /// The last version, if files are to be taken over from it and it can be read.
    pub(crate) fn parent(&self, options: &AddOptions) -> Result<Option<Parent>, ArchiveError> {
        // Which duplicates to store again is known only of what is read.
        let rewrites = options.rewriting.har || options.rewriting.cap.is_some();
        if !options.skip_unchanged || rewrites || self.versions().len() == 0 {
            return Ok(None);
        }
        let version = match self.version(None) {
            Ok(version) => version,
            Err(error) if error.is_corruption() => return Ok(None),
            Err(error) => return Err(error),
        };
        let containers = self.store.list()?.into_iter().collect();
        Ok(Some(Parent { version, at: 0, containers }))
    }
}

impl Parent {
    /// The recipe of the file of that path, if it is as `now` and `size` say.
    pub fn unchanged(&mut self, now: &Entry, size: u64) -> Option<Recipe> {
        while self.at < self.version.len() {
            // A damaged entry is of no use, and no obstacle.
            let Ok(then) = self.version.entry(self.at) else {
                self.at += 1;
                continue;
            };
            match compare_paths(&then.path, &now.path) {
                Ordering::Less => self.at += 1,
                Ordering::Greater => return None,
                Ordering::Equal => {
                    let times = |entry: &Entry| (entry.metadata.mtime_s, entry.metadata.mtime_ns);
                    let at_rest = now.stamp.ctime_s.max(now.metadata.mtime_s);
                    let same = then.kind == Kind::File
                        && now.stamp.inode != 0
                        && then.stamp == now.stamp
                        && times(&then) == times(now)
                        && then.recipe.size == size
                        && at_rest.saturating_add(AT_REST_S) <= self.version.info().time_s;
                    return same.then_some(then.recipe);
                }
            }
        }
        None
    }

    /// The chunks of a file; `None` in the place of one that cannot be had.
    pub fn chunks(&self, recipe: Recipe) -> impl Iterator<Item = Option<ChunkRef>> {
        self.version
            .chunks(recipe)
            .map(|chunk| chunk.ok().filter(|chunk| self.containers.contains(&chunk.container)))
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::forged::first_version;
    use crate::format::entry::{Metadata, Stamp};
    use crate::format::log_record::{LogEvent, VersionInfo};

    use crate::rewrite::Rewriting;

    fn file(path: &str, ctime_s: i64, mtime_s: i64) -> Entry {
        Entry {
            path: path.as_bytes().to_vec(),
            kind: Kind::File,
            metadata: Metadata { mtime_s, mtime_ns: 5, ..Metadata::default() },
            stamp: Stamp { inode: 3, ctime_s, ctime_ns: 6 },
            recipe: Recipe { size: 7, ..Recipe::default() },
        }
    }

    /// An archive whose last version, of time 1000, has these entries.
    fn with(entries: &[Entry]) -> Archive {
        let (mut archive, mut manifest) = first_version();
        for entry in entries {
            manifest.entry(entry).unwrap();
        }
        let info = VersionInfo { time_s: 1000, ..VersionInfo::default() };
        let info = manifest.finish(info, 1).unwrap();
        archive.commit(1, LogEvent::Added(info)).unwrap();
        archive
    }

    fn parent(archive: &Archive) -> Parent {
        archive.parent(&AddOptions::default()).unwrap().unwrap()
    }

    #[test]
    fn only_what_was_at_rest_and_is_the_same_in_every_way_is_unchanged() {
        for (ctime_s, mtime_s, expected) in [
            (940, 5, true),
            (941, 5, false),
            (5, 940, true),
            (5, 941, false),
            (940, i64::MAX, false),
            (i64::MAX, 940, false),
        ] {
            let entry = file("f", ctime_s, mtime_s);
            let found = parent(&with(std::slice::from_ref(&entry))).unchanged(&entry, 7);
            assert_eq!(found.is_some(), expected, "{ctime_s} {mtime_s}");
        }
        let then = file("f", 10, 20);
        let archive = with(std::slice::from_ref(&then));
        let same = |change: &dyn Fn(&mut Entry), size| {
            let mut now = then.clone();
            change(&mut now);
            parent(&archive).unchanged(&now, size).is_some()
        };
        assert!(same(&|_| {}, 7));
        assert!(!same(&|_| {}, 8));
        assert!(!same(&|now| now.stamp.inode = 4, 7));
        assert!(!same(&|now| now.stamp.ctime_s = 11, 7));
        assert!(!same(&|now| now.stamp.ctime_ns = 7, 7));
        assert!(!same(&|now| now.metadata.mtime_s = 21, 7));
        assert!(!same(&|now| now.metadata.mtime_ns = 6, 7));
        // Whose it is may have changed without that.
        assert!(same(&|now| now.metadata.uid = 9, 7));
        let folder = Entry { kind: Kind::Directory, ..file("f", 10, 20) };
        assert!(parent(&with(&[folder])).unchanged(&then, 7).is_none());
    }

    #[test]
    fn paths_are_looked_for_in_their_order_and_damage_is_passed_over() {
        let mut bad = file("c", 1, 1);
        bad.metadata.mtime_ns = u32::MAX;
        let entries = [file("a", 1, 1), file("b", 1, 1), bad.clone(), bad, file("e", 1, 1)];
        let archive = with(&entries);
        let mut parent = parent(&archive);
        for (path, found) in
            [("0", false), ("a", true), ("aa", false), ("c", false), ("d", false), ("e", true)]
        {
            let known = parent.unchanged(&file(path, 1, 1), 7);
            assert_eq!(known.is_some(), found, "{path}");
        }
        assert!(parent.unchanged(&file("z", 1, 1), 7).is_none());
        assert!(parent.unchanged(&file("z/z", 1, 1), 7).is_none());
    }

    #[test]
    fn nothing_is_taken_over_unread_where_duplicates_may_have_to_be_stored_again() {
        let archive = with(&[file("a", 1, 1)]);
        let taken = |cap, har, skip_unchanged| {
            let rewriting = Rewriting { cap, har };
            let options = AddOptions { rewriting, skip_unchanged, ..AddOptions::default() };
            archive.parent(&options).unwrap().is_some()
        };
        assert!(taken(None, false, true));
        assert!(!taken(None, true, true) && !taken(Some(9), false, true));
        assert!(!taken(None, false, false));
    }
}
