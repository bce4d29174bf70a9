//! Any bytes of any file, by the chunks that they lie in.
//! Room: onefold-archive.
//! Invariant: a byte that is handed out is of a chunk whose fingerprint was right.
//! Cost: chunks and what was read ahead within the given memory; per open file 8 bytes per 1,024
//! chunks, and the references of 1,024 of them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::{ContainerId, ContainerStore};

use super::windows::{AHEAD_MAX, GAP_BYTES, Wanted, Window, Windows};
use crate::archive::Archive;
use crate::cache::Cache;
use crate::containers::{self, GroupDecoder};
use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkRef, REF_BYTES};
use crate::format::entry::{Entry, Recipe};
use crate::format::group::{Group, GroupTable};
use crate::version::Version;
use crate::zero_chunks::ZeroChunks;
use onefold_content::{Codec, Fingerprinter};

/// References that are looked at together.
const BLOCK_CHUNKS: u64 = 1024;
/// What a chunk or group that is kept counts for apart from its bytes.
const OVERHEAD: u64 = 128;
/// Containers whose tables of groups are kept.
const TABLES: u64 = 256;

/// A file that is open.
pub struct OpenFile {
    pub(super) slot: usize,
    recipe: Recipe,
    path: Vec<u8>,
    table: Mutex<Table>,
}

/// Where the chunks of a file begin in it.
#[derive(Default)]
struct Table {
    /// The first byte of each block of references, and where the last one ends.
    begins: Vec<u64>,
    /// The block that was asked for last.
    last: Option<(usize, Arc<Block>)>,
}

/// References, each with the first byte of its chunk in the file.
type Block = Vec<(u64, ChunkRef)>;

impl OpenFile {
    pub(super) fn new(slot: usize, entry: &Entry) -> Self {
        let table = Mutex::new(Table { begins: vec![0], last: None });
        Self { slot, recipe: entry.recipe, path: entry.path.clone(), table }
    }

    /// Its size in bytes.
    pub const fn size(&self) -> u64 {
        self.recipe.size
    }

    /// Its path in the version.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    fn corrupt(&self, offset: u64, problem: String) -> ArchiveError {
        ArchiveError::corrupt(String::from_utf8_lossy(&self.path), offset, problem)
    }

    /// The references among which those of the byte at `offset` are.
    fn block_of(&self, version: &Version, offset: u64) -> Result<Arc<Block>, ArchiveError> {
        let mut table = lock(&self.table);
        let blocks = self.recipe.chunks.div_ceil(BLOCK_CHUNKS) as usize;
        loop {
            let known = table.begins.len() - 1;
            if table.begins[known] > offset {
                let at = table.begins.partition_point(|&begin| begin <= offset) - 1;
                return self.block(version, &mut table, at);
            }
            let end = table.begins[known];
            if known == blocks {
                let problem = format!("its chunks have {end} bytes, not {}", self.recipe.size);
                return Err(self.corrupt(end, problem));
            }
            let block = self.block(version, &mut table, known)?;
            let end = block.last().map_or(end, |(begin, chunk)| begin + u64::from(chunk.len));
            if known + 1 == blocks && end != self.recipe.size {
                let problem = format!("its chunks have {end} bytes, not {}", self.recipe.size);
                return Err(self.corrupt(end, problem));
            }
            table.begins.push(end);
        }
    }

    /// A block whose first byte is known.
    fn block(
        &self,
        version: &Version,
        table: &mut Table,
        at: usize,
    ) -> Result<Arc<Block>, ArchiveError> {
        if let Some((known, block)) = &table.last
            && *known == at
        {
            return Ok(Arc::clone(block));
        }
        let first = at as u64 * BLOCK_CHUNKS;
        let recipe = Recipe {
            at: self.recipe.at + first * REF_BYTES as u64,
            chunks: (self.recipe.chunks - first).min(BLOCK_CHUNKS),
            size: 0,
        };
        let mut begin = table.begins[at];
        let mut block = Block::new();
        // After one that is damaged nobody knows where the next one begins.
        for chunk in version.chunks(recipe) {
            let chunk = chunk?;
            block.push((begin, chunk));
            begin = begin
                .checked_add(chunk.len.into())
                .ok_or_else(|| self.corrupt(begin, "its chunks have no end".to_owned()))?;
        }
        let block = Arc::new(block);
        table.last = Some((at, Arc::clone(&block)));
        Ok(block)
    }
}

