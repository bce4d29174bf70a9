//! Tests: what lives, what is dead, and which pages a checkpoint writes.
//! Room: onefold-pool.

use super::*;

#[test]
fn what_a_checkpoint_tells_is_known_as_it_is_told() {
    let id = ContainerId::new(700);
    let told =
        ContainerRecord { id, len_bytes: 9000, chunks: 7, references: 5, live_max: 6, punched: 1 };
    let mut table = ContainerTable::default();
    table.insert(&told);
    let info = *table.get(id).unwrap();
    let (gained, closing) = (0, false);
    let expected = ContainerInfo {
        len_bytes: 9000,
        chunks: 7,
        references: 5,
        live_max: 6,
        gained,
        closing,
        punched: 1,
    };
    assert_eq!((info, record(id, &info)), (expected, told));
    table.all_clean();
    assert!(table.freeze(701).pages.is_empty(), "the checkpoint has it");
    assert!(table.reference(id, 1));
    let [(2, _)] = table.freeze(701).pages[..] else { panic!("its page is written") };
    // Of what is not there nothing becomes known.
    table.seal(ContainerId::new(9), 100, 3);
    assert!(!table.release(ContainerId::new(9), 1));
    assert_eq!((table.len(), table.unseen()), (1, 0));
}

#[test]
fn only_sealed_containers_without_references_are_dead() {
    let [a, b, c] = [1, 2, 3].map(ContainerId::new);
    let mut table = ContainerTable::default();
    for id in [a, b, c] {
        table.open(id);
    }
    assert!(table.reference(a, 2) && table.reference(b, 1));
    table.seal(a, 100, 2);
    table.seal(b, 100, 1);
    assert_eq!(table.dead(), 0, "c is open, a and b are referred to");
    assert!(table.release(a, 2) && table.release(b, 1) && table.reference(b, 1));
    assert!(!table.release(b, 2), "more than there are");
    assert!(!table.reference(ContainerId::new(9), 1), "no such container");
    assert_eq!(table.dead(), 1);
    let totals = table.totals();
    let taken = table.take_dead();
    assert_eq!(taken.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [a]);
    assert_eq!((table.dead(), table.len()), (0, 2));
    table.put_back(taken);
    assert_eq!((table.dead(), table.len()), (1, 3));
    assert_eq!(totals, table.totals());
}

#[test]
fn what_lives_is_never_told_too_low_and_totals_follow() {
    let id = ContainerId::new(1);
    let mut table = ContainerTable::default();
    table.open(id);
    assert!(table.reference(id, 10));
    table.seal(id, 1000, 10);
    assert_eq!((table.totals().stored_bytes, table.totals().live_bytes), (1000, 1000));
    assert!(table.release(id, 4));
    assert_eq!((table.totals().live_bytes, table.unseen()), (600, 0));
    // Twenty more blocks share, and a pass finds that they share three records.
    assert!(table.reference(id, 20));
    assert_eq!(table.totals().live_bytes, 1000);
    table.begin_count();
    table.counted(id, 3);
    table.end_count(true);
    assert_eq!(table.totals().live_bytes, 300);
    assert!(table.release(id, 20));
    assert_eq!((table.totals().live_bytes, table.unseen()), (300, 20));
    assert!(table.reference(id, 1));
    assert_eq!(table.totals().live_bytes, 400, "it may be one that was dead");
    assert!(table.release(id, 6));
    assert_eq!((table.totals().live_bytes, table.unseen()), (100, 23));
    // What a count that ends too soon was to see is still to be seen.
    table.begin_count();
    assert_eq!((table.unseen(), table.unseen_for_good()), (0, 23));
    table.end_count(false);
    assert_eq!((table.unseen(), table.unseen_for_good()), (23, 23));
    table.begin_count();
    table.end_count(true);
    assert_eq!((table.unseen(), table.unseen_for_good()), (0, 0));
    table.set_punched(id, 0);
    assert!(table.is_shareable(id), "nothing of it is gone");
    table.set_closing(id, true);
    assert!(!table.is_shareable(id) && table.get(id).is_some());
    table.remove(id);
    assert_eq!(table.totals(), SpaceTotals::default());
}

