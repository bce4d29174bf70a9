//! Blocks that are lost, had again from what containers say for which block a record was written.
//! Room: onefold-pool.
//! In: lost blocks. Out: entries for those of which a container has a record: the newest that may
//! be theirs, by the epoch in the container's header, its number, and the place in it.
//! Invariant: a block that is restored here reads as something that was once written there, and is
//! listed, as it may be older than what was there last.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use onefold_block::{ContainerId, Lba};

use super::containers::{Held, examine};
use super::guess::Owners;
use super::report::{ByVolume, Ranges};
use crate::container::directories;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format::container::{DirectoryEntry, Owner};
use crate::format::frame::Change;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::{MapEntry, Pba, RAW_LOST};

/// The containers that are kept.
pub type Kept = BTreeMap<ContainerId, Held>;

/// What the journal's frames explain, where others of it are missing.
#[derive(Default)]
pub struct Explained {
    /// Records that a frame refers to.
    records: HashSet<u64>,
    /// Blocks that a frame changed that comes after a missing one, by volume.
    changed: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Explained {
    /// A frame that was followed says so.
    pub fn note(&mut self, change: &Change, after_gap: bool) {
        let (volume, first, count) = match change {
            Change::Run { volume, first, entries } => {
                let stored = entries.iter().filter(|entry| entry.pba().is_some());
                self.records.extend(stored.map(|entry| entry.raw()));
                (*volume, *first, entries.len() as u64)
            }
            Change::Fill { volume, first, count, .. } => (*volume, *first, *count),
        };
        if after_gap {
            self.changed.entry(volume).or_default().push((first.get(), count));
        }
    }

    /// Ranges in order, joined, for asking.
    fn changed(&self) -> ByVolume {
        let join = |ranges: &Vec<(u64, u64)>| joined(ranges.clone());
        self.changed.iter().map(|(volume, ranges)| (*volume, join(ranges))).collect()
    }
}

/// Ranges in any order, which may overlap, in order and joined.
fn joined(mut ranges: Vec<(u64, u64)>) -> Ranges {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, count) in ranges {
        match joined.last_mut() {
            Some((from, len)) if *from + *len >= first => {
                *len = (*len).max(first + count - *from);
            }
            _ => joined.push((first, count)),
        }
    }
    Ranges(joined)
}

/// The same with these blocks, in any order.
pub fn joined_with(mut ranges: Ranges, blocks: &[u64]) -> Ranges {
    ranges.0.extend(blocks.iter().map(|&block| (block, 1)));
    joined(ranges.0)
}

/// Blocks that were restored, by volume, in any order.
pub type Restored = BTreeMap<u32, Vec<u64>>;

/// Where a record comes in the order in which they were written.
type Age = (u64, ContainerId, usize);

fn age(kept: &Kept, pba: Pba) -> Option<Age> {
    let held = kept.get(&pba.container)?;
    Some((held.epoch, pba.container, pba.location.offset_bytes()))
}

/// Containers from the newest to the oldest.
fn newest_first(kept: &Kept) -> Vec<ContainerId> {
    let mut ids: Vec<(u64, ContainerId)> =
        kept.iter().map(|(id, held)| (held.epoch, *id)).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.into_iter().map(|(_, id)| id).collect()
}

/// Containers from the oldest to the newest.
fn oldest_first(kept: &Kept) -> Vec<ContainerId> {
    let mut ids = newest_first(kept);
    ids.reverse();
    ids
}

/// The good records of a container that is kept.
pub fn good_entries(
    inner: &Inner,
    id: ContainerId,
    held: &Held,
) -> Result<Vec<DirectoryEntry>, PoolError> {
    if !held.rewrite && held.punched == 0 {
        return directories::load(&*inner.plain, id, held.len_bytes.into());
    }
    let info = inner.engine().table.get(id).copied();
    let examined = examine(inner, id, info.as_ref())?;
    Ok(examined.map(|examined| examined.entries).unwrap_or_default())
}

