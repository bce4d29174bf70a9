//! Removing versions, and what interrupted work left behind.
//! Room: onefold-archive.
//! Invariant: nothing that a version in the log refers to is removed.

use std::collections::HashSet;

use onefold_block::{ContainerId, MediaError};

use crate::archive::{Archive, CONTAINERS};
use crate::error::ArchiveError;
use crate::format::log_record::LogEvent;
use crate::format::version_file::parse_name;

/// What a removal gave back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Containers that no version refers to any more.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Archive {
    /// Remove a version, and the containers that no other one refers to. While another version is
    /// damaged, only damaged ones can be removed. What others share stays,
    /// and so do chunks that nobody refers to in a container that somebody does.
    pub fn remove(&mut self, number: u32) -> Result<Removed, ArchiveError> {
        // An error if there is no such version; one that is damaged may be removed.
        let uses = self.version(Some(number)).and_then(|version| version.containers());
        let damaged = match uses {
            Err(error) if !error.is_corruption() => return Err(error),
            uses => uses.is_err(),
        };
        self.repair_log()?;
        self.clear_leftovers()?;
        match self.used_containers(Some(number)) {
            // Else two damaged versions would keep each other: no container goes before both did.
            Err(error) if damaged && error.is_corruption() => {}
            used => drop(used?),
        }
        self.commit(self.log.next_container, LogEvent::Removed(number))?;
        self.clear_leftovers()
    }

    /// Make durable which containers there are.
    pub(crate) fn sync_container_names(&self) -> Result<(), ArchiveError> {
        Ok(self.folder.subfolder(CONTAINERS)?.sync_names()?)
    }

    /// The containers that versions other than `without` refer to.
    fn used_containers(&self, without: Option<u32>) -> Result<HashSet<ContainerId>, ArchiveError> {
        let mut used = HashSet::new();
        for info in self.versions().filter(|info| Some(info.number) != without) {
            let uses = self.version(Some(info.number))?.containers()?;
            used.extend(uses.into_iter().map(|container| container.id));
        }
        Ok(used)
    }

    /// Remove the files of versions that the log does not tell of; and, if a removal may have been
    /// cut short, the containers that no version refers to. Newer containers than any in the log
    /// are an interrupted addition's, which the next one makes use of.
    pub(crate) fn clear_leftovers(&mut self) -> Result<Removed, ArchiveError> {
        let known: HashSet<u32> = self.versions().map(|info| info.number).collect();
        let mut changed = false;
        for name in self.versions_folder.list()? {
            if parse_name(&name).is_some_and(|number| !known.contains(&number)) {
                match self.versions_folder.remove(&name) {
                    Ok(()) | Err(MediaError::NotFound { .. }) => changed = true,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if changed {
            self.versions_folder.sync_names()?;
        }
        let mut removed = Removed::default();
        if self.log.ends_in_removal {
            let used = match self.used_containers(None) {
                Ok(used) => used,
                // What a damaged version refers to is not known: nothing goes.
                Err(error) if error.is_corruption() => return Ok(removed),
                Err(error) => return Err(error),
            };
            for id in self.store.list()? {
                if id.get() < self.log.next_container && !used.contains(&id) {
                    removed.bytes += self.store.len(id)?;
                    removed.containers += 1;
                    self.store.remove(id)?;
                }
            }
            self.sync_container_names()?;
        }
        Ok(removed)
    }
}
