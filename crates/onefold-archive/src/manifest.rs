//! A version's file while it is written: references and entries as they come, the tail at the end.
//! Room: onefold-archive.
//! Invariant: neither a reference nor an entry lies across two pages of the file.
//! Cost: 12 bytes of memory per entry, 8 per container referred to, a page.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_block::{ContainerId, Folder};

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkRef, REF_BYTES};
use crate::format::entry::{self, Entry};
use crate::format::log_record::VersionInfo;
use crate::format::version_file::{self, ContainerUse, Header, Row, file_name};
use crate::packed::{PAGE_BYTES, PackedWriter};

/// Writes a version's file.
pub struct Manifest {
    header: Header,
    folder: Arc<dyn Folder>,
    file: PackedWriter,
    written: u64,
    /// The page that is gathered.
    buffer: Vec<u8>,
    rows: Vec<Row>,
    uses: BTreeMap<ContainerId, u64>,
}

impl Manifest {
    /// The beginning of the version that `header` tells of.
    pub fn create(folder: Arc<dyn Folder>, header: Header) -> Result<Self, ArchiveError> {
        let media = folder.create(&file_name(header.number, header.generation))?;
        let plain = version_file::encode_header(&header);
        let file = PackedWriter::create(media, header.settings.compression, &plain)?;
        let (rows, uses) = (Vec::new(), BTreeMap::new());
        let written = plain.len() as u64;
        Ok(Self { header, folder, file, written, buffer: Vec::new(), rows, uses })
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Add a chunk to the file that is under way.
    pub fn chunk(&mut self, chunk: &ChunkRef) -> Result<(), ArchiveError> {
        let position = self.position();
        chunk.encode(self.header.number, position, &mut self.buffer);
        *self.uses.entry(chunk.container).or_default() += u64::from(chunk.len);
        self.flush_beyond(PAGE_BYTES)
    }

    /// Take the last `chunks` chunks back; their file is not going to be in the version. What has
    /// been written of them stays as unused bytes.
    pub fn take_back(&mut self, chunks: u64) {
        let bytes = chunks as usize * REF_BYTES;
        if bytes <= self.buffer.len() {
            self.buffer.truncate(self.buffer.len() - bytes);
        }
    }

    /// Add an entry.
    pub fn entry(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        let at = self.position();
        let bytes = entry::encode(entry, at);
        self.rows.push(Row { at, len: bytes.len() as u32 });
        self.buffer.extend(bytes);
        self.flush_beyond(PAGE_BYTES)
    }

    fn flush_beyond(&mut self, limit: usize) -> Result<(), ArchiveError> {
        if self.buffer.len() > limit {
            self.file.write(&self.buffer)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// The containers referred to so far.
    pub fn containers(&self) -> impl Iterator<Item = ContainerId> {
        self.uses.keys().copied()
    }

    /// Write the tail and make the file durable. Returns the version as the log is to tell of it:
    /// `info` with the fields about the file.
    pub fn finish(
        &mut self,
        info: VersionInfo,
        next_container: u32,
    ) -> Result<VersionInfo, ArchiveError> {
        let most = u64::from(u32::MAX);
        let uses: Vec<ContainerUse> = self
            .uses
            .iter()
            .map(|(&id, &bytes)| ContainerUse { id, bytes: bytes.min(most) as u32 })
            .collect();
        let Header { number, generation, .. } = self.header;
        let info = VersionInfo { number, generation, ..info };
        let position = self.position();
        let (tail, footer_checksum) =
            version_file::encode_tail(&info, next_container, &self.rows, &uses, position);
        // Damage to what a version holds is not to take along what tells of it.
        self.flush_beyond(0)?;
        self.file.write(&tail)?;
        let file_bytes = self.file.finish()?;
        self.folder.sync_names()?;
        Ok(VersionInfo { file_bytes, footer_checksum, ..info })
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;
    use onefold_content::Compression;

    use super::*;
    use crate::format::chunk_ref::ChunkName;
    use crate::packed::PackedFile;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    fn manifest() -> (SimFolder, Manifest) {
        let folder = SimFolder::new();
        let settings =
            ArchiveSettings { compression: Compression::None, ..ArchiveSettings::default() };
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        let header = Header { number: 4, generation: 0, settings, identity };
        let manifest = Manifest::create(Arc::new(folder.clone()), header).unwrap();
        (folder, manifest)
    }

    fn chunk(container: u32, len: u32) -> ChunkRef {
        let name = ChunkName([0; 16]);
        ChunkRef { container: ContainerId::new(container), offset: 0, len, name }
    }

    #[test]
    fn chunks_are_taken_back_as_far_as_they_are_not_written_yet() {
        let (_, mut manifest) = manifest();
        assert_eq!(manifest.position(), 110);
        for _ in 0..3 {
            manifest.chunk(&chunk(1, 5)).unwrap();
        }
        assert_eq!(manifest.position(), 110 + 96);
        manifest.take_back(1);
        assert_eq!(manifest.position(), 110 + 64);
        manifest.take_back(2);
        assert_eq!((manifest.position(), manifest.buffer.len()), (110, 0));
        // A page is written once it has more than 64 KiB.
        for number in 1..=2049_u64 {
            manifest.chunk(&chunk(1, 5)).unwrap();
            let waiting = if number == 2049 { 0 } else { number * 32 };
            assert_eq!(manifest.buffer.len() as u64, waiting, "{number}");
        }
        manifest.chunk(&chunk(1, 5)).unwrap();
        manifest.take_back(2050);
        assert_eq!((manifest.position(), manifest.buffer.len()), (110 + 2050 * 32, 32));
    }

    #[test]
    fn what_is_used_of_a_container_is_counted_up_to_what_its_field_holds() {
        let (folder, mut manifest) = manifest();
        for (container, len) in [(7, u32::MAX), (2, 5), (7, u32::MAX), (3, u32::MAX), (2, 6)] {
            manifest.chunk(&chunk(container, len)).unwrap();
        }
        let ids: Vec<u32> = manifest.containers().map(ContainerId::get).collect();
        assert_eq!(ids, [2, 3, 7]);
        let info = VersionInfo { number: 9, time_s: 5, ..VersionInfo::default() };
        let info = manifest.finish(info, 8).unwrap();
        assert_eq!((info.number, info.time_s), (4, 5));
        let name = file_name(4, 0);
        let media = folder.open(&name).unwrap();
        assert_eq!(info.file_bytes, media.len().unwrap());
        let file = PackedFile::open(media, &name, version_file::HEADER_BYTES).unwrap();
        let end = file.read(file.len() - 60, 60).unwrap();
        let footer = version_file::decode_footer(&end, &name, (4, 0), file.len()).unwrap();
        assert_eq!((footer.rows, footer.uses, footer.rows_at), (0, 3, 110 + 5 * 32));
        let uses = file.read(footer.uses_at, 24).unwrap();
        let uses = version_file::decode_uses(&uses, &name, &footer).unwrap();
        let uses: Vec<(u32, u32)> = uses.iter().map(|used| (used.id.get(), used.bytes)).collect();
        assert_eq!(uses, [(2, 11), (3, u32::MAX), (7, u32::MAX)]);
    }
}
