//! Winning space back: what is alive in the emptiest containers is moved together, and they go.
//! Room: onefold-pool.
//! In: a budget of bytes, and how much may be stored for what is alive. Out: work done, in steps.
//! Source: ARCHITECTURE.md, section 5.
//! Invariants: (1) no clock: steps happen when a caller asks; (2) what is missed costs space, never
//! data: a container goes only when its reference total is 0, by the rule for all containers;
//! (3) a container is closed to sharing before its references are looked for; (4) the owner in a
//! directory is only where a reference is looked for first: what the map says counts.
//! Cost: one read per victim; a pass over the maps for those victims whose references their owners
//! do not explain, which are then read once more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};

use onefold_block::{ContainerId, Lba};

use crate::container::table::{ContainerInfo, ContainerTable};
use crate::counters::count;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::gather::{Gathering, Order};
use crate::live_pass::LivePass;
use crate::map_pass::{Cursor, LEAF_BYTES, Leaves};
use crate::pba::{MapEntry, Pba};
use crate::pinned::Pinned;
use crate::pool::Pool;
use crate::punch::Punching;
use crate::relocate::{MOVES_PER_COMMIT, Records, Reference};
use crate::sync;
use crate::victim::{Reader, Victim};

/// A victim with more references than this is left alone: it is popular, and they take memory.
const REFERENCES_PER_VICTIM_MAX: u64 = 1 << 16;
/// References held in memory for one group of victims.
const REFERENCES_MAX: u64 = 1 << 20;
/// Live bytes of one group of victims, at most; they are held in memory while they move.
const GROUP_BYTES_MAX: u64 = 16 << 20;
/// Groups that all live bytes are at least: with few of them, victims are taken that would have
/// been emptier a little later.
const GROUPS_MIN: u64 = 32;
/// So many short containers are worth merging.
const SHORT_CONTAINERS: usize = 8;
/// A container that would give back less than one part in this is never a victim.
const DEAD_SHARE_MIN: u64 = 32;
/// Work owed by writers is done in pieces of at least this.
const DEBT_BYTES: u64 = 256 << 10;
/// Writers begin to help when so much of what may be dead is, in per cent.
const HELP_PERCENT: u32 = 85;
/// Bytes of work for each byte that a writer who helps writes,
const HELP_SHARE: u64 = 4;
/// and one who must do most of it.
const MOST_SHARE: u64 = 16;

/// How much may be stored for what is alive: stored bytes over live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceTarget {
    percent: u32,
}

impl SpaceTarget {
    /// Bytes that may be stored for each byte that is alive.
    pub fn stored_over_live(&self) -> f64 {
        f64::from(self.percent) / 100.0
    }

    /// From 1.05 to 100.
    pub fn new(stored_over_live: f64) -> Result<Self, PoolError> {
        if (1.05..=100.0).contains(&stored_over_live) {
            return Ok(Self { percent: (stored_over_live * 100.0).round() as u32 });
        }
        Err(PoolError::Setting(format!(
            "a space target of {stored_over_live} is not possible: accepted are 1.05 to 100 \
             stored bytes per live byte"
        )))
    }

    /// Stored bytes allowed for so many live ones.
    fn allowed(self, live_bytes: u64) -> u64 {
        (u128::from(live_bytes) * u128::from(self.percent) / 100) as u64
    }
}

impl std::fmt::Display for SpaceTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}x", self.percent / 100, self.percent % 100)
    }
}

impl Default for SpaceTarget {
    fn default() -> Self {
        Self { percent: 150 }
    }
}

/// What a step in the background came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundStep {
    /// Bytes read and written for it, about.
    pub work_bytes: u64,
    /// Of these, records moved.
    pub moved_bytes: u64,
    /// Whether nothing is left to do for now.
    pub done: bool,
}

/// What is being worked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// No more stored than this, and no heap of short containers.
    Target(SpaceTarget),
    /// The same, and then that blocks side by side lie side by side.
    Idle(SpaceTarget),
    /// One container, whatever it takes.
    Room,
}

