//! Repair: a pool that is refused or damaged becomes one that is sound, with all that can be had.
//! Room: onefold-pool.
//! In: what is left of the files. Out: a report, and new files in the place of the old ones, which
//! stay under other names.
//! Source: ARCHITECTURE.md, "Repair"; docs/pool-format.md, "Repair".
//! Invariants: (1) until [`Repair::apply`] nothing is written; (2) a block reads as it did, as what
//! a container says was written there (and is listed), or as an error (and is listed), never as
//! zeroes; (3) cut short at any moment, a repair can be repeated, and the pool is as it was or as
//! it shall be then.
//! Cost: a check, another read of all containers, and memory for the map pages that change.

mod build;
mod containers;
mod guess;
mod hints;
mod mend;
mod overlay;
mod place;
mod report;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::{
    ByteSize, ContainerId, FileFolder, Folder, FolderLock, GENERATION_FILE, GenerationFile, Lba,
    Media, data_end,
};

pub use self::report::{Blocks, RepairReport};

use self::build::NewFiles;
use self::containers::{Held, examine};
use self::hints::{Explained, Kept, Restored, good_entries};
use self::mend::{Good, Places, SlotBits};
use self::overlay::Overlay;
use self::report::{ByVolume, Ranges};
use crate::check::CHUNKS_PER_PASS;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format;
use crate::format::superblock::{LOST_BLOCKS, Superblock, VolumeRecord};
use crate::lock;
use crate::map::{NO_SNAPSHOT, PAGE_BYTES, Root, Settled, VOLUME_NUMBER_MAX};
use crate::open::{
    CONTAINER_FOLDER, JOURNAL_FILE, MAP_FILE, SUPER_FILES, refuse_unfinished_repair, volume_state,
};
use crate::pba::{CONTAINER_ID_MAX, MapEntry, Pba};
use crate::pool::Pool;
use crate::rescue::{self, RescuePoint, RescueReport};
use crate::settings::{Budgets, PoolIdentity};

pub(crate) use self::mend::lost_blocks;

/// What is called lost-and-found.
const LOST_AND_FOUND: &str = "lost-and-found";

/// Hears how many of how many bytes of containers are read.
type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// A repair that is worked out and not done.
pub struct Repair {
    folder: Arc<dyn Folder>,
    report: RepairReport,
    work: Work,
    _lock: Option<FolderLock>,
}

/// What is to be done.
enum Work {
    Nothing,
    /// A former repair is to be put in place.
    Finish,
    Replace(Box<Replace>),
}

/// The files that are to be replaced.
struct Replace {
    inner: Inner,
    map: Arc<Overlay>,
    files: NewFiles,
    /// A new generation begins.
    generation: Option<Vec<u8>>,
    /// Containers to be written anew.
    rewrites: Vec<(ContainerId, Held)>,
}

impl Pool {
    /// Work out how to repair the pool at `path`, which no server has open. Nothing is written.
    /// `fresh` is drawn at random, for a pool whose key is lost. With `only_look`, others may read
    /// the pool meanwhile, and the repair cannot be done.
    pub fn repair_at(
        path: &Path,
        only_look: bool,
        fresh: PoolIdentity,
        progress: Progress<'_>,
    ) -> Result<Repair, PoolError> {
        let folder: Arc<dyn Folder> = Arc::new(FileFolder::open(path)?);
        let lock = lock::acquire(path, only_look)?;
        lock.keep();
        plan(folder, Some(lock), fresh, progress)
    }

    /// The same for a pool in any folder. The caller sees to it that nobody else uses it.
    pub fn repair_in(
        folder: Arc<dyn Folder>,
        fresh: PoolIdentity,
        progress: Progress<'_>,
    ) -> Result<Repair, PoolError> {
        plan(folder, None, fresh, progress)
    }
}

impl Repair {
    /// What is wrong, what will be done, and what cannot be had.
    pub const fn report(&self) -> &RepairReport {
        &self.report
    }

