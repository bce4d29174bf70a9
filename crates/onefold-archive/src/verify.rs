//! Reading everything, and naming what is wrong.
//! Room: onefold-archive.
//! Every container's chunks are read, decompressed and fingerprinted; every version's entries and
//! references are decoded and compared with the containers' directories.
//! Cost: about 20 bytes of memory per chunk of the archive.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprinter;

use crate::archive::Archive;
use crate::containers::{self, GroupReader};
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::entry::{Entry, Kind, compare_paths, is_within};
use crate::lost_entries::LostEntries;
use crate::version::Version;
use crate::workers::Workers;

/// Damaged files that are named one by one; the rest is counted.
const FILES_NAMED_MAX: usize = 1000;

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about: a file of the archive, or a path of a version.
    pub what: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What verifying found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Containers read.
    pub containers: u64,
    /// Chunks read, decompressed and fingerprinted.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub chunk_bytes: u64,
    /// Versions read.
    pub versions: u64,
    /// Entries decoded.
    pub entries: u64,
    /// References compared.
    pub references: u64,
    /// Containers that no version refers to; they do no harm.
    pub unused_containers: u64,
    /// What a power cut may leave and the next addition puts right.
    pub notes: Vec<Finding>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Damaged files past those that are named.
    pub more_damaged_files: u64,
}

impl VerifyReport {
    /// Whether everything is as it should be.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, what: impl Into<String>, problem: impl Into<String>) {
        self.findings.push(Finding { what: what.into(), problem: problem.into() });
    }
}

/// The good chunks of all containers, by a hash of everything a reference says.
type GoodChunks = HashSet<u64>;

fn digest(chunk: &ChunkRef) -> u64 {
    let mut hasher = DefaultHasher::new();
    chunk.hash(&mut hasher);
    hasher.finish()
}

