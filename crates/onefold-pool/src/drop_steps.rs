//! What snapshots that are deleted had alone is given up, step by step.
//! Room: onefold-pool.
//! In: a budget of bytes. Out: entries off the totals and pages off the map file.
//! Source: ARCHITECTURE.md, section 2, "Snapshots".
//! Invariants: (1) one snapshot goes at a time, and only where at most one other was made from it;
//! (2) what is given up, and how far that came, are in one checkpoint; (3) whoever has the pages
//! next has those that stay from that place on.
//! Cost: leaves that only the snapshot has, and the pages above the places where it differs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::commit::Tally;
use crate::counters::count;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::map::{NO_SNAPSHOT, PAGE_BYTES, Watch, blocks_under};
use crate::pool::Pool;
use crate::provide::Needs;

/// Leaves given up under one hold of the engine's lock.
const LEAVES_PER_TURN: usize = 16;
/// A turn, as bytes of budget.
const TURN_BYTES: u64 = (LEAVES_PER_TURN * PAGE_BYTES) as u64;

impl Pool {
    /// Give up what deleted snapshots had alone, about `budget_bytes` of map pages; true once
    /// nothing is left of them. [`Pool::background`] does this first.
    pub fn give_up_deleted(&self, budget_bytes: u64) -> Result<bool, PoolError> {
        self.inner.check_writable()?;
        Ok(self.inner.drop_deleted(budget_bytes)? == 0)
    }
}

impl Inner {
    /// Give up what deleted snapshots had alone, about `budget_bytes` of map pages. Returns the
    /// bytes of work, 0 if nothing is left to do or others are at it.
    pub fn drop_deleted(&self, budget_bytes: u64) -> Result<u64, PoolError> {
        let Ok(_lineage) = self.lineage.try_lock() else { return Ok(0) };
        let mut work = 0;
        while work < budget_bytes {
            let Some((going, heir)) = self.next_to_drop() else {
                if self.has_gone() {
                    work += TURN_BYTES;
                    self.checkpoint()?;
                }
                break;
            };
            work += TURN_BYTES;
            match self.drop_turn(&going, heir.as_deref(), LEAVES_PER_TURN) {
                Err(error) if error.is_no_space() => {
                    // A checkpoint empties the journal and frees map pages.
                    self.checkpoint()?;
                    self.drop_turn(&going, heir.as_deref(), 1)?;
                }
                done => done?,
            }
            self.relieve()?;
            if self.is_lineage_wanted() {
                break;
            }
        }
        Ok(work)
    }

    /// Whether anything was given up wholly that the last checkpoint has still.
    pub fn has_gone(&self) -> bool {
        self.all_volumes().iter().any(|volume| volume.gone.load(Ordering::Acquire))
    }

    /// What is to go next, and who was made from it.
    fn next_to_drop(&self) -> Option<(Arc<VolumeState>, Option<Arc<VolumeState>>)> {
        let all = self.all_volumes();
        let mut going: Vec<_> = all
            .iter()
            .filter(|v| v.deleting.load(Ordering::Acquire) && v.is_dropped_in_steps())
            .filter(|v| !v.gone.load(Ordering::Acquire))
            .collect();
        // The one that was begun, else the oldest.
        going.sort_by_key(|v| (v.dropped.load(Ordering::Acquire) == 0, v.number));
        going.into_iter().find_map(|volume| {
            let mut heirs = self.heirs(volume.number);
            if volume.is_snapshot && heirs.len() > 1 {
                return None;
            }
            // Pages of a snapshot that a deletion has reached are shared in two ways.
            let parent = volume.parent.load(Ordering::Acquire);
            let begun = all.iter().any(|v| {
                v.number == parent
                    && v.dropped.load(Ordering::Acquire) > 0
                    && !v.gone.load(Ordering::Acquire)
            });
            (!begun).then(|| (Arc::clone(volume), heirs.pop()))
        })
    }

    fn drop_turn(
        &self,
        going: &VolumeState,
        heir: Option<&VolumeState>,
        leaves: usize,
    ) -> Result<(), PoolError> {
        let numbers = (going.number, heir.map(|heir| heir.number));
        let root = self.map.root(going.number)?;
        let end = blocks_under(root.height);
        let from = going.dropped.load(Ordering::Acquire);
        // What must be read is read before the lock is taken.
        self.map.drop_pages(numbers, from, leaves, None)?;
        let needs = Needs::of_fill(usize::from(root.height), leaves);
        let mut engine = self.engine_with(&needs)?;
        let engine = &mut *engine;
        let mut tally = Tally::default();
        let watch: &mut dyn Watch = &mut tally;
        let upto = self
            .map
            .drop_pages(numbers, from, leaves, Some(watch))
            .and_then(|upto| tally.release(engine, going).map(|()| upto))
            .map_err(|error| self.poison_unless_no_space(error))?;
        going.dropped.store(upto, Ordering::Release);
        count(&self.counters.lineage_changes, 1);
        if let Some(heir) = heir {
            self.handed.lock().unwrap_or_else(PoisonError::into_inner).insert(heir.number);
        }
        engine.generation += 1;
        let parent = going.parent.load(Ordering::Acquire);
        let older = self.volume_by_number(parent).map_or(NO_SNAPSHOT, |parent| parent.birth);
        if upto >= end {
            going.gone.store(true, Ordering::Release);
            count(&self.counters.snapshots_gone, 1);
            if let Some(heir) = heir {
                heir.parent.store(parent, Ordering::Release);
                self.map.set_left_all(heir.number, older)?;
            }
        } else if let Some(heir) = heir {
            self.map.set_left_to(heir.number, upto, older)?;
        }
        Ok(())
    }
}
