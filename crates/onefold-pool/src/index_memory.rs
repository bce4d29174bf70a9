//! The memory of the index changes while the pool is open.
//! Room: onefold-pool.
//! In: bytes. Out: an index, its filters and directories that keep to them.
//! What is let go for want of memory is as if it had never been known: hints are lost, no data.
//! With more memory the index is filled again as after opening, and finds meanwhile what it found
//! before.

use std::sync::atomic::Ordering;

use crate::container::directories;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::pool::Pool;
use crate::settings::Budgets;
use crate::sync;

impl Pool {
    /// Use so much memory for the fingerprint index, its filters and directories from now on, in
    /// bytes, instead of [`Budgets::index_bytes`]. With less, what does not fit is let go before
    /// this returns. With more, the index learns again what it had no room for: true if there is
    /// something to be read for that, as after opening. The next write does so, or, where the
    /// caller does it beside its clients, [`Pool::fill_index`].
    ///
    /// # Errors
    /// Less than a pool works with.
    pub fn set_index_memory(&self, bytes: u64) -> Result<bool, PoolError> {
        Budgets { index_bytes: bytes, ..self.inner.budgets }.check()?;
        Ok(self.inner.set_index_memory(bytes))
    }
}

impl Inner {
    /// Memory that the index, its filters and directories may use, in bytes.
    pub fn index_memory(&self) -> u64 {
        self.index_memory.load(Ordering::Relaxed)
    }

    fn set_index_memory(&self, bytes: u64) -> bool {
        // Nobody fills the index or makes filters meanwhile.
        let mut below = sync::lock(&self.index_filling.below);
        let mut deduplication = sync::lock(&self.deduplication);
        self.index_memory.store(bytes, Ordering::Relaxed);
        let directory_bytes = directories::bytes_of_index_memory(bytes);
        self.directories.set_budget(directory_bytes as usize);
        let index_bytes = self.cut_filters(&mut deduplication, bytes - directory_bytes);
        let again = self.index.set_budget(index_bytes) && !self.read_only;
        if again {
            self.fill_index_again(&mut below);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, ContainerId, SimFolder};

    use crate::index::Place;
    use crate::{OpenOptions, PoolError, PoolSettings};

    #[test]
    fn an_index_has_what_it_is_given_and_learns_again_what_it_had_no_room_for() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        let inner = &pool.inner;
        let refused = pool.set_index_memory((1 << 20) - 1);
        assert!(matches!(refused, Err(PoolError::Setting(_))), "{refused:?}");
        assert_eq!(inner.index_memory(), OpenOptions::default().budgets.index_bytes);
        let budgets = || (inner.directories.budget_bytes(), inner.index.stats().budget_bytes);
        let (directories, index) = budgets();
        assert_eq!(directories as u64 + index, inner.index_memory());
        for (mib, directories) in [(1, 256 << 10), (16, 2 << 20), (1, 256 << 10)] {
            assert!(!pool.set_index_memory(mib << 20).unwrap(), "it knows all");
            assert_eq!(inner.index_memory(), mib << 20);
            assert_eq!(budgets(), (directories, (mib << 20) - directories as u64));
        }
        // More than it has room for.
        let place = Place::new(ContainerId::new(77), 0).unwrap();
        let many: Vec<(u64, Place)> =
            (1..200_000_u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15), place)).collect();
        inner.index.insert_many(&many);
        assert!(inner.index.is_full() && inner.index_filling.containers_left() == 0);
        assert!(pool.set_index_memory(256 << 20).unwrap());
        assert!(!inner.index.is_full() && inner.index_filling.containers_left() > 0);
        assert!(inner.index.asks_former());
        assert!(pool.fill_index(u64::MAX) && inner.index_filling.containers_left() == 0);
        assert!(!inner.index.asks_former(), "all of its memory is the other one's");
    }
}
