//! An archive on a folder: made, opened, and the versions it holds.
//! Room: onefold-archive.
//! Invariant: a version counts once a record of it is in either copy of the log, and a record is
//! written only after all that it refers to is durable.

use std::path::Path;
use std::sync::Arc;

use onefold_block::{
    ContainerStore, FileFolder, Folder, FolderContainerStore, FolderLock, MediaError, anew,
    is_of_a_lock, small_file,
};
use onefold_content::{FingerprintKind, Fingerprinter};

use crate::error::ArchiveError;
use crate::format::log_record::{LOG_FILES, LogEvent, LogRecord, VersionInfo};
use crate::format::pending_file::Pending;
use crate::format::settings_file::{self, Found, SEALED_BYTES, SETTINGS_FILES};
use crate::lock::{self, LockKind};
use crate::log::{self, LogState, Versions};
use crate::seal::protection::Keys;
use crate::seal::{NewKey, Protection, SealedFolder, Secret, SecretKind};
use crate::settings::{ArchiveIdentity, ArchiveSettings};
use crate::version::Version;

/// Folder of the containers.
pub const CONTAINERS: &str = "containers";
/// A file for whoever opens the archive, with what belongs to this one; nothing here reads it.
pub const USER_SETTINGS_FILE: &str = "onefold.toml";
/// Folder of the versions' files.
pub const VERSIONS: &str = "versions";
/// The most containers of a store that is far away that are read at once: each has memory for one.
const FAR_WORKERS_MAX: usize = 8;

/// An open archive.
pub struct Archive {
    pub(crate) settings: ArchiveSettings,
    pub(crate) identity: ArchiveIdentity,
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) versions_folder: Arc<dyn Folder>,
    pub(crate) store: Arc<dyn ContainerStore>,
    versions: Versions,
    pub(crate) log: LogState,
    /// The settings as they are written, the wrapped key of an encrypted archive among them.
    settings_bytes: Vec<u8>,
    /// The keys of an encrypted archive.
    keys: Option<Arc<Keys>>,
    /// Copies of the settings that are missing or damaged.
    pub(crate) bad_settings: Vec<&'static str>,
    lock: Option<FolderLock>,
    workers: usize,
}

impl Archive {
    /// Whether there is an archive at `path`, whatever its state.
    pub fn exists_at(path: &Path) -> bool {
        SETTINGS_FILES.iter().chain(&LOG_FILES).any(|name| path.join(name).exists())
    }

    /// Refuse a place where no archive is, or where none can be seen: who may not look into the
    /// folder must not hear that there is none.
    pub(crate) fn must_exist_at(path: &Path) -> Result<(), ArchiveError> {
        for name in SETTINGS_FILES.iter().chain(&LOG_FILES) {
            match std::fs::metadata(path.join(name)) {
                Ok(_) => return Ok(()),
                Err(error) if is_nothing(&error) => {}
                Err(error) => {
                    return Err(ArchiveError::io(format!("open {}", path.display()), error));
                }
            }
        }
        Err(ArchiveError::NoArchive)
    }

    /// Make an archive in the folder at `path`, which is empty or does not exist. With a key it is
    /// encrypted, and the key's secret needed whenever it is opened.
    pub fn create_at(
        path: &Path,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
        key: Option<&NewKey<'_>>,
        user_settings: Option<&str>,
    ) -> Result<(), ArchiveError> {
        let mut made = FileFolder::create(path)?;
        let io = |e| ArchiveError::io(format!("list {}", path.display()), e);
        for entry in std::fs::read_dir(path).map_err(io)? {
            let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
            if ![CONTAINERS, VERSIONS].contains(&name.as_str()) && !is_trace(&name) {
                return Err(ArchiveError::NotEmpty(name));
            }
        }
        if any_settings(&made).is_ok() {
            return Err(ArchiveError::NotEmpty(SETTINGS_FILES[0].to_owned()));
        }
        // A folder that was there already may have let others in.
        made.restrict(None)?;
        let lock = lock::acquire(path, LockKind::Remove)?;
        // It comes first: once there is an archive it has them, whenever the power goes.
        if let Some(text) = user_settings {
            small_file::replace(&made, USER_SETTINGS_FILE, text.as_bytes())?;
        }
        Self::create_with(&made, settings, identity, key)?;
        lock.keep();
        Ok(())
    }

