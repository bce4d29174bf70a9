//! Adding a version: entries and file contents in, containers and a version's file out.
//! Room: onefold-archive.
//! In the order of a chunk's life: cut, fingerprinted, gathered into a segment, looked up, stored
//! or shared, referred to in the version's file. Nothing of it counts before [`Adder::commit`].
//! Invariant: containers and the version's file are durable before the log tells of them.
//! Cost: memory of the index, one segment (at most 32 MiB of chunks), one container.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Read};
use std::ops::Range;

use onefold_block::ContainerId;
use onefold_content::{Fingerprint, Fingerprinter};

use crate::archive::Archive;
use crate::chunk_stream::{ChunkStream, Source, Unknown};
use crate::container_writer::ContainerWriter;
use crate::containers::{self, GroupReader};
use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef};
use crate::format::entry::{self, Entry, Kind, Recipe};
use crate::format::log_record::{AddTotals, LABEL_BYTES_MAX, LogEvent, VersionInfo};
use crate::format::version_file::Header;
use crate::group_compressor::GroupCompressor;
use crate::index::{ChunkIndex, INDEX_BYTES_MIN};
use crate::machine_code::FileSoFar;
use crate::manifest::Manifest;
use crate::parent::Parent;
use crate::remove::Removed;
use crate::rewrite::{self, Rewriting, SEGMENT_CHUNKS};

/// Bytes after which a segment is closed even if it has few chunks.
const SEGMENT_BYTES: usize = 24 << 20;

/// How to add a version.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// When, in seconds since 1970: before anything is looked at. Files that were not at rest then
    /// are read again next time.
    pub time_s: i64,
    /// A name for people, at most 200 bytes; may be empty.
    pub label: String,
    /// Memory of the chunk index, in bytes.
    pub index_bytes: u64,
    /// Which duplicates to store again.
    pub rewriting: Rewriting,
    /// Make a version even if there is nothing in it but folders.
    pub allow_empty: bool,
    /// Take files over from the last version, unread, if nothing of them changed.
    pub skip_unchanged: bool,
}

impl Default for AddOptions {
    fn default() -> Self {
        let rewriting = Rewriting::default();
        Self {
            time_s: 0,
            label: String::new(),
            index_bytes: 256 << 20,
            rewriting,
            allow_empty: false,
            skip_unchanged: true,
        }
    }
}

/// What stood out before or while a version was added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddNotes {
    /// Containers whose directory cannot be read, and why: duplicates of them are stored again.
    pub unreadable_containers: Vec<String>,
    /// Containers of an interrupted addition, whose chunks were at hand again.
    pub resumed_containers: u64,
    /// Containers that the index had no memory for.
    pub unindexed_containers: u64,
    /// Chunks that the index let go for lack of memory.
    pub evicted_chunks: u64,
}

/// A version under way. Dropping it leaves the archive as it was.
pub struct Adder<'a> {
    archive: &'a mut Archive,
    options: AddOptions,
    stream: Option<ChunkStream>,
    fingerprinter: Fingerprinter,
    index: ChunkIndex,
    containers: ContainerWriter,
    manifest: Manifest,
    segment: Segment,
    /// The file that is being cut.
    file: FileSoFar,
    /// Containers to leave because they are sparse.
    sparse: BTreeSet<ContainerId>,
    /// Containers of an interrupted addition.
    resumed: BTreeSet<ContainerId>,
    /// There were such, whole or not, or may have been.
    names_changed: bool,
    last_path: Vec<u8>,
    /// The last version, to take unchanged files over from.
    parent: Option<Parent>,
    /// Recipes of files that may be linked to, by path.
    linked: HashMap<Vec<u8>, Recipe>,
    /// First reference of the file whose chunks are being placed, and their number and bytes.
    recipe: Recipe,
    totals: AddTotals,
    /// Entries that are folders.
    folders: u64,
    notes: AddNotes,
}

