//! How space is won, step by step: what each step does and says, and what lies on the disk between
//! them, as `winning.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew; a change of it is a
//! change of which containers go, when, and for how much work.

use std::fmt::{Debug, Write as _};

use onefold_block::{BlockDevice, ByteSize, Folder, SimFolder, SplitMix64};
use onefold_content::Compression;
use onefold_pool::{Pool, PoolSettings, SpaceTarget, Volume};

use crate::operations::hash;
use crate::support::{IDENTITY, assert_golden, assert_sound, content, options, small};

const CHUNK: u64 = 4096;

/// A pool, what each block of its volume holds, and what was told.
struct Tale {
    folder: SimFolder,
    pool: Pool,
    seeds: Vec<u64>,
    told: String,
    operations: usize,
}

impl Tale {
    fn new(title: &str, blocks: u64, settings: &PoolSettings) -> Self {
        let folder = SimFolder::new();
        Pool::create(&folder, settings, IDENTITY).unwrap();
        let pool = Pool::open(&folder, &options()).unwrap();
        drop(pool.create_volume_at("main", ByteSize(blocks * CHUNK), 1).unwrap());
        let seeds = vec![0; blocks as usize];
        Self { folder, pool, seeds, told: format!("# {title}\n"), operations: 0 }
    }

    fn volume(&self) -> Volume {
        self.pool.volume("main").unwrap()
    }

    fn write(&mut self, block: u64, seed: u64) {
        self.seeds[block as usize] = seed;
        let volume = self.volume();
        if seed == 0 {
            volume.trim(block * CHUNK, CHUNK, false).unwrap();
        } else {
            volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
        }
    }

    fn reopened(mut self) -> Self {
        self.pool.close().unwrap();
        self.pool = Pool::open(&self.folder, &options()).unwrap();
        self
    }

    fn say(&mut self, what: &dyn Debug) {
        writeln!(self.told, "{what:?}").unwrap();
    }

    /// How the pool stands, and what was done on the disk since the last time.
    fn tell(&mut self, what: &str) {
        let space = self.pool.space();
        let done = self.pool.activity();
        let (moved, punched) = (done.moved_bytes, done.punched_bytes);
        let told = self.folder.ops_since(&mut self.operations);
        let (count, hash) = (told.lines().count(), hash(told.as_bytes()));
        let containers = self.folder.existing_subfolder("containers").unwrap().list().unwrap();
        let containers: Vec<&str> =
            containers.iter().map(|name| name[..8].trim_start_matches('0')).collect();
        writeln!(
            self.told,
            "{what}: {space:?}, {moved} moved, {punched} punched, {count} operations {hash}, \
             containers {}",
            containers.join(" ")
        )
        .unwrap();
    }

    /// Steps of so many bytes, until nothing is left or `most` were made; those that are alike are
    /// told of once.
    fn steps(&mut self, budget: u64, target: f64, most: usize) {
        let target = SpaceTarget::new(target).unwrap();
        let mut alike = (None, 0);
        for number in 0..most {
            let step = self.pool.background(budget, target).unwrap();
            if alike.0 != Some(step) {
                self.say(&alike);
                alike = (Some(step), 0);
            }
            alike.1 += 1;
            assert!(number < 20_000, "it never ends");
            if step.done {
                break;
            }
        }
        self.say(&alike);
        self.tell("after these steps");
    }

    /// Everything is as it was written, and nothing else is found.
    fn end(self) -> String {
        let volume = self.volume();
        let mut found = vec![0; self.seeds.len() * CHUNK as usize];
        volume.read_at(0, &mut found).unwrap();
        for (block, (found, &seed)) in found.chunks(CHUNK as usize).zip(&self.seeds).enumerate() {
            let expected = if seed == 0 { vec![0; CHUNK as usize] } else { content(seed, 4096) };
            assert!(found == expected, "{}: block {block}", self.told);
        }
        drop(volume);
        self.pool.close().unwrap();
        assert_sound(&self.folder, &self.told);
        self.told + "\n"
    }
}

/// Writers keep to a target by themselves, as long as there is one.
fn writers_keep_pace() -> String {
    let mut tale = Tale::new("writers keep pace", 600, &small());
    let mut random = SplitMix64::new(1);
    for block in 0..600 {
        tale.write(block, block + 1);
    }
    for (target, writes) in [(None, 400), (Some(1.2), 600), (Some(2.0), 200), (None, 100)] {
        tale.pool.set_space_target(target.map(|ratio| SpaceTarget::new(ratio).unwrap()));
        for number in 0..writes {
            let block = random.below(600);
            let seed = 1_000_000 + random.next_u64() % 1_000_000;
            tale.write(block, seed);
            if number % 20 == 19 {
                tale.tell(&format!("{target:?}, {number}"));
            }
        }
    }
    tale.end()
}

/// The emptiest go first, in small steps and large ones.
fn the_emptiest_go_first() -> String {
    let mut tale = Tale::new("the emptiest go first", 1500, &small());
    for block in 0..1500 {
        tale.write(block, block + 1);
    }
    // Of each hundred blocks, a few more than of the one before.
    for block in 0..1500u64 {
        if block % 100 < 6 * (block / 100) {
            tale.write(block, 0);
        }
    }
    tale.tell("given up");
    tale.steps(1, 1.5, 2);
    // What lies in a container that is being emptied is not shared any more.
    tale.write(0, 1391);
    tale.tell("written again");
    for (budget, target) in [(1, 1.5), (5000, 1.4), (30_000, 1.2), (1 << 20, 1.05)] {
        tale.steps(budget, target, 400);
    }
    tale.end()
}

