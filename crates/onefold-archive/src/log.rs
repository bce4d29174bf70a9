//! The log of versions in its two copies: read, held against what else is in the folder, written.
//! Room: onefold-archive.
//! Invariants: (1) a record is in effect once it is good in either copy  (2) whatever the log does
//! not explain is evidence that it lost records: then nothing is written and nothing is deleted
//! (3) a copy is durable only with every record that is known: a store of objects puts all of it
//! anew, and what it fetched for that may have been damaged on its way.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::{ContainerStore, Folder, Media, MediaError, data_end, small_file};

use crate::error::ArchiveError;
use crate::format::log_record::{self, LOG_FILES, LogEvent, LogRecord, RECORD_BYTES, VersionInfo};
use crate::format::pending_file::{self, PENDING_BYTES, PENDING_FILE, Pending};
use crate::format::version_file::parse_name;

/// What the log said when it was read.
pub struct LogState {
    /// Records so far, damaged ones included.
    pub records: u32,
    /// The next new container gets this number or a higher one.
    pub next_container: u32,
    /// The next version gets this number.
    pub next_version: u32,
    /// Versions that were removed.
    pub removed: BTreeSet<u32>,
    /// The last record is a removal or a version's new file, whose leftovers may still be there.
    pub leaves_leftovers: bool,
    /// All records that can be read, in order: none is missing while nothing is damaged.
    pub known: Vec<LogRecord>,
    /// Which of them one of the two copies lacks, by their places in the log.
    pub to_repair: Vec<u32>,
    /// A copy that is not there, or of which nothing can be read, though the other one is there.
    pub missing_copy: Option<&'static str>,
    /// What is damaged in a way that no copy makes good.
    pub damage: Vec<String>,
    /// Records are missing, so that it is not known which version is the newest.
    pub is_cut_short: bool,
    /// A record may be half written: what the log says now is known after reopening only.
    pub in_doubt: bool,
    /// Work that is under way, or was cut short.
    pub pending: Option<Pending>,
}

/// The versions that a log tells of, by number.
pub type Versions = BTreeMap<u32, VersionInfo>;

/// What there is besides the log.
#[derive(Debug, Default)]
pub struct Present {
    /// Number and generation of each version's file.
    pub versions: BTreeSet<(u32, u32)>,
    /// One more than the highest number of a container, and 1 if there is none.
    pub next_container: u32,
}

impl Present {
    /// Look.
    pub fn look(versions: &dyn Folder, store: &dyn ContainerStore) -> Result<Self, ArchiveError> {
        let versions = versions.list()?.iter().filter_map(|name| parse_name(name)).collect();
        let last = store.list()?.last().map_or(0, |id| id.get());
        Ok(Self { versions, next_container: last.saturating_add(1) })
    }
}

/// The log, and what is in the folder held against it. Others may be adding meanwhile.
pub fn read(
    folder: &dyn Folder,
    versions_folder: &dyn Folder,
    store: &dyn ContainerStore,
    uuid: &[u8; 16],
) -> Result<(LogState, Versions), ArchiveError> {
    let mut found = read_once(folder, versions_folder, store, uuid)?;
    // An addition that fails takes back what it wrote: looked at between two of its steps, that
    // looks like a log without its end, but not a second time.
    if found.0.is_cut_short {
        found = read_once(folder, versions_folder, store, uuid)?;
    }
    Ok(found)
}

fn read_once(
    folder: &dyn Folder,
    versions_folder: &dyn Folder,
    store: &dyn ContainerStore,
    uuid: &[u8; 16],
) -> Result<(LogState, Versions), ArchiveError> {
    // In this order: what is there was announced before it came, and the announcement goes after
    // the log tells of it.
    let present = Present::look(versions_folder, store)?;
    let pending = read_pending(folder, uuid)?;
    let (mut log, versions) = read_records(folder, uuid)?;
    log.pending = pending.filter(|pending| pending.is_under_way(log.records));
    if let Some(begun) = pending.filter(|pending| pending.sequence > log.records) {
        let Pending { sequence, .. } = begun;
        log.cut_short(format!("it has {} records, but had {sequence} already", log.records));
    }
    for &(number, generation) in &present.versions {
        // A record that is damaged between good ones is named already.
        let named = !log.damage.is_empty() && number < log.next_version;
        if !named && !log.explains(number, generation, &versions) {
            log.cut_short(format!("it does not tell of version {number}, whose file is there"));
        }
    }
    if present.next_container > log.next_container && log.pending.is_none() {
        log.cut_short(format!(
            "it tells of containers up to {}, but there are some up to {}",
            log.next_container - 1,
            present.next_container - 1
        ));
    }
    let holds = versions.values().any(|info| info.totals.chunks > 0);
    if holds && present.next_container == 1 {
        let problem =
            "it tells of versions, but there is no container at all: is their disk there?";
        log.damage.push(problem.to_owned());
    }
    Ok((log, versions))
}

