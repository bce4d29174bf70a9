//! Tests: trees that share pages, of which some are damaged: what is had again, what is lost, what
//! trees have in common then, and who hears of it.
//! Room: onefold-pool.
//! What must come back is worked out from the references of all trees as they were before.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::{ContainerId, Folder, Lba, SimFolder};

use super::cursor::Missing;
use super::family_tests::{LEAF, LEAVES, Made, References, Stage};
use super::mended::PageId;
use super::page::{
    PAGE_BYTES, Page, PageKey, PageRef, Place, Words, raw_reference, set_reference, uniform_page,
};
use super::tree::{Map, NO_SNAPSHOT, Root};
use super::{Below, Mender, Settled, Visited};
use crate::pba::{Location, MapEntry, Pba, RAW_HOLE, RAW_LOST};

/// What a record must not be in to be had.
const GONE: ContainerId = ContainerId::new(5);

/// Lets what lies in one container be lost, and keeps what it hears.
#[derive(Default)]
struct Hears(Vec<(u64, u64)>);

impl Mender for Hears {
    fn may_stay(&mut self, entry: MapEntry) -> bool {
        entry.pba().is_none_or(|pba| pba.container != GONE)
    }

    fn lost(&mut self, first: u64, count: u64) {
        self.0.push((first, count));
    }
}

/// Blocks, as runs.
#[derive(Default)]
struct Runs(Vec<std::ops::Range<u64>>);

impl Runs {
    /// Of ranges in any order.
    fn of(ranges: &[(u64, u64)]) -> Self {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        for (first, count) in sorted {
            match runs.last_mut() {
                Some(run) if run.end >= first => run.end = run.end.max(first + count),
                _ => runs.push(first..first + count),
            }
        }
        Self(runs)
    }

    fn contains(&self, block: u64) -> bool {
        let at = self.0.partition_point(|run| run.end <= block);
        self.0.get(at).is_some_and(|run| run.contains(&block))
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }
}

/// Which pages of which trees there are, and what is damaged of them.
struct Known<'a> {
    stage: &'a Stage,
    all: &'a References,
    damaged: &'a BTreeSet<u32>,
}

impl Known<'_> {
    fn is_good(&self, tree: u32, level: u8, index: u64) -> bool {
        let place = self.all[&(tree, level, index)].place();
        place.is_none_or(|place| !self.damaged.contains(&place.slot))
    }

    fn has(&self, heir: u32, of: (u32, u8, u64)) -> bool {
        let wanted = self.all[&of];
        wanted.place().is_some() && self.all[&(heir, of.1, of.2)] == wanted
    }

    /// The first that had this page.
    fn owner(&self, mut tree: u32, level: u8, index: u64) -> u32 {
        loop {
            let from = self.stage.made.iter().find(|made| made.number == tree).unwrap().from;
            if from == 0 || !self.has(from, (tree, level, index)) {
                return tree;
            }
            tree = from;
        }
    }

    fn made_from(&self, tree: u32) -> Vec<u32> {
        let mut all = self.stage.heirs(tree);
        let mut at = 0;
        while at < all.len() {
            all.extend(self.stage.heirs(all[at]));
            at += 1;
        }
        all
    }

    /// Whether a leaf is reached, or is again by what those have unchanged that were made from the
    /// tree whose own the page is that cannot be read.
    fn is_there(&self, tree: u32, leaf: u64) -> bool {
        let inner = leaf / 256;
        if !self.is_good(tree, 0, leaf) {
            return false;
        }
        let mut owner = tree;
        if !self.is_good(tree, 2, 0) {
            owner = self.owner(tree, 2, 0);
            let by_inner =
                |heir: &u32| self.is_good(*heir, 2, 0) && self.has(*heir, (tree, 1, inner));
            if !self.made_from(owner).iter().any(by_inner) {
                return self.is_shared(owner, tree, leaf);
            }
        }
        if self.is_good(tree, 1, inner) {
            return true;
        }
        self.is_shared(self.owner(owner, 1, inner), tree, leaf)
    }

    fn is_shared(&self, owner: u32, tree: u32, leaf: u64) -> bool {
        let read = |heir: u32| self.is_good(heir, 2, 0) && self.is_good(heir, 1, leaf / 256);
        let by_leaf = |heir: &u32| read(*heir) && self.has(*heir, (tree, 0, leaf));
        self.made_from(owner).iter().any(by_leaf)
    }
}