impl Archive {
    /// Read and check everything. `progress` is told the bytes of containers read so far and in
    /// all, and answers whether to go on.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<VerifyReport, ArchiveError> {
        let mut report = VerifyReport::default();
        for damage in &self.log.damage {
            report.find("log", damage);
        }
        for &name in &self.bad_settings {
            let problem = "it is missing or damaged; the next addition writes it again";
            let finding = Finding { what: name.to_owned(), problem: problem.to_owned() };
            // A power cut while the archive was made leaves this.
            let is_new = self.log.records == 0;
            if is_new { &mut report.notes } else { &mut report.findings }.push(finding);
        }
        if let Some(name) = self.log.missing_copy {
            let problem = "it is missing or damaged; the next addition writes it again";
            let finding = Finding { what: name.to_owned(), problem: problem.to_owned() };
            // A power cut while its first record is written may leave this.
            let is_new = self.log.records <= 1;
            if is_new { &mut report.notes } else { &mut report.findings }.push(finding);
        }
        for sequence in &self.log.to_repair {
            let problem = format!("record {sequence} is good in one copy only")
                + "; the next addition repairs that";
            let finding = Finding { what: "log".to_owned(), problem };
            // A power cut between the two copies leaves this of the last record only.
            let last = sequence + 1 == self.log.records;
            if last { &mut report.notes } else { &mut report.findings }.push(finding);
        }
        for stranger in self.store.strangers()? {
            report.find(stranger, "it is no container");
        }
        let ids = self.store.list()?;
        let good = self.verify_containers(&ids, &mut report, progress)?;
        let mut used = HashSet::new();
        let numbers: Vec<u32> = self.versions().map(|info| info.number).collect();
        for number in numbers {
            report.versions += 1;
            match self.version(Some(number)) {
                Ok(version) => verify_version(&version, &good, &mut used, &mut report),
                Err(error) if error.is_corruption() => {
                    report.find(format!("version {number}"), error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        report.unused_containers = ids.iter().filter(|id| !used.contains(id)).count() as u64;
        Ok(report)
    }

    /// Read and check all containers, several at once; their good chunks.
    fn verify_containers(
        &self,
        ids: &[ContainerId],
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<GoodChunks, ArchiveError> {
        let (store, uuid) = (Arc::clone(&self.store), self.identity.uuid);
        let (fingerprinter, chunk_bytes_max) = (self.fingerprinter(), self.settings.sizes().max());
        let mut workers = Workers::new(self.workers(), move || GroupReader::new(chunk_bytes_max));
        let check = |id: ContainerId| {
            let (store, fingerprinter) = (Arc::clone(&store), fingerprinter.clone());
            move |reader: &mut GroupReader| {
                check_container(&*store, id, &uuid, &fingerprinter, reader)
            }
        };
        let mut good = GoodChunks::new();
        let (mut done, mut total) = (0, 0);
        for &id in ids {
            total += self.store.len(id)?;
        }
        if !progress(done, total) {
            return Err(ArchiveError::Interrupted);
        }
        workers.in_order(ids, check, |id, checked| {
            let checked = checked?;
            report.containers += 1;
            report.chunks += checked.chunks;
            report.chunk_bytes += checked.chunk_bytes;
            good.extend(checked.good);
            // No version refers to it: it was being written when an addition was cut short.
            if id.get() < self.log.next_container {
                for problem in checked.problems {
                    report.find(id.to_string(), problem);
                }
            }
            done += self.store.len(id)?;
            if progress(done, total) { Ok(true) } else { Err(ArchiveError::Interrupted) }
        })?;
        Ok(good)
    }
}

/// What was found in a container.
#[derive(Default)]
struct CheckedContainer {
    chunks: u64,
    chunk_bytes: u64,
    good: Vec<u64>,
    problems: Vec<String>,
}

/// Read and check a container.
fn check_container(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
    fingerprinter: &Fingerprinter,
    reader: &mut GroupReader,
) -> CheckedContainer {
    let mut checked = CheckedContainer::default();
    let take = |chunk: &ChunkRef, result: Result<(), ArchiveError>| {
        checked.chunks += 1;
        checked.chunk_bytes += u64::from(chunk.len);
        match result {
            Ok(()) => checked.good.push(digest(chunk)),
            Err(error) => checked.problems.push(error.to_string()),
        }
    };
    let read = containers::check_chunks(store, id, uuid, fingerprinter, reader, take);
    match read {
        Err(error) => checked.problems = vec![error.to_string()],
        // A group that is damaged is so for each of its chunks.
        Ok(()) => checked.problems.dedup(),
    }
    checked
}

/// Check the entries of a version, and what they refer to.
fn verify_version(
    version: &Version,
    good: &GoodChunks,
    used: &mut HashSet<ContainerId>,
    report: &mut VerifyReport,
) {
    let number = version.info().number;
    let what = format!("version {number}");
    match version.containers() {
        Ok(uses) => used.extend(uses.into_iter().map(|container| container.id)),
        Err(error) => report.find(&what, error.to_string()),
    }
    let mut last: Vec<u8> = Vec::new();
    let mut leaf: Option<Vec<u8>> = None;
    let mut lost = LostEntries::default();
    for index in 0..version.len() {
        report.entries += 1;
        let entry = match version.entry(index) {
            Ok(entry) => entry,
            Err(error) => {
                if let Some(problem) = lost.add(&error) {
                    report.find(&what, problem);
                }
                continue;
            }
        };
        if let Some(problem) = lost.tell() {
            report.find(&what, problem);
        }
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        if !last.is_empty() && compare_paths(&last, &entry.path).is_ge() {
            report.find(&what, format!("'{path}' is out of order"));
        }
        if leaf.as_ref().is_some_and(|leaf| is_within(&entry.path, leaf)) {
            report.find(&what, format!("'{path}' lies in something that is no folder"));
        }
        leaf = (entry.kind != Kind::Directory).then(|| entry.path.clone());
        if let Some(problem) = verify_recipe(version, &entry, good, report) {
            let named = report.findings.len() < FILES_NAMED_MAX;
            if named {
                report.find(format!("'{path}' of {what}"), problem);
            } else {
                report.more_damaged_files += 1;
            }
        }
        last = entry.path;
    }
    if let Some(problem) = lost.tell() {
        report.find(&what, problem);
    }
}

/// What is wrong with a file's chunks, if anything is.
fn verify_recipe(
    version: &Version,
    entry: &Entry,
    good: &GoodChunks,
    report: &mut VerifyReport,
) -> Option<String> {
    if !entry.kind.has_content() {
        return None;
    }
    let (mut len, mut bad, mut first) = (0_u64, 0_u64, None);
    for chunk in version.chunks(entry.recipe) {
        report.references += 1;
        match chunk {
            Ok(chunk) => {
                len += u64::from(chunk.len);
                if !good.contains(&digest(&chunk)) {
                    bad += 1;
                    first = first.or_else(|| {
                        Some(format!(
                            "its chunk in {} at {} of the content is missing or damaged",
                            chunk.container, chunk.offset
                        ))
                    });
                }
            }
            Err(error) => {
                bad += 1;
                first = first.or_else(|| Some(error.to_string()));
            }
        }
    }
    match first {
        Some(problem) if bad > 1 => Some(format!("{problem}, and {} more", bad - 1)),
        Some(problem) => Some(problem),
        None if len != entry.recipe.size => {
            Some(format!("its chunks have {len} bytes, not {}", entry.recipe.size))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder};

    use super::*;
    use crate::forged::first_version;
    use crate::format::entry::{Metadata, Recipe, Stamp};
    use crate::format::log_record::{AddTotals, LogEvent, VersionInfo};

    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    /// What is found in a version with these entries, which no addition would write.
    fn found_in(entries: &[(&str, Kind)]) -> Vec<String> {
        let (mut archive, mut manifest) = first_version();
        for (path, kind) in entries {
            let (metadata, stamp) = (Metadata::default(), Stamp::default());
            let recipe = Recipe { at: manifest.position(), ..Recipe::default() };
            let path = path.as_bytes().to_vec();
            manifest.entry(&Entry { path, kind: kind.clone(), metadata, stamp, recipe }).unwrap();
        }
        let info = VersionInfo {
            number: 1,
            generation: 0,
            time_s: 0,
            label: String::new(),
            totals: AddTotals { entries: entries.len() as u64, ..AddTotals::default() },
            file_bytes: 0,
            footer_checksum: 0,
        };
        let info = manifest.finish(info, 1).unwrap();
        archive.commit(1, LogEvent::Added(info)).unwrap();
        let report = archive.verify(&mut |_, _| true).unwrap();
        assert_eq!((report.versions, report.entries), (1, entries.len() as u64));
        report.findings.into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn paths_out_of_order_and_below_what_is_no_folder_are_found() {
        let good = [("a", Kind::Directory), ("a/b", Kind::File), ("c", Kind::Directory)];
        assert_eq!(found_in(&good), Vec::<String>::new());
        for (entries, problem) in [
            ([("b", Kind::Directory), ("a", Kind::Directory)], "'a' is out of order"),
            ([("a", Kind::Directory), ("a", Kind::Directory)], "'a' is out of order"),
            ([("a", Kind::File), ("a/b", Kind::File)], "'a/b' lies in something that is no folder"),
        ] {
            assert_eq!(found_in(&entries), [problem]);
        }
    }

    #[test]
    fn a_thousand_damaged_files_are_named_and_the_rest_is_counted() {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        let mut archive = Archive::open(Arc::new(folder.clone())).unwrap();
        let mut adder = archive.add(crate::adder::AddOptions::default()).unwrap();
        for number in 0..1100_u32 {
            let (metadata, stamp) = (Metadata::default(), Stamp::default());
            let (path, recipe) = (format!("{number:04}").into_bytes(), Recipe::default());
            let entry = Entry { path, kind: Kind::File, metadata, stamp, recipe };
            // All but some have a chunk.
            let content = number.to_le_bytes();
            let content = if number % 11 == 0 { &[][..] } else { &content[..] };
            adder.file(entry, false, &mut &content[..]).unwrap().unwrap();
        }
        adder.commit().unwrap();
        let len = archive.store.len(ContainerId::new(1)).unwrap();
        folder.flip_bit("containers/00000001.container", len - 1, 0).unwrap();
        let report = archive.verify(&mut |_, _| true).unwrap();
        assert_eq!((report.containers, report.chunks, report.chunk_bytes), (1, 0, 0));
        assert_eq!((report.entries, report.references, report.versions), (1100, 1000, 1));
        // The container is one of them.
        assert_eq!((report.findings.len(), report.more_damaged_files), (1000, 1));
        let found = |n: usize| {
            let Finding { what, problem } = &report.findings[n];
            format!("{what}: {problem}")
        };
        let at = len - 36;
        let damaged = format!("corrupt container 1 at byte {at}: its footer is damaged");
        assert_eq!(found(0), format!("container 1: {damaged}"));
        let missing = "its chunk in container 1 at 4 of the content is missing or damaged";
        assert_eq!(found(2), format!("'0002' of version 1: {missing}"));
    }

    #[test]
    fn what_a_power_cut_leaves_is_a_note_and_what_damage_leaves_a_finding() {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        let open = || Archive::open(Arc::new(folder.clone())).unwrap();
        let told = |archive: &Archive| {
            let report = archive.verify(&mut |_, _| true).unwrap();
            let what = |found: &[Finding]| -> Vec<String> {
                found.iter().map(|f| f.what.clone()).collect()
            };
            (what(&report.notes), what(&report.findings))
        };
        let some =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        folder.remove("archive.1").unwrap();
        folder.remove("log.0").unwrap();
        assert_eq!(told(&open()), (some(&["archive.1", "log.0"]), vec![]));
        let add = || {
            let options = crate::adder::AddOptions { allow_empty: true, ..<_>::default() };
            open().add(options).unwrap().commit().unwrap();
        };
        add();
        assert_eq!(told(&open()), (vec![], vec![]));
        folder.remove("archive.0").unwrap();
        folder.remove("log.1").unwrap();
        assert_eq!(told(&open()), (some(&["log.1", "log"]), some(&["archive.0"])));
        add();
        folder.remove("log.1").unwrap();
        assert_eq!(told(&open()), (some(&["log"]), some(&["log.1", "log"])));
        add();
        folder.flip_bit("log.0", 2 * 512, 0).unwrap();
        assert_eq!(told(&open()), (some(&["log"]), vec![]));
        folder.flip_bit("log.0", 512, 0).unwrap();
        assert_eq!(told(&open()), (some(&["log"]), some(&["log"])));
        let containers = folder.subfolder("containers").unwrap();
        containers.create("notes").unwrap();
        assert_eq!(told(&open()).1, some(&["notes", "log"]).into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_wrong_with_a_recipe_is_told_by_its_first_chunk_and_how_many_more() {
        let (mut archive, mut manifest) = first_version();
        let chunk = |offset| {
            let name = crate::format::chunk_ref::ChunkName([0; 16]);
            ChunkRef { container: ContainerId::new(1), offset, len: 5, name }
        };
        for (path, chunks, size) in [("a", 1, 5), ("b", 2, 10), ("c", 3, 15), ("d", 0, 4)] {
            let at = manifest.position();
            (0..chunks).for_each(|n| manifest.chunk(&chunk(n * 5)).unwrap());
            let recipe = Recipe { size, at, chunks: chunks.into() };
            let (path, metadata) = (path.as_bytes().to_vec(), Metadata::default());
            let stamp = Stamp::default();
            manifest.entry(&Entry { path, kind: Kind::File, metadata, stamp, recipe }).unwrap();
        }
        let info = manifest.finish(VersionInfo::default(), 2).unwrap();
        archive.commit(2, LogEvent::Added(info)).unwrap();
        let report = archive.verify(&mut |_, _| true).unwrap();
        let first = "its chunk in container 1 at 0 of the content is missing or damaged";
        let problems: Vec<_> = report.findings.iter().map(|f| f.problem.as_str()).collect();
        let expected = [
            first.to_owned(),
            format!("{first}, and 1 more"),
            format!("{first}, and 2 more"),
            "its chunks have 0 bytes, not 4".to_owned(),
        ];
        assert_eq!(problems, expected);
        assert_eq!(report.references, 6);
    }
}
