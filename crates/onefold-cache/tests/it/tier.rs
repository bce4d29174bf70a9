//! The tiered container store: the same bytes whatever the fast tier does, the same decisions as
//! the simulator, warm after restarts.

use std::sync::Arc;

use onefold_block::conformance::check_container_store;
use onefold_block::{
    ContainerId, ContainerStore, CrashMode, FaultKind, Folder, FolderContainerStore, OpKind,
    SimFolder, SplitMix64,
};
use onefold_cache::tier::{TierError, TierOptions, TierSize, TieredStore};
use onefold_cache::{Access, Capacity, POLICIES, make_online};

pub const OWNER: [u8; 16] = [7; 16];
const CONTAINERS: u32 = 40;

pub fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

fn content(number: u32) -> Vec<u8> {
    let mut random = SplitMix64::new(number.into());
    let len = 20_000 + random.below(20_000) as usize;
    random.bytes(len)
}

/// A slow store of sealed containers.
pub fn slow() -> (SimFolder, Arc<dyn ContainerStore>) {
    let folder = SimFolder::new();
    let store = FolderContainerStore::new(Arc::new(folder.clone()));
    for number in 0..CONTAINERS {
        let data = content(number);
        store.create(id(number), data.len() as u64).unwrap();
        store.append(id(number), 0, &data).unwrap();
        store.seal(id(number), data.len() as u64).unwrap();
        store.sync(id(number)).unwrap();
    }
    (folder, Arc::new(store))
}

pub fn options(policy: &str) -> TierOptions {
    TierOptions {
        owner: OWNER,
        policy: policy.to_owned(),
        size: TierSize::Bytes(300_000),
        container_bytes: 40_000,
        burst: 0,
    }
}

pub fn tier(slow: &Arc<dyn ContainerStore>, fast: &SimFolder, policy: &str) -> TieredStore {
    TieredStore::open(Arc::clone(slow), Arc::new(fast.clone()), options(policy), None).unwrap()
}

/// A skewed choice of containers.
fn pick(random: &mut SplitMix64) -> u32 {
    let widest = random.below(u64::from(CONTAINERS)) + 1;
    random.below(widest) as u32
}

/// Read a random part of a container, and see that it is right.
fn read_one(store: &TieredStore, number: u32, random: &mut SplitMix64, context: &str) {
    let data = content(number);
    let start = random.below(data.len() as u64) as usize;
    let len = random.below((data.len() - start) as u64 + 1).min(9000) as usize;
    let mut found = vec![0xee; len];
    let result = store.read(id(number), start as u64, &mut found);
    result.unwrap_or_else(|error| panic!("{context}: container {number}: {error}"));
    assert!(found == data[start..start + len], "{context}: container {number} at {start}");
}

pub fn read_many(store: &TieredStore, seed: u64, reads: usize, context: &str) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..reads {
        let number = pick(&mut random);
        read_one(store, number, &mut random, context);
    }
}

pub fn copies(fast: &SimFolder) -> Vec<String> {
    fast.subfolder("copies").unwrap().list().unwrap()
}

fn copied_bytes(fast: &SimFolder) -> u64 {
    let folder = fast.subfolder("copies").unwrap();
    copies(fast).iter().map(|name| folder.open(name).unwrap().len().unwrap()).sum()
}

#[test]
fn it_is_a_container_store_whatever_the_policy() {
    for policy in ["lru", "plc", "w-tinylfu", "s3-fifo"] {
        check_container_store(&|| {
            let slow = Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
            let fast = Arc::new(SimFolder::new());
            Arc::new(TieredStore::open(slow, fast, options(policy), None).unwrap())
        });
    }
}

