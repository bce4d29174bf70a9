//! All containers of a pool, how many map entries point into each, and how much of each lives.
//! Room: onefold-pool.
//! Invariants: (1) `references` of a container equals the number of map entries with an address in
//! it; `Pool::check` recounts them; (2) at most `live_max` of its records are referred to, and at
//! most `references`; (3) no record of a container with punched pages is
//! shared; (4) `totals` are the sums over all sealed containers.
//! Cost: 32 bytes of memory per container, that is per 4 MiB stored; 24 bytes per 256 containers
//! that once were.

use std::collections::BTreeSet;

use onefold_block::ContainerId;

use crate::error::PoolError;
use crate::format::container_table::{
    self, ContainerRecord, PUNCH_BYTES, RECORDS_PER_PAGE, REFERENCES_MAX, RecordPage,
};
use crate::format::frame::Sealed;
use crate::map::{ENTRIES_PER_PAGE, Map, OnDamage, PageArray, PageRef, REFERENCES_PER_PAGE};

/// What is known of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Length in bytes once sealed, 0 while open.
    pub len_bytes: u32,
    /// Records in it, once sealed.
    pub chunks: u32,
    /// Map entries that point into it.
    pub references: u64,
    /// At most so many of its records are referred to: all of them at first, fewer once a pass over
    /// the maps has counted them.
    pub live_max: u32,
    /// References gained since the last count began.
    pub gained: u32,
    /// Its records are being moved elsewhere: nobody may share them any more.
    pub closing: bool,
    /// So many pages of 4 KiB of it were given back, or are about to be: nobody may share its
    /// records any more, as they may be gone.
    pub punched: u16,
}

impl ContainerInfo {
    /// At most so many of its records are referred to.
    pub fn live(&self) -> u32 {
        self.references.min(u64::from(self.live_max)) as u32
    }

    /// Bytes of it that live records take, with their part of the directory; at most so many.
    pub fn live_bytes(&self) -> u64 {
        match u64::from(self.chunks) {
            0 => 0,
            chunks => {
                let live = u64::from(self.len_bytes) * u64::from(self.live()) / chunks;
                live.min(self.stored_bytes())
            }
        }
    }

    /// Bytes that it takes: its length without what was punched.
    pub fn stored_bytes(&self) -> u64 {
        u64::from(self.len_bytes) - u64::from(self.punched) * PUNCH_BYTES as u64
    }

    /// Bytes that would come back if what is alive were moved.
    pub fn dead_bytes(&self) -> u64 {
        self.stored_bytes() - self.live_bytes()
    }

    const fn is_sealed(&self) -> bool {
        self.len_bytes > 0
    }

    const fn is_dead(&self) -> bool {
        self.is_sealed() && self.references == 0
    }
}

/// What is known of a container's references at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    gained: u32,
    counts: u64,
}

/// Sums over the sealed containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceTotals {
    /// Bytes of all of them.
    pub stored_bytes: u64,
    /// Bytes that live records take, at most.
    pub live_bytes: u64,
    /// Containers that nothing points into.
    pub dead: u64,
    /// Bytes of these.
    pub dead_bytes: u64,
}

/// What the table is called where it is damaged.
pub const WHAT: &str = "container table";

/// The containers whose records share a page of the map file.
struct TablePage {
    containers: Box<[Option<ContainerInfo>; RECORDS_PER_PAGE]>,
    /// How many there are.
    used: usize,
    /// Not as the page of the newest checkpoint.
    dirty: bool,
}

/// The containers by number.
#[derive(Default)]
pub struct ContainerTable {
    pages: Vec<Option<TablePage>>,
    /// How many of them there are.
    present: usize,
    len: usize,
    /// Numbers of the pages that are dirty, and of some that were removed.
    dirtied: Vec<usize>,
    totals: SpaceTotals,
    dead: BTreeSet<ContainerId>,
    /// References given up, since records were last counted, in containers where that may have left
    /// a record dead without anybody seeing it: one that others shared.
    unseen: u64,
    /// Of those, the ones that a count is about to see, if it comes to its end.
    counting: u64,
    /// Counts that have begun, and containers that were counted.
    counts: u64,
}

