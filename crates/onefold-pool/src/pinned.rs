//! Containers that snapshots refer to: nothing of them can be moved, as pages of snapshots never
//! change.
//! Room: onefold-pool.
//! In: what passes over the maps found. Out: how much is dead there, and pages of it given back
//! where they lie once that is too much.
//! Source: ARCHITECTURE.md, section 5, "What snapshots refer to stays where it is".
//! Cost: a pass over the maps, in turns, and a checkpoint each time that this gives pages back.

use std::collections::HashSet;

use onefold_block::ContainerId;

use crate::container::table::{ContainerInfo, ContainerTable, SpaceTotals};
use crate::engine::Inner;
use crate::error::PoolError;
use crate::live_pass::LivePass;
use crate::map::PAGE_BYTES;
use crate::reclaim::{BackgroundStep, Reclaim};

/// Containers that were found to be referred to by snapshots. Some may be that no longer.
#[derive(Default)]
pub struct Pinned {
    containers: HashSet<ContainerId>,
    /// Volumes and snapshots that had gone when these were last forgotten.
    at: u64,
    /// Dead bytes of these that were left when pages were last given back.
    left: u64,
}

impl Pinned {
    /// Which they are.
    pub const fn containers(&self) -> &HashSet<ContainerId> {
        &self.containers
    }

    /// A pass over all maps found these, too.
    pub fn extend(&mut self, found: HashSet<ContainerId>) {
        self.containers.extend(found);
    }

    /// Dead bytes of what is still there, after so many volumes and snapshots have gone. Each of
    /// these may have pinned something, so that it is to be found out again.
    pub fn look(&mut self, table: &ContainerTable, gone: u64) -> u64 {
        if self.at != gone {
            *self = Self { at: gone, ..Self::default() };
        }
        self.containers.retain(|&id| table.get(id).is_some());
        self.dead_bytes(table)
    }

    fn dead_bytes(&self, table: &ContainerTable) -> u64 {
        self.containers.iter().filter_map(|&id| table.get(id)).map(ContainerInfo::dead_bytes).sum()
    }

    /// Whether so many dead bytes are enough more than the last time.
    pub const fn is_worth_punching(&self, dead_bytes: u64, worth: u64) -> bool {
        dead_bytes > self.left + worth
    }
}

impl Inner {
    /// What is dead is worth a checkpoint or a pass over the maps from so much on.
    pub fn worth_a_pass(&self, totals: &SpaceTotals) -> u64 {
        (totals.stored_bytes / 16).max(self.slack_bytes())
    }

    /// Give back pages of what snapshots pin, as far as at least half of what a container takes is
    /// dead: nothing is shared any more of what is punched. True once it is done.
    pub fn punch_pinned(
        &self,
        reclaim: &mut Reclaim,
        under_way: &mut Option<LivePass>,
        budget_bytes: u64,
        step: &mut BackgroundStep,
    ) -> Result<bool, PoolError> {
        let look = |pinned: &Pinned| {
            let engine = self.engine();
            (pinned.dead_bytes(&engine.table), self.worth_a_pass(&engine.table.totals()))
        };
        let (before, worth) = look(&reclaim.pinned);
        if under_way.is_none() {
            let pinned = &reclaim.pinned.containers;
            *under_way = self.begin_punching(&reclaim.punching, &|id, info| {
                pinned.contains(&id) && info.dead_bytes() >= info.stored_bytes() / 2
            });
        }
        let Some(pass) = under_way else {
            reclaim.pinned.left = before;
            step.work_bytes += PAGE_BYTES as u64;
            return Ok(true);
        };
        while step.work_bytes < budget_bytes {
            let punching = &mut reclaim.punching;
            if self.punching_turn(pass, punching, &mut step.work_bytes)?.is_some() {
                let (after, _) = look(&reclaim.pinned);
                let back = before.saturating_sub(after);
                step.work_bytes += back;
                // A pass takes so many containers; it goes on as long as that gives enough.
                reclaim.pinned.left = if back < worth { after } else { 0 };
                return Ok(true);
            }
            if self.is_lineage_wanted() {
                // Whoever makes or deletes a snapshot is next.
                step.work_bytes = step.work_bytes.max(budget_bytes);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_is_forgotten_when_it_goes_and_when_a_snapshot_does() {
        let [one, two] = [1, 2].map(ContainerId::new);
        let mut table = ContainerTable::default();
        for id in [one, two] {
            table.open(id);
            table.seal(id, 100_000, 10);
            assert!(table.reference(id, 5));
        }
        let dead = table.get(one).unwrap().dead_bytes();
        assert!(dead > 0);
        let mut pinned = Pinned::default();
        pinned.extend(HashSet::from([one, two]));
        assert_eq!(pinned.look(&table, 0), 2 * dead);
        table.remove(two);
        assert_eq!((pinned.look(&table, 0), pinned.containers().len()), (dead, 1));
        pinned.left = 500;
        assert_eq!((pinned.look(&table, 1), pinned.containers().len()), (0, 0));
        assert_eq!((pinned.at, pinned.left), (1, 0), "they are looked for anew");
    }

    #[test]
    fn pages_are_given_back_for_more_than_what_was_left_the_last_time() {
        let pinned = Pinned { left: 1000, ..Pinned::default() };
        assert!(!pinned.is_worth_punching(1500, 500) && pinned.is_worth_punching(1501, 500));
    }

    #[test]
    fn a_sixteenth_of_what_is_stored_is_worth_a_pass_if_that_is_more_than_the_slack() {
        let folder = onefold_block::SimFolder::new();
        let identity = crate::PoolIdentity { uuid: [1; 16], key: [2; 32] };
        crate::Pool::create(&folder, &crate::PoolSettings::default(), identity).unwrap();
        let pool = crate::Pool::open(&folder, &crate::OpenOptions::default()).unwrap();
        let worth = |stored_bytes| {
            pool.inner.worth_a_pass(&SpaceTotals { stored_bytes, ..SpaceTotals::default() })
        };
        let slack = worth(0);
        assert_eq!((slack, worth(16 * slack)), (pool.inner.slack_bytes(), slack));
        assert_eq!((worth(16 * slack + 16), worth(1 << 50)), (slack + 1, 1 << 46));
    }
}
