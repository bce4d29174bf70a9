//! The container store over a slow and a fast one.
//! Room: onefold-cache.   In: reads of containers.   Out: the same bytes, from the fast tier where
//! the policy keeps a copy.
//! Invariants: (1) the slow store holds everything; the fast tier may be lost, full or wrong at
//! any time and no read gives other bytes or fails for it  (2) a copy is made only of a container
//! that is not being filled, and goes when the container changes or goes  (3) the policy is asked
//! once for every read of such a container, as in a simulation of the same requests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use onefold_block::{
    ContainerId, ContainerStore, Folder, FolderContainerStore, FolderLock, StoreError,
};

use super::copy::{self, Checksums};
use super::identity;
use super::saved::{self, Saved, TierError, TierTotals};
use super::size::TierSize;
use super::sync;
use crate::cache::Capacity;
use crate::policy::Policy;
use crate::registry::{Choice, make_online};
use crate::state::State as PolicyState;

/// Folder of the copies.
const COPIES: &str = "copies";
/// Copies written between two durable saves of the state, and at most between any two: what a
/// crash forgets.
const WRITES_PER_SAVE: u64 = 64;
/// In a small cache, the state is saved whenever this share of it is new.
const SHARE_PER_SAVE: u64 = 8;
/// Bytes of state that [`TieredStore::save_changes`] writes per call, in the long run: every 5 s,
/// these are 4 GiB a day.
const BYTES_PER_CALL: u64 = 256 << 10;
/// Reads of one burst after which the policy is asked again all the same: a container of 4 MiB in
/// reads of 64 KiB.
const BURST_READS: u32 = 64;
/// Admissions that are skipped at most after writes that failed one after the other.
const SKIP_MAX: u64 = 1024;

/// How to cache.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Marks copies as those of one slow store.
    pub owner: [u8; 16],
    /// The policy, as [`Choice::parse`] reads it.
    pub policy: String,
    /// How large the fast tier may become.
    pub size: TierSize,
    /// Largest container, in bytes.
    pub container_bytes: u32,
    /// How many of the containers read last the policy is not asked about again: a reader that
    /// goes through one in many small reads uses it once. 0 asks about every read.
    pub burst: usize,
}

/// What a tiered store holds and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStatus {
    /// The policy, as it was chosen.
    pub policy: String,
    /// Bytes that copies may take.
    pub capacity_bytes: u64,
    /// Bytes that they take.
    pub cached_bytes: u64,
    /// How many there are.
    pub cached_containers: u64,
    /// What was counted, over all restarts.
    pub totals: TierTotals,
}

/// A slow store with copies of some of its containers on a fast one.
pub struct TieredStore {
    slow: Arc<dyn ContainerStore>,
    fast: FolderContainerStore,
    folder: Arc<dyn Folder>,
    options: TierOptions,
    state: Mutex<State>,
    /// The last saved state. Taken before `state`, never after it.
    saves: Mutex<Saves>,
    _lock: Option<FolderLock>,
}

/// The last saved state.
struct Saves {
    sequence: u64,
    /// What was counted by then.
    totals: TierTotals,
    /// Calls of [`TieredStore::save_changes`] to let pass before the next.
    wait: u64,
}

struct State {
    policy: Box<dyn Policy>,
    copies: HashMap<ContainerId, Arc<OnceLock<Option<Checksums>>>>,
    /// Containers that the policy keeps in memory for now.
    held: HashMap<ContainerId, Arc<Vec<u8>>>,
    /// Copies that a thread is making.
    making: HashSet<ContainerId>,
    /// Of these, those that must not be used.
    spoiled: HashSet<ContainerId>,
    /// Containers that are being filled.
    open: HashSet<ContainerId>,
    /// Containers read last, the latest at the end, and their reads since the policy was asked.
    recent: VecDeque<(ContainerId, u32)>,
    slow_bytes: u64,
    totals: TierTotals,
    writes_since_save: u64,
    writes_since_durable: u64,
    /// Admissions to skip before the fast tier is written to again, and how many were last time.
    skip: u64,
    last_skip: u64,
}

