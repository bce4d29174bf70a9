//! All containers of a pool, how many map entries point into each, and how much of each lives.
//! Room: onefold-pool.
//! Invariants: (1) `references` of a container equals the number of map entries with an address in
//! it; `Pool::check` recounts them; (2) at most `live_max` of its records are referred to, and at
//! most `references`; (3) no record of a container with punched pages is
//! shared; (4) `totals` are the sums over all sealed containers.
//! Cost: 32 bytes of memory per container, that is per 4 MiB stored; 8 bytes per 65,536 containers
//! that once were.

use std::collections::BTreeSet;

use onefold_block::ContainerId;

use crate::error::PoolError;
use crate::format::container_table::{
    self, ContainerRecord, PUNCH_BYTES, RECORDS_PER_PAGE, REFERENCES_MAX, RecordPage,
};
use crate::format::frame::Sealed;
use crate::map::{ENTRIES_PER_PAGE, Map, OnDamage, PageArray, PageRef, REFERENCES_PER_PAGE};
use crate::sparse::Sparse;

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

    /// It takes no more records, and has its directory.
    pub const fn is_sealed(&self) -> bool {
        self.len_bytes > 0
    }

    /// Pages of it were given back, or are about to be.
    pub const fn is_punched(&self) -> bool {
        self.punched > 0
    }

    /// Map entries point into it.
    pub const fn is_referenced(&self) -> bool {
        self.references > 0
    }

    const fn is_dead(&self) -> bool {
        self.is_sealed() && !self.is_referenced()
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
    pages: Sparse<TablePage>,
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
        self.pages.values_mut().for_each(|page| page.dirty = false);
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
            if let Some(page) = self.pages.get_mut(number) {
                page.dirty = false;
                for (place, info) in page.containers.iter().enumerate() {
                    if let Some(info) = info {
                        container_table::encode(&record(id_at(number, place), info), &mut words);
                    }
                }
                if page.used == 0 {
                    self.pages.take(number);
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
            if let Some(page) = self.pages.get_mut(number) {
                page.dirty = true;
            }
            self.dirtied.push(number);
        }
    }

    /// Pages of the map file that the next checkpoint may need, at most: all of the table, one
    /// more, and those above.
    pub fn pages_max(&self) -> usize {
        let mut pages = self.present + 1;
        let mut level = self.pages.end() + 1;
        while level > 1 {
            level = level.div_ceil(REFERENCES_PER_PAGE);
            pages += level;
        }
        pages
    }

    fn info_mut(&mut self, id: ContainerId) -> Option<&mut ContainerInfo> {
        let (page, place) = place_of(id);
        self.pages.get_mut(page)?.containers[place].as_mut()
    }

    /// The place of a container, which may be empty.
    fn slot(&mut self, id: ContainerId) -> (&mut TablePage, usize) {
        let (number, place) = place_of(id);
        let present = &mut self.present;
        let page = self.pages.get_or_put_with(number, || {
            *present += 1;
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
        self.pages.get(page)?.containers[place].as_ref()
    }

    /// Whether a record of this container may be shared: it is there, not being emptied, and all of
    /// it is there.
    pub fn is_shareable(&self, id: ContainerId) -> bool {
        self.get(id).is_some_and(|info| !info.closing && !info.is_punched())
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
        for page in self.pages.values_mut() {
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
        self.pages.range(0..self.pages.end()).flat_map(|(number, page)| {
            let places = page.containers.iter().enumerate();
            places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
        })
    }

    /// The first sealed container with a higher number than `id`.
    pub fn next_sealed(&self, id: ContainerId) -> Option<(ContainerId, ContainerInfo)> {
        let mut sealed = self.after(id).filter(|(_, info)| info.is_sealed());
        sealed.next().map(|(id, info)| (id, *info))
    }

    /// Those with lower numbers than `id`, in descending order.
    pub fn below(&self, id: ContainerId) -> impl Iterator<Item = (ContainerId, &ContainerInfo)> {
        let (last, _) = place_of(id);
        let here = self.pages.range(0..last + 1).rev().flat_map(|(number, page)| {
            let places = page.containers.iter().enumerate().rev();
            places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
        });
        here.skip_while(move |(found, _)| *found >= id)
    }

    /// Those with higher numbers than `id`, in ascending order.
    pub fn after(&self, id: ContainerId) -> impl Iterator<Item = (ContainerId, &ContainerInfo)> {
        let (first, _) = place_of(id);
        let pages = self.pages.range(first..self.pages.end());
        let here = pages.flat_map(|(number, page)| {
            let places = page.containers.iter().enumerate();
            places.filter_map(move |(place, info)| Some((id_at(number, place), info.as_ref()?)))
        });
        here.skip_while(move |(found, _)| *found <= id)
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let page = size_of::<[Option<ContainerInfo>; RECORDS_PER_PAGE]>();
        self.present * page + self.pages.bytes()
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
mod tests;
