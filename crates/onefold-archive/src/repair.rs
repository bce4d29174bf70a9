//! Putting settings and log together again: from their other copy, or from the versions' files.
//! Room: onefold-archive.
//! Invariants: (1) no version's file that could be read, and no container, is removed  (2) whatever
//! moment a repair is cut short at, the next one ends where it would have.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use onefold_block::{ContainerStore as _, FileFolder, Folder, FolderContainerStore, MediaError};

use crate::archive::{
    self, Archive, CONTAINERS, Unlocked, VERSIONS, read_settings_copy, write_settings,
};
use crate::error::ArchiveError;
use crate::format::log_record::{LOG_FILES, LogEvent, LogRecord, VersionInfo};
use crate::format::settings_file::{self, Found, SETTINGS_FILES};
use crate::format::version_file::{HEADER_BYTES, decode_header, file_name, parse_name};
use crate::lock::{self, LockKind};
use crate::log::{self, LogState, Versions};
use crate::seal::{Secret, folder};
use crate::version::Version;

/// The label of a version that is in a rebuilt log for its damaged file's sake.
const DAMAGED_LABEL: &str = "(damaged)";

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What is wrong with settings and log, and what puts it right: to be done, or done if a
    /// repair was asked for.
    pub steps: Vec<String>,
    /// What no repair puts right: versions whose files are damaged or missing.
    pub lost: Vec<String>,
}

impl RepairReport {
    /// Whether there is nothing to do and nothing lost.
    pub fn is_sound(&self) -> bool {
        self.steps.is_empty() && self.lost.is_empty()
    }
}

impl Archive {
    /// Check settings, log and versions' files of the archive at `path`, and put right what can
    /// be if `repair` is set.
    pub fn check_at(
        path: &Path,
        repair: bool,
        secret: Option<&Secret>,
    ) -> Result<RepairReport, ArchiveError> {
        if ![CONTAINERS, VERSIONS].iter().all(|name| path.join(name).is_dir()) {
            Self::must_exist_at(path)?;
        }
        let kind = if repair { LockKind::Remove } else { LockKind::Read };
        let lock = lock::acquire(path, kind)?;
        lock.keep();
        Self::check_with(Arc::new(FileFolder::open(path)?), repair, secret)
    }

    /// The same in a folder that nobody else uses.
    pub fn check(folder: Arc<dyn Folder>, repair: bool) -> Result<RepairReport, ArchiveError> {
        Self::check_with(folder, repair, None)
    }

    /// The same with what opens an encrypted archive.
    pub fn check_with(
        folder: Arc<dyn Folder>,
        repair: bool,
        secret: Option<&Secret>,
    ) -> Result<RepairReport, ArchiveError> {
        // Nothing is written for who cannot open it.
        let found = check_settings(&*folder, false, &mut RepairReport::default())?;
        let as_stored = Arc::clone(&folder);
        let Unlocked { folder, identity, .. } = archive::unlock_with(folder, &found, secret)?;
        let folder = &*folder;
        let mut report = RepairReport::default();
        for name in [CONTAINERS, VERSIONS] {
            if let Err(MediaError::NotFound { .. }) = folder.existing_subfolder(name) {
                report.steps.push(format!("the folder {name} is missing: an empty one is made"));
                if repair {
                    folder.subfolder(name)?;
                    folder.sync_names()?;
                }
            }
        }
        check_settings(&*as_stored, repair, &mut report)?;
        let versions = match folder.existing_subfolder(VERSIONS) {
            Err(MediaError::NotFound { .. }) => return Ok(report),
            versions => versions?,
        };
        let containers = match folder.existing_subfolder(CONTAINERS) {
            Err(MediaError::NotFound { .. }) => return Ok(report),
            containers => containers?,
        };
        let store = FolderContainerStore::new(containers);
        let uuid = &identity.uuid;
        let (log, known) = log::read(folder, &*versions, &store, uuid)?;
        let is_whole = !log.is_cut_short && !log.damage.iter().any(|d| d.starts_with("record"));
        if is_whole {
            let damage = log.damage.iter().map(|damage| format!("log: {damage}"));
            report.lost.extend(damage);
            for info in known.values() {
                if let Err(error) = Version::open(&*versions, uuid, info) {
                    report.lost.push(format!("version {}: {error}", info.number));
                }
            }
            return complete_log(folder, &log, uuid, repair, report);
        }
        for damage in &log.damage {
            report.steps.push(format!("the log is damaged: {damage}"));
        }
        let next = store.list()?.last().map_or(1, |id| id.get().saturating_add(1));
        let plan = Plan::new(&*versions, uuid, &log, &known, next, &mut report)?;
        if repair {
            plan.carry_out(folder, &*versions, uuid)?;
        }
        Ok(report)
    }
}

