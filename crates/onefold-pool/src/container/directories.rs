//! Container directories in memory, within a budget, for verifying index candidates.
//! Room: onefold-pool.
//! In: a candidate (container, ordinal). Out: its full fingerprint and location, or none.
//! Cost: 56 bytes per chunk of each cached container. A whole directory is loaded at the second
//! miss on a container in a short while, if the first found a duplicate; a lone miss reads one
//! entry of 44 bytes. Duplicates that come in the order in which they were first written therefore
//! cost one read per container, and scattered ones do not drag in what nobody asks for. Those of
//! new containers are at hand without a read, but may never be of use: until a duplicate is found
//! with one, they share an eighth of the budget.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprint;

use super::table::ContainerInfo;
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES};
use crate::key_hasher::KeyHasher;

/// Containers whose last lone miss that found a duplicate is remembered.
const RECENT_MISSES: usize = 256;
/// Directories of new containers that were of no use yet take at most the budget over this.
const NEW_SHARE: usize = 8;

/// Directories by container.
pub struct Directories {
    budget_bytes: usize,
    state: Mutex<State>,
}

struct State {
    cached: HashMap<ContainerId, Cached, BuildHasherDefault<KeyHasher>>,
    /// Second-chance queue over all that are not new.
    ring: Vec<ContainerId>,
    hand: usize,
    /// New ones, the oldest first.
    new: VecDeque<ContainerId>,
    bytes: usize,
    /// Of these, of those in `new`.
    new_bytes: usize,
    recent_misses: [u32; RECENT_MISSES],
}

struct Cached {
    entries: Arc<[DirectoryEntry]>,
    referenced: bool,
}

/// What [`Directories::entry`] found.
pub struct Looked {
    /// The entry, if there is one.
    pub entry: Option<DirectoryEntry>,
    /// The whole directory, if it was read and is worth keeping: it is for [`Directories::insert`],
    /// once the container is known to be there still.
    pub whole: Option<Arc<[DirectoryEntry]>>,
}