    /// Make an archive in a folder that holds nothing but traces of an interrupted creation.
    pub fn create(
        folder: &dyn Folder,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
    ) -> Result<(), ArchiveError> {
        Self::create_with(folder, settings, identity, None)
    }

    /// The same, encrypted if there is a key; the identity's own key is not used then.
    pub fn create_with(
        folder: &dyn Folder,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
        key: Option<&NewKey<'_>>,
    ) -> Result<(), ArchiveError> {
        settings.check()?;
        let bytes = match key {
            None => settings_file::encode(settings, &identity),
            Some(key) => protected(settings, &identity.uuid, key)?,
        };
        if let Some(name) = folder.list()?.into_iter().find(|name| !is_trace(name)) {
            return Err(ArchiveError::NotEmpty(name));
        }
        if any_settings(folder).is_ok() {
            return Err(ArchiveError::NotEmpty(SETTINGS_FILES[0].to_owned()));
        }
        // What an interrupted creation leaves is empty: anything else is of an archive that lost
        // its settings.
        for name in LOG_FILES {
            match folder.open(name) {
                Err(MediaError::NotFound { .. }) => {}
                log => {
                    if !log?.is_empty()? {
                        return Err(ArchiveError::NotEmpty(name.to_owned()));
                    }
                }
            }
        }
        for sub in [CONTAINERS, VERSIONS] {
            let names = match folder.existing_subfolder(sub) {
                Err(MediaError::NotFound { .. }) => continue,
                found => found?.list()?,
            };
            if let Some(name) = names.first() {
                return Err(ArchiveError::NotEmpty(format!("{sub}/{name}")));
            }
        }
        anew::remove_left_over(folder, LOG_FILES)?;
        for sub in [CONTAINERS, VERSIONS] {
            anew::subfolder(folder, sub)?.sync_names()?;
        }
        for name in LOG_FILES {
            folder.create(name)?.sync()?;
        }
        folder.sync_names()?;
        // The settings make it an archive, so they come last.
        for name in SETTINGS_FILES {
            write_settings(folder, name, &bytes)?;
        }
        Ok(())
    }

    /// What opens the archive at `path`, if it is encrypted.
    pub fn secret_kind_at(path: &Path) -> Result<Option<SecretKind>, ArchiveError> {
        Self::must_exist_at(path)?;
        Self::secret_kind_in(&FileFolder::open(path)?)
    }

    /// What opens the archive in a folder, if it is encrypted.
    pub fn secret_kind_in(folder: &dyn Folder) -> Result<Option<SecretKind>, ArchiveError> {
        let (_, _, protection) = any_settings(folder)?;
        Ok(protection.map(|protection| protection.kind()))
    }

    /// Open the archive at `path` for what `kind` says, locked against what would disturb it.
    pub fn open_at(path: &Path, kind: LockKind) -> Result<Self, ArchiveError> {
        Self::open_at_with(path, kind, None)
    }

    /// The same with what opens an encrypted one.
    pub fn open_at_with(
        path: &Path,
        kind: LockKind,
        secret: Option<&Secret>,
    ) -> Result<Self, ArchiveError> {
        Self::must_exist_at(path)?;
        let lock = lock::acquire(path, kind)?;
        let mut archive = Self::open_with(Arc::new(FileFolder::open(path)?), secret)?;
        lock.keep();
        archive.lock = Some(lock);
        Ok(archive)
    }

    /// Open the archive in a folder that nobody else uses.
    pub fn open(folder: Arc<dyn Folder>) -> Result<Self, ArchiveError> {
        Self::open_with(folder, None)
    }

