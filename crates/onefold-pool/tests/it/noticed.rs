//! Small mistakes that nothing else here would notice.

use onefold_block::{
    BlockDevice, BlockError, ByteSize, ContainerId, CrashMode, FaultKind, Folder, OpKind, SimFolder,
};
use onefold_pool::format::container;
use onefold_pool::{Budgets, OpenOptions, Pool, PoolError, SpaceTarget, Volume};

use crate::hooks::{Hook, HookedFolder};
use crate::model::{CHUNK, main_volume};
use crate::support::{IDENTITY, assert_sound, content, new_pool, options, read_only, small};

fn write(volume: &dyn BlockDevice, block: u64, seed: u64) {
    volume.write_at(block * CHUNK as u64, &content(seed, CHUNK), false).unwrap();
}

#[test]
fn frames_that_a_checkpoint_made_old_are_not_noted_as_torn() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 100).unwrap();
    for block in 0..5 {
        write(&volume, block, block);
        volume.flush().unwrap();
    }
    pool.checkpoint().unwrap();
    let killed = folder.after_crash(1, CrashMode::KeepEverything);
    let report = Pool::check_in(&killed, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let torn: Vec<&String> = report.notes.iter().filter(|note| note.contains("whole")).collect();
    assert!(torn.is_empty(), "{torn:?}");
}

#[test]
fn a_file_that_is_missing_is_named_as_that() {
    for name in ["journal", "map"] {
        let (folder, pool) = new_pool(&small());
        main_volume(&pool, 10).unwrap();
        pool.close().unwrap();
        folder.remove(name).unwrap();
        let error = Pool::open(&folder, &options()).map(drop).unwrap_err();
        let PoolError::Corrupt { what, offset, problem } = error else { panic!("{error}") };
        assert_eq!((what.as_str(), offset, problem.as_str()), (name, 0, "the file is missing"));
    }
}

#[test]
fn neighbours_are_read_together_and_strangers_are_not() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    Pool::create(&sim, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&HookedFolder::new(sim.clone(), &hook), &options()).unwrap();
    let volume = main_volume(&pool, 1000).unwrap();
    for block in 0..96 {
        write(&volume, block, 1 + block);
    }
    drop(volume);
    pool.close().unwrap();
    let budgets = Budgets { cache_bytes: 0, ..options().budgets };
    let open = OpenOptions { budgets, ..read_only() };
    let pool = Pool::open(&HookedFolder::new(sim, &hook), &open).unwrap();
    let volume = pool.volume("main").unwrap();
    let reads_of = |from: u64, blocks: usize| {
        let before = hook.container_reads();
        let mut found = vec![0; blocks * CHUNK];
        volume.read_at(from * CHUNK as u64, &mut found).unwrap();
        for (block, found) in (from..).zip(found.chunks(CHUNK)) {
            assert!(found == content(1 + block, CHUNK));
        }
        hook.container_reads() - before
    };
    assert_eq!(reads_of(0, 1), 1);
    assert_eq!((reads_of(0, 32), reads_of(7, 32)), (1, 1));
}

/// A pool of mostly dead containers, as `first` lists them: what is alive in them is referred to by
/// blocks 3000 and up, and no longer by the blocks that it was first written for.
struct Worn {
    folder: SimFolder,
    pool: Pool,
    volume: Volume,
    first: Vec<String>,
}

const SHARED: u64 = 40;

fn seed_of(shared: u64) -> u64 {
    1 + 25 * shared
}

fn worn() -> Worn {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 4000).unwrap();
    for block in 0..1000 {
        write(&volume, block, 1 + block);
    }
    for shared in 0..SHARED {
        write(&volume, 3000 + shared, seed_of(shared));
    }
    volume.trim(0, 1000 * CHUNK as u64, false).unwrap();
    volume.flush().unwrap();
    let mut first = names(&folder);
    assert!(first.len() > 5, "{first:?}");
    // The last ones are still being filled, or kept for what moves.
    first.truncate(4);
    Worn { folder, pool, volume, first }
}

