//! Tests: two roots that share pages, as a volume and its snapshots do.
//! Room: onefold-pool.
//! A model holds what each root must read as. From the pages alone it is counted which containers
//! the entries of distinct leaves refer to, and which slots are in use: the sums that the map was
//! heard to make must be the same, whatever was copied on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onefold_block::{ContainerId, Folder, Lba, Media, SimFolder, SplitMix64};

use super::bitmap::SlotBitmap;
use super::page::{ENTRIES_PER_PAGE, PAGE_BYTES};
use super::tree::{Map, NO_SNAPSHOT, Root, Watch};
use crate::pba::{Location, MapEntry, Pba};

/// Two levels above the leaves.
const BLOCKS: u64 = 300 * ENTRIES_PER_PAGE as u64;
/// Blocks that are ever written: in a few leaves, near and far.
const LEAVES: [u64; 4] = [0, 1, 255, 299];

const LIVE: u32 = 1;

type Totals = BTreeMap<ContainerId, i64>;

/// Totals as the engine would keep them.
#[derive(Default)]
struct Counted(Totals);

impl Counted {
    fn add(&mut self, entry: MapEntry, by: i64) {
        if let Some(pba) = entry.pba() {
            *self.0.entry(pba.container).or_default() += by;
        }
    }
}

impl Watch for Counted {
    fn lost(&mut self, entry: MapEntry) {
        self.add(entry, -1);
    }

    fn copied(&mut self, entry: MapEntry) {
        self.add(entry, 1);
    }
}

