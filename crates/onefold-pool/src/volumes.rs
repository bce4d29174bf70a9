//! Making, finding, renaming, resizing and deleting volumes.
//! Room: onefold-pool.
//! Invariant: what these report as done is durable.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use onefold_block::{ByteSize, Lba};

use crate::engine::{Engine, Inner, VolumeState};
use crate::error::PoolError;
use crate::format::superblock::{KIND_VOLUME, RawPageRef, VolumeRecord};
use crate::map::{NO_SNAPSHOT, Root, VOLUME_NUMBER_MAX, height_for};
use crate::open::volume_state;
use crate::pba::{MapEntry, RAW_HOLE};
use crate::pool::Pool;
use crate::provide::Needs;
use crate::snapshots::SNAPSHOT_MARK;
use crate::volume::Volume;

/// Most blocks of a volume: what five levels of the map hold.
pub(crate) const BLOCKS_MAX: u64 = 1 << 45;
/// Largest volume of a pool with 4 KiB chunks, in bytes: 128 PiB. NBD sizes end at 8 EiB.
pub const VOLUME_BYTES_MAX_AT_4K: u64 = BLOCKS_MAX * 4096;
/// Names of volumes that are told to who asks for one that is not there.
const NAMES_TOLD: usize = 50;
/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 255;

impl Inner {
    /// All volumes that are not being deleted, in the order in which they were made.
    pub fn visible_volumes(&self) -> Vec<Arc<VolumeState>> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let visible = |volume: &&Arc<VolumeState>| {
            !volume.is_snapshot && !volume.deleting.load(Ordering::Acquire)
        };
        volumes.values().filter(visible).cloned().collect()
    }

    /// The volume with this number, deleted or not.
    pub fn volume_by_number(&self, number: u32) -> Option<Arc<VolumeState>> {
        self.volumes.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub fn volume_by_name(&self, name: &str) -> Result<Arc<VolumeState>, PoolError> {
        if name.contains(SNAPSHOT_MARK) {
            return self.snapshot_by_name(name);
        }
        let found = {
            let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            // There may be many: nothing is copied to find one.
            let is_it =
                |v: &&Arc<VolumeState>| !v.is_snapshot && !v.is_deleting() && v.is_named(name);
            volumes.values().find(is_it).cloned()
        };
        found.ok_or_else(|| {
            let known = self.visible_volumes();
            let mut names: Vec<String> =
                known.iter().take(NAMES_TOLD).map(|volume| volume.name()).collect();
            if known.len() > NAMES_TOLD {
                names.push(format!("and {} more", known.len() - NAMES_TOLD));
            }
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            PoolError::NoVolume { name: name.to_owned(), known }
        })
    }

    /// The volume of this name, to be changed.
    pub fn writable_by_name(&self, name: &str) -> Result<Arc<VolumeState>, PoolError> {
        let found = self.volume_by_name(name)?;
        if found.is_snapshot { Err(PoolError::IsSnapshot(name.to_owned())) } else { Ok(found) }
    }

    /// Go on with deletions that a stop interrupted. For want of space they wait for the next
    /// opening: nobody else's data is to be out of reach for that.
    pub fn finish_deletions(&self) -> Result<(), PoolError> {
        let all: Vec<_> = {
            let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            volumes.values().cloned().collect()
        };
        // What has snapshots in its past gives its pages up step by step, like they.
        let at_once = |volume: &&Arc<VolumeState>| {
            volume.deleting.load(Ordering::Acquire) && !volume.is_dropped_in_steps()
        };
        for volume in all.iter().filter(at_once) {
            match self.delete_blocks(volume) {
                Err(error) if error.is_no_space() => tracing::warn!(
                    "the space of deleted volume '{}' cannot be given back yet: {error}",
                    volume.name()
                ),
                done => done?,
            }
        }
        Ok(())
    }

    /// Give up all blocks of a volume, and then the volume.
    fn delete_blocks(&self, volume: &VolumeState) -> Result<(), PoolError> {
        let blocks = volume.blocks(self.chunk_bytes());
        self.fill_blocks(volume, Lba::new(0), blocks, MapEntry::Hole)?;
        // This checkpoint takes its map pages away, the next one its record.
        self.checkpoint()?;
        {
            // No checkpoint is being written meanwhile: it may have pages of this volume.
            let _flusher = self.flusher();
            let _engine = self.engine();
            self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&volume.number);
            self.map.remove(volume.number);
        }
        self.checkpoint()
    }

    /// What was made and could not be made durable is not there: whatever were written to it would
    /// be lost with the power, flushed or not. If somebody did by now, or another checkpoint has
    /// it, it goes as what is deleted does.
    pub fn give_up_new(&self, made: &VolumeState) {
        made.deleting.store(true, Ordering::Release);
        // No checkpoint is being written meanwhile, and nobody adds to it after this.
        let _flusher = self.flusher();
        let mut engine = self.engine();
        engine.generation += 1;
        if !self.map.has_own_pages(made.number) {
            engine.space.note_gone(made.note().len());
            self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&made.number);
            self.map.forget(made.number);
        }
    }

    fn check_size(&self, size: ByteSize) -> Result<u64, PoolError> {
        let blocks = size.bytes().div_ceil(self.chunk_bytes() as u64);
        if size.bytes() == 0 {
            let reason = "it must have at least one byte".to_owned();
            return Err(PoolError::VolumeSize { size, reason });
        }
        let most = (BLOCKS_MAX * self.chunk_bytes() as u64).min(i64::MAX as u64);
        if size.bytes() > most {
            let reason = format!("at most {} is possible", ByteSize(most));
            return Err(PoolError::VolumeSize { size, reason });
        }
        Ok(blocks)
    }
}

