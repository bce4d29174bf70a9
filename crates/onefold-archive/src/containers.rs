//! Containers and their chunks as they are read back.
//! Room: onefold-archive.
//! Invariant: what is called the right chunk has the name that its reference gives.

use std::ops::Range;
use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::{Decompressor, Fingerprinter};

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef};
use crate::format::container::{self, DirectoryEntry, FOOTER_BYTES, Footer, HEADER_BYTES};
use crate::format::group::{CODE_GROUP_BYTES, GROUP_HEADER_BYTES, Group, GroupTable};
use crate::workers::Workers;

/// Bytes at the end of a container that are read to find its table of groups: mostly all of it.
const TAIL_BYTES: u64 = 4096;

/// Bytes between two wanted groups that are read along rather than skipped.
pub const GAP_BYTES: u64 = 64 << 10;

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
    /// Its content, up to the last chunk that is wanted.
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

/// A group of which something is wanted.
struct WantedGroup<'a> {
    group: Group,
    chunks: &'a [DirectoryEntry],
    /// Bytes of its content up to where the last wanted chunk ends.
    front: u32,
}

impl WantedGroup<'_> {
    /// Where its header begins in the container.
    const fn begin(&self) -> u64 {
        self.group.at as u64 - GROUP_HEADER_BYTES as u64
    }
}

/// The groups of which some chunk is wanted.
fn wanted_groups(
    directory: &Directory,
    wanted: impl Fn(&DirectoryEntry) -> bool,
) -> Vec<WantedGroup<'_>> {
    let mut rest = &directory.chunks[..];
    let groups = directory.groups.groups().iter().filter_map(|&group| {
        let end = group.begin + group.len;
        let chunks;
        (chunks, rest) = rest.split_at(rest.partition_point(|chunk| chunk.offset < end));
        let last = chunks.iter().rfind(|&chunk| wanted(chunk))?;
        Some(WantedGroup { group, chunks, front: last.offset + last.len - group.begin })
    });
    groups.collect()
}

/// Read a container, group by group, up to the last chunk of each that is `wanted`; groups of which
/// none is are left out, and not read where they are long.
pub fn read_wanted(
    store: &dyn ContainerStore,
    (id, directory): (ContainerId, &Directory),
    reader: &mut GroupReader,
    wanted: impl Fn(&DirectoryEntry) -> bool,
    mut take: impl FnMut(&ReadGroup<'_>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let groups = wanted_groups(directory, wanted);
    let near =
        |a: &WantedGroup<'_>, b: &WantedGroup<'_>| b.begin() <= a.group.place().end + GAP_BYTES;
    for run in groups.chunk_by(near) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let (start, end) = (first.begin(), last.group.place().end);
        let whole = reader.read(store, id, start..end).is_ok();
        for wanted in run {
            let place = wanted.begin()..wanted.group.place().end;
            // What cannot be read takes along no group that can.
            let read = if whole { Ok(()) } else { reader.read(store, id, place.clone()) };
            let at = if whole { (place.start - start) as usize } else { 0 };
            let at = at..at + (place.end - place.start) as usize;
            let (stored, content) = reader.take(id, wanted, read, at);
            take(&ReadGroup { group: wanted.group, chunks: wanted.chunks, stored, content })?;
        }
    }
    Ok(())
}

/// Reads and decodes groups, in memory that is used again.
pub struct GroupReader {
    decoder: GroupDecoder,
    bytes: Vec<u8>,
    content: Vec<u8>,
}

impl GroupReader {
    /// A reader of groups of chunks of at most `chunk_bytes_max`.
    pub fn new(chunk_bytes_max: usize) -> Self {
        let decoder = GroupDecoder::new(chunk_bytes_max);
        Self { decoder, bytes: Vec::new(), content: Vec::new() }
    }

    /// Read these bytes of a container.
    fn read(
        &mut self,
        store: &dyn ContainerStore,
        id: ContainerId,
        place: Range<u64>,
    ) -> Result<(), ArchiveError> {
        let len = (place.end - place.start) as usize;
        // Zeroes cost time: it grows, and never shrinks.
        self.bytes.resize(len.max(self.bytes.len()), 0);
        Ok(store.read(id, place.start, &mut self.bytes[..len])?)
    }

    /// The stored bytes and the content of a group which, with its header, is at this place of what
    /// was read.
    fn take(
        &mut self,
        id: ContainerId,
        wanted: &WantedGroup<'_>,
        read: Result<(), ArchiveError>,
        place: Range<usize>,
    ) -> (&[u8], Result<&[u8], ArchiveError>) {
        if let Err(error) = read {
            return (&[], Err(error));
        }
        let (group, front) = (&wanted.group, wanted.front);
        let (header, stored) = self.bytes[place].split_at(GROUP_HEADER_BYTES);
        if header != group.header(id) {
            let problem = "the header of a group is damaged";
            let error = ArchiveError::corrupt(id.to_string(), wanted.begin(), problem);
            return (&[], Err(error));
        }
        let decoded = self.decoder.decode(id, group, stored, front, &mut self.content);
        (stored, decoded.map(|()| &self.content[..front as usize]))
    }
}

