//! Container directories in memory, within a budget, for verifying index candidates.
//! Room: onefold-pool.
//! In: a candidate (container, ordinal). Out: its full fingerprint and location, or none.
//! Cost: 28 bytes per chunk of each container whose directory is here. A whole directory is loaded
//! where [`Misses`] say that it is worth it; otherwise one entry of 44 bytes is read. Those of new
//! containers are at hand without a read, but may never be of use: until a duplicate is found with
//! one, they share an eighth of the budget. What is written in the order of a container leads on to
//! the next one's directory before it is asked for.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprint;

use super::misses::{Miss, Misses, Worth};
use super::table::ContainerInfo;
use crate::error::PoolError;
use crate::format::container::{
    self, DirectoryEntry, ENTRY_BYTES, FINGERPRINT_BYTES, FOOTER_BYTES,
};
use crate::key_hasher::KeyHasher;
use crate::pba::Location;

/// Directories of new containers that were of no use yet take at most the budget over this.
const NEW_SHARE: usize = 8;
/// What follows a container is read once so many eighths of it have been passed.
const NEXT_EIGHTHS: usize = 6;

/// Share of the index memory that is for directories: an eighth. Those of some 600 containers fit
/// into the default; the system's page cache has the others at hand.
const INDEX_SHARE: u64 = 8;
/// Memory for directories, at least: that of the fullest container.
const BYTES_MIN: u64 = 256 << 10;

/// The part of the index memory that is for directories, in bytes.
pub fn bytes_of_index_memory(bytes: u64) -> u64 {
    (bytes / INDEX_SHARE).max(BYTES_MIN)
}

/// What a directory says of a chunk, without its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    fingerprint: [u8; FINGERPRINT_BYTES],
    /// Its record.
    pub location: Location,
}

const _: () = assert!(size_of::<Known>() == FINGERPRINT_BYTES + 4);

impl Known {
    /// Of one entry of a directory.
    pub fn of(entry: &DirectoryEntry) -> Self {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(&entry.fingerprint.as_bytes()[..FINGERPRINT_BYTES]);
        Self { fingerprint, location: entry.location }
    }

    /// Of all entries of a directory.
    pub fn all(entries: &[DirectoryEntry]) -> Arc<[Self]> {
        entries.iter().map(Self::of).collect()
    }

    /// Whether it has this fingerprint, of which no more than the bytes that are kept is not zero.
    pub fn is(&self, fingerprint: &Fingerprint) -> bool {
        self.fingerprint == fingerprint.as_bytes()[..FINGERPRINT_BYTES]
    }

    /// The bytes of its fingerprint that are kept.
    pub const fn fingerprint(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.fingerprint
    }

    /// The first 64 bits of its fingerprint, as the index has them.
    pub fn prefix64(&self) -> u64 {
        let mut bytes = [0; 32];
        bytes[..FINGERPRINT_BYTES].copy_from_slice(&self.fingerprint);
        Fingerprint::from_bytes(bytes).prefix64()
    }
}

/// Directories by container.
pub struct Directories {
    /// Changes with the state locked.
    budget_bytes: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    cached: HashMap<ContainerId, Cached, BuildHasherDefault<KeyHasher>>,
    /// Second-chance queue over all that are not new.
    ring: VecDeque<ContainerId>,
    /// New ones, the oldest first.
    new: VecDeque<ContainerId>,
    bytes: usize,
    /// Of these, of those in `new`.
    new_bytes: usize,
    misses: Misses,
}

struct Cached {
    entries: Arc<[Known]>,
    referenced: bool,
    /// What is written follows it, and the next one was not asked for yet.
    leads_on: bool,
}

/// What [`Directories::entry`] found.
pub struct Looked {
    /// The entry, if there is one.
    pub entry: Option<Known>,
    /// The whole directory, if it was read and is worth keeping: it is for [`Directories::insert`],
    /// once the container is known to be there still.
    pub whole: Option<(Arc<[Known]>, Worth)>,
}

impl Directories {
    /// Memory that it may use, in bytes.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Use so much from now on: directories go until they fit.
    pub fn set_budget(&self, budget_bytes: usize) {
        let mut state = self.state();
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        state.make_room(0, budget_bytes);
    }

