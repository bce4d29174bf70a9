//! What a pool leaves in memory for the process after this one.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 3, "Handover".
//!
//! Between flushes two things are in this process alone: the records of containers that are not
//! written out, and map changes that are in no journal frame. Where the door hands in memory that
//! outlives the process, both lie there: a container's buffer *is* such a region ([`Slot`]), and
//! map changes are copied to another ([`Changes`]). After a kill, the next opening does the flush
//! that the dead process did not come to (`take_up`), before it recovers as always.
//!
//! Invariants: (1) a change is stored after the records that it refers to; (2) what is in memory
//! and not yet durable is also in a region, or the regions say that something is missing; (3) a
//! region is believed only after its checksums, and only in the same run of the machine.

mod changes;
pub mod generation;
mod pending;
mod slot;
pub mod take_up;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use onefold_block::handover::{Handover, Mark};

pub use changes::Changes;
pub use slot::Slot;

use crate::error::PoolError;

/// Version of what the regions hold; another one is not understood.
const VERSION: u32 = 2;
/// The region of map changes.
const CHANGES_NAME: &str = "changes";
/// Names of container regions begin so.
const SLOT_PREFIX: &str = "container.";

/// What a region of a pool must bear to be believed.
const fn mark(magic: [u8; 8], uuid: &[u8; 16], boot: [u8; 16]) -> Mark {
    Mark { magic, version: VERSION, owner: *uuid, boot }
}

/// The regions of an open pool.
pub struct Kept {
    handover: Arc<dyn Handover>,
    uuid: [u8; 16],
    changes: Mutex<Changes>,
    next_slot: AtomicU32,
    /// Why a container could not be kept, the first time that happened.
    failing: OnceLock<String>,
}

impl Kept {
    /// Make the regions anew, for changes that follow checkpoint `epoch`. What others left is
    /// removed first: a container's number may be given out again after a crash, and no memory of
    /// the former one may be taken for the new one's.
    pub fn begin(
        handover: Arc<dyn Handover>,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Self, PoolError> {
        remove_all(&*handover)?;
        let changes = Mutex::new(Changes::create(&*handover, &uuid, epoch)?);
        let (next_slot, failing) = (AtomicU32::new(0), OnceLock::new());
        Ok(Self { handover, uuid, changes, next_slot, failing })
    }

    /// The map changes.
    pub fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a container; none if there is none that would outlive the process.
    pub fn slot(&self, capacity: usize) -> Option<Slot> {
        let number = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let name = format!("{SLOT_PREFIX}{number}");
        Slot::create(Arc::clone(&self.handover), name, capacity, &self.uuid)
            .inspect_err(|error| {
                if self.failing.set(error.to_string()).is_ok() {
                    tracing::warn!("writes since the last flush would not survive a kill: {error}");
                }
            })
            .ok()
    }

    /// Why what is written does not outlive the process, if so.
    pub fn failure(&self) -> Option<String> {
        self.failing.get().cloned()
    }

    /// Everything is durable and the pool is closed: nothing is left to anybody.
    pub fn end(&self) {
        if let Err(error) = remove_all(&*self.handover) {
            tracing::warn!("memory for the next process stays behind: {error}");
        }
    }
}

/// Remove all regions, the changes first: without them the rest is harmless.
fn remove_all(handover: &dyn Handover) -> Result<(), PoolError> {
    handover.remove(CHANGES_NAME)?;
    for name in handover.list()? {
        if name.starts_with(SLOT_PREFIX) {
            handover.remove(&name)?;
        }
    }
    Ok(())
}
