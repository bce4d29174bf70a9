//! All containers of a pool and how many map entries point into each.
//! Room: onefold-pool.
//! Invariant: `references` of a container equals the number of map entries with an address in it;
//! `Pool::check` recounts them.
//! Cost: about 32 bytes of memory per container, that is per 4 MiB stored.

use std::collections::BTreeMap;

use onefold_block::ContainerId;

use crate::format::superblock::ContainerRecord;

/// What is known of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Length in bytes once sealed, 0 while open.
    pub len_bytes: u32,
    /// Records in it, once sealed.
    pub chunks: u32,
    /// Map entries that point into it.
    pub references: u64,
}

/// The containers by number.
#[derive(Clone, Debug, Default)]
pub struct ContainerTable {
    containers: BTreeMap<ContainerId, ContainerInfo>,
    /// Sealed containers that nothing points into.
    dead: u64,
}

impl ContainerTable {
    /// The table that a checkpoint holds.
    pub fn from_records(records: &[ContainerRecord]) -> Self {
        let mut table = Self::default();
        for record in records {
            let &ContainerRecord { id, len_bytes, chunks, references } = record;
            table.containers.insert(id, ContainerInfo { len_bytes, chunks, references });
            table.dead += u64::from(len_bytes > 0 && references == 0);
        }
        table
    }

    /// What a checkpoint shall hold.
    pub fn to_records(&self) -> Vec<ContainerRecord> {
        let record = |(&id, info): (&ContainerId, &ContainerInfo)| {
            let ContainerInfo { len_bytes, chunks, references } = *info;
            ContainerRecord { id, len_bytes, chunks, references }
        };
        self.containers.iter().map(record).collect()
    }

    /// Add a container that is being filled.
    pub fn open(&mut self, id: ContainerId) {
        self.containers.insert(id, ContainerInfo { len_bytes: 0, chunks: 0, references: 0 });
    }

    /// A container got its final length.
    pub fn seal(&mut self, id: ContainerId, len_bytes: usize, chunks: usize) {
        if let Some(info) = self.containers.get_mut(&id) {
            info.len_bytes = len_bytes as u32;
            info.chunks = chunks as u32;
            self.dead += u64::from(info.references == 0);
        }
    }

    /// What is known of a container.
    pub fn get(&self, id: ContainerId) -> Option<&ContainerInfo> {
        self.containers.get(&id)
    }

    /// `count` more map entries point into `id`; false if there is no such container.
    #[must_use]
    pub fn reference(&mut self, id: ContainerId, count: u64) -> bool {
        let Some(info) = self.containers.get_mut(&id) else { return false };
        self.dead -= u64::from(info.len_bytes > 0 && info.references == 0 && count > 0);
        info.references += count;
        true
    }

    /// `count` fewer map entries point into `id`; false if there were not that many.
    #[must_use]
    pub fn release(&mut self, id: ContainerId, count: u64) -> bool {
        let Some(info) = self.containers.get_mut(&id) else { return false };
        let Some(left) = info.references.checked_sub(count) else { return false };
        info.references = left;
        self.dead += u64::from(info.len_bytes > 0 && left == 0 && count > 0);
        true
    }

    /// Number of sealed containers that nothing points into.
    pub const fn dead(&self) -> u64 {
        self.dead
    }

    /// Take those containers off the table.
    pub fn take_dead(&mut self) -> Vec<ContainerId> {
        let dead: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(_, info)| info.len_bytes > 0 && info.references == 0)
            .map(|(&id, _)| id)
            .collect();
        for id in &dead {
            self.containers.remove(id);
        }
        self.dead = 0;
        dead
    }

    /// Forget a container, whatever points into it.
    pub fn remove(&mut self, id: ContainerId) {
        if let Some(info) = self.containers.remove(&id) {
            self.dead -= u64::from(info.len_bytes > 0 && info.references == 0);
        }
    }

    /// All containers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ContainerId, &ContainerInfo)> {
        self.containers.iter().map(|(&id, info)| (id, info))
    }

    /// Memory in use, in bytes; a tree's nodes are three quarters full, on average.
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<(ContainerId, ContainerInfo)>() * 4 / 3
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.containers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sealed_containers_without_references_are_dead() {
        let [a, b, c] = [1, 2, 3].map(ContainerId::new);
        let mut table = ContainerTable::default();
        for id in [a, b, c] {
            table.open(id);
        }
        assert!(table.reference(a, 2) && table.reference(b, 1));
        table.seal(a, 100, 2);
        table.seal(b, 100, 1);
        assert_eq!(table.dead(), 0, "c is open, a and b are referred to");
        assert!(table.release(a, 2) && table.release(b, 1) && table.reference(b, 1));
        assert!(!table.release(b, 2), "more than there are");
        assert!(!table.reference(ContainerId::new(9), 1), "no such container");
        assert_eq!(table.dead(), 1);
        let records = table.to_records();
        assert_eq!(ContainerTable::from_records(&records).dead(), 1);
        assert_eq!(table.take_dead(), [a]);
        assert_eq!((table.dead(), table.len()), (0, 2));
    }
}
