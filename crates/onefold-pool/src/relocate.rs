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

    /// Hold nothing; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.held.clear();
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
        self.pick(volume.number, &blocks, &mut now)?;
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
        let (mut sealed, mut places) = (Vec::new(), Vec::with_capacity(drafts.len()));
        let mut drafts = drafts.iter().peekable();
        while drafts.peek().is_some() {
            let container = self.moving_container(engine)?;
            places.clear();
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