    /// A cache of at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        let state = State {
            cached: HashMap::default(),
            ring: VecDeque::new(),
            new: VecDeque::new(),
            bytes: 0,
            new_bytes: 0,
            misses: Misses::default(),
        };
        Self { budget_bytes: AtomicUsize::new(budget_bytes), state: Mutex::new(state) }
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
    pub fn cached(&self, id: ContainerId) -> Option<Arc<[Known]>> {
        self.state().cached.get(&id).map(|cached| Arc::clone(&cached.entries))
    }

    /// The directory of this container helped to find a duplicate of its chunk `ordinal`. True if
    /// the one after it should be read ahead: this is said once.
    pub fn was_of_use(&self, id: ContainerId, ordinal: usize) -> bool {
        let mut state = self.state();
        let Some(cached) = state.cached.get_mut(&id) else { return false };
        cached.referenced = true;
        let far = ordinal >= cached.entries.len() * NEXT_EIGHTHS / 8;
        far && std::mem::take(&mut cached.leads_on)
    }

    /// Whether a directory of so many chunks can be kept.
    pub fn has_room_for(&self, chunks: usize) -> bool {
        chunks * size_of::<Known>() <= self.budget_bytes()
    }

    /// One entry of a sealed container, which is hoped to be `wanted`'s; `None` if it has no such
    /// entry.
    pub fn entry(
        &self,
        store: &dyn ContainerStore,
        (id, info): (ContainerId, &ContainerInfo),
        (ordinal, miss): (usize, Miss),
        wanted: &Fingerprint,
    ) -> Result<Looked, PoolError> {
        if let Some(entries) = self.cached(id) {
            return Ok(Looked { entry: entries.get(ordinal).copied(), whole: None });
        }
        let worth = self.state().misses.worth(&miss);
        if let Some(worth) = worth.filter(|_| self.has_room_for(info.chunks as usize)) {
            let entries = Known::all(&load(store, id, info.len_bytes.into())?);
            return Ok(Looked {
                entry: entries.get(ordinal).copied(),
                whole: Some((entries, worth)),
            });
        }
        let entry = read_entry(store, (id, info), ordinal)?;
        if entry.is_some_and(|entry| entry.fingerprint == *wanted) {
            self.state().misses.note(miss);
        }
        Ok(Looked { entry: entry.as_ref().map(Known::of), whole: None })
    }

    /// Keep a directory that was read for this reason. The caller sees to it that the container is
    /// not removed meanwhile.
    pub fn insert(&self, id: ContainerId, entries: Arc<[Known]>, worth: Worth) {
        let mut state = self.state();
        if !state.cached.contains_key(&id)
            && state.make_room(bytes_of(&entries), self.budget_bytes())
        {
            state.bytes += bytes_of(&entries);
            let leads_on = worth == Worth::Followed;
            state.cached.insert(id, Cached { entries, referenced: false, leads_on });
            state.ring.push_back(id);
        }
    }

    /// Keep the directory of a new container, which is at hand anyway. The caller sees to it that
    /// the container is not removed meanwhile.
    pub fn insert_new(&self, id: ContainerId, entries: Arc<[Known]>) {
        let mut state = self.state();
        let bytes = bytes_of(&entries);
        if state.cached.contains_key(&id) || !state.make_room(bytes, self.budget_bytes()) {
            return;
        }
        state.bytes += bytes;
        state.new_bytes += bytes;
        state.cached.insert(id, Cached { entries, referenced: false, leads_on: false });
        state.new.push_back(id);
        while state.new_bytes > (self.budget_bytes() / NEW_SHARE).max(bytes) {
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

fn bytes_of(entries: &[Known]) -> usize {
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
            self.ring.push_back(id);
        } else {
            self.bytes -= bytes;
            self.cached.remove(&id);
        }
    }

    /// The one that was of use least recently goes.
    fn evict_one(&mut self) {
        while let Some(id) = self.ring.pop_front() {
            let Some(cached) = self.cached.get_mut(&id) else { continue };
            if std::mem::take(&mut cached.referenced) {
                self.ring.push_back(id);
                continue;
            }
            self.bytes -= bytes_of(&cached.entries);
            self.cached.remove(&id);
            return;
        }
    }
}

/// Read and verify one entry of a sealed container's directory; `None` if it has no such entry, or
/// a damaged one.
pub fn read_entry(
    store: &dyn ContainerStore,
    (id, info): (ContainerId, &ContainerInfo),
    ordinal: usize,
) -> Result<Option<DirectoryEntry>, PoolError> {
    if ordinal >= info.chunks as usize {
        return Ok(None);
    }
    let directory_at = info.len_bytes as usize - FOOTER_BYTES - info.chunks as usize * ENTRY_BYTES;
    let mut bytes = [0; ENTRY_BYTES];
    store.read(id, (directory_at + ordinal * ENTRY_BYTES) as u64, &mut bytes)?;
    Ok(container::decode_entry(&bytes, id))
}

