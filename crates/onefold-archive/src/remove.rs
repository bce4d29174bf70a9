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

impl Removed {
    fn take(&mut self, more: Self) {
        self.containers += more.containers;
        self.bytes += more.bytes;
    }
}

impl Archive {
    /// Remove a version, and the containers that no other one refers to; what an interrupted
    /// addition left goes as well. While another version is damaged, only damaged ones can be
    /// removed. What others share stays, and so do chunks that nobody refers to in a container
    /// that somebody does: [`Archive::compact`] gives those back.
    pub fn remove(&mut self, number: u32) -> Result<Removed, ArchiveError> {
        self.remove_all(&[number])
    }

    /// The same for several versions; those that were removed before an error stay removed.
    pub fn remove_all(&mut self, numbers: &[u32]) -> Result<Removed, ArchiveError> {
        let mut damaged = false;
        for &number in numbers {
            // An error if there is no such version; one that is damaged may be removed.
            match self.version(Some(number)).and_then(|version| version.containers()) {
                Err(error) if !error.is_corruption() => return Err(error),
                uses => damaged |= uses.is_err(),
            }
        }
        self.complete_copies()?;
        let mut removed = self.discard_pending()?;
        removed.take(self.clear_leftovers()?);
        match self.used_containers(numbers) {
            // Else two damaged versions would keep each other: no container goes before both did.
            Err(error) if damaged && error.is_corruption() => {}
            used => drop(used?),
        }
        for &number in numbers {
            self.commit(self.log.next_container, LogEvent::Removed(number))?;
        }
        removed.take(self.clear_leftovers()?);
        Ok(removed)
    }

    /// Make durable which containers there are.
    pub(crate) fn sync_container_names(&self) -> Result<(), ArchiveError> {
        Ok(self.folder.subfolder(CONTAINERS)?.sync_names()?)
    }

    /// Make durable which versions' files there are. If that fails, `removed` ones may come back
    /// with the next power cut, when nothing tells of them any more: those that the log does not
    /// explain are there again, so that they are removed again.
    fn sync_versions(&self, removed: &[String]) -> Result<(), ArchiveError> {
        let synced = self.versions_folder.sync_names();
        if synced.is_err() {
            let explains = |whose: (u32, u32)| {
                let mut known = self.versions().map(|info| (info.number, info.generation));
                self.log.removed.contains(&whose.0)
                    || known.any(|known| known.0 == whose.0 && known.1 >= whose.1)
            };
            let unexplained =
                |name: &&String| parse_name(name).is_some_and(|whose| !explains(whose));
            for name in removed.iter().filter(unexplained) {
                let _ = self.versions_folder.create(name);
            }
        }
        Ok(synced?)
    }

    /// The same for containers.
    pub(crate) fn sync_containers(&self, removed: &[ContainerId]) -> Result<(), ArchiveError> {
        let synced = self.sync_container_names();
        if synced.is_err() {
            for &id in removed.iter().filter(|id| id.get() >= self.log.next_container) {
                let _ = self.store.create(id, 0);
            }
        }
        synced
    }

    /// The containers that versions other than `without` refer to.
    fn used_containers(&self, without: &[u32]) -> Result<HashSet<ContainerId>, ArchiveError> {
        let mut used = HashSet::new();
        for info in self.versions().filter(|info| !without.contains(&info.number)) {
            let uses = self.version(Some(info.number))?.containers()?;
            used.extend(uses.into_iter().map(|container| container.id));
        }
        Ok(used)
    }

    /// Remove the files of versions that the log does not tell of any more, or not yet; and, if
    /// work that leaves containers over may have been cut short, the containers that no version
    /// refers to. Newer containers than any in the log are an interrupted addition's, which the
    /// next one makes use of.
    pub(crate) fn clear_leftovers(&mut self) -> Result<Removed, ArchiveError> {
        self.log.must_be_whole()?;
        let known: HashSet<(u32, u32)> =
            self.versions().map(|info| (info.number, info.generation)).collect();
        let mut removed = Vec::new();
        for name in self.versions_folder.list()? {
            if parse_name(&name).is_some_and(|whose| !known.contains(&whose)) {
                match self.versions_folder.remove(&name) {
                    Ok(()) | Err(MediaError::NotFound { .. }) => removed.push(name),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if !removed.is_empty() || self.log.pending.is_some() {
            self.sync_versions(&removed)?;
        }
        if self.log.leaves_leftovers { self.remove_unused() } else { Ok(Removed::default()) }
    }

    /// Remove the containers that the log accounts for and no version refers to.
    pub(crate) fn remove_unused(&mut self) -> Result<Removed, ArchiveError> {
        let used = match self.used_containers(&[]) {
            Ok(used) => used,
            // What a damaged version refers to is not known: nothing goes.
            Err(error) if error.is_corruption() => return Ok(Removed::default()),
            Err(error) => return Err(error),
        };
        let next = self.log.next_container;
        self.remove_containers(|id| id.get() < next && !used.contains(&id))
    }

    fn remove_containers(
        &mut self,
        goes: impl Fn(ContainerId) -> bool,
    ) -> Result<Removed, ArchiveError> {
        let mut removed = Removed::default();
        let mut gone = Vec::new();
        for id in self.store.list()?.into_iter().filter(|&id| goes(id)) {
            removed.bytes += self.store.len(id)?;
            removed.containers += 1;
            self.store.remove(id)?;
            gone.push(id);
        }
        if removed.containers > 0 {
            self.sync_containers(&gone)?;
        }
        Ok(removed)
    }

    /// Give back what work that was cut short, or has failed, left behind.
    pub(crate) fn discard_pending(&mut self) -> Result<Removed, ArchiveError> {
        self.log.must_be_whole()?;
        if self.log.pending.is_none() {
            return Ok(Removed::default());
        }
        let next = self.log.next_container;
        let mut removed = self.remove_containers(|id| id.get() >= next)?;
        // One that there was no space for was made and taken back, which must not come back.
        self.sync_container_names()?;
        removed.take(self.clear_leftovers()?);
        self.end_work()?;
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{Folder as _, SimFolder};

    use super::*;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    #[test]
    fn nothing_is_cleared_away_beside_a_log_that_is_damaged() {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        folder.subfolder("versions").unwrap().create("00000003.version").unwrap();
        let mut archive = Archive::open(Arc::new(folder.clone())).unwrap();
        for cleared in [archive.clear_leftovers(), archive.discard_pending()] {
            let problem = "it does not tell of version 3, whose file is there; nothing is changed";
            let error = cleared.unwrap_err().to_string();
            assert_eq!(error, format!("corrupt log at byte 0: {problem}"));
        }
        assert_eq!(folder.subfolder("versions").unwrap().list().unwrap().len(), 1);
    }
}
