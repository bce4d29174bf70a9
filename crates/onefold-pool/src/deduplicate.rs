//! Deduplication in the background: fingerprints are brought into sorted runs, runs are merged, and
//! what meets there is stored once from then on.
//! Room: onefold-pool.
//! In: a budget of bytes. Out: runs, and blocks that refer to one record instead of several.
//! Source: the exact offline pass of [park-shin], made incremental: every merge is a part of it.
//! Invariants: (1) no clock: steps happen when a caller asks; (2) nothing is shared that was not
//! compared ([`crate::twins`]); (3) containers come into runs only when it is durable that they are
//! there, so that their numbers are never given out again.
//! Cost: 44 bytes read of each chunk's directory, 16 written; 32 for each of its merges, of which
//! there are as many as there are levels: one for each eightfold of the index's memory. Filters are
//! made of what is written anyway.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use onefold_block::ContainerId;

use crate::container::directories;
use crate::container::table::ContainerInfo;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container::{DirectoryEntry, directory_bytes};
use crate::format::pair::{HOOKS_END, Pair};
use crate::pool::Pool;
use crate::predictor::Predictions;
use crate::runs::container_set::ContainerSet;
use crate::runs::lookup::{Asked, Lookup};
use crate::runs::lookup_builder::{Builder, bytes_wanted};
use crate::runs::merge::{Merge, MergeError, Output, Progress, SEGMENT_PAIRS};
use crate::runs::reader::RunReader;
use crate::runs::set::{Run, Runs, Thoroughness, survey};
use crate::sync;
use crate::twins::{Meeting, Twins};

/// Shares of the memory for the index and for maps of which the larger is for sorting new pairs:
/// those of a run of the lowest level.
const SORTED_SHARES: (u64, u64) = (16, 8);
/// Pairs of a new run, at most: 16 MiB.
const SORTED_MAX: u64 = 1 << 20;
/// So many pairs that are in no run yet are worth one, as a part of a full one,
const WORTH_SHARE: u64 = 16;
/// or of what the index holds, if that is less: it should not let go what is in no run yet.
const INDEX_SHARE: u64 = 2;
/// Share of the index memory in which runs are read to be merged.
const READ_SHARE: u64 = 32;
/// Blocks of a run that are read at once, at most.
const BLOCKS_AT_ONCE_MAX: u64 = 16;
/// The index gives up to this share of its memory to filters of what is in runs on disk: half, as
/// they tell of nine times as many fingerprints in the same memory.
const FILTER_SHARE_MAX: u64 = 2;
/// At first, and then always double as much: this share.
const FILTER_SHARE_MIN: u64 = 16;
/// Hooks that are handed on together.
const PAIRS_AT_ONCE: usize = 4096;
/// Containers of a new run, at most.
const CONTAINERS_MAX: usize = 1 << 14;

/// What a step came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeduplicationStep {
    /// Bytes read and written for it, about.
    pub work_bytes: u64,
    /// Chunks that are stored once less.
    pub found: u64,
    /// Whether nothing is left to do for now.
    pub done: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeduplicationStatus {
    /// Chunks found in the background since the pool was opened: stored twice and then once.
    pub found: u64,
    /// Chunks that are in no run yet.
    pub new: u64,
    /// Chunks in runs that have not met the largest one yet.
    pub apart: u64,
    /// Fingerprint runs.
    pub runs: u64,
    /// Bytes of their files.
    pub run_bytes: u64,
    /// Look-ups on disk by writers.
    pub predictions: Predictions,
    /// Pairs of the merge under way that are merged, and of all that it merges.
    pub merging: Option<(u64, u64)>,
}

/// What it is at.
#[derive(Default)]
pub struct Deduplication {
    runs: Option<Runs>,
    work: Option<Work>,
    meeting: Meeting,
    twins: Twins,
    /// Containers up to here are in a run, or cannot be read.
    scanned: ContainerId,
    unreadable: HashSet<ContainerId>,
    /// Numbers of the runs that writers can ask, as far as there is memory.
    asked: Vec<u32>,
    /// What was made of new runs while they were written.
    made: Vec<Asked>,
    /// Memory that the index has given to them.
    filter_bytes: u64,
    /// No space was left when so many commits had been made.
    blocked_at: Option<u64>,
}