    /// Do it. After an error the pool is as it was, or refused until the repair is repeated.
    ///
    /// # Errors
    /// [`PoolError::NoSpace`] if there is none for the new files: nothing has changed then.
    pub fn apply(self) -> Result<RepairReport, PoolError> {
        let folder = &*self.folder;
        match self.work {
            Work::Nothing => {}
            Work::Finish => place::resume(folder)?,
            Work::Replace(replace) => {
                place::clear(folder)?;
                if let Err(error) = replace.write(folder).and_then(|()| place::decide(folder)) {
                    if !place::is_decided(folder).unwrap_or(true) {
                        // They may be what fills the disk; the first error is the one to tell.
                        let _ = place::clear(folder);
                    }
                    return Err(error);
                }
                place::finish(folder)?;
            }
        }
        Ok(self.report)
    }
}

fn plan(
    folder: Arc<dyn Folder>,
    lock: Option<FolderLock>,
    fresh: PoolIdentity,
    progress: Progress<'_>,
) -> Result<Repair, PoolError> {
    let mut report = RepairReport::default();
    if refuse_unfinished_repair(&*folder).is_err() {
        report.findings.push(PoolError::RepairUnfinished.to_string());
        (report.findings_total, report.finishes) = (1, true);
        report.plan.push("put the files of the repair that was interrupted in place".to_owned());
        return Ok(Repair { folder, report, work: Work::Finish, _lock: lock });
    }
    let checked = Pool::check_in(&*folder, progress);
    let checked = checked.or_else(|error| match error {
        // Containers may be all that is left.
        error if error.is_unreadable() || matches!(error, PoolError::NoPool) => {
            let mut report = crate::check::CheckReport::default();
            report.found(error.to_string());
            Ok(report)
        }
        error => Err(error),
    })?;
    report.findings = checked.findings.iter().map(|finding| finding.problem.clone()).collect();
    report.findings_total = checked.findings_total;
    report.notes.clone_from(&checked.notes);
    if checked.is_sound() {
        report.lost = checked.lost;
        return Ok(Repair { folder, report, work: Work::Nothing, _lock: lock });
    }
    let planner = Planner::begin(&*folder, fresh, &mut report)?;
    let replace = planner.work_out(&*folder, &mut report, progress)?;
    Ok(Repair { folder, report, work: Work::Replace(Box::new(replace)), _lock: lock })
}

/// A repair that is being worked out.
struct Planner {
    inner: Inner,
    map: Arc<Overlay>,
    /// The checkpoint that it goes on from.
    base: Superblock,
    explained: Explained,
    /// Something that was flushed may be missing from what the checkpoint and the journal say.
    uncertain: bool,
    kept: Kept,
    /// Every container in the folder.
    listed: Vec<ContainerId>,
    /// Maps lead to what cannot be had.
    hurt: bool,
    /// Blocks that are lost in pages that are a tree's own.
    lost: ByVolume,
    /// Those that were, before containers were asked.
    first_lost: ByVolume,
    restored: Restored,
    /// The newest epoch that any container was made in.
    newest_epoch: u64,
    /// What became of the pages of trees.
    settled: Option<Settled>,
    /// Records whose places are held in memory at once.
    chunks_per_pass: u64,
}

impl Planner {
    /// Open what is left, and follow what is left of the journal.
    fn begin(
        folder: &dyn Folder,
        fresh: PoolIdentity,
        report: &mut RepairReport,
    ) -> Result<Self, PoolError> {
        let mut left = rescue::left_files(folder)?;
        let mut found = RescueReport::default();
        let store = rescue::left_containers(folder, &mut found)?;
        let mut is_guessed = false;
        let base = match rescue::newest_super(&left.supers, &mut found) {
            Ok(base) => base,
            Err(error) if error.is_corruption() => {
                let base = guess::superblock(&left, &*store, fresh)?;
                is_guessed = true;
                report.uncertain.push(
                    "both checkpoints are lost: names, sizes and snapshots of volumes, and blocks \
                     that shared what was written for another; volumes are made from what \
                     containers say of their owners"
                        .to_owned(),
                );
                base
            }
            Err(error) => return Err(error),
        };
        let map = Arc::new(Overlay::new(Arc::clone(&left.map))?);
        left.map = Arc::<Overlay>::clone(&map);
        let budgets = Budgets::default();
        let mut listed = store.list()?;
        // No address has room for a higher number: it is no container, whatever it is called.
        listed.retain(|id| id.get() <= CONTAINER_ID_MAX);
        let inner = rescue::look((left, store), &base, budgets, None, &mut found)?;
        let slots = data_end(&*map)?.div_ceil(PAGE_BYTES as u64);
        // Nothing that is referred to is written over.
        let (used, hurt) = mend::reach(&inner, &base, slots);
        inner.map.restore_slots(SlotBits::into_bits(used));
        if hurt {
            mend::salvage(&inner)?;
        }
        let hurt = hurt || base.features.may_only_read & LOST_BLOCKS != 0;
        let mut explained = Explained::default();
        rescue::follow_journal(&inner, RescuePoint::Newest, &mut found, &mut |change, gap| {
            // All that came before a checkpoint that was made up is missing.
            explained.note(change, gap || is_guessed);
        })?;
        report.uncertain.append(&mut found.missing);
        let uncertain = !report.uncertain.is_empty();
        Ok(Self {
            inner,
            map,
            base,
            explained,
            uncertain,
            kept: Kept::new(),
            listed,
            hurt,
            lost: ByVolume::new(),
            first_lost: ByVolume::new(),
            restored: Restored::new(),
            newest_epoch: 0,
            settled: None,
            chunks_per_pass: CHUNKS_PER_PASS,
        })
    }

