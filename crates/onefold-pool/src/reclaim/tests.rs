//! Tests: which containers are taken, and how many at once.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, ByteSize, FaultKind, OpKind, SimFolder, SplitMix64};

use std::sync::Arc;

use super::*;
use crate::pba::Location;
use crate::{Budgets, OpenOptions, PoolIdentity, PoolSettings};

impl Reclaim {
    /// Whether pages of what snapshots pin are being given back.
    pub fn is_punching(&self) -> bool {
        matches!(self.work, Some(Work::Punch(Some(_))))
    }
}

#[test]
fn a_target_is_a_ratio_within_reason() {
    let target = SpaceTarget::new(1.5).unwrap();
    assert_eq!(target, SpaceTarget::default());
    assert_eq!(target.allowed(200), 300);
    assert_eq!((target.to_string(), target.stored_over_live()), ("1.50x".to_owned(), 1.5));
    assert_eq!(SpaceTarget::new(12.05).unwrap().to_string(), "12.05x");
    for wrong in [0.0, 1.0, 1.04, 101.0, f64::NAN, f64::INFINITY] {
        assert!(SpaceTarget::new(wrong).is_err(), "{wrong}");
    }
}

fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

/// Containers of 100 records, each with so many bytes and references.
fn table(containers: &[(u32, usize, u64)]) -> ContainerTable {
    let mut table = ContainerTable::default();
    for &(number, len_bytes, references) in containers {
        table.open(id(number));
        table.seal(id(number), len_bytes, 100);
        assert!(table.reference(id(number), references));
    }
    table
}

fn numbers(ids: &[ContainerId]) -> Vec<u32> {
    ids.iter().map(|id| id.get()).collect()
}

#[test]
fn the_emptiest_containers_are_taken_up_to_so_many_live_bytes_and_references() {
    let none = HashSet::new();
    let len = 200_000;
    let table = table(&[
        (1, len, 50),
        (2, len, 10),
        (3, len, 10),
        (4, len, 0),
        (5, len, 98),
        (6, len, 96),
        (7, len, 100),
        (8, 0, 5),
        (9, len, 1 << 16),
        (10, len, (1 << 16) + 1),
        (11, len / 2, 10),
    ]);
    let live = |number: u32| table.get(id(number)).unwrap().live_bytes();
    let taken = |bytes: u64| numbers(&emptiest(&table, &none, bytes));
    // What gives back less than one part in 32 is left alone, and what is not sealed or dead.
    assert_eq!(taken(u64::MAX), [2, 3, 11, 1, 6]);
    assert_eq!(taken(0), [2], "at least one");
    let (two, three) = (live(2) + live(3), live(2) + live(3) + live(11));
    assert_eq!(taken(two - 1), [2]);
    assert_eq!(taken(two), [2, 3]);
    assert_eq!(taken(three - 1), [2, 3]);
    assert_eq!(taken(three), [2, 3, 11]);
    let left_alone = HashSet::from([id(2), id(11)]);
    assert_eq!(numbers(&emptiest(&table, &left_alone, u64::MAX)), [3, 1, 6]);
}

#[test]
fn a_container_is_emptied_that_gives_back_exactly_one_part_in_32() {
    let taken = |references| emptiest(&table(&[(1, 100, references)]), &HashSet::new(), u64::MAX);
    assert_eq!(numbers(&taken(97)), [1]);
    assert_eq!(numbers(&taken(98)), []);
}

#[test]
fn containers_that_are_closed_or_too_popular_are_left_alone() {
    let mut table = table(&[(1, 1000, 1), (2, 1000, 1 << 16), (3, 1000, (1 << 16) + 1)]);
    let may = |table: &ContainerTable, number: u32| {
        is_candidate(id(number), table.get(id(number)).unwrap(), &HashSet::new())
    };
    assert!(may(&table, 1) && may(&table, 2) && !may(&table, 3));
    table.set_closing(id(1), true);
    assert!(!may(&table, 1));
    assert!(!is_candidate(id(2), table.get(id(2)).unwrap(), &HashSet::from([id(2)])));
}