enum Work {
    /// Read directories for a new run.
    Learn(Learning),
    /// Merge runs.
    Merge(Box<Merge>),
    /// The same, before the end of a segment.
    SegmentFull(Box<Merge>),
    /// The same, before its own end.
    Merged(Box<Merge>),
    /// Make what writers ask of the runs that are there.
    Filters(Box<Builder>),
}

impl Work {
    /// It goes on once all that met is shared, and durably so: after that it never meets again.
    const fn waits(&self) -> bool {
        matches!(self, Self::SegmentFull(_) | Self::Merged(_))
    }
}

/// A new run.
struct Learning {
    /// Containers whose directories are to be read.
    left: Vec<(ContainerId, ContainerInfo)>,
    pairs: Vec<Pair>,
    covered: Vec<ContainerId>,
}

impl DeduplicationStatus {
    /// Chunks that have not met all others yet.
    pub const fn undetermined(&self) -> u64 {
        self.new + self.apart
    }
}

impl Deduplication {
    /// What was made of a new run is kept until writers can ask it, unless that run has gone.
    fn keep_made(&mut self, asked: Option<Asked>) {
        self.made.extend(asked);
        let runs = self.runs.as_ref().map_or(&[][..], Runs::whole);
        self.made.retain(|made| runs.iter().any(|run| run.number == made.number));
    }

    /// The runs, once they were read.
    pub const fn runs(&self) -> Option<&Runs> {
        self.runs.as_ref()
    }
}

impl Pool {
    /// Do about `budget_bytes` of work, reading and writing, to find what is stored more than once.
    /// Cheap when there is nothing to do. Nothing is done while another thread is at it.
    ///
    /// # Errors
    /// What the media refuse. A lack of space is none: it is done for now.
    pub fn deduplicate(
        &self,
        budget_bytes: u64,
        thoroughness: Thoroughness,
    ) -> Result<DeduplicationStep, PoolError> {
        let inner = &*self.inner;
        if inner.read_only {
            return Ok(DeduplicationStep { done: true, ..DeduplicationStep::default() });
        }
        inner.check_writable()?;
        match inner.deduplication.try_lock() {
            Ok(mut state) => inner.deduplicate(&mut state, budget_bytes, thoroughness),
            Err(std::sync::TryLockError::Poisoned(state)) => {
                inner.deduplicate(&mut state.into_inner(), budget_bytes, thoroughness)
            }
            Err(std::sync::TryLockError::WouldBlock) => Ok(DeduplicationStep::default()),
        }
    }
}

impl Inner {
    fn deduplicate(
        &self,
        state: &mut Deduplication,
        budget_bytes: u64,
        thoroughness: Thoroughness,
    ) -> Result<DeduplicationStep, PoolError> {
        let mut step = DeduplicationStep::default();
        let commits = self.engine().generation;
        if state.blocked_at.take_if(|at| *at != commits).is_some() || state.blocked_at.is_none() {
            let before = self.counters.found_later.load(Ordering::Relaxed);
            let done = self.deduplicate_on(state, budget_bytes, thoroughness, &mut step);
            step.found = self.counters.found_later.load(Ordering::Relaxed) - before;
            match done {
                Ok(done) => step.done = done,
                Err(error) if error.is_no_space() => {
                    // Until something else changes: this is no reason to press others.
                    tracing::info!("deduplication waits for space: {error}");
                    state.blocked_at = Some(self.engine().generation);
                    step.done = true;
                }
                Err(error) => return Err(error),
            }
        } else {
            step.done = true;
        }
        let runs = state.runs.as_ref().map_or(&[][..], Runs::whole);
        let seen = Seen::of(runs, state.work.as_ref());
        *self.deduplication_seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(step)
    }

