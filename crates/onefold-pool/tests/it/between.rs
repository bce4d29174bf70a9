//! What happens between any two steps in which space is won, and what the steps make of it: as
//! `winning_between.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onefold_block::{BlockDevice, BlockError, ByteSize, CrashMode, Folder, SimFolder, SplitMix64};
use onefold_pool::{Pool, SpaceTarget};

use crate::operations::hash;
use crate::support::{assert_golden, assert_sound, content, new_pool, options, small};

const CHUNK: u64 = 4096;
/// Blocks of the volumes `main` and `other`: of the one more than a leaf.
const BLOCKS: [(&str, u64); 2] = [("main", 700), ("other", 240)];

/// A pool, and the seeds of what its volumes and snapshots hold.
struct Life {
    folder: SimFolder,
    pool: Pool,
    seeds: BTreeMap<String, Vec<u64>>,
    told: String,
    next: u64,
}

impl Life {
    fn new(title: &str) -> Self {
        let (folder, pool) = new_pool(&small());
        let mut life =
            Self { folder, pool, seeds: BTreeMap::new(), told: format!("# {title}\n"), next: 1 };
        for (name, blocks) in BLOCKS {
            life.create(name, blocks);
        }
        life
    }

    fn create(&mut self, name: &str, blocks: u64) {
        drop(self.pool.create_volume_at(name, ByteSize(blocks * CHUNK), 1).unwrap());
        self.seeds.insert(name.to_owned(), vec![0; blocks as usize]);
    }

    fn say(&mut self, what: &str) {
        writeln!(self.told, "{what}").unwrap();
    }

    /// Write or trim one block; false for want of space.
    fn write(&mut self, name: &str, block: u64, seed: u64) -> bool {
        let volume = self.pool.volume(name).unwrap();
        let done = if seed == 0 {
            volume.trim(block * CHUNK, CHUNK, false)
        } else {
            volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false)
        };
        match done {
            Ok(()) => self.seeds.get_mut(name).unwrap()[block as usize] = seed,
            Err(BlockError::NoSpace(_)) => return false,
            Err(error) => panic!("{}: {error}", self.told),
        }
        true
    }

    fn write_new(&mut self, name: &str, block: u64) -> bool {
        self.next += 1;
        self.write(name, block, self.next)
    }

    /// Both volumes in turns, so that containers have records of both; one in six is a duplicate.
    fn fill(&mut self) {
        for block in 0..700 {
            self.write_new("main", block);
            if block < 240 {
                let seed = if block % 6 == 0 { block / 2 + 2 } else { 0 };
                if seed > 0 {
                    self.write("other", block, seed);
                } else {
                    self.write_new("other", block);
                }
            }
        }
    }

    fn step(&self, budget: u64, target: f64) -> String {
        let step = self.pool.background(budget, SpaceTarget::new(target).unwrap());
        step.map_or_else(
            |error| error.to_string(),
            |step| {
                let end = if step.done { ", done" } else { "" };
                format!("{} for {}{end}", step.moved_bytes, step.work_bytes)
            },
        )
    }

    /// Until nothing is left to do: how many steps, and what they were.
    fn steps(&mut self, budget: u64, target: f64) {
        let mut told = String::new();
        for number in 1.. {
            let step = self.step(budget, target);
            writeln!(told, "{step}").unwrap();
            if step.ends_with("done") {
                let (hash, space) = (hash(told.as_bytes()), self.pool.space());
                self.say(&format!("{number} steps of {budget} to {target}: {hash}, {space:?}"));
                return;
            }
            assert!(number < 3000, "{}: it never ends: {step}", self.told);
        }
    }

    /// One thing of those that may come between two steps, in a word.
    fn something(&mut self, random: &mut SplitMix64) -> &'static str {
        let (name, blocks) = BLOCKS[random.below(2) as usize];
        let block = random.below(blocks);
        if !self.seeds.contains_key(name) {
            self.create(name, blocks);
            return "made again";
        }
        match random.below(24) {
            0..=9 => {
                for block in block..blocks.min(block + 3) {
                    self.write_new(name, block);
                }
                "written"
            }
            10..=15 => {
                for block in block..blocks.min(block + 20) {
                    self.write(name, block, 0);
                }
                "trimmed"
            }
            16 | 17 => {
                let of = &self.seeds["main"];
                let seed = of[random.below(of.len() as u64) as usize];
                self.write(name, block, seed);
                "shared"
            }
            18 => {
                let snapshot = format!("{name}@{}", self.next);
                self.next += 1;
                self.pool.snapshot(&snapshot, 1, false).unwrap();
                let seeds = self.seeds[name].clone();
                self.seeds.insert(snapshot, seeds);
                "a snapshot"
            }
            19..=21 => {
                let found = self.seeds.keys().find(|name| name.contains('@')).cloned();
                let Some(snapshot) = found else { return "nothing" };
                self.pool.delete_snapshot(&snapshot).unwrap();
                self.seeds.remove(&snapshot);
                "a snapshot less"
            }
            22 if name == "other" && !self.seeds.keys().any(|name| name.starts_with("other@")) => {
                self.pool.delete_volume(name).unwrap();
                self.seeds.remove(name);
                "deleted"
            }
            23 => {
                self.pool.checkpoint().unwrap();
                "a checkpoint"
            }
            _ => "nothing",
        }
    }

    fn assert_holds(&self) {
        for (name, seeds) in &self.seeds {
            let mut found = vec![0; seeds.len() * CHUNK as usize];
            self.pool.volume(name).unwrap().read_at(0, &mut found).unwrap();
            for (block, (found, &seed)) in found.chunks(CHUNK as usize).zip(seeds).enumerate() {
                let is = if seed == 0 {
                    found.iter().all(|&byte| byte == 0)
                } else {
                    found == content(seed, CHUNK as usize)
                };
                assert!(is, "{}: block {block} of {name}", self.told);
            }
        }
    }

    /// Everything is as it was written, and nothing else is found.
    fn end(self) -> String {
        self.assert_holds();
        self.pool.close().unwrap();
        assert_sound(&self.folder, &self.told);
        self.told + "\n"
    }
}

