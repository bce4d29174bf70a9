//! Snapshots and what is made from them: taking, finding, holding, cloning, rolling back, deleting.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 2, "Snapshots".
//! Invariants: (1) a snapshot is its volume at the moment that a checkpoint holds, and is there
//! from that checkpoint on; (2) whoever has a snapshot's pages names it as its parent, or a
//! snapshot that does; (3) a snapshot is deleted only where at most one other was made from it,
//! which gets what it still has of its pages; (4) what these report as done is durable.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use onefold_block::ByteSize;

use crate::checkpoint::Taken;
use crate::commit::Tally;
use crate::counters::count;
use crate::engine::{Engine, Flusher, Inner, VolumeState};
use crate::error::PoolError;
use crate::format::superblock::{KIND_SNAPSHOT, KIND_VOLUME, VolumeRecord};
use crate::map::{NO_SNAPSHOT, Root, Share, VOLUME_NUMBER_MAX};
use crate::open::volume_state;
use crate::pool::Pool;
use crate::sync;
use crate::volume::Volume;
use crate::volumes::check_volume_name;

/// Between the name of a volume and that of its snapshot.
pub const SNAPSHOT_MARK: char = '@';
/// Longest name of a snapshot, after the mark, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A snapshot, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Volume and snapshot: `main@monday`.
    pub name: String,
    /// When it was made, in seconds since the beginning of 1970, as its maker said; 0 if nobody
    /// did.
    pub created_seconds: u64,
    /// The size of the volume then, in bytes.
    pub size_bytes: u64,
    /// Bytes of blocks with stored data.
    pub mapped_bytes: u64,
    /// It is not to be deleted before it is released.
    pub held: bool,
    /// Volumes and snapshots that were made from it.
    pub needed_by: Vec<String>,
    /// What it and every copy of it in other pools is known by; never 0.
    pub identity: u64,
}

/// How a snapshot is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotOptions {
    /// Seconds since the beginning of 1970; 0 if nobody tells.
    pub created_seconds: u64,
    /// It is not to be deleted before it is released.
    pub held: bool,
    /// What it is known by in every pool that gets a copy of it: a random number, or, of such a
    /// copy, that of what it is a copy of. 0: it is told apart within this pool alone, and from
    /// those of a copy of this pool's folder it is not.
    pub identity: u64,
}

/// Split `main@monday`, and refuse what names no snapshot. A name that is `g` and a number is what
/// a server calls a generation of its exports.
pub fn split_snapshot_name(name: &str) -> Result<(&str, &str), PoolError> {
    let refused = || PoolError::SnapshotName(name.to_owned());
    let (volume, snapshot) = name.split_once(SNAPSHOT_MARK).ok_or_else(refused)?;
    let generation = snapshot
        .strip_prefix('g')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    if generation || snapshot.len() > NAME_BYTES_MAX || check_volume_name(snapshot).is_err() {
        return Err(refused());
    }
    check_volume_name(volume)?;
    Ok((volume, snapshot))
}

impl VolumeState {
    /// Whether its pages are given up step by step when it is deleted, as some may be a snapshot's.
    pub fn is_dropped_in_steps(&self) -> bool {
        self.is_snapshot || self.parent.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deleting.load(Ordering::Acquire)
    }

    /// The number of the volume or snapshot that it was made from; 0 if none.
    pub fn origin(&self) -> u32 {
        self.origin.load(Ordering::Acquire)
    }

    /// Whether it is a snapshot of the volume of this number.
    pub fn is_snapshot_of(&self, volume: u32) -> bool {
        self.is_snapshot && self.origin() == volume
    }
}

