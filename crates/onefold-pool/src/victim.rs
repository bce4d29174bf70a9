//! Containers that are to be emptied, each read once and as a whole.
//! Room: onefold-pool.
//! In: a sealed container. Out: its directory, and records that were verified.
//! Cost: one read of the container, past the page cache where that is possible: it is read to be
//! removed. The memory is kept from one container to the next.

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprint;

use crate::container::buffer::Buffer;
use crate::container::directories;
use crate::error::PoolError;
use crate::format::container::DirectoryEntry;
use crate::format::record;
use crate::pba::Pba;

/// Read by themselves where a container cannot be read as a whole.
const PIECE_BYTES: usize = 64 << 10;

/// Memory to read containers into.
#[derive(Default)]
pub struct Reader {
    buffer: Buffer,
}

/// A container in memory.
pub struct Victim<'a> {
    id: ContainerId,
    bytes: &'a [u8],
    /// Its directory, in the order of locations.
    pub entries: Vec<DirectoryEntry>,
}

impl Reader {
    /// Read a container of `len` bytes, which are at most `most` in any container.
    pub fn read(
        &mut self,
        store: &dyn ContainerStore,
        id: ContainerId,
        (len, most): (u32, u32),
    ) -> Result<Victim<'_>, PoolError> {
        store.read(id, 0, self.room(len, most)?)?;
        let bytes = self.buffer.bytes();
        Ok(Victim { id, bytes, entries: directories::of(bytes, id)? })
    }

    /// The bytes of a container as far as they can be read, zeroes where not, and the first error.
    /// One that is not there, or of which nothing can be read, is an error.
    pub fn read_bytes(
        &mut self,
        store: &dyn ContainerStore,
        id: ContainerId,
        (len, most): (u32, u32),
    ) -> Result<(&[u8], Option<PoolError>), PoolError> {
        let bytes = self.room(len, most)?;
        let Err(whole) = store.read(id, 0, bytes) else { return Ok((self.buffer.bytes(), None)) };
        let there = store.len(id)?.min(u64::from(len)) as usize;
        let (mut read, mut first) = (0, PoolError::from(whole));
        for (piece, at) in bytes.chunks_mut(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
            let (here, past) = piece.split_at_mut(there.saturating_sub(at).min(piece.len()));
            past.fill(0);
            match store.read(id, at as u64, here) {
                Ok(()) => read += here.len(),
                Err(error) => {
                    here.fill(0);
                    first = error.into();
                }
            }
        }
        if read == 0 { Err(first) } else { Ok((self.buffer.bytes(), Some(first))) }
    }

    fn room(&mut self, len: u32, most: u32) -> Result<&mut [u8], PoolError> {
        let len = len as usize;
        if self.buffer.capacity() < len {
            self.buffer = Buffer::new(len.max(most as usize))?;
        }
        Ok(self.buffer.of_len(len))
    }
}

impl Victim<'_> {
    /// The record at an address, verified, and the fingerprint that the directory has of it. `None`
    /// if there is none or it is damaged: it stays where it is, to be named when it is read.
    pub fn record(&self, pba: Pba) -> Option<(&[u8], Fingerprint)> {
        let location = pba.location;
        let found = self.entries.binary_search_by_key(&location, |entry| entry.location);
        let entry = &self.entries[found.ok()?];
        let bytes = self.bytes.get(location.offset_bytes()..location.end_bytes())?;
        match record::verify(bytes, pba) {
            Ok(_) => Some((bytes, entry.fingerprint)),
            Err(problem) => {
                let at = location.offset_bytes();
                tracing::error!("a record of {} at byte {at} is not moved: {problem}", self.id);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{FaultKind, Folder as _, FolderContainerStore, OpKind, SimFolder};

    use super::*;

    const ID: ContainerId = ContainerId::new(5);
    const LEN: usize = 150_000;

    fn store() -> (SimFolder, FolderContainerStore, Vec<u8>) {
        let folder = SimFolder::new();
        let store = FolderContainerStore::new(folder.subfolder("containers").unwrap());
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 250) as u8 + 1).collect();
        store.create(ID, 256 << 10).unwrap();
        store.append(ID, 0, &bytes).unwrap();
        (folder, store, bytes)
    }

    /// The ranges that are not zero, of what was read of so many bytes, and whether something could
    /// not be.
    fn read(store: &FolderContainerStore, len: usize) -> Option<(Vec<u8>, bool)> {
        let mut reader = Reader::default();
        // Of the container before.
        reader.room(LEN as u32, 256 << 10).unwrap().fill(9);
        let read = reader.read_bytes(store, ID, (len as u32, 256 << 10));
        read.ok().map(|(bytes, error)| (bytes.to_vec(), error.is_some()))
    }

    fn without(mut bytes: Vec<u8>, gone: std::ops::Range<usize>) -> Vec<u8> {
        bytes[gone].fill(0);
        bytes
    }

    #[test]
    fn what_cannot_be_read_of_a_container_is_zero_and_the_rest_is_there() {
        let (folder, store, bytes) = store();
        assert_eq!(read(&store, LEN), Some((bytes.clone(), false)));
        assert_eq!(read(&store, 100), Some((bytes[..100].to_vec(), false)));
        let piece = 64 << 10;
        for (lost, gone) in [(2, 0..piece), (3, piece..2 * piece), (4, 2 * piece..LEN)] {
            // The first read is of all of it.
            folder.fail_once(&[OpKind::Read], 1, FaultKind::Eio);
            folder.fail_once(&[OpKind::Read], lost, FaultKind::Eio);
            let expected = without(bytes.clone(), gone);
            assert!(read(&store, LEN) == Some((expected, true)), "read {lost}");
        }
        folder.fail_from(&[OpKind::Read], 1, FaultKind::Eio);
        assert_eq!(read(&store, LEN), None, "nothing of it");
        folder.clear_faults();
        folder.truncate("containers/00000005.container", 100_000).unwrap();
        let found = read(&store, LEN);
        assert!(found == Some((without(bytes, 100_000..LEN), true)), "it was cut");
        store.remove(ID).unwrap();
        assert_eq!(read(&store, LEN), None, "it is gone");
    }

    #[test]
    fn memory_is_taken_for_the_largest_container_once() {
        let (_folder, store, bytes) = store();
        let mut reader = Reader::default();
        for (len, capacity) in [(1000, 2000), (2000, 2000), (2001, 2001), (5, 2001)] {
            let (found, error) = reader.read_bytes(&store, ID, (len, 2000)).unwrap();
            assert!(found == &bytes[..len as usize] && error.is_none());
            assert_eq!(reader.buffer.capacity(), capacity, "{len}");
        }
    }
}
