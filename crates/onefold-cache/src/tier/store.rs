//! The container store over a slow one and a fast device.
//! Room: onefold-cache.   In: reads of containers.   Out: the same bytes, from the fast device
//! where an extent of them is kept.
//! Invariants: (1) the slow store holds everything; the fast device may be lost, full or wrong at
//! any time and no read gives other bytes or fails for it  (2) extents are kept only of a container
//! that is not being filled, and go when the container changes or goes  (3) what is decided is what
//! [`super::decide`] decides of the same reads without a byte of data.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_block::{
    ContainerId, ContainerStore, Folder, FolderLock, Media, MediaError, StoreError, StoreLayer,
};

use super::decide::Decider;
use super::extent::CONTAINER_MAX;
use super::identity::{self, LOG_FILE};
use super::log::{SEGMENTS_MIN, Shape};
use super::new_containers::NewContainers;
use super::recover;
use super::saved::{self, Saved, TierError, TierTotals};
use super::size::TierSize;
use super::state::{FastRead, Known, Limits, SlowRead, State, TierStatus};
use super::sync;
use super::wear::{Wear, WearBudget};
use crate::index::hash_of;
use crate::registry::Choice;
use crate::state::State as PolicyState;

/// Bytes of segments that are written for each byte of state at least, before it is saved again;
/// and so many times that until it is made durable.
const WRITES_PER_STATE: [u64; 2] = [32, 8];
/// Segments that are written before the state is saved again.
const SEGMENTS_PER_SAVE: u64 = 4;
/// Calls of [`TieredStore::save_changes`] after which it is saved although little was written.
const CALLS_PER_SAVE: u64 = 720;
/// Admissions that are passed by after a segment that could not be written, and at most after many
/// such in a row.
const SKIP: [u64; 2] = [16, 1 << 16];
/// Bytes at a container's end by which it is told from another that once had its number: its
/// directory and footer are there.
const TAIL_BYTES: u64 = 4096;

/// How to cache.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Marks a cache as that of one slow store.
    pub owner: [u8; 16],
    /// The policy, as [`Choice::parse`] reads it.
    pub policy: String,
    /// How large the fast tier may become.
    pub size: TierSize,
    /// Largest container, in bytes.
    pub container_bytes: u32,
    /// How much may be written in 24 hours; none: as much as the policy likes.
    pub writes_per_day: Option<WearBudget>,
    /// Whether containers are kept as soon as they are filled, before anybody reads them.
    pub write_through: bool,
    /// Whether whatever is read is kept as long as nothing has to leave for it, long passes too:
    /// for slow stores where each byte that is read twice costs more than a write to flash.
    pub fill_at_once: bool,
}

/// A slow store with extents of its containers on a fast device.
pub struct TieredStore {
    slow: Arc<dyn ContainerStore>,
    folder: Arc<dyn Folder>,
    media: Arc<dyn Media>,
    options: TierOptions,
    state: Mutex<State>,
    /// Who writes full segments. Taken before `state`, never after it.
    writer: Mutex<()>,
    /// The last saved state. Taken before `state`, never after it.
    saves: Mutex<Saves>,
    /// What is written through. Held for a moment, with no other lock.
    new: Mutex<NewContainers>,
    _lock: Option<FolderLock>,
}

/// The last saved state.
struct Saves {
    sequence: u64,
    /// What was counted by then.
    totals: TierTotals,
    /// Calls of [`TieredStore::save_changes`] since then.
    calls: u64,
}