#[test]
fn the_real_tier_and_the_simulator_decide_alike() {
    let (_, slow) = slow();
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, entry.name);
        let objects = (300_000 / 40_000) as usize;
        let capacity = Capacity { bytes: 300_000, objects };
        let mut simulated = make_online(entry.name, capacity, 0).unwrap();
        let mut random = SplitMix64::new(11);
        let mut requests = Vec::new();
        for _ in 0..1500 {
            let number = pick(&mut random);
            let len = content(number).len() as u64;
            // What the copy of a container takes: its bytes, 4 for each 4 KiB, and a footer.
            let size = (len + len.div_ceil(4096) * 4 + 44) as u32;
            requests.push(Access { key: number.into(), size });
            let before = store.status().totals;
            let mut byte = [0];
            store.read(id(number), 17, &mut byte).unwrap();
            assert_eq!(byte[0], content(number)[17]);
            let after = store.status().totals;
            let decision = simulated.access(number.into(), size);
            let writes = u64::from(decision.admit) + u64::from(decision.promoted.is_some());
            let step = format!("{} at request {}", entry.name, requests.len());
            assert_eq!(after.hits - before.hits, u64::from(decision.hit), "{step}: hit");
            assert_eq!(after.writes - before.writes, writes, "{step}: write");
        }
        // And as the simulator runs it, in batches.
        let mut batched = make_online(entry.name, capacity, 0).unwrap();
        let mut outcomes = Vec::new();
        batched.access_batch(&requests, &mut outcomes);
        let (ours, theirs) = (store.status(), batched.counters());
        assert_eq!(ours.totals.requests, theirs.requests, "{}", entry.name);
        assert_eq!(ours.totals.hits, theirs.hits, "{}", entry.name);
        assert_eq!(ours.totals.written_bytes, theirs.written_bytes, "{}", entry.name);
        assert!(ours.cached_bytes <= 300_000, "{}", entry.name);
        assert_eq!(ours.totals.bad_copies + ours.totals.failed_writes, 0, "{}", entry.name);
    }
}

#[test]
fn copies_never_take_more_than_they_may() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "arc", "toll"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        let mut random = SplitMix64::new(1);
        for _ in 0..600 {
            let number = pick(&mut random);
            read_one(&store, number, &mut random, policy);
            assert!(copied_bytes(&fast) <= 300_000, "{policy}");
        }
        assert!(!copies(&fast).is_empty(), "{policy} caches something");
    }
}

#[test]
fn a_restart_keeps_it_warm_and_goes_on_as_if_there_had_been_none() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "arc", "sieve"] {
        let [stopped, straight] = [SimFolder::new(), SimFolder::new()];
        let whole = tier(&slow, &straight, policy);
        read_many(&whole, 3, 400, policy);
        read_many(&whole, 4, 400, policy);
        let first = tier(&slow, &stopped, policy);
        read_many(&first, 3, 400, policy);
        let before = first.status();
        drop(first);
        let saved = TieredStore::saved_status(&stopped, &OWNER).unwrap();
        assert_eq!(saved, before, "{policy}");
        let second = tier(&slow, &stopped, policy);
        assert_eq!(second.status(), before, "{policy}: nothing is lost by a restart");
        read_many(&second, 4, 400, policy);
        assert_eq!(second.status(), whole.status(), "{policy}");
        drop((second, whole));
        assert_eq!(copies(&stopped), copies(&straight), "{policy}");
    }
}

#[test]
fn a_kill_takes_only_what_was_decided_since_the_last_save() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    for round in 0..20 {
        let store = tier(&slow, &fast, "lru");
        read_many(&store, round, 30 + round as usize, "before");
        let before = store.status();
        store.save_changes();
        let saved = TieredStore::saved_status(&fast, &OWNER).unwrap();
        assert_eq!(saved, before, "round {round}");
        // A process that is killed drops nothing.
        std::mem::forget(store);
        let again = tier(&slow, &fast, "lru");
        assert_eq!(again.status(), before, "round {round}: it is as warm as it was");
        std::mem::forget(again);
    }
}

