//! Containers as they are filled: chunks into groups, groups into containers, these to the store.
//! Room: onefold-archive.
//! Invariant: a chunk is where its reference says once [`ContainerWriter::finish`] has returned.

use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Codec;

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef};
use crate::format::container::{self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES, HEADER_BYTES};
use crate::format::group::{
    GROUP_BYTES, GROUP_HEADER_BYTES, GROUP_ROW_BYTES, Group, GroupTable, is_large,
};
use crate::group_compressor::GroupCompressor;

/// Written containers that may wait for their sync.
const UNSYNCED_MAX: usize = 32;
/// Times its size that a container may hold: content that shrinks to next to nothing would make one
/// that takes for ever to read.
const CONTENT_TIMES_MAX: usize = 32;

/// Fills one container after the other.
pub struct ContainerWriter {
    store: Arc<dyn ContainerStore>,
    uuid: [u8; 16],
    capacity: usize,
    compressor: GroupCompressor,
    id: ContainerId,
    bytes: Vec<u8>,
    groups: GroupTable,
    /// Chunks of the group that is not compressed yet.
    open_group: Vec<u8>,
    /// Whether some of it may be in a large group, which is machine code.
    open_is_code: bool,
    entries: Vec<DirectoryEntry>,
    content: usize,
    unsynced: Vec<ContainerId>,
    stored_bytes: u64,
}

impl ContainerWriter {
    /// A writer whose first container will be number `first`.
    pub fn new(
        store: Arc<dyn ContainerStore>,
        uuid: [u8; 16],
        capacity: usize,
        compressor: GroupCompressor,
        first: u32,
    ) -> Self {
        let id = ContainerId::new(first);
        Self {
            store,
            uuid,
            capacity,
            compressor,
            id,
            bytes: vec![0; HEADER_BYTES],
            groups: GroupTable::default(),
            open_group: Vec::new(),
            open_is_code: false,
            entries: Vec::new(),
            content: 0,
            unsynced: Vec::new(),
            stored_bytes: 0,
        }
    }

    /// The container that is being filled.
    pub const fn open(&self) -> ContainerId {
        self.id
    }

    /// The number that the next new container gets, once all is written out.
    pub const fn next(&self) -> u32 {
        self.id.get()
    }

    /// Bytes of chunks as stored, of all groups so far that are full or written out.
    pub const fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Store a chunk, in a group of at most `group_bytes` unless it alone has more.
    pub fn append(
        &mut self,
        name: ChunkName,
        data: &[u8],
        group_bytes: usize,
    ) -> Result<ChunkRef, ArchiveError> {
        let is_code = group_bytes > GROUP_BYTES;
        let group_bytes = group_bytes.min(self.capacity);
        if self.open_group.len() + data.len() > group_bytes {
            self.close_group()?;
        }
        let is_begun = !self.open_group.is_empty();
        let expected = self.expected(group_bytes.max(data.len()));
        if !self.may_hold(data.len()) || !is_begun && !self.takes_group(expected) {
            self.close()?;
        }
        self.open_group.extend_from_slice(data);
        self.open_is_code |= is_code;
        Ok(self.enter(name, data.len()))
    }

    /// Store a group of another container as it is there, with these chunks, which are all of it.
    /// Answers where they are now.
    pub fn copy_group(
        &mut self,
        chunks: &[DirectoryEntry],
        group: &Group,
        stored: &[u8],
    ) -> Result<Vec<ChunkRef>, ArchiveError> {
        self.close_group()?;
        if !self.may_hold(group.len as usize) || !self.takes_group(stored.len()) {
            self.close()?;
        }
        self.put_group(group.len as usize, group.codec, stored)?;
        Ok(chunks.iter().map(|chunk| self.enter(chunk.name, chunk.len as usize)).collect())
    }

    /// Whether the open group is empty, or full enough to be left as it is.
    pub fn may_begin_group(&self) -> bool {
        self.open_group.is_empty() || is_large(self.open_group.len())
    }