/// The work under way, if there is any and it can be read.
pub fn read_pending(folder: &dyn Folder, uuid: &[u8; 16]) -> Result<Option<Pending>, ArchiveError> {
    let media = match folder.open(PENDING_FILE) {
        Err(MediaError::NotFound { .. }) => return Ok(None),
        media => media?,
    };
    let mut bytes = [0; PENDING_BYTES];
    Ok(media.read(0, &mut bytes).ok().and_then(|()| pending_file::decode(&bytes, uuid)))
}

/// The records of a copy, `None` for each that is damaged; or that there is no copy, or none of
/// which anything can be read.
type Copy = Option<Records>;
type Records = Vec<Option<LogRecord>>;

fn read_copy(folder: &dyn Folder, name: &str, uuid: &[u8; 16]) -> Result<Copy, ArchiveError> {
    let file = match folder.open(name) {
        Err(MediaError::NotFound { .. }) => return Ok(None),
        file => file?,
    };
    let slots = match data_end(&*file) {
        Ok(end) => end.div_ceil(RECORD_BYTES as u64),
        // Of an encrypted file without its header nothing can be read. A power cut while the
        // first record is written may leave one.
        Err(error) => {
            let error = ArchiveError::from(error);
            return if error.is_corruption() { Ok(None) } else { Err(error) };
        }
    };
    let mut records: Vec<_> =
        (0..slots).map(|sequence| read_record(&*file, sequence as u32, uuid)).collect();
    let is_empty = |sequence: usize| {
        let mut bytes = [1; RECORD_BYTES];
        file.read(place_of(sequence as u32), &mut bytes).is_ok() && bytes == [0; RECORD_BYTES]
    };
    while records.last().is_some_and(Option::is_none) && is_empty(records.len() - 1) {
        records.pop();
    }
    Ok(Some(records))
}

fn read_record(file: &dyn Media, sequence: u32, uuid: &[u8; 16]) -> Option<LogRecord> {
    let mut bytes = [0; RECORD_BYTES];
    file.read(place_of(sequence), &mut bytes).ok()?;
    log_record::decode(&bytes, sequence, uuid)
}

/// The first byte of a record.
fn place_of(sequence: u32) -> u64 {
    u64::from(sequence) * RECORD_BYTES as u64
}

/// Both copies. What is not good in them is asked for again: it may be damaged on its way only.
fn read_copies(folder: &dyn Folder, uuid: &[u8; 16]) -> Result<[Copy; 2], ArchiveError> {
    let read = || -> Result<[Copy; 2], ArchiveError> {
        Ok([read_copy(folder, LOG_FILES[0], uuid)?, read_copy(folder, LOG_FILES[1], uuid)?])
    };
    let copies = read()?;
    let is_whole = |copy: &Copy| copy.as_ref().is_some_and(|all| all.iter().all(Option::is_some));
    if copies.iter().all(is_whole) && copies[0] == copies[1] {
        return Ok(copies);
    }
    let [first, second] = copies;
    let [first_again, second_again] = read()?;
    Ok([both(first, first_again), both(second, second_again)])
}

/// What two readings of a copy have found, of which the second one counts where they differ.
fn both(first: Copy, second: Copy) -> Copy {
    match (first, second) {
        (Some(first), Some(second)) => {
            Some(side_by_side(first, second).map(|(first, second)| second.or(first)).collect())
        }
        (first, second) => second.or(first),
    }
}