fn names(folder: &SimFolder) -> Vec<String> {
    folder.subfolder("containers").unwrap().list().unwrap()
}

impl Worn {
    fn reclaim(&self, budget_bytes: u64) -> bool {
        let target = SpaceTarget::new(1.05).unwrap();
        self.pool.background(budget_bytes, target).unwrap().done
    }

    fn assert_emptied(self) {
        let mut found = vec![0; CHUNK];
        for shared in 0..SHARED {
            self.volume.read_at((3000 + shared) * CHUNK as u64, &mut found).unwrap();
            assert!(found == content(seed_of(shared), CHUNK), "block {}", 3000 + shared);
        }
        let now = names(&self.folder);
        assert!(!self.first.iter().any(|name| now.contains(name)), "{:?} {now:?}", self.first);
        let Self { folder, pool, volume, .. } = self;
        drop(volume);
        pool.close().unwrap();
        assert_sound(&folder, "closed");
    }
}

/// The owner in a directory is only where a record was first written for.
#[test]
fn owners_that_hold_something_else_by_now_do_not_keep_a_container() {
    let worn = worn();
    while !worn.reclaim(1 << 20) {}
    worn.assert_emptied();
}

#[test]
fn what_is_written_while_containers_are_emptied_is_not_shared_into_them() {
    let worn = worn();
    // The containers to empty are chosen, and the first of them has been looked at.
    assert!(!worn.reclaim(1));
    let planned = || worn.pool.status().unwrap().activity.written;
    let before = planned();
    for shared in 0..SHARED {
        write(&worn.volume, 3500 + shared, seed_of(shared));
    }
    let passes = planned() - before;
    assert!(passes <= 2 * SHARED, "{passes} passes: nobody is led there twice");
    while !worn.reclaim(1 << 20) {}
    worn.assert_emptied();
}

/// Nobody asks the index for volumes: the first block of each is a place to be looked at.
#[test]
fn what_only_the_first_block_of_another_volume_refers_to_is_moved_too() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 2000).unwrap();
    let others: Vec<Volume> = (0..6)
        .map(|n| pool.create_volume(&format!("other{n}"), ByteSize(CHUNK as u64)).unwrap())
        .collect();
    for block in 0..1000 {
        write(&volume, block, 1 + block);
    }
    // Each in a container of its own.
    let seed_of = |n: usize| 1 + 150 * n as u64;
    for (n, other) in others.iter().enumerate() {
        write(other, 0, seed_of(n));
    }
    volume.trim(0, 1000 * CHUNK as u64, false).unwrap();
    volume.flush().unwrap();
    pool.checkpoint().unwrap();
    let left = names(&folder);
    let target = SpaceTarget::new(1.05).unwrap();
    while !pool.background(1 << 20, target).unwrap().done {}
    let now = names(&folder);
    assert!(now.len() + 4 <= left.len(), "{left:?} {now:?}");
    for (n, other) in others.iter().enumerate() {
        let mut found = vec![0; CHUNK];
        other.read_at(0, &mut found).unwrap();
        assert!(found == content(seed_of(n), CHUNK), "volume {n}");
    }
}

#[test]
fn who_is_led_to_what_is_gone_takes_it_out_of_the_index() {
    let (_folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 1000).unwrap();
    let write_all = || (0..1000).for_each(|block| write(&volume, block, 1 + block));
    write_all();
    let held = pool.status().unwrap().index_entries;
    assert_eq!(held, 1000);
    volume.trim(0, 1000 * CHUNK as u64, false).unwrap();
    pool.checkpoint().unwrap();
    assert_eq!(pool.status().unwrap().index_entries, held, "nobody looked yet");
    write_all();
    // The last container was still being filled, and is shared.
    let status = pool.status().unwrap();
    assert!(status.activity.stored > 1800, "{:?}", status.activity);
    assert_eq!(status.index_entries, held, "each chunk is known once");
}

