//! Tests: what a map has in memory and in its file once checkpoints were written, and what of both
//! comes back.
//! Room: onefold-pool.

use onefold_block::{ContainerId, Folder, Lba, SimFolder};

use super::page::{ENTRIES_PER_PAGE, PAGE_BYTES, height_for};
use super::tree::{Map, NO_SNAPSHOT, Root, Watch};
use super::{Below, Settled};
use crate::pba::{Location, MapEntry, Pba};

const LEAF: u64 = ENTRIES_PER_PAGE as u64;

/// Hears what was there before.
#[derive(Default)]
struct Heard(Vec<MapEntry>);

impl Watch for Heard {
    fn lost(&mut self, entry: MapEntry) {
        self.0.push(entry);
    }

    fn copied(&mut self, _: MapEntry) {}
}

fn stored(block: u64) -> MapEntry {
    let (container, location) = (ContainerId::new(7), Location::new(block as usize, 1));
    MapEntry::Stored(Pba { container, location })
}

/// A map with one volume, whose pages take the least memory that can be.
fn map_of(leaves: u64) -> Map {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 0, 1);
    let blocks = leaves * LEAF;
    map.add(1, Root { height: height_for(blocks), reference: 0 }, blocks, NO_SNAPSHOT).unwrap();
    map
}

fn set(map: &Map, leaf: u64, entry: MapEntry) {
    map.set(1, Lba::new(leaf * LEAF), &[entry], &mut Heard::default()).unwrap();
}

fn checkpoint(map: &Map, sequence: u64) {
    let mut frozen = map.freeze(sequence);
    map.write_out(&mut frozen).unwrap();
    map.checkpoint_is_durable();
}

fn pages(map: &Map) -> u64 {
    map.stats().bytes / (PAGE_BYTES as u64 + 64)
}

#[test]
fn what_was_written_leaves_memory_until_the_rest_fits() {
    let map = map_of(200);
    for leaf in 0..200 {
        set(&map, leaf, stored(leaf));
    }
    assert_eq!(pages(&map), 201, "what changed cannot go");
    checkpoint(&map, 2);
    assert_eq!((pages(&map), map.stats().pages), (64, 202), "the header is a page, too");
    // Pages that came to say nothing are neither in memory nor in the file.
    for leaf in 0..200 {
        set(&map, leaf, MapEntry::Hole);
    }
    checkpoint(&map, 3);
    assert_eq!((pages(&map), map.stats().pages), (0, 1));
}

#[test]
fn a_volume_that_is_removed_leaves_nothing_behind() {
    let map = map_of(3);
    for leaf in 0..3 {
        set(&map, leaf, stored(leaf));
    }
    checkpoint(&map, 2);
    assert_eq!((pages(&map), map.stats().pages, map.height_max()), (4, 5, 1));
    map.remove(1);
    assert_eq!((pages(&map), map.height_max()), (0, 0));
    assert!(map.root(1).is_err());
    assert_eq!(map.stats().pages, 5, "the durable checkpoint has them");
    checkpoint(&map, 3);
    assert_eq!(map.stats().pages, 1);
    // Nor does it if a snapshot has what it had: that stays.
    let map = map_of(1);
    set(&map, 0, stored(0));
    checkpoint(&map, 2);
    map.share_with(1, 2).unwrap();
    map.remove(1);
    checkpoint(&map, 3);
    assert_eq!((pages(&map), map.stats().pages), (0, 2));
}

#[test]
fn what_is_set_aside_is_enough_and_not_set_aside_again() {
    let map = map_of(100);
    for leaf in 0..100 {
        set(&map, leaf, stored(leaf));
    }
    assert!(map.lacking(0) > 100);
    map.reserve(5).unwrap();
    assert_eq!((map.lacking(5), map.lacking(6)), (0, 1));
    let len = map.file_slots().unwrap();
    map.reserve(5).unwrap();
    assert_eq!(map.file_slots().unwrap(), len);
}

#[test]
fn bitmaps_have_room_for_twice_what_is_to_be_written() {
    // A page of a bitmap tells of 32,768 slots, and there are two bitmaps.
    let map = map_of(1);
    assert_eq!([1, 16_383].map(|more| map.lacking(more)), [1 + 2, 16_383 + 2]);
    assert_eq!(map.lacking(16_384), 16_384 + 2 * (2 + 1), "two pages each, and one above");
}

