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
