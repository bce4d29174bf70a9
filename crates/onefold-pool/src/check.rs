//! The check: every checksum and every reference, nothing changed.
//! Room: onefold-pool.
//! Cost: reads everything once, and the maps once per 16 million chunks stored, so that memory
//! stays below about 100 MiB whatever the pool's size.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Folder, Lba};
use onefold_content::Decompressor;

use crate::container::directories;
use crate::container::table::ContainerInfo;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry};
use crate::format::record;
use crate::format::superblock::LOST_BLOCKS;
use crate::map::{Below, ENTRIES_PER_PAGE};
use crate::open::{self, OpenOptions};
use crate::pba::{Location, MapEntry, Pba};
use crate::pool::Pool;
use crate::repair::{self, Blocks};
use crate::runs;
use crate::slot_uses;

/// Chunks whose places are held in memory at once.
pub(crate) const CHUNKS_PER_PASS: u64 = 16 << 20;
/// Findings that are named; the rest are only counted.
const FINDINGS_NAMED_MAX: usize = 1000;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, where, and what was expected.
    pub problem: String,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What is wrong, at most a thousand of it.
    pub findings: Vec<Finding>,
    /// How much is wrong, named or not.
    pub findings_total: u64,
    /// What is unusual but no damage, as after a power cut.
    pub notes: Vec<String>,
    /// Containers read.
    pub containers: u64,
    /// Chunks read, decompressed and hashed.
    pub chunks: u64,
    /// Of these, chunks that blocks refer to.
    pub live: u64,
    /// Bytes of containers read.
    pub bytes: u64,
    /// References followed from the maps.
    pub references: u64,
    /// Blocks that an earlier repair gave up, and that were not written since: no damage any more,
    /// and errors to read.
    pub lost: Blocks,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub const fn is_sound(&self) -> bool {
        self.findings_total == 0
    }

    pub(crate) fn found(&mut self, problem: impl Into<String>) {
        let finding = Finding { problem: problem.into() };
        if self.findings.last() == Some(&finding) {
            return;
        }
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_NAMED_MAX {
            self.findings.push(finding);
        }
    }
}

