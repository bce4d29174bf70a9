//! The suite of checks for [`ContainerStore`].
//! Room: onefold-block.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{assert_same, ok};
use crate::address::ContainerId;
use crate::container_store::{ContainerStore, StoreError};
use crate::seeded::SplitMix64;

/// Makes a new, empty store.
pub type MakeStore<'a> = dyn Fn() -> Arc<dyn ContainerStore> + 'a;

/// A named check.
pub type StoreCheck = (&'static str, fn(&MakeStore<'_>));

/// The space set aside for each container, in bytes.
const CAPACITY: u64 = 4 << 20;

const MODEL_SEEDS: u64 = 4;
const MODEL_STEPS: u64 = 200;

/// Every check of the suite.
pub const CHECKS: &[StoreCheck] = &[
    ("containers come and go", containers_come_and_go),
    ("appended bytes read back", appended_bytes_read_back),
    ("the same bytes again", the_same_bytes_again),
    ("reads past the end", reads_past_the_end),
    ("what is not there", what_is_not_there),
    ("sealed containers do not change", sealed_containers_do_not_change),
    ("sealing gives space back", sealing_gives_space_back),
    ("punching takes nothing else", punching_takes_nothing_else),
    ("threads", threads),
    ("model", model),
];

/// Put a store through every check.
pub fn check_container_store(make: &MakeStore<'_>) {
    for (_, check) in CHECKS {
        check(make);
    }
}

fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

fn created(store: &dyn ContainerStore, number: u32) -> ContainerId {
    ok(store.create(id(number), CAPACITY), format!("creating container {number}"));
    id(number)
}

fn assert_holds(store: &dyn ContainerStore, id: ContainerId, expected: &[u8], what: &str) {
    assert_eq!(ok(store.len(id), "measuring"), expected.len() as u64, "{what}: length of {id}");
    let mut found = vec![0xa5; expected.len()];
    ok(store.read(id, 0, &mut found), format!("reading {id}"));
    assert_same(&found, expected, 0, format!("{what}: {id}"));
}

fn containers_come_and_go(make: &MakeStore<'_>) {
    let store = make();
    assert!(ok(store.list(), "listing").is_empty(), "a new store has no containers");
    assert!(ok(store.strangers(), "listing").is_empty(), "a new store has no strangers");
    for number in [300, 2, 0, 70_000, u32::MAX, 11] {
        created(&*store, number);
    }
    let listed = ok(store.list(), "listing");
    assert_eq!(listed, [0, 2, 11, 300, 70_000, u32::MAX].map(id), "in ascending order");
    assert!(ok(store.strangers(), "listing").is_empty(), "containers are no strangers");
    ok(store.sync(id(11)), "syncing");
    ok(store.remove(id(11)), "removing");
    ok(store.remove(id(11)), "removing what is gone");
    assert_eq!(ok(store.list(), "listing"), [0, 2, 300, 70_000, u32::MAX].map(id));
    assert_holds(&*store, id(2), b"", "a new container");
}

fn appended_bytes_read_back(make: &MakeStore<'_>) {
    let store = make();
    let (one, two) = (created(&*store, 1), created(&*store, 2));
    let mut random = SplitMix64::new(1);
    let (mut in_one, mut in_two) = (Vec::new(), Vec::new());
    for step in 0..40 {
        let len = random.below(5000);
        let data = random.bytes(len as usize);
        let (target, plain) = if step % 3 == 0 { (two, &mut in_two) } else { (one, &mut in_one) };
        ok(store.append(target, plain.len() as u64, &data), "appending");
        plain.extend(&data);
        // At once, whether synced or not, and across the edges of appends.
        let start = plain.len() - plain.len().min(data.len() + 100);
        let mut found = vec![0; plain.len() - start];
        ok(store.read(target, start as u64, &mut found), "reading");
        assert_same(&found, &plain[start..], start as u64, "what was just appended");
        if step % 7 == 0 {
            ok(store.sync(target), "syncing");
        }
    }
    assert_holds(&*store, one, &in_one, "after appending");
    assert_holds(&*store, two, &in_two, "after appending");
    let full = created(&*store, 3);
    let data = random.bytes(CAPACITY as usize);
    ok(store.append(full, 0, &data), "filling the capacity");
    assert_holds(&*store, full, &data, "a full container");
}

