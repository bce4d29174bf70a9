//! Tests: a volume with snapshots and a clone, which share pages: what each has to itself, and
//! where two are alike.
//! Room: onefold-pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_block::{ContainerId, Folder, Lba, Media, SimFolder, SplitMix64};

use super::page::{ENTRIES_PER_PAGE, PAGE_BYTES, Page, PageRef, raw_reference, uniform_page};
use super::tree::{Map, NO_SNAPSHOT, Root, Watch};
use crate::pba::{Location, MapEntry, Pba};

pub const LEAF: u64 = ENTRIES_PER_PAGE as u64;
/// Leaves that are written: near and far, the last one among them.
pub const LEAVES: [u64; 7] = [0, 1, 2, 255, 256, 257, 289];
struct Nobody;

impl Watch for Nobody {
    fn lost(&mut self, _: MapEntry) {}
    fn copied(&mut self, _: MapEntry) {}
}

/// References by tree, level and number.
pub type References = BTreeMap<(u32, u8, u64), PageRef>;

/// A tree as it was made: from which, and when.
#[derive(Clone, Copy)]
pub struct Made {
    pub number: u32,
    pub from: u32,
    pub is_snapshot: bool,
}

/// Trees that come from one another.
pub struct Stage {
    pub media: Arc<dyn Media>,
    pub map: Map,
    pub blocks: u64,
    pub sequence: u64,
    pub made: Vec<Made>,
    pub random: SplitMix64,
}

impl Stage {
    /// A volume with some snapshots, and a clone of one.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        // It ends with a leaf, or within one.
        let blocks = 290 * LEAF - [0, 412][seed as usize % 2];
        let media = SimFolder::new().create("map").unwrap();
        let map = Map::new(Arc::clone(&media), 8 << 20, 1);
        map.add(1, Root { height: 2, reference: 0 }, blocks, NO_SNAPSHOT).unwrap();
        let volume = Made { number: 1, from: 0, is_snapshot: false };
        let mut stage = Self { media, map, blocks, sequence: 1, made: vec![volume], random };
        random = SplitMix64::new(seed + 1000);
        for leaf in LEAVES {
            stage.change(1, leaf, 1 + random.below(300));
        }
        for number in 0..2 + random.below(3) as u32 {
            stage.snapshot(10 + number);
            for _ in 0..random.below(4) {
                let leaf = LEAVES[random.below(7) as usize];
                stage.change(1, leaf, 1 + random.below(6));
            }
        }
        let from = 10 + random.below(2) as u32;
        stage.checkpoint();
        let (root, shared) = (stage.map.root(from).unwrap(), stage.birth_of(from));
        stage.map.add(90, root, blocks, shared).unwrap();
        stage.made.push(Made { number: 90, from, is_snapshot: false });
        stage.change(90, LEAVES[random.below(7) as usize], 3);
        stage.checkpoint();
        stage
    }

    pub fn change(&mut self, volume: u32, leaf: u64, count: u64) {
        let first = leaf * LEAF + self.random.below(90);
        let entries: Vec<MapEntry> = (0..count.min(self.blocks - first))
            .map(|_| match self.random.below(8) {
                0 => MapEntry::Hole,
                1 => MapEntry::Zero,
                _ => {
                    let container = ContainerId::new(1 + self.random.below(6) as u32);
                    let location = Location::new(self.random.below(100) as usize, 1);
                    MapEntry::Stored(Pba { container, location })
                }
            })
            .collect();
        self.map.set(volume, Lba::new(first), &entries, &mut Nobody).unwrap();
    }

    fn checkpoint(&mut self) {
        self.sequence += 1;
        let mut frozen = self.map.freeze(self.sequence);
        self.map.write_out(&mut frozen).unwrap();
        self.map.checkpoint_is_durable();
        assert!(!self.map.is_dirty());
    }

    /// A snapshot of the volume, which is what the volume is made from now on.
    fn snapshot(&mut self, number: u32) {
        self.checkpoint();
        let root = self.map.root(1).unwrap();
        let share = self.map.share_with(1, self.sequence).unwrap();
        self.map.add(number, root, self.blocks, NO_SNAPSHOT).unwrap();
        self.map.set_share(number, share).unwrap();
        let from = std::mem::replace(&mut self.made[0].from, number);
        self.made.push(Made { number, from, is_snapshot: true });
    }

    fn birth_of(&self, snapshot: u32) -> u64 {
        let volume = self.made.iter().find(|made| made.from == snapshot).unwrap().number;
        self.map.state().tree(volume).unwrap().shared
    }

    /// Snapshots from the oldest on, then volumes.
    pub fn in_order(&self) -> Vec<Made> {
        let mut all = self.made.clone();
        all.sort_by_key(|made| (!made.is_snapshot, made.number));
        all
    }

    pub fn heirs(&self, number: u32) -> Vec<u32> {
        let all = self.made.iter().filter(|made| made.from == number);
        all.map(|made| made.number).collect()
    }

    fn page(&self, reference: PageRef) -> Box<Page> {
        let PageRef::Stored { place, .. } = reference else {
            let PageRef::Uniform(entry) = reference else { unreachable!() };
            return uniform_page(1, entry);
        };
        let mut bytes = [0; PAGE_BYTES];
        self.media.read(u64::from(place.slot) * PAGE_BYTES as u64, &mut bytes).unwrap();
        super::page::decode(&bytes)
    }

    /// References of every tree, by level and number: all there are above the leaves, and those of
    /// leaves that were written.
    pub fn references(&self) -> References {
        let mut all = BTreeMap::new();
        for made in &self.made {
            let root = PageRef::from_raw(self.map.root(made.number).unwrap().reference).unwrap();
            all.insert((made.number, 2, 0), root);
            let root = self.page(root);
            for inner in 0..2 {
                let reference = raw_reference(&root, inner as usize);
                let reference = PageRef::from_raw(reference).unwrap();
                all.insert((made.number, 1, inner), reference);
                let inner_page = self.page(reference);
                for leaf in LEAVES.iter().filter(|&leaf| leaf / 256 == inner) {
                    let below = raw_reference(&inner_page, *leaf as usize % 256);
                    all.insert((made.number, 0, *leaf), PageRef::from_raw(below).unwrap());
                }
            }
        }
        all
    }

    /// What a tree reads as in the leaves that were written.
    pub fn reads(&self, volume: u32) -> Vec<(u64, MapEntry)> {
        let mut all = Vec::new();
        for first in LEAVES.map(|leaf| leaf * LEAF) {
            let (count, mut found) = (LEAF.min(self.blocks - first), Vec::new());
            self.map.entries(volume, Lba::new(first), count, &mut found).unwrap();
            all.extend((first..).zip(found));
        }
        all
    }
}

