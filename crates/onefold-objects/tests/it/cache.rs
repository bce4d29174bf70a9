//! A cache on a fast device before an archive in an object store: what it saves, and what others do
//! to the store meanwhile.

use std::sync::Arc;

use onefold_archive::Archive;
use onefold_block::{
    ContainerId, ContainerStore, FaultKind, Folder as _, FolderContainerStore, OpKind, SimFolder,
    SplitMix64,
};
use onefold_cache::tier::{TierError, TierOptions, TierSize, TieredStore};
use onefold_objects::sim::Loss;
use onefold_objects::{Expect, ObjectFolder, Objects as _, SimObjects};

use crate::support::{Tree, add, create, open, read, trees};

const AT_ONCE: usize = 16;

fn try_tier(
    slow: Arc<dyn ContainerStore>,
    fast: &SimFolder,
    owner: [u8; 16],
) -> Result<TieredStore, TierError> {
    TieredStore::open(slow, Arc::new(fast.clone()), options("lru", owner), None)
}

fn options(policy: &str, owner: [u8; 16]) -> TierOptions {
    TierOptions {
        owner,
        policy: policy.to_owned(),
        size: TierSize::Bytes(4 << 20),
        container_bytes: LEN as u32,
        writes_per_day: None,
        write_through: false,
        fill_at_once: true,
    }
}

/// An archive that is read through a cache, as a process of its own.
fn open_through(store: &SimObjects, fast: &SimFolder) -> (Archive, Arc<TieredStore>) {
    open_with(store, fast, options("lru", [0; 16]))
}

fn open_with(
    store: &SimObjects,
    fast: &SimFolder,
    options: TierOptions,
) -> (Archive, Arc<TieredStore>) {
    let folder = ObjectFolder::new(Arc::new(store.clone()), None).with_reads_at_once(AT_ONCE);
    let mut archive = Archive::open(Arc::new(folder)).unwrap();
    let (owner, mut tier) = (archive.identity().uuid, None);
    archive.read_through(|slow| {
        let (folder, options) = (Arc::new(fast.clone()), TierOptions { owner, ..options });
        let opened = Arc::new(TieredStore::open(slow, folder, options, None).unwrap());
        tier = Some(Arc::clone(&opened));
        opened
    });
    (archive, tier.unwrap())
}

/// Requests for containers, and all others, since there were so many.
fn requests(store: &SimObjects, since: usize) -> (usize, usize) {
    let log = store.log();
    let of_containers = log[since..].iter().filter(|line| line.contains(".container")).count();
    (of_containers, log.len() - since - of_containers)
}

#[test]
fn a_warm_cache_asks_the_store_for_no_container_and_lists_them_once_more() {
    let store = SimObjects::new();
    create(&store, false).unwrap();
    let trees = trees(21, 6);
    for tree in &trees {
        add(&mut open(&store), tree).unwrap();
    }
    let before = store.log().len();
    assert!(read(&open(&store), 6).unwrap() == trees[5]);
    let (containers, others) = requests(&store, before);
    assert!(containers > 3, "{containers}");
    let fast = SimFolder::new();
    let asked = |expected: usize| {
        let before = store.log().len();
        let (archive, tier) = open_through(&store, &fast);
        assert!(read(&archive, 6).unwrap() == trees[5]);
        assert_eq!(requests(&store, before), (expected, others + 1));
        tier.status().totals
    };
    let cold = asked(containers);
    let warm = asked(0);
    assert!(cold.slow_bytes > 100_000 && warm.slow_bytes == cold.slow_bytes, "{warm:?}");
    // A cache of this archive is no other one's, and the other way round.
    let slow = containers_of(&store, AT_ONCE);
    assert!(matches!(try_tier(slow, &fast, [9; 16]), Err(TierError::NotACache(_))));
    assert_eq!(asked(0).hits, warm.hits + warm.hits - cold.hits);
}

#[test]
fn what_was_read_in_order_once_is_asked_for_no_more_while_there_is_room() {
    let store = SimObjects::new();
    create(&store, false).unwrap();
    let content = SplitMix64::new(31).bytes(2_000_000);
    let tree = Tree::from([(b"long".to_vec(), Some(content))]);
    add(&mut open(&store), &tree).unwrap();
    for (policy, fills) in [("lru", true), ("toll", true), ("lru", false)] {
        let fast = SimFolder::new();
        let asked = || {
            let before = store.log().len();
            let options = TierOptions { fill_at_once: fills, ..options(policy, [0; 16]) };
            let (archive, tier) = open_with(&store, &fast, options);
            assert!(read(&archive, 1).unwrap() == tree);
            tier.save();
            requests(&store, before).0
        };
        let (first, second) = (asked(), asked());
        assert!(first > 1 && (second == 0) == fills, "{policy}: {first}, then {second}");
    }
}

fn containers_of(store: &SimObjects, at_once: usize) -> Arc<dyn ContainerStore> {
    let folder = ObjectFolder::new(Arc::new(store.clone()), None).with_reads_at_once(at_once);
    Arc::new(FolderContainerStore::new(folder.subfolder("containers").unwrap()))
}

const OWNER: [u8; 16] = [3; 16];
const LEN: usize = 400_000;
const ID: ContainerId = ContainerId::new(1);
const NAME: &str = "containers/00000001.container";

