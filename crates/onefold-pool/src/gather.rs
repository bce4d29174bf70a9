//! Order won back: blocks that lie side by side on a volume are put side by side in containers.
//! Room: onefold-pool.
//! In: steps of an idle pool that is within its space target. Out: records moved, leaf by leaf of
//! the maps, in the order of their blocks.
//! Invariants: (1) records move as they do for reclaim, by compare and set; (2) no more are moved
//! than writers have stored since the pool was opened, so that order costs a drive at most as many
//! writes as they did; (3) a record that others may share stays: moving it for one of them would
//! store it twice.
//! Cost: a pass over the maps for each 32nd part of the live data that is written; for what is out
//! of order one read per run of records, and one directory per container and group.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba};

use crate::container::directories;
use crate::container::table::ContainerInfo;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container::{DirectoryEntry, Owner};
use crate::format::record;
use crate::map_pass::{Cursor, LEAF_BYTES, Leaves};
use crate::pba::Pba;
use crate::reclaim::{BackgroundStep, batch};
use crate::relocate::{Records, Reference};

/// Jumps from one block's record to the next one's that a leaf of the map may have: its 512 blocks
/// of 4 KiB are read in 16 requests of 128 KiB.
const JUMPS_MAX: usize = 32;
/// Records closer than this are read together, as readers do.
const GAP_BYTES_MAX: usize = 16 << 10;
/// A pass begins once writers have stored one part in this of what is alive.
const PASS_SHARE: u64 = 32;
/// The largest part of the live data that is on the move at a time.
const GROUP_SHARE: u64 = 16;

/// What is known between two groups.
#[derive(Default)]
pub struct Order {
    /// Records stored when this was last looked at.
    seen: u64,
    /// Records stored since a pass began.
    since_pass: u64,
    /// Records that may still be moved.
    credit: u64,
    /// Where the pass is, if one is under way.
    pass: Option<Cursor>,
}

/// A group of blocks whose records are gathered.
pub struct Gathering {
    cursor: Cursor,
    group_bytes: u64,
    references: Vec<Reference>,
    records: Records,
    phase: Phase,
}

enum Phase {
    /// Look for leaves out of order.
    Look,
    /// Read from this reference on; they are in the order of their addresses.
    Read(usize),
    /// Move from this reference on; they are in the order of their blocks.
    Move(usize),
}

impl Inner {
    /// The next group, if a pass is under way or worth it. `live_bytes` are alive.
    pub fn begin_gathering(
        &self,
        order: &mut Order,
        live_bytes: u64,
        group_bytes: u64,
    ) -> Option<Gathering> {
        let stored = self.counters.stored.load(Ordering::Relaxed);
        let (new, live) = (stored - order.seen, live_bytes / self.chunk_bytes() as u64);
        order.seen = stored;
        order.since_pass += new;
        // One pass moves everything once: more credit than that is of no use.
        order.credit = (order.credit + new).min(4 * live);
        if order.pass.is_none() && order.since_pass > live / PASS_SHARE {
            order.since_pass = 0;
            order.pass = Some(Cursor::default());
        }
        let cursor = order.pass.filter(|_| order.credit > 0)?;
        let least = u64::from(self.settings.container_bytes);
        Some(Gathering {
            cursor,
            group_bytes: (live_bytes / GROUP_SHARE).clamp(least, group_bytes.max(least)),
            references: Vec::new(),
            records: Records::default(),
            phase: Phase::Look,
        })
    }

