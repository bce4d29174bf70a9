//! New containers that are kept before anybody reads them.

use std::sync::Arc;

use onefold_block::conformance::check_container_store;
use onefold_block::{
    ContainerStore, CrashMode, FaultKind, Folder, FolderContainerStore, OpKind, SimFolder,
};
use onefold_cache::POLICIES;
use onefold_cache::tier::{TierOptions, TierSize, TieredStore, WearBudget};

use super::tier::{BYTES, CONTAINERS, content, fill, id, options, read, read_many};

fn open(slow: &Arc<dyn ContainerStore>, fast: &SimFolder, options: TierOptions) -> TieredStore {
    let folder: Arc<dyn Folder> = Arc::new(fast.clone());
    let options = TierOptions { write_through: true, ..options };
    TieredStore::open(Arc::clone(slow), folder, options, None).unwrap()
}

/// Room for more than all containers, even where a policy sets some of it aside for memory.
fn roomy(policy: &str) -> TierOptions {
    TierOptions { size: TierSize::Bytes(40 << 20), ..options(policy) }
}

fn empty() -> (SimFolder, Arc<dyn ContainerStore>) {
    let media = SimFolder::new();
    (media.clone(), Arc::new(FolderContainerStore::new(Arc::new(media))))
}

#[test]
fn it_is_a_container_store() {
    for policy in ["lru", "toll", "w-tinylfu:memory=1"] {
        check_container_store(&|| {
            let (_, slow) = empty();
            Arc::new(open(&slow, &SimFolder::new(), options(policy)))
        });
    }
}

#[test]
fn what_was_written_is_read_from_the_fast_device_whatever_the_policy() {
    let staged = ["w-tinylfu:memory=1", "flashield"];
    for policy in POLICIES.iter().filter(|entry| !entry.offline).map(|entry| entry.name) {
        for policy in std::iter::once(policy).chain(staged.into_iter().filter(|_| policy == "lru"))
        {
            let (media, slow) = empty();
            let fast = SimFolder::new();
            let store = open(&slow, &fast, roomy(policy));
            for number in 0..CONTAINERS {
                fill(&store, number, content(number));
            }
            media.fail_from(&[OpKind::Read], 1, FaultKind::Eio);
            for number in 0..CONTAINERS {
                read(&store, number, 0, content(number).len(), policy);
                read(&store, number, 40_000, 9000, policy);
            }
            let status = store.status();
            assert_eq!(status.waiting_bytes, 0, "{policy}");
            let totals = status.totals;
            assert_eq!((totals.hits, totals.slow_bytes), (totals.requests, 0), "{policy}");
            assert_eq!(totals.new_bytes, totals.admitted_bytes, "{policy}");
            media.clear_faults();
            drop(store);
            let store = open(&slow, &fast, roomy(policy));
            for number in 0..CONTAINERS {
                read(&store, number, 0, content(number).len(), policy);
            }
            let now = store.status().totals;
            assert_eq!(now.hits, now.requests, "{policy}, after a restart");
            assert_eq!(now.bad_copies, 0, "{policy}");
        }
    }
}

/// A scan of new data through a cache that is a sixth of it, beside reads.
#[test]
fn a_full_cache_lets_others_go_for_what_is_new() {
    for policy in POLICIES.iter().filter(|entry| !entry.offline).map(|entry| entry.name) {
        let (_, slow) = empty();
        let fast = SimFolder::new();
        let store = open(&slow, &fast, options(policy));
        for number in 0..CONTAINERS {
            fill(&store, number, content(number));
            read(&store, number, 10_000, 20_000, policy);
            read(&store, number / 2, 50_000, 9000, policy);
        }
        read_many(&store, 9, 500, policy);
        let status = store.status();
        assert!(status.cached_bytes <= BYTES, "{policy}: {status:?}");
        assert!(status.totals.new_bytes > BYTES, "{policy}: {status:?}");
        assert!(status.totals.hits > 0 && status.totals.bad_copies == 0, "{policy}: {status:?}");
        // The newest is there, at least where everything new comes in and the oldest goes.
        if ["lru", "fifo"].contains(&policy) {
            let before = store.status().totals.slow_bytes;
            let (store, newest) = (&store, CONTAINERS - 1);
            fill(store, CONTAINERS, content(newest));
            let mut found = vec![0; 30_000];
            store.read(id(CONTAINERS), 60_000, &mut found).unwrap();
            assert!(found == content(newest)[60_000..90_000], "{policy}");
            assert_eq!(store.status().totals.slow_bytes, before, "{policy}");
        }
    }
}

#[test]
fn what_only_moves_and_what_is_not_known_wholly_is_left_to_its_readers() {
    let (_, slow) = empty();
    let fast = SimFolder::new();
    let store = open(&slow, &fast, roomy("lru"));
    store.create(id(1), 200_000).unwrap();
    store.tell_moved(id(1));
    store.append(id(1), 0, content(1)).unwrap();
    store.seal(id(1), content(1).len() as u64).unwrap();
    assert_eq!(store.status().totals.admitted_bytes, 0, "it was there before");
    // Begun by another process.
    slow.create(id(2), 200_000).unwrap();
    slow.append(id(2), 0, &content(2)[..5000]).unwrap();
    store.append(id(2), 5000, &content(2)[5000..]).unwrap();
    store.seal(id(2), content(2).len() as u64).unwrap();
    assert_eq!(store.status().totals.admitted_bytes, 0, "its beginning was never seen");
    for number in [1, 2] {
        read(&store, number, 0, 60_000, "the slow store has it");
        read(&store, number, 0, 60_000, "kept as ever");
    }
    assert_eq!(store.status().totals.hits, 2);
    // Off, nothing is kept.
    let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
    let off = TieredStore::open(slow, folder, roomy("lru"), None).unwrap();
    fill(&off, 3, content(3));
    assert_eq!(off.status().totals.admitted_bytes, 0);
}

