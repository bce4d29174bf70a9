//! Locks that are held across media operations, which tests take in an order of their own.
//! Room: onefold-cache.

#[cfg(test)]
pub use onefold_block::interleave::lock;

/// Take a lock, whether or not a thread panicked with it.
#[cfg(not(test))]
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
