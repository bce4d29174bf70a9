//! Giving back what only snapshots pin, in turns, with snapshots made and deleted between any two.
//! Room: onefold-pool.
//! One leaf is looked at in a turn here, so that every place in the maps is one to come between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_block::interleave::{Switches, run};
use onefold_block::{BlockDevice, ByteSize, ContainerId, CrashMode, SimFolder, SplitMix64};
use onefold_content::Compression;

use crate::live_pass::{LivePass, Turn};
use crate::pool::Pool;
use crate::{Budgets, OpenOptions, PoolIdentity, PoolSettings, SpaceTarget};

const CHUNK: usize = 4096;
const LEAF: usize = 512;
const LEAVES: usize = 2;
const BLOCKS: usize = LEAVES * LEAF;
/// Snapshots that are made; all but the first and the last are deleted.
const ROUNDS: usize = 6;
/// Turns that no pass over this takes.
const TURNS_MAX: usize = 200;

fn bytes(seed: u64) -> Vec<u8> {
    SplitMix64::new(seed).bytes(CHUNK)
}

fn options() -> OpenOptions {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    OpenOptions { read_only: false, budgets }
}

fn target() -> SpaceTarget {
    SpaceTarget::new(1.05).unwrap()
}

/// What may come between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Snapshot,
    DeleteFirst,
    DeleteLast,
    /// Half of what it has is given up at once, the rest after the pass.
    DeleteLastHalf,
    /// Leaves are copied, and then only the copies stay.
    WriteAndDeleteLast,
    SnapshotWriteAndDeleteIt,
    RollBack,
    CloneAndWrite,
    CloneWriteAndDeleteOrigin,
}

const ALL: [Between; 10] = [
    Between::Nothing,
    Between::Snapshot,
    Between::DeleteFirst,
    Between::DeleteLast,
    Between::DeleteLastHalf,
    Between::WriteAndDeleteLast,
    Between::SnapshotWriteAndDeleteIt,
    Between::RollBack,
    Between::CloneAndWrite,
    Between::CloneWriteAndDeleteOrigin,
];

struct World {
    sim: SimFolder,
    pool: Pool,
    /// What each volume and snapshot holds, as seeds.
    held: BTreeMap<String, Vec<u64>>,
    seed: u64,
}