/// What is asked of a file at a time.
#[derive(Clone, Copy)]
struct Question<'a> {
    file: &'a OpenFile,
    /// What is left of the block of references, from the chunk on that is wanted now.
    chunks: &'a [(u64, ChunkRef)],
    /// The byte of the file at which the question ends.
    end: u64,
}

/// Whether chunks of a group lie in it as they are.
fn is_plain(group: &Group) -> bool {
    group.codec == Codec::Raw && group.stored == group.len
}

/// Where in its container that lies which a chunk is made from.
fn place_of(group: &Group, chunk: &ChunkRef) -> Range<u64> {
    if !is_plain(group) {
        return group.place();
    }
    let start = group.place().start + u64::from(chunk.offset - group.begin);
    start..start + u64::from(chunk.len)
}

/// Chunks by all that a reference says, so that none is taken for another.
type Chunks = Cache<ChunkRef, Arc<Vec<u8>>>;
/// Groups by their container and first byte in its content.
type Groups = Cache<(ContainerId, u32), Arc<Vec<u8>>>;
type Tables = Cache<ContainerId, Arc<GroupTable>>;

/// What reads chunks.
pub(super) struct Content {
    store: Arc<dyn ContainerStore>,
    fingerprinter: Fingerprinter,
    chunk_bytes_max: usize,
    zero_chunks: ZeroChunks,
    windows: Windows,
    tables: Mutex<Tables>,
    /// What was decoded along with a chunk; nothing in it was compared with any name.
    groups: Mutex<Groups>,
    /// What was compared with its name.
    chunks: Mutex<Chunks>,
    decoders: Mutex<Vec<GroupDecoder>>,
}

impl Content {
    pub(super) fn new(archive: &Archive, budget_bytes: u64) -> Self {
        let chunk_bytes_max = archive.settings.sizes().max();
        let fingerprinter = archive.fingerprinter();
        Self {
            store: Arc::clone(&archive.store),
            fingerprinter,
            chunk_bytes_max,
            zero_chunks: ZeroChunks::of(archive),
            windows: Windows::new(Arc::clone(&archive.store), (budget_bytes / 4).max(AHEAD_MAX)),
            tables: Mutex::new(Cache::new(TABLES)),
            groups: Mutex::new(Cache::new(budget_bytes / 4)),
            chunks: Mutex::new(Cache::new(budget_bytes / 4 * 3)),
            decoders: Mutex::default(),
        }
    }

    pub(super) fn read(
        &self,
        version: &Version,
        file: &OpenFile,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let end = offset.saturating_add(len as u64).min(file.recipe.size);
        let mut at = offset;
        while at < end {
            let (block, before) = (file.block_of(version, at)?, at);
            let ends = |(begin, chunk): &(u64, ChunkRef)| begin + u64::from(chunk.len);
            let first = block.partition_point(|chunk| ends(chunk) <= at);
            for (number, (begin, chunk)) in block.iter().enumerate().skip(first) {
                if *begin >= end {
                    break;
                }
                // One that is empty is none.
                if chunk.len == 0 {
                    continue;
                }
                let Some(from) = at.checked_sub(*begin) else { break };
                let to = (end - begin).min(chunk.len.into());
                let question = Question { file, chunks: &block[number..], end };
                self.copy(chunk, from as usize..to as usize, question, out)?;
                at = begin + to;
            }
            if at == before {
                // The version's file is not what it was a moment ago.
                return Err(file.corrupt(at, "its references changed".to_owned()));
            }
        }
        Ok(())
    }

    /// Add some bytes of a chunk to `out`.
    fn copy(
        &self,
        chunk: &ChunkRef,
        range: Range<usize>,
        question: Question<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        if self.is_zeroes(chunk) {
            out.resize(out.len() + range.len(), 0);
            return Ok(());
        }
        let kept = lock(&self.chunks).get(chunk);
        let data = if let Some(data) = kept {
            data
        } else {
            let data = Arc::new(self.decode(chunk, question)?);
            let bytes = data.len() as u64 + OVERHEAD;
            lock(&self.chunks).put(*chunk, Arc::clone(&data), bytes);
            data
        };
        out.extend_from_slice(&data[range]);
        Ok(())
    }

    /// A chunk that no container is read for.
    fn is_zeroes(&self, chunk: &ChunkRef) -> bool {
        self.zero_chunks.has(chunk)
    }

