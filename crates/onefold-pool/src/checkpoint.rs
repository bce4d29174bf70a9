//! Checkpoints, which stop nobody who writes or reads.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 3, "Checkpoint".
//! Invariants: (1) what a checkpoint holds is frozen under the engine's lock, at one moment; it is
//! written without that lock, under the flusher's alone, so that flushes wait for it and others do
//! not; (2) what is committed meanwhile follows the new checkpoint: it is in no frame of the old
//! journal; (3) nothing that a durable checkpoint or frame refers to is overwritten or removed; a
//! container that goes is off the table from the freeze on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use onefold_block::ContainerId;

use crate::container::table::{ContainerInfo, FrozenTable};
use crate::counters::count;
use crate::engine::{Engine, Flusher, Inner, VolumeState};
use crate::error::PoolError;
use crate::format;
use crate::format::superblock::{
    KIND_SNAPSHOT, KIND_VOLUME, NOTES, SEALED_IN_JOURNAL, SNAPSHOTS, Superblock, VolumeRecord,
};
use crate::journal::Witness;
use crate::map::{self, Share};
use crate::open::SUPER_FILES;
use crate::sync;

/// The state of the pool at the moment of a checkpoint, as far as it is not durable yet.
struct Frozen {
    map: map::Frozen,
    table: FrozenTable,
    /// Without the roots of maps, table and bitmap, which are not known before these are written.
    superblock: Superblock,
    /// Containers that go.
    dead: Vec<(ContainerId, ContainerInfo)>,
    /// Volumes and snapshots that go.
    gone: Vec<u32>,
    /// A snapshot that is made with this checkpoint.
    snapshot: Option<(Taken, Share)>,
}

/// A snapshot that is made with a checkpoint: its number and its volume's.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub snapshot: u32,
    pub volume: u32,
}

/// What is done to the pool at the moment that a checkpoint holds, under the engine's lock; it may
/// make a snapshot. Hears the number of that checkpoint.
pub(crate) type Change<'a> =
    &'a mut dyn FnMut(&mut Engine, u64) -> Result<Option<Taken>, PoolError>;

impl Inner {
    /// Write a checkpoint; what it makes superfluous is given back.
    pub fn checkpoint(&self) -> Result<(), PoolError> {
        self.checkpoint_if(|_| true)
    }

    /// Tell the store how often each container is referred to.
    pub fn tell_references(&self) {
        let all = {
            let engine = self.engine();
            let all = engine.table.iter();
            let total = |references| u32::try_from(references).unwrap_or(u32::MAX);
            all.map(|(id, info)| (id, total(info.references))).collect::<Vec<_>>()
        };
        self.store.tell_references(&all);
    }

    /// Write a checkpoint if there is a reason once no other is being written.
    pub fn checkpoint_if(&self, wanted: impl Fn(&Flusher) -> bool) -> Result<(), PoolError> {
        self.check_writable()?;
        let mut flusher = self.flusher();
        if !wanted(&flusher) {
            return Ok(());
        }
        self.checkpoint_locked(&mut flusher, &mut |_, _| Ok(None))
    }

    /// Write a checkpoint that has `change`. If it fails the change is undone before another is
    /// written: what failed is in none, so that a power cut does not bring it.
    pub fn checkpoint_or_undo(
        &self,
        change: &mut dyn FnMut(&mut Engine) -> Result<(), PoolError>,
        undo: impl FnOnce(),
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let mut flusher = self.flusher();
        let done = self.checkpoint_locked(&mut flusher, &mut |engine, _| {
            change(engine)?;
            engine.generation += 1;
            Ok(None)
        });
        done.inspect_err(|_| undo())
    }

    /// The same with the flusher's lock held, and `change` done first.
    pub fn checkpoint_locked(
        &self,
        flusher: &mut Flusher,
        change: Change<'_>,
    ) -> Result<(), PoolError> {
        format::check_sequence(flusher.sequence + 1)?;
        // Most of what is to be flushed, so that little is left for after the freeze.
        self.flush_locked(flusher)?;
        let (rest, mut frozen) = {
            let mut engine = self.engine();
            self.check_writable()?;
            let snapshot = change(&mut engine, flusher.sequence + 1)?;
            let rest = self.take(&mut engine, flusher);
            if let Some(kept) = self.kept.get() {
                kept.changes().freeze(flusher.sequence + 1);
            }
            (rest, self.freeze(&mut engine, flusher, snapshot))
        };
        sync::point("frozen");
        let written = match self.make_durable(flusher, &rest) {
            Ok(()) => self.write_checkpoint(flusher, &mut frozen),
            Err(error) => {
                rest.put_back(&mut self.engine());
                Err(error)
            }
        };
        let references = frozen.table.references();
        let dead = self.conclude_checkpoint(flusher, frozen, written.is_ok());
        written?;
        // Before what is dead goes, so that nothing is told of what is gone.
        self.store.tell_references(&references);
        let dead = self.keep_if_held(dead);
        let removed = self.remove_dead(&dead);
        self.engine().leaving = 0;
        match removed {
            // The checkpoint is durable, and what it does not know goes when the pool is opened.
            Err(error) if error.is_no_space() => {
                tracing::warn!("containers that are dead cannot be removed yet: {error}");
                Ok(())
            }
            removed => removed.map_err(|error| self.poison_unless_no_space(error)),
        }
    }

