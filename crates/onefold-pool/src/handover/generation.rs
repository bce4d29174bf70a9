//! The generation of an open pool: see `onefold_block::generation`.
//! Room: onefold-pool.

use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_block::{Folder, GENERATION_FILE, Generation, GenerationFile, Survival};

use super::take_up::TakenUp;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::superblock::Superblock;
use crate::pool::Pool;

/// What is known of it.
pub enum OpenGeneration {
    /// The pool is open to be written.
    Held(Mutex<GenerationFile>),
    /// It is only looked at.
    Seen {
        /// What its file says.
        generation: Option<Generation>,
        /// What is wrong with that.
        problem: Option<&'static str>,
    },
}

impl OpenGeneration {
    /// That of a pool that is only looked at.
    pub fn look(folder: &dyn Folder, uuid: &[u8; 16]) -> Result<Self, PoolError> {
        let problem = GenerationFile::problem(folder, uuid)?;
        Ok(Self::Seen { generation: GenerationFile::read(folder, uuid), problem })
    }
}

/// The generation after what a former process left was taken up: a new one if that is not all that
/// it acknowledged.
pub fn open_generation(
    folder: &dyn Folder,
    superblock: &Superblock,
    taken_up: &TakenUp,
    boot: Option<[u8; 16]>,
) -> Result<OpenGeneration, PoolError> {
    // Every new generation follows a checkpoint of its own, so that none had so high a number.
    let unseen = superblock.sequence + 1;
    let mut file = GenerationFile::open(folder, superblock.identity.uuid, unseen)?;
    let survival = match taken_up {
        TakenUp { lost: Some(_), .. } => Survival::Lost,
        TakenUp { found: true, .. } => Survival::TakenUp,
        TakenUp { .. } => Survival::NothingFound,
    };
    if file.settle(survival, boot)? {
        let number = file.current().number;
        tracing::warn!("acknowledged writes may be lost: the pool is in generation {number} now");
    }
    Ok(OpenGeneration::Held(Mutex::new(file)))
}

impl Inner {
    fn held_generation(&self) -> Option<MutexGuard<'_, GenerationFile>> {
        match &self.generation {
            Some(OpenGeneration::Held(file)) => {
                Some(file.lock().unwrap_or_else(PoisonError::into_inner))
            }
            _ => None,
        }
    }

    /// What is wrong with the file of a pool that is only looked at, for people.
    pub fn generation_problem(&self) -> Option<String> {
        match &self.generation {
            Some(OpenGeneration::Seen { problem: Some(problem), .. }) => {
                Some(format!("{GENERATION_FILE}: {problem}"))
            }
            _ => None,
        }
    }

    /// Writes are acknowledged from now on.
    pub fn begin_generation(&self, boot: Option<[u8; 16]>) -> Result<(), PoolError> {
        let Some(mut file) = self.held_generation() else { return Ok(()) };
        Ok(file.begin(boot.filter(|_| self.kept.get().is_some()))?)
    }

    /// Everything is durable, and the pool is closed.
    pub fn end_generation(&self) -> Result<(), PoolError> {
        self.held_generation().map_or(Ok(()), |mut file| Ok(file.end()?))
    }
}

impl Pool {
    /// Which generation the pool is in: it changes whenever writes that were acknowledged and not
    /// flushed may have been lost. `None` if a pool that is only read does not say.
    pub fn generation(&self) -> Option<Generation> {
        match &self.inner.generation {
            Some(OpenGeneration::Seen { generation, .. }) => *generation,
            _ => self.inner.held_generation().map(|file| file.current()),
        }
    }

    /// Note that whoever owns the pool knows that writes may have been lost.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`]; [`PoolError::Media`].
    pub fn accept_loss(&self) -> Result<(), PoolError> {
        let mut file = self.inner.held_generation().ok_or(PoolError::ReadOnly)?;
        Ok(file.accept()?)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;

    use super::*;
    use crate::{OpenOptions, PoolSettings};

    #[test]
    fn a_generation_that_nobody_knows_is_one_that_never_was() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        (0..5).for_each(|_| pool.checkpoint().unwrap());
        let before = pool.generation().unwrap().number;
        let newest = pool.inner.flusher().sequence;
        drop(pool);
        folder.remove(GENERATION_FILE).unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let now = pool.generation().unwrap().number;
        assert_eq!(now, newest + 1, "each of those before followed an earlier checkpoint");
        assert!(now > before);
    }

    #[test]
    fn a_loss_is_accepted_by_who_may_change_the_pool_alone() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        pool.accept_loss().unwrap();
        pool.close().unwrap();
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let pool = Pool::open(&folder, &options).unwrap();
        assert!(matches!(pool.accept_loss(), Err(PoolError::ReadOnly)));
    }
}
