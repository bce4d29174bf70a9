//! Memory that is set aside for the moment in which the system has none.
//! Room: onefold-export.
//! The standard library ends the process when an allocation fails, and every operation allocates
//! small things. So this allocator gives back what was set aside and tries again; what is under way
//! comes to its end with that, and requests are refused until as much can be set aside anew. What
//! may fail (`onefold_block::memory`) is not paid for from it.
//! Cost: address space alone, for the pages set aside are never touched; a comparison an
//! allocation, a load a request.
//! Unsafe for being an allocator, and for mapping the memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use onefold_block::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions, memory};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What is set aside, in bytes: more than the requests that are under way at a time allocate
/// beside their buffers.
const BYTES: usize = 32 << 20;

/// What is set aside, if anything is.
static SET_ASIDE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// The system's allocator, with something set aside, to be the global one of a program.
pub struct Allocator;

impl Allocator {
    /// Try again if what was set aside could be given back.
    fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
        let first = allocate();
        if !first.is_null() || memory::is_optional() || !give_back() {
            return first;
        }
        allocate()
    }
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::again(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::again(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises; one that failed has left the memory as it was.
        Self::again(|| unsafe { System.realloc(at, layout, bytes) })
    }
}

/// Give the system back what was set aside; whether there was anything.
fn give_back() -> bool {
    let at = SET_ASIDE.swap(null_mut(), Ordering::AcqRel);
    if at.is_null() {
        return false;
    }
    // SAFETY: a mapping of ours of that length, which only we knew of.
    unsafe { munmap(at.cast(), BYTES) }.is_ok()
}

/// See that memory is set aside; whether it is.
pub fn set_aside() -> bool {
    if !SET_ASIDE.load(Ordering::Acquire).is_null() {
        return true;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without an address and a flag that asks for one, the system finds a free place.
    let mapped = unsafe { mmap_anonymous(null_mut(), BYTES, access, MapFlags::PRIVATE) };
    let Ok(at) = mapped else { return false };
    let (was, now) = (null_mut(), at.cast::<u8>());
    let set = SET_ASIDE.compare_exchange(was, now, Ordering::AcqRel, Ordering::Acquire);
    if set.is_err() {
        // Another thread did the same.
        // SAFETY: a mapping of ours of that length, which only we knew of.
        let _ = unsafe { munmap(at, BYTES) };
    }
    true
}

/// A device that refuses requests while no memory is set aside for what comes with them.
pub struct Careful(pub Arc<dyn BlockDevice>);

fn ready(what: &str) -> Result<(), BlockError> {
    if set_aside() { Ok(()) } else { Err(memory::none_for(what)) }
}

impl BlockDevice for Careful {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.0.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        ready("read")?;
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        ready("write")?;
        self.0.write_at(offset, data, fua)
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        if set_aside() {
            return self.0.write_batch(requests, results);
        }
        results.clear();
        results.extend(requests.iter().map(|_| Err(memory::none_for("write"))));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        ready("write zeroes")?;
        self.0.write_zeroes(offset, len, options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        ready("trim")?;
        self.0.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        ready("flush")?;
        self.0.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        ready("block status")?;
        self.0.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        ready("prefetch")?;
        self.0.prefetch(offset, len)
    }
}
