//! Locks that are held across media operations, and places where another thread may come between.
//! Room: onefold-pool.
//! Tests take them in an order of their own (`interleavings`); elsewhere they are what std offers.

#[cfg(test)]
pub use onefold_block::interleave::{lock, point, read, write};

#[cfg(not(test))]
mod plain {
    use std::sync::TryLockError;
    use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

    use onefold_block::spent::{self, Part};

    /// Take a lock, whether or not a thread panicked with it.
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        match mutex.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => {
                spent::on(Part::Wait, || mutex.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Take a lock to read what it guards.
    pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a lock to change what it guards.
    pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another thread may come between here.
    pub const fn point(_name: &str) {}
}

#[cfg(not(test))]
pub use plain::{lock, point, read, write};