impl World {
    /// Two snapshots of many that were made between overwrites, which lie scattered.
    fn new() -> Self {
        let sim = SimFolder::new();
        let settings = PoolSettings {
            compression: Compression::None,
            container_bytes: 256 << 10,
            ..PoolSettings::default()
        };
        Pool::create(&sim, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
        let pool = Pool::open(&sim, &options()).unwrap();
        pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
        let held = BTreeMap::from([("main".to_owned(), vec![0; BLOCKS])]);
        let mut world = Self { sim, pool, held, seed: 0 };
        let mut random = SplitMix64::new(1);
        for number in 0..ROUNDS {
            let blocks: Vec<usize> =
                (0..BLOCKS).filter(|_| number == 0 || random.chance(1, 2)).collect();
            world.write("main", &blocks);
            world.snapshot(&format!("main@s{number}"));
        }
        for number in 1..ROUNDS - 1 {
            world.delete(&format!("main@s{number}"));
        }
        world.give_up();
        world
    }

    fn write(&mut self, name: &str, blocks: &[usize]) {
        let volume = self.pool.volume(name).unwrap();
        for &block in blocks {
            self.seed += 1;
            volume.write_at((block * CHUNK) as u64, &bytes(self.seed), false).unwrap();
            self.held.get_mut(name).unwrap()[block] = self.seed;
        }
    }

    /// A block in each leaf: what else is in them is copied.
    fn touch(&mut self, name: &str) {
        self.write(name, &[7, LEAF + 7]);
    }

    fn snapshot(&mut self, name: &str) {
        self.pool.snapshot(name, 0, false).unwrap();
        let (volume, _) = name.split_once('@').unwrap();
        self.held.insert(name.to_owned(), self.held[volume].clone());
    }

    fn delete(&mut self, name: &str) {
        self.pool.delete_snapshot(name).unwrap();
        self.held.remove(name);
    }

    fn give_up(&self) {
        for _ in 0..TURNS_MAX {
            if self.pool.give_up_deleted(u64::MAX).unwrap() {
                return;
            }
        }
        panic!("what is deleted never goes");
    }

    fn happen(&mut self, between: Between) {
        match between {
            Between::Nothing => {}
            Between::Snapshot => self.snapshot("main@new"),
            Between::DeleteFirst => {
                self.delete("main@s0");
                self.give_up();
            }
            Between::DeleteLast => {
                self.delete("main@s5");
                self.give_up();
            }
            Between::DeleteLastHalf => {
                self.delete("main@s5");
                self.pool.give_up_deleted(1).unwrap();
            }
            Between::WriteAndDeleteLast => {
                self.touch("main");
                self.delete("main@s5");
                self.give_up();
            }
            Between::SnapshotWriteAndDeleteIt => {
                self.snapshot("main@new");
                self.touch("main");
                self.delete("main@new");
                self.give_up();
            }
            Between::RollBack => {
                self.pool.rollback("main@s0").unwrap();
                self.held.insert("main".to_owned(), self.held["main@s0"].clone());
                self.give_up();
            }
            Between::CloneAndWrite | Between::CloneWriteAndDeleteOrigin => {
                self.pool.clone_snapshot("main@s5", "clone", 0).unwrap();
                self.held.insert("clone".to_owned(), self.held["main@s5"].clone());
                self.touch("clone");
                if between == Between::CloneWriteAndDeleteOrigin {
                    self.pool.delete_volume("clone").unwrap();
                    self.held.remove("clone");
                    self.touch("main");
                    self.give_up();
                    self.delete("main@s5");
                    self.give_up();
                }
            }
        }
    }

    /// Steps of work in the background, each as small as it can be, until it is punching or, if
    /// not, done. How many these were.
    fn work_until(&self, punching: bool, context: &str) -> usize {
        for step in 1..20_000 {
            let came_to = self.pool.background(1, target()).unwrap();
            let is_punching = self.pool.inner.reclaim.lock().unwrap().is_punching();
            if if punching { is_punching } else { came_to.done } {
                return step;
            }
            assert!(!came_to.done, "{context}: it ends without punching");
        }
        panic!("{context}: it never ends");
    }

    fn assert_holds(&self, folder: &SimFolder, pool: &Pool, context: &str) {
        for (name, seeds) in &self.held {
            let mut found = vec![0; BLOCKS * CHUNK];
            let volume = pool.volume(name).unwrap();
            volume.read_at(0, &mut found).unwrap_or_else(|e| panic!("{context}: {name}: {e}"));
            for (block, (found, &seed)) in found.chunks(CHUNK).zip(seeds).enumerate() {
                assert!(found == bytes(seed), "{context}: block {block} of {name}");
            }
        }
        let report = Pool::check_in(folder, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{context}: {:?}", report.findings);
    }

    /// All that there is holds what it did, now and after a power cut.
    fn assert_whole(&self, context: &str) {
        self.pool.checkpoint().unwrap();
        let left = self.sim.after_crash(1, CrashMode::KeepNothing);
        self.assert_holds(&left, &self.pool, context);
        let pool = Pool::open(&left, &options()).unwrap();
        self.assert_holds(&left, &pool, &format!("{context}, reopened"));
    }

    fn punched_bytes(&self) -> u64 {
        self.pool.inner.counters.punched_bytes.load(Ordering::Relaxed)
    }

    /// A pass into all sealed containers, `between` after so many turns; whether it came to that.
    fn pass(&mut self, at: usize, between: Between) -> Option<LivePass> {
        let closed: Vec<ContainerId> = {
            let mut engine = self.pool.inner.engine();
            let sealed = engine.table.iter().filter(|(_, info)| info.is_sealed());
            let closed: Vec<ContainerId> = sealed.map(|(id, _)| id).collect();
            for &id in &closed {
                engine.table.set_closing(id, true);
            }
            closed
        };
        let mut pass = LivePass::of(closed);
        for turn in 0..TURNS_MAX {
            if turn == at {
                self.happen(between);
            }
            match self.pool.inner.live_turn(&mut pass).unwrap().0 {
                Turn::More => {}
                Turn::Whole => return (turn >= at).then_some(pass),
                Turn::GivenUp => panic!("{between:?} at {at}: given up"),
            }
        }
        panic!("a pass never ends");
    }
}

#[test]
fn a_pass_misses_nothing_whatever_comes_between_two_of_its_turns() {
    let mut places = 0;
    for between in ALL {
        for at in 0.. {
            let mut world = World::new();
            let Some(pass) = world.pass(at, between) else { break };
            places += 1;
            let now = world.pass(0, Between::Nothing).unwrap();
            let mut references = 0;
            for &id in pass.closed() {
                let (found, there) = (pass.found(id), now.found(id));
                references += there.len();
                for location in there {
                    let seen = found.contains(location);
                    assert!(seen, "{between:?} at {at}: {location:?} of {id} was missed");
                }
            }
            assert!(references > BLOCKS / 2, "{between:?} at {at}");
        }
    }
    assert!(places > 100, "{places}");
}

#[test]
fn what_snapshots_pin_comes_back_in_turns_with_anything_between_them() {
    let mut most = 0;
    for between in ALL {
        for at in [1, 4, 7, 11] {
            let context = format!("{between:?} at turn {at}");
            let mut world = World::new();
            world.work_until(true, &context);
            for _ in 1..at {
                world.pool.background(1, target()).unwrap();
            }
            let before = world.punched_bytes();
            world.happen(between);
            let steps = world.work_until(false, &context);
            assert!(steps > 1, "{context}: all of it was one step");
            let punched = world.punched_bytes() - before;
            most = most.max(punched);
            world.assert_whole(&context);
        }
    }
    assert!(most > 1 << 19, "{most}");
}

/// One step that does all there is to do, and a snapshot from its n-th point on: the points, and
/// whether the snapshot was there before the step had ended.
fn beside_a_snapshot(to_second: usize) -> (Vec<String>, bool) {
    let world = World::new();
    world.work_until(true, "before the snapshot");
    let ended = AtomicBool::new(false);
    let work = || {
        let came_to = world.pool.background(u64::MAX, target());
        ended.store(true, Ordering::Release);
        came_to
    };
    let make = || world.pool.snapshot("main@new", 0, false).map(|()| ended.load(Ordering::Acquire));
    let ran = run(Switches { to_second, back: None }, work, make);
    ran.first.unwrap();
    (ran.points, !ran.second.unwrap())
}

#[test]
fn who_makes_a_snapshot_waits_for_one_turn_and_no_longer() {
    let (points, _) = beside_a_snapshot(usize::MAX);
    let turns: Vec<usize> = (0..points.len()).filter(|&at| points[at] == "lineage").collect();
    assert!(turns.len() > 5, "{points:?}");
    for at in turns {
        assert!(beside_a_snapshot(at + 1).1, "it waited for all of the pass at point {at}");
    }
}

#[test]
fn power_cuts_while_that_comes_back_and_a_snapshot_goes_lose_nothing() {
    let (mut cuts, mut punched) = (0, 0);
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        for cut in 1..TURNS_MAX as u64 {
            let context = format!("{mode:?}, cut {cut}");
            let mut world = World::new();
            world.work_until(true, &context);
            world.sim.crash_at(world.sim.op_count() + 2 * cut);
            let mut ended = false;
            for step in 0..20_000 {
                if step == 4 && world.pool.delete_snapshot("main@s5").is_err() {
                    break;
                }
                match world.pool.background(1, target()) {
                    Ok(step) if step.done => ended = true,
                    Ok(_) => continue,
                    Err(_) => {}
                }
                break;
            }
            cuts += 1;
            punched += u64::from(world.punched_bytes() > 0);
            let left = world.sim.after_crash(cut, mode);
            let pool = Pool::open(&left, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
            if pool.volume("main@s5").is_err() {
                world.held.remove("main@s5");
            }
            world.assert_holds(&left, &pool, &context);
            if ended {
                break;
            }
        }
    }
    assert!(cuts > 20 && punched > 2, "{cuts} cuts, {punched} after pages were given back");
}
