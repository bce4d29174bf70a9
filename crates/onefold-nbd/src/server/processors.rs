//! How many processors the calls into devices can have, of those there are.
//! Room: onefold-nbd.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The processors of the machine, and the threads of a server that are in a device call.
pub(super) struct Processors {
    count: usize,
    calls: AtomicUsize,
}

impl Processors {
    /// Those that this process may use.
    pub fn of_machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    }

    /// So many.
    pub const fn new(count: usize) -> Self {
        Self { count, calls: AtomicUsize::new(0) }
    }

    /// A device call, until what is returned is dropped.
    pub fn enter(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(self)
    }

    /// Whether there is one for the caller and one for a helper beside it.
    pub fn has_two(&self) -> bool {
        self.calls.load(Ordering::Relaxed) + 2 <= self.count
    }
}

/// A device call.
pub(super) struct Call<'a>(&'a Processors);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_needs_a_processor_beside_those_of_all_calls_and_of_who_asks() {
        let processors = Processors::new(3);
        assert!(processors.has_two());
        let first = processors.enter();
        assert!(processors.has_two());
        let second = processors.enter();
        assert!(!processors.has_two());
        drop(first);
        assert!(processors.has_two());
        drop(second);
        assert!(!Processors::new(1).has_two());
    }
}
