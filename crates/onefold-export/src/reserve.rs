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

/// What a program sets aside.
static RESERVE: Reserve = Reserve::of(BYTES);

/// So much memory, which is set aside or not.
struct Reserve {
    bytes: usize,
    at: AtomicPtr<u8>,
}

/// The system's allocator, with something set aside, to be the global one of a program.
pub struct Allocator;

fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    RESERVE.again(memory::is_optional, allocate)
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        again(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        again(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises; one that failed has left the memory as it was.
        again(|| unsafe { System.realloc(at, layout, bytes) })
    }
}

impl Reserve {
    const fn of(bytes: usize) -> Self {
        Self { bytes, at: AtomicPtr::new(null_mut()) }
    }

    /// Try again if what was set aside could be given back, unless this is what may fail.
    fn again(&self, may_fail: fn() -> bool, allocate: impl Fn() -> *mut u8) -> *mut u8 {
        let first = allocate();
        if !first.is_null() || may_fail() || !self.give_back() {
            return first;
        }
        allocate()
    }

    /// Give the system back what was set aside; whether there was anything.
    fn give_back(&self) -> bool {
        let at = self.at.swap(null_mut(), Ordering::AcqRel);
        if at.is_null() {
            return false;
        }
        // SAFETY: a mapping of ours of that length, which only we knew of.
        unsafe { munmap(at.cast(), self.bytes) }.is_ok()
    }

    /// See that memory is set aside; whether it is.
    fn set_aside(&self) -> bool {
        if !self.at.load(Ordering::Acquire).is_null() {
            return true;
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and a flag that asks for one, the system finds a free place.
        let mapped = unsafe { mmap_anonymous(null_mut(), self.bytes, access, MapFlags::PRIVATE) };
        let Ok(at) = mapped else { return false };
        let (was, now) = (null_mut(), at.cast::<u8>());
        let set = self.at.compare_exchange(was, now, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // Another thread did the same.
            // SAFETY: a mapping of ours of that length, which only we knew of.
            let _ = unsafe { munmap(at, self.bytes) };
        }
        true
    }
}

/// See that memory is set aside in this program; whether it is.
pub fn set_aside() -> bool {
    RESERVE.set_aside()
}

/// A device that refuses requests while no memory is set aside for what comes with them.
pub struct Careful {
    device: Arc<dyn BlockDevice>,
    reserve: &'static Reserve,
}

impl Careful {
    /// This device, with what the program sets aside.
    pub const fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self { device, reserve: &RESERVE }
    }

    fn ready(&self, what: &str) -> Result<(), BlockError> {
        if self.reserve.set_aside() { Ok(()) } else { Err(memory::none_for(what)) }
    }
}

impl BlockDevice for Careful {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.device.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.ready("read")?;
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.ready("write")?;
        self.device.write_at(offset, data, fua)
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        if self.reserve.set_aside() {
            return self.device.write_batch(requests, results);
        }
        results.clear();
        results.extend(requests.iter().map(|_| Err(memory::none_for("write"))));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.ready("write zeroes")?;
        self.device.write_zeroes(offset, len, options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.ready("trim")?;
        self.device.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.ready("flush")?;
        self.device.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.ready("block status")?;
        self.device.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.ready("prefetch")?;
        self.device.prefetch(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::ptr::dangling_mut;

    use onefold_block::MemDevice;
    use onefold_block::wrappers::StatsDevice;

    use super::*;

    #[test]
    fn an_allocation_that_fails_is_tried_again_with_what_was_set_aside_once() {
        let reserve = Reserve::of(1 << 20);
        // Whether there is memory at the first and at a second try: was any found, and at which.
        let tries = |may_fail: fn() -> bool, found: [bool; 2]| {
            let tries = Cell::new(0);
            let at = reserve.again(may_fail, || {
                tries.set(tries.get() + 1);
                if found[tries.get() - 1] { dangling_mut() } else { null_mut() }
            });
            (!at.is_null(), tries.get())
        };
        assert_eq!(tries(|| false, [false, true]), (false, 1), "nothing is set aside");
        for _ in 0..2 {
            assert!(reserve.set_aside() && reserve.set_aside());
            // SAFETY: memory of the reserve, which nobody else knows of.
            unsafe { reserve.at.load(Ordering::Acquire).write(1) };
            assert_eq!(tries(|| false, [true; 2]), (true, 1));
            assert_eq!(tries(|| true, [false, true]), (false, 1), "this may fail");
            assert_eq!(tries(|| false, [false, true]), (true, 2));
            assert_eq!(tries(|| false, [false, true]), (false, 1), "it was given back");
        }
    }

    #[test]
    fn what_is_freed_is_given_out_again() {
        let layout = Layout::new::<[u64; 1000]>();
        let places = (0..100).map(|_| {
            // SAFETY: some bytes, which are given back as they were got.
            unsafe {
                let at = Allocator.alloc(layout);
                Allocator.dealloc(at, layout);
                at as usize
            }
        });
        assert!(places.collect::<BTreeSet<_>>().len() < 100);
    }

    #[test]
    fn while_nothing_can_be_set_aside_every_request_is_refused_and_comes_no_further() {
        static TOO_MUCH: Reserve = Reserve::of(usize::MAX >> 1);
        let device = Arc::new(StatsDevice::new(MemDevice::new(1 << 20)));
        let careful = Careful { device: Arc::clone(&device) as _, reserve: &TOO_MUCH };
        let request = WriteRequest { offset: 0, data: &[1; 512], fua: false };
        let mut results = vec![Ok(())];
        careful.write_batch(&[request; 2], &mut results);
        assert_eq!(results.len(), 2, "one for each request");
        results.extend([
            careful.read_at(0, &mut [0; 512]),
            careful.write_at(0, &[1; 512], false),
            careful.write_zeroes(0, 512, ZeroOptions::default()),
            careful.trim(0, 512, false),
            careful.flush(),
            careful.block_status(0, 512).map(drop),
            careful.prefetch(0, 512),
        ]);
        for result in results {
            let Err(BlockError::Io { source, .. }) = result else { panic!("{result:?}") };
            assert_eq!(source.kind(), std::io::ErrorKind::OutOfMemory);
        }
        assert_eq!(device.snapshot(), StatsDevice::new(MemDevice::new(512)).snapshot());
    }
}
