//! Tests: how far a fill goes, which pages it makes, and who hears of what was there.
//! Room: onefold-pool.

use onefold_block::{ContainerId, Folder, Lba, SimFolder};

use super::cursor::View;
use super::page::{ENTRIES_PER_PAGE, PAGE_BYTES, PageKey, height_for};
use super::tree::{Map, NO_SNAPSHOT, Root, Watch};
use crate::pba::{Location, MapEntry, Pba};

const VOLUME: u32 = 1;
const LEAF: u64 = ENTRIES_PER_PAGE as u64;
/// Two leaves and a part of a third.
const BLOCKS: u64 = 2 * LEAF + 76;

/// A map of one volume that is all holes.
fn map_of(blocks: u64) -> Map {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 1);
    let root = Root { height: height_for(blocks), reference: 0 };
    map.add(VOLUME, root, blocks, NO_SNAPSHOT).unwrap();
    map
}

fn stored(block: u64) -> MapEntry {
    let (container, location) = (ContainerId::new(7), Location::new(block as usize, 1));
    MapEntry::Stored(Pba { container, location })
}

/// Hears what was there before, in order.
#[derive(Default)]
struct Heard(Vec<MapEntry>);

impl Watch for Heard {
    fn lost(&mut self, entry: MapEntry) {
        self.0.push(entry);
    }

    fn copied(&mut self, entry: MapEntry) {
        panic!("there is no snapshot, and {entry:?} was copied");
    }
}

fn full(blocks: u64) -> Map {
    let map = map_of(blocks);
    let entries: Vec<MapEntry> = (0..blocks).map(stored).collect();
    map.set(VOLUME, Lba::new(0), &entries, &mut Heard::default()).unwrap();
    map
}

fn read(map: &Map, blocks: u64) -> Vec<MapEntry> {
    let mut found = Vec::new();
    map.entries(VOLUME, Lba::new(0), blocks, &mut found).unwrap();
    found
}

fn pages(map: &Map) -> u64 {
    map.stats().bytes / (PAGE_BYTES as u64 + 64)
}

#[test]
fn a_fill_visits_no_more_leaves_than_it_may_and_says_how_far_it_came() {
    let map = full(4 * LEAF);
    let (mut heard, mut at) = (Heard::default(), 10);
    let end = 3 * LEAF + 5;
    for (leaves_max, upto) in [(1, LEAF), (2, 3 * LEAF), (9, end)] {
        let first = Lba::new(at);
        let count = end - at;
        let done = map.fill(VOLUME, first, count, MapEntry::Hole, leaves_max, &mut heard).unwrap();
        assert_eq!(at + done, upto);
        at = upto;
        assert!(heard.0.iter().copied().eq((10..upto).map(stored)), "up to {upto}");
        let found = read(&map, 4 * LEAF);
        for (block, found) in (0..).zip(found) {
            let expected = if (10..upto).contains(&block) { MapEntry::Hole } else { stored(block) };
            assert_eq!(found, expected, "block {block} of {upto} filled");
        }
    }
}

#[test]
fn who_fills_whole_leaves_makes_no_pages_for_them() {
    // From, how many blocks, and how many leaves that takes beside the root.
    for (first, count, leaves) in [
        (0, LEAF, 0),
        (LEAF, LEAF, 0),
        (0, LEAF - 1, 1),
        (1, LEAF - 1, 1),
        (LEAF, BLOCKS - LEAF, 0),
        (LEAF, BLOCKS - LEAF - 1, 1),
        (LEAF - 1, 2, 2),
    ] {
        let map = map_of(BLOCKS);
        let (lba, mut heard) = (Lba::new(first), Heard::default());
        let done = map.fill(VOLUME, lba, count, MapEntry::Zero, 9, &mut heard).unwrap();
        let context = format!("{count} blocks from {first}");
        assert_eq!((done, pages(&map)), (count, 1 + leaves), "{context}");
        assert!(heard.0.iter().all(|entry| *entry == MapEntry::Hole), "{context}");
        let zero = |block: &u64| (first..first + count).contains(block);
        let found = read(&map, BLOCKS);
        for block in 0..BLOCKS {
            let expected = if zero(&block) { MapEntry::Zero } else { MapEntry::Hole };
            assert_eq!(found[block as usize], expected, "{context}: block {block}");
        }
        // What is uniform already is not visited.
        map.fill(VOLUME, lba, count, MapEntry::Zero, 9, &mut Heard::default()).unwrap();
        assert_eq!(pages(&map), 1 + leaves, "{context}, again");
    }
}