/// Read a whole container and check every chunk of it. `take` sees each chunk, and what is wrong
/// with it.
pub fn check_chunks(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
    fingerprinter: &Fingerprinter,
    reader: &mut GroupReader,
    mut take: impl FnMut(&ChunkRef, Result<(), ArchiveError>),
) -> Result<(), ArchiveError> {
    let directory = read_directory(store, id, uuid)?;
    read_wanted(
        store,
        (id, &directory),
        reader,
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

    /// The first `front` bytes of the content of a group of container `id`, in the place of what
    /// `content` holds. It may hold anything behind them.
    pub fn decode(
        &mut self,
        id: ContainerId,
        group: &Group,
        stored: &[u8],
        front: u32,
        content: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let corrupt =
            |problem: String| ArchiveError::corrupt(id.to_string(), group.at.into(), problem);
        let len = group.len as usize;
        if len > self.group_bytes_max {
            return Err(corrupt(format!("a group of {len} bytes cannot be")));
        }
        // Zeroes cost time: it grows, and never shrinks.
        content.resize(len.max(content.len()), 0);
        self.decompressor
            .decompress_front(group.codec, stored, &mut content[..len], front as usize)
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
    use onefold_block::{Folder, SplitMix64};
    use onefold_content::{Codec, Compression, FingerprintKind};

    use super::*;
    use crate::container_writer::tests::{UUID, name, store, writer};
    use crate::format::group::GROUP_BYTES;

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
    fn a_group_is_decoded_up_to_the_last_chunk_that_is_wanted() {
        let (folder, store) = store();
        let mut writer = writer(&store, 1 << 20, Compression::Zstd(3));
        let data: Vec<u8> =
            SplitMix64::new(3).bytes(GROUP_BYTES).iter().map(|byte| byte % 17).collect();
        let fingerprinter = Fingerprinter::with_key(FingerprintKind::Blake3, [1; 32]);
        for data in data.chunks(1 << 14) {
            writer.append(ChunkName::of(&fingerprinter.hash(data)), data, GROUP_BYTES).unwrap();
        }
        writer.finish().unwrap();
        let (id, name) = (ContainerId::new(1), folder.list().unwrap().remove(0));
        let directory = read_directory(&*store, id, &UUID).unwrap();
        let end = u64::from(directory.groups.end());
        for at in end - (1 << 12)..end {
            folder.flip_bit(&name, at, 4).unwrap();
        }
        for (at, is_right) in [(0, true), (3, true), (15, false)] {
            let wanted = |chunk: &DirectoryEntry| chunk.offset == at << 14;
            let mut told = Vec::new();
            let reader = &mut GroupReader::new(0);
            read_wanted(&*store, (id, &directory), reader, wanted, |group| {
                let chunk = &group.chunks[at as usize];
                let right = group.bytes_of(chunk).is_ok_and(|bytes| {
                    check_name(&fingerprinter, &chunk.reference(id), bytes).is_ok()
                });
                told.push((right, group.content.as_ref().map_or(0, |content| content.len())));
                Ok(())
            })
            .unwrap();
            let front = if is_right { (at as usize + 1) << 14 } else { 0 };
            assert_eq!(told, [(is_right, front)], "chunk {at}");
        }
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
            let mut reader = GroupReader::new(0);
            check_chunks(&*store, id, &UUID, &fingerprinter, &mut reader, |chunk, result| {
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
        let wanted = |chunk: &DirectoryEntry| chunk.offset == 263_144;
        read_wanted(&*store, (id, &directory), &mut GroupReader::new(0), wanted, |group| {
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
        let decoded = GroupDecoder::new(0).decode(id, &group, &[0; 5], 5, &mut content);
        let why = corrupt(77, "a group of 2097153 bytes cannot be");
        assert_eq!(decoded.err().map(|error| error.to_string()), why);
        let zeroes = vec![0; 2_097_153];
        GroupDecoder::new(2_097_153).decode(id, &group, &zeroes, group.len, &mut content).unwrap();
        assert!(content == zeroes);
    }
    /// Notes what is read of a store.
    struct Noted(Arc<dyn ContainerStore>, std::sync::Mutex<Vec<(u64, usize)>>);

    impl onefold_block::StoreLayer for Noted {
        fn below(&self) -> &dyn ContainerStore {
            &*self.0
        }

        fn read(
            &self,
            id: ContainerId,
            offset: u64,
            buf: &mut [u8],
        ) -> Result<(), onefold_block::StoreError> {
            self.1.lock().unwrap().push((offset, buf.len()));
            self.0.read(id, offset, buf)
        }
    }

    #[test]
    fn groups_that_nobody_wants_are_skipped_where_they_are_long() {
        // With the header of the group.
        for (between, together) in [(GAP_BYTES as usize - 20, true), (GAP_BYTES as usize, false)] {
            let (_, store) = store();
            let mut writer = writer(&store, 1 << 20, Compression::None);
            for (number, len) in [300_000, between, 500, 600].into_iter().enumerate() {
                let entry = DirectoryEntry { name: name(number), offset: 0, len: len as u32 };
                let codec = Codec::Raw;
                let group = Group { begin: 0, len: entry.len, at: 0, stored: entry.len, codec };
                writer.copy_group(&[entry], &group, &vec![number as u8; len]).unwrap();
            }
            writer.finish().unwrap();
            let id = ContainerId::new(1);
            let directory = read_directory(&*store, id, &UUID).unwrap();
            let noted = Noted(store, std::sync::Mutex::default());
            let mut taken = Vec::new();
            let wanted = |chunk: &DirectoryEntry| chunk.len as usize != between;
            read_wanted(&noted, (id, &directory), &mut GroupReader::new(0), wanted, |group| {
                let content = group.content.as_ref().unwrap();
                taken.push((content.len(), content[0], content[content.len() - 1]));
                Ok(())
            })
            .unwrap();
            assert_eq!(taken, [(300_000, 0, 0), (500, 2, 2), (600, 3, 3)]);
            let behind = 40 + 300_020 + between as u64 + 20;
            let expected = if together {
                vec![(40, 300_020 + GAP_BYTES as usize + 520 + 620)]
            } else {
                vec![(40, 300_020), (behind, 520 + 620)]
            };
            assert_eq!(*noted.1.lock().unwrap(), expected, "{between} between");
        }
    }
}
