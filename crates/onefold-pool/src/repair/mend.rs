//! Passes over maps that are to lead nowhere but to good records.
//! Room: onefold-pool.
//! In: the trees as far as they can be read, and the good records of some containers. Out: trees of
//! which every page can be read; what cannot be had is lost.
//! Invariants: (1) an entry stays as it is, or becomes lost; (2) a page is looked at with the one
//! tree whose own it is, and whoever shares it has what it becomes; (3) a page that a tree counts
//! as that of the snapshot it was made from is that snapshot's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba};

use super::report::{ByVolume, Ranges};
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format::superblock::Superblock;
use crate::map::{Below, ENTRIES_PER_PAGE, Mender, PageKey, Root, Visited};
use crate::pba::{Location, MapEntry};

/// The good records of some containers, in order, and whether anything refers to each.
pub struct Places<'a> {
    /// Of these containers.
    pub good: Good,
    /// All containers that there are; what others are to hold is lost.
    pub there: &'a BTreeSet<ContainerId>,
}

/// The good records of containers, in order, and whether anything refers to each.
pub type Good = BTreeMap<ContainerId, Vec<(Location, bool)>>;

impl Places<'_> {
    /// Mark a record as referred to; false if there is no such.
    fn refer(&mut self, container: ContainerId, location: Location) -> bool {
        let Some(good) = self.good.get_mut(&container) else {
            return self.there.contains(&container);
        };
        let found = good.binary_search_by_key(&location, |(location, _)| *location);
        found.map(|at| good[at].1 = true).is_ok()
    }
}

/// Slots of the map file, as bits.
pub struct SlotBits(Vec<u64>);

impl SlotBits {
    /// Room for the slots of a file, none in use but the header.
    pub fn new(slots: u64) -> Self {
        let mut bits = vec![0; slots.max(1).div_ceil(64) as usize];
        bits[0] = 1;
        Self(bits)
    }

    /// Mark a slot; false if it was marked. One past the end counts as marked: nothing is there.
    pub fn mark(&mut self, slot: u32) -> bool {
        let bit = 1 << (slot % 64);
        let Some(word) = self.0.get_mut(slot as usize / 64) else { return false };
        let newly = *word & bit == 0;
        *word |= bit;
        newly
    }

    /// The bits.
    pub fn into_bits(self) -> Vec<u64> {
        self.0
    }
}

/// Slots that pages of these trees are in, those that cannot be read among them; and whether any
/// page above the leaves cannot be.
pub fn reach(inner: &Inner, of: &Superblock, slots: u64) -> (SlotBits, bool) {
    let (mut bits, mut hurt) = (SlotBits::new(slots), false);
    for volume in &of.volumes {
        let root = Root { height: volume.height, reference: volume.root };
        inner.map.walk(volume.number, root, of.sequence, &mut |page| {
            hurt |= page.is_err();
            page.is_ok_and(|page| bits.mark(page.place.slot))
        });
    }
    (bits, hurt)
}

/// Let trees have to themselves what the snapshot that they were made from has no longer at the
/// same place: it would go with the last who counts it as its own.
pub fn part(inner: &Inner) -> Result<(), PoolError> {
    let mut all = inner.all_volumes();
    // A snapshot comes before whoever was made from it.
    all.sort_by_key(|volume| (!volume.is_snapshot, volume.number));
    for volume in all {
        let parent = volume.parent.load(Ordering::Acquire);
        let Some(parent) = inner.volume_by_number(parent) else { continue };
        let older = parent.parent.load(Ordering::Acquire);
        inner.map.part(volume.number, parent.number, older)?;
    }
    Ok(())
}

/// Whether any distinct page cannot be read, or any entry is lost or leads to no good record. Marks
/// what is referred to.
pub fn is_hurt(inner: &Inner, places: &mut Places<'_>) -> Result<bool, PoolError> {
    let mut hurt = false;
    for volume in inner.all_volumes() {
        let mut pass = Pass { inner, volume: &volume, at: 0, own: true };
        let mut entries = Vec::new();
        while let Some(step) = pass.next(&mut entries)? {
            match step {
                Step::Skip => {}
                Step::Lost(..) => hurt = true,
                Step::Damaged(first) => {
                    hurt = true;
                    pass.at = inner.map.past_damage(volume.number, Lba::new(first));
                }
                Step::Leaf(_) => {
                    // What the journal says may stand in a page that could not be read.
                    hurt |= entries.contains(&MapEntry::Lost);
                    for pba in entries.iter().filter_map(|entry| entry.pba()) {
                        hurt |= !places.refer(pba.container, pba.location);
                    }
                }
            }
        }
    }
    Ok(hurt)
}

