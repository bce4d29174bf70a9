//! Snapshots, clones, rollbacks and deletions beside writes, reclaim, merges, scrubs and power
//! cuts: each snapshot is what its volume was, for as long as it is there.

use std::collections::BTreeMap;

use onefold_block::{
    BlockDevice, BlockError, ByteSize, CrashMode, ExtentKind, FaultKind, OpKind, SimFolder,
    SplitMix64, ZeroOptions,
};
use onefold_pool::{Pool, PoolError, Scrubber, SpaceTarget, Thoroughness};

use crate::support::{IDENTITY, assert_sound, content, new_pool, options, small};

const CHUNK: usize = 4096;
/// Three leaves of the map and a page above.
const BLOCKS: usize = 1300;

/// What each block holds: the seed of its content, 0 for zeroes.
type Contents = Vec<u64>;

fn bytes(seed: u64) -> Vec<u8> {
    if seed == 0 { vec![0; CHUNK] } else { content(seed, CHUNK) }
}

fn assert_holds(pool: &Pool, name: &str, expected: &Contents, context: &str) {
    let volume = pool.volume(name).unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
    let mut found = vec![0; BLOCKS * CHUNK];
    volume.read_at(0, &mut found).unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
    for (block, (found, seed)) in found.chunks(CHUNK).zip(expected).enumerate() {
        assert!(found == bytes(*seed), "{context}: block {block} of {name} differs");
    }
}

/// A pool and what everything in it must hold, when it was last durable and now.
struct World {
    pool: Pool,
    now: BTreeMap<String, Contents>,
    durable: BTreeMap<String, Contents>,
    random: SplitMix64,
    made: u64,
    /// What is being deleted, whether or not that has become durable.
    deleting: Option<String>,
    /// What was begun last and may or may not have become durable: what this then holds.
    doubt: Option<(String, Contents)>,
    /// Written since everything was durable: volume, block and content.
    written: Vec<(String, usize, u64)>,
}

impl World {
    fn pick(&mut self, snapshots: bool) -> Option<String> {
        let names: Vec<&String> =
            self.now.keys().filter(|name| name.contains('@') == snapshots).collect();
        let number = self.random.below(names.len().max(1) as u64) as usize;
        names.get(number).map(|name| (*name).clone())
    }

    fn settle(&mut self) {
        self.durable = self.now.clone();
        self.written.clear();
        self.deleting = None;
        self.doubt = None;
    }

    /// Something is about to be made that holds what another does now.
    fn begin(&mut self, name: &str, as_what: &str) -> Contents {
        let held = self.now[as_what].clone();
        self.doubt = Some((name.to_owned(), held.clone()));
        held
    }

