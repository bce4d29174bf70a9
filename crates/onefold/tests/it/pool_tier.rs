//! The pool's engine over a tiered store, on simulated disks: what only the two rooms together can
//! get wrong. Containers are made, cached, emptied and removed, and both disks lose power.
//! Room: onefold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{
    BlockDevice as _, ByteSize, ContainerId, ContainerStore, CrashMode, SimFolder, SplitMix64,
    StoreError, StoreLayer,
};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore};
use onefold_pool::{
    Budgets, OpenOptions, Pool, PoolError, PoolIdentity, PoolSettings, SpaceTarget, Surroundings,
};

const CHUNK: usize = 4096;
const BLOCKS: usize = 500;
const IDENTITY: PoolIdentity = PoolIdentity { uuid: [3; 16], key: [5; 32] };

/// Open the pool on one disk with its cache on the other. Nothing is read from memory.
fn open(slow: &SimFolder, fast: &SimFolder) -> Result<(Pool, Arc<TieredStore>), PoolError> {
    open_in(slow, fast, None)
}

/// The same with memory that outlives the process.
fn open_in(
    slow: &SimFolder,
    fast: &SimFolder,
    handover: Option<Arc<dyn Handover>>,
) -> Result<(Pool, Arc<TieredStore>), PoolError> {
    open_as(slow, fast, handover, false)
}

fn open_as(
    slow: &SimFolder,
    fast: &SimFolder,
    handover: Option<Arc<dyn Handover>>,
    write_through: bool,
) -> Result<(Pool, Arc<TieredStore>), PoolError> {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let mut tier = None;
    let around = Surroundings {
        handover,
        wrap: Some(Box::new(|store, settings, identity| {
            let options = TierOptions {
                owner: identity.uuid,
                policy: "lru".to_owned(),
                size: TierSize::Bytes(2 << 20),
                container_bytes: settings.container_bytes,
                writes_per_day: None,
                write_through,
                fill_at_once: false,
            };
            match TieredStore::open(Arc::clone(&store), Arc::new(fast.clone()), options, None) {
                Ok(opened) => Arc::clone(tier.insert(Arc::new(opened))) as Arc<dyn ContainerStore>,
                Err(_) => store,
            }
        })),
    };
    let pool = Pool::open_in(slow, &OpenOptions { read_only: false, budgets }, around)?;
    // Without its fast disk the pool works; the tests give it one that can be opened.
    let tier = tier.ok_or_else(|| PoolError::Setting("no cache".to_owned()))?;
    Ok((pool, tier))
}

fn create() -> SimFolder {
    let slow = SimFolder::new();
    let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
    Pool::create(&slow, &settings, IDENTITY).unwrap();
    slow
}