    /// The same with what opens an encrypted one.
    pub fn open_with(
        folder: Arc<dyn Folder>,
        secret: Option<&Secret>,
    ) -> Result<Self, ArchiveError> {
        let Unlocked { folder, settings, identity, settings_bytes, keys } = unlock(folder, secret)?;
        // One that says something else is of a change of the secret that was cut short.
        let is_bad = |name: &&str| {
            let found = read_settings_bytes(&*folder, name).ok();
            found.is_none_or(|bytes| !bytes.starts_with(&settings_bytes))
        };
        let bad_settings = SETTINGS_FILES.into_iter().filter(is_bad).collect();
        let containers = folder_within(&*folder, CONTAINERS)?;
        let store: Arc<dyn ContainerStore> = Arc::new(FolderContainerStore::new(containers));
        let versions_folder = folder_within(&*folder, VERSIONS)?;
        let (log, versions) = log::read(&*folder, &*versions_folder, &*store, &identity.uuid)?;
        let lock = None;
        Ok(Self {
            settings,
            identity,
            folder,
            versions_folder,
            store,
            versions,
            log,
            settings_bytes,
            keys,
            bad_settings,
            lock,
            workers: 1,
        })
    }

    /// How it stores.
    pub const fn settings(&self) -> &ArchiveSettings {
        &self.settings
    }

    /// Whether it is encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// Read containers through what `wrap` makes of where they are, such as a cache before it. Not
    /// for an encrypted archive: what is read there is open.
    pub fn read_through(
        &mut self,
        wrap: impl FnOnce(Arc<dyn ContainerStore>) -> Arc<dyn ContainerStore>,
    ) {
        assert!(!self.is_encrypted(), "open content would be kept elsewhere");
        self.store = wrap(Arc::clone(&self.store));
    }

    /// Let another secret open an encrypted archive, and the old one no more. What was encrypted
    /// stays as it is: who kept the settings as they were, and the old secret, still has the key.
    /// The key's own `master` is not used.
    pub fn change_secret(&mut self, key: &NewKey<'_>) -> Result<(), ArchiveError> {
        self.complete_copies()?;
        let keys = self.keys.as_ref().ok_or_else(|| {
            ArchiveError::Setting("the archive is not encrypted: it has no secret".to_owned())
        })?;
        let key = NewKey { master: keys.master, ..*key };
        let bytes = protected(&self.settings, &self.identity.uuid, &key)?;
        for name in SETTINGS_FILES {
            write_settings(&*self.folder, name, &bytes)?;
        }
        self.settings_bytes = bytes;
        Ok(())
    }

    /// Its random identity.
    pub const fn identity(&self) -> &ArchiveIdentity {
        &self.identity
    }