/// Refuse what cannot be the name of a volume.
pub fn check_volume_name(name: &str) -> Result<(), PoolError> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    if starts_well && name.len() <= NAME_BYTES_MAX && name.chars().all(fine) {
        Ok(())
    } else {
        Err(PoolError::VolumeName(name.to_owned()))
    }
}

impl Pool {
    /// Make a thin volume whose time of creation nobody tells.
    pub fn create_volume(&self, name: &str, size: ByteSize) -> Result<Volume, PoolError> {
        self.create_volume_at(name, size, 0)
    }

    /// Make a thin volume, `created_seconds` after the beginning of 1970.
    pub fn create_volume_at(
        &self,
        name: &str,
        size: ByteSize,
        created_seconds: u64,
    ) -> Result<Volume, PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        check_volume_name(name)?;
        let blocks = inner.check_size(size)?;
        // Space for one volume more.
        drop(inner.engine_with(&Needs::of_fill(0, 0))?);
        let state = {
            // This lock holds the next checkpoint back until the volume is there.
            let flusher = inner.flusher();
            let birth = flusher.sequence + 1;
            let mut engine = inner.engine();
            let mut volumes = inner.volumes.write().unwrap_or_else(PoisonError::into_inner);
            if volumes.values().any(|v| v.is_named(name) && !v.is_deleting()) {
                return Err(PoolError::VolumeExists(name.to_owned()));
            }
            if engine.next_volume > VOLUME_NUMBER_MAX {
                let most = format!("a pool can have {VOLUME_NUMBER_MAX} volumes in its life");
                return Err(PoolError::Setting(most));
            }
            engine.space.supers(volumes.len() + 1)?;
            let record = VolumeRecord {
                number: engine.next_volume,
                name: name.to_owned(),
                size_bytes: size.bytes(),
                height: height_for(blocks),
                root: RawPageRef::from(RAW_HOLE),
                mapped_chunks: 0,
                deleting: false,
                kind: KIND_VOLUME,
                origin: 0,
                birth,
                created_seconds,
                parent: 0,
                held: false,
                dropped: 0,
                identity: 0,
                note: Vec::new(),
            };
            let root = Root { height: record.height, reference: record.root };
            inner.map.add(record.number, root, blocks, NO_SNAPSHOT)?;
            engine.next_volume += 1;
            engine.generation += 1;
            let state = volume_state(&record);
            volumes.insert(record.number, Arc::clone(&state));
            state
        };
        inner.checkpoint().inspect_err(|_| inner.give_up_new(&state))?;
        Ok(Volume { inner: Arc::clone(inner), state })
    }

    /// The volume of this name.
    pub fn volume(&self, name: &str) -> Result<Volume, PoolError> {
        let state = self.inner.volume_by_name(name)?;
        Ok(Volume { inner: Arc::clone(&self.inner), state })
    }

    /// The volume or snapshot with a number, whatever it is called by now; none once it is deleted.
    pub fn volume_of_number(&self, number: u32) -> Option<Volume> {
        let state = self.inner.volume_by_number(number).filter(|state| !state.is_deleting())?;
        Some(Volume { inner: Arc::clone(&self.inner), state })
    }

    /// All volumes, in the order in which they were made.
    pub fn volumes(&self) -> Vec<Volume> {
        let handle = |state| Volume { inner: Arc::clone(&self.inner), state };
        self.inner.visible_volumes().into_iter().map(handle).collect()
    }

    /// Give a volume another name. Handles of it stay what they are; clients that come by name find
    /// it under the new one only.
    pub fn rename_volume(&self, name: &str, to: &str) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        check_volume_name(to)?;
        let _lineage = inner.lock_lineage();
        let volume = inner.writable_by_name(name)?;
        let mut snapshots = inner.all_volumes();
        snapshots.retain(|s| s.is_snapshot_of(volume.number));
        let set = |name: &str| {
            let put = |of: &VolumeState, name: &str| {
                name.clone_into(&mut of.name.write().unwrap_or_else(PoisonError::into_inner));
            };
            put(&volume, name);
            for snapshot in &snapshots {
                if let Some((_, own)) = snapshot.name().split_once(SNAPSHOT_MARK) {
                    put(snapshot, &format!("{name}{SNAPSHOT_MARK}{own}"));
                }
            }
        };
        let rename = &mut |engine: &mut Engine| {
            let volumes = inner.volumes.read().unwrap_or_else(PoisonError::into_inner);
            if volumes.values().any(|v| v.name() == to && !v.deleting.load(Ordering::Acquire)) {
                return Err(PoolError::VolumeExists(to.to_owned()));
            }
            engine.space.supers(volumes.len())?;
            set(to);
            Ok(())
        };
        inner.checkpoint_or_undo(rename, || set(name))
    }

    /// Change a volume's size. A shrink that would lose stored data is refused unless `discard`.
    pub fn resize_volume(
        &self,
        name: &str,
        size: ByteSize,
        discard: bool,
    ) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let volume = inner.writable_by_name(name)?;
        let blocks = inner.check_size(size)?;
        let _properties = inner.lock_properties();
        let before = volume.size_bytes();
        if size.bytes() < before && !discard {
            inner.refuse_loss(&volume, size, before)?;
        }
        // What is written past the end that a durable checkpoint has would be lost with the power,
        // flushed or not: a volume has grown once that is there, and not before.
        let done = inner.resize(&volume, (before, size), discard, blocks);
        volume.set_size_bytes(if done.is_ok() { size.bytes() } else { before });
        done
    }

    /// Delete a volume and give up what only it referred to. A crash in between is caught up
    /// with at the next opening.
    pub fn delete_volume(&self, name: &str) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        if name.contains(SNAPSHOT_MARK) {
            return self.delete_snapshot(name);
        }
        let lineage = inner.lock_lineage();
        let volume = inner.volume_by_name(name)?;
        let snapshots = self.snapshots(Some(name))?;
        if let Some(first) = snapshots.first() {
            let (count, first) = (snapshots.len(), first.name.clone());
            return Err(PoolError::HasSnapshots { name: name.to_owned(), count, first });
        }
        let set = |deleting| volume.deleting.store(deleting, Ordering::Release);
        inner.checkpoint_or_undo(
            &mut |_| {
                set(true);
                Ok(())
            },
            || set(false),
        )?;
        if volume.is_dropped_in_steps() {
            return Ok(());
        }
        drop(lineage);
        inner.delete_blocks(&volume).map_err(|error| match error {
            PoolError::NoSpace(what) => PoolError::NoSpace(format!(
                "{what}; volume '{name}' is deleted, and its space comes back when the pool is \
                 next opened with room"
            )),
            error => error,
        })
    }
}

mod resize;
#[cfg(test)]
mod tests;
