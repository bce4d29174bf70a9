//! What the index learns of containers that were there before the pool was opened.
//! Room: onefold-pool.
//! In: directories, newest container first. Out: the index, until its memory is used; of the others
//! only hooks, until these have no room either.
//! Hooks of containers whose fingerprints are in a run are read from there: its first 64th.
//! Opening reads none of them, and neither does a pool that nobody writes to. The first write has
//! all of them read, unless the door has said that it does so beside its clients
//! ([`Pool::fill_index_beside`]): what is written meanwhile may be stored although it was there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use onefold_block::ContainerId;

use crate::container::directories;
use crate::container::open::OpenContainer;
use crate::engine::Inner;
use crate::index::{Place, is_hook};
use crate::pool::Pool;
use crate::sync;

/// Containers looked for under one hold of the engine's lock.
const CONTAINERS_PER_LOOK: usize = 64;

/// How far it is.
#[derive(Default)]
pub(crate) struct IndexFilling {
    /// Containers below this number are still to be read; `None` before the pool is recovered.
    pub below: Mutex<Option<ContainerId>>,
    /// How many of them there are, about.
    left: AtomicU64,
    /// Hooks were read from the runs.
    hooks_read: AtomicBool,
    /// Nothing is left to read, or has a place in memory.
    done: AtomicBool,
    /// The door sees to it.
    beside: AtomicBool,
}

impl IndexFilling {
    /// Containers that are still to be read, about.
    pub fn containers_left(&self) -> u64 {
        if self.done.load(Ordering::Acquire) { 0 } else { self.left.load(Ordering::Relaxed) }
    }
}

impl Pool {
    /// Writes shall not wait for the index: the caller has [`Pool::fill_index`] called by a thread
    /// without a client until it says that it is done.
    pub fn fill_index_beside(&self) {
        self.inner.index_filling.beside.store(true, Ordering::Release);
    }

    /// Read directories of about `budget_bytes` into the index. True if none is left.
    pub fn fill_index(&self, budget_bytes: u64) -> bool {
        self.inner.read_only || self.inner.fill_index(budget_bytes)
    }
}

impl Inner {
    /// After recovery: all containers up to here are to be read.
    pub fn begin_index_filling(&self, newest: ContainerId, containers: usize) {
        let filling = &self.index_filling;
        let below = ContainerId::new(newest.get().saturating_add(1));
        *filling.below.lock().unwrap_or_else(PoisonError::into_inner) = Some(below);
        filling.left.store(containers as u64, Ordering::Relaxed);
    }

    /// The index has more memory than before: read all again. `below` is what
    /// [`IndexFilling::below`] guards. What is in memory alone, or was written since, is told here.
    pub fn fill_index_again(&self, below: &mut Option<ContainerId>) {
        let filling = &self.index_filling;
        let containers = self.engine().table.len();
        *below = Some(ContainerId::new(self.newest().get().saturating_add(1)));
        filling.left.store(containers as u64, Ordering::Relaxed);
        filling.hooks_read.store(false, Ordering::Relaxed);
        filling.done.store(false, Ordering::Release);
        let live: Vec<Arc<OpenContainer>> = {
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            live.values().cloned().collect()
        };
        for container in live {
            self.tell_index(container.id(), container.hashes().into_iter());
        }
    }

    /// Whether the index has the fingerprints of all that is stored.
    pub fn index_knows_all(&self) -> bool {
        !self.index.is_full() && self.index_filling.containers_left() == 0
    }

    /// Before a write looks for duplicates.
    pub fn fill_index_for_write(&self) {
        let filling = &self.index_filling;
        if !filling.done.load(Ordering::Acquire) && !filling.beside.load(Ordering::Acquire) {
            self.fill_index(u64::MAX);
        }
    }

    fn fill_index(&self, budget_bytes: u64) -> bool {
        let filling = &self.index_filling;
        if filling.done.load(Ordering::Acquire) {
            return true;
        }
        let mut below = sync::lock(&filling.below);
        let mut read_bytes = 0;
        while read_bytes < budget_bytes && !filling.done.load(Ordering::Acquire) {
            let next: Vec<(ContainerId, u32)> = {
                let engine = self.engine();
                let upto = below.unwrap_or(ContainerId::new(0));
                let sealed = engine.table.below(upto).filter(|(_, info)| info.is_sealed());
                let whole = sealed.filter(|(_, info)| !info.is_punched());
                whole.map(|(id, info)| (id, info.len_bytes)).take(CONTAINERS_PER_LOOK).collect()
            };
            if next.is_empty() {
                filling.done.store(true, Ordering::Release);
            }
            for (id, len) in next {
                let known = self.index.is_full() && self.is_in_run(id);
                read_bytes += if known { 0 } else { self.learn(id, len.into()) };
                *below = Some(id);
                filling.left.fetch_sub(1, Ordering::Relaxed);
                let was_full = filling.hooks_read.load(Ordering::Acquire);
                if self.index.is_full() && !was_full {
                    // What the others have is known from the runs, as far as these go.
                    filling.hooks_read.store(true, Ordering::Release);
                    read_bytes += self.read_hooks_of_runs();
                }
                if self.index.is_full_of_hooks() {
                    filling.done.store(true, Ordering::Release);
                    break;
                }
                if read_bytes >= budget_bytes {
                    break;
                }
            }
        }
        if filling.done.load(Ordering::Acquire) {
            self.index.forget_former();
            if !self.index.is_full() && self.drop_filters() {
                self.fill_index_again(&mut below);
            }
        }
        let done = filling.done.load(Ordering::Acquire);
        drop(below);
        if done && self.index.is_full() {
            self.ready_filters();
        }
        done
    }