/// What winning space back is at.
#[derive(Default)]
pub struct Reclaim {
    work: Option<Work>,
    /// Containers that could not be emptied, with their references then: they are tried again when
    /// these have changed.
    stuck: HashMap<ContainerId, u64>,
    pub(crate) pinned: Pinned,
    /// Counts in a row that did not come to their end.
    counts_failed: u32,
    /// Bytes of work that writers owe.
    debt_bytes: u64,
    order: Order,
    pub(crate) punching: Punching,
    /// Memory of the last group, for the next one.
    memory: Memory,
}

/// What a group of victims needs in memory.
#[derive(Default)]
struct Memory {
    reader: Reader,
    references: Vec<Reference>,
    records: Records,
}

enum Work {
    Empty(Emptying),
    Count(Counting),
    /// Give back pages of what snapshots pin; nothing is closed before the first step.
    Punch(Option<LivePass>),
    Gather(Gathering),
}

/// A group of victims.
struct Emptying {
    victims: Vec<ContainerId>,
    phase: Phase,
    memory: Memory,
    /// Containers that the pass over the maps found to be referred to by snapshots.
    pinned: HashSet<ContainerId>,
}

enum Phase {
    /// Read the victim with this number, and hold what its owners still refer to.
    AskOwners(usize),
    /// Walk the maps for references into these victims.
    Walk(Cursor, Vec<ContainerId>),
    /// Read what else is alive in the first of these.
    Read(Vec<ContainerId>),
    /// Move from this reference on.
    Move(usize),
}

/// A pass over the maps that counts which records are referred to.
struct Counting {
    cursor: Cursor,
    /// Containers of this part of the pass.
    range: (ContainerId, ContainerId),
    /// Addresses referred to.
    found: Vec<Pba>,
    /// How often pages had changed hands when the pass began: one that did meanwhile may be missed.
    changes: u64,
}

impl Pool {
    /// Do about `budget_bytes` of work in the background, reading and writing, to get to `target`.
    /// Cheap when there is nothing to do. Nothing is done while another thread is at it.
    pub fn background(
        &self,
        budget_bytes: u64,
        target: SpaceTarget,
    ) -> Result<BackgroundStep, PoolError> {
        let inner = &*self.inner;
        if inner.read_only {
            return Ok(BackgroundStep { done: true, ..BackgroundStep::default() });
        }
        inner.check_writable()?;
        let dropped = inner.drop_deleted(budget_bytes)?;
        if dropped > 0 {
            return Ok(BackgroundStep { work_bytes: dropped, ..BackgroundStep::default() });
        }
        match inner.reclaim.try_lock() {
            Ok(mut reclaim) => inner.reclaim_step(&mut reclaim, budget_bytes, Goal::Idle(target)),
            Err(TryLockError::Poisoned(poisoned)) => {
                let mut reclaim = poisoned.into_inner();
                inner.reclaim_step(&mut reclaim, budget_bytes, Goal::Idle(target))
            }
            Err(TryLockError::WouldBlock) => Ok(BackgroundStep::default()),
        }
    }

    /// Let writers keep to a target themselves: the nearer they come to it, the more work in the
    /// background each of them does with its write. `None` leaves that to [`Pool::background`] and
    /// to the moment when the disk is full.
    pub fn set_space_target(&self, target: Option<SpaceTarget>) {
        let percent = target.map_or(0, |target| target.percent);
        self.inner.space_target.store(percent, Ordering::Relaxed);
    }
}