#[test]
fn every_flipped_bit_of_a_containers_header_is_noticed() {
    let id = ContainerId::new(5);
    let header = container::encode_header(id, &[9; 16], 7);
    container::check_header(&header, id, &[9; 16]).unwrap();
    for bit in 0..header.len() * 8 {
        let mut damaged = header.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(container::check_header(&damaged, id, &[9; 16]).is_err(), "bit {bit}");
    }
}

/// Between the moment in which a reference is found and the one in which it changes, its block may
/// be written.
#[test]
fn a_block_that_is_written_while_its_record_moves_keeps_what_was_written() {
    let worn = worn();
    let mut held: Vec<u64> = (0..SHARED).map(seed_of).collect();
    for step in 0..100_000 {
        if worn.reclaim(1) {
            break;
        }
        // At any step one block in a few is written; the others move.
        if step < 400 && step % 5 == 0 {
            let shared = step / 5 * 7 % SHARED;
            held[shared as usize] = 50_000 + step;
            write(&worn.volume, 3000 + shared, 50_000 + step);
        }
    }
    let mut found = vec![0; CHUNK];
    for (block, seed) in (3000..).zip(held) {
        worn.volume.read_at(block * CHUNK as u64, &mut found).unwrap();
        assert!(found == content(seed, CHUNK), "block {block}");
    }
    worn.volume.flush().unwrap();
    assert!(worn.reclaim(1), "it ended");
}

/// What ops are done within, without their numbers.
fn done(folder: &SimFolder, within: impl FnOnce()) -> String {
    let mut seen = folder.op_log().lines().count();
    within();
    folder.ops_since(&mut seen)
}

#[test]
fn upkeep_makes_it_provable_that_the_last_flush_was_durable() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 100).unwrap();
    write(&volume, 3, 1);
    let upkeep = || pool.maintain().unwrap();
    let flushed = done(&folder, upkeep);
    assert!(flushed.ends_with("Sync journal\nWrite super.0 bytes 4096..4120\nSync super.0\n"));
    assert_eq!(done(&folder, upkeep), "");
    let durable = folder.after_crash(1, CrashMode::KeepNothing);
    durable.truncate("journal", 64).unwrap();
    let error = Pool::open(&durable, &options()).map(drop).unwrap_err().to_string();
    assert!(error.contains("frames end before frame 1, but 2 of them were durable"), "{error}");
}

#[test]
fn what_met_an_error_is_not_closed_as_if_it_were_sound() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 200).unwrap();
    (0..150).for_each(|block| write(&volume, block, 1 + block));
    pool.checkpoint().unwrap();
    volume.trim(0, 150 * CHUNK as u64, false).unwrap();
    drop(volume);
    let other = pool.clone();
    folder.fail_once(&[OpKind::Remove], 1, FaultKind::Eio);
    // Its checkpoint is durable, and nothing is left to be written.
    assert!(pool.close().is_err());
    assert_eq!(done(&folder, || assert!(other.clone().close().is_err())), "");
    assert!(matches!(other.flush(), Err(PoolError::Poisoned(_))), "{:?}", other.flush());
    drop(other);
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    Pool::open(&folder, &options()).unwrap().close().unwrap();
    assert_sound(&folder, "opened again");
}