/// Restore blocks that are lost. A snapshot's were its volume's when it was made, and a clone's the
/// snapshot's. What was written is gone through once, from the oldest record on, and each snapshot
/// gets what was there when it was made; `taken` hears of it then.
pub fn restore_lost(
    inner: &Inner,
    (kept, birth): (&Kept, u64),
    lost: &ByVolume,
    taken: &mut dyn FnMut(&VolumeState) -> Result<(), PoolError>,
) -> Result<(), PoolError> {
    let asking = asking(inner, lost);
    let mut wanted: BTreeMap<u32, Ranges> = BTreeMap::new();
    // What volumes give to whom, and before which checkpoint; a snapshot is taken after that.
    let mut turns: Vec<(u64, bool, u32, u32)> = Vec::new();
    for (&owner, askers) in &asking {
        let all = askers.iter().filter_map(|(number, _)| lost.get(number));
        wanted.insert(owner, joined(all.flat_map(|ranges| ranges.0.iter().copied()).collect()));
        turns.extend(
            askers
                .iter()
                .map(|&(number, before)| (before.unwrap_or(u64::MAX), false, owner, number)),
        );
    }
    let snapshots = super::mend::in_order(inner);
    let snapshots: BTreeMap<u32, _> =
        snapshots.into_iter().filter(|v| v.is_snapshot).map(|v| (v.number, v)).collect();
    turns.extend(snapshots.values().map(|snapshot| (snapshot.birth, true, 0, snapshot.number)));
    turns.sort_unstable();
    let mut turns = turns.into_iter().peekable();
    let mut written = Written::default();
    for id in oldest_first(kept) {
        if wanted.is_empty() {
            break;
        }
        let held = &kept[&id];
        while let Some(turn) = turns.next_if(|turn| held.epoch >= turn.0) {
            written.turn(inner, turn, (lost, birth), &snapshots, taken)?;
        }
        for entry in good_entries(inner, id, held)? {
            let Owner { volume, lba } = entry.owner;
            if wanted.get(&volume).is_some_and(|ranges| ranges.contains(lba.get())) {
                let pba = Pba { container: id, location: entry.location };
                written.note(volume, lba.get(), MapEntry::Stored(pba).raw());
            }
        }
    }
    turns.try_for_each(|turn| written.turn(inner, turn, (lost, birth), &snapshots, taken))
}

/// What was written to volumes so far, as leaves of their maps.
#[derive(Default)]
struct Written(BTreeMap<u32, BTreeMap<u64, Box<[u64; ENTRIES_PER_PAGE]>>>);

impl Written {
    fn note(&mut self, volume: u32, block: u64, raw: u64) {
        let per_leaf = ENTRIES_PER_PAGE as u64;
        let leaves = self.0.entry(volume).or_default();
        let leaf = leaves.entry(block / per_leaf);
        leaf.or_insert_with(|| Box::new([RAW_LOST; ENTRIES_PER_PAGE]))
            [(block % per_leaf) as usize] = raw;
    }

    fn turn(
        &self,
        inner: &Inner,
        (_, is_taken, owner, number): (u64, bool, u32, u32),
        (lost, birth): (&ByVolume, u64),
        snapshots: &BTreeMap<u32, Arc<VolumeState>>,
        taken: &mut dyn FnMut(&VolumeState) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        let snapshot = snapshots.get(&number);
        if is_taken {
            return snapshot.map_or(Ok(()), |snapshot| taken(snapshot));
        }
        let (Some(leaves), Some(ranges)) = (self.0.get(&owner), lost.get(&number)) else {
            return Ok(());
        };
        let birth = snapshot.map_or(birth, |snapshot| snapshot.birth);
        let per_leaf = ENTRIES_PER_PAGE as u64;
        let mut next = 0;
        for &(first, count) in &ranges.0 {
            let from = (first / per_leaf).max(next);
            next = (first + count).div_ceil(per_leaf);
            for (&leaf, entries) in leaves.range(from..next.max(from)) {
                inner.map.change_mended(number, (leaf * per_leaf, birth), &mut |page| {
                    let mut changed = false;
                    for (block, (word, &raw)) in
                        (leaf * per_leaf..).zip(page.iter_mut().zip(entries.iter()))
                    {
                        if raw != RAW_LOST && ranges.contains(block) {
                            changed |= *word != raw;
                            *word = raw;
                        }
                    }
                    changed
                })?;
            }
        }
        Ok(())
    }
}