    /// One random step. An error is for the caller to judge.
    fn step(&mut self) -> Result<(), PoolError> {
        let Some(name) = self.pick(false) else { return Ok(()) };
        match self.random.below(21) {
            20 => return self.scrub(),
            0..=6 => {
                let volume = self.pool.volume(&name)?;
                let len = 1 + self.random.below(20) as usize;
                // Near and far, again and again.
                let first = [0, 500, 1020, 1240][self.random.below(4) as usize]
                    + self.random.below(40) as usize;
                for block in first..first + len {
                    let seed = self.random.below(700);
                    self.written.push((name.clone(), block, seed));
                    let at = (block * CHUNK) as u64;
                    let done = if seed == 0 {
                        volume.trim(at, CHUNK as u64, false)
                    } else {
                        volume.write_at(at, &bytes(seed), false)
                    };
                    done.map_err(|error| match error {
                        BlockError::NoSpace(what) => PoolError::NoSpace(what),
                        other => PoolError::Setting(other.to_string()),
                    })?;
                    self.now.get_mut(&name).unwrap()[block] = seed;
                }
            }
            7 => {
                let volume = self.pool.volume(&name)?;
                let (first, len) = (self.random.below(2) as usize * 512, 512);
                let (at, bytes) = ((first * CHUNK) as u64, (len * CHUNK) as u64);
                self.written.extend((first..first + len).map(|block| (name.clone(), block, 0)));
                volume.trim(at, bytes, false).map_err(|e| PoolError::Setting(e.to_string()))?;
                self.now.get_mut(&name).unwrap()[first..first + len].fill(0);
            }
            8..=10 => {
                self.made += 1;
                let snapshot = format!("{name}@s{}", self.made);
                let held = self.begin(&snapshot, &name);
                self.pool.snapshot(&snapshot, self.made, false)?;
                self.now.insert(snapshot, held);
                self.settle();
            }
            11 => {
                let Some(snapshot) = self.pick(true) else { return Ok(()) };
                self.made += 1;
                let to = format!("c{}", self.made);
                let held = self.begin(&to, &snapshot);
                self.pool.clone_snapshot(&snapshot, &to, 0)?;
                self.now.insert(to, held);
                self.settle();
            }
            12 => {
                let Some(snapshot) = self.pick(true) else { return Ok(()) };
                let volume = snapshot.split_once('@').unwrap().0.to_owned();
                let held = self.begin(&volume, &snapshot);
                self.pool.rollback(&snapshot)?;
                self.now.insert(volume, held);
                self.settle();
            }
            13..=14 => {
                let Some(snapshot) = self.pick(true) else { return Ok(()) };
                self.deleting = Some(snapshot.clone());
                match self.pool.delete_snapshot(&snapshot) {
                    Err(PoolError::SnapshotNeeded { .. } | PoolError::SnapshotPassed { .. }) => {
                        return Ok(());
                    }
                    done => done?,
                }
                self.now.remove(&snapshot);
                self.settle();
            }
            15 => {
                if name == "main" {
                    return Ok(());
                }
                self.deleting = Some(name.clone());
                match self.pool.delete_volume(&name) {
                    Err(PoolError::HasSnapshots { .. }) => return Ok(()),
                    done => done?,
                }
                self.now.remove(&name);
                self.settle();
            }
            16 => {
                self.pool.maintain()?;
                self.settle();
            }
            17 => {
                self.pool.flush()?;
                self.settle();
            }
            _ => {
                let budget = 1 + self.random.below(600_000);
                self.pool.background(budget, SpaceTarget::new(1.05).unwrap())?;
                self.pool.deduplicate(budget, Thoroughness::Whole)?;
            }
        }
        Ok(())
    }

    /// A few containers, in which nothing is wrong.
    fn scrub(&mut self) -> Result<(), PoolError> {
        let mut scrubber = Scrubber::after(self.random.below(30) as u32);
        for _ in 0..=self.random.below(5) {
            let Some(found) = scrubber.step(&self.pool)? else { break };
            let sound = found.problems_total == 0 && found.blocks_total == 0;
            if !sound {
                return Err(PoolError::Setting(format!("a scrub found {found:?}")));
            }
        }
        Ok(())
    }

    fn assert_all(&self, context: &str) {
        for (name, contents) in &self.now {
            assert_holds(&self.pool, name, contents, context);
        }
    }
}

fn world(folder: &SimFolder, seed: u64) -> Result<World, PoolError> {
    Pool::create(folder, &small(), IDENTITY)?;
    let pool = Pool::open(folder, &options())?;
    pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64))?;
    let now = BTreeMap::from([("main".to_owned(), vec![0; BLOCKS])]);
    let durable = now.clone();
    Ok(World {
        pool,
        now,
        durable,
        random: SplitMix64::new(seed),
        made: 0,
        deleting: None,
        doubt: None,
        written: Vec::new(),
    })
}

