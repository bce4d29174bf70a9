//! The handle of an open pool.
//! Room: onefold-pool.

use std::path::Path;
use std::sync::Arc;

use onefold_block::{FileFolder, Folder, FolderLock};

use crate::container::table::SpaceTotals;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::handover::take_up::TakenUp;
use crate::lock;
use crate::open::{self, OpenOptions, Surroundings};
use crate::settings::{PoolIdentity, PoolSettings};

/// Dead containers are given back while others write once they are one part in this of all,
const DEAD_SHARE_MAX: u64 = 16;
/// and so many at least: a small pool would write a checkpoint at every tick.
const DEAD_CONTAINERS_MIN: u64 = 4;

/// An open pool. Clones are handles of the same one. Dropping the last handle without
/// [`Pool::close`] is like a power cut: what was flushed is there at the next opening.
#[derive(Clone)]
pub struct Pool {
    pub(crate) inner: Arc<Inner>,
}

impl Pool {
    /// Make a pool in `path`, a folder that does not exist or is empty, without opening it.
    pub fn create_at(
        path: &Path,
        settings: &PoolSettings,
        identity: PoolIdentity,
    ) -> Result<(), PoolError> {
        let mut folder = FileFolder::create(path)?;
        open::refuse_others(&folder)?;
        // A folder that was there already may have let others in.
        folder.restrict(None)?;
        folder.overwrite_in_place();
        let lock = lock::acquire(path, false)?;
        open::create(&folder, settings, identity)?;
        lock.keep();
        Ok(())
    }

    /// Open the pool at `path` and lock it: alone, or shared with other readers if read-only.
    pub fn open_at(path: &Path, options: &OpenOptions) -> Result<Self, PoolError> {
        Self::open_at_in(path, options, Surroundings::default())
    }

    /// The same with what a door puts around it.
    pub fn open_at_in(
        path: &Path,
        options: &OpenOptions,
        around: Surroundings<'_>,
    ) -> Result<Self, PoolError> {
        let folder = FileFolder::open(path)?;
        open::files(&folder)?;
        let lock = lock::acquire(path, options.read_only)?;
        let inner = open::open(&folder, options, Some(lock), around)?;
        if let Some(lock) = &inner.guard {
            lock.keep();
        }
        Ok(Self { inner })
    }

    /// Lock the folder in which a pool is to be made. The lock file goes away again unless the lock
    /// is told to keep it.
    pub fn lock_at(path: &Path) -> Result<FolderLock, PoolError> {
        lock::acquire(path, false)
    }

    /// Whether there is a pool at `path`, readable or not. What a creation that was cut short
    /// leaves is none.
    pub fn exists_at(path: &Path) -> bool {
        let written =
            |name: &&str| std::fs::metadata(path.join(name)).is_ok_and(|found| found.len() > 0);
        open::SUPER_FILES.iter().chain([&open::REPAIR_FILE]).any(written)
    }

    /// Make a pool in any folder. The caller sees to it that nobody else uses it.
    pub fn create(
        folder: &dyn Folder,
        settings: &PoolSettings,
        identity: PoolIdentity,
    ) -> Result<(), PoolError> {
        open::create(folder, settings, identity)
    }

    /// Open the pool in any folder. The caller sees to it that nobody else uses it.
    pub fn open(folder: &dyn Folder, options: &OpenOptions) -> Result<Self, PoolError> {
        open::open(folder, options, None, Surroundings::default()).map(|inner| Self { inner })
    }

    /// The same with what a door puts around it.
    pub fn open_in(
        folder: &dyn Folder,
        options: &OpenOptions,
        around: Surroundings<'_>,
    ) -> Result<Self, PoolError> {
        open::open(folder, options, None, around).map(|inner| Self { inner })
    }

    /// What this opening found of a process that ended without closing the pool.
    pub fn taken_up(&self) -> &TakenUp {
        &self.inner.taken_up
    }

    /// Whether acknowledged writes survive the death of this process: an error says why not.
    pub fn keeps_writes(&self) -> Result<(), String> {
        let kept = self.inner.kept.get();
        let kept = kept.ok_or_else(|| "there is no memory that outlives the process".to_owned())?;
        kept.failure().map_or(Ok(()), Err)
    }

    /// How it stores.
    pub fn settings(&self) -> &PoolSettings {
        &self.inner.settings
    }

    /// Make everything written so far, to all volumes, durable.
    pub fn flush(&self) -> Result<(), PoolError> {
        self.inner.flush()
    }

    /// Write a checkpoint now: the next opening has no journal to replay, and space of containers
    /// that nothing refers to is given back.
    pub fn checkpoint(&self) -> Result<(), PoolError> {
        self.inner.checkpoint()
    }

    /// What should happen now and then while the pool is idle or busy: bound what a power cut can
    /// take, and give dead containers back, once they are many or nobody writes. Cheap when there
    /// is nothing to do.
    pub fn maintain(&self) -> Result<(), PoolError> {
        if self.inner.read_only {
            return Ok(());
        }
        let before = self.inner.flusher().durable;
        self.inner.flush()?;
        self.inner.settle_journal()?;
        let (totals, now) = {
            let engine = self.inner.engine();
            (engine.table.totals(), engine.generation)
        };
        if totals.dead > 0 && (are_many_dead(&totals) || before == now) {
            return self.inner.checkpoint();
        }
        Ok(())
    }

    /// Stop cleanly. Later writes through other handles fail at the next opening's lock or are
    /// simply part of an unclean stop; callers stop their doors first.
    pub fn close(self) -> Result<(), PoolError> {
        self.inner.close()
    }
}

/// Whether dead containers are worth a checkpoint while others write.
const fn are_many_dead(totals: &SpaceTotals) -> bool {
    totals.dead >= DEAD_CONTAINERS_MIN && totals.dead_bytes >= totals.stored_bytes / DEAD_SHARE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_dead_containers_that_are_a_sixteenth_of_all_are_many() {
        let are = |dead, dead_bytes| {
            are_many_dead(&SpaceTotals {
                dead,
                dead_bytes,
                stored_bytes: 1600,
                ..SpaceTotals::default()
            })
        };
        assert!(are(4, 100) && are(5, 1600));
        assert!(!are(3, 1600) && !are(4, 99) && !are(0, 0));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_in_which_others_have_something_is_refused_and_left_as_it_is() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("other"), "theirs").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        let refused = Pool::create_at(path, &PoolSettings::default(), identity);
        assert!(matches!(refused, Err(PoolError::NotEmpty(_))), "{refused:?}");
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "whoever may come in may do so still");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_without_a_pool_is_refused_and_gets_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        for read_only in [false, true] {
            let options = OpenOptions { read_only, ..OpenOptions::default() };
            let refused = Pool::open_at(folder.path(), &options).map(drop);
            assert!(matches!(refused, Err(PoolError::NoPool)), "{refused:?}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
