//! Storms: two operations at a time that change over at points drawn from a seed, on a disk whose
//! size is drawn too, until the power goes at a media operation drawn likewise; then life goes on
//! with what is left, and so on.
//! Room: onefold-pool.
//!
//! Writers, readers, trims, flushes, checkpoints, reclaim, deduplication in the background, scrubs,
//! checks, notes of the volume, and snapshots and clones that are made, written to, rolled back to
//! and deleted are always among the operations. After each cut every block must hold one of the
//! states that it had since it was
//! last durable, snapshots what they were, nothing may be missing that was not being deleted, and
//! now and then a check of the whole pool must find nothing. A failure names the seed of its
//! life: `ONEFOLD_STORM_SEED=N` lives that one again. `ONEFOLD_CRASH_CUTS=N` says how many cuts
//! there are.

use std::collections::BTreeMap;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{
    BlockDevice, BlockError, ByteSize, ChunkSize, CrashMode, FaultKind, Folder as _, OpKind,
    SimFolder, SplitMix64,
};
use onefold_content::Compression;

use crate::{Budgets, OpenOptions, Pool, PoolError, PoolIdentity, PoolSettings};
use crate::{Scrubber, SpaceTarget, Thoroughness, Volume};

const CHUNK: usize = 16 << 10;
const BLOCKS: u64 = 240;
/// Blocks that one of two writers has to itself, side by side with those of the other.
const STRIPE: u64 = 8;
/// Contents that are written again and again.
const SHARED: u64 = 12;
/// Cuts in one life.
const CUTS_PER_LIFE: u64 = 50;
/// Media operations until the power goes, at most.
const CUT_WITHIN: u64 = 120;
/// Points until a change-over, at most.
const POINTS: u64 = 40;

/// As tight as can be, and so loose that there is time to put blocks in order.
const TARGETS: [f64; 2] = [1.05, 3.0];

/// What one of two threads does.
#[derive(Clone, Debug)]
enum Deed {
    /// These contents from this block on; 0 for zeroes.
    Write(u64, Vec<u64>),
    Trim(u64, u64),
    Read(u64, u64),
    Flush,
    Checkpoint,
    Maintain,
    /// So many bytes of work, towards one of [`TARGETS`].
    Reclaim(u64, usize),
    /// So many bytes of work to find what is stored twice.
    Deduplicate(u64, Thoroughness),
    /// Make the snapshot of this number, or delete it if it is there.
    Snapshot(u64),
    /// Let the volume be what this snapshot is.
    Rollback(u64),
    /// Make a clone of this snapshot.
    Clone(u64),
    /// Write one block of it.
    WriteClone(u64, u64, u64),
    DeleteClone(u64),
    /// Read what is in so many containers after this one.
    Scrub(u32, usize),
    /// Check the whole pool as it is at one moment.
    Check,
    /// Keep this with the volume.
    Note(u64),
    /// Use so much memory for the index, and read some of what is to be read again for it.
    IndexMemory(u64),
}

/// Numbers of snapshots that each of the two makes and deletes; each has one clone at most.
const SNAPSHOTS: u64 = 3;

fn snapshot_name(number: u64) -> String {
    format!("main@s{number}")
}

fn clone_name(number: u64) -> String {
    format!("clone{number}")
}

/// For one whom the other one forestalled, nothing is left to do.
fn unless_forestalled(done: Result<(), PoolError>) -> Result<(), BlockError> {
    match done {
        Err(
            PoolError::NoSnapshot { .. }
            | PoolError::NoVolume { .. }
            | PoolError::VolumeExists(_)
            | PoolError::SnapshotNeeded { .. }
            | PoolError::SnapshotPassed { .. },
        ) => Ok(()),
        done => done.map_err(BlockError::from),
    }
}