/// Work in the background until nothing is left of it.
pub fn idle(pool: &Pool) {
    for _ in 0..4000 {
        if pool.background(1 << 20, SpaceTarget::default()).unwrap().done {
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn every_snapshot_and_clone_stays_what_it_was_and_totals_are_those_of_distinct_pages() {
    for seed in 0..8 {
        let folder = SimFolder::new();
        let mut world = world(&folder, seed).unwrap();
        for round in 0..4 {
            for number in 0..60 {
                world.step().unwrap_or_else(|e| panic!("seed {seed}, step {round}/{number}: {e}"));
            }
            let context = format!("seed {seed}, round {round}");
            world.assert_all(&context);
            let World { pool, now, random, made, .. } = world;
            pool.close().unwrap();
            assert_sound(&folder, &context);
            let pool = Pool::open(&folder, &options()).unwrap();
            let durable = now.clone();
            world = World {
                pool,
                now,
                durable,
                random,
                made,
                deleting: None,
                doubt: None,
                written: Vec::new(),
            };
            world.assert_all(&format!("{context} reopened"));
        }
        // All but the volume goes: what is left is as if there had never been anything else.
        for _ in 0..200 {
            let names: Vec<String> = world.now.keys().cloned().collect();
            for name in names.iter().filter(|name| *name != "main") {
                let done = match world.pool.delete_volume(name) {
                    Err(
                        PoolError::SnapshotNeeded { .. }
                        | PoolError::SnapshotPassed { .. }
                        | PoolError::HasSnapshots { .. },
                    ) => false,
                    done => done.map(|()| true).unwrap(),
                };
                if done {
                    world.now.remove(name);
                }
            }
            if world.now.len() == 1 {
                break;
            }
        }
        assert_eq!(world.now.len(), 1, "seed {seed}: {:?}", world.now.keys());
        idle(&world.pool);
        assert_eq!(world.pool.deleting_bytes(), ByteSize(0));
        world.assert_all("alone");
        world.pool.close().unwrap();
        assert_sound(&folder, &format!("seed {seed}, alone"));
    }
}

/// Run a seeded world until the power goes at media operation `cut`; true if it went.
fn cut_world(seed: u64, cut: u64, mode: CrashMode) -> bool {
    let context = format!("seed {seed}, cut at {cut}, {mode:?}");
    let folder = SimFolder::new();
    let mut world = world(&folder, seed).unwrap();
    folder.crash_at(folder.op_count() + cut);
    let mut steps = 0;
    while steps < 160 && !folder.has_crashed() {
        steps += 1;
        if let Err(error) = world.step() {
            assert!(folder.has_crashed(), "{context}: {error}");
        }
    }
    if !folder.has_crashed() {
        return false;
    }
    let World { pool, now, durable, random, made, deleting, doubt, written } = world;
    drop(pool);
    let folder = folder.after_crash(seed ^ cut << 8, mode);
    assert_sound(&folder, &context);
    let pool = Pool::open(&folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
    // What was made, rolled back or deleted last may have become durable or not.
    let there: Vec<String> = pool
        .snapshots(None)
        .unwrap()
        .into_iter()
        .map(|snapshot| snapshot.name)
        .chain(pool.volumes().iter().map(onefold_pool::Volume::name))
        .collect();
    // What was durable is there, unless its deletion was under way.
    for name in durable.keys().filter(|name| now.contains_key(*name)) {
        let deleting = deleting.as_ref() == Some(name);
        assert!(there.contains(name) || deleting, "{context}: {name} is gone");
    }
    let mut after = BTreeMap::new();
    for name in there {
        let doubt = doubt.as_ref().filter(|(of, _)| *of == name).map(|(_, held)| held);
        if name.contains('@') {
            let expected = durable.get(&name).or(doubt).expect("it was made, or begun");
            assert_holds(&pool, &name, expected, &context);
            after.insert(name, expected.clone());
            continue;
        }
        // Each block of a volume holds something that it held since it was durable.
        let mut found = vec![0; BLOCKS * CHUNK];
        pool.volume(&name).unwrap().read_at(0, &mut found).unwrap();
        let contents = found.chunks(CHUNK).enumerate().map(|(block, found)| {
            let held = [durable.get(&name), doubt].into_iter().flatten().map(|held| held[block]);
            let written = written.iter().filter(|(of, at, _)| *of == name && *at == block);
            let mut states = held.chain(written.map(|(.., seed)| *seed));
            states.find(|&seed| bytes(seed) == found).unwrap_or_else(|| {
                panic!("{context}: block {block} of {name} holds none of its states")
            })
        });
        let contents: Contents = contents.collect();
        after.insert(name, contents);
    }
    let durable = after.clone();
    let mut world = World {
        pool,
        now: after,
        durable,
        random,
        made: made + 1000,
        deleting: None,
        doubt: None,
        written: Vec::new(),
    };
    for _ in 0..12 {
        world.step().unwrap_or_else(|error| panic!("{context}: afterwards: {error}"));
    }
    idle(&world.pool);
    world.assert_all(&format!("{context}: afterwards"));
    world.pool.close().unwrap();
    assert_sound(&folder, &format!("{context}: afterwards"));
    true
}

#[test]
fn power_cuts_lose_no_snapshot() {
    let dose = std::env::var("ONEFOLD_CRASH_CUTS").ok().and_then(|cuts| cuts.parse().ok());
    let dose: u64 = dose.unwrap_or(150);
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let mut random = SplitMix64::new(0x5A45);
    let mut cuts = 0;
    for number in 0..4 * dose + 100 {
        let cut = random.below(900);
        cuts += u64::from(cut_world(3000 + number / 8, cut, modes[number as usize % 3]));
        if cuts >= dose {
            return;
        }
    }
    panic!("only {cuts} runs reached their cut");
}

#[test]
fn what_must_not_be_is_refused_by_name_with_what_to_do() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for name in ["main", "main@", "main@g7", "main@a b", "main@a@b", "@a"] {
        assert!(pool.snapshot(name, 0, false).is_err(), "{name}");
    }
    pool.snapshot("main@gold", 7, true).unwrap();
    assert!(matches!(pool.snapshot("main@gold", 0, false), Err(PoolError::VolumeExists(_))));
    let refused = |done: Result<(), PoolError>, words: &str| {
        let error = done.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    drop(pool.create_volume("other", ByteSize(4096)).unwrap());
    let longest = format!("other@{}", "x".repeat(64));
    pool.snapshot(&longest, 0, false).unwrap();
    let longer = pool.snapshot(&format!("{longest}x"), 0, false);
    assert!(matches!(longer, Err(PoolError::SnapshotName(_))));
    assert!(matches!(pool.snapshot("a b@a", 0, false), Err(PoolError::VolumeName(_))));
    refused(pool.snapshot("none@a", 0, false), "no volume 'none'");
    refused(pool.delete_volume("main@gold"), "release it first");
    refused(pool.delete_volume("main@x"), "no snapshot 'main@x'");
    pool.hold_snapshot("main@gold", false).unwrap();
    refused(pool.delete_volume("main"), "the first is main@gold");
    refused(pool.rename_volume("main@gold", "b"), "never changes");
    refused(pool.resize_volume("main@gold", ByteSize(1 << 21), false), "never changes");
    drop(pool.clone_snapshot("main@gold", "copy", 8).unwrap());
    refused(pool.delete_volume("main@gold"), "still there: copy");
    let snapshot = pool.volume("main@gold").unwrap();
    assert!(snapshot.is_read_only());
    assert!(matches!(snapshot.write_at(0, &[1; 512], false), Err(BlockError::ReadOnly)));
    assert!(matches!(snapshot.trim(0, 4096, false), Err(BlockError::ReadOnly)));
    let zeroed = snapshot.write_zeroes(0, 4096, ZeroOptions::default());
    assert!(matches!(zeroed, Err(BlockError::ReadOnly)));
    assert!(snapshot.is(&pool.volume("main@gold").unwrap()) && !snapshot.is(&volume));
    volume.write_at(0, &[1; 4096], false).unwrap();
    pool.snapshot("main@later", 9, false).unwrap();
    pool.rename_volume("main", "renamed").unwrap();
    let names: Vec<String> =
        pool.snapshots(Some("renamed")).unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["renamed@gold", "renamed@later"]);
    pool.delete_volume("copy").unwrap();
    pool.rollback("renamed@gold").unwrap();
    let mut found = vec![9; 4096];
    volume.read_at(0, &mut found).unwrap();
    assert_eq!(found, [0; 4096]);
    let past = "volume 'renamed' was rolled back to it, past renamed@later, ";
    refused(pool.delete_volume("renamed@gold"), past);
    pool.delete_volume("renamed@later").unwrap();
    pool.delete_volume("renamed@gold").unwrap();
    assert!(matches!(snapshot.read_at(0, &mut found), Err(BlockError::ShuttingDown)));
    pool.delete_volume("renamed").unwrap();
}

#[test]
fn differences_are_the_blocks_that_changed_and_no_others() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    for block in 0..BLOCKS as u64 {
        volume.write_at(block * CHUNK as u64, &content(block + 1, CHUNK), false).unwrap();
    }
    pool.snapshot("main@a", 0, false).unwrap();
    for block in [3u64, 4, 5, 511, 512, 1299] {
        volume.write_at(block * CHUNK as u64, &content(block + 5000, CHUNK), false).unwrap();
    }
    volume.trim(700 * CHUNK as u64, CHUNK as u64, false).unwrap();
    let all = |names: [&str; 2]| {
        let mut found = Vec::new();
        let visit = &mut |at: u64, len: u64| {
            found.push((at / CHUNK as u64, len / CHUNK as u64));
            true
        };
        pool.differences(names, visit).unwrap();
        found
    };
    let expected = [(3, 3), (511, 2), (700, 1), (1299, 1)];
    assert_eq!(all(["main@a", "main"]), expected);
    pool.snapshot("main@b", 0, false).unwrap();
    assert_eq!(all(["main@b", "main@a"]), expected);
    assert_eq!(all(["main@b", "main"]), []);
    pool.resize_volume("main", ByteSize(((BLOCKS + 600) * CHUNK) as u64), false).unwrap();
    assert_eq!(all(["main@b", "main"]), [(BLOCKS as u64, 600)]);
    for names in [["main@a", "main"], ["main@b", "main"], ["main@b", "main@a"], ["main", "main"]] {
        let told = told_in_windows(&pool, names);
        let blocks: Vec<u64> = all(names).iter().flat_map(|&(at, len)| at..at + len).collect();
        let changed = (0..).zip(told).filter_map(|(block, changed)| changed.then_some(block));
        assert_eq!(changed.collect::<Vec<u64>>(), blocks, "{names:?}");
    }
}

/// Whether each block of the second differs from the first, asked in windows that fit to nothing.
fn told_in_windows(pool: &Pool, [since, now]: [&str; 2]) -> Vec<bool> {
    let (since, now) = (pool.volume(since).unwrap(), pool.volume(now).unwrap());
    let size = now.size_bytes();
    let mut told = vec![None; (size as usize).div_ceil(CHUNK)];
    let (mut at, mut window) = (0, 1);
    while at < size {
        let len = window.min(size - at);
        let extents = now.changes_since(&since, at, len).unwrap();
        let sum: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
        assert!((1..=len).contains(&sum), "{sum} of {len} bytes at {at}");
        assert!(extents.windows(2).all(|pair| pair[0].kind != pair[1].kind), "joined");
        for extent in extents {
            let changed = extent.kind == ExtentKind::Data;
            for block in at / CHUNK as u64..(at + extent.len_bytes).div_ceil(CHUNK as u64) {
                let before = told[block as usize].replace(changed);
                assert!(before.is_none_or(|before| before == changed), "block {block}");
            }
            at += extent.len_bytes;
        }
        window = (window * 7 + 1000) % (1 << 23);
    }
    told.into_iter().map(Option::unwrap).collect()
}

#[test]
fn differences_between_leaves_that_are_alike_are_found_also_where_nothing_is_written_out_yet() {
    const LEAF: u64 = 512;
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(300 * LEAF * CHUNK as u64)).unwrap();
    let mut seed = 0;
    // One block of each leaf, side by side below two pages.
    let mut write = |leaves: &[u64]| {
        for leaf in leaves {
            seed += 1;
            let at = (leaf * LEAF + 7) * CHUNK as u64;
            volume.write_at(at, &content(seed, CHUNK), false).unwrap();
        }
    };
    write(&(0..300).collect::<Vec<u64>>());
    pool.snapshot("main@a", 0, false).unwrap();
    write(&[1, 2, 100, 255, 256, 298]);
    pool.snapshot("main@b", 0, false).unwrap();
    write(&[2, 40, 270]);
    let leaves = |names: [&str; 2]| {
        let mut found = Vec::new();
        let visit = &mut |at: u64, len: u64| {
            assert_eq!((at / CHUNK as u64 % LEAF, len), (7, CHUNK as u64), "{names:?}");
            found.push(at / CHUNK as u64 / LEAF);
            true
        };
        pool.differences(names, visit).unwrap();
        found
    };
    for names in [["main@a", "main@b"], ["main@b", "main@a"]] {
        assert_eq!(leaves(names), [1, 2, 100, 255, 256, 298], "{names:?}");
    }
    for names in [["main@b", "main"], ["main", "main@b"]] {
        assert_eq!(leaves(names), [2, 40, 270], "{names:?}");
    }
    assert_eq!(leaves(["main@a", "main"]), [1, 2, 40, 100, 255, 256, 270, 298]);
    assert_eq!(leaves(["main", "main"]), []);
    // Both have changed, and in memory alone.
    let copy = pool.clone_snapshot("main@b", "copy", 0).unwrap();
    write(&[3]);
    copy.write_at((17 * LEAF + 7) * CHUNK as u64, &content(9000, CHUNK), false).unwrap();
    assert_eq!(leaves(["copy", "main"]), [2, 3, 17, 40, 270]);
}

#[test]
fn zeroes_that_a_deleted_snapshot_had_leave_no_page_behind() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(3 * 512 * 4096)).unwrap();
    volume.write_at(0, &content(1, 4096), false).unwrap();
    let kept = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(512 * 4096, 512 * 4096, kept).unwrap();
    pool.snapshot("main@one", 1, false).unwrap();
    volume.trim(0, 3 * 512 * 4096, true).unwrap();
    pool.delete_snapshot("main@one").unwrap();
    while !pool.give_up_deleted(1 << 20).unwrap() {}
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "zeroes");
}

