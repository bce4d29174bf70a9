//! What each snapshot alone holds.
//! Room: onefold-pool.
//! In: a snapshot, the one before it, and whoever was made from it. Out: how many of its blocks
//! none of these has with the same address. So many would go with it, but for those that others
//! share as duplicates.
//! Cost: pages in which it differs from all of them, and those above.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::Lba;

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::MapEntry;
use crate::pool::Pool;

/// How often it is looked again where snapshots go meanwhile.
const AGAIN_MAX: usize = 16;

impl Pool {
    /// What each snapshot of a volume alone holds, or each of all volumes, in the order of
    /// [`Pool::snapshots`]: its name, and bytes of blocks that neither the snapshot before nor
    /// what was made from it has. None where that is not to be told: pages are damaged, or it was
    /// deleted meanwhile. Of what is made or deleted meanwhile something may be in it, or not.
    pub fn alone(&self, volume: Option<&str>) -> Result<Vec<(String, Option<u64>)>, PoolError> {
        let inner = &*self.inner;
        let of = volume.map(|name| inner.volume_by_name(name)).transpose()?;
        let all = inner.all_volumes();
        let by_number: HashMap<u32, &Arc<VolumeState>> =
            all.iter().map(|volume| (volume.number, volume)).collect();
        // Those that are being deleted among them: they have what they have still.
        let mut heirs: HashMap<u32, Vec<&VolumeState>> = HashMap::new();
        for volume in all.iter().filter(|volume| !volume.gone.load(Ordering::Acquire)) {
            heirs.entry(volume.parent.load(Ordering::Acquire)).or_default().push(volume);
        }
        let chunk = inner.chunk_bytes() as u64;
        let mut found = Vec::new();
        for snapshot in all.iter().filter(|s| s.is_snapshot && !s.is_deleting()) {
            if of.as_ref().is_some_and(|volume| !snapshot.is_snapshot_of(volume.number)) {
                continue;
            }
            let parent = by_number.get(&snapshot.parent.load(Ordering::Acquire));
            let mut beside = heirs.get(&snapshot.number).cloned().unwrap_or_default();
            beside.extend(parent.map(|parent| &***parent));
            let mut blocks = inner.alone_blocks(snapshot, &beside);
            for _ in 0..AGAIN_MAX {
                if snapshot.is_deleting() || !matches!(blocks, Err(PoolError::VolumeDeleted)) {
                    break;
                }
                // One of the others has gone meanwhile, and left what it had to who is there now.
                let parent = inner.volume_by_number(snapshot.parent.load(Ordering::Acquire));
                let now = inner.heirs(snapshot.number).into_iter().chain(parent);
                let now: Vec<Arc<VolumeState>> = now.collect();
                let beside: Vec<&VolumeState> = now.iter().map(|volume| &**volume).collect();
                blocks = inner.alone_blocks(snapshot, &beside);
            }
            let bytes = match blocks {
                Ok(blocks) => Some(blocks * chunk),
                Err(PoolError::VolumeDeleted) => None,
                Err(error) if error.is_unreadable() => None,
                Err(error) => return Err(error),
            };
            found.push((snapshot.name(), bytes));
        }
        Ok(found)
    }
}

impl Inner {
    /// Blocks with stored data that none of the others has at the same place.
    fn alone_blocks(&self, one: &VolumeState, others: &[&VolumeState]) -> Result<u64, PoolError> {
        let (chunk, per_leaf) = (self.chunk_bytes(), ENTRIES_PER_PAGE as u64);
        let end = one.blocks(chunk);
        let (mut at, mut alone) = (0, 0);
        let (mut own, mut theirs): (Vec<MapEntry>, Vec<MapEntry>) = (Vec::new(), Vec::new());
        while at < end {
            let first = Lba::new(at);
            // Where nothing is stored, or another one has all of it.
            let mut skipped = self.map.uniform_run(one.number, first, end - at)?.0;
            let mut beside = others.iter();
            while skipped == 0
                && let Some(other) = beside.next()
            {
                let left = other.blocks(chunk).min(end).saturating_sub(at);
                skipped = self.map.alike_run([one.number, other.number], first, left)?;
            }
            if skipped > 0 {
                at += skipped;
                continue;
            }
            let count = (per_leaf - at % per_leaf).min(end - at);
            own.clear();
            self.map.entries(one.number, first, count, &mut own)?;
            own.iter_mut().filter(|entry| entry.pba().is_none()).for_each(|e| *e = MapEntry::Hole);
            for other in others {
                let count = count.min(other.blocks(chunk).saturating_sub(at));
                theirs.clear();
                self.map.entries(other.number, first, count, &mut theirs)?;
                for (own, theirs) in own.iter_mut().zip(&theirs) {
                    if own == theirs {
                        *own = MapEntry::Hole;
                    }
                }
            }
            alone += own.iter().filter(|entry| **entry != MapEntry::Hole).count() as u64;
            at += count;
        }
        Ok(alone)
    }
}
