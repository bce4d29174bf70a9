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
mod slot;
pub mod take_up;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use onefold_block::bytes::Writer;
use onefold_block::handover::{Handover, Region};

pub use changes::Changes;
pub use slot::Slot;

use crate::error::PoolError;

/// Version of what the regions hold; another one is not understood.
const VERSION: u32 = 2;
/// Bytes of the mark that every region bears.
const MARK_BYTES: usize = 52;
/// The region of map changes.
const CHANGES_NAME: &str = "changes";
/// Names of container regions begin so.
const SLOT_PREFIX: &str = "container.";

/// Whose a region is, and since when: what it must bear to be believed.
fn mark(magic: [u8; 8], uuid: &[u8; 16], boot: [u8; 16]) -> [u8; MARK_BYTES] {
    let mut writer = Writer(Vec::with_capacity(MARK_BYTES));
    writer.bytes(&magic);
    writer.u32(VERSION);
    writer.u32(0);
    writer.bytes(uuid);
    writer.bytes(&boot);
    let check = crc32fast::hash(&writer.0);
    writer.u32(check);
    writer.0.try_into().expect("its length is fixed")
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
        self.changes().clear();
        if let Err(error) = remove_all(&*self.handover) {
            tracing::warn!("memory for the next process stays behind: {error}");
        }
    }
}

/// Whether a region bears the mark, and if not, why it counts for nothing.
fn check_mark(
    region: &Region,
    at: usize,
    magic: [u8; 8],
    uuid: &[u8; 16],
    boot: [u8; 16],
) -> Result<(), &'static str> {
    let Some(found) = region.bytes().get(at..at + MARK_BYTES) else {
        return Err("it is cut short");
    };
    if found == mark(magic, uuid, boot) {
        return Ok(());
    }
    let intact = crc32fast::hash(&found[..48]).to_le_bytes() == found[48..];
    Err(match intact {
        false => "its head is damaged",
        true if found[..8] != magic[..] => "it is something else",
        true if found[8..12] != VERSION.to_le_bytes() => "another version of onefold left it",
        true if found[16..32] != uuid[..] => "it is another pool's",
        true => "the machine was started again since",
    })
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
