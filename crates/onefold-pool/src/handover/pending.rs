//! What a killed process left in memory, for those who only look at the pool.
//! Room: onefold-pool.

use onefold_block::handover::Handover;

use super::{CHANGES_NAME, Changes};
use crate::format::frame::decode_changes;
use crate::pool::Pool;

impl Pool {
    /// Map changes that a process acknowledged and left in `handover` when it died: a pool that is
    /// only read does not show them, and the next opening for writing makes them durable. Some of
    /// them may be durable already.
    pub fn changes_left_in(&self, handover: &dyn Handover) -> u64 {
        let uuid = &self.inner.identity.uuid;
        let Ok(region) = handover.open(CHANGES_NAME) else { return 0 };
        let Ok(left) = Changes::left(&region, uuid, handover.boot()) else { return 0 };
        if left.epoch != self.inner.flusher().sequence {
            return 0;
        }
        let changes = |payload: &Vec<u8>| decode_changes(payload).map_or(0, |found| found.len());
        left.payloads.iter().map(changes).sum::<usize>() as u64
    }
}
