//! The files of a repaired pool, as bytes and as changes in memory: nothing is written here.
//! Room: onefold-pool.
//! In: trees of which every page can be read. Out: totals counted from distinct pages, the
//! container table, the bitmap of slots, two checkpoints and an empty journal.
//! Invariant: both checkpoints are of the same state and follow everything that was ever written,
//! as after a clean stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use onefold_block::ContainerId;

use super::hints::Kept;
use super::mend::reach;
use crate::check::{CheckReport, for_each_entry};
use crate::container::table::ContainerTable;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::frame::{self, Entries};
use crate::format::superblock::Superblock;
use crate::map::{Below, Frozen, PAGE_BYTES, PageArray, SlotBitmap};
use crate::open::map_header;

/// What the new files hold, but for the map, which is where the engine wrote it.
pub struct NewFiles {
    /// Both checkpoints, in the order of their files.
    pub supers: [Vec<u8>; 2],
    /// The journal.
    pub journal: Vec<u8>,
    /// Slots of the map that are in use, as bits.
    pub slots: Vec<u64>,
    /// How often each container is referred to.
    pub references: BTreeMap<ContainerId, u64>,
}

/// Write maps, table and bitmap as checkpoint `sequence` into the map's changes in memory. Of the
/// snapshots among `others` blocks are lost or were had again: they are not what they were.
pub fn build(
    inner: &Inner,
    kept: &Kept,
    others: &BTreeSet<u32>,
    sequence: u64,
) -> Result<NewFiles, PoolError> {
    let mut frozen = inner.map.freeze(sequence);
    inner.map.write_out(&mut frozen)?;
    inner.files.map.write(0, &map_header(&inner.identity))?;
    inner.map.checkpoint_is_durable();
    let references = count(inner, &frozen)?;
    let mut superblock = inner.superblock(sequence, &inner.engine());
    for volume in &mut superblock.volumes {
        let root = frozen.root(volume.number).ok_or(PoolError::VolumeDeleted)?;
        (volume.height, volume.root) = (root.height, root.reference);
        if let Some(snapshot) = inner.volume_by_number(volume.number)
            && snapshot.is_snapshot
            && others.contains(&volume.number)
        {
            volume.identity = inner.identity_after_repair(&snapshot, sequence);
        }
    }
    let slots = inner.files.map.len()?.div_ceil(PAGE_BYTES as u64);
    let (used, _) = reach(inner, &superblock, slots);
    inner.map.restore_slots_anew(used.into_bits());
    let mut table = new_table(kept, &references)?;
    let mut pages = PageArray::new();
    let root = table.freeze(superblock.next_container).write(&mut pages, &inner.map, sequence)?;
    superblock.table = root.raw();
    let mut bitmap = SlotBitmap::new();
    superblock.slots = bitmap.write(&inner.map, sequence)?.raw();
    superblock.slot_pages = bitmap.pages();
    inner.map.give_back()?;
    let slots = inner.map.slots_in_use();
    let mut supers = [Vec::new(), Vec::new()];
    for sequence in [sequence, sequence + 1] {
        let superblock = Superblock { sequence, ..superblock.clone() };
        supers[sequence as usize % 2] = superblock.encode();
    }
    let journal = frame::encode(sequence + 1, 0, &Entries::default());
    Ok(NewFiles { supers, journal, slots, references })
}

/// Count references from distinct pages, and the blocks of each volume and snapshot.
fn count(inner: &Inner, frozen: &Frozen) -> Result<BTreeMap<ContainerId, u64>, PoolError> {
    let mut references: BTreeMap<ContainerId, u64> = BTreeMap::new();
    let mut known = Below::default();
    for volume in inner.all_volumes() {
        let mut problems = CheckReport::default();
        for_each_entry(inner, &volume, (false, true), &mut problems, &mut |_, _, _, entry| {
            let Some(pba) = entry.pba() else { return };
            *references.entry(pba.container).or_default() += 1;
        });
        if let Some(finding) = problems.findings.first() {
            return Err(PoolError::corrupt_whole("map that was just mended", &finding.problem));
        }
        if volume.is_dropped_in_steps() && volume.deleting.load(Ordering::Relaxed) {
            continue;
        }
        let root = frozen.root(volume.number).ok_or(PoolError::VolumeDeleted)?;
        let below = inner.map.counted_below(volume.number, root, &mut known)?;
        volume.mapped_chunks.store(below.stored, Ordering::Relaxed);
    }
    Ok(references)
}

/// The table of the containers that are referred to. The others are no longer part of the pool.
fn new_table(
    kept: &Kept,
    references: &BTreeMap<ContainerId, u64>,
) -> Result<ContainerTable, PoolError> {
    let mut table = ContainerTable::default();
    for (&id, &count) in references {
        let Some(held) = kept.get(&id) else {
            let problem = format!("{count} map entries refer to it, and it is not there");
            return Err(PoolError::corrupt_whole(id.to_string(), problem));
        };
        table.open(id);
        if !table.reference(id, count) {
            let problem = format!("{count} references are more than can be");
            return Err(PoolError::corrupt_whole(id.to_string(), problem));
        }
        table.seal(id, held.len_bytes as usize, held.chunks as usize);
        table.set_punched(id, held.punched);
    }
    Ok(table)
}
