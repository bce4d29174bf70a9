//! The tiered container store: the same bytes whatever the fast tier does, the same decisions as
//! the simulator, warm after restarts.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use onefold_block::conformance::check_container_store;
use onefold_block::{
    ContainerId, ContainerStore, CrashMode, FaultKind, Folder, FolderContainerStore, OpKind,
    SimFolder, SplitMix64,
};
use onefold_cache::POLICIES;
use onefold_cache::tier::{
    Replay, TierError, TierOptions, TierSize, TierStatus, TierTotals, TieredStore, WearBudget,
};

pub const OWNER: [u8; 16] = [7; 16];
pub const CONTAINERS: u32 = 40;
/// Bytes of the fast tier: ten segments.
pub const BYTES: u64 = 10 * 196_608;

pub fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

/// The bytes of each container, made once.
static CONTENTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let content = |number: u32| {
        let mut random = SplitMix64::new(number.into());
        let len = 100_000 + random.below(100_000) as usize;
        random.bytes(len)
    };
    (0..CONTAINERS).map(content).collect()
});

pub fn content(number: u32) -> &'static [u8] {
    &CONTENTS[number as usize]
}

/// A slow store of sealed containers.
pub fn slow() -> (SimFolder, Arc<dyn ContainerStore>) {
    let folder = SimFolder::new();
    let store = FolderContainerStore::new(Arc::new(folder.clone()));
    for number in 0..CONTAINERS {
        fill(&store, number, content(number));
    }
    (folder, Arc::new(store))
}

pub fn fill(store: &dyn ContainerStore, number: u32, data: &[u8]) {
    store.create(id(number), data.len() as u64).unwrap();
    store.append(id(number), 0, data).unwrap();
    store.seal(id(number), data.len() as u64).unwrap();
    store.sync(id(number)).unwrap();
}

pub fn options(policy: &str) -> TierOptions {
    TierOptions {
        owner: OWNER,
        policy: policy.to_owned(),
        size: TierSize::Bytes(BYTES),
        container_bytes: 200_000,
        writes_per_day: None,
        write_through: false,
        fill_at_once: false,
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

/// A part of a container, of some bytes or of many.
fn part(random: &mut SplitMix64) -> (u32, usize, usize) {
    let number = pick(random);
    let whole = content(number).len() as u64;
    // Parts begin at few places, so that they are asked for again.
    let start = random.below(whole / 20_000) * 20_000 + random.below(3) * 700;
    let most = if random.below(4) == 0 { 60_000 } else { 9_000 };
    (number, start as usize, random.below((whole - start).min(most)) as usize + 1)
}

pub fn read(store: &TieredStore, number: u32, start: usize, len: usize, context: &str) {
    let data = content(number);
    let mut found = vec![0xee; len];
    let result = store.read(id(number), start as u64, &mut found);
    result.unwrap_or_else(|error| panic!("{context}: container {number}: {error}"));
    assert!(found == data[start..start + len], "{context}: container {number} at {start}");
}

pub fn read_many(store: &TieredStore, seed: u64, reads: usize, context: &str) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..reads {
        let (number, start, len) = part(&mut random);
        read(store, number, start, len, context);
    }
}

pub fn log_bytes(fast: &SimFolder) -> u64 {
    fast.open("extents").unwrap().len().unwrap()
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
fn the_real_tier_and_a_replay_of_its_reads_decide_alike() {
    let (_, slow) = slow();
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, entry.name);
        let mut replay = Replay::new(entry.name, BYTES, None).unwrap();
        let mut random = SplitMix64::new(11);
        let mut looked_at = BTreeMap::new();
        for step in 0..1500 {
            let (number, start, len) = part(&mut random);
            let whole = content(number).len() as u64;
            read(&store, number, start, len, entry.name);
            replay.read(number, whole, start as u64, len as u64);
            looked_at.insert(number, 4096);
            let (mut ours, theirs) = (store.status().totals, replay.totals());
            // Only the store reads the ends of containers, and only it has a device to read.
            ours.slow_bytes -= looked_at.values().sum::<u64>();
            (ours.fast_bytes, ours.state_bytes) = (0, 0);
            assert_eq!(ours, theirs, "{} at request {step}", entry.name);
        }
        let totals = replay.totals();
        assert!(totals.hits > 0 && totals.writes > 0, "{}: {totals:?}", entry.name);
        assert!(totals.moved_bytes * 1000 <= totals.admitted_bytes * 90, "{totals:?}");
    }
}

