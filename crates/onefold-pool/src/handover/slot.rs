//! A container's memory that outlives the process.
//! Room: onefold-pool.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | c | the container's bytes, as in its file; c is a multiple of 4096 |
//! | c | 52 | mark: whose it is |
//! | c+64 | 8 | number of the container, 0 if there is none |
//!
//! How many bytes count is not said: records are, as far as their checksums hold. What a former
//! container left behind them fails these, because they cover the container's number.

use std::sync::Arc;

use onefold_block::ContainerId;
use onefold_block::handover::{Handover, MARK_BYTES, Region};

use super::mark;
use crate::error::PoolError;

const MAGIC: [u8; 8] = *b"OFKEPTC\n";
const PAGE_BYTES: usize = 4096;
/// Where the number is, after the container's bytes.
const NUMBER_AT: usize = 64;

/// The memory, which knows its container.
pub struct Slot {
    region: Region,
    name: String,
    handover: Arc<dyn Handover>,
}

impl Slot {
    /// Make one for containers of at most `capacity` bytes.
    pub fn create(
        handover: Arc<dyn Handover>,
        name: String,
        capacity: usize,
        uuid: &[u8; 16],
    ) -> Result<Self, PoolError> {
        let at = capacity.next_multiple_of(PAGE_BYTES);
        let mut region = handover.create(&name, at + PAGE_BYTES)?;
        let mark = mark(MAGIC, uuid, handover.boot());
        region.bytes_mut()[at..at + MARK_BYTES].copy_from_slice(&mark.bytes());
        Ok(Self { region, name, handover })
    }

    fn tail_at(region: &Region) -> usize {
        region.bytes().len().saturating_sub(PAGE_BYTES)
    }

    /// Bytes that a container may have here.
    pub fn bytes(&self) -> &[u8] {
        &self.region.bytes()[..Self::tail_at(&self.region)]
    }

    /// The same, to change them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let at = Self::tail_at(&self.region);
        &mut self.region.bytes_mut()[..at]
    }

    /// From now on it holds this container.
    pub fn begin(&mut self, id: ContainerId) {
        let at = Self::tail_at(&self.region) + NUMBER_AT;
        self.region.publish(at, id.get().into());
    }

    /// The container is in the store, or was never needed.
    pub fn end(&mut self) {
        let at = Self::tail_at(&self.region) + NUMBER_AT;
        self.region.publish(at, 0);
    }

    fn is_free(&self) -> bool {
        self.region.number(Self::tail_at(&self.region) + NUMBER_AT) == 0
    }

    /// What a former process left: which container, and its memory. None if it left none.
    pub fn left<'a>(
        region: &'a Region,
        uuid: &[u8; 16],
        boot: [u8; 16],
    ) -> Result<Option<(ContainerId, &'a [u8])>, String> {
        let at = Self::tail_at(region);
        mark(MAGIC, uuid, boot).check(region, at).map_err(|why| why.to_string())?;
        match u32::try_from(region.number(at + NUMBER_AT)) {
            Ok(0) => Ok(None),
            Ok(number) => Ok(Some((ContainerId::new(number), &region.bytes()[..at]))),
            Err(_) => Err("it names no container".to_owned()),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // One that holds a container is for whoever comes after: this may be a stop after an error.
        if self.is_free() {
            let _ = self.handover.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::handover::SimHandover;

    use super::*;

    const UUID: [u8; 16] = [4; 16];

    fn slot(memory: &SimHandover) -> Slot {
        Slot::create(Arc::new(memory.clone()), "slot-1".to_owned(), 5000, &UUID).unwrap()
    }

    /// What the next process finds.
    fn found(memory: &SimHandover) -> Option<(ContainerId, u8)> {
        let region = memory.open("slot-1").unwrap();
        let left = Slot::left(&region, &UUID, memory.boot()).unwrap();
        left.map(|(id, bytes)| (id, bytes[7]))
    }

    #[test]
    fn a_container_is_left_to_the_next_process_until_it_is_stored() {
        let memory = SimHandover::new();
        let mut slot = slot(&memory);
        assert_eq!((found(&memory), slot.bytes().len()), (None, 8192));
        slot.begin(ContainerId::new(5));
        slot.bytes_mut()[7] = 9;
        assert_eq!(found(&memory), Some((ContainerId::new(5), 9)));
        slot.end();
        assert_eq!(found(&memory), None, "its file has it");
        slot.begin(ContainerId::new(6));
        assert_eq!(found(&memory), Some((ContainerId::new(6), 9)), "and so for the next");
    }

    #[test]
    fn memory_goes_with_its_process_unless_a_container_is_in_it() {
        let memory = SimHandover::new();
        drop(slot(&memory));
        assert!(memory.list().unwrap().is_empty(), "never used");
        let mut used = slot(&memory);
        used.begin(ContainerId::new(5));
        used.end();
        drop(used);
        assert!(memory.list().unwrap().is_empty(), "the container is stored");
        let mut filling = slot(&memory);
        filling.begin(ContainerId::new(6));
        drop(filling);
        assert_eq!(found(&memory).map(|(id, _)| id), Some(ContainerId::new(6)));
    }

    #[test]
    fn memory_of_another_pool_or_another_start_of_the_machine_is_refused() {
        let memory = SimHandover::new();
        let mut slot = slot(&memory);
        slot.begin(ContainerId::new(5));
        let region = memory.open("slot-1").unwrap();
        assert!(Slot::left(&region, &[5; 16], memory.boot()).is_err());
        assert!(Slot::left(&region, &UUID, memory.after_boot().boot()).is_err());
    }
}
