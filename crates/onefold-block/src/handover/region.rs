//! A file that is mapped to memory and shared with whoever opens it next.
//! Room: onefold-block.
//! Unsafe for mapping: no safe allocation outlives its process.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// The first byte lies on a multiple of this: a huge page, where the system gives one.
const ALIGN_BYTES: usize = 2 << 20;

/// Bytes in memory that outlive the process. Dropping it gives up the mapping and not the bytes.
pub struct Region {
    whole: NonNull<u8>,
    whole_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is held by this value alone, like that of a box.
unsafe impl Send for Region {}
// SAFETY: shared access only reads.
unsafe impl Sync for Region {}

impl Region {
    /// Map the first `bytes` of a file, which is that long and has space for all of them.
    pub(super) fn map(file: &File, bytes: usize) -> io::Result<Self> {
        assert!(bytes > 0, "a region has bytes");
        let whole_bytes = bytes + ALIGN_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and a flag that asks for one, the system finds a free place.
        let whole = unsafe {
            mmap_anonymous(std::ptr::null_mut(), whole_bytes, ProtFlags::empty(), MapFlags::PRIVATE)
        }?;
        let whole = NonNull::new(whole.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = whole.as_ptr().align_offset(ALIGN_BYTES);
        assert!(skip < ALIGN_BYTES, "an address can be aligned");
        // SAFETY: less than the alignment is skipped, and so much more than `bytes` was mapped.
        let start = unsafe { whole.add(skip) };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range lies in the mapping just made, which nothing else knows of.
        let mapped = unsafe { mmap(start.as_ptr().cast(), bytes, access, flags, file, 0) };
        if let Err(error) = mapped {
            // SAFETY: the whole of a mapping of ours, to which nothing refers.
            let _ = unsafe { munmap(whole.as_ptr().cast(), whole_bytes) };
            return Err(error.into());
        }
        // A refusal means small pages.
        // SAFETY: the range lies in the mapping; the advice changes no byte of it.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok(Self { whole, whole_bytes, start, bytes })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, initialised by the file, held by this value alone, borrowed with it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// All bytes, to change them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialised by the file, held by this value alone, borrowed with it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Store a number at `at`, a multiple of 8. Who finds it later also finds all that was stored
    /// before it, and never half of it.
    pub fn publish(&mut self, at: usize, number: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "a word of the region");
        // The region begins on a page, so that every eighth byte is aligned.
        let words = self.start.cast::<AtomicU64>();
        // SAFETY: eight bytes inside the region, aligned, and borrowed alone.
        let word = unsafe { words.add(at / 8).as_ref() };
        word.store(number.to_le(), Ordering::Release);
    }

    /// The number at `at`.
    pub fn number(&self, at: usize) -> u64 {
        let word = self.bytes()[at..at + 8].try_into().expect("eight bytes were taken");
        u64::from_le_bytes(word)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of a mapping of ours, to which nothing refers any more.
        let _ = unsafe { munmap(self.whole.as_ptr().cast(), self.whole_bytes) };
    }
}