    fn decode(&self, chunk: &ChunkRef, question: Question<'_>) -> Result<Vec<u8>, ArchiveError> {
        let (id, table) = (chunk.container, self.table(chunk.container)?);
        let group = table.find(chunk.offset, chunk.len).ok_or_else(|| {
            let problem = "the container has nothing where this chunk should be";
            ArchiveError::corrupt(id.to_string(), chunk.offset.into(), problem)
        })?;
        let group = table.groups()[group];
        if is_plain(&group) {
            let place = place_of(&group, chunk);
            let window = self.stored(id, &place, &table, question)?;
            let data = window.at(&place);
            containers::check_name(&self.fingerprinter, chunk, data)?;
            return Ok(data.to_vec());
        }
        let content = self.group(id, &group, &table, question)?;
        let from = (chunk.offset - group.begin) as usize;
        let data = &content[from..from + chunk.len as usize];
        containers::check_name(&self.fingerprinter, chunk, data)?;
        Ok(data.to_vec())
    }

    /// How the content of a container is stored.
    fn table(&self, id: ContainerId) -> Result<Arc<GroupTable>, ArchiveError> {
        if let Some(table) = lock(&self.tables).get(&id) {
            return Ok(table);
        }
        let table = containers::read_groups(&*self.store, id);
        // To who reads a file, what cannot be had is damage to it, whatever the reason.
        let table = table.map_err(|error| match error {
            error if error.is_corruption() => error,
            error => ArchiveError::corrupt(id.to_string(), 0, error.to_string()),
        })?;
        let table = Arc::new(table);
        lock(&self.tables).put(id, Arc::clone(&table), 1);
        Ok(table)
    }

    /// Stored bytes of a container.
    fn stored(
        &self,
        id: ContainerId,
        place: &Range<u64>,
        table: &GroupTable,
        question: Question<'_>,
    ) -> Result<Window, ArchiveError> {
        let corrupt = |problem: String| ArchiveError::corrupt(id.to_string(), place.start, problem);
        let window = self.windows.get(id, place, || self.wanted(id, place.start, table, question));
        let window = window.map_err(|error| corrupt(ArchiveError::from(error).to_string()))?;
        window.ok_or_else(|| corrupt("the container ends before this group".to_owned()))
    }

    /// What a question wants of a container from `start` on, as far as it lies side by side.
    fn wanted(
        &self,
        id: ContainerId,
        start: u64,
        table: &GroupTable,
        question: Question<'_>,
    ) -> Wanted {
        let file = (question.file.slot, question.file.recipe.at);
        let mut wanted = Wanted { file, asked: start, whole: start };
        for (begin, chunk) in question.chunks {
            if chunk.len == 0 || self.is_zeroes(chunk) {
                continue;
            }
            let group = table.find(chunk.offset, chunk.len).filter(|_| chunk.container == id);
            let Some(group) = group else { return wanted };
            let place = place_of(&table.groups()[group], chunk);
            if !(start..=wanted.whole + GAP_BYTES).contains(&place.start) {
                return wanted;
            }
            wanted.whole = wanted.whole.max(place.end);
            if *begin < question.end {
                wanted.asked = wanted.whole;
            }
            if wanted.whole >= start + AHEAD_MAX {
                return wanted;
            }
        }
        // Where the references end that were looked at, the file goes on.
        let seen = question.chunks.last().map_or(0, |(begin, chunk)| begin + u64::from(chunk.len));
        if seen < question.file.recipe.size {
            wanted.whole = start + AHEAD_MAX;
        }
        wanted
    }

    /// The content of a group.
    fn group(
        &self,
        id: ContainerId,
        group: &Group,
        table: &GroupTable,
        question: Question<'_>,
    ) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let key = (id, group.begin);
        if let Some(content) = lock(&self.groups).get(&key) {
            return Ok(content);
        }
        let place = group.place();
        let window = self.stored(id, &place, table, question)?;
        let stored = window.at(&place);
        let decoder = lock(&self.decoders).pop();
        let mut decoder = decoder.unwrap_or_else(|| GroupDecoder::new(self.chunk_bytes_max));
        let mut content = Vec::new();
        let decoded = decoder.decode(id, group, stored, group.len, &mut content);
        lock(&self.decoders).push(decoder);
        decoded?;
        let content = Arc::new(content);
        let bytes = content.len() as u64 + OVERHEAD;
        lock(&self.groups).put(key, Arc::clone(&content), bytes);
        Ok(content)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use onefold_block::{SimFolder, SplitMix64};
    use onefold_content::Compression;

