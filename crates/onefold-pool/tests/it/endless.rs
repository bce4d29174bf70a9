//! Writes that must end, whatever happens beside them.

use onefold_block::{BlockDevice, ByteSize, SimFolder};
use onefold_pool::{Budgets, OpenOptions, Pool, Volume};

use crate::hooks::{Hook, HookedFolder};
use crate::support::{IDENTITY, assert_sound, content, options, small};

/// A pass over the chunks of one write is counted; this many for one chunk never end.
const PASSES_MAX: u64 = 1000;

#[test]
fn a_write_ends_though_a_checkpoint_removes_the_container_it_was_to_share() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    let folder = HookedFolder::new(sim.clone(), &hook);
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("main", ByteSize(8 << 20)).unwrap();
    for n in 0..1500 {
        volume.write_at(n * 4096, &content(n, 4096), false).unwrap();
    }
    volume.flush().unwrap();
    // The first container dies, which nothing has noticed yet.
    volume.trim(0, 150 * 4096, false).unwrap();
    // One duplicate found in it, given up again: one that follows it reads its whole directory.
    let lone = 1600 * 4096;
    volume.write_at(lone - 4096, &content(5, 4096), false).unwrap();
    volume.trim(lone - 4096, 4096, false).unwrap();
    let before = pool.status().unwrap();
    let beside = pool.clone();
    let directory = |name: &str, len: usize| name.ends_with(".container") && len > 1000;
    // The first flushes, and the second sees that nobody writes.
    hook.within_read(directory, move || (0..2).for_each(|_| beside.maintain().unwrap()));
    let writer = {
        let volume = volume.clone();
        std::thread::spawn(move || volume.write_at(lone, &content(6, 4096), false))
    };
    while !writer.is_finished() {
        let passes = pool.status().unwrap().activity.written - before.activity.written;
        assert!(passes < PASSES_MAX, "the write goes round in circles");
        std::thread::yield_now();
    }
    writer.join().unwrap().unwrap();
    assert!(hook.is_done(), "the checkpoint came while the directory was read");
    let after = pool.status().unwrap();
    assert!(after.containers < before.containers, "the checkpoint removed the container");
    assert!(after.activity.written - before.activity.written <= 3, "it takes few passes");
    let mut found = vec![0; 4096];
    volume.read_at(lone, &mut found).unwrap();
    assert!(found == content(6, 4096));
    drop(volume);
    pool.close().unwrap();
    assert_sound(&sim, "after the race");
}

/// So often a part of a chunk is completed while others may change the chunk; then they wait.
const TRIES: u64 = 8;
const PIECE: std::ops::Range<usize> = 1000..1100;

/// Lay content `number` over the first chunk when that is next read, and the following one after
/// it, `TRIES` times.
fn overwrite_when_read(hook: &Hook, volume: &Volume, number: u64) {
    let record = |name: &str, len: usize| name.ends_with(".container") && len > 1000;
    let (volume, again) = (volume.clone(), hook.clone());
    hook.within_read(record, move || {
        // What the pool has already: to read it takes the media, not memory.
        volume.write_at(0, &content(number, 4096), false).unwrap();
        if number < TRIES {
            overwrite_when_read(&again, &volume, number + 1);
        }
    });
}

#[test]
fn a_part_of_a_chunk_that_others_overwrite_again_and_again_is_written_in_the_end() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    let folder = HookedFolder::new(sim.clone(), &hook);
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for n in 0..=TRIES {
        volume.write_at(n * 4096, &content(n, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let budgets = Budgets { cache_bytes: 0, ..options().budgets };
    let pool = Pool::open(&folder, &OpenOptions { budgets, ..options() }).unwrap();
    let volume = pool.volume("main").unwrap();
    overwrite_when_read(&hook, &volume, 1);
    volume.write_at(PIECE.start as u64, &[0xA5; 100], false).unwrap();
    assert!(hook.is_done(), "each try came too late");
    assert_eq!(pool.status().unwrap().activity.completed, TRIES + 1);
    let mut expected = content(TRIES, 4096);
    expected[PIECE].fill(0xA5);
    let mut found = vec![0; 4096];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == expected, "the part, and around it what was written last");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&sim, "after the race");
}