    /// Go on with a group; true once it is finished.
    pub fn gather(
        &self,
        work: &mut Gathering,
        order: &mut Order,
        budget_bytes: u64,
        step: &mut BackgroundStep,
    ) -> Result<bool, PoolError> {
        while step.work_bytes < budget_bytes {
            work.phase = match work.phase {
                Phase::Look => {
                    step.work_bytes += LEAF_BYTES;
                    let more = self.look(work)?;
                    let found = work.references.len() as u64;
                    let full = found * self.chunk_bytes() as u64 >= work.group_bytes;
                    if more && !full && found < order.credit {
                        continue;
                    }
                    order.pass = more.then_some(work.cursor);
                    work.references.sort_unstable_by_key(|reference| reference.pba);
                    Phase::Read(0)
                }
                Phase::Read(from) if from < work.references.len() => {
                    let upto = from + same_container(&work.references[from..]);
                    let references = &work.references[from..upto];
                    step.work_bytes += self.read_scattered(references, &mut work.records)?;
                    Phase::Read(upto)
                }
                Phase::Read(_) => {
                    let records = &work.records;
                    work.references.retain(|reference| records.holds(reference.pba));
                    work.references.sort_unstable();
                    Phase::Move(0)
                }
                Phase::Move(from) if from < work.references.len() => {
                    // What reclaim needs on a full disk is not used up for this.
                    self.keep_reserve(&mut self.engine())?;
                    let batch = batch(&work.references[from..]);
                    let moved = self.move_batch(batch, &mut work.records)?;
                    order.credit = order.credit.saturating_sub(batch.len() as u64);
                    step.moved_bytes += moved;
                    step.work_bytes += moved.max(1);
                    Phase::Move(from + batch.len())
                }
                Phase::Move(_) => return Ok(true),
            };
        }
        Ok(false)
    }

    /// Take the references of the leaf at the cursor if it is out of order. False at the end.
    fn look(&self, work: &mut Gathering) -> Result<bool, PoolError> {
        let mut leaf = Vec::new();
        let more =
            self.walk_leaf(&mut work.cursor, Leaves::Distinct, &mut |volume, lba, pba| {
                leaf.push(Reference { volume, lba, pba });
            })?;
        let jumps = leaf.windows(2).filter(|pair| !is_near(pair[0].pba, pair[1].pba)).count();
        // What snapshots have stays as it is.
        let volume = leaf.first().and_then(|found| self.volume_by_number(found.volume));
        if jumps <= JUMPS_MAX || volume.is_none_or(|volume| volume.is_snapshot) {
            return Ok(more);
        }
        // Two locks, one after the other.
        let in_memory: HashSet<ContainerId> = {
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            live.keys().copied().collect()
        };
        let engine = self.engine();
        let may_move = |id: ContainerId| {
            let info = engine.table.get(id).filter(|info| info.is_sealed() && !info.closing);
            let alone = info.is_some_and(|info| info.references <= u64::from(info.live_max));
            alone && !in_memory.contains(&id)
        };
        work.references.extend(leaf.iter().filter(|reference| may_move(reference.pba.container)));
        Ok(more)
    }

    /// Read and verify records of one container that their blocks were stored for. Returns the
    /// bytes read.
    fn read_scattered(
        &self,
        references: &[Reference],
        records: &mut Records,
    ) -> Result<u64, PoolError> {
        let id = references[0].pba.container;
        let info = self.engine().table.get(id).copied();
        let Some(info) = info.filter(ContainerInfo::is_sealed) else { return Ok(1) };
        let entries = match directories::load(&*self.plain, id, info.len_bytes.into()) {
            Ok(entries) => entries,
            // Gone meanwhile, or damaged: it stays where it is, to be named when it is read.
            Err(error) if error.is_unreadable() => return Ok(1),
            Err(error) => return Err(error),
        };
        let mut wanted: Vec<(Pba, &DirectoryEntry)> = Vec::with_capacity(references.len());
        for reference in references {
            let owner = Owner { volume: reference.volume, lba: Lba::new(reference.lba) };
            let location = reference.pba.location;
            let found = entries.binary_search_by_key(&location, |entry| entry.location);
            let entry = found.ok().map(|ordinal| &entries[ordinal]);
            wanted.extend(entry.filter(|e| e.owner == owner).map(|e| (reference.pba, e)));
        }
        let (mut read, mut bytes) = (0, Vec::new());
        for run in wanted.chunk_by(|a, b| is_near(a.0, b.0)) {
            let first = run[0].0.location.offset_bytes();
            let end = run.iter().map(|(pba, _)| pba.location.end_bytes()).max().unwrap_or(first);
            bytes.resize(end - first, 0);
            read += bytes.len() as u64;
            match self.plain.read(id, first as u64, &mut bytes).map_err(PoolError::from) {
                Ok(()) => {}
                Err(error) if error.is_unreadable() => continue,
                Err(error) => return Err(error),
            }
            for (pba, entry) in run {
                let within = pba.location.offset_bytes() - first..pba.location.end_bytes() - first;
                let bytes = &bytes[within];
                if record::verify(bytes, *pba).is_ok() && !records.holds(*pba) {
                    records.hold(*pba, bytes, entry.fingerprint);
                }
            }
        }
        Ok(read.max(1))
    }
}