    /// All that follows.
    fn work_out(
        mut self,
        folder: &dyn Folder,
        report: &mut RepairReport,
        progress: Progress<'_>,
    ) -> Result<Replace, PoolError> {
        self.survey(progress)?;
        self.salvage(report)?;
        self.conclude(folder, report)
    }

    /// The checkpoint that pages are born with that the repair makes.
    const fn birth(&self) -> u64 {
        self.base.sequence + 1
    }

    /// Put what is changed in memory into the map's file, which is in memory, too.
    fn write_out(&self) -> Result<(), PoolError> {
        let mut frozen = self.inner.map.freeze(self.birth());
        self.inner.map.write_out(&mut frozen)
    }

    /// Look at every container, and let what leads to no good record be lost.
    fn survey(&mut self, progress: Progress<'_>) -> Result<(), PoolError> {
        let total = self.listed.len() as u64;
        let mut there: BTreeSet<ContainerId> = self.listed.iter().copied().collect();
        let mut good = Good::new();
        let (mut chunks, mut epoch) = (0, 0);
        let mut mended = false;
        for (number, id) in self.listed.clone().into_iter().enumerate() {
            progress(number as u64, total);
            let info = self.inner.engine().table.get(id).copied();
            let Some(examined) = examine(&self.inner, id, info.as_ref())? else {
                there.remove(&id);
                continue;
            };
            epoch = examined.epoch.unwrap_or(epoch);
            self.newest_epoch = self.newest_epoch.max(epoch);
            let records = examined.entries.iter().map(|entry| (entry.location, false));
            good.insert(id, records.collect());
            chunks += examined.entries.len() as u64;
            if !examined.entries.is_empty() {
                let rewrite = examined.rewrite;
                let len = if rewrite { examined.sealed_len() } else { examined.bytes.len() };
                let punched = info.filter(|_| !rewrite).map_or(0, |info| info.punched);
                let chunks = examined.entries.len() as u32;
                let held = Held { epoch, len_bytes: len as u32, chunks, punched, rewrite };
                self.kept.insert(id, held);
            }
            if chunks >= self.chunks_per_pass {
                self.mend(Places { good: std::mem::take(&mut good), there: &there })?;
                (mended, chunks) = (true, 0);
            }
        }
        // A container without a good record counts as well: what leads there is lost.
        if !good.is_empty() || !mended {
            self.mend(Places { good, there: &there })?;
        }
        Ok(())
    }

    fn mend(&mut self, mut places: Places<'_>) -> Result<(), PoolError> {
        self.hurt |= mend::is_hurt(&self.inner, &mut places)?;
        if !self.hurt {
            return Ok(());
        }
        self.write_out()?;
        mend::mend(&self.inner, &mut places, &mut self.lost)
    }

