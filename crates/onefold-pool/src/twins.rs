//! Chunks that are stored twice: found out, and stored once from then on.
//! Room: onefold-pool.
//! In: places whose fingerprints met in a merge. Out: blocks that refer to the oldest of them.
//! Source: ARCHITECTURE.md, "Deduplication in the background".
//! Invariants: (1) a [`Twin`] has the full fingerprint of the record that takes its place and,
//! where that is not collision resistant, the same bytes; (2) that record was read and is whole: a
//! good copy is never given up for a damaged one; (3) blocks are turned to it by compare and set,
//! under the engine's lock, while its container may be shared; (4) what is missed costs space,
//! never data.
//! Cost: for each of a few pairs one directory entry, for many in one container all of it; the
//! record that stays; one pass over the maps for up to a million twins.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba};

use crate::container::directories::{self, Known};
use crate::container::table::{ContainerTable, Watch};
use crate::counters::count;
use crate::engine::{Inner, Scratch};
use crate::error::PoolError;
use crate::format::container::{ENTRY_BYTES, directory_bytes};
use crate::format::pair::Pair;
use crate::format::record;
use crate::index::Place;
use crate::key_hasher::KeyHasher;
use crate::map_pass::{Cursor, LEAF_BYTES, Leaves};
use crate::pba::{MapEntry, Pba};
use crate::plan::ChunkWrite;
use crate::provide::{Needs, NewRecords};
use crate::reclaim::batch;
use crate::relocate::Reference;
use crate::runs::container_set::ContainerSet;
use crate::space::Purpose;

/// Share of the memory for maps in which pairs are compared together: the more there are, the more
/// are in one container, whose directory is read once for all of them.
const MEETING_SHARE: u64 = 8;
/// Pairs of one fingerprint that are compared with each other.
const GROUP_MAX: usize = 64;
/// So many pairs of one container are worth reading its whole directory.
const WHOLE_DIRECTORY: usize = 32;
/// Twins that wait for one pass over the maps, at most.
const TWINS_MAX: u64 = 1 << 20;
/// A leaf that is in memory counts as a part of one that is read, for the time that it takes.
const IN_MEMORY_SHARE: u64 = 8;
/// Chunks with one weak fingerprint that are told apart by their bytes.
const UNLIKE_MAX: usize = 8;

/// Pairs whose fingerprints met and that are to be compared.
#[derive(Default)]
pub struct Meeting {
    pairs: Vec<(u32, Pair)>,
    groups: u32,
}

impl Meeting {
    /// All pairs of one fingerprint, in order, that a merge came to.
    pub fn add(&mut self, group: &[Pair]) {
        let Some((first, rest)) = group.split_first() else { return };
        for others in rest.chunks(GROUP_MAX - 1) {
            let number = self.groups;
            self.groups += 1;
            self.pairs.push((number, *first));
            self.pairs.extend(others.iter().map(|pair| (number, *pair)));
        }
    }

    /// Nobody met.
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// There are enough.
    pub const fn is_full(&self, most: usize) -> bool {
        self.pairs.len() >= most
    }
}

/// What a directory says of one of the pairs.
struct Met {
    group: u32,
    pba: Pba,
    known: Known,
    place: Option<Place>,
}

/// A record whose blocks are to be turned to another one.
struct Twin {
    first: Pba,
    /// What the index knows both by, and where.
    hash: u64,
    places: [Option<Place>; 2],
    /// Blocks were turned.
    shared: bool,
    /// Others could not be.
    kept: bool,
}

/// Twins that wait for a pass over the maps.
#[derive(Default)]
pub struct Twins {
    of: HashMap<Pba, Twin, BuildHasherDefault<KeyHasher>>,
    containers: ContainerSet,
    walk: Option<Cursor>,
    /// What was known of the containers when the pass began.
    watched: BTreeMap<ContainerId, Watch>,
    /// How often pages had changed hands between volumes and snapshots by then.
    changes: u64,
}

impl Twins {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// So many are worth a pass.
    pub fn is_full(&self, most: usize) -> bool {
        self.of.len() >= most
    }

    /// A pass is under way.
    pub const fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// Begin one.
    pub fn begin_walk(&mut self, table: &ContainerTable, changes: u64) {
        self.changes = changes;
        let watch = |id| Some((id, table.watch(id)?));
        self.watched = self.containers.iter().filter_map(watch).collect();
        self.walk = Some(Cursor::default());
    }

    fn insert(&mut self, second: Pba, twin: Twin) {
        self.containers.insert(second.container);
        self.of.insert(second, twin);
    }

    /// The record that blocks which refer to `pba` are to be turned to. It may have a twin itself.
    fn first_of(&self, pba: Pba) -> Option<Pba> {
        if !self.containers.contains(pba.container) {
            return None;
        }
        let mut first = self.of.get(&pba)?.first;
        while let Some(twin) = self.of.get(&first) {
            first = twin.first;
        }
        Some(first)
    }
}

impl Inner {
    /// Pairs that are compared together, about.
    pub fn meeting_max(&self) -> usize {
        let bytes = (size_of::<(u32, Pair)>() + size_of::<Met>()) as u64;
        (self.budgets.map_bytes / MEETING_SHARE / bytes) as usize
    }