/// The records of two, as far as the longer one goes.
fn side_by_side(
    mut first: Records,
    mut second: Records,
) -> impl Iterator<Item = (Option<LogRecord>, Option<LogRecord>)> {
    let slots = first.len().max(second.len());
    first.resize(slots, None);
    second.resize(slots, None);
    first.into_iter().zip(second)
}

/// The records of both copies, put together.
pub fn read_records(
    folder: &dyn Folder,
    uuid: &[u8; 16],
) -> Result<(LogState, Versions), ArchiveError> {
    let copies = read_copies(folder, uuid)?;
    let missing = copies.each_ref().map(Option::is_none);
    let [first, second] = copies.map(Option::unwrap_or_default);
    let in_both = first.len().min(second.len());
    let mut records: Vec<_> = side_by_side(first, second).collect();
    // What follows the last good record was being written when the power went. That cannot be said
    // of what is in both copies: the second one is written when the first one is durable.
    while records.len() > in_both && records.last().is_some_and(|last| *last == (None, None)) {
        records.pop();
    }
    let mut log = LogState::new(records.len() as u32);
    match missing {
        [true, true] => log.cut_short("both of its copies are missing or damaged".to_owned()),
        [true, false] => log.missing_copy = Some(LOG_FILES[0]),
        [false, true] => log.missing_copy = Some(LOG_FILES[1]),
        [false, false] => {}
    }
    let mut versions = Versions::new();
    for (sequence, (first, second)) in (0..).zip(records) {
        let whole = first.is_some() && first == second;
        let Some(record) = first.or(second) else {
            log.damage.push(format!("record {sequence} is damaged in both copies"));
            continue;
        };
        log.apply(&record, &mut versions);
        log.known.push(record);
        if !whole {
            log.to_repair.push(sequence);
        }
    }
    Ok((log, versions))
}

impl LogState {
    const fn new(records: u32) -> Self {
        Self {
            records,
            next_container: 1,
            next_version: 1,
            removed: BTreeSet::new(),
            leaves_leftovers: false,
            known: Vec::new(),
            to_repair: Vec::new(),
            missing_copy: None,
            damage: Vec::new(),
            is_cut_short: false,
            in_doubt: false,
            pending: None,
        }
    }

    fn cut_short(&mut self, problem: String) {
        self.is_cut_short = true;
        self.damage.push(problem);
    }

    /// Whether a version's file is one that may be there.
    fn explains(&self, number: u32, generation: u32, versions: &Versions) -> bool {
        let known = versions.get(&number).map(|info| info.generation);
        let under_way = self.pending.is_some_and(|pending| match known {
            Some(known) => generation == known.saturating_add(1),
            None => number >= pending.version,
        });
        let removed = self.removed.contains(&number);
        removed || under_way || known.is_some_and(|known| generation <= known)
    }

    /// Take a record into account.
    pub fn apply(&mut self, record: &LogRecord, versions: &mut Versions) {
        self.next_container = self.next_container.max(record.next_container);
        self.leaves_leftovers = false;
        match &record.event {
            LogEvent::Added(info) => {
                self.next_version = self.next_version.max(info.number.saturating_add(1));
                let before = versions.insert(info.number, info.clone());
                self.leaves_leftovers = before.is_some();
            }
            LogEvent::Removed(number) => {
                versions.remove(number);
                self.removed.insert(*number);
                self.leaves_leftovers = true;
            }
            LogEvent::Rebuilt(next_version) => {
                self.next_version = self.next_version.max(*next_version);
            }
        }
    }

    /// Refuse to change anything while the log is damaged.
    pub fn must_be_whole(&self) -> Result<(), ArchiveError> {
        if let Some(damage) = self.damage.first() {
            return Err(ArchiveError::corrupt("log", 0, format!("{damage}; nothing is changed")));
        }
        if self.in_doubt {
            let source = std::io::Error::other("an earlier write failed: reopen the archive");
            return Err(ArchiveError::io("change the log", source));
        }
        Ok(())
    }
}

/// Have these records, which are all that there are, in both copies, one after the other.
pub fn write_records(
    folder: &dyn Folder,
    records: &[LogRecord],
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    for name in LOG_FILES {
        match complete_copy(folder, name, records, uuid) {
            // Nothing can be written behind a header that is damaged.
            Err(error) if error.is_corruption() => write_anew(folder, name, records, uuid)?,
            done => done?,
        }
    }
    Ok(())
}

