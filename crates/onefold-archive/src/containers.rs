//! Containers as they are filled, and chunks as they are read back.
//! Room: onefold-archive.
//! Invariant: what is called the right chunk has the name that its reference gives.

use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::{Codec, Compressor, Decompressor, Fingerprinter};

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef};
use crate::format::container::{
    self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES, Footer, HEADER_BYTES,
};
use crate::format::group::{
    CODE_GROUP_BYTES, GROUP_HEADER_BYTES, GROUP_ROW_BYTES, Group, GroupTable, is_large,
};
use crate::workers::Workers;

/// Written containers that may wait for their sync.
const UNSYNCED_MAX: usize = 32;
/// Bytes at the end of a container that are read to find its table of groups: mostly all of it.
const TAIL_BYTES: u64 = 4096;
/// Times its size that a container may hold: content that shrinks to next to nothing would make one
/// that takes for ever to read.
const CONTENT_TIMES_MAX: usize = 32;

/// Fills one container after the other.
pub struct ContainerWriter {
    store: Arc<dyn ContainerStore>,
    uuid: [u8; 16],
    capacity: usize,
    compressor: Compressor,
    id: ContainerId,
    bytes: Vec<u8>,
    groups: GroupTable,
    /// Chunks of the group that is not compressed yet.
    open_group: Vec<u8>,
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
        compressor: Compressor,
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
        if self.open_group.len() + data.len() > group_bytes {
            self.close_group()?;
        }
        // What the open group takes at most; only if that is too much, what it takes.
        if !self.fits(self.open_group.len() + data.len(), data.len(), 1) {
            self.close_group()?;
            if !self.fits(data.len(), data.len(), 1) {
                self.close()?;
            }
        }
        self.open_group.extend_from_slice(data);
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
        if !self.fits(stored.len(), group.len as usize, chunks.len()) {
            self.close()?;
        }
        self.put_group(group.len as usize, group.codec, stored)?;
        Ok(chunks.iter().map(|chunk| self.enter(chunk.name, chunk.len as usize)).collect())
    }

    /// Whether the open group is empty, or full enough to be left as it is.
    pub fn may_begin_group(&self) -> bool {
        self.open_group.is_empty() || is_large(self.open_group.len())
    }

    /// Whether one more group of so many stored bytes has room, and more content and chunks.
    fn fits(&self, stored: usize, content: usize, chunks: usize) -> bool {
        let tail = (self.entries.len() + chunks) * ENTRY_BYTES
            + (self.groups.groups().len() + 1) * GROUP_ROW_BYTES
            + FOOTER_BYTES;
        let content = self.content + content;
        self.bytes.len() + GROUP_HEADER_BYTES + stored + tail <= self.capacity
            && content <= CONTENT_TIMES_MAX * self.capacity
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
        let start = self.bytes.len();
        self.bytes.resize(start + GROUP_HEADER_BYTES, 0);
        let codec = self.compressor.compress_into(&data, &mut self.bytes, data.len() - 1);
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

/// What a container holds.
#[derive(Debug)]
pub struct Directory {
    /// Its chunks, in the order of its content.
    pub chunks: Vec<DirectoryEntry>,
    /// How the content is stored.
    pub groups: GroupTable,
}

/// Check what a container begins and ends with. Also returns its length.
fn read_ends(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
) -> Result<(Footer, u64), ArchiveError> {
    let len = store.len(id)?;
    if len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(ArchiveError::corrupt(id.to_string(), 0, format!("it has {len} bytes only")));
    }
    let mut header = [0; HEADER_BYTES];
    store.read(id, 0, &mut header)?;
    container::check_header(&header, id, uuid)?;
    let mut footer = [0; FOOTER_BYTES];
    store.read(id, len - FOOTER_BYTES as u64, &mut footer)?;
    Ok((container::decode_footer(&footer, id, len)?, len))
}

/// The directory of a container.
pub fn read_directory(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
) -> Result<Directory, ArchiveError> {
    let (footer, _) = read_ends(store, id, uuid)?;
    let mut bytes = vec![0; footer.directory_bytes() + footer.groups_bytes()];
    store.read(id, footer.directory_at.into(), &mut bytes)?;
    let (chunks, groups) = bytes.split_at(footer.directory_bytes());
    let groups = container::decode_groups(groups, id, &footer)?;
    let chunks = container::decode_directory(chunks, id, &footer, &groups)?;
    Ok(Directory { chunks, groups })
}

type Read<T> = Result<T, ArchiveError>;

