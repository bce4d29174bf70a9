//! Durability: flush, and the clean stop.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 3, "Flush".
//! Invariant: a journal frame is written only after the containers it refers to are durable.

use std::sync::Arc;

use onefold_block::Media;

use crate::container::open::OpenContainer;
use crate::counters::count;
use crate::engine::{Engine, Flusher, Inner};
use crate::error::PoolError;
use crate::format::frame::{Entries, SEALED_BYTES, Sealed};
use crate::format::superblock::Superblock;
use crate::journal;
use crate::open::SUPER_FILES;
use crate::provide::Needs;

impl Inner {
    /// Make every commit so far durable. Flushes that arrive together share the work.
    pub fn flush(&self) -> Result<(), PoolError> {
        if self.read_only {
            return Ok(());
        }
        let wanted = self.engine().generation;
        let mut flusher = self.flusher();
        self.check_writable()?;
        if flusher.durable >= wanted {
            return Ok(());
        }
        self.flush_locked(&mut flusher)?;
        drop(flusher);
        self.checkpoint_if(|flusher| flusher.journal.len_bytes() > journal::CHECKPOINT_BYTES)
    }

    /// Flush with the flusher's lock held; the engine's is taken only for moments.
    pub fn flush_locked(&self, flusher: &mut Flusher) -> Result<(), PoolError> {
        let taken = self.take(&mut self.engine(), flusher);
        self.make_durable(flusher, &taken).inspect_err(|_| taken.put_back(&mut self.engine()))
    }

    pub fn make_durable(&self, flusher: &mut Flusher, taken: &Taken) -> Result<(), PoolError> {
        let containers = taken.sealed.iter().chain(&taken.filling);
        let result = self.sync_containers(containers).and_then(|()| {
            if flusher.pending.is_empty() {
                return Ok(());
            }
            let before = flusher.pending.len_bytes();
            taken.told.iter().for_each(|sealed| flusher.pending.sealed(sealed));
            let appended = flusher.journal.append(&flusher.pending);
            appended.inspect_err(|_| flusher.pending.truncate(before))?;
            flusher.pending = Entries::default();
            Ok(())
        });
        // After a lack of space the next flush tries the same again; pending entries are kept.
        result.map_err(|error| self.poison_unless_no_space(error))?;
        if let Some(kept) = self.kept.get() {
            kept.changes().durable();
        }
        flusher.durable = taken.generation;
        count(&self.counters.flushes, 1);
        Ok(())
    }

    /// Make it provable after a power cut that the last flush was durable.
    pub fn settle_journal(&self) -> Result<(), PoolError> {
        let settled = self.flusher().journal.settle();
        settled.map_err(|error| self.poison_unless_no_space(error))
    }

    fn sync_containers<'a>(
        &self,
        containers: impl Iterator<Item = &'a Arc<OpenContainer>>,
    ) -> Result<(), PoolError> {
        for container in containers {
            if container.is_sealed() {
                self.write_out(container)?;
            }
            container.sync(&*self.store)?;
        }
        Ok(())
    }

    /// Stop cleanly: everything durable, files cut to their contents.
    pub fn close(&self) -> Result<(), PoolError> {
        if self.read_only {
            return Ok(());
        }
        self.check_writable()?;
        if self.is_clean() {
            self.give_back()?;
            self.leave_nothing();
            return self.end_generation();
        }
        let mut unused = Vec::new();
        {
            let mut engine = self.engine();
            let engine = &mut *engine;
            for id in engine.spare.take().into_iter().chain(std::mem::take(&mut engine.ready)) {
                engine.table.remove(id);
                unused.push(id);
            }
            for open in [engine.open.take(), engine.moving.take()].into_iter().flatten() {
                if open.is_unused() {
                    engine.table.remove(open.id());
                    self.live_mut().remove(&open.id());
                    unused.push(open.id());
                } else {
                    engine.generation += 1;
                    engine.seal(&open);
                }
            }
        }
        // Twice, so that both files hold this state: whichever is damaged later, the other has it.
        self.checkpoint()?;
        self.checkpoint()?;
        for id in unused {
            self.store.remove(id)?;
        }
        self.give_back()?;
        self.leave_nothing();
        self.end_generation()
    }

    /// Everything is durable: the next process has nothing to take up.
    fn leave_nothing(&self) {
        if let Some(kept) = self.kept.get() {
            kept.end();
        }
    }

    /// Cut files to their contents, after a checkpoint, and to what the next process needs to win
    /// space back: others may fill the disk before it comes.
    fn give_back(&self) -> Result<(), PoolError> {
        let _growing = self.growing();
        let mut flusher = self.flusher();
        let mut engine = self.engine();
        self.map.give_back()?;
        flusher.journal.give_back()?;
        for (number, media) in self.files.supers.iter().enumerate() {
            let len = if flusher.sequence as usize % 2 == number {
                self.superblock(flusher.sequence, &engine).len_bytes() as u64
            } else {
                older_len(&**media, SUPER_FILES[number])?
            };
            media.set_len(len)?;
        }
        engine.space.given_back();
        let fill = self.set_aside(&mut engine, &Needs::of_fill(self.map.height_max(), 1));
        let held = fill.and_then(|()| flusher.journal.hold(self.reserve_bytes(&engine)));
        match held {
            Err(error) if error.is_no_space() => Ok(()),
            held => held,
        }
    }

    /// Whether anything happened since the last checkpoint.
    pub fn is_clean(&self) -> bool {
        let flusher = self.flusher();
        let engine = self.engine();
        // Volumes and snapshots that have gone are in the last checkpoint still.
        engine.open.is_none()
            && engine.moving.is_none()
            && engine.spare.is_none()
            && engine.ready.is_empty()
            && engine.entries.is_empty()
            && flusher.pending.is_empty()
            && flusher.journal.is_clean()
            && !self.map.is_dirty()
            && !self.has_gone()
    }
}