    /// The versions it holds, oldest first.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &VersionInfo> + ExactSizeIterator {
        self.versions.values()
    }

    /// Whether a version was removed that others, which are still there, may share chunks with:
    /// what these stored when they were added is not all that they need then.
    pub fn lacks_older_versions(&self) -> bool {
        self.versions()
            .next_back()
            .is_some_and(|newest| newest.number as usize != self.versions().len())
    }

    /// Bytes of all containers.
    pub fn bytes_in_containers(&self) -> Result<u64, ArchiveError> {
        let containers = self.store.list()?;
        containers
            .into_iter()
            .try_fold(0, |sum: u64, id| Ok(sum.saturating_add(self.store.len(id)?)))
    }

    /// What is wrong with the log beyond what its two copies make good.
    pub fn damage(&self) -> &[String] {
        &self.log.damage
    }

    /// The version of that number, or the newest.
    pub fn version(&self, number: Option<u32>) -> Result<Version, ArchiveError> {
        let info = match number {
            // An older one must not be taken for it.
            None if self.log.is_cut_short => {
                let problem = format!("{}; name a version", self.log.damage.join("; "));
                return Err(ArchiveError::corrupt("log", 0, problem));
            }
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

    /// Read, decode and compare so many containers at once, where it is many that are read, such as
    /// a processor has cores; one, unless it is told. A store that is far away may ask for more.
    pub const fn set_workers(&mut self, workers: usize) {
        self.workers = workers;
    }

    /// How many containers to read at once.
    pub(crate) fn workers(&self) -> usize {
        self.workers.max(self.store.reads_at_once().min(FAR_WORKERS_MAX))
    }

    /// Bring both copies of settings and log to the same state.
    pub(crate) fn complete_copies(&mut self) -> Result<(), ArchiveError> {
        self.log.must_be_whole()?;
        while let Some(name) = self.bad_settings.last() {
            write_settings(&*self.folder, name, &self.settings_bytes)?;
            self.folder.sync_names()?;
            self.bad_settings.pop();
        }
        if let Some(name) = self.log.missing_copy {
            // What is left of it cannot be read, and nothing can be written behind it.
            log::write_anew(&*self.folder, name, &self.log.known, &self.identity.uuid)?;
            self.log.missing_copy = None;
        }
        if !self.log.to_repair.is_empty() {
            self.log.in_doubt = true;
            log::write_records(&*self.folder, &self.log.known, &self.identity.uuid)?;
            self.log.to_repair.clear();
            self.log.in_doubt = false;
        }
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
        self.log.known.push(record.clone());
        log::write_records(&*self.folder, &self.log.known, &self.identity.uuid)?;
        self.log.in_doubt = false;
        self.log.records += 1;
        self.log.apply(&record, &mut self.versions);
        let records = self.log.records;
        self.log.pending = self.log.pending.filter(|pending| pending.is_under_way(records));
        Ok(())
    }

    /// Announce that containers and versions' files come that the log does not tell of yet, and
    /// that this many records are going to tell of them.
    pub(crate) fn begin_work(&mut self, records: u32) -> Result<(), ArchiveError> {
        let LogState { records: sequence, next_version, next_container, .. } = self.log;
        let pending =
            Pending { sequence, records, version: next_version, container: next_container };
        // What was left by work that was cut short stays explained at every moment. Its own
        // announcement is written again: it may be there and not be durable.
        let announced = match self.log.pending {
            Some(_) => log::read_pending(&*self.folder, &self.identity.uuid)?.unwrap_or(pending),
            None => pending,
        };
        log::write_pending(&*self.folder, &announced, &self.identity.uuid)?;
        self.log.pending = Some(pending);
        Ok(())
    }

    /// The log tells of everything that is there.
    pub(crate) fn end_work(&mut self) -> Result<(), ArchiveError> {
        log::remove_pending(&*self.folder)?;
        self.log.pending = None;
        Ok(())
    }
}

/// Whether an error says that there is nothing at a path, and not that nobody may look there.
fn is_nothing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;

    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A folder of an archive, which must be there.
fn folder_within(folder: &dyn Folder, name: &str) -> Result<Arc<dyn Folder>, ArchiveError> {
    match folder.existing_subfolder(name) {
        Err(MediaError::NotFound { .. }) => {
            Err(ArchiveError::corrupt(name, 0, "the folder is missing"))
        }
        found => Ok(found?),
    }
}

/// Whether a file of that name may be there before an archive is made.
fn is_trace(name: &str) -> bool {
    let name = name.strip_suffix(small_file::UNFINISHED).unwrap_or(name);
    SETTINGS_FILES.contains(&name)
        || LOG_FILES.contains(&name)
        || is_of_a_lock(name)
        || name == USER_SETTINGS_FILE
}

/// The settings of an encrypted archive with a key wrapped as `key` says.
fn protected(
    settings: &ArchiveSettings,
    uuid: &[u8; 16],
    key: &NewKey<'_>,
) -> Result<Vec<u8>, ArchiveError> {
    let protection = Protection::new(key, &settings_file::encode_open(settings, uuid))?;
    Ok(settings_file::encode_sealed(settings, uuid, &protection))
}

/// A folder through which everything in an archive is read and written as if it were not encrypted.
pub(crate) struct Unlocked {
    pub folder: Arc<dyn Folder>,
    pub settings: ArchiveSettings,
    pub identity: ArchiveIdentity,
    /// The settings as they are written.
    pub settings_bytes: Vec<u8>,
    pub keys: Option<Arc<Keys>>,
}

/// Read the settings of the archive in a folder, and open it if it is encrypted.
fn unlock(folder: Arc<dyn Folder>, secret: Option<&Secret>) -> Result<Unlocked, ArchiveError> {
    let found = any_settings(&*folder)?;
    match unlock_with(Arc::clone(&folder), &found, secret) {
        // The copies differ where a change of the secret was cut short.
        Err(error @ ArchiveError::WrongKey { .. }) => {
            let other = read_settings_copy(&*folder, SETTINGS_FILES[1]);
            match other.ok().filter(|other| *other != found) {
                Some(other) => unlock_with(folder, &other, secret),
                None => Err(error),
            }
        }
        unlocked => unlocked,
    }
}

/// Open the archive that has these settings.
pub(crate) fn unlock_with(
    folder: Arc<dyn Folder>,
    &(settings, identity, protection): &Found,
    secret: Option<&Secret>,
) -> Result<Unlocked, ArchiveError> {
    let Some(protection) = protection else {
        let settings_bytes = settings_file::encode(&settings, &identity);
        return Ok(Unlocked { folder, settings, identity, settings_bytes, keys: None });
    };
    let kind = protection.kind();
    let secret = secret.ok_or(ArchiveError::KeyNeeded { kind })?;
    let authenticated = settings_file::encode_open(&settings, &identity.uuid);
    let keys = Arc::new(protection.unlock(secret, &authenticated)?);
    let identity = ArchiveIdentity { key: keys.names, ..identity };
    let settings_bytes = settings_file::encode_sealed(&settings, &identity.uuid, &protection);
    let folder = SealedFolder::new(folder, Arc::clone(&keys), settings_bytes.clone());
    let folder = Arc::new(folder);
    Ok(Unlocked { folder, settings, identity, settings_bytes, keys: Some(keys) })
}

fn any_settings(folder: &dyn Folder) -> Result<Found, ArchiveError> {
    let mut worst = None;
    for name in SETTINGS_FILES {
        match read_settings_copy(folder, name) {
            Err(ArchiveError::Media(MediaError::NotFound { .. })) => {}
            Err(error) => worst = Some(error),
            Ok(found) => return Ok(found),
        }
    }
    // Without a log either, there is no archive.
    let is_archive = folder.list()?.iter().any(|name| LOG_FILES.contains(&name.as_str()));
    let lost = || ArchiveError::corrupt(SETTINGS_FILES[0], 0, "it is missing in both copies");
    Err(worst.unwrap_or_else(|| if is_archive { lost() } else { ArchiveError::NoArchive }))
}

/// One of the two copies of the settings.
pub(crate) fn read_settings_copy(folder: &dyn Folder, name: &str) -> Result<Found, ArchiveError> {
    asked_again(|| settings_file::decode_any(&read_settings_bytes(folder, name)?, name))
}

/// What is read, or what is read then if it was damaged: it may be so on its way only, and what is
/// taken for lost may be written anew from what is older.
pub(crate) fn asked_again<T>(
    read: impl Fn() -> Result<T, ArchiveError>,
) -> Result<T, ArchiveError> {
    read().or_else(|error| if error.is_corruption() { read() } else { Err(error) })
}

fn read_settings_bytes(folder: &dyn Folder, name: &str) -> Result<Vec<u8>, ArchiveError> {
    let file = folder.open(name)?;
    let mut bytes = vec![0; file.len()?.min(SEALED_BYTES as u64) as usize];
    file.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Write one of the two copies of the settings; its name is not durable yet.
pub(crate) fn write_settings(
    folder: &dyn Folder,
    name: &str,
    bytes: &[u8],
) -> Result<(), ArchiveError> {
    Ok(small_file::replace(folder, name, bytes)?)
}