#[test]
fn what_was_punched_is_not_stored_and_what_is_left_is_not_shared() {
    let id = ContainerId::new(1);
    let mut table = ContainerTable::default();
    table.open(id);
    assert!(table.reference(id, 5));
    table.seal(id, 100_000, 10);
    table.set_punched(id, 10);
    let totals = table.totals();
    assert_eq!((totals.stored_bytes, totals.live_bytes), (59_040, 50_000));
    assert_eq!(table.get(id).unwrap().dead_bytes(), 9040);
    assert!(!table.is_shareable(id));
    table.set_punched(id, 15);
    assert_eq!(table.totals().live_bytes, 38_560, "no more lives than is stored");
    assert!(table.release(id, 5));
    assert_eq!((table.dead(), table.totals().dead_bytes), (1, 38_560));
    table.remove(id);
    assert_eq!(table.totals(), SpaceTotals::default());
}

#[test]
fn what_was_given_up_is_dead_unless_somebody_shared_or_counted_meanwhile() {
    type Meanwhile = fn(&mut ContainerTable, ContainerId);
    let id = ContainerId::new(1);
    let table = || {
        let mut table = ContainerTable::default();
        table.open(id);
        assert!(table.reference(id, 12));
        table.seal(id, 4096, 10);
        table
    };
    let cases: [(Meanwhile, u32); 4] = [
        (|_, _| {}, 7),
        // The record that was shared may be one of those.
        (|table, id| assert!(table.reference(id, 1)), 10),
        (|table, id| table.counted(id, 9), 10),
        (|table, _| table.begin_count(), 10),
    ];
    for (number, (meanwhile, live_max)) in cases.into_iter().enumerate() {
        let mut table = table();
        let then = table.watch(id).unwrap();
        // Three records lose all of their references, of which there were five.
        assert!(table.release(id, 5));
        meanwhile(&mut table, id);
        table.died(id, 3, then);
        let info = table.get(id).unwrap();
        assert_eq!(info.live_max, live_max, "case {number}");
    }
    assert!(table().watch(ContainerId::new(2)).is_none());
}
#[test]
fn the_next_sealed_container_may_be_the_first_of_its_page() {
    let mut table = ContainerTable::default();
    for number in [5, 2 * RECORDS_PER_PAGE as u32] {
        table.open(ContainerId::new(number));
        table.seal(ContainerId::new(number), 1000, 2);
    }
    let next = |number| table.next_sealed(ContainerId::new(number)).map(|(id, _)| id.get());
    assert_eq!([next(4), next(5), next(511), next(512)], [Some(5), Some(512), Some(512), None]);
}

/// Over three pages, the second of which has none.
#[test]
fn containers_are_walked_across_pages_in_both_directions() {
    let numbers = [1, 254, 255, 512, 513, 767];
    let mut table = ContainerTable::default();
    assert_eq!((table.len(), table.pages_max()), (0, 1));
    for number in numbers {
        let id = ContainerId::new(number);
        table.open(id);
        assert!(table.reference(id, 1));
        if number != 255 && number != 512 {
            table.seal(id, 1000, 2);
        }
    }
    let ids = |found: &mut dyn Iterator<Item = (ContainerId, &ContainerInfo)>| {
        found.map(|(id, _)| id.get()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut table.iter()), numbers);
    assert_eq!(table.len(), 6);
    for number in 0..800 {
        let id = ContainerId::new(number);
        let (below, after): (Vec<u32>, Vec<u32>) =
            numbers.iter().filter(|&&n| n != number).partition(|&&n| n < number);
        assert_eq!(ids(&mut table.after(id)), after, "after {number}");
        assert!(ids(&mut table.below(id)).iter().rev().eq(&below), "below {number}");
        let sealed = after.iter().find(|&&n| n != 255 && n != 512);
        let next = table.next_sealed(id).map(|(id, info)| (id.get(), info.chunks));
        assert_eq!(next, sealed.map(|&n| (n, 2)), "sealed after {number}");
    }
    let page = size_of::<[Option<ContainerInfo>; RECORDS_PER_PAGE]>();
    let slot = size_of::<Option<TablePage>>();
    // One group of pages.
    assert!((2 * page + 256 * slot..2 * page + 260 * slot).contains(&table.bytes()));
    let sealed = table.sealed(ContainerId::new(513)).unwrap();
    assert_eq!((sealed.len_bytes, sealed.chunks), (1000, 2));
    assert_eq!(table.sealed(ContainerId::new(512)), None, "it is open");
    assert_eq!(table.sealed(ContainerId::new(300)), None, "there is none");
}

