//! The table against its slow twin, and its laws one by one.
//! Room: onefold-estimate.

use std::collections::HashMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// Well-spread stand-ins for fingerprints.
fn fp(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

type Row = (u64, u64, u32, u32, u32);

fn rows(table: &Table) -> Vec<Row> {
    let mut rows = Vec::new();
    let visit = |e: &Entry<'_>| -> Result<(), Infallible> {
        rows.push((e.fp, e.count, e.len, e.first, e.group));
        Ok(())
    };
    let Ok(()) = table.visit_sorted(visit);
    rows
}

/// The slow obvious twin: all distinct fingerprints, then the least level at which they fit.
fn twin(seen: &[Seen], capacity: u64) -> (u8, Vec<Row>) {
    let mut all: HashMap<u64, Row> = HashMap::new();
    for s in seen {
        let row = all.entry(s.fp).or_insert((s.fp, 0, s.len, u32::MAX, 0));
        row.1 += 1;
        if s.file < row.3 {
            (row.3, row.4) = (s.file, s.group);
        }
    }
    let at = |level: u8| all.values().filter(|row| kept(row.0, level)).count() as u64;
    let level = (0..60).find(|&level| at(level) <= capacity).unwrap();
    let mut rows: Vec<Row> = all.into_values().filter(|row| kept(row.0, level)).collect();
    rows.sort_unstable();
    (level, rows)
}

fn seen(numbers: &[u16]) -> Vec<Seen> {
    let one = |(i, &n): (usize, &u16)| {
        let file = fp(i as u64) as u32 % 50;
        Seen { fp: fp(u64::from(n)), len: u32::from(n % 7) + 1, file, group: file * 3 }
    };
    numbers.iter().enumerate().map(one).collect()
}

proptest! {
    #[test]
    fn equals_its_twin_in_any_order_and_merged_from_parts(
        numbers in prop::collection::vec(0u16..3000, 1..4000),
        capacity in 40u64..2000,
        batch in 1usize..500,
        split in 0usize..4000,
    ) {
        let seen = seen(&numbers);
        let (level, expected) = twin(&seen, capacity);
        let fill = |seen: &[Seen]| {
            let table = Table::new(capacity, Some(1));
            let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
            for batch in seen.chunks(batch) {
                table.observe(batch, &mut scratch, &mut fresh);
                for &i in &fresh {
                    table.set_stored(batch[i as usize].fp, 0, batch[i as usize].len);
                }
            }
            table
        };
        let table = fill(&seen);
        prop_assert_eq!(table.level(), level);
        prop_assert_eq!(rows(&table), expected.clone());
        prop_assert_eq!(table.len(), expected.len() as u64);

        let mut backwards = seen.clone();
        backwards.reverse();
        prop_assert_eq!(rows(&fill(&backwards)), expected.clone());

        let (left, right) = seen.split_at(split.min(seen.len()));
        let (left, right) = (fill(left), fill(right));
        left.raise_to(right.level());
        right.visit(|_, e| left.absorb(e));
        prop_assert_eq!(left.level(), level);
        prop_assert_eq!(rows(&left), expected);
        left.visit(|_, e| assert_eq!(e.stored, &[e.len]));
    }
}

#[test]
fn threads_give_the_same_table_as_one() {
    let numbers: Vec<u16> = (0..60_000u32).map(|i| (i * i % 40_009) as u16).collect();
    let seen = seen(&numbers);
    let (level, expected) = twin(&seen, 3000);
    assert!(level > 0);
    let table = Table::new(3000, Some(0));
    std::thread::scope(|scope| {
        for quarter in seen.chunks(seen.len() / 4) {
            scope.spawn(|| {
                let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
                for batch in quarter.chunks(97) {
                    table.observe(batch, &mut scratch, &mut fresh);
                }
            });
        }
    });
    assert_eq!(table.level(), level);
    assert_eq!(rows(&table), expected);
}

#[test]
fn counts_go_past_32_bits() {
    let table = Table::new(100, None);
    let entry = Entry { fp: 8, count: 3 << 31, len: 1, first: 0, group: 0, stored: &[] };
    table.absorb(&entry);
    table.absorb(&entry);
    let seen = Seen { fp: 8, len: 1, file: 0, group: 0 };
    table.observe(&[seen, seen], &mut Scratch::default(), &mut Vec::new());
    assert_eq!(rows(&table), [(8, (3 << 32) + 2, 1, 0, 0)]);
}

#[test]
fn a_count_that_fills_up_spills_on_the_next_sighting() {
    let table = Table::new(100, None);
    let count = u64::from(u32::MAX);
    table.absorb(&Entry { fp: 8, count, len: 1, first: 0, group: 0, stored: &[] });
    let seen = Seen { fp: 8, len: 1, file: 0, group: 0 };
    table.observe(&[seen], &mut Scratch::default(), &mut Vec::new());
    assert_eq!(rows(&table)[0].1, count + 1);
    // A part may claim any count.
    let most = Entry { fp: 8, count: u64::MAX, len: 1, first: 0, group: 0, stored: &[] };
    for _ in 0..2 {
        table.absorb(&most);
        assert_eq!(rows(&table)[0].1, u64::MAX);
    }
}

/// Fingerprints of partition 3 that are kept at any level up to 20.
fn in_one_part(count: u64) -> Vec<Seen> {
    (0..count).map(|n| Seen { fp: 3 << 58 | n << 20, len: 1, file: 0, group: 0 }).collect()
}

