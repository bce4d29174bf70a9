//! The memory of the index changes while the pool is written and read.

use onefold_block::{BlockDevice, ByteSize, SimFolder, SplitMix64};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolStatus, Thoroughness, Volume};

use crate::support::{IDENTITY, assert_sound, small};

const CHUNK: u64 = 4096;
/// More than the least index holds.
const COUNT: u64 = 150_000;
/// Enough for all.
const LARGE: u64 = 8 << 20;
const LEAST: u64 = 1 << 20;

/// Tiny contents keep the tests quick.
fn tiny(seed: u64) -> Vec<u8> {
    let mut chunk = vec![0; CHUNK as usize];
    chunk[..8].copy_from_slice(&(seed + 1).to_le_bytes());
    chunk
}

fn pool() -> (SimFolder, Pool, Volume) {
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let budgets = Budgets { index_bytes: LEAST, map_bytes: 4 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
    let volume = pool.create_volume("main", ByteSize(2 << 30)).unwrap();
    for from in (0..COUNT).step_by(1000) {
        let data: Vec<u8> = (from..from + 1000).map(tiny).collect::<Vec<_>>().concat();
        volume.write_at(from * CHUNK, &data, false).unwrap();
    }
    volume.flush().unwrap();
    (folder, pool, volume)
}

/// Write copies of chunks in no order. Returns how many of them were stored again.
fn stored_again(pool: &Pool, volume: &Volume, seed: u64) -> u64 {
    let before = pool.status().unwrap().activity.duplicate;
    let mut random = SplitMix64::new(seed);
    let copies = 2000;
    for n in 0..copies {
        let data = tiny(random.below(COUNT));
        volume.write_at((COUNT + n) * CHUNK, &data, false).unwrap();
    }
    copies - (pool.status().unwrap().activity.duplicate - before)
}

fn within_budget(pool: &Pool, bytes: u64) -> PoolStatus {
    let status = pool.status().unwrap();
    assert_eq!(status.index_memory_max_bytes, bytes);
    assert!(status.index_memory_bytes <= bytes, "{} of {bytes}", status.index_memory_bytes);
    status
}

#[test]
fn with_more_memory_the_index_learns_again_what_it_let_go() {
    // In place, and with a new table.
    for large in [LARGE / 2, 3 * LARGE] {
        let (folder, pool, volume) = pool();
        pool.fill_index_beside();
        let missed = stored_again(&pool, &volume, 1);
        assert!(missed > 400, "{missed}: the index was to be too small");
        assert!(pool.set_index_memory(large).unwrap(), "there is something to be read");
        let status = within_budget(&pool, large);
        assert!(status.index_containers_left > 3);
        // Nobody waits for it, and what was found before is found as before.
        let meanwhile = stored_again(&pool, &volume, 2);
        assert!(meanwhile <= missed + missed / 4, "{meanwhile} after {missed}");
        while !pool.fill_index(64 << 10) {
            within_budget(&pool, large);
        }
        assert_eq!(stored_again(&pool, &volume, 3), 0);
        let status = within_budget(&pool, large);
        assert!(status.index_entries >= COUNT);
        assert!(!pool.set_index_memory(large + LEAST).unwrap(), "it knows all");
        // With less, again.
        assert!(!pool.set_index_memory(LEAST).unwrap());
        within_budget(&pool, LEAST);
        let missed = stored_again(&pool, &volume, 4);
        assert!((1..1500).contains(&missed), "{missed}");
        within_budget(&pool, LEAST);
        let mut found = vec![0; CHUNK as usize];
        for n in (0..COUNT).step_by(1777) {
            volume.read_at(n * CHUNK, &mut found).unwrap();
            assert!(found == tiny(n));
        }
        drop(volume);
        pool.close().unwrap();
        assert_sound(&folder, "resized");
    }
}

#[test]
fn without_a_thread_for_it_the_next_write_fills_the_index_again() {
    let (_, pool, volume) = pool();
    assert!(pool.set_index_memory(LARGE).unwrap());
    assert_eq!(stored_again(&pool, &volume, 5), 0);
    assert_eq!(within_budget(&pool, LARGE).index_containers_left, 0);
}

#[test]
fn filters_keep_to_their_share_and_go_once_the_index_knows_all() {
    let (_, pool, volume) = pool();
    pool.checkpoint().unwrap();
    let deduplicate = || while !pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap().done {};
    deduplicate();
    let of_runs = stored_again(&pool, &volume, 6);
    assert!(of_runs < 100, "{of_runs}: filters lead to what the index does not know");
    // More memory, but not enough for all: filters stay, and what they lead to.
    assert!(pool.set_index_memory(LEAST + LEAST / 4).unwrap());
    assert!(stored_again(&pool, &volume, 7) < 100);
    within_budget(&pool, LEAST + LEAST / 4);
    assert!(!pool.set_index_memory(LEAST).unwrap());
    within_budget(&pool, LEAST);
    deduplicate();
    within_budget(&pool, LEAST);
    assert!(stored_again(&pool, &volume, 8) < 100);
    assert!(pool.set_index_memory(LARGE).unwrap());
    assert_eq!(stored_again(&pool, &volume, 9), 0);
    let status = within_budget(&pool, LARGE);
    let asked = status.deduplication.predictions.asked;
    assert!(status.index_entries >= COUNT, "{}", status.index_entries);
    // All of the memory is the index's, and nobody asks runs.
    stored_again(&pool, &volume, 10);
    assert_eq!(pool.status().unwrap().deduplication.predictions.asked, asked);
}

#[test]
fn what_is_in_no_run_yet_stays_before_what_runs_tell_as_well() {
    let (_, pool, volume) = pool();
    pool.checkpoint().unwrap();
    while !pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap().done {}
    // New chunks, each after copies of old ones, all of which are of use all the time.
    let mut random = SplitMix64::new(11);
    let new = 12_000;
    for n in 0..new {
        let old = (0..3).map(|_| tiny(random.below(COUNT)));
        let data = old.chain([tiny(COUNT + n)]).collect::<Vec<_>>().concat();
        volume.write_at((COUNT + 4 * n) * CHUNK, &data, false).unwrap();
    }
    let before = pool.status().unwrap().activity.duplicate;
    for n in 0..new {
        let scattered = n * 7919 % new;
        volume.write_at((COUNT + n) * CHUNK, &tiny(COUNT + scattered), false).unwrap();
    }
    let found = pool.status().unwrap().activity.duplicate - before;
    assert!(found * 100 > new * 99, "{found} of {new}");
    within_budget(&pool, LEAST);
}

#[test]
fn less_than_a_pool_works_with_is_refused_and_changes_nothing() {
    let (_, pool, _) = pool();
    let refused = pool.set_index_memory(LEAST - 1).unwrap_err().to_string();
    assert!(refused.contains("index memory"), "{refused}");
    within_budget(&pool, LEAST);
}
