//! Any bytes of any file, by the chunks that they lie in.
//! Room: onefold-archive.
//! Invariant: a byte that is handed out is of a chunk whose fingerprint was right.
//! Cost: chunks and what was read ahead within the given memory; per open file 8 bytes per 1,024
//! chunks, and the references of 1,024 of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::{ContainerId, ContainerStore, StoreError};

use crate::archive::Archive;
use crate::cache::Cache;
use crate::containers::{self, GroupDecoder};
use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkName, ChunkRef, REF_BYTES};
use crate::format::entry::{Entry, Recipe};
use crate::format::group::{Group, GroupTable};
use crate::version::Version;
use onefold_content::Fingerprinter;

/// References that are looked at together.
const BLOCK_CHUNKS: u64 = 1024;
/// Bytes of a container that are read for a chunk that follows on nothing.
const AHEAD_MIN: u64 = 128 << 10;
/// Bytes that are read at most where one read follows on another.
const AHEAD_MAX: u64 = 1 << 20;
/// Bytes between two reads of which the second still follows on the first.
const GAP_BYTES: u64 = 64 << 10;
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

/// Bytes of a container that were read ahead.
struct Window {
    id: ContainerId,
    start: u64,
    bytes: Arc<Vec<u8>>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
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
    /// The chunk of the greatest size that is all zeroes, as runs of zeroes are cut.
    zeroes: ChunkName,
    windows: Mutex<VecDeque<Window>>,
    window_bytes: u64,
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
        let zeroes = ChunkName::of(&fingerprinter.hash(&vec![0; chunk_bytes_max]));
        Self {
            store: Arc::clone(&archive.store),
            fingerprinter,
            chunk_bytes_max,
            zeroes,
            windows: Mutex::default(),
            window_bytes: (budget_bytes / 4).max(AHEAD_MAX),
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
            let first = block.partition_point(|(begin, _)| *begin <= at).saturating_sub(1);
            for (begin, chunk) in &block[first..] {
                if at >= end {
                    break;
                }
                // Where chunks are empty several begin at one byte.
                let Some(from) = at.checked_sub(*begin) else { break };
                let to = (end - begin).min(chunk.len.into());
                if from >= to {
                    continue;
                }
                self.copy(chunk, from as usize..to as usize, out)?;
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
        range: std::ops::Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        if chunk.name == self.zeroes && chunk.len as usize == self.chunk_bytes_max {
            out.resize(out.len() + range.len(), 0);
            return Ok(());
        }
        let kept = lock(&self.chunks).get(chunk);
        let data = if let Some(data) = kept {
            data
        } else {
            let data = Arc::new(self.decode(chunk)?);
            let bytes = data.len() as u64 + OVERHEAD;
            lock(&self.chunks).put(*chunk, Arc::clone(&data), bytes);
            data
        };
        out.extend_from_slice(&data[range]);
        Ok(())
    }

    fn decode(&self, chunk: &ChunkRef) -> Result<Vec<u8>, ArchiveError> {
        let (id, table) = (chunk.container, self.table(chunk.container)?);
        let group = table.find(chunk.offset, chunk.len).ok_or_else(|| {
            let problem = "the container has nothing where this chunk should be";
            ArchiveError::corrupt(id.to_string(), chunk.offset.into(), problem)
        })?;
        let group = table.groups()[group];
        let content = self.group(id, &group)?;
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

    /// The content of a group.
    fn group(&self, id: ContainerId, group: &Group) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let key = (id, group.begin);
        if let Some(content) = lock(&self.groups).get(&key) {
            return Ok(content);
        }
        let place = group.place();
        let corrupt = |problem: String| ArchiveError::corrupt(id.to_string(), place.start, problem);
        let window = self.window(id, place.start, place.end);
        let window = window.map_err(|error| corrupt(ArchiveError::from(error).to_string()))?;
        let window =
            window.ok_or_else(|| corrupt("the container ends before this group".to_owned()))?;
        let stored = &window.bytes[(place.start - window.start) as usize..];
        let stored = &stored[..group.stored as usize];
        let decoder = lock(&self.decoders).pop();
        let mut decoder = decoder.unwrap_or_else(|| GroupDecoder::new(self.chunk_bytes_max));
        let mut content = Vec::new();
        let decoded = decoder.decode(id, group, stored, &mut content);
        lock(&self.decoders).push(decoder);
        decoded?;
        let content = Arc::new(content);
        let bytes = content.len() as u64 + OVERHEAD;
        lock(&self.groups).put(key, Arc::clone(&content), bytes);
        Ok(content)
    }

    /// Bytes of a container from `start` to `end`, and what is read along with them; `None` if it
    /// is shorter.
    fn window(&self, id: ContainerId, start: u64, end: u64) -> Result<Option<Window>, StoreError> {
        let mut ahead = AHEAD_MIN;
        for window in lock(&self.windows).iter() {
            if window.id != id {
                continue;
            }
            if window.start <= start && end <= window.end() {
                let bytes = Arc::clone(&window.bytes);
                return Ok(Some(Window { id, start: window.start, bytes }));
            }
            let follows = window.start <= start && start <= window.end() + GAP_BYTES;
            if follows {
                ahead = ahead.max(2 * window.bytes.len() as u64).min(AHEAD_MAX);
            }
        }
        let len = self.store.len(id)?;
        if end > len {
            return Ok(None);
        }
        let to = len.min(start + ahead).max(end);
        let mut bytes = vec![0; (to - start) as usize];
        if self.store.read(id, start, &mut bytes).is_err() {
            // What cannot be read takes along no chunk that can.
            bytes.truncate((end - start) as usize);
            self.store.read(id, start, &mut bytes)?;
        }
        let bytes = Arc::new(bytes);
        let mut windows = lock(&self.windows);
        windows.push_back(Window { id, start, bytes: Arc::clone(&bytes) });
        let mut total: u64 = windows.iter().map(|window| window.bytes.len() as u64).sum();
        while total > self.window_bytes {
            let Some(gone) = windows.pop_front() else { break };
            total -= gone.bytes.len() as u64;
        }
        Ok(Some(Window { id, start, bytes }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
