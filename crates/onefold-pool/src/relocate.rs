//! Moving records: the one way in which an address changes while its data stays.
//! Room: onefold-pool.
//! In: references, each as block and address, and the bytes stored there. Out: the same blocks with
//! addresses in the container for moved records.
//! Invariants: (1) a map entry changes only if it still is what was asked about (compare and set),
//! under the engine's lock and through the same journal as a write; (2) records are copied as they
//! are stored, with another placement word and nothing else; (3) nothing is removed here: what is
//! no longer referred to goes by the same rule as ever.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

use onefold_block::Lba;
use onefold_content::Fingerprint;

use crate::container::open::OpenContainer;
use crate::engine::{Engine, Inner, VolumeState};
use crate::error::PoolError;
use crate::format::container::Owner;
use crate::format::record;
use crate::index::Place;
use crate::key_hasher::KeyHasher;
use crate::pba::{MapEntry, Pba};
use crate::plan::{ChunkWrite, Draft};
use crate::provide::{Needs, NewRecords};
use crate::space::Purpose;
use crate::victim::Victim;

/// References changed under one hold of the engine's lock.
pub const MOVES_PER_COMMIT: usize = 64;

/// A block that refers to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub volume: u32,
    pub lba: u64,
    pub pba: Pba,
}

/// Records as they are stored, by address, and where they were moved to.
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    held: HashMap<Pba, Held, BuildHasherDefault<KeyHasher>>,
    /// Batches drafted so far.
    batches: u32,
}

/// A record.
struct Held {
    /// Where it lies in the bytes.
    range: Range<usize>,
    fingerprint: Fingerprint,
    moved: Option<Pba>,
    /// The batch that it was drafted in last.
    drafted_in: u32,
}

impl Records {
    /// Hold a verified record.
    pub fn hold(&mut self, pba: Pba, record: &[u8], fingerprint: Fingerprint) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(record);
        let range = from..self.bytes.len();
        self.held.insert(pba, Held { range, fingerprint, moved: None, drafted_in: 0 });
    }

    /// Hold the record at an address of a victim, if it is whole and not held yet.
    pub fn take(&mut self, victim: &Victim<'_>, pba: Pba) {
        if !self.holds(pba)
            && let Some((record, fingerprint)) = victim.record(pba)
        {
            self.hold(pba, record, fingerprint);
        }
    }

    /// Whether the record at this address is held.
    pub fn holds(&self, pba: Pba) -> bool {
        self.held.contains_key(&pba)
    }

    /// The records that `references` need and that are in no container for moved records yet.
    fn drafts(
        &mut self,
        engine: &Engine,
        references: &[Reference],
        out: &mut Vec<u8>,
    ) -> Vec<Draft> {
        self.batches += 1;
        let mut drafts: Vec<Draft> = Vec::with_capacity(references.len());
        for (number, reference) in references.iter().enumerate() {
            let held = self.held.get_mut(&reference.pba).expect("the record is held");
            let there = held.moved.is_some_and(|new| engine.table.is_shareable(new.container));
            if there || held.drafted_in == self.batches {
                continue;
            }
            held.drafted_in = self.batches;
            let from = out.len();
            out.extend_from_slice(&self.bytes[held.range.clone()]);
            // The word of a place is taken off the way it was put there.
            record::place(&mut out[from..], reference.pba);
            let range = from..out.len();
            drafts.push(Draft { chunk: number, fingerprint: held.fingerprint, range });
        }
        drafts
    }

    /// The record at this address has a copy there.
    fn has_moved(&mut self, from: Pba, to: Pba) {
        self.held.get_mut(&from).expect("the record is held").moved = Some(to);
    }

    fn moved(&self, from: Pba) -> Option<Pba> {
        self.held.get(&from).and_then(|held| held.moved)
    }
}