/// A volume that went on since `main@a`, written and not flushed.
fn gone_on() -> (SimFolder, Pool, Contents, Contents) {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    let mut now: Contents = vec![0; BLOCKS];
    let mut write = |from: usize, seed: u64| {
        for (at, seed) in (from..from + 30).zip(seed..) {
            volume.write_at((at * CHUNK) as u64, &bytes(seed), false).unwrap();
            now[at] = seed;
        }
        now.clone()
    };
    let old = write(500, 1);
    pool.snapshot("main@a", 0, false).unwrap();
    let new = write(510, 100);
    (folder, pool, old, new)
}

#[test]
fn a_snapshot_or_rollback_that_fails_leaves_one_state_and_never_a_mixture() {
    let mut poisoned = BTreeMap::from([("snapshot", 0), ("rollback", 0), ("went on", 0)]);
    for (kind, what) in [FaultKind::Eio, FaultKind::Enospc]
        .into_iter()
        .flat_map(|kind| [(kind, "snapshot"), (kind, "rollback")])
    {
        for nth in 1..20 {
            let context = format!("{what}, {kind:?} at {nth}");
            let (folder, pool, old, new) = gone_on();
            let act = |pool: &Pool| match what {
                "snapshot" => pool.snapshot("main@b", 0, false),
                _ => pool.rollback("main@a"),
            };
            folder.fail_once(&[OpKind::Write, OpKind::Sync], nth, kind);
            let done = act(&pool);
            folder.clear_faults();
            if done.is_ok() {
                // It failed at what can be done without, or did not come to it.
                assert!(nth > 2, "{context}: it takes more operations than that");
                continue;
            }
            assert_holds(&pool, "main@a", &old, &context);
            let failure = pool.status().unwrap().failure;
            if failure.is_some() {
                *poisoned.get_mut(what).unwrap() += 1;
                assert!(matches!(act(&pool), Err(PoolError::Poisoned(_))), "{context}");
            } else {
                // As if it had not been tried; and it can be tried again.
                assert_holds(&pool, "main", &new, &context);
                assert!(pool.volume("main@b").is_err(), "{context}");
                act(&pool).unwrap_or_else(|error| panic!("{context}: again: {error}"));
                *poisoned.get_mut("went on").unwrap() += 1;
            }
            drop(pool);
            assert_sound(&folder, &context);
            let pool = Pool::open(&folder, &options()).unwrap();
            assert_holds(&pool, "main@a", &old, &context);
            let mut found = vec![0; BLOCKS * CHUNK];
            pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
            let is = |state: &Contents| {
                found.chunks(CHUNK).zip(state).all(|(found, seed)| found == bytes(*seed))
            };
            // Writes that were not flushed may be lost with the process, from the last on.
            let beginning = (0..=30).any(|count| {
                let mut state = new.clone();
                state[510 + count..540].copy_from_slice(&old[510 + count..540]);
                is(&state)
            });
            assert!(beginning || is(&old), "{context}: a mixture");
            if pool.volume("main@b").is_ok() {
                assert_holds(&pool, "main@b", &new, &context);
            }
            idle(&pool);
            pool.close().unwrap();
            assert_sound(&folder, &format!("{context}: afterwards"));
        }
    }
    assert!(poisoned.values().all(|&times| times > 0), "{poisoned:?}");
}