/// How far the page goes that a block is in, by its level.
const fn end_of(block: u64, level: u8) -> u64 {
    let under = [LEAF, 256 * LEAF, 1 << 25][level as usize];
    (block / under + 1) * under
}

#[test]
fn a_tree_has_to_itself_what_came_after_the_snapshot_that_it_was_made_from() {
    let (mut own, mut others) = (0, 0);
    for seed in 0..6 {
        let mut stage = Stage::new(seed);
        let all = stage.references();
        // A third of the trees have a page that was not written yet.
        let dirty = stage.made[seed as usize % 3].number;
        if !stage.made[seed as usize % 3].is_snapshot {
            stage.change(dirty, 1, 2);
        }
        for made in stage.made.clone() {
            let (number, context) = (made.number, format!("seed {seed}, tree {}", made.number));
            let shared = stage.map.state().tree(number).unwrap().shared;
            let is_dirty = number == dirty && !made.is_snapshot;
            let root = all[&(number, 2, 0)].place().unwrap();
            let has_own = is_dirty || root.birth > shared;
            assert_eq!(stage.map.has_own_pages(number), has_own, "{context}");
            assert_eq!(stage.map.has_changed(number), is_dirty, "{context}");
            let share = stage.map.share(number).unwrap();
            for leaf in LEAVES {
                let levels = [(2, 0), (1, leaf / 256), (0, leaf)];
                let shares = |(level, index): (u8, u64)| {
                    let changed = is_dirty && [(2, 0), (1, 0), (0, 1)].contains(&(level, index));
                    let birth = all[&(number, level, index)].place().map_or(0, |p| p.birth);
                    let first = index * [LEAF, 256 * LEAF, 0][usize::from(level)];
                    assert_eq!(share.is_own(level, first, birth), birth > shared, "{context}");
                    !changed && birth <= shared
                };
                let theirs = levels.into_iter().find(|&at| shares(at));
                for (first, count) in [(0, 1 << 20), (7, 1 << 20), (7, 2), (511, 1)] {
                    let lba = leaf * LEAF + first;
                    let found = stage.map.not_own_run(number, Lba::new(lba), count).unwrap();
                    let run = theirs.map_or(0, |(level, _)| end_of(lba, level) - lba);
                    assert_eq!(found, run.min(count), "{context}: {lba}, {theirs:?}");
                }
                own += usize::from(theirs.is_none());
                others += usize::from(theirs.is_some());
            }
        }
    }
    assert!(own > 40 && others > 40, "{own} leaves of their own, {others} of others");
}

