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
use crate::format::superblock::{KIND_VOLUME, Superblock, ToFree, VolumeRecord};
use crate::journal::Witness;
use crate::map;
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
}

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
        // Most of what is to be flushed, so that little is left for after the freeze.
        self.flush_locked(&mut flusher)?;
        let (rest, mut frozen) = {
            let mut engine = self.engine();
            self.check_writable()?;
            let rest = self.take(&mut engine, &mut flusher);
            if let Some(kept) = self.kept.get() {
                kept.changes().freeze(flusher.sequence + 1);
            }
            (rest, self.freeze(&mut engine, &flusher))
        };
        sync::point("frozen");
        let written = match self.make_durable(&mut flusher, &rest) {
            Ok(()) => self.write_checkpoint(&mut flusher, &mut frozen),
            Err(error) => {
                rest.put_back(&mut self.engine());
                Err(error)
            }
        };
        let references = frozen.table.references();
        let dead = self.conclude_checkpoint(&flusher, frozen, written.is_ok());
        written?;
        // Before what is dead goes, so that nothing is told of what is gone.
        self.store.tell_references(&references);
        let removed = dead.iter().try_for_each(|&id| {
            self.directories.remove(id);
            self.store.remove(id)
        });
        self.engine().leaving = 0;
        removed.map_err(|error| self.poison_unless_no_space(error.into()))
    }

    /// Everything that the next checkpoint holds, as it is now. Costs as much as changed since the
    /// last one.
    fn freeze(&self, engine: &mut Engine, flusher: &Flusher) -> Frozen {
        let dead = engine.table.take_dead();
        engine.leaving = dead.len();
        engine.freezes += 1;
        let superblock = self.superblock(flusher.sequence + 1, engine);
        Frozen {
            map: self.map.freeze(superblock.sequence),
            table: engine.table.freeze(engine.next_container),
            superblock,
            dead,
        }
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
            let root = frozen.map.root(volume.number).ok_or(PoolError::VolumeDeleted)?;
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
        media.write(0, &bytes)?;
        media.sync()?;
        flusher.sequence = sequence;
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
            self.map.thaw(&frozen.map);
            engine.table.thaw(&frozen.table);
            engine.table.put_back(frozen.dead);
            engine.leaving = 0;
            return Vec::new();
        }
        let since = engine.entries.len_bytes() as u64;
        engine.space.journal_restarted();
        engine.space.journal_took(since);
        self.map.checkpoint_is_durable();
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
            size_bytes: volume.size_bytes(),
            height: 0,
            root: 0,
            mapped_chunks: volume.mapped_chunks.load(Ordering::Relaxed),
            deleting: volume.deleting.load(Ordering::Relaxed),
            kind: KIND_VOLUME,
            origin: volume.origin,
            birth: volume.birth,
            created_seconds: volume.created_seconds,
            to_free: ToFree::default(),
        };
        Superblock {
            sequence,
            identity: self.identity,
            features: self.features,
            settings: self.settings,
            next_container: engine.next_container,
            next_volume: engine.next_volume,
            volumes: volumes.values().map(record).collect(),
            table: 0,
            slots: 0,
            slot_pages: 0,
        }
    }
}