impl TieredStore {
    /// A store over `slow` with extents in `folder`, warm if the folder was used for it before.
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
        identity::claim(&*folder, &options.owner)?;
        let copies = identity::discard_copies(&*folder)?;
        if copies > 0 {
            tracing::warn!(
                "the cache begins empty: {copies} copies of whole containers, as earlier versions \
                 kept them, are removed"
            );
        }
        let mut slow_bytes = 0;
        let mut present = HashSet::new();
        for id in slow.list()? {
            slow_bytes += slow.len(id)?;
            present.insert(id.get());
        }
        let bytes = options.size.bytes(slow_bytes, options.container_bytes.into());
        let media = match folder.open(LOG_FILE) {
            Err(MediaError::NotFound { .. }) => folder.create(LOG_FILE)?,
            media => media?,
        };
        let saved = saved::read(&*folder, &options.owner);
        let shape = shape_of(&*media, &options, saved.as_ref(), bytes);
        if media.len()? > shape.bytes() {
            media.set_len(shape.bytes())?;
        }
        // A device that cannot set it aside may still take some of it.
        let problem = media.reserve(0, shape.bytes()).err().map(|error| error.to_string());
        if let Some(problem) = &problem {
            tracing::warn!("the cache may keep less than it is to: {problem}");
        }
        let per_day = options.writes_per_day.map(|budget| budget.bytes(shape.bytes()));
        let mut decider = Decider::new(&options.policy, shape, Wear::new(per_day))?;
        if options.fill_at_once {
            decider.fill_empty_segments();
        }
        let found = recover::read_log(&*media, &options.owner, &mut decider, &present);
        recover::warm(&mut decider, saved.as_ref());
        let sequence = saved.as_ref().map_or(0, |saved| saved.sequence);
        let totals = saved.map_or_else(TierTotals::default, |saved| saved.totals);
        let limits = Limits { size: options.size, writes_per_day: options.writes_per_day };
        let mut state = State::new(options.owner, limits, decider, found, totals);
        (state.slow_bytes, state.write_problem) = (slow_bytes, problem);
        let saves = Mutex::new(Saves { sequence, totals, calls: 0 });
        let (state, writer) = (Mutex::new(state), Mutex::new(()));
        let new = Mutex::new(NewContainers::new(options.write_through));
        Ok(Self { slow, folder, media, options, state, writer, saves, new, _lock: lock })
    }

    /// Why a folder cannot be this owner's cache, if that is so. Changes nothing.
    ///
    /// # Errors
    /// It holds anything else, or cannot be read.
    pub fn examine(folder: &dyn Folder, owner: &[u8; 16]) -> Result<(), TierError> {
        identity::is_ours(folder, owner).map(drop)
    }

    /// What the folder of a cache that nobody has open tells of it.
    pub fn saved_status(folder: &dyn Folder, owner: &[u8; 16]) -> Option<TierStatus> {
        let saved = saved::read(folder, owner)?;
        let state = PolicyState::from_bytes(&saved.state).ok()?;
        let mut wear = Wear::new((saved.per_day > 0).then_some(saved.per_day));
        wear.restore(saved.known.get(1..)?.get(..wear.numbers().len())?);
        Some(TierStatus {
            policy: saved.policy,
            capacity_bytes: saved.shape[0].saturating_mul(saved.shape[1]),
            cached_bytes: state.entries.iter().map(|entry| u64::from(entry.size)).sum(),
            cached_extents: state.entries.len() as u64,
            index_bytes: 0,
            policy_bytes: 0,
            waiting_bytes: 0,
            writes_per_day: wear.per_day,
            written_last_day: wear.last_day(),
            problem: (!saved.problem.is_empty()).then_some(saved.problem),
            totals: saved.totals,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// What it holds and did.
    pub fn status(&self) -> TierStatus {
        let state = self.state();
        let [waiting, waiting_bytes] = state.waiting();
        let [index_bytes, policy_bytes] = state.decider.memory_bytes().map(|bytes| bytes as u64);
        TierStatus {
            policy: self.options.policy.clone(),
            capacity_bytes: state.decider.log.shape().bytes(),
            cached_bytes: state.decider.kept_bytes().saturating_sub(waiting_bytes),
            cached_extents: (state.decider.log.index.len() as u64).saturating_sub(waiting),
            index_bytes,
            policy_bytes,
            waiting_bytes,
            writes_per_day: state.decider.wear.per_day,
            written_last_day: state.decider.wear.last_day(),
            problem: state.problem(),
            totals: state.totals,
        }
    }

    /// It is so many seconds after 1970: what the wear budget is counted by.
    pub fn tick(&self, seconds: u64) {
        self.state().decider.wear.tick(seconds);
    }

    /// What must hold whenever no operation is under way.
    #[cfg(test)]
    pub(super) fn assert_consistent(&self, context: &str) {
        let mut state = self.state();
        let state = &mut *state;
        assert!(state.is_idle(), "{context}: half made");
        let keys: Vec<u64> = state.decider.policy().dump().into_iter().flatten().collect();
        for key in keys {
            if !state.decider.policy().contains(key) {
                continue;
            }
            let kept = state.decider.log.index.by_key(key);
            assert!(kept.is_some(), "{context}: the policy counts {key}, which is nowhere");
        }
        let all: Vec<_> = state.decider.log.index.iter().collect();
        for kept in all {
            let (key, id) = (kept.extent.key(), kept.extent.id());
            assert!(state.decider.policy().contains(key), "{context}: {kept:?} is kept unasked");
            assert!(self.slow.len(id).is_ok(), "{context}: {id} is gone and {kept:?} is kept");
            let held = kept.place == super::index::Place::HELD;
            assert_eq!(held, state.is_held(key), "{context}: {kept:?}");
        }
        assert!(state.decider.kept_bytes() <= state.decider.capacity(), "{context}");
    }

    /// Write what is still in memory, and keep the policy's state for the next opening. Done now
    /// and then, and when the store is dropped; a failure costs warmth and is told of in the log.
    pub fn save(&self) {
        self.state().seal_now();
        self.write_sealed();
        self.save_as(true);
    }

    /// Save what was decided since the last time, for callers that do this every few seconds. What
    /// a kill takes is the segment that is being filled: the others tell of themselves. So this is
    /// done when much was written, or seldom.
    pub fn save_changes(&self) {
        {
            let mut saves = sync::lock(&self.saves);
            saves.calls += 1;
            if saves.calls < CALLS_PER_SAVE || self.state().totals == saves.totals {
                return;
            }
        }
        self.save_as(false);
    }

    /// Save the state if much was written since the last time.
    fn save_sometimes(&self) {
        let durable = {
            let state = self.state();
            let [since, since_durable] = state.written_since;
            let segments = u64::from(state.decider.log.shape().segment_bytes) * SEGMENTS_PER_SAVE;
            let least = (state.last_save * WRITES_PER_STATE[0]).max(segments);
            if since < least {
                return;
            }
            since_durable >= least * WRITES_PER_STATE[1]
        };
        self.save_as(durable);
    }

    fn save_as(&self, durable: bool) {
        let mut saves = sync::lock(&self.saves);
        let saved = {
            let mut state = self.state();
            state.written_since[0] = 0;
            if durable {
                state.written_since[1] = 0;
            }
            // What is in memory only is gone after a restart.
            let mut kept = state.decider.policy().export();
            kept.entries.retain(|entry| !state.is_held(entry.key));
            let shape = state.decider.log.shape();
            Saved {
                sequence: saves.sequence + 1,
                policy: self.options.policy.clone(),
                totals: state.totals,
                state: kept.to_bytes(),
                shape: [shape.segment_bytes.into(), shape.segments.into()],
                per_day: state.decider.wear.per_day.unwrap_or(0),
                known: state.decider.numbers(),
                problem: state.problem().unwrap_or_default(),
            }
        };
        if durable && let Err(error) = self.media.sync() {
            tracing::warn!("the cache's extents are not made durable: {error}");
        }
        match saved::write(&*self.folder, &self.options.owner, &saved, durable) {
            Ok(bytes) => {
                let mut state = self.state();
                state.last_save = bytes;
                state.totals.state_bytes += bytes;
                state.decider.wear.spend(bytes);
                *saves = Saves { sequence: saved.sequence, totals: state.totals, calls: 0 };
            }
            Err(error) => tracing::warn!("the cache's state is not saved: {error}"),
        }
    }

    /// The lock, with what a container is known by; `None` if nothing of it may be kept.
    fn look_up(&self, id: ContainerId) -> Option<(MutexGuard<'_, State>, Known)> {
        let changes = {
            let state = self.state();
            if state.open.contains(&id) {
                return None;
            }
            if let Some(&known) = state.known.get(&id.get()) {
                return Some((state, known));
            }
            state.changes
        };
        // Without the lock: it reads the slow store.
        let (known, read) = self.look_at(id)?;
        let mut state = self.state();
        state.totals.slow_bytes += read;
        if state.changes != changes || state.open.contains(&id) {
            return None;
        }
        state.learn(id.get(), known);
        Some((state, known))
    }

    fn look_at(&self, id: ContainerId) -> Option<(Known, u64)> {
        let len = self.slow.len(id).ok().filter(|&len| len > 0 && len <= CONTAINER_MAX)?;
        if let Some(tag) = self.slow.tag(id) {
            return Some((Known { len: len as u32, stamp: stamp_of_tag(len, &tag) }, 0));
        }
        let mut tail = vec![0; TAIL_BYTES.min(len) as usize];
        self.slow.read(id, len - tail.len() as u64, &mut tail).ok()?;
        Some((Known { len: len as u32, stamp: stamp_of(len, &tail) }, tail.len() as u64))
    }

    /// Whether a container that was read just now is not the one that was looked at.
    fn is_another(&self, id: ContainerId, known: Known) -> bool {
        let stamp = |tag: String| stamp_of_tag(known.len.into(), &tag);
        self.slow.tag(id).is_some_and(|tag| stamp(tag) != known.stamp)
    }

    /// A container is full: from now on it may be kept, and all of it is, if these are its bytes.
    fn is_full(&self, id: ContainerId, bytes: Option<&[u8]>) {
        let tag = self.slow.tag(id);
        let mut state = self.state();
        state.is_full(id);
        let Some(bytes) = bytes.filter(|bytes| (1..=CONTAINER_MAX).contains(&(bytes.len() as u64)))
        else {
            return;
        };
        let len = bytes.len() as u64;
        let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES as usize)..];
        let stamp = tag.map_or_else(|| stamp_of(len, tail), |tag| stamp_of_tag(len, &tag));
        let known = Known { len: len as u32, stamp };
        // All at once, so that no reader keeps an extent between two of these.
        state.keep_new(&*self.media, id.get(), known, bytes);
        drop(state);
        self.write_sealed();
        self.save_sometimes();
    }

    /// An extent is not what it should be: it goes, and the slow store serves.
    fn distrust(&self, read: &FastRead, problem: &str) {
        let mut state = self.state();
        let key = read.kept.extent.key();
        let now = state.decider.log.index.by_key(key);
        // It may have left, and its place may have been written over, while it was read.
        let same = now.is_some_and(|now| {
            now.extent == read.kept.extent
                && now.place == read.kept.place
                && state.decider.log.sequence_at(now.place) == read.seal.sequence
        });
        if same {
            state.decider.lost(key);
            state.totals.bad_copies += 1;
            let id = read.kept.extent.id();
            let what = format!("an extent of {id} on the fast tier is not used: {problem}");
            tracing::warn!("{what}");
            state.read_problem = Some(what);
        }
    }

    /// Read part of a container from the slow store, hand out what was asked for, and keep what is
    /// to be kept.
    fn fetch(
        &self,
        id: ContainerId,
        known: Known,
        read: &SlowRead,
        buf: &mut [u8],
    ) -> Result<u64, StoreError> {
        let (Some((first, _)), Some((last, _))) = (read.keep.first(), read.keep.last()) else {
            self.slow.read(id, read.from.into(), buf)?;
            return Ok(buf.len() as u64);
        };
        let (start, end) = (first.start.min(read.from), last.end().max(read.upto));
        let mut data = vec![0; (end - start) as usize];
        let there = (end.min(known.len) - start) as usize;
        let fetched = self.slow.read(id, start.into(), &mut data[..there]);
        let served = if fetched.is_ok() {
            let skip = (read.from - start) as usize;
            buf.copy_from_slice(&data[skip..skip + buf.len()]);
            Ok(there as u64)
        } else {
            // Part of it may be readable.
            self.slow.read(id, read.from.into(), buf).map(|()| buf.len() as u64)
        };
        let is_another = self.is_another(id, known);
        let mut state = self.state();
        if is_another {
            // Somebody else wrote it anew since it was looked at: what is kept of it is the old
            // one's, and it is looked at again before anything of it is kept.
            state.invalidate(id, true);
        }
        // Another reader may have found that out first, and looked at the new one already.
        let now = state.known.get(&id.get());
        let is_current = now.is_some_and(|now| now.stamp == known.stamp);
        for &(extent, keep) in &read.keep {
            if fetched.is_ok() && is_current {
                let at = (extent.start - start) as usize;
                let bytes = &data[at..at + extent.len as usize];
                state.fetched(&*self.media, extent, keep, bytes);
            } else {
                state.decider.not_fetched(extent);
            }
        }
        served
    }

    /// Write full segments, in the order in which they became full.
    fn write_sealed(&self) {
        loop {
            let _writer = sync::lock(&self.writer);
            let (sealed, shape) = {
                let state = self.state();
                let Some(sealed) = state.sealed.front().map(Arc::clone) else { return };
                (sealed, state.decider.log.shape())
            };
            let base = u64::from(sealed.slot) * u64::from(shape.segment_bytes);
            let written = self.media.write(base, &sealed.bytes);
            let mut state = self.state();
            state.sealed.pop_front();
            match written {
                Ok(()) => {
                    state.totals.written_bytes += sealed.bytes.len() as u64;
                    state.written_since =
                        state.written_since.map(|since| since + sealed.bytes.len() as u64);
                    state.last_skip = 0;
                    state.write_problem = None;
                }
                Err(error) => {
                    let lost = state.decider.log.lost(sealed.slot, sealed.sequence);
                    for kept in &lost {
                        state.decider.lost(kept.extent.key());
                    }
                    state.totals.failed_writes += 1;
                    let skip = (state.last_skip * 2).clamp(SKIP[0], SKIP[1]);
                    state.last_skip = skip;
                    state.decider.set_skip(skip);
                    state.write_problem = Some(format!("it cannot be written: {error}"));
                    tracing::warn!(
                        "the fast tier cannot be written, reads go to the slow one: {error}; the \
                         next {skip} extents are not kept"
                    );
                }
            }
        }
    }

    /// The container changes or goes: nothing of it may be used.
    fn invalidate(&self, id: ContainerId, forget: bool) {
        let mut state = self.state();
        state.invalidate(id, forget);
        if forget {
            state.open.remove(&id);
        } else {
            state.open.insert(id);
        }
    }

    /// Let the cache grow with the slow store, if that is how its size was given.
    fn grow(&self, sealed_bytes: u64) {
        let (has, wants) = {
            let mut state = self.state();
            state.slow_bytes += sealed_bytes;
            (state.decider.log.shape().bytes(), self.bytes_for(state.limits.size, &state))
        };
        if wants / 5 * 4 > has
            && let Err(error) = self.fit(None)
        {
            tracing::warn!("the cache stays as large as it is: {error}");
        }
    }

    /// Bytes of the fast device that a size stands for now.
    fn bytes_for(&self, size: TierSize, state: &State) -> u64 {
        size.bytes(state.slow_bytes, self.options.container_bytes.into())
    }

    /// How large it may be, and how much may be written in 24 hours.
    pub fn limits(&self) -> (TierSize, Option<WearBudget>) {
        let limits = self.state().limits;
        (limits.size, limits.writes_per_day)
    }

    /// Let so much be written in 24 hours from now on, what was written in the last ones included.
    pub fn set_writes_per_day(&self, budget: Option<WearBudget>) {
        let mut state = self.state();
        state.limits.writes_per_day = budget;
        state.keep_to_budget();
    }

    /// Have another size from now on. A smaller cache gives the end of its log back: what lay there
    /// is kept no longer, and nothing is where that would leave less than 32 of its segments.
    ///
    /// # Errors
    /// The device has no room for it, and the cache stays as large as it is; or its file could not
    /// be cut, and takes the room until the next opening.
    pub fn resize(&self, size: TierSize) -> Result<(), TierError> {
        self.fit(Some(size))
    }

    /// Be as large as was `asked`, or as is asked for already.
    fn fit(&self, asked: Option<TierSize>) -> Result<(), TierError> {
        // Nobody writes a segment meanwhile, or thinks of another size.
        let _writer = sync::lock(&self.writer);
        let (size, before, shape) = {
            let mut state = self.state();
            let size = asked.unwrap_or(state.limits.size);
            let before = state.decider.log.shape();
            let shape = shape_like(Some(before.segment_bytes), self.bytes_for(size, &state));
            if shape == before {
                state.limits.size = size;
                return Ok(());
            }
            (size, before, shape)
        };
        if shape.bytes() > before.bytes()
            && let Err(error) = self.media.reserve(0, shape.bytes())
        {
            // It may have got some of it, which its length does not show.
            self.media.set_len(before.bytes())?;
            return Err(error.into());
        }
        {
            let mut state = self.state();
            state.resize(shape)?;
            state.limits.size = size;
            state.keep_to_budget();
        }
        if shape.segment_bytes != before.segment_bytes {
            self.media.set_len(0)?;
            self.media.reserve(0, shape.bytes())?;
        } else if shape.bytes() < before.bytes() {
            self.media.set_len(shape.bytes())?;
        }
        Ok(())
    }
}

