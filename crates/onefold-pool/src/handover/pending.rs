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

#[cfg(test)]
mod tests {
    use onefold_block::handover::SimHandover;
    use onefold_block::{Lba, SimFolder};

    use super::*;
    use crate::format::frame::Entries;
    use crate::pba::MapEntry;

    #[test]
    fn changes_are_counted_that_are_this_pools_and_follow_its_newest_checkpoint() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &crate::PoolSettings::default());
        assert_eq!(pool.changes_left_in(&SimHandover::new()), 0, "there is no memory");
        let sequence = pool.inner.flusher().sequence;
        for (uuid, epoch, counted) in
            [([1; 16], sequence, 3), ([1; 16], sequence + 1, 0), ([4; 16], sequence, 0)]
        {
            let memory = SimHandover::new();
            let mut changes = Changes::create(&memory, &uuid, epoch).unwrap();
            for fills in 1..=2 {
                let mut entries = Entries::default();
                (0..fills).for_each(|at| entries.fill(1, Lba::new(at), 1, MapEntry::Hole));
                changes.record(entries.since(0));
            }
            changes.record(&[1, 2, 3]);
            assert_eq!(pool.changes_left_in(&memory), counted, "{uuid:?} {epoch}");
        }
    }
}