/// Let pages above the leaves that cannot be read be had again, as far as whoever was made from a
/// snapshot has unchanged what it had.
pub fn salvage(inner: &Inner) -> Result<(), PoolError> {
    let mut all = inner.all_volumes();
    // Whoever has a snapshot's pages comes before it.
    all.sort_by_key(|volume| (volume.is_snapshot, std::cmp::Reverse(volume.number)));
    let mut heirs: HashMap<u32, Vec<u32>> = HashMap::new();
    for volume in &all {
        heirs.entry(volume.parent.load(Ordering::Acquire)).or_default().push(volume.number);
    }
    let heirs = |number: u32| heirs.get(&number).cloned().unwrap_or_default();
    for volume in &all {
        unless_gone(inner.map.salvage(volume.number, &heirs))?;
    }
    inner.map.forget_clean();
    Ok(())
}

/// What was given up wholly has no tree any more.
fn unless_gone(done: Result<(), PoolError>) -> Result<(), PoolError> {
    match done {
        Err(PoolError::VolumeDeleted) => Ok(()),
        done => done,
    }
}

/// Every tree after the one that it was made from.
pub fn in_order(inner: &Inner) -> Vec<Arc<VolumeState>> {
    let mut all = inner.all_volumes();
    all.sort_by_key(|volume| (!volume.is_snapshot, volume.birth, volume.number));
    all
}

/// Lets entries be lost that lead to no good record.
struct Looking<'a, 'b> {
    places: &'a mut Places<'b>,
    lost: &'a mut Ranges,
}

impl Mender for Looking<'_, '_> {
    fn may_stay(&mut self, entry: MapEntry) -> bool {
        entry.pba().is_none_or(|pba| self.places.refer(pba.container, pba.location))
    }

    fn lost(&mut self, first: u64, count: u64) {
        self.lost.push(first, count);
    }
}

/// Let every block of every volume and snapshot be lost that cannot be had; `lost` is what is lost
/// then, of what many share with the one whose own it is.
pub fn mend(inner: &Inner, places: &mut Places<'_>, lost: &mut ByVolume) -> Result<(), PoolError> {
    let mut visited = Visited::new(inner.map.file_slots()?);
    for volume in in_order(inner) {
        let mut found = Ranges::default();
        let mut looking = Looking { places, lost: &mut found };
        unless_gone(inner.map.mend(volume.number, &mut visited, &mut looking))?;
        if !found.0.is_empty() {
            lost.insert(volume.number, found);
        }
    }
    inner.map.forget_clean();
    Ok(())
}

/// The blocks of a volume or snapshot that are lost; what cannot be read is passed over. `known` is
/// of the snapshots before.
pub fn lost_blocks(
    inner: &Inner,
    volume: &VolumeState,
    known: &mut Below,
) -> Result<Ranges, PoolError> {
    if volume.is_snapshot {
        // Its pages are all in the file, and many are those of the one before.
        let root = inner.map.root(volume.number)?;
        if inner.map.counted_below(volume.number, root, known).is_ok_and(|below| !below.lost) {
            return Ok(Ranges::default());
        }
    }
    let mut pass = Pass { inner, volume, at: 0, own: false };
    let (mut lost, mut entries) = (Ranges::default(), Vec::new());
    while let Some(step) = pass.next(&mut entries)? {
        match step {
            Step::Skip => {}
            Step::Lost(first, count) => lost.push(first, count),
            Step::Damaged(first) => {
                pass.at = inner.map.past_damage(volume.number, Lba::new(first));
            }
            Step::Leaf(first) => {
                for (lba, entry) in (first..).zip(&entries) {
                    if *entry == MapEntry::Lost {
                        lost.push(lba, 1);
                    }
                }
            }
        }
    }
    Ok(lost)
}

/// What of these blocks is still lost.
pub fn still_lost(inner: &Inner, lost: &ByVolume) -> Result<ByVolume, PoolError> {
    let mut still = ByVolume::new();
    for (&number, ranges) in lost {
        let (mut left, mut entries) = (Ranges::default(), Vec::new());
        for &(first, count) in &ranges.0 {
            let (mut at, end) = (first, first + count);
            while at < end {
                let lba = Lba::new(at);
                let (run, entry) = inner.map.uniform_run(number, lba, end - at)?;
                if run > 0 {
                    if entry == MapEntry::Lost {
                        left.push(at, run);
                    }
                    at += run;
                    continue;
                }
                let upto = PageKey::leaf(number, at).end_block().min(end);
                entries.clear();
                inner.map.entries(number, lba, upto - at, &mut entries)?;
                for (lba, entry) in (at..).zip(&entries) {
                    if *entry == MapEntry::Lost {
                        left.push(lba, 1);
                    }
                }
                at = upto;
            }
        }
        if !left.0.is_empty() {
            still.insert(number, left);
        }
    }
    Ok(still)
}

/// A tree, leaf by leaf.
struct Pass<'a> {
    inner: &'a Inner,
    volume: &'a VolumeState,
    at: u64,
    /// Only pages that are the tree's own.
    own: bool,
}

/// What is next in a tree.
enum Step {
    /// Nothing that is stored, or what is another's.
    Skip,
    /// So many blocks from the first are lost.
    Lost(u64, u64),
    /// From this block on something cannot be read.
    Damaged(u64),
    /// A leaf, or the rest of one, from this block on.
    Leaf(u64),
}

