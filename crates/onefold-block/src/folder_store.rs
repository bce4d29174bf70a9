//! A container store that keeps each container as one file of a folder.
//! Room: onefold-block.
//! Invariant: `sync` of a container makes its name durable as well as its bytes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::ContainerId;
use crate::container_store::{ContainerStore, StoreError};
use crate::media::{FOLDER_MARK, Folder, Media, MediaError};
use crate::open_files::{OpenFiles, open_containers_max};

const SUFFIX: &str = ".container";

/// Containers as files of a folder.
pub struct FolderContainerStore {
    folder: Arc<dyn Folder>,
    /// Files kept open, at most, if not as many as the process says.
    open_max: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: OpenFiles,
    /// Created, but their names are not known to be durable.
    unnamed: HashSet<ContainerId>,
    /// Sealed by this process, as far as their files are still open: an append to one of these is
    /// a mistake of the caller's.
    sealed: HashSet<ContainerId>,
    /// How many were removed: a file opened before one of these may be the one that is gone.
    removals: u64,
}

impl FolderContainerStore {
    /// A store in `folder`, which holds nothing else. It keeps as many files open as
    /// [`keep_containers_open`](crate::keep_containers_open) says.
    pub fn new(folder: Arc<dyn Folder>) -> Self {
        Self { folder, open_max: None, state: Mutex::default() }
    }

    /// One that keeps up to `open_max` files open, and at least one.
    pub fn with_open_files(folder: Arc<dyn Folder>, open_max: usize) -> Self {
        Self { open_max: Some(open_max), ..Self::new(folder) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn media(&self, id: ContainerId) -> Result<Arc<dyn Media>, StoreError> {
        let removals = {
            let mut state = self.state();
            if let Some(media) = state.open.get(id) {
                return Ok(media);
            }
            state.removals
        };
        let media = self.folder.open(&file_name(id)).map_err(|e| wrap(id, e))?;
        let mut state = self.state();
        // It may have been removed since: its space would stay taken as long as it is remembered.
        if state.removals == removals {
            self.remember(&mut state, id, Arc::clone(&media));
        }
        drop(state);
        Ok(media)
    }

    fn remember(&self, state: &mut State, id: ContainerId, media: Arc<dyn Media>) {
        let State { open, sealed, .. } = state;
        let most = self.open_max.unwrap_or_else(open_containers_max);
        open.insert(id, media, most, &mut |closed| {
            sealed.remove(&closed);
        });
    }
}

/// The file name of a container.
pub fn file_name(id: ContainerId) -> String {
    format!("{:08x}{SUFFIX}", id.get())
}

fn parse_name(name: &str) -> Option<ContainerId> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    let id = ContainerId::new(number);
    (file_name(id) == name).then_some(id)
}

fn wrap(id: ContainerId, source: MediaError) -> StoreError {
    match source {
        MediaError::NotFound { .. } => StoreError::NotFound { id },
        source => StoreError::Media { id, source },
    }
}

impl ContainerStore for FolderContainerStore {
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        let name = file_name(id);
        let media = self.folder.create(&name).map_err(|e| wrap(id, e))?;
        if let Err(error) = media.reserve(0, capacity_bytes) {
            drop(media);
            // Whatever comes of the removal, the lack of space is what the caller must hear of;
            // an empty file left behind is removed at the next recovery.
            let _ = self.folder.remove(&name);
            return Err(wrap(id, error));
        }
        let mut state = self.state();
        state.unnamed.insert(id);
        self.remember(&mut state, id, media);
        Ok(())
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let media = self.media(id)?;
        if self.state().sealed.contains(&id) {
            let source = std::io::ErrorKind::ReadOnlyFilesystem.into();
            let error = MediaError::Io { action: "append to sealed", name: file_name(id), source };
            return Err(wrap(id, error));
        }
        media.write(offset, data).map_err(|e| wrap(id, e))
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.media(id)?.read(offset, buf).map_err(|e| wrap(id, e))
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.media(id)?.len().map_err(|e| wrap(id, e))
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        self.media(id)?.sync().map_err(|e| wrap(id, e))?;
        // All names that are there now become durable together, but one created while the folder
        // is being synced may not: only those seen before are taken off.
        let unnamed: Vec<ContainerId> = {
            let state = self.state();
            if !state.unnamed.contains(&id) {
                return Ok(());
            }
            state.unnamed.iter().copied().collect()
        };
        self.folder.sync_names().map_err(StoreError::Names)?;
        let mut state = self.state();
        for id in unnamed {
            state.unnamed.remove(&id);
        }
        Ok(())
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        self.media(id)?.set_len(len).map_err(|e| wrap(id, e))?;
        self.state().sealed.insert(id);
        Ok(())
    }

    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        self.media(id)?.punch(offset, len).map_err(|e| wrap(id, e))
    }

    fn gives_pages_back(&self) -> bool {
        self.folder.gives_pages_back()
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        let result = match self.folder.remove(&file_name(id)) {
            Ok(()) | Err(MediaError::NotFound { .. }) => Ok(()),
            Err(error) => Err(wrap(id, error)),
        };
        // After the file: who opens it before this and remembers it later sees the count.
        let mut state = self.state();
        state.removals += 1;
        state.open.remove(id);
        state.sealed.remove(&id);
        state.unnamed.remove(&id);
        result
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        let names = self.folder.list().map_err(StoreError::Names)?;
        Ok(names.iter().filter_map(|name| parse_name(name)).collect())
    }

    fn tag(&self, id: ContainerId) -> Option<String> {
        self.media(id).ok()?.tag()
    }

    fn reads_at_once(&self) -> usize {
        self.folder.reads_at_once()
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        let names = self.folder.list().map_err(StoreError::Names)?;
        let is_strange = |name: &String| parse_name(name).is_none() && name != FOLDER_MARK;
        Ok(names.into_iter().filter(is_strange).collect())
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.media(id)?.allocated_bytes().map_err(|e| wrap(id, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimFolder;

    #[test]
    fn nothing_is_remembered_of_containers_that_are_closed_or_gone() {
        let store = FolderContainerStore::with_open_files(Arc::new(SimFolder::new()), 3);
        for number in 0..50 {
            let id = ContainerId::new(number);
            store.create(id, 0).unwrap();
            store.seal(id, 0).unwrap();
            assert_eq!(store.state().sealed.len(), (number as usize + 1).min(3));
        }
        assert_eq!(store.state().unnamed.len(), 50);
        for number in 0..49 {
            store.remove(ContainerId::new(number)).unwrap();
        }
        let state = store.state();
        assert_eq!((state.unnamed.len(), state.sealed.len()), (1, 1));
    }
}
