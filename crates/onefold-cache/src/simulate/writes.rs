//! The writes that a policy sends to the SSD, for a model of the drive to replay.
//! Room: onefold-cache.
//! A container takes a slot of its size; a slot is overwritten as a whole. Unit by unit, the same
//! writes can be replayed in containers or in chunks.

use crate::cache::Capacity;
use crate::options::OptionError;
use crate::registry::{Choice, Setting};
use crate::trace::{Future, Trace};

/// A slot of the cache is written as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// Number of the slot, from 0; slots lie one after the other.
    pub slot: u32,
    /// The container that goes there.
    pub container: u64,
    /// Its size in bytes.
    pub size: u32,
}

/// Runs a policy over a trace and tells every write in order. Containers are of equal size.
pub fn slot_writes(
    trace: &Trace,
    choice: &Choice,
    capacity: Capacity,
    seed: u64,
    mut each: impl FnMut(SlotWrite),
) -> Result<(), OptionError> {
    let future = choice.entry().offline.then(|| Future::of(&trace.requests));
    let mut policy = choice.make(Setting { capacity, seed, future: future.as_ref() })?;
    let mut outcomes = Vec::new();
    for (key, &references) in trace.references.iter().enumerate() {
        policy.set_references(key as u64, references);
    }
    for requests in trace.requests.chunks(4096) {
        policy.access_batch(requests, &mut outcomes);
        for (access, outcome) in requests.iter().zip(&outcomes) {
            if let Some(slot) = outcome.slot() {
                each(SlotWrite { slot, container: access.key, size: access.size });
            }
        }
    }
    Ok(())
}