    /// Have again what containers know.
    fn salvage(&mut self, report: &mut RepairReport) -> Result<(), PoolError> {
        let (kept, first_unknown) = (&self.kept, self.base.next_container);
        if self.uncertain {
            let since = (kept, first_unknown, self.base.next_volume);
            let chunk = self.inner.chunk_bytes() as u64;
            for (number, blocks) in hints::unknown_owners(&self.inner, since)? {
                let record = guess::recovered(number, blocks, chunk, self.base.sequence);
                add_volume(&self.inner, record)?;
                self.lost.entry(number).or_default().push(0, blocks);
            }
        }
        if self.hurt || !self.lost.is_empty() {
            self.write_out()?;
            let mut settled = Settled::new(self.inner.map.file_slots()?);
            let (inner, lost) = (&self.inner, &self.lost);
            let since = (kept, self.base.sequence + 1);
            hints::restore_lost(inner, since, lost, &mut |snapshot| {
                settle(inner, &mut settled, snapshot, lost)
            })?;
            self.settled = Some(settled);
            self.inner.map.forget_clean();
        }
        if self.uncertain {
            let since = (kept, first_unknown);
            hints::follow_containers(&self.inner, since, &self.explained, &mut self.restored)?;
        }
        self.first_lost = std::mem::take(&mut self.lost);
        self.lost = mend::still_lost(&self.inner, &self.first_lost)?;
        if self.uncertain || !self.lost.is_empty() {
            report.lost_and_found = self.find_strays()?;
        }
        Ok(())
    }

    /// Make a volume of records that nothing refers to and that have no owner; its name and how
    /// many blocks it has.
    fn find_strays(&self) -> Result<Option<(String, u64)>, PoolError> {
        let mut strays: Vec<Pba> = Vec::new();
        let there: BTreeSet<ContainerId> = self.listed.iter().copied().collect();
        let mut rest: Vec<(ContainerId, Held)> = self.kept.iter().map(|(i, h)| (*i, *h)).collect();
        while !rest.is_empty() {
            let mut chunks = 0;
            let group = rest.iter().take_while(|(_, held)| {
                chunks += u64::from(held.chunks);
                chunks <= self.chunks_per_pass
            });
            let later = rest.split_off(group.count().max(1));
            let mut unowned = BTreeSet::new();
            let mut places = Places { good: Good::new(), there: &there };
            for (id, held) in &rest {
                let entries = good_entries(&self.inner, *id, held)?;
                let without = entries.iter().filter(|entry| entry.owner.volume == 0);
                unowned.extend(without.map(|entry| (*id, entry.location)));
                let all = entries.iter().map(|entry| (entry.location, false));
                places.good.insert(*id, all.collect());
            }
            mend::is_hurt(&self.inner, &mut places)?;
            strays.extend(unowned.into_iter().filter_map(|(container, location)| {
                let good = &places.good[&container];
                let at = good.binary_search_by_key(&location, |(location, _)| *location).ok()?;
                (!good[at].1).then_some(Pba { container, location })
            }));
            rest = later;
        }
        if strays.is_empty() {
            return Ok(None);
        }
        let number = self.next_volume();
        if number > VOLUME_NUMBER_MAX {
            return Ok(None);
        }
        let (blocks, chunk) = (strays.len() as u64, self.inner.chunk_bytes() as u64);
        let mut record = guess::recovered(number, blocks, chunk, self.base.sequence);
        LOST_AND_FOUND.clone_into(&mut record.name);
        let name = add_volume(&self.inner, record)?;
        let entries: Vec<MapEntry> = strays.into_iter().map(MapEntry::Stored).collect();
        self.inner.map.set_over_damage(number, Lba::new(0), &entries, &mut |_| {})?;
        Ok(Some((name, blocks)))
    }

    fn next_volume(&self) -> u32 {
        let last = self.inner.all_volumes().last().map_or(0, |volume| volume.number);
        self.base.next_volume.max(last.saturating_add(1))
    }

    /// The number of the newest checkpoint that anything tells of; two are about to follow.
    fn newest_sequence(&self) -> Result<u64, PoolError> {
        let journal = crate::journal::good_frames(&*self.inner.files.journal, 0);
        let journal = journal.ok().and_then(|frames| frames.last().map(|frame| frame.epoch));
        let newest = self.base.sequence.max(self.newest_epoch).max(journal.unwrap_or(0));
        format::check_sequence(newest + 2)?;
        Ok(newest)
    }