    fn is_in_run(&self, id: ContainerId) -> bool {
        let state = sync::lock(&self.deduplication);
        state.runs().is_some_and(|runs| runs.covers(id))
    }

    /// Tell the index of the hooks in all runs. Returns the bytes read.
    fn read_hooks_of_runs(&self) -> u64 {
        let mut state = sync::lock(&self.deduplication);
        let read = self.hooks_of_runs(&mut state, &mut |pairs| {
            let places: Vec<(u64, Place)> = pairs
                .iter()
                .filter_map(|pair| {
                    let place = Place::new(pair.container(), pair.ordinal() as u16)?;
                    Some((pair.hash(), place))
                })
                .collect();
            self.index.insert_many(&places);
        });
        read.unwrap_or_else(|error| {
            // They are hints: the directories tell the same.
            tracing::warn!("fingerprints are read from their containers: {error}");
            0
        })
    }

    /// Tell the index of a container's chunks, in order.
    fn tell_index(&self, id: ContainerId, hashes: impl Iterator<Item = u64>) {
        // What is older pushes out nothing that is newer.
        let all = !self.index.is_full();
        let places: Vec<(u64, Place)> = (0..)
            .zip(hashes)
            .filter(|&(_, hash)| all || is_hook(hash))
            .filter_map(|(ordinal, hash)| Some((hash, Place::new(id, ordinal)?)))
            .collect();
        self.index.insert_many(&places);
    }

    /// Tell the index of what is in a container. Returns the bytes read, about.
    fn learn(&self, id: ContainerId, len: u64) -> u64 {
        if self.live(id).is_some() {
            // The index was told when the filling began, or by who filled it since.
            return 0;
        }
        match directories::load(&*self.plain, id, len) {
            Ok(entries) => {
                self.tell_index(id, entries.iter().map(|entry| entry.fingerprint.prefix64()));
                crate::format::container::directory_bytes(entries.len()) as u64
            }
            // It may have gone meanwhile.
            Err(error) if self.engine().table.get(id).is_some() => {
                tracing::error!("its chunks will not be shared: {error}");
                0
            }
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder, SplitMix64};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn an_index_with_more_memory_reads_all_containers_again() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        assert!(pool.fill_index(u64::MAX));
        let filling = &pool.inner.index_filling;
        filling.hooks_read.store(true, Ordering::Relaxed);
        let containers = pool.inner.engine().table.len() as u64;
        assert!(containers > 0 && filling.containers_left() == 0);
        let told = pool.inner.index.stats().entries;
        {
            let mut below = filling.below.lock().unwrap();
            pool.inner.fill_index_again(&mut below);
            assert!(below.is_some_and(|below| below.get() > pool.inner.newest().get()));
        }
        assert_eq!(filling.containers_left(), containers);
        assert!(!filling.hooks_read.load(Ordering::Relaxed));
        assert_eq!(pool.inner.index.stats().entries, told, "the same is told once");
        assert!(pool.fill_index(u64::MAX) && filling.containers_left() == 0);
    }

    #[test]
    fn an_index_that_is_full_of_hooks_reads_no_more_containers() {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&folder, &settings);
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &SplitMix64::new(1).bytes(1 << 20), true).unwrap();
        pool.set_index_memory(1 << 20).unwrap();
        let place = Place::new(ContainerId::new(77), 0).unwrap();
        let hashes = (0..).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let hooks = hashes.filter(|&hash| is_hook(hash)).map(|hash| (hash, place));
        pool.inner.index.insert_many(&hooks.take(200_000).collect::<Vec<_>>());
        assert!(pool.inner.index.is_full_of_hooks());
        pool.inner.fill_index_again(&mut pool.inner.index_filling.below.lock().unwrap());
        assert!(pool.inner.index_filling.containers_left() > 2);
        assert!(pool.fill_index(1), "none of them would find a place");
    }
}