#[test]
fn it_takes_no_more_of_the_device_than_it_may() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "arc", "toll"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        read_many(&store, 1, 3000, policy);
        let status = store.status();
        assert_eq!(status.capacity_bytes, BYTES);
        assert!(log_bytes(&fast) <= BYTES && status.cached_bytes <= BYTES, "{policy}");
        assert!(status.cached_bytes > BYTES / 2, "{policy}: {status:?}");
    }
}

#[test]
fn a_restart_loses_nothing() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "arc", "sieve", "toll"] {
        let fast = SimFolder::new();
        let first = tier(&slow, &fast, policy);
        read_many(&first, 3, 2000, policy);
        first.save();
        let before = first.status();
        drop(first);
        let saved = TieredStore::saved_status(&fast, &OWNER).unwrap();
        assert_eq!(saved.totals.writes, before.totals.writes, "{policy}");
        assert_eq!(saved.cached_extents, before.cached_extents, "{policy}");
        let second = tier(&slow, &fast, policy);
        let TierStatus { policy_bytes, index_bytes, .. } = second.status();
        let then = second.status();
        // But for what saving took, and for what waited in memory.
        let TierStatus { written_last_day, totals, waiting_bytes, .. } = then;
        assert_eq!((waiting_bytes, before.waiting_bytes > 0), (0, policy == "toll"), "{policy}");
        let totals = TierTotals { state_bytes: totals.state_bytes, ..before.totals };
        let before = TierStatus {
            policy_bytes,
            index_bytes,
            waiting_bytes,
            written_last_day,
            totals,
            ..before
        };
        assert_eq!(then, before, "{policy}: nothing is lost by a restart");
        read_many(&second, 3, 300, policy);
        assert_eq!(second.status().totals.bad_copies, 0, "{policy}");
    }
}

#[test]
fn a_kill_takes_only_the_segment_that_was_being_filled() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let mut lost = 0;
    for round in 0..20 {
        let store = tier(&slow, &fast, "lru");
        let before = store.status();
        read_many(&store, round, 60 + 10 * round as usize, "before");
        for _ in 0..(round % 2) * 720 {
            store.save_changes();
        }
        let then = store.status();
        // A process that is killed drops nothing.
        std::mem::forget(store);
        let again = tier(&slow, &fast, "lru");
        let now = again.status();
        lost += u64::from(now.cached_extents < then.cached_extents);
        let most = then.cached_bytes.saturating_sub(196_608);
        assert!(now.cached_bytes >= most, "round {round}: {before:?}, {then:?}, {now:?}");
        std::mem::forget(again);
    }
    assert!(lost > 5, "what is in memory goes: {lost}");
}

#[test]
fn a_power_cut_of_the_fast_tier_costs_hits_and_nothing_else() {
    let (_, slow) = slow();
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let (mut kept_warm, mut torn, mut bad) = (0, 0, 0);
    let whole = {
        let fast = SimFolder::new();
        read_many(&tier(&slow, &fast, "lru"), 5, 1200, "to count operations");
        fast.op_count()
    };
    for cut in 1..=whole {
        let fast = SimFolder::new();
        fast.crash_at(cut);
        let context = format!("cut at {cut} of {whole}");
        let folder = Arc::new(fast.clone());
        if let Ok(store) = TieredStore::open(Arc::clone(&slow), folder, options("lru"), None) {
            // It goes on without its fast tier.
            read_many(&store, 5, 1200, &context);
        }
        let after = fast.after_crash(cut, modes[cut as usize % 3]);
        let store = tier(&slow, &after, "lru");
        kept_warm += u64::from(store.status().cached_extents > 0);
        read_many(&store, cut + 1, 120, &context);
        let totals = store.status().totals;
        torn += totals.torn_segments;
        bad += totals.bad_copies;
        assert_eq!(totals.failed_writes, 0, "{context}");
        assert!(totals.hits > 0, "{context}: it works again");
    }
    assert!(whole > 40, "{whole} operations");
    assert!(kept_warm > whole / 3, "only {kept_warm} of {whole} restarts were warm");
    assert!(torn + bad > 0, "cuts leave torn segments: {torn}, {bad}");
}