impl Inner {
    /// Move what blocks of one volume refer to: those of `references` that still hold. Returns the
    /// containers that became full, for the caller to write out, and the bytes copied.
    pub fn commit_moves(
        &self,
        volume: &VolumeState,
        references: &[Reference],
        records: &mut Records,
    ) -> Result<(Vec<Arc<OpenContainer>>, u64), PoolError> {
        assert!(references.len() <= MOVES_PER_COMMIT);
        let height = self.map.root(volume.number)?.height;
        let bytes = references.iter().map(|reference| reference.pba.location.len_bytes()).sum();
        let moved = NewRecords::Moved(references.len(), bytes);
        let needs = Needs::of_commit(height, references.len(), Purpose::Release, moved);
        let mut engine = self.engine_with(&needs)?;
        let engine = &mut *engine;
        if volume.deleting.load(std::sync::atomic::Ordering::Acquire) {
            return Ok((Vec::new(), 0));
        }
        let blocks: Vec<Lba> = references.iter().map(|reference| Lba::new(reference.lba)).collect();
        let mut now = Vec::with_capacity(references.len());
        self.pick(volume.number, &blocks, &mut now);
        let pairs = references.iter().zip(&now);
        let still = pairs.filter(|(reference, now)| **now == MapEntry::Stored(reference.pba));
        let holding: Vec<Reference> = still.map(|(reference, _)| *reference).collect();
        let mut bytes = Vec::new();
        let drafts = records.drafts(engine, &holding, &mut bytes);
        let sealed = self.store_moved(engine, volume, &holding, &drafts, &mut bytes, records)?;
        let write = |reference: &Reference| ChunkWrite {
            lba: Lba::new(reference.lba),
            data: &[],
            expected: None,
        };
        let writes: Vec<ChunkWrite<'_>> = holding.iter().map(write).collect();
        let entry = |reference: &Reference| records.moved(reference.pba).map(MapEntry::Stored);
        let entries: Vec<Option<MapEntry>> = holding.iter().map(entry).collect();
        self.apply(engine, volume, &writes, &entries)?;
        engine.generation += 1;
        Ok((sealed, bytes.len() as u64))
    }

    /// Put drafts into the container for moved records, and their fingerprints into the index.
    fn store_moved(
        &self,
        engine: &mut Engine,
        volume: &VolumeState,
        references: &[Reference],
        drafts: &[Draft],
        bytes: &mut [u8],
        records: &mut Records,
    ) -> Result<Vec<Arc<OpenContainer>>, PoolError> {
        let owner = |draft: &Draft| Owner {
            volume: volume.number,
            lba: Lba::new(references[draft.chunk].lba),
        };
        let mut sealed = Vec::new();
        let mut drafts = drafts.iter().peekable();
        while drafts.peek().is_some() {
            let container = self.moving_container(engine)?;
            let mut places = Vec::with_capacity(drafts.len());
            container.append(bytes, &mut drafts, owner, |draft, ordinal, pba| {
                let place = Place::new(pba.container, ordinal);
                places.extend(place.map(|place| (draft.fingerprint.prefix64(), place)));
                records.has_moved(references[draft.chunk].pba, pba);
            });
            self.index.insert_many(&places);
            self.stores.fetch_add(1, std::sync::atomic::Ordering::Release);
            if drafts.peek().is_some() {
                engine.seal(&container);
                sealed.push(container);
            }
        }
        Ok(sealed)
    }

    /// The container being filled with moved records: if there is none, the one set aside, or a new
    /// one.
    fn moving_container(&self, engine: &mut Engine) -> Result<Arc<OpenContainer>, PoolError> {
        if let Some(moving) = &engine.moving {
            return Ok(Arc::clone(moving));
        }
        let moving = match engine.spare {
            Some(id) => {
                let buffer = self.take_buffer()?;
                engine.spare = None;
                self.begin_container(engine, id, buffer)
            }
            None => self.new_container(engine)?,
        };
        self.store.tell_moved(moving.id());
        engine.moving = Some(Arc::clone(&moving));
        Ok(moving)
    }

    /// Before new records get a container, there must be two for moved ones: one to fill, and one
    /// for what does not fit. Then whatever fills the disk, the emptiest container can be emptied.
    pub fn keep_reserve(&self, engine: &mut Engine) -> Result<(), PoolError> {
        if self.reserve_lacks(engine) == 0 {
            return Ok(());
        }
        if engine.moving.is_none() {
            self.moving_container(engine)?;
        }
        if engine.spare.is_none() {
            engine.spare = Some(self.take_container(engine)?);
        }
        Ok(())
    }