/// What waits for its segment to close.
#[derive(Default)]
struct Segment {
    data: Vec<u8>,
    chunks: Vec<SegmentChunk>,
    steps: Vec<Step>,
}

struct SegmentChunk {
    fingerprint: Fingerprint,
    /// Where its bytes are in the segment's.
    range: Range<usize>,
    /// Bytes of the group that takes it, at most.
    group_bytes: usize,
}

impl SegmentChunk {
    fn name(&self) -> ChunkName {
        ChunkName::of(&self.fingerprint)
    }
}

enum Step {
    /// The next chunk of the segment.
    Chunk,
    /// A chunk of an unchanged file.
    Known(ChunkRef),
    /// An entry; a file's comes after its chunks. Whether other names for it may follow.
    Entry(Box<Entry>, bool),
    /// The chunks since the last entry are of a file that could not be read to its end.
    Abandon,
}

impl Archive {
    /// Begin a version.
    pub fn add(&mut self, options: AddOptions) -> Result<Adder<'_>, ArchiveError> {
        if options.label.len() > LABEL_BYTES_MAX || options.label.contains(char::is_control) {
            return Err(ArchiveError::Setting(format!(
                "label '{}': expected at most {LABEL_BYTES_MAX} bytes of printable text",
                options.label.escape_debug()
            )));
        }
        if options.index_bytes < INDEX_BYTES_MIN {
            return Err(ArchiveError::Setting(format!(
                "index memory {}: expected at least {INDEX_BYTES_MIN} bytes",
                options.index_bytes
            )));
        }
        let number = self.next_number()?;
        self.complete_copies()?;
        self.clear_leftovers()?;
        // Containers of it may have been made and taken back.
        let was_cut_short = self.log.pending.is_some();
        self.begin_work(1)?;
        let mut notes = AddNotes::default();
        let (index, resumed, first) = self.load_index(options.index_bytes, &mut notes)?;
        notes.resumed_containers = resumed.len() as u64;
        let log_next = self.log.next_container;
        let sparse = match self.versions().next_back() {
            Some(last) if options.rewriting.har => {
                let uses = self.version(Some(last.number)).and_then(|last| last.containers());
                match uses {
                    Ok(uses) => rewrite::sparse(&uses, |id| {
                        // One that is damaged is turned to as it was.
                        containers::content_bytes(&*self.store, id).unwrap_or_default()
                    }),
                    // A hint is missing, no more.
                    Err(error) if error.is_corruption() => BTreeSet::new(),
                    Err(error) => return Err(error),
                }
            }
            _ => BTreeSet::new(),
        };
        let parent = self.parent(&options)?;
        let settings = self.settings;
        let uuid = self.identity.uuid;
        let compressor = GroupCompressor::adding(settings.compression);
        let capacity = settings.container_bytes as usize;
        let store = std::sync::Arc::clone(&self.store);
        let containers = ContainerWriter::new(store, uuid, capacity, compressor, first);
        let folder = std::sync::Arc::clone(&self.versions_folder);
        let header = Header { number, generation: 0, settings, identity: self.identity };
        let manifest = Manifest::create(folder, header)?;
        Ok(Adder {
            fingerprinter: self.fingerprinter(),
            stream: Some(ChunkStream::of(&settings)),
            archive: self,
            options,
            index,
            containers,
            recipe: Recipe { at: manifest.position(), ..Recipe::default() },
            manifest,
            segment: Segment::default(),
            file: FileSoFar::default(),
            sparse,
            resumed,
            names_changed: was_cut_short || first > log_next,
            last_path: Vec::new(),
            parent,
            linked: HashMap::new(),
            totals: AddTotals::default(),
            folders: 0,
            notes,
        })
    }

    /// The number of the next version. The last one is given to none: what came after it would have
    /// the same.
    fn next_number(&self) -> Result<u32, ArchiveError> {
        if self.log.next_version == u32::MAX {
            let problem = "the archive has used up all numbers of versions";
            return Err(ArchiveError::Setting(problem.to_owned()));
        }
        Ok(self.log.next_version)
    }

    /// Fill an index from the containers' directories, the newest first. Also returns the whole
    /// containers that no version knows of yet, and the number for the next container.
    fn load_index(
        &self,
        index_bytes: u64,
        notes: &mut AddNotes,
    ) -> Result<(ChunkIndex, BTreeSet<ContainerId>, u32), ArchiveError> {
        let mut index = ChunkIndex::new(index_bytes);
        let mut resumed = BTreeSet::new();
        let mut first = self.log.next_container;
        let mut reader = GroupReader::new(self.settings.sizes().max());
        let mut ids = self.store.list()?;
        ids.reverse();
        let known = ids.partition_point(|id| id.get() >= self.log.next_container);
        let (new, known) = ids.split_at(known);
        for &id in new {
            first = first.max(id.get().saturating_add(1));
            match self.whole_chunks(id, &mut reader) {
                Ok(chunks) => {
                    for chunk in &chunks {
                        index.insert_older(chunk);
                    }
                    resumed.insert(id);
                }
                // It was being written when an addition was cut short.
                Err(error) if error.is_corruption() => self.store.remove(id)?,
                Err(error) => return Err(error),
            }
        }
        let mut indexed = 0;
        if !index.is_full() {
            let (store, uuid) = (&self.store, &self.identity.uuid);
            indexed = containers::read_directories(store, uuid, known, |id, directory| {
                match directory {
                    Ok(directory) => {
                        for chunk in directory.chunks {
                            index.insert_older(&chunk.reference(id));
                        }
                    }
                    Err(error) if error.is_corruption() => {
                        notes.unreadable_containers.push(error.to_string());
                    }
                    Err(error) => return Err(error),
                }
                Ok(!index.is_full())
            })?;
        }
        notes.unindexed_containers += (known.len() - indexed) as u64;
        Ok((index, resumed, first))
    }

    /// The chunks of a container that no version refers to yet. It may never have become durable,
    /// whatever its directory says: its chunks are checked one by one.
    fn whole_chunks(
        &self,
        id: ContainerId,
        reader: &mut GroupReader,
    ) -> Result<Vec<ChunkRef>, ArchiveError> {
        let (store, uuid) = (&*self.store, &self.identity.uuid);
        let (mut chunks, mut bad) = (Vec::new(), None);
        let fingerprinter = self.fingerprinter();
        let take = |chunk: &ChunkRef, result: Result<(), ArchiveError>| match result {
            Ok(()) => chunks.push(*chunk),
            Err(error) => bad = Some(error),
        };
        containers::check_chunks(store, id, uuid, &fingerprinter, reader, take)?;
        bad.map_or(Ok(chunks), Err)
    }
}