    use super::*;
    use crate::adder::AddOptions;
    use crate::format::entry::{Kind, Metadata, Stamp};
    use crate::format::log_record::{LogEvent, VersionInfo};
    use crate::format::version_file::Header;
    use crate::manifest::Manifest;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    fn archive() -> (SimFolder, Archive) {
        archive_with(Compression::None)
    }

    fn archive_with(compression: Compression) -> (SimFolder, Archive) {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        let settings = ArchiveSettings {
            chunk_bytes: 1 << 10,
            container_bytes: 4 << 20,
            compression,
            ..ArchiveSettings::default()
        };
        Archive::create(&folder, &settings, identity).unwrap();
        let archive = Archive::open(Arc::new(folder.clone())).unwrap();
        (folder, archive)
    }

    fn file(path: &[u8], recipe: Recipe) -> Entry {
        let (metadata, stamp) = (Metadata::default(), Stamp::default());
        Entry { path: path.to_vec(), kind: Kind::File, metadata, stamp, recipe }
    }

    fn with_file(content: &[u8]) -> (SimFolder, Archive) {
        with_file_as(content, Compression::None)
    }

    fn with_file_as(content: &[u8], compression: Compression) -> (SimFolder, Archive) {
        let (folder, mut archive) = archive_with(compression);
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let entry = file(b"f", Recipe::default());
        adder.file(entry, false, &mut &content[..]).unwrap().unwrap();
        adder.commit().unwrap();
        (folder, archive)
    }

    fn open(archive: &Archive) -> (Version, OpenFile) {
        let version = archive.version(None).unwrap();
        let file = OpenFile::new(0, &version.find(b"f").unwrap());
        (version, file)
    }

    fn read(
        content: &Content,
        archive: &Archive,
        from: u64,
        len: usize,
    ) -> Result<Vec<u8>, String> {
        let (version, file) = open(archive);
        let mut out = Vec::new();
        let read = content.read(&version, &file, from, len, &mut out);
        read.map(|()| out).map_err(|error| error.to_string())
    }

    /// Where reads of the container began and ended, one behind the other.
    fn reads(content: &Content) -> Vec<Range<u64>> {
        content.windows.reads()
    }

    #[test]
    fn a_quarter_of_the_memory_is_for_each_of_windows_and_groups_and_the_rest_for_chunks() {
        // Half of it is zeroes, so that groups are compressed.
        let mut random = SplitMix64::new(1);
        let piece = |random: &mut SplitMix64| [random.bytes(500), vec![0; 500]].concat();
        let data: Vec<u8> = (0..9_000).flat_map(|_| piece(&mut random)).collect();
        let (_, archive) = with_file_as(&data, Compression::Lz4);
        let chunks = |archive: &Archive| {
            let (version, _) = open(archive);
            version.chunks(version.find(b"f").unwrap().recipe).count() as u64
        };
        // Room for all of it: each byte as a chunk, and in its group.
        let content = Content::new(&archive, 64 << 20);
        assert!(read(&content, &archive, 0, data.len()).unwrap() == data);
        let kept =
            |content: &Content| (lock(&content.chunks).bytes(), lock(&content.groups).bytes());
        let groups = 35;
        let all = data.len() as u64;
        assert_eq!(kept(&content), (all + 128 * chunks(&archive), all + 128 * groups));
        assert_eq!(lock(&content.decoders).len(), 1);
        // Less than all.
        let content = Content::new(&archive, 8 << 20);
        assert!(read(&content, &archive, 0, data.len()).unwrap() == data);
        let (chunk_bytes, group_bytes) = kept(&content);
        let (most_chunks, most_groups) = (6 << 20, 2 << 20);
        assert!((most_chunks - 9000..=most_chunks).contains(&chunk_bytes), "{chunk_bytes}");
        assert!((most_groups - (260 << 10)..=most_groups).contains(&group_bytes), "{group_bytes}");
        let kept: u64 = reads(&content).iter().map(|read| read.end - read.start).sum();
        assert!(((1 << 20)..=(2 << 20)).contains(&kept), "{kept}");
    }