/// Random writes and reads of one volume; every read is right. Ends at the first error.
fn work(
    pool: &Pool,
    plain: &mut [Vec<u8>],
    random: &mut SplitMix64,
    steps: usize,
) -> Result<(), String> {
    let volume = pool.volume("main").map_err(|e| e.to_string())?;
    let text = |e: onefold_block::BlockError| e.to_string();
    for _ in 0..steps {
        let first = random.below(BLOCKS as u64) as usize;
        let count = (1 + random.below(40) as usize).min(BLOCKS - first);
        let offset = (first * CHUNK) as u64;
        match random.below(10) {
            0..=2 => {
                // The state of what was not flushed is not known after an error.
                for block in &mut plain[first..first + count] {
                    *block = random.bytes(CHUNK);
                }
                let bytes = plain[first..first + count].concat();
                volume.write_at(offset, &bytes, true).map_err(text)?;
            }
            3 => {
                pool.flush().and_then(|()| pool.checkpoint()).map_err(|e| e.to_string())?;
            }
            _ => {
                let mut found = vec![0; count * CHUNK];
                volume.read_at(offset, &mut found).map_err(text)?;
                assert!(
                    found == plain[first..first + count].concat(),
                    "blocks from {first} differ"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn volumes_read_the_same_through_a_cache_over_many_restarts() {
    let (slow, fast) = (create(), SimFolder::new());
    let mut plain = vec![vec![0; CHUNK]; BLOCKS];
    let mut random = SplitMix64::new(1);
    for round in 0..8 {
        let (pool, tier) = open(&slow, &fast).unwrap();
        if round == 0 {
            pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
        }
        work(&pool, &mut plain, &mut random, 150).unwrap();
        let totals = tier.status().totals;
        assert!(totals.hits > 0 && totals.writes > 0, "round {round}: {totals:?}");
        assert_eq!(totals.bad_copies + totals.failed_writes, 0, "round {round}");
        pool.close().unwrap();
    }
    let report = Pool::check_in(&slow, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

#[test]
fn new_containers_are_kept_and_those_of_compaction_are_not() {
    let (slow, fast) = (create(), SimFolder::new());
    let (pool, tier) = open_as(&slow, &fast, None, true).unwrap();
    pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    let volume = pool.volume("main").unwrap();
    let bytes = SplitMix64::new(7).bytes(200 * CHUNK);
    volume.write_at(0, &bytes, true).unwrap();
    pool.flush().unwrap();
    let mut found = vec![0; 100 * CHUNK];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == bytes[..found.len()]);
    let totals = tier.status().totals;
    assert_eq!((totals.hits, totals.slow_bytes), (totals.requests, 0), "{totals:?}");
    assert!(totals.requests > 0 && totals.new_bytes > 256 << 10, "{totals:?}");
    // Two of three blocks die, and what is left moves.
    let other = SplitMix64::new(8).bytes(CHUNK);
    for block in (0..200).filter(|block| block % 3 != 0) {
        volume.write_at((block * CHUNK) as u64, &other, false).unwrap();
    }
    pool.flush().unwrap();
    let before = tier.status().totals;
    let target = SpaceTarget::new(1.05).unwrap();
    let ended = (0..10_000).any(|_| pool.background(100_000, target).unwrap().done);
    assert!(ended, "it never ends");
    pool.checkpoint().unwrap();
    assert!(pool.status().unwrap().activity.moved_bytes > 100_000, "something moved");
    assert_eq!(tier.status().totals.new_bytes, before.new_bytes, "what moved is not new");
    drop(volume);
    pool.close().unwrap();
}

#[test]
fn power_cuts_of_both_disks_leave_no_stale_copy_behind() {
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let mut hits = 0;
    for seed in 0..12 {
        let (mut slow, mut fast) = (create(), SimFolder::new());
        let mut random = SplitMix64::new(seed);
        let mut plain = vec![vec![0; CHUNK]; BLOCKS];
        let (pool, tier) = open(&slow, &fast).unwrap();
        pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
        drop((pool, tier));
        for round in 0..6 {
            let context = format!("seed {seed}, round {round}");
            let opened = open_as(&slow, &fast, None, seed % 2 == 0);
            let (pool, tier) = opened.unwrap_or_else(|e| panic!("{context}: {e}"));
            // What a cut left of the last writes is what counts from here on.
            let volume = pool.volume("main").unwrap();
            for (number, block) in plain.iter_mut().enumerate() {
                volume.read_at((number * CHUNK) as u64, block).unwrap();
            }
            // The cache may have served that; below it, the same bytes must lie.
            let bare = pool.clone();
            drop(volume);
            slow.crash_at(slow.op_count() + 20 + random.below(400));
            if random.below(2) == 0 {
                fast.crash_at(fast.op_count() + 1 + random.below(300));
            }
            let _ = work(&bare, &mut plain, &mut random, 200);
            hits += tier.status().totals.hits;
            drop((pool, bare, tier));
            let mode = modes[(seed as usize + round) % 3];
            slow = slow.after_crash(seed * 100 + round as u64, mode);
            fast = fast.after_crash(seed * 100 + round as u64, modes[round % 3]);
            // Without the cache and with it, the volume is the same.
            let report = Pool::check_in(&slow, &mut |_, _| {}).unwrap();
            assert!(report.is_sound(), "{context}: {:#?}", report.findings);
            let through = contents(&open(&slow, &fast).unwrap().0);
            let without = contents(&Pool::open(&slow, &OpenOptions::default()).unwrap());
            assert!(through == without, "{context}: the cache serves something else");
        }
    }
    assert!(hits > 100, "only {hits} reads were hits");
}

#[test]
fn a_killed_pool_reads_what_was_acknowledged_through_its_cache() {
    let (mut slow, mut fast, mut memory) = (create(), SimFolder::new(), SimHandover::new());
    let mut random = SplitMix64::new(23);
    let mut plain = vec![vec![0; CHUNK]; BLOCKS];
    let mut hits = 0;
    for round in 0..30 {
        let (pool, tier) = open_in(&slow, &fast, Some(Arc::new(memory.clone()))).unwrap();
        if round == 0 {
            pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
        }
        assert!(contents(&pool) == plain.concat(), "round {round}: something is old");
        let volume = pool.volume("main").unwrap();
        for step in 0..random.below(150) {
            let first = random.below(BLOCKS as u64 - 20) as usize;
            let count = 1 + random.below(20) as usize;
            let offset = (first * CHUNK) as u64;
            if random.below(2) == 0 {
                for block in &mut plain[first..first + count] {
                    *block = random.bytes(CHUNK);
                }
                // Seldom flushed, so that most of it is in memory alone when the process dies.
                let bytes = plain[first..first + count].concat();
                volume.write_at(offset, &bytes, random.below(40) == 0).unwrap();
            } else {
                let mut found = vec![0; count * CHUNK];
                volume.read_at(offset, &mut found).unwrap();
                assert!(found == plain[first..first + count].concat(), "round {round}, {step}");
            }
            if random.below(60) == 0 {
                pool.checkpoint().unwrap();
            }
        }
        tier.save_changes();
        hits = tier.status().totals.hits;
        slow = slow.after_crash(round, CrashMode::KeepEverything);
        fast = fast.after_crash(round, CrashMode::KeepEverything);
        memory = memory.after_kill();
    }
    assert!(hits > 100, "only {hits} reads were hits in all lives together");
}

/// A store that keeps what it is told of references.
struct Listening {
    store: Arc<dyn ContainerStore>,
    heard: Mutex<BTreeMap<ContainerId, u32>>,
}

impl StoreLayer for Listening {
    fn below(&self) -> &dyn ContainerStore {
        &*self.store
    }

    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        self.heard.lock().unwrap().extend(totals.iter().copied());
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        self.heard.lock().unwrap().remove(&id);
        self.store.remove(id)
    }
}

/// What a cache weighs containers by is what the pool counts: at checkpoints, and from the start.
#[test]
fn the_store_is_told_how_often_each_container_is_referred_to() {
    let slow = create();
    let open = || {
        let mut listening = None;
        let around = Surroundings {
            handover: None,
            wrap: Some(Box::new(|store, _, _| {
                let made = Arc::new(Listening { store, heard: Mutex::default() });
                Arc::clone(listening.insert(made)) as Arc<dyn ContainerStore>
            })),
        };
        let pool = Pool::open_in(&slow, &OpenOptions::default(), around).unwrap();
        (pool, listening.unwrap())
    };
    let (pool, listening) = open();
    let volume = pool.create_volume("main", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    let mut random = SplitMix64::new(7);
    let unique = random.bytes(300 * CHUNK);
    volume.write_at(0, &unique, true).unwrap();
    pool.checkpoint().unwrap();
    let sum = || listening.heard.lock().unwrap().values().map(|&n| u64::from(n)).sum::<u64>();
    assert_eq!(sum(), 300);
    // Duplicates of some of it: the containers that have these are referred to more often.
    volume.write_at(300 * CHUNK as u64, &unique[..200 * CHUNK], true).unwrap();
    pool.checkpoint().unwrap();
    assert_eq!(sum(), 500);
    let heard = listening.heard.lock().unwrap().clone();
    let (least, most) = (heard.values().min(), heard.values().max());
    assert!(heard.len() > 2 && most > least, "{heard:?}");
    drop(volume);
    pool.close().unwrap();
    drop(listening);
    let (_pool, listening) = open();
    assert_eq!(*listening.heard.lock().unwrap(), heard, "from the start");
}

fn contents(pool: &Pool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS * CHUNK];
    pool.volume("main").unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}