/// Length of the checkpoint before the newest, without a witness; of the file if it is damaged.
fn older_len(media: &dyn Media, name: &str) -> Result<u64, PoolError> {
    match Superblock::read(media, name) {
        Ok(Some(older)) => Ok(older.len_bytes() as u64),
        Err(error @ PoolError::Media(_)) => Err(error),
        Ok(None) | Err(_) => Ok(media.len()?),
    }
}

/// What a flush took from the engine, to make it durable.
pub(crate) struct Taken {
    sealed: Vec<Arc<OpenContainer>>,
    /// What the journal shall say of them: nothing, where that may not be or has no room.
    told: Vec<Sealed>,
    /// Containers that were still being filled.
    filling: Vec<Arc<OpenContainer>>,
    generation: u64,
}

impl Inner {
    pub fn take(&self, engine: &mut Engine, flusher: &mut Flusher) -> Taken {
        let sealed = std::mem::take(&mut engine.unsynced);
        let filling = engine.open.iter().chain(&engine.moving).cloned().collect();
        if !engine.entries.is_empty() {
            engine.space.frame_begins();
            flusher.pending.append(&mut engine.entries);
        }
        let mut told = Vec::new();
        // What opening is not told it finds out by reading the containers.
        let bytes = (sealed.len() * SEALED_BYTES) as u64;
        let frame = !flusher.pending.is_empty() && flusher.tells_sealed;
        if frame && engine.space.journal_has_room(bytes) {
            told.extend(sealed.iter().filter_map(|container| engine.table.sealed(container.id())));
            engine.space.journal_took((told.len() * SEALED_BYTES) as u64);
        }
        if let Some(kept) = self.kept.get() {
            kept.changes().taken();
        }
        Taken { sealed, told, filling, generation: engine.generation }
    }
}

impl Taken {
    /// Return sealed containers that did not become durable; the open ones were never taken away.
    pub fn put_back(&self, engine: &mut Engine) {
        engine.space.journal_gave_back((self.told.len() * SEALED_BYTES) as u64);
        engine.unsynced.extend_from_slice(&self.sealed);
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, FaultKind, OpKind, SimFolder};

    use crate::{OpenOptions, Pool, PoolIdentity, PoolSettings, Volume};

    const CHUNK: u64 = 4096;

    fn pool() -> (SimFolder, Pool, Volume) {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        Pool::create(&folder, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let volume = pool.create_volume("main", ByteSize(1000 * CHUNK)).unwrap();
        (folder, pool, volume)
    }

    fn write(volume: &Volume, blocks: std::ops::Range<u64>) {
        for block in blocks {
            let bytes = onefold_block::SplitMix64::new(block).bytes(CHUNK as usize);
            volume.write_at(block * CHUNK, &bytes, false).unwrap();
        }
    }

    /// Bytes of entries that have room in the journal without asking for more.
    fn room(pool: &Pool) -> u64 {
        let engine = pool.inner.engine();
        let mut room = 0;
        for bit in (0..30).rev().map(|bit| 1 << bit) {
            room += if engine.space.journal_has_room(room + bit) { bit } else { 0 };
        }
        room
    }

    #[test]
    fn a_flush_takes_as_much_of_the_journal_as_its_frame_may_have() {
        let (folder, pool, volume) = pool();
        write(&volume, 0..200);
        let sealed = pool.inner.engine().unsynced.len() as u64;
        assert!(sealed > 2, "{sealed}");
        let before = room(&pool);
        folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
        assert!(pool.flush().unwrap_err().is_no_space());
        assert_eq!(room(&pool), before - 96, "what was to be told of is not");
        assert_eq!(pool.inner.engine().unsynced.len() as u64, sealed);
        pool.flush().unwrap();
        assert_eq!(room(&pool), before - 96 - 24 * sealed);
        let told = room(&pool);
        pool.flush().unwrap();
        assert_eq!(room(&pool), told, "nothing happened since");
        // A checkpoint that knows of no such entries.
        pool.inner.flusher().tells_sealed = false;
        write(&volume, 200..400);
        let before = room(&pool);
        pool.flush().unwrap();
        assert_eq!(room(&pool), before - 96);
        pool.inner.flusher().tells_sealed = true;
        // Containers without a change beside them are told of by nothing.
        let engine = &mut *pool.inner.engine();
        let open = engine.open.take().unwrap();
        engine.seal(&open);
        let taken = pool.inner.take(engine, &mut pool.inner.flusher());
        assert_eq!((taken.sealed.len(), taken.told.len()), (1, 0));
    }

    #[test]
    fn frames_never_reach_past_what_was_set_aside_for_them() {
        let (folder, _pool, volume) = pool();
        for block in 0..3000 {
            volume.trim(block % 7 * CHUNK, CHUNK, true).unwrap();
        }
        let mut reserved = 64;
        for op in folder.ops_since(&mut 0).lines() {
            let range = op.rsplit_once(' ').and_then(|(_, range)| range.split_once(".."));
            let end = range.map_or(0, |(_, end)| end.parse::<u64>().unwrap());
            if op.starts_with("Reserve journal") {
                reserved = end;
            } else if op.starts_with("Write journal") {
                assert!(end <= reserved, "{op}, but {reserved} bytes are set aside");
            }
        }
        assert!(reserved > 3000 * 64);
    }
}