/// Where a read is served.
enum Way {
    Slow,
    Fast(Arc<OnceLock<Option<Checksums>>>),
    Memory(Arc<Vec<u8>>),
    /// Read all of it from the slow store and keep it: on the fast tier, or in memory.
    Fetch(u64, Keep),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Fast,
    Memory,
}

fn key(id: ContainerId) -> u64 {
    id.get().into()
}

fn id_of(key: u64) -> ContainerId {
    ContainerId::new(key as u32)
}

impl TieredStore {
    /// A store over `slow` with copies in `folder`, warm if the folder was used for it before.
    pub fn open(
        slow: Arc<dyn ContainerStore>,
        folder: Arc<dyn Folder>,
        options: TierOptions,
        lock: Option<FolderLock>,
    ) -> Result<Self, TierError> {
        let choice = Choice::parse(&options.policy)?;
        if choice.entry().offline {
            return Err(TierError::Offline(options.policy));
        }
        identity::claim(&*folder, COPIES, &options.owner)?;
        let mut slow_bytes = 0;
        let present: HashSet<ContainerId> = slow.list()?.into_iter().collect();
        for &id in &present {
            slow_bytes += slow.len(id)?;
        }
        let bytes = options.size.bytes(slow_bytes, options.container_bytes.into());
        let mut policy = make_policy(&options, bytes)?;
        let fast = FolderContainerStore::new(folder.subfolder(COPIES)?);
        let saved = saved::read(&*folder, &options.owner);
        let sequence = saved.as_ref().map_or(0, |saved| saved.sequence);
        let totals = saved.as_ref().map_or_else(TierTotals::default, |saved| saved.totals);
        if let Some(saved) = saved.filter(|saved| saved.policy == options.policy) {
            warm(&mut *policy, &saved, bytes);
        }
        let mut copies = HashMap::new();
        for id in fast.list()? {
            if policy.contains(key(id)) && present.contains(&id) {
                copies.insert(id, Arc::default());
            } else {
                let _ = fast.remove(id);
            }
        }
        for gone in policy.dump().into_iter().flatten() {
            if !copies.contains_key(&id_of(gone)) {
                policy.remove(gone);
            }
        }
        let state = State {
            policy,
            copies,
            held: HashMap::new(),
            making: HashSet::new(),
            spoiled: HashSet::new(),
            open: HashSet::new(),
            recent: VecDeque::new(),
            slow_bytes,
            totals,
            writes_since_save: 0,
            writes_since_durable: 0,
            skip: 0,
            last_skip: 0,
        };
        let saves = Mutex::new(Saves { sequence, totals, wait: 0 });
        let state = Mutex::new(state);
        Ok(Self { slow, fast, folder, options, state, saves, _lock: lock })
    }