/// The directories of containers, in the order of `ids`, until `take` answers that it wants no
/// more; how many it got. Several are read at once where that is worth it.
pub fn read_directories(
    store: &Arc<dyn ContainerStore>,
    uuid: &[u8; 16],
    ids: &[ContainerId],
    mut take: impl FnMut(ContainerId, Read<Directory>) -> Read<bool>,
) -> Result<usize, ArchiveError> {
    let mut workers = Workers::new(store.reads_at_once(), || ());
    let read = |id: ContainerId| {
        let (store, uuid) = (Arc::clone(store), *uuid);
        move |(): &mut ()| read_directory(&*store, id, &uuid)
    };
    workers.in_order(ids, read, |id, read| take(id, read.and_then(|directory| directory)))
}

/// How the content of a container is stored: by its table, or where that is damaged by the headers
/// of its groups, as far as these go. A reference says more surely than a header whose container
/// this is, as it has its chunk's name.
pub fn read_groups(
    store: &dyn ContainerStore,
    id: ContainerId,
) -> Result<GroupTable, ArchiveError> {
    let error = match read_group_table(store, id) {
        Ok(table) => return Ok(table),
        Err(error) => error,
    };
    let Ok(len) = store.len(id) else { return Err(error) };
    let mut table = GroupTable::default();
    let mut header = [0; GROUP_HEADER_BYTES];
    loop {
        let at = table.end();
        let stored_at = at.saturating_add(GROUP_HEADER_BYTES as u32);
        if u64::from(stored_at) > len || store.read(id, at.into(), &mut header).is_err() {
            break;
        }
        match Group::from_header(&header, id, stored_at) {
            Some(group) if group.begin == table.content_bytes() && group.place().end <= len => {
                table.push_found(group);
            }
            _ => break,
        }
    }
    if table.groups().is_empty() { Err(error) } else { Ok(table) }
}

fn read_group_table(
    store: &dyn ContainerStore,
    id: ContainerId,
) -> Result<GroupTable, ArchiveError> {
    let len = store.len(id)?;
    let mut tail = vec![0; len.min(TAIL_BYTES) as usize];
    store.read(id, len - tail.len() as u64, &mut tail)?;
    let Some((rest, footer)) = tail.split_last_chunk::<FOOTER_BYTES>() else {
        return Err(ArchiveError::corrupt(id.to_string(), 0, format!("it has {len} bytes only")));
    };
    let footer = container::decode_footer(footer, id, len)?;
    let table = footer.groups_bytes();
    if table <= rest.len() {
        return container::decode_groups(&rest[rest.len() - table..], id, &footer);
    }
    let mut bytes = vec![0; table];
    store.read(id, len - (FOOTER_BYTES + table) as u64, &mut bytes)?;
    container::decode_groups(&bytes, id, &footer)
}

/// Bytes of all chunks in a container.
pub fn content_bytes(store: &dyn ContainerStore, id: ContainerId) -> Result<u64, ArchiveError> {
    Ok(read_groups(store, id)?.content_bytes().into())
}

/// A group of a container: its chunks, and its content or what is wrong with it.
pub struct ReadGroup<'a> {
    /// Where it lies.
    pub group: Group,
    /// The chunks in it.
    pub chunks: &'a [DirectoryEntry],
    /// Its stored bytes.
    pub stored: &'a [u8],
    /// Its content.
    pub content: Result<&'a [u8], ArchiveError>,
}

impl ReadGroup<'_> {
    /// The bytes of one of its chunks, as they are; they are not compared with its name.
    pub fn bytes_of(&self, chunk: &DirectoryEntry) -> Result<&[u8], ArchiveError> {
        match &self.content {
            Ok(content) => {
                let start = (chunk.offset - self.group.begin) as usize;
                Ok(content.get(start..start + chunk.len as usize).unwrap_or_default())
            }
            Err(error) => Err(error.again()),
        }
    }
}

