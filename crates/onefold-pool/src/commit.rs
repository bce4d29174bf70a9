//! The commit: planned chunks become records, map entries and journal entries, under one lock.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, life of a write, steps 6 and 7.
//! Invariants: (1) a map entry is set only to an address whose record is in a container that the
//! table knows; (2) the journal has changes in the order in which the map took them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba};

use crate::container::buffer::Buffer;
use crate::container::open::OpenContainer;
use crate::container::table::ContainerTable;
use crate::counters::count;
use crate::engine::{Engine, Inner, Scratch, VolumeState};
use crate::error::PoolError;
use crate::format::container::Owner;
use crate::index::Place;
use crate::map::Watch;
use crate::pba::{MapEntry, Pba};
use crate::plan::{Batch, ChunkWrite, Draft, Plan};

/// What a commit came to.
#[derive(Default)]
pub(crate) struct Committed {
    /// Numbers of the chunks that must start again.
    pub conflicts: Vec<usize>,
    /// Containers that became full: the caller writes them out.
    pub sealed: Vec<Arc<OpenContainer>>,
    /// The next container should be made: the caller sees to that.
    pub nearly_full: bool,
    /// Drafts that another thread had stored by then.
    just_stored: u64,
}

impl Inner {
    /// Commit a planned batch. The lock is one that [`Inner::engine_with`] gave.
    pub fn commit(
        &self,
        engine: &mut Engine,
        volume: &VolumeState,
        writes: &[ChunkWrite<'_>],
        batch: &Batch,
        scratch: &mut Scratch,
    ) -> Result<Committed, PoolError> {
        self.check_writable()?;
        // A deletion sets the mark and then takes this lock once: after that nothing is added.
        if volume.deleting.load(Ordering::Acquire) {
            return Err(PoolError::VolumeDeleted);
        }
        let mut committed = Committed::default();
        let filled = engine.filled();
        let mut entries: Vec<Option<MapEntry>> = vec![None; writes.len()];
        let stored = self.store_drafts(engine, volume, writes, batch, scratch, &mut committed)?;
        let mut known = None;
        for (number, (write, plan)) in writes.iter().zip(&batch.plans).enumerate() {
            if !self.still_expected(volume, write)? {
                committed.conflicts.push(number);
                continue;
            }
            let plan = match plan {
                Plan::SameAs(first) => &batch.plans[*first],
                own => own,
            };
            let entry = match plan {
                Plan::Hole => MapEntry::Hole,
                Plan::Shared(verified) => MapEntry::Stored(verified.pba()),
                Plan::Draft(draft) => MapEntry::Stored(stored[*draft]),
                Plan::SameAs(_) => unreachable!("a first chunk is stored"),
            };
            // A container may be gone, or about to be emptied, since its chunk was verified.
            if let Plan::Shared(verified) = plan
                && known != Some(verified.pba().container)
            {
                let id = verified.pba().container;
                known = engine.table.is_shareable(id).then_some(id);
                if known.is_none() {
                    self.forget(*verified);
                    committed.conflicts.push(number);
                    continue;
                }
            }
            entries[number] = Some(entry);
        }
        self.apply(engine, volume, writes, &entries)?;
        engine.generation += 1;
        self.count_batch(batch, committed.just_stored);
        committed.nearly_full = self.has_become_nearly_full(engine, filled);
        Ok(committed)
    }

    fn still_expected(
        &self,
        volume: &VolumeState,
        write: &ChunkWrite<'_>,
    ) -> Result<bool, PoolError> {
        let Some(expected) = write.expected else { return Ok(true) };
        let mut now = Vec::with_capacity(1);
        self.map.entries(volume.number, write.lba, 1, &mut now)?;
        Ok(now == [expected])
    }

    /// Put all drafts into containers, but for those that another thread has stored meanwhile.
    /// Returns the address of each.
    fn store_drafts(
        &self,
        engine: &mut Engine,
        volume: &VolumeState,
        writes: &[ChunkWrite<'_>],
        batch: &Batch,
        scratch: &mut Scratch,
        committed: &mut Committed,
    ) -> Result<Vec<Pba>, PoolError> {
        let mut stored: Vec<Option<Pba>> = vec![None; batch.drafts.len()];
        if batch.stores != self.stores.load(Ordering::Acquire) {
            self.find_all_just_stored(&engine.table, writes, batch, scratch, &mut stored);
        }
        let waiting: Vec<usize> =
            (0..stored.len()).filter(|&number| stored[number].is_none()).collect();
        committed.just_stored = (stored.len() - waiting.len()) as u64;
        let mut drafts = waiting.iter().map(|&number| &batch.drafts[number]).peekable();
        let mut numbers = waiting.iter();
        while drafts.peek().is_some() {
            let container = self.open_container(engine)?;
            scratch.places.clear();
            let owner =
                |draft: &Draft| Owner { volume: volume.number, lba: writes[draft.chunk].lba };
            container.append(&mut scratch.records, &mut drafts, owner, |draft, ordinal, pba| {
                let place = Place::new(pba.container, ordinal);
                scratch.places.extend(place.map(|place| (draft.fingerprint.prefix64(), place)));
                let number = numbers.next().expect("one for each draft");
                stored[*number] = Some(pba);
            });
            self.index.insert_many(&scratch.places);
            // After the index knows: a plan that begins with this count misses nothing.
            self.stores.fetch_add(1, Ordering::Release);
            if drafts.peek().is_some() {
                engine.seal(&container);
                committed.sealed.push(container);
            }
        }
        let stored: Option<Vec<Pba>> = stored.into_iter().collect();
        Ok(stored.expect("every draft was stored or found"))
    }

    /// Give drafts that another thread has stored meanwhile their addresses.
    fn find_all_just_stored(
        &self,
        table: &ContainerTable,
        writes: &[ChunkWrite<'_>],
        batch: &Batch,
        scratch: &mut Scratch,
        stored: &mut [Option<Pba>],
    ) {
        scratch.hashes.clear();
        scratch.hashes.extend(batch.drafts.iter().map(|draft| draft.fingerprint.prefix64()));
        let mut found = std::mem::take(&mut scratch.candidates);
        found.clear();
        self.index.lookup_many(&scratch.hashes, &mut found);
        for ((draft, found), stored) in batch.drafts.iter().zip(&found).zip(stored) {
            let chunk = writes[draft.chunk].data;
            *stored = self
                .find_just_stored(table, found, chunk, &draft.fingerprint, scratch)
                .map(crate::verify::Verified::pba);
        }
        scratch.candidates = found;
    }

    /// The container being filled with new records; a new one if there is none. First there must be
    /// room for what winning space back needs.
    fn open_container(&self, engine: &mut Engine) -> Result<Arc<OpenContainer>, PoolError> {
        if let Some(open) = &engine.open {
            return Ok(Arc::clone(open));
        }
        self.keep_reserve(engine)?;
        let open = self.new_container(engine)?;
        engine.open = Some(Arc::clone(&open));
        Ok(open)
    }

    /// An empty container to be filled.
    pub fn new_container(&self, engine: &mut Engine) -> Result<Arc<OpenContainer>, PoolError> {
        let buffer = self.take_buffer()?;
        let id = self.take_container(engine)?;
        Ok(self.begin_container(engine, id, buffer))
    }

    /// Begin to fill a container that store and table have.
    pub fn begin_container(
        &self,
        engine: &mut Engine,
        id: ContainerId,
        buffer: Buffer,
    ) -> Arc<OpenContainer> {
        let capacity = self.settings.container_bytes as usize;
        let origin = (&self.identity.uuid, engine.epoch);
        let open = Arc::new(OpenContainer::new(id, capacity, origin, buffer));
        self.live_mut().insert(id, Arc::clone(&open));
        open
    }

    /// Change map, reference totals and journal.
    pub fn apply(
        &self,
        engine: &mut Engine,
        volume: &VolumeState,
        writes: &[ChunkWrite<'_>],
        entries: &[Option<MapEntry>],
    ) -> Result<(), PoolError> {
        assert!(!volume.is_snapshot, "snapshots never change");
        let mut from = 0;
        let mut run: Vec<MapEntry> = Vec::with_capacity(entries.len());
        while from < entries.len() {
            run.clear();
            let first = writes[from].lba;
            for (write, entry) in writes[from..].iter().zip(&entries[from..]) {
                let Some(entry) = entry else { break };
                if write.lba.get() != first.get() + run.len() as u64 {
                    break;
                }
                run.push(*entry);
            }
            if run.is_empty() {
                from += 1;
                continue;
            }
            self.apply_run(engine, volume, first, &run)
                .map_err(|error| self.poison_unless_no_space(error))?;
            from += run.len();
        }
        Ok(())
    }

    fn apply_run(
        &self,
        engine: &mut Engine,
        volume: &VolumeState,
        first: Lba,
        run: &[MapEntry],
    ) -> Result<(), PoolError> {
        let mut tally = Tally::default();
        for entry in run {
            tally.gained(*entry);
        }
        // What is gained is counted before what is lost, so that a container both lost and gained
        // does not seem dead in between.
        tally.reference(engine)?;
        self.map.set(volume.number, first, run, &mut tally)?;
        tally.release(engine, volume)?;
        let before = engine.entries.len_bytes();
        engine.entries.run(volume.number, first, run);
        engine.space.journal_took((engine.entries.len_bytes() - before) as u64);
        self.keep_changes(engine, before);
        Ok(())
    }

    /// Leave the changes since there were `before` bytes of them to the next process too.
    pub fn keep_changes(&self, engine: &Engine, before: usize) {
        if let Some(kept) = self.kept.get() {
            kept.changes().record(engine.entries.since(before));
        }
    }

    /// Count a batch of which so many drafts were stored by others before.
    fn count_batch(&self, batch: &Batch, just_stored: u64) {
        let of =
            |wanted: fn(&Plan) -> bool| batch.plans.iter().filter(|p| wanted(p)).count() as u64;
        let planned = of(|plan| matches!(plan, Plan::Shared(_) | Plan::SameAs(_)));
        let counters = &self.counters;
        count(&counters.written, batch.plans.len() as u64);
        count(&counters.zero, of(|plan| matches!(plan, Plan::Hole)));
        count(&counters.duplicate, planned + just_stored);
        count(&counters.stored, batch.drafts.len() as u64 - just_stored);
    }
}

impl Engine {
    /// A container that is being filled takes no more.
    pub fn seal(&mut self, container: &Arc<OpenContainer>) {
        let (len, chunks) = container.seal();
        self.table.seal(container.id(), len, chunks);
        self.unsynced.push(Arc::clone(container));
        for filling in [&mut self.open, &mut self.moving] {
            if filling.as_ref().is_some_and(|open| open.id() == container.id()) {
                *filling = None;
            }
        }
    }
}

/// References gained and lost by a run of map entries, and by copies of leaves that a snapshot has,
/// by container.
#[derive(Default)]
pub(crate) struct Tally {
    gained: Runs,
    copied: Runs,
    lost: Runs,
    gained_chunks: u64,
    lost_chunks: u64,
}

/// Containers with a count each; neighbours that are equal are one.
#[derive(Default)]
struct Runs(Vec<(ContainerId, u64)>);

impl Runs {
    fn add(&mut self, id: ContainerId) {
        match self.0.last_mut() {
            Some((last, count)) if *last == id => *count += 1,
            _ => self.0.push((id, 1)),
        }
    }
}

impl Watch for Tally {
    fn lost(&mut self, entry: MapEntry) {
        if let Some(pba) = entry.pba() {
            self.lost.add(pba.container);
            self.lost_chunks += 1;
        }
    }

    fn copied(&mut self, entry: MapEntry) {
        if let Some(pba) = entry.pba() {
            self.copied.add(pba.container);
        }
    }
}

impl Tally {
    /// The map will hold this entry.
    pub fn gained(&mut self, entry: MapEntry) {
        if let Some(pba) = entry.pba() {
            self.gained.add(pba.container);
            self.gained_chunks += 1;
        }
    }

    /// Add what was gained to the table.
    pub fn reference(&self, engine: &mut Engine) -> Result<(), PoolError> {
        for &(id, by) in &self.gained.0 {
            if !engine.table.reference(id, by) {
                return Err(unknown(id));
            }
        }
        Ok(())
    }

    /// Take what was lost off the table, once what was copied is counted, and settle the volume's
    /// count.
    pub fn release(&self, engine: &mut Engine, volume: &VolumeState) -> Result<(), PoolError> {
        for &(id, by) in &self.copied.0 {
            if !engine.table.reference(id, by) {
                return Err(unknown(id));
            }
        }
        for &(id, by) in &self.lost.0 {
            if !engine.table.release(id, by) {
                return Err(unknown(id));
            }
        }
        volume.mapped_chunks.fetch_add(self.gained_chunks, Ordering::Relaxed);
        volume.mapped_chunks.fetch_sub(self.lost_chunks, Ordering::Relaxed);
        Ok(())
    }
}

fn unknown(id: ContainerId) -> PoolError {
    PoolError::corrupt_whole(
        "reference totals",
        format!("the map refers to {id} more often than the table of containers says"),
    )
}

#[cfg(test)]
mod tests {
    use onefold_block::{ByteSize, Lba, SimFolder};

    use super::*;
    use crate::PoolSettings;
    use crate::plan::Sharing;
    use crate::provide::{Needs, NewRecords};
    use crate::space::Purpose;

    #[test]
    fn what_others_stored_after_it_was_planned_is_a_duplicate() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let (inner, volume) = (&pool.inner, &volume.state);
        let (old, new) = (vec![7; 4096], vec![8; 4096]);
        let write = |lba, data| ChunkWrite { lba: Lba::new(lba), data, expected: None };
        let first = [write(0, &old)];
        let second = [write(1, &new), write(2, &new), write(3, &old)];
        // Both are planned before either is stored.
        let planned = [&first[..], &second[..]].map(|writes| {
            let mut scratch = inner.take_scratch();
            (writes, inner.plan(writes, Sharing::Wanted, &mut scratch), scratch)
        });
        for (writes, batch, mut scratch) in planned {
            let records = NewRecords::Written(batch.drafts.len(), scratch.records.len());
            let needs = Needs::of_commit(3, writes.len(), Purpose::Data, records);
            let mut engine = inner.engine_with(&needs).unwrap();
            // Left of what was looked up before.
            scratch.hashes.push(7);
            let [used, entries] = [engine.space.journal_used(), engine.entries.len_bytes() as u64];
            let done = inner.commit(&mut engine, volume, writes, &batch, &mut scratch).unwrap();
            assert!(done.conflicts.is_empty());
            let more = engine.entries.len_bytes() as u64 - entries;
            assert_eq!(engine.space.journal_used(), used + more, "it has room in the journal");
        }
        let status = pool.status().unwrap();
        let done = status.activity;
        assert_eq!((done.written, done.stored, done.duplicate), (4, 2, 2));
        assert_eq!(status.chunks, 2);
    }

    #[test]
    fn a_commit_that_was_planned_before_a_failure_or_a_deletion_changes_nothing() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let (inner, state) = (&pool.inner, &volume.state);
        let data = vec![7; 4096];
        let writes = [ChunkWrite { lba: Lba::new(0), data: &data, expected: None }];
        let commit = || {
            let mut scratch = inner.take_scratch();
            let batch = inner.plan(&writes, Sharing::Wanted, &mut scratch);
            let mut engine = inner.engine();
            let done = inner.commit(&mut engine, state, &writes, &batch, &mut scratch);
            (done.map(drop), engine.generation, engine.table.len(), engine.entries.len_bytes())
        };
        let before = {
            let engine = inner.engine();
            (engine.generation, engine.table.len(), engine.entries.len_bytes())
        };
        state.deleting.store(true, Ordering::Release);
        let (done, generation, containers, entries) = commit();
        assert!(matches!(done, Err(PoolError::VolumeDeleted)));
        assert_eq!((generation, containers, entries), before);
        state.deleting.store(false, Ordering::Release);
        inner.poison.set("a test".to_owned()).unwrap();
        let (done, generation, containers, entries) = commit();
        assert!(matches!(done, Err(PoolError::Poisoned(_))));
        assert_eq!((generation, containers, entries), before);
    }

    #[test]
    fn what_comes_after_a_block_that_another_wrote_meanwhile_is_written_all_the_same() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let inner = &pool.inner;
        let bytes: Vec<Vec<u8>> = [7, 8, 0].into_iter().map(|byte| vec![byte; 4096]).collect();
        let write = |lba: usize, expected| ChunkWrite {
            lba: Lba::new(lba as u64),
            data: &bytes[lba],
            expected,
        };
        // A hole is there, and the first and the third write were made for something else.
        let writes = [write(0, Some(MapEntry::Lost)), write(1, None), write(2, None)];
        let mut scratch = inner.take_scratch();
        let batch = inner.plan(&writes, Sharing::Wanted, &mut scratch);
        let records = NewRecords::Written(batch.drafts.len(), scratch.records.len());
        let needs = Needs::of_commit(3, writes.len(), Purpose::Data, records);
        let mut engine = inner.engine_with(&needs).unwrap();
        let done = inner.commit(&mut engine, &volume.state, &writes, &batch, &mut scratch).unwrap();
        drop(engine);
        assert_eq!(done.conflicts.len(), 1);
        let mut entries = Vec::new();
        inner.map.entries(volume.state.number, Lba::new(0), 3, &mut entries).unwrap();
        assert!(entries[0] == MapEntry::Hole && entries[1].pba().is_some(), "{entries:?}");
        assert_eq!(entries[2], MapEntry::Hole);
        assert_eq!(pool.activity().zero, 1, "of zeroes nothing is stored");
    }
}