    /// Of the two, how many are not there.
    pub fn reserve_lacks(&self, engine: &Engine) -> usize {
        if self.reserve_bytes(engine) == 0 {
            return 0;
        }
        usize::from(engine.moving.is_none()) + usize::from(engine.spare.is_none())
    }

    /// Space without which nothing can be moved: the containers that [`Inner::keep_reserve`] keeps,
    /// and what a pool at work has set aside for maps and journal.
    pub fn reserve_bytes(&self, engine: &Engine) -> u64 {
        if engine.table.len() < RESERVE_FROM_CONTAINERS {
            return 0;
        }
        2 * u64::from(self.settings.container_bytes) + AT_WORK_BYTES
    }
}

/// A pool of fewer containers has no reserve: it would take more than could be won.
const RESERVE_FROM_CONTAINERS: usize = 8;
/// Space for maps and journal that writes and the first moves set aside, in whole steps.
const AT_WORK_BYTES: u64 = 3 << 20;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use onefold_block::{BlockDevice, ByteSize, SimFolder};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn only_what_still_holds_is_moved_and_is_found_at_its_new_place() {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&folder, &settings);
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let (inner, state) = (&pool.inner, &volume.state);
        for block in 0..4u8 {
            volume.write_at(u64::from(block) * 4096, &[block + 1; 4096], false).unwrap();
        }
        // Two blocks of one record.
        volume.write_at(4 * 4096, &[1; 4096], true).unwrap();
        let mut now = Vec::new();
        inner.map.entries(state.number, Lba::new(0), 5, &mut now).unwrap();
        let mut records = Records::default();
        let references: Vec<Reference> = (0..)
            .zip(&now)
            .map(|(lba, entry)| Reference { volume: state.number, lba, pba: entry.pba().unwrap() })
            .collect();
        for (reference, content) in references.iter().zip([1, 2, 3, 4]) {
            let mut record = vec![0; reference.pba.location.len_bytes()];
            let live = inner.live(reference.pba.container).unwrap();
            assert!(live.read(reference.pba.location.offset_bytes(), &mut record));
            let mut fingerprint = [Fingerprint::from_bytes([0; 32])];
            inner.fingerprinter.hash_many(&[&[content; 4096][..]], &mut fingerprint);
            records.hold(reference.pba, &record, crate::format::container::kept(&fingerprint[0]));
        }
        // One of them is overwritten meanwhile.
        volume.write_at(4096, &[9; 4096], false).unwrap();
        let (generation, stores) =
            (inner.engine().generation, inner.stores.load(Ordering::Acquire));
        let bytes: usize =
            [0, 2, 3].map(|n: usize| references[n].pba.location.len_bytes()).iter().sum();
        let (sealed, moved) = inner.commit_moves(state, &references, &mut records).unwrap();
        assert_eq!((sealed.len(), moved), (0, bytes as u64), "each record once");
        assert!(inner.engine().generation > generation, "there is something to be flushed");
        assert!(inner.stores.load(Ordering::Acquire) > stores, "plans look again");
        let mut after = Vec::new();
        inner.map.entries(state.number, Lba::new(0), 5, &mut after).unwrap();
        assert_eq!(after[0], after[4]);
        for block in [0, 2, 3] {
            let (was, is) = (now[block].pba().unwrap(), after[block].pba().unwrap());
            assert!(was.container != is.container, "block {block}");
        }
        assert_eq!(after[1].pba().unwrap().container, now[0].pba().unwrap().container);
        let mut found = [0; 4096];
        for (block, content) in (0..).zip([1, 9, 3, 4, 1]) {
            volume.read_at(block * 4096, &mut found).unwrap();
            assert_eq!(found, [content; 4096], "block {block}");
        }
        // Nothing is moved again, and nothing for a volume that is being deleted.
        let (_, again) = inner.commit_moves(state, &references, &mut records).unwrap();
        assert_eq!(again, 0);
        state.deleting.store(true, Ordering::Release);
        let generation = inner.engine().generation;
        assert_eq!(inner.commit_moves(state, &references, &mut records).unwrap().1, 0);
        assert_eq!(inner.engine().generation, generation);
    }
}
