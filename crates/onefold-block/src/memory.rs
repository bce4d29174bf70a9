//! Memory that an operation can do without, or fails for want of.
//! Room: onefold-block.
//! An allocation of the standard library ends the process when there is no memory. What is large,
//! or grows with what users ask for, is asked for here instead: a cache that cannot grow stays as
//! large as it is, and a request that cannot have its buffer gets an error. A program whose
//! allocator keeps something back for the small rest asks [`is_optional`], so that it is not spent
//! on these.

use std::cell::Cell;
use std::io;

use crate::device::BlockError;

thread_local! {
    static OPTIONAL: Cell<bool> = const { Cell::new(false) };
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the allocation that this thread makes now is one that may fail.
pub fn is_optional() -> bool {
    // While a thread ends its flags may be gone.
    OPTIONAL.try_with(Cell::get).unwrap_or(false)
}

/// See that `vec` has room for so many more elements, and for no more than that where it must
/// grow; `false` if there is no memory.
#[must_use]
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> bool {
    if REFUSED.with(Cell::get) {
        return vec.capacity() - vec.len() >= more;
    }
    OPTIONAL.with(|flag| flag.set(true));
    let reserved = vec.try_reserve_exact(more);
    OPTIONAL.with(|flag| flag.set(false));
    reserved.is_ok()
}

/// So many zeroes; `None` if there is no memory.
pub fn zeroes(bytes: usize) -> Option<Vec<u8>> {
    let mut vec = Vec::new();
    resize(&mut vec, bytes).then_some(vec)
}

/// Give `vec` this length, with zeroes where it grows; `false`, and nothing changed, if there is no
/// memory.
#[must_use]
pub fn resize(vec: &mut Vec<u8>, bytes: usize) -> bool {
    let reserved = reserve(vec, bytes.saturating_sub(vec.len()));
    if reserved {
        vec.resize(bytes, 0);
    }
    reserved
}

/// What a request is answered for which there is no memory.
pub fn none_for(what: &str) -> BlockError {
    BlockError::Io { context: what.to_owned(), source: io::ErrorKind::OutOfMemory.into() }
}

/// Do something in this thread while [`reserve`] and what builds on it find no memory: for tests of
/// what happens then.
pub fn refused<R>(operation: impl FnOnce() -> R) -> R {
    REFUSED.with(|flag| flag.set(true));
    let result = operation();
    REFUSED.with(|flag| flag.set(false));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_no_panic() {
        assert_eq!(zeroes(1 << 60), None);
        assert_eq!(zeroes(3), Some(vec![0; 3]));
        let mut vec = vec![1; 5];
        assert!(!resize(&mut vec, 1 << 60));
        assert_eq!(vec, [1; 5]);
        assert!(resize(&mut vec, 7));
        assert_eq!(vec, [1, 1, 1, 1, 1, 0, 0]);
        assert!(!is_optional());
    }

    #[test]
    fn what_is_refused_is_refused_to_this_thread_and_only_meanwhile() {
        refused(|| {
            assert_eq!(zeroes(1), None);
            let mut vec = Vec::with_capacity(4);
            assert!(resize(&mut vec, 4), "there is room already");
            assert!(!resize(&mut vec, 5), "there is not");
            assert_eq!(vec, [0; 4]);
            std::thread::spawn(|| assert!(zeroes(1).is_some())).join().unwrap();
        });
        assert!(zeroes(1).is_some());
    }
}