/// The checkpoint after one that failed has the same number: if the volume still counted as sharing
/// with the snapshot that never was, what that one writes would count as the snapshot's.
#[test]
fn after_a_snapshot_that_could_not_be_made_nothing_is_shared_with_it() {
    let mut given_up = 0;
    for nth in 1..20 {
        let context = format!("no space at operation {nth}");
        let (folder, pool, old, mut now) = gone_on();
        folder.fail_once(&[OpKind::Write, OpKind::Sync], nth, FaultKind::Enospc);
        let done = pool.snapshot("main@b", 0, false);
        folder.clear_faults();
        if done.is_ok() || pool.status().unwrap().failure.is_some() {
            continue;
        }
        given_up += 1;
        let volume = pool.volume("main").unwrap();
        for round in 0..3 {
            for (at, content) in now.iter_mut().enumerate().skip(500).take(40) {
                *content = 1000 * (round + 1) + at as u64;
                volume.write_at((at * CHUNK) as u64, &bytes(*content), false).unwrap();
            }
            // Each comes with a checkpoint.
            pool.create_volume(&format!("other{round}"), ByteSize(1 << 20)).unwrap();
            assert_holds(&pool, "main", &now, &context);
        }
        drop(volume);
        assert_holds(&pool, "main@a", &old, &context);
        pool.close().unwrap();
        assert_sound(&folder, &context);
    }
    assert!(given_up > 2, "only before anything is frozen: {given_up}");
}