/// Read and verify the whole directory of a sealed container of `len_bytes`.
pub fn load(
    store: &dyn ContainerStore,
    id: ContainerId,
    len_bytes: u64,
) -> Result<Vec<DirectoryEntry>, PoolError> {
    let footer_at = len_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| {
        PoolError::corrupt_whole(id.to_string(), format!("{len_bytes} bytes hold no footer"))
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
        return Err(PoolError::corrupt_whole(id.to_string(), problem));
    };
    let footer = container::decode_footer(footer, id, bytes.len() as u64)?;
    let end = footer.directory_at + footer.count * ENTRY_BYTES;
    let directory = rest.get(footer.directory_at..end).ok_or_else(|| {
        PoolError::corrupt_whole(id.to_string(), "its directory is longer than the container")
    })?;
    container::decode_directory(directory, id, &footer)
}

#[cfg(test)]
mod tests {
    use onefold_block::{FolderContainerStore, SimFolder};

    use super::*;
    use crate::format::container::Owner;

    const EACH: usize = 100 * size_of::<Known>();

    fn directory() -> Arc<[Known]> {
        let entry = DirectoryEntry {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            location: Location::new(2, 1),
            owner: Owner::UNKNOWN,
        };
        Known::all(&vec![entry; 100])
    }

    #[test]
    fn a_container_has_as_many_entries_as_it_has_chunks() {
        let (id, entry) = (ContainerId::new(3), |offset| DirectoryEntry {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            location: Location::new(offset, 1),
            owner: Owner::UNKNOWN,
        });
        let store = FolderContainerStore::new(Arc::new(SimFolder::new()));
        store.create(id, 1 << 20).unwrap();
        let bytes = container::encode_directory(id, &[entry(3), entry(4)], 0);
        store.append(id, 0, &bytes).unwrap();
        let len_bytes = bytes.len() as u32;
        let info = ContainerInfo { len_bytes, chunks: 2, ..ContainerInfo::default() };
        let found = [0, 1, 2, 3].map(|ordinal| read_entry(&store, (id, &info), ordinal).unwrap());
        assert_eq!(
            found.map(|entry| entry.map(|e| e.location.offset_bytes())),
            [Some(48), Some(64), None, None]
        );
    }

    #[test]
    fn what_is_known_of_a_record_is_its_fingerprint_as_far_as_that_is_kept() {
        let kept = |from: u8| {
            let bytes = std::array::from_fn(|at| from + at as u8);
            container::kept(&Fingerprint::from_bytes(bytes))
        };
        let (fingerprint, location) = (kept(1), Location::new(3, 1));
        let entry = DirectoryEntry { fingerprint, location, owner: Owner::UNKNOWN };
        let known = Known::of(&entry);
        assert!(known.is(&fingerprint) && !known.is(&kept(2)) && known.location == location);
        assert_eq!(known.fingerprint()[..], fingerprint.as_bytes()[..FINGERPRINT_BYTES]);
        assert_eq!(known.prefix64(), fingerprint.prefix64());
    }

