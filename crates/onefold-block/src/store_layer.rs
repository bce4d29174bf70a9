//! Layers over a container store.
//! Room: onefold-block.
//!
//! Most layers change a few methods and pass the rest on. If each did that by hand, the one that
//! forgets a hint would hide what the store below knows, and nothing would fail: a cache that does
//! so makes one read at once of a store for which eight are worth making.

use crate::{ContainerId, ContainerStore, StoreError};

/// A layer over a [`ContainerStore`]: it is one itself, and what it does not write anew is what
/// the store below does.
pub trait StoreLayer: Send + Sync {
    /// The store below.
    fn below(&self) -> &dyn ContainerStore;

    /// [`ContainerStore::create`].
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        self.below().create(id, capacity_bytes)
    }

    /// [`ContainerStore::append`].
    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.below().append(id, offset, data)
    }

    /// [`ContainerStore::read`].
    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.below().read(id, offset, buf)
    }

    /// [`ContainerStore::len`].
    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.below().len(id)
    }

    /// [`ContainerStore::sync`].
    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        self.below().sync(id)
    }

    /// [`ContainerStore::seal`].
    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        self.below().seal(id, len)
    }

    /// [`ContainerStore::punch`].
    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        self.below().punch(id, offset, len)
    }

    /// [`ContainerStore::gives_pages_back`].
    fn gives_pages_back(&self) -> bool {
        self.below().gives_pages_back()
    }

    /// [`ContainerStore::remove`].
    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        self.below().remove(id)
    }

    /// [`ContainerStore::list`].
    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        self.below().list()
    }

    /// [`ContainerStore::tag`].
    fn tag(&self, id: ContainerId) -> Option<String> {
        self.below().tag(id)
    }

    /// [`ContainerStore::reads_at_once`].
    fn reads_at_once(&self) -> usize {
        self.below().reads_at_once()
    }

    /// [`ContainerStore::tell_references`].
    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        self.below().tell_references(totals);
    }

    /// [`ContainerStore::tell_moved`].
    fn tell_moved(&self, id: ContainerId) {
        self.below().tell_moved(id);
    }

    /// [`ContainerStore::strangers`].
    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        self.below().strangers()
    }

    /// [`ContainerStore::allocated_bytes`].
    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.below().allocated_bytes(id)
    }
}

impl<L: StoreLayer> ContainerStore for L {
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        StoreLayer::create(self, id, capacity_bytes)
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        StoreLayer::append(self, id, offset, data)
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        StoreLayer::read(self, id, offset, buf)
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        StoreLayer::len(self, id)
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        StoreLayer::sync(self, id)
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        StoreLayer::seal(self, id, len)
    }

    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        StoreLayer::punch(self, id, offset, len)
    }

    fn gives_pages_back(&self) -> bool {
        StoreLayer::gives_pages_back(self)
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        StoreLayer::remove(self, id)
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        StoreLayer::list(self)
    }

    fn tag(&self, id: ContainerId) -> Option<String> {
        StoreLayer::tag(self, id)
    }

    fn reads_at_once(&self) -> usize {
        StoreLayer::reads_at_once(self)
    }

    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        StoreLayer::tell_references(self, totals);
    }

    fn tell_moved(&self, id: ContainerId) {
        StoreLayer::tell_moved(self, id);
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        StoreLayer::strangers(self)
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        StoreLayer::allocated_bytes(self, id)
    }
}