/// Damage up to four pages; their slots.
fn damage(stage: &mut Stage, all: &References) -> BTreeSet<u32> {
    let places = all.values().filter_map(|reference| reference.place());
    let pages: BTreeSet<u32> = places.map(|place| place.slot).collect();
    let pages: Vec<u32> = pages.into_iter().collect();
    let mut damaged = BTreeSet::new();
    for _ in 0..=stage.random.below(3) {
        let slot = pages[stage.random.below(pages.len() as u64) as usize];
        if damaged.insert(slot) {
            stage.media.write(u64::from(slot) * PAGE_BYTES as u64 + 9, &[0xA5; 8]).unwrap();
        }
    }
    stage.map.forget_clean();
    damaged
}

/// As a repair does it; what was heard to be lost.
fn repair(stage: &Stage) -> (Settled, Vec<(u64, u64)>) {
    let (map, order) = (&stage.map, stage.in_order());
    for made in order.iter().rev() {
        map.salvage(made.number, &|number| stage.heirs(number)).unwrap();
    }
    map.forget_clean();
    let mut visited = Visited::new(map.file_slots().unwrap());
    let mut heard = Vec::new();
    for made in &order {
        let mut hears = Hears::default();
        map.mend(made.number, &mut visited, &mut hears).unwrap();
        heard.extend(hears.0);
    }
    map.forget_clean();
    map.begin_checkpoint(stage.sequence + 1);
    let mut settled = Settled::new(map.file_slots().unwrap());
    for made in &order {
        map.settle((made.number, made.from), &mut settled, &|_| false).unwrap();
    }
    map.forget_clean();
    (settled, heard)
}

/// Blocks of a tree that are said to be lost.
fn told(stage: &Stage, settled: &Settled, tree: u32) -> Runs {
    let mut lost = Vec::new();
    let mut hear = |first, count, is_lost: bool| {
        assert!(is_lost, "nothing was had again");
        lost.push((first, count));
    };
    stage.map.told(tree, settled, &mut hear).unwrap();
    assert!(lost.is_sorted(), "tree {tree}");
    Runs::of(&lost)
}

/// Past the end nothing is stored, and nothing lost but where a page above says so of all that is
/// below it: that goes before a volume grows.
fn assert_ends(known: &Known<'_>, tree: u32, context: &str) {
    let (map, blocks) = (&known.stage.map, known.stage.blocks);
    map.resize(tree, 300 * LEAF).unwrap();
    let root = known.is_good(tree, 2, 0);
    let strict = [root && known.is_good(tree, 1, 1), root];
    let mut past = Vec::new();
    map.entries(tree, Lba::new(blocks), 300 * LEAF - blocks, &mut past).unwrap();
    for (block, entry) in (blocks..).zip(past) {
        let may_be_lost = !strict[usize::from(block >= 290 * LEAF)];
        let fits = entry == MapEntry::Hole || may_be_lost && entry == MapEntry::Lost;
        assert!(fits, "{context}: {block} is {entry:?}");
    }
}

/// What was one page is one page, born when it was; how often.
fn assert_shares(known: &Known<'_>, after: &References, context: &str) -> usize {
    let mut shared = 0;
    for (key, was) in known.all {
        let (number, level, index) = *key;
        let (Some(was), Some(now)) = (was.place(), after[key].place()) else { continue };
        assert_eq!(was.birth, now.birth, "{context}: {key:?}");
        for other in known.stage.made.iter().filter(|other| other.number > number) {
            let other = (other.number, level, index);
            // Unless it is lost to the other one.
            if known.all[&other].place() == Some(was)
                && let Some(theirs) = after[&other].place()
            {
                shared += 1;
                assert_eq!(theirs, now, "{context}: {key:?}, {other:?}");
            }
        }
    }
    shared
}