#[test]
fn what_is_new_leaves_half_of_the_budget_of_wear_to_what_is_read() {
    for policy in ["lru", "toll"] {
        let (_, slow) = empty();
        let fast = SimFolder::new();
        let limit =
            TierOptions { writes_per_day: Some(WearBudget::Share(2000)), ..options(policy) };
        let store = open(&slow, &fast, limit);
        store.tick(1_800_000_000);
        for number in 0..CONTAINERS {
            fill(&store, number, content(number));
        }
        let hour = 2 * BYTES / 6;
        let totals = store.status().totals;
        assert!(totals.new_bytes <= hour / 2, "{policy}: {totals:?}");
        assert!(totals.new_bytes > hour / 4, "{policy}: {totals:?}");
        let budget = |now: u64| {
            let totals = store.status().totals;
            assert!(totals.written_bytes + totals.state_bytes <= now, "{policy}: {totals:?}");
            totals
        };
        for round in 0..6 {
            read_many(&store, round % 2, 300, policy);
        }
        let read = budget(hour);
        assert!(read.admitted_bytes > read.new_bytes, "{policy}: {read:?}");
    }
}

#[test]
fn a_small_budget_of_wear_is_spent_on_what_is_new_though_nobody_reads() {
    // A twelfth of the cache, and enough that half an hour's share is most of a segment.
    for thousandths in [350, 700, 1000] {
        let (_, slow) = empty();
        let fast = SimFolder::new();
        let budget = Some(WearBudget::Share(thousandths));
        let store = open(&slow, &fast, TierOptions { writes_per_day: budget, ..options("lru") });
        let mut number = 0;
        for hour in 0..24 {
            store.tick(1_800_000_000 + hour * 3600);
            for _ in 0..20 {
                slow.remove(id(number)).ok();
                fill(&store, number, content(number));
                number = (number + 1) % CONTAINERS;
            }
        }
        let (totals, most) = (store.status().totals, store.status().writes_per_day.unwrap());
        assert!(totals.written_bytes + totals.state_bytes <= most, "{thousandths}: {totals:?}");
        assert!(totals.written_bytes > most / 4, "{thousandths}: {totals:?} of {most}");
    }
}

/// Every operation of the fast device is its last once, while containers are filled and read.
#[test]
fn a_power_cut_costs_hits_and_nothing_else() {
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let work = |store: &TieredStore, first: u32, context: &str| {
        for number in first..first + 12 {
            fill(store, number, content(number));
            read(store, number, 3000, 50_000, context);
            read(store, first + (number - first) / 2, 70_000, 9000, context);
        }
    };
    let whole = {
        let fast = SimFolder::new();
        work(&open(&empty().1, &fast, options("toll")), 0, "to count operations");
        fast.op_count()
    };
    assert!(whole > 20, "{whole} operations");
    for cut in 1..=whole {
        let context = format!("cut at {cut} of {whole}");
        let (_, slow) = empty();
        let fast = SimFolder::new();
        fast.crash_at(cut);
        let folder: Arc<dyn Folder> = Arc::new(fast.clone());
        let through = TierOptions { write_through: true, ..options("toll") };
        match TieredStore::open(Arc::clone(&slow), folder, through, None) {
            Ok(store) => work(&store, 0, &context),
            Err(_) => (0..12).for_each(|number| fill(&*slow, number, content(number))),
        }
        let after = fast.after_crash(cut, modes[cut as usize % 3]);
        let store = open(&slow, &after, options("toll"));
        for number in 0..12 {
            read(&store, number, 0, content(number).len(), &context);
        }
        work(&store, 12, &context);
        assert!(store.status().totals.hits > 0, "{context}");
    }
}

/// The slow store loses power after a container was full and before it was durable: the next one of
/// its number is another.
#[test]
fn a_container_that_never_became_durable_is_not_taken_for_the_next_of_its_number() {
    for mode in [CrashMode::KeepNothing, CrashMode::KeepEverything] {
        let (media, slow) = empty();
        let fast = SimFolder::new();
        let store = open(&slow, &fast, roomy("lru"));
        store.create(id(5), 200_000).unwrap();
        store.append(id(5), 0, content(6)).unwrap();
        store.seal(id(5), content(6).len() as u64).unwrap();
        assert!(store.status().totals.new_bytes > 0);
        drop(store);
        let after = media.after_crash(1, mode);
        let slow: Arc<dyn ContainerStore> = Arc::new(FolderContainerStore::new(Arc::new(after)));
        slow.remove(id(5)).unwrap();
        // Filled past the tier, as recovery does.
        fill(&*slow, 5, content(5));
        let store = open(&slow, &fast, roomy("lru"));
        read(&store, 5, 0, content(5).len(), "the container that is there");
        assert_eq!(store.status().totals.hits, 0);
    }
}