/// Steps of so many bytes, with anything in between.
fn anything(seed: u64, budgets: &[u64]) -> String {
    let mut life = Life::new(&format!("anything in between, {seed}"));
    let mut random = SplitMix64::new(seed);
    life.fill();
    for (name, block) in (0..700).filter(|block| block % 3 > 0).map(|block| ("main", block)) {
        life.write(name, block, 0);
    }
    for number in 0..160 {
        let what = life.something(&mut random);
        let budget = budgets[number % budgets.len()];
        let step = life.step(budget, 1.1);
        life.say(&format!("{what}: {step}"));
    }
    life.assert_holds();
    for (name, block) in (0..240).filter(|block| block % 5 > 0).map(|block| ("main", block)) {
        life.write(name, block, 0);
    }
    life.steps(8192, 1.05);
    life.end()
}

#[test]
fn whatever_comes_between_two_steps_they_go_on_as_they_did() {
    let told = [anything(1, &[1]), anything(2, &[1, 8192, 3000]), anything(3, &[16_384, 40_000])];
    assert_golden("winning_between.txt", &told.concat());
}

/// Who needs space while it is being won takes over, wherever that has come to.
fn needed_at_once(steps: usize, budget: u64) -> String {
    let mut life = Life::new(&format!("needed at once after {steps} steps of {budget}"));
    life.folder.set_capacity(Some(7 << 19));
    life.fill();
    for block in (0..700).filter(|block| block % 4 > 0) {
        life.write("main", block, 0);
    }
    for block in 0..240 {
        life.write("other", block, 300);
    }
    for _ in 0..steps {
        let step = life.step(budget, 1.05);
        life.say(&step);
    }
    let (mut written, mut random) = (0, SplitMix64::new(steps as u64));
    while written < 1000 && life.write_new("main", random.below(700)) {
        written += 1;
    }
    let (space, activity) = (life.pool.space(), life.pool.activity());
    let (moved, punched) = (activity.moved_bytes, activity.punched_bytes);
    life.say(&format!("{written} were written, {space:?}, {moved} moved, {punched} punched"));
    life.end()
}

#[test]
fn who_needs_space_while_it_is_won_gets_it_as_before() {
    let told = [(0, 1), (3, 1), (2, 3000), (9, 8192)].map(|(n, budget)| needed_at_once(n, budget));
    assert_golden("winning_at_once.txt", &told.concat());
}

/// Space is won beside a page of a map that cannot be read, and beside records that cannot be.
#[test]
fn beside_damage_space_is_won_as_far_as_it_was() {
    let mut life = Life::new("sound");
    life.fill();
    life.pool.snapshot("other@a", 1, false).unwrap();
    for block in (0..700).filter(|block| block % 5 > 0) {
        life.write("main", block, 0);
    }
    for block in 0..200 {
        life.write("other", block, 0);
    }
    life.pool.close().unwrap();
    let folder = life.folder.after_crash(1, CrashMode::KeepEverything);
    let pages = folder.open("map").unwrap().len().unwrap() / CHUNK;
    let mut told = String::new();
    let damages = (1..pages).map(|page| ("map", page * CHUNK + 40));
    let records = [("containers/00000002.container", 5000), ("containers/00000001.container", 20)];
    for (name, at) in damages.chain(records) {
        let folder = folder.after_crash(1, CrashMode::KeepEverything);
        folder.flip_bit(name, at, 3).unwrap();
        writeln!(told, "# {name} at {at}").unwrap();
        let pool = match Pool::open(&folder, &options()) {
            Ok(pool) => pool,
            Err(error) => {
                writeln!(told, "{error}").unwrap();
                continue;
            }
        };
        let mut life = Life { folder, pool, seeds: BTreeMap::new(), told: String::new(), next: 1 };
        life.steps(16_384, 1.05);
        life.steps(16_384, 1.05);
        let mut sums = String::new();
        for name in ["main", "other", "other@a"] {
            let volume = life.pool.volume(name).unwrap();
            let (mut read, mut block) = (Vec::new(), vec![0; CHUNK as usize]);
            let mut errors = 0;
            for at in 0..volume.size_bytes() / CHUNK {
                match volume.read_at(at * CHUNK, &mut block) {
                    Ok(()) => read.extend_from_slice(&block[..24]),
                    Err(_) => errors += 1,
                }
            }
            write!(sums, "{name}: {}, {errors} errors; ", hash(&read)).unwrap();
        }
        life.say(&sums);
        told += &life.told;
    }
    assert_golden("winning_damaged.txt", &told);
}
