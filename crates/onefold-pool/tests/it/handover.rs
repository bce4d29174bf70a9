//! The process dies at every change of the media, and what was acknowledged is there.
//!
//! The memory that outlives the process may also be lost, damaged, from another run of the machine
//! or short: then what was flushed is there, and nothing that was never written.

use std::sync::{Arc, Mutex};

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{BlockDevice, CrashMode, SimFolder, SplitMix64};
use onefold_pool::{Pool, PoolError, Surroundings, TakenUp};

use crate::hooks::{Hook, HookedFolder};
use crate::model::{CHUNK, Model, main_volume, step_of};
use crate::support::{IDENTITY, assert_sound, content, options, small};

const BLOCKS: usize = 300;

fn open(folder: &dyn onefold_block::Folder, memory: &SimHandover) -> Result<Pool, PoolError> {
    let handover: Arc<dyn Handover> = Arc::new(memory.clone());
    let around = Surroundings { handover: Some(handover), ..Surroundings::default() };
    Pool::open_in(folder, &options(), around)
}

/// What is done until the process dies.
#[derive(Clone, Copy)]
struct Load {
    /// Different contents of whole chunks.
    contents: u64,
    steps: usize,
    /// One change of the media in so many leaves a picture.
    every: u64,
}

/// Few contents: much is stored once, and hardly a container empties.
const fn duplicates(steps: usize, every: u64) -> Load {
    Load { contents: 40, steps, every }
}

/// What a kill leaves.
#[derive(Clone)]
pub struct Left {
    pub disk: SimFolder,
    pub memory: SimHandover,
}

impl Left {
    pub fn again(&self) -> Self {
        let disk = self.disk.after_crash(0, CrashMode::KeepEverything);
        Self { disk, memory: self.memory.after_kill() }
    }

    /// Open it; the volume must hold one of the states that `model` has of each block.
    fn holds(&self, mut model: Model, sound: bool, context: &str) -> TakenUp {
        let pool = open(&self.disk, &self.memory).unwrap_or_else(|e| panic!("{context}: {e}"));
        let taken = pool.taken_up().clone();
        if let Ok(volume) = pool.volume("main") {
            model.adopt(&volume, context);
        }
        if sound {
            pool.close().unwrap();
            assert_sound(&self.disk, context);
        }
        taken
    }
}

/// A pool whose every change of the media, one in `every`, leaves a picture of a kill.
struct Life {
    pool: Pool,
    left: Arc<Mutex<Vec<Left>>>,
    /// Every state since the last flush, of each block.
    model: Model,
}

fn live(every: u64, seed: u64) -> Life {
    let (disk, hook, memory) = (SimFolder::new(), Hook::default(), SimHandover::new());
    let folder = HookedFolder::new(disk.clone(), &hook);
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = open(&folder, &memory).unwrap();
    let left = Arc::new(Mutex::new(Vec::new()));
    drop(main_volume(&pool, BLOCKS).unwrap());
    let (pictures, mut random) = (Arc::clone(&left), SplitMix64::new(seed));
    hook.around_changes(move || {
        if random.below(every) == 0 {
            pictures
                .lock()
                .unwrap()
                .push(Left { disk: disk.clone(), memory: memory.clone() }.again());
        }
    });
    Life { pool, left, model: Model::new(BLOCKS) }
}

/// Do `steps`; `judge` sees each picture with the states before and after its step and with all
/// since the last flush.
///
/// Returns the bytes that were moved to win space back.
fn through(seed: u64, load: Load, mut judge: impl FnMut(&Left, &Model, &Model, &str)) -> u64 {
    let mut life = live(load.every, seed);
    let volume = main_volume(&life.pool, BLOCKS).unwrap();
    let mut random = SplitMix64::new(seed);
    for number in 0..load.steps {
        let mut acknowledged = life.model.clone();
        acknowledged.settle();
        let mut possible = life.model.clone();
        step_of(load.contents, &life.pool, &volume, &mut life.model, &mut random).unwrap();
        for (block, now) in life.model.blocks.iter().enumerate() {
            acknowledged.blocks[block].push(now.last().unwrap().clone());
            possible.blocks[block].extend(now.iter().cloned());
        }
        for left in life.left.lock().unwrap().drain(..) {
            judge(&left, &acknowledged, &possible, &format!("seed {seed}, step {number}"));
        }
    }
    life.pool.status().unwrap().activity.moved_bytes
}