/// The pages of the table that changed, as they were when it was frozen.
pub struct FrozenTable {
    pages: Vec<(usize, Box<RecordPage>)>,
    /// Pages that the table has room for, so that its reader knows how many levels there are.
    leaves: usize,
}

impl FrozenTable {
    /// The references of the containers in the pages that changed.
    pub fn references(&self) -> Vec<(ContainerId, u32)> {
        let pages = self.pages.iter();
        pages
            .flat_map(|(number, words)| container_table::references(words, id_at(*number, 0)))
            .collect()
    }

    /// Write them to the map file, for checkpoint `birth`. Returns the root.
    pub fn write(
        &self,
        array: &mut PageArray,
        map: &Map,
        birth: u64,
    ) -> Result<PageRef, PoolError> {
        array.write(map, self.leaves, &self.pages, birth)
    }
}

/// Pages of a table with room for containers below this number.
const fn leaves(next_container: u32) -> usize {
    (next_container as usize).div_ceil(RECORDS_PER_PAGE)
}

/// A container's page, and its place there.
const fn place_of(id: ContainerId) -> (usize, usize) {
    let number = id.get() as usize;
    (number / RECORDS_PER_PAGE, number % RECORDS_PER_PAGE)
}

const fn id_at(page: usize, place: usize) -> ContainerId {
    ContainerId::new((page * RECORDS_PER_PAGE + place) as u32)
}

impl ContainerTable {
    /// The table that a checkpoint refers to, which knows containers below `next_container`.
    /// `on_damage` decides whether to go on without what is damaged.
    pub fn load(
        map: &Map,
        (root, next_container): (PageRef, u32),
        on_damage: OnDamage<'_>,
    ) -> Result<(Self, PageArray), PoolError> {
        let mut table = Self::default();
        let leaves = leaves(next_container);
        let mut visit = |numbers: std::ops::Range<usize>, page: Result<&RecordPage, PoolError>| {
            let known = page.and_then(|page| {
                let first = id_at(numbers.start, 0);
                container_table::decode(page, first, next_container)
            });
            match known {
                Ok(records) => {
                    for record in &records {
                        table.insert(record);
                    }
                }
                Err(error) => on_damage(error)?,
            }
            Ok(())
        };
        let array = PageArray::load(map, WHAT, (root, leaves), &mut visit)?;
        table.all_clean();
        Ok((table, array))
    }

    fn insert(&mut self, record: &ContainerRecord) {
        let &ContainerRecord { id, len_bytes, chunks, references, live_max, punched } = record;
        let (gained, closing) = (0, false);
        let info =
            ContainerInfo { len_bytes, chunks, references, live_max, gained, closing, punched };
        self.change(id, |slot| *slot = Some(info));
    }

    fn all_clean(&mut self) {
        self.dirtied.clear();
        self.pages.iter_mut().flatten().for_each(|page| page.dirty = false);
    }

    /// What changed since the last time, as it is now; the next container to be made has this
    /// number. Costs as much.
    pub fn freeze(&mut self, next_container: u32) -> FrozenTable {
        let mut numbers = std::mem::take(&mut self.dirtied);
        numbers.sort_unstable();
        numbers.dedup();
        let mut pages = Vec::with_capacity(numbers.len());
        for number in numbers {
            let mut words = Box::new([0; ENTRIES_PER_PAGE]);
            if let Some(page) = &mut self.pages[number] {
                page.dirty = false;
                for (place, info) in page.containers.iter().enumerate() {
                    if let Some(info) = info {
                        container_table::encode(&record(id_at(number, place), info), &mut words);
                    }
                }
                if page.used == 0 {
                    self.pages[number] = None;
                    self.present -= 1;
                }
            }
            pages.push((number, words));
        }
        FrozenTable { pages, leaves: leaves(next_container) }
    }

    /// What was frozen was not written after all.
    pub fn thaw(&mut self, frozen: &FrozenTable) {
        for &(number, _) in &frozen.pages {
            if let Some(page) = &mut self.pages[number] {
                page.dirty = true;
            }
            self.dirtied.push(number);
        }
    }