/// Write what a copy lacks of these records. A store of objects fetches the rest of it for that, to
/// put it along: so it is read again, as it is going to be, before it is made durable.
fn complete_copy(
    folder: &dyn Folder,
    name: &str,
    records: &[LogRecord],
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    for _ in 0..3 {
        // Opened again: what was read of it before is not trusted.
        let file = folder.open(name)?;
        let is_there = |record: &&LogRecord| {
            read_record(&*file, record.sequence, uuid).as_ref() == Some(*record)
        };
        let mut is_whole = true;
        for record in records.iter().filter(|record| !is_there(record)) {
            is_whole = false;
            file.write(place_of(record.sequence), &log_record::encode(record, uuid))?;
        }
        if is_whole {
            return Ok(file.sync()?);
        }
    }
    Err(ArchiveError::corrupt(name, 0, "what is written to it is not what is read of it then"))
}

/// Write a copy in the place of one that is not there, or of which nothing can be read.
pub fn write_anew(
    folder: &dyn Folder,
    name: &str,
    records: &[LogRecord],
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    let bytes: Vec<u8> =
        records.iter().flat_map(|record| log_record::encode(record, uuid)).collect();
    let file = folder.create(name)?;
    file.write(0, &bytes)?;
    file.sync()?;
    Ok(folder.sync_names()?)
}

/// Announce work, durably.
pub fn write_pending(
    folder: &dyn Folder,
    pending: &Pending,
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    Ok(small_file::replace(folder, PENDING_FILE, &pending_file::encode(pending, uuid))?)
}