/// What a container is told from others by: a hash of its length in bytes and of its end.
fn stamp_of(len: u64, tail: &[u8]) -> u64 {
    let words = tail.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    words.fold(hash_of(len), |hash, word| hash_of(hash ^ word))
}

/// The same where the slow store itself tells containers apart. Servers quote tags or do not.
fn stamp_of_tag(len: u64, tag: &str) -> u64 {
    stamp_of(len, &[b"tag ", tag.trim_matches('"').as_bytes()].concat())
}

/// How the log lies on the device: as it did before, but for its length.
fn shape_of(media: &dyn Media, options: &TierOptions, saved: Option<&Saved>, bytes: u64) -> Shape {
    let before = saved.map(|saved| saved.shape[0] as u32);
    shape_like(recover::segment_bytes(media, &options.owner).or(before), bytes)
}

/// A log of so many bytes in segments of the size that it has, if it has any. One that would have
/// too few of them begins anew.
fn shape_like(segment_bytes: Option<u32>, bytes: u64) -> Shape {
    match segment_bytes {
        Some(segment_bytes)
            if Shape::is_of_segments(segment_bytes) && bytes / u64::from(segment_bytes) >= 32 =>
        {
            Shape { segment_bytes, segments: SEGMENTS_MIN }.resized(bytes)
        }
        _ => Shape::of(bytes),
    }
}