/// Volumes and snapshots with lost blocks by the volumes that wrote them, and before which
/// checkpoint.
fn asking(inner: &Inner, lost: &ByVolume) -> BTreeMap<u32, Vec<(u32, Option<u64>)>> {
    let mut asking: BTreeMap<u32, Vec<(u32, Option<u64>)>> = BTreeMap::new();
    for &number in lost.keys() {
        let mut seen = BTreeSet::new();
        let mut next = inner.volume_by_number(number);
        let mut before: Option<u64> = None;
        while let Some(tree) = next {
            if !seen.insert(tree.number) {
                break;
            }
            if tree.is_snapshot {
                before = Some(before.map_or(tree.birth, |before| before.min(tree.birth)));
                next = inner.volume_by_number(tree.origin());
                if next.is_none() && tree.origin() != 0 {
                    asking.entry(tree.origin()).or_default().push((number, before));
                }
                continue;
            }
            asking.entry(tree.number).or_default().push((number, before));
            next = inner.volume_by_number(tree.origin());
        }
    }
    asking
}

/// Set blocks to what containers made since the checkpoint say was written for them, where the
/// frames that are left do not explain it.
pub fn follow_containers(
    inner: &Inner,
    (kept, first_unknown): (&Kept, u32),
    explained: &Explained,
    restored: &mut Restored,
) -> Result<(), PoolError> {
    let changed = explained.changed();
    for id in newest_first(kept).into_iter().filter(|id| id.get() >= first_unknown) {
        for entry in good_entries(inner, id, &kept[&id])?.iter().rev() {
            let (number, lba) = (entry.owner.volume, entry.owner.lba);
            let pba = Pba { container: id, location: entry.location };
            let known = changed.get(&number).is_some_and(|ranges| ranges.contains(lba.get()))
                || explained.records.contains(&MapEntry::Stored(pba).raw());
            if known {
                continue;
            }
            let Some(now) = current(inner, number, lba)? else { continue };
            let newer = now.pba().filter(|now| now.container.get() >= first_unknown);
            if newer.and_then(|now| age(kept, now)) >= age(kept, pba) {
                continue;
            }
            set(inner, number, lba, pba)?;
            restored.entry(number).or_default().push(lba.get());
        }
    }
    Ok(())
}

/// Owners that no checkpoint knows, of records in containers made since.
pub fn unknown_owners(
    inner: &Inner,
    (kept, first_unknown, next_volume): (&Kept, u32, u32),
) -> Result<Owners, PoolError> {
    let mut owners = Owners::new();
    for (&id, held) in kept.range(ContainerId::new(first_unknown)..) {
        super::guess::note_owners(&mut owners, good_entries(inner, id, held)?);
    }
    owners.retain(|&number, _| number >= next_volume && inner.volume_by_number(number).is_none());
    Ok(owners)
}

/// What a volume has at a block; `None` if there is no such.
fn current(inner: &Inner, number: u32, lba: Lba) -> Result<Option<MapEntry>, PoolError> {
    let Some(volume) = inner.volume_by_number(number) else { return Ok(None) };
    if lba.get() >= volume.blocks(inner.chunk_bytes()) {
        return Ok(None);
    }
    let mut entries = Vec::with_capacity(1);
    match inner.map.pick(number, &[lba], &mut entries) {
        Ok(()) => Ok(entries.pop()),
        Err(error) if error.is_unreadable() => Ok(Some(MapEntry::Lost)),
        Err(error) => Err(error),
    }
}

