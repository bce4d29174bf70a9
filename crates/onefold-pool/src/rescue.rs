//! Opening a pool that is refused: read-only, from what is left of it, with a word on what may be
//! missing.
//! Room: onefold-pool.
//! Invariants: (1) nothing is written, made or removed; (2) a block reads as what some flushed
//! state of it was, or as an error; (3) a report that misses nothing means that nothing shows that
//! anything flushed is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::{
    ContainerId, ContainerStore, FileFolder, Folder, FolderContainerStore, FolderLock, Media,
    MediaError,
};

use crate::absent::{NoFile, NoFolder};

use crate::engine::{Files, Inner};
use crate::error::PoolError;
use crate::format::frame::{self, Change};
use crate::format::superblock::Superblock;
use crate::journal::{self, FoundFrame, Witness};
use crate::lock;
use crate::open::{self, CONTAINER_FOLDER, JOURNAL_FILE, MAP_FILE, OpenOptions, SUPER_FILES};
use crate::pool::Pool;
use crate::settings::Budgets;

/// Which state of its volumes a damaged pool is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescuePoint {
    /// As all of it was at one moment, the latest that is known to be whole.
    Consistent,
    /// Of each block the newest known state; blocks may be of different moments.
    Newest,
}

/// What a rescue went by, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueReport {
    /// Sequence number of the checkpoint that was used.
    pub checkpoint: u64,
    /// Frames of the journal that were followed.
    pub frames: u64,
    /// What is damaged.
    pub damage: Vec<String>,
    /// What may be missing, or older than it was.
    pub missing: Vec<String>,
}

impl Pool {
    /// Open the pool at `path` read-only, whatever is damaged of it, as long as one checkpoint
    /// can be read.
    pub fn rescue_at(
        path: &Path,
        budgets: Budgets,
        point: RescuePoint,
    ) -> Result<(Self, RescueReport), PoolError> {
        let folder = FileFolder::open(path)?;
        let lock = lock::acquire(path, true)?;
        rescue(&folder, budgets, point, Some(lock))
    }

    /// Rescue a pool in any folder. The caller sees to it that nobody else uses it.
    pub fn rescue(
        folder: &dyn Folder,
        budgets: Budgets,
        point: RescuePoint,
    ) -> Result<(Self, RescueReport), PoolError> {
        rescue(folder, budgets, point, None)
    }
}

fn rescue(
    folder: &dyn Folder,
    budgets: Budgets,
    point: RescuePoint,
    lock: Option<FolderLock>,
) -> Result<(Pool, RescueReport), PoolError> {
    let names = folder.list()?;
    if !SUPER_FILES.iter().any(|name| names.iter().any(|found| found == name)) {
        return Err(PoolError::NoPool);
    }
    budgets.check()?;
    open::refuse_unfinished_repair(folder)?;
    let mut report = RescueReport::default();
    let files = left_files(folder)?;
    let superblock = newest_super(&files.supers, &mut report)?;
    let store = left_containers(folder, &mut report)?;
    let inner = look((files, store), &superblock, budgets, lock, &mut report)?;
    note_containers(&inner, &mut report)?;
    follow_journal(&inner, point, &mut report, &mut |_, _| {})?;
    Ok((Pool { inner: Arc::new(inner) }, report))
}

/// The files of a pool, those that are missing among them.
pub(crate) fn left_files(folder: &dyn Folder) -> Result<Files, PoolError> {
    Ok(Files {
        supers: [media(folder, SUPER_FILES[0])?, media(folder, SUPER_FILES[1])?],
        journal: media(folder, JOURNAL_FILE)?,
        map: media(folder, MAP_FILE)?,
        fingerprints: None,
    })
}

