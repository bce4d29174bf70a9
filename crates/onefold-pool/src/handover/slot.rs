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
