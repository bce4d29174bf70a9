//! Containers as they are filled, and chunks as they are read back.
//! Room: onefold-archive.
//! Invariant: a chunk that is handed out has the name that its reference gives.

use std::sync::Arc;

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::{Codec, Compressor, Decompressor, Fingerprint, Fingerprinter};

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef};
use crate::format::container::{
    self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES, Footer, HEADER_BYTES,
};

/// Written containers that may wait for their sync.
const UNSYNCED_MAX: usize = 32;

/// Fills one container after the other.
pub struct ContainerWriter {
    store: Arc<dyn ContainerStore>,
    uuid: [u8; 16],
    capacity: usize,
    compressor: Compressor,
    id: ContainerId,
    bytes: Vec<u8>,
    entries: Vec<DirectoryEntry>,
    unsynced: Vec<ContainerId>,
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
        let (bytes, entries) = (container::encode_header(id, &uuid), Vec::new());
        let unsynced = Vec::new();
        Self { store, uuid, capacity, compressor, id, bytes, entries, unsynced }
    }

    /// The container that is being filled.
    pub const fn open(&self) -> ContainerId {
        self.id
    }

    /// The number that the next new container would get if this one were closed now.
    pub fn next(&self) -> u32 {
        self.id.get() + u32::from(!self.entries.is_empty())
    }

    /// Store a chunk.
    pub fn append(
        &mut self,
        fingerprint: &Fingerprint,
        data: &[u8],
    ) -> Result<ChunkRef, ArchiveError> {
        let tail = |chunks: usize| chunks * ENTRY_BYTES + FOOTER_BYTES;
        if self.bytes.len() + data.len() + tail(self.entries.len() + 1) > self.capacity {
            self.close()?;
        }
        let start = self.bytes.len();
        let codec = self.compressor.compress_into(data, &mut self.bytes, data.len() - 1);
        if codec == Codec::Raw {
            self.bytes.extend_from_slice(data);
        }
        let entry = DirectoryEntry {
            fingerprint: *fingerprint,
            offset: start as u32,
            stored: (self.bytes.len() - start) as u32,
            codec,
            len: data.len() as u32,
        };
        self.entries.push(entry);
        Ok(entry.reference(self.id))
    }

    /// Store a chunk that lies in another container, as it is there.
    pub fn copy(
        &mut self,
        entry: &DirectoryEntry,
        stored: &[u8],
    ) -> Result<ChunkRef, ArchiveError> {
        let tail = (self.entries.len() + 1) * ENTRY_BYTES + FOOTER_BYTES;
        if self.bytes.len() + stored.len() + tail > self.capacity {
            self.close()?;
        }
        let entry = DirectoryEntry { offset: self.bytes.len() as u32, ..*entry };
        self.bytes.extend_from_slice(stored);
        self.entries.push(entry);
        Ok(entry.reference(self.id))
    }

    /// Write out what is in memory, and begin the next container.
    fn close(&mut self) -> Result<(), ArchiveError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend(container::encode_directory(self.id, &self.entries, at));
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

/// The directory of a container.
pub fn read_directory(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
) -> Result<Vec<DirectoryEntry>, ArchiveError> {
    let len = store.len(id)?;
    if len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(ArchiveError::corrupt(id.to_string(), 0, format!("it has {len} bytes only")));
    }
    let mut header = [0; HEADER_BYTES];
    store.read(id, 0, &mut header)?;
    container::check_header(&header, id, uuid)?;
    let mut footer = [0; FOOTER_BYTES];
    store.read(id, len - FOOTER_BYTES as u64, &mut footer)?;
    let footer: Footer = container::decode_footer(&footer, id, len)?;
    let mut bytes = vec![0; footer.count as usize * ENTRY_BYTES];
    store.read(id, footer.directory_at.into(), &mut bytes)?;
    container::decode_directory(&bytes, id, &footer)
}

/// Read a whole container and check every chunk of it. `take` sees each chunk, and what is wrong
/// with it.
pub fn check_chunks(
    store: &dyn ContainerStore,
    id: ContainerId,
    uuid: &[u8; 16],
    decoder: &mut ChunkDecoder,
    mut take: impl FnMut(&ChunkRef, Result<(), ArchiveError>),
) -> Result<(), ArchiveError> {
    let entries = read_directory(store, id, uuid)?;
    let mut bytes = vec![0; store.len(id)? as usize];
    let whole = store.read(id, 0, &mut bytes).is_ok();
    let mut alone = Vec::new();
    for entry in entries {
        let chunk = entry.reference(id);
        let start = chunk.offset as usize;
        let stored = if whole {
            Ok(bytes.get(start..start + chunk.stored as usize).unwrap_or_default())
        } else {
            // What cannot be read takes along no chunk that can.
            alone.resize(chunk.stored as usize, 0);
            store.read(id, chunk.offset.into(), &mut alone).map(|()| &alone[..])
        };
        let result = stored.map_err(ArchiveError::from);
        take(&chunk, result.and_then(|stored| decoder.decode(&chunk, stored).map(drop)));
    }
    Ok(())
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

/// Turns stored bytes back into chunks, and checks them.
pub struct ChunkDecoder {
    fingerprinter: Fingerprinter,
    decompressor: Decompressor,
    chunk_bytes_max: usize,
}

impl ChunkDecoder {
    /// A decoder of chunks of at most `chunk_bytes_max`.
    pub fn new(fingerprinter: Fingerprinter, chunk_bytes_max: usize) -> Self {
        Self { fingerprinter, decompressor: Decompressor::new(), chunk_bytes_max }
    }

    /// The chunk that `stored` holds, if it is the one meant.
    pub fn decode(&mut self, chunk: &ChunkRef, stored: &[u8]) -> Result<Vec<u8>, ArchiveError> {
        let corrupt = |problem: String| {
            ArchiveError::corrupt(chunk.container.to_string(), chunk.offset.into(), problem)
        };
        let len = chunk.len as usize;
        if len > self.chunk_bytes_max {
            return Err(corrupt(format!("a chunk of {len} bytes cannot be")));
        }
        let mut data = vec![0; len];
        self.decompressor
            .decompress_into(chunk.codec, stored, &mut data)
            .map_err(|error| corrupt(error.to_string()))?;
        if ChunkName::of(&self.fingerprinter.hash(&data)) != chunk.name {
            return Err(corrupt("the chunk's fingerprint is wrong".to_owned()));
        }
        Ok(data)
    }
}
