//! The tiered container store at its edges: exactly full, empty, somebody else's, and with a part
//! of it in memory.

use std::sync::Arc;

use onefold_block::{ContainerStore, Folder as _, FolderContainerStore, SimFolder, SplitMix64};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore};

use crate::tier::{OWNER, copies, id, options, read_many, slow, tier};

#[test]
fn a_cache_that_is_exactly_full_loses_nothing_by_a_restart() {
    let slow: Arc<dyn ContainerStore> =
        Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    let data = SplitMix64::new(1).bytes(8192);
    for number in 1..=6 {
        slow.create(id(number), 8192).unwrap();
        slow.append(id(number), 0, &data).unwrap();
        slow.seal(id(number), 8192).unwrap();
    }
    let copy = 8192 + 2 * 4 + 44;
    let options = TierOptions { size: TierSize::Bytes(4 * copy), ..options("lru") };
    let fast = SimFolder::new();
    let open = |bytes| {
        let options = TierOptions { size: TierSize::Bytes(bytes), ..options.clone() };
        TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), options, None).unwrap()
    };
    let store = open(4 * copy);
    for number in 1..=4 {
        store.read(id(number), 0, &mut [0]).unwrap();
    }
    assert_eq!(store.status().cached_bytes, 4 * copy);
    drop(store);
    let store = open(4 * copy);
    assert_eq!(store.status().cached_containers, 4, "there is room for all of them");
    drop(store);
    // A byte less, and the one that was asked for longest ago goes.
    let store = open(4 * copy - 1);
    assert_eq!(store.status().cached_containers, 3);
    let hits = store.status().totals.hits;
    for number in 2..=4 {
        store.read(id(number), 0, &mut [0]).unwrap();
    }
    assert_eq!(store.status().totals.hits, hits + 3);
}

#[test]
fn what_holds_nothing_or_is_not_there_is_not_kept() {
    let slow: Arc<dyn ContainerStore> =
        Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    slow.create(id(1), 4096).unwrap();
    slow.seal(id(1), 0).unwrap();
    for policy in ["lru", "plc", "w-tinylfu", "s3-fifo"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        for _ in 0..5 {
            store.read(id(1), 0, &mut []).unwrap();
            assert!(store.read(id(2), 0, &mut [0]).is_err());
        }
        let status = store.status();
        assert_eq!((status.cached_containers, status.totals.requests), (0, 0), "{policy}");
        assert_eq!(copies(&fast), Vec::<String>::new(), "{policy}");
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
    let on_disk = copies(&fast).len() as u64;
    assert!(before.totals.writes > 0 && on_disk > 0, "{before:?}");
    assert!(on_disk < before.cached_containers, "some are in memory: {before:?}");
    assert!(2 * on_disk >= before.cached_containers, "{on_disk} copies: {before:?}");
    drop(store);
    let store = tier(&slow, &fast, "w-tinylfu:memory=1,window=0.3");
    assert_eq!(store.status().cached_containers, on_disk, "a restart takes what memory held");
}

#[test]
fn a_cache_that_was_never_used_is_its_owners_all_the_same() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    drop(tier(&slow, &fast, "lru"));
    // Only what says whose it is.
    for name in fast.list().unwrap() {
        if name != "cache" && name != "copies" {
            fast.remove(&name).unwrap();
        }
    }
    let other = TierOptions { owner: [8; 16], ..options("lru") };
    let opened = TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), other, None);
    let said = opened.map(drop).unwrap_err().to_string();
    assert!(said.contains("it is a cache of something else"), "{said}");
    drop(tier(&slow, &fast, "lru"));
}