struct Stage {
    media: Arc<dyn Media>,
    map: Map,
    bitmap: SlotBitmap,
    sequence: u64,
    /// What each volume must read as.
    model: BTreeMap<u32, BTreeMap<u64, MapEntry>>,
    roots: BTreeMap<u32, Root>,
    totals: Counted,
    random: SplitMix64,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let media = SimFolder::new().create("map").unwrap();
        let map = Map::new(Arc::clone(&media), 1 << 20, 1);
        map.add(LIVE, Root { height: 2, reference: 0 }, BLOCKS, NO_SNAPSHOT).unwrap();
        let model = BTreeMap::from([(LIVE, BTreeMap::new())]);
        let (bitmap, roots, totals) = (SlotBitmap::new(), BTreeMap::new(), Counted::default());
        let random = SplitMix64::new(seed);
        Self { media, map, bitmap, sequence: 1, model, roots, totals, random }
    }

    fn entry(&mut self) -> MapEntry {
        match self.random.below(6) {
            0 => MapEntry::Hole,
            1 => MapEntry::Zero,
            _ => {
                let container = ContainerId::new(1 + self.random.below(5) as u32);
                let location = Location::new(self.random.below(100) as usize, 1);
                MapEntry::Stored(Pba { container, location })
            }
        }
    }

    /// Change a few blocks of the volume that is not a snapshot.
    fn change(&mut self) {
        let leaf = LEAVES[self.random.below(LEAVES.len() as u64) as usize];
        let first = leaf * ENTRIES_PER_PAGE as u64 + self.random.below(500);
        let len = 1 + self.random.below(12);
        if self.random.chance(1, 5) {
            // The whole leaf and its neighbours.
            let (from, count) = (leaf * ENTRIES_PER_PAGE as u64, 2 * ENTRIES_PER_PAGE as u64);
            let count = count.min(BLOCKS - from);
            let hole = MapEntry::Hole;
            let (lba, totals) = (Lba::new(from), &mut self.totals);
            let mut done = 0;
            while done < count {
                let at = Lba::new(lba.get() + done);
                done += self.map.fill(LIVE, at, count - done, hole, usize::MAX, totals).unwrap();
            }
            self.live().retain(|block, _| !(from..from + count).contains(block));
            return;
        }
        let entries: Vec<MapEntry> = (0..len).map(|_| self.entry()).collect();
        for &entry in &entries {
            self.totals.add(entry, 1);
        }
        self.map.set(LIVE, Lba::new(first), &entries, &mut self.totals).unwrap();
        self.live().extend((first..).zip(entries));
    }

    fn live(&mut self) -> &mut BTreeMap<u64, MapEntry> {
        self.model.get_mut(&LIVE).unwrap()
    }

    /// Write a checkpoint, a snapshot with it if `snapshot`; changes come while it is written.
    fn checkpoint(&mut self, snapshot: Option<u32>) {
        self.sequence += 1;
        let mut frozen = self.map.freeze(self.sequence);
        if let Some(number) = snapshot {
            self.map.state().trees.get_mut(&LIVE).unwrap().shared = self.sequence;
            let now = self.model[&LIVE].clone();
            self.model.insert(number, now);
        }
        for _ in 0..self.random.below(4) {
            self.change();
        }
        self.map.write_out(&mut frozen).unwrap();
        let root = frozen.root(LIVE).unwrap();
        self.roots.insert(LIVE, root);
        if let Some(number) = snapshot {
            self.roots.insert(number, root);
            self.map.add(number, root, BLOCKS, NO_SNAPSHOT).unwrap();
        }
        self.bitmap.write(&self.map, self.sequence).unwrap();
        self.map.checkpoint_is_durable();
    }

    /// Every root reads as it must.
    fn assert_reads(&self, context: &str) {
        for (&volume, model) in &self.model {
            for leaf in LEAVES {
                let (first, mut found) = (leaf * ENTRIES_PER_PAGE as u64, Vec::new());
                let count = ENTRIES_PER_PAGE as u64;
                self.map.entries(volume, Lba::new(first), count, &mut found).unwrap();
                for (block, found) in (first..).zip(found) {
                    let expected = model.get(&block).copied().unwrap_or(MapEntry::Hole);
                    assert_eq!(found, expected, "{context}: volume {volume}, block {block}");
                }
            }
            // Some of them one by one, neighbours and not, the leaves in turn.
            let places = (0..ENTRIES_PER_PAGE as u64).step_by(37).flat_map(|place| {
                let of_leaf = move |leaf: u64| leaf * ENTRIES_PER_PAGE as u64 + place;
                LEAVES.into_iter().flat_map(move |leaf| [of_leaf(leaf), of_leaf(leaf) + 1])
            });
            let blocks: Vec<Lba> = places.map(Lba::new).collect();
            let mut found = Vec::new();
            self.map.pick(volume, &blocks, &mut found).unwrap();
            let expected = |lba: &Lba| model.get(&lba.get()).copied().unwrap_or(MapEntry::Hole);
            assert!(found.iter().copied().eq(blocks.iter().map(expected)), "{context}: {volume}");
        }
    }

    /// When nothing is dirty: totals are those of distinct leaves, and slots in use those of
    /// distinct pages.
    fn assert_exact(&self, context: &str) {
        let (mut pages, mut leaves) = (BTreeSet::from([0]), BTreeSet::new());
        for (&volume, &root) in &self.roots {
            self.map.walk(volume, root, self.sequence, &mut |page| {
                let page = page.unwrap();
                pages.insert(page.place.slot);
                if page.level == 0 {
                    leaves.insert(page.place.slot);
                }
                true
            });
        }
        pages.extend(self.bitmap.places().map(|(place, _)| place.slot));
        let mut expected = Counted::default();
        for slot in leaves {
            let mut bytes = [0; PAGE_BYTES];
            self.media.read(u64::from(slot) * PAGE_BYTES as u64, &mut bytes).unwrap();
            for raw in super::page::decode(&bytes).iter() {
                expected.add(MapEntry::from_raw(*raw).unwrap(), 1);
            }
        }
        let without_zeroes = |totals: &Totals| -> Totals {
            totals.iter().filter(|(_, by)| **by != 0).map(|(id, by)| (*id, *by)).collect()
        };
        let (found, expected) = (without_zeroes(&self.totals.0), without_zeroes(&expected.0));
        assert_eq!(found, expected, "{context}: totals");
        let state = self.map.state();
        let used: BTreeSet<u32> =
            (0..state.slots.reserved()).filter(|&slot| state.slots.is_used(slot)).collect();
        assert_eq!(used, pages, "{context}: slots");
    }
}

#[test]
fn totals_count_the_entries_of_distinct_pages_and_snapshots_stay_what_they_were() {
    for seed in 0..12 {
        let mut stage = Stage::new(seed);
        for round in 0..60 {
            let context = format!("seed {seed}, round {round}");
            for _ in 0..stage.random.below(5) {
                stage.change();
            }
            let number = LIVE + 1 + round;
            let snapshot = stage.random.chance(1, 6).then_some(number);
            stage.checkpoint(snapshot);
            stage.assert_reads(&context);
            if stage.map.is_dirty() {
                continue;
            }
            stage.assert_exact(&context);
        }
        stage.checkpoint(None);
        while stage.map.is_dirty() {
            stage.checkpoint(None);
        }
        let context = format!("seed {seed}, at the end");
        stage.assert_exact(&context);
        assert!(stage.model.len() > 3, "{context}: {} roots", stage.model.len());
    }
}