    /// Write the new state in memory, and say what is to be done.
    fn conclude(
        mut self,
        folder: &dyn Folder,
        report: &mut RepairReport,
    ) -> Result<Replace, PoolError> {
        // What has no name is about to be deleted.
        let name = |number: u32| {
            let volume = self.inner.volume_by_number(number);
            volume.map(|volume| volume.name()).filter(|name| !name.is_empty())
        };
        let restored = std::mem::take(&mut self.restored);
        let mut others: BTreeSet<u32> = restored.keys().copied().collect();
        if let Some(mut settled) = self.settled.take() {
            self.write_out()?;
            self.inner.map.forget_clean();
            for volume in mend::in_order(&self.inner).iter().filter(|v| !v.is_snapshot) {
                settle(&self.inner, &mut settled, volume, &self.first_lost)?;
            }
            for volume in self.inner.all_volumes() {
                let Some(name) = name(volume.number) else { continue };
                let (gone, mut back) = match told(&self.inner, &settled, volume.number) {
                    Err(PoolError::VolumeDeleted) => continue,
                    told => told?,
                };
                if let Some(also) = restored.get(&volume.number) {
                    back = hints::joined_with(back, also);
                }
                report.lost.add(&name, &gone);
                report.restored.add(&name, &back);
                if !gone.0.is_empty() || !back.0.is_empty() {
                    others.insert(volume.number);
                }
            }
            mend::part(&self.inner)?;
        } else {
            for (number, blocks) in restored {
                if let Some(name) = name(number) {
                    report.restored.add(&name, &Ranges::of(blocks));
                }
            }
        }
        if !self.lost.is_empty() {
            self.inner.features.may_only_read |= LOST_BLOCKS;
        }
        let last = self.listed.last().map_or(0, |id| id.get());
        {
            let next_volume = self.next_volume();
            let mut engine = self.inner.engine();
            engine.next_container = engine.next_container.max(last.saturating_add(1));
            engine.next_volume = next_volume;
        }
        let newest = self.newest_sequence()?;
        let files = build::build(&self.inner, &self.kept, &others, newest + 1)?;
        let used = |id: &ContainerId| files.references.contains_key(id);
        let rewrites: Vec<(ContainerId, Held)> = self.kept.iter().map(|(i, h)| (*i, *h)).collect();
        let rewrites: Vec<_> =
            rewrites.into_iter().filter(|(id, held)| held.rewrite && used(id)).collect();
        let uuid = self.inner.identity.uuid;
        let damaged = GenerationFile::problem(folder, &uuid)?.is_some();
        let generation = (damaged || report.is_lossy())
            .then(|| GenerationFile::after_loss(folder, uuid, newest + 2))
            .transpose()?;
        let replace = Replace { inner: self.inner, map: self.map, files, generation, rewrites };
        replace.tell(report);
        report.map_pages_read = replace.inner.map.stats().pages_read;
        Ok(replace)
    }
}

/// Which blocks of a settled tree are lost, and which were had again.
fn told(inner: &Inner, settled: &Settled, number: u32) -> Result<(Ranges, Ranges), PoolError> {
    let (mut gone, mut back) = (Ranges::default(), Ranges::default());
    inner.map.told(number, settled, &mut |first, count, lost| {
        if lost { &mut gone } else { &mut back }.push(first, count);
    })?;
    Ok((gone, back))
}

/// Let a tree have pages of the map's file alone, after the one that it was made from. Of what was
/// lost of it, what is there was had again.
fn settle(
    inner: &Inner,
    settled: &mut Settled,
    volume: &VolumeState,
    lost: &ByVolume,
) -> Result<(), PoolError> {
    let ranges = lost.get(&volume.number);
    let restored = |block| ranges.is_some_and(|ranges| ranges.contains(block));
    let parent = volume.parent.load(Ordering::Acquire);
    match inner.map.settle((volume.number, parent), settled, &restored) {
        // It was given up wholly.
        Err(PoolError::VolumeDeleted) => Ok(()),
        done => done,
    }
}