#[test]
fn a_power_cut_of_the_fast_tier_costs_hits_and_nothing_else() {
    let (_, slow) = slow();
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let mut kept_warm = 0;
    for cut in (1..1000).step_by(13) {
        let fast = SimFolder::new();
        fast.crash_at(cut);
        let context = format!("cut at {cut}");
        if let Ok(store) =
            TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), options("lru"), None)
        {
            // It goes on without its fast tier.
            read_many(&store, cut, 300, &context);
        }
        let after = fast.after_crash(cut, modes[cut as usize % 3]);
        let store = tier(&slow, &after, "lru");
        let cached = store.status().cached_containers;
        // What was not synced may be gone, all of it; what the disk kept is made use of.
        let saved = cut > 500 && modes[cut as usize % 3] == CrashMode::KeepEverything;
        assert!(!saved || cached > 0, "{context}: begins cold");
        kept_warm += u64::from(cached > 0);
        read_many(&store, cut + 1, 100, &context);
        assert!(copied_bytes(&after) <= 300_000, "{context}");
        assert!(store.status().totals.hits > 20, "{context}: it works again");
    }
    assert!(kept_warm > 10, "only {kept_warm} restarts were warm");
}

#[test]
fn damaged_cut_and_foreign_copies_are_noticed_and_go() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 200, "filling");
    drop(store);
    let names = copies(&fast);
    assert!(names.len() >= 6);
    let folder = fast.subfolder("copies").unwrap();
    let len = |name: &str| folder.open(name).unwrap().len().unwrap();
    let overwrite = |name: &str, bytes: &[u8]| {
        let media = folder.create(name).unwrap();
        media.write(0, bytes).unwrap();
    };
    fast.flip_bit(&format!("copies/{}", names[0]), 100, 1).unwrap();
    fast.flip_bit(&format!("copies/{}", names[1]), len(&names[1]) - 60, 1).unwrap();
    fast.truncate(&format!("copies/{}", names[2]), 5000).unwrap();
    overwrite(&names[3], b"");
    overwrite(&names[4], &SplitMix64::new(9).bytes(30_000));
    // A good copy, but of another container.
    let mut other = vec![0; len(&names[6]) as usize];
    folder.open(&names[6]).unwrap().read(0, &mut other).unwrap();
    overwrite(&names[5], &other);
    let store = tier(&slow, &fast, "lru");
    let mut random = SplitMix64::new(2);
    for name in &names {
        let number = u32::from_str_radix(&name[..8], 16).unwrap();
        let data = content(number);
        let mut found = vec![0; data.len()];
        store.read(id(number), 0, &mut found).unwrap();
        assert!(found == data, "{name}");
        read_one(&store, number, &mut random, name);
    }
    assert_eq!(store.status().totals.bad_copies, 6);
}

#[test]
fn a_copy_that_was_found_wrong_is_taken_away_at_once() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    // `larc` writes at the second use.
    let store = tier(&slow, &fast, "larc");
    let mut found = vec![0; content(1).len()];
    for _ in 0..2 {
        store.read(id(1), 0, &mut found).unwrap();
    }
    let names = copies(&fast);
    assert_eq!(names.len(), 1);
    fast.flip_bit(&format!("copies/{}", names[0]), 100, 1).unwrap();
    store.read(id(1), 0, &mut found).unwrap();
    assert!(found == content(1) && copies(&fast).is_empty());
}