    /// Bytes that a group of `len` takes if it shrinks as those before it in the container.
    fn expected(&self, len: usize) -> usize {
        let (content, stored) = (self.groups.content_bytes(), self.groups.end());
        if content == 0 {
            return len;
        }
        (len as u64 * u64::from(stored) / u64::from(content)) as usize
    }

    /// Whether a group of so many stored bytes brings the container nearer to its size. How much a
    /// group shrinks is known when its chunks have places already: a container that must not be
    /// larger would have to end in ever smaller groups, which shrink less.
    fn takes_group(&self, stored: usize) -> bool {
        let tail = self.entries.len() * ENTRY_BYTES
            + self.groups.groups().len() * GROUP_ROW_BYTES
            + FOOTER_BYTES;
        self.entries.is_empty() || self.bytes.len() + tail + stored / 2 <= self.capacity
    }

    /// Whether there is room for so much more content.
    const fn may_hold(&self, len: usize) -> bool {
        self.content + len <= CONTENT_TIMES_MAX * self.capacity
    }

    /// The next chunk of the container.
    fn enter(&mut self, name: ChunkName, len: usize) -> ChunkRef {
        let entry = DirectoryEntry { name, offset: self.content as u32, len: len as u32 };
        self.content += len;
        self.entries.push(entry);
        entry.reference(self.id)
    }

    /// Compress the open group.
    fn close_group(&mut self) -> Result<(), ArchiveError> {
        if self.open_group.is_empty() {
            return Ok(());
        }
        let data = std::mem::take(&mut self.open_group);
        let is_code = std::mem::take(&mut self.open_is_code);
        let start = self.bytes.len();
        self.bytes.resize(start + GROUP_HEADER_BYTES, 0);
        let codec = self.compressor.compress_into(&data, is_code, &mut self.bytes);
        if codec == Codec::Raw {
            self.bytes.extend_from_slice(&data);
        }
        let stored = self.bytes.len() - start - GROUP_HEADER_BYTES;
        self.note_group(start, data.len(), stored, codec)?;
        // The memory is kept for the next one.
        self.open_group = data;
        self.open_group.clear();
        Ok(())
    }

    fn put_group(&mut self, len: usize, codec: Codec, stored: &[u8]) -> Result<(), ArchiveError> {
        let start = self.bytes.len();
        self.bytes.resize(start + GROUP_HEADER_BYTES, 0);
        self.bytes.extend_from_slice(stored);
        self.note_group(start, len, stored.len(), codec)
    }

    /// Write the header of the group whose header begins at `start`, and keep it in the table.
    fn note_group(
        &mut self,
        start: usize,
        len: usize,
        stored: usize,
        codec: Codec,
    ) -> Result<(), ArchiveError> {
        let group = self
            .groups
            .push(len as u32, stored as u32, codec)
            .ok_or_else(|| ArchiveError::Setting("a container does not hold so much".to_owned()))?;
        self.bytes[start..start + GROUP_HEADER_BYTES].copy_from_slice(&group.header(self.id));
        self.stored_bytes += stored as u64;
        Ok(())
    }

    /// Write out what is in memory, and begin the next container.
    fn close(&mut self) -> Result<(), ArchiveError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.close_group()?;
        let header = container::encode_header(self.id, &self.uuid, &self.groups);
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
        self.bytes.extend(container::encode_tail(self.id, &self.entries, &self.groups));
        let len = self.bytes.len() as u64;
        self.store.create(self.id, len)?;
        self.store.append(self.id, 0, &self.bytes)?;
        self.store.seal(self.id, len)?;
        self.unsynced.push(self.id);
        if self.unsynced.len() >= UNSYNCED_MAX {
            self.sync()?;
        }
        let next = self.id.checked_add(1).ok_or_else(|| {
            ArchiveError::Setting("no container numbers are left in this archive".to_owned())
        })?;
        self.id = next;
        self.entries.clear();
        self.groups = GroupTable::default();
        self.content = 0;
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ArchiveError> {
        for id in self.unsynced.drain(..) {
            self.store.sync(id)?;
        }
        Ok(())
    }

