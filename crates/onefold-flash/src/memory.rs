//! Large tables that are read and written at random places: fewer and earlier cache misses.
//! Room: onefold-flash.
//! A look-up in a table of many MiB costs a miss of the processor's caches and one of its address
//! translation. Huge pages spare the second; a hint some work ahead hides the first. Both change
//! nothing that a program can see.

use std::mem::MaybeUninit;

/// Asks for the line of an element that will be read or written soon; there need not be one.
#[inline]
pub(crate) fn prefetch<T>(table: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching reads nothing that the program sees and never faults, whatever the
        // address; SSE, which has the instruction, is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(table.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, at);
}

/// A table of so many equal elements, on huge pages where the system has them.
pub(crate) fn table_of<T: Copy>(len: usize, element: T) -> Vec<T> {
    let mut table = Vec::with_capacity(len);
    advise(table.spare_capacity_mut());
    table.resize(len, element);
    table
}

/// Asks for huge pages under memory that has not been touched yet.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &mut [MaybeUninit<T>]) {
    /// The least that is worth a call: a huge page and what its alignment may cost.
    const LEAST: usize = 4 << 20;
    /// The system takes advice on whole pages only.
    const PAGE: usize = 4096;
    let bytes = size_of_val(memory);
    if bytes < LEAST {
        return;
    }
    let start = memory.as_mut_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    let whole = (bytes - skip) / PAGE * PAGE;
    // SAFETY: the range lies in memory that this slice borrows alone, and this advice changes
    // neither what is there nor whether it may be used. Where it is refused, nothing is lost.
    let _ = unsafe {
        rustix::mm::madvise(
            start.wrapping_add(skip).cast(),
            whole,
            rustix::mm::Advice::LinuxHugepage,
        )
    };
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_memory: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_full_of_its_element_however_large() {
        for len in [0, 1, 1000, (4 << 20) - 1, (9 << 20) + 3] {
            let table = table_of(len, 0xa5_u8);
            assert_eq!(table.len(), len);
            assert!(table.iter().all(|&element| element == 0xa5));
            for at in [0, len / 2, len, usize::MAX] {
                prefetch(&table, at);
            }
        }
    }
}