impl Deed {
    /// A deed about the snapshot of this number, if it is there, or its clone.
    fn of_snapshot(
        random: &mut SplitMix64,
        number: u64,
        unique: &mut u64,
        known: &Known<'_>,
    ) -> Self {
        let there = known.snapshots.contains_key(&snapshot_name(number));
        let cloned = known.clones.contains_key(&clone_name(number));
        match (random.below(5), there) {
            (0, _) if cloned => Self::DeleteClone(number),
            (1..=2, _) if cloned => {
                *unique += 1;
                Self::WriteClone(number, random.below(BLOCKS), SHARED + *unique)
            }
            (0..=2, true) if !cloned => Self::Clone(number),
            (3, true) => Self::Rollback(number),
            _ => Self::Snapshot(number),
        }
    }

    /// A deed of one of the two, who keeps to its own stripes, snapshots and clones.
    fn draw(random: &mut SplitMix64, role: u64, unique: &mut u64, known: &Known<'_>) -> Self {
        let stripe = random.below(BLOCKS / STRIPE / 2) * 2 + role;
        let len = 1 + random.below(STRIPE);
        let first = stripe * STRIPE + random.below(STRIPE - len + 1);
        match random.below(29) {
            28 => Self::IndexMemory([1 << 20, 3 << 20, 40 << 20][random.below(3) as usize]),
            20..=21 => Self::Snapshot(2 * random.below(SNAPSHOTS) + role),
            22..=24 => {
                let number = 2 * random.below(SNAPSHOTS) + role;
                Self::of_snapshot(random, number, unique, known)
            }
            // One check at a time is a rule, and one of the two has the note to itself.
            26 if role == 0 => Self::Check,
            27 if role == 0 => {
                *unique += 1;
                Self::Note(*unique)
            }
            25..=27 => Self::Scrub(random.below(40) as u32, 1 + random.below(4) as usize),
            0..=8 => {
                let mut content = |_| {
                    if random.chance(1, 4) {
                        return random.below(SHARED);
                    }
                    *unique += 1;
                    SHARED + *unique
                };
                Self::Write(first, (0..len).map(&mut content).collect())
            }
            9..=10 => Self::Trim(first, len),
            11 => Self::Read(first, len),
            12..=13 => Self::Flush,
            14 => Self::Checkpoint,
            15 => Self::Maintain,
            16..=17 => {
                let all = [Thoroughness::Levels, Thoroughness::Idle, Thoroughness::Whole];
                Self::Deduplicate(1 + random.below(3_000_000), all[random.below(3) as usize])
            }
            _ => Self::Reclaim(1 + random.below(800_000), random.below(2) as usize),
        }
    }

