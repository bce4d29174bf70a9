//! A container that is still in memory: being filled, or sealed and on its way to the store.
//! Room: onefold-pool.
//! Invariants: (1) bytes once appended never change; (2) `written` is how much of them the store
//! has; (3) after sealing, directory and footer follow the last record.

use std::iter::Peekable;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use onefold_block::{ContainerId, ContainerStore};

use super::buffer::Buffer;
use super::directories::Known;
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry, Owner};
use crate::format::record;
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, Location, Pba, UNIT_BYTES};
use crate::plan::Draft;
use crate::sync;

/// A container in memory.
pub struct OpenContainer {
    id: ContainerId,
    capacity: usize,
    content: RwLock<Content>,
    progress: Mutex<Progress>,
}

struct Content {
    buffer: Buffer,
    directory: Vec<DirectoryEntry>,
    /// Byte at which the directory begins, once sealed.
    directory_at: Option<usize>,
}

impl Content {
    fn len(&self) -> usize {
        self.buffer.bytes().len()
    }
}

/// How far the store has followed.
#[derive(Default)]
struct Progress {
    written: usize,
    synced: usize,
    /// The store has been told the final length.
    sealed: bool,
    sealed_synced: bool,
}

impl OpenContainer {
    /// An empty container of at most `capacity` bytes, in a buffer of that size, made while the
    /// journal was at `epoch`.
    pub fn new(
        id: ContainerId,
        capacity: usize,
        (uuid, epoch): (&[u8; 16], u64),
        mut buffer: Buffer,
    ) -> Self {
        buffer.begin(id);
        buffer.extend(&container::encode_header(id, uuid, epoch));
        let content = Content { buffer, directory: Vec::new(), directory_at: None };
        Self { id, capacity, content: RwLock::new(content), progress: Mutex::default() }
    }

    /// Its number.
    pub const fn id(&self) -> ContainerId {
        self.id
    }

