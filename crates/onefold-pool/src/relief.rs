//! Checkpoints and flushes that come because much has piled up, and who does them.
//! Room: onefold-pool.
//! Who answers a client should not be the one who waits for the media: once half of what may pile
//! up has, whoever notices calls the door, which has [`Pool::relieve`] done by a thread without a
//! client. Only where nobody comes in time, or no door is there, writers do it themselves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Inner;
use crate::error::PoolError;
use crate::pool::Pool;

/// Journal entries in memory, in bytes, after which they are flushed: a flush that somebody waits
/// for should have little left to do.
const ENTRIES_BYTES_MAX: usize = 1 << 20;
/// Sealed containers that are not known to be durable, after which they are flushed: whoever opens
/// the pool after a kill reads them.
const UNSYNCED_MAX: usize = 64;

/// Calls for somebody who does what has piled up.
#[derive(Default)]
pub(crate) struct Relief {
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called, and not answered yet.
    called: AtomicBool,
}

impl Relief {
    fn call(&self) {
        if let Some(call) = self.call.get()
            && !self.called.swap(true, Ordering::Relaxed)
        {
            call();
        }
    }
}

impl Pool {
    /// Have `call` called, by a thread that answers a client, when [`Pool::relieve`] should be
    /// called by one that does not. It must not wait, and is not called again before that was done.
    /// The first one counts.
    pub fn set_relief(&self, call: Box<dyn Fn() + Send + Sync>) {
        let _ = self.inner.relief.call.set(call);
    }

    /// Write a checkpoint, or flush, if half of what may pile up has.
    pub fn relieve(&self) -> Result<(), PoolError> {
        let inner = &*self.inner;
        if inner.read_only {
            return Ok(());
        }
        // Before the look: what piles up after it is called for again.
        inner.relief.called.store(false, Ordering::Relaxed);
        if inner.map.is_half_dirty() {
            return inner.checkpoint_if(|_| inner.map.is_half_dirty());
        }
        if inner.has_piled_up(2) {
            return inner.flush();
        }
        Ok(())
    }
}

impl Inner {
    /// After a change: see that what has piled up does not grow without end.
    pub fn relieve(&self) -> Result<(), PoolError> {
        if self.map.is_too_dirty() {
            // One writer writes the checkpoint for all that wait for it.
            return self.checkpoint_if(|_| self.map.is_too_dirty());
        }
        if self.has_piled_up(1) {
            return self.flush();
        }
        if self.has_piled_up(2) || self.map.is_half_dirty() {
            self.relief.call();
        }
        Ok(())
    }

    /// Whether such a part of what may wait for a flush does.
    fn has_piled_up(&self, part: usize) -> bool {
        let engine = self.engine();
        engine.entries.len_bytes() > ENTRIES_BYTES_MAX / part
            || engine.unsynced.len() > UNSYNCED_MAX / part
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use onefold_block::{BlockDevice, ByteSize, SimFolder};

    use super::*;
    use crate::map::ENTRIES_PER_PAGE;
    use crate::settings::{Budgets, PoolIdentity, PoolSettings};
    use crate::{OpenOptions, Volume};

    const CHUNK: usize = 4096;
    /// Memory for 256 pages of maps.
    const MAP_BYTES: u64 = 256 * (4096 + 64);

    fn pool() -> (Pool, Volume) {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let budgets = Budgets { map_bytes: MAP_BYTES, ..Budgets::default() };
        let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
        let volume = pool.create_volume("main", ByteSize(1 << 40)).unwrap();
        (pool, volume)
    }

    /// Write a block under each of so many leaves.
    fn dirty(volume: &Volume, leaves: std::ops::Range<u64>) {
        for leaf in leaves {
            let at = leaf * (ENTRIES_PER_PAGE * CHUNK) as u64;
            volume.write_at(at, &[leaf as u8 + 1; CHUNK], false).unwrap();
        }
    }

    fn checkpoints(pool: &Pool) -> u64 {
        pool.activity().checkpoints
    }

    #[test]
    fn who_is_called_writes_the_checkpoint_and_is_called_once_for_each() {
        let (pool, volume) = pool();
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        pool.set_relief(Box::new(move || {
            called.fetch_add(1, Ordering::Relaxed);
        }));
        let calls = || calls.load(Ordering::Relaxed);
        let before = checkpoints(&pool);
        dirty(&volume, 0..40);
        assert_eq!(calls(), 0, "little has piled up");
        pool.relieve().unwrap();
        assert_eq!(checkpoints(&pool), before, "nothing to do");
        dirty(&volume, 40..100);
        assert_eq!((calls(), checkpoints(&pool)), (1, before), "writers do not wait");
        pool.relieve().unwrap();
        assert_eq!((calls(), checkpoints(&pool)), (1, before + 1));
        dirty(&volume, 0..100);
        assert_eq!((calls(), checkpoints(&pool)), (2, before + 1));
        // Nobody comes.
        dirty(&volume, 100..140);
        assert_eq!((calls(), checkpoints(&pool)), (2, before + 2), "a writer does it");
    }

    #[test]
    fn without_anybody_to_call_writers_do_it_themselves() {
        let (pool, volume) = pool();
        let before = checkpoints(&pool);
        dirty(&volume, 0..120);
        assert_eq!(checkpoints(&pool), before);
        dirty(&volume, 120..140);
        assert_eq!(checkpoints(&pool), before + 1);
    }

    #[test]
    fn entries_that_no_flush_took_are_flushed_before_writers_have_to() {
        let (pool, volume) = pool();
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        pool.set_relief(Box::new(move || {
            called.fetch_add(1, Ordering::Relaxed);
        }));
        // Blocks that are not side by side take an entry each.
        let mut written = 0;
        while calls.load(Ordering::Relaxed) == 0 {
            volume.write_at(written % 4000 * 2 * CHUNK as u64, &[7; CHUNK], false).unwrap();
            written += 1;
        }
        let entries = || pool.inner.engine().entries.len_bytes();
        assert!((ENTRIES_BYTES_MAX / 2..ENTRIES_BYTES_MAX).contains(&entries()), "{}", entries());
        let flushes = pool.activity().flushes;
        pool.relieve().unwrap();
        assert_eq!((entries(), pool.activity().flushes), (0, flushes + 1));
    }

    #[test]
    fn little_that_has_piled_up_is_left_to_others() {
        let (pool, volume) = pool();
        volume.write_at(0, &[7; CHUNK], false).unwrap();
        let flushes = || pool.inner.counters.flushes.load(Ordering::Relaxed);
        let before = flushes();
        pool.relieve().unwrap();
        assert_eq!(flushes(), before);
    }
}