    /// Twins that wait for one pass over the maps.
    pub fn twins_max(&self) -> usize {
        let bytes = size_of::<(Pba, Twin)>() as u64 * 2;
        (self.budgets.map_bytes / 4 / bytes).min(TWINS_MAX) as usize
    }

    /// Compare those that met. Returns the bytes read.
    pub fn verify_meeting(
        &self,
        meeting: &mut Meeting,
        twins: &mut Twins,
    ) -> Result<u64, PoolError> {
        let mut pairs = std::mem::take(&mut meeting.pairs);
        meeting.groups = 0;
        pairs.sort_unstable_by_key(|(group, pair)| (pair.container(), pair.ordinal(), *group));
        let (mut met, mut bytes) = (Vec::with_capacity(pairs.len()), 1);
        for of_one in pairs.chunk_by(|a, b| a.1.container() == b.1.container()) {
            bytes += self.look_up(of_one, &mut met)?;
        }
        drop(pairs);
        // The oldest first.
        met.sort_unstable_by(|a, b| {
            (a.group, a.known.fingerprint(), a.pba).cmp(&(b.group, b.known.fingerprint(), b.pba))
        });
        let mut scratch = self.take_scratch();
        let mut found = Vec::new();
        let alike =
            |a: &Met, b: &Met| a.group == b.group && a.known.fingerprint() == b.known.fingerprint();
        for group in met.chunk_by(alike) {
            if self.settings.fingerprint.is_strong() {
                found.extend(group[1..].iter().map(|second| (&group[0], second)));
            } else {
                bytes += self.compare_bytes(group, &mut found, &mut scratch);
            }
        }
        self.give_scratch(scratch);
        // Records that stay are read in their order on the media, each once.
        found.sort_unstable_by_key(|(first, second)| (first.pba, second.pba));
        let mut record = Vec::new();
        for of_one in found.chunk_by(|a, b| a.0.pba == b.0.pba) {
            let first = of_one[0].0;
            bytes += first.pba.location.len_bytes() as u64;
            if !self.is_whole(first.pba, &mut record) {
                continue;
            }
            for (_, second) in of_one {
                let places = [second.place, first.place];
                let hash = first.known.prefix64();
                let twin = Twin { first: first.pba, hash, places, shared: false, kept: false };
                twins.insert(second.pba, twin);
            }
        }
        Ok(bytes)
    }

    /// What a container's directory says of pairs that are in it, if they may be shared or turned.
    /// Returns the bytes read.
    fn look_up(&self, pairs: &[(u32, Pair)], met: &mut Vec<Met>) -> Result<u64, PoolError> {
        let id = pairs[0].1.container();
        let info = self.engine().table.get(id).copied();
        let Some(info) = info.filter(|info| info.is_sealed() && !info.is_punched()) else {
            return Ok(0);
        };
        let found = |known: Known, group: u32, ordinal: usize| {
            let pba = Pba { container: id, location: known.location };
            Met { group, pba, known, place: Place::new(id, ordinal as u16) }
        };
        if pairs.len() >= WHOLE_DIRECTORY {
            let entries = match directories::load(&*self.plain, id, info.len_bytes.into()) {
                Ok(entries) => entries,
                Err(error) => return self.passed_over(id, error),
            };
            met.extend(pairs.iter().filter_map(|(group, pair)| {
                let entry = entries.get(pair.ordinal())?;
                Some(found(Known::of(entry), *group, pair.ordinal()))
            }));
            return Ok(directory_bytes(entries.len()) as u64);
        }
        for (group, pair) in pairs {
            match directories::read_entry(&*self.plain, (id, &info), pair.ordinal()) {
                Ok(Some(entry)) => met.push(found(Known::of(&entry), *group, pair.ordinal())),
                Ok(None) => {}
                Err(error) => return self.passed_over(id, error),
            }
        }
        Ok((pairs.len() * ENTRY_BYTES) as u64)
    }

    /// It is gone, or damaged, which reading its data will say.
    fn passed_over(&self, id: ContainerId, error: PoolError) -> Result<u64, PoolError> {
        if self.engine().table.get(id).is_none() || error.is_unreadable() {
            tracing::debug!("what is in {id} is not compared: {error}");
            return Ok(0);
        }
        Err(error)
    }