#[test]
fn snapshots_can_be_deleted_on_a_full_disk_and_what_only_they_had_comes_back() {
    for slack in [0, 12 << 10, 300 << 10] {
        for refused_at in 0..3 {
            let context = format!("{slack} bytes free, refused at {refused_at}");
            let (folder, pool) = new_pool(&small());
            let volume = pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
            let (mut now, mut held) = (vec![0; BLOCKS], Vec::new());
            let mut seed = 0;
            // Everything is written anew between two snapshots.
            for number in 0..4 {
                for (block, content) in now.iter_mut().enumerate() {
                    seed += 1;
                    volume.write_at((block * CHUNK) as u64, &bytes(seed), false).unwrap();
                    *content = seed;
                }
                if number < 3 {
                    pool.snapshot(&format!("main@s{number}"), 0, false).unwrap();
                    held.push(now.clone());
                }
            }
            volume.flush().unwrap();
            folder.set_capacity(Some(folder.used_bytes() + slack));
            for (block, content) in now.iter_mut().enumerate() {
                let done = volume.write_at((block * CHUNK) as u64, &bytes(seed + 1), false);
                match done {
                    Ok(()) => (seed, *content) = (seed + 1, seed + 1),
                    Err(BlockError::NoSpace(_)) => break,
                    Err(error) => panic!("{context}: {error}"),
                }
            }
            if refused_at > 0 {
                let kinds = [OpKind::Reserve, OpKind::Write];
                folder.fail_once(&kinds, refused_at, FaultKind::Enospc);
            }
            let full = folder.used_bytes();
            for (number, contents) in held.iter().enumerate() {
                let name = format!("main@s{number}");
                // What was refused once has changed nothing, and may be tried again.
                let done = (0..3).find_map(|_| match pool.delete_snapshot(&name) {
                    Err(PoolError::NoSpace(_)) => {
                        assert_holds(&pool, &name, contents, &context);
                        None
                    }
                    done => Some(done),
                });
                let done = done.unwrap_or_else(|| panic!("{context}: {name} cannot be deleted"));
                done.unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
                let gone = (0..2000).find_map(|_| match pool.give_up_deleted(40_000) {
                    Err(PoolError::NoSpace(_)) | Ok(false) => None,
                    done => Some(done),
                });
                let gone = gone.unwrap_or_else(|| panic!("{context}: {name} never goes"));
                assert!(gone.unwrap_or_else(|error| panic!("{context}: {name}: {error}")));
                assert_holds(&pool, "main", &now, &context);
            }
            idle(&pool);
            assert!(folder.used_bytes() < full / 2, "{context}: {full} before");
            for content in &mut now[..200] {
                seed += 1;
                *content = seed;
            }
            for (block, content) in now[..200].iter().enumerate() {
                let done = volume.write_at((block * CHUNK) as u64, &bytes(*content), false);
                done.unwrap_or_else(|error| panic!("{context}: afterwards: {error}"));
            }
            assert_holds(&pool, "main", &now, &context);
            drop(volume);
            pool.close().unwrap();
            assert_sound(&folder, &context);
        }
    }
}