/// A partition begins with 16 slots and has twice as many whenever seven eighths are taken, up to
/// the four thirds of its share that were planned; of these fifteen sixteenths may be taken. Past
/// them, by chance, an eighth and 16 more.
#[test]
fn slots_grow_as_planned() {
    let table = Table::new(64 * 100, None);
    let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
    let mut grown = Vec::new();
    for (number, seen) in (1..).zip(in_one_part(300)) {
        table.observe(&[seen], &mut scratch, &mut fresh);
        assert_eq!(fresh, [0]);
        let part = lock(&table.parts[3]);
        assert!(part.len == number && part.data.len() == part.slots * 4 && part.slots > number);
        if grown.last().is_none_or(|&(_, slots)| slots != part.slots) {
            grown.push((number, part.slots));
        }
    }
    // 133 is four thirds of 100; of 133, 165 and 201 slots 120, 150 and 180 may be taken.
    let wanted = [(1, 16), (15, 32), (29, 64), (57, 128), (113, 133), (121, 165), (151, 201)];
    assert_eq!(grown[..7], wanted);
    assert_eq!((table.len(), table.level()), (300, 0));
    // A share of fewer than twelve has 16 slots all the same.
    assert_eq!((Table::new(64 * 11, None).slots_max, Table::new(1, None).slots_max), (16, 16));
    assert_eq!((Table::new(64 * 13, None).slots_max, Table::new(65, None).slots_max), (17, 16));
}

#[test]
fn a_table_holds_its_capacity_and_halves_when_there_is_one_more() {
    let seen: Vec<Seen> =
        (0..100).map(|n| Seen { fp: n << 57 | n, len: 1, file: 0, group: 0 }).collect();
    let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
    let table = Table::new(100, None);
    table.observe(&seen, &mut scratch, &mut fresh);
    assert_eq!((table.level(), table.len(), fresh.len()), (0, 100, 100));
    table.observe(&[Seen { fp: 101, ..seen[0] }], &mut scratch, &mut fresh);
    assert_eq!((table.level(), table.len(), fresh.as_slice()), (1, 50, &[0][..]));
    // What is not in the sample any more makes no entry and is not owed a stored size.
    table.observe(&[Seen { fp: 201, ..seen[0] }], &mut scratch, &mut fresh);
    assert_eq!((table.len(), fresh.len()), (50, 0));
    table.raise_to(1);
    assert_eq!(table.level(), 1, "it is there already");
    table.raise_to(3);
    assert_eq!((table.level(), table.len()), (3, 13), "one in eight of a hundred");
    table.raise_to(2);
    assert_eq!(table.level(), 3, "never down");
}

#[test]
fn a_stored_size_is_unknown_until_it_is_set_and_only_of_what_is_there() {
    let table = Table::new(100, Some(2));
    table.set_stored(8, 0, 5);
    let seen = Seen { fp: 8, len: 1, file: 7, group: 9 };
    table.observe(&[seen], &mut Scratch::default(), &mut Vec::new());
    let stored = || {
        let mut all = Vec::new();
        table.visit(|part, entry| all.push((part, entry.fp, entry.stored.to_vec())));
        all
    };
    assert_eq!(stored(), [(0, 8, vec![u32::MAX, u32::MAX])]);
    assert!(!is_known(u32::MAX) && is_known(0) && is_known(u32::MAX - 1));
    table.set_stored(8, 1, 77);
    // Of the same partition, and not there: nothing is changed.
    table.set_stored(16, 0, 5);
    assert_eq!(stored(), [(0, 8, vec![u32::MAX, 77])]);
    assert_eq!(table.len(), 1);
}

#[test]
fn an_entry_belongs_to_the_lowest_file_and_keeps_its_group() {
    let table = Table::new(100, Some(1));
    let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
    for (file, group) in [(7, 70), (9, 90), (3, 30), (3, 31), (5, 50)] {
        table.observe(&[Seen { fp: 8, len: 1, file, group }], &mut scratch, &mut fresh);
    }
    assert_eq!(rows(&table), [(8, 5, 1, 3, 30)]);
    let entry = Entry { fp: 8, count: 4, len: 1, first: 2, group: 20, stored: &[6] };
    table.absorb(&entry);
    table.absorb(&Entry { first: 4, group: 40, ..entry });
    assert_eq!(rows(&table), [(8, 13, 1, 2, 20)]);
}

/// 32 bits hold this count and no more.
#[test]
fn counts_that_just_fit_do_not_spill() {
    let largest = u64::from(u32::MAX);
    for count in [largest - 1, largest, largest + 1, 2 * largest, 2 * largest + 1] {
        let table = Table::new(100, None);
        let entry = Entry { fp: 8, count: 1, len: 1, first: 0, group: 0, stored: &[] };
        table.absorb(&entry);
        table.absorb(&Entry { count: count - 1, ..entry });
        assert_eq!(rows(&table), [(8, count, 1, 0, 0)]);
        let spilled = !lock(&table.parts[0]).spill.is_empty();
        assert_eq!(spilled, count > largest, "{count}");
        // What leaves the sample leaves nothing.
        table.raise_to(4);
        assert!(rows(&table).is_empty() && lock(&table.parts[0]).spill.is_empty());
    }
}