/// Every byte of the log and of the state is another in turn.
#[test]
fn whatever_byte_is_damaged_every_read_is_right_and_the_status_says_so() {
    let slow = Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    let data = SplitMix64::new(1).bytes(70_000);
    fill(&*slow, 1, &data);
    fill(&*slow, 2, &data[..60_000]);
    let slow: Arc<dyn ContainerStore> = slow;
    let fast = SimFolder::new();
    let all = |store: &TieredStore, context: &str| {
        for (number, len) in [(1, 70_000), (2, 60_000), (1, 70_000)] {
            for (start, len) in [(0, 30_000), (30_000, 10_000), (40_000, len - 40_000)] {
                let mut found = vec![0; len];
                store.read(id(number), start, &mut found).unwrap();
                assert!(found == data[start as usize..start as usize + len], "{context}");
            }
        }
    };
    let store = tier(&slow, &fast, "lru");
    all(&store, "whole");
    drop(store);
    let (mut noticed, mut tried) = (0, 0);
    for name in ["extents", "state.1"] {
        let media = fast.open(name).unwrap();
        let mut whole = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut whole).unwrap();
        let step = if name == "extents" { 211 } else { 37 };
        for at in (0..whole.len()).step_by(step) {
            let copy = fast.after_crash(0, CrashMode::KeepEverything);
            copy.flip_bit(name, at as u64, (at % 8) as u8).unwrap();
            let store = tier(&slow, &copy, "lru");
            all(&store, &format!("{name}, byte {at}"));
            let TierStatus { totals, problem, .. } = store.status();
            let counted = totals.bad_copies + totals.torn_segments;
            // Padding, and the words of the header that mean nothing yet, are nobody's.
            assert!(counted <= 1, "{name}, byte {at}: {totals:?}");
            if totals.bad_copies > 0 {
                assert!(problem.is_some_and(|problem| problem.contains("container")), "{at}");
            }
            noticed += counted;
            tried += u64::from(name == "extents");
        }
    }
    // What lies between extents is nobody's.
    assert!(noticed * 100 > tried * 97, "{noticed} of {tried}");
}

#[test]
fn a_container_that_could_not_be_removed_is_kept_anew() {
    let (slow_media, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read(&store, 1, 0, 9000, "to keep it");
    slow_media.fail_once(&[OpKind::Remove], 1, FaultKind::Eio);
    assert!(store.remove(id(1)).is_err());
    assert_eq!(store.status().cached_extents, 0);
    for hits in 0..2 {
        read(&store, 1, 0, 9000, "once more");
        assert_eq!((store.status().totals.hits, store.status().cached_extents), (hits, 1));
    }
}

#[test]
fn extents_of_an_older_store_are_not_taken_for_this_ones() {
    let fast = SimFolder::new();
    let (folder, slow) = slow();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 500, "the older store");
    drop((store, slow));
    // Every container is made anew under its number, with the same length.
    let again = FolderContainerStore::new(Arc::new(folder));
    for number in 0..CONTAINERS {
        let mut data = content(number).to_vec();
        data.reverse();
        again.remove(id(number)).unwrap();
        fill(&again, number, &data);
    }
    let again: Arc<dyn ContainerStore> = Arc::new(again);
    let open = |owner| {
        let options = TierOptions { owner, ..options("lru") };
        TieredStore::open(Arc::clone(&again), Arc::new(fast.clone()), options, None)
    };
    let refused = open([8; 16]).map(drop).unwrap_err();
    assert!(matches!(refused, TierError::NotACache(_)), "{refused}");
    let store = open(OWNER).unwrap();
    assert!(store.status().cached_extents > 0, "it begins warm");
    for number in 0..CONTAINERS {
        let mut data = content(number).to_vec();
        data.reverse();
        let mut found = vec![0; data.len()];
        store.read(id(number), 0, &mut found).unwrap();
        assert!(found == data, "container {number}");
    }
    let totals = store.status().totals;
    assert!(totals.bad_copies > 0 && totals.hit_bytes < totals.bytes / 2, "{totals:?}");
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
    }
    // A log of somebody else's, under our name for it.
    let fast = SimFolder::new();
    fast.create("extents").unwrap().write(0, b"mine").unwrap();
    let folder = Arc::new(fast.clone());
    assert!(TieredStore::open(Arc::clone(&slow), folder, options("lru"), None).is_err());
    assert_eq!(log_bytes(&fast), 4);
}