    /// Write out and make durable everything that was appended.
    pub fn finish(&mut self) -> Result<(), ArchiveError> {
        self.close()?;
        self.sync()
    }
}

#[cfg(test)]
pub mod tests {
    use onefold_block::{Folder, FolderContainerStore, SimFolder, SplitMix64};
    use onefold_content::{Compression, Compressor};

    use super::*;
    use crate::containers::{content_bytes, read_directory, read_groups};
    use crate::format::group::CODE_GROUP_BYTES;

    pub const UUID: [u8; 16] = [7; 16];

    /// A store of containers, and the folder that it is in.
    pub fn store() -> (SimFolder, Arc<dyn ContainerStore>) {
        let folder = SimFolder::new();
        let store = FolderContainerStore::new(Arc::new(folder.clone()) as Arc<dyn Folder>);
        (folder, Arc::new(store))
    }

    pub fn writer(
        store: &Arc<dyn ContainerStore>,
        capacity: usize,
        compression: Compression,
    ) -> ContainerWriter {
        let compressor = GroupCompressor::adding(compression);
        ContainerWriter::new(Arc::clone(store), UUID, capacity, compressor, 1)
    }

    pub fn name(number: usize) -> ChunkName {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&(number as u64).to_le_bytes());
        ChunkName(name)
    }

    /// Lengths of the containers that come of chunks, and bytes of the groups in each.
    fn filled(capacity: usize, compression: Compression, chunks: &[&[u8]]) -> Vec<(u64, Vec<u32>)> {
        let (_, store) = store();
        let mut writer = writer(&store, capacity, compression);
        let places: Vec<ChunkRef> = chunks
            .iter()
            .enumerate()
            .map(|(n, chunk)| writer.append(name(n), chunk, GROUP_BYTES).unwrap())
            .collect();
        writer.finish().unwrap();
        let ids = store.list().unwrap();
        assert_eq!(writer.next() as usize, ids.len() + 1);
        let mut stored = 0;
        let lens = ids.iter().map(|&id| {
            let directory = read_directory(&*store, id, &UUID).unwrap();
            let groups = read_groups(&*store, id).unwrap();
            assert_eq!(directory.groups, groups);
            stored += groups.groups().iter().map(|group| u64::from(group.stored)).sum::<u64>();
            let here: Vec<ChunkRef> = directory.chunks.iter().map(|c| c.reference(id)).collect();
            let expected: Vec<ChunkRef> =
                places.iter().filter(|chunk| chunk.container == id).copied().collect();
            assert_eq!(here, expected);
            let content = u64::from(groups.content_bytes());
            assert_eq!(content_bytes(&*store, id).unwrap(), content);
            (store.len(id).unwrap(), groups.groups().iter().map(|group| group.len).collect())
        });
        let lens = lens.collect();
        assert_eq!(writer.stored_bytes(), stored);
        lens
    }

    #[test]
    fn a_container_ends_with_the_group_that_brings_it_nearest_to_its_size() {
        let none = Compression::None;
        let zeroes = vec![0; 300_000];
        let fits = |lens: &[usize], capacity| {
            let chunks: Vec<&[u8]> = lens.iter().map(|&len| &zeroes[..len]).collect();
            filled(capacity, none, &chunks)
        };
        // Header, header of the group, a row of the directory and one of the groups, footer: what
        // is there when half of another group, which takes its share of that, is asked to fit.
        let half = usize::midpoint(262_144, 60);
        let both = [(2 * 262_144 + 172, vec![262_144, 262_144])];
        assert_eq!(fits(&[262_144, 262_144], 262_144 + 124 + half), both);
        let apart = [(262_144 + 124, vec![262_144]), (262_144 + 124, vec![262_144])];
        assert_eq!(fits(&[262_144, 262_144], 262_144 + 124 + half - 1), apart);
        // A group that was begun is filled, to the size of a container at most.
        assert_eq!(fits(&[5000, 1], 5001), [(5145, vec![5001])]);
        assert_eq!(fits(&[5000, 1], 5000), [(5124, vec![5000]), (125, vec![1])]);
        // What is larger than a group is one, and what would be too much for one begins the next.
        let lens = [262_143, 1, 1, 300_000, 262_144, 1];
        let groups = vec![262_144, 1, 300_000, 262_144, 1];
        let all: usize = lens.iter().sum::<usize>() + 40 + 5 * 28 + 6 * 20 + 36;
        assert_eq!(fits(&lens, 1 << 20), [(all as u64, groups)]);
        assert_eq!(fits(&[], 1 << 20), []);
    }

    #[test]
    fn groups_that_shrink_are_as_large_as_others_and_one_that_does_not_ends_its_container() {
        let zstd = Compression::Zstd(3);
        let zeroes = vec![0; 100_000];
        let random = |seed| SplitMix64::new(seed).bytes(100_000);
        let few: Vec<u8> = random(1).iter().map(|byte| byte % 16).collect();
        let halves: Vec<u32> = filled(100_000, zstd, &[&few[..]; 9])
            .iter()
            .map(|(_, groups)| groups.len() as u32)
            .collect();
        assert_eq!(halves, [2, 2, 2, 2, 1]);
        let (last, next) = (random(2), random(3));
        let alone = filled(100_000, zstd, &[&zeroes])[0].0;
        let groups = [(alone + 100_048, vec![100_000; 2]), (100_124, vec![100_000])];
        assert_eq!(filled(100_000, zstd, &[&zeroes[..], &last, &next]), groups);
    }

    #[test]
    fn a_container_holds_thirty_two_times_its_size_and_no_more() {
        let zeroes = vec![0; 10_000];
        let mut chunks: Vec<&[u8]> = vec![&zeroes; 64];
        let lens = |chunks: &[&[u8]]| {
            let filled = filled(20_000, Compression::Zstd(3), chunks);
            filled.iter().map(|(_, groups)| groups.iter().sum::<u32>()).collect::<Vec<_>>()
        };
        assert_eq!(lens(&chunks), [640_000]);
        chunks.push(&zeroes[..1]);
        assert_eq!(lens(&chunks), [640_000, 1]);
    }

    #[test]
    fn a_group_is_compressed_if_that_saves_a_byte_and_not_if_it_saves_none() {
        let random = SplitMix64::new(2).bytes(100);
        let mut seen = Vec::new();
        for again in 0..40 {
            // Some bytes that come again save themselves, less the way to them.
            let data = [&random[..60], &random[..again], &random[60..]].concat();
            let mut out = Vec::new();
            Compressor::new(Compression::Lz4).compress_into(&data, &mut out, data.len() + 100);
            let saved = data.len() as i64 - out.len() as i64;
            let (_, store) = store();
            let mut writer = writer(&store, 1 << 20, Compression::Lz4);
            writer.append(name(0), &data, GROUP_BYTES).unwrap();
            writer.finish().unwrap();
            let groups = read_groups(&*store, ContainerId::new(1)).unwrap();
            let group = groups.groups()[0];
            let codec = if saved > 0 { Codec::Lz4 } else { Codec::Raw };
            assert_eq!(group.codec, codec, "{again} bytes again save {saved}");
            assert_eq!(i64::from(group.stored), data.len() as i64 - saved.max(0));
            seen.push(saved);
        }
        assert!(seen.contains(&0) && seen.contains(&1) && seen.contains(&-1), "{seen:?}");
    }

    #[test]
    fn a_group_with_machine_code_of_large_files_is_compressed_as_such() {
        let mut random = SplitMix64::new(8);
        let words: Vec<u8> = random.bytes(24_000).iter().map(|byte| byte % 32).collect();
        let mut data = Vec::new();
        while data.len() < 250_000 {
            let at = random.below(2000) as usize * 12;
            data.extend_from_slice(&words[at..at + 12]);
        }
        let stored = |level| {
            let (mut compressor, mut out) = (Compressor::new(Compression::Zstd(level)), Vec::new());
            compressor.compress_into(&data, &mut out, data.len());
            out.len() as u64
        };
        let (first, second) = data.split_at(1000);
        for (first_bytes, second_bytes, level) in [
            (GROUP_BYTES, GROUP_BYTES, 3),
            (GROUP_BYTES, CODE_GROUP_BYTES, 4),
            (CODE_GROUP_BYTES, CODE_GROUP_BYTES, 4),
        ] {
            let (_, store) = store();
            let mut writer = writer(&store, 2 << 20, Compression::Zstd(3));
            // What came before in other groups does not count.
            writer.append(name(0), &[7; 50], CODE_GROUP_BYTES).unwrap();
            writer.close_group().unwrap();
            let before = writer.stored_bytes();
            writer.append(name(1), first, first_bytes).unwrap();
            writer.append(name(2), second, second_bytes).unwrap();
            writer.finish().unwrap();
            assert_eq!(writer.stored_bytes() - before, stored(level), "level {level}");
        }
        assert_ne!(stored(3), stored(4));
    }

    #[test]
    fn groups_are_copied_as_they_are_and_each_fits_or_begins_a_container() {
        let (_, store) = store();
        let chunk = |n: usize| DirectoryEntry { name: name(n), offset: 0, len: 30 };
        let (two, one) = ([chunk(0), chunk(1)], [chunk(2)]);
        let group = |len| Group { begin: 9, len, at: 9, stored: 7, codec: Codec::Lz4 };
        let capacity = 40 + 20 + 7 + 2 * 20 + 8 + 36 + 7 / 2;
        for (capacity, containers) in [(capacity, 1), (capacity - 1, 2)] {
            for id in store.list().unwrap() {
                store.remove(id).unwrap();
            }
            let mut writer = writer(&store, capacity, Compression::None);
            let places = writer.copy_group(&two, &group(60), b"stored1").unwrap();
            let then = writer.copy_group(&one, &group(30), b"stored2").unwrap();
            writer.finish().unwrap();
            let ids = store.list().unwrap();
            assert_eq!((ids.len(), writer.stored_bytes()), (containers, 14));
            let tables = ids.iter().map(|&id| read_groups(&*store, id).unwrap());
            let tables: Vec<GroupTable> = tables.collect();
            let groups = tables.iter().flat_map(GroupTable::groups);
            let lens: Vec<_> = groups.map(|g| (g.len, g.stored, g.codec)).collect();
            assert_eq!(lens, [(60, 7, Codec::Lz4), (30, 7, Codec::Lz4)]);
            let at = |n: usize, container: u32, offset| ChunkRef {
                container: ContainerId::new(container),
                offset,
                len: 30,
                name: name(n),
            };
            assert_eq!(places, [at(0, 1, 0), at(1, 1, 30)]);
            let expected = if containers == 1 { at(2, 1, 60) } else { at(2, 2, 0) };
            assert_eq!(then, [expected]);
            let mut bytes = [0; 7];
            store.read(ContainerId::new(1), tables[0].groups()[0].at.into(), &mut bytes).unwrap();
            assert_eq!(&bytes, b"stored1");
        }
        // What waits comes first.
        let mut writer = writer(&store, 1 << 20, Compression::None);
        assert!(writer.may_begin_group());
        assert_eq!(writer.append(name(5), &vec![1; 131_071], GROUP_BYTES).unwrap().offset, 0);
        assert!(!writer.may_begin_group());
        writer.append(name(6), &[1], GROUP_BYTES).unwrap();
        assert!(writer.may_begin_group());
        assert_eq!(writer.copy_group(&one, &group(30), b"stored3").unwrap()[0].offset, 131_072);
    }
}