#[test]
fn of_what_remaining_snapshots_pin_pages_in_which_nothing_lives_come_back() {
    let (folder, pool) = new_pool(&small());
    let blocks = 2 * BLOCKS;
    let volume = pool.create_volume("main", ByteSize((blocks * CHUNK) as u64)).unwrap();
    let (mut now, mut seed, mut held) = (vec![0; blocks], 0, Vec::new());
    let mut random = SplitMix64::new(1);
    for number in 0..12 {
        for (block, content) in now.iter_mut().enumerate() {
            if number == 0 || random.chance(1, 2) {
                seed += 1;
                *content = seed;
                volume.write_at((block * CHUNK) as u64, &bytes(seed), false).unwrap();
            }
        }
        pool.snapshot(&format!("main@s{number}"), 0, false).unwrap();
        held.push(now.clone());
    }
    for number in 1..11 {
        pool.delete_snapshot(&format!("main@s{number}")).unwrap();
    }
    idle(&pool);
    // No record can be moved: containers that two snapshots are all over have dead ones between.
    let status = pool.status().unwrap();
    assert!(status.stored_over_live() < 1.5, "{}", status.stored_over_live());
    assert!(status.activity.punched_bytes > status.live_bytes / 2, "{:?}", status.activity);
    for number in [0, 11] {
        let mut found = vec![0; blocks * CHUNK];
        pool.volume(&format!("main@s{number}")).unwrap().read_at(0, &mut found).unwrap();
        for (block, (found, seed)) in found.chunks(CHUNK).zip(&held[number]).enumerate() {
            assert!(found == bytes(*seed), "block {block} of s{number} differs");
        }
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "punched");
}
