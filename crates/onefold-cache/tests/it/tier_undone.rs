//! A request to the fast device that fails once in the midst of anything that a tier does: every
//! read is right, the next opening takes the folder for what it is, and the tier takes no more room
//! than it may.

use std::sync::Arc;

use onefold_block::{
    ContainerStore, CrashMode, FaultKind, Folder, FolderContainerStore, OpKind, SimFolder,
};
use onefold_cache::tier::{TierError, TierOptions, TierSize, TieredStore};

use crate::tier::{BYTES, content, fill, id, options, read, read_many};

const FAULTS: [(OpKind, FaultKind); 10] = [
    (OpKind::Open, FaultKind::Eio),
    (OpKind::Read, FaultKind::Eio),
    (OpKind::Write, FaultKind::Eio),
    (OpKind::SetLen, FaultKind::Eio),
    (OpKind::Sync, FaultKind::Eio),
    (OpKind::Reserve, FaultKind::Enospc),
    (OpKind::Create, FaultKind::Eio),
    (OpKind::Remove, FaultKind::Eio),
    (OpKind::Rename, FaultKind::Eio),
    (OpKind::SyncNames, FaultKind::Eio),
];
const CUTS: [CrashMode; 3] = [CrashMode::KeepNothing, CrashMode::Random, CrashMode::KeepEverything];
/// Two states of a policy, as large as they become here, and the next ones beside them.
const STATES: u64 = 4 * 32_768;
/// Reads are not told of in the record of what was done.
const READS: u64 = 7;