fn set(inner: &Inner, number: u32, lba: Lba, pba: Pba) -> Result<(), PoolError> {
    inner.map.set_over_damage(number, lba, &[MapEntry::Stored(pba)], &mut |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pba::Location;

    #[test]
    fn ranges_in_any_order_are_joined_where_they_meet_and_not_where_they_do_not() {
        let of = |ranges: &[(u64, u64)]| joined(ranges.to_vec()).0;
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(7, 2), (0, 3), (3, 1)]), [(0, 4), (7, 2)]);
        assert_eq!(of(&[(0, 10), (2, 3), (9, 2), (12, 1)]), [(0, 11), (12, 1)]);
        assert_eq!(
            joined_with(Ranges(vec![(4, 2), (9, 1)]), &[6, 3, 8, 20, 8]).0,
            [(3, 4), (8, 2), (20, 1)]
        );
    }

    #[test]
    fn what_a_frame_says_is_known_and_of_those_after_a_gap_which_blocks_changed() {
        let at =
            |unit: usize| Pba { container: ContainerId::new(3), location: Location::new(unit, 1) };
        let mut explained = Explained::default();
        let entries = vec![MapEntry::Stored(at(4)), MapEntry::Hole, MapEntry::Stored(at(5))];
        let run =
            |first| Change::Run { volume: 1, first: Lba::new(first), entries: entries.clone() };
        explained.note(&run(10), false);
        let records = [4, 5].map(|unit| MapEntry::Stored(at(unit)).raw());
        assert_eq!(explained.records, HashSet::from(records));
        assert!(explained.changed().is_empty());
        explained.note(&run(20), true);
        let fill =
            |count| Change::Fill { volume: 1, first: Lba::new(23), count, entry: MapEntry::Hole };
        explained.note(&fill(7), true);
        explained.note(&fill(99), false);
        assert_eq!(explained.changed()[&1].0, [(20, 10)]);
        assert_eq!(explained.records.len(), 2);
    }

    #[test]
    fn records_are_as_old_as_the_epoch_of_their_container_its_number_and_their_place_in_it() {
        let held = |epoch| Held { epoch, len_bytes: 1, chunks: 1, punched: 0, rewrite: false };
        let id = ContainerId::new;
        let kept = Kept::from([(id(1), held(7)), (id(2), held(5)), (id(3), held(5))]);
        assert_eq!(newest_first(&kept), [id(1), id(3), id(2)]);
        assert_eq!(oldest_first(&kept), [id(2), id(3), id(1)]);
        let of = |container, unit| {
            age(&kept, Pba { container: id(container), location: Location::new(unit, 1) })
        };
        assert!(of(1, 4) > of(1, 3) && of(1, 3) > of(3, 9) && of(3, 3) > of(2, 9));
        assert_eq!(of(4, 3), None);
    }

    #[test]
    fn past_its_end_a_volume_has_no_blocks_that_could_be_had_again() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let volume = pool.create_volume("main", onefold_block::ByteSize(5 * 4096 - 1)).unwrap();
        let number = volume.state.number;
        let at = |number, block| current(&pool.inner, number, Lba::new(block)).unwrap();
        assert_eq!([0, 4].map(|block| at(number, block)), [Some(MapEntry::Hole); 2]);
        assert_eq!([5, 600].map(|block| at(number, block)), [None; 2]);
        assert_eq!(at(number + 1, 0), None);
    }

    #[test]
    fn a_snapshot_asks_what_its_volume_wrote_before_it_even_if_that_is_gone() {
        let folder = onefold_block::SimFolder::new();
        let identity = crate::PoolIdentity { uuid: [1; 16], key: [2; 32] };
        crate::Pool::create(&folder, &crate::PoolSettings::default(), identity).unwrap();
        let pool = crate::Pool::open(&folder, &crate::OpenOptions::default()).unwrap();
        drop(pool.create_volume("main", onefold_block::ByteSize(1 << 20)).unwrap());
        pool.snapshot("main@one", 0, false).unwrap();
        let inner = &pool.inner;
        let volume = inner.volume_by_name("main").unwrap();
        let snapshot = inner.snapshot_by_name("main@one").unwrap();
        let (of, number) = (volume.number, snapshot.number);
        let lost = ByVolume::from([(number, Ranges::default())]);
        let expected = BTreeMap::from([(of, vec![(number, Some(snapshot.birth))])]);
        assert_eq!(asking(inner, &lost), expected);
        inner.volumes.write().unwrap().remove(&of);
        assert_eq!(asking(inner, &lost), expected, "its records may be there");
        assert!(asking(inner, &ByVolume::from([(of, Ranges::default())])).is_empty());
    }
}