impl Inner {
    /// Nobody else makes or deletes snapshots or clones meanwhile.
    pub fn lock_lineage(&self) -> MutexGuard<'_, ()> {
        self.lineage_wanted.fetch_add(1, Ordering::AcqRel);
        sync::point("lineage");
        let held = sync::lock(&self.lineage);
        self.lineage_wanted.fetch_sub(1, Ordering::AcqRel);
        held
    }

    /// How often pages came to be another volume's or snapshot's own since the pool was opened.
    pub fn lineage_changes(&self) -> u64 {
        self.counters.lineage_changes.load(Ordering::Acquire)
    }

    /// All volumes and snapshots, those that are being deleted among them.
    pub fn all_volumes(&self) -> Vec<Arc<VolumeState>> {
        self.volumes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The snapshot of this name.
    pub fn snapshot_by_name(&self, name: &str) -> Result<Arc<VolumeState>, PoolError> {
        {
            let all = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            let mut snapshots = all.values().filter(|s| s.is_snapshot && !s.is_deleting());
            if let Some(found) = snapshots.find(|snapshot| snapshot.is_named(name)) {
                return Ok(Arc::clone(found));
            }
        }
        let volume = name.split_once(SNAPSHOT_MARK).map_or(name, |(volume, _)| volume).to_owned();
        Err(PoolError::NoSnapshot { name: name.to_owned(), volume })
    }

    /// What was made from a snapshot and is not being deleted.
    fn made_from(&self, snapshot: u32) -> Vec<Arc<VolumeState>> {
        let mut all = self.all_volumes();
        all.retain(|v| {
            let from = v.parent.load(Ordering::Acquire) == snapshot;
            let clone = !v.is_snapshot && v.origin() == snapshot;
            (from || clone) && !v.is_deleting()
        });
        all
    }

    /// The record of something new that has the pages of `root`.
    fn new_record(&self, engine: &mut Engine, name: &str) -> Result<u32, PoolError> {
        if engine.next_volume > VOLUME_NUMBER_MAX {
            let most = format!("a pool can have {VOLUME_NUMBER_MAX} volumes in its life");
            return Err(PoolError::Setting(most));
        }
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        if volumes.values().any(|v| !v.is_deleting() && v.is_named(name)) {
            return Err(PoolError::VolumeExists(name.to_owned()));
        }
        engine.space.supers(volumes.len() + 1)?;
        engine.next_volume += 1;
        engine.generation += 1;
        Ok(engine.next_volume - 1)
    }

    fn insert(&self, record: &VolumeRecord) -> Arc<VolumeState> {
        let state = volume_state(record);
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        volumes.insert(record.number, Arc::clone(&state));
        state
    }

    /// Put a snapshot of `volume` into the checkpoint of this number, before that is frozen.
    pub fn take_snapshot(
        &self,
        engine: &mut Engine,
        sequence: u64,
        volume: &VolumeState,
        name: &str,
        options: SnapshotOptions,
    ) -> Result<Taken, PoolError> {
        if volume.is_deleting() {
            return Err(PoolError::VolumeDeleted);
        }
        let number = self.new_record(engine, name)?;
        let root = self.map.root(volume.number)?;
        self.insert(&VolumeRecord {
            number,
            name: name.to_owned(),
            size_bytes: volume.size_bytes(),
            height: root.height,
            root: 0,
            mapped_chunks: volume.mapped_chunks.load(Ordering::Relaxed),
            // What has no name is only there until it is deleted.
            deleting: name.is_empty(),
            kind: KIND_SNAPSHOT,
            origin: volume.number,
            birth: sequence,
            created_seconds: options.created_seconds,
            parent: volume.parent.load(Ordering::Acquire),
            held: options.held,
            dropped: 0,
            identity: options.identity,
            note: Vec::new(),
        });
        volume.parent.store(number, Ordering::Release);
        count(&self.counters.lineage_changes, 1);
        Ok(Taken { snapshot: number, volume: volume.number })
    }

    /// The checkpoint that was to hold a snapshot could not be written. Called before what is
    /// frozen of the map becomes dirty again. `share` is what the volume shared before.
    pub fn give_up_sharing(&self, (taken, share): (Taken, Share)) {
        if self.map.has_changed(taken.volume) {
            // What changed since counts entries of pages that the snapshot was to have.
            let why = "a snapshot could not be made durable while its volume was written to";
            let _ = self.poison.set(why.to_owned());
        }
        let Some(snapshot) = self.volume_by_number(taken.snapshot) else { return };
        if let Some(volume) = self.volume_by_number(taken.volume) {
            let parent = snapshot.parent.load(Ordering::Acquire);
            volume.parent.store(parent, Ordering::Release);
        }
        // The volume cannot have gone meanwhile.
        let _ = self.map.set_share(taken.volume, share);
        self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&taken.snapshot);
        count(&self.counters.lineage_changes, 1);
    }

    /// The checkpoint that holds a snapshot is durable: it shares what the volume did.
    pub fn know_snapshot(&self, (taken, share): (Taken, Share), root: Option<Root>) {
        let Some(snapshot) = self.volume_by_number(taken.snapshot) else { return };
        let blocks = snapshot.blocks(self.chunk_bytes());
        let known = root.ok_or(PoolError::VolumeDeleted).and_then(|root| {
            self.map.add(taken.snapshot, root, blocks, NO_SNAPSHOT)?;
            self.map.set_share(taken.snapshot, share)
        });
        count(&self.counters.lineage_changes, 1);
        if let Err(error) = known {
            tracing::error!("snapshot '{}' cannot be read: {error}", snapshot.name());
        }
    }

    /// Let a volume be what a snapshot is, once all that it had by the last checkpoint is another
    /// snapshot's; nobody wrote one since. `first` may refuse, and change what goes with it.
    pub fn become_snapshot(
        &self,
        flusher: &mut Flusher,
        volume: &VolumeState,
        snapshot: &VolumeState,
        first: &mut dyn FnMut() -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        let mut begun = false;
        let done = self.checkpoint_locked(flusher, &mut |engine, _| {
            first()?;
            begun = true;
            let root = self.map.root(snapshot.number)?;
            let blocks = snapshot.blocks(self.chunk_bytes());
            let mut tally = Tally::default();
            self.map.replace(volume.number, root, (blocks, snapshot.birth), &mut tally)?;
            tally.release(engine, volume)?;
            let mapped = snapshot.mapped_chunks.load(Ordering::Relaxed);
            volume.mapped_chunks.store(mapped, Ordering::Relaxed);
            volume.set_size_bytes(snapshot.size_bytes());
            volume.parent.store(snapshot.number, Ordering::Release);
            count(&self.counters.lineage_changes, 1);
            engine.generation += 1;
            Ok(None)
        });
        done.inspect_err(|error| {
            // The journal goes on from what the volume was, and memory from what it was to be.
            if begun {
                let _ = self.poison.set(format!("a rollback was cut short: {error}"));
            }
        })
    }

    /// The checkpoint that a snapshot was made with; none if there is no such.
    fn birth_of(&self, snapshot: u32) -> u64 {
        self.volume_by_number(snapshot).map_or(NO_SNAPSHOT, |snapshot| snapshot.birth)
    }

    /// After opening: of a snapshot that is being deleted, what came after it has a part already.
    pub fn restore_lineage(&self) -> Result<(), PoolError> {
        for snapshot in self.all_volumes() {
            let dropped = snapshot.dropped.load(Ordering::Acquire);
            if dropped > 0 {
                let older = self.birth_of(snapshot.parent.load(Ordering::Acquire));
                if let Some(heir) = self.heirs(snapshot.number).first() {
                    self.map.set_left_to(heir.number, dropped, older)?;
                }
            }
        }
        Ok(())
    }

    /// Whoever has a snapshot's pages next, those that are being deleted among them.
    pub fn heirs(&self, snapshot: u32) -> Vec<Arc<VolumeState>> {
        let mut all = self.all_volumes();
        all.retain(|v| !v.gone.load(Ordering::Acquire));
        all.retain(|v| v.parent.load(Ordering::Acquire) == snapshot);
        all
    }
}

