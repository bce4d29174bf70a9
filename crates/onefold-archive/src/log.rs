//! The log of versions in its two copies: read, held against what else is in the folder, written.
//! Room: onefold-archive.
//! Invariants: (1) a record is in effect once it is good in either copy  (2) whatever the log does
//! not explain is evidence that it lost records: then nothing is written and nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// Records that one of the two copies lacks.
    pub to_repair: Vec<LogRecord>,
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

/// The records of both copies, put together.
pub fn read_records(
    folder: &dyn Folder,
    uuid: &[u8; 16],
) -> Result<(LogState, Versions), ArchiveError> {
    let open = |name| match folder.open(name) {
        Err(MediaError::NotFound { .. }) => Ok(None),
        file => file.map(Some),
    };
    let mut copies = [open(LOG_FILES[0])?, open(LOG_FILES[1])?];
    let mut slots = 0;
    for copy in &mut copies {
        let Some(file) = copy else { continue };
        match data_end(&**file) {
            Ok(end) => slots = slots.max(end.div_ceil(RECORD_BYTES as u64)),
            // Of an encrypted file without its header nothing can be read. A power cut while the
            // first record is written may leave one.
            Err(error) => {
                let error = ArchiveError::from(error);
                if !error.is_corruption() {
                    return Err(error);
                }
                *copy = None;
            }
        }
    }
    let mut records: Vec<[Option<LogRecord>; 2]> = Vec::new();
    for sequence in 0..slots {
        let read = |file: &Option<Arc<dyn Media>>| {
            let mut bytes = [0; RECORD_BYTES];
            let file = file.as_ref()?;
            file.read(sequence * RECORD_BYTES as u64, &mut bytes).ok()?;
            log_record::decode(&bytes, sequence as u32, uuid)
        };
        records.push([read(&copies[0]), read(&copies[1])]);
    }
    // What follows the last good record was being written when the power went.
    while records.last().is_some_and(|pair| pair.iter().all(Option::is_none)) {
        records.pop();
    }
    let mut log = LogState::new(records.len() as u32);
    match copies.each_ref().map(Option::is_none) {
        [true, true] => log.cut_short("both of its copies are missing or damaged".to_owned()),
        [true, false] => log.missing_copy = Some(LOG_FILES[0]),
        [false, true] => log.missing_copy = Some(LOG_FILES[1]),
        [false, false] => {}
    }
    let mut versions = Versions::new();
    for (sequence, [first, second]) in records.into_iter().enumerate() {
        let whole = first.is_some() && first == second;
        let Some(record) = first.or(second) else {
            log.damage.push(format!("record {sequence} is damaged in both copies"));
            continue;
        };
        log.apply(&record, &mut versions);
        if !whole {
            log.to_repair.push(record);
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

/// Write a record to both copies, one after the other.
pub fn write_record(
    folder: &dyn Folder,
    record: &LogRecord,
    uuid: &[u8; 16],
) -> Result<(), ArchiveError> {
    let bytes = log_record::encode(record, uuid);
    for name in LOG_FILES {
        let file = match folder.open(name) {
            Err(MediaError::NotFound { .. }) => {
                let file = folder.create(name)?;
                folder.sync_names()?;
                file
            }
            file => file?,
        };
        file.write(u64::from(record.sequence) * RECORD_BYTES as u64, &bytes)?;
        file.sync()?;
    }
    Ok(())
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
