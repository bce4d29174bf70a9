//! Broken container stores.
//! Room: onefold-block.

use std::sync::Arc;

use onefold_block::conformance::check_container_store;
use onefold_block::conformance::container_store::CHECKS;
use onefold_block::{ContainerId, ContainerStore, StoreError, StoreLayer};

use super::{Memory, all_are_caught, fails};
use crate::mem_container_store::MemContainerStore;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    ListsBackwards,
    CallsContainersStrangers,
    RemovingTwiceFails,
    RemoveForgets,
    LosesLastByte,
    AppendsAtTheEnd,
    RepeatedAppendCuts,
    ReadsZeroesPastTheEnd,
    ReadsOfNothingSucceed,
    SyncOfNothingSucceeds,
    SealsAreOpen,
    SealForgetsToCut,
    SealKeepsSpace,
    LengthIsCapacity,
    PunchTakesTooMuch,
    PunchCuts,
    PunchOfNothingSucceeds,
    OtherThreadsLoseBytes,
    EveryThirtiethAppendIsLost,
}

/// Each bug and the check that must catch it.
const BUGS: &[(Bug, &str)] = &[
    (Bug::ListsBackwards, "containers come and go"),
    (Bug::CallsContainersStrangers, "containers come and go"),
    (Bug::RemovingTwiceFails, "containers come and go"),
    (Bug::RemoveForgets, "containers come and go"),
    (Bug::LosesLastByte, "appended bytes read back"),
    (Bug::AppendsAtTheEnd, "the same bytes again"),
    (Bug::RepeatedAppendCuts, "the same bytes again"),
    (Bug::ReadsZeroesPastTheEnd, "reads past the end"),
    (Bug::ReadsOfNothingSucceed, "what is not there"),
    (Bug::SyncOfNothingSucceeds, "what is not there"),
    (Bug::SealsAreOpen, "sealed containers do not change"),
    (Bug::SealForgetsToCut, "sealed containers do not change"),
    (Bug::SealKeepsSpace, "sealing gives space back"),
    (Bug::LengthIsCapacity, "sealing gives space back"),
    (Bug::PunchTakesTooMuch, "punching takes nothing else"),
    (Bug::PunchCuts, "punching takes nothing else"),
    (Bug::PunchOfNothingSucceeds, "what is not there"),
    (Bug::OtherThreadsLoseBytes, "threads"),
    (Bug::EveryThirtiethAppendIsLost, "model"),
];

struct Broken {
    inner: MemContainerStore,
    bug: Option<Bug>,
    memory: Memory,
}

impl Broken {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// All bytes of a container.
    fn bytes(&self, id: ContainerId) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; self.inner.len(id)? as usize];
        self.inner.read(id, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Make a container anew with these bytes.
    fn replace(&self, id: ContainerId, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.create(id, 1 << 20)?;
        self.inner.append(id, 0, bytes)
    }
}

impl StoreLayer for Broken {
    fn below(&self) -> &dyn ContainerStore {
        &self.inner
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let last = data.len().saturating_sub(1);
        match self.bug {
            Some(Bug::LosesLastByte) => self.inner.append(id, offset, &data[..last]),
            Some(Bug::OtherThreadsLoseBytes) if self.memory.is_stranger() => {
                self.inner.append(id, offset, &data[..last])
            }
            Some(Bug::EveryThirtiethAppendIsLost) if self.memory.every(30) => Ok(()),
            Some(Bug::AppendsAtTheEnd) => self.inner.append(id, self.inner.len(id)?, data),
            Some(Bug::RepeatedAppendCuts) => {
                let mut bytes = self.bytes(id)?;
                bytes.truncate(offset as usize);
                bytes.extend(data);
                self.replace(id, &bytes)
            }
            Some(Bug::SealsAreOpen) => {
                let mut bytes = self.bytes(id)?;
                let end = offset as usize + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset as usize..end].copy_from_slice(data);
                self.replace(id, &bytes)
            }
            _ => self.inner.append(id, offset, data),
        }
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        match self.inner.read(id, offset, buf) {
            Err(StoreError::Media { .. }) if self.has(Bug::ReadsZeroesPastTheEnd) => Ok(()),
            Err(StoreError::NotFound { .. }) if self.has(Bug::ReadsOfNothingSucceed) => Ok(()),
            result => result,
        }
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        match self.bug {
            Some(Bug::LengthIsCapacity) => self.inner.allocated_bytes(id),
            _ => self.inner.len(id),
        }
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        match self.inner.sync(id) {
            Err(StoreError::NotFound { .. }) if self.has(Bug::SyncOfNothingSucceeds) => Ok(()),
            result => result,
        }
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        match self.bug {
            Some(Bug::SealForgetsToCut) => self.inner.seal(id, self.inner.len(id)?),
            _ => self.inner.seal(id, len),
        }
    }

    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        match self.bug {
            Some(Bug::PunchTakesTooMuch) => self.inner.punch(id, offset, len + 1),
            Some(Bug::PunchCuts) => {
                let bytes = self.bytes(id)?;
                self.replace(id, &bytes[..bytes.len().min(offset as usize)])
            }
            Some(Bug::PunchOfNothingSucceeds) => {
                drop(self.inner.punch(id, offset, len));
                Ok(())
            }
            _ => self.inner.punch(id, offset, len),
        }
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        match self.bug {
            Some(Bug::RemovingTwiceFails) => {
                self.inner.len(id)?;
                self.inner.remove(id)
            }
            Some(Bug::RemoveForgets) => Ok(()),
            _ => self.inner.remove(id),
        }
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        let mut ids = self.inner.list()?;
        if self.has(Bug::ListsBackwards) {
            ids.reverse();
        }
        Ok(ids)
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        if self.has(Bug::CallsContainersStrangers) {
            return Ok(self.inner.list()?.iter().map(ToString::to_string).collect());
        }
        self.inner.strangers()
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        let allocated = self.inner.allocated_bytes(id)?;
        Ok(if self.has(Bug::SealKeepsSpace) { allocated.max(4 << 20) } else { allocated })
    }
}

#[test]
fn the_plainest_store_conforms() {
    check_container_store(&|| Arc::new(MemContainerStore::default()));
}

#[test]
fn every_broken_store_is_caught() {
    let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    all_are_caught(BUGS, &names, |name, bug| {
        let (_, check) = CHECKS.iter().find(|(n, _)| *n == name).expect("the name is of the table");
        fails(|| {
            check(&|| {
                let inner = MemContainerStore::default();
                Arc::new(Broken { inner, bug, memory: Memory::new() })
            });
        })
    });
}
