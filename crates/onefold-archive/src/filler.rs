//! Reads the chunks that are wanted of a container, with as few reads as they allow.
//! Room: onefold-archive.
//! Invariant: each wanted slot gets its chunk, which has the name of its reference, or an error.

use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprinter;

use crate::archive::Archive;
use crate::chunk_bytes::ChunkBytes;
use crate::containers::{self, GAP_BYTES, GroupDecoder};
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::group::{Group, GroupTable};

/// A chunk that is wanted, and the number of the place that wants it.
pub type WantedSlot = (ChunkRef, u64);

/// What came of a container.
#[derive(Default)]
pub struct Filled {
    /// The chunk of each place that wanted one; or why it cannot be had.
    pub chunks: Vec<(u64, Result<ChunkBytes, ArchiveError>)>,
    /// Bytes read for them.
    pub read_bytes: u64,
}

/// Who reads, with the memory for it.
pub struct Filler {
    store: Arc<dyn ContainerStore>,
    fingerprinter: Fingerprinter,
    decoder: GroupDecoder,
    buffer: Vec<u8>,
    content: Vec<u8>,
}

/// Slots that want chunks of one group, in the order of its content.
struct WantedGroup<'w> {
    group: Group,
    slots: &'w [WantedSlot],
}

impl WantedGroup<'_> {
    /// Bytes of the group's content up to where the last wanted chunk ends.
    fn front(&self) -> u32 {
        let end = self.slots.iter().map(|(chunk, _)| chunk.offset + chunk.len).max();
        end.map_or(0, |end| end - self.group.begin)
    }
}

impl Filler {
    /// Makes those of an archive.
    pub fn of(archive: &Archive) -> impl Fn() -> Self + Send + Sync + 'static + use<> {
        let chunk_bytes_max = archive.settings.sizes().max();
        let (store, fingerprinter) = (Arc::clone(&archive.store), archive.fingerprinter());
        move || Self {
            store: Arc::clone(&store),
            fingerprinter: fingerprinter.clone(),
            decoder: GroupDecoder::new(chunk_bytes_max),
            buffer: Vec::new(),
            content: Vec::new(),
        }
    }

    /// Read what is wanted of a container, in the order of its content.
    pub fn fill(&mut self, id: ContainerId, wanted: &[WantedSlot]) -> Filled {
        let mut filled = Filled::default();
        match containers::read_groups(&*self.store, id) {
            Ok(table) => self.fill_from(id, &table, wanted, &mut filled),
            Err(error) => filled.fail(wanted, |chunk| damage(chunk, &error)),
        }
        filled
    }

    fn fill_from(
        &mut self,
        id: ContainerId,
        table: &GroupTable,
        wanted: &[WantedSlot],
        filled: &mut Filled,
    ) {
        let group_of = |(chunk, _): &WantedSlot| table.find(chunk.offset, chunk.len);
        let mut groups = Vec::new();
        for slots in wanted.chunk_by(|a, b| group_of(a) == group_of(b)) {
            match slots.first().and_then(group_of) {
                Some(at) => groups.push(WantedGroup { group: table.groups()[at], slots }),
                None => filled.fail(slots, |chunk| {
                    let problem = "the container has nothing where this chunk should be";
                    ArchiveError::corrupt(chunk.container.to_string(), chunk.offset.into(), problem)
                }),
            }
        }
        let near = |a: &WantedGroup<'_>, b: &WantedGroup<'_>| {
            b.group.place().start <= a.group.place().end + GAP_BYTES
        };
        for run in groups.chunk_by(near) {
            self.fill_run(id, run, filled);
        }
    }

    /// Read chunks of groups that lie close together, with one read.
    fn fill_run(&mut self, id: ContainerId, run: &[WantedGroup<'_>], filled: &mut Filled) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let (start, end) = (first.group.place().start, last.group.place().end);
        let len = end.saturating_sub(start) as usize;
        // Zeroes cost time: it grows, and never shrinks.
        self.buffer.resize(len.max(self.buffer.len()), 0);
        let read = self.store.read(id, start, &mut self.buffer[..len]);
        filled.read_bytes += len as u64;
        // What cannot be read takes along no group that can.
        if read.is_err() && run.len() > 1 {
            for alone in run.chunks(1) {
                self.fill_run(id, alone, filled);
            }
            return;
        }
        if let Err(error) = read {
            let error = ArchiveError::from(error);
            for wanted in run {
                filled.fail(wanted.slots, |chunk| damage(chunk, &error));
            }
            return;
        }
        for wanted in run {
            let from = (wanted.group.place().start - start) as usize;
            let stored = &self.buffer[from..from + wanted.group.stored as usize];
            let (group, front) = (&wanted.group, wanted.front());
            match self.decoder.decode(id, group, stored, front, &mut self.content) {
                Ok(()) => self.fill_group(wanted, filled),
                Err(error) => filled.fail(wanted.slots, |chunk| damage(chunk, &error)),
            }
        }
    }

    /// Take chunks out of the group whose content was just decoded: those that are wanted one after
    /// the other in one piece, as they leave together.
    fn fill_group(&self, wanted: &WantedGroup<'_>, filled: &mut Filled) {
        let follows =
            |a: &WantedSlot, b: &WantedSlot| a.0.offset + a.0.len == b.0.offset && a.1 + 1 == b.1;
        let mut right: Option<ChunkRef> = None;
        for run in wanted.slots.chunk_by(follows) {
            let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { continue };
            let place = |offset: u32| (offset - wanted.group.begin) as usize;
            let content = &self.content[place(first.offset)..place(last.offset + last.len)];
            let piece = Arc::new(content.to_vec());
            for &(chunk, at) in run {
                let begin = (chunk.offset - first.offset) as usize;
                let data = ChunkBytes::of(Arc::clone(&piece), begin..begin + chunk.len as usize);
                // One that is wanted several times is compared once.
                let compared = if right == Some(chunk) {
                    Ok(())
                } else {
                    containers::check_name(&self.fingerprinter, &chunk, &data)
                };
                right = compared.is_ok().then_some(chunk);
                filled.chunks.push((at, compared.map(|()| data)));
            }
        }
    }
}