/// The containers of a pool, if it has a folder for them.
pub(crate) fn left_containers(
    folder: &dyn Folder,
    report: &mut RescueReport,
) -> Result<Arc<dyn ContainerStore>, PoolError> {
    let containers = match folder.existing_subfolder(CONTAINER_FOLDER) {
        Err(MediaError::NotFound { .. }) => {
            report.damage.push(format!("the folder '{CONTAINER_FOLDER}' is missing"));
            Arc::new(NoFolder)
        }
        other => other?,
    };
    Ok(Arc::new(FolderContainerStore::new(containers)))
}

/// The state of a checkpoint, as far as it can be read, before the journal is followed.
pub(crate) fn look(
    (files, store): (Files, Arc<dyn ContainerStore>),
    superblock: &Superblock,
    budgets: Budgets,
    lock: Option<FolderLock>,
    report: &mut RescueReport,
) -> Result<Inner, PoolError> {
    report.checkpoint = superblock.sequence;
    if let Err(error) = open::check_map_header(&*files.map, &superblock.identity) {
        refuse_newer(error, report)?;
    }
    let options = OpenOptions { read_only: true, budgets };
    let maps =
        open::load_maps(&files, superblock, &options, &mut |error| refuse_newer(error, report))?;
    let stores = [Arc::clone(&store), store];
    let inner = open::assemble((files, maps), stores, superblock, &options, lock);
    open::add_trees(&inner, superblock)?;
    Ok(inner)
}

/// Follow the frames of the journal that can be. `seen` hears of each change that is followed, and
/// whether others that came before it are missing.
pub(crate) fn follow_journal(
    inner: &Inner,
    point: RescuePoint,
    report: &mut RescueReport,
    seen: Seen<'_>,
) -> Result<(), PoolError> {
    let frames = journal::good_frames(&*inner.files.journal, report.checkpoint);
    let frames = frames.or_else(|error| refuse_newer(error, report).map(|()| Vec::new()))?;
    let chosen = choose(inner, &frames, point, report)?;
    follow(inner, &frames, &chosen, report, seen)
}

type Seen<'a> = &'a mut dyn FnMut(&Change, bool);

/// A file, or the want of it.
fn media(folder: &dyn Folder, name: &str) -> Result<Arc<dyn Media>, PoolError> {
    match folder.open(name) {
        Err(MediaError::NotFound { .. }) => Ok(Arc::new(NoFile(name.to_owned()))),
        Err(MediaError::Io { source, .. }) if source.kind() == io::ErrorKind::IsADirectory => {
            Ok(Arc::new(NoFile(name.to_owned())))
        }
        other => Ok(other?),
    }
}

/// Damage is reported; what only a later version understands is an error.
fn refuse_newer(error: PoolError, report: &mut RescueReport) -> Result<(), PoolError> {
    if !error.is_unreadable() {
        return Err(error);
    }
    report.damage.push(error.to_string());
    Ok(())
}