type Operation = (&'static str, fn(&TieredStore));

/// All that is done with an open tier.
const OPERATIONS: [Operation; 8] = [
    ("read", |store| read_many(store, 4, 60, "read")),
    // More than a segment, so that one is written, and another one over an older one.
    ("read what is new", |store| {
        (20..26).for_each(|number| read(store, number, 0, 90_000, "what is new"));
    }),
    ("fill", |store| (40..44).for_each(|number| fill(store, number, content(number - 40)))),
    ("remove", |store| (0..5).for_each(|number| store.remove(id(number)).unwrap())),
    ("save", TieredStore::save),
    ("save now and then", |store| (0..720).for_each(|_| store.save_changes())),
    ("grow", |store| drop(store.resize(TierSize::Bytes(BYTES * 2)))),
    ("shrink", |store| drop(store.resize(TierSize::Bytes(BYTES * 8 / 10)))),
];

fn open(
    slow: &Arc<dyn ContainerStore>,
    fast: &SimFolder,
    options: TierOptions,
) -> Result<TieredStore, TierError> {
    let folder: Arc<dyn Folder> = Arc::new(fast.clone());
    let options = TierOptions { write_through: true, ..options };
    TieredStore::open(Arc::clone(slow), folder, options, None)
}

fn copy(media: &SimFolder) -> SimFolder {
    media.after_crash(1, CrashMode::KeepEverything)
}

fn store_of(media: &SimFolder) -> Arc<dyn ContainerStore> {
    Arc::new(FolderContainerStore::new(Arc::new(copy(media))))
}

/// A slow store of containers.
fn slow() -> SimFolder {
    let media = SimFolder::new();
    let slow = FolderContainerStore::new(Arc::new(media.clone()));
    (0..40).for_each(|number| fill(&slow, number, content(number)));
    media
}

/// What is read is what was stored last, and what is kept has room.
fn check(store: &TieredStore, fast: &SimFolder, context: &str) {
    for number in [5, 12, 20, 24, 39] {
        read(store, number, 20_000, 40_000, context);
    }
    let mut found = vec![0; 60_000];
    for (number, of) in
        (40..44).filter(|&number| store.len(id(number)).is_ok()).map(|n| (n, n - 40))
    {
        store.read(id(number), 0, &mut found).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(found == content(of)[..60_000], "{context}: container {number}");
    }
    // One is another one for a while.
    for of in [11, 10] {
        store.remove(id(10)).unwrap();
        fill(store, 10, content(of));
        store.read(id(10), 0, &mut found).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(found == content(of)[..60_000], "{context}: container 10");
    }
    let status = store.status();
    assert!(status.cached_bytes <= status.capacity_bytes, "{context}: {status:?}");
    let (used, most) = (fast.used_bytes(), status.capacity_bytes.max(BYTES) + STATES);
    assert!(used <= most, "{context}: it takes {used} bytes of {most}");
}

#[test]
fn whatever_fails_once_every_read_is_right_and_the_next_opening_works() {
    let media = slow();
    let policies = ["lru", "toll", "w-tinylfu:memory=1"];
    let prepared = policies.map(|policy| {
        let fast = SimFolder::new();
        let store = open(&store_of(&media), &fast, options(policy)).unwrap();
        read_many(&store, 1, 500, "at first");
        store.save();
        read_many(&store, 2, 100, "at first");
        copy(&fast)
    });
    let mut turn = 0;
    for (what, operation) in OPERATIONS {
        for (kind, fault) in FAULTS {
            for (policy, prepared) in policies.into_iter().zip(&prepared) {
                for nth in 1.. {
                    let context = format!("{policy}: {what}, {kind:?} {nth}");
                    let (fast, below) = (copy(prepared), store_of(&media));
                    let store = open(&below, &fast, options(policy)).unwrap();
                    fast.fail_once(&[kind], nth, fault);
                    let mut seen = fast.op_count() as usize;
                    operation(&store);
                    fast.clear_faults();
                    let is_read = kind == OpKind::Read && nth <= READS;
                    if !is_read && !fast.ops_since(&mut seen).contains(" -> ") {
                        break;
                    }
                    check(&store, &fast, &context);
                    let size = TierSize::Bytes(store.status().capacity_bytes);
                    let cut = fast.after_crash(nth, CUTS[turn / 2 % 3]);
                    drop(store);
                    let left = if turn % 2 == 0 { cut } else { fast };
                    let again = TierOptions { size, ..options(policy) };
                    let store = open(&below, &left, again);
                    let store = store.unwrap_or_else(|error| panic!("{context}: {error}"));
                    check(&store, &left, &context);
                    assert!(store.status().totals.hits > 0, "{context}");
                    turn += 1;
                }
            }
        }
    }
    assert!(turn > 150, "{turn} failures");
}

/// Of a warm one and of one that is made, which must not become anybody else's.
#[test]
fn whatever_fails_once_while_a_tier_is_opened_it_opens_the_next_time_and_stays_its_owners() {
    let media = slow();
    let slow = store_of(&media);
    let warm = SimFolder::new();
    read_many(&open(&slow, &warm, options("lru")).unwrap(), 1, 300, "at first");
    let mut failures = 0;
    for (prepared, is_warm) in [(SimFolder::new(), false), (warm, true)] {
        for (kind, fault) in FAULTS {
            for nth in 1..=if kind == OpKind::Read { READS } else { 9 } {
                let mut failed = false;
                for seed in 0..20 {
                    let fast = copy(&prepared);
                    fast.fail_once(&[kind], nth, fault);
                    let opened = open(&slow, &fast, options("lru")).map(drop);
                    fast.clear_faults();
                    let context = format!("warm {is_warm}, {kind:?} {nth}, {opened:?}, cut {seed}");
                    // What cannot be read is not said to be somebody else's.
                    assert!(!matches!(opened, Err(TierError::NotACache(_))), "{context}");
                    failed |= opened.is_err();
                    let again = |fast: &SimFolder| {
                        let store = open(&slow, fast, options("lru"));
                        store.unwrap_or_else(|error| panic!("{context}: {error}"))
                    };
                    let store = again(&fast);
                    read_many(&store, seed, 3, &context);
                    let mode = CUTS.get(seed as usize).copied().unwrap_or(CrashMode::Random);
                    let left = fast.after_crash(seed, mode);
                    drop(store);
                    for left in [left, fast] {
                        read_many(&again(&left), 7, 3, &context);
                        let other = TierOptions { owner: [8; 16], ..options("lru") };
                        assert!(open(&slow, &left, other).is_err(), "{context}");
                    }
                    if !failed {
                        break;
                    }
                }
                failures += u64::from(failed);
            }
        }
    }
    assert!(failures > 8, "{failures}");
}