/// Whether one read fetches both records, the second behind the first.
fn is_near(first: Pba, second: Pba) -> bool {
    let end = first.location.end_bytes();
    let gap = second.location.offset_bytes().checked_sub(end);
    first.container == second.container && gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
}

/// How many of the references, from the first on, are into one container.
fn same_container(references: &[Reference]) -> usize {
    let mut runs = references.chunk_by(|a, b| a.pba.container == b.pba.container);
    runs.next().map_or_else(usize::default, <[Reference]>::len)
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice, ByteSize, SimFolder, SplitMix64};

    use super::*;
    use crate::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, SpaceTarget, Volume};

    const CHUNK: usize = 4096;
    const BLOCKS: u64 = 2048;

    fn pool() -> (SimFolder, Pool, Volume) {
        let sim = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        Pool::create(&sim, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
        let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
        let pool = Pool::open(&sim, &OpenOptions { read_only: false, budgets }).unwrap();
        let volume = pool.create_volume("main", ByteSize(BLOCKS * CHUNK as u64)).unwrap();
        (sim, pool, volume)
    }

    fn data(seed: u64) -> Vec<u8> {
        let mut data = SplitMix64::new(seed).bytes(CHUNK / 2);
        data.resize(CHUNK, 0);
        data
    }

    fn write(volume: &Volume, block: u64, seed: u64) {
        volume.write_at(block * CHUNK as u64, &data(seed), false).unwrap();
    }

    /// Jumps in all leaves.
    fn jumps(pool: &Pool) -> usize {
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        while pool
            .inner
            .walk_leaf(&mut cursor, Leaves::Distinct, &mut |_, _, pba| all.push(pba))
            .unwrap()
        {}
        all.windows(2).filter(|pair| !is_near(pair[0], pair[1])).count()
    }

    /// Work until nothing is left. Returns the bytes moved.
    fn idle(pool: &Pool, target: f64) -> u64 {
        let mut moved = 0;
        for _ in 0..5000 {
            let step = pool.background(64 << 10, SpaceTarget::new(target).unwrap()).unwrap();
            moved += step.moved_bytes;
            if step.done {
                return moved;
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn a_volume_overwritten_at_random_is_in_order_again_once_the_pool_was_idle() {
        let (sim, pool, volume) = pool();
        let mut seeds: Vec<u64> = (1..=BLOCKS).collect();
        for (block, &seed) in (0..).zip(&seeds) {
            write(&volume, block, seed);
        }
        let fresh = jumps(&pool);
        assert_eq!(idle(&pool, 1.5), 0, "all is in order");
        let mut random = SplitMix64::new(1);
        for seed in 10_000..10_000 + 2 * BLOCKS {
            let block = random.below(BLOCKS);
            seeds[block as usize] = seed;
            write(&volume, block, seed);
        }
        let before = jumps(&pool);
        idle(&pool, 1.5);
        let after = jumps(&pool);
        assert!(before > 1000, "{fresh} fresh, {before} before, {after} after");
        // What is in the containers that are being filled stays there, much of so small a pool.
        assert!(after < before / 4, "{fresh} fresh, {before} before, {after} after");
        assert_eq!(idle(&pool, 1.5), 0, "nothing new was written");
        let over = pool.status().unwrap().stored_over_live();
        assert!(over < 1.8, "{over}");
        let mut found = vec![0; CHUNK];
        for (block, &seed) in (0..).zip(&seeds) {
            volume.read_at(block * CHUNK as u64, &mut found).unwrap();
            assert!(found == data(seed), "block {block}");
        }
        drop(volume);
        pool.close().unwrap();
        let report = Pool::check_in(&sim, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
    }

    #[test]
    fn what_two_volumes_share_is_not_stored_twice_for_the_sake_of_order() {
        let (_sim, pool, volume) = pool();
        let second = pool.create_volume("second", ByteSize(BLOCKS * CHUNK as u64)).unwrap();
        let mut random = SplitMix64::new(2);
        let mut order: Vec<u64> = (0..BLOCKS).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        // In one order on the one, in another on the other.
        for (block, &seed) in (0..).zip(&order) {
            write(&volume, block, seed + 1);
        }
        for block in 0..BLOCKS {
            write(&second, block, block + 1);
        }
        idle(&pool, 1.5);
        assert_eq!(pool.status().unwrap().stored_chunks, BLOCKS);
    }

    /// A pool with a volume whose first so many blocks each follow a block that lies elsewhere.
    fn scattered(blocks: u64) -> Pool {
        let (sim, pool, volume) = pool();
        for block in (0..blocks).step_by(2).chain((1..blocks).step_by(2)) {
            let bytes = SplitMix64::new(block).bytes(CHUNK);
            volume.write_at(block * CHUNK as u64, &bytes, false).unwrap();
        }
        drop(volume);
        pool.close().unwrap();
        Pool::open(&sim, &OpenOptions::default()).unwrap()
    }

    fn begun() -> Gathering {
        Gathering {
            cursor: Cursor::default(),
            group_bytes: 1 << 20,
            references: Vec::new(),
            records: Records::default(),
            phase: Phase::Look,
        }
    }

    /// How many references of the first leaf of such a pool are taken.
    fn taken(blocks: u64, closing: bool) -> usize {
        let pool = scattered(blocks);
        let mut engine = pool.inner.engine();
        let all: Vec<ContainerId> = engine.table.iter().map(|(id, _)| id).collect();
        for id in all {
            engine.table.set_closing(id, closing);
        }
        drop(engine);
        let mut work = begun();
        pool.inner.look(&mut work).unwrap();
        work.references.len()
    }

    #[test]
    fn no_more_leaves_are_taken_once_there_is_enough_to_move() {
        let pool = scattered(100);
        // More leaves follow.
        pool.resize_volume("main", ByteSize(4 << 30), false).unwrap();
        let is_enough = |credit: u64, group_bytes: u64| {
            let mut order = Order { credit, ..Order::default() };
            let (mut work, mut step) =
                (Gathering { group_bytes, ..begun() }, BackgroundStep::default());
            assert!(!pool.inner.gather(&mut work, &mut order, 1, &mut step).unwrap());
            matches!(work.phase, Phase::Read(0))
        };
        let (taken, much) = (100, 1 << 30);
        assert!(is_enough(taken, much) && !is_enough(taken + 1, much));
        let bytes = taken * CHUNK as u64;
        assert!(is_enough(much, bytes) && !is_enough(much, bytes + 1));
    }

    #[test]
    fn no_more_is_to_be_moved_than_was_stored_and_four_times_what_is_alive() {
        let (_sim, pool, _) = pool();
        let mut order = Order::default();
        for (stored, expected) in [(0, 0), (30, 30), (30, 30), (45, 40), (90, 40)] {
            pool.inner.counters.stored.store(stored, Ordering::Relaxed);
            let begun = pool.inner.begin_gathering(&mut order, 10 * CHUNK as u64, 1 << 20);
            assert_eq!((order.credit, begun.is_some()), (expected, expected > 0), "{stored}");
        }
    }

    #[test]
    fn a_leaf_is_out_of_order_from_so_many_jumps_on_and_what_is_closed_stays() {
        let least = JUMPS_MAX as u64 + 2;
        assert_eq!((taken(least - 1, false), taken(least, false)), (0, least as usize));
        assert_eq!(taken(least, true), 0);
    }
}