fn the_same_bytes_again(make: &MakeStore<'_>) {
    let store = make();
    let one = created(&*store, 1);
    let data = SplitMix64::new(2).bytes(10_000);
    ok(store.append(one, 0, &data[..6000]), "appending");
    ok(store.append(one, 2000, &data[2000..6000]), "appending the same bytes again");
    assert_holds(&*store, one, &data[..6000], "after a repeated append");
    ok(store.append(one, 5000, &data[5000..]), "repeating and going on");
    assert_holds(&*store, one, &data, "after going on");
    ok(store.append(one, 100, &data[100..200]), "repeating the middle");
    assert_holds(&*store, one, &data, "a repeated append does not cut");
}

fn reads_past_the_end(make: &MakeStore<'_>) {
    let store = make();
    let one = created(&*store, 1);
    ok(store.append(one, 0, &[7; 1000]), "appending");
    for (offset, count) in [(0, 1001), (999, 2), (1000, 1), (CAPACITY, 1), (u64::MAX, 2)] {
        let result = store.read(one, offset, &mut vec![0; count]);
        assert!(result.is_err(), "{count} bytes at {offset} of a container of 1000");
    }
    assert_holds(&*store, one, &[7; 1000], "after refused reads");
}

fn what_is_not_there(make: &MakeStore<'_>) {
    let store = make();
    created(&*store, 1);
    let absent = id(5);
    let results: [(&str, Result<(), StoreError>); 7] = [
        ("append", store.append(absent, 0, &[1])),
        ("read", store.read(absent, 0, &mut [0])),
        ("len", store.len(absent).map(drop)),
        ("sync", store.sync(absent)),
        ("seal", store.seal(absent, 0)),
        ("punch", store.punch(absent, 0, 4096)),
        ("allocated_bytes", store.allocated_bytes(absent).map(drop)),
    ];
    for (verb, result) in results {
        match result {
            Err(StoreError::NotFound { id }) => assert_eq!(id, absent, "{verb}"),
            other => panic!("{verb} of a container that is not there: {other:?}"),
        }
    }
    ok(store.remove(absent), "removing what is not there");
    assert_eq!(ok(store.list(), "listing"), [id(1)]);
}

fn sealed_containers_do_not_change(make: &MakeStore<'_>) {
    let store = make();
    let one = created(&*store, 1);
    let data = SplitMix64::new(3).bytes(9000);
    ok(store.append(one, 0, &data), "appending");
    ok(store.seal(one, 8000), "sealing");
    assert_holds(&*store, one, &data[..8000], "sealed shorter than it was");
    ok(store.sync(one), "syncing");
    assert!(store.append(one, 8000, b"more").is_err(), "appending to a sealed container");
    assert!(store.append(one, 0, b"over").is_err(), "overwriting a sealed container");
    assert_holds(&*store, one, &data[..8000], "a sealed container after refused appends");
    ok(store.remove(one), "removing a sealed container");
    assert!(ok(store.list(), "listing").is_empty());
}

fn sealing_gives_space_back(make: &MakeStore<'_>) {
    let store = make();
    let one = created(&*store, 1);
    ok(store.append(one, 0, &[3; 10_000]), "appending");
    assert_eq!(ok(store.len(one), "measuring"), 10_000, "what is set aside is no length");
    assert!(ok(store.allocated_bytes(one), "measuring") >= 10_000, "data takes space");
    ok(store.seal(one, 10_000), "sealing");
    ok(store.sync(one), "syncing");
    let after = ok(store.allocated_bytes(one), "measuring");
    assert!(after < CAPACITY / 4, "{after} bytes are still taken by a container of 10 000");
}