#[test]
fn short_containers_are_merged_once_there_are_eight() {
    let capacity = 100_000;
    let few: Vec<(u32, usize, u64)> = (1..=7).map(|n| (n, 49_999, 100)).collect();
    let none = HashSet::new();
    assert_eq!(short(&table(&few), &none, capacity, u64::MAX), []);
    let mut enough = few.clone();
    enough.push((8, 50_000, 100));
    assert_eq!(short(&table(&enough), &none, capacity, u64::MAX), [], "one is half full");
    enough.push((9, 49_999, 100));
    let found = short(&table(&enough), &none, capacity, u64::MAX);
    assert_eq!(numbers(&found), [1, 2, 3, 4, 5, 6, 7, 9]);
    let found = short(&table(&enough), &none, capacity, 0);
    assert_eq!(numbers(&found), [1]);
}

#[test]
fn a_group_has_so_many_references_at_most_but_one_container_always() {
    let group = |refs: &[u64]| {
        let candidates = (1..).zip(refs).map(|(number, &refs)| (id(number), 10, refs));
        numbers(&take_group(candidates, 1000))
    };
    let half = REFERENCES_MAX / 2;
    assert_eq!(group(&[half, half, 1]), [1, 2]);
    assert_eq!(group(&[half, half + 1, 1]), [1]);
    assert_eq!(group(&[2 * half + 1, 1]), [1]);
    let candidates = (1..=5).map(|number| (id(number), 10, 1));
    assert_eq!(numbers(&take_group(candidates, 30)), [1, 2, 3]);
}

#[test]
fn a_batch_is_of_one_volume_and_no_more_than_move_at_once() {
    let reference = |volume: u32, lba: u64| {
        let pba = Pba { container: id(1), location: Location::new(8, 1) };
        Reference { volume, lba, pba }
    };
    let mut references: Vec<Reference> =
        (0..MOVES_PER_COMMIT as u64 + 3).map(|lba| reference(1, lba)).collect();
    assert_eq!(batch(&references).len(), MOVES_PER_COMMIT);
    references[5].volume = 2;
    assert_eq!(batch(&references).len(), 5);
    assert_eq!(batch(&references[5..]).len(), 1);
    assert_eq!(batch(&references[6..]).len(), MOVES_PER_COMMIT - 3);
}