    fn perform(&self, pool: &Pool, volume: &Volume) -> Result<Vec<Vec<u8>>, BlockError> {
        let at = |block: u64| block * CHUNK as u64;
        match self {
            Self::Write(first, contents) => {
                let data: Vec<u8> =
                    contents.iter().map(|&seed| chunk(seed)).collect::<Vec<_>>().concat();
                volume.write_at(at(*first), &data, false)?;
            }
            Self::Trim(first, len) => volume.trim(at(*first), at(*len), false)?,
            Self::Read(first, len) => {
                let mut found = vec![0; at(*len) as usize];
                volume.read_at(at(*first), &mut found)?;
                return Ok(found.chunks(CHUNK).map(<[u8]>::to_vec).collect());
            }
            Self::Flush => volume.flush()?,
            Self::Checkpoint => pool.checkpoint().map_err(BlockError::from)?,
            Self::Maintain => pool.maintain().map_err(BlockError::from)?,
            Self::Reclaim(budget, target) => {
                let target = SpaceTarget::new(TARGETS[*target]).map_err(BlockError::from)?;
                pool.background(*budget, target).map_err(BlockError::from)?;
            }
            Self::Deduplicate(budget, thoroughness) => {
                pool.deduplicate(*budget, *thoroughness).map_err(BlockError::from)?;
            }
            Self::Snapshot(number) => {
                let name = snapshot_name(*number);
                unless_forestalled(match pool.snapshot(&name, 0, false) {
                    Err(PoolError::VolumeExists(_)) => pool.delete_snapshot(&name),
                    done => done,
                })?;
            }
            Self::Rollback(number) => {
                pool.rollback(&snapshot_name(*number)).map_err(BlockError::from)?;
            }
            Self::Clone(number) => {
                let (of, name) = (snapshot_name(*number), clone_name(*number));
                pool.clone_snapshot(&of, &name, 0).map_err(BlockError::from)?;
            }
            Self::WriteClone(number, block, content) => {
                let clone = pool.volume(&clone_name(*number)).map_err(BlockError::from)?;
                clone.write_at(at(*block), &chunk(*content), false)?;
            }
            Self::DeleteClone(number) => {
                pool.delete_volume(&clone_name(*number)).map_err(BlockError::from)?;
            }
            Self::Scrub(after, steps) => {
                let mut scrubber = Scrubber::after(*after);
                for _ in 0..*steps {
                    let Some(found) = scrubber.step(pool).map_err(BlockError::from)? else { break };
                    if found.problems_total > 0 || found.blocks_total > 0 {
                        return Err(BlockError::Corrupt(format!("{found:?}")));
                    }
                }
            }
            Self::Check => check_beside(pool)?,
            Self::Note(note) => {
                pool.set_note("main", &note.to_le_bytes()).map_err(BlockError::from)?;
            }
            Self::IndexMemory(bytes) => {
                if pool.set_index_memory(*bytes).map_err(BlockError::from)? {
                    pool.fill_index(1 << 16);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Whether all that was acknowledged before is durable once this has succeeded.
    const fn is_durable(&self) -> bool {
        matches!(
            self,
            Self::Flush
                | Self::Checkpoint
                | Self::Maintain
                | Self::Rollback(_)
                | Self::Check
                | Self::Note(_)
        )
    }

    /// The snapshot or clone that it makes or deletes.
    fn makes_or_deletes(&self) -> Option<String> {
        match self {
            Self::Snapshot(number) => Some(snapshot_name(*number)),
            Self::Clone(number) | Self::DeleteClone(number) => Some(clone_name(*number)),
            _ => None,
        }
    }
}

/// Check all of a pool, as far as others let it.
fn check_beside(pool: &Pool) -> Result<(), BlockError> {
    let report = match pool.check_beside(&mut |_, _| true) {
        Err(PoolError::CheckGaveWay) => return Ok(()),
        checked => checked.map_err(BlockError::from)?.expect("nobody ended it"),
    };
    if report.is_sound() && report.notes.is_empty() {
        return Ok(());
    }
    Err(BlockError::Corrupt(format!("{:?}, {:?}", report.findings, report.notes)))
}

/// What there is that deeds can be about.
struct Known<'a> {
    snapshots: &'a BTreeMap<String, Vec<u64>>,
    clones: &'a BTreeMap<String, Model>,
}

fn chunk(seed: u64) -> Vec<u8> {
    if seed == 0 { vec![0; CHUNK] } else { SplitMix64::new(seed).bytes(CHUNK) }
}

/// The contents that each block may have: those since it was last durable, the newest last.
struct Model(Vec<Vec<u64>>);

impl Model {
    fn new() -> Self {
        Self::of(&[0; BLOCKS as usize])
    }

    /// Each block has one state.
    fn of(contents: &[u64]) -> Self {
        Self(contents.iter().map(|&content| vec![content]).collect())
    }

    /// A deed is about to change these blocks of the volume.
    fn expect(&mut self, deed: &Deed) {
        let (first, contents) = match deed {
            Deed::Write(first, contents) => (*first, contents.clone()),
            Deed::Trim(first, len) => (*first, vec![0; *len as usize]),
            _ => return,
        };
        for (states, content) in self.0[first as usize..].iter_mut().zip(contents) {
            states.push(content);
        }
    }

    /// Lengths before two deeds: what a flush among them makes durable, at least.
    fn marks(&self) -> Vec<usize> {
        self.0.iter().map(Vec::len).collect()
    }

    fn durable_from(&mut self, marks: &[usize]) {
        for (states, &mark) in self.0.iter_mut().zip(marks) {
            states.drain(..mark - 1);
        }
    }

    /// Which of its states each block holds.
    fn which_of_all(&self, volume: &Volume, context: &str) -> Vec<u64> {
        let found = read_all(volume, context);
        let found = found.iter().enumerate();
        found.map(|(block, found)| self.which(block, found, context)).collect()
    }

    /// Which of its states a block holds.
    fn which(&self, block: usize, found: &[u8], context: &str) -> u64 {
        let mut states = self.0[block].iter().rev();
        let state = states.find(|&&state| chunk(state) == found);
        *state.unwrap_or_else(|| {
            panic!("{context}: block {block} holds none of {:?}", self.0[block]);
        })
    }
}

fn read_all(volume: &Volume, context: &str) -> Vec<Vec<u8>> {
    let mut found = vec![0; BLOCKS as usize * CHUNK];
    volume.read_at(0, &mut found).unwrap_or_else(|error| panic!("{context}: {error}"));
    found.chunks(CHUNK).map(<[u8]>::to_vec).collect()
}

fn open(sim: &SimFolder) -> Result<Pool, PoolError> {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let folder = PointFolder::new(std::sync::Arc::new(sim.clone()));
    Pool::open(&folder, &OpenOptions { read_only: false, budgets })
}

/// A pool, its disk, and what it must hold.
struct Life {
    sim: SimFolder,
    pool: Pool,
    volume: Volume,
    model: Model,
    /// What snapshots hold for ever.
    snapshots: BTreeMap<String, Vec<u64>>,
    /// What clones hold.
    clones: BTreeMap<String, Model>,
    /// What the last two deeds were to make or delete, and what is in it then.
    doubts: BTreeMap<String, Vec<u64>>,
    /// What the volume's note may be: the newest last.
    notes: Vec<u64>,
    random: SplitMix64,
    unique: u64,
    /// What happened so far.
    tally: Tally,
}

/// What storms came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    cuts: u64,
    pairs: u64,
    refused: u64,
    /// Bytes moved by reclaim.
    moved: u64,
    /// Bytes given back where they lay.
    punched: u64,
    /// Chunks found in the background.
    found: u64,
    /// Snapshots made.
    snapshots: u64,
    /// Clones made.
    clones: u64,
    /// Rollbacks that came to their end.
    rollbacks: u64,
    /// Checks that came to their end.
    checks: u64,
    /// Notes that were kept.
    notes: u64,
}

impl Life {
    fn begin(seed: u64) -> Self {
        let sim = SimFolder::new();
        let settings = PoolSettings {
            chunk_size: ChunkSize::new(ByteSize(CHUNK as u64)).unwrap(),
            compression: Compression::None,
            container_bytes: 256 << 10,
            ..PoolSettings::default()
        };
        Pool::create(&sim, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
        let pool = open(&sim).unwrap();
        let volume = pool.create_volume("main", ByteSize(BLOCKS * CHUNK as u64)).unwrap();
        pool.checkpoint().unwrap();
        let random = SplitMix64::new(seed);
        let (model, tally) = (Model::new(), Tally::default());
        let (snapshots, clones, doubts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (unique, notes) = (seed << 32, vec![0]);
        Self { sim, pool, volume, model, snapshots, clones, doubts, notes, random, unique, tally }
    }

    /// One time in two the disk has room for all, else for little more than it holds; writers keep
    /// to a target or leave that to others.
    fn draw_surroundings(&mut self) {
        let more = (256 << 10) + self.random.below(2 << 20);
        let small = self.random.chance(1, 2);
        self.sim.set_capacity(small.then(|| self.sim.used_bytes() + more));
        if self.random.chance(1, 4) {
            let kinds = [OpKind::Reserve, OpKind::Create];
            self.sim.fail_once(&kinds, 1 + self.random.below(6), FaultKind::Enospc);
        }
        let paced = self.random.chance(1, 2);
        self.pool.set_space_target(paced.then(SpaceTarget::default));
    }

    /// Two deeds at once.
    fn pair(&mut self, context: &str) {
        let known = Known { snapshots: &self.snapshots, clones: &self.clones };
        let mut draw = |role| Deed::draw(&mut self.random, role, &mut self.unique, &known);
        let deeds = [draw(0), draw(1)];
        let marks = self.model.marks();
        self.expect(&deeds);
        let to_second = 1 + self.random.below(POINTS) as usize;
        let back = self.random.chance(2, 3).then(|| 1 + self.random.below(POINTS) as usize);
        let switches = Switches { to_second, back };
        let context = format!("{context}, {deeds:?}, {switches:?}");
        let (pool, volume) = (&self.pool, &self.volume);
        let ran =
            run(switches, || deeds[0].perform(pool, volume), || deeds[1].perform(pool, volume));
        self.tally.pairs += 1;
        let results = [ran.first, ran.second];
        if deeds.iter().zip(&results).any(|(deed, result)| deed.is_durable() && result.is_ok()) {
            self.model.durable_from(&marks);
        }
        let is_rollback = |deed: &Deed| matches!(deed, Deed::Rollback(_));
        let rolled = deeds.iter().any(is_rollback);
        let all_back = deeds.iter().zip(&results).all(|(deed, r)| !is_rollback(deed) || r.is_ok());
        for (deed, result) in deeds.iter().zip(results) {
            match result {
                // A read beside a rollback is of before or after it.
                Ok(_) if rolled => {}
                Ok(found) => self.done(deed, &found, &context),
                Err(_) if rolled && self.pool.inner.poison.get().is_some() => {
                    // A rollback was cut short for want of space: the pool is to be opened again.
                    self.tally.refused += 1;
                    self.sim.crash_at(self.sim.op_count());
                    let _ = self.sim.open("journal").map(|journal| journal.sync());
                    assert!(self.sim.has_crashed(), "{context}");
                }
                Err(BlockError::NoSpace(_)) => self.refused(deed, &context),
                Err(_) if self.sim.has_crashed() => {}
                Err(error) => panic!("{context}: {deed:?}: {error}"),
            }
        }
        if self.sim.has_crashed() {
            return;
        }
        self.look_at_note(&context);
        if deeds.iter().any(|deed| deed.makes_or_deletes().is_some()) {
            self.look_at_snapshots(&context);
            self.look_at_clones(&context);
        }
        // A snapshot that was made beside it may be of before.
        if rolled && !self.sim.has_crashed() {
            self.rolled_back(&deeds, all_back, &context);
        }
    }

    /// What the snapshot of this number holds.
    fn held(&self, number: u64) -> &[u64] {
        &self.snapshots[&snapshot_name(number)]
    }

    /// The note is what it was set to last, or what it was before if that was refused.
    fn look_at_note(&mut self, context: &str) {
        let found = self.volume.note();
        let found = found.as_ref().try_into().map_or(0, u64::from_le_bytes);
        assert!(self.notes.contains(&found), "{context}: the note is {found}");
        self.notes = vec![found];
    }

    /// Two deeds are about to be done.
    fn expect(&mut self, deeds: &[Deed; 2]) {
        self.doubts.clear();
        for deed in deeds {
            self.model.expect(deed);
            if let Deed::Note(note) = deed {
                self.notes.push(*note);
            }
            if let Some(name) = deed.makes_or_deletes() {
                let cloned = if let Deed::Clone(number) = deed { self.held(*number) } else { &[] };
                let cloned = cloned.to_vec();
                self.doubts.insert(name, cloned);
            }
            if let Deed::Rollback(number) = deed {
                let held = &self.snapshots[&snapshot_name(*number)];
                for (states, content) in self.model.0.iter_mut().zip(held) {
                    states.push(*content);
                }
            }
            if let Deed::WriteClone(number, block, content) = deed
                && let Some(model) = self.clones.get_mut(&clone_name(*number))
            {
                model.0[*block as usize].push(*content);
            }
        }
    }

    /// After rollbacks every block is what the snapshot was, or what was written beside them: if
    /// they were done and nothing else changed anything, durably so.
    fn rolled_back(&mut self, deeds: &[Deed; 2], done: bool, context: &str) {
        let now = self.model.which_of_all(&self.volume, context);
        let alone = deeds.iter().all(|deed| match deed {
            Deed::Rollback(number) => self.held(*number) == now,
            Deed::Write(..) | Deed::Trim(..) => false,
            _ => true,
        });
        let durable = done && alone;
        self.tally.rollbacks += u64::from(durable);
        for (states, now) in self.model.0.iter_mut().zip(now) {
            if durable {
                states.clear();
            }
            states.push(now);
        }
    }

    /// Every clone is there unless it was being deleted, and each block of it holds what it did or
    /// what was written to it since.
    fn look_at_clones(&mut self, context: &str) {
        let mut held = BTreeMap::new();
        for clone in self.pool.volumes() {
            let name = clone.name();
            if name == "main" {
                continue;
            }
            let context = format!("{context}, {name}");
            let model = match self.clones.remove(&name) {
                Some(model) => model,
                None => Model::of(self.doubts.get(&name).expect("it was being made")),
            };
            let mut found = vec![0; BLOCKS as usize * CHUNK];
            if let Err(error) = clone.read_at(0, &mut found) {
                assert!(self.sim.has_crashed(), "{context}: {error}");
                return;
            }
            for (block, found) in found.chunks(CHUNK).enumerate() {
                model.which(block, found, &context);
            }
            held.insert(name, model);
        }
        for name in self.clones.keys() {
            assert!(self.doubts.contains_key(name), "{context}: {name} is gone");
        }
        let new = held.keys().filter(|name| self.doubts.contains_key(*name)).count();
        self.tally.clones += new as u64;
        self.clones = held;
    }

    /// Every snapshot is what it was; one that is new holds of each block a state that the volume
    /// had.
    fn look_at_snapshots(&mut self, context: &str) {
        let there = self.pool.snapshots(None).unwrap_or_else(|e| panic!("{context}: {e}"));
        let mut held = BTreeMap::new();
        for name in there.into_iter().map(|snapshot| snapshot.name) {
            let context = format!("{context}, {name}");
            let snapshot = self.pool.volume(&name);
            let snapshot = snapshot.unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut found = vec![0; BLOCKS as usize * CHUNK];
            if let Err(error) = snapshot.read_at(0, &mut found) {
                assert!(self.sim.has_crashed(), "{context}: {error}");
                return;
            }
            let found = found.chunks(CHUNK).enumerate();
            let contents: Vec<u64> = match self.snapshots.get(&name) {
                Some(contents) => {
                    for (block, found) in found {
                        let same = chunk(contents[block]) == found;
                        assert!(same, "{context}: block {block} is not what it was");
                    }
                    contents.clone()
                }
                None => found.map(|(block, it)| self.model.which(block, it, &context)).collect(),
            };
            held.insert(name, contents);
        }
        for name in self.snapshots.keys().filter(|name| !held.contains_key(*name)) {
            assert!(self.doubts.contains_key(name), "{context}: {name} is gone");
        }
        self.tally.snapshots +=
            held.keys().filter(|n| !self.snapshots.contains_key(*n)).count() as u64;
        self.snapshots = held;
    }

    fn done(&mut self, deed: &Deed, found: &[Vec<u8>], context: &str) {
        if let Deed::Note(note) = deed {
            // Nothing that was before counts any more.
            self.notes = vec![*note];
            self.tally.notes += 1;
        }
        self.tally.checks += u64::from(matches!(deed, Deed::Check));
        let Deed::Read(first, _) = deed else { return };
        for (block, found) in (*first as usize..).zip(found) {
            // The other deed has nothing to do with these: the newest state it is.
            let newest = *self.model.0[block].last().unwrap();
            assert!(chunk(newest) == *found, "{context}: block {block} is read wrong");
        }
    }

    /// For want of space some blocks may have changed and others not.
    fn refused(&mut self, deed: &Deed, context: &str) {
        self.tally.refused += 1;
        let (first, len) = match deed {
            Deed::Write(first, contents) => (*first, contents.len() as u64),
            Deed::Trim(first, len) => (*first, *len),
            _ => return,
        };
        if self.sim.has_crashed() {
            return;
        }
        let Ok(now) = Deed::Read(first, len).perform(&self.pool, &self.volume) else {
            assert!(self.sim.has_crashed(), "{context}: what was refused cannot be read");
            return;
        };
        for (block, found) in (first as usize..).zip(now) {
            let state = self.model.which(block, &found, context);
            self.model.0[block].push(state);
        }
    }

    /// The power went: open what is left, which may lose power, too, and compare.
    fn recover(mut self, seed: u64, context: &str) -> Self {
        let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
        let mode = modes[self.random.below(3) as usize];
        let context = format!("{context}, {mode:?}");
        let activity = self.pool.activity();
        self.tally.moved += activity.moved_bytes;
        self.tally.punched += activity.punched_bytes;
        self.tally.found += self.pool.inner.deduplication_status().found;
        self.tally.cuts += 1;
        let mut sim = self.sim.after_crash(seed ^ self.tally.cuts, mode);
        drop((self.volume, self.pool));
        sim.set_capacity(None);
        if self.random.chance(1, 3) {
            sim.crash_at(self.random.below(24));
            let _ = open(&sim);
            sim = sim.after_crash(seed ^ self.tally.cuts ^ 1 << 40, mode);
        }
        if self.tally.cuts.is_multiple_of(8) {
            assert_sound(&sim, &context);
        }
        let pool = open(&sim).unwrap_or_else(|error| panic!("{context}: {error}"));
        if self.random.chance(1, 2) {
            // Nobody fills the index: what is written again is stored again.
            pool.fill_index_beside();
        }
        let volume = pool.volume("main").unwrap_or_else(|error| panic!("{context}: {error}"));
        let states = self.model.which_of_all(&volume, &context);
        let mut life = Self { sim, pool, volume, ..self };
        life.look_at_note(&context);
        life.look_at_snapshots(&context);
        life.look_at_clones(&context);
        life.model = Model::of(&states);
        for (name, model) in &mut life.clones {
            let clone = life.pool.volume(name).unwrap_or_else(|e| panic!("{context}: {e}"));
            *model = Model::of(&model.which_of_all(&clone, &context));
        }
        life
    }
}

fn assert_sound(sim: &SimFolder, context: &str) {
    let report = Pool::check_in(sim, &mut |_, _| {});
    let report = report.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(report.is_sound(), "{context}: {:#?}", report.findings);
}

/// A life of so many cuts.
fn live(seed: u64, cuts: u64) -> Tally {
    let mut life = Life::begin(seed);
    while life.tally.cuts < cuts {
        let context = format!("seed {seed}, cut {}", life.tally.cuts);
        life.draw_surroundings();
        life.sim.crash_at(life.sim.op_count() + life.random.below(CUT_WITHIN));
        while !life.sim.has_crashed() {
            life.pair(&context);
        }
        life = life.recover(seed, &context);
    }
    let context = format!("seed {seed}, at the end");
    life.volume.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
    drop(life.volume);
    life.pool.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_sound(&life.sim, &context);
    life.tally
}

#[test]
fn storms_lose_nothing_that_was_flushed_and_let_nobody_wait_for_ever() {
    #[expect(clippy::disallowed_methods, reason = "the dose of a test")]
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("ONEFOLD_STORM_SEED") {
        println!("{:?}", live(seed, CUTS_PER_LIFE));
        return;
    }
    let wanted = number("ONEFOLD_CRASH_CUTS").unwrap_or(400);
    let mut all = Tally::default();
    for seed in number("ONEFOLD_STORM_FROM").unwrap_or(0).. {
        let one = live(seed, CUTS_PER_LIFE.min(wanted - all.cuts));
        all.cuts += one.cuts;
        all.pairs += one.pairs;
        all.refused += one.refused;
        all.moved += one.moved;
        all.punched += one.punched;
        all.found += one.found;
        all.snapshots += one.snapshots;
        all.clones += one.clones;
        all.rollbacks += one.rollbacks;
        all.checks += one.checks;
        all.notes += one.notes;
        if all.cuts >= wanted {
            break;
        }
    }
    println!("{all:?}");
    assert!(all.refused > 0, "no disk was ever full: {all:?}");
    assert!(all.moved > 0, "nothing was ever moved: {all:?}");
    assert!(all.punched > 0, "nothing was ever punched: {all:?}");
    assert!(all.found > 0, "nothing was ever found in the background: {all:?}");
    assert!(all.checks > 0 && all.notes > 0, "no check or no note: {all:?}");
    assert!(all.clones > 0 && all.rollbacks > 0, "no clone or no rollback: {all:?}");
}
