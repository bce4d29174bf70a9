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
use crate::format::group::{GROUP_BYTES, GROUP_HEADER_BYTES, GROUP_ROW_BYTES, Group, GroupTable};
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
            bytes: container::encode_header(id, &uuid),
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

    /// The number that the next new container would get if this one were closed now.
    pub fn next(&self) -> u32 {
        self.id.get() + u32::from(!self.entries.is_empty())
    }

    /// Bytes of chunks as stored, of all groups so far that are full or written out.
    pub const fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Store a chunk.
    pub fn append(&mut self, name: ChunkName, data: &[u8]) -> Result<ChunkRef, ArchiveError> {
        if self.open_group.len() + data.len() > GROUP_BYTES {
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
    pub const fn may_begin_group(&self) -> bool {
        self.open_group.is_empty() || self.open_group.len() >= GROUP_BYTES / 2
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
        self.bytes.extend(container::encode_header(self.id, &self.uuid));
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

/// Read a whole container, group by group.
pub fn read_all(
    store: &dyn ContainerStore,
    id: ContainerId,
    directory: &Directory,
    decoder: &mut GroupDecoder,
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
    read_all(store, id, &directory, decoder, |group| {
        for entry in group.chunks {
            let chunk = entry.reference(id);
            let bytes = group.bytes_of(entry);
            take(&chunk, bytes.and_then(|bytes| check_name(fingerprinter, &chunk, bytes)));
        }
        Ok(())
    })
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
        let group_bytes_max = GROUP_BYTES.max(chunk_bytes_max);
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
        content.clear();
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
