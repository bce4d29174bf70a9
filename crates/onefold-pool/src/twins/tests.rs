//! Tests: which records are taken for alike, and what is turned to which.
//! Room: onefold-pool.

use onefold_block::{BlockDevice, ByteSize, FaultKind, Folder, OpKind, SimFolder, SplitMix64};
use onefold_content::FingerprintKind;

use super::*;
use crate::format::container::{self, DirectoryEntry};
use crate::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Thoroughness};

const CHUNK: usize = 4096;
/// Blocks under a leaf of the maps.
const LEAF_BLOCKS: u64 = 512;

fn options() -> OpenOptions {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    OpenOptions { read_only: false, budgets }
}

/// A pool of so many different chunks, all in the store, and their places.
fn pool(fingerprint: FingerprintKind, chunks: u64) -> (SimFolder, Pool, Vec<Pair>) {
    let sim = SimFolder::new();
    let settings =
        PoolSettings { container_bytes: 256 << 10, fingerprint, ..PoolSettings::default() };
    Pool::create(&sim, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
    let pool = Pool::open(&sim, &options()).unwrap();
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    for n in 0..chunks {
        let mut data = SplitMix64::new(n).bytes(CHUNK / 16);
        data.resize(CHUNK, 0);
        volume.write_at(n * CHUNK as u64, &data, false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&sim, &options()).unwrap();
    let table: Vec<_> = {
        let engine = pool.inner.engine();
        engine.table.iter().map(|(id, info)| (id, info.len_bytes)).collect()
    };
    let mut pairs = Vec::new();
    for (id, len) in table.into_iter().filter(|(_, len)| *len > 0) {
        let entries = directories::load(&*pool.inner.plain, id, len.into()).unwrap();
        let pair = |(n, entry): (usize, &DirectoryEntry)| Pair::new(&entry.fingerprint, id, n);
        pairs.extend(entries.iter().enumerate().map(pair));
    }
    assert_eq!(pairs.len() as u64, chunks);
    (sim, pool, pairs)
}

/// The same place under another's key, as if 84 bits of the fingerprints were equal.
fn disguised(pair: Pair, as_another: Pair) -> Pair {
    let place = (1 << 44) - 1;
    Pair { key: as_another.key, rest: (as_another.rest & !place) | (pair.rest & place) }
}

#[test]
fn prefixes_that_collide_by_design_make_no_twins() {
    for kind in [FingerprintKind::Blake3, FingerprintKind::Crc32] {
        let (_sim, pool, pairs) = pool(kind, 10_001);
        let mut meeting = Meeting::default();
        let (mut twins, mut compared) = (Twins::default(), 0);
        for two in pairs.windows(2) {
            let group = [two[0], disguised(two[1], two[0])];
            assert!(group[0].may_equal(group[1]));
            meeting.add(&group);
            compared += 1;
        }
        pool.inner.verify_meeting(&mut meeting, &mut twins).unwrap();
        assert_eq!(compared, 10_000);
        assert!(twins.is_empty() && meeting.is_empty(), "{kind}");
    }
}

#[test]
fn a_record_that_some_still_refer_to_is_not_counted_as_dead() {
    let (_sim, pool, pairs) = pool(FingerprintKind::Blake3, 1000);
    let inner = &pool.inner;
    let volume = pool.volume("main").unwrap().state.number;
    let at = |block| {
        let mut entries = Vec::new();
        inner.map.entries(volume, Lba::new(block), 1, &mut entries).unwrap();
        entries[0].pba().unwrap()
    };
    // The last block is taken for a twin of the first, in whose container nothing may be shared.
    let (first, second) = (at(0), at(999));
    assert_ne!(first.container, second.container);
    let twin =
        || Twin { first, hash: pairs[0].hash(), places: [None; 2], shared: false, kept: false };
    for closing in [true, false] {
        inner.engine().table.set_closing(first.container, closing);
        let mut twins = Twins::default();
        twins.insert(second, twin());
        inner.turn(&[Reference { volume, lba: 999, pba: second }], &mut twins).unwrap();
        let twin = &twins.of[&second];
        assert_eq!((twin.kept, twin.shared), (closing, !closing));
        assert_eq!(at(999), if closing { second } else { first });
    }
}

#[test]
fn what_is_gone_or_damaged_is_passed_over_and_no_other_failure_is() {
    let (_sim, pool, pairs) = pool(FingerprintKind::Blake3, 100);
    let there = pairs[0].container();
    let full = || PoolError::NoSpace("a test".to_owned());
    let damaged = || PoolError::corrupt_whole("a test", "damaged");
    assert_eq!(pool.inner.passed_over(there, damaged()).unwrap(), 0);
    assert_eq!(pool.inner.passed_over(ContainerId::new(77), full()).unwrap(), 0);
    assert!(pool.inner.passed_over(there, full()).unwrap_err().is_no_space());
    // Of what is punched nothing may be shared.
    for punched in [0, 1] {
        pool.inner.engine().table.set_punched(there, punched);
        let mut met = Vec::new();
        let read = pool.inner.look_up(&[(0, pairs[0])], &mut met).unwrap();
        assert_eq!((met.len(), read > 0), (1 - usize::from(punched), punched == 0));
    }
}

#[test]
fn a_good_copy_is_not_given_up_for_a_damaged_one() {
    // Of weak fingerprints, the bytes are compared.
    let (strong, weak) = (FingerprintKind::Blake3, FingerprintKind::Crc32);
    for (kind, damaged) in [(strong, false), (strong, true), (weak, false), (weak, true)] {
        let (sim, first, _) = pool(kind, 400);
        // The same chunks once more, unknown to the index.
        first.fill_index_beside();
        let volume = first.volume("main").unwrap();
        for n in 0..400u64 {
            let mut data = SplitMix64::new(n).bytes(CHUNK / 16);
            data.resize(CHUNK, 0);
            volume.write_at((1000 + n) * CHUNK as u64, &data, false).unwrap();
        }
        drop(volume);
        first.close().unwrap();
        if damaged {
            // The first record of the oldest container.
            let containers = sim.subfolder("containers").unwrap();
            let oldest = containers.open(&containers.list().unwrap()[0]).unwrap();
            let (at, mut byte) = (container::HEADER_BYTES as u64 + 20, [0]);
            oldest.read(at, &mut byte).unwrap();
            oldest.write(at, &[byte[0] ^ 1]).unwrap();
        }
        let pool = Pool::open(&sim, &options()).unwrap();
        while !pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap().done {}
        let found = pool.status().unwrap().deduplication.found;
        assert_eq!(found, 400 - u64::from(damaged));
        let volume = pool.volume("main").unwrap();
        let mut read = vec![0; CHUNK];
        for n in 0..400u64 {
            volume.read_at((1000 + n) * CHUNK as u64, &mut read).unwrap();
            assert!(read[..CHUNK / 16] == SplitMix64::new(n).bytes(CHUNK / 16));
        }
    }
}

#[test]
fn a_leaf_of_the_maps_that_is_in_memory_is_less_work_than_one_that_is_not() {
    let (_sim, pool, _) = pool(FingerprintKind::Blake3, 10);
    let mut work = Vec::new();
    for _ in 0..2 {
        let mut twins = Twins::default();
        work.push(pool.inner.share_twins(&mut twins).unwrap());
    }
    assert_eq!(work, [LEAF_BYTES, LEAF_BYTES / IN_MEMORY_SHARE]);
}

/// A pool with a chunk in one container and so many others in the next, each under a leaf of its
/// own, and twins of which the first stays, as if all were alike. One more has no twin.
fn alike(others: u64) -> (SimFolder, Pool, Twins) {
    let (sim, first, _) = pool(FingerprintKind::Blake3, 1);
    let volume = first.volume("main").unwrap();
    for n in 1..=others + 1 {
        let mut data = SplitMix64::new(n).bytes(CHUNK / 16);
        data.resize(CHUNK, 0);
        volume.write_at(n * LEAF_BLOCKS * CHUNK as u64, &data, false).unwrap();
    }
    drop(volume);
    first.close().unwrap();
    let pool = Pool::open(&sim, &options()).unwrap();
    let (number, mut entries) = (pool.inner.all_volumes()[0].number, Vec::new());
    for n in 0..=others {
        pool.inner.map.entries(number, Lba::new(n * LEAF_BLOCKS), 1, &mut entries).unwrap();
    }
    let records: Vec<Pba> = entries.iter().filter_map(|entry| entry.pba()).collect();
    let mut twins = Twins::default();
    for (n, &second) in (0..).zip(&records[1..]) {
        assert_eq!(second.container, records[1].container);
        assert_ne!(second.container, records[0].container);
        let places = [Place::new(second.container, n), Place::new(records[0].container, 0)];
        let (first, hash) = (records[0], u64::from(n) + 1);
        twins.insert(second, Twin { first, hash, places, shared: false, kept: false });
    }
    twins.begin_walk(&pool.inner.engine().table, pool.inner.lineage_changes());
    (sim, pool, twins)
}

/// Turn so many blocks, the first of which finds no space. How many checkpoints that took.
fn turn_without_space(others: u64) -> u64 {
    let (sim, pool, mut twins) = alike(others);
    assert!(twins.is_full(others as usize) && !twins.is_full(others as usize + 1));
    let id = *twins.watched.keys().next().unwrap();
    let live = || u64::from(pool.inner.engine().table.get(id).unwrap().live_max);
    let twin = twins.of.values().next().unwrap();
    let ([second, first], hash) = (twin.places.map(Option::unwrap), twin.hash);
    pool.inner.index.insert_many(&[(hash, second)]);
    let knows = |place: Place| {
        let mut found = Vec::new();
        pool.inner.index.lookup_many(&[hash], &mut found);
        found[0].iter().any(|candidate| candidate == place)
    };
    let (before, checkpoints) = (live(), pool.activity().checkpoints);
    sim.fail_once(&[OpKind::Reserve], 1, FaultKind::Enospc);
    while !twins.is_empty() {
        pool.inner.share_twins(&mut twins).unwrap();
    }
    let found = pool.status().unwrap().deduplication.found;
    assert_eq!((found, before - live()), (others, others));
    assert!(knows(first) && !knows(second));
    let volume = pool.volume("main").unwrap();
    let mut read = vec![0; CHUNK / 16];
    for n in 0..=others + 1 {
        volume.read_at(n * LEAF_BLOCKS * CHUNK as u64, &mut read).unwrap();
        let seed = if n > others { n } else { 0 };
        assert!(read == SplitMix64::new(seed).bytes(CHUNK / 16), "block {n}");
    }
    pool.activity().checkpoints - checkpoints
}

#[test]
fn what_finds_no_space_is_turned_after_a_checkpoint_and_the_index_leads_to_what_stays() {
    assert_eq!([1, 9].map(turn_without_space), [1, 1]);
    assert!(turn_without_space(200) > 1, "more leaves than may be changed in memory");
}

#[test]
fn of_many_with_one_fingerprint_so_many_are_compared_with_each_other() {
    let pair = |rest| Pair { key: 1, rest };
    let mut meeting = Meeting::default();
    meeting.add(&(0..130).map(pair).collect::<Vec<Pair>>());
    let groups: Vec<&[(u32, Pair)]> = meeting.pairs.chunk_by(|a, b| a.0 == b.0).collect();
    assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [64, 64, 4]);
    assert!(groups.iter().all(|group| group[0].1 == pair(0)), "with the first of them");
    assert!(meeting.is_full(132) && !meeting.is_full(133));
}

#[test]
fn beside_a_snapshot_no_record_is_said_to_be_dead() {
    let (_sim, pool, mut twins) = alike(3);
    pool.snapshot("main@one", 0, false).unwrap();
    // Each leaf is the volume's own by then: turning a block in it tells nobody of the snapshot's.
    let volume = pool.volume("main").unwrap();
    for n in 1..=3 {
        volume.write_at((n * LEAF_BLOCKS + 1) * CHUNK as u64, &[7; CHUNK], false).unwrap();
    }
    pool.inner.checkpoint().unwrap();
    twins.begin_walk(&pool.inner.engine().table, pool.inner.lineage_changes());
    let watched = twins.watched.clone();
    let (&id, &then) = watched.first_key_value().unwrap();
    let live = || pool.inner.engine().table.get(id).unwrap().live_max;
    let before = live();
    while !twins.is_empty() {
        pool.inner.share_twins(&mut twins).unwrap();
    }
    assert_eq!(pool.status().unwrap().deduplication.found, 3);
    assert!(pool.inner.engine().table.watch(id) == Some(then));
    assert_eq!(live(), before, "the snapshot refers to them");
}

#[test]
fn chunks_with_one_weak_fingerprint_are_told_apart_by_their_bytes_up_to_so_many() {
    let unlike = UNLIKE_MAX as u64;
    let (_sim, pool, pairs) = pool(FingerprintKind::Crc32, unlike + 2);
    let inner = &pool.inner;
    // Each comes twice, as if all had one fingerprint.
    let (mut met, mut found, mut scratch) = (Vec::new(), Vec::new(), inner.take_scratch());
    for _ in 0..2 {
        for pair in &pairs {
            inner.look_up(&[(0, *pair)], &mut met).unwrap();
        }
    }
    let len: usize = met.iter().map(|met| met.pba.location.len_bytes()).sum();
    assert_eq!(inner.compare_bytes(&met, &mut found, &mut scratch), len as u64);
    assert_eq!(found.len() as u64, unlike, "of the first ones the second copy");
    assert!(found.iter().all(|(first, second)| first.pba == second.pba));
    assert_eq!(inner.counters.collisions.load(Ordering::Relaxed), unlike - 1);
}