    /// What is stored as it is, is read without the rest of its group.
    #[test]
    fn what_does_not_compress_is_read_from_its_first_byte_to_its_last() {
        let data = SplitMix64::new(4).bytes(1_500_000);
        let (_, archive) = with_file(&data);
        let (version, _) = open(&archive);
        let refs: Vec<ChunkRef> =
            version.chunks(version.find(b"f").unwrap().recipe).map(Result::unwrap).collect();
        let content = Content::new(&archive, 64 << 20);
        let (from, to) = (700_000, 900_000);
        assert!(read(&content, &archive, from, 200_000).unwrap() == data[700_000..to]);
        let first = refs.partition_point(|chunk| u64::from(chunk.offset + chunk.len) <= from);
        let last = refs.partition_point(|chunk| (chunk.offset as usize) < to) - 1;
        let stored = u64::from(refs[last].offset + refs[last].len - refs[first].offset);
        let [read_once] = &reads(&content)[..] else { panic!("{:?}", reads(&content)) };
        // Between groups stand headers.
        let more = read_once.end - read_once.start - stored;
        assert!(more.is_multiple_of(20) && more <= 40, "{more}");
        assert!(lock(&content.groups).bytes() == 0 && lock(&content.decoders).is_empty());
    }

    /// Up to a damaged chunk and behind it, all can be read.
    #[test]
    fn no_chunk_is_read_but_those_that_the_bytes_lie_in() {
        let data = SplitMix64::new(3).bytes(1_200_000);
        let (folder, archive) = with_file(&data);
        let (version, _) = open(&archive);
        let refs: Vec<ChunkRef> =
            version.chunks(version.find(b"f").unwrap().recipe).map(Result::unwrap).collect();
        let bad = refs[40];
        let (begin, end) = (u64::from(bad.offset), u64::from(bad.offset + bad.len));
        folder.flip_bit("containers/00000001.container", 60 + begin + 5, 0).unwrap();
        let content = Content::new(&archive, 1 << 20);
        let expected = &data[100..begin as usize];
        assert!(read(&content, &archive, 100, expected.len()).unwrap() == expected);
        assert!(read(&content, &archive, end, 5000).unwrap() == data[end as usize..][..5000]);
        let problem = format!(
            "corrupt container 1 at byte 0: the chunk at {begin} of its content has a wrong \
             fingerprint"
        );
        for (from, len) in [(begin, 1), (end - 1, 1), (begin - 1, 2), (begin + 7, 9)] {
            assert_eq!(read(&content, &archive, from, len), Err(problem.clone()));
        }
    }

    #[test]
    fn what_no_addition_writes_is_read_or_refused_and_never_without_an_end() {
        let (_, mut archive) = archive();
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let entry = file(b"f", Recipe::default());
        adder.file(entry, false, &mut &b"some content"[..]).unwrap().unwrap();
        adder.commit().unwrap();
        let (version, _) = open(&archive);
        let real = version.chunks(version.find(b"f").unwrap().recipe).next().unwrap().unwrap();
        let mut forged = |refs: &[ChunkRef], size: u64| {
            let (settings, identity) = (archive.settings, archive.identity);
            let number = archive.log.next_version;
            let header = Header { number, generation: 0, settings, identity };
            let folder = Arc::clone(&archive.versions_folder);
            let mut manifest = Manifest::create(folder, header).unwrap();
            let at = manifest.position();
            for chunk in refs {
                manifest.chunk(chunk).unwrap();
            }
            let recipe = Recipe { size, at, chunks: refs.len() as u64 };
            manifest.entry(&file(b"f", recipe)).unwrap();
            let info = manifest.finish(VersionInfo::default(), 2).unwrap();
            archive.commit(2, LogEvent::Added(info)).unwrap();
            read(&Content::new(&archive, 1 << 20), &archive, 2, 100)
        };
        let empty = ChunkRef { len: 0, ..real };
        let expected = Ok(b"me contentsome content".to_vec());
        assert_eq!(forged(&[empty, real, empty, empty, real, empty], 24), expected);
        let said =
            |size| Err(format!("corrupt f at byte 12: its chunks have 12 bytes, not {size}"));
        assert_eq!(forged(&[real], 13), said(13));
        assert_eq!(forged(&[real], 11), said(11));
        let none = Err("corrupt f at byte 0: its chunks have 0 bytes, not 13".to_owned());
        assert_eq!(forged(&[], 13), none);
        let elsewhere = ChunkRef { offset: 1, ..real };
        let problem = "the container has nothing where this chunk should be";
        let expected = Err(format!("corrupt container 1 at byte 1: {problem}"));
        assert_eq!(forged(&[elsewhere], 12), expected);
        let missing = ChunkRef { container: ContainerId::new(7), ..real };
        let expected = "corrupt container 7 at byte 0: it is missing";
        assert_eq!(forged(&[missing], 12), Err(expected.to_owned()));
    }
}
