//! The tiered container store at its edges: exactly full, empty, somebody else's, and with a part
//! of it in memory.

use std::sync::Arc;

use onefold_block::{ContainerStore, Folder as _, FolderContainerStore, SimFolder};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore};

use crate::tier::{OWNER, id, log_bytes, options, read_many, slow, tier};

#[test]
fn a_cache_that_is_made_smaller_keeps_what_fits() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let open = |segments: u64| {
        let size = TierSize::Bytes(segments * 196_608);
        let options = TierOptions { size, ..options("lru") };
        TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), options, None).unwrap()
    };
    let store = open(64);
    read_many(&store, 1, 1500, "a large one");
    let large = store.status().cached_bytes;
    drop(store);
    let store = open(32);
    let small = store.status();
    assert!(small.capacity_bytes == 32 * 196_608 && log_bytes(&fast) <= small.capacity_bytes);
    assert!(small.cached_bytes <= small.capacity_bytes, "{small:?}");
    assert!(small.cached_bytes * 4 > large, "{large}, {small:?}");
    read_many(&store, 2, 500, "a smaller one");
    assert_eq!(store.status().totals.bad_copies, 0);
    drop(store);
    // And larger again, with what it has by now.
    let store = open(64);
    assert!(store.status().cached_bytes > 0);
    read_many(&store, 3, 500, "a larger one");
    assert_eq!(store.status().totals.bad_copies, 0);
}

#[test]
fn what_holds_nothing_or_is_not_there_is_not_kept() {
    let slow: Arc<dyn ContainerStore> =
        Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    slow.create(id(1), 4096).unwrap();
    slow.seal(id(1), 0).unwrap();
    // Larger than any container of a pool.
    slow.create(id(3), 5 << 20).unwrap();
    slow.append(id(3), 0, &vec![7; 5 << 20]).unwrap();
    slow.seal(id(3), 5 << 20).unwrap();
    for policy in ["lru", "plc", "w-tinylfu", "s3-fifo"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        for _ in 0..5 {
            store.read(id(1), 0, &mut []).unwrap();
            assert!(store.read(id(2), 0, &mut [0]).is_err());
            let mut byte = [0];
            store.read(id(3), 5_000_000, &mut byte).unwrap();
            assert_eq!(byte, [7]);
            assert!(store.read(id(3), u64::MAX, &mut byte).is_err());
        }
        let status = store.status();
        assert_eq!((status.cached_extents, status.totals.requests), (0, 0), "{policy}");
    }
}

#[test]
fn a_folder_in_use_whose_first_file_is_wrong_is_told_from_that_of_another_store() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    store.read(id(1), 0, &mut [0]).unwrap();
    drop(store);
    let again = |owner: [u8; 16]| {
        let options = TierOptions { owner, ..options("lru") };
        let opened = TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), options, None);
        opened.map(drop).unwrap_err().to_string()
    };
    let said = again([8; 16]);
    assert!(said.contains("it is a cache of something else"), "{said}");
    fast.open("cache").unwrap().write(0, b"?").unwrap();
    let said = again(OWNER);
    assert!(said.contains("it is damaged"), "{said}");
}

#[test]
fn what_the_policy_moves_out_of_memory_is_on_the_fast_tier() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "w-tinylfu:memory=1,window=0.3");
    read_many(&store, 3, 2000, "memory before the fast tier");
    let before = store.status();
    assert!(before.totals.writes > 0 && before.totals.hits > 0, "{before:?}");
    drop(store);
    let saved = TieredStore::saved_status(&fast, &OWNER).unwrap();
    assert!(before.waiting_bytes > 0, "some were in memory: {before:?}");
    assert!(saved.cached_extents > 0, "and some were not: {saved:?}");
    assert_eq!(saved.cached_extents, before.cached_extents);
    let store = tier(&slow, &fast, "w-tinylfu:memory=1,window=0.3");
    assert_eq!(store.status().cached_extents, saved.cached_extents);
}

#[test]
fn a_cache_that_was_never_used_is_its_owners_all_the_same() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    drop(tier(&slow, &fast, "lru"));
    // Only what says whose it is.
    for name in fast.list().unwrap() {
        if name != "cache" {
            fast.remove(&name).unwrap();
        }
    }
    let other = TierOptions { owner: [8; 16], ..options("lru") };
    let opened = TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), other, None);
    let said = opened.map(drop).unwrap_err().to_string();
    assert!(said.contains("it is a cache of something else"), "{said}");
    drop(tier(&slow, &fast, "lru"));
}

#[test]
fn a_cache_whose_first_file_is_damaged_before_anything_followed_is_made_again() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    drop(tier(&slow, &fast, "lru"));
    for name in fast.list().unwrap() {
        if name != "cache" {
            fast.remove(&name).unwrap();
        }
    }
    fast.flip_bit("cache", 20, 3).unwrap();
    assert!(!fast.list().unwrap().is_empty());
    drop(tier(&slow, &fast, "lru"));
    TieredStore::examine(&fast, &OWNER).unwrap();
    let other = TieredStore::examine(&fast, &[8; 16]).unwrap_err().to_string();
    assert!(other.contains("it is a cache of something else"), "{other}");
}
