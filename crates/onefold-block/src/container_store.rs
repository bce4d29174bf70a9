//! Where containers live: numbered, append-only while open, immutable once sealed.
//! Room: onefold-block.
//! Invariants: (1) bytes appended to a container can be read back at once; (2) they survive a
//! power cut once `sync` of that container returned `Ok`; (3) a sealed container never changes
//! until it is removed, but for what its owner punched. Checked by
//! [`crate::conformance::container_store`].

use thiserror::Error;

use crate::address::ContainerId;
use crate::media::MediaError;

/// Why a container store refused or failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such container.
    #[error("{id} does not exist")]
    NotFound {
        /// The container asked for.
        id: ContainerId,
    },
    /// The media below failed.
    #[error("{id}: {source}")]
    Media {
        /// The container concerned.
        id: ContainerId,
        /// What failed below.
        source: MediaError,
    },
    /// The set of containers could not be read or changed.
    #[error("list of containers: {0}")]
    Names(MediaError),
}

/// A set of containers on any media: one folder, two tiers, a remote store.
pub trait ContainerStore: Send + Sync {
    /// Make a new empty container with `capacity_bytes` set aside for it, so that appends up to
    /// that size cannot run out of space.
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError>;

    /// Store `data` at `offset` of an open container. Appends are contiguous: `offset` is where
    /// the last one ended, or an earlier byte when the same bytes are written again.
    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError>;

    /// Fill `buf` from `offset` of a container.
    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError>;

    /// Length of a container in bytes.
    fn len(&self, id: ContainerId) -> Result<u64, StoreError>;

    /// Make everything appended so far, and the container's existence, durable.
    fn sync(&self, id: ContainerId) -> Result<(), StoreError>;

    /// No more appends: the container is `len` bytes long and what was set aside past that is
    /// given back. Durable after the next [`ContainerStore::sync`] of it.
    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError>;

    /// Give the space of a range of a sealed container back, in whole pages of 4 KiB. What is there
    /// is zeroes from now on, or what it was, in parts or as a whole: callers read it no more. A
    /// store that cannot give it back answers `Ok`.
    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError>;

    /// Whether punching gives pages back one by one ([`crate::Folder::gives_pages_back`]).
    fn gives_pages_back(&self) -> bool {
        true
    }

    /// Remove a container and give its space back. Removing what is not there is fine: a crash
    /// may have come between the decision and the deed.
    fn remove(&self, id: ContainerId) -> Result<(), StoreError>;

    /// Every container there is, in ascending order.
    fn list(&self) -> Result<Vec<ContainerId>, StoreError>;

    /// What tells a sealed container from all that ever had its number, where the store knows that
    /// without reading any of it.
    fn tag(&self, id: ContainerId) -> Option<String> {
        let _ = id;
        None
    }

    /// How many reads of different containers are worth making at once.
    fn reads_at_once(&self) -> usize {
        1
    }

    /// So many references lead to each of these containers by now. A hint, told when a pool is
    /// opened and at its checkpoints, for stores that ask what is worth keeping where.
    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        let _ = totals;
    }

    /// What will be appended to a container that is being filled was in other containers before. A
    /// hint, for stores that keep what is new.
    fn tell_moved(&self, id: ContainerId) {
        let _ = id;
    }

    /// Names in the store that are no containers, for a check to report.
    fn strangers(&self) -> Result<Vec<String>, StoreError>;

    /// Bytes of the device below that a container takes, where that is known; else its length.
    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError>;
}