#[test]
fn a_kill_at_any_change_of_the_media_loses_nothing_that_was_acknowledged() {
    let mut taken_up = 0;
    for seed in 0..3 {
        let mut number = 0;
        through(seed, duplicates(70, 3), |left, acknowledged, _, context| {
            number += 1;
            let taken = left.holds(acknowledged.clone(), number % 8 == 0, context);
            assert_eq!((taken.found, taken.lost), (true, None), "{context}");
            taken_up += u64::from(taken.changes > 0);
        });
        assert!(number > 50, "only {number} kills");
    }
    assert!(taken_up > 50, "only {taken_up} kills left something in memory alone");
}

#[test]
fn a_kill_while_space_is_won_back_loses_nothing_that_was_acknowledged() {
    // Nearly all that is written is new, and overwritten soon: containers fill, and are emptied.
    let churn = Load { contents: 3000, steps: 160, every: 6 };
    let (mut kills, mut taken_up, mut moved) = (0, 0, 0);
    for seed in 20..24 {
        moved += through(seed, churn, |left, acknowledged, _, context| {
            kills += 1;
            let taken = left.holds(acknowledged.clone(), kills % 4 == 0, context);
            assert_eq!((taken.found, taken.lost), (true, None), "{context}");
            taken_up += u64::from(taken.changes > 0);
        });
    }
    assert!(moved > 256 << 10, "only {moved} bytes were moved");
    assert!(taken_up > 50, "only {taken_up} of {kills} kills left something in memory alone");
}

#[test]
fn a_kill_between_two_operations_loses_nothing_that_was_acknowledged() {
    let (disk, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&disk, &small(), IDENTITY).unwrap();
    let (mut disk, mut memory, mut model) = (disk, memory, Model::new(BLOCKS));
    let mut random = SplitMix64::new(9);
    for life in 0..12 {
        let pool = open(&disk, &memory).unwrap();
        let volume = main_volume(&pool, BLOCKS).unwrap();
        model.assert_current(&volume, &format!("life {life}"));
        for _ in 0..=life * 2 {
            step_of(40, &pool, &volume, &mut model, &mut random).unwrap();
        }
        let left = Left { disk: disk.clone(), memory: memory.clone() }.again();
        (disk, memory) = (left.disk, left.memory);
    }
}

#[test]
fn without_the_memory_what_was_flushed_is_there() {
    through(11, duplicates(60, 4), |left, _, possible, context| {
        let gone = Left { memory: SimHandover::new(), ..left.again() };
        assert_eq!(gone.holds(possible.clone(), true, context), TakenUp::default());
        let other = Left { memory: left.memory.after_boot(), ..left.again() };
        let taken = other.holds(possible.clone(), false, context);
        assert!(taken.lost.unwrap().contains("started again"), "{context}");
    });
}

#[test]
fn damaged_memory_costs_no_more_than_a_power_cut() {
    let mut random = SplitMix64::new(3);
    let (mut noticed, mut harmless) = (0, 0);
    through(12, duplicates(60, 2), |left, _, possible, context| {
        let hurt = left.again();
        let names = hurt.memory.list().unwrap();
        let name = &names[random.below(names.len() as u64) as usize];
        // Where something is: heads, the first records, the end of a container's region.
        let at = match name.as_str() {
            "changes" => [random.below(210), 4096 + random.below(300)][random.below(2) as usize],
            _ => random.below(6000),
        };
        hurt.memory.damage(name, at, 1 << random.below(8));
        let context = format!("{context}, byte {at} of {name}");
        match hurt.holds(possible.clone(), true, &context).lost {
            Some(_) => noticed += 1,
            None => harmless += 1,
        }
    });
    assert!(noticed > 10 && harmless > 0, "{noticed} noticed, {harmless} not");
}