impl Pool {
    /// Check the pool at `path`, which no server has open. `progress` hears how many of how many
    /// bytes of containers are read.
    pub fn check_at(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, PoolError> {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        check_opened(Self::open_at(path, &options), progress)
    }

    /// Check the pool in any folder.
    pub fn check_in(
        folder: &dyn Folder,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, PoolError> {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        check_opened(Self::open(folder, &options), progress)
    }

    /// Check a pool opened read-only.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> CheckReport {
        let all = self.check_while(&mut |done, total| {
            progress(done, total);
            true
        });
        all.expect("nobody ends it")
    }

    /// The same as long as `progress` says so; nothing if it was ended.
    pub(crate) fn check_while(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<CheckReport> {
        self.check_in_passes(CHUNKS_PER_PASS, progress)
    }

    /// The same with the places of so many chunks in memory at once.
    pub(crate) fn check_in_passes(
        &self,
        chunks_per_pass: u64,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Option<CheckReport> {
        let inner = &*self.inner;
        let mut report = CheckReport::default();
        check_supers(inner, &mut report);
        slot_uses::check(inner, &mut report);
        let containers: Vec<(ContainerId, ContainerInfo)> =
            inner.engine().table.iter().map(|(id, info)| (id, *info)).collect();
        let total = containers.iter().map(|(_, info)| u64::from(info.len_bytes)).sum();
        let mut counted: BTreeMap<ContainerId, u64> = BTreeMap::new();
        let mut rest = containers.as_slice();
        let mut first_pass = true;
        while first_pass || !rest.is_empty() {
            let mut chunks = 0;
            let group = rest.iter().take_while(|(_, info)| {
                chunks += u64::from(info.chunks);
                chunks <= chunks_per_pass
            });
            let (group, later) = rest.split_at(group.count().max(1).min(rest.len()));
            rest = later;
            let mut places = Places::new();
            for (id, info) in group {
                let good = check_container(inner, *id, info, &mut report);
                places.insert(*id, good.into_iter().map(|location| (location, false)).collect());
                if !progress(report.bytes, total) {
                    return None;
                }
            }
            check_references(inner, &mut places, first_pass.then_some(&mut counted), &mut report);
            check_live(group, &places, &mut report);
            first_pass = false;
        }
        check_totals(&containers, &counted, &mut report);
        if inner.features.may_only_read & LOST_BLOCKS != 0 {
            list_lost(inner, &mut report);
        }
        check_strangers(inner, &mut report);
        check_runs(inner, &mut report);
        if let Some(problem) = inner.generation_problem() {
            report.found(problem);
        }
        Some(report)
    }
}

/// Good records of some containers, and whether any block refers to them.
type Places = BTreeMap<ContainerId, Vec<(Location, bool)>>;

/// A pool that cannot be opened because it is damaged has that one finding.
fn check_opened(
    opened: Result<Pool, PoolError>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, PoolError> {
    match opened {
        Ok(pool) => Ok(pool.check(progress)),
        Err(error) if error.is_corruption() => {
            let mut report = CheckReport::default();
            report.found(error.to_string());
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

fn check_supers(inner: &Inner, report: &mut CheckReport) {
    let quiet = inner.flusher().journal.is_clean();
    let clean = quiet && inner.engine().table.iter().all(|(_, info)| info.is_sealed());
    if inner.flusher().journal.lost_its_only_frame() {
        report.found("corrupt journal at byte 0: its only frame is damaged");
    }
    match open::read_supers(&inner.files.supers) {
        Ok((_, None)) => {}
        Ok((_, Some(error))) if clean => report.found(error.to_string()),
        Ok((_, Some(error))) => {
            report
                .notes
                .push(format!("one checkpoint is unreadable, as after a power cut: {error}"));
        }
        Err(error) => report.found(error.to_string()),
    }
    if let Some(at) = inner.flusher().journal.torn_at() {
        report.notes.push(format!(
            "the journal ends at byte {at} in a frame that is not whole: a flush that a power cut \
             interrupted, or damage to the last one"
        ));
    }
    if !clean {
        report.notes.push("the pool was not stopped cleanly: its journal was followed".to_owned());
    }
}

/// Read a container whole; returns the places of its good records.
fn check_container(
    inner: &Inner,
    id: ContainerId,
    info: &ContainerInfo,
    report: &mut CheckReport,
) -> Vec<Location> {
    if !info.is_sealed() && !info.is_referenced() {
        // It was made and not used yet, or not for anything that counts. Recovery removes it.
        return Vec::new();
    }
    report.containers += 1;
    let read = (|| {
        let len = inner.plain.len(id)?;
        let most = u64::from(inner.settings.container_bytes);
        if len > most {
            let problem = format!("it has {len} bytes, but no container has more than {most}");
            return Err(PoolError::corrupt(id.to_string(), most, problem));
        }
        let mut bytes = vec![0; len as usize];
        inner.plain.read(id, 0, &mut bytes)?;
        Ok::<_, PoolError>(bytes)
    })();
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            report.found(error.to_string());
            return Vec::new();
        }
    };
    report.bytes += bytes.len() as u64;
    if let Err(error) = container::check_header(&bytes, id, &inner.identity.uuid) {
        report.found(error.to_string());
    }
    let entries = if info.is_sealed() {
        if bytes.len() != info.len_bytes as usize {
            let (found, expected) = (bytes.len(), info.len_bytes);
            report.found(format!("{id} has {found} bytes, but {expected} were expected"));
        }
        directories::load(&*inner.plain, id, bytes.len() as u64)
    } else {
        inner.walk(id, &bytes)
    };
    let gone = info.is_punched();
    match entries {
        Ok(entries) => check_records(inner, (id, gone), &bytes, &entries, report),
        Err(error) => {
            report.found(error.to_string());
            // Without its directory the records can still be walked.
            let entries = inner.walk(id, &bytes).unwrap_or_default();
            check_records(inner, (id, gone), &bytes, &entries, report)
        }
    }
}

/// With `gone`, records may be gone that nothing refers to: whoever refers to one finds none.
fn check_records(
    inner: &Inner,
    (id, gone): (ContainerId, bool),
    bytes: &[u8],
    entries: &[DirectoryEntry],
    report: &mut CheckReport,
) -> Vec<Location> {
    let mut decompressor = Decompressor::new();
    let mut chunk = vec![0; inner.chunk_bytes()];
    let mut good = Vec::with_capacity(entries.len());
    for entry in entries {
        report.chunks += 1;
        let location = entry.location;
        let at = location.offset_bytes();
        let pba = Pba { container: id, location };
        let Some(bytes) = bytes.get(at..location.end_bytes()) else {
            report.found(format!("corrupt {id} at byte {at}: the record is cut short"));
            continue;
        };
        if let Err(error) = record::decode(bytes, pba, &mut decompressor, &mut chunk) {
            if gone {
                continue;
            }
            report.found(format!("corrupt {id} at byte {at}: {error}"));
            continue;
        }
        let found = container::kept(&inner.fingerprinter.hash(&chunk));
        if found != entry.fingerprint {
            report.found(format!(
                "corrupt {id} at byte {at}: the chunk's fingerprint is {found}, but the \
                 directory says {}",
                entry.fingerprint
            ));
        }
        good.push(location);
    }
    good
}

/// Follow all map entries; those into `places` must lead to a good record.
fn check_references(
    inner: &Inner,
    places: &mut Places,
    mut counted: Option<&mut BTreeMap<ContainerId, u64>>,
    report: &mut CheckReport,
) {
    let volumes: Vec<_> = {
        let volumes = inner.volumes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        volumes.values().cloned().collect()
    };
    for volume in volumes {
        let mut mapped = 0u64;
        let first_pass = counted.is_some();
        // Of snapshots, and of what is being deleted, leaves that nobody else is asked for.
        let going = volume.is_dropped_in_steps() && volume.deleting.load(Ordering::Relaxed);
        let all = !volume.is_snapshot && !going;
        let how = (all, first_pass);
        for_each_entry(inner, &volume, how, report, &mut |report, lba, own, entry| {
            let Some(pba) = entry.pba() else { return };
            mapped += 1;
            if !own {
                return;
            }
            if let Some(counted) = counted.as_deref_mut() {
                *counted.entry(pba.container).or_default() += 1;
                report.references += 1;
            }
            let Some(good) = places.get_mut(&pba.container) else { return };
            match good.binary_search_by_key(&pba.location, |(location, _)| *location) {
                Ok(at) => good[at].1 = true,
                Err(_) => report.found(format!(
                    "volume '{}' {lba} refers to {} byte {}, where no good record is",
                    volume.name(),
                    pba.container,
                    pba.location.offset_bytes()
                )),
            }
        });
        let expected = volume.mapped_chunks.load(Ordering::Relaxed);
        if first_pass && all && mapped != expected {
            report.found(format!(
                "volume '{}' maps {mapped} chunks, but {expected} were expected",
                volume.name()
            ));
        }
    }
}

/// Name the blocks that a repair gave up.
fn list_lost(inner: &Inner, report: &mut CheckReport) {
    let mut known = Below::default();
    for volume in inner.all_volumes() {
        if volume.deleting.load(Ordering::Acquire) {
            continue;
        }
        // Damage is named by who follows references.
        if let Ok(ranges) = repair::lost_blocks(inner, &volume, &mut known) {
            report.lost.add(&volume.name(), &ranges);
        }
    }
}

/// No more records are alive than the container table says at most.
fn check_live(
    containers: &[(ContainerId, ContainerInfo)],
    places: &Places,
    report: &mut CheckReport,
) {
    for (id, info) in containers {
        let good = places.get(id).into_iter().flatten();
        let live = good.filter(|(_, used)| *used).count();
        report.live += live as u64;
        if info.is_sealed() && live as u64 > u64::from(info.live_max) {
            let most = info.live_max;
            report.found(format!(
                "{live} records of {id} are referred to, but at most {most} were expected"
            ));
        }
    }
}

/// Visit the entries of a volume's map, but for runs of holes and zeroes, past damage.
pub(crate) fn for_each_entry(
    inner: &Inner,
    volume: &VolumeState,
    (all, report_damage): (bool, bool),
    report: &mut CheckReport,
    visit: &mut dyn FnMut(&mut CheckReport, Lba, bool, MapEntry),
) {
    let per_leaf = ENTRIES_PER_PAGE as u64;
    let (mut at, end) = (0, volume.blocks(inner.chunk_bytes()));
    let mut entries = Vec::with_capacity(ENTRIES_PER_PAGE);
    while at < end {
        // What is passed over ends with a leaf.
        let batch = per_leaf.min(end - at);
        entries.clear();
        let (number, lba) = (volume.number, Lba::new(at));
        let mut own = false;
        let read = inner.map.not_own_run(number, lba, end - at).and_then(|run| {
            own = run == 0;
            let skip = if own || !all { run } else { inner.map.uniform_run(number, lba, run)?.0 };
            if skip == 0 {
                inner.map.entries(number, lba, batch, &mut entries)?;
            }
            Ok(skip)
        });
        match read {
            Ok(0) => {
                for (lba, entry) in (at..).zip(&entries) {
                    visit(report, Lba::new(lba), own, *entry);
                }
                at += batch;
            }
            Ok(run) => at += run,
            Err(error) => {
                if report_damage {
                    report.found(error.to_string());
                }
                at = inner.map.past_damage(volume.number, Lba::new(at));
            }
        }
    }
}

fn check_totals(
    containers: &[(ContainerId, ContainerInfo)],
    counted: &BTreeMap<ContainerId, u64>,
    report: &mut CheckReport,
) {
    for (id, info) in containers {
        let counted = counted.get(id).copied().unwrap_or(0);
        if counted != info.references {
            report.found(format!(
                "{id} is referred to {counted} times, but {} were expected",
                info.references
            ));
        }
    }
    for (id, count) in counted {
        if containers.binary_search_by_key(id, |(id, _)| *id).is_err() {
            report.found(format!("{count} map entries refer to {id}, which is unknown"));
        }
    }
}

/// Fingerprint runs are hints: what is damaged costs no data, but a copy may be stored once more
/// until they are made again.
fn check_runs(inner: &Inner, report: &mut CheckReport) {
    let Some(folder) = &inner.files.fingerprints else { return };
    let (uuid, sequence) = (&inner.identity.uuid, inner.opened_at);
    let problems = match runs::set::survey(&**folder, uuid, sequence) {
        Ok(survey) => {
            let mut problems = survey.problems;
            problems.extend(survey.whole.iter().filter_map(|run| run.read_all(folder).err()));
            problems
        }
        Err(error) => vec![error],
    };
    for problem in problems {
        report.notes.push(format!("{problem}; it is made again from the containers"));
    }
}

fn check_strangers(inner: &Inner, report: &mut CheckReport) {
    match inner.plain.strangers() {
        Ok(names) => {
            for name in names {
                report.notes.push(format!("'{name}' lies among the containers and is not one"));
            }
        }
        Err(error) => report.found(error.to_string()),
    }
    match inner.plain.list() {
        Ok(ids) => {
            let engine = inner.engine();
            for id in ids.into_iter().filter(|id| engine.table.get(*id).is_none()) {
                report.notes.push(format!("{id} belongs to no checkpoint"));
            }
        }
        Err(error) => report.found(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
