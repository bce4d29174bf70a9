//! A check of a pool that others go on using: of a checkpoint that is made for it, and whose pages
//! and containers stay as they are meanwhile.
//! Room: onefold-pool.
//! In: an open pool. Out: what [`Pool::check_at`] would say of it had it been stopped at that
//! moment, but for fingerprint runs, which are hints and change as they like.
//! Invariants: (1) while a checkpoint is held, no slot of the map that it has in use is written
//! again, and no container of it is removed or punched; (2) what later checkpoints no longer refer
//! to is given back in the end, or at once if writes need the space: the check is given up then;
//! (3) nothing is held across a crash: what was kept back is in no checkpoint, and opening gives it
//! back.
//! Cost: that of a check, and the space that is not given back meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};

use onefold_block::{ContainerId, ContainerStore, Media, MediaError, StoreError};

use crate::absent::{NoFile, refused};
use crate::check::CheckReport;
use crate::container::table::ContainerTable;
use crate::engine::{Engine, Files, Inner};
use crate::error::PoolError;
use crate::journal::{Journal, Replay, Witness};
use crate::open::{self, JOURNAL_FILE, OpenOptions};
use crate::pool::Pool;
use crate::settings::Budgets;
use crate::sync;

/// What is kept back.
#[derive(Default)]
pub(crate) struct Hold {
    on: bool,
    /// Writes needed it.
    gave_way: bool,
    /// Containers that no durable checkpoint refers to.
    dead: Vec<ContainerId>,
}

impl Pool {
    /// Check the pool as it is now, beside others who use it. `progress` hears how many of how many
    /// bytes of containers are read, and says whether to go on; `None` if it ended the check.
    ///
    /// # Errors
    /// [`PoolError::CheckGaveWay`]; [`PoolError`] where the pool cannot be written. Damage is no
    /// error.
    pub fn check_beside(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<CheckReport>, PoolError> {
        if self.inner.read_only {
            return Ok(self.check_while(progress));
        }
        let held = HeldCheckpoint::new(&self.inner)?;
        let report = match held.view() {
            Ok(inner) => Self { inner: Arc::new(inner) }
                .check_while(&mut |done, total| progress(done, total) && !self.inner.gave_way()),
            Err(error) if error.is_corruption() => {
                let mut report = CheckReport::default();
                report.found(error.to_string());
                Some(report)
            }
            Err(error) => return Err(error),
        };
        if self.inner.gave_way() {
            return Err(PoolError::CheckGaveWay);
        }
        Ok(report)
    }
}

/// A checkpoint that stays whole as long as this is there.
struct HeldCheckpoint<'a> {
    inner: &'a Inner,
    supers: [Vec<u8>; 2],
}

impl<'a> HeldCheckpoint<'a> {
    fn new(inner: &'a Inner) -> Result<Self, PoolError> {
        // Who punches does that with this lock held.
        let _punching = sync::lock(&inner.punching);
        let mut flusher = inner.flusher();
        assert!(!inner.is_held(), "one check at a time is the door's rule");
        inner.checkpoint_locked(&mut flusher, &mut |engine, _| {
            seal_filling(engine);
            Ok(None)
        })?;
        // Nobody writes a checkpoint before the flusher's lock is free.
        let read = |media: &Arc<dyn Media>| -> Result<Vec<u8>, PoolError> {
            let mut bytes = vec![0; media.len()? as usize];
            media.read(0, &mut bytes)?;
            Ok(bytes)
        };
        let supers = [read(&inner.files.supers[0])?, read(&inner.files.supers[1])?];
        inner.map.hold();
        *inner.hold() = Hold { on: true, ..Hold::default() };
        Ok(Self { inner, supers })
    }

