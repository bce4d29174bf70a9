//! The memory of a container that is being filled: on whole huge pages where the system has them,
//! so that it can be written past the page cache, and kept for the next one.
//! Room: onefold-pool.
//! Why huge pages: a write past the page cache holds every page of its memory in place, one by one,
//! and a thousand small pages cost more than copying what is in them.
//! Unsafe for mapping the memory: no safe allocation is aligned to a huge page and given back to
//! the system whatever lies beside it.

use std::ptr::NonNull;

use onefold_block::ContainerId;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::PoolError;
use crate::handover::Slot;

/// Where the first byte lies in memory: on a multiple of this, the size of a huge page. It is also
/// one of the unit in which memory is written past the page cache.
const ALIGN_BYTES: usize = 2 << 20;

/// Bytes that grow up to a fixed capacity and never move.
#[derive(Default)]
pub struct Buffer {
    memory: Option<Memory>,
    len: usize,
}

/// Where the bytes are.
enum Memory {
    /// In memory that goes with the process.
    Own(Mapping),
    /// In memory that stays for the next one.
    Kept(Slot),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(mapping) => mapping.bytes(),
            Self::Kept(slot) => slot.bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(mapping) => mapping.bytes_mut(),
            Self::Kept(slot) => slot.bytes_mut(),
        }
    }
}

/// A piece of memory of its own. All its bytes are initialised: the system gives out zeroes.
struct Mapping {
    whole: NonNull<u8>,
    whole_bytes: usize,
    /// The first aligned byte, and how many follow.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, like that of a box.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> std::io::Result<Self> {
        let whole_bytes = bytes + ALIGN_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and a flag that asks for one, the system finds a free place.
        let whole =
            unsafe { mmap_anonymous(std::ptr::null_mut(), whole_bytes, access, MapFlags::PRIVATE) };
        let whole = NonNull::new(whole?.cast::<u8>()).expect("no mapping begins at address 0");
        let skip = whole.as_ptr().align_offset(ALIGN_BYTES);
        assert!(skip < ALIGN_BYTES, "an address can be aligned");
        // SAFETY: less than the alignment is skipped, and so much more than `bytes` was mapped.
        let start = unsafe { whole.add(skip) };
        // A refusal means small pages.
        // SAFETY: the range lies in the mapping; the advice changes no byte of it.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok(Self { whole, whole_bytes, start, bytes })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, initialised, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialised, and borrowed with `self`, alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole of a mapping of ours, to which nothing refers any more. The call fails
        // only where there is no such mapping.
        let _ = unsafe { munmap(self.whole.as_ptr().cast(), self.whole_bytes) };
    }
}

impl Buffer {
    /// An empty buffer, in memory of its own.
    pub fn new(capacity: usize) -> Result<Self, PoolError> {
        let mapping = Mapping::new(capacity).map_err(|source| PoolError::Io {
            context: "memory for a container".to_owned(),
            source,
        })?;
        Ok(Self { memory: Some(Memory::Own(mapping)), len: 0 })
    }

    /// An empty buffer, in memory that outlives the process.
    pub const fn kept(slot: Slot) -> Self {
        Self { memory: Some(Memory::Kept(slot)), len: 0 }
    }

    /// Hold this container from now on, as yet without a byte.
    pub fn begin(&mut self, id: ContainerId) {
        self.len = 0;
        if let Some(Memory::Kept(slot)) = &mut self.memory {
            slot.begin(id);
        }
    }

    /// The container that was here needs it no more.
    pub fn end(&mut self) {
        if let Some(Memory::Kept(slot)) = &mut self.memory {
            slot.end();
        }
    }

    /// Whether there is any memory in it.
    pub const fn is_allocated(&self) -> bool {
        self.memory.is_some()
    }

    /// Memory in use at most, in bytes.
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes().len())
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes()[..self.len])
    }

    /// So many bytes, to be overwritten: at most the capacity.
    pub fn of_len(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        self.memory.as_mut().map_or(&mut [], |memory| &mut memory.bytes_mut()[..len])
    }

    /// Add bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        let memory = self.memory.as_mut().map(Memory::bytes_mut).unwrap_or_default();
        memory[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::handover::{Handover as _, SimHandover};

    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_stays_where_it_is() {
        let mut buffer = Buffer::new(10_000).unwrap();
        for round in 0..3u8 {
            let at = buffer.bytes().as_ptr();
            assert_eq!(at.align_offset(ALIGN_BYTES), 0);
            buffer.extend(&[round; 6000]);
            buffer.extend(&[round; 4000]);
            assert_eq!(buffer.bytes(), [round; 10_000]);
            assert_eq!(buffer.bytes().as_ptr(), at);
            buffer.begin(ContainerId::new(7));
            assert!(buffer.bytes().is_empty());
        }
        assert_eq!((Buffer::default().capacity(), Buffer::default().is_allocated()), (0, false));
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_of_the_write() {
        let Err(error) = Buffer::new(1 << 46) else { panic!("there is no such machine") };
        let error = onefold_block::BlockError::from(error);
        let onefold_block::BlockError::Io { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn memory_is_given_back_with_its_buffer() {
        let mapped = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
        };
        let before = mapped();
        for _ in 0..200 {
            assert_eq!(Buffer::new(1 << 30).unwrap().capacity(), 1 << 30);
        }
        assert!(mapped() < before + (100 << 30));
    }

    #[test]
    fn a_kept_buffer_says_which_container_it_holds_until_that_is_stored() {
        let memory = SimHandover::new();
        let handover = std::sync::Arc::new(memory.clone());
        let slot = Slot::create(handover, "slot".to_owned(), 4096, &[4; 16]).unwrap();
        let held = || {
            let region = memory.open("slot").unwrap();
            Slot::left(&region, &[4; 16], memory.boot()).unwrap().map(|(id, _)| id)
        };
        let mut buffer = Buffer::kept(slot);
        assert!(buffer.is_allocated() && buffer.capacity() == 4096 && held().is_none());
        buffer.begin(ContainerId::new(5));
        buffer.extend(&[7; 100]);
        assert_eq!((held(), buffer.bytes()), (Some(ContainerId::new(5)), &[7; 100][..]));
        assert_eq!(buffer.of_len(200).len(), 200);
        buffer.end();
        assert_eq!(held(), None);
    }
}
