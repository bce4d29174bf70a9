//! What a change will need of the media, got before it is made and without the engine's lock: who
//! waits for the media keeps nobody else waiting.
//! Room: onefold-pool.
//! In: what the change may need at most. Out: the engine's lock, with that much set aside.
//! Invariants: (1) what is asked for is needed, and comes before anything that is only convenient:
//! on a nearly full disk a whole step for one file may be what another file needs; (2) a container
//! that is made ahead is in the table before it is given out, so that a checkpoint knows it; one
//! over whose making a checkpoint was frozen is removed again.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use onefold_block::ContainerId;

use crate::container::open::OpenContainer;
use crate::engine::{Engine, Inner};
use crate::error::PoolError;
use crate::pba::CONTAINER_ID_MAX;
use crate::space::Purpose;
use crate::sync;

/// Attempts to find all of it set aside: others may take what was got. After these a change gets
/// under the engine's lock what it lacks.
const PASSES: usize = 16;
/// Container tables that map pages are set aside for: one that is being written and one that
/// changes meanwhile.
const TABLES: usize = 2;
/// Map pages that data writes leave for moving records, trims and volume changes.
const MAP_SLACK_PAGES: usize = 192;
/// Of these, what moving records leaves for trims and volume changes.
const MAP_TRIM_PAGES: usize = 64;
/// Journal bytes of one run's head; a batch has at most one run per chunk.
const RUN_HEAD_BYTES: u64 = 24;
/// Journal bytes of one fill.
pub(crate) const FILL_BYTES: u64 = 32;
/// A container that is filled so far has the next one made: in parts of eight.
const NEARLY_FULL_EIGHTHS: usize = 7;

/// What a change may need at most.
pub(crate) struct Needs {
    /// Map pages beside those of the container tables.
    pub pages: usize,
    /// Journal entries.
    pub journal_bytes: u64,
    pub purpose: Purpose,
    pub records: NewRecords,
}

/// Records that a change adds to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewRecords {
    None,
    /// Of what was written: so many records, in bytes.
    Written(usize, usize),
    /// Of what is moved.
    Moved(usize, usize),
}

/// What is missing of it.
struct Lacking {
    slots: u32,
    journal: Range<u64>,
    supers: u64,
    container: bool,
}

impl Lacking {
    fn is_nothing(&self) -> bool {
        self.slots == 0 && self.journal.is_empty() && self.supers == 0 && !self.container
    }
}

impl Needs {
    /// Of a commit of so many chunks into a map of this height.
    pub fn of_commit(height: u8, chunks: usize, purpose: Purpose, records: NewRecords) -> Self {
        let pages = chunks.min(2 + chunks / 2) * (usize::from(height) + 1);
        let slack = if purpose == Purpose::Data { MAP_SLACK_PAGES } else { MAP_TRIM_PAGES };
        let journal_bytes = chunks as u64 * (RUN_HEAD_BYTES + 8);
        Self { pages: pages + slack, journal_bytes, purpose, records }
    }

    /// Of a fill of so many leaves in a map of this height.
    pub const fn of_fill(height: usize, leaves: usize) -> Self {
        let (pages, purpose) = (leaves + 2 * (height + 1), Purpose::Release);
        Self { pages, journal_bytes: FILL_BYTES, purpose, records: NewRecords::None }
    }
}

