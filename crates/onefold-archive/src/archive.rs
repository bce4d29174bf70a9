//! An archive on a folder: made, opened, and the versions it holds.
//! Room: onefold-archive.
//! Invariant: a version counts once a record of it is in either copy of the log, and a record is
//! written only after all that it refers to is durable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use onefold_block::{ContainerStore, FileFolder, Folder, FolderContainerStore, Media, MediaError};
use onefold_content::{FingerprintKind, Fingerprinter};

use crate::error::ArchiveError;
use crate::format::log_record::{self, LOG_FILES, LogEvent, LogRecord, RECORD_BYTES, VersionInfo};
use crate::format::settings_file::{self, SETTINGS_BYTES, SETTINGS_FILES};
use crate::lock::{ArchiveLock, LOCK_FILE, LockKind};
use crate::settings::{ArchiveIdentity, ArchiveSettings};
use crate::version::Version;

/// Folder of the containers.
pub const CONTAINERS: &str = "containers";
/// Folder of the versions' files.
pub const VERSIONS: &str = "versions";

/// An open archive.
pub struct Archive {
    pub(crate) settings: ArchiveSettings,
    pub(crate) identity: ArchiveIdentity,
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) versions_folder: Arc<dyn Folder>,
    pub(crate) store: Arc<dyn ContainerStore>,
    versions: BTreeMap<u32, VersionInfo>,
    pub(crate) log: LogState,
    lock: Option<ArchiveLock>,
}

/// What the log said when it was read.
pub(crate) struct LogState {
    /// Records so far, damaged ones included.
    pub records: u32,
    /// The next new container gets this number or a higher one.
    pub next_container: u32,
    /// The next version gets this number.
    pub next_version: u32,
    /// The last record is a removal, whose leftovers may still be there.
    pub ends_in_removal: bool,
    /// Records that one of the two copies lacks.
    pub to_repair: Vec<LogRecord>,
    /// What is damaged in a way that no copy makes good.
    pub damage: Vec<String>,
    /// A record may be half written: what the log says now is known after reopening only.
    pub in_doubt: bool,
}

impl Archive {
    /// Whether there is an archive at `path`, whatever its state.
    pub fn exists_at(path: &Path) -> bool {
        SETTINGS_FILES.iter().any(|name| path.join(name).exists())
    }

    /// Make an archive in the folder at `path`, which is empty or does not exist.
    pub fn create_at(
        path: &Path,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
    ) -> Result<(), ArchiveError> {
        std::fs::create_dir_all(path)
            .map_err(|e| ArchiveError::io(format!("make {}", path.display()), e))?;
        let _lock = ArchiveLock::acquire(path, LockKind::Remove)?;
        Self::create(&FileFolder::create(path)?, settings, identity)
    }

    /// Make an archive in a folder that holds nothing but traces of an interrupted creation.
    pub fn create(
        folder: &dyn Folder,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
    ) -> Result<(), ArchiveError> {
        settings.check()?;
        for name in folder.list()? {
            let traces =
                [SETTINGS_FILES[0], SETTINGS_FILES[1], LOG_FILES[0], LOG_FILES[1], LOCK_FILE];
            if !traces.contains(&name.as_str()) {
                return Err(ArchiveError::NotEmpty(name));
            }
        }
        if read_settings(folder).is_ok() {
            return Err(ArchiveError::NotEmpty(SETTINGS_FILES[0].to_owned()));
        }
        folder.subfolder(CONTAINERS)?.sync_names()?;
        folder.subfolder(VERSIONS)?.sync_names()?;
        for name in LOG_FILES {
            folder.create(name)?.sync()?;
        }
        folder.sync_names()?;
        // The settings make it an archive, so they come last.
        for name in SETTINGS_FILES {
            let file = folder.create(name)?;
            file.write(0, &settings_file::encode(settings, &identity))?;
            file.sync()?;
        }
        Ok(folder.sync_names()?)
    }

    /// Open the archive at `path` for what `kind` says, locked against what would disturb it.
    pub fn open_at(path: &Path, kind: LockKind) -> Result<Self, ArchiveError> {
        if !Self::exists_at(path) {
            return Err(ArchiveError::NoArchive);
        }
        let lock = ArchiveLock::acquire(path, kind)?;
        let mut archive = Self::open(Arc::new(FileFolder::open(path)?))?;
        archive.lock = Some(lock);
        Ok(archive)
    }

    /// Open the archive in a folder that nobody else uses.
    pub fn open(folder: Arc<dyn Folder>) -> Result<Self, ArchiveError> {
        let containers = folder.subfolder(CONTAINERS)?;
        let store = Arc::new(FolderContainerStore::new(containers));
        Self::open_with(folder, store)
    }

    /// The same with another way to the containers in its folder, such as a cache before them.
    pub fn open_with(
        folder: Arc<dyn Folder>,
        store: Arc<dyn ContainerStore>,
    ) -> Result<Self, ArchiveError> {
        let (settings, identity) = read_settings(&*folder)?;
        let (log, versions) = read_log(&*folder, &identity.uuid)?;
        let versions_folder = folder.subfolder(VERSIONS)?;
        Ok(Self { settings, identity, folder, versions_folder, store, versions, log, lock: None })
    }

    /// How it stores.
    pub const fn settings(&self) -> &ArchiveSettings {
        &self.settings
    }

    /// Its random identity.
    pub const fn identity(&self) -> &ArchiveIdentity {
        &self.identity
    }