    fn content(&self) -> RwLockReadGuard<'_, Content> {
        sync::read(&self.content)
    }

    fn content_mut(&self) -> std::sync::RwLockWriteGuard<'_, Content> {
        sync::write(&self.content)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        sync::lock(&self.progress)
    }

    /// Append drafted records, whose bytes are in `records`, as many as fit; `placed` hears of each
    /// with its ordinal and its address. `owner` tells for which block each is written.
    pub fn append<'d>(
        &self,
        records: &mut [u8],
        drafts: &mut Peekable<impl Iterator<Item = &'d Draft>>,
        owner: impl Fn(&Draft) -> Owner,
        mut placed: impl FnMut(&Draft, u16, Pba),
    ) {
        let mut content = self.content_mut();
        assert!(content.directory_at.is_none(), "a sealed container takes no records");
        let content = &mut *content;
        while let Some(draft) = drafts.peek() {
            let (count, at) = (content.directory.len(), content.len());
            if !self.fits(content, 1, draft.range.len()) {
                return;
            }
            let location = Location::new(at / UNIT_BYTES, draft.range.len() / UNIT_BYTES);
            let pba = Pba { container: self.id, location };
            let bytes = &mut records[draft.range.clone()];
            record::place(bytes, pba);
            content.buffer.extend(bytes);
            let (fingerprint, owner) = (draft.fingerprint, owner(draft));
            content.directory.push(DirectoryEntry { fingerprint, location, owner });
            placed(draft, count as u16, pba);
            drafts.next();
        }
    }

    /// Whether so many records of so many bytes together have room.
    pub fn has_room(&self, count: usize, bytes: usize) -> bool {
        let content = self.content();
        content.directory_at.is_none() && self.fits(&content, count, bytes)
    }

    fn fits(&self, content: &Content, count: usize, bytes: usize) -> bool {
        let count = content.directory.len() + count;
        count <= CHUNKS_PER_CONTAINER_MAX
            && content.len() + bytes + container::directory_bytes(count) <= self.capacity
    }

    /// No more records. Returns the final length in bytes and the number of records.
    pub fn seal(&self) -> (usize, usize) {
        let mut content = self.content_mut();
        if content.directory_at.is_none() {
            let at = content.len();
            let tail = container::encode_directory(self.id, &content.directory, at);
            content.buffer.extend(&tail);
            content.directory_at = Some(at);
        }
        (content.len(), content.directory.len())
    }

    /// Whether it takes no more records.
    pub fn is_sealed(&self) -> bool {
        self.content().directory_at.is_some()
    }

    /// Whether nothing was ever appended.
    pub fn is_unused(&self) -> bool {
        self.content().directory.is_empty()
    }

    /// Bytes and records so far.
    pub fn fill(&self) -> (usize, usize) {
        let content = self.content();
        (content.len(), content.directory.len())
    }

    /// Bring the store up to date with what is in memory.
    pub fn write_out(&self, store: &dyn ContainerStore) -> Result<(), PoolError> {
        let mut progress = self.progress();
        let content = self.content();
        if progress.sealed {
            return Ok(());
        }
        let bytes = &content.buffer.bytes()[progress.written..];
        if !bytes.is_empty() {
            store.append(self.id, progress.written as u64, bytes)?;
            progress.written = content.len();
        }
        if content.directory_at.is_some() {
            store.seal(self.id, content.len() as u64)?;
            progress.sealed = true;
        }
        Ok(())
    }

    /// Make everything that is in memory now durable. True if it is sealed and wholly durable, so
    /// that the store alone can serve it from here on.
    pub fn sync(&self, store: &dyn ContainerStore) -> Result<bool, PoolError> {
        self.write_out(store)?;
        let (written, sealed) = {
            let progress = self.progress();
            if progress.synced == progress.written && progress.sealed == progress.sealed_synced {
                return Ok(progress.sealed);
            }
            (progress.written, progress.sealed)
        };
        store.sync(self.id)?;
        let mut progress = self.progress();
        progress.synced = progress.synced.max(written);
        progress.sealed_synced |= sealed;
        Ok(sealed)
    }

    /// The directory, once sealed and until its memory was released. What is sealed is not empty.
    pub fn directory(&self) -> Option<Arc<[Known]>> {
        let content = self.content();
        let here = content.directory_at.is_some() && !content.directory.is_empty();
        here.then(|| Known::all(&content.directory))
    }

    /// 64 bits of the fingerprints of its records so far, until its memory was released.
    pub fn hashes(&self) -> Vec<u64> {
        self.content().directory.iter().map(|entry| entry.fingerprint.prefix64()).collect()
    }

    /// The store has everything: reads go there from now on. Gives the buffer up for the next one.
    pub fn release_memory(&self) -> Buffer {
        let sealed = self.progress().sealed;
        assert!(sealed, "only what is written out may leave memory");
        let mut content = self.content_mut();
        content.directory = Vec::new();
        std::mem::take(&mut content.buffer)
    }

    /// Memory in use, in bytes: buffer and directory.
    pub fn memory_bytes(&self) -> usize {
        let content = self.content();
        content.buffer.capacity() + content.directory.capacity() * size_of::<DirectoryEntry>()
    }

    /// Copy bytes from `offset`; false if they are not (or no longer) here.
    pub fn read(&self, offset: usize, buf: &mut [u8]) -> bool {
        let content = self.content();
        content.buffer.bytes().get(offset..offset + buf.len()).is_some_and(|bytes| {
            buf.copy_from_slice(bytes);
            true
        })
    }

    /// The directory entry of the record with this ordinal.
    pub fn entry(&self, ordinal: usize) -> Option<DirectoryEntry> {
        self.content().directory.get(ordinal).copied()
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::Lba;
    use onefold_content::Fingerprint;

    use super::*;

    fn opened(capacity: usize) -> OpenContainer {
        let buffer = Buffer::new(capacity).unwrap();
        OpenContainer::new(ContainerId::new(1), capacity, (&[1; 16], 1), buffer)
    }

    #[test]
    fn a_container_is_filled_to_its_last_byte() {
        let first = container::HEADER_BYTES + 2 * UNIT_BYTES;
        let whole = first + container::directory_bytes(1);
        assert!(opened(whole).has_room(1, 2 * UNIT_BYTES));
        assert!(!opened(whole).has_room(1, 2 * UNIT_BYTES + 1));
        assert!(!opened(whole - 1).has_room(1, 2 * UNIT_BYTES));
    }

    #[test]
    fn a_container_takes_as_many_records_as_their_numbers_go() {
        let open = opened(4 << 20);
        let mut records = vec![0; UNIT_BYTES * CHUNKS_PER_CONTAINER_MAX * 2];
        let drafts: Vec<Draft> = (0..=CHUNKS_PER_CONTAINER_MAX)
            .map(|chunk| Draft {
                chunk,
                fingerprint: Fingerprint::from_bytes([7; 32]),
                range: chunk * UNIT_BYTES..(chunk + 1) * UNIT_BYTES,
            })
            .collect();
        let owner = |draft: &Draft| Owner { volume: 1, lba: Lba::new(draft.chunk as u64) };
        let mut append = |drafts: &[Draft]| {
            let mut placed = Vec::new();
            let mut drafts = drafts.iter().peekable();
            open.append(&mut records, &mut drafts, owner, |_, ordinal, _| placed.push(ordinal));
            (placed.len(), placed.last().copied(), drafts.count())
        };
        let last = CHUNKS_PER_CONTAINER_MAX - 1;
        assert!(open.has_room(last + 1, UNIT_BYTES) && !open.has_room(last + 2, UNIT_BYTES));
        assert_eq!(append(&drafts[..last]).0, last);
        assert!(open.has_room(1, UNIT_BYTES) && !open.has_room(2, UNIT_BYTES));
        assert_eq!(append(&drafts[last..]), (1, Some(last as u16), 1));
        assert!(!open.has_room(1, UNIT_BYTES));
    }
}
