//! Two operations on a tiered store, interleaved at every media operation, in turn.
//! Room: onefold-cache.
//!
//! Whatever the interleaving: a read gives the container's bytes, or says that it is gone if it is;
//! afterwards policy and index keep the same extents, nothing is half made, and what lies on the
//! device is what the container holds.

use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{
    ContainerId, ContainerStore, Folder, FolderContainerStore, SimFolder, SplitMix64, StoreError,
};

use super::store::{TierOptions, TieredStore};
use crate::tier::TierSize;

const OLD: u32 = 4;
const BYTES: usize = 300_000;
const SEGMENT_BYTES: u64 = 196_608;
/// Segments of a cache that is full, and of one whose end is given back.
const SMALL: u64 = 8;
const LARGE: u64 = 12;
/// What is read of a container as one extent.
const PART: usize = 15_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// What the tier has.
    ReadKept,
    /// What it has not: another container must leave for it.
    ReadOther,
    /// Past the end, which says nothing about the copy.
    ReadTooFar,
    /// What the tier has, from the store as a whole.
    RemoveKept,
    RemoveOther,
    /// A new container, from its first byte to its first read.
    Fill,
    Save,
    /// More segments at the end, and fewer.
    Grow,
    Shrink,
}

impl Operation {
    const ALL: [Self; 9] = [
        Self::ReadKept,
        Self::ReadOther,
        Self::ReadTooFar,
        Self::RemoveKept,
        Self::RemoveOther,
        Self::Fill,
        Self::Save,
        Self::Grow,
        Self::Shrink,
    ];
}

fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

fn content(number: u32) -> Vec<u8> {
    SplitMix64::new(number.into()).bytes(BYTES)
}

fn fill(store: &dyn ContainerStore, number: u32) -> Result<(), StoreError> {
    store.create(id(number), BYTES as u64)?;
    store.append(id(number), 0, &content(number))?;
    store.seal(id(number), BYTES as u64)
}

fn pointed(sim: &SimFolder) -> Arc<dyn Folder> {
    Arc::new(PointFolder::new(Arc::new(sim.clone())))
}

/// A tier over four containers, of which the first two were read just now. The next extent that is
/// kept fills a segment. In a large one they lie past the end of a small one.
fn stage(policy: &str, write_through: bool, segments: u64) -> (SimFolder, TieredStore) {
    let slow = Arc::new(FolderContainerStore::new(pointed(&SimFolder::new())));
    for number in 1..=OLD {
        fill(&*slow, number).unwrap();
    }
    let fast = SimFolder::new();
    let options = TierOptions {
        owner: [7; 16],
        policy: policy.to_owned(),
        size: TierSize::Bytes(segments * SEGMENT_BYTES),
        container_bytes: BYTES as u32,
        writes_per_day: None,
        write_through,
        fill_at_once: false,
    };
    let store = TieredStore::open(slow, pointed(&fast), options, None).unwrap();
    // Three of these fill a segment; some are written past the end of a small cache.
    let passing = vec![9; 60_000];
    for number in (100..).take(if segments == LARGE { 3 * SMALL as usize + 4 } else { 0 }) {
        store.create(id(number), passing.len() as u64).unwrap();
        store.append(id(number), 0, &passing).unwrap();
        store.seal(id(number), passing.len() as u64).unwrap();
        store.read(id(number), 0, &mut vec![0; passing.len()]).unwrap();
        store.remove(id(number)).unwrap();
    }
    for number in [1, 2, 1, 2] {
        read(&store, number).unwrap();
    }
    store.read(id(4), 0, &mut vec![0; 120_000]).unwrap();
    (fast, store)
}

/// Read part of a container and see that it is right.
fn read(store: &TieredStore, number: u32) -> Result<(), StoreError> {
    let mut found = vec![0; 30_000];
    store.read(id(number), 5000, &mut found)?;
    assert!(found == content(number)[5000..35_000], "container {number} reads wrong");
    Ok(())
}

fn perform(store: &TieredStore, operation: Operation, role: u32) -> Result<(), StoreError> {
    match operation {
        Operation::ReadKept => read(store, 1),
        Operation::ReadOther => read(store, 3),
        Operation::ReadTooFar => {
            store.read(id(2), BYTES as u64 - 10, &mut [0; 100]).expect_err("past the end");
            Ok(())
        }
        Operation::RemoveKept => store.remove(id(1)),
        Operation::RemoveOther => store.remove(id(3)),
        Operation::Fill => {
            fill(store, 10 + role)?;
            read(store, 10 + role)
        }
        Operation::Save => {
            store.save();
            Ok(())
        }
        Operation::Grow | Operation::Shrink => {
            let segments = if operation == Operation::Grow { LARGE + 2 } else { SMALL };
            store.resize(TierSize::Bytes(segments * SEGMENT_BYTES)).expect("there is room");
            Ok(())
        }
    }
}

fn pair(policy: &str, write_through: bool, operations: [Operation; 2], to_second: usize) -> usize {
    let shrinks = operations.contains(&Operation::Shrink);
    let (fast, store) = stage(policy, write_through, if shrinks { LARGE } else { SMALL });
    let ran = run(
        Switches { to_second, back: None },
        || perform(&store, operations[0], 0),
        || perform(&store, operations[1], 1),
    );
    let at = ran.points.get(to_second - 1);
    let context = format!("{policy}, {operations:?} at point {to_second} ({at:?})");
    let removes = |what| operations.contains(&what);
    for (operation, result) in operations.iter().zip([ran.first, ran.second]) {
        let gone = match operation {
            Operation::ReadKept => removes(Operation::RemoveKept),
            Operation::ReadOther => removes(Operation::RemoveOther),
            _ => false,
        };
        match result {
            Ok(()) => {}
            Err(StoreError::NotFound { .. }) if gone => {}
            Err(error) => panic!("{context}: {operation:?}: {error}"),
        }
    }
    store.assert_consistent(&context);
    for number in 1..=OLD {
        let gone = number == 1 && removes(Operation::RemoveKept)
            || number == 3 && removes(Operation::RemoveOther);
        let result = read(&store, number);
        assert_eq!(result.is_err(), gone, "{context}: container {number}: {result:?}");
    }
    store.assert_consistent(&context);
    assert!(
        fast.open("extents").unwrap().len().unwrap() <= store.status().capacity_bytes,
        "{context}: the file is longer than the cache"
    );
    ran.points.len()
}