    /// Remove containers that nothing durable refers to.
    pub fn remove_dead(&self, dead: &[ContainerId]) -> Result<(), PoolError> {
        dead.iter().try_for_each(|&id| {
            self.directories.remove(id);
            Ok(self.store.remove(id)?)
        })
    }

    /// Everything that the next checkpoint holds, as it is now. Costs as much as changed since the
    /// last one.
    fn freeze(&self, engine: &mut Engine, flusher: &Flusher, snapshot: Option<Taken>) -> Frozen {
        let dead = engine.table.take_dead();
        engine.leaving = dead.len();
        engine.freezes += 1;
        let superblock = self.superblock(flusher.sequence + 1, engine);
        let gone = {
            let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            let gone = |volume: &&Arc<VolumeState>| volume.gone.load(Ordering::Acquire);
            volumes.values().filter(gone).map(|volume| volume.number).collect()
        };
        let map = self.map.freeze(superblock.sequence);
        // From now on pages of the volume are the snapshot's, too.
        let snapshot = snapshot.and_then(|taken| {
            Some((taken, self.map.share_with(taken.volume, superblock.sequence).ok()?))
        });
        let table = engine.table.freeze(engine.next_container);
        Frozen { map, table, superblock, dead, gone, snapshot }
    }

    /// With everything frozen flushed: map, checkpoint file, journal.
    fn write_checkpoint(
        &self,
        flusher: &mut Flusher,
        frozen: &mut Frozen,
    ) -> Result<(), PoolError> {
        self.write_steps(flusher, frozen).map_err(|error| self.poison_unless_no_space(error))
    }

    fn write_steps(&self, flusher: &mut Flusher, frozen: &mut Frozen) -> Result<(), PoolError> {
        self.map.write_out(&mut frozen.map)?;
        for volume in &mut frozen.superblock.volumes {
            let snapshot = frozen.snapshot.filter(|(taken, _)| taken.snapshot == volume.number);
            let number = snapshot.map_or(volume.number, |(taken, _)| taken.volume);
            let root = frozen.map.root(number).ok_or(PoolError::VolumeDeleted)?;
            (volume.height, volume.root) = (root.height, root.reference);
        }
        let sequence = frozen.superblock.sequence;
        let table = frozen.table.write(&mut flusher.table, &self.map, sequence)?;
        frozen.superblock.table = table.raw();
        // Last, as it tells of all the others.
        frozen.superblock.slots = flusher.slots.write(&self.map, sequence)?.raw();
        frozen.superblock.slot_pages = flusher.slots.pages();
        self.map.sync()?;
        flusher.journal.expect_checkpoint()?;
        let media = &self.files.supers[sequence as usize % 2];
        let bytes = frozen.superblock.encode();
        if let Some(kept) = self.kept.get() {
            kept.changes().writing(sequence, Superblock::checksum_in(&bytes));
        }
        media.write(0, &bytes).inspect_err(|_| self.doubt_checkpoint(sequence))?;
        media.sync()?;
        flusher.sequence = sequence;
        flusher.tells_sealed = true;
        let witness = Witness::new(Arc::clone(media), bytes.len() as u64);
        // It counts from here on, and does not know the containers that go: to go on with them, as
        // after a checkpoint that could not be written, is possible no more. A file system that
        // copies on write may lack space even for what is written over.
        flusher.journal.restart(sequence, witness).inspect_err(|error| {
            if self.poison.set(error.to_string()).is_ok() {
                tracing::error!("no more writes until the pool is reopened: {error}");
            }
        })
    }