    #[test]
    fn new_directories_of_no_use_take_an_eighth_and_push_no_other_out() {
        let directories = Directories::new(80 * EACH);
        let id = ContainerId::new;
        for number in 1..=50 {
            directories.insert(id(number), directory(), Worth::Popular);
        }
        for number in 101..=1000 {
            directories.insert_new(id(number), directory());
            if number == 500 {
                assert!(!directories.was_of_use(id(number), 99), "nobody followed it");
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
        let state = directories.state();
        assert_eq!((state.ring.len(), state.new.len(), state.new_bytes), (0, 0, 0));
    }

    #[test]
    fn what_is_too_short_for_a_directory_is_said_from_the_beginning_on() {
        let said = of(&[0; 3], ContainerId::new(7)).unwrap_err().to_string();
        assert_eq!(said, "corrupt container 7 at byte 0: 3 bytes hold no footer");
        let store = FolderContainerStore::new(Arc::new(SimFolder::new()));
        let said = load(&store, ContainerId::new(7), 3).unwrap_err().to_string();
        assert_eq!(said, "corrupt container 7 at byte 0: 3 bytes hold no footer");
    }

    #[test]
    fn the_budget_holds_whoever_comes() {
        let directories = Directories::new(8 * EACH);
        for number in 1..=100 {
            directories.insert_new(ContainerId::new(2 * number), directory());
            directories.was_of_use(ContainerId::new(2 * number), 0);
            directories.insert(ContainerId::new(2 * number + 1), directory(), Worth::Popular);
            assert!(directories.bytes() <= 8 * EACH);
            assert!(directories.cached(ContainerId::new(2 * number + 1)).is_some());
        }
        let none = Directories::new(EACH - 1);
        none.insert(ContainerId::new(1), directory(), Worth::Popular);
        none.insert_new(ContainerId::new(2), directory());
        assert_eq!(none.bytes(), 0);
    }

    #[test]
    fn with_less_memory_directories_go_in_their_turn_until_they_fit() {
        let directories = Directories::new(8 * EACH);
        let id = ContainerId::new;
        let held = || {
            let mut held: Vec<u32> = directories.held().iter().map(|id| id.get()).collect();
            held.sort_unstable();
            (held, directories.bytes() / EACH)
        };
        for number in 1..=7 {
            directories.insert(id(number), directory(), Worth::Popular);
        }
        directories.insert_new(id(8), directory());
        assert!(directories.has_room_for(800) && !directories.has_room_for(801));
        assert!(!directories.was_of_use(id(1), 0));
        directories.set_budget(6 * EACH);
        assert_eq!(directories.budget_bytes(), 6 * EACH);
        // The first was of use, and has another round.
        assert_eq!(held(), (vec![1, 4, 5, 6, 7, 8], 6));
        directories.insert(id(9), directory(), Worth::Popular);
        assert_eq!(held().1, 6);
        directories.set_budget(0);
        assert_eq!(held(), (Vec::new(), 0));
        directories.set_budget(2 * EACH);
        for number in 10..20 {
            directories.insert(id(number), directory(), Worth::Popular);
            directories.insert(id(number), directory(), Worth::Popular);
            assert_eq!(held().1, 2.min(number as usize - 9), "{number}");
        }
    }

    #[test]
    fn the_next_directory_is_wanted_once_after_six_eighths_of_one_that_is_followed() {
        let directories = Directories::new(8 * EACH);
        let [followed, popular] = [1, 2].map(ContainerId::new);
        directories.insert(followed, directory(), Worth::Followed);
        directories.insert(popular, directory(), Worth::Popular);
        for (ordinal, wanted) in [(0, false), (74, false), (75, true), (76, false), (99, false)] {
            assert_eq!(directories.was_of_use(followed, ordinal), wanted, "{ordinal}");
            assert!(!directories.was_of_use(popular, ordinal));
        }
        assert!(!directories.was_of_use(ContainerId::new(3), 99), "it is not here");
    }

    #[test]
    fn what_was_removed_takes_no_turn_any_more() {
        let directories = Directories::new(16 * EACH);
        let id = ContainerId::new;
        let held = |among: std::ops::Range<u32>| {
            among.filter(|&n| directories.cached(id(n)).is_some()).collect::<Vec<_>>()
        };
        // Two new ones may be here. One comes, goes, and comes again behind another.
        directories.insert_new(id(1), directory());
        directories.remove(id(1));
        for number in [2, 1, 3] {
            directories.insert_new(id(number), directory());
        }
        assert_eq!(held(0..10), [1, 3]);
        for number in 10..24 {
            directories.insert(id(number), directory(), Worth::Popular);
        }
        for gone in [1, 3, 10, 12, 23] {
            directories.remove(id(gone));
        }
        for number in 30..36 {
            directories.insert(id(number), directory(), Worth::Popular);
        }
        assert_eq!((held(30..36).len(), directories.bytes()), (6, 16 * EACH));
        for number in 40..140 {
            directories.insert(id(number), directory(), Worth::Popular);
            assert!(directories.bytes() <= 16 * EACH && !held(number..number + 1).is_empty());
        }
        assert!(held(10..36).is_empty());
        // One that has room only by itself.
        directories.set_budget(EACH);
        for number in [1, 2] {
            directories.insert(id(number), directory(), Worth::Popular);
            assert_eq!((held(number..number + 1).len(), directories.bytes()), (1, EACH));
        }
    }
}