#[test]
fn any_two_operations_at_any_point() {
    let mut runs = 0;
    for (policy, through) in [("lru", false), ("w-tinylfu:memory=1", false), ("toll", true)] {
        for first in Operation::ALL {
            for second in Operation::ALL {
                let mut to_second = 1;
                while to_second <= pair(policy, through, [first, second], to_second) {
                    to_second += 1;
                }
                runs += to_second;
            }
        }
    }
    assert!(runs > 400, "{runs} interleavings");
}

#[test]
fn a_smaller_cache_gives_its_end_back_and_keeps_the_rest() {
    let (fast, store) = stage("lru", false, LARGE);
    let len = || fast.open("extents").unwrap().len().unwrap();
    assert!(len() > SMALL * SEGMENT_BYTES);
    let before = store.status();
    store.resize(TierSize::Bytes(SMALL * SEGMENT_BYTES)).unwrap();
    assert_eq!((len(), store.status().capacity_bytes), (SMALL * SEGMENT_BYTES, len()));
    let after = store.status();
    assert!(after.cached_extents < before.cached_extents, "nothing lay at the end");
    store.assert_consistent("smaller");
    // Numbers of segments go on, so that an old one is never taken for newer.
    store.resize(TierSize::Bytes(LARGE * SEGMENT_BYTES)).unwrap();
    for number in [1, 2, 3, 1, 2, 3] {
        read(&store, number).unwrap();
    }
    store.assert_consistent("larger again");
    assert_eq!(store.status().totals.bad_copies, 0);
}

#[test]
fn what_a_policy_keeps_in_memory_is_served_from_there() {
    let slow_media = SimFolder::new();
    let slow = Arc::new(FolderContainerStore::new(Arc::new(slow_media.clone())));
    fill(&*slow, 1).unwrap();
    let fast = SimFolder::new();
    let options = TierOptions {
        owner: [7; 16],
        policy: "w-tinylfu:memory=1".to_owned(),
        size: TierSize::Bytes(20_000_000),
        container_bytes: BYTES as u32,
        writes_per_day: None,
        write_through: false,
        fill_at_once: false,
    };
    let store = TieredStore::open(slow, Arc::new(fast.clone()), options, None).unwrap();
    read(&store, 1).unwrap();
    assert_eq!(store.status().totals.writes, 0, "a new extent begins in memory");
    store.assert_consistent("in memory");
    // The slow store rots; memory does not.
    slow_media.flip_bit("00000001.container", 5100, 3).unwrap();
    read(&store, 1).unwrap();
    let totals = store.status().totals;
    assert_eq!((totals.hits, totals.writes), (1, 0));
}

/// A number that is given to a new container while a copy of the old one is being made: the policy
/// may ask for the new one before that copy is whole, and must not get the old bytes for it.
#[test]
fn a_copy_of_what_was_replaced_meanwhile_is_never_used() {
    for (policy, through) in [("lru", false), ("w-tinylfu:memory=1", false), ("lru", true)] {
        let mut to_second = 1;
        loop {
            let (_fast, store) = stage(policy, through, SMALL);
            let mut found = vec![0; PART];
            let ran = run(
                Switches { to_second, back: None },
                || store.read(id(3), 0, &mut found),
                || {
                    store.remove(id(3))?;
                    store.create(id(3), BYTES as u64)?;
                    store.append(id(3), 0, &content(99))?;
                    store.seal(id(3), BYTES as u64)?;
                    store.read(id(3), 0, &mut [0; PART])
                },
            );
            let at = ran.points.get(to_second - 1);
            let context = format!("{policy}, at point {to_second} ({at:?})");
            ran.second.unwrap_or_else(|error| panic!("{context}: {error}"));
            let either = ran.first.is_err()
                || [3, 99].iter().any(|&number| found == content(number)[..PART]);
            assert!(either, "{context}: what was read meanwhile is neither");
            store.assert_consistent(&context);
            for _ in 0..2 {
                store.read(id(3), 0, &mut found).unwrap();
                assert!(found == content(99)[..PART], "{context}: the old container's bytes");
            }
            if to_second > ran.points.len() {
                assert!(to_second > 4, "{context}: a fetch has points");
                break;
            }
            to_second += 1;
        }
    }
}

#[test]
fn a_damaged_extent_is_found_once_and_goes() {
    let (fast, store) = stage("lru", false, SMALL);
    store.save();
    let before = store.status();
    // The first extent of the first segment is container 1's.
    fast.flip_bit("extents", 512 + 700, 3).unwrap();
    read(&store, 1).unwrap();
    assert_eq!(store.status().totals.bad_copies, 1);
    assert!(store.status().problem.is_some());
    assert_eq!(store.status().cached_extents + 1, before.cached_extents);
    store.assert_consistent("after a damaged extent");
    // Kept anew, and right.
    read(&store, 1).unwrap();
    let hits = store.status().totals.hits;
    read(&store, 1).unwrap();
    assert_eq!((store.status().totals.hits, store.status().totals.bad_copies), (hits + 1, 1));
    store.assert_consistent("after it was kept again");
}