impl Inner {
    fn lock_reclaim(&self) -> MutexGuard<'_, Reclaim> {
        sync::lock(&self.reclaim)
    }

    /// A writer that stored `written` bytes does its part, if there is a target.
    pub fn keep_pace(&self, written: u64) -> Result<(), PoolError> {
        let percent = self.space_target.load(Ordering::Relaxed);
        if percent == 0 {
            return Ok(());
        }
        let target = SpaceTarget { percent };
        let helped = SpaceTarget { percent: 100 + (percent - 100) * HELP_PERCENT / 100 };
        let totals = self.engine().table.totals();
        let allowed = target.allowed(totals.live_bytes);
        // Near what may be dead, writers help; past it, they do most of it. The later they begin,
        // the emptier the victims are by then.
        let (from, slack) = (helped.allowed(totals.live_bytes), self.slack_bytes());
        let slack = slack + self.pinned_dead.load(Ordering::Relaxed);
        let share = match totals.stored_bytes.saturating_sub(slack) {
            stored if stored <= from => return Ok(()),
            stored if stored <= allowed => HELP_SHARE,
            _ => MOST_SHARE,
        };
        let mut reclaim = if share > HELP_SHARE {
            self.lock_reclaim()
        } else {
            // Somebody is at it, and there is time.
            let Ok(reclaim) = self.reclaim.try_lock() else { return Ok(()) };
            reclaim
        };
        reclaim.debt_bytes += written * share;
        if reclaim.debt_bytes < DEBT_BYTES {
            return Ok(());
        }
        let budget = std::mem::take(&mut reclaim.debt_bytes);
        match self.reclaim_step(&mut reclaim, budget, Goal::Target(helped)) {
            // The write itself had its space; whoever finds none will say so.
            Err(error) if error.is_no_space() => Ok(()),
            done => done.map(drop),
        }
    }

    /// Called by a writer that found no space. True if some was won back.
    pub fn make_room(&self) -> Result<bool, PoolError> {
        let gave_way = self.give_way()?;
        let mut reclaim = self.lock_reclaim();
        if let Some(work) = reclaim.work.take() {
            self.abandon(work);
        }
        loop {
            if gave_way || self.gives_back() {
                self.checkpoint()?;
                return Ok(true);
            }
            let step = match self.reclaim_step(&mut reclaim, u64::MAX, Goal::Room) {
                Err(error) if error.is_no_space() => return self.punch_dead(&mut reclaim.punching),
                step => step?,
            };
            if step.done && !self.gives_back() {
                return self.punch_dead(&mut reclaim.punching);
            }
        }
    }

    /// Whether containers go with the next checkpoint, or with the one that is being written.
    fn gives_back(&self) -> bool {
        let engine = self.engine();
        engine.table.dead() > 0 || engine.leaving > 0
    }

    /// What is neither here nor there: the containers being filled are not full.
    pub fn slack_bytes(&self) -> u64 {
        2 * u64::from(self.settings.container_bytes)
    }

    fn reclaim_step(
        &self,
        reclaim: &mut Reclaim,
        budget_bytes: u64,
        goal: Goal,
    ) -> Result<BackgroundStep, PoolError> {
        let mut step = BackgroundStep::default();
        if !matches!(goal, Goal::Idle(_)) && matches!(reclaim.work, Some(Work::Gather(_))) {
            // Order is for times when nobody waits for space.
            reclaim.work = None;
        }
        while step.work_bytes < budget_bytes {
            let Some(mut work) = reclaim.work.take().or_else(|| self.choose(reclaim, goal)) else {
                self.settle(goal, true)?;
                reclaim.memory = Memory::default();
                step.done = true;
                return Ok(step);
            };
            let finished = match &mut work {
                Work::Empty(emptying) => self.empty(emptying, budget_bytes, &mut step),
                Work::Count(counting) => {
                    self.count(counting, &mut reclaim.counts_failed, budget_bytes, &mut step)
                }
                Work::Punch(pass) => self.punch_pinned(reclaim, pass, budget_bytes, &mut step),
                Work::Gather(gathering) => {
                    self.gather(gathering, &mut reclaim.order, budget_bytes, &mut step)
                }
            };
            match finished {
                Ok(false) => reclaim.work = Some(work),
                Ok(true) => {
                    self.conclude(reclaim, work);
                    self.settle(goal, false)?;
                    if goal == Goal::Room {
                        return Ok(step);
                    }
                }
                Err(error) => {
                    self.abandon(work);
                    return Err(error);
                }
            }
        }
        Ok(step)
    }

    /// Give dead containers back, once they are worth a checkpoint or nothing else is left to do.
    fn settle(&self, goal: Goal, at_end: bool) -> Result<(), PoolError> {
        let totals = self.engine().table.totals();
        let worth = totals.dead_bytes >= self.worth_a_pass(&totals);
        if goal != Goal::Room && totals.dead > 0 && (at_end || worth) {
            return self.checkpoint();
        }
        Ok(())
    }

    /// What to do next; `None` if the goal is reached as far as it can be.
    fn choose(&self, reclaim: &mut Reclaim, goal: Goal) -> Option<Work> {
        let mut engine = self.engine();
        let table = &mut engine.table;
        let capacity = u64::from(self.settings.container_bytes);
        let totals = table.totals();
        let held_max = (self.budgets.map_bytes / 4).clamp(capacity, GROUP_BYTES_MAX);
        let group_bytes = (totals.live_bytes / GROUPS_MIN).clamp(capacity, held_max);
        let gone = self.counters.snapshots_gone.load(Ordering::Relaxed);
        let pinned_dead = reclaim.pinned.look(table, gone);
        self.pinned_dead.store(pinned_dead, Ordering::Relaxed);
        let too_much = match goal {
            Goal::Room => true,
            Goal::Target(target) | Goal::Idle(target) => {
                let stored = totals.stored_bytes - totals.dead_bytes;
                stored.saturating_sub(pinned_dead) > target.allowed(totals.live_bytes) + capacity
            }
        };
        reclaim.stuck.retain(|&id, at| table.get(id).is_some_and(|i| i.references == *at));
        let left_alone = {
            // A container is sealed before the store has it: until then only memory has it all.
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            let stuck = reclaim.stuck.keys().chain(reclaim.pinned.containers());
            stuck.chain(live.keys()).copied().collect()
        };
        let victims = if too_much {
            let group_bytes = if goal == Goal::Room { 0 } else { group_bytes };
            emptiest(table, &left_alone, group_bytes)
        } else {
            short(table, &left_alone, capacity, group_bytes)
        };
        if !victims.is_empty() {
            for &id in &victims {
                table.set_closing(id, true);
            }
            let memory = std::mem::take(&mut reclaim.memory);
            let (phase, pinned) = (Phase::AskOwners(0), HashSet::new());
            return Some(Work::Empty(Emptying { victims, phase, memory, pinned }));
        }
        // Something may be dead that only a count can tell.
        let chunk = self.chunk_bytes() as u64;
        let hidden = table.unseen().saturating_mul(chunk);
        let worth = match goal {
            Goal::Room => hidden > 0,
            Goal::Target(_) | Goal::Idle(_) => {
                // Where snapshots come and go faster than a count comes to its end, few are begun.
                let worth = self.worth_a_pass(&totals);
                hidden > worth.saturating_mul(1 << reclaim.counts_failed.min(20))
            }
        };
        if !worth {
            let Goal::Idle(_) = goal else { return None };
            if reclaim.pinned.is_worth_punching(pinned_dead, self.worth_a_pass(&totals)) {
                return Some(Work::Punch(None));
            }
            let live_bytes = totals.live_bytes;
            let gathering = self.begin_gathering(&mut reclaim.order, live_bytes, held_max)?;
            return Some(Work::Gather(gathering));
        }
        table.begin_count();
        let range = self.next_range(table, ContainerId::new(0));
        let changes = self.lineage_changes();
        let (cursor, found) = (Cursor::default(), Vec::new());
        Some(Work::Count(Counting { cursor, range, found, changes }))
    }

    /// Containers after `after` whose references fit into memory.
    fn next_range(&self, table: &ContainerTable, after: ContainerId) -> (ContainerId, ContainerId) {
        let held_max = (self.budgets.map_bytes / 4 / size_of::<Pba>() as u64).max(1);
        let (mut held, mut last) = (0, after);
        for (id, info) in table.after(after) {
            held += info.references;
            if held > held_max && last > after {
                break;
            }
            last = id;
        }
        (after, last)
    }

    /// Victims that are still referred to may be shared again, and wait until that changes.
    fn conclude(&self, reclaim: &mut Reclaim, work: Work) {
        let Work::Empty(Emptying { victims, memory, pinned, .. }) = work else { return };
        reclaim.pinned.extend(pinned);
        reclaim.memory = Memory { reader: memory.reader, ..Memory::default() };
        let mut engine = self.engine();
        for id in victims {
            engine.table.set_closing(id, false);
            if let Some(left) = engine.table.get(id).filter(|info| info.is_referenced()) {
                reclaim.stuck.insert(id, left.references);
            }
        }
    }

    fn abandon(&self, work: Work) {
        match work {
            Work::Empty(Emptying { victims, .. }) => {
                let mut engine = self.engine();
                for id in victims {
                    engine.table.set_closing(id, false);
                }
            }
            Work::Punch(Some(pass)) => self.end_punching(&pass),
            Work::Count(_) => self.engine().table.end_count(false),
            _ => {}
        }
    }

    /// Go on with a group; true once it is finished.
    fn empty(
        &self,
        work: &mut Emptying,
        budget_bytes: u64,
        step: &mut BackgroundStep,
    ) -> Result<bool, PoolError> {
        let memory = &mut work.memory;
        while step.work_bytes < budget_bytes {
            work.phase = match &mut work.phase {
                Phase::AskOwners(number) if *number < work.victims.len() => {
                    step.work_bytes += self.ask_owners(work.victims[*number], memory)?;
                    Phase::AskOwners(*number + 1)
                }
                Phase::AskOwners(_) => {
                    let rest = self.unexplained(&work.victims, &memory.references);
                    memory.references.retain(|found| !rest.contains(&found.pba.container));
                    Phase::Walk(Cursor::default(), rest)
                }
                Phase::Walk(_, rest) if rest.is_empty() => Phase::Read(Vec::new()),
                Phase::Walk(cursor, rest) => {
                    let references = &mut memory.references;
                    let pinned = &mut work.pinned;
                    // A leaf is one volume's.
                    let mut of_snapshot = None;
                    let more =
                        self.walk_leaf(cursor, Leaves::Distinct, &mut |volume, lba, pba| {
                            let is_snapshot =
                                || self.volume_by_number(volume).is_none_or(|v| v.is_snapshot);
                            if *of_snapshot.get_or_insert_with(is_snapshot) {
                                pinned.insert(pba.container);
                            } else if rest.binary_search(&pba.container).is_ok() {
                                references.push(Reference { volume, lba, pba });
                            }
                        })?;
                    step.work_bytes += LEAF_BYTES;
                    if more {
                        continue;
                    }
                    // What snapshots refer to stays until they go: to move the rest of it would
                    // copy leaves, and give nothing back.
                    let pinned = &work.pinned;
                    memory.references.retain(|found| !pinned.contains(&found.pba.container));
                    rest.retain(|id| !pinned.contains(id));
                    Phase::Read(std::mem::take(rest))
                }
                Phase::Read(rest) => {
                    if let Some(id) = rest.pop() {
                        step.work_bytes += self.read_live(id, memory)?;
                        continue;
                    }
                    // In the order of owners: what is read together lies together again.
                    let Memory { references, records, .. } = memory;
                    references.retain(|reference| records.holds(reference.pba));
                    references.sort_unstable();
                    Phase::Move(0)
                }
                Phase::Move(from) if *from < memory.references.len() => {
                    let batch = batch(&memory.references[*from..]);
                    let moved = self.move_batch(batch, &mut memory.records)?;
                    step.moved_bytes += moved;
                    step.work_bytes += moved.max(1);
                    Phase::Move(*from + batch.len())
                }
                Phase::Move(_) => return Ok(true),
            };
        }
        Ok(false)
    }

    /// A victim that is still referred to, in memory, and its length in bytes.
    fn read_victim<'a>(
        &self,
        id: ContainerId,
        reader: &'a mut Reader,
    ) -> Result<Option<(Victim<'a>, u64)>, PoolError> {
        let info = self.engine().table.get(id).copied();
        let Some(info) = info.filter(ContainerInfo::is_referenced) else { return Ok(None) };
        let lens = (info.len_bytes, self.settings.container_bytes);
        match reader.read(&*self.plain, id, lens) {
            Ok(victim) => Ok(Some((victim, info.len_bytes.into()))),
            Err(error) if error.is_unreadable() => {
                tracing::error!("its space cannot be won back: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What single blocks of a volume hold; nothing where its map cannot be read, or if it is gone.
    pub fn pick(&self, volume: u32, blocks: &[Lba], out: &mut Vec<MapEntry>) {
        out.clear();
        while out.len() < blocks.len() {
            let rest = &blocks[out.len()..];
            if self.map.pick(volume, rest, out).is_err() {
                out.push(MapEntry::Hole);
            }
        }
    }

    /// Ask the owners of a victim's records whether they still refer to them, and hold those that
    /// they do. Returns the bytes read.
    fn ask_owners(&self, id: ContainerId, memory: &mut Memory) -> Result<u64, PoolError> {
        let Memory { reader, references, records } = memory;
        let Some((victim, read)) = self.read_victim(id, reader)? else { return Ok(1) };
        let (mut blocks, mut now) = (Vec::new(), Vec::new());
        for of_one in victim.entries.chunk_by(|a, b| a.owner.volume == b.owner.volume) {
            let Some(volume) = self.volume_by_number(of_one[0].owner.volume) else { continue };
            let end = volume.blocks(self.chunk_bytes());
            let entries = || of_one.iter().filter(|entry| entry.owner.lba.get() < end);
            blocks.clear();
            blocks.extend(entries().map(|entry| entry.owner.lba));
            self.pick(volume.number, &blocks, &mut now);
            let shares_nothing = volume.parent.load(Ordering::Acquire) == 0;
            for (entry, now) in entries().zip(&now) {
                let pba = Pba { container: id, location: entry.location };
                let own = || {
                    let lba = entry.owner.lba;
                    shares_nothing
                        || self.map.not_own_run(volume.number, lba, 1).is_ok_and(|run| run == 0)
                };
                if *now == MapEntry::Stored(pba) && own() {
                    let (volume, lba) = (volume.number, entry.owner.lba.get());
                    references.push(Reference { volume, lba, pba });
                    records.take(&victim, pba);
                }
            }
        }
        Ok(read)
    }

    /// Victims that are referred to more often than their owners explain, in order.
    fn unexplained(&self, victims: &[ContainerId], references: &[Reference]) -> Vec<ContainerId> {
        let mut found: BTreeMap<ContainerId, u64> = BTreeMap::new();
        for reference in references {
            *found.entry(reference.pba.container).or_default() += 1;
        }
        let engine = self.engine();
        let explained = |id: ContainerId| found.get(&id).copied().unwrap_or(0);
        let mut rest = victims.to_vec();
        rest.retain(|&id| engine.table.get(id).is_some_and(|i| i.references > explained(id)));
        rest.sort_unstable();
        rest
    }

    /// Hold the records of a victim that are referred to and not held yet. Returns the bytes read.
    fn read_live(&self, id: ContainerId, memory: &mut Memory) -> Result<u64, PoolError> {
        let Memory { reader, references, records } = memory;
        let Some((victim, read)) = self.read_victim(id, reader)? else { return Ok(1) };
        for reference in references.iter().filter(|reference| reference.pba.container == id) {
            records.take(&victim, reference.pba);
        }
        Ok(read)
    }

    /// Move what a few blocks of one volume refer to. Returns the bytes copied.
    pub fn move_batch(&self, batch: &[Reference], records: &mut Records) -> Result<u64, PoolError> {
        let Some(volume) = self.volume_by_number(batch[0].volume) else { return Ok(0) };
        assert!(!volume.is_snapshot, "pages of snapshots never change");
        // Map pages are read now, so that the commit need not wait for the media.
        let blocks: Vec<Lba> = batch.iter().map(|reference| Lba::new(reference.lba)).collect();
        self.pick(volume.number, &blocks, &mut Vec::with_capacity(batch.len()));
        let (sealed, bytes) = match self.commit_moves(&volume, batch, records) {
            Err(error) if error.is_no_space() => {
                // A checkpoint frees map pages and what is dead by now.
                self.checkpoint()?;
                self.commit_moves(&volume, batch, records)?
            }
            Err(PoolError::VolumeDeleted) => return Ok(0),
            moved => moved?,
        };
        for container in sealed {
            self.write_out(&container)?;
        }
        count(&self.counters.moved_bytes, bytes);
        self.relieve()?;
        Ok(bytes)
    }

    /// Go on with a count; true once it is finished.
    fn count(
        &self,
        work: &mut Counting,
        failed: &mut u32,
        budget_bytes: u64,
        step: &mut BackgroundStep,
    ) -> Result<bool, PoolError> {
        while step.work_bytes < budget_bytes {
            step.work_bytes += LEAF_BYTES;
            let (after, last) = work.range;
            let found = &mut work.found;
            let more = self.walk_leaf(&mut work.cursor, Leaves::Distinct, &mut |_, _, pba| {
                if pba.container > after && pba.container <= last {
                    found.push(pba);
                }
            })?;
            if more {
                continue;
            }
            work.found.sort_unstable();
            work.found.dedup();
            // One that is just being made is in no map yet.
            let _lineage = self.lock_lineage_for_a_turn();
            let mut engine = self.engine();
            if work.changes != self.lineage_changes() {
                engine.table.end_count(false);
                *failed += 1;
                return Ok(true);
            }
            let ids: Vec<ContainerId> =
                engine.table.after(after).map(|(id, _)| id).take_while(|&id| id <= last).collect();
            for id in ids {
                let from = work.found.partition_point(|pba| pba.container < id);
                let upto = work.found.partition_point(|pba| pba.container <= id);
                engine.table.counted(id, (upto - from) as u32);
            }
            work.found.clear();
            work.range = self.next_range(&engine.table, last);
            work.cursor = Cursor::default();
            if work.range.1 == last {
                engine.table.end_count(true);
                *failed = 0;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The first references of one volume, as many as move at once.
pub fn batch(references: &[Reference]) -> &[Reference] {
    let same = |reference: &&Reference| reference.volume == references[0].volume;
    &references[..references.iter().take(MOVES_PER_COMMIT).take_while(same).count()]
}

fn is_candidate(id: ContainerId, info: &ContainerInfo, left_alone: &HashSet<ContainerId>) -> bool {
    info.is_sealed()
        && !info.closing
        && (1..=REFERENCES_PER_VICTIM_MAX).contains(&info.references)
        && !left_alone.contains(&id)
}

/// The containers that give back most for what must be moved, the older first among equals, up to
/// so many live bytes; at least one, if any is worth it.
fn emptiest(
    table: &ContainerTable,
    left_alone: &HashSet<ContainerId>,
    group_bytes: u64,
) -> Vec<ContainerId> {
    let worth =
        |info: &ContainerInfo| info.dead_bytes() >= u64::from(info.len_bytes) / DEAD_SHARE_MIN;
    let mut candidates: Vec<(u64, ContainerId, u64, u64)> = table
        .iter()
        .filter(|(id, info)| is_candidate(*id, info, left_alone) && worth(info))
        .map(|(id, info)| {
            let live = info.live_bytes();
            ((live << 16) / info.stored_bytes(), id, live, info.references)
        })
        .collect();
    candidates.sort_unstable();
    take_group(candidates.into_iter().map(|(_, id, live, refs)| (id, live, refs)), group_bytes)
}

/// Containers that are less than half full, if there are enough to be worth merging.
fn short(
    table: &ContainerTable,
    left_alone: &HashSet<ContainerId>,
    capacity: u64,
    group_bytes: u64,
) -> Vec<ContainerId> {
    let short: Vec<(ContainerId, u64, u64)> = table
        .iter()
        .filter(|(id, info)| is_candidate(*id, info, left_alone))
        .filter(|(_, info)| u64::from(info.len_bytes) < capacity / 2)
        .map(|(id, info)| (id, info.live_bytes(), info.references))
        .collect();
    if short.len() < SHORT_CONTAINERS {
        return Vec::new();
    }
    take_group(short.into_iter(), group_bytes)
}

fn take_group(
    candidates: impl Iterator<Item = (ContainerId, u64, u64)>,
    group_bytes: u64,
) -> Vec<ContainerId> {
    let (mut bytes, mut references) = (0, 0);
    let mut group = Vec::new();
    for (id, live, refs) in candidates {
        (bytes, references) = (bytes + live, references + refs);
        if !group.is_empty() && (bytes > group_bytes || references > REFERENCES_MAX) {
            break;
        }
        group.push(id);
    }
    group
}

#[cfg(test)]
mod tests;