#[test]
fn a_volume_that_is_filled_as_a_whole_has_changed() {
    // A page stays where it has room for more than the volume has.
    for (leaves, rest) in [(1, 0), (2, 1), (300, 1)] {
        let map = map_of(leaves);
        let (first, count) = (Lba::new(0), leaves * LEAF);
        let mut heard = Heard::default();
        let done = map.fill(1, first, count, MapEntry::Zero, 1, &mut heard).unwrap();
        assert!(done >= LEAF && map.is_dirty(), "{leaves} leaves, {done} blocks");
        map.fill(1, first, count, MapEntry::Zero, usize::MAX, &mut heard).unwrap();
        checkpoint(&map, 2);
        let mut found = Vec::new();
        map.entries(1, first, count, &mut found).unwrap();
        assert!(found.iter().all(|entry| *entry == MapEntry::Zero), "{leaves} leaves");
        assert_eq!((pages(&map), map.stats().pages), (rest, 1 + rest), "{leaves} leaves");
    }
}

#[test]
fn what_is_filled_where_no_leaf_is_counts_as_one_leaf_each() {
    let map = map_of(300);
    let fill = |first, leaves, leaves_max| {
        let (first, count) = (Lba::new(first * LEAF), leaves * LEAF);
        map.fill(1, first, count, MapEntry::Zero, leaves_max, &mut Heard::default()).unwrap()
    };
    assert_eq!(fill(1, 9, 2), 2 * LEAF);
    assert_eq!(fill(3, 7, 5), 5 * LEAF);
}

#[test]
fn of_trees_it_is_counted_what_they_have_stored_and_known_whether_anything_is_lost() {
    let map = map_of(3);
    let counted = |map: &Map| {
        let below = map.counted_below(1, map.root(1).unwrap(), &mut Below::default()).unwrap();
        (below.stored, below.lost)
    };
    assert_eq!(counted(&map), (0, false));
    set(&map, 0, stored(1));
    set(&map, 2, stored(2));
    checkpoint(&map, 2);
    assert_eq!(counted(&map), (2, false));
    set(&map, 2, MapEntry::Lost);
    checkpoint(&map, 3);
    assert_eq!(counted(&map), (1, true));
    // What is known of a page is not read again.
    let (root, mut known, before) = (map.root(1).unwrap(), Below::default(), map.pages_read());
    for _ in 0..3 {
        map.counted_below(1, root, &mut known).unwrap();
        assert_eq!(map.pages_read() - before, 3, "a page and two leaves");
    }
}

#[test]
fn a_tree_that_was_settled_is_as_it_was_changed_whatever_memory_had_of_it() {
    let map = map_of(1);
    set(&map, 0, stored(1));
    checkpoint(&map, 2);
    assert_eq!(pages(&map), 1);
    let change: &mut dyn FnMut(&mut super::page::Page) -> bool = &mut |page| {
        page[3] = MapEntry::Lost.raw();
        true
    };
    map.change_mended(1, (0, 2), change).unwrap();
    let mut settled = Settled::new(map.file_slots().unwrap());
    map.settle((1, 0), &mut settled, &|_| false).unwrap();
    let mut found = Vec::new();
    map.entries(1, Lba::new(0), 5, &mut found).unwrap();
    assert_eq!(found, [stored(1), MapEntry::Hole, MapEntry::Hole, MapEntry::Lost, MapEntry::Hole]);
}

#[test]
fn a_tree_gives_its_leaves_up_as_many_at_a_time_as_it_may() {
    let map = map_of(300);
    for leaf in [0, 1, 2, 257] {
        set(&map, leaf, stored(leaf));
    }
    checkpoint(&map, 2);
    // To look at what that takes changes nothing.
    let all = map.drop_pages((1, None), 0, usize::MAX, None).unwrap();
    assert!(all >= 300 * LEAF && !map.is_dirty());
    let (mut at, mut heard) = (0, Heard::default());
    for (leaves, upto) in [(1, LEAF), (2, 3 * LEAF), (1, 258 * LEAF)] {
        heard.0.clear();
        at = map.drop_pages((1, None), at, leaves, Some(&mut heard)).unwrap();
        assert_eq!(at, upto);
        let found = heard.0.iter().filter(|entry| entry.pba().is_some()).count();
        assert_eq!(found, leaves, "up to {upto}");
    }
    assert_eq!(map.drop_pages((1, None), at, 1, Some(&mut heard)).unwrap(), all);
    checkpoint(&map, 3);
    assert_eq!((pages(&map), map.stats().pages), (0, 1));
}

#[test]
fn a_quarter_of_the_pages_in_memory_may_change_before_somebody_is_called() {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 0, 1);
    for volume in 1..=17 {
        map.add(volume, Root { height: 0, reference: 0 }, 1, NO_SNAPSHOT).unwrap();
        assert!(!map.is_half_dirty(), "{} pages", volume - 1);
        map.set(volume, Lba::new(0), &[stored(1)], &mut Heard::default()).unwrap();
    }
    assert!(map.is_half_dirty());
}
