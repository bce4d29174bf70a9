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
        let len = len as usize;
        if self.buffer.capacity() < len {
            self.buffer = Buffer::new(len.max(most as usize))?;
        }
        store.read(id, 0, self.buffer.of_len(len))?;
        let bytes = self.buffer.bytes();
        Ok(Victim { id, bytes, entries: directories::of(bytes, id)? })
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