pub(crate) fn newest_super(
    supers: &[Arc<dyn Media>; 2],
    report: &mut RescueReport,
) -> Result<Superblock, PoolError> {
    let mut newest: Option<Superblock> = None;
    let mut problems = Vec::new();
    for (media, name) in supers.iter().zip(SUPER_FILES) {
        match read_super(&**media, name) {
            Ok(found) if newest.as_ref().is_none_or(|best| best.sequence < found.sequence) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(error) if error.is_unreadable() => problems.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let Some(newest) = newest else {
        let both = format!(
            "neither checkpoint can be read, and nothing else says which blocks make up a volume: \
             {}",
            problems.join("; ")
        );
        return Err(PoolError::corrupt_whole(SUPER_FILES.join(" and "), both));
    };
    // A pool that never had a second checkpoint has an empty file for it.
    if newest.sequence > 1 {
        report.damage.append(&mut problems);
    }
    Ok(newest)
}

fn read_super(media: &dyn Media, name: &str) -> Result<Superblock, PoolError> {
    Superblock::read(media, name)?
        .ok_or_else(|| PoolError::corrupt_whole(name, "the file is missing or empty"))
}

/// Containers that are gone, and those that the checkpoint does not know.
fn note_containers(inner: &Inner, report: &mut RescueReport) -> Result<(), PoolError> {
    let there = inner.store.list()?;
    let engine = inner.engine();
    let is_gone = |id: &ContainerId| there.binary_search(id).is_err();
    let used = engine.table.iter().filter(|(_, info)| info.is_referenced());
    let gone: Vec<ContainerId> = used.map(|(id, _)| id).filter(is_gone).collect();
    if let Some(first) = gone.first() {
        report.missing.push(format!(
            "{} of the {} containers of checkpoint {} are gone ({first} the first): blocks in them \
             cannot be read",
            gone.len(),
            engine.table.len(),
            report.checkpoint
        ));
    }
    Ok(())
}

/// Epochs without any frame that are told of one by one.
const EPOCHS_TOLD: usize = 8;

/// Which frames to follow: their places in `frames`. What is left out is reported.
fn choose(
    inner: &Inner,
    frames: &[FoundFrame],
    point: RescuePoint,
    report: &mut RescueReport,
) -> Result<Vec<usize>, PoolError> {
    let mut base = report.checkpoint;
    let newest = frames.last().map_or(base, |frame| frame.epoch);
    if newest == base + 1 && inner.files.journal.len()? == frame::ALIGN_BYTES as u64 {
        // Only a clean stop cuts the journal to the frame that begins an epoch, after two
        // checkpoints of the same.
        base = newest;
    }
    if newest > base {
        report.missing.push(format!(
            "the journal follows checkpoint {newest}, and the newest readable one is {base}: \
             volumes made, resized or deleted since then are as they were before"
        ));
    }
    let mut chosen = Vec::new();
    let mut consistent = true;
    for epoch in epochs(frames, base, newest) {
        let of_epoch: Vec<usize> =
            (0..frames.len()).filter(|&n| frames[n].epoch == epoch).collect();
        let mut next = 1;
        for &n in of_epoch.iter().filter(|&&n| frames[n].number > 0) {
            let found = frames[n].number;
            if found > next {
                report.missing.push(lost_frames(epoch, next, found - 1));
                consistent = false;
            }
            next = found + 1;
            if consistent || point == RescuePoint::Newest {
                chosen.push(n);
            }
        }
        let last = of_epoch.last().map(|&n| frames[n]);
        let torn = torn_after(inner, epoch, last)?;
        let witnessed = witnessed(inner, epoch);
        if let Some(durable) = witnessed.filter(|&durable| durable > next) {
            report.missing.push(lost_frames(epoch, next, durable - 1));
            consistent = false;
            continue;
        }
        // A frame that is not whole, or none at all, may have been answered, but for the witness.
        let whole = !torn && witnessed == Some(next);
        let nothing = next == 1 && last.is_some() && epoch == newest;
        consistent &= whole;
        if of_epoch.is_empty() && epoch == newest {
            let problem = "there is no good frame of the newest checkpoint in it";
            report.damage.push(PoolError::corrupt_whole(JOURNAL_FILE, problem).to_string());
            report.missing.push(made_after(inner, base)?);
        } else if !whole && !nothing {
            let why =
                if torn { "the next one is not whole" } else { "nothing shows that it ended" };
            report.missing.push(format!(
                "what was flushed after frame {} of checkpoint {epoch}, if anything was: {why}",
                next - 1
            ));
        }
    }
    Ok(chosen)
}

/// The epochs from `base` to `newest` that are told of one by one: those that have frames, and the
/// first few that have none. A frame may say any number, and there is no memory for a line on each
/// below it.
fn epochs(frames: &[FoundFrame], base: u64, newest: u64) -> BTreeSet<u64> {
    let there = frames.iter().map(|frame| frame.epoch);
    let mut epochs: BTreeSet<u64> = there.filter(|epoch| (base..=newest).contains(epoch)).collect();
    let without = (base..=newest).filter(|epoch| !epochs.contains(epoch));
    let without: Vec<u64> = without.take(EPOCHS_TOLD).collect();
    epochs.extend(without);
    epochs
}

/// How many frames of an epoch are known to have been durable.
fn witnessed(inner: &Inner, epoch: u64) -> Option<u64> {
    Witness::search(&*inner.files.supers[epoch as usize % 2], epoch)
}

fn lost_frames(epoch: u64, from: u64, to: u64) -> String {
    let which = if from == to { format!("frame {from}") } else { format!("frames {from} to {to}") };
    format!("the changes in {which} of checkpoint {epoch}: the journal is damaged there")
}

/// Whether a frame of the epoch begins after its last good one and is not whole.
fn torn_after(inner: &Inner, epoch: u64, last: Option<FoundFrame>) -> Result<bool, PoolError> {
    let Some(last) = last else { return Ok(false) };
    journal::begins_after(&*inner.files.journal, last.at, epoch)
}

fn made_after(inner: &Inner, base: u64) -> Result<String, PoolError> {
    let first_unknown = inner.engine().next_container;
    let made = inner.store.list()?.iter().filter(|id| id.get() >= first_unknown).count();
    let sure = match made {
        0 => "no container was made since",
        _ => "there was something, for containers were made since",
    };
    Ok(format!(
        "everything flushed after checkpoint {base}, if anything was: the journal has nothing of \
         it ({sure})"
    ))
}

/// Follow the chosen frames, and report what of the others concerns which volume.
fn follow(
    inner: &Inner,
    frames: &[FoundFrame],
    chosen: &[usize],
    report: &mut RescueReport,
    seen: Seen<'_>,
) -> Result<(), PoolError> {
    let (mut gap, mut expected) = (false, (report.checkpoint, 1));
    let mut left_out: BTreeMap<u32, u64> = BTreeMap::new();
    let mut strangers: BTreeMap<u32, u64> = BTreeMap::new();
    for (n, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.number > 0) {
        let follow = chosen.binary_search(&n).is_ok();
        gap |= (frame.epoch, frame.number) != expected;
        expected = (frame.epoch, frame.number + 1);
        let changes = match journal::changes_at(&*inner.files.journal, frame.at) {
            Ok(changes) => changes,
            Err(error) => {
                report.missing.push(format!("the changes in frame {}: {error}", frame.number));
                continue;
            }
        };
        report.frames += u64::from(follow);
        for change in changes {
            let (number, blocks) = reach(&change);
            if !follow {
                *left_out.entry(number).or_default() += blocks;
                continue;
            }
            let done = redo(inner, number, &change)?;
            if done > 0 {
                seen(&change, gap);
            }
            if done < blocks {
                *strangers.entry(number).or_default() += blocks - done;
            }
        }
    }
    for (number, blocks) in left_out {
        let name = volume_name(inner, number);
        report.missing.push(format!(
            "{blocks} later changes to blocks of {name} are in the journal and were left out, to \
             show one moment"
        ));
    }
    for (number, blocks) in strangers {
        let name = volume_name(inner, number);
        report.missing.push(format!(
            "{blocks} changes to blocks of {name} in the journal: checkpoint {} has no such blocks",
            report.checkpoint
        ));
    }
    Ok(())
}

fn volume_name(inner: &Inner, number: u32) -> String {
    match inner.volume_by_number(number) {
        Some(volume) => format!("volume '{}'", volume.name()),
        None => format!("volume number {number}, whose name is not known"),
    }
}

/// The volume that a change concerns, and how many blocks of it.
fn reach(change: &Change) -> (u32, u64) {
    match change {
        Change::Run { volume, entries, .. } => (*volume, entries.len() as u64),
        Change::Fill { volume, count, .. } => (*volume, *count),
    }
}

/// Repeat a map change in memory as far as the volume reaches; of how many blocks that was. What is
/// past its end would be there if it grew.
fn redo(inner: &Inner, number: u32, change: &Change) -> Result<u64, PoolError> {
    let Some(volume) = inner.volume_by_number(number) else { return Ok(0) };
    let (Change::Run { first, .. } | Change::Fill { first, .. }) = change;
    let end = volume.blocks(inner.chunk_bytes()).min(inner.map.blocks_max(number)?);
    let within = end.saturating_sub(first.get()).min(reach(change).1);
    let (mut gained, mut lost) = (0, 0);
    let mut on_old = |old: crate::pba::MapEntry| lost += u64::from(old.pba().is_some());
    match change {
        Change::Run { entries, .. } => {
            let entries = &entries[..within as usize];
            gained = entries.iter().filter(|entry| entry.pba().is_some()).count() as u64;
            inner.map.set_over_damage(number, *first, entries, &mut on_old)?;
        }
        Change::Fill { entry, .. } => {
            inner.map.fill_over_damage(number, *first, within, *entry, &mut on_old)?;
        }
    }
    let mapped = volume.mapped_chunks.load(Ordering::Relaxed).saturating_add(gained);
    volume.mapped_chunks.store(mapped.saturating_sub(lost), Ordering::Relaxed);
    Ok(within)
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder};

    use super::*;
    use crate::{PoolIdentity, PoolSettings};

    /// A pool that was not stopped, with one flush since its second checkpoint.
    fn left() -> SimFolder {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 8192], true).unwrap();
        folder
    }

    #[test]
    fn of_checkpoints_without_a_frame_the_first_few_are_told_of_wherever_they_are() {
        let frame = |epoch| FoundFrame { epoch, number: 0, at: 0 };
        let frames: Vec<FoundFrame> = (3..=12).chain([40, 50]).map(frame).collect();
        let told = |base, newest| epochs(&frames, base, newest).into_iter().collect::<Vec<u64>>();
        // What comes next after those that have some is among them: nothing is missing, unless it
        // is noticed that something is missing.
        let expected: Vec<u64> = (5..=20).chain([40]).collect();
        assert_eq!(told(5, 40), expected);
        assert_eq!(told(1, 5), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_frame_whose_entries_make_no_sense_is_named_and_what_comes_before_it_is_there() {
        let folder = left();
        let journal = folder.open(JOURNAL_FILE).unwrap();
        let frames = journal::good_frames(&*journal, 0).unwrap();
        let last = *frames.last().unwrap();
        let mut bytes = vec![0; (journal.len().unwrap() - last.at) as usize];
        journal.read(last.at, &mut bytes).unwrap();
        let at = last.at + frame::decode(&bytes).unwrap().len_bytes() as u64;
        let nonsense = frame::Entries::from_payload([9u64.to_le_bytes(); 3].concat());
        journal.write(at, &frame::encode(last.epoch, last.number + 1, &nonsense)).unwrap();
        let rescued = Pool::rescue(&folder, Budgets::default(), RescuePoint::Newest);
        let (pool, report) = rescued.unwrap();
        let number = last.number + 1;
        let problem = format!("corrupt journal at byte {at}: a frame's entries make no sense");
        let said = format!("the changes in frame {number}: {problem}");
        assert!(report.missing.contains(&said), "{:?}", report.missing);
        let mut read = vec![0; 8192];
        pool.volume("main").unwrap().read_at(0, &mut read).unwrap();
        assert_eq!((read, report.frames), (vec![7; 8192], last.number));
    }

    #[test]
    fn one_container_that_the_checkpoint_does_not_know_shows_that_there_was_something() {
        let folder = left();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let newest = pool.inner.store.list().unwrap().last().unwrap().get();
        let said = |first_unknown| {
            pool.inner.engine().next_container = first_unknown;
            made_after(&pool.inner, 3).unwrap()
        };
        let (none, some) = (said(newest + 1), said(newest));
        assert!(none.ends_with("(no container was made since)"), "{none}");
        assert!(some.ends_with("(there was something, for containers were made since)"), "{some}");
    }
}