#[test]
fn copies_of_whole_containers_that_an_earlier_version_kept_make_room() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    drop(tier(&slow, &fast, "lru"));
    let copies = fast.subfolder("copies").unwrap();
    for name in ["00000001.container", "00000002.container", "mine.txt"] {
        copies.create(name).unwrap().write(0, b"a copy").unwrap();
    }
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 200, "after it was converted");
    assert_eq!(copies.list().unwrap(), ["mine.txt"], "what is no copy stays");
    // Another owner's copies are left alone.
    copies.create("00000003.container").unwrap();
    let other = TierOptions { owner: [8; 16], ..options("lru") };
    assert!(TieredStore::open(slow, Arc::new(fast.clone()), other, None).is_err());
    assert_eq!(copies.list().unwrap().len(), 2);
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
    // A damaged identity of a cache in use is no reason to take it over.
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 1, 50, "before");
    drop(store);
    fast.flip_bit("cache", 12, 1).unwrap();
    let before = log_bytes(&fast);
    let folder = Arc::new(fast.clone());
    assert!(TieredStore::open(Arc::clone(&slow), folder, options("lru"), None).is_err());
    assert_eq!(log_bytes(&fast), before);
}

#[test]
fn a_full_failing_or_vanished_fast_tier_costs_hits_and_nothing_else() {
    let (_, slow) = slow();
    let all = [OpKind::Open, OpKind::Read, OpKind::Write, OpKind::Create, OpKind::Remove];
    let cases: [(&str, &[OpKind], FaultKind); 4] = [
        ("no space to write", &[OpKind::Write], FaultKind::Enospc),
        ("unreadable", &[OpKind::Read], FaultKind::Eio),
        ("unwritable", &[OpKind::Write, OpKind::SetLen], FaultKind::Eio),
        ("gone", &all, FaultKind::Eio),
    ];
    for (what, kinds, fault) in cases {
        for policy in ["lru", "plc"] {
            let fast = SimFolder::new();
            let store = tier(&slow, &fast, policy);
            read_many(&store, 1, 800, what);
            fast.fail_from(kinds, 1, fault);
            read_many(&store, 2, 800, what);
            let ill = store.status();
            assert!(ill.totals.bad_copies + ill.totals.failed_writes > 0, "{what}");
            assert!(ill.problem.is_some(), "{what}: {ill:?}");
            fast.clear_faults();
            read_many(&store, 3, 3000, what);
            let well = store.status();
            let rate = (well.totals.hits - ill.totals.hits) as f64 / 3000.0;
            assert!(rate > 0.1, "{what}: {policy} hits {rate} once it is well again");
            let cured = well.totals.bad_copies > 0 || well.problem.is_none();
            assert!(cured, "{what}: {well:?}");
            drop(store);
            let store = tier(&slow, &fast, policy);
            read_many(&store, 4, 100, what);
        }
    }
    // A disk that is simply too small, and one that can set nothing aside.
    let fast = SimFolder::new();
    fast.set_capacity(Some(BYTES / 2));
    let store = tier(&slow, &fast, "lru");
    assert!(store.status().problem.is_some_and(|problem| problem.contains("no space")));
    read_many(&store, 5, 3000, "small disk");
    let totals = store.status().totals;
    assert!(totals.failed_writes > 0 && totals.hits > 0, "{totals:?}");
    let fast = SimFolder::new();
    fast.fail_from(&[OpKind::Reserve], 1, FaultKind::Enospc);
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 5, 1000, "nothing is set aside");
    assert!(store.status().totals.hits > 0);
}

#[test]
fn a_container_that_changes_or_goes_takes_its_extents_along() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let (one, mut byte) = (id(100), [0; 4]);
    for round in 0..3_u8 {
        store.create(one, 10_000).unwrap();
        store.append(one, 0, &[round; 5000]).unwrap();
        store.read(one, 10, &mut byte).unwrap();
        assert_eq!(byte, [round; 4], "while it is open");
        assert_eq!(store.status().cached_extents, 0, "what is being filled is not kept");
        store.append(one, 5000, &[round + 10; 5000]).unwrap();
        store.seal(one, 10_000).unwrap();
        for _ in 0..3 {
            store.read(one, 5001, &mut byte).unwrap();
            assert_eq!(byte, [round + 10; 4]);
        }
        assert_eq!(store.status().cached_extents, 1);
        store.remove(one).unwrap();
        assert_eq!(store.status().cached_extents, 0);
        assert!(store.read(one, 0, &mut byte).is_err());
    }
}

#[test]
fn threads_read_what_they_should() {
    let (_, slow) = slow();
    for policy in ["lru", "plc", "w-tinylfu:memory=1"] {
        let fast = SimFolder::new();
        let store = tier(&slow, &fast, policy);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let store = &store;
                scope.spawn(move || read_many(store, seed, 600, policy));
            }
        });
        let totals = store.status().totals;
        assert_eq!(totals.bad_copies + totals.failed_writes, 0, "{policy}");
        assert_eq!(totals.requests, 2400, "{policy}: {totals:?}");
        assert!(totals.hits > 0, "{policy}");
    }
}