#[test]
fn what_cannot_be_read_comes_back_from_whoever_has_it_unchanged_and_is_lost_otherwise() {
    let (mut back, mut gone, mut shared) = (0, 0, 0);
    for seed in 0..40 {
        let mut stage = Stage::new(seed);
        let (order, all) = (stage.in_order(), stage.references());
        let reads = |stage: &Stage, made: &Made| (made.number, stage.reads(made.number));
        let before: BTreeMap<u32, _> = order.iter().map(|made| reads(&stage, made)).collect();
        let damaged = damage(&mut stage, &all);
        let context = format!("seed {seed}, {damaged:?} damaged");
        let known = Known { stage: &stage, all: &all, damaged: &damaged };
        let (settled, heard) = repair(&stage);
        let heard = Runs::of(&heard);
        for made in &order {
            let (number, now) = reads(&stage, made);
            let context = format!("{context}, tree {number}");
            let lost = told(&stage, &settled, number);
            let mut there = BTreeMap::new();
            for leaf in LEAVES {
                let readable = known.is_good(number, 1, leaf / 256) && known.is_good(number, 2, 0);
                let is = known.is_there(number, leaf);
                back += usize::from(is && !readable);
                gone += usize::from(!is);
                there.insert(leaf, is);
            }
            let mut stored = 0;
            for ((block, was), (_, now)) in before[&number].iter().zip(&now) {
                let stays =
                    there[&(block / LEAF)] && was.pba().is_none_or(|pba| pba.container != GONE);
                let expected = if stays { *was } else { MapEntry::Lost };
                assert_eq!(*now, expected, "{context}: block {block}");
                assert_eq!(lost.contains(*block), !stays, "{context}: told of {block}");
                // It was heard of with the one tree whose own its page is.
                assert!(stays || heard.contains(*block), "{context}: {block} was not heard of");
                stored += u64::from(now.pba().is_some());
            }
            assert!(lost.0.last().is_none_or(|run| run.end <= stage.blocks), "{context}");
            let root = stage.map.root(number).unwrap();
            let counted = stage.map.counted_below(number, root, &mut Below::default()).unwrap();
            assert_eq!((counted.stored, counted.lost), (stored, lost.len() > 0));
            assert_ends(&known, number, &context);
        }
        shared += assert_shares(&known, &stage.references(), &context);
    }
    assert!(back > 20 && gone > 20 && shared > 1000, "{back} back, {gone} gone, {shared} shared");
}

#[test]
fn a_leaf_that_is_changed_where_there_was_no_page_is_beside_what_there_was() {
    for (raw, entry) in [(RAW_HOLE, MapEntry::Hole), (RAW_LOST, MapEntry::Lost)] {
        let media = SimFolder::new().create("map").unwrap();
        let map = Map::new(media, 1 << 20, 5);
        let blocks = 300 * LEAF;
        let root = Root { height: 2, reference: PageRef::Uniform(raw).raw() };
        map.add(7, root, blocks, NO_SNAPSHOT).unwrap();
        let place = Pba { container: ContainerId::new(3), location: Location::new(9, 1) };
        let stored = MapEntry::Stored(place);
        for leaf in [0, 257, 0] {
            map.change_mended(7, (leaf * LEAF, 4), &mut |page| {
                page[leaf as usize % 256 + 1] = stored.raw();
                true
            })
            .unwrap();
        }
        // Who changes nothing leaves nothing behind.
        map.change_mended(7, (2 * LEAF, 4), &mut |_| false).unwrap();
        let mut settled = Settled::new(map.file_slots().unwrap());
        map.settle((7, 0), &mut settled, &|block| block == 1).unwrap();
        let root = PageRef::from_raw(map.root(7).unwrap().reference).unwrap();
        assert_eq!(root.place().unwrap().birth, 4);
        map.forget_clean();
        let mut found = Vec::new();
        map.entries(7, Lba::new(0), blocks, &mut found).unwrap();
        for (block, found) in (0..).zip(found) {
            let is = if [1, 257 * LEAF + 2].contains(&block) { stored } else { entry };
            assert_eq!(found, is, "block {block} of {entry:?}");
        }
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        map.told(7, &settled, &mut |first, count, is_lost| {
            if is_lost { &mut lost } else { &mut back }.push((first, count));
        })
        .unwrap();
        assert_eq!(back, [(1, 1)], "of the two, one was had again");
        let gone = Runs::of(&lost);
        assert_eq!(gone.len(), if raw == RAW_LOST { blocks - 2 } else { 0 });
        assert!(gone.0.last().is_none_or(|run| run.end <= blocks));
    }
}

/// A page in the map's file.
fn put(map: &Map, page: &Page, words: Words) -> PageRef {
    map.place(&[page], words, 2).unwrap()[0]
}

/// The pages of a tree by their levels, first blocks and births of what refers to them, or which
/// blocks are under one that cannot be had.
fn walked(map: &Map, reference: u128) -> Vec<Result<(u8, u64, u64), String>> {
    let mut seen = Vec::new();
    map.walk(1, Root { height: 1, reference }, 5, &mut |page| {
        seen.push(page.map(|page| (page.level, page.first_block, page.above)).map_err(|error| {
            let text = error.to_string();
            let blocks = text.split_once("blocks ").and_then(|(_, rest)| rest.split_once(')'));
            blocks.map_or_else(String::new, |(blocks, _)| blocks.to_owned())
        }));
        true
    });
    seen
}