#[test]
fn a_run_of_blocks_without_pages_ends_where_it_was_asked_to_or_at_its_page() {
    let map = map_of(BLOCKS);
    map.set(VOLUME, Lba::new(LEAF), &[stored(1)], &mut Heard::default()).unwrap();
    let run = |first, count| map.uniform_run(VOLUME, Lba::new(first), count).unwrap();
    assert_eq!(run(3, 7), (7, MapEntry::Hole));
    assert_eq!(run(3, 5000), (LEAF - 3, MapEntry::Hole));
    assert_eq!(run(LEAF, 5000), (0, MapEntry::Hole));
    assert_eq!(run(2 * LEAF, 76), (76, MapEntry::Hole));
}

#[test]
fn each_former_entry_is_heard_of_once_also_where_damage_may_be() {
    let zero = MapEntry::Zero;
    let map = map_of(BLOCKS);
    let entries = [stored(1), MapEntry::Hole, zero, stored(2)];
    // Across the border of two leaves; the third has no page.
    map.set(VOLUME, Lba::new(LEAF - 2), &entries, &mut Heard::default()).unwrap();
    let mut heard = Vec::new();
    let mut on_old = |old| heard.push(old);
    map.set_over_damage(VOLUME, Lba::new(LEAF - 3), &[zero; 4], &mut on_old).unwrap();
    assert_eq!(heard, [MapEntry::Hole, stored(1), MapEntry::Hole, zero]);
    heard.clear();
    let mut on_old = |old| heard.push(old);
    map.fill_over_damage(VOLUME, Lba::new(LEAF), BLOCKS - LEAF, zero, &mut on_old).unwrap();
    heard.retain(|old| *old == stored(2));
    assert_eq!(heard, [stored(2)]);
    let expected = |block: u64| if block < LEAF - 3 { MapEntry::Hole } else { zero };
    assert!(read(&map, BLOCKS).into_iter().eq((0..BLOCKS).map(expected)));
    // A part of what has no page.
    let (hole, first) = (MapEntry::Hole, 2 * LEAF + 3);
    heard.clear();
    let mut on_old = |old| heard.push(old);
    map.fill_over_damage(VOLUME, Lba::new(first), 5, hole, &mut on_old).unwrap();
    assert_eq!(heard, [zero; 5]);
    // And of what has one.
    map.fill_over_damage(VOLUME, Lba::new(LEAF + 1), 2, hole, &mut |_| {}).unwrap();
    let cleared = [LEAF + 1, LEAF + 2].into_iter().chain(first..first + 5);
    let cleared: Vec<u64> = cleared.collect();
    let expected = |block| if cleared.contains(&block) { hole } else { expected(block) };
    assert!(read(&map, BLOCKS).into_iter().eq((0..BLOCKS).map(expected)));
}

#[test]
fn half_of_the_pages_in_memory_may_change_before_a_checkpoint_must_come() {
    // The smallest map holds 64 pages.
    let map = Map::new(SimFolder::new().create("map").unwrap(), 0, 1);
    for volume in 1..=33 {
        map.add(volume, Root { height: 0, reference: 0 }, 1, NO_SNAPSHOT).unwrap();
        assert!(!map.is_too_dirty(), "{} pages", volume - 1);
        map.set(volume, Lba::new(0), &[stored(1)], &mut Heard::default()).unwrap();
        assert!(map.is_dirty());
    }
    assert!(map.is_too_dirty());
}

#[test]
fn a_page_is_read_though_a_leaf_below_it_is_in_memory() {
    let map = full(2 * LEAF);
    let mut frozen = map.freeze(2);
    map.write_out(&mut frozen).unwrap();
    let root = PageKey { volume: VOLUME, level: 1, index: 0 };
    map.state().cache.remove(root);
    assert!(map.state().cache.get(PageKey::leaf(VOLUME, 0)).is_some(), "the first leaf is there");
    // As often as it may take: who asks repeats this until the page is there.
    let missing = match map.state().view(PageKey::leaf(VOLUME, LEAF)).unwrap() {
        View::Missing(missing) => missing,
        view => panic!("{view:?}"),
    };
    assert_eq!(missing.key, root);
    drop(map.read_in(map.state(), missing).unwrap());
    assert!(map.state().cache.get(root).is_some());
    assert_eq!(map.not_own_run(VOLUME, Lba::new(LEAF), LEAF).unwrap(), 0);
}