/// What blocks share is counted, and what is damaged or popular stays.
fn the_popular_are_counted() -> String {
    let mut tale = Tale::new("the popular are counted", 1000, &small());
    for block in 0..500 {
        tale.write(block, block + 1);
    }
    for block in 500..1000 {
        tale.write(block, (block - 500) / 50 * 50 + 1);
    }
    for block in (0..500).filter(|block| block % 50 != 0) {
        tale.write(block, 0);
    }
    tale.tell("given up");
    // Of one container a record that is referred to is damaged, and stays where it is.
    tale.pool.flush().unwrap();
    let containers = tale.folder.existing_subfolder("containers").unwrap();
    containers.open("00000002.container").unwrap().write(130_000, &vec![0xA5; 60_000]).unwrap();
    tale.steps(20_000, 1.05, usize::MAX);
    tale.steps(20_000, 1.05, usize::MAX);
    for block in (0..500).step_by(50) {
        let read = tale.volume().read_at(block * CHUNK, &mut [0; 512]);
        tale.say(&read.map_err(|error| error.to_string()));
    }
    // Of many blocks read at once, the one that is damaged is named.
    let read = tale.volume().read_at(145 * CHUNK, &mut vec![0; 20 * CHUNK as usize]);
    tale.say(&read.map_err(|error| error.to_string()));
    tale.told + "\n"
}

/// Short containers are put together once there are enough of them.
fn short_ones_are_merged() -> String {
    let mut tale = Tale::new("short ones are merged", 100, &small());
    for number in 0..9 {
        tale.write(number, number + 1);
        tale.write(number + 50, number + 101);
        tale = tale.reopened();
        if number >= 6 {
            tale.steps(3000, 3.0, 300);
        }
    }
    tale.end()
}

/// What snapshots have stays, but for pages in which nothing lives.
fn snapshots_pin() -> String {
    let mut tale = Tale::new("snapshots pin", 700, &small());
    for block in 0..700 {
        tale.write(block, block + 1);
    }
    tale.pool.snapshot("main@a", 1, false).unwrap();
    for block in (0..700).filter(|block| block % 3 > 0) {
        tale.write(block, 10_000 + block);
    }
    tale.pool.snapshot("main@b", 2, false).unwrap();
    for block in (0..700).filter(|block| block % 16 > 1) {
        tale.write(block, 20_000 + block);
    }
    tale.steps(50_000, 1.05, usize::MAX);
    tale.pool.delete_snapshot("main@a").unwrap();
    tale.steps(10_000, 1.05, usize::MAX);
    for block in 300..600 {
        tale.write(block, 0);
    }
    tale.steps(50_000, 1.05, usize::MAX);
    tale.pool.delete_snapshot("main@b").unwrap();
    tale.steps(1 << 20, 1.05, usize::MAX);
    tale.end()
}

/// Pages are given back where records lie far apart.
fn pages_go_where_they_lie() -> String {
    let settings = PoolSettings { compression: Compression::None, ..small() };
    let mut tale = Tale::new("pages go where they lie", 700, &settings);
    for block in 0..600 {
        tale.write(block, block + 1);
    }
    tale.pool.snapshot("main@a", 1, false).unwrap();
    tale.pool.snapshot("main@b", 2, false).unwrap();
    for block in 0..600 {
        tale.write(block, if block % 9 == 0 { block + 5000 } else { 0 });
    }
    tale.pool.delete_snapshot("main@a").unwrap();
    tale.steps(100_000, 1.05, usize::MAX);
    tale.pool.rollback("main@b").unwrap();
    for block in 0..600 {
        tale.seeds[block as usize] = block + 1;
    }
    for block in (0..600).filter(|block| block % 8 < 6) {
        tale.write(block, 0);
    }
    tale.pool.snapshot("main@c", 3, false).unwrap();
    tale.pool.delete_snapshot("main@b").unwrap();
    tale.steps(100_000, 1.05, usize::MAX);
    tale.end()
}

/// Blocks that lie side by side come to lie side by side.
fn order_comes_back() -> String {
    let mut tale = Tale::new("order comes back", 1100, &small());
    for block in 0..1100 {
        tale.write(block, block + 1);
    }
    tale.steps(1 << 20, 3.0, usize::MAX);
    let mut random = SplitMix64::new(3);
    for seed in 10_000..10_900 {
        tale.write(random.below(1100), seed);
        if seed % 300 == 0 {
            tale.steps(20_000, 3.0, 5);
        }
    }
    tale.steps(40_000, 3.0, usize::MAX);
    tale.steps(40_000, 3.0, usize::MAX);
    tale.end()
}

#[test]
fn writers_keep_pace_as_they_did() {
    assert_golden("winning_pace.txt", &writers_keep_pace());
}

#[test]
fn space_is_won_as_it_was() {
    let told = [the_emptiest_go_first(), the_popular_are_counted(), short_ones_are_merged()];
    assert_golden("winning.txt", &told.join("\n"));
}

#[test]
fn what_snapshots_pin_and_order_are_as_they_were() {
    let told = [snapshots_pin(), pages_go_where_they_lie(), order_comes_back()];
    assert_golden("winning_beside.txt", &told.join("\n"));
}