/// Write the log's second copy where only one is good.
fn complete_log(
    folder: &dyn Folder,
    log: &LogState,
    uuid: &[u8; 16],
    repair: bool,
    mut report: RepairReport,
) -> Result<RepairReport, ArchiveError> {
    if let Some(name) = log.missing_copy {
        report
            .steps
            .push(format!("{name} is missing or damaged: it is written from the other copy"));
        if repair {
            log::write_anew(folder, name, &log.known, uuid)?;
        }
    }
    for sequence in &log.to_repair {
        report.steps.push(format!("record {sequence} of the log is copied to where it is missing"));
    }
    if repair && !log.to_repair.is_empty() {
        log::write_records(folder, &log.known, uuid)?;
    }
    Ok(report)
}

/// Settings and identity from whichever copy is good, or from a version's file; a copy that is not
/// good is written again.
fn check_settings(
    folder: &dyn Folder,
    repair: bool,
    report: &mut RepairReport,
) -> Result<Found, ArchiveError> {
    let copies = SETTINGS_FILES.map(|name| (name, read_settings_copy(folder, name)));
    for (_, copy) in &copies {
        if let Err(error @ (ArchiveError::OlderFormat { .. } | ArchiveError::NewerFormat { .. })) =
            copy
        {
            return Err(ArchiveError::Setting(error.to_string()));
        }
    }
    let good = copies.iter().find_map(|(name, copy)| copy.as_ref().ok().map(|good| (*name, *good)));
    let from_version = if good.is_none() { settings_from_versions(folder)? } else { None };
    let Some((source, found)) = good.map(|(name, good)| (name.to_owned(), good)).or(from_version)
    else {
        let [(_, first), _] = copies;
        return first.map_err(|error| match error {
            ArchiveError::Media(MediaError::NotFound { .. }) => ArchiveError::NoArchive,
            error => error,
        });
    };
    let (settings, identity, protection) = &found;
    let bytes = match protection {
        None => settings_file::encode(settings, identity),
        Some(protection) => settings_file::encode_sealed(settings, &identity.uuid, protection),
    };
    for (name, copy) in copies {
        if copy.is_err() {
            report.steps.push(format!("{name} is missing or damaged: written from {source}"));
            if repair {
                write_settings(folder, name, &bytes)?;
                folder.sync_names()?;
            }
        }
    }
    Ok(found)
}

/// The settings that the newest readable version's file begins with.
fn settings_from_versions(folder: &dyn Folder) -> Result<Option<(String, Found)>, ArchiveError> {
    let versions = match folder.existing_subfolder(VERSIONS) {
        Err(MediaError::NotFound { .. }) => return Ok(None),
        versions => versions?,
    };
    for name in versions.list()?.into_iter().rev().filter(|name| parse_name(name).is_some()) {
        let file = versions.open(&name)?;
        let mut bytes = [0; folder::HEADER_BYTES];
        let bytes = match file.len()? {
            len if len < HEADER_BYTES as u64 => continue,
            len => &mut bytes[..len.min(folder::HEADER_BYTES as u64) as usize],
        };
        if file.read(0, bytes).is_err() {
            continue;
        }
        let found = match folder::settings_in_header(bytes) {
            Some(settings) => settings_file::decode_any(settings, &name),
            None => decode_header(&bytes[..HEADER_BYTES], &name)
                .map(|header| (header.settings, header.identity, None)),
        };
        if let Ok(found) = found {
            return Ok(Some((format!("{VERSIONS}/{name}"), found)));
        }
    }
    Ok(None)
}

/// A log to be written in the place of one that is damaged.
struct Plan {
    next_container: u32,
    events: Vec<LogEvent>,
    /// Files of interrupted work that no version needs.
    leftovers: Vec<String>,
}