impl Filled {
    /// Give these slots an error in the place of their chunks.
    fn fail(&mut self, slots: &[WantedSlot], error: impl Fn(&ChunkRef) -> ArchiveError) {
        self.chunks.extend(slots.iter().map(|(chunk, at)| (*at, Err(error(chunk)))));
    }
}

/// What an error that stands before a chunk is to who wants the chunk: what cannot be had is damage
/// to it, whatever the reason.
fn damage(chunk: &ChunkRef, error: &ArchiveError) -> ArchiveError {
    if error.is_corruption() {
        return error.again();
    }
    ArchiveError::corrupt(chunk.container.to_string(), chunk.offset.into(), error.to_string())
}

#[cfg(test)]
mod tests {
    use onefold_block::{FaultKind, OpKind, SimFolder, SplitMix64};
    use onefold_content::Compression;

    use super::*;
    use crate::container_writer::ContainerWriter;
    use crate::format::chunk_ref::ChunkName;
    use crate::group_compressor::GroupCompressor;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    /// An archive with one container, of chunks of these lengths, each a group of its own.
    fn with_groups(lens: &[usize]) -> (SimFolder, Archive, Vec<ChunkRef>, Vec<Vec<u8>>) {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        let archive = Archive::open(Arc::new(folder.clone())).unwrap();
        let compressor = GroupCompressor::adding(Compression::None);
        let store = Arc::clone(&archive.store);
        let mut writer = ContainerWriter::new(store, identity.uuid, 1 << 20, compressor, 1);
        let (mut refs, mut all) = (Vec::new(), Vec::new());
        for (seed, &len) in (0..).zip(lens) {
            let data = SplitMix64::new(seed).bytes(len);
            let name = ChunkName::of(&archive.fingerprinter().hash(&data));
            let entry =
                crate::format::container::DirectoryEntry { name, offset: 0, len: len as u32 };
            let codec = onefold_content::Codec::Raw;
            let group = Group { begin: 0, len: len as u32, at: 0, stored: len as u32, codec };
            refs.extend(writer.copy_group(&[entry], &group, &data).unwrap());
            all.push(data);
        }
        writer.finish().unwrap();
        (folder, archive, refs, all)
    }

    #[test]
    fn what_lies_between_is_read_along_up_to_64_kib() {
        // Two headers lie between as well.
        for (between, together) in [((64 << 10) - 40, true), ((64 << 10) - 39, false)] {
            let (_, archive, refs, all) = with_groups(&[1000, between, 500]);
            let mut filler = Filler::of(&archive)();
            let filled = filler.fill(ContainerId::new(1), &[(refs[0], 7), (refs[2], 9)]);
            let gap = if together { 64 << 10 } else { 0 };
            assert_eq!(filled.read_bytes, 1500 + gap);
            let chunks: Vec<_> =
                filled.chunks.into_iter().map(|(at, c)| (at, c.unwrap().to_vec())).collect();
            assert!(chunks == [(7, all[0].clone()), (9, all[2].clone())]);
        }
    }