#[test]
fn pages_that_changed_are_frozen_once_and_again_when_they_were_not_written() {
    let frozen = |frozen: &FrozenTable| {
        let pages: Vec<usize> = frozen.pages.iter().map(|(number, _)| *number).collect();
        let told = frozen.references().iter().map(|(id, n)| (id.get(), *n)).collect();
        (pages, told, frozen.leaves)
    };
    let mut table = ContainerTable::default();
    for number in [600, 3, 4] {
        table.open(ContainerId::new(number));
        assert!(table.reference(ContainerId::new(number), u64::from(number)));
    }
    let first = table.freeze(601);
    let all = (vec![0, 2], vec![(3, 3), (4, 4), (600, 600)], 3);
    assert_eq!(frozen(&first), all);
    assert_eq!(frozen(&table.freeze(513)), (Vec::new(), Vec::new(), 3));
    assert_eq!(frozen(&table.freeze(512)), (Vec::new(), Vec::new(), 2));
    table.thaw(&first);
    table.thaw(&first);
    assert_eq!(frozen(&table.freeze(601)), all, "it was not written");
    assert!(table.release(ContainerId::new(4), 1));
    assert_eq!(frozen(&table.freeze(601)), (vec![0], vec![(3, 3), (4, 3)], 3));
    table.set_closing(ContainerId::new(4), true);
    assert_eq!(frozen(&table.freeze(601)).0, Vec::<usize>::new(), "that is in memory alone");
    // The last of a page goes, and the page with it.
    let pages = table.pages_max();
    table.remove(ContainerId::new(600));
    assert_eq!(table.pages_max(), pages, "it is to be written as empty");
    let emptied = table.freeze(601);
    assert_eq!(frozen(&emptied), (vec![2], Vec::new(), 3));
    assert_eq!((table.pages_max(), table.len()), (pages - 1, 2));
    table.thaw(&emptied);
    assert_eq!(frozen(&table.freeze(601)), (vec![2], Vec::new(), 3));
}

#[test]
fn references_are_counted_up_to_their_limit_and_down_to_none() {
    let id = ContainerId::new(1);
    let mut table = ContainerTable::default();
    table.open(id);
    table.seal(id, 4096, 10);
    assert!(table.reference(id, REFERENCES_MAX - 1));
    assert!(!table.reference(id, 2), "more than a checkpoint can tell of");
    assert!(table.reference(id, 1));
    assert_eq!(table.get(id).unwrap().references, REFERENCES_MAX);
    assert_eq!(table.watch(id), None, "more were gained than are counted");
    assert!(!table.release(id, REFERENCES_MAX + 1));
    assert!(table.release(id, REFERENCES_MAX));
    assert_eq!((table.dead(), table.get(id).unwrap().live()), (1, 0));
    // What was given up while it was filled may have been alive.
    let other = ContainerId::new(2);
    table.set_unseen(0);
    table.open(other);
    assert!(table.reference(other, 9) && table.release(other, 5));
    assert_eq!(table.unseen(), 0);
    table.seal(other, 4096, 6);
    assert_eq!(table.unseen(), 3, "five were given up, and two records are dead for sure");
}

#[test]
fn of_a_table_that_was_read_nothing_is_to_be_written() {
    let media = onefold_block::Folder::create(&onefold_block::SimFolder::new(), "map").unwrap();
    let map = Map::new(media, 1 << 20, 1);
    let mut table = ContainerTable::default();
    for number in [3, 700] {
        table.open(ContainerId::new(number));
        assert!(table.reference(ContainerId::new(number), 1));
    }
    let root = table.freeze(701).write(&mut PageArray::new(), &map, 1).unwrap();
    let (mut read, _) = ContainerTable::load(&map, (root, 701), &mut |error| Err(error)).unwrap();
    let known: Vec<_> = read.iter().map(|(id, info)| (id.get(), info.references)).collect();
    assert_eq!(known, [(3, 1), (700, 1)]);
    assert!(read.freeze(701).pages.is_empty());
}
