//! Writing a version, or parts of it, back as files.
//! Room: onefold-archive.
//! Invariants: (1) nothing is written outside of the target: each component of a path is opened
//! from the one before it, and never through a link  (2) a file that cannot be restored whole is
//! not there afterwards, and is named.

use std::path::Path;

use crate::archive::Archive;
use crate::assembly::{Assembled, Assembly, ReadTotals};
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::entry::{Entry, Kind, is_within};
use crate::lost_entries::LostEntries;
use crate::tree::scan::Problem;
use crate::tree::target::Target;
use crate::version::{Chunks, Version};

/// How to restore.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOptions {
    /// Memory of the forward assembly area, in bytes.
    pub assembly_bytes: u64,
    /// Restore into a folder that holds something, and replace files in it.
    pub overwrite: bool,
    /// Leave holes where files have whole chunks of zeroes.
    pub sparse: bool,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self { assembly_bytes: 64 << 20, overwrite: false, sparse: false }
    }
}

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Paths made, those of files that were taken away again among them.
    pub entries: u64,
    /// What reading took.
    pub totals: ReadTotals,
    /// What is not, or not quite, as it was.
    pub problems: Vec<Problem>,
}

/// What stands between chunks in the assembly area.
enum Mark {
    /// A path; the chunks of a file follow it.
    Begin(Box<Entry>),
    /// The last chunk of the file has come.
    End,
    /// An entry that cannot be read.
    Lost(ArchiveError),
}