    /// The versions it holds, oldest first.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &VersionInfo> + ExactSizeIterator {
        self.versions.values()
    }

    /// What in the log is damaged beyond what its two copies make good.
    pub fn damage(&self) -> &[String] {
        &self.log.damage
    }

    /// The version of that number, or the newest.
    pub fn version(&self, number: Option<u32>) -> Result<Version, ArchiveError> {
        let info = match number {
            None => self.versions.values().next_back().ok_or(ArchiveError::NoVersions)?,
            Some(number) => self.versions.get(&number).ok_or_else(|| {
                if self.versions.is_empty() {
                    return ArchiveError::NoVersions;
                }
                let known: Vec<String> = self.versions.keys().map(u32::to_string).collect();
                ArchiveError::NoVersion { number, known: known.join(", ") }
            })?,
        };
        Version::open(&*self.versions_folder, &self.identity.uuid, info)
    }

    pub(crate) fn fingerprinter(&self) -> Fingerprinter {
        Fingerprinter::with_key(FingerprintKind::Blake3, self.identity.key)
    }

    /// Bring both copies of the log to the same state.
    pub(crate) fn repair_log(&mut self) -> Result<(), ArchiveError> {
        if let Some(damage) = self.log.damage.first() {
            return Err(ArchiveError::corrupt("log", 0, format!("{damage}; nothing is changed")));
        }
        if self.log.in_doubt {
            let source = std::io::Error::other("an earlier write failed: reopen the archive");
            return Err(ArchiveError::io("change the log", source));
        }
        self.log.in_doubt = !self.log.to_repair.is_empty();
        for record in std::mem::take(&mut self.log.to_repair) {
            self.write_record(&record)?;
        }
        self.log.in_doubt = false;
        Ok(())
    }

    /// Add an event to both copies of the log; once this returns it is durable.
    pub(crate) fn commit(
        &mut self,
        next_container: u32,
        event: LogEvent,
    ) -> Result<(), ArchiveError> {
        let record = LogRecord { sequence: self.log.records, next_container, event };
        self.log.in_doubt = true;
        self.write_record(&record)?;
        self.log.in_doubt = false;
        self.log.records += 1;
        apply(&record, &mut self.log, &mut self.versions);
        Ok(())
    }

    fn write_record(&self, record: &LogRecord) -> Result<(), ArchiveError> {
        let bytes = log_record::encode(record, &self.identity.uuid);
        for name in LOG_FILES {
            let file = match self.folder.open(name) {
                Err(MediaError::NotFound { .. }) => {
                    let file = self.folder.create(name)?;
                    self.folder.sync_names()?;
                    file
                }
                file => file?,
            };
            file.write(u64::from(record.sequence) * RECORD_BYTES as u64, &bytes)?;
            file.sync()?;
        }
        Ok(())
    }
}

fn read_settings(folder: &dyn Folder) -> Result<(ArchiveSettings, ArchiveIdentity), ArchiveError> {
    let mut worst = ArchiveError::NoArchive;
    for name in SETTINGS_FILES {
        match read_whole(folder, name, SETTINGS_BYTES) {
            Err(ArchiveError::Media(MediaError::NotFound { .. })) => {}
            Err(error) => worst = error,
            Ok(bytes) => match settings_file::decode(&bytes, name) {
                Ok(found) => return Ok(found),
                Err(error) => worst = error,
            },
        }
    }
    Err(worst)
}

fn read_whole(folder: &dyn Folder, name: &str, len: usize) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = vec![0; len];
    folder.open(name)?.read(0, &mut bytes)?;
    Ok(bytes)
}

/// The copies of the log that are there.
fn log_copies(folder: &dyn Folder) -> Result<[Option<Arc<dyn Media>>; 2], ArchiveError> {
    let open = |name| match folder.open(name) {
        Err(MediaError::NotFound { .. }) => Ok(None),
        file => file.map(Some),
    };
    Ok([open(LOG_FILES[0])?, open(LOG_FILES[1])?])
}

fn read_log(
    folder: &dyn Folder,
    uuid: &[u8; 16],
) -> Result<(LogState, BTreeMap<u32, VersionInfo>), ArchiveError> {
    let copies = log_copies(folder)?;
    let mut slots = 0;
    for file in copies.iter().flatten() {
        slots = slots.max(file.len()?.div_ceil(RECORD_BYTES as u64));
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
    let mut state = LogState {
        records: records.len() as u32,
        next_container: 1,
        next_version: 1,
        ends_in_removal: false,
        to_repair: Vec::new(),
        damage: Vec::new(),
        in_doubt: false,
    };
    let mut versions = BTreeMap::new();
    for (sequence, [first, second]) in records.into_iter().enumerate() {
        let whole = first.is_some() && first == second;
        let Some(record) = first.or(second) else {
            state.damage.push(format!("record {sequence} is damaged in both copies"));
            continue;
        };
        apply(&record, &mut state, &mut versions);
        if !whole {
            state.to_repair.push(record);
        }
    }
    Ok((state, versions))
}

fn apply(record: &LogRecord, log: &mut LogState, versions: &mut BTreeMap<u32, VersionInfo>) {
    log.next_container = log.next_container.max(record.next_container);
    log.ends_in_removal = matches!(record.event, LogEvent::Removed(_));
    match &record.event {
        LogEvent::Added(info) => {
            log.next_version = log.next_version.max(info.number + 1);
            versions.insert(info.number, info.clone());
        }
        LogEvent::Removed(number) => {
            versions.remove(number);
        }
    }
}