fn pool() -> Pool {
    let folder = SimFolder::new();
    let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
    Pool::create(&folder, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap()
}

#[test]
fn a_count_takes_as_many_containers_as_their_references_fit_into_memory() {
    let pool = pool();
    // A quarter of the maps' memory.
    let fit = (1 << 18) / size_of::<Pba>() as u64;
    let (half, rest) = (fit / 2, fit - fit / 2);
    let sizes = [fit - 1, 1, 1, fit + 1, fit, half, rest, 1];
    let containers = [2, 3, 5, 7, 8, 9, 10, 12].into_iter().zip(sizes);
    let containers: Vec<_> = containers.map(|(number, size)| (number, 900, size)).collect();
    let table = table(&containers);
    let mut ranges = Vec::new();
    let mut after = 0;
    loop {
        let (from, last) = pool.inner.next_range(&table, id(after));
        assert_eq!(from.get(), after);
        if last.get() == after {
            break;
        }
        after = last.get();
        ranges.push(after);
    }
    assert_eq!(ranges, [3, 5, 7, 8, 10, 12]);
}

#[test]
fn writers_help_once_they_come_near_what_may_be_dead_and_more_when_it_is_passed() {
    let pool = pool();
    let inner = &pool.inner;
    pool.set_space_target(Some(SpaceTarget::new(1.5).unwrap()));
    let owed = |written: u64| {
        inner.lock_reclaim().debt_bytes = 0;
        inner.keep_pace(written).unwrap();
        inner.lock_reclaim().debt_bytes
    };
    // One container of ten million bytes, which are all alive, and one that is half dead.
    let set = |stored: usize, live: u64| {
        let mut engine = inner.engine();
        for number in [50, 51] {
            engine.table.remove(id(number));
        }
        engine.table.open(id(50));
        engine.table.seal(id(50), stored, 1_000_000);
        assert!(engine.table.reference(id(50), live));
        engine.table.totals()
    };
    let slack = inner.slack_bytes() as usize;
    let mut seen = Vec::new();
    for stored in [1_000_000, 1_415_000, 1_425_000, 1_495_000, 1_505_000] {
        // A million bytes are alive, about.
        let live = 1_000_000 * 1_000_000 / (stored + slack) as u64;
        let totals = set(stored + slack, live);
        let near = totals.live_bytes.abs_diff(1_000_000);
        assert!(near < 20_000, "{totals:?}");
        let over = (totals.stored_bytes - slack as u64) * 1000 / totals.live_bytes;
        seen.push((over, owed(10)));
    }
    let shares: Vec<u64> = seen.iter().map(|(_, owed)| owed / 10).collect();
    let from: Vec<u64> = seen
        .iter()
        .map(|(over, _)| match over {
            ..=1419 => 0,
            1420..=1500 => 4,
            _ => 16,
        })
        .collect();
    assert_eq!(shares, from, "{seen:?}");
    assert!(shares.contains(&0) && shares.contains(&4) && shares.contains(&16), "{seen:?}");
    // At exactly so much, nobody helps yet, or as little as before.
    for (percent, share) in [(142, 0), (150, 4)] {
        let target = SpaceTarget { percent };
        let meets = |stored: usize, live: u64| {
            let totals = set(stored, live);
            totals.stored_bytes - slack as u64 == target.allowed(totals.live_bytes)
        };
        let first = 10_000 * percent as usize + slack;
        let near = 1_000_000 * 1_000_000 / first as u64;
        let met = (first..first + 40)
            .any(|stored| (near - 20..near + 40).any(|live| meets(stored, live)));
        assert!(met, "some of them meet it");
        assert_eq!(owed(10), 10 * share, "{percent} %");
    }
    set(1_505_000 + slack, 1_000_000 * 1_000_000 / (1_505_000 + slack) as u64);
    // What is dead beside what snapshots pin is not counted.
    inner.pinned_dead.store(50_000, Ordering::Relaxed);
    assert_eq!(owed(10), 40);
    pool.set_space_target(None);
    assert_eq!(owed(10), 0);
    let size = ByteSize(1 << 20);
    set(0, 0);
    drop(pool.create_volume("main", size));
}

#[test]
fn each_owner_is_asked_for_its_own_records() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volumes = ["one", "two"].map(|name| pool.create_volume(name, ByteSize(1 << 20)).unwrap());
    // By turns two blocks of the one and one of the other, elsewhere in it.
    let mut expected = Vec::new();
    for n in 0..30_u64 {
        let of = usize::from(n % 3 == 2);
        let lba = n + 100 * of as u64;
        let bytes = SplitMix64::new(n).bytes(4096);
        volumes[of].write_at(lba * 4096, &bytes, false).unwrap();
        expected.push((volumes[of].state.number, lba));
    }
    drop(volumes);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let id = pool.inner.engine().table.iter().next().unwrap().0;
    let mut memory = Memory::default();
    assert!(pool.inner.ask_owners(id, &mut memory).unwrap() > 1);
    let found: Vec<_> = memory.references.iter().map(|found| (found.volume, found.lba)).collect();
    assert_eq!(found, expected);
}

/// Records of a full container of 256 KiB.
const FULL: u64 = 63;

/// A pool with a volume of two leaves, in which these blocks are written.
fn filled(blocks: impl Iterator<Item = u64>) -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
    let pool = crate::empty_pool::new(&folder, &settings);
    let volume = pool.create_volume("main", ByteSize(1024 * 4096)).unwrap();
    for block in blocks {
        let bytes = SplitMix64::new(block).bytes(4096);
        volume.write_at(block * 4096, &bytes, false).unwrap();
    }
    (folder, pool)
}

#[test]
fn a_full_disk_gets_what_can_be_moved_though_snapshots_pin_the_emptiest_containers() {
    let (folder, pool) = filled(0..FULL);
    let volume = pool.volume("main").unwrap();
    volume.trim(3 * 4096, (FULL - 3) * 4096, false).unwrap();
    pool.snapshot("main@one", 0, false).unwrap();
    for block in 100..100 + FULL {
        volume.write_at(block * 4096, &SplitMix64::new(block).bytes(4096), false).unwrap();
    }
    volume.trim(100 * 4096, (FULL / 2) * 4096, false).unwrap();
    drop(volume);
    // So that all of it is sealed.
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let references =
        |number: u32| pool.inner.engine().table.get(id(number)).map_or(0, |info| info.references);
    assert_eq!((references(1), references(2)), (6, FULL - FULL / 2));
    // Nothing comes back where it lies.
    folder.fail_from(&[OpKind::Punch], 1, FaultKind::Eio);
    assert!(pool.inner.make_room().unwrap());
    assert_eq!((references(1), references(2)), (6, 0));
    assert!(!pool.inner.make_room().unwrap(), "that was all");
    let mut bytes = vec![0; 4096];
    for block in (0..3).chain(100 + FULL / 2..100 + FULL) {
        pool.volume("main").unwrap().read_at(block * 4096, &mut bytes).unwrap();
        assert!(bytes == SplitMix64::new(block).bytes(4096), "block {block}");
    }
}