/// Add a volume under a name that no other has; returns the name.
fn add_volume(inner: &Inner, mut record: VolumeRecord) -> Result<String, PoolError> {
    let taken: BTreeSet<String> = inner.all_volumes().iter().map(|volume| volume.name()).collect();
    let wanted = record.name.clone();
    let mut more = 2;
    while taken.contains(&record.name) {
        record.name = format!("{wanted}-{more}");
        more += 1;
    }
    let root = Root { height: record.height, reference: record.root };
    let blocks = record.size_bytes.div_ceil(inner.settings.chunk_size.bytes64());
    inner.map.add(record.number, root, blocks, NO_SNAPSHOT)?;
    let mut volumes = inner.volumes.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    volumes.insert(record.number, volume_state(&record));
    Ok(record.name)
}

impl Replace {
    /// Say what is about to be done.
    fn tell(&self, report: &mut RepairReport) {
        let pages: u64 = self.files.slots.iter().map(|bits| u64::from(bits.count_ones())).sum();
        let map = pages * PAGE_BYTES as u64;
        let containers: u64 = self.rewrites.iter().map(|(_, held)| u64::from(held.len_bytes)).sum();
        report.bytes_to_write = 2 * (map + containers + (64 << 10));
        report.plan.push(format!(
            "write the map ({}), both checkpoints and the journal anew",
            ByteSize(map)
        ));
        if !self.rewrites.is_empty() {
            report.plan.push(format!(
                "write {} of {} containers anew, with their good records ({})",
                self.rewrites.len(),
                self.files.references.len(),
                ByteSize(containers)
            ));
        }
        if self.generation.is_some() {
            report.plan.push(
                "begin a new generation, so that clients that connect again are told".to_owned(),
            );
        }
        report.plan.push(
            "remove the fingerprint runs, which the pool makes again in the background".to_owned(),
        );
        report.plan.push(format!(
            "keep the files that are replaced, as FILE{}N, until you remove them",
            place::OLD
        ));
    }

    /// Write all new files under names of their own.
    fn write(&self, folder: &dyn Folder) -> Result<(), PoolError> {
        let whole = |name: &str, bytes: &[u8]| {
            place::write(folder, name, &mut |media| Ok(media.write(0, bytes)?))
        };
        if !self.rewrites.is_empty() {
            let containers = folder.subfolder(CONTAINER_FOLDER)?;
            for (id, held) in &self.rewrites {
                let info = self.inner.engine().table.get(*id).copied();
                let examined = examine(&self.inner, *id, info.as_ref())?;
                let same = examined.filter(|examined| {
                    let now = (examined.sealed_len(), examined.entries.len());
                    now == (held.len_bytes as usize, held.chunks as usize)
                });
                let Some(examined) = same else {
                    let problem = "less of it can be read than before: repair again";
                    return Err(PoolError::corrupt_whole(id.to_string(), problem));
                };
                let bytes = examined.sealed(*id, &self.inner.identity.uuid, held.epoch);
                let name = onefold_block::folder_store::file_name(*id);
                place::write(&*containers, &name, &mut |media| Ok(media.write(0, &bytes)?))?;
            }
        }
        place::write(folder, MAP_FILE, &mut |media| self.write_map(media))?;
        whole(JOURNAL_FILE, &self.files.journal)?;
        if let Some(generation) = &self.generation {
            whole(GENERATION_FILE, generation)?;
        }
        SUPER_FILES.iter().zip(&self.files.supers).try_for_each(|(name, bytes)| whole(name, bytes))
    }

    /// The pages of the map that are in use.
    fn write_map(&self, media: &dyn Media) -> Result<(), PoolError> {
        let end = self.map.len()?;
        let is_used = |slot: u64| {
            let word = self.files.slots.get(slot as usize / 64);
            word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
        };
        let per_copy = (place::COPY_BYTES / PAGE_BYTES) as u64;
        let (mut slot, slots) = (0, end / PAGE_BYTES as u64);
        let mut bytes = Vec::new();
        while slot < slots {
            if !is_used(slot) {
                slot += 1;
                continue;
            }
            let run = (slot..slots.min(slot + per_copy)).take_while(|&slot| is_used(slot));
            let run = run.count();
            bytes.resize(run * PAGE_BYTES, 0);
            let at = slot * PAGE_BYTES as u64;
            self.map.read(at, &mut bytes)?;
            media.write(at, &bytes)?;
            slot += run as u64;
        }
        Ok(media.set_len(end)?)
    }
}

#[cfg(test)]
mod tests;