impl Inner {
    /// The engine's lock, once all that a change needs is set aside.
    pub fn engine_with(&self, needs: &Needs) -> Result<MutexGuard<'_, Engine>, PoolError> {
        let mut growing = None;
        for _ in 0..=PASSES {
            let engine = self.engine();
            // After a failure nothing changes any more, not even in memory.
            self.check_writable()?;
            let lacking = self.lacking(&engine, needs);
            if lacking.is_nothing() {
                return Ok(engine);
            }
            drop(engine);
            if growing.is_none() {
                // Whoever waits here finds what the one before got.
                growing = Some(self.growing());
                continue;
            }
            self.get(&lacking, needs.purpose)?;
        }
        drop(growing);
        let mut engine = self.engine();
        self.set_aside(&mut engine, needs)?;
        Ok(engine)
    }

    /// Get the same under the engine's lock, but for containers.
    pub fn set_aside(&self, engine: &mut Engine, needs: &Needs) -> Result<(), PoolError> {
        self.map.reserve(needs.pages + engine.table_pages())?;
        engine.space.journal(needs.journal_bytes, needs.purpose)?;
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner).len();
        engine.space.supers(volumes + 1)
    }

    /// Held by whoever asks the media for space without the engine's lock.
    pub fn growing(&self) -> MutexGuard<'_, ()> {
        sync::point("growing");
        sync::lock(&self.growth)
    }

    /// Have the next container made while there is still room in the one being filled, unless
    /// somebody is getting space already. If it cannot be made, the write that needs it says so.
    pub fn make_next(&self) {
        let Ok(_growing) = self.growth.try_lock() else { return };
        if self.engine().ready.is_empty()
            && let Err(error) = self.make_ready()
        {
            tracing::debug!("no container could be made ahead: {error}");
        }
    }

    fn lacking(&self, engine: &Engine, needs: &Needs) -> Lacking {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner).len();
        Lacking {
            slots: self.map.lacking(needs.pages + engine.table_pages()),
            journal: engine.space.journal_lacks(needs.journal_bytes, needs.purpose),
            supers: engine.space.supers_lack(volumes + 1),
            container: self.containers_needed(engine, needs.records) > engine.ready.len(),
        }
    }

    /// Containers that are made for such records, beside those that wait.
    fn containers_needed(&self, engine: &Engine, records: NewRecords) -> usize {
        let fits = |container: &Option<_>, count, bytes| {
            container.as_deref().is_some_and(|open: &OpenContainer| open.has_room(count, bytes))
        };
        match records {
            NewRecords::Written(count, bytes) if count > 0 && !fits(&engine.open, count, bytes) => {
                1 + self.reserve_lacks(engine)
            }
            NewRecords::Moved(count, bytes) if count > 0 && !fits(&engine.moving, count, bytes) => {
                usize::from(engine.spare.is_none())
            }
            _ => 0,
        }
    }

    fn get(&self, lacking: &Lacking, purpose: Purpose) -> Result<(), PoolError> {
        self.map.provide(lacking.slots)?;
        self.get_journal(&lacking.journal)?;
        if lacking.supers > 0 {
            self.files.supers.iter().try_for_each(|media| media.reserve(0, lacking.supers))?;
            self.engine().space.supers_have(lacking.supers);
        }
        if lacking.container {
            self.make_ready()?;
        }
        let asked = lacking.slots > 0 || !lacking.journal.is_empty();
        if asked && purpose == Purpose::Data {
            // All that is needed is there: now what spares the next ones asking.
            let journal = self.engine().space.journal_ahead();
            for got in [self.map.provide_ahead(), self.get_journal(&journal)] {
                match got {
                    Err(error) if error.is_no_space() => {}
                    got => got?,
                }
            }
        }
        Ok(())
    }

    fn get_journal(&self, part: &Range<u64>) -> Result<(), PoolError> {
        if !part.is_empty() {
            self.files.journal.reserve(part.start, part.end - part.start)?;
            self.engine().space.journal_has(part.end);
        }
        Ok(())
    }

    /// Make an empty container. Nothing comes of it if a checkpoint was frozen meanwhile: that one
    /// counts its number as given out and does not have it in its table, and a journal refers only
    /// to containers that the checkpoint knows or that are newer.
    fn make_ready(&self) -> Result<(), PoolError> {
        let (id, freezes) = {
            let mut engine = self.engine();
            (engine.next_number()?, engine.freezes)
        };
        let made = self.store.create(id, u64::from(self.settings.container_bytes));
        sync::point("made ahead");
        {
            let mut engine = self.engine();
            if engine.freezes == freezes {
                match made {
                    Ok(()) => {
                        engine.table.open(id);
                        engine.ready.push(id);
                    }
                    Err(_) => engine.give_number_back(id),
                }
                return Ok(made?);
            }
        }
        Ok(made.and_then(|()| self.store.remove(id))?)
    }

    /// An empty container: one that waits, or else one that is made now.
    pub fn take_container(&self, engine: &mut Engine) -> Result<ContainerId, PoolError> {
        let id = if engine.ready.is_empty() {
            let id = engine.next_number()?;
            let made = self.store.create(id, u64::from(self.settings.container_bytes));
            made.inspect_err(|_| engine.give_number_back(id))?;
            engine.table.open(id);
            id
        } else {
            engine.ready.remove(0)
        };
        self.newest.fetch_max(id.get(), Ordering::AcqRel);
        Ok(id)
    }

    /// Whether a commit before which so much was filled, and no other, made the container one that
    /// should not be the last there is. On a full disk only one commit asks in vain.
    pub fn has_become_nearly_full(
        &self,
        engine: &Engine,
        before: Option<(ContainerId, usize)>,
    ) -> bool {
        let mark = self.settings.container_bytes as usize / 8 * NEARLY_FULL_EIGHTHS;
        match (before, engine.filled()) {
            (Some((former, before)), Some((now, filled))) => {
                former == now && before <= mark && filled > mark
            }
            _ => false,
        }
    }
}

impl Engine {
    /// The container being filled, and so many bytes of it.
    pub fn filled(&self) -> Option<(ContainerId, usize)> {
        self.open.as_ref().map(|open| (open.id(), open.fill().0))
    }

    fn table_pages(&self) -> usize {
        TABLES * self.table.pages_max()
    }

    fn next_number(&mut self) -> Result<ContainerId, PoolError> {
        if self.next_container > CONTAINER_ID_MAX {
            return Err(PoolError::NoSpace("all container numbers are used up".to_owned()));
        }
        self.next_container += 1;
        Ok(ContainerId::new(self.next_container - 1))
    }

    /// Nothing acknowledged rests on a container that could not be made: a lack of file handles or
    /// memory passes, and the next attempt has the same number, unless others followed.
    fn give_number_back(&mut self, id: ContainerId) {
        if self.next_container == id.get() + 1 {
            self.next_container = id.get();
        }
    }
}

#[cfg(test)]
mod tests;