    /// The pool as the checkpoint has it, to be read.
    fn view(&self) -> Result<Inner, PoolError> {
        let [first, second] = &self.supers;
        let supers = [first, second].map(|bytes| Arc::new(Bytes(bytes.clone())) as Arc<dyn Media>);
        let journal: Arc<dyn Media> = Arc::new(NoFile(JOURNAL_FILE.to_owned()));
        let map = Arc::clone(&self.inner.files.map);
        let files = Files { supers, journal: Arc::clone(&journal), map, fingerprints: None };
        let (superblock, _) = open::read_supers(&files.supers)?;
        open::check_map_header(&*files.map, &superblock.identity)?;
        let newest = Arc::clone(&files.supers[superblock.sequence as usize % 2]);
        let options = OpenOptions { read_only: true, budgets: Budgets::default() };
        let mut maps = open::load_maps(&files, &superblock, &options, &mut Err)?;
        // Made ahead, and perhaps filled by now: nothing of them was there yet.
        let ahead: BTreeSet<ContainerId> = maps
            .table
            .iter()
            .filter(|(_, info)| !info.is_sealed() && !info.is_referenced())
            .map(|(id, _)| id)
            .collect();
        for &id in &ahead {
            maps.table.remove(id);
        }
        let store: Arc<dyn ContainerStore> = Arc::new(Then {
            there: there(&*self.inner.plain, &maps.table),
            plain: Arc::clone(&self.inner.plain),
        });
        let stores = [Arc::clone(&store), store];
        let inner = open::assemble((files, maps), stores, &superblock, &options, None);
        open::add_trees(&inner, &superblock)?;
        let nothing = Replay { next_number: 1, ..Replay::default() };
        let witness = Witness::new(newest, superblock.len_bytes() as u64);
        inner.flusher().journal = Journal::resume(journal, superblock.sequence, &nothing, witness);
        Ok(inner)
    }
}

impl Drop for HeldCheckpoint<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.inner.let_go() {
            tracing::error!("space that a check kept back is not given back: {error}");
        }
    }
}

/// What is being filled takes no more records, so that all of it is told of by its directory.
fn seal_filling(engine: &mut Engine) {
    let filling: Vec<_> = engine.open.iter().chain(&engine.moving).cloned().collect();
    for open in filling.iter().filter(|open| !open.is_unused()) {
        engine.generation += 1;
        engine.seal(open);
    }
}

/// The containers of the checkpoint that are there. Others are being made, or go: what belongs to
/// nobody went when the pool was opened. If they cannot be listed, the check finds that out by
/// itself.
fn there(plain: &dyn ContainerStore, table: &ContainerTable) -> BTreeSet<ContainerId> {
    let known = |id: &ContainerId| table.get(*id).is_some();
    plain.list().unwrap_or_default().into_iter().filter(known).collect()
}

impl Inner {
    fn hold(&self) -> MutexGuard<'_, Hold> {
        sync::lock(&self.hold)
    }

    /// Whether a check reads a checkpoint.
    pub fn is_held(&self) -> bool {
        self.hold().on
    }

    /// Whether it can be read no more.
    fn gave_way(&self) -> bool {
        self.hold().gave_way
    }

    /// Keep what is dead if somebody reads it. Returns what may go.
    pub fn keep_if_held(&self, dead: Vec<ContainerId>) -> Vec<ContainerId> {
        let mut hold = self.hold();
        if !hold.on {
            return dead;
        }
        hold.dead.extend(dead);
        Vec::new()
    }

    /// There is no space: give back what a check keeps. Whether that was anything.
    pub fn give_way(&self) -> Result<bool, PoolError> {
        {
            let mut hold = self.hold();
            if !hold.on || hold.gave_way {
                return Ok(false);
            }
            hold.gave_way = true;
        }
        self.give_back_held()?;
        Ok(true)
    }

    /// The check has ended.
    fn let_go(&self) -> Result<(), PoolError> {
        let given = self.give_back_held();
        self.hold().gave_way = false;
        given
    }

    fn give_back_held(&self) -> Result<(), PoolError> {
        let dead = {
            let mut hold = self.hold();
            hold.on = false;
            std::mem::take(&mut hold.dead)
        };
        self.map.let_go();
        self.remove_dead(&dead)
    }
}

/// A file as it was.
struct Bytes(Vec<u8>);

impl Media for Bytes {
    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.0.len() as u64)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let (len, end) = (self.0.len() as u64, offset.saturating_add(buf.len() as u64));
        let name = "a checkpoint".to_owned();
        let gone = MediaError::Truncated { name, len, offset, end };
        let bytes = self.0.get(offset as usize..end as usize).ok_or(gone)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> Result<(), MediaError> {
        Err(refused("write", "a checkpoint"))
    }

    fn set_len(&self, _len: u64) -> Result<(), MediaError> {
        Err(refused("set the length of", "a checkpoint"))
    }

    fn sync(&self) -> Result<(), MediaError> {
        Ok(())
    }
}

/// The containers that were there then. Of what came since nothing is known.
struct Then {
    there: BTreeSet<ContainerId>,
    plain: Arc<dyn ContainerStore>,
}

impl ContainerStore for Then {
    fn create(&self, _id: ContainerId, _capacity_bytes: u64) -> Result<(), StoreError> {
        Err(StoreError::Names(refused("create", "a container")))
    }