#[test]
fn what_makes_no_sense_in_a_page_that_is_whole_is_lost_and_nothing_else_is() {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
    let stored = |unit: usize, container: u32| {
        let (container, location) = (ContainerId::new(container), Location::new(unit, 1));
        MapEntry::Stored(Pba { container, location })
    };
    let mut leaf = uniform_page(0, RAW_HOLE);
    (leaf[0], leaf[1], leaf[2]) = (stored(1, 1).raw(), u64::MAX, stored(2, GONE.get()).raw());
    let leaf = put(&map, &leaf, Words::Entries);
    let mut whole = uniform_page(0, RAW_HOLE);
    whole[7] = stored(8, 2).raw();
    let whole = put(&map, &whole, Words::Entries);
    let mut root = uniform_page(1, RAW_HOLE);
    // References that are none, first and last among others.
    for number in [0, 5, 255] {
        (root[2 * number], root[2 * number + 1]) = (3, 0);
    }
    set_reference(&mut root, 1, leaf);
    set_reference(&mut root, 2, whole);
    let root = put(&map, &root, Words::References);
    let blocks = 256 * LEAF - 9;
    map.add(1, Root { height: 1, reference: root.raw() }, blocks, NO_SNAPSHOT).unwrap();
    map.add(2, Root { height: 1, reference: root.raw() }, blocks, 2).unwrap();
    let none = |n: u64| Err(format!("{}..{}", n * LEAF, (n + 1) * LEAF));
    assert_eq!(
        walked(&map, root.raw()),
        [Ok((1, 0, 5)), none(0), Ok((0, LEAF, 2)), Ok((0, 2 * LEAF, 2)), none(5), none(255)]
    );
    let mut hears = Hears::default();
    let mut visited = Visited::new(map.file_slots().unwrap());
    map.mend(1, &mut visited, &mut hears).unwrap();
    let last = 255 * LEAF;
    let lost = [(0, LEAF), (LEAF + 1, 1), (LEAF + 2, 1), (5 * LEAF, LEAF), (last, LEAF - 9)];
    assert_eq!(hears.0, lost);
    map.forget_clean();
    map.entries(2, Lba::new(0), blocks, &mut Vec::new()).unwrap();
    // Who shares it is not asked again.
    let mut again = Hears::default();
    map.mend(2, &mut visited, &mut again).unwrap();
    assert_eq!(again.0, []);
    let mut settled = Settled::new(map.file_slots().unwrap());
    for (tree, from) in [(1, 0), (2, 1)] {
        map.settle((tree, from), &mut settled, &|_| false).unwrap();
        let mut told = Vec::new();
        map.told(tree, &settled, &mut |first, count, _| told.push((first, count))).unwrap();
        assert_eq!(told, lost, "tree {tree}");
        let mut found = Vec::new();
        map.entries(tree, Lba::new(0), blocks, &mut found).unwrap();
        let gone = Runs::of(&lost);
        for (block, found) in (0..).zip(found) {
            let is = match block {
                _ if gone.contains(block) => MapEntry::Lost,
                LEAF => stored(1, 1),
                block if block == 2 * LEAF + 7 => stored(8, 2),
                _ => MapEntry::Hole,
            };
            assert_eq!(found, is, "block {block} of tree {tree}");
        }
    }
    let after = map.root(1).unwrap().reference;
    assert!(after == map.root(2).unwrap().reference && after != root.raw());
    assert!(walked(&map, after).iter().all(Result::is_ok));
    let PageRef::Stored { place, check } = PageRef::from_raw(after).unwrap() else { panic!() };
    let reference = raw_reference(&map.read_slot(place, check).unwrap(), 2);
    assert_eq!(PageRef::from_raw(reference), Some(whole), "what is good stays where it is");
}