#[test]
fn a_container_that_could_not_be_removed_is_kept_as_before() {
    let (slow_media, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let mut found = vec![0; content(1).len()];
    store.read(id(1), 0, &mut found).unwrap();
    slow_media.fail_once(&[OpKind::Remove], 1, FaultKind::Eio);
    assert!(store.remove(id(1)).is_err());
    assert!(copies(&fast).is_empty());
    for hits in 0..2 {
        store.read(id(1), 0, &mut found).unwrap();
        assert!(found == content(1));
        assert_eq!((store.status().totals.hits, copies(&fast).len()), (hits, 1));
    }
}

#[test]
fn copies_of_an_older_store_are_not_taken_for_this_ones() {
    let fast = SimFolder::new();
    let (_, slow) = slow();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 200, "the older store");
    drop(store);
    // The same numbers and lengths, other contents, another owner.
    let folder = SimFolder::new();
    let other = FolderContainerStore::new(Arc::new(folder));
    for number in 0..CONTAINERS {
        let mut data = content(number);
        for byte in &mut data {
            *byte ^= 0x55;
        }
        other.create(id(number), data.len() as u64).unwrap();
        other.append(id(number), 0, &data).unwrap();
        other.seal(id(number), data.len() as u64).unwrap();
    }
    let other: Arc<dyn ContainerStore> = Arc::new(other);
    let open = |owner| {
        let options = TierOptions { owner, ..options("lru") };
        TieredStore::open(Arc::clone(&other), Arc::new(fast.clone()), options, None)
    };
    let before = copies(&fast);
    let refused = open([8; 16]).map(drop).unwrap_err();
    assert!(matches!(refused, TierError::NotACache(_)), "{refused}");
    assert_eq!(copies(&fast), before, "nothing of another store's cache is touched");
    let store = open(OWNER).unwrap();
    for number in 0..CONTAINERS {
        let mut byte = [0; 64];
        store.read(id(number), 1000, &mut byte).unwrap();
        let expected: Vec<u8> =
            content(number)[1000..1064].iter().map(|byte| byte ^ 0x55).collect();
        assert!(byte == expected[..], "container {number}");
    }
}

#[test]
fn a_folder_that_holds_anything_else_is_refused_and_not_written_into() {
    let (_, slow) = slow();
    // What pools, archives and drives keep, and anybody's file.
    for name in ["super.0", "archive.0", "journal", "thesis.txt"] {
        let fast = SimFolder::new();
        fast.create(name).unwrap().write(0, b"mine").unwrap();
        let folder = Arc::new(fast.clone());
        let refused = TieredStore::open(Arc::clone(&slow), folder, options("lru"), None);
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
        assert_eq!(fast.list().unwrap(), [name]);
        assert!(fast.existing_subfolder("copies").is_err(), "{name}");
    }
    // Containers of a pool, in a folder of that name.
    let fast = SimFolder::new();
    fast.subfolder("copies").unwrap().create("00000001.container").unwrap();
    let folder = Arc::new(fast.clone());
    assert!(TieredStore::open(Arc::clone(&slow), folder, options("lru"), None).is_err());
    assert_eq!(copies(&fast).len(), 1);
}

#[test]
fn a_cache_that_loses_power_while_it_is_made_is_made_again_and_stays_its_owners() {
    let (_, slow) = slow();
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        for cut in 1..=12 {
            let fast = SimFolder::new();
            fast.crash_at(cut);
            let folder = Arc::new(fast.clone());
            let _ = TieredStore::open(Arc::clone(&slow), folder, options("lru"), None);
            let after = fast.after_crash(cut, mode);
            let store = tier(&slow, &after, "lru");
            read_many(&store, 1, 20, "after a cut");
            drop(store);
            let other = TierOptions { owner: [8; 16], ..options("lru") };
            let folder = Arc::new(after.clone());
            let refused = TieredStore::open(Arc::clone(&slow), folder, other, None);
            assert!(refused.is_err(), "cut at {cut}, {mode:?}");
        }
    }
    // A damaged identity of a cache in use is no reason to take it over, or to lose it.
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 50, "before");
    drop(store);
    fast.flip_bit("cache", 12, 1).unwrap();
    let before = copies(&fast);
    let folder = Arc::new(fast.clone());
    assert!(TieredStore::open(Arc::clone(&slow), folder, options("lru"), None).is_err());
    assert_eq!(copies(&fast), before);
}