    fn append(&self, _id: ContainerId, _offset: u64, _data: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::Names(refused("append to", "a container")))
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.plain.read(id, offset, buf)
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.plain.len(id)
    }

    fn sync(&self, _id: ContainerId) -> Result<(), StoreError> {
        Ok(())
    }

    fn seal(&self, _id: ContainerId, _len: u64) -> Result<(), StoreError> {
        Err(StoreError::Names(refused("seal", "a container")))
    }

    fn punch(&self, _id: ContainerId, _offset: u64, _len: u64) -> Result<(), StoreError> {
        Err(StoreError::Names(refused("punch", "a container")))
    }

    fn remove(&self, _id: ContainerId) -> Result<(), StoreError> {
        Err(StoreError::Names(refused("remove", "a container")))
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        let now = self.plain.list()?;
        Ok(now.into_iter().filter(|id| self.there.contains(id)).collect())
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        self.plain.strangers()
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.plain.allocated_bytes(id)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, Folder as _, FolderContainerStore, SimFolder};

    use super::*;
    use crate::OpenOptions;

    /// A pool that was opened again, with one volume of as much as it holds in one container.
    fn filled() -> (SimFolder, Pool) {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &onefold_block::SplitMix64::new(1).bytes(1 << 20), false).unwrap();
        drop(volume);
        pool.close().unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        (folder, pool)
    }

    #[test]
    fn what_dies_while_a_check_reads_it_goes_when_that_has_ended() {
        let (folder, pool) = filled();
        let stored = || folder.existing_subfolder("containers").unwrap().list().unwrap();
        let [name] = stored().try_into().unwrap();
        let mut given_up = false;
        let checked = pool.check_beside(&mut |_, _| {
            if !std::mem::replace(&mut given_up, true) {
                let volume = pool.volume("main").unwrap();
                volume.trim(0, 1 << 20, false).unwrap();
                pool.checkpoint().unwrap();
                // These would have the slots of the map that were in use before.
                for block in 0..4 {
                    volume.write_at(block * 4096, &[block as u8; 4096], false).unwrap();
                    pool.checkpoint().unwrap();
                }
            }
            assert!(stored().contains(&name), "it may be read");
            true
        });
        assert!(checked.unwrap().unwrap().is_sound() && given_up);
        assert!(!stored().contains(&name));
    }

    #[test]
    fn what_a_check_reads_cannot_be_changed_through_it() {
        let bytes = Bytes(vec![1, 2, 3]);
        assert!(bytes.write(0, &[9]).is_err() && bytes.set_len(1).is_err());
        let mut found = [0; 2];
        bytes.read(1, &mut found).unwrap();
        assert_eq!((bytes.len().unwrap(), found), (3, [2, 3]));
        assert!(bytes.read(2, &mut found).is_err());

        let plain: Arc<dyn ContainerStore> =
            Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
        let [first, second, new] = [1, 2, 3].map(ContainerId::new);
        for id in [first, second] {
            plain.create(id, 4096).unwrap();
            plain.append(id, 0, &[7; 100]).unwrap();
        }
        let then = Then { there: BTreeSet::from([first]), plain: Arc::clone(&plain) };
        assert!(then.create(new, 4096).is_err() && then.append(first, 0, &[1]).is_err());
        assert!(then.seal(first, 4096).is_err() && then.punch(first, 0, 4096).is_err());
        assert!(then.remove(first).is_err());
        then.read(first, 98, &mut found).unwrap();
        assert_eq!((found, then.len(first).unwrap()), ([7, 7], 100));
        assert_eq!(
            (then.list().unwrap(), plain.list().unwrap()),
            (vec![first], vec![first, second])
        );
    }

    #[test]
    fn a_check_gives_way_to_who_finds_no_space_and_says_so() {
        let (folder, pool) = filled();
        let stored = || folder.existing_subfolder("containers").unwrap().list().unwrap();
        let [name] = stored().try_into().unwrap();
        let checked = pool.check_beside(&mut |_, _| {
            pool.volume("main").unwrap().trim(0, 1 << 20, false).unwrap();
            pool.checkpoint().unwrap();
            assert!(stored().contains(&name));
            assert!(pool.inner.give_way().unwrap());
            assert!(!stored().contains(&name), "it is given back at once");
            assert!(!pool.inner.give_way().unwrap(), "that was all");
            true
        });
        assert!(matches!(checked, Err(PoolError::CheckGaveWay)), "{checked:?}");
        assert!(pool.check_beside(&mut |_, _| true).unwrap().unwrap().is_sound());
    }
}