    /// What the folder of a cache that nobody has open tells of it.
    pub fn saved_status(folder: &dyn Folder, owner: &[u8; 16]) -> Option<TierStatus> {
        let saved = saved::read(folder, owner)?;
        let state = PolicyState::from_bytes(&saved.state).ok()?;
        Some(TierStatus {
            policy: saved.policy,
            capacity_bytes: state.capacity,
            cached_bytes: state.entries.iter().map(|entry| u64::from(entry.size)).sum(),
            cached_containers: state.entries.len() as u64,
            totals: saved.totals,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// What it holds and did.
    pub fn status(&self) -> TierStatus {
        let state = self.state();
        TierStatus {
            policy: self.options.policy.clone(),
            capacity_bytes: state.policy.capacity(),
            cached_bytes: state.policy.bytes(),
            cached_containers: state.policy.len() as u64,
            totals: state.totals,
        }
    }

    /// Containers that are kept in memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> Vec<ContainerId> {
        self.state().held.keys().copied().collect()
    }

    /// What must hold whenever no operation is under way; `fast` is where the copies are.
    #[cfg(test)]
    pub(super) fn assert_consistent(&self, fast: &dyn Folder, context: &str) {
        let mut state = self.state();
        let state = &mut *state;
        assert!(state.making.is_empty() && state.spoiled.is_empty(), "{context}: half made");
        let mut copies: Vec<ContainerId> = state.copies.keys().copied().collect();
        copies.sort_unstable();
        let files = fast.subfolder(COPIES).map(FolderContainerStore::new);
        let files = files.expect("a folder of copies").list().expect("a list of copies");
        assert_eq!(files, copies, "{context}: files and copies");
        let listed: Vec<u64> = state.policy.dump().into_iter().flatten().collect();
        for key in listed.into_iter().filter(|&key| state.policy.contains(key)) {
            let kept =
                state.copies.contains_key(&id_of(key)) || state.held.contains_key(&id_of(key));
            assert!(kept, "{context}: the policy counts {key}, which is nowhere");
        }
        for id in state.copies.keys().chain(state.held.keys()) {
            assert!(state.policy.contains(key(*id)), "{context}: {id} is kept unasked");
            assert!(self.slow.len(*id).is_ok(), "{context}: {id} is gone and its copy is kept");
        }
        assert!(state.policy.bytes() <= state.policy.capacity(), "{context}");
    }

    /// Keep the policy's state for the next opening. Done now and then, and when the store is
    /// dropped; a failure costs warmth and is told of in the log.
    pub fn save(&self) {
        self.save_as(true);
    }

    /// Save what was decided since the last time, for callers that do this every few seconds: what
    /// a kill takes is what happened since. A large state is saved at fewer of the calls.
    pub fn save_changes(&self) {
        {
            let mut saves = sync::lock(&self.saves);
            if saves.wait > 0 {
                saves.wait -= 1;
                return;
            }
            if self.state().totals == saves.totals {
                return;
            }
        }
        self.save_as(false);
    }

    /// Save the state if much has changed since the last time.
    fn save_sometimes(&self) {
        let durable = {
            let state = self.state();
            let share = state.policy.len() as u64 / SHARE_PER_SAVE;
            if state.writes_since_save < share.clamp(1, WRITES_PER_SAVE) {
                return;
            }
            state.writes_since_durable >= WRITES_PER_SAVE
        };
        self.save_as(durable);
    }

    fn save_as(&self, durable: bool) {
        let mut saves = sync::lock(&self.saves);
        let saved = {
            let mut state = self.state();
            state.writes_since_save = 0;
            if durable {
                state.writes_since_durable = 0;
            }
            // What is in memory only is gone after a restart.
            let mut kept = state.policy.export();
            kept.entries.retain(|entry| !state.held.contains_key(&id_of(entry.key)));
            Saved {
                sequence: saves.sequence + 1,
                policy: self.options.policy.clone(),
                totals: state.totals,
                state: kept.to_bytes(),
            }
        };
        match saved::write(&*self.folder, &self.options.owner, &saved, durable) {
            Ok(()) => {
                let wait = saved.state.len() as u64 / BYTES_PER_CALL;
                *saves = Saves { sequence: saved.sequence, totals: saved.totals, wait };
            }
            Err(error) => tracing::warn!("the cache's state is not saved: {error}"),
        }
    }

    /// Ask the policy about one read.
    fn decide(&self, id: ContainerId, wanted: u64) -> Way {
        let known = {
            let mut state = self.state();
            if state.open.contains(&id) {
                return Way::Slow;
            }
            if state.is_burst(id, self.options.burst) {
                state.totals.requests += 1;
                state.totals.bytes += wanted;
                return state.where_kept(id);
            }
            state.policy.contains(key(id))
        };
        // Asked without the lock: it may have to open a file.
        let len = if known { 0 } else { self.slow.len(id).unwrap_or(0) };
        let size = copy::copy_bytes(len);
        let mut state = self.state();
        let state = &mut *state;
        if !known && (len == 0 || size > u64::from(u32::MAX)) || state.open.contains(&id) {
            return Way::Slow;
        }
        if known && !state.policy.contains(key(id)) {
            // It went meanwhile; one read of it is not counted.
            return Way::Slow;
        }
        let decision = state.policy.access(key(id), size as u32);
        let (hit, admit, promoted) = (decision.hit, decision.admit, decision.promoted);
        let evicted: Vec<ContainerId> = decision.evicted.iter().copied().map(id_of).collect();
        for gone in evicted {
            self.drop_copy(state, gone);
        }
        if let Some(other) = promoted.map(id_of) {
            self.promote(state, other);
        }
        state.totals.requests += 1;
        state.totals.bytes += wanted;
        if hit {
            return state.where_kept(id);
        }
        let keep = if admit {
            Keep::Fast
        } else if state.policy.contains(key(id)) {
            Keep::Memory
        } else {
            return Way::Slow;
        };
        if keep == Keep::Fast && state.skip > 0 {
            state.skip -= 1;
            state.policy.remove(key(id));
            return Way::Slow;
        }
        if !state.making.insert(id) {
            return Way::Slow;
        }
        Way::Fetch(len, keep)
    }

    /// The policy moves a container from memory to the fast tier.
    fn promote(&self, state: &mut State, id: ContainerId) {
        let Some(bytes) = state.held.remove(&id) else {
            state.policy.remove(key(id));
            return;
        };
        // Under the lock: what is promoted was asked for a moment ago and is in memory.
        match self.write_copy(id, &bytes) {
            Ok(()) => written(state, id, &bytes),
            Err(error) => self.write_failed(state, id, &error),
        }
    }

    fn drop_copy(&self, state: &mut State, id: ContainerId) {
        state.held.remove(&id);
        if state.copies.remove(&id).is_some()
            && let Err(error) = self.fast.remove(id)
        {
            tracing::warn!("a copy stays on the fast tier until it is reopened: {error}");
        }
        if state.making.contains(&id) {
            state.spoiled.insert(id);
        }
    }

    /// The container changes or goes: no copy of it may be used.
    fn invalidate(&self, id: ContainerId, forget: bool) {
        let mut state = self.state();
        if forget {
            state.policy.forget(key(id));
            state.open.remove(&id);
        } else {
            state.policy.remove(key(id));
            state.open.insert(id);
        }
        self.drop_copy(&mut state, id);
    }

    fn write_copy(&self, id: ContainerId, data: &[u8]) -> Result<(), StoreError> {
        let tail = copy::encode_tail(id, &self.options.owner, data);
        self.fast.create(id, copy::copy_bytes(data.len() as u64))?;
        self.fast.append(id, 0, data)?;
        self.fast.append(id, data.len() as u64, &tail)?;
        self.fast.seal(id, copy::copy_bytes(data.len() as u64))
    }

    fn write_failed(&self, state: &mut State, id: ContainerId, error: &StoreError) {
        let _ = self.fast.remove(id);
        state.policy.remove(key(id));
        state.totals.failed_writes += 1;
        state.last_skip = (state.last_skip * 2).clamp(1, SKIP_MAX);
        state.skip = state.last_skip;
        tracing::warn!(
            "the fast tier cannot be written, reads go to the slow one: {error}; the next {} \
             containers are not kept",
            state.skip
        );
    }

    /// Read all of a container, hand out what was asked for, and keep the rest.
    fn fetch(
        &self,
        id: ContainerId,
        len: u64,
        keep: Keep,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), StoreError> {
        let mut data = vec![0; len as usize];
        let read = self.slow.read(id, 0, &mut data);
        let wanted = usize::try_from(offset)
            .ok()
            .and_then(|start| data.get(start..start.checked_add(buf.len())?));
        let served = match (&read, wanted) {
            (Ok(()), Some(bytes)) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            // Part of it may be readable, and a read past the end has its own error.
            _ => self.slow.read(id, offset, buf),
        };
        let stored = match keep {
            Keep::Fast if read.is_ok() => Some(self.write_copy(id, &data)),
            _ => None,
        };
        let mut state = self.state();
        let state = &mut *state;
        state.making.remove(&id);
        let usable = !state.spoiled.remove(&id) && state.policy.contains(key(id));
        match stored {
            Some(Ok(())) if usable => written(state, id, &data),
            Some(Err(error)) => self.write_failed(state, id, &error),
            None if read.is_ok() && usable => {
                state.held.insert(id, Arc::new(data));
            }
            Some(Ok(())) => {
                let _ = self.fast.remove(id);
                state.policy.remove(key(id));
            }
            None => {
                state.policy.remove(key(id));
            }
        }
        served
    }

    /// A copy is not what it should be: it goes, and the slow store serves.
    fn distrust(&self, id: ContainerId, copy: &Arc<OnceLock<Option<Checksums>>>, problem: &str) {
        let mut state = self.state();
        let state = &mut *state;
        // Another thread may have come first, and a new copy may be there by now.
        if state.copies.get(&id).is_some_and(|now| Arc::ptr_eq(now, copy)) {
            state.policy.remove(key(id));
            self.drop_copy(state, id);
            state.totals.bad_copies += 1;
            tracing::warn!("the copy of {id} on the fast tier is not used: {problem}");
        }
    }

    fn read_copy(
        &self,
        id: ContainerId,
        copy: &OnceLock<Option<Checksums>>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), String> {
        let mut problem = String::from("it was found wrong before");
        let sums = copy.get_or_init(|| {
            let opened = copy::open(&self.fast, &*self.slow, id, &self.options.owner);
            opened.map_err(|error| problem = error).ok()
        });
        match sums {
            Some(sums) => sums.read(&self.fast, id, offset, buf),
            None => Err(problem),
        }
    }

    /// Let the cache grow with the slow store, if that is how its size was given.
    fn grow(&self, sealed_bytes: u64) {
        let mut state = self.state();
        state.slow_bytes += sealed_bytes;
        let container_bytes = self.options.container_bytes.into();
        let bytes = self.options.size.bytes(state.slow_bytes, container_bytes);
        if bytes / 5 * 4 <= state.policy.capacity() {
            return;
        }
        let mut kept = state.policy.export();
        kept.capacity = bytes;
        let larger = make_policy(&self.options, bytes).ok();
        // A policy whose state does not fit another capacity stays as large as it is.
        if let Some(mut policy) = larger
            && policy.import(&kept).is_ok()
        {
            state.policy = policy;
        }
    }
}

impl State {
    /// Whether a read goes on with what the policy was asked about a moment ago.
    fn is_burst(&mut self, id: ContainerId, burst: usize) -> bool {
        let known = self.recent.iter().rposition(|(recent, _)| *recent == id);
        let reads = known.and_then(|at| self.recent.remove(at)).map_or(0, |(_, reads)| reads + 1);
        let goes_on = known.is_some() && reads < BURST_READS;
        self.recent.push_back((id, if goes_on { reads } else { 0 }));
        while self.recent.len() > burst {
            self.recent.pop_front();
        }
        goes_on
    }

    /// Where a container is kept. Without a copy that the policy knows of, a thread is making it.
    fn where_kept(&self, id: ContainerId) -> Way {
        if let Some(bytes) = self.held.get(&id) {
            return Way::Memory(Arc::clone(bytes));
        }
        self.copies.get(&id).map_or(Way::Slow, |copy| Way::Fast(Arc::clone(copy)))
    }
}

/// A copy was written.
fn written(state: &mut State, id: ContainerId, data: &[u8]) {
    let copy = Arc::new(OnceLock::from(Some(Checksums::of(data))));
    state.copies.insert(id, copy);
    state.totals.writes += 1;
    state.totals.written_bytes += copy::copy_bytes(data.len() as u64);
    state.writes_since_save += 1;
    state.writes_since_durable += 1;
    state.last_skip = 0;
}

fn make_policy(options: &TierOptions, bytes: u64) -> Result<Box<dyn Policy>, TierError> {
    let objects = (bytes / u64::from(options.container_bytes).max(1)) as usize;
    Ok(make_online(&options.policy, Capacity { bytes, objects: objects.max(1) }, 0)?)
}

/// Take over what was saved, as far as it fits.
fn warm(policy: &mut dyn Policy, saved: &Saved, bytes: u64) {
    let state = PolicyState::from_bytes(&saved.state).map(|mut state| {
        let mut total: u64 = state.entries.iter().map(|entry| u64::from(entry.size)).sum();
        // The oldest of the lists come first.
        let too_many = state.entries.iter().take_while(|entry| {
            let over = total > bytes;
            total -= u64::from(entry.size);
            over
        });
        let too_many = too_many.count();
        state.entries.drain(..too_many);
        state
    });
    let taken = state.and_then(|state| policy.import(&state));
    if let Err(error) = taken {
        tracing::warn!("the cache begins empty: {error}");
        for key in policy.dump().into_iter().flatten() {
            policy.remove(key);
        }
    }
}

impl Drop for TieredStore {
    fn drop(&mut self) {
        self.save();
    }
}

impl ContainerStore for TieredStore {
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        self.invalidate(id, false);
        self.slow.create(id, capacity_bytes)
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if !self.state().open.contains(&id) {
            self.invalidate(id, false);
        }
        self.slow.append(id, offset, data)
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let wanted = buf.len() as u64;
        let hit = match self.decide(id, wanted) {
            Way::Slow => return self.slow.read(id, offset, buf),
            Way::Fetch(len, keep) => {
                let served = self.fetch(id, len, keep, offset, buf);
                self.save_sometimes();
                return served;
            }
            Way::Memory(data) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.checked_add(buf.len());
                let bytes = end.and_then(|end| data.get(start..end));
                bytes.is_some_and(|bytes| {
                    buf.copy_from_slice(bytes);
                    true
                })
            }
            Way::Fast(copy) => match self.read_copy(id, &copy, offset, buf) {
                Ok(()) => true,
                Err(problem) => {
                    let inside = self
                        .slow
                        .len(id)
                        .is_ok_and(|len| offset.checked_add(wanted).is_some_and(|end| end <= len));
                    // A read past the end says nothing about the copy.
                    if inside {
                        self.distrust(id, &copy, &problem);
                    }
                    false
                }
            },
        };
        if !hit {
            return self.slow.read(id, offset, buf);
        }
        let mut state = self.state();
        state.totals.hits += 1;
        state.totals.hit_bytes += wanted;
        Ok(())
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.slow.len(id)
    }

    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        self.slow.sync(id)
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        if !self.state().open.contains(&id) {
            self.invalidate(id, false);
        }
        self.slow.seal(id, len)?;
        self.state().open.remove(&id);
        self.grow(len);
        Ok(())
    }

    /// A copy may keep what is punched: nobody reads that.
    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        self.slow.punch(id, offset, len)
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        // While it goes it is like one that is being filled: no read makes a copy.
        self.invalidate(id, false);
        let removed = self.slow.remove(id);
        if removed.is_ok() {
            self.invalidate(id, true);
        } else {
            self.state().open.remove(&id);
        }
        removed
    }

    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        self.slow.list()
    }

    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        self.slow.strangers()
    }

    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.slow.allocated_bytes(id)
    }
}