#[test]
fn one_owner_with_other_contents_is_told_by_the_end_of_the_container() {
    let fast = SimFolder::new();
    let (folder, slow) = slow();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 200, "before");
    drop(store);
    drop(slow);
    // Every container is made anew under its number, with the same length.
    let again = FolderContainerStore::new(Arc::new(folder));
    for number in 0..CONTAINERS {
        let mut data = content(number);
        data.reverse();
        again.remove(id(number)).unwrap();
        again.create(id(number), data.len() as u64).unwrap();
        again.append(id(number), 0, &data).unwrap();
        again.seal(id(number), data.len() as u64).unwrap();
    }
    let again: Arc<dyn ContainerStore> = Arc::new(again);
    let store = tier(&again, &fast, "lru");
    assert!(store.status().cached_containers > 0, "it begins warm");
    for number in 0..CONTAINERS {
        let mut data = content(number);
        data.reverse();
        let mut found = vec![0; data.len()];
        store.read(id(number), 0, &mut found).unwrap();
        assert!(found == data, "container {number}");
    }
    assert!(store.status().totals.bad_copies > 0);
}

#[test]
fn a_full_failing_or_vanished_fast_tier_costs_hits_and_nothing_else() {
    let (_, slow) = slow();
    let all = [OpKind::Open, OpKind::Read, OpKind::Write, OpKind::Create, OpKind::Remove];
    let cases: [(&str, &[OpKind], FaultKind); 6] = [
        ("no space to write", &[OpKind::Write], FaultKind::Enospc),
        ("no space to reserve", &[OpKind::Reserve], FaultKind::Enospc),
        ("unreadable", &[OpKind::Read], FaultKind::Eio),
        ("unwritable", &[OpKind::Write, OpKind::SetLen], FaultKind::Eio),
        ("nothing can be removed", &[OpKind::Remove], FaultKind::Eio),
        ("gone", &all, FaultKind::Eio),
    ];
    for (what, kinds, fault) in cases {
        for policy in ["lru", "plc"] {
            let fast = SimFolder::new();
            let store = tier(&slow, &fast, policy);
            read_many(&store, 1, 150, what);
            fast.fail_from(kinds, 1, fault);
            read_many(&store, 2, 400, what);
            let ill = store.status().totals;
            assert!(
                what.starts_with("nothing") || ill.bad_copies + ill.failed_writes > 0,
                "{what}"
            );
            fast.clear_faults();
            read_many(&store, 3, 3000, what);
            let well = store.status().totals;
            let rate = (well.hits - ill.hits) as f64 / 3000.0;
            assert!(rate > 0.2, "{what}: {policy} hits {rate} once it is well again");
            drop(store);
            let store = tier(&slow, &fast, policy);
            read_many(&store, 4, 100, what);
            assert!(copied_bytes(&fast) <= 300_000, "{what}");
        }
    }
    // A disk that is simply too small.
    let fast = SimFolder::new();
    fast.set_capacity(Some(150_000));
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 5, 1000, "small disk");
    let totals = store.status().totals;
    assert!(totals.failed_writes > 0 && totals.hits > 0, "{totals:?}");
}

#[test]
fn a_container_that_changes_or_goes_takes_its_copy_along() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let (one, mut byte) = (id(100), [0; 4]);
    for round in 0..3_u8 {
        store.create(one, 10_000).unwrap();
        store.append(one, 0, &[round; 5000]).unwrap();
        store.read(one, 10, &mut byte).unwrap();
        assert_eq!(byte, [round; 4], "while it is open");
        assert!(copies(&fast).is_empty(), "what is being filled is not kept");
        store.append(one, 5000, &[round + 10; 5000]).unwrap();
        store.seal(one, 10_000).unwrap();
        for _ in 0..3 {
            store.read(one, 5001, &mut byte).unwrap();
            assert_eq!(byte, [round + 10; 4]);
        }
        assert_eq!(copies(&fast).len(), 1);
        store.remove(one).unwrap();
        assert!(copies(&fast).is_empty());
        assert!(store.read(one, 0, &mut byte).is_err());
    }
}

#[test]
fn threads_read_what_they_should() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "s3-fifo"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let store = &store;
                scope.spawn(move || read_many(store, seed, 400, policy));
            }
        });
        assert!(copied_bytes(&fast) <= 300_000, "{policy}");
        let totals = store.status().totals;
        assert_eq!(totals.bad_copies + totals.failed_writes, 0, "{policy}");
        assert!(totals.requests >= 1590, "{policy}: {totals:?}");
    }
}