    /// Of chunks with one weak fingerprint, those that have the same bytes. Returns the bytes read.
    fn compare_bytes<'a>(
        &self,
        group: &'a [Met],
        found: &mut Vec<(&'a Met, &'a Met)>,
        scratch: &mut Scratch,
    ) -> u64 {
        let mut unlike: Vec<(&Met, Vec<u8>)> = Vec::new();
        for met in group {
            let mut chunk = vec![0; self.chunk_bytes()];
            if let Err(error) = self.read_one(met.pba, &mut chunk, scratch) {
                tracing::debug!("what cannot be read is not shared: {error}");
                continue;
            }
            match unlike.iter().find(|(_, other)| *other == chunk) {
                Some((first, _)) => found.push((first, met)),
                None if unlike.len() < UNLIKE_MAX => {
                    count(&self.counters.collisions, u64::from(!unlike.is_empty()));
                    unlike.push((met, chunk));
                }
                None => {}
            }
        }
        group.iter().map(|met| met.pba.location.len_bytes() as u64).sum()
    }

    /// Whether the record at this address is as it was written.
    fn is_whole(&self, pba: Pba, record: &mut Vec<u8>) -> bool {
        record.resize(pba.location.len_bytes(), 0);
        let read = self.plain.read(pba.container, pba.location.offset_bytes() as u64, record);
        read.is_ok() && record::verify(record, pba).is_ok()
    }

    /// Turn the blocks in the next leaf of the maps; after the last, all twins are done with.
    /// Returns the bytes of work.
    pub fn share_twins(&self, twins: &mut Twins) -> Result<u64, PoolError> {
        let mut cursor = twins.walk.unwrap_or_default();
        let mut references = Vec::new();
        let read_before = self.map.pages_read();
        let more = self.walk_leaf(&mut cursor, Leaves::OfVolumes, &mut |volume, lba, pba| {
            if twins.first_of(pba).is_some() {
                references.push(Reference { volume, lba, pba });
            }
        })?;
        let is_in_memory = self.map.pages_read() == read_before;
        let mut rest = references.as_slice();
        while !rest.is_empty() {
            let now = batch(rest);
            rest = &rest[now.len()..];
            match self.turn(now, twins) {
                Err(error) if error.is_no_space() => {
                    // A checkpoint frees map pages and what is dead by now.
                    self.checkpoint()?;
                    self.turn(now, twins)?;
                }
                Err(PoolError::VolumeDeleted) => {}
                turned => turned?,
            }
        }
        twins.walk = Some(cursor);
        if !more {
            self.conclude_twins(std::mem::take(twins));
        }
        self.relieve()?;
        Ok(if is_in_memory { LEAF_BYTES / IN_MEMORY_SHARE } else { LEAF_BYTES })
    }

    /// Turn a few blocks of one volume, as far as they still refer to twins.
    fn turn(&self, references: &[Reference], twins: &mut Twins) -> Result<(), PoolError> {
        let Some(volume) = self.volume_by_number(references[0].volume) else { return Ok(()) };
        let height = self.map.root(volume.number)?.height;
        let needs = Needs::of_commit(height, references.len(), Purpose::Release, NewRecords::None);
        let blocks: Vec<Lba> = references.iter().map(|reference| Lba::new(reference.lba)).collect();
        // Map pages are read now, so that the commit need not wait for the media.
        self.pick(volume.number, &blocks, &mut Vec::with_capacity(references.len()));
        let mut engine = self.engine_with(&needs)?;
        let engine = &mut *engine;
        if volume.deleting.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut now = Vec::with_capacity(references.len());
        self.pick(volume.number, &blocks, &mut now);
        let mut entries: Vec<Option<MapEntry>> = Vec::with_capacity(references.len());
        for (reference, now) in references.iter().zip(&now) {
            let first = twins.first_of(reference.pba);
            let first = first.filter(|_| *now == MapEntry::Stored(reference.pba));
            let turned = first.filter(|first| engine.table.is_shareable(first.container));
            if first.is_some() && turned.is_none() {
                twins.of.entry(reference.pba).and_modify(|twin| twin.kept = true);
            }
            entries.push(turned.map(MapEntry::Stored));
        }
        let write = |&lba: &Lba| ChunkWrite { lba, data: &[], expected: None };
        let writes: Vec<ChunkWrite<'_>> = blocks.iter().map(write).collect();
        self.apply(engine, &volume, &writes, &entries)?;
        engine.generation += 1;
        for (reference, entry) in references.iter().zip(&entries) {
            if entry.is_some()
                && let Some(twin) = twins.of.get_mut(&reference.pba)
            {
                twin.shared = true;
            }
        }
        Ok(())
    }

    /// The index shall lead to the records that stay; the others are dead.
    fn conclude_twins(&self, twins: Twins) {
        let mut found = 0;
        // Snapshots, whose pages are not turned, may refer to what volumes refer to no more.
        let changes = self.lineage_changes();
        let snapshots =
            twins.changes != changes || self.all_volumes().iter().any(|volume| volume.is_snapshot);
        let mut dead: BTreeMap<ContainerId, u32> = BTreeMap::new();
        for (second, twin) in twins.of.into_iter().filter(|(_, twin)| twin.shared) {
            found += 1;
            if !twin.kept && !snapshots {
                *dead.entry(second.container).or_default() += 1;
            }
            let [second, first] = twin.places;
            if let Some(second) = second {
                self.index.remove(twin.hash, second);
            }
            if let Some(first) = first {
                self.index.insert_many(&[(twin.hash, first)]);
            }
        }
        count(&self.counters.found_later, found);
        let mut engine = self.engine();
        for (id, records) in dead {
            if let Some(&then) = twins.watched.get(&id) {
                engine.table.died(id, records, then);
            }
        }
    }
}

#[cfg(test)]
mod tests;