impl Pool {
    /// Make a snapshot of a volume: `name` is `main@monday`. Nobody who reads or writes waits for
    /// it. `held`: it is not to be deleted before it is released.
    pub fn snapshot(&self, name: &str, created_seconds: u64, held: bool) -> Result<(), PoolError> {
        self.snapshot_as(name, SnapshotOptions { created_seconds, held, identity: 0 })
    }

    /// The same with all that can be said of it.
    pub fn snapshot_as(&self, name: &str, options: SnapshotOptions) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let (volume, _) = split_snapshot_name(name)?;
        let volume = inner.volume_by_name(volume)?;
        let _lineage = inner.lock_lineage();
        let mut flusher = inner.flusher();
        inner.checkpoint_locked(&mut flusher, &mut |engine, sequence| {
            inner.take_snapshot(engine, sequence, &volume, name, options).map(Some)
        })
    }

    /// All snapshots of a volume, or of all volumes, in the order in which they were made.
    pub fn snapshots(&self, volume: Option<&str>) -> Result<Vec<SnapshotInfo>, PoolError> {
        let inner = &self.inner;
        let of = volume.map(|name| inner.volume_by_name(name)).transpose()?;
        let chunk = inner.chunk_bytes() as u64;
        let mut all = inner.all_volumes();
        all.retain(|s| s.is_snapshot && !s.is_deleting());
        all.retain(|s| of.as_ref().is_none_or(|volume| s.is_snapshot_of(volume.number)));
        let info = |snapshot: &Arc<VolumeState>| SnapshotInfo {
            name: snapshot.name(),
            created_seconds: snapshot.created_seconds,
            size_bytes: snapshot.size_bytes(),
            mapped_bytes: snapshot.mapped_bytes(chunk),
            held: snapshot.held.load(Ordering::Acquire),
            needed_by: Vec::new(),
            identity: inner.identity_of(snapshot),
        };
        let mut infos: Vec<SnapshotInfo> = all.iter().map(info).collect();
        let mut clones: HashMap<u32, Vec<String>> = HashMap::new();
        for volume in inner.visible_volumes() {
            clones.entry(volume.origin()).or_default().push(volume.name());
        }
        for (snapshot, info) in all.iter().zip(&mut infos) {
            info.needed_by = clones.remove(&snapshot.number).unwrap_or_default();
        }
        Ok(infos)
    }

    /// Hold a snapshot, so that it is not deleted, or release it.
    pub fn hold_snapshot(&self, name: &str, held: bool) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let _lineage = inner.lock_lineage();
        let snapshot = inner.snapshot_by_name(name)?;
        let before = snapshot.held.load(Ordering::Acquire);
        let set = |held| snapshot.held.store(held, Ordering::Release);
        inner.checkpoint_or_undo(
            &mut |_| {
                set(held);
                Ok(())
            },
            || set(before),
        )
    }

    /// Make a volume that begins as what a snapshot is.
    pub fn clone_snapshot(
        &self,
        name: &str,
        to: &str,
        created_seconds: u64,
    ) -> Result<Volume, PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        check_volume_name(to)?;
        let _lineage = inner.lock_lineage();
        let snapshot = inner.snapshot_by_name(name)?;
        let state = {
            let flusher = inner.flusher();
            let mut engine = inner.engine();
            let note = inner.note_of(&snapshot);
            engine.space.note(note.len());
            let number = inner.new_record(&mut engine, to);
            let number = number.inspect_err(|_| engine.space.note_gone(note.len()))?;
            let root = inner.map.root(snapshot.number)?;
            let blocks = snapshot.blocks(inner.chunk_bytes());
            inner.map.add(number, root, blocks, snapshot.birth)?;
            inner.insert(&VolumeRecord {
                number,
                name: to.to_owned(),
                size_bytes: snapshot.size_bytes(),
                height: root.height,
                root: root.reference,
                mapped_chunks: snapshot.mapped_chunks.load(Ordering::Relaxed),
                deleting: false,
                kind: KIND_VOLUME,
                origin: snapshot.number,
                birth: flusher.sequence + 1,
                created_seconds,
                parent: snapshot.number,
                held: false,
                dropped: 0,
                identity: 0,
                note: note.to_vec(),
            })
        };
        inner.checkpoint().inspect_err(|_| inner.give_up_new(&state))?;
        Ok(Volume { inner: Arc::clone(inner), state })
    }

    /// Let a volume be what its snapshot is. What was written since is given up, but for what other
    /// snapshots have; they stay, newer ones too.
    pub fn rollback(&self, name: &str) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let (volume, _) = split_snapshot_name(name)?;
        let volume = inner.volume_by_name(volume)?;
        let _properties = inner.lock_properties();
        let _lineage = inner.lock_lineage();
        let snapshot = inner.snapshot_by_name(name)?;
        // What the volume is becomes a snapshot without a name, to be deleted. No other checkpoint
        // comes between: after it, all that the volume has is in memory.
        let mut flusher = inner.flusher();
        inner.checkpoint_locked(&mut flusher, &mut |engine, sequence| {
            let unnamed = SnapshotOptions::default();
            inner.take_snapshot(engine, sequence, &volume, "", unnamed).map(Some)
        })?;
        inner.become_snapshot(&mut flusher, &volume, &snapshot, &mut || Ok(()))
    }

    /// Delete a snapshot. What only it has is given up in the background ([`Pool::background`]).
    pub fn delete_snapshot(&self, name: &str) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let _lineage = inner.lock_lineage();
        let snapshot = inner.snapshot_by_name(name)?;
        if snapshot.held.load(Ordering::Acquire) {
            return Err(PoolError::SnapshotHeld(name.to_owned()));
        }
        let made = inner.made_from(snapshot.number);
        let clones = made.iter().filter(|v| v.origin() == snapshot.number).map(|v| v.name());
        let clones: Vec<String> = clones.collect();
        if !clones.is_empty() {
            let (name, by) = (name.to_owned(), clones.join(", "));
            return Err(PoolError::SnapshotNeeded { name, by });
        }
        if made.len() > 1 {
            // A rollback went back past snapshots that are still there.
            let past = made.iter().filter(|v| v.is_snapshot).map(|v| v.name());
            let (name, past) = (name.to_owned(), past.collect::<Vec<_>>().join(", "));
            let volume = split_snapshot_name(&name)?.0.to_owned();
            return Err(PoolError::SnapshotPassed { name, volume, past });
        }
        let set = |deleting| snapshot.deleting.store(deleting, Ordering::Release);
        inner.checkpoint_or_undo(
            &mut |_| {
                set(true);
                Ok(())
            },
            || set(false),
        )
    }

    /// Where two volumes or snapshots differ, or may, as they are now: byte ranges as offset and
    /// length, in order, neighbours joined. `found` says whether to go on.
    pub fn differences(
        &self,
        [a, b]: [&str; 2],
        found: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), PoolError> {
        let inner = &self.inner;
        let [a, b] = [inner.volume_by_name(a)?, inner.volume_by_name(b)?];
        inner.differences([&a, &b], found)
    }

    /// Bytes that are still to be looked at of what is being deleted, at most.
    pub fn deleting_bytes(&self) -> ByteSize {
        let chunk = self.inner.chunk_bytes() as u64;
        let left = |v: &Arc<VolumeState>| {
            v.size_bytes().saturating_sub(v.dropped.load(Ordering::Acquire) * chunk)
        };
        let all = self.inner.all_volumes();
        ByteSize(all.iter().filter(|v| v.is_deleting()).map(left).sum())
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, FaultKind, OpKind, SimFolder, ZeroOptions};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn a_pass_that_began_before_a_snapshot_was_taken_or_was_there_hears_of_it() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let inner = &pool.inner;
        for fails in [true, false] {
            let (before, mut taken) = (inner.lineage_changes(), 0);
            let mut flusher = inner.flusher();
            let done = inner.checkpoint_locked(&mut flusher, &mut |engine, sequence| {
                let options = SnapshotOptions::default();
                let snapshot =
                    inner.take_snapshot(engine, sequence, &volume.state, "main@one", options)?;
                taken = inner.lineage_changes();
                if fails {
                    folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
                }
                Ok(Some(snapshot))
            });
            assert_eq!(done.is_err(), fails);
            assert!(before < taken && taken < inner.lineage_changes(), "fails: {fails}");
        }
    }

    #[test]
    fn a_pass_that_began_before_a_volume_is_what_its_snapshot_was_hears_of_it() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        pool.snapshot("main@one", 0, false).unwrap();
        let inner = &pool.inner;
        let (snapshot, mut before) = (inner.snapshot_by_name("main@one").unwrap(), 0);
        let mut flusher = inner.flusher();
        let first = &mut || {
            before = inner.lineage_changes();
            Ok(())
        };
        inner.become_snapshot(&mut flusher, &volume.state, &snapshot, first).unwrap();
        assert!(before < inner.lineage_changes());
    }

    #[test]
    fn a_snapshot_that_is_being_deleted_is_found_no_more() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        pool.snapshot("main@one", 0, false).unwrap();
        pool.delete_snapshot("main@one").unwrap();
        assert_eq!(pool.inner.all_volumes().len(), 2, "it is there still");
        let missing = |done| matches!(done, Err(PoolError::NoSnapshot { .. }));
        assert!(missing(pool.hold_snapshot("main@one", true)));
        assert!(missing(pool.rollback("main@one")));
        assert!(missing(pool.delete_snapshot("main@one")));
    }

    #[test]
    fn a_clone_s_note_has_its_space_in_checkpoints_beside_the_snapshot_s() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        pool.set_note("main", &[7; 9000]).unwrap();
        pool.snapshot("main@one", 0, false).unwrap();
        let notes = || pool.inner.engine().space.notes();
        let before = notes();
        assert!(pool.clone_snapshot("main@one", "main", 0).is_err(), "there is one of that name");
        assert_eq!(notes(), before);
        drop(pool.clone_snapshot("main@one", "copy", 0).unwrap());
        assert_eq!(notes() - before, before);
    }

    #[test]
    fn a_snapshot_is_counted_as_gone_once_all_that_it_had_is_given_up() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        pool.snapshot("main@one", 0, false).unwrap();
        volume.trim(0, 4096, false).unwrap();
        let gone = || pool.inner.counters.snapshots_gone.load(Ordering::Relaxed);
        pool.delete_snapshot("main@one").unwrap();
        assert_eq!(gone(), 0);
        let changes = pool.inner.lineage_changes();
        assert!((0..100).any(|_| pool.give_up_deleted(u64::MAX).unwrap()), "it never ends");
        assert_eq!(gone(), 1);
        assert!(pool.inner.lineage_changes() > changes, "passes that began before hear of it");
        pool.inner.poison.set("a test".to_owned()).unwrap();
        assert!(matches!(pool.give_up_deleted(1), Err(PoolError::Poisoned(_))));
    }

    #[test]
    fn a_clone_with_another_snapshot_is_not_what_a_stream_was_received_into() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        pool.snapshot("main@base", 0, false).unwrap();
        let clone = pool.clone_snapshot("main@base", "clone", 0).unwrap();
        clone.write_at(0, &[7; 4096], false).unwrap();
        pool.snapshot("clone@new", 0, false).unwrap();
        pool.snapshot("clone@other", 0, false).unwrap();
        let adopt = || pool.adopt("clone@new", "main", "main@base");
        assert!(matches!(adopt(), Err(PoolError::Setting(_))));
        pool.delete_snapshot("clone@other").unwrap();
        adopt().unwrap();
        let names = |of| pool.snapshots(Some(of)).unwrap().into_iter().map(|found| found.name);
        assert_eq!(names("main").collect::<Vec<_>>(), ["main@base", "main@new"]);
        let mut read = [0; 4096];
        pool.volume("main").unwrap().read_at(0, &mut read).unwrap();
        assert_eq!(read, [7; 4096]);
    }

    #[test]
    fn a_volume_that_was_written_to_since_takes_nothing_over_and_stays_as_it_is() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        pool.snapshot("main@base", 0, false).unwrap();
        drop(pool.clone_snapshot("main@base", "clone", 0).unwrap());
        pool.snapshot("clone@new", 0, false).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        let before = pool.inner.all_volumes().len();
        let refused = pool.adopt("clone@new", "main", "main@base");
        assert!(matches!(refused, Err(PoolError::ChangedSince { .. })), "{refused:?}");
        assert_eq!(pool.inner.all_volumes().len(), before, "no snapshot was made for it");
    }

    #[test]
    fn zeroes_are_nothing_that_a_snapshot_alone_holds() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        let options = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
        volume.write_zeroes(4096, 4096, options).unwrap();
        pool.snapshot("main@one", 0, false).unwrap();
        volume.write_at(0, &[8; 3 * 4096], false).unwrap();
        assert_eq!(pool.alone(None).unwrap(), [("main@one".to_owned(), Some(4096))]);
    }
}
