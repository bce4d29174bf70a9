//! What an input costs: memory at its peak, and bytes asked for in all.
//! Room: onefold-fuzz.
//! Counting allocations takes the place of a clock: a loop that an input can make run for long and
//! that allocates is seen on any machine, and one that does not allocate keeps `run` from ending.
//! Unsafe for being an allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted. A program that fuzzes makes it its own.
pub struct Counted;

fn took(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
    ALL.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// What was taken since a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes held at once, above what was held at that moment.
    pub peak: usize,
    /// Bytes asked for in all.
    pub all: usize,
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    live: usize,
    all: usize,
}

impl Meter {
    /// From now on.
    pub fn start() -> Self {
        let live = LIVE.load(Ordering::Relaxed);
        PEAK.store(live, Ordering::Relaxed);
        Self { live, all: ALL.load(Ordering::Relaxed) }
    }

    /// Up to now. All threads of the process count.
    pub fn read(&self) -> Cost {
        Cost {
            peak: PEAK.load(Ordering::Relaxed).saturating_sub(self.live),
            all: ALL.load(Ordering::Relaxed) - self.all,
        }
    }
}