/// The announced work is done, or undone.
pub fn remove_pending(folder: &dyn Folder) -> Result<(), ArchiveError> {
    match folder.remove(PENDING_FILE) {
        Err(MediaError::NotFound { .. }) => Ok(()),
        removed => {
            removed?;
            Ok(folder.sync_names()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use onefold_block::{ContainerId, FolderContainerStore, SimFolder};

    use super::*;
    use crate::format::log_record::AddTotals;
    use crate::format::version_file::file_name;

    const UUID: [u8; 16] = [3; 16];

    fn added(number: u32, generation: u32) -> LogEvent {
        let totals = AddTotals { chunks: 1, ..AddTotals::default() };
        LogEvent::Added(VersionInfo { number, generation, totals, ..VersionInfo::default() })
    }

    fn records(events: &[LogEvent]) -> Vec<LogRecord> {
        let record = |(sequence, event): (u32, &LogEvent)| LogRecord {
            sequence,
            next_container: 3,
            event: event.clone(),
        };
        (0..).zip(events).map(record).collect()
    }

    /// A folder with these records, work under way, versions' files and containers.
    fn folder(
        events: &[LogEvent],
        pending: Option<Pending>,
        files: &[(u32, u32)],
        containers: u32,
    ) -> SimFolder {
        let folder = SimFolder::new();
        for name in LOG_FILES {
            folder.create(name).unwrap();
        }
        write_records(&folder, &records(events), &UUID).unwrap();
        if let Some(pending) = pending {
            write_pending(&folder, &pending, &UUID).unwrap();
        }
        let versions = folder.subfolder("versions").unwrap();
        for &(number, generation) in files {
            versions.create(&file_name(number, generation)).unwrap();
        }
        let store = store(&folder);
        for id in 1..=containers {
            store.create(ContainerId::new(id), 0).unwrap();
        }
        folder
    }

    fn store(folder: &SimFolder) -> FolderContainerStore {
        FolderContainerStore::new(folder.subfolder("containers").unwrap())
    }

    fn read_it(folder: &SimFolder) -> (LogState, Versions) {
        let versions = folder.subfolder("versions").unwrap();
        read(folder, &*versions, &store(folder), &UUID).unwrap()
    }

    #[test]
    fn whatever_the_log_does_not_explain_is_damage_to_it_and_nothing_else_is() {
        let work =
            |sequence, records, version| Some(Pending { sequence, records, version, container: 3 });
        let untold = |number| format!("it does not tell of version {number}, whose file is there");
        let two = [added(1, 0), added(2, 0)];
        let again = [added(1, 0), added(2, 0), added(1, 1)];
        let removed = [added(1, 0), added(2, 0), LogEvent::Removed(1)];
        let check =
            |events: &[LogEvent], pending, files: &[(u32, u32)], containers, damage: &[String]| {
                let (log, _) = read_it(&folder(events, pending, files, containers));
                assert_eq!(log.damage, damage, "{events:?} {pending:?} {files:?} {containers}");
                assert_eq!(log.is_cut_short, damage.iter().any(|d| !d.contains("no container")));
                assert_eq!(log.must_be_whole().is_ok(), damage.is_empty());
            };
        check(&two, None, &[(1, 0), (2, 0)], 2, &[]);
        check(&two, None, &[(1, 0)], 2, &[]);
        check(&two, None, &[(3, 0)], 2, &[untold(3)]);
        check(&two, None, &[(1, 1)], 2, &[untold(1)]);
        check(&again, None, &[(1, 0), (1, 1), (2, 0)], 2, &[]);
        check(&again, None, &[(1, 2)], 2, &[untold(1)]);
        check(&removed, None, &[(1, 0), (1, 5)], 2, &[]);
        let many = "it tells of containers up to 2, but there are some up to 3".to_owned();
        check(&two, None, &[], 3, std::slice::from_ref(&many));
        check(&two, None, &[(3, 0)], 3, &[untold(3), many.clone()]);
        let none = "it tells of versions, but there is no container at all: is their disk there?";
        check(&two, None, &[], 0, &[none.to_owned()]);
        check(&[LogEvent::Rebuilt(5)], None, &[], 0, &[]);
        // Work that is under way explains new versions, next generations and containers.
        check(&two, work(2, 1, 3), &[(3, 0), (4, 0), (1, 1)], 9, &[]);
        check(&two, work(2, 1, 4), &[(3, 0), (4, 0), (1, 2)], 9, &[untold(1), untold(3)]);
        check(&two, work(1, 2, 2), &[(3, 0)], 9, &[]);
        // One that is done explains nothing, and one that has not begun is of a longer log.
        check(&two, work(1, 1, 2), &[(3, 0)], 3, &[untold(3), many.clone()]);
        check(&two, work(0, 3, 2), &[(3, 0)], 3, &[]);
        let longer = "it has 2 records, but had 3 already".to_owned();
        check(&two, work(3, 1, 3), &[(3, 0)], 2, &[longer, untold(3)]);
    }

    #[test]
    fn what_a_log_says_is_the_sum_of_its_records() {
        let events = [added(1, 0), added(5, 0), LogEvent::Removed(1), added(5, 1)];
        let known = |events: &[LogEvent]| {
            let (log, versions) = read_it(&folder(events, None, &[], 2));
            let versions: Vec<(u32, u32)> =
                versions.values().map(|info| (info.number, info.generation)).collect();
            (log, versions)
        };
        for (count, next, removed, leaves, versions) in [
            (0, 1, 0, false, vec![]),
            (1, 2, 0, false, vec![(1, 0)]),
            (2, 6, 0, false, vec![(1, 0), (5, 0)]),
            (3, 6, 1, true, vec![(5, 0)]),
            (4, 6, 1, true, vec![(5, 1)]),
        ] {
            let (log, found) = known(&events[..count]);
            assert_eq!((log.records, log.next_version), (count as u32, next), "{count}");
            assert_eq!(log.next_container, if count == 0 { 1 } else { 3 });
            assert_eq!((log.removed.len(), log.leaves_leftovers), (removed, leaves), "{count}");
            assert_eq!(found, versions, "{count}");
        }
        let (log, _) = known(&[LogEvent::Rebuilt(7), added(2, 0)]);
        assert_eq!((log.next_version, log.leaves_leftovers), (7, false));
        // Of no version the next one is the first.
        assert_eq!(known(&[LogEvent::Rebuilt(0)]).0.next_version, 1);
    }

    #[test]
    fn records_behind_the_last_good_one_are_none() {
        let events = [added(1, 0), added(2, 0), added(3, 0)];
        let folder = folder(&events, None, &[], 2);
        for name in LOG_FILES {
            folder.open(name).unwrap().write(3 * 512, &[1; 700]).unwrap();
            let other = if name == LOG_FILES[0] { LOG_FILES[1] } else { LOG_FILES[0] };
            folder.open(other).unwrap().set_len(4 * 512).unwrap();
            let (log, _) = read_it(&folder);
            assert!(log.records == 3 && log.damage.is_empty() && log.to_repair.is_empty());
            folder.truncate(name, 3 * 512).unwrap();
        }
        // But not where they are in both copies: no power cut leaves that.
        for name in LOG_FILES {
            folder.open(name).unwrap().write(3 * 512, &[1; 700]).unwrap();
        }
        let damage = [3, 4].map(|record| format!("record {record} is damaged in both copies"));
        assert_eq!(read_it(&folder).0.damage, damage);
        // A part of one still is one that is to be read.
        folder.truncate(LOG_FILES[0], 2 * 512 + 100).unwrap();
        folder.truncate(LOG_FILES[1], 2 * 512).unwrap();
        assert_eq!(read_it(&folder).0.records, 2);
        folder.flip_bit(LOG_FILES[0], 5, 1).unwrap();
        let (log, _) = read_it(&folder);
        assert_eq!((log.records, log.to_repair, log.damage.len()), (2, vec![0], 0));
        folder.flip_bit(LOG_FILES[1], 5, 1).unwrap();
        let (log, _) = read_it(&folder);
        assert_eq!(log.damage, ["record 0 is damaged in both copies"]);
        let whole = log.must_be_whole().unwrap_err().to_string();
        let expected = "record 0 is damaged in both copies; nothing is changed";
        assert_eq!(whole, format!("corrupt log at byte 0: {expected}"));
        let doubt = LogState { in_doubt: true, ..LogState::new(1) };
        let expected = "change the log: an earlier write failed: reopen the archive";
        assert_eq!(doubt.must_be_whole().unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_a_copy_lost_meanwhile_is_written_with_the_next_record() {
        let events = [added(1, 0), added(2, 0), LogEvent::Removed(1), added(3, 0)];
        let folder = folder(&events[..3], None, &[], 2);
        let whole = records(&events);
        folder.flip_bit(LOG_FILES[0], 600, 1).unwrap();
        folder.truncate(LOG_FILES[1], 700).unwrap();
        write_records(&folder, &whole, &UUID).unwrap();
        let (log, _) = read_it(&folder);
        assert_eq!((log.to_repair, log.damage.len()), (vec![], 0));
        assert!(log.known == whole);
        // And nothing where nothing is lacking.
        let before = folder.op_log();
        write_records(&folder, &whole, &UUID).unwrap();
        assert!(!folder.op_log()[before.len()..].contains("Write"));
    }

    /// Shows one more file the first time that it is listed.
    struct Passing(Arc<dyn Folder>, Mutex<bool>);

    impl Folder for Passing {
        fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
            self.0.open(name)
        }
        fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
            self.0.create(name)
        }
        fn remove(&self, name: &str) -> Result<(), MediaError> {
            self.0.remove(name)
        }
        fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
            self.0.rename(from, to)
        }
        fn list(&self) -> Result<Vec<String>, MediaError> {
            let mut names = self.0.list()?;
            if !std::mem::replace(&mut *self.1.lock().unwrap(), true) {
                names.push(file_name(9, 0));
            }
            Ok(names)
        }
        fn sync_names(&self) -> Result<(), MediaError> {
            self.0.sync_names()
        }
        fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
            self.0.subfolder(name)
        }
        fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
            self.0.existing_subfolder(name)
        }
        fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
            self.0.remove_subfolder(name)
        }
    }

    #[test]
    fn what_an_addition_that_fails_took_back_meanwhile_is_no_damage() {
        let folder = folder(&[added(1, 0)], None, &[(1, 0)], 2);
        let versions = folder.subfolder("versions").unwrap();
        let passing = Passing(versions, Mutex::new(false));
        let (log, _) = read(&folder, &passing, &store(&folder), &UUID).unwrap();
        assert!(log.damage.is_empty() && !log.is_cut_short);
        assert!(*passing.1.lock().unwrap());
    }
}