impl Directories {
    /// A cache of at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        let state = State {
            cached: HashMap::default(),
            ring: Vec::new(),
            hand: 0,
            new: VecDeque::new(),
            bytes: 0,
            new_bytes: 0,
            recent_misses: [0; RECENT_MISSES],
        };
        Self { budget_bytes, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Containers whose directories are here.
    #[cfg(test)]
    pub fn held(&self) -> Vec<ContainerId> {
        self.state().cached.keys().copied().collect()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// The directory of a container, if it is cached.
    pub fn cached(&self, id: ContainerId) -> Option<Arc<[DirectoryEntry]>> {
        self.state().cached.get(&id).map(|cached| Arc::clone(&cached.entries))
    }

    /// The directory of this container helped to find a duplicate.
    pub fn was_of_use(&self, id: ContainerId) {
        if let Some(cached) = self.state().cached.get_mut(&id) {
            cached.referenced = true;
        }
    }

    /// One entry of a sealed container, which is hoped to be `wanted`'s; `None` if it has no such
    /// entry.
    pub fn entry(
        &self,
        store: &dyn ContainerStore,
        (id, info): (ContainerId, &ContainerInfo),
        ordinal: usize,
        wanted: &Fingerprint,
    ) -> Result<Looked, PoolError> {
        if let Some(entries) = self.cached(id) {
            return Ok(Looked { entry: entries.get(ordinal).copied(), whole: None });
        }
        if ordinal >= info.chunks as usize {
            return Ok(Looked { entry: None, whole: None });
        }
        let slot = id.get() as usize % RECENT_MISSES;
        let again = self.state().recent_misses[slot] == id.get();
        if again && info.chunks as usize * size_of::<DirectoryEntry>() <= self.budget_bytes {
            let entries: Arc<[DirectoryEntry]> = load(store, id, info.len_bytes.into())?.into();
            return Ok(Looked { entry: entries.get(ordinal).copied(), whole: Some(entries) });
        }
        let directory_at =
            info.len_bytes as usize - FOOTER_BYTES - info.chunks as usize * ENTRY_BYTES;
        let mut bytes = [0; ENTRY_BYTES];
        store.read(id, (directory_at + ordinal * ENTRY_BYTES) as u64, &mut bytes)?;
        let entry = container::decode_entry(&bytes, id);
        if entry.is_some_and(|entry| entry.fingerprint == *wanted) {
            self.state().recent_misses[slot] = id.get();
        }
        Ok(Looked { entry, whole: None })
    }

    /// Keep a directory that was read because it was asked for. The caller sees to it that the
    /// container is not removed meanwhile.
    pub fn insert(&self, id: ContainerId, entries: Arc<[DirectoryEntry]>) {
        let mut state = self.state();
        if state.make_room(bytes_of(&entries), self.budget_bytes) && !state.cached.contains_key(&id)
        {
            state.bytes += bytes_of(&entries);
            state.cached.insert(id, Cached { entries, referenced: false });
            state.ring.push(id);
        }
    }

    /// Keep the directory of a new container, which is at hand anyway. The caller sees to it that
    /// the container is not removed meanwhile.
    pub fn insert_new(&self, id: ContainerId, entries: Arc<[DirectoryEntry]>) {
        let mut state = self.state();
        let bytes = bytes_of(&entries);
        if state.cached.contains_key(&id) || !state.make_room(bytes, self.budget_bytes) {
            return;
        }
        state.bytes += bytes;
        state.new_bytes += bytes;
        state.cached.insert(id, Cached { entries, referenced: false });
        state.new.push_back(id);
        while state.new_bytes > (self.budget_bytes / NEW_SHARE).max(bytes) {
            state.settle_oldest_new();
        }
    }

    /// Drop the directory of a container that has left the table.
    pub fn remove(&self, id: ContainerId) {
        let mut state = self.state();
        if let Some(cached) = state.cached.remove(&id) {
            let bytes = bytes_of(&cached.entries);
            state.bytes -= bytes;
            if state.new.contains(&id) {
                state.new_bytes -= bytes;
                state.new.retain(|&other| other != id);
            }
            state.ring.retain(|&other| other != id);
        }
    }
}

fn bytes_of(entries: &[DirectoryEntry]) -> usize {
    size_of_val(entries)
}

impl State {
    /// Let directories go until there is room for so many bytes; false if there never is.
    fn make_room(&mut self, bytes: usize, budget_bytes: usize) -> bool {
        while bytes <= budget_bytes && self.bytes + bytes > budget_bytes {
            if self.ring.is_empty() {
                self.settle_oldest_new();
            } else {
                self.evict_one();
            }
        }
        bytes <= budget_bytes
    }

    /// The oldest new directory stays if it was of use, and goes if not.
    fn settle_oldest_new(&mut self) {
        let Some(id) = self.new.pop_front() else { return };
        let Some(cached) = self.cached.get_mut(&id) else { return };
        let bytes = bytes_of(&cached.entries);
        self.new_bytes -= bytes;
        if std::mem::take(&mut cached.referenced) {
            self.ring.push(id);
        } else {
            self.bytes -= bytes;
            self.cached.remove(&id);
        }
    }

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
            self.bytes -= bytes_of(&cached.entries);
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

/// The directory of a sealed container that is in memory as a whole, checked.
pub fn of(bytes: &[u8], id: ContainerId) -> Result<Vec<DirectoryEntry>, PoolError> {
    let Some((rest, footer)) = bytes.split_last_chunk::<FOOTER_BYTES>() else {
        let problem = format!("{} bytes hold no footer", bytes.len());
        return Err(PoolError::corrupt(id.to_string(), 0, problem));
    };
    let footer = container::decode_footer(footer, id, bytes.len() as u64)?;
    let end = footer.directory_at + footer.count * ENTRY_BYTES;
    let directory = rest.get(footer.directory_at..end).ok_or_else(|| {
        PoolError::corrupt(id.to_string(), 0, "its directory is longer than the container")
    })?;
    container::decode_directory(directory, id, &footer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::container::Owner;
    use crate::pba::Location;

    const EACH: usize = 100 * size_of::<DirectoryEntry>();

    fn directory() -> Arc<[DirectoryEntry]> {
        let entry = DirectoryEntry {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            location: Location::new(2, 1),
            owner: Owner::UNKNOWN,
        };
        vec![entry; 100].into()
    }

    #[test]
    fn new_directories_of_no_use_take_an_eighth_and_push_no_other_out() {
        let directories = Directories::new(80 * EACH);
        let id = ContainerId::new;
        for number in 1..=50 {
            directories.insert(id(number), directory());
        }
        for number in 101..=1000 {
            directories.insert_new(id(number), directory());
            if number == 500 {
                directories.was_of_use(id(number));
            }
        }
        assert!((1..=50).all(|number| directories.cached(id(number)).is_some()));
        let held: Vec<u32> =
            (101..=1000).filter(|&n| directories.cached(id(n)).is_some()).collect();
        assert_eq!(held, [vec![500], (991..=1000).collect()].concat());
        assert_eq!(directories.bytes(), 61 * EACH);
        for number in 1..=1000 {
            directories.remove(id(number));
        }
        assert_eq!(directories.bytes(), 0);
    }

    #[test]
    fn the_budget_holds_whoever_comes() {
        let directories = Directories::new(8 * EACH);
        for number in 1..=100 {
            directories.insert_new(ContainerId::new(2 * number), directory());
            directories.was_of_use(ContainerId::new(2 * number));
            directories.insert(ContainerId::new(2 * number + 1), directory());
            assert!(directories.bytes() <= 8 * EACH);
            assert!(directories.cached(ContainerId::new(2 * number + 1)).is_some());
        }
        let none = Directories::new(EACH - 1);
        none.insert(ContainerId::new(1), directory());
        none.insert_new(ContainerId::new(2), directory());
        assert_eq!(none.bytes(), 0);
    }
}