/// Where it is read: not at its beginning, where more is read ahead than was asked for.
const AT: usize = 150_000;

/// Two containers that differ, but not in their last 10,000 bytes.
fn two() -> [Vec<u8>; 2] {
    let [mut one, other] = [1, 2].map(|seed| SplitMix64::new(seed).bytes(LEN));
    one[LEN - 10_000..].copy_from_slice(&other[LEN - 10_000..]);
    [one, other]
}

fn put(store: &SimObjects, bytes: &[u8]) {
    store.put(NAME, bytes, &Expect::Anything).unwrap();
}

fn bytes_of(tier: &TieredStore, from: usize, len: usize) -> Vec<u8> {
    let mut found = vec![0; len];
    tier.read(ID, from as u64, &mut found).unwrap();
    found
}

#[test]
fn a_container_that_another_machine_wrote_anew_is_not_taken_for_what_it_was() {
    let [one, other] = two();
    let store = SimObjects::new();
    put(&store, &one);
    let fast = SimFolder::new();
    let tier = try_tier(containers_of(&store, 4), &fast, OWNER).unwrap();
    assert_eq!(tier.reads_at_once(), 4, "no fewer than without a cache");
    assert!(bytes_of(&tier, AT, 40_000) == one[AT..][..40_000]);
    assert!(bytes_of(&tier, AT, 40_000) == one[AT..][..40_000]);
    assert_eq!(tier.status().totals.hits, 1);
    // What a process has of the old one it may go on with; never with some of each.
    put(&store, &other);
    assert!(bytes_of(&tier, AT, 40_000) == one[AT..][..40_000]);
    assert!(bytes_of(&tier, AT + 20_000, 60_000) == other[AT + 20_000..][..60_000]);
    for _ in 0..2 {
        assert!(bytes_of(&tier, AT, 40_000) == other[AT..][..40_000]);
        assert!(bytes_of(&tier, AT + 30_000, 60_000) == other[AT + 30_000..][..60_000]);
    }
    assert_eq!(tier.status().cached_bytes.min(90_000), 90_000, "it is kept in the old one's place");
    drop(tier);
    // Between two processes.
    put(&store, &one);
    let tier = try_tier(containers_of(&store, 1), &fast, OWNER).unwrap();
    assert!(bytes_of(&tier, AT, 40_000) == one[AT..][..40_000]);
    assert!(tier.status().totals.bad_copies > 0, "what is of another one is counted");
    drop(tier);
    let tier = try_tier(containers_of(&store, 1), &fast, OWNER).unwrap();
    let before = store.requests();
    assert!(bytes_of(&tier, AT, 40_000) == one[AT..][..40_000]);
    assert_eq!(store.requests(), before, "it is warm again");
    drop(tier);
    // One that is gone is not there.
    store.remove(NAME).unwrap();
    let tier = try_tier(containers_of(&store, 1), &fast, OWNER).unwrap();
    assert!(tier.read(ID, 0, &mut [0; 9]).is_err());
    assert_eq!(tier.status().cached_bytes, 0);
}

#[test]
fn a_request_that_is_lost_is_an_error_and_nothing_is_kept_for_it_that_is_not_right() {
    let (store, trees) = (SimObjects::new(), trees(22, 3));
    create(&store, false).unwrap();
    for tree in &trees {
        add(&mut open(&store), tree).unwrap();
    }
    let mut failed = 0;
    for loss in [Loss::RequestLost, Loss::AnswerLost] {
        for lost in 1.. {
            let context = format!("{loss:?} at request {lost}");
            let (here, fast) = (store.after_crash(), SimFolder::new());
            let (archive, _) = open_through(&here, &fast);
            here.lose(here.requests() + lost, loss);
            let first = read(&archive, 3);
            if !here.has_lost() {
                assert!(first.unwrap() == trees[2], "{context}");
                break;
            }
            // Groups can be found without their table, if that is what was not told.
            match first {
                Ok(tree) => assert!(tree == trees[2], "{context}"),
                Err(_) => failed += 1,
            }
            // The same process goes on, and the next one.
            assert!(read(&archive, 3).unwrap() == trees[2], "{context}");
            drop(archive);
            assert!(read(&open_through(&here, &fast).0, 3).unwrap() == trees[2], "{context}");
        }
    }
    assert!(failed > 1, "{failed}");
}

#[test]
fn a_device_that_fails_or_is_full_leaves_the_archive_as_it_is() {
    let (store, tree) = (SimObjects::new(), trees(23, 1).remove(0));
    create(&store, false).unwrap();
    add(&mut open(&store), &tree).unwrap();
    for (kind, fault) in [
        (OpKind::Read, FaultKind::Eio),
        (OpKind::Write, FaultKind::Eio),
        (OpKind::Write, FaultKind::Enospc),
        (OpKind::Sync, FaultKind::Eio),
        (OpKind::Rename, FaultKind::Eio),
    ] {
        let fast = SimFolder::new();
        drop(open_through(&store, &fast));
        let (archive, tier) = open_through(&store, &fast);
        fast.fail_from(&[kind], 1, fault);
        for _ in 0..3 {
            assert!(read(&archive, 1).unwrap() == tree, "{kind:?}");
        }
        tier.save();
        fast.clear_faults();
        drop((archive, tier));
        assert!(read(&open_through(&store, &fast).0, 1).unwrap() == tree, "{kind:?}");
    }
}