#[test]
fn a_kill_or_power_cut_while_it_is_taken_up_is_like_one_before() {
    let mut random = SplitMix64::new(5);
    through(13, duplicates(60, 12), |left, acknowledged, possible, context| {
        let cut = 1 + random.below(40);
        let context = format!("{context}, again at {cut}");
        let dying = left.again();
        dying.disk.crash_at(cut);
        drop(open(&dying.disk, &dying.memory));
        let killed = dying.again();
        killed.holds(acknowledged.clone(), true, &context);
        let disk = dying.disk.after_crash(cut, CrashMode::Random);
        Left { disk, memory: SimHandover::new() }.holds(possible.clone(), true, &context);
    });
}

#[test]
fn who_opens_the_pool_without_the_memory_makes_it_count_for_nothing() {
    let mut found = 0;
    through(14, duplicates(40, 4), |left, _, possible, context| {
        let left = left.again();
        let pool = Pool::open(&left.disk, &options()).unwrap();
        pool.checkpoint().unwrap();
        drop(pool);
        let taken = left.holds(possible.clone(), true, context);
        assert_eq!(taken.changes, 0, "{context}");
        found += u64::from(taken.lost.is_some());
    });
    assert!(found > 0, "something was lost, and said to be");
}

#[test]
fn where_there_is_no_memory_the_pool_works_and_says_so() {
    let (disk, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&disk, &small(), IDENTITY).unwrap();
    memory.limit(0);
    let pool = open(&disk, &memory).unwrap();
    pool.keeps_writes().unwrap_err();
    drop(pool);
    // Room for the changes and one container.
    memory.limit(2);
    let pool = open(&disk, &memory).unwrap();
    pool.keeps_writes().unwrap();
    let volume = main_volume(&pool, BLOCKS).unwrap();
    volume.flush().unwrap();
    for n in 0..250u64 {
        volume.write_at(n * CHUNK as u64, &content(n, CHUNK), false).unwrap();
    }
    assert!(memory.list().unwrap().len() <= 2);
    drop(volume);
    pool.close().unwrap();
    assert!(memory.list().unwrap().is_empty(), "a clean stop leaves nothing");
    assert_sound(&disk, "with little memory");
}

#[test]
fn a_process_that_ends_early_leaves_memory_of_what_is_not_stored_alone() {
    let (disk, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&disk, &small(), IDENTITY).unwrap();
    let pool = open(&disk, &memory).unwrap();
    let volume = main_volume(&pool, BLOCKS).unwrap();
    for n in 0..250u64 {
        volume.write_at(n * CHUNK as u64, &content(n, CHUNK), false).unwrap();
    }
    // The changes, the container that is being filled, and memory for the next one.
    assert_eq!(memory.list().unwrap().len(), 3);
    drop(volume);
    // After an error it is not closed.
    drop(pool);
    assert_eq!(memory.list().unwrap().len(), 2);
}

#[test]
fn a_reader_leaves_the_memory_alone() {
    let (disk, memory) = (SimFolder::new(), SimHandover::new());
    Pool::create(&disk, &small(), IDENTITY).unwrap();
    let pool = open(&disk, &memory).unwrap();
    let volume = main_volume(&pool, BLOCKS).unwrap();
    volume.write_at(0, &content(1, CHUNK), false).unwrap();
    let left = Left { disk, memory }.again();
    let handover: Arc<dyn Handover> = Arc::new(left.memory.clone());
    let around = Surroundings { handover: Some(handover), ..Surroundings::default() };
    let reader = Pool::open_in(&left.disk, &crate::support::read_only(), around).unwrap();
    assert_eq!(reader.changes_left_in(&left.memory), 1);
    drop(reader);
    let pool = open(&left.disk, &left.memory).unwrap();
    assert_eq!(pool.taken_up().changes, 1);
    let mut found = vec![0; CHUNK];
    pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == content(1, CHUNK));
}