impl Pass<'_> {
    /// The next step; goes on behind it, but for damage.
    fn next(&mut self, entries: &mut Vec<MapEntry>) -> Result<Option<Step>, PoolError> {
        let (map, number) = (&self.inner.map, self.volume.number);
        let (first, end) = (self.at, self.volume.blocks(self.inner.chunk_bytes()));
        if first >= end {
            return Ok(None);
        }
        let (lba, left) = (Lba::new(first), end - first);
        entries.clear();
        let step = (|| {
            let (run, entry) = if self.own {
                map.not_own(number, lba, left)?
            } else {
                let (run, entry) = map.uniform_run(number, lba, left)?;
                (run, Some(entry))
            };
            if run > 0 {
                let lost = entry == Some(MapEntry::Lost);
                return Ok((run, if lost { Step::Lost(first, run) } else { Step::Skip }));
            }
            // Every step ends with a leaf.
            let batch = left.min(ENTRIES_PER_PAGE as u64);
            map.entries(number, lba, batch, entries)?;
            Ok((batch, Step::Leaf(first)))
        })();
        match step {
            Ok((run, step)) => {
                self.at += run;
                Ok(Some(step))
            }
            Err(PoolError::VolumeDeleted) => Ok(None),
            Err(error) if error.is_unreadable() => Ok(Some(Step::Damaged(first))),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ByteSize, SimFolder};

    use super::*;
    use crate::PoolSettings;
    use crate::commit::Tally;
    use crate::map::PageRef;
    use crate::pba::RAW_LOST;

    #[test]
    fn only_that_a_tree_is_gone_is_no_error() {
        assert!(unless_gone(Err(PoolError::VolumeDeleted)).is_ok());
        assert!(matches!(unless_gone(Err(PoolError::ReadOnly)), Err(PoolError::ReadOnly)));
    }

    #[test]
    fn of_what_was_lost_that_is_still_lost_that_is_so_in_the_map() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(2000 * 4096)).unwrap();
        let (map, number) = (&pool.inner.map, volume.state.number);
        for block in [5, 8, 1030] {
            map.set(number, Lba::new(block), &[MapEntry::Lost], &mut Tally::default()).unwrap();
        }
        // A leaf as a whole, and holes as a whole behind the next.
        map.fill(number, Lba::new(512), 512, MapEntry::Lost, usize::MAX, &mut Tally::default())
            .unwrap();
        let still = |ranges: &[(u64, u64)]| {
            let lost = ByVolume::from([(number, Ranges(ranges.to_vec()))]);
            still_lost(&pool.inner, &lost).unwrap().remove(&number).map(|left| left.0)
        };
        assert_eq!(still(&[(3, 4), (510, 1490)]), Some(vec![(5, 1), (512, 512), (1030, 1)]));
        assert_eq!(still(&[(0, 2000)]), Some(vec![(5, 1), (8, 1), (512, 512), (1030, 1)]));
        assert_eq!(still(&[(6, 2), (1031, 5), (1540, 460)]), None);
        assert_eq!(still(&[(600, 7), (900, 200)]), Some(vec![(600, 7), (900, 124), (1030, 1)]));
    }

    #[test]
    fn a_tree_that_was_made_from_one_that_gets_pages_of_its_own_gets_them_too() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(512 * 4096)).unwrap();
        onefold_block::BlockDevice::write_at(&volume, 0, &[7; 4096], false).unwrap();
        for name in ["main@one", "main@two"] {
            pool.snapshot(name, 0, false).unwrap();
        }
        let inner = &pool.inner;
        let number = |name| inner.snapshot_by_name(name).unwrap().number;
        let [one, two] = ["main@one", "main@two"].map(number);
        let is_own = |number| inner.map.not_own_run(number, Lba::new(0), 1).unwrap() == 0;
        assert_eq!([one, two, volume.state.number].map(is_own), [true, false, false]);
        // All three have the page; now the one whose own it is has it no more.
        let lost = Root { height: 0, reference: PageRef::Uniform(RAW_LOST).raw() };
        inner.map.add(one, lost, 512, crate::map::NO_SNAPSHOT).unwrap();
        part(inner).unwrap();
        assert_eq!([one, two, volume.state.number].map(is_own), [false, true, true]);
    }

    #[test]
    fn what_is_past_the_end_of_a_volume_is_not_lost() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(520 * 4096)).unwrap();
        let (map, number) = (&pool.inner.map, volume.state.number);
        for block in [0, 511, 515, 519, 520, 1023] {
            map.set(number, Lba::new(block), &[MapEntry::Lost], &mut Tally::default()).unwrap();
        }
        let lost = || lost_blocks(&pool.inner, &volume.state, &mut Below::default()).unwrap().0;
        assert_eq!(lost(), [(0, 1), (511, 1), (515, 1), (519, 1)]);
        // As a whole.
        map.fill(number, Lba::new(512), 512, MapEntry::Lost, usize::MAX, &mut Tally::default())
            .unwrap();
        assert_eq!(lost(), [(0, 1), (511, 9)]);
    }
}