#[test]
fn over_a_page_that_cannot_be_read_entries_are_set_and_the_rest_of_it_is_lost() {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
    let mut page = uniform_page(0, RAW_HOLE);
    page[7] = RAW_LOST;
    let leaf = put(&map, &page, Words::Entries);
    let PageRef::Stored { place, check } = leaf else { panic!("it was written") };
    let damaged = PageRef::Stored { place, check: check ^ 1 };
    map.add(1, Root { height: 0, reference: damaged.raw() }, LEAF, NO_SNAPSHOT).unwrap();
    map.add(2, Root { height: 0, reference: damaged.raw() }, LEAF, NO_SNAPSHOT).unwrap();
    let mut heard = Vec::new();
    let entries = [MapEntry::Zero, MapEntry::Hole];
    map.set_over_damage(1, Lba::new(3), &entries, &mut |entry| heard.push(entry)).unwrap();
    map.fill_over_damage(2, Lba::new(5), 100, MapEntry::Hole, &mut |_| {}).unwrap();
    assert_eq!(heard, [MapEntry::Lost; 2], "what was there before is unknown");
    let mut found = Vec::new();
    map.entries(1, Lba::new(0), LEAF, &mut found).unwrap();
    let is = |block: usize| match block {
        3 => MapEntry::Zero,
        4 => MapEntry::Hole,
        _ => MapEntry::Lost,
    };
    assert!(found.iter().enumerate().all(|(block, entry)| *entry == is(block)), "{found:?}");
    found.clear();
    map.entries(2, Lba::new(0), LEAF, &mut found).unwrap();
    let is = |block| if (5..105).contains(&block) { MapEntry::Hole } else { MapEntry::Lost };
    assert!(found.iter().enumerate().all(|(block, entry)| *entry == is(block)), "{found:?}");
}

#[test]
fn past_an_entry_that_makes_no_sense_is_the_next_block() {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
    let mut leaf = uniform_page(0, RAW_HOLE);
    leaf[7] = u64::MAX;
    let leaf = put(&map, &leaf, Words::Entries);
    map.add(1, Root { height: 0, reference: leaf.raw() }, LEAF, NO_SNAPSHOT).unwrap();
    let past = || map.past_unreadable(1, Lba::new(7));
    assert_eq!(past(), LEAF, "it was not read yet");
    map.entries(1, Lba::new(0), 1, &mut Vec::new()).unwrap();
    assert_eq!(past(), 8);
}

#[test]
fn each_slot_is_visited_once_within_the_file_and_past_it() {
    let mut visited = Visited::new(130);
    let id = |slot: u32, birth: u64| {
        let key = PageKey { volume: 1, level: 0, index: 0 };
        PageId::of(&Missing { key, place: Place { slot, birth }, check: 0 })
    };
    for slot in 0..400 {
        assert!(!visited.has(&id(slot, 1)) && visited.first(id(slot, 1)), "slot {slot}");
        assert!(visited.has(&id(slot, 1)) && !visited.first(id(slot, 1)), "slot {slot}");
    }
    // Past the file nothing is there: pages are told apart by more than that.
    assert!(visited.first(id(399, 2)) && !visited.first(id(1, 2)));
}

#[test]
fn of_what_is_lost_past_the_end_of_a_volume_nobody_hears() {
    for blocks in [LEAF, LEAF + 1] {
        let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
        let root = Root { height: 1, reference: PageRef::Uniform(RAW_LOST).raw() };
        map.add(7, root, blocks, NO_SNAPSHOT).unwrap();
        let mut hole = |page: &mut Page| {
            page[3] = RAW_HOLE;
            true
        };
        map.change_mended(7, (0, 4), &mut hole).unwrap();
        let (mut heard, mut visited) = (Hears::default(), Visited::new(map.file_slots().unwrap()));
        map.mend(7, &mut visited, &mut heard).unwrap();
        assert!(heard.0.iter().all(|&(_, count)| count > 0), "{:?}", heard.0);
        let lost: u64 = heard.0.iter().map(|&(_, count)| count).sum();
        assert_eq!(lost, blocks - 1, "{:?}", heard.0);
    }
}

#[test]
fn a_page_that_was_made_below_another_is_looked_at_as_well() {
    let map = Map::new(SimFolder::new().create("map").unwrap(), 1 << 20, 5);
    let mut leaf = uniform_page(0, RAW_HOLE);
    leaf[7] = MapEntry::Zero.raw();
    let mut root = uniform_page(1, RAW_HOLE);
    set_reference(&mut root, 1, put(&map, &leaf, Words::Entries));
    let reference = put(&map, &root, Words::References).raw();
    map.add(1, Root { height: 1, reference }, 2 * LEAF, NO_SNAPSHOT).unwrap();
    let pba = Pba { container: GONE, location: Location::new(4, 1) };
    let change: &mut dyn FnMut(&mut Page) -> bool = &mut |page| {
        page[3] = MapEntry::Stored(pba).raw();
        true
    };
    map.change_mended(1, (0, 5), change).unwrap();
    // It bears the place of the root, which is looked at before it.
    let mut hears = Hears::default();
    map.mend(1, &mut Visited::new(map.file_slots().unwrap()), &mut hears).unwrap();
    assert_eq!(hears.0, [(3, 1)]);
}