/// Restore the given paths, or everything if there are none, below `target`. `progress` is told
/// the bytes so far, and answers whether to go on.
pub fn restore(
    archive: &Archive,
    version: &Version,
    paths: &[Vec<u8>],
    target: &Path,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<RestoreReport, ArchiveError> {
    let mut ranges = Vec::new();
    for path in paths {
        ranges.push(version.within(path)?);
    }
    if paths.is_empty() {
        ranges.push(0..version.len());
    }
    ranges.sort_by_key(|range| range.start);
    // One inside another: the outer one comes first and takes it along.
    ranges.dedup_by(|inner, outer| inner.end <= outer.end);
    let mut target = Target::open(target, options.overwrite)?;
    let mut report = RestoreReport::default();
    let mut feed = Feed {
        version,
        selection: paths,
        indices: Box::new(ranges.into_iter().flatten()),
        chunks: None,
        lost: false,
    };
    let mut assembly = Assembly::new(archive, options.assembly_bytes);
    let mut lost = LostEntries::default();
    let of_version = |problem| {
        let path = format!("version {}", version.info().number);
        Problem { path, problem }
    };
    loop {
        while assembly.has_room() {
            match feed.next() {
                Some(Fed::Mark(mark)) => assembly.push_mark(mark),
                Some(Fed::Chunk(chunk)) => assembly.push_chunk(chunk),
                None => break,
            }
        }
        let Some(next) = assembly.pop() else { break };
        if !progress(assembly.totals().bytes) {
            target.abandon("interrupted", &mut report.problems);
            return Err(ArchiveError::Interrupted);
        }
        match next {
            Assembled::Mark(Mark::Begin(entry)) => {
                report.problems.extend(lost.tell().map(of_version));
                report.entries += u64::from(target.begin(*entry, &mut report.problems)?);
            }
            Assembled::Chunk(Ok(data)) => {
                target.write(data, options.sparse, &mut report.problems)?;
            }
            Assembled::Chunk(Err(error)) => {
                target.abandon(&error.to_string(), &mut report.problems);
            }
            Assembled::Mark(Mark::End) => target.end(&mut report.problems)?,
            Assembled::Mark(Mark::Lost(error)) => {
                report.problems.extend(lost.add(&error).map(of_version));
            }
        }
    }
    report.problems.extend(lost.tell().map(of_version));
    target.finish(&mut report.problems);
    report.totals = assembly.totals();
    Ok(report)
}

/// Hand the content of a file out, piece by piece. After an error, `take` has seen less than the
/// whole file.
pub fn read_file(
    archive: &Archive,
    version: &Version,
    entry: &Entry,
    assembly_bytes: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<ReadTotals, ArchiveError> {
    let mut assembly = Assembly::<()>::new(archive, assembly_bytes);
    let mut chunks = version.chunks(entry.recipe);
    let mut len = 0;
    loop {
        while assembly.has_room() {
            let Some(chunk) = chunks.next() else { break };
            assembly.push_chunk(chunk);
        }
        match assembly.pop() {
            None => break,
            Some(Assembled::Mark(())) => {}
            Some(Assembled::Chunk(data)) => {
                let data = data?;
                len += data.len() as u64;
                take(&data)?;
            }
        }
    }
    if len != entry.recipe.size {
        let what = String::from_utf8_lossy(&entry.path).into_owned();
        let problem = format!("it has {len} bytes, not {}", entry.recipe.size);
        return Err(ArchiveError::corrupt(what, len, problem));
    }
    Ok(assembly.totals())
}

/// Everything to restore, in order.
struct Feed<'a> {
    version: &'a Version,
    selection: &'a [Vec<u8>],
    indices: Box<dyn Iterator<Item = usize>>,
    chunks: Option<Chunks<'a>>,
    /// There are entries that cannot be read.
    lost: bool,
}

enum Fed {
    Mark(Mark),
    Chunk(Result<ChunkRef, ArchiveError>),
}

impl Feed<'_> {
    fn next(&mut self) -> Option<Fed> {
        if let Some(chunks) = &mut self.chunks {
            if let Some(chunk) = chunks.next() {
                return Some(Fed::Chunk(chunk));
            }
            self.chunks = None;
            return Some(Fed::Mark(Mark::End));
        }
        let mut entry = match self.version.entry(self.indices.next()?) {
            Ok(entry) => entry,
            Err(error) => {
                self.lost = true;
                return Some(Fed::Mark(Mark::Lost(error)));
            }
        };
        // Another name of a file that is not restored along becomes a file.
        if let Kind::HardLink { target } = &entry.kind {
            let selected = |path: &Vec<u8>| path.is_empty() || is_within(target, path);
            let left_out = !self.selection.is_empty() && !self.selection.iter().any(selected);
            // Where its first name is lost, what has that name in the target is something else.
            if left_out || (self.lost && self.version.find(target).is_err()) {
                entry.kind = Kind::File;
            }
        }
        if entry.kind == Kind::File {
            self.chunks = Some(self.version.chunks(entry.recipe));
        }
        Some(Fed::Mark(Mark::Begin(Box::new(entry))))
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::forged::first_version;
    use crate::format::entry::{Metadata, Recipe, Stamp};
    use crate::format::log_record::{LogEvent, VersionInfo};

    #[test]
    fn an_entry_that_is_damaged_is_told_of_its_version_and_all_others_are_restored() {
        let (mut archive, mut manifest) = first_version();
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        for (path, size, mtime_ns) in [("a", 0, 0), ("b", 0, u32::MAX), ("c", 3, 0), ("d", 0, 0)] {
            let metadata =
                Metadata { mode: 0o644, uid: owner, gid: owner, mtime_ns, ..<_>::default() };
            let recipe = Recipe { size, at: manifest.position(), chunks: 0 };
            let (path, stamp) = (path.as_bytes().to_vec(), Stamp::default());
            manifest.entry(&Entry { path, kind: Kind::File, metadata, stamp, recipe }).unwrap();
        }
        let info = manifest.finish(VersionInfo::default(), 1).unwrap();
        archive.commit(1, LogEvent::Added(info)).unwrap();
        let version = archive.version(None).unwrap();
        let out = tempfile::tempdir().unwrap();
        let options = RestoreOptions::default();
        let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
        let told: Vec<_> = report.problems.iter().map(|p| (&*p.path, &*p.problem)).collect();
        assert!(told[0].1.ends_with("entry 1 is damaged"), "{told:?}");
        assert_eq!(
            (told.len(), told[0].0, told[1]),
            (2, "version 1", ("c", "it has 0 bytes, not 3"))
        );
        assert_eq!(report.entries, 3);
        for (path, there) in [("a", true), ("b", false), ("c", false), ("d", true)] {
            assert_eq!(out.path().join(path).exists(), there, "{path}");
        }
    }

    #[test]
    fn another_name_of_a_lost_entry_is_no_name_of_what_stands_in_its_place() {
        let (mut archive, mut manifest) = first_version();
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        let link = |target: &str| Kind::HardLink { target: target.as_bytes().to_vec() };
        let entries = [
            ("a", Kind::File, 0),
            ("b", Kind::File, 0),
            ("c", Kind::File, u32::MAX),
            ("d", link("a"), 0),
            ("e", link("c"), 0),
            ("f", Kind::File, 0),
        ];
        for (path, kind, mtime_ns) in entries {
            let metadata =
                Metadata { mode: 0o644, uid: owner, gid: owner, mtime_ns, ..<_>::default() };
            let recipe = Recipe { size: 0, at: manifest.position(), chunks: 0 };
            let (path, stamp) = (path.as_bytes().to_vec(), Stamp::default());
            manifest.entry(&Entry { path, kind, metadata, stamp, recipe }).unwrap();
        }
        let info = manifest.finish(VersionInfo::default(), 1).unwrap();
        archive.commit(1, LogEvent::Added(info)).unwrap();
        let version = archive.version(None).unwrap();
        let out = tempfile::tempdir().unwrap();
        std::fs::write(out.path().join("c"), "something else").unwrap();
        let options = RestoreOptions { overwrite: true, ..RestoreOptions::default() };
        let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        let found = |path: &str| {
            let metadata = std::fs::metadata(out.path().join(path)).unwrap();
            (metadata.len(), std::os::unix::fs::MetadataExt::nlink(&metadata))
        };
        assert_eq!(["a", "c", "d", "e"].map(found), [(0, 2), (14, 1), (0, 2), (0, 1)]);
    }
}