impl Adder<'_> {
    /// What stood out so far.
    pub const fn notes(&self) -> &AddNotes {
        &self.notes
    }

    /// What was stored so far; up to a segment behind.
    pub const fn totals(&self) -> &AddTotals {
        &self.totals
    }

    /// Add a path without content of its own. Paths come in the order of
    /// [`entry::compare_paths`], each once; the target of a hard link comes before it, by
    /// [`Adder::file`] with `may_be_linked`.
    pub fn entry(&mut self, mut entry: Entry) -> Result<(), ArchiveError> {
        self.check_path(&entry.path)?;
        entry.recipe = Recipe::default();
        self.step(Step::Entry(Box::new(entry), false))
    }

    /// Add a file. The inner error is the source's: the file is then left out, and the next path
    /// may follow. Otherwise the bytes that were read.
    pub fn file(
        &mut self,
        entry: Entry,
        may_be_linked: bool,
        source: &mut dyn Read,
    ) -> Result<io::Result<u64>, ArchiveError> {
        self.sparse_file(entry, may_be_linked, &mut Unknown(source))
    }

    /// The same for a file whose source knows where it has holes: they are not read, and cost
    /// next to nothing.
    pub fn sparse_file(
        &mut self,
        mut entry: Entry,
        may_be_linked: bool,
        source: &mut dyn Source,
    ) -> Result<io::Result<u64>, ArchiveError> {
        self.check_path(&entry.path)?;
        let mut stream = self.stream.take().expect("it is put back below");
        self.file = FileSoFar::default();
        let result = stream.cut(source, |chunk, times| self.chunk(chunk, times));
        self.stream = Some(stream);
        match result? {
            Ok(len) => {
                entry.kind = Kind::File;
                self.step(Step::Entry(Box::new(entry), may_be_linked))?;
                Ok(Ok(len))
            }
            Err(error) => {
                self.step(Step::Abandon)?;
                Ok(Err(error))
            }
        }
    }

    /// Add a file with the content that it had in the last version, unread, if size, times and
    /// inode are the same; answers whether that was so. If not, [`Adder::file`] is to add it.
    pub fn unchanged_file(
        &mut self,
        entry: &Entry,
        size: u64,
        may_be_linked: bool,
    ) -> Result<bool, ArchiveError> {
        let Some(mut parent) = self.parent.take() else { return Ok(false) };
        let known = parent.unchanged(entry, size);
        let mut whole = known.is_some();
        if let Some(recipe) = known {
            for chunk in parent.chunks(recipe) {
                // One that is damaged, or lies in a container that is: the file is read.
                let Some(chunk) = chunk else {
                    whole = false;
                    break;
                };
                self.step(Step::Known(chunk))?;
            }
            if whole {
                self.check_path(&entry.path)?;
                let mut entry = entry.clone();
                entry.kind = Kind::File;
                self.step(Step::Entry(Box::new(entry), may_be_linked))?;
            } else {
                self.step(Step::Abandon)?;
            }
        }
        self.parent = Some(parent);
        Ok(whole)
    }

    fn check_path(&mut self, path: &[u8]) -> Result<(), ArchiveError> {
        let refuse = |reason| {
            let path = String::from_utf8_lossy(path).into_owned();
            Err(ArchiveError::Path { path, reason })
        };
        if !entry::is_valid_path(path) {
            return refuse("expected a relative path without empty, '.' and '..' components");
        }
        if !self.last_path.is_empty() && entry::compare_paths(&self.last_path, path).is_ge() {
            return refuse("paths must come in order, each once");
        }
        self.last_path.clear();
        self.last_path.extend_from_slice(path);
        Ok(())
    }

    /// Add a chunk that comes so many times in a row.
    fn chunk(&mut self, data: &[u8], times: u64) -> Result<(), ArchiveError> {
        let fingerprint = self.fingerprinter.hash(data);
        let group_bytes = self.file.group_bytes(data, times);
        let mut held = None;
        for _ in 0..times {
            // Once in each segment is enough.
            let here = held.filter(|_| !self.segment.chunks.is_empty());
            let range: Range<usize> = here.unwrap_or_else(|| {
                let start = self.segment.data.len();
                self.segment.data.extend_from_slice(data);
                start..self.segment.data.len()
            });
            let chunk = SegmentChunk { fingerprint, range: range.clone(), group_bytes };
            self.segment.chunks.push(chunk);
            held = Some(range);
            self.step(Step::Chunk)?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), ArchiveError> {
        self.segment.steps.push(step);
        let Segment { data, chunks, steps } = &self.segment;
        let full = chunks.len() >= SEGMENT_CHUNKS || data.len() >= SEGMENT_BYTES;
        if full || steps.len() >= 16 * SEGMENT_CHUNKS {
            self.close_segment()?;
        }
        Ok(())
    }

    /// Place the segment's chunks, and write down what waited for that.
    fn close_segment(&mut self) -> Result<(), ArchiveError> {
        let segment = std::mem::take(&mut self.segment);
        // Where the chunks lie before anything of this segment is stored.
        let found: Vec<Option<ChunkRef>> = segment
            .chunks
            .iter()
            .map(|chunk| self.index.get(chunk.name(), chunk.range.len() as u32))
            .collect();
        let open = self.containers.open();
        let old = found.iter().flatten().filter(|chunk| chunk.container != open);
        let old = old.map(|chunk| (chunk.container, u64::from(chunk.len)));
        let mut left = rewrite::beyond_cap(old, self.options.rewriting.cap);
        left.extend(&self.sparse);
        let mut chunks = segment.chunks.iter().zip(found);
        for step in segment.steps {
            match step {
                Step::Chunk => {
                    let (chunk, found) =
                        chunks.next().expect("a chunk for every step that takes one");
                    let data = &segment.data[chunk.range.clone()];
                    let chunk = self.place(chunk, data, found.as_ref(), &left)?;
                    self.manifest.chunk(&chunk)?;
                    self.recipe.chunks += 1;
                    self.recipe.size += data.len() as u64;
                }
                Step::Known(chunk) => {
                    self.manifest.chunk(&chunk)?;
                    self.recipe.chunks += 1;
                    self.recipe.size += u64::from(chunk.len);
                }
                Step::Entry(entry, may_be_linked) => self.write_entry(*entry, may_be_linked)?,
                Step::Abandon => {
                    self.manifest.take_back(self.recipe.chunks);
                    self.recipe = Recipe { at: self.manifest.position(), ..Recipe::default() };
                }
            }
        }
        // The memory is kept for the next segment.
        self.segment.data = segment.data;
        self.segment.data.clear();
        Ok(())
    }

    /// Share a chunk or store it. `found` is where it lay before its segment, `left` the
    /// containers that the segment is not to refer to.
    fn place(
        &mut self,
        chunk: &SegmentChunk,
        data: &[u8],
        found: Option<&ChunkRef>,
        left: &HashSet<ContainerId>,
    ) -> Result<ChunkRef, ArchiveError> {
        // Asked again: the chunk may have been stored earlier in this segment.
        let (name, group_bytes) = (chunk.name(), chunk.group_bytes);
        let now = self.index.get(name, data.len() as u32);
        if let Some(chunk) = now.filter(|chunk| !left.contains(&chunk.container)) {
            return Ok(chunk);
        }
        let chunk = self.containers.append(name, data, group_bytes)?;
        self.index.insert(&chunk);
        let len = data.len() as u64;
        self.totals.new_bytes += len;
        self.totals.rewritten_bytes += if found.is_some() { len } else { 0 };
        Ok(chunk)
    }

    fn write_entry(&mut self, mut entry: Entry, may_be_linked: bool) -> Result<(), ArchiveError> {
        match &entry.kind {
            Kind::File => {
                entry.recipe = self.recipe;
                self.totals.files += 1;
                self.totals.logical_bytes += self.recipe.size;
                self.totals.chunks += self.recipe.chunks;
                if may_be_linked {
                    self.linked.insert(entry.path.clone(), entry.recipe);
                }
            }
            Kind::HardLink { target } => {
                let recipe = self.linked.get(target);
                entry.recipe = *recipe.ok_or_else(|| ArchiveError::Path {
                    path: String::from_utf8_lossy(&entry.path).into_owned(),
                    reason: "it is a hard link to a file that is not in the version",
                })?;
            }
            Kind::Directory => self.folders += 1,
            _ => {}
        }
        self.totals.entries += 1;
        self.manifest.entry(&entry)?;
        self.recipe = Recipe { at: self.manifest.position(), ..Recipe::default() };
        Ok(())
    }

    /// Make the version durable, and part of the archive. If there is no space for it or nothing in
    /// it, everything that was stored for it is given back.
    pub fn commit(mut self) -> Result<(VersionInfo, AddNotes), ArchiveError> {
        match self.write_out() {
            Ok((info, next_container)) => {
                self.archive.commit(next_container, LogEvent::Added(info.clone()))?;
                self.archive.end_work()?;
                Ok((info, self.notes))
            }
            Err(error @ (ArchiveError::NoSpace(_) | ArchiveError::Nothing)) => {
                self.discard()?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Give back everything that was stored for this version, and for one that was interrupted
    /// before it. Without this, the next addition makes use of it.
    pub fn discard(self) -> Result<Removed, ArchiveError> {
        let Self { archive, manifest, .. } = self;
        drop(manifest);
        archive.discard_pending()
    }

    fn write_out(&mut self) -> Result<(VersionInfo, u32), ArchiveError> {
        self.close_segment()?;
        if self.totals.entries == self.folders && !self.options.allow_empty {
            return Err(ArchiveError::Nothing);
        }
        self.containers.finish()?;
        self.totals.stored_bytes = self.containers.stored_bytes();
        let used: BTreeSet<ContainerId> = self.manifest.containers().collect();
        let unused: Vec<ContainerId> = self.resumed.difference(&used).copied().collect();
        for &id in &unused {
            self.archive.store.remove(id)?;
        }
        for &id in self.resumed.iter().filter(|id| used.contains(id)) {
            containers::write_again(&*self.archive.store, id)?;
        }
        // What came and went before: a name must not be lost, nor come back.
        if self.names_changed {
            self.archive.sync_containers(&unused)?;
        }
        let next_container = self.containers.next();
        self.notes.evicted_chunks += self.index.evicted();
        let label = std::mem::take(&mut self.options.label);
        let (time_s, totals) = (self.options.time_s, self.totals);
        let info = VersionInfo { time_s, label, totals, ..VersionInfo::default() };
        Ok((self.manifest.finish(info, next_container)?, next_container))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{SimFolder, SplitMix64};
    use onefold_content::Compression;

    use super::*;
    use crate::format::entry::{Metadata, Stamp};
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    fn archive(container_bytes: u32) -> Archive {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        let settings = ArchiveSettings {
            chunk_bytes: 1 << 10,
            container_bytes,
            compression: Compression::None,
            ..ArchiveSettings::default()
        };
        Archive::create(&folder, &settings, identity).unwrap();
        Archive::open(Arc::new(folder)).unwrap()
    }

    fn file(path: &str) -> Entry {
        Entry {
            path: path.as_bytes().to_vec(),
            kind: Kind::File,
            metadata: Metadata::default(),
            stamp: Stamp::default(),
            recipe: Recipe::default(),
        }
    }

    #[test]
    fn a_segment_holds_its_own_chunks_and_each_of_them_once() {
        let mut archive = archive(1 << 20);
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let data = SplitMix64::new(1).bytes(3_000_000);
        adder.file(file("random"), false, &mut data.as_slice()).unwrap().unwrap();
        let Segment { data: held, chunks, steps } = &adder.segment;
        let waiting: usize = chunks.iter().map(|chunk| chunk.range.len()).sum();
        assert_eq!((held.len(), steps.len()), (waiting, chunks.len() + 1));
        assert!(chunks.len() < SEGMENT_CHUNKS && held[..] == data[data.len() - waiting..]);
        adder.close_segment().unwrap();
        // A chunk that comes many times is there once, also in the next segment.
        adder.chunk(&[7; 500], 1024 + 10).unwrap();
        let Segment { data: held, chunks, steps } = &adder.segment;
        assert_eq!((held.len(), chunks.len(), steps.len()), (500, 10, 10));
        assert!(chunks.iter().all(|chunk| chunk.range == (0..500)));
        assert_eq!((adder.recipe.chunks, adder.recipe.size), (1024, 1024 * 500));
        // Where what came before leaves room, both wait together.
        adder.chunk(&[8; 300], 2).unwrap();
        let Segment { data: held, chunks, .. } = &adder.segment;
        let last = chunks.last().map(|chunk| chunk.range.clone());
        assert_eq!((held.len(), last), (800, Some(500..800)));
    }

    /// Lengths of all groups, in the order of the containers.
    fn groups(archive: &Archive) -> Vec<usize> {
        let tables = archive.store.list().unwrap().into_iter().map(|id| {
            let table = containers::read_groups(&*archive.store, id).unwrap();
            table.groups().iter().map(|group| group.len as usize).collect::<Vec<_>>()
        });
        tables.flatten().collect()
    }

    #[test]
    fn machine_code_is_compressed_in_large_groups_and_also_what_is_left_of_it() {
        let mut archive = archive(4 << 20);
        let add = |archive: &mut Archive, files: &[(&str, &[u8])]| {
            let mut adder = archive.add(AddOptions::default()).unwrap();
            for &(path, mut content) in files {
                adder.file(file(path), false, &mut content).unwrap().unwrap();
            }
            adder.commit().unwrap();
        };
        let mut code = SplitMix64::new(1).bytes(1_500_000);
        code[..4].copy_from_slice(b"\x7FELF");
        let text = SplitMix64::new(2).bytes(1_000_000);
        add(&mut archive, &[("a.so", &code), ("b.txt", &text)]);
        let all = groups(&archive);
        assert_eq!(all.iter().sum::<usize>(), 2_500_000);
        // The beginning of the code, the rest of it, and the text.
        let is_small = |len: &usize| (200_000..=256 << 10).contains(len);
        assert!(is_small(&all[0]) && all[1] > 1_200_000 && all.len() == 6, "{all:?}");
        assert!(all[2..5].iter().all(is_small), "{all:?}");
        // Builds that know none of these refuse the container.
        let (mut version, first) = ([0; 4], ContainerId::new(1));
        archive.store.read(first, 8, &mut version).unwrap();
        assert_eq!(u32::from_le_bytes(version), 5);
        add(&mut archive, &[("a.so", &code[..1_000_000])]);
        archive.remove_all(&[1]).unwrap();
        archive.compact(0, &mut |_, _| true).unwrap();
        let left = groups(&archive);
        assert_eq!(left.iter().sum::<usize>(), 1_000_000);
        assert!(left.iter().any(|&len| len > 700_000), "{left:?}");
        assert!(archive.verify(&mut |_, _| true).unwrap().is_sound());
    }

    #[test]
    fn the_last_number_of_a_version_is_given_to_none() {
        let mut archive = archive(1 << 20);
        archive.log.next_version = u32::MAX;
        let error = archive.add(AddOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("used up all numbers of versions"), "{error}");
        assert!(archive.log.pending.is_none(), "nothing was begun");
        archive.log.next_version -= 1;
        assert!(archive.add(AddOptions::default()).is_ok());
    }

    #[test]
    fn a_segment_is_closed_by_its_chunks_its_bytes_and_its_paths() {
        let mut archive = archive(1 << 20);
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let mut close_at = |data: &[u8]| {
            (1..100_000).find(|_| {
                adder.chunk(data, 1).unwrap();
                adder.segment.chunks.is_empty()
            })
        };
        assert_eq!(close_at(&[1]), Some(1024));
        assert_eq!(close_at(&vec![2; 1 << 20]), Some(24));
        let mut folders =
            (0..).map(|n| Entry { kind: Kind::Directory, ..file(&format!("{n:06}")) });
        let closed = (1..100_000).find(|_| {
            adder.entry(folders.next().unwrap()).unwrap();
            adder.segment.steps.is_empty()
        });
        assert_eq!(closed, Some(16 * 1024));
    }

    #[test]
    fn an_addition_is_of_no_time_and_takes_unchanged_files_over_unless_it_is_told_otherwise() {
        let AddOptions { time_s, label, index_bytes, rewriting, allow_empty, skip_unchanged } =
            AddOptions::default();
        assert_eq!((time_s, label.as_str(), index_bytes), (0, "", 268_435_456));
        assert_eq!((rewriting, allow_empty, skip_unchanged), (Rewriting::default(), false, true));
    }
}
