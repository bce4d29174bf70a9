//! Chunks that long holes are cut into, known by their names: what is in them need not be read.
//! Room: onefold-archive.
//! Cost: zeroes of the longer one, and to hash them once.

use std::sync::Arc;

use crate::archive::Archive;
use crate::chunk_bytes::ChunkBytes;
use crate::chunk_stream::hole_bytes;
use crate::format::chunk_ref::{ChunkName, ChunkRef};

/// Those of an archive.
pub struct ZeroChunks {
    /// Length and name: of the greatest chunk that is cut, and of such put together.
    known: [(u32, ChunkName); 2],
    zeroes: Arc<Vec<u8>>,
}

impl ZeroChunks {
    /// Those of an archive, by its settings and the key of its names.
    pub fn of(archive: &Archive) -> Self {
        let chunk_bytes_max = archive.settings.sizes().max();
        let hole_bytes = hole_bytes(chunk_bytes_max, archive.settings.container_bytes as usize);
        let zeroes = Arc::new(vec![0; chunk_bytes_max.max(hole_bytes)]);
        let fingerprinter = archive.fingerprinter();
        let known = [chunk_bytes_max, hole_bytes]
            .map(|len| (len as u32, ChunkName::of(&fingerprinter.hash(&zeroes[..len]))));
        Self { known, zeroes }
    }

    /// Whether a chunk is one of them.
    pub fn has(&self, chunk: &ChunkRef) -> bool {
        self.known.contains(&(chunk.len, chunk.name))
    }

    /// The content of a chunk that is one of them.
    pub fn content(&self, chunk: &ChunkRef) -> Option<ChunkBytes> {
        self.has(chunk).then(|| ChunkBytes::zeroes(Arc::clone(&self.zeroes), chunk.len as usize))
    }
}
