//! Container directories in memory, within a budget, for verifying index candidates.
//! Room: onefold-pool.
//! In: a candidate (container, ordinal). Out: its full fingerprint and location, or none.
//! Cost: 36 bytes per chunk of each cached container. A whole directory is loaded at the second
//! miss on a container in a short while; a lone miss reads one entry of 40 bytes. Duplicates that
//! come in the order in which they were first written therefore cost one read per container, and
//! scattered ones do not drag in what nobody asks for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::{ContainerId, ContainerStore};

use super::table::ContainerInfo;
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES};

/// Containers whose last lone miss is remembered.
const RECENT_MISSES: usize = 256;

/// Directories by container.
pub struct Directories {
    budget_bytes: usize,
    state: Mutex<State>,
}

struct State {
    cached: HashMap<ContainerId, Cached>,
    /// Second-chance queue over `cached`.
    ring: Vec<ContainerId>,
    hand: usize,
    bytes: usize,
    recent_misses: [u32; RECENT_MISSES],
}

struct Cached {
    entries: Arc<[DirectoryEntry]>,
    referenced: bool,
}

impl Directories {
    /// A cache of at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        let state = State {
            cached: HashMap::new(),
            ring: Vec::new(),
            hand: 0,
            bytes: 0,
            recent_misses: [0; RECENT_MISSES],
        };
        Self { budget_bytes, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// The directory of a container, if it is cached.
    pub fn cached(&self, id: ContainerId) -> Option<Arc<[DirectoryEntry]>> {
        let mut state = self.state();
        let cached = state.cached.get_mut(&id)?;
        cached.referenced = true;
        Some(Arc::clone(&cached.entries))
    }

    /// One entry of a sealed container; `None` if it has no such entry.
    pub fn entry(
        &self,
        store: &dyn ContainerStore,
        id: ContainerId,
        info: &ContainerInfo,
        ordinal: usize,
    ) -> Result<Option<DirectoryEntry>, PoolError> {
        if let Some(entries) = self.cached(id) {
            return Ok(entries.get(ordinal).copied());
        }
        if ordinal >= info.chunks as usize {
            return Ok(None);
        }
        let slot = id.get() as usize % RECENT_MISSES;
        let again = std::mem::replace(&mut self.state().recent_misses[slot], id.get()) == id.get();
        if again && info.chunks as usize * size_of::<DirectoryEntry>() <= self.budget_bytes {
            let entries: Arc<[DirectoryEntry]> = load(store, id, info.len_bytes.into())?.into();
            let entry = entries.get(ordinal).copied();
            self.insert(id, entries);
            return Ok(entry);
        }
        let directory_at =
            info.len_bytes as usize - FOOTER_BYTES - info.chunks as usize * ENTRY_BYTES;
        let mut bytes = [0; ENTRY_BYTES];
        store.read(id, (directory_at + ordinal * ENTRY_BYTES) as u64, &mut bytes)?;
        Ok(container::decode_entry(&bytes, id))
    }

    /// Keep a directory that is at hand anyway.
    pub fn insert(&self, id: ContainerId, entries: Arc<[DirectoryEntry]>) {
        let bytes = entries.len() * size_of::<DirectoryEntry>();
        let mut state = self.state();
        if bytes > self.budget_bytes || state.cached.contains_key(&id) {
            return;
        }
        while state.bytes + bytes > self.budget_bytes {
            state.evict_one();
        }
        state.bytes += bytes;
        state.cached.insert(id, Cached { entries, referenced: false });
        state.ring.push(id);
    }

    /// Drop the directory of a container that is gone.
    pub fn remove(&self, id: ContainerId) {
        let mut state = self.state();
        if let Some(cached) = state.cached.remove(&id) {
            state.bytes -= cached.entries.len() * size_of::<DirectoryEntry>();
            state.ring.retain(|&other| other != id);
        }
    }
}

impl State {
    fn evict_one(&mut self) {
        while !self.ring.is_empty() {
            self.hand %= self.ring.len();
            let id = self.ring[self.hand];
            let Some(cached) = self.cached.get_mut(&id) else {
                self.ring.swap_remove(self.hand);
                continue;
            };
            if std::mem::take(&mut cached.referenced) {
                self.hand += 1;
                continue;
            }
            self.bytes -= cached.entries.len() * size_of::<DirectoryEntry>();
            self.cached.remove(&id);
            self.ring.swap_remove(self.hand);
            return;
        }
    }
}

/// Read and verify the whole directory of a sealed container of `len_bytes`.
pub fn load(
    store: &dyn ContainerStore,
    id: ContainerId,
    len_bytes: u64,
) -> Result<Vec<DirectoryEntry>, PoolError> {
    let footer_at = len_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| {
        PoolError::corrupt(id.to_string(), 0, format!("{len_bytes} bytes hold no footer"))
    })?;
    let mut footer = [0; FOOTER_BYTES];
    store.read(id, footer_at, &mut footer)?;
    let footer = container::decode_footer(&footer, id, len_bytes)?;
    let mut bytes = vec![0; footer.count * ENTRY_BYTES];
    store.read(id, footer.directory_at as u64, &mut bytes)?;
    container::decode_directory(&bytes, id, &footer)
}