#[test]
fn a_share_of_the_slow_store_grows_with_it() {
    let slow = Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    let options = TierOptions { size: TierSize::Percent(50), ..options("lru") };
    let store = TieredStore::open(slow, Arc::new(SimFolder::new()), options, None).unwrap();
    let least = 16 * 200_000 / 196_608 * 196_608;
    assert_eq!(store.status().capacity_bytes, least);
    for number in 0..50 {
        fill(&store, number, &vec![1; 200_000]);
        for start in [0, 60_000, 130_000] {
            store.read(id(number), start, &mut vec![0; 40_000]).unwrap();
        }
    }
    let status = store.status();
    assert!(status.capacity_bytes > 4_000_000 && status.capacity_bytes <= 5_000_000, "{status:?}");
    assert!(status.cached_bytes > least, "{status:?}");
}

#[test]
fn of_a_container_that_was_removed_nothing_is_remembered() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    // `larc` writes at the second use.
    let store = tier(&slow, &fast, "larc");
    let (one, mut byte) = (id(100), [0]);
    for round in 0..3 {
        fill(&store, 100, &[round; 10_000]);
        store.read(one, 10, &mut byte).unwrap();
        assert_eq!((byte, store.status().totals.writes), ([round], 0), "it is new each time");
        store.remove(one).unwrap();
    }
}

#[test]
fn after_failed_writes_ever_more_extents_are_passed_over() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    fast.fail_from(&[OpKind::Write], 1, FaultKind::Eio);
    let mut failed_at = Vec::new();
    // 160 extents at places of their own, each asked for once.
    for number in 0..160_u32 {
        let before = store.status().totals.failed_writes;
        read(&store, number % 40, (number / 40) as usize * 20_000, 16_000, "a sick disk");
        if store.status().totals.failed_writes > before {
            failed_at.push(number);
        }
    }
    let between: Vec<u32> = failed_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(failed_at.len() >= 4 && between.is_sorted(), "{failed_at:?}");
    assert!(between[0] >= 16 && between[1] >= 32 && between[2] >= 64, "{between:?}");
    assert!(store.status().problem.is_some_and(|problem| problem.contains("cannot be written")));
}

#[test]
fn a_container_that_is_filled_or_sealed_after_a_restart_takes_its_extents_along() {
    for sealed in [false, true] {
        let (_, slow) = slow();
        let fast = SimFolder::new();
        let (one, mut bytes) = (id(100), [0; 8]);
        let store = tier(&slow, &fast, "lru");
        store.create(one, 20_000).unwrap();
        store.append(one, 0, &[1; 10_000]).unwrap();
        drop(store);
        // A store that does not know that the container is still being filled keeps some of it.
        let store = tier(&slow, &fast, "lru");
        for _ in 0..3 {
            store.read(one, 10, &mut bytes).unwrap();
        }
        assert_eq!(store.status().cached_extents, 1);
        if sealed {
            store.seal(one, 9_000).unwrap();
            assert!(store.read(one, 8_996, &mut bytes).is_err(), "past the end");
        } else {
            store.append(one, 10_000, &[2; 5_000]).unwrap();
            store.read(one, 10_000, &mut bytes).unwrap();
            assert_eq!(bytes, [2; 8]);
        }
        assert_eq!(store.status().cached_extents, 0, "it is another one by now");
    }
}

#[test]
fn extents_of_containers_that_went_while_it_was_closed_go_too() {
    let (slow_media, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    for number in [1, 2] {
        read(&store, number, 0, 9000, "to keep it");
    }
    drop(store);
    slow_media.remove("00000001.container").unwrap();
    let store = tier(&slow, &fast, "lru");
    assert_eq!(store.status().cached_extents, 1);
    read(&store, 2, 0, 9000, "what is kept");
    assert_eq!(store.status().totals.hits, 1);
}

#[test]
fn what_was_in_memory_alone_is_not_said_to_be_kept() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let options =
        TierOptions { size: TierSize::Bytes(20_000_000), ..options("w-tinylfu:memory=1") };
    let folder: Arc<dyn Folder> = Arc::new(fast.clone());
    let store = TieredStore::open(Arc::clone(&slow), folder, options, None).unwrap();
    read(&store, 1, 0, 9000, "into memory");
    read(&store, 1, 0, 9000, "from there");
    let status = store.status();
    assert_eq!((status.cached_extents, status.totals.writes, status.totals.hits), (0, 0, 1));
    assert!(status.waiting_bytes > 9000 && status.cached_bytes == 0, "{status:?}");
    drop(store);
    let saved = TieredStore::saved_status(&fast, &OWNER).unwrap();
    assert_eq!((saved.cached_extents, saved.cached_bytes), (0, 0));
}