    /// Pages of the map file that the next checkpoint may need, at most: all of the table, one
    /// more, and those above.
    pub fn pages_max(&self) -> usize {
        let mut pages = self.present + 1;
        let mut level = self.pages.len() + 1;
        while level > 1 {
            level = level.div_ceil(REFERENCES_PER_PAGE);
            pages += level;
        }
        pages
    }

    fn info_mut(&mut self, id: ContainerId) -> Option<&mut ContainerInfo> {
        let (page, place) = place_of(id);
        self.pages.get_mut(page)?.as_mut()?.containers[place].as_mut()
    }

    /// The place of a container, which may be empty.
    fn slot(&mut self, id: ContainerId) -> (&mut TablePage, usize) {
        let (number, place) = place_of(id);
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, || None);
        }
        self.present += usize::from(self.pages[number].is_none());
        let page = self.pages[number].get_or_insert_with(|| {
            let containers = Box::new([None; RECORDS_PER_PAGE]);
            TablePage { containers, used: 0, dirty: false }
        });
        (page, place)
    }

    /// Change what is known of one container, and the totals with it.
    fn change<T>(
        &mut self,
        id: ContainerId,
        change: impl FnOnce(&mut Option<ContainerInfo>) -> T,
    ) -> T {
        let before = self.get(id).copied();
        let mut info = before;
        let result = change(&mut info);
        if let Some(before) = before.filter(ContainerInfo::is_sealed) {
            self.totals.stored_bytes -= before.stored_bytes();
            self.totals.live_bytes -= before.live_bytes();
            self.totals.dead -= u64::from(before.is_dead());
            self.totals.dead_bytes -= dead_len(&before);
        }
        if let Some(after) = info.filter(ContainerInfo::is_sealed) {
            self.totals.stored_bytes += after.stored_bytes();
            self.totals.live_bytes += after.live_bytes();
            self.totals.dead += u64::from(after.is_dead());
            self.totals.dead_bytes += dead_len(&after);
        }
        let is_dead = |info: Option<ContainerInfo>| info.is_some_and(|info| info.is_dead());
        match (is_dead(before), is_dead(info)) {
            (false, true) => drop(self.dead.insert(id)),
            (true, false) => drop(self.dead.remove(&id)),
            _ => {}
        }
        if before == info {
            return result;
        }
        let (page, place) = self.slot(id);
        page.containers[place] = info;
        page.used = page.used + usize::from(info.is_some()) - usize::from(before.is_some());
        let newly = !std::mem::replace(&mut page.dirty, true);
        if newly {
            self.dirtied.push(place_of(id).0);
        }
        self.len = self.len + usize::from(info.is_some()) - usize::from(before.is_some());
        result
    }

    /// Add a container that is being filled.
    pub fn open(&mut self, id: ContainerId) {
        self.change(id, |slot| *slot = Some(ContainerInfo::default()));
    }

    /// A container got its final length.
    pub fn seal(&mut self, id: ContainerId, len_bytes: usize, chunks: usize) {
        let unseen = self.change(id, |slot| {
            let Some(info) = slot else { return 0 };
            info.len_bytes = len_bytes as u32;
            info.chunks = chunks as u32;
            info.live_max = chunks as u32;
            // Given up while it was being filled, or filled again from the journal.
            let released = u64::from(info.gained).saturating_sub(info.references);
            released.saturating_sub(u64::from(info.chunks - info.live()))
        });
        self.unseen = self.unseen.saturating_add(unseen);
    }

    /// What the journal tells of a container that is sealed.
    pub fn sealed(&self, id: ContainerId) -> Option<Sealed> {
        let info = self.get(id).filter(|info| info.is_sealed())?;
        let (len_bytes, chunks) = (info.len_bytes as usize, info.chunks as usize);
        Some(Sealed { id, len_bytes, chunks })
    }

    /// What is known of a container.
    pub fn get(&self, id: ContainerId) -> Option<&ContainerInfo> {
        let (page, place) = place_of(id);
        self.pages.get(page)?.as_ref()?.containers[place].as_ref()
    }

    /// Whether a record of this container may be shared: it is there, not being emptied, and all of
    /// it is there.
    pub fn is_shareable(&self, id: ContainerId) -> bool {
        self.get(id).is_some_and(|info| !info.closing && info.punched == 0)
    }

    /// Let nobody share the records of a container any more, or let them again.
    pub fn set_closing(&mut self, id: ContainerId, closing: bool) {
        if let Some(info) = self.info_mut(id) {
            info.closing = closing;
        }
    }

    /// So many pages of a container may be gone once this is durable. Nobody shares its records any
    /// more.
    pub fn set_punched(&mut self, id: ContainerId, pages: u16) {
        self.change(id, |slot| {
            if let Some(info) = slot {
                info.punched = pages;
            }
        });
    }

    /// `count` more map entries point into `id`; false if there is no such container, or too many
    /// do.
    #[must_use]
    pub fn reference(&mut self, id: ContainerId, count: u64) -> bool {
        self.change(id, |slot| {
            let Some(info) = slot else { return false };
            if info.references + count > REFERENCES_MAX {
                return false;
            }
            info.references += count;
            info.gained = u64::from(info.gained).saturating_add(count).min(u32::MAX.into()) as u32;
            // A share may bring a dead record back to life.
            let live = u64::from(info.live_max).saturating_add(count);
            info.live_max = live.min(u64::from(info.chunks)) as u32;
            true
        })
    }

    /// `count` fewer map entries point into `id`; false if there were not that many.
    #[must_use]
    pub fn release(&mut self, id: ContainerId, count: u64) -> bool {
        let unseen = self.change(id, |slot| {
            let info = slot.as_mut()?;
            let before = info.live();
            info.references = info.references.checked_sub(count)?;
            if !info.is_sealed() {
                return Some(0);
            }
            Some(count - u64::from(before - info.live()).min(count))
        });
        self.unseen = self.unseen.saturating_add(unseen.unwrap_or(0));
        unseen.is_some()
    }

    /// A pass over the maps begins to count the records that are referred to.
    pub fn begin_count(&mut self) {
        self.counting = self.counting.saturating_add(std::mem::take(&mut self.unseen));
        self.counts += 1;
        for page in self.pages.iter_mut().flatten() {
            page.containers.iter_mut().flatten().for_each(|info| info.gained = 0);
        }
    }

    /// That pass found so many records of `id` referred to. It may have missed what was referred to
    /// since it began.
    pub fn counted(&mut self, id: ContainerId, live: u32) {
        self.counts += 1;
        self.change(id, |slot| {
            if let Some(info) = slot {
                info.live_max = live.saturating_add(info.gained).min(info.chunks);
            }
        });
    }

    /// All containers were counted, or, if not, what was to be seen was not.
    pub fn end_count(&mut self, whole: bool) {
        let counting = std::mem::take(&mut self.counting);
        if !whole {
            self.unseen = self.unseen.saturating_add(counting);
        }
    }

    /// What must stay as it is for records of `id` to be dead once all references to them, as they
    /// are now, were found and given up: nobody shares any, and nobody counts.
    pub fn watch(&self, id: ContainerId) -> Option<Watch> {
        let gained = self.get(id)?.gained;
        (gained < u32::MAX).then_some(Watch { gained, counts: self.counts })
    }

    /// All references to so many records of `id` were given up since `then`, each record had some:
    /// they are dead, unless that cannot be told.
    pub fn died(&mut self, id: ContainerId, records: u32, then: Watch) {
        if self.watch(id) != Some(then) {
            return;
        }
        self.change(id, |slot| {
            if let Some(info) = slot {
                info.live_max = info.live_max.saturating_sub(records);
            }
        });
        self.unseen = self.unseen.saturating_sub(records.into());
    }

    /// References given up that may have left records dead unseen, since the last count began.
    pub const fn unseen(&self) -> u64 {
        self.unseen
    }

    /// The same with those that a count has not seen that is under way: what is to be known after
    /// the pool is opened again.
    pub const fn unseen_for_good(&self) -> u64 {
        self.unseen.saturating_add(self.counting)
    }

    /// So many were there when the pool was last open.
    pub const fn set_unseen(&mut self, unseen: u64) {
        self.unseen = unseen;
    }

    /// Sums over the sealed containers.
    pub const fn totals(&self) -> SpaceTotals {
        self.totals
    }

    /// Number of sealed containers that nothing points into.
    pub const fn dead(&self) -> u64 {
        self.totals.dead
    }

    /// Take those containers off the table.
    pub fn take_dead(&mut self) -> Vec<(ContainerId, ContainerInfo)> {
        let dead: Vec<_> = self.dead.iter().filter_map(|&id| Some((id, *self.get(id)?))).collect();
        for &(id, _) in &dead {
            self.remove(id);
        }
        dead
    }

    /// Put back what was taken off: it has not gone after all.
    pub fn put_back(&mut self, taken: Vec<(ContainerId, ContainerInfo)>) {
        for (id, info) in taken {
            self.change(id, |slot| *slot = Some(info));
        }
    }

    /// Forget a container, whatever points into it.
    pub fn remove(&mut self, id: ContainerId) {
        self.change(id, |slot| *slot = None);
    }

    /// All containers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ContainerId, &ContainerInfo)> {
        let pages = self.pages.iter().enumerate();
        pages.filter_map(|(number, page)| Some((number, page.as_ref()?))).flat_map(
            |(number, page)| {
                let places = page.containers.iter().enumerate();
                places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
            },
        )
    }

    /// The first sealed container with a higher number than `id`.
    pub fn next_sealed(&self, id: ContainerId) -> Option<(ContainerId, ContainerInfo)> {
        let (mut page, mut place) = place_of(id);
        place += 1;
        while page < self.pages.len() {
            let there = self.pages[page].iter().flat_map(|page| page.containers.iter().enumerate());
            let sealed = there.skip(place).find_map(|(place, info)| {
                let info = info.filter(ContainerInfo::is_sealed)?;
                Some((id_at(page, place), info))
            });
            if sealed.is_some() {
                return sealed;
            }
            (page, place) = (page + 1, 0);
        }
        None
    }

    /// Those with lower numbers than `id`, in descending order.
    pub fn below(&self, id: ContainerId) -> impl Iterator<Item = (ContainerId, &ContainerInfo)> {
        let (last, _) = place_of(id);
        let pages = self.pages.iter().enumerate().take(last + 1).rev();
        let pages = pages.filter_map(|(number, page)| Some((number, page.as_ref()?)));
        let here = pages.flat_map(|(number, page)| {
            let places = page.containers.iter().enumerate().rev();
            places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
        });
        here.skip_while(move |(found, _)| *found >= id)
    }

    /// Those with higher numbers than `id`, in ascending order.
    pub fn after(&self, id: ContainerId) -> impl Iterator<Item = (ContainerId, &ContainerInfo)> {
        let (first, _) = place_of(id);
        let pages = self.pages.iter().enumerate().skip(first);
        let pages = pages.filter_map(|(number, page)| Some((number, page.as_ref()?)));
        let here = pages.flat_map(|(number, page)| {
            let places = page.containers.iter().enumerate();
            places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
        });
        here.skip_while(move |(found, _)| *found <= id)
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let page = size_of::<[Option<ContainerInfo>; RECORDS_PER_PAGE]>();
        self.present * page + self.pages.capacity() * size_of::<Option<TablePage>>()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }
}

/// What a checkpoint shall hold of a container.
const fn record(id: ContainerId, info: &ContainerInfo) -> ContainerRecord {
    let ContainerInfo { len_bytes, chunks, references, live_max, punched, .. } = *info;
    ContainerRecord { id, len_bytes, chunks, references, live_max, punched }
}

fn dead_len(info: &ContainerInfo) -> u64 {
    if info.is_dead() { info.stored_bytes() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_tells_is_known_as_it_is_told() {
        let id = ContainerId::new(700);
        let told = ContainerRecord {
            id,
            len_bytes: 9000,
            chunks: 7,
            references: 5,
            live_max: 6,
            punched: 1,
        };
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
        assert!((2 * page + 3 * slot..2 * page + 9 * slot).contains(&table.bytes()));
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
}