#[test]
fn a_volume_that_grew_has_zeroes_where_it_was_shorter_whoever_wrote_meanwhile() {
    for size in [100 * CHUNK as u64, 100 * CHUNK as u64 + 70] {
        let (sim, hook) = (SimFolder::new(), Hook::default());
        Pool::create(&sim, &small(), IDENTITY).unwrap();
        let pool = Pool::open(&HookedFolder::new(sim.clone(), &hook), &options()).unwrap();
        let volume = main_volume(&pool, 600).unwrap();
        (0..600).step_by(9).for_each(|block| write(&volume, block, 1 + block));
        let (late, disk) = (volume.clone(), sim.clone());
        let (mut seen, mut is_late) = (sim.op_log().lines().count(), false);
        let (tell, told) = std::sync::mpsc::channel();
        hook.around_changes(move || {
            if !is_late && disk.ops_since(&mut seen).contains("Sync journal") {
                is_late = true;
                // In the block that is cut, and past the end.
                for (at, len) in [(size + 10, 20), (101 << 12, CHUNK), (550 << 12, CHUNK)] {
                    tell.send(late.write_at(at, &content(777, len), false)).unwrap();
                }
            }
        });
        pool.resize_volume("main", ByteSize(size), true).unwrap();
        hook.around_changes(|| {});
        let told: Vec<_> = told.into_iter().collect();
        let is_refused =
            |done: &Result<(), BlockError>| matches!(done, Err(BlockError::OutOfRange { .. }));
        assert!(told.len() == 3 && told.iter().all(is_refused), "{size}: {told:?}");
        let stored = pool.status().unwrap().logical_bytes / CHUNK as u64;
        pool.resize_volume("main", ByteSize(600 * CHUNK as u64), false).unwrap();
        let mut found = vec![1; (600 * CHUNK as u64 - size) as usize];
        volume.read_at(size, &mut found).unwrap();
        let old: Vec<usize> = (0..found.len()).filter(|&at| found[at] != 0).collect();
        assert!(old.is_empty(), "{size}: {} bytes from {}", old.len(), old[0]);
        assert_eq!(stored, 12, "what is past the end takes no space");
        drop(volume);
        pool.close().unwrap();
        assert_sound(&sim, "closed");
    }
}

#[test]
fn what_is_read_of_a_volume_that_is_deleted_meanwhile_is_refused() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    Pool::create(&sim, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&HookedFolder::new(sim, &hook), &options()).unwrap();
    let volume = main_volume(&pool, 1000).unwrap();
    (0..200).for_each(|block| write(&volume, block, 1 + block));
    volume.flush().unwrap();
    let other = pool.clone();
    hook.within_read(
        |name, _| name.ends_with(".container"),
        move || other.delete_volume("main").unwrap(),
    );
    let read = volume.read_at(0, &mut vec![0; CHUNK]);
    assert!(hook.is_done(), "it was read from memory");
    assert!(matches!(read, Err(BlockError::ShuttingDown)), "{read:?}");
}

/// Written while a checkpoint makes durable what there was before it: the rest finds no room.
#[test]
fn what_came_while_a_checkpoint_flushed_and_found_no_room_is_in_the_next_flush() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    Pool::create(&sim, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&HookedFolder::new(sim.clone(), &hook), &options()).unwrap();
    let volume = main_volume(&pool, 500).unwrap();
    (0..100).for_each(|block| write(&volume, block, 1 + block));
    let (late, disk) = (volume.clone(), sim.clone());
    let (mut seen, mut is_late) = (sim.op_log().lines().count(), false);
    hook.around_changes(move || {
        if !is_late && disk.ops_since(&mut seen).contains("Sync journal") {
            is_late = true;
            (100..250).for_each(|block| write(&late, block, 1 + block));
            // The first is the witness, which does without.
            disk.fail_once(&[OpKind::Write], 2, FaultKind::Enospc);
        }
    });
    let error = pool.checkpoint().unwrap_err();
    assert!(error.is_no_space(), "{error}");
    hook.around_changes(|| {});
    pool.flush().unwrap();
    let folder = sim.after_crash(1, CrashMode::KeepNothing);
    let pool = Pool::open(&folder, &options()).unwrap();
    let (volume, mut found) = (pool.volume("main").unwrap(), vec![0; CHUNK]);
    for block in 0..250 {
        volume.read_at(block * CHUNK as u64, &mut found).unwrap();
        assert!(found == content(1 + block, CHUNK), "block {block}");
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}