#[test]
fn a_cold_scan_in_small_reads_leaves_next_to_nothing_and_a_second_pass_is_kept() {
    let slow: Arc<dyn ContainerStore> =
        Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())));
    let data = SplitMix64::new(1).bytes(4 << 20);
    for number in 0..8 {
        fill(&*slow, number, &data);
    }
    let fast = SimFolder::new();
    let options = TierOptions { size: TierSize::Bytes(64 << 20), ..options("lru") };
    let folder: Arc<dyn Folder> = Arc::new(fast.clone());
    let store = TieredStore::open(slow, folder, options, None).unwrap();
    let scan = || {
        for number in 0..8 {
            for start in (0..data.len() - 4112).step_by(4112) {
                let mut found = [0; 4112];
                store.read(id(number), start as u64, &mut found).unwrap();
                assert!(found == data[start..start + 4112]);
            }
        }
        store.status().totals
    };
    let once = scan();
    assert!(once.admitted_bytes * 100 <= 64 << 20, "{once:?}");
    let twice = scan();
    assert!(twice.admitted_bytes > 31 << 20, "what is read whole twice is kept: {twice:?}");
    let thrice = scan();
    assert!(thrice.hit_bytes - twice.hit_bytes > 31 << 20, "{thrice:?}");
    let more = thrice.admitted_bytes - twice.admitted_bytes;
    assert!(more < 1 << 20, "next to nothing is kept once more: {more}");
}

#[test]
fn the_wear_budget_is_kept_to_the_byte_whatever_is_read() {
    let (_, slow) = slow();
    for policy in ["lru", "toll"] {
        let fast = SimFolder::new();
        let options =
            TierOptions { writes_per_day: Some(WearBudget::Share(800)), ..options(policy) };
        let folder: Arc<dyn Folder> = Arc::new(fast.clone());
        let store = TieredStore::open(Arc::clone(&slow), folder, options.clone(), None).unwrap();
        let mut now = 1_800_000_000;
        let mut written = Vec::new();
        for hour in 0..60 {
            now += 3600;
            store.tick(now);
            read_many(&store, hour, 60, policy);
            let totals = store.status().totals;
            written.push(totals.written_bytes);
            let day_ago = written.len().checked_sub(25).map_or(0, |at| written[at]);
            assert!(totals.written_bytes - day_ago <= BYTES * 8 / 10, "{policy}, hour {hour}");
        }
        let all = *written.last().unwrap();
        assert!(all > BYTES / 2, "{policy}: the budget is made use of: {all}");
        assert!(store.status().totals.hits > 0);
        // It is not forgotten over a restart.
        let before = store.status();
        drop(store);
        let folder: Arc<dyn Folder> = Arc::new(fast.clone());
        let again = TieredStore::open(Arc::clone(&slow), folder, options, None).unwrap().status();
        assert!(again.written_last_day >= before.written_last_day, "{policy}");
        assert_eq!(again.writes_per_day, Some(BYTES * 8 / 10));
    }
}

/// Rule (a) of PLC-Cache: more references alone let a newcomer in.
#[test]
fn a_container_that_is_referred_to_more_often_replaces_others() {
    let admitted = |references: u32| {
        let (_, slow) = slow();
        let store = tier(&slow, &SimFolder::new(), "plc:filter=0,delay=0");
        store.tell_references(&(0..CONTAINERS).map(|n| (id(n), 10)).collect::<Vec<_>>());
        store.tell_references(&[(id(39), references)]);
        // Until the cache is full of what was used twice.
        for number in 0..30 {
            for start in [0, 20_000, 40_000, 60_000, 20_000, 40_000] {
                read(&store, number, start, 16_384, "to fill it");
            }
        }
        let before = store.status().totals.writes;
        for _ in 0..3 {
            read(&store, 39, 0, 16_384, "the newcomer");
        }
        store.status().totals.writes - before
    };
    assert_eq!([admitted(10), admitted(11)], [0, 1]);
}
