//! The plainest container store there can be: vectors in a map.
//! Room: onefold-block.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::sync::{Mutex, MutexGuard};

use onefold_block::{ContainerId, ContainerStore, MediaError, StoreError};

#[derive(Default)]
pub struct MemContainerStore {
    containers: Mutex<BTreeMap<ContainerId, Container>>,
}

#[derive(Default)]
struct Container {
    bytes: Vec<u8>,
    capacity: u64,
    sealed: bool,
}

impl MemContainerStore {
    fn containers(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Container>> {
        self.containers.lock().unwrap()
    }

    fn with<T>(
        &self,
        id: ContainerId,
        deed: impl FnOnce(&mut Container) -> Result<T, MediaError>,
    ) -> Result<T, StoreError> {
        let mut containers = self.containers();
        let container = containers.get_mut(&id).ok_or(StoreError::NotFound { id })?;
        deed(container).map_err(|source| StoreError::Media { id, source })
    }
}

fn refused(id: ContainerId, reason: &'static str) -> MediaError {
    let source = Error::new(ErrorKind::InvalidInput, reason);
    MediaError::Io { action: "append to", name: id.to_string(), source }
}

impl ContainerStore for MemContainerStore {
    fn create(&self, id: ContainerId, capacity: u64) -> Result<(), StoreError> {
        self.containers().insert(id, Container { capacity, ..Container::default() });
        Ok(())
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.with(id, |container| {
            let (start, end) = (offset as usize, offset as usize + data.len());
            if container.sealed {
                return Err(refused(id, "it is sealed"));
            }
            if start > container.bytes.len() {
                return Err(refused(id, "appends are contiguous"));
            }
            let len = container.bytes.len().max(end);
            container.bytes.resize(len, 0);
            container.bytes[start..end].copy_from_slice(data);
            Ok(())
        })
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.with(id, |container| {
            let (len, end) =
                (container.bytes.len() as u64, offset.saturating_add(buf.len() as u64));
            if end > len {
                return Err(MediaError::Truncated { name: id.to_string(), len, offset, end });
            }
            buf.copy_from_slice(&container.bytes[offset as usize..end as usize]);
            Ok(())
        })
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.with(id, |container| Ok(container.bytes.len() as u64))
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        self.with(id, |_| Ok(()))
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        self.with(id, |container| {
            container.bytes.truncate(len as usize);
            container.sealed = true;
            container.capacity = 0;
            Ok(())
        })
    }

    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        self.with(id, |container| {
            let end = offset.saturating_add(len).min(container.bytes.len() as u64);
            if let Some(bytes) = container.bytes.get_mut(offset as usize..end as usize) {
                bytes.fill(0);
            }
            Ok(())
        })
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        self.containers().remove(&id);
        Ok(())
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        Ok(self.containers().keys().copied().collect())
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.with(id, |container| Ok(container.capacity.max(container.bytes.len() as u64)))
    }
}