    /// A checkpoint could not be written. What was stored of it may be all in which it differs from
    /// what was there: then it counts, and to go on with the one before it is possible no more.
    fn doubt_checkpoint(&self, sequence: u64) {
        let at = sequence as usize % 2;
        let counts = match Superblock::read(&*self.files.supers[at], SUPER_FILES[at]) {
            Ok(found) => found.is_some_and(|found| found.sequence == sequence),
            Err(error) => matches!(error, PoolError::Media(_)),
        };
        if counts && self.poison.set("a checkpoint was written in part".to_owned()).is_ok() {
            tracing::error!("no more writes until the pool is reopened: a checkpoint may count");
        }
    }

    /// Write the newest checkpoint over itself, as it can be read. If its sync failed, it may be
    /// lost with the power however often it is synced after that; and the journal of the one before
    /// must stay until this one is durable.
    pub fn affirm_checkpoint(&self, sequence: u64) -> Result<(), PoolError> {
        let at = sequence as usize % 2;
        let media = &self.files.supers[at];
        if let Some(newest) = Superblock::read(&**media, SUPER_FILES[at])? {
            let mut bytes = vec![0; newest.len_bytes()];
            media.read(0, &mut bytes)?;
            media.write(0, &bytes)?;
            media.sync()?;
        }
        Ok(())
    }

    /// Go on after a checkpoint was written, or could not be. Returns the containers that may be
    /// removed now.
    fn conclude_checkpoint(
        &self,
        flusher: &Flusher,
        frozen: Frozen,
        written: bool,
    ) -> Vec<ContainerId> {
        let mut engine = self.engine();
        if let Some(kept) = self.kept.get() {
            kept.changes().thaw(flusher.sequence);
        }
        engine.epoch = flusher.sequence;
        if !written {
            if let Some(snapshot) = frozen.snapshot {
                self.give_up_sharing(snapshot);
            }
            self.map.thaw(&frozen.map);
            engine.table.thaw(&frozen.table);
            engine.table.put_back(frozen.dead);
            engine.leaving = 0;
            return Vec::new();
        }
        let since = engine.entries.len_bytes() as u64;
        engine.space.journal_restarted(since);
        self.map.checkpoint_is_durable();
        if let Some(snapshot) = frozen.snapshot {
            self.know_snapshot(snapshot, frozen.map.root(snapshot.0.volume));
        }
        for number in frozen.gone {
            self.map.forget(number);
            self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
        self.checkpoint_sequence.store(flusher.sequence, Ordering::Release);
        count(&self.counters.checkpoints, 1);
        frozen.dead.into_iter().map(|(id, _)| id).collect()
    }

    /// A checkpoint of the state as it is in memory, but for the roots of maps and table.
    pub fn superblock(&self, sequence: u64, engine: &Engine) -> Superblock {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let record = |volume: &Arc<VolumeState>| VolumeRecord {
            number: volume.number,
            name: volume.name(),
            size_bytes: volume.next_size_bytes.load(Ordering::Acquire),
            height: 0,
            root: 0,
            mapped_chunks: volume.mapped_chunks.load(Ordering::Relaxed),
            deleting: volume.deleting.load(Ordering::Relaxed),
            kind: if volume.is_snapshot { KIND_SNAPSHOT } else { KIND_VOLUME },
            origin: volume.origin.load(Ordering::Relaxed),
            birth: volume.birth,
            created_seconds: volume.created_seconds,
            parent: volume.parent.load(Ordering::Relaxed),
            held: volume.held.load(Ordering::Relaxed),
            dropped: volume.dropped.load(Ordering::Relaxed),
            identity: volume.identity,
            note: volume.note().to_vec(),
        };
        let there = |volume: &&Arc<VolumeState>| !volume.gone.load(Ordering::Relaxed);
        let volumes: Vec<VolumeRecord> = volumes.values().filter(there).map(record).collect();
        let mut features = self.features;
        features.must_refuse &= !(SNAPSHOTS | NOTES);
        features.must_refuse |= SEALED_IN_JOURNAL;
        if volumes.iter().any(VolumeRecord::is_of_snapshots) {
            features.must_refuse |= SNAPSHOTS;
        }
        if volumes.iter().any(|volume| !volume.note.is_empty()) {
            features.must_refuse |= NOTES;
        }
        Superblock {
            sequence,
            identity: self.identity,
            features,
            settings: self.settings,
            next_container: engine.next_container,
            next_volume: engine.next_volume,
            volumes,
            table: 0,
            slots: 0,
            slot_pages: 0,
            unseen: engine.table.unseen_for_good(),
        }
    }
}

#[cfg(test)]
mod tests;
