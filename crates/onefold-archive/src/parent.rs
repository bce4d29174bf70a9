//! The last version, while the next one is added: files that did not change are taken over from it
//! without being read.
//! Room: onefold-archive.
//! Source: what git calls a racy entry: a file that was changed in the same moment in which it was
//! read has times that do not tell, so only files are trusted that were at rest before the last
//! version was begun.
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

/// Seconds for which a file must have been at rest before the last version was begun: file systems
/// with the coarsest times count in steps of two.
const AT_REST_S: i64 = 3;

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