#[test]
fn what_a_snapshot_left_to_a_tree_is_told_apart_by_the_snapshot_before() {
    let stage = Stage::new(0);
    // The first two leaves were left; the snapshot before came with checkpoint 3.
    stage.map.set_left_to(1, 2 * LEAF, 3).unwrap();
    let share = stage.map.share(1).unwrap();
    let shared = stage.map.state().tree(1).unwrap().shared;
    assert!(shared > 3);
    for (leaf, since) in [(0, 3), (1, 3), (2, shared)] {
        let is_own = |birth| share.is_own(0, leaf * LEAF, birth);
        assert_eq!([since, since + 1].map(is_own), [false, true], "leaf {leaf}");
    }
    assert!(!share.is_own(1, 0, shared), "a page above reaches further than what was left");
    stage.map.set_left_all(1, 3).unwrap();
    let share = stage.map.share(1).unwrap();
    assert_eq!([3, 4].map(|birth| share.is_own(1, 0, birth)), [false, true]);
    stage.map.forget(1);
    assert!(stage.map.share(1).is_err() && !stage.map.has_own_pages(1));
    assert!(stage.map.set_left_to(1, 0, 0).is_err());
}

#[test]
fn trees_are_alike_as_far_as_they_have_the_same_pages() {
    let mut seen = [0; 4];
    for seed in 0..6 {
        let stage = Stage::new(seed);
        let all = stage.references();
        let trees: Vec<u32> = stage.made.iter().map(|made| made.number).collect();
        for pair in trees.iter().flat_map(|&a| trees.iter().map(move |&b| [a, b])) {
            for leaf in LEAVES {
                let same = |level: u8, index: u64| {
                    let [a, b] = pair.map(|tree| all[&(tree, level, index)]);
                    a == b
                };
                let levels = [(2, 0), (1, leaf / 256), (0, leaf)];
                let level = levels.into_iter().find(|&(level, index)| same(level, index));
                let lba = leaf * LEAF + 5;
                let found = stage.map.alike_run(pair, Lba::new(lba), 1 << 40).unwrap();
                let context = format!("seed {seed}, {pair:?}, leaf {leaf}: {found}");
                let Some((level, _)) = level else {
                    assert_eq!(found, 0, "{context}");
                    seen[3] += 1;
                    continue;
                };
                seen[usize::from(level)] += 1;
                // At least to the end of that page, and over no leaf that differs.
                assert!(found >= end_of(lba, level) - lba, "{context}");
                let over = LEAVES.iter().filter(|&&l| l * LEAF >= lba && l * LEAF < lba + found);
                for &over in over {
                    assert!(same(0, over), "{context}: leaf {over} differs");
                }
                let last = lba + found;
                assert_eq!(last % LEAF, 0, "{context}");
                assert_eq!(stage.map.alike_run(pair, Lba::new(lba), 3).unwrap(), 3, "{context}");
            }
        }
    }
    assert!(seen.iter().all(|&seen| seen > 10), "{seen:?}");
}

#[test]
fn what_a_snapshot_has_no_longer_at_the_same_place_a_tree_has_to_itself() {
    let mut parted = 0;
    for seed in 0..6 {
        let stage = Stage::new(seed);
        let all = stage.references();
        let from = |tree: u32| stage.made.iter().find(|made| made.number == tree).unwrap().from;
        let parent = from(1);
        let older = from(parent);
        // The first two leaves were left by the snapshot, and are those of the one before it.
        let [before, shared] = [older, parent].map(|of| stage.birth_of(of));
        stage.map.set_left_to(1, 2 * LEAF, before).unwrap();
        for leaf in LEAVES.into_iter().filter(|leaf| leaf % 256 < 2) {
            let lba = Lba::new(leaf * LEAF + 500);
            stage.map.set(parent, lba, &[MapEntry::Lost], &mut Nobody).unwrap();
        }
        stage.map.part(1, parent, older).unwrap();
        for leaf in LEAVES {
            // Leaves that were left are compared with those of the older one.
            let changed = [256, 257].contains(&leaf);
            let since = if leaf < 2 { before } else { shared };
            let was_own = all[&(1, 0, leaf)].place().unwrap().birth > since;
            let own = stage.map.not_own_run(1, Lba::new(leaf * LEAF), 1).unwrap() == 0;
            assert_eq!(own, was_own || changed, "seed {seed}, leaf {leaf}");
            parted += u32::from(changed && !was_own);
        }
    }
    assert!(parted > 3, "{parted}");
}