#[test]
fn a_share_of_the_slow_store_grows_with_it() {
    let slow = Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    let options = TierOptions { size: TierSize::Percent(50), ..options("lru") };
    let store = TieredStore::open(slow, Arc::new(SimFolder::new()), options, None).unwrap();
    assert_eq!(store.status().capacity_bytes, 16 * 40_000);
    let mut byte = [0];
    for number in 0..100 {
        store.create(id(number), 40_000).unwrap();
        store.append(id(number), 0, &vec![1; 40_000]).unwrap();
        store.seal(id(number), 40_000).unwrap();
        store.read(id(number), 0, &mut byte).unwrap();
    }
    let status = store.status();
    assert!(status.capacity_bytes >= 1_600_000 && status.capacity_bytes <= 2_000_000);
    assert!(status.cached_bytes > 1_000_000 && status.cached_bytes <= status.capacity_bytes);
}

#[test]
fn what_cannot_be_a_policy_is_refused() {
    let (_, slow) = slow();
    let open = |policy: &str| {
        let fast = Arc::new(SimFolder::new());
        TieredStore::open(Arc::clone(&slow), fast, options(policy), None).map(drop)
    };
    assert!(matches!(open("lruu"), Err(TierError::Policy(_))));
    let offline = POLICIES.iter().find(|entry| entry.offline).unwrap().name;
    assert!(matches!(open(offline), Err(TierError::Offline(_))));
}

#[test]
fn a_reader_that_goes_through_a_container_uses_it_once() {
    let (_, slow) = slow();
    // `larc` writes at the second use.
    let open = |burst| {
        let options = TierOptions { burst, ..options("larc") };
        TieredStore::open(Arc::clone(&slow), Arc::new(SimFolder::new()), options, None).unwrap()
    };
    let scan = |store: &TieredStore| {
        for number in 0..CONTAINERS {
            for piece in 0..10 {
                let mut bytes = [0; 2000];
                store.read(id(number), piece * 2000, &mut bytes).unwrap();
                let start = piece as usize * 2000;
                assert!(bytes == content(number)[start..start + 2000]);
            }
        }
        store.status().totals
    };
    assert_eq!(scan(&open(4)).writes, 0, "one pass over everything is worth no write");
    assert!(scan(&open(0)).writes > 0);
    // One container that is read on and on is kept all the same.
    let store = open(4);
    let mut byte = [0];
    for _ in 0..1000 {
        store.read(id(1), 5, &mut byte).unwrap();
    }
    let totals = store.status().totals;
    // The first read is a use, and so is the one after 64 that went on with it: that one writes.
    assert_eq!((totals.requests, totals.hits, totals.writes), (1000, 1000 - 65, 1), "{totals:?}");
}

#[test]
fn of_a_container_that_was_removed_nothing_is_remembered() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    // `larc` writes at the second use.
    let store = tier(&slow, &fast, "larc");
    let (one, mut byte) = (id(100), [0]);
    for round in 0..3 {
        store.create(one, 10_000).unwrap();
        store.append(one, 0, &[round; 10_000]).unwrap();
        store.seal(one, 10_000).unwrap();
        store.read(one, 10, &mut byte).unwrap();
        assert_eq!((byte, store.status().totals.writes), ([round], 0), "it is new each time");
        store.remove(one).unwrap();
    }
}