    #[test]
    fn groups_that_cannot_be_read_together_are_read_alone() {
        for groups in [2, 3] {
            let (folder, archive, refs, all) = with_groups(&[1000, 800, 900][..groups]);
            let wanted: Vec<WantedSlot> = refs.iter().copied().zip(0..).collect();
            let bytes: u64 = all.iter().map(|data| data.len() as u64).sum();
            let between = 20 * (groups as u64 - 1);
            let mut filler = Filler::of(&archive)();
            let filled = filler.fill(ContainerId::new(1), &wanted);
            assert_eq!(filled.read_bytes, bytes + between);
            // The second read is that of all groups.
            folder.fail_once(&[OpKind::Read], 2, FaultKind::Eio);
            let filled = filler.fill(ContainerId::new(1), &wanted);
            assert_eq!(filled.read_bytes, bytes + between + bytes);
            assert!(filled.chunks.iter().all(|(_, chunk)| chunk.is_ok()));
            // And then that of the first alone.
            folder.fail_once(&[OpKind::Read], 2, FaultKind::Eio);
            folder.fail_once(&[OpKind::Read], 3, FaultKind::Eio);
            let filled = filler.fill(ContainerId::new(1), &wanted);
            let whole: Vec<bool> = filled.chunks.iter().map(|(_, chunk)| chunk.is_ok()).collect();
            assert_eq!(whole, [false, true, true][..groups]);
        }
    }

    #[test]
    fn chunks_that_are_wanted_one_after_the_other_come_in_one_piece() {
        let (_, archive, _, _) = with_groups(&[]);
        let store = Arc::clone(&archive.store);
        let compressor = GroupCompressor::adding(Compression::Zstd(3));
        let uuid = archive.identity.uuid;
        let mut writer = ContainerWriter::new(store, uuid, 1 << 20, compressor, 1);
        let all = [[1_u8; 100], [2; 100], [3; 100], [4; 100], [5; 100]];
        let refs = all.map(|data| {
            let name = ChunkName::of(&archive.fingerprinter().hash(&data));
            writer.append(name, &data, 1 << 18).unwrap()
        });
        writer.finish().unwrap();
        let wrong = ChunkRef { name: ChunkName([9; 16]), ..refs[3] };
        // The second comes twice, and the fourth is not what it should be.
        let wanted =
            [(refs[0], 5), (refs[1], 6), (refs[1], 9), (refs[2], 20), (wrong, 21), (refs[4], 22)];
        let mut filled = Filler::of(&archive)().fill(ContainerId::new(1), &wanted);
        filled.chunks.sort_by_key(|(at, _)| *at);
        let mut pieces: Vec<ChunkBytes> = Vec::new();
        let mut lost = 0;
        for (_, chunk) in filled.chunks {
            let Ok(chunk) = chunk else {
                lost += 1;
                continue;
            };
            let apart = match pieces.last_mut() {
                Some(last) => last.join(chunk),
                None => Some(chunk),
            };
            pieces.extend(apart);
        }
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let together = [&all[0][..], &all[1]].concat();
        let expected = [together, all[1].to_vec(), all[2].to_vec(), all[4].to_vec()];
        assert_eq!((pieces, lost), (expected.to_vec(), 1));
    }

    #[test]
    fn each_that_wants_a_chunk_gets_it_or_why_not() {
        let (_, archive, refs, all) = with_groups(&[1000, 800]);
        let wrong = ChunkRef { name: ChunkName([9; 16]), ..refs[0] };
        let nothing = ChunkRef { offset: 900, len: 200, ..refs[0] };
        let beyond = ChunkRef { offset: 1800, len: 1, ..refs[0] };
        let wanted =
            [(refs[0], 0), (refs[0], 5), (wrong, 1), (nothing, 2), (refs[1], 3), (beyond, 4)];
        let filled = Filler::of(&archive)().fill(ContainerId::new(1), &wanted);
        let mut told: Vec<(u64, Result<usize, String>)> = filled
            .chunks
            .into_iter()
            .map(|(at, chunk)| {
                let chunk = chunk.map_err(|error| error.to_string());
                (at, chunk.map(|data| all.iter().position(|known| *known == *data).unwrap()))
            })
            .collect();
        told.sort_by_key(|(at, _)| *at);
        let corrupt =
            |at: u64, problem: &str| Err(format!("corrupt container 1 at byte {at}: {problem}"));
        let none = "the container has nothing where this chunk should be";
        let name = "the chunk at 0 of its content has a wrong fingerprint";
        let expected = [
            (0, Ok(0)),
            (1, corrupt(0, name)),
            (2, corrupt(900, none)),
            (3, Ok(1)),
            (4, corrupt(1800, none)),
            (5, Ok(0)),
        ];
        assert_eq!(told, expected);
    }
}