impl Drop for TieredStore {
    fn drop(&mut self) {
        self.save();
    }
}

impl StoreLayer for TieredStore {
    fn below(&self) -> &dyn ContainerStore {
        &*self.slow
    }

    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        self.invalidate(id, false);
        self.slow.create(id, capacity_bytes)?;
        sync::lock(&self.new).begin(id);
        Ok(())
    }

    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if !self.state().open.contains(&id) {
            self.invalidate(id, false);
        }
        self.slow.append(id, offset, data)?;
        sync::lock(&self.new).append(id, offset, data);
        Ok(())
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let end = offset.saturating_add(buf.len() as u64);
        // What lies past the end is the slow store's to refuse.
        let inside = |known: Known| !buf.is_empty() && end <= known.len.into();
        let known = self.look_up(id).filter(|&(_, known)| inside(known));
        let Some((mut state, known)) = known else { return self.slow.read(id, offset, buf) };
        let (from, upto) = (offset as u32, end as u32);
        let shape = state.decider.log.shape();
        let mut rest = state.read(&*self.media, id.get(), known, (from, upto), buf);
        drop(state);
        let (mut fast_bytes, mut slow_bytes, mut missed) = (0, 0, 0);
        for read in &rest.fast {
            let out = &mut buf[(read.from - from) as usize..(read.upto - from) as usize];
            fast_bytes += read.flash_bytes();
            if let Err(problem) = read.read(&*self.media, shape, out) {
                self.distrust(read, &problem);
                let (from, upto) = (read.from, read.upto);
                rest.slow.push(SlowRead { from, upto, keep: Vec::new() });
            }
        }
        let mut served = Ok(());
        for read in &rest.slow {
            let out = &mut buf[(read.from - from) as usize..(read.upto - from) as usize];
            missed += out.len() as u64;
            // After an error the rest is fetched all the same: it is on its way.
            match self.fetch(id, known, read, out) {
                Ok(bytes) => slow_bytes += bytes,
                Err(error) => served = Err(error),
            }
        }
        if served.is_ok() && (1..buf.len() as u64).contains(&missed) && self.is_another(id, known) {
            // Some of it is of the one that was looked at, and some of the one that is there now.
            served = self.slow.read(id, offset, buf);
        }
        {
            let mut state = self.state();
            let totals = &mut state.totals;
            totals.hits += u64::from(missed == 0);
            totals.hit_bytes += buf.len() as u64 - missed;
            (totals.fast_bytes, totals.slow_bytes) =
                (totals.fast_bytes + fast_bytes, totals.slow_bytes + slow_bytes);
            if state.sealed.is_empty() {
                return served;
            }
        }
        self.write_sealed();
        self.save_sometimes();
        served
    }

    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        {
            let mut state = self.state();
            for &(id, total) in totals {
                state.decider.set_references(id.get(), total);
            }
        }
        self.slow.tell_references(totals);
    }

    fn tell_moved(&self, id: ContainerId) {
        sync::lock(&self.new).forget(id);
        self.slow.tell_moved(id);
    }

    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        if !self.state().open.contains(&id) {
            self.invalidate(id, false);
        }
        self.slow.seal(id, len)?;
        self.grow(len);
        let new = sync::lock(&self.new).end(id, len);
        self.is_full(id, new.as_deref());
        Ok(())
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        // While it goes it is like one that is being filled: nothing of it is kept.
        self.invalidate(id, false);
        sync::lock(&self.new).forget(id);
        let removed = self.slow.remove(id);
        if removed.is_ok() {
            self.invalidate(id, true);
        } else {
            self.state().open.remove(&id);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_on_in_segments_of_its_size_if_there_is_such_a_size() {
        let bytes = 1 << 30;
        let kept = shape_like(Some(192 << 10), bytes);
        assert_eq!((kept.segment_bytes, kept.segments), (192 << 10, 5461));
        for none in [0, 1, 4096, 188 << 10, (192 << 10) + 1, 32 << 20, u32::MAX] {
            assert_eq!(shape_like(Some(none), bytes), Shape::of(bytes), "{none}");
        }
    }
}