/// Read a container, group by group, those of whose chunks something is `wanted`.
pub fn read_wanted(
    store: &dyn ContainerStore,
    (id, directory): (ContainerId, &Directory),
    decoder: &mut GroupDecoder,
    wanted: impl Fn(&[DirectoryEntry]) -> bool,
    mut take: impl FnMut(&ReadGroup<'_>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut bytes = vec![0; store.len(id)? as usize];
    let whole = store.read(id, 0, &mut bytes).is_ok();
    let (mut alone, mut content) = (Vec::new(), Vec::new());
    let mut chunks = &directory.chunks[..];
    for &group in directory.groups.groups() {
        let end = group.begin + group.len;
        let here;
        (here, chunks) = chunks.split_at(chunks.partition_point(|chunk| chunk.offset < end));
        if !wanted(here) {
            continue;
        }
        let place = group.at as usize - GROUP_HEADER_BYTES..group.place().end as usize;
        let with_header = if whole {
            Ok(bytes.get(place).unwrap_or_default())
        } else {
            // What cannot be read takes along no group that can.
            alone.resize(place.len(), 0);
            store.read(id, place.start as u64, &mut alone).map(|()| &alone[..])
        };
        let parts = with_header.map_err(ArchiveError::from).and_then(|bytes| {
            let header_at = group.at - GROUP_HEADER_BYTES as u32;
            let corrupt = || {
                let problem = "the header of a group is damaged";
                ArchiveError::corrupt(id.to_string(), header_at.into(), problem)
            };
            let (header, stored) =
                bytes.split_at_checked(GROUP_HEADER_BYTES).ok_or_else(corrupt)?;
            if header == group.header(id) { Ok(stored) } else { Err(corrupt()) }
        });
        let (stored, decoded) = match parts {
            Ok(stored) => (stored, decoder.decode(id, &group, stored, &mut content)),
            Err(error) => (&[][..], Err(error)),
        };
        let content = decoded.map(|()| &content[..]);
        take(&ReadGroup { group, chunks: here, stored, content })?;
    }
    Ok(())
}

/// Read a whole container and check every chunk of it. `take` sees each chunk, and what is wrong
/// with it.
pub fn check_chunks(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
    fingerprinter: &Fingerprinter,
    decoder: &mut GroupDecoder,
    mut take: impl FnMut(&ChunkRef, Result<(), ArchiveError>),
) -> Result<(), ArchiveError> {
    let directory = read_directory(store, id, uuid)?;
    read_wanted(
        store,
        (id, &directory),
        decoder,
        |_| true,
        |group| {
            for entry in group.chunks {
                let chunk = entry.reference(id);
                let bytes = group.bytes_of(entry);
                take(&chunk, bytes.and_then(|bytes| check_name(fingerprinter, &chunk, bytes)));
            }
            Ok(())
        },
    )
}

/// Make a container durable that no version refers to yet and that another process wrote. A sync of
/// its own is not enough: where one failed before, what that one was for can be read, may be lost
/// with the power all the same, and is made durable by no later one. So it is written anew, under a
/// new name.
pub fn write_again(store: &dyn ContainerStore, id: ContainerId) -> Result<(), ArchiveError> {
    let mut bytes = vec![0; store.len(id)? as usize];
    store.read(id, 0, &mut bytes)?;
    store.remove(id)?;
    store.create(id, bytes.len() as u64)?;
    store.append(id, 0, &bytes)?;
    store.seal(id, bytes.len() as u64)?;
    Ok(store.sync(id)?)
}

/// Turns stored bytes back into the content of a group.
pub struct GroupDecoder {
    decompressor: Decompressor,
    group_bytes_max: usize,
}

impl GroupDecoder {
    /// A decoder of groups of chunks of at most `chunk_bytes_max`.
    pub fn new(chunk_bytes_max: usize) -> Self {
        let group_bytes_max = CODE_GROUP_BYTES.max(chunk_bytes_max);
        Self { decompressor: Decompressor::new(), group_bytes_max }
    }

    /// The content of a group of container `id`, in the place of what `content` holds.
    pub fn decode(
        &mut self,
        id: ContainerId,
        group: &Group,
        stored: &[u8],
        content: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let corrupt =
            |problem: String| ArchiveError::corrupt(id.to_string(), group.at.into(), problem);
        let len = group.len as usize;
        if len > self.group_bytes_max {
            return Err(corrupt(format!("a group of {len} bytes cannot be")));
        }
        // All of it is written over; zeroes cost time only where it grows.
        content.resize(len, 0);
        self.decompressor
            .decompress_into(group.codec, stored, content)
            .map_err(|error| corrupt(error.to_string()))
    }
}

/// Whether `data` is the chunk that is meant.
pub fn check_name(
    fingerprinter: &Fingerprinter,
    chunk: &ChunkRef,
    data: &[u8],
) -> Result<(), ArchiveError> {
    if ChunkName::of(&fingerprinter.hash(data)) == chunk.name {
        return Ok(());
    }
    let what = chunk.container.to_string();
    let problem = format!("the chunk at {} of its content has a wrong fingerprint", chunk.offset);
    Err(ArchiveError::corrupt(what, 0, problem))
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder, FolderContainerStore, SimFolder, SplitMix64};
    use onefold_content::{Compression, FingerprintKind};

    use super::*;
    use crate::format::group::GROUP_BYTES;

    const UUID: [u8; 16] = [7; 16];

    fn store() -> (SimFolder, Arc<dyn ContainerStore>) {
        let folder = SimFolder::new();
        let store = FolderContainerStore::new(Arc::new(folder.clone()) as Arc<dyn Folder>);
        (folder, Arc::new(store))
    }

    fn writer(
        store: &Arc<dyn ContainerStore>,
        capacity: usize,
        compression: Compression,
    ) -> ContainerWriter {
        ContainerWriter::new(Arc::clone(store), UUID, capacity, Compressor::new(compression), 1)
    }

    fn name(number: usize) -> ChunkName {
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
    fn a_container_is_filled_up_to_its_last_byte() {
        let none = Compression::None;
        let zeroes = vec![0; 300_000];
        let fits = |lens: &[usize], capacity| {
            let chunks: Vec<&[u8]> = lens.iter().map(|&len| &zeroes[..len]).collect();
            filled(capacity, none, &chunks)
        };
        // Header, header of the group, a row of the directory and one of the groups, footer.
        assert_eq!(fits(&[5000, 1], 5000 + 124), [(5124, vec![5000]), (125, vec![1])]);
        assert_eq!(fits(&[5000, 1], 5000 + 1 + 144), [(5145, vec![5001])]);
        assert_eq!(fits(&[5000, 1], 5000 + 144), [(5124, vec![5000]), (125, vec![1])]);
        // A second group has a header and a row more.
        let two = [(262_144 + 10 + 124 + 48, vec![262_144, 10])];
        assert_eq!(fits(&[262_144, 10], 262_154 + 172), two);
        let apart = [(262_144 + 124, vec![262_144]), (134, vec![10])];
        assert_eq!(fits(&[262_144, 10], 262_154 + 171), apart);
        // What is larger than a group is one, and what would be too much for one begins the next.
        let lens = [262_143, 1, 1, 300_000, 262_144, 1];
        let groups = vec![262_144, 1, 300_000, 262_144, 1];
        let all: usize = lens.iter().sum::<usize>() + 40 + 5 * 28 + 6 * 20 + 36;
        assert_eq!(fits(&lens, 1 << 20), [(all as u64, groups)]);
        assert_eq!(fits(&[], 1 << 20), []);
    }

    #[test]
    fn a_group_that_shrinks_leaves_room_for_more() {
        let (zeroes, random) = (vec![0; 100_000], SplitMix64::new(1).bytes(110_000));
        let zstd = Compression::Zstd(3);
        let alone = filled(1 << 20, zstd, &[&zeroes])[0].0;
        // One more group, of two chunks in all.
        let both = alone + 110_000 + 48;
        let chunks: [&[u8]; 2] = [&zeroes, &random];
        let groups = vec![100_000, 110_000];
        assert_eq!(filled(both as usize, zstd, &chunks), [(both, groups)]);
        let apart = [(alone, vec![100_000]), (110_124, vec![110_000])];
        assert_eq!(filled(both as usize - 1, zstd, &chunks), apart);
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
    fn groups_are_copied_as_they_are_and_each_fits_or_begins_a_container() {
        let (_, store) = store();
        let chunk = |n: usize| DirectoryEntry { name: name(n), offset: 0, len: 30 };
        let (two, one) = ([chunk(0), chunk(1)], [chunk(2)]);
        let group = |len| Group { begin: 9, len, at: 9, stored: 7, codec: Codec::Lz4 };
        let capacity = 40 + 2 * (20 + 7 + 8) + 3 * 20 + 36;
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

    #[test]
    fn a_table_of_any_length_is_found_and_without_it_the_groups_are() {
        let (folder, store) = store();
        let mut writer = writer(&store, 1 << 20, Compression::None);
        let chunk = [DirectoryEntry { name: name(1), offset: 0, len: 1 }];
        let group = Group { begin: 0, len: 1, at: 0, stored: 1, codec: Codec::Raw };
        for _ in 0..600 {
            writer.copy_group(&chunk, &group, b"x").unwrap();
        }
        writer.finish().unwrap();
        let id = ContainerId::new(1);
        let table = read_groups(&*store, id).unwrap();
        assert_eq!((table.groups().len(), table.end()), (600, 40 + 600 * 21));
        let name = folder.list().unwrap().remove(0);
        let whole = store.len(id).unwrap();
        for (len, groups) in [(whole - 1, 600), (table.end().into(), 600)] {
            folder.truncate(&name, len).unwrap();
            assert_eq!(read_groups(&*store, id).unwrap().groups().len(), groups, "{len} bytes");
        }
        for (less, groups) in [(1, 599), (21, 599), (22, 598)] {
            folder.truncate(&name, u64::from(table.end()) - less).unwrap();
            assert_eq!(read_groups(&*store, id).unwrap().groups().len(), groups, "{less} less");
        }
        folder.truncate(&name, 60).unwrap();
        let error = read_groups(&*store, id).unwrap_err().to_string();
        assert_eq!(error, "corrupt container 1 at byte 24: its footer is damaged");
        folder.truncate(&name, 20).unwrap();
        let few = "corrupt container 1 at byte 0: it has 20 bytes only";
        assert_eq!(read_groups(&*store, id).unwrap_err().to_string(), few);
        assert_eq!(read_directory(&*store, id, &UUID).unwrap_err().to_string(), few);
        let missing = read_groups(&*store, ContainerId::new(2)).unwrap_err().to_string();
        assert_eq!(missing, "corrupt container 2 at byte 0: it is missing");
        // One without anything in it.
        let id = ContainerId::new(3);
        let mut bytes = container::encode_header(id, &UUID, &GroupTable::default());
        bytes.extend(container::encode_tail(id, &[], &GroupTable::default()));
        store.create(id, 76).unwrap();
        store.append(id, 0, &bytes).unwrap();
        assert_eq!(bytes.len(), 76);
        assert!(read_directory(&*store, id, &UUID).unwrap().chunks.is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_group_is_named_with_its_place() {
        let (folder, store) = store();
        let mut writer = writer(&store, 1 << 20, Compression::None);
        let data = SplitMix64::new(3).bytes(262_144);
        let fingerprinter = Fingerprinter::with_key(FingerprintKind::Blake3, [1; 32]);
        for data in [&data[..], &data[..1000], &data[1000..2000]] {
            let name = ChunkName::of(&fingerprinter.hash(data));
            writer.append(name, data, GROUP_BYTES).unwrap();
        }
        writer.finish().unwrap();
        let (id, name) = (ContainerId::new(1), folder.list().unwrap().remove(0));
        let check = || {
            let mut told = Vec::new();
            let mut decoder = GroupDecoder::new(0);
            check_chunks(&*store, id, &UUID, &fingerprinter, &mut decoder, |chunk, result| {
                told.push((chunk.offset, result.err().map(|error| error.to_string())));
            })
            .unwrap();
            told
        };
        assert_eq!(check(), [(0, None), (262_144, None), (263_144, None)]);
        // What nobody wants is not decoded, so that it may be damaged.
        let directory = read_directory(&*store, id, &UUID).unwrap();
        folder.flip_bit(&name, 70, 0).unwrap();
        let mut taken = Vec::new();
        let wanted = |chunks: &[DirectoryEntry]| chunks.iter().any(|chunk| chunk.offset == 263_144);
        read_wanted(&*store, (id, &directory), &mut GroupDecoder::new(0), wanted, |group| {
            taken.push((group.group.begin, group.chunks.len()));
            group.bytes_of(&group.chunks[1]).map(|bytes| assert!(bytes == &data[1000..2000]))
        })
        .unwrap();
        assert_eq!(taken, [(262_144, 2)]);
        folder.flip_bit(&name, 70, 0).unwrap();
        let second = 40 + 20 + 262_144;
        let corrupt =
            |at: u64, problem: &str| Some(format!("corrupt container 1 at byte {at}: {problem}"));
        folder.flip_bit(&name, second + 3, 0).unwrap();
        let why = corrupt(second, "the header of a group is damaged");
        assert_eq!(check(), [(0, None), (262_144, why.clone()), (263_144, why)]);
        folder.flip_bit(&name, second + 3, 0).unwrap();
        folder.flip_bit(&name, second + 20 + 1500, 0).unwrap();
        let why = corrupt(0, "the chunk at 263144 of its content has a wrong fingerprint");
        assert_eq!(check(), [(0, None), (262_144, None), (263_144, why)]);
        // More than any group can have.
        let group = Group { begin: 0, len: 2_097_153, at: 77, stored: 5, codec: Codec::Raw };
        let mut content = vec![9; 3];
        let decoded = GroupDecoder::new(0).decode(id, &group, &[0; 5], &mut content);
        let why = corrupt(77, "a group of 2097153 bytes cannot be");
        assert_eq!(decoded.err().map(|error| error.to_string()), why);
        let zeroes = vec![0; 2_097_153];
        GroupDecoder::new(2_097_153).decode(id, &group, &zeroes, &mut content).unwrap();
        assert!(content == zeroes);
    }
}