#[test]
fn a_count_holds_what_refers_to_containers_of_its_range_and_no_more() {
    let (_folder, pool) = filled((0..2 * FULL).chain(512..512 + 2 * FULL));
    let changes = pool.inner.lineage_changes();
    let (cursor, found) = (Cursor::default(), Vec::new());
    let mut work = Counting { cursor, range: (id(1), id(2)), found, changes };
    let (mut failed, mut step) = (0, BackgroundStep::default());
    assert!(!pool.inner.count(&mut work, &mut failed, 1, &mut step).unwrap());
    let found: Vec<u32> = work.found.iter().map(|pba| pba.container.get()).collect();
    assert_eq!(found, vec![2; FULL as usize]);
}

#[test]
fn pages_of_what_is_pinned_are_given_back_in_one_go_if_nobody_waits() {
    let (folder, pool) = filled((0..FULL).chain(512..512 + FULL));
    let volume = pool.volume("main").unwrap();
    for from in [2, 514] {
        volume.trim(from * 4096, (FULL - 2) * 4096, false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let mut reclaim = pool.inner.lock_reclaim();
    reclaim.pinned.extend(HashSet::from([id(1), id(2)]));
    let (mut pass, mut step) = (None, BackgroundStep::default());
    assert!(pool.inner.punch_pinned(&mut reclaim, &mut pass, u64::MAX, &mut step).unwrap());
    let back = pool.activity().punched_bytes;
    assert!(back > 2 * 200_000, "{back}");
    assert!((back..back + 10 * LEAF_BYTES).contains(&step.work_bytes), "{step:?}");
}

#[test]
fn writers_hear_how_much_is_dead_of_what_snapshots_pin() {
    let (folder, pool) = filled(0..FULL);
    pool.volume("main").unwrap().trim(4096, (FULL - 1) * 4096, false).unwrap();
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let inner = &pool.inner;
    let mut reclaim = inner.lock_reclaim();
    inner.pinned_dead.store(7, Ordering::Relaxed);
    for pinned in [false, true] {
        if pinned {
            reclaim.pinned.extend(HashSet::from([id(1)]));
        }
        assert!(inner.choose(&mut reclaim, Goal::Target(SpaceTarget::default())).is_none());
        let dead = inner.engine().table.get(id(1)).unwrap().dead_bytes();
        let expected = if pinned { dead } else { 0 };
        assert!(dead > 200_000 && inner.pinned_dead.load(Ordering::Relaxed) == expected);
    }
}

#[test]
fn a_pool_that_may_not_write_any_more_does_nothing_in_the_background() {
    let (_folder, pool) = filled(0..1);
    assert!(pool.background(1 << 20, SpaceTarget::default()).unwrap().done);
    pool.inner.poison.set("a test".to_owned()).unwrap();
    let refused = pool.background(1 << 20, SpaceTarget::default());
    assert!(matches!(refused, Err(PoolError::Poisoned(_))), "{refused:?}");
}

#[test]
fn who_finds_no_space_gives_up_what_was_under_way_first() {
    let (folder, pool) = filled(0..FULL);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let inner = &pool.inner;
    inner.engine().table.set_closing(id(1), true);
    let (memory, pinned) = (Memory::default(), HashSet::new());
    let emptying = Emptying { victims: vec![id(1)], phase: Phase::AskOwners(0), memory, pinned };
    inner.lock_reclaim().work = Some(Work::Empty(emptying));
    assert!(!inner.make_room().unwrap());
    assert!(!inner.engine().table.get(id(1)).unwrap().closing, "it may be shared again");
}

#[test]
fn nothing_of_a_volume_that_goes_is_moved() {
    let (_folder, pool) = filled(0..3);
    let state = Arc::clone(&pool.volume("main").unwrap().state);
    let mut held = Vec::new();
    pool.inner.map.entries(state.number, Lba::new(0), 1, &mut held).unwrap();
    let pba = held[0].pba().unwrap();
    let moved = |volume| {
        let batch = [Reference { volume, lba: 0, pba }];
        pool.inner.move_batch(&batch, &mut Records::default()).unwrap()
    };
    assert_eq!(moved(state.number + 1), 0, "gone");
    state.deleting.store(true, Ordering::Release);
    assert_eq!(moved(state.number), 0, "going");
}