fn punching_takes_nothing_else(make: &MakeStore<'_>) {
    const PAGE: usize = 4096;
    let store = make();
    let one = created(&*store, 1);
    let data = SplitMix64::new(4).bytes(9 * PAGE + 100);
    ok(store.append(one, 0, &data), "appending");
    ok(store.seal(one, data.len() as u64), "sealing");
    ok(store.sync(one), "syncing");
    let before = ok(store.allocated_bytes(one), "measuring");
    ok(store.punch(one, PAGE as u64, 2 * PAGE as u64), "punching");
    ok(store.punch(one, 6 * PAGE as u64, PAGE as u64), "punching");
    ok(store.sync(one), "syncing");
    assert_eq!(ok(store.len(one), "measuring"), data.len() as u64, "the length is what it was");
    let after = ok(store.allocated_bytes(one), "measuring");
    assert!(after <= before, "{after} bytes are taken after punching, {before} before");
    let mut found = vec![0xa5; data.len()];
    ok(store.read(one, 0, &mut found), "reading over what was punched");
    for kept in [0..PAGE, 3 * PAGE..6 * PAGE, 7 * PAGE..data.len()] {
        let what = "what was not punched";
        assert_same(&found[kept.clone()], &data[kept.clone()], kept.start as u64, what);
    }
    ok(store.remove(one), "removing");
}

fn threads(make: &MakeStore<'_>) {
    let store = make();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = &*store;
            scope.spawn(move || {
                let one = created(store, number);
                let data = SplitMix64::new(u64::from(number)).bytes(50_000);
                for (step, piece) in data.chunks(1999).enumerate() {
                    ok(store.append(one, step as u64 * 1999, piece), "appending");
                    if step % 8 == 0 {
                        ok(store.sync(one), "syncing");
                        ok(store.list(), "listing");
                    }
                }
                ok(store.seal(one, 50_000), "sealing");
                ok(store.sync(one), "syncing");
                assert_holds(store, one, &data, "own container beside other threads'");
            });
        }
    });
    assert_eq!(ok(store.list(), "listing"), [0, 1, 2, 3].map(id));
}

fn model(make: &MakeStore<'_>) {
    for seed in 0..MODEL_SEEDS {
        check_model(make, seed, MODEL_STEPS);
    }
}

/// Random calls against plain vectors in a map. A failure names the seed and the step.
pub fn check_model(make: &MakeStore<'_>, seed: u64, steps: u64) {
    let store = make();
    let mut random = SplitMix64::new(seed);
    let mut plain: BTreeMap<ContainerId, (Vec<u8>, bool)> = BTreeMap::new();
    let mut next = 0;
    for step in 0..steps {
        let what = format!("model seed {seed}, step {step}");
        let pick = random.below(plain.len().max(1) as u64) as usize;
        match (random.below(10), plain.iter_mut().nth(pick)) {
            (0, _) | (_, None) => {
                plain.insert(created(&*store, next), (Vec::new(), false));
                next += 1 + random.below(3) as u32;
            }
            (1..=6, Some((&one, (bytes, false)))) => {
                let from = bytes.len() - random.below(bytes.len().min(500) as u64 + 1) as usize;
                let mut data = bytes[from..].to_vec();
                let len = random.below(4000);
                data.extend(random.bytes(len as usize));
                ok(store.append(one, from as u64, &data), &what);
                bytes.truncate(from);
                bytes.extend(data);
            }
            (7, Some((&one, (bytes, sealed @ false)))) => {
                let len = bytes.len() - random.below(bytes.len().min(100) as u64 + 1) as usize;
                ok(store.seal(one, len as u64), &what);
                bytes.truncate(len);
                *sealed = true;
            }
            (8, Some((&one, _))) => {
                ok(store.remove(one), &what);
                plain.remove(&one);
            }
            (_, Some((&one, _))) => ok(store.sync(one), &what),
        }
        let expected: Vec<ContainerId> = plain.keys().copied().collect();
        assert_eq!(ok(store.list(), &what), expected, "{what}: list");
        for (&one, (bytes, _)) in &plain {
            assert_holds(&*store, one, bytes, &what);
        }
    }
}
