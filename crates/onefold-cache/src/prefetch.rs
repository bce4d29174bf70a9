//! A hint to the processor that a line of memory will be read soon.
//! Room: onefold-cache.
//! Cost: one instruction; nothing on processors without one that Rust offers.

/// Asks for the line at `place`, which need not be valid: a hint changes nothing that a program
/// can see.
#[inline]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching reads nothing that the program sees and never faults, whatever the
        // address; SSE, which has the instruction, is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
