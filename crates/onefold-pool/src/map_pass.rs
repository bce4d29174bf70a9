//! Passes over the maps of all volumes and snapshots, a leaf at a time.
//! Room: onefold-pool.
//! In: a place. Out: the addresses in the next leaf. What changes meanwhile may be missed.
//! Invariant: a pass over distinct leaves visits each with the one volume or snapshot whose own it
//! is, so that what it reads does not grow with the number of snapshots.

use std::sync::{Arc, PoisonError};

use onefold_block::Lba;

use crate::counters::count;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::Pba;

/// A pass over the maps, as bytes of budget for each leaf.
pub const LEAF_BYTES: u64 = 4096;

/// A place in the maps of all volumes.
#[derive(Clone, Copy, Default)]
pub struct Cursor {
    volume: u32,
    lba: u64,
}

/// Which leaves a pass over the maps visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Each once, whoever shares it: with the volume or snapshot whose own it is.
    Distinct,
    /// Of each volume all, those among them that snapshots have too.
    OfVolumes,
}

impl Inner {
    /// Visit the addresses in the leaf at the cursor, or skip what is uniform there. False at the
    /// end of all maps.
    pub fn walk_leaf(
        &self,
        cursor: &mut Cursor,
        which: Leaves,
        visit: &mut dyn FnMut(u32, u64, Pba),
    ) -> Result<bool, PoolError> {
        let volume = {
            let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            let mut volumes = volumes.range(cursor.volume..).map(|(_, volume)| volume);
            volumes.find(|v| which == Leaves::Distinct || !v.is_snapshot).map(Arc::clone)
        };
        let Some(volume) = volume else {
            count(&self.counters.map_passes, 1);
            return Ok(false);
        };
        let number = volume.number;
        if number != cursor.volume {
            *cursor = Cursor { volume: number, lba: 0 };
        }
        let left = volume.blocks(self.chunk_bytes()).saturating_sub(cursor.lba);
        if left == 0 {
            *cursor = Cursor { volume: number + 1, lba: 0 };
            return Ok(true);
        }
        let first = Lba::new(cursor.lba);
        let mut entries = Vec::new();
        let per_leaf = ENTRIES_PER_PAGE as u64;
        let whole = (per_leaf - cursor.lba % per_leaf).min(left);
        let run = match which {
            Leaves::Distinct => self.map.not_own_run(number, first, left),
            Leaves::OfVolumes => self.map.uniform_run(number, first, left).map(|(run, _)| run),
        };
        let run = run.and_then(|run| {
            if run == 0 {
                self.map.entries(number, first, whole, &mut entries)?;
            }
            Ok(if run == 0 { whole } else { run })
        });
        cursor.lba += match run {
            Ok(run) => run,
            // Deleted meanwhile, or damaged there: what is missed costs space.
            Err(PoolError::VolumeDeleted) => left,
            Err(error) if error.is_unreadable() => {
                tracing::error!("space that is referred to from here is not won back: {error}");
                self.map.past_damage(number, first) - cursor.lba
            }
            Err(error) => return Err(error),
        };
        for (lba, entry) in (first.get()..).zip(&entries) {
            if let Some(pba) = entry.pba() {
                visit(number, lba, pba);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder};

    use super::*;
    use crate::{OpenOptions, Pool, PoolSettings};

    #[test]
    fn what_comes_after_a_leaf_that_is_damaged_is_visited_all_the_same() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1536 * 4096)).unwrap();
        for (block, byte) in [(3, 1), (600, 2), (1100, 3)] {
            volume.write_at(block * 4096, &[byte; 4096], false).unwrap();
        }
        let (number, mut entries) = (volume.state.number, Vec::new());
        pool.inner.map.entries(number, Lba::new(600), 1, &mut entries).unwrap();
        drop(volume);
        pool.close().unwrap();
        crate::empty_pool::damage_leaf(&folder, 600, entries[0]);
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        for which in [Leaves::Distinct, Leaves::OfVolumes] {
            let (mut cursor, mut found) = (Cursor::default(), Vec::new());
            let mut step =
                || pool.inner.walk_leaf(&mut cursor, which, &mut |_, lba, _| found.push(lba));
            assert!((0..100).any(|_| !step().unwrap()), "it never ends");
            assert_eq!(found, [3, 1100], "{which:?}");
        }
    }
}