    fn deduplicate_on(
        &self,
        state: &mut Deduplication,
        budget_bytes: u64,
        thoroughness: Thoroughness,
        step: &mut DeduplicationStep,
    ) -> Result<bool, PoolError> {
        while step.work_bytes < budget_bytes {
            // What met comes first, so that little of it is lost.
            if state.twins.is_walking() {
                step.work_bytes += self.share_twins(&mut state.twins)?;
                continue;
            }
            if state.twins.is_full(self.twins_max()) {
                state.twins.begin_walk(&self.engine().table, self.lineage_changes());
                continue;
            }
            let waits = state.work.as_ref().is_some_and(Work::waits);
            if state.meeting.is_full(self.meeting_max()) || waits && !state.meeting.is_empty() {
                step.work_bytes += self.verify_meeting(&mut state.meeting, &mut state.twins)?;
                continue;
            }
            if waits && !state.twins.is_empty() {
                state.twins.begin_walk(&self.engine().table, self.lineage_changes());
                continue;
            }
            let Some(work) = state.work.take() else {
                if self.choose_deduplication(state, thoroughness)? {
                    continue;
                }
                return Ok(true);
            };
            if work.waits() {
                self.flush()?;
            }
            match work {
                Work::Learn(learning) => self.learn_pairs(state, learning, budget_bytes, step)?,
                Work::Merge(merge) => self.merge_on(state, merge, budget_bytes, step)?,
                Work::SegmentFull(mut merge) => match merge.end_segment() {
                    Ok(()) => state.work = Some(Work::Merge(merge)),
                    Err(failed) => self.merge_stopped(state, merge, failed)?,
                },
                Work::Merged(merge) => {
                    let asked = merge.finish(self.runs(&mut state.runs)?)?;
                    state.keep_made(asked);
                }
                Work::Filters(builder) => self.build_on(state, builder, budget_bytes, step)?,
            }
        }
        Ok(false)
    }