impl Plan {
    fn new(
        versions: &dyn Folder,
        uuid: &[u8; 16],
        log: &LogState,
        known: &Versions,
        next_container: u32,
        report: &mut RepairReport,
    ) -> Result<Self, ArchiveError> {
        let mut files: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, generation) in versions.list()?.iter().filter_map(|name| parse_name(name)) {
            files.entry(number).or_default().push(generation);
        }
        for number in known.keys() {
            files.entry(*number).or_default();
        }
        let next_version = files.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let next_version = next_version.max(log.next_version);
        let mut plan = Self {
            next_container: next_container.max(log.next_container),
            events: vec![LogEvent::Rebuilt(next_version)],
            leftovers: Vec::new(),
        };
        for (number, mut generations) in files {
            generations.sort_unstable();
            let known = known.get(&number);
            plan.version(versions, uuid, log, number, &generations, known, report)?;
        }
        Ok(plan)
    }

    /// What the log is to say of a version.
    #[expect(clippy::too_many_arguments, reason = "each is a different thing that is known of it")]
    fn version(
        &mut self,
        versions: &dyn Folder,
        uuid: &[u8; 16],
        log: &LogState,
        number: u32,
        generations: &[u32],
        known: Option<&VersionInfo>,
        report: &mut RepairReport,
    ) -> Result<(), ArchiveError> {
        let mut damage = None;
        let mut found = None;
        for &generation in generations.iter().rev() {
            let describe = || Version::describe(versions, uuid, (number, generation));
            match archive::asked_again(describe) {
                Ok(good) => {
                    found = Some(good);
                    break;
                }
                Err(error) if error.is_corruption() => {
                    // The highest one is what the version's own damage is told by.
                    damage.get_or_insert(error);
                    let under_way = log.pending.is_some_and(|pending| number >= pending.version);
                    if known.is_none() && under_way {
                        self.leftovers.push(file_name(number, generation));
                        damage = None;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let info = match (found, known, damage) {
            (Some((info, next)), _, _) => {
                self.next_container = self.next_container.max(next);
                // Newer generations are of a rewriting that was cut short: this one serves.
                let newer = generations.iter().filter(|&&g| g > info.generation);
                self.leftovers.extend(newer.map(|&generation| file_name(number, generation)));
                info
            }
            (None, Some(known), damage) => {
                let why = damage.map_or("its file is missing".to_owned(), |e| e.to_string());
                report.lost.push(format!("version {number}: {why}"));
                known.clone()
            }
            (None, None, Some(damage)) => {
                report.lost.push(format!("version {number}: {damage}"));
                placeholder(versions, number, generations.last().copied().unwrap_or_default())?
            }
            (None, None, None) => return Ok(()),
        };
        report.steps.push(format!("the new log tells of version {number}"));
        self.events.push(LogEvent::Added(info));
        if log.removed.contains(&number) {
            self.events.push(LogEvent::Removed(number));
        }
        Ok(())
    }

    /// Write the log. As long as it is not whole, one copy is missing, and versions' files are not
    /// told of: the next opening says so, and the next repair begins again.
    fn carry_out(
        self,
        folder: &dyn Folder,
        versions: &dyn Folder,
        uuid: &[u8; 16],
    ) -> Result<(), ArchiveError> {
        let next_container = self.next_container;
        let record = |(sequence, event)| LogRecord { sequence, next_container, event };
        let records: Vec<_> = (0..).zip(self.events).map(record).collect();
        for name in self.leftovers {
            versions.remove(&name)?;
        }
        versions.sync_names()?;
        // Records of the two logs must not be taken for those of one.
        match folder.remove(LOG_FILES[1]) {
            Err(MediaError::NotFound { .. }) => {}
            removed => removed?,
        }
        folder.sync_names()?;
        for name in LOG_FILES {
            log::write_anew(folder, name, &records, uuid)?;
        }
        log::remove_pending(folder)
    }
}

/// Stands for a version of which only a damaged file is there: it is named as damaged, and nothing
/// that it may refer to is removed until it is removed itself.
fn placeholder(
    versions: &dyn Folder,
    number: u32,
    generation: u32,
) -> Result<VersionInfo, ArchiveError> {
    let file_bytes = versions.open(&file_name(number, generation))?.len()?;
    let label = DAMAGED_LABEL.to_owned();
    Ok(VersionInfo { number, generation, label, file_bytes, ..VersionInfo::default() })
}
