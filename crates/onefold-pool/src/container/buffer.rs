//! The memory of a container that is being filled: on whole huge pages where the system has them,
//! so that it can be written past the page cache, and kept for the next one.
//! Room: onefold-pool.
//! Why huge pages: a write past the page cache holds every page of its memory in place, one by one,
//! and a thousand small pages cost more than copying what is in them.
//! Unsafe for mapping the memory: no safe allocation is aligned to a huge page and given back to
//! the system whatever lies beside it.

use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Where the first byte lies in memory: on a multiple of this, the size of a huge page. It is also
/// one of the unit in which memory is written past the page cache.
const ALIGN_BYTES: usize = 2 << 20;

/// Bytes that grow up to a fixed capacity and never move.
#[derive(Default)]
pub struct Buffer {
    memory: Option<Mapping>,
    len: usize,
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
    fn new(bytes: usize) -> Self {
        let whole_bytes = bytes + ALIGN_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and a flag that asks for one, the system finds a free place.
        let whole =
            unsafe { mmap_anonymous(std::ptr::null_mut(), whole_bytes, access, MapFlags::PRIVATE) };
        let whole = whole.ok().and_then(|at| NonNull::new(at.cast::<u8>()));
        let whole = whole.expect("memory for a container, without which nothing can be written");
        let skip = whole.as_ptr().align_offset(ALIGN_BYTES);
        assert!(skip < ALIGN_BYTES, "an address can be aligned");
        // SAFETY: less than the alignment is skipped, and so much more than `bytes` was mapped.
        let start = unsafe { whole.add(skip) };
        // A refusal means small pages.
        // SAFETY: the range lies in the mapping; the advice changes no byte of it.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Self { whole, whole_bytes, start, bytes }
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
    /// An empty buffer, in the memory of `former` if that is large enough.
    pub fn new(capacity: usize, former: Option<Self>) -> Self {
        let former = former.and_then(|former| former.memory);
        let fits = former.filter(|memory| memory.bytes >= capacity);
        Self { memory: Some(fits.unwrap_or_else(|| Mapping::new(capacity))), len: 0 }
    }

    /// Whether there is any memory in it.
    pub const fn is_allocated(&self) -> bool {
        self.memory.is_some()
    }

    /// Memory in use at most, in bytes.
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes()[..self.len])
    }

    /// Add bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        let memory = self.memory.as_mut().map(Mapping::bytes_mut).unwrap_or_default();
        memory[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_stays_where_it_is() {
        let mut buffer = Buffer::new(10_000, None);
        for round in 0..3u8 {
            let at = buffer.bytes().as_ptr();
            assert_eq!(at.align_offset(ALIGN_BYTES), 0);
            buffer.extend(&[round; 6000]);
            buffer.extend(&[round; 4000]);
            assert_eq!(buffer.bytes(), [round; 10_000]);
            assert_eq!(buffer.bytes().as_ptr(), at);
            buffer = Buffer::new(10_000, Some(buffer));
            assert!(buffer.bytes().is_empty());
        }
        let larger = Buffer::new(20_000, Some(buffer));
        assert_eq!(larger.capacity(), 20_000);
        assert_eq!((Buffer::default().capacity(), Buffer::default().is_allocated()), (0, false));
    }
}