    /// The runs, read when they are needed first.
    fn runs<'a>(&self, runs: &'a mut Option<Runs>) -> Result<&'a mut Runs, PoolError> {
        Ok(match runs {
            Some(runs) => runs,
            none => none.insert(self.open_runs()?),
        })
    }

    fn open_runs(&self) -> Result<Runs, PoolError> {
        let folder = self.files.fingerprints.clone().ok_or(PoolError::ReadOnly)?;
        let (runs, problems) = Runs::open(folder, self.identity.uuid, self.opened_at)?;
        for problem in problems {
            tracing::warn!("fingerprints are read again from their containers: {problem}");
        }
        Ok(runs)
    }

    /// Visit the pairs of all hooks in the runs, some at a time. Returns the bytes read. A run that
    /// cannot be read is dropped.
    pub fn hooks_of_runs(
        &self,
        state: &mut Deduplication,
        visit: &mut dyn FnMut(&[Pair]),
    ) -> Result<u64, PoolError> {
        let (_, blocks_at_once) = self.merge_limits();
        let whole = self.runs(&mut state.runs)?.whole().to_vec();
        let (mut bytes, mut pairs) = (0, Vec::with_capacity(PAIRS_AT_ONCE));
        for run in whole {
            let runs = self.runs(&mut state.runs)?;
            let parts = Arc::clone(&run.parts);
            let read =
                RunReader::new(runs.folder(), parts, 0, blocks_at_once).and_then(|mut hooks| {
                    while let Some(pair) = hooks.peek()?.filter(|pair| pair.key < HOOKS_END) {
                        hooks.pass();
                        bytes += hooks.take_read_bytes();
                        hand_on(&mut pairs, pair, PAIRS_AT_ONCE, visit);
                    }
                    Ok(())
                });
            if let Err(error) = read {
                self.merge_failed(state, MergeError { run: Some(run.number), error })?;
            }
        }
        visit(&pairs);
        Ok(bytes)
    }

    /// What to do next; false if there is nothing for now.
    fn choose_deduplication(
        &self,
        state: &mut Deduplication,
        thoroughness: Thoroughness,
    ) -> Result<bool, PoolError> {
        let limits = self.merge_limits();
        let runs = self.runs(&mut state.runs)?;
        if let Some((done, inputs)) = runs.take_unfinished() {
            let merge = Merge::resume(runs, (done, inputs), self.alive(), limits);
            return self.begin_merge(state, merge).map(|()| true);
        }

        let runs_pairs: u64 = runs.whole().iter().map(Run::pairs).sum();
        let new = self.not_in_runs(state)?;
        let pairs: u64 = new.iter().map(|(_, info)| u64::from(info.chunks)).sum();
        if pairs >= least_new(thoroughness, runs_pairs, self.new_run_min()) {
            // What a run tells of is durable before it: no other containers get these numbers.
            self.flush()?;
            let (pairs, covered) = (Vec::with_capacity(pairs as usize), Vec::new());
            state.work = Some(Work::Learn(Learning { left: new, pairs, covered }));
            return Ok(true);
        }
        let runs = self.runs(&mut state.runs)?;
        let Some(inputs) = runs.to_merge(self.sorted_max(), thoroughness) else {
            return self.choose_filters(state);
        };
        let merge = Merge::new(runs, inputs, self.alive(), limits);
        let merge = merge.map(|merge| match self.filters_to_make(state) {
            None => merge,
            Some(bytes) => merge.with_filters(bytes),
        });
        self.begin_merge(state, merge).map(|()| true)
    }

    /// Bytes of filters that are made of a run while it is written: in the memory for sorting, of
    /// which a merge has no other use, and a new run a 14th. An index that knows all asks none.
    fn filters_to_make(&self, state: &Deduplication) -> Option<u64> {
        if self.index_knows_all() {
            return None;
        }
        let sorting = self.sorted_max() * size_of::<Pair>() as u64;
        let kept: u64 = state.made.iter().map(Asked::bytes).sum();
        let most =
            (self.index_memory() - self.directories.budget_bytes() as u64) / FILTER_SHARE_MAX;
        Some(sorting.min(most).saturating_sub(kept)).filter(|&bytes| bytes > 0)
    }

    /// Where other runs are there than those that writers ask, these are next.
    fn choose_filters(&self, state: &mut Deduplication) -> Result<bool, PoolError> {
        let runs = self.runs(&mut state.runs)?;
        let numbers: Vec<u32> = runs.whole().iter().map(|run| run.number).collect();
        // An index that knows all has nothing to ask for.
        if numbers == state.asked || self.index_knows_all() {
            return Ok(false);
        }
        let (folder, wanted) = (Arc::clone(runs.folder()), bytes_wanted(runs.whole()));
        let limit = self.make_room_for_filters(&mut state.filter_bytes, wanted);
        let runs = self.runs(&mut state.runs)?;
        let mut before = Lookup::clone(&self.ask_runs.lookup());
        before.runs.append(&mut state.made);
        let builder = Builder::new(&folder, runs.whole(), limit, &before);
        // While it is made, there is no room for what is of no use any more.
        self.ask_runs.replace(builder.kept());
        state.asked = numbers;
        state.work = Some(Work::Filters(Box::new(builder)));
        Ok(true)
    }

    /// Have the index make room for filters of so many bytes, as far as it goes. Returns how many
    /// they may be.
    fn make_room_for_filters(&self, now: &mut u64, wanted_bytes: u64) -> u64 {
        let all = self.index_memory() - self.directories.budget_bytes() as u64;
        let most = all / FILTER_SHARE_MAX;
        let mut given = (*now).max(all / FILTER_SHARE_MIN);
        while given < wanted_bytes.min(most) {
            given *= 2;
        }
        let given = given.min(most);
        if given > *now {
            self.index.set_budget(all - given);
            *now = given;
        }
        given
    }

    /// The index and its filters have this much memory from now on, in bytes. Returns what is left
    /// for the index: filters have no more than they had, nor than their share.
    pub fn cut_filters(&self, state: &mut Deduplication, bytes: u64) -> u64 {
        state.filter_bytes = state.filter_bytes.min(bytes / FILTER_SHARE_MAX);
        self.begin_filters_anew(state);
        bytes - state.filter_bytes
    }

    /// The index knows all: it gets the memory of filters back. True if it has let something go
    /// meanwhile, which now has room.
    pub fn drop_filters(&self) -> bool {
        let mut state = sync::lock(&self.deduplication);
        if state.filter_bytes == 0 {
            return false;
        }
        state.filter_bytes = 0;
        self.begin_filters_anew(&mut state);
        let bytes = self.index_memory() - self.directories.budget_bytes() as u64;
        self.index.set_budget(bytes)
    }

    /// Filters have another limit: those that are to be asked are chosen again.
    fn begin_filters_anew(&self, state: &mut Deduplication) {
        if matches!(state.work, Some(Work::Filters(_))) {
            state.work = None;
        }
        state.asked.clear();
        state.made.clear();
        self.index.is_in_runs(ContainerId::default());
        self.ask_runs.replace(self.ask_runs.lookup().within(state.filter_bytes));
    }

    /// Right after the index was filled, and has no room for all: writers are to find the rest in
    /// the runs, before deduplication goes on.
    pub fn ready_filters(&self) {
        let mut state = sync::lock(&self.deduplication);
        let mut step = DeduplicationStep::default();
        if state.work.is_some() || !self.choose_filters(&mut state).unwrap_or(false) {
            return;
        }
        if let Some(Work::Filters(builder)) = state.work.take()
            && let Err(error) = self.build_on(&mut state, builder, u64::MAX, &mut step)
        {
            tracing::warn!("writers do without fingerprints on disk: {error}");
        }
    }

    fn build_on(
        &self,
        state: &mut Deduplication,
        mut builder: Box<Builder>,
        budget_bytes: u64,
        step: &mut DeduplicationStep,
    ) -> Result<(), PoolError> {
        while step.work_bytes < budget_bytes {
            match builder.step() {
                Ok(Some(bytes)) => step.work_bytes += bytes,
                Ok(None) => {
                    self.ask_runs.replace(builder.finish());
                    let covered = self.runs(&mut state.runs)?.whole().iter();
                    let newest = covered.filter_map(|run| run.covered.last()).max();
                    self.index.is_in_runs(newest.copied().unwrap_or_default());
                    return Ok(());
                }
                Err(error) if error.is_unreadable() => {
                    // What is damaged goes when it is merged.
                    tracing::warn!("writers do without fingerprints on disk: {error}");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        state.work = Some(Work::Filters(builder));
        Ok(())
    }

    fn begin_merge(
        &self,
        state: &mut Deduplication,
        merge: Result<Merge, MergeError>,
    ) -> Result<(), PoolError> {
        match merge {
            Ok(merge) => {
                state.work = Some(Work::Merge(Box::new(merge)));
                Ok(())
            }
            Err(error) => self.merge_failed(state, error),
        }
    }

    fn merge_failed(&self, state: &mut Deduplication, failed: MergeError) -> Result<(), PoolError> {
        let MergeError { run, error } = failed;
        let Some(number) = run else { return Err(error) };
        tracing::warn!("fingerprints are read again from their containers: {error}");
        self.runs(&mut state.runs)?.drop_damaged(number)?;
        state.scanned = ContainerId::default();
        Ok(())
    }

    fn merge_on(
        &self,
        state: &mut Deduplication,
        mut merge: Box<Merge>,
        budget_bytes: u64,
        step: &mut DeduplicationStep,
    ) -> Result<(), PoolError> {
        let runs = self.runs(&mut state.runs)?;
        let mut group = Vec::new();
        while step.work_bytes < budget_bytes {
            match merge.next(runs, &mut group) {
                Ok(Progress::Group(bytes)) => {
                    step.work_bytes += bytes;
                    state.meeting.add(&group);
                    if state.meeting.is_full(self.meeting_max()) {
                        break;
                    }
                }
                Ok(Progress::SegmentFull) => {
                    state.work = Some(Work::SegmentFull(merge));
                    return Ok(());
                }
                Ok(Progress::Ended) => {
                    state.work = Some(Work::Merged(merge));
                    return Ok(());
                }
                Err(failed) => return self.merge_stopped(state, merge, failed),
            }
        }
        state.work = Some(Work::Merge(merge));
        Ok(())
    }

    /// A merge cannot go on: what it has written goes.
    fn merge_stopped(
        &self,
        state: &mut Deduplication,
        merge: Box<Merge>,
        failed: MergeError,
    ) -> Result<(), PoolError> {
        merge.abandon(self.runs(&mut state.runs)?)?;
        self.merge_failed(state, failed)
    }

    /// Read the directories of containers that are in no run, and make a run of them.
    fn learn_pairs(
        &self,
        state: &mut Deduplication,
        mut learning: Learning,
        budget_bytes: u64,
        step: &mut DeduplicationStep,
    ) -> Result<(), PoolError> {
        while step.work_bytes < budget_bytes {
            let Some((id, info)) = learning.left.pop() else {
                return self.write_run(state, learning, step);
            };
            match directories::load(&*self.plain, id, info.len_bytes.into()) {
                Ok(entries) => {
                    let pair = |(ordinal, entry): (usize, &DirectoryEntry)| {
                        Pair::new(&entry.fingerprint, id, ordinal)
                    };
                    learning.pairs.extend(entries.iter().enumerate().map(pair));
                    learning.covered.push(id);
                    step.work_bytes += directory_bytes(entries.len()) as u64;
                }
                Err(_) if self.engine().table.get(id).is_none() => {}
                Err(error) if error.is_unreadable() => {
                    tracing::error!("its chunks will not be shared: {error}");
                    state.unreadable.insert(id);
                }
                Err(error) => return Err(error),
            }
        }
        state.work = Some(Work::Learn(learning));
        Ok(())
    }

    fn write_run(
        &self,
        state: &mut Deduplication,
        learning: Learning,
        step: &mut DeduplicationStep,
    ) -> Result<(), PoolError> {
        let Learning { mut pairs, mut covered, .. } = learning;
        if covered.is_empty() {
            return Ok(());
        }
        pairs.sort_unstable();
        covered.sort_unstable();
        let sequence = self.checkpoint_sequence.load(Ordering::Acquire);
        let filters = self.filters_to_make(state);
        let runs = self.runs(&mut state.runs)?;
        let number = runs.take_number();
        let mut output = Output::new(number, sequence, Vec::new(), covered, SEGMENT_PAIRS);
        if let Some(filters) = filters {
            output = output.with_filters(pairs.len() as u64, filters);
        }
        for pair in pairs {
            step.work_bytes += output.push(runs, pair)?;
        }
        // Pairs of its own that are alike meet when it is merged.
        let (run, asked) = output.finish(runs)?;
        runs.install(run)?;
        state.keep_made(asked);
        Ok(())
    }

    /// Containers that are in no run and may come into one: sealed and in the store.
    fn not_in_runs(
        &self,
        state: &mut Deduplication,
    ) -> Result<Vec<(ContainerId, ContainerInfo)>, PoolError> {
        let Deduplication { runs, scanned, unreadable, .. } = state;
        let runs = self.runs(runs)?;
        let in_memory: HashSet<ContainerId> = {
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            live.keys().copied().collect()
        };
        let most = self.sorted_max();
        let (mut new, mut pairs, mut waits) = (Vec::new(), 0, false);
        let engine = self.engine();
        for (id, info) in engine.table.after(*scanned) {
            if pairs >= most || new.len() == CONTAINERS_MAX {
                break;
            }
            let later = !info.is_sealed() || in_memory.contains(&id);
            let never = info.is_punched() || unreadable.contains(&id) || runs.covers(id);
            if later {
                waits = true;
            } else if !never {
                new.push((id, *info));
                pairs += u64::from(info.chunks);
            }
            if new.is_empty() && !waits {
                *scanned = id;
            }
        }
        Ok(new)
    }

    /// The containers that are there.
    fn alive(&self) -> ContainerSet {
        self.engine().table.iter().map(|(id, _)| id).collect()
    }

    /// Pairs that are worth a new run.
    fn new_run_min(&self) -> u64 {
        (self.sorted_max() / WORTH_SHARE).min(self.index.room() / INDEX_SHARE)
    }

    fn sorted_max(&self) -> u64 {
        let (of_index, of_maps) = SORTED_SHARES;
        let bytes = (self.index_memory() / of_index).max(self.budgets.map_bytes / of_maps);
        (bytes / size_of::<Pair>() as u64).min(SORTED_MAX)
    }

    /// Pairs of a segment, and blocks of a run that are read at once.
    fn merge_limits(&self) -> (u64, usize) {
        let blocks = self.index_memory() / READ_SHARE / 16 / 4096;
        (SEGMENT_PAIRS, blocks.clamp(1, BLOCKS_AT_ONCE_MAX) as usize)
    }

    /// How far deduplication in the background is.
    pub fn deduplication_status(&self) -> DeduplicationStatus {
        let seen = *self.deduplication_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.or_else(|| self.look_at_runs()).unwrap_or_default();
        let chunks: u64 = {
            // Those of one that is being filled are counted once it is sealed.
            let engine = self.engine();
            engine.table.iter().map(|(_, info)| u64::from(info.chunks)).sum()
        };
        DeduplicationStatus {
            found: self.counters.found_later.load(Ordering::Relaxed),
            new: chunks.saturating_sub(seen.pairs),
            apart: seen.pairs - seen.met,
            runs: seen.runs,
            run_bytes: seen.run_bytes,
            predictions: self.ask_runs.predictions(),
            merging: seen.merging,
        }
    }

    /// The runs of a pool that nobody has worked on yet.
    fn look_at_runs(&self) -> Option<Seen> {
        let folder = self.files.fingerprints.as_ref()?;
        let found = survey(&**folder, &self.identity.uuid, self.opened_at);
        found.ok().map(|found| Seen::of(&found.whole, None))
    }
}

/// Add a pair to those that are handed on together, and hand them on once there are so many.
fn hand_on(pairs: &mut Vec<Pair>, pair: Pair, most: usize, visit: &mut dyn FnMut(&[Pair])) {
    pairs.push(pair);
    if pairs.len() == most {
        visit(pairs);
        pairs.clear();
    }
}

/// What `status` tells of it, as it was after the last step: it waits for none.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Pairs in all runs, and in the largest that was merged.
    pairs: u64,
    met: u64,
    runs: u64,
    run_bytes: u64,
    merging: Option<(u64, u64)>,
}

impl Seen {
    fn of(runs: &[Run], work: Option<&Work>) -> Self {
        let merging = match work {
            Some(Work::Merge(merge) | Work::SegmentFull(merge) | Work::Merged(merge)) => {
                Some(merge.progress())
            }
            _ => None,
        };
        Self {
            pairs: runs.iter().map(Run::pairs).sum(),
            met: runs.iter().filter(|run| run.is_merged()).map(Run::pairs).max().unwrap_or(0),
            runs: runs.len() as u64,
            run_bytes: runs.iter().map(Run::bytes).sum(),
            merging,
        }
    }
}

/// So many pairs that are in no run yet are put into one, beside `runs_pairs` that are in some, if
/// `worth` are always worth it.
fn least_new(thoroughness: Thoroughness, runs_pairs: u64, worth: u64) -> u64 {
    match thoroughness {
        Thoroughness::Levels => worth,
        Thoroughness::Idle => runs_pairs.div_ceil(WORTH_SHARE).clamp(1, worth),
        Thoroughness::Whole => 1,
    }
}

#[cfg(test)]
mod tests;