#[test]
fn after_failed_writes_ever_more_containers_are_passed_over() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    fast.fail_from(&[OpKind::Write], 1, FaultKind::Eio);
    let mut failed = Vec::new();
    for number in 0..CONTAINERS {
        read_one(&store, number, &mut SplitMix64::new(1), "a sick disk");
        failed.push(store.status().totals.failed_writes);
    }
    // Writes are tried at the 1st, 3rd, 6th, 11th, 20th and 37th container.
    let tried: Vec<usize> =
        (0..failed.len()).filter(|&at| at == 0 || failed[at] > failed[at - 1]).collect();
    assert_eq!(tried, [0, 2, 5, 10, 19, 36]);
    // Once one was kept again, the next failure counts as the first.
    fast.clear_faults();
    for number in (0..CONTAINERS).chain(0..CONTAINERS) {
        read_one(&store, number, &mut SplitMix64::new(1), "a disk that recovered");
    }
    assert!(store.status().totals.writes > 0);
    fast.fail_once(&[OpKind::Write], 1, FaultKind::Eio);
    let before = store.status().totals.writes;
    let writes = [0, 1, 2, 3].map(|number| {
        read_one(&store, number, &mut SplitMix64::new(1), "a disk that failed once");
        store.status().totals.writes - before
    });
    assert_eq!(writes, [0, 0, 1, 2], "the second is passed over");
}

#[test]
fn a_container_that_is_filled_or_sealed_after_a_restart_takes_its_copy_along() {
    for sealed in [false, true] {
        let (_, slow) = slow();
        let fast = SimFolder::new();
        let (one, mut bytes) = (id(100), [0; 8]);
        let store = tier(&slow, &fast, "lru");
        store.create(one, 20_000).unwrap();
        store.append(one, 0, &[1; 10_000]).unwrap();
        // A store that does not know that the container is still being filled keeps a copy.
        let store = tier(&slow, &fast, "lru");
        for _ in 0..3 {
            store.read(one, 10, &mut bytes).unwrap();
        }
        assert_eq!(copies(&fast).len(), 1);
        if sealed {
            store.seal(one, 9_000).unwrap();
            assert!(copies(&fast).is_empty(), "its length is another one by now");
            assert!(store.read(one, 8_996, &mut bytes).is_err(), "past the end");
        } else {
            store.append(one, 10_000, &[2; 5_000]).unwrap();
            assert!(copies(&fast).is_empty(), "there is more by now");
            store.read(one, 10_000, &mut bytes).unwrap();
            assert_eq!(bytes, [2; 8]);
        }
    }
}

#[test]
fn copies_of_containers_that_went_while_it_was_closed_go_too() {
    let (slow_media, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    for number in [1, 2] {
        read_one(&store, number, &mut SplitMix64::new(1), "to keep it");
    }
    drop(store);
    assert_eq!(copies(&fast).len(), 2);
    slow_media.remove("00000001.container").unwrap();
    let store = tier(&slow, &fast, "lru");
    assert_eq!(copies(&fast), ["00000002.container"]);
    assert_eq!(store.status().cached_containers, 1);
}

#[test]
fn what_was_in_memory_alone_is_not_said_to_be_kept() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let mut options = options("w-tinylfu:memory=1");
    options.size = TierSize::Bytes(20_000_000);
    let folder: Arc<dyn Folder> = Arc::new(fast.clone());
    let store = TieredStore::open(Arc::clone(&slow), folder, options, None).unwrap();
    read_one(&store, 1, &mut SplitMix64::new(1), "into memory");
    assert_eq!((store.status().cached_containers, copies(&fast).len()), (1, 0));
    drop(store);
    let saved = TieredStore::saved_status(&fast, &OWNER).unwrap();
    assert_eq!((saved.cached_containers, saved.cached_bytes), (0, 0));
}

#[test]
fn a_container_is_kept_once_it_is_full_and_not_before() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let data = content(50);
    store.create(id(50), data.len() as u64).unwrap();
    store.append(id(50), 0, &data).unwrap();
    let read = || store.read(id(50), 0, &mut [0; 100]).unwrap();
    read();
    assert_eq!((store.status().totals.requests, copies(&fast).len()), (0, 0));
    store.seal(id(50), data.len() as u64).unwrap();
    read();
    read();
    let totals = store.status().totals;
    assert_eq!((totals.requests, totals.hits, copies(&fast).len()), (2, 1, 1));
}
